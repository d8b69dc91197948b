//! The disk that `blk read` and `blk write` use: a namespace of an adapter that this process drives, a file or block device, or one that `blk serve`
//! serves.

use super::data_loss::{BlockRange, DataLoss, blocks_to_write};
use super::driven_adapter::{
    DrivenAdapter, choose_namespace, fail_if_refused, find_candidate, refusal_lines,
};
use super::input::Input;
use crate::cli::{BlkTarget, BlkWrite, Overwrite};
use crate::output::{self, Lines};
use anyhow::{Context, ensure};
use nvme::broker::ServedDisk;
use nvme::chunk::{Backing, Chunk, Drive, RetryPolicy, Waiting};
use nvme::takeover::{Accepted, Candidate, Claim, Root};
use nvme::{Controller, Namespace};
use std::io;
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
/// A regular file is read and written in blocks of 4 KiB.
const FILE_BLOCK_SHIFT: u8 = 12;

/// Numbers of the namespaces that the kernel has block devices of.
fn kernel_namespaces(candidate: &Candidate) -> Vec<u32> {
    candidate.disks.iter().filter_map(|disk| disk.namespace).collect()
}

/// Log2 of the block size: a block device's logical block size, or 4 KiB for a regular file.
fn block_shift(path: &Path) -> io::Result<u8> {
    if !path.metadata()?.file_type().is_block_device() {
        return Ok(FILE_BLOCK_SHIFT);
    }
    let bytes = rustix::fs::ioctl_blksszget(std::fs::File::open(path)?)?;
    Ok(bytes.trailing_zeros() as u8)
}

/// Fails if the target, which is not a file, is not a PCI address either.
fn expect_address(target: &BlkTarget) -> anyhow::Result<()> {
    ensure!(
        target.target.parse::<host::Bdf>().is_ok(),
        "{}: no such file, and not a PCI address; expected an address such as 0000:3b:00.0 (`iotoll blk list`) or a file",
        target.target
    );
    Ok(())
}

/// Fails if options that only an adapter can have were given for a file.
fn expect_no_adapter_options(target: &BlkTarget) -> anyhow::Result<()> {
    ensure!(
        target.consent.accepted() == Accepted::default() && target.namespace.is_none(),
        "{} is a file; expected no --unbind, --accept-no-iommu or --namespace, which are for adapters",
        target.target
    );
    Ok(())
}

/// Fails if the file has not even one block.
fn expect_blocks(chunk: &Chunk, path: &Path) -> anyhow::Result<()> {
    let block_bytes = chunk.block_bytes();
    ensure!(chunk.blocks() > 0, "{} is shorter than one block of {block_bytes} bytes", path.display());
    Ok(())
}

/// Fails if a namespace has zones, in which blocks can be written in one order only.
pub(super) fn expect_no_zones(namespace: &Namespace) -> anyhow::Result<()> {
    ensure!(
        namespace.zones.is_none(),
        "namespace {} has zones, each of which is written from its first block on: it can only be read here",
        namespace.number
    );
    Ok(())
}

/// The blocks that a write will change. Fails if they exceed the disk, before any is written.
fn expect_room(args: &BlkWrite, input: &Input, chunk: &Chunk) -> anyhow::Result<BlockRange> {
    let blocks = blocks_to_write(args, input, chunk.block_bytes())?;
    let (first, all) = (blocks.first, chunk.blocks());
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
    let mut refusals = refusal_lines(&candidate.refusals(root, args.target.consent.accepted()));
    for disk in &candidate.disks {
        if input.identity().is_of_disk(root, &disk.name) {
            refusals.push(Lines::one(&format_args!(
                "{}: the input is the target or a part of it; expected another input",
                input.name()
            )));
        }
    }
    let blocks = BlockRange { first: args.first, count: args.blocks };
    match overwrite_refusals(candidate, args.target.namespace, blocks, &args.overwrite) {
        Ok(more) => refusals.extend(more),
        // An earlier refusal explains the failure better.
        Err(error) if refusals.is_empty() => return Err(error),
        Err(_) => {}
    }
    Ok(refusals)
}

/// The reasons against writing to these blocks of a namespace that the user did not accept. Fails if the disk can't be read.
pub(super) fn overwrite_refusals(
    candidate: &Candidate,
    namespace: Option<u32>,
    blocks: BlockRange,
    overwrite: &Overwrite,
) -> anyhow::Result<Vec<Lines>> {
    // Without the kernel's driver there are no block devices. The disk is checked when this process has opened it.
    let numbers = kernel_namespaces(candidate);
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    let chosen = match choose_namespace(namespace, &numbers) {
        Ok(chosen) => chosen,
        Err(error) => return Ok(vec![Lines::one(&error)]),
    };
    let disk = candidate.disks.iter().find(|disk| disk.namespace == Some(chosen));
    let loss = disk.map(|disk| DataLoss::of_kernel_disk(candidate, disk, blocks)).transpose()?;
    Ok(loss.and_then(|loss| overwrite.refusal(&loss)).into_iter().collect())
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
        if args.is_file() {
            return Self::open_file(args, Path::new(&args.target));
        }
        expect_address(args)?;
        let root = Root::default();
        let candidate = find_candidate(&root, &args.target)?;
        fail_if_refused(refusal_lines(&candidate.refusals(&root, args.consent.accepted())))?;
        let numbers = kernel_namespaces(&candidate);
        if !numbers.is_empty() {
            choose_namespace(args.namespace, &numbers)?;
        }
        let adapter = DrivenAdapter::open_candidate(&root, &candidate, MEMORY_BYTES, Vec::new())?;
        let namespace = adapter.namespace(args.namespace)?;
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
    fn open_file(args: &BlkTarget, path: &Path) -> anyhow::Result<Self> {
        expect_no_adapter_options(args)?;
        if path.metadata().is_ok_and(|metadata| metadata.file_type().is_socket()) {
            let queue = ServedDisk::connect(path)?.queue(REQUESTS, &[])?;
            return Ok(Self { chunk: queue.into(), adapter: None });
        }
        let shift = block_shift(path).with_context(|| format!("can't read {}", path.display()))?;
        let file = Backing::open(path, shift, REQUESTS, REQUEST_BYTES as usize)?;
        let chunk = Chunk::from(file);
        expect_blocks(&chunk, path)?;
        Ok(Self { chunk, adapter: None })
    }

    /// Opens a disk for writing. Fails with what would be lost unless `--overwrite` and `--wipe` name it.
    pub(super) fn open_to_write(args: &BlkWrite, input: &Input) -> anyhow::Result<Self> {
        let target = &args.target;
        match target.is_file() {
            true => Self::open_file_to_write(args, input, Path::new(&target.target)),
            false => Self::open_adapter_to_write(args, input),
        }
    }

    /// Claims a file or block device, so that no other program uses it, and opens it for writing.
    fn open_file_to_write(args: &BlkWrite, input: &Input, path: &Path) -> anyhow::Result<Self> {
        let root = Root::default();
        expect_no_adapter_options(&args.target)?;
        let shift = block_shift(path).with_context(|| format!("can't read {}", path.display()))?;
        let claim = Claim::of(&root, path)?;
        let (identity, names) = (claim.identity(), claim.disk_names(&root)?);
        ensure!(
            !identity.overlaps(&root, input.identity()),
            "{}: the input is the target or a part of it; expected another input",
            input.name()
        );
        let (path, file) = claim.into_parts();
        let backing = Backing::from_file(path.clone(), file, shift, REQUESTS, REQUEST_BYTES as usize)?;
        let mut chunk = Chunk::from(backing);
        expect_blocks(&chunk, &path)?;
        let blocks = expect_room(args, input, &chunk)?;
        let loss = DataLoss::of_file(&path, identity, names, blocks, &mut chunk);
        match args.overwrite.refusal(&loss) {
            Some(refusal) => Err(refusal.into()),
            None => Ok(Self { chunk, adapter: None }),
        }
    }

    /// Opens an adapter's disk for writing. Its uses and its content are checked through the kernel before the adapter is unbound. The
    /// content is checked again afterwards, when no other program can change it.
    fn open_adapter_to_write(args: &BlkWrite, input: &Input) -> anyhow::Result<Self> {
        let target_args = &args.target;
        expect_address(target_args)?;
        let root = Root::default();
        let candidate = find_candidate(&root, &target_args.target)?;
        fail_if_refused(write_refusals(&root, &candidate, args, input)?)?;
        let adapter = DrivenAdapter::open_candidate(&root, &candidate, MEMORY_BYTES, Vec::new())?;
        let namespace = adapter.namespace(target_args.namespace)?;
        if let Err(error) = expect_no_zones(&namespace) {
            // The refusal matters more to the user than an error while closing.
            let _ = adapter.close();
            return Err(error);
        }
        let identity = Controller::lock(&adapter.adapter.controller()).identity().clone();
        let mut target = Self::open_namespace(target_args, adapter, namespace)?;
        let refusal = expect_room(args, input, &target.chunk).map(|blocks| {
            let loss =
                DataLoss::of_drive(&target_args.target, &identity, namespace, blocks, &mut target.chunk);
            args.overwrite.refusal(&loss)
        });
        let refused = match refusal {
            Ok(None) => return Ok(target),
            Ok(Some(refusal)) => refusal.into(),
            Err(error) => error,
        };
        // The refusal matters more to the user than an error while closing.
        let _ = target.close();
        Err(refused)
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
