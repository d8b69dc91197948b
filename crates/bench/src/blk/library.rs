//! Reads and writes by a queue pair of the user-space driver.

use super::submitter::Submitter;
use super::{BlkError, BlkOperation, random_data};
use crate::completion::wait_for_completion;
use nvme::{Buffer, Controller, Namespace, QueuePair};
use std::sync::{Arc, Mutex};

/// A queue pair of crate `nvme`.
pub(super) struct Library {
    controller: Arc<Mutex<Controller>>,
    queue: QueuePair,
    namespace: Namespace,
    operation: BlkOperation,
    buffer: Buffer,
    bytes: u64,
    /// The request's slot by the command identifier's slot.
    slots: Vec<u16>,
}

impl Library {
    /// Creates a queue pair and buffers for `depth` requests of `bytes` in flight.
    pub(super) fn open(
        controller: Arc<Mutex<Controller>>,
        namespace: Namespace,
        operation: BlkOperation,
        depth: u16,
        bytes: u64,
    ) -> Result<Self, BlkError> {
        let bytes_max = namespace.transfer_bytes_max.min(namespace.format.bytes());
        if !bytes.is_multiple_of(namespace.format.block_bytes()) || bytes == 0 || bytes > bytes_max {
            return Err(BlkError::Size { bytes, bytes_max });
        }
        let mut guard = Controller::lock(&controller);
        let queue = guard.queue_pair(depth.saturating_add(1))?;
        if queue.available() < depth.into() {
            return Err(nvme::NvmeError::Unsupported("room for so many commands").into());
        }
        // Each buffer begins at a page, so that most requests need no PRP list.
        let buffer = guard.allocate(u64::from(depth) * bytes.next_multiple_of(nvme::PAGE_BYTES))?;
        if operation == BlkOperation::Write {
            let data = random_data(buffer.bytes());
            guard.ram().write(buffer.memory(), &data).map_err(nvme::QueueError::from)?;
        }
        drop(guard);
        let slots = vec![0; queue.available()];
        Ok(Self { controller, queue, namespace, operation, buffer, bytes, slots })
    }

    /// Deletes the queue pair and frees the buffers.
    pub(super) fn close(self) -> Result<(), BlkError> {
        let mut controller = Controller::lock(&self.controller);
        controller.delete(self.queue)?;
        Ok(controller.free(self.buffer)?)
    }
}

impl Submitter for Library {
    fn positions(&self) -> u64 {
        self.namespace.format.bytes() / self.bytes
    }

    fn begin(&mut self, slot: u16, position: u64) -> Result<(), BlkError> {
        let from = u64::from(slot) * self.bytes.next_multiple_of(nvme::PAGE_BYTES);
        let piece = self.buffer.piece(from, self.bytes).map_err(nvme::QueueError::from)?;
        let first = position * (self.bytes >> self.namespace.format.block_shift);
        let id = match self.operation {
            BlkOperation::Read => self.queue.read(&self.namespace, first, &[piece])?,
            BlkOperation::Write => self.queue.write(&self.namespace, first, &[piece])?,
        };
        self.slots[id.slot()] = slot;
        Ok(())
    }

    fn wait(&mut self, ended: &mut Vec<u16>) -> Result<(), BlkError> {
        self.queue.ring_doorbell();
        let (mut failed, slots) = (None, &self.slots);
        wait_for_completion(&mut self.queue, |done| {
            ended.push(slots[done.id.slot()]);
            failed = failed.or((!done.status.is_success()).then_some(done.status));
        })?;
        failed.map_or(Ok(()), |status| Err(BlkError::Status(status)))
    }
}
