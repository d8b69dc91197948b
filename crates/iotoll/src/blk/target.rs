//! The disk that `blk read` and `blk write` use: a namespace of an adapter that this process drives, a file or block device, or one that `blk serve`
//! serves.

use super::claimed_file::{ClaimedFile, block_shift, expect_blocks};
use super::data_loss::{BlockRange, DataLoss, blocks_to_write};
use super::driven_adapter::{
    DrivenAdapter, device_path, fail_if_refused, find_candidate, kernel_disk, refusal_lines, with_further,
};
use super::input::Input;
use crate::cli::{BlkTarget, BlkWrite, DiskTarget, Overwrite};
use crate::output::{self, Lines};
use anyhow::{Context, ensure};
use nvme::broker::ServedDisk;
use nvme::chunk::{Backing, Chunk, Drive, RetryPolicy, Waiting};
use nvme::takeover::{Accepted, Candidate, Root};
use nvme::{Controller, Namespace};
use std::fmt::Display;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

/// DMA memory for the queues and for the buffers of [`REQUESTS`], which take 2 MiB and must be aligned to that. No more, because
/// adjacent huge pages are scarce.
pub(super) const MEMORY_BYTES: u64 = 6 << 20;
/// Buffer of each request.
const REQUEST_BYTES: u64 = 64 << 10;
/// Requests in flight.
const REQUESTS: u16 = 32;
/// Fails if the target, which is not a file, is not a PCI address either.
pub(crate) fn expect_address(target: &DiskTarget) -> anyhow::Result<()> {
    ensure!(
        target.target.parse::<host::Bdf>().is_ok(),
        "{}: no such file, and not a PCI address; expected an address such as 0000:3b:00.0 (`iotoll blk list`) or a file",
        target.target
    );
    Ok(())
}

/// Fails if options that only an adapter can have were given for a file.
pub(crate) fn expect_no_adapter_options(target: &DiskTarget) -> anyhow::Result<()> {
    ensure!(
        target.consent.accepted() == Accepted::default() && target.namespace.is_none(),
        "{} is a file; expected no --unbind, --accept-no-iommu or --namespace, which are for adapters",
        target.target
    );
    Ok(())
}

/// Fails if a namespace has zones, in which blocks can be written in one order only.
pub(crate) fn expect_no_zones(namespace: &Namespace) -> anyhow::Result<()> {
    ensure!(namespace.zones.is_none(), zones_refusal(&format_args!("namespace {}", namespace.number)));
    Ok(())
}

/// Why a disk with zones is not written.
fn zones_refusal(disk: &dyn Display) -> String {
    format!("{disk} has zones, each of which is written from its first block on: it can only be read here")
}

/// The blocks that a write will change. Fails if they exceed the disk, before any is written.
fn expect_room(args: &BlkWrite, input: &Input, all: u64, block_bytes: u64) -> anyhow::Result<BlockRange> {
    let blocks = blocks_to_write(args, input, block_bytes)?;
    let first = blocks.first;
    ensure!(
        first.checked_add(blocks.count.unwrap_or(1)).is_some_and(|end| end <= all),
        "{} blocks from block {first} exceed the disk, which has {all} blocks",
        blocks.count.map_or("some".to_owned(), |count| count.to_string())
    );
    Ok(blocks)
}

/// All reasons against writing to an adapter's disk, found through the kernel's block devices before the adapter is unbound.
fn write_refusals(
    root: &Root,
    candidate: &Candidate,
    args: &BlkWrite,
    input: &Input,
) -> anyhow::Result<Vec<Lines>> {
    let DiskTarget { namespace, consent, .. } = &args.target.disk;
    let mut refusals = refusal_lines(&candidate.refusals(root, consent.accepted()));
    for disk in &candidate.disks {
        if input.identity().is_of_disk(root, &disk.name) {
            refusals.push(Lines::one(&format_args!(
                "{}: the input is the target or a part of it; expected another input",
                input.name()
            )));
        }
    }
    let blocks = BlockRange { first: args.first, count: args.blocks };
    with_further(refusals, overwrite_refusals(candidate, *namespace, blocks, &args.overwrite))
}

/// The reasons against writing to these blocks of a namespace that the user did not accept. Fails if the disk can't be read.
///
/// Without the kernel's driver there are none: the disk is checked when this process has opened it.
pub(crate) fn overwrite_refusals(
    candidate: &Candidate,
    namespace: Option<u32>,
    blocks: BlockRange,
    overwrite: &Overwrite,
) -> anyhow::Result<Vec<Lines>> {
    match kernel_disk(candidate, namespace) {
        Ok(None) => Ok(Vec::new()),
        Ok(Some(disk)) if disk.is_zoned => Ok(vec![Lines::one(&zones_refusal(&device_path(disk).display()))]),
        Ok(Some(disk)) => {
            let loss = DataLoss::of_kernel_disk(candidate, disk, blocks)?;
            Ok(overwrite.refusal(&loss).into_iter().collect())
        }
        Err(error) => Ok(vec![Lines::one(&error)]),
    }
}

/// An open disk to read or write.
pub(super) struct Target {
    pub(super) chunk: Chunk,
    /// `None` for a file or block device.
    adapter: Option<DrivenAdapter>,
}

impl Target {
    /// Opens a disk for reading.
    pub(super) fn open(args: &BlkTarget) -> anyhow::Result<Self> {
        let disk = &args.disk;
        if disk.is_file() {
            return Self::open_file(disk, Path::new(&disk.target));
        }
        expect_address(disk)?;
        let root = Root::default();
        let candidate = find_candidate(&root, &disk.target)?;
        fail_if_refused(refusal_lines(&candidate.refusals(&root, disk.consent.accepted())))?;
        kernel_disk(&candidate, disk.namespace)?;
        let adapter = DrivenAdapter::open_candidate(&root, &candidate, MEMORY_BYTES, Vec::new())?;
        let namespace = adapter.namespace(disk.namespace)?;
        Self::open_namespace(args, adapter, namespace)
    }

    /// Creates a queue pair for a namespace of an adapter.
    fn open_namespace(
        args: &BlkTarget,
        adapter: DrivenAdapter,
        namespace: Namespace,
    ) -> anyhow::Result<Self> {
        let controller = adapter.adapter.controller();
        let mut retry_policy = RetryPolicy::default();
        retry_policy.timeout = Duration::from_millis(args.timeout_ms);
        let drive =
            Drive::open(controller, namespace, REQUESTS, REQUEST_BYTES, Waiting::Polling, retry_policy)?;
        Ok(Self { chunk: drive.into(), adapter: Some(adapter) })
    }

    /// Opens a file, block device or served disk for reading.
    fn open_file(disk: &DiskTarget, path: &Path) -> anyhow::Result<Self> {
        expect_no_adapter_options(disk)?;
        if path.metadata().is_ok_and(|metadata| metadata.file_type().is_socket()) {
            let queue = ServedDisk::connect(path)?.queue(REQUESTS, &[])?;
            return Ok(Self { chunk: queue.into(), adapter: None });
        }
        let shift = block_shift(path).with_context(|| format!("can't read {}", path.display()))?;
        let file = Backing::open(path, shift, REQUESTS, REQUEST_BYTES as usize)?;
        let chunk = Chunk::from(file);
        expect_blocks(chunk.blocks(), chunk.block_bytes() as u64, path)?;
        Ok(Self { chunk, adapter: None })
    }

    /// Opens a disk for writing. Fails with what would be lost unless `--overwrite` and `--wipe` name it.
    pub(super) fn open_to_write(args: &BlkWrite, input: &Input) -> anyhow::Result<Self> {
        let disk = &args.target.disk;
        match disk.is_file() {
            true => Self::open_file_to_write(args, input, Path::new(&disk.target)),
            false => Self::open_adapter_to_write(args, input),
        }
    }

    /// Claims a file or block device, so that no other program uses it, and opens it for writing.
    fn open_file_to_write(args: &BlkWrite, input: &Input, path: &Path) -> anyhow::Result<Self> {
        let root = Root::default();
        expect_no_adapter_options(&args.target.disk)?;
        let claimed = ClaimedFile::of(&root, path)?;
        ensure!(
            !claimed.identity.overlaps(&root, input.identity()),
            "{}: the input is the target or a part of it; expected another input",
            input.name()
        );
        let blocks = expect_room(args, input, claimed.blocks(), claimed.block_bytes())?;
        args.overwrite.check(&DataLoss::of_file(&claimed, blocks))?;
        let ClaimedFile { file, path, block_shift, .. } = claimed;
        let backing = Backing::from_file(path, file, block_shift, REQUESTS, REQUEST_BYTES as usize)?;
        Ok(Self { chunk: backing.into(), adapter: None })
    }

    /// Opens an adapter's disk for writing. Its uses and its content are checked through the kernel before the adapter is unbound. The
    /// content is checked again afterwards, when no other program can change it.
    fn open_adapter_to_write(args: &BlkWrite, input: &Input) -> anyhow::Result<Self> {
        let disk = &args.target.disk;
        expect_address(disk)?;
        let root = Root::default();
        let candidate = find_candidate(&root, &disk.target)?;
        fail_if_refused(write_refusals(&root, &candidate, args, input)?)?;
        let adapter = DrivenAdapter::open_candidate(&root, &candidate, MEMORY_BYTES, Vec::new())?;
        let namespace = adapter.namespace(disk.namespace)?;
        if let Err(error) = expect_no_zones(&namespace) {
            // The refusal matters more to the user than an error while closing.
            let _ = adapter.close();
            return Err(error);
        }
        let identity = Controller::lock(&adapter.adapter.controller()).identity().clone();
        let mut target = Self::open_namespace(&args.target, adapter, namespace)?;
        let chunk = &mut target.chunk;
        let room = expect_room(args, input, chunk.blocks(), chunk.block_bytes() as u64);
        let checked = room.and_then(|blocks| {
            args.overwrite.check(&DataLoss::of_drive(&disk.target, &identity, namespace, blocks, chunk))
        });
        match checked {
            Ok(()) => Ok(target),
            Err(refused) => {
                // The refusal matters more to the user than an error while closing.
                let _ = target.close();
                Err(refused)
            }
        }
    }

    /// Closes the disk and rebinds its adapter. Prints how many retries, aborts and resets were needed, if any.
    pub(super) fn close(self) -> anyhow::Result<()> {
        let events = self.chunk.events();
        if events != nvme::chunk::Events::default() {
            output::print_note(&format!(
                "errors handled: {} commands retried, {} aborted, {} resets of the controller, after which {} commands were resubmitted",
                events.retries, events.aborts, events.resets, events.resubmitted
            ));
        }
        let queue_deleted = self.chunk.close().context("the queue pair was not deleted");
        let rebound = self.adapter.map_or(Ok(()), DrivenAdapter::close);
        queue_deleted.and(rebound)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use nvme::emulated::{Machine, ZoneOptions};

    #[test]
    fn a_disk_with_zones_is_not_written() {
        let plain = Machine::open(64, 12).unwrap();
        assert!(expect_no_zones(&plain.namespace().unwrap()).is_ok());
        let zoned = Machine::builder(64, 12).zones(ZoneOptions::whole(16)).open().unwrap();
        let error = expect_no_zones(&zoned.namespace().unwrap()).unwrap_err();
        assert!(error.to_string().starts_with("namespace 1 has zones"), "{error}");
    }
}
