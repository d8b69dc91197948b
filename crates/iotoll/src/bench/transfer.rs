//! `iotoll bench transfer`: moves data between an NVMe disk and memory of each kind, and checks every byte.

mod area;

use crate::blk::{DrivenAdapter, device_path, kernel_disk};
use crate::cli::BenchTransfer;
use crate::output::{self, Outcome};
use anyhow::{Context, bail};
use area::{MappedHalf, PhysicalMemory};
use bench::{TransferBenchmark, TransferMemory, TransferSettings, TransferSource};
use dma::Ram;
use host::{Host, Tree};
use nvme::PAGE_BYTES;
use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// Transfers, and prints rates and miscompares. Data that differed count as findings.
pub(super) fn run(args: &BenchTransfer) -> anyhow::Result<Outcome> {
    let usual = TransferSettings::default();
    let bytes = args.size.map_or(usual.bytes, |size| size.0);
    let settings = TransferSettings {
        bytes,
        command_bytes: args.command_size.map_or(usual.command_bytes.min(bytes), |size| size.0),
        depth: args.depth.unwrap_or(usual.depth),
        first: args.first,
        rounds: args.pace.rounds.unwrap_or(usual.rounds),
        round_ms: args.pace.round_ms.unwrap_or(usual.round_ms),
    };
    // What can be checked without the controller is checked before its driver is unbound.
    settings.check()?;
    let candidate =
        DrivenAdapter::check(&args.disk.controller.address, args.disk.controller.consent.accepted())?;
    let halves = mapped_halves(args, bytes)?;
    let expected = kernel_disk(&candidate, args.disk.namespace)?
        .map(|disk| read_with_kernel(&device_path(disk), args.first, bytes))
        .transpose()?;
    if expected.is_none() {
        output::print_note(
            "the kernel has no block device of this adapter: data are compared with what iotoll's own driver reads first",
        );
    }
    let reserved = halves.iter().map(|half| Arc::clone(&half.memory)).collect();
    let memory_bytes = settings.memory_bytes();
    let adapter = DrivenAdapter::open_with_reserved(
        &args.disk.controller.address,
        args.disk.controller.consent.accepted(),
        memory_bytes,
        reserved,
    )?;
    let benchmark = transfer(args, settings, &adapter, &halves, expected);
    let closed = adapter.close();
    let benchmark = benchmark?;
    closed?;
    match args.json {
        true => output::print_json(&benchmark)?,
        false => output::print_page(&report::transfer_benchmark(&benchmark))?,
    }
    Ok(Outcome::of_findings(usize::from(benchmark.has_miscompares())))
}

/// Maps both halves of each area, if they may be overwritten.
fn mapped_halves(args: &BenchTransfer, bytes: u64) -> anyhow::Result<Vec<MappedHalf>> {
    let host = Host::read(&Tree::live());
    let physical = PhysicalMemory::of(&host, Path::new("/"));
    if args.areas.is_empty() {
        for area in physical.usable_areas(bytes) {
            output::print_note(&format!(
                "memmap= reserves {area}. To measure it too, and lose what it holds: --area {area}. Not if it is reserved because its RAM is bad."
            ));
        }
    }
    for (index, area) in args.areas.iter().enumerate() {
        if let Some(other) = args.areas[..index].iter().find(|other| other.overlaps(*area)) {
            bail!("--area {area} overlaps --area {other}");
        }
    }
    let halves = args.areas.iter().map(|area| physical.map_halves(*area, bytes));
    Ok(halves.collect::<anyhow::Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// Reads blocks through the kernel's driver, past its page cache.
fn read_with_kernel(disk: &Path, first: u64, bytes: u64) -> anyhow::Result<Vec<u8>> {
    let unreadable = || format!("can't read {} to compare with", disk.display());
    let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(direct).open(disk).with_context(unreadable)?;
    let block_bytes = u64::from(rustix::fs::ioctl_blksszget(&file).with_context(unreadable)?);
    let disk_bytes = (&file).seek(SeekFrom::End(0)).with_context(unreadable)?;
    let from = first
        .checked_mul(block_bytes)
        .filter(|from| from.checked_add(bytes).is_some_and(|end| end <= disk_bytes));
    let Some(from) = from else {
        let blocks = disk_bytes / block_bytes;
        bail!(
            "--first {first} with a buffer of {bytes} bytes is beyond the end: the disk has {blocks} blocks of {block_bytes}"
        );
    };
    // Direct I/O needs an aligned buffer. Memory in whole pages is one.
    let whole = bytes.max(1).next_multiple_of(PAGE_BYTES) as usize;
    let mut buffer = vec![0; whole + PAGE_BYTES as usize];
    let begin = buffer.as_ptr().align_offset(PAGE_BYTES as usize);
    let into = &mut buffer[begin..begin + bytes as usize];
    file.read_exact_at(into, from).with_context(unreadable)?;
    Ok(into.to_vec())
}

/// Transfers with the opened adapter.
fn transfer(
    args: &BenchTransfer,
    settings: TransferSettings,
    adapter: &DrivenAdapter,
    halves: &[MappedHalf],
    expected: Option<Vec<u8>>,
) -> anyhow::Result<TransferBenchmark> {
    let source = TransferSource {
        adapter: args.disk.controller.address.clone(),
        namespace: adapter.namespace(args.disk.namespace)?,
        expected,
        forces_snooping: adapter.adapter.forces_snooping(),
    };
    let memory = |(half, buffer): (&MappedHalf, &nvme::ReservedBuffer)| TransferMemory {
        name: half.name.clone(),
        mapping: half.mapping.to_owned(),
        memory_type: half.memory_type.clone(),
        ram: Arc::clone(&buffer.memory),
        at: Ram::base(&buffer.memory),
        piece: buffer.piece,
    };
    let memories: Vec<TransferMemory> = halves.iter().zip(adapter.adapter.reserved()).map(memory).collect();
    let (origin, controller) = (super::benchmark_origin()?, adapter.adapter.controller());
    super::measure_with_bar(|progress| {
        bench::run_transfer(settings, origin, &controller, source, &memories, progress)
    })
}
