//! Faults that Xen's hypervisor prints: xen/drivers/passthrough/vtd/iommu.c `iommu_page_fault_do_one`,
//! xen/drivers/passthrough/amd/iommu_init.c `parse_event_log_entry`.

use super::super::scan;
use super::{DmaFault, Reporter, amd_vi, vt_d};
use crate::Bdf;

/// Reads a fault, or its first line.
pub(super) fn read(body: &str) -> Option<DmaFault> {
    let mut fault = parse_vt_d(body).or_else(|| parse_amd_vi(body))?;
    fault.by_xen = true;
    // Both lines, where a text was folded anew.
    add_reason(&mut fault, body);
    Some(fault)
}

/// `[VT-D]DMAR:[DMA Read] Request device [0000:00:02.0] fault addr 29375f2000, iommu reg = ffff82c00021d000` and
/// `[VT-D]INTR-REMAP: Request device [0000:f0:1f.0] fault index 0`; Xen 4.2 and older name their file in between.
fn parse_vt_d(body: &str) -> Option<DmaFault> {
    let rest = body.strip_prefix("[VT-D]")?;
    let access = scan::after(rest, "DMAR:");
    let interrupt = || rest.find("INTR-REMAP:").and_then(|start| rest.get(start..));
    vt_d::parse(access.or_else(interrupt)?.trim_start())
}

/// Adds the reason, on a line of its own: `[VT-D]DMAR: reason 06 - PTE Read access is not set`, in hexadecimal; before
/// `DMAR:[fault reason 06h] PTE Read access is not set`. `false` if the line is none.
pub(super) fn add_reason(fault: &mut DmaFault, body: &str) -> bool {
    let after = scan::after(body, ": reason ").and_then(|rest| rest.split_once(" - "));
    let before = || scan::after(body, "[fault reason ").and_then(|rest| rest.split_once(']'));
    let Some((number, reason)) = after.or_else(before).filter(|_| fault.reason.is_none()) else {
        return false;
    };
    vt_d::set_reason(fault, scan::small_hex(number), reason);
    true
}

/// `AMD-Vi: IO_PAGE_FAULT: 0000:00:14.0 d0 addr 000000fdf8010140 flags 0x8 I`; before 4.14
/// `AMD-Vi: IO_PAGE_FAULT: domain = 0, device id = 0x2600, fault address = 0xfdf8000000, flags = 0x8`.
fn parse_amd_vi(body: &str) -> Option<DmaFault> {
    let rest = body.strip_prefix("AMD-Vi: ")?.strip_prefix("IO_PAGE_FAULT: ")?;
    let mut fault = DmaFault::reported_by(Reporter::AmdVi);
    fault.reason = Some("IO_PAGE_FAULT".to_owned());
    fault.device = scan::after(rest, "device id = ").and_then(requester_id).or_else(|| scan::bdf(rest));
    fault.address = scan::hex_after(rest, "addr ").or_else(|| scan::hex_after(rest, "fault address = "));
    let flags = scan::hex_after(rest, "flags ").or_else(|| scan::hex_after(rest, "flags = "));
    amd_vi::set_flags(&mut fault, flags);
    Some(fault)
}

fn requester_id(text: &str) -> Option<Bdf> {
    u16::try_from(scan::hex(text)?).ok().map(Bdf::of_requester_id)
}
