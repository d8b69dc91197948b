//! What is done about commands that don't come back, and controllers that have failed.

use crate::bring_up::{disable, working};
use crate::controller::{Controller, NvmeError};
use crate::queue_pair::{CommandId, QueuePair};
use crate::spec::command::Command;
use crate::spec::error_log::{self, ErrorEntry};
use std::time::Duration;

impl Controller {
    /// Whether it is there and works.
    ///
    /// # Errors
    /// [`NvmeError::Gone`], [`NvmeError::Fatal`], or [`NvmeError::Stopped`].
    pub fn working(&self) -> Result<(), NvmeError> {
        working(self.link.registers())
    }

    /// Asks it to abort a command that takes long (Base, 5.1). An aborted command is completed, with a status that says so.
    /// Says whether it was aborted; it may have been completed meanwhile, or the controller does not find it.
    ///
    /// # Errors
    /// [`NvmeError`]; also if it does not answer `within` that time, and wants a reset.
    pub fn abort(&mut self, queue: &QueuePair, id: CommandId, within: Duration) -> Result<bool, NvmeError> {
        let command = Command::abort(queue.number(), id.0);
        let done = self.administer_within(within, "aborting a command", command)?;
        Ok(done.result & 1 == 0)
    }

    /// Resets it and brings it up again (Base, 3.7.2). It reaches no memory in between, and has forgotten all queues but its own: each
    /// has to be [renewed](Self::renew). Mapped memory stays mapped.
    ///
    /// # Errors
    /// [`NvmeError`]; also if another controller, or other namespaces, are there afterwards. Then it stays out of work.
    pub fn reset(&mut self) -> Result<(), NvmeError> {
        self.link.forget();
        disable(self.link.registers(), self.capabilities)?;
        self.take_back_what_was_left()?;
        self.admin.abandon();
        self.admin.clear()?;
        self.admin.resubmit_in_flight()?;
        let again = self.enable().and_then(|()| self.expect_the_same());
        if again.is_err() {
            // Nobody is to write to what may be another disk: it stays out of work, and its admin queue forgotten. Why is told already.
            self.link.forget();
            let _ = disable(self.link.registers(), self.capabilities);
        }
        again
    }

    /// That it has the disks that it had.
    fn expect_the_same(&mut self) -> Result<(), NvmeError> {
        let (identity, namespaces) = self.ask()?;
        let known = self.identity();
        if (&identity.serial, &identity.model) != (&known.serial, &known.model) {
            return Err(NvmeError::Changed { what: "the controller" });
        }
        if namespaces != self.namespaces() {
            return Err(NvmeError::Changed { what: "its list of namespaces" });
        }
        Ok(())
    }

    /// Creates a queue pair again that a [reset](Self::reset) deleted, and submits its commands in flight again. Returns their number.
    ///
    /// # Errors
    /// [`NvmeError`]
    pub fn renew(&mut self, queue: &mut QueuePair) -> Result<usize, NvmeError> {
        queue.clear()?;
        self.create(queue.layout)?;
        Ok(queue.resubmit_in_flight()?)
    }

    /// The newest entries of its error log, the newest first (Base, 5.16.1.2).
    ///
    /// # Errors
    /// [`NvmeError`]
    pub fn error_log(&mut self) -> Result<Vec<ErrorEntry>, NvmeError> {
        let entries = self.identity().error_log_entries.min(error_log::ENTRIES_MAX);
        let command = |data| Command::error_log(entries as u8, data);
        let page = self.told_by("reading the error log", command)?;
        Ok(error_log::entries(&page[..usize::from(entries) * error_log::ENTRY_BYTES]).collect())
    }
}
