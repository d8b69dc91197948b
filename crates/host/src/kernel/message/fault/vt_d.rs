//! VT-d's faults: drivers/iommu/intel/dmar.c, `dmar_fault_do_one`; up to 3.0 drivers/pci/dmar.c.

use super::super::scan;
use super::{Access, Cause, DmaFault, Reporter};

/// What the kernel's words for a fault reason prove (`dma_remap_fault_reasons`, `dma_remap_sm_fault_reasons`): the first that
/// are contained, in lower case.
const CAUSES: [(&str, Cause); 25] = [
    ("bit in root entry is clear", Cause::UnknownRequester),
    ("bit in context entry is clear", Cause::UnknownRequester),
    ("bit in first-level paging entry is clear", Cause::NotMapped),
    ("pte write access is not set", Cause::NotMappedOrNotPermitted),
    ("pte read access is not set", Cause::NotMappedOrNotPermitted),
    ("read/write permission error", Cause::NotMappedOrNotPermitted),
    ("permission", Cause::NotPermitted),
    ("u/s set 0", Cause::NotPermitted),
    ("beyond", Cause::BeyondWidth),
    ("not canonical", Cause::BeyondWidth),
    ("reserved field", Cause::TableError),
    ("error attempting", Cause::TableError),
    ("invalid context entry", Cause::InvalidEntry),
    ("invalid scalable-mode", Cause::InvalidEntry),
    ("rid_pasid", Cause::InvalidEntry),
    ("dte field", Cause::InvalidRequest),
    ("pre field", Cause::InvalidRequest),
    ("page group request", Cause::InvalidRequest),
    ("specifies blocking", Cause::InvalidRequest),
    ("address-interrupt", Cause::InvalidRequest),
    ("re field is clear", Cause::InvalidRequest),
    ("pasid", Cause::UnknownPasid),
    ("directory entry", Cause::UnknownPasid),
    ("invalid", Cause::TableError),
    ("a/d bit update", Cause::TableError),
];

/// Reads a fault, or its first line.
pub(super) fn read(body: &str) -> Option<DmaFault> {
    parse(strip_prefix(body))
}

/// Reads a fault after the prefix of the driver.
pub(super) fn parse(rest: &str) -> Option<DmaFault> {
    parse_access_fault(rest).or_else(|| parse_interrupt_fault(rest))
}

/// The message without the prefix of the VT-d driver.
fn strip_prefix(body: &str) -> &str {
    // 3.6 says "dmar: DMAR:[DMA Read]".
    let rest = body.strip_prefix("dmar: ").unwrap_or(body);
    let rest = rest.strip_prefix("DMAR: ").unwrap_or(rest);
    rest.strip_prefix("DMAR:").unwrap_or(rest).trim_start()
}

/// `[DMA Read NO_PASID] Request device [03:00.0] fault addr 0x0 [fault reason 0x06] text`, and the older forms without PASID,
/// with decimal reasons, and with the reason on a line of its own.
fn parse_access_fault(rest: &str) -> Option<DmaFault> {
    let (kind, rest) = rest.strip_prefix("[DMA ")?.split_once(']')?;
    let mut fault = DmaFault::reported_by(Reporter::VtD);
    fault.access = parse_access(kind);
    let named = scan::between(rest, "Request device [", "]")?;
    fault.device = scan::bdf(named);
    fault.address = scan::hex_after(rest, "fault addr ");
    // Since 5.13 the PASID stands in the first brackets.
    let pasid = scan::after(kind, "PASID ").or_else(|| scan::after(rest, "PASID "));
    fault.pasid = pasid.and_then(scan::small_hex).filter(|pasid| *pasid != u32::MAX);
    add_reason(&mut fault, rest);
    Some(fault)
}

/// `[INTR-REMAP] Request device [f0:1f.0] fault index 0x0 [fault reason 0x25] text`; up to 3.x
/// `INTR-REMAP: Request device [[42:00.1] fault index b0`, with the reason on a line of its own.
fn parse_interrupt_fault(rest: &str) -> Option<DmaFault> {
    let rest = strip_interrupt_prefix(rest)?.trim_start().strip_prefix("Request device")?;
    let mut fault = DmaFault::reported_by(Reporter::VtD);
    fault.cause = Cause::Interrupt;
    fault.device = scan::bdf(rest.trim_start_matches([' ', '[']));
    // Both lines, where a text was folded anew.
    if !add_reason(&mut fault, rest)
        && let Some(reason) = scan::after(rest, "INTR-REMAP:")
    {
        add_bare_reason(&mut fault, reason);
    }
    Some(fault)
}

fn strip_interrupt_prefix(rest: &str) -> Option<&str> {
    rest.strip_prefix("[INTR-REMAP]").or_else(|| rest.strip_prefix("INTR-REMAP:"))
}

/// Parses `Read` or `Write`, in any case.
pub(super) fn parse_access(kind: &str) -> Option<Access> {
    match kind.split_whitespace().next()? {
        "Read" | "read" => Some(Access::Read),
        "Write" | "write" => Some(Access::Write),
        _ => None,
    }
}

/// Adds the reason from a line of its own; `false` if this is none.
pub(super) fn add_reason_line(fault: &mut DmaFault, body: &str) -> bool {
    let rest = strip_prefix(body);
    let rest = strip_interrupt_prefix(rest).unwrap_or(rest).trim_start();
    if !rest.starts_with('[') {
        return false;
    }
    fault.reason.is_none() && (add_reason(fault, rest) || add_bare_reason(fault, rest))
}

/// `INTR-REMAP:[] Present field in the IRTE entry is clear`: the number was lost with what stood in brackets.
fn add_bare_reason(fault: &mut DmaFault, rest: &str) -> bool {
    let Some(reason) = rest.strip_prefix("[]").or_else(|| rest.strip_prefix("[fault reason]")) else {
        return false;
    };
    set_reason(fault, None, reason);
    true
}

/// `[fault reason 05] text` in decimal up to 5.12, `[fault reason 0x05] text` in hexadecimal since.
fn add_reason(fault: &mut DmaFault, text: &str) -> bool {
    let after = scan::after(text, "[fault reason ").or_else(|| scan::after(text, "[Fault reason "));
    let Some((number, reason)) = after.and_then(|rest| rest.split_once(']')) else { return false };
    let code = if number.starts_with("0x") { scan::small_hex(number) } else { scan::small(number) };
    set_reason(fault, code, reason);
    true
}

/// Sets the reason, and the cause that it proves.
pub(super) fn set_reason(fault: &mut DmaFault, code: Option<u32>, reason: &str) {
    fault.code = code;
    fault.reason = Some(scan::words(reason)).filter(|reason| !reason.is_empty());
    if fault.cause != Cause::Interrupt {
        fault.cause = cause(code, reason);
    }
}

/// What a fault reason proves, by its words or else by its number.
fn cause(code: Option<u32>, reason: &str) -> Cause {
    let reason = reason.to_ascii_lowercase();
    let told = CAUSES.iter().find(|(words, _)| reason.contains(words)).map(|(_, cause)| *cause);
    told.unwrap_or(match code {
        Some(1 | 2) => Cause::UnknownRequester,
        Some(5 | 6) => Cause::NotMappedOrNotPermitted,
        _ => Cause::Unknown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_by_the_kernels_words() {
        let check = |reason: &str, expect: Cause| assert_eq!(cause(None, reason), expect, "{reason}");
        check("Present bit in context entry is clear", Cause::UnknownRequester);
        check("SM: Present bit in Root Entry is clear", Cause::UnknownRequester);
        check("Invalid context entry", Cause::InvalidEntry);
        check("Access beyond MGAW", Cause::BeyondWidth);
        check("PTE Write access is not set", Cause::NotMappedOrNotPermitted);
        check("SM: Read/Write permission error in second-level paging entry", Cause::NotMappedOrNotPermitted);
        check("SM: Present bit in first-level paging entry is clear", Cause::NotMapped);
        check("SM: No write permission for Write/AtomicOp request", Cause::NotPermitted);
        check("SM: No execute permission for request with PASID and ER=1", Cause::NotPermitted);
        check("non-zero reserved fields in PTE", Cause::TableError);
        check("Next page table ptr is invalid", Cause::TableError);
        check("SM: Non-zero reserved field set in PASID Table Entry", Cause::TableError);
        check("SM: Present bit in PASID Table Entry is clear", Cause::UnknownPasid);
        check("SM: Present bit in Directory Entry is clear", Cause::UnknownPasid);
        check("SM: SRE field is clear in PASID Table Entry", Cause::InvalidRequest);
        check("PCE for translation request specifies blocking", Cause::InvalidRequest);
        check("SM: DTE field in Context Entry is clear", Cause::InvalidRequest);
        check("Software", Cause::Unknown);
        assert_eq!(cause(Some(6), ""), Cause::NotMappedOrNotPermitted);
    }
}
