//! Invalidations that failed, as the kernel's log tells of them.
//!
//! An IOMMU carries out its driver's commands one after the other. One of them asks a device to drop translations that it keeps
//! itself (ATS); a device that never answers holds up all commands behind it, those of other devices among them.

use crate::kernel::message::{AmdViMessage, SmmuMessage, VtDMessage, vt_d};
use crate::{Bdf, Citation};

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// A device did not answer.
    DeviceSilent,
    /// The IOMMU rejected a command, or could not read it.
    CommandRejected,
    /// The IOMMU did not complete its commands in time.
    QueueStuck,
}

/// A message about an invalidation that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidationFailure {
    /// What went wrong.
    pub failure: Failure,
    /// The device that did not answer, where the hardware names it.
    pub device: Option<Bdf>,
    /// The line.
    pub at: Citation,
}

/// What a message of VT-d says of one.
pub(super) fn of_vt_d(message: &VtDMessage) -> Option<(Failure, Option<Bdf>)> {
    match message {
        VtDMessage::InvalidationError { kind: vt_d::InvalidationError::TimeOut, device } => {
            Some((Failure::DeviceSilent, *device))
        }
        VtDMessage::InvalidationError { device, .. } => Some((Failure::CommandRejected, *device)),
        _ => None,
    }
}

/// Whether VT-d's fault status register tells of a device that did not answer: bit 6. The unit's driver prints the register
/// beside the error, or alone.
pub(super) fn is_timeout(message: &VtDMessage) -> bool {
    matches!(message, VtDMessage::FaultStatus(status) if status & 1 << 6 != 0)
}

/// What a message of AMD-Vi says of one.
pub(super) fn of_amd_vi(message: &AmdViMessage) -> Option<(Failure, Option<Bdf>)> {
    match message {
        AmdViMessage::InvalidationTimeout(device) => Some((Failure::DeviceSilent, *device)),
        AmdViMessage::CommandRejected(_) => Some((Failure::CommandRejected, None)),
        AmdViMessage::CompletionTimeout => Some((Failure::QueueStuck, None)),
        _ => None,
    }
}

/// What a message of an SMMU's driver says of one.
pub(super) fn of_smmu(message: &SmmuMessage) -> Option<(Failure, Option<Bdf>)> {
    match message {
        // ATC: the SMMU's word for the cache of a device.
        SmmuMessage::CommandError(error) if error.contains("ATC invalidate timeout") => {
            Some((Failure::DeviceSilent, None))
        }
        SmmuMessage::CommandError(_) => Some((Failure::CommandRejected, None)),
        SmmuMessage::CommandTimeout => Some((Failure::QueueStuck, None)),
        _ => None,
    }
}
