//! The volatile write cache of a controller that a disk may have no queue of.

use super::ChunkError;
use crate::bring_up::wait_for_completion;
use crate::controller::{Controller, Namespace, QueueOptions};
use crate::controller_error::NvmeError;
use crate::unflushed::Unflushed;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

/// The longest wait for such a flush: requests of other paths wait too. Linux gives a shutdown 5 s (`shutdown_timeout`).
const FLUSH_MAX: Duration = Duration::from_secs(5);
/// The longest wait for a controller that another thread uses, and for each command beside the flush.
const COMMAND_MAX: Duration = Duration::from_secs(1);

/// Another thread has the controller.
const BUSY: NvmeError =
    NvmeError::TimedOut { what: "ended another thread's admin command", limit: COMMAND_MAX };

/// A namespace's writes in a controller's cache. This does not keep the controller.
#[derive(Debug)]
pub(super) struct ControllerCache {
    controller: Weak<Mutex<Controller>>,
    namespace: Namespace,
    unflushed: Arc<Unflushed>,
}

impl ControllerCache {
    /// `None` if the controller has no volatile cache.
    pub(super) fn new(controller: &Arc<Mutex<Controller>>, namespace: Namespace) -> Option<Self> {
        let unflushed = Controller::lock(controller).unflushed(namespace.number)?;
        Some(Self { controller: Arc::downgrade(controller), namespace, unflushed })
    }

    /// What all queues for the namespace know of it.
    pub(super) fn unflushed(&self) -> &Arc<Unflushed> {
        &self.unflushed
    }

    /// Flushes it with a queue for that alone, if any queue has written. Where the controller is gone or does not work, the writes count as lost.
    ///
    /// # Errors
    /// [`ChunkError::Nvme`] if the controller has no further queue, is busy, or refuses the flush. Then the writes are still to be flushed.
    pub(super) fn flush(&self) -> Result<(), ChunkError> {
        let Some(carried) = self.unflushed.begin_flush() else { return Ok(()) };
        let flushed = match self.controller.upgrade() {
            Some(controller) => flush(&controller, self.namespace),
            None => Err(NvmeError::Gone),
        };
        match flushed {
            Ok(()) => carried.succeed(),
            Err(NvmeError::Gone | NvmeError::Fatal | NvmeError::Stopped) => {
                drop(carried);
                self.unflushed.lose();
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// Flushes a controller's cache.
fn flush(shared: &Mutex<Controller>, namespace: Namespace) -> Result<(), NvmeError> {
    let options = QueueOptions { namespace: Some(namespace.number), ..QueueOptions::polled(2) };
    let mut controller = lock(shared)?;
    controller.check_working()?;
    let queue = controller.within(COMMAND_MAX, |controller| controller.queue_pair_with(options));
    let (mut queue, link) = (queue?, Arc::clone(&controller.link));
    // Others may use the controller meanwhile.
    drop(controller);
    let flushed = queue.flush(&namespace).map_err(NvmeError::from).and_then(|id| {
        queue.ring_doorbell();
        let done = wait_for_completion(&mut queue, link.registers(), id, FLUSH_MAX)?;
        match done.status {
            status if status.is_success() => Ok(()),
            status => Err(NvmeError::Refused { what: "flushing", status }),
        }
    });
    // Flushed or not: a queue that stays costs some memory until the next reset.
    if let Ok(mut controller) = lock(shared) {
        let _ = controller.within(COMMAND_MAX, |controller| controller.delete(queue));
    }
    flushed
}

/// Locks the controller, unless another thread has it for long.
fn lock(shared: &Mutex<Controller>) -> Result<MutexGuard<'_, Controller>, NvmeError> {
    Controller::lock_until(shared, Instant::now() + COMMAND_MAX).ok_or(BUSY)
}
