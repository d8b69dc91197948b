//! `iotoll bench blk`: compares reads and writes of a disk through the kernel with those by iotoll's own driver.
//!
//! ```text
//!   refusals          of the takeover; to write, also by what is on the disk
//!     |
//!     v
//!   kernel interfaces on /dev/nvme..., to write claimed, and checked again
//!     |
//!     v
//!   unbind            iotoll's own driver: to write, what is on the disk is checked once more
//! ```

use crate::blk::{
    BlockRange, ClaimedFile, DataLoss, DrivenAdapter, device_path, expect_address, expect_no_adapter_options,
    expect_no_zones, fail_if_refused, find_candidate, kernel_disk, overwrite_refusals, refusal_lines,
    with_further,
};
use crate::cli::{BenchBlk, DiskTarget, Overwrite};
use crate::output::{self, Outcome};
use anyhow::{Context, ensure};
use bench::{BlkOperation, BlkRow, BlkSettings};
use nvme::takeover::{Candidate, KernelDisk, Root};
use nvme::{Controller, Namespace};
use std::fs::File;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Measures the kernel's interfaces to a disk, then iotoll's own driver, and prints the comparison.
pub(super) fn run(args: &BenchBlk) -> anyhow::Result<Outcome> {
    let usual = BlkSettings::default();
    let settings = BlkSettings {
        operations: match args.write {
            true => vec![BlkOperation::Read, BlkOperation::Write],
            false => usual.operations,
        },
        depths: super::given_or_default(&args.depths, usual.depths),
        bytes: args.size.map_or(usual.bytes, |size| size.0),
        rounds: args.pace.rounds.unwrap_or(usual.rounds),
        round_ms: args.pace.round_ms.unwrap_or(usual.round_ms),
    };
    let origin = super::benchmark_origin()?;
    let rows = match args.disk.is_file() {
        true => measure_file(args, &settings)?,
        false => measure_adapter(args, &settings)?,
    };
    let benchmark = bench::blk_benchmark(settings, origin, args.disk.target.clone(), rows);
    match args.json {
        true => output::print_json(&benchmark)?,
        false => output::print_page(&report::blk_benchmark(&benchmark))?,
    }
    Ok(Outcome::Fine)
}

/// Measures the kernel's interfaces to a file or block device.
fn measure_file(args: &BenchBlk, settings: &BlkSettings) -> anyhow::Result<Vec<BlkRow>> {
    expect_no_adapter_options(&args.disk)?;
    let path = Path::new(&args.disk.target);
    let file = if args.write {
        let claimed = ClaimedFile::of(&Root::default(), path)?;
        args.overwrite.check(&DataLoss::of_file(&claimed, BlockRange::ALL))?;
        claimed.file
    } else {
        open_to_read(path)?
    };
    measure_kernel_interfaces(settings, &file, path)
}

/// Opens a file or block device. Anything else might block.
fn open_to_read(path: &Path) -> anyhow::Result<File> {
    let unreadable = || format!("can't read {}", path.display());
    let kind = path.metadata().with_context(unreadable)?.file_type();
    ensure!(
        kind.is_file() || kind.is_block_device(),
        "{} is neither a file nor a block device",
        path.display()
    );
    File::open(path).with_context(unreadable)
}

fn measure_kernel_interfaces(
    settings: &BlkSettings,
    file: &File,
    path: &Path,
) -> anyhow::Result<Vec<BlkRow>> {
    super::measure_with_named_bar(|progress| bench::measure_kernel_interfaces(settings, file, path, progress))
}

/// Measures the kernel's interfaces to an adapter's disk while the kernel's driver is bound, then iotoll's own driver.
fn measure_adapter(args: &BenchBlk, settings: &BlkSettings) -> anyhow::Result<Vec<BlkRow>> {
    let DiskTarget { target: address, namespace, consent } = &args.disk;
    expect_address(&args.disk)?;
    let root = Root::default();
    let candidate = find_candidate(&root, address)?;
    let mut refusals = refusal_lines(&candidate.refusals(&root, consent.accepted()));
    if args.write {
        let further = overwrite_refusals(&candidate, *namespace, BlockRange::ALL, &args.overwrite);
        refusals = with_further(refusals, further)?;
    }
    fail_if_refused(refusals)?;
    let mut rows = match kernel_disk(&candidate, *namespace)? {
        Some(disk) => {
            let file = open_kernel_disk(args, &root, &candidate, disk)?;
            measure_kernel_interfaces(settings, &file, &device_path(disk))?
        }
        None => {
            output::print_note(
                "the kernel has no block device of this adapter: only iotoll's own driver is measured",
            );
            Vec::new()
        }
    };
    let adapter = DrivenAdapter::open(address, consent.accepted(), settings.memory_bytes())?;
    let of_driver = measure_user_space_driver(args, settings, &adapter, !rows.is_empty());
    let closed = adapter.close();
    rows.extend(of_driver?);
    closed?;
    Ok(rows)
}

/// Opens the kernel's block device. To be written it is claimed, and what is on it is checked again, now that no other program can change it.
fn open_kernel_disk(
    args: &BenchBlk,
    root: &Root,
    candidate: &Candidate,
    disk: &KernelDisk,
) -> anyhow::Result<File> {
    let path = device_path(disk);
    if !args.write {
        return open_to_read(&path);
    }
    let claimed = ClaimedFile::of(root, &path)?;
    args.overwrite.check(&DataLoss::of_claimed_disk(candidate, disk, &claimed))?;
    Ok(claimed.file)
}

/// Measures iotoll's own driver.
fn measure_user_space_driver(
    args: &BenchBlk,
    settings: &BlkSettings,
    adapter: &DrivenAdapter,
    was_measured: bool,
) -> anyhow::Result<Vec<BlkRow>> {
    let namespace = adapter.namespace(args.disk.namespace)?;
    let controller = adapter.adapter.controller();
    if args.write {
        check_namespace(&args.disk.target, &args.overwrite, &controller, namespace, was_measured)?;
    }
    super::measure_with_named_bar(|progress| {
        bench::measure_user_space_driver(settings, &controller, namespace, progress)
    })
}

/// Fails unless a namespace that this process drives may be overwritten. `was_measured`: writes through the kernel have destroyed a part of what is
/// named already.
fn check_namespace(
    address: &str,
    overwrite: &Overwrite,
    controller: &Arc<Mutex<Controller>>,
    namespace: Namespace,
    was_measured: bool,
) -> anyhow::Result<()> {
    expect_no_zones(&namespace)?;
    let loss = DataLoss::of_namespace(address, controller, namespace)?;
    if was_measured { overwrite.check_rest(&loss) } else { overwrite.check(&loss) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use nvme::chunk::{Chunk, Drive, RetryPolicy, Waiting};
    use nvme::emulated::{Machine, ZoneOptions};

    /// A disk of 1 MiB with the signature of a swap area, as its controller drives it.
    fn disk() -> (Arc<Mutex<Controller>>, Namespace) {
        let machine = Machine::open(256, 12).unwrap();
        let namespace = machine.namespace().unwrap();
        let controller = Arc::new(Mutex::new(machine.controller));
        let (policy, waiting) = (RetryPolicy::default(), Waiting::Polling);
        let drive = Drive::open(Arc::clone(&controller), namespace, 1, 4096, waiting, policy).unwrap();
        let mut chunk = Chunk::from(drive);
        let mut block = [0; 4096];
        block[4096 - 10..].copy_from_slice(b"SWAPSPACE2");
        chunk.write(0, &block).unwrap();
        chunk.close().unwrap();
        (controller, namespace)
    }

    #[test]
    fn a_driven_disk_is_written_only_as_far_as_it_was_named() {
        let (controller, namespace) = disk();
        let check = |name: Option<&str>, wipe: &[&str], was_measured| {
            let (overwrite, wipe) = (name.map(str::to_owned), wipe.iter().map(|&word| word.to_owned()));
            let overwrite = Overwrite { overwrite, wipe: wipe.collect(), accept_shared: false };
            let checked = check_namespace("0000:3b:00.0", &overwrite, &controller, namespace, was_measured);
            checked.map_err(|error| error.to_string())
        };
        for was_measured in [false, true] {
            assert_eq!(check(Some("emulated"), &["swap"], was_measured), Ok(()));
            let unnamed = check(None, &["swap"], was_measured).unwrap_err();
            assert!(unnamed.contains("--overwrite does not name it"), "{unnamed}");
            let other = check(Some("other"), &["swap"], was_measured).unwrap_err();
            assert!(other.contains("is not its name"), "{other}");
            let kept = check(Some("emulated"), &["gpt"], was_measured).unwrap_err();
            assert!(kept.contains("--wipe does not name what is on it (swap)"), "{kept}");
        }
        // What the kernel's interfaces have overwritten is on it no more.
        let gone = check(Some("emulated"), &["swap", "gpt"], false).unwrap_err();
        assert!(gone.contains("--wipe names what is not on it (gpt)"), "{gone}");
        assert_eq!(check(Some("emulated"), &["swap", "gpt"], true), Ok(()));
    }

    #[test]
    fn a_disk_with_zones_is_not_written() {
        let machine = Machine::builder(64, 12).zones(ZoneOptions::whole(16)).open().unwrap();
        let namespace = machine.namespace().unwrap();
        let controller = Arc::new(Mutex::new(machine.controller));
        let overwrite =
            Overwrite { overwrite: Some("emulated".to_owned()), wipe: Vec::new(), accept_shared: false };
        let error = check_namespace("0000:3b:00.0", &overwrite, &controller, namespace, true).unwrap_err();
        assert!(error.to_string().starts_with("namespace 1 has zones"), "{error}");
    }
}
