//! `iotoll bench blk`: reads of a disk through the kernel and past it.

use crate::blk::{Taken, choose};
use crate::cli::BenchBlk;
use crate::output::{self, Outcome};
use anyhow::Context;
use bench::{BlkRow, BlkSettings};
use nvme::takeover::{Candidate, Root};
use std::path::{Path, PathBuf};

pub(super) fn run(args: &BenchBlk) -> anyhow::Result<Outcome> {
    let usual = BlkSettings::default();
    let settings = BlkSettings {
        depths: super::asked_or(&args.depths, usual.depths),
        bytes: args.size.map_or(usual.bytes, |size| size.0),
        rounds: args.pace.rounds.unwrap_or(usual.rounds),
        round_ms: args.pace.round_ms.unwrap_or(usual.round_ms),
    };
    let origin = super::origin()?;
    // While the kernel's driver has the disk. What speaks against taking it is told before anything is measured.
    Taken::check(&args.address, args.consent.accepted())?;
    let mut rows = match kernel_disk(args)? {
        Some(disk) => super::shown(|progress| bench::through_the_kernel(&settings, &disk, progress))?,
        None => {
            output::say("the kernel has no disk on this adapter: only the way past it is measured");
            Vec::new()
        }
    };
    let taken = Taken::of(&args.address, args.consent.accepted(), settings.memory_bytes())?;
    let past = past_the_kernel(args, &settings, &taken);
    let let_go = taken.let_go();
    rows.push(past?);
    let_go?;
    let benchmark = bench::blk_benchmark(settings, origin, args.address.clone(), rows);
    match args.json {
        true => output::json(&benchmark)?,
        false => output::report(report::blk_benchmark(&benchmark, output::width(), output::style()))?,
    }
    Ok(Outcome::Fine)
}

/// The kernel's file of the namespace.
fn kernel_disk(args: &BenchBlk) -> anyhow::Result<Option<PathBuf>> {
    let candidate = Candidate::at(&Root::default(), &args.address)?;
    let disks = candidate.map(|candidate| candidate.disks).unwrap_or_default();
    let numbers: Vec<u32> = disks.iter().filter_map(|disk| disk.namespace).collect();
    if disks.is_empty() && args.namespace.is_none() {
        return Ok(None);
    }
    let number = choose(args.namespace, &numbers)?;
    let disk = disks.iter().find(|disk| disk.namespace == Some(number));
    let disk = disk.with_context(|| format!("the kernel has no disk of namespace {number}"))?;
    Ok(Some(Path::new("/dev").join(&disk.name)))
}

fn past_the_kernel(args: &BenchBlk, settings: &BlkSettings, taken: &Taken) -> anyhow::Result<BlkRow> {
    let namespace = taken.namespace(args.namespace)?;
    let controller = taken.adapter.controller();
    super::shown(|progress| bench::past_the_kernel(settings, &controller, namespace, progress))
}
