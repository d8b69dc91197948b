//! Events of SMMUs of version 3: drivers/iommu/arm/arm-smmu-v3/arm-smmu-v3.c, `arm_smmu_dump_event`.

use super::super::scan;
use super::vt_d::parse_access;
use super::{Access, Cause, DmaFault, Reporter};

/// The events by number, name and what they prove (Arm System MMU architecture, version 3, IHI 0070, section 7.3).
const EVENTS: [(u32, &str, Cause); 19] = [
    (0x01, "F_UUT", Cause::InvalidRequest),
    (0x02, "C_BAD_STREAMID", Cause::UnknownRequester),
    (0x03, "F_STE_FETCH", Cause::TableError),
    (0x04, "C_BAD_STE", Cause::InvalidEntry),
    (0x05, "F_BAD_ATS_TREQ", Cause::InvalidRequest),
    (0x06, "F_STREAM_DISABLED", Cause::UnknownPasid),
    (0x07, "F_TRANSL_FORBIDDEN", Cause::InvalidRequest),
    (0x08, "C_BAD_SUBSTREAMID", Cause::UnknownPasid),
    (0x09, "F_CD_FETCH", Cause::TableError),
    (0x0a, "C_BAD_CD", Cause::InvalidEntry),
    (0x0b, "F_WALK_EABT", Cause::TableError),
    (0x10, "F_TRANSLATION", Cause::NotMapped),
    (0x11, "F_ADDR_SIZE", Cause::BeyondWidth),
    (0x12, "F_ACCESS", Cause::NotPermitted),
    (0x13, "F_PERMISSION", Cause::NotPermitted),
    (0x20, "F_TLB_CONFLICT", Cause::TableError),
    (0x21, "F_CFG_CONFLICT", Cause::TableError),
    (0x24, "E_PAGE_REQUEST", Cause::InvalidRequest),
    (0x25, "F_VMS_FETCH", Cause::TableError),
];

/// `event 0x10 received:`, followed by the record's words and since 6.15 by `event: F_TRANSLATION client: ...`. Of a record whose
/// start is missing, the first word or the decoding is taken.
pub(super) fn read(body: &str) -> Option<DmaFault> {
    let mut fault = DmaFault::reported_by(Reporter::SmmuV3);
    let body = body.trim();
    if let Some(rest) = body.strip_prefix("event: ") {
        add_decoding(&mut fault, rest);
        return Some(fault);
    }
    if let Some(rest) = body.strip_prefix("event ") {
        rest.contains(" received:").then_some(())?;
        set_event(&mut fault, scan::small_hex(rest)?);
        return Some(fault);
    }
    let word = scan::raw_word(body)?;
    set_event(&mut fault, u32::try_from(word & 0xff).ok()?);
    fault.reason.as_ref()?;
    add_word(&mut fault, 0, word);
    Some(fault)
}

/// Adds a further line of an event; `false` if the line does not belong to it.
pub(super) fn add_line(fault: &mut DmaFault, words: &mut usize, is_decoded: &mut bool, body: &str) -> bool {
    if let Some(word) = scan::raw_word(body) {
        let is_next = *words < 4;
        if is_next {
            add_word(fault, *words, word);
            *words += 1;
        }
        return is_next;
    }
    if let Some(decoding) = body.strip_prefix("event: ").filter(|_| !*is_decoded) {
        add_decoding(fault, decoding);
        *is_decoded = true;
        return true;
    }
    // `unpriv data write s1 "Input address caused fault" stag: 0x0`: what the second word told already.
    if body.starts_with("priv ") || body.starts_with("unpriv ") {
        let mut words = body.split_whitespace().skip(1);
        let is_instruction = words.next() == Some("inst");
        fault.access = words.next().and_then(parse_access);
        set_origin(fault, is_instruction, words.next() == Some("s2"));
        return true;
    }
    false
}

/// Adds to the reason where the access came from, if that is unusual: no data, or not at the stage of the kernel's own domains.
fn set_origin(fault: &mut DmaFault, is_instruction: bool, is_stage_2: bool) {
    let Some(number) = fault.code else { return };
    set_event(fault, number);
    let of = if is_instruction { " of an instruction" } else { "" };
    let stage = if is_stage_2 { " at stage 2" } else { "" };
    fault.reason = fault.reason.take().map(|name| format!("{name}{of}{stage}"));
}

fn set_event(fault: &mut DmaFault, number: u32) {
    fault.code = Some(number);
    if let Some((_, name, cause)) = EVENTS.iter().find(|(known, ..)| *known == number) {
        fault.reason = Some((*name).to_owned());
        fault.cause = *cause;
    }
}

fn add_decoding(fault: &mut DmaFault, text: &str) {
    let name = text.split_whitespace().next().unwrap_or_default();
    if let Some((number, ..)) = EVENTS.iter().find(|(_, known, _)| *known == name) {
        set_event(fault, *number);
    }
    fault.device = scan::after(text, "client: ").and_then(scan::bdf);
    fault.stream = scan::after(text, " sid: ").and_then(scan::small_hex);
    fault.pasid = scan::after(text, " ssid: ").and_then(scan::small_hex).filter(|ssid| *ssid != 0);
    fault.address = scan::hex_after(text, " iova: ").or_else(|| scan::hex_after(text, " fetch_addr: "));
}

/// The words of an event record (IHI 0070, section 7.3): stream in the upper half of the first, its substream where bit 11 is
/// set; for translation faults bits 34, 35 and 39 of the second are InD, RnW and S2, and the third is the input address.
fn add_word(fault: &mut DmaFault, position: usize, word: u64) {
    let is_translation = matches!(fault.code, Some(0x10..=0x13));
    match position {
        0 => {
            fault.stream = u32::try_from(word >> 32).ok();
            let substream = u32::try_from(word >> 12 & 0xf_ffff).ok();
            fault.pasid = substream.filter(|_| word >> 11 & 1 == 1);
        }
        1 if is_translation => {
            fault.access = Some(if word >> 35 & 1 == 1 { Access::Read } else { Access::Write });
            set_origin(fault, word >> 34 & 1 == 1, word >> 39 & 1 == 1);
        }
        2 if is_translation => fault.address = Some(word),
        _ => {}
    }
}
