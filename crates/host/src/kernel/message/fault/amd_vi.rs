//! AMD-Vi's events: drivers/iommu/amd/iommu.c, `iommu_print_event`.

use super::super::{Device, scan};
use super::{Access, Cause, DmaFault, Reporter};

/// Bits of the flags of an `IO_PAGE_FAULT` (AMD I/O Virtualization Technology, section on event logging), from bit 0 on.
pub(super) const FLAGS: [&str; 9] = ["GN", "NX", "US", "I", "PR", "RW", "PE", "RZ", "TR"];
/// It was an interrupt.
const INTERRUPT: u64 = 1 << 3;
/// The page is marked as present.
const PRESENT: u64 = 1 << 4;
/// A write, as opposed to a read.
const WRITE: u64 = 1 << 5;
/// A page that is present does not permit the access.
const NOT_PERMITTED: u64 = 1 << 6;
/// An entry that is present has reserved bits set.
const RESERVED_BITS: u64 = 1 << 7;
/// The addresses of interrupts (AMD I/O Virtualization Technology, special address ranges).
const INTERRUPTS: std::ops::RangeInclusive<u64> = 0xfd_f800_0000..=0xfd_ffff_ffff;

/// `AMD-Vi: Event logged [IO_PAGE_FAULT device=00:14.0 domain=0x0000 address=0x0 flags=0x0020]`. Since 4.14 the device of a page
/// fault stands before the message instead, and that of the IOMMU before other events.
pub(super) fn read(body: &str, device: Option<&Device>) -> Option<DmaFault> {
    let inner = scan::after(body, "Event logged [")?;
    // Commands and invalidations are no accesses: see `AmdViMessage`.
    if ["IOTLB_INV_TIMEOUT", "ILLEGAL_COMMAND", "COMMAND_HARDWARE"].iter().any(|name| inner.starts_with(name))
    {
        return None;
    }
    let mut fault = DmaFault::reported_by(Reporter::AmdVi);
    fault.device = device.and_then(|device| device.bdf);
    add_event(&mut fault, inner);
    Some(fault)
}

/// Adds the event to a message that broke off before it, as up to 4.14, or the device to one that names none; `false` if the
/// line is neither.
pub(super) fn add_line(fault: &mut DmaFault, body: &str) -> bool {
    let body = body.strip_prefix("AMD-Vi:").unwrap_or(body).trim_start();
    if let Some(device) = body.strip_prefix("device=").filter(|_| fault.device.is_none()) {
        fault.device = scan::bdf(device);
        return true;
    }
    fault.reason.is_none() && body.contains(" flags=") && add_event(fault, body)
}

/// `IO_PAGE_FAULT device=05:00.0 domain=0x0012 address=0xff6101b0 flags=0x0070]`.
fn add_event(fault: &mut DmaFault, inner: &str) -> bool {
    let inner = inner.trim_end().trim_end_matches(']');
    let Some(name) = inner.split_whitespace().next() else { return false };
    fault.device = scan::after(inner, "device=").and_then(scan::bdf).or(fault.device);
    fault.address = scan::hex_after(inner, "address=").or_else(|| scan::hex_after(inner, "gpa="));
    fault.pasid = scan::after(inner, "pasid=").and_then(scan::small_hex).filter(|pasid| *pasid != 0);
    fault.reason = Some(if inner.contains('=') { name } else { inner }.to_owned());
    match name {
        "IO_PAGE_FAULT" => set_flags(fault, scan::hex_after(inner, " flags=")),
        name => fault.cause = cause_of_event(name),
    }
    true
}

/// What the events other than page faults prove.
fn cause_of_event(name: &str) -> Cause {
    match name {
        "ILLEGAL_DEV_TABLE_ENTRY" => Cause::InvalidEntry,
        "DEV_TAB_HARDWARE_ERROR" | "PAGE_TAB_HARDWARE_ERROR" | "RMP_HW_ERROR" => Cause::TableError,
        "INVALID_DEVICE_REQUEST" | "INVALID_PPR_REQUEST" => Cause::InvalidRequest,
        // SEV-SNP: the page belongs to a guest.
        "RMP_PAGE_FAULT" => Cause::NotPermitted,
        // "Device not attached to domain properly"
        "Device" => Cause::UnknownRequester,
        _ => Cause::Unknown,
    }
}

/// Sets what the flags of a page fault tell.
pub(super) fn set_flags(fault: &mut DmaFault, flags: Option<u64>) {
    if let Some(flags) = flags {
        fault.access = Some(if flags & WRITE == 0 { Access::Read } else { Access::Write });
        let names =
            super::bit_names(flags, &FLAGS).map_or_else(String::new, |names| format!(" with {names}"));
        fault.reason = fault.reason.take().map(|reason| format!("{reason}{names}"));
    }
    fault.cause = cause_of_flags(fault.address, flags);
}

/// What a page fault's flags and address prove.
fn cause_of_flags(address: Option<u64>, flags: Option<u64>) -> Cause {
    let is_set = |bit: u64| flags.is_some_and(|flags| flags & bit != 0);
    if is_set(INTERRUPT) || address.is_some_and(|address| INTERRUPTS.contains(&address)) {
        return Cause::Interrupt;
    }
    match flags {
        None => Cause::Unknown,
        Some(_) if !is_set(PRESENT) => Cause::NotMapped,
        Some(_) if is_set(NOT_PERMITTED) => Cause::NotPermitted,
        Some(_) if is_set(RESERVED_BITS) => Cause::TableError,
        Some(_) => Cause::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_of_page_faults() {
        let check = |address: u64, flags: u64, expect: Cause| {
            assert_eq!(cause_of_flags(Some(address), Some(flags)), expect, "{address:#x} {flags:#x}");
        };
        check(0x1000, 0x0000, Cause::NotMapped);
        check(0x1000, 0x0020, Cause::NotMapped);
        check(0x1000, 0x0050, Cause::NotPermitted);
        check(0x1000, 0x0070, Cause::NotPermitted);
        check(0x1000, 0x0090, Cause::TableError);
        check(0x1000, 0x0030, Cause::Unknown);
        check(0x1000, 0x0008, Cause::Interrupt);
        check(0xfd_f800_0000, 0x0000, Cause::Interrupt);
    }
}
