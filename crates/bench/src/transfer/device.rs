//! The controller's part: commands for a whole buffer, several in flight.

use super::result::TransferSettings;
use crate::blk::BlkError;
use crate::completion::wait_for_completion;
use nvme::prp::Piece;
use nvme::{BlockError, CommandId, Namespace, PAGE_BYTES, QueuePair};

/// Submits a command for one piece: [`QueuePair::read`] or [`QueuePair::compare`].
type Submit = fn(&mut QueuePair, &Namespace, u64, &[Piece]) -> Result<CommandId, BlockError>;

/// A controller's queue, and the blocks that it transfers.
pub(super) struct Device {
    queue: QueuePair,
    namespace: Namespace,
    command_bytes: u64,
    depth: usize,
    first: u64,
}

/// The outcome of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transferred {
    /// Commands that were executed.
    pub(super) commands: u64,
    /// Those of them that ended with Compare Failure.
    pub(super) miscompares: u64,
}

impl Device {
    /// Sizes that passed [`check_sizes`].
    pub(super) fn new(queue: QueuePair, namespace: Namespace, settings: &TransferSettings) -> Self {
        let TransferSettings { command_bytes, depth, first, .. } = *settings;
        let depth = usize::from(depth).clamp(1, queue.available().max(1));
        Self { queue, namespace, command_bytes, depth, first }
    }

    /// The queue, to be deleted.
    pub(super) fn into_queue(self) -> QueuePair {
        self.queue
    }

    /// Executes a command for each part of `whole`, and waits for the last of them.
    pub(super) fn transfer(&mut self, whole: Piece, submit: Submit) -> Result<Transferred, BlkError> {
        let Self { queue, namespace, command_bytes, depth, first } = self;
        let blocks = *command_bytes >> namespace.format.block_shift;
        let mut parts = (0..whole.bytes / *command_bytes).map(|part| {
            let at = dma::BusAddress(whole.at.0 + part * *command_bytes);
            (*first + part * blocks, Piece { at, bytes: *command_bytes })
        });
        let mut transferred = Transferred { commands: 0, miscompares: 0 };
        loop {
            let free = *depth - queue.in_flight();
            for (block, piece) in parts.by_ref().take(free) {
                submit(queue, namespace, block, &[piece])?;
            }
            if queue.in_flight() == 0 {
                return Ok(transferred);
            }
            queue.ring_doorbell();
            wait_and_count(queue, &mut transferred)?;
        }
    }
}

/// Fails if the buffer is not whole commands, or is larger than the disk from the first block on.
pub(super) fn check_sizes(namespace: &Namespace, settings: &TransferSettings) -> Result<(), BlkError> {
    settings.check()?;
    let TransferSettings { bytes, command_bytes, first, .. } = *settings;
    let format = namespace.format;
    let (step, bytes_max) = (PAGE_BYTES.max(format.block_bytes()), namespace.transfer_bytes_max);
    if command_bytes == 0 || !command_bytes.is_multiple_of(step) || command_bytes > bytes_max {
        return Err(BlkError::CommandSize { bytes: command_bytes, step, bytes_max });
    }
    let bytes_max = format.bytes().saturating_sub(first.saturating_mul(format.block_bytes()));
    if bytes == 0 || !bytes.is_multiple_of(command_bytes) || bytes > bytes_max {
        return Err(BlkError::BufferSize { bytes, command_bytes, bytes_max });
    }
    Ok(())
}

/// Waits for a completion, and counts all that have arrived.
fn wait_and_count(queue: &mut QueuePair, transferred: &mut Transferred) -> Result<(), BlkError> {
    let mut failed = None;
    wait_for_completion(queue, |done| {
        transferred.commands += 1;
        match done.status {
            status if status.is_success() => {}
            status if status.is_compare_failure() => transferred.miscompares += 1,
            status => failed = failed.or(Some(status)),
        }
    })?;
    failed.map_or(Ok(()), |status| Err(BlkError::Status(status)))
}
