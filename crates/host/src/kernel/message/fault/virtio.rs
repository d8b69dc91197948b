//! Faults of a paravirtual IOMMU: drivers/iommu/virtio-iommu.c, `viommu_fault_handler`.

use super::super::scan;
use super::{Access, Cause, DmaFault, Reporter};
use crate::Bdf;

/// `page fault from EP 24 at 0x1000 [W]`; without an address where the hypervisor tells none. Firmware's table (VIOT) makes a
/// function's requester ID its endpoint.
pub(super) fn read(body: &str) -> Option<DmaFault> {
    let (reason, rest) = body.split_once(" fault from EP ")?;
    let mut fault = DmaFault::reported_by(Reporter::Virtio);
    let endpoint = scan::small(rest).and_then(|endpoint| u16::try_from(endpoint).ok());
    fault.device = endpoint.map(Bdf::of_requester_id);
    fault.address = scan::hex_after(rest, " at ");
    let access = scan::between(rest, "[", "]").unwrap_or_default();
    fault.access = match access {
        access if access.contains('W') => Some(Access::Write),
        access if access.contains('R') => Some(Access::Read),
        _ => None,
    };
    fault.reason = Some(format!("{reason} fault"));
    fault.cause = match reason {
        "domain" => Cause::UnknownRequester,
        "page" => Cause::NotMappedOrNotPermitted,
        _ => Cause::Unknown,
    };
    Some(fault)
}
