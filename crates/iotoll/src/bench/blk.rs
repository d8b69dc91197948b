//! `iotoll bench blk`: compares reads of a disk through the kernel with reads by iotoll's own driver.

use crate::blk::{DrivenAdapter, choose_namespace};
use crate::cli::{BenchBlk, NvmeDisk};
use crate::output::{self, Outcome};
use anyhow::Context;
use bench::{BlkRow, BlkSettings};
use nvme::takeover::{Candidate, Root};
use std::path::{Path, PathBuf};

/// Measures the kernel's interfaces to a disk, then iotoll's own driver, and prints the comparison.
pub(super) fn run(args: &BenchBlk) -> anyhow::Result<Outcome> {
    let usual = BlkSettings::default();
    let settings = BlkSettings {
        depths: super::given_or_default(&args.depths, usual.depths),
        bytes: args.size.map_or(usual.bytes, |size| size.0),
        rounds: args.pace.rounds.unwrap_or(usual.rounds),
        round_ms: args.pace.round_ms.unwrap_or(usual.round_ms),
    };
    let origin = super::benchmark_origin()?;
    // Refusals are reported before the first measurement. The kernel's interfaces are measured while its driver is bound.
    DrivenAdapter::check(&args.disk.controller.address, args.disk.controller.consent.accepted())?;
    let mut rows = match kernel_disk(&args.disk)? {
        Some(disk) => {
            super::measure_with_bar(|progress| bench::measure_kernel_interfaces(&settings, &disk, progress))?
        }
        None => {
            output::print_note(
                "the kernel has no block device of this adapter: only iotoll's own driver is measured",
            );
            Vec::new()
        }
    };
    let adapter = DrivenAdapter::open(
        &args.disk.controller.address,
        args.disk.controller.consent.accepted(),
        settings.memory_bytes(),
    )?;
    let row = measure_user_space_driver(args, &settings, &adapter);
    let closed = adapter.close();
    rows.push(row?);
    closed?;
    let benchmark = bench::blk_benchmark(settings, origin, args.disk.controller.address.clone(), rows);
    match args.json {
        true => output::print_json(&benchmark)?,
        false => output::print_page(&report::blk_benchmark(&benchmark))?,
    }
    Ok(Outcome::Fine)
}

/// The kernel's block device of a namespace, or of the only one; `None` if it has none of this adapter.
pub(super) fn kernel_disk(disk: &NvmeDisk) -> anyhow::Result<Option<PathBuf>> {
    let candidate = Candidate::at(&Root::default(), &disk.controller.address)?;
    let disks = candidate.map(|candidate| candidate.disks).unwrap_or_default();
    let numbers: Vec<u32> = disks.iter().filter_map(|disk| disk.namespace).collect();
    if disks.is_empty() && disk.namespace.is_none() {
        return Ok(None);
    }
    let number = choose_namespace(disk.namespace, &numbers)?;
    let disk = disks.iter().find(|disk| disk.namespace == Some(number));
    let disk = disk.with_context(|| format!("the kernel has no block device of namespace {number}"))?;
    Ok(Some(Path::new("/dev").join(&disk.name)))
}

/// Measures reads by iotoll's own driver.
fn measure_user_space_driver(
    args: &BenchBlk,
    settings: &BlkSettings,
    adapter: &DrivenAdapter,
) -> anyhow::Result<BlkRow> {
    let namespace = adapter.namespace(args.disk.namespace)?;
    let controller = adapter.adapter.controller();
    super::measure_with_bar(|progress| {
        bench::measure_user_space_driver(settings, &controller, namespace, progress)
    })
}
