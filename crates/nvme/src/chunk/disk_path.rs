//! A way to a disk, from which each thread opens queues of its own.

use super::paths::close_all;
use super::{Chunk, ChunkError, Drive, Paths, RetryPolicy, Waiting};
use crate::controller::{Controller, Namespace};
use crate::controller_error::NvmeError;
use crate::interrupts::Interrupts;
use crate::unflushed::{LossReader, LossTeller};
use std::sync::{Arc, Mutex};

/// A controller that leads to a namespace.
#[derive(Debug, Clone)]
pub struct DiskPath {
    /// The controller.
    pub controller: Arc<Mutex<Controller>>,
    /// The namespace, as the controller has it.
    pub namespace: Namespace,
    /// Interrupts for queues of threads that sleep. Without them queues are polled.
    pub interrupts: Option<Arc<Interrupts>>,
}

impl DiskPath {
    /// A path whose queues are polled.
    pub fn polled(controller: Arc<Mutex<Controller>>, namespace: Namespace) -> Self {
        Self { controller, namespace, interrupts: None }
    }

    fn drive(
        &self,
        requests: u16,
        request_bytes: u64,
        retry_policy: RetryPolicy,
    ) -> Result<Drive, ChunkError> {
        if Controller::lock(&self.controller).is_wanted_back() {
            return Err(NvmeError::WantedBack.into());
        }
        let waiting = self.interrupts.as_ref().map_or(Waiting::Polling, |all| all.waiting());
        let controller = Arc::clone(&self.controller);
        Drive::open(controller, self.namespace, requests, request_bytes, waiting, retry_policy)
    }

    /// Has somebody who flushes told of writes that were lost with these paths.
    pub(crate) fn loss_reader(paths: &[Self]) -> LossReader {
        let unflushed = |path: &Self| Controller::lock(&path.controller).unflushed(path.namespace.number);
        LossReader::new(paths.iter().filter_map(unflushed).collect())
    }
}

impl Chunk {
    /// A queue of a disk by one path or several. It has `requests` slots for at least `request_bytes` each, or for the most that the controllers
    /// transfer at once. Of several paths those are left out whose controller does not work or is wanted back, as long as one is left.
    ///
    /// # Errors
    /// [`ChunkError::Nvme`] if a controller has no further queue, or none works; [`ChunkError::NotOneDisk`] for no path, and for paths to different
    /// disks.
    pub fn open(
        paths: &[DiskPath],
        requests: u16,
        request_bytes: u64,
        retry_policy: RetryPolicy,
    ) -> Result<Self, ChunkError> {
        let losses = Some(LossTeller::new(DiskPath::loss_reader(paths)));
        Self::open_with(paths, requests, request_bytes, retry_policy, losses)
    }

    /// The same. Flushes tell what `losses` says; without it, somebody else must.
    pub(crate) fn open_with(
        paths: &[DiskPath],
        requests: u16,
        request_bytes: u64,
        retry_policy: RetryPolicy,
        losses: Option<LossTeller>,
    ) -> Result<Self, ChunkError> {
        if let [only] = paths {
            let mut drive = only.drive(requests, request_bytes, retry_policy)?;
            if losses.is_none() {
                drive.tell_no_losses();
            }
            return Ok(drive.into());
        }
        let (mut drives, mut broken) = (Vec::new(), None);
        for path in paths {
            match path.drive(requests, request_bytes, retry_policy) {
                Ok(drive) => drives.push(drive),
                Err(error @ ChunkError::Nvme(NvmeError::WantedBack)) => broken = Some(error),
                Err(error) if Controller::lock(&path.controller).check_working().is_err() => {
                    broken = Some(error)
                }
                Err(error) => {
                    close_all(drives);
                    return Err(error);
                }
            }
        }
        match broken {
            Some(error) if drives.is_empty() => Err(error),
            _ => Ok(Paths::with_losses(drives, paths, losses)?.into()),
        }
    }
}
