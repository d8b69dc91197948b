//! Recovery of a controller: aborts, resets, and renewal of queues.

use crate::bring_up::check_working;
use crate::controller::Controller;
use crate::controller_error::NvmeError;
use crate::queue_pair::{CommandId, QueuePair};
use crate::spec::command::Command;
use crate::spec::error_log::{self, ErrorEntry};
use std::time::Duration;

impl Controller {
    /// Checks that the adapter is present and the controller works.
    ///
    /// # Errors
    /// [`NvmeError::Gone`], [`NvmeError::Fatal`], or [`NvmeError::Stopped`].
    pub fn check_working(&self) -> Result<(), NvmeError> {
        check_working(self.link.registers())
    }

    /// Aborts a command that takes too long (Base, 5.1); it then completes with an abort status. False if the
    /// controller did not abort it, for example because it completed meanwhile.
    ///
    /// # Errors
    /// [`NvmeError`]. After a timeout of `within` the controller needs a reset.
    pub fn abort(&mut self, queue: &QueuePair, id: CommandId, within: Duration) -> Result<bool, NvmeError> {
        let command = Command::abort(queue.number(), id.0);
        let done = self.execute_admin_within(within, "aborting a command", command)?;
        Ok(done.result & 1 == 0)
    }

    /// Resets the controller and enables it again (Base, 3.7.2). It does no DMA in between. Mapped memory stays
    /// mapped. All I/O queues are gone: [renew](Self::renew) each queue pair.
    ///
    /// # Errors
    /// [`NvmeError`]; also if the controller or its namespaces differ afterwards. Then it stays disabled.
    pub fn reset(&mut self) -> Result<(), NvmeError> {
        self.link.start_generation();
        self.disable()?;
        self.free_abandoned()?;
        self.admin.abandon();
        self.admin.clear();
        self.admin.resubmit_in_flight();
        let again = self.enable().and_then(|()| self.check_unchanged());
        if again.is_err() {
            // It may be another disk, so disable it: nothing may be written to it. The first error is the one to
            // report.
            self.link.start_generation();
            let _ = self.disable();
        }
        again
    }

    /// Checks that the controller has the same identity and namespaces as before the reset.
    fn check_unchanged(&mut self) -> Result<(), NvmeError> {
        let (identity, namespaces) = self.read_identity()?;
        let known = self.identity();
        if (&identity.serial, &identity.model) != (&known.serial, &known.model) {
            return Err(NvmeError::Changed { what: "the controller" });
        }
        // Further ones may have been attached since, by another controller of the subsystem.
        if !self.namespaces().iter().all(|known| namespaces.contains(known)) {
            return Err(NvmeError::Changed { what: "its list of namespaces" });
        }
        Ok(())
    }

    /// Creates a queue pair again that a [reset](Self::reset) deleted, and submits its commands in flight again. Returns their number.
    ///
    /// # Errors
    /// [`NvmeError`]
    pub fn renew(&mut self, queue: &mut QueuePair) -> Result<usize, NvmeError> {
        queue.clear();
        self.create(queue.layout)?;
        Ok(queue.resubmit_in_flight())
    }

    /// Reads the error log, newest entry first (Base, 5.16.1.2).
    ///
    /// # Errors
    /// [`NvmeError`]
    pub fn error_log(&mut self) -> Result<Vec<ErrorEntry>, NvmeError> {
        let entries = self.identity().error_log_entries.min(error_log::ENTRIES_MAX);
        let command = |data| Command::error_log(entries as u8, data);
        let page = self.read_page("reading the error log", command)?;
        Ok(error_log::entries(&page[..usize::from(entries) * error_log::ENTRY_BYTES]).collect())
    }
}
