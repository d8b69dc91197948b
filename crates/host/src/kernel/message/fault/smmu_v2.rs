//! Faults of SMMUs of versions 1 and 2: drivers/iommu/arm/arm-smmu/arm-smmu.c, `arm_smmu_context_fault` and
//! `arm_smmu_global_fault`.
//!
//! Bits by the Arm System MMU Architecture Specification (IHI 0062): `SMMU_CBn_FSR`, `SMMU_CBn_FSYNR0`, `SMMU_sGFSR`,
//! `SMMU_sGFSYNR0`.

use super::super::scan;
use super::{Access, Cause, DmaFault, Reporter, bit_names};

/// Names of the bits of a context's fault status, from bit 0 on.
const CONTEXT_STATUS: [&str; 9] = ["", "TF", "AFF", "PF", "EF", "TLBMCF", "TLBLKF", "ASF", "UUT"];
/// Names of the bits of the global fault status.
const GLOBAL_STATUS: [&str; 9] = ["ICF", "USF", "SMCF", "UCBF", "UCIF", "CAF", "EF", "PF", "UUT"];
/// A write, in the syndrome of a context.
const CONTEXT_WRITE: u64 = 1 << 4;
/// A write, in the global syndrome.
const GLOBAL_WRITE: u64 = 1 << 1;

/// Reads a fault, or its first line.
pub(super) fn read(body: &str) -> Option<DmaFault> {
    let body = body.trim_start();
    parse_context_fault(body)
        .or_else(|| parse_blocked_stream(body))
        .or_else(|| parse_global_fault(body))
        .or_else(|| of_line(body, add_decoded_line))
}

/// Adds a further line of a fault; `false` if the line belongs to none.
pub(super) fn add_line(fault: &mut DmaFault, body: &str) -> bool {
    add_global_status(fault, body) || add_decoded_line(fault, body)
}

/// A fault of which only this line is left.
fn of_line(body: &str, add: fn(&mut DmaFault, &str) -> bool) -> Option<DmaFault> {
    let mut fault = DmaFault::reported_by(Reporter::SmmuV2);
    (body.starts_with("FSR") && add(&mut fault, body)).then_some(fault)
}

/// `Unhandled context fault: fsr=0x402, iova=0x3165687460, fsynr=0x20001, cbfrsynra=0x877, cb=1`; up to 4.4 without `fsr=`; in
/// kernels of NVIDIA with `sid=17(0x11 - AFI)` and the entries of the page tables at the end.
fn parse_context_fault(body: &str) -> Option<DmaFault> {
    let rest = body.strip_prefix("Unhandled context fault: ")?;
    let mut fault = DmaFault::reported_by(Reporter::SmmuV2);
    fault.address = scan::hex_after(rest, "iova=");
    let in_brackets = || scan::between(rest, "sid=", ")").and_then(|sid| scan::after(sid, "("));
    fault.stream = scan::after(rest, "cbfrsynra=").or_else(in_brackets).and_then(scan::small_hex);
    set_context_syndrome(&mut fault, scan::hex_after(rest, "fsynr="));
    let is_empty = ["pte=0", "pmd=0", "pud=0", "pgd=0"].iter().any(|entry| is_word(rest, entry));
    // A context is what translates a stream.
    fault.cause = if is_empty { Cause::NotMapped } else { Cause::NotMappedOrNotPermitted };
    if let Some(status) = scan::hex_after(rest, "fsr=") {
        set_context_status(&mut fault, status);
    }
    Some(fault)
}

/// Whether a word stands in a list with commas.
fn is_word(list: &str, word: &str) -> bool {
    list.split([',', ' ']).any(|part| part.trim() == word)
}

/// `Blocked unknown Stream ID 0x429; boot with "arm-smmu.disable_bypass=0" to allow, but this may have security implications`.
fn parse_blocked_stream(body: &str) -> Option<DmaFault> {
    let rest = body.strip_prefix("Blocked unknown Stream ID ")?;
    let mut fault = DmaFault::reported_by(Reporter::SmmuV2);
    fault.stream = scan::small_hex(rest);
    set_global_status(&mut fault, 1 << 1);
    Some(fault)
}

/// `Unexpected global fault, this could be serious`, with the registers on the next line, or that line alone.
fn parse_global_fault(body: &str) -> Option<DmaFault> {
    let mut fault = DmaFault::reported_by(Reporter::SmmuV2);
    let is_first = body.starts_with("Unexpected global fault");
    (is_first || add_global_status(&mut fault, body)).then_some(fault)
}

/// `GFSR 0x80000002, GFSYNR0 0x00000002, GFSYNR1 0x00000429, GFSYNR2 0x00000000`.
fn add_global_status(fault: &mut DmaFault, body: &str) -> bool {
    let Some(status) = body.strip_prefix("GFSR ").and_then(scan::hex) else { return false };
    set_global_status(fault, status);
    fault.stream = scan::hex_after(body, "GFSYNR1 ").and_then(|bits| u32::try_from(bits & 0xffff).ok());
    let syndrome = scan::hex_after(body, "GFSYNR0 ");
    fault.access = syndrome.map(|bits| access(bits, GLOBAL_WRITE));
    true
}

/// `FSR    = 00000402 [Format=2 TF], SID=0x1c00` and `FSYNR0 = 00000011 [S1CBNDX=0 WNR PLVL=1]`, since 6.12.
fn add_decoded_line(fault: &mut DmaFault, body: &str) -> bool {
    let Some((register, rest)) = body.split_once('=') else { return false };
    let Some(bits) = scan::hex(rest.trim_start()) else { return false };
    match register.trim_end() {
        "FSR" => {
            set_context_status(fault, bits);
            fault.stream = scan::after(rest, "SID=").and_then(scan::small_hex).or(fault.stream);
        }
        "FSYNR0" => set_context_syndrome(fault, Some(bits)),
        _ => return false,
    }
    true
}

fn set_context_syndrome(fault: &mut DmaFault, syndrome: Option<u64>) {
    fault.access = syndrome.map(|bits| access(bits, CONTEXT_WRITE));
}

fn access(syndrome: u64, write: u64) -> Access {
    if syndrome & write == 0 { Access::Read } else { Access::Write }
}

fn set_context_status(fault: &mut DmaFault, status: u64) {
    fault.code = u32::try_from(status).ok();
    fault.reason = bit_names(status, &CONTEXT_STATUS);
    fault.cause = match status {
        status if status & 0b10 != 0 => Cause::NotMapped,
        status if status & 0b1100 != 0 => Cause::NotPermitted,
        status if status & 0b111_0000 != 0 => Cause::TableError,
        status if status & (1 << 7) != 0 => Cause::BeyondWidth,
        status if status & (1 << 8) != 0 => Cause::InvalidRequest,
        _ => Cause::Unknown,
    };
}

fn set_global_status(fault: &mut DmaFault, status: u64) {
    fault.code = u32::try_from(status).ok();
    fault.reason = bit_names(status, &GLOBAL_STATUS);
    fault.cause = match status {
        // A stream without a domain matches no entry, or one whose type is "fault".
        status if status & 0b11 != 0 => Cause::UnknownRequester,
        status if status & 0b100 != 0 => Cause::InvalidEntry,
        status if status & (1 << 6) != 0 => Cause::TableError,
        status if status & (1 << 7) != 0 => Cause::NotPermitted,
        status if status & (1 << 8) != 0 => Cause::InvalidRequest,
        _ => Cause::Unknown,
    };
}
