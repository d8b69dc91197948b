//! Accesses that an IOMMU refused.
//!
//! Sources: drivers/iommu/intel/dmar.c `dmar_fault_do_one`, drivers/iommu/amd/iommu.c
//! `iommu_print_event`, drivers/iommu/arm/arm-smmu-v3/arm-smmu-v3.c `arm_smmu_handle_evt`,
//! drivers/iommu/arm/arm-smmu/arm-smmu.c `arm_smmu_context_fault`.

use super::{Device, Message, scan};
use crate::Bdf;

/// Which kind of IOMMU reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reporter {
    /// Intel VT-d.
    VtD,
    /// AMD-Vi.
    AmdVi,
    /// Arm SMMU, versions 1 and 2.
    SmmuV2,
    /// Arm SMMU, version 3.
    SmmuV3,
}

/// What the device tried to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read memory.
    Read,
    /// Write memory.
    Write,
}

/// One refused access. What the message does not tell is absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DmaFault {
    /// Who refused.
    pub reporter: Reporter,
    /// The device.
    pub device: Option<Bdf>,
    /// The stream that an SMMU tells devices apart by.
    pub stream: Option<u32>,
    /// The I/O address.
    pub address: Option<u64>,
    /// Read or write.
    pub access: Option<Access>,
    /// PASID, if the access carried one.
    pub pasid: Option<u32>,
    /// The hardware's number for the reason: VT-d's fault reason, SMMUv3's event, SMMUv2's status.
    pub code: Option<u32>,
    /// The reason in the kernel's words.
    pub reason: Option<String>,
}

impl DmaFault {
    /// A fault of which only the reporter is known yet.
    fn reported_by(reporter: Reporter) -> Self {
        Self {
            reporter,
            device: None,
            stream: None,
            address: None,
            access: None,
            pasid: None,
            code: None,
            reason: None,
        }
    }
}

/// Reads a message that reports a fault, or the first line of one.
pub(super) fn read(body: &str, device: Option<&Device>) -> Option<DmaFault> {
    match body.as_bytes().first()? {
        b'D' | b'd' if body.contains("Request device") => parse_vt_d(body),
        b'A' | b'E' if body.contains("Event logged") => amd_vi(body, device),
        b'e' if is_smmu(device) => smmu_v3(body),
        b'U' if is_smmu(device) => smmu_v2(body),
        _ => None,
    }
}

/// Whether the message was printed for an SMMU.
fn is_smmu(device: Option<&Device>) -> bool {
    device.is_some_and(|device| device.driver.starts_with("arm-smmu") || device.name.contains("smmu"))
}

/// `DMAR: [DMA Read NO_PASID] Request device [03:00.0] fault addr 0x0 [fault reason 0x06] text`, and the
/// older forms without PASID, with decimal reasons, and with the reason on a line of its own.
fn parse_vt_d(body: &str) -> Option<DmaFault> {
    let rest = strip_vt_d(body)?.strip_prefix("[DMA ")?;
    let mut fault = DmaFault::reported_by(Reporter::VtD);
    let (kind, rest) = rest.split_once(']')?;
    fault.access = parse_access(kind);
    let named = scan::between(rest, "Request device [", "]")?;
    fault.device = scan::bdf(named);
    fault.address = scan::hex_after(rest, "fault addr ");
    fault.pasid = scan::after(rest, "PASID ").and_then(scan::small_hex).filter(|pasid| *pasid != u32::MAX);
    add_vt_d_reason(&mut fault, rest);
    Some(fault)
}

/// The message without the prefix of the VT-d driver.
fn strip_vt_d(body: &str) -> Option<&str> {
    // 3.6 says "dmar: DMAR:[DMA Read]".
    let rest = body.strip_prefix("dmar: ").unwrap_or(body);
    let rest = rest.strip_prefix("DMAR: ").unwrap_or(rest);
    Some(rest.strip_prefix("DMAR:").unwrap_or(rest).trim_start())
}

/// Parses `Read` or `Write`.
fn parse_access(kind: &str) -> Option<Access> {
    match kind.split_whitespace().next()? {
        "Read" | "read" => Some(Access::Read),
        "Write" | "write" => Some(Access::Write),
        _ => None,
    }
}

/// `[fault reason 05] text` in decimal up to 5.10, `[fault reason 0x05] text` in hexadecimal since.
fn add_vt_d_reason(fault: &mut DmaFault, text: &str) -> bool {
    let after = scan::after(text, "[fault reason ").or_else(|| scan::after(text, "[Fault reason "));
    let Some((number, reason)) = after.and_then(|rest| rest.split_once(']')) else { return false };
    fault.code = if number.starts_with("0x") { scan::small_hex(number) } else { scan::small(number) };
    fault.reason = Some(scan::words(reason)).filter(|reason| !reason.is_empty());
    true
}

/// `AMD-Vi: Event logged [IO_PAGE_FAULT device=00:14.0 domain=0x0000 address=0x0 flags=0x0020]`; since
/// 4.14 the device stands before the message instead.
fn amd_vi(body: &str, device: Option<&Device>) -> Option<DmaFault> {
    let inner = scan::after(body, "Event logged [")?;
    let mut fault = DmaFault::reported_by(Reporter::AmdVi);
    fault.device = device.and_then(|device| device.bdf);
    add_amd_vi_event(&mut fault, inner);
    Some(fault)
}

/// `IO_PAGE_FAULT device=05:00.0 domain=0x0012 address=0xff6101b0 flags=0x0070]`, which up to 4.14 is a line of its own.
fn add_amd_vi_event(fault: &mut DmaFault, inner: &str) -> bool {
    let inner = inner.trim_end().trim_end_matches(']');
    let Some(name) = inner.split_whitespace().next() else { return false };
    fault.device = scan::after(inner, "device=").and_then(scan::bdf).or(fault.device);
    fault.address = scan::hex_after(inner, "address=");
    fault.pasid = scan::after(inner, "pasid=").and_then(scan::small_hex).filter(|pasid| *pasid != 0);
    // Bit 5 of the flags is RW (AMD I/O Virtualization Technology, IO_PAGE_FAULT event).
    if name == "IO_PAGE_FAULT" {
        let flags = scan::hex_after(inner, "flags=");
        fault.access = flags.map(|flags| if flags & 0x20 == 0 { Access::Read } else { Access::Write });
    }
    fault.reason = Some(name.to_owned());
    true
}

/// `event 0x10 received:`, followed by raw words, or since 7.x `event: F_TRANSLATION client: ...`.
fn smmu_v3(body: &str) -> Option<DmaFault> {
    if let Some(rest) = body.strip_prefix("event: ") {
        let mut fault = DmaFault::reported_by(Reporter::SmmuV3);
        add_decoded_event(&mut fault, rest);
        return Some(fault);
    }
    let rest = body.strip_prefix("event ")?;
    rest.contains(" received:").then_some(())?;
    let mut fault = DmaFault::reported_by(Reporter::SmmuV3);
    fault.code = scan::small_hex(rest);
    fault.reason = fault.code.and_then(smmu_v3_event).map(str::to_owned);
    Some(fault)
}

fn add_decoded_event(fault: &mut DmaFault, text: &str) {
    fault.reason = text.split_whitespace().next().map(str::to_owned);
    fault.device = scan::after(text, "client: ").and_then(scan::bdf);
    fault.stream = scan::after(text, " sid: ").and_then(scan::small_hex);
    fault.pasid = scan::after(text, " ssid: ").and_then(scan::small_hex).filter(|ssid| *ssid != 0);
    fault.address = scan::hex_after(text, " iova: ").or_else(|| scan::hex_after(text, " fetch_addr: "));
}

/// The events' names in the SMMUv3 architecture (Arm IHI 0070, section 7.3).
fn smmu_v3_event(number: u32) -> Option<&'static str> {
    Some(match number {
        0x01 => "F_UUT",
        0x02 => "C_BAD_STREAMID",
        0x03 => "F_STE_FETCH",
        0x04 => "C_BAD_STE",
        0x06 => "F_STREAM_DISABLED",
        0x08 => "C_BAD_SUBSTREAMID",
        0x09 => "F_CD_FETCH",
        0x0a => "C_BAD_CD",
        0x0b => "F_WALK_EABT",
        0x10 => "F_TRANSLATION",
        0x11 => "F_ADDR_SIZE",
        0x12 => "F_ACCESS",
        0x13 => "F_PERMISSION",
        0x20 => "F_TLB_CONFLICT",
        0x21 => "F_CFG_CONFLICT",
        _ => return None,
    })
}

/// `Unhandled context fault: fsr=0x402, iova=0x3165687460, fsynr=0x20001, cbfrsynra=0x877, cb=1`; up to
/// 4.4 without `fsr=`.
fn smmu_v2(body: &str) -> Option<DmaFault> {
    let rest = body.strip_prefix("Unhandled context fault: ")?;
    let mut fault = DmaFault::reported_by(Reporter::SmmuV2);
    fault.code = scan::after(rest, "fsr=").and_then(scan::small_hex);
    fault.address = scan::hex_after(rest, "iova=");
    fault.stream = scan::after(rest, "cbfrsynra=").and_then(scan::small_hex);
    // FSYNR0 bit 4 is WNR, write not read.
    let syndrome = scan::hex_after(rest, "fsynr=");
    fault.access = syndrome.map(|bits| if bits & 0x10 == 0 { Access::Read } else { Access::Write });
    Some(fault)
}

/// A fault whose further lines are still to come.
pub(super) struct Pending {
    /// Raw words of an SMMUv3 event seen so far.
    raw_words: usize,
}

impl Pending {
    /// What may follow a message.
    pub(super) fn after(message: &Message) -> Option<Self> {
        let Message::Fault(fault) = message else { return None };
        let more = match fault.reporter {
            Reporter::VtD => fault.code.is_none(),
            Reporter::SmmuV3 => true,
            Reporter::AmdVi => fault.reason.is_none(),
            Reporter::SmmuV2 => false,
        };
        more.then_some(Self { raw_words: 0 })
    }

    /// Adds a line to the fault it belongs to; `false` if it belongs to none.
    pub(super) fn take_line(&mut self, message: &mut Message, body: &str) -> bool {
        let Message::Fault(fault) = message else { return false };
        match fault.reporter {
            Reporter::VtD if fault.code.is_none() => {
                let reason = strip_vt_d(body).filter(|rest| rest.starts_with("[fault reason "));
                reason.is_some_and(|rest| add_vt_d_reason(fault, rest))
            }
            Reporter::AmdVi if fault.reason.is_none() && body.contains(" flags=") => {
                add_amd_vi_event(fault, body.trim_start())
            }
            Reporter::SmmuV3 => self.take_smmu_line(fault, body.trim()),
            _ => false,
        }
    }

    /// Adds a follow-up line of an SMMU's message to its fault; false if the line does not belong to it.
    fn take_smmu_line(&mut self, fault: &mut DmaFault, body: &str) -> bool {
        if body.starts_with("0x") && !body.contains(' ') && self.raw_words < 4 {
            let Some(word) = scan::hex(body) else { return false };
            add_raw_word(fault, self.raw_words, word);
            self.raw_words += 1;
            return true;
        }
        if let Some(decoded) = body.strip_prefix("event: ").filter(|_| self.raw_words > 0) {
            add_decoded_event(fault, decoded);
            return true;
        }
        // "unpriv data write s1 "Input address caused fault" stag: 0x0"
        if body.starts_with("priv ") || body.starts_with("unpriv ") {
            fault.access = body.split_whitespace().nth(2).and_then(parse_access);
            return true;
        }
        false
    }
}

/// The words of an event record (IHI 0070, section 7.3): stream in the upper half of the first; for
/// translation faults RnW is bit 35 of the second and the third is the input address.
fn add_raw_word(fault: &mut DmaFault, position: usize, word: u64) {
    let is_translation = matches!(fault.code, Some(0x10..=0x13));
    match position {
        0 => fault.stream = u32::try_from(word >> 32).ok(),
        1 if is_translation => {
            fault.access = Some(if word >> 35 & 1 == 1 { Access::Read } else { Access::Write });
        }
        2 if is_translation => fault.address = Some(word),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    fn check(log: &str, expect: &str) {
        super::super::tests::check(log, "Fault", expect);
    }

    #[test]
    fn messages() {
        check(
            "DMAR:[DMA Read] Request device [0b:00.0] fault addr f0d9a000 \nDMAR:[fault reason 06] PTE Read access is not set",
            r#"DmaFault { reporter: VtD, device: Some(0000:0b:00.0), stream: None, address: Some(4040794112), access: Some(Read), pasid: None, code: Some(6), reason: Some("PTE Read access is not set") }"#,
        );
        check(
            "dmar: DMAR:[DMA Write] Request device [03:00.0] fault addr ffff0000 \nDMAR:[fault reason 05] PTE Write access is not set",
            r#"DmaFault { reporter: VtD, device: Some(0000:03:00.0), stream: None, address: Some(4294901760), access: Some(Write), pasid: None, code: Some(5), reason: Some("PTE Write access is not set") }"#,
        );
        check(
            "DMAR: [DMA Write] Request device [03:00.0] fault addr ffff0000 [fault reason 05] PTE Write access is not set",
            r#"DmaFault { reporter: VtD, device: Some(0000:03:00.0), stream: None, address: Some(4294901760), access: Some(Write), pasid: None, code: Some(5), reason: Some("PTE Write access is not set") }"#,
        );
        check(
            "DMAR: [DMA Read] Request device [00:02.0] PASID ffffffff fault addr 7000 [fault reason 12] non-zero reserved fields in PTE",
            r#"DmaFault { reporter: VtD, device: Some(0000:00:02.0), stream: None, address: Some(28672), access: Some(Read), pasid: None, code: Some(12), reason: Some("non-zero reserved fields in PTE") }"#,
        );
        check(
            "DMAR: [DMA Read NO_PASID] Request device [00:02.0] fault addr 0x7000 [fault reason 0x06] PTE Read access is not set",
            r#"DmaFault { reporter: VtD, device: Some(0000:00:02.0), stream: None, address: Some(28672), access: Some(Read), pasid: None, code: Some(6), reason: Some("PTE Read access is not set") }"#,
        );
        check(
            "DMAR: [DMA Write PASID 0x5] Request device [0001:00:02.0] fault addr 0x7000 [fault reason 0x71] SM: Present bit in first-level paging entry is clear",
            r#"DmaFault { reporter: VtD, device: Some(0001:00:02.0), stream: None, address: Some(28672), access: Some(Write), pasid: None, code: Some(113), reason: Some("SM: Present bit in first-level paging entry is clear") }"#,
        );
        check(
            "AMD-Vi: Event logged [IO_PAGE_FAULT device=00:14.0 domain=0x0000 address=0x0000000000001000 flags=0x0020]",
            r#"DmaFault { reporter: AmdVi, device: Some(0000:00:14.0), stream: None, address: Some(4096), access: Some(Write), pasid: None, code: None, reason: Some("IO_PAGE_FAULT") }"#,
        );
        check(
            "nvme 0000:01:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x000b address=0xfffff000 flags=0x0000]",
            r#"DmaFault { reporter: AmdVi, device: Some(0000:01:00.0), stream: None, address: Some(4294963200), access: Some(Read), pasid: None, code: None, reason: Some("IO_PAGE_FAULT") }"#,
        );
        check(
            "AMD-Vi: Event logged [IOTLB_INV_TIMEOUT device=0000:0a:00.0 address=0x7f8f0]",
            r#"DmaFault { reporter: AmdVi, device: Some(0000:0a:00.0), stream: None, address: Some(522480), access: None, pasid: None, code: None, reason: Some("IOTLB_INV_TIMEOUT") }"#,
        );
        check(
            "arm-smmu-v3 9050000.smmuv3: event 0x10 received:\narm-smmu-v3 9050000.smmuv3: \t0x0000002000000010\narm-smmu-v3 9050000.smmuv3: \t0x0000020800000000\narm-smmu-v3 9050000.smmuv3: \t0x00000000ffff0000\narm-smmu-v3 9050000.smmuv3: \t0x0000000000000000",
            r#"DmaFault { reporter: SmmuV3, device: None, stream: Some(32), address: Some(4294901760), access: Some(Read), pasid: None, code: Some(16), reason: Some("F_TRANSLATION") }"#,
        );
        check(
            "arm-smmu-v3 arm-smmu-v3.0.auto: event 0x10 received:\narm-smmu-v3 arm-smmu-v3.0.auto: \t0x0000010000000010\narm-smmu-v3 arm-smmu-v3.0.auto: \t0x0000020000000000\narm-smmu-v3 arm-smmu-v3.0.auto: \t0x00000000ffff0000\narm-smmu-v3 arm-smmu-v3.0.auto: \t0x0000000000000000\narm-smmu-v3 arm-smmu-v3.0.auto: event: F_TRANSLATION client: 0000:01:00.0 sid: 0x100 ssid: 0x0 iova: 0xffff0000 ipa: 0x0\narm-smmu-v3 arm-smmu-v3.0.auto: unpriv data write s1 \"Input address caused fault\" stag: 0x0",
            r#"DmaFault { reporter: SmmuV3, device: Some(0000:01:00.0), stream: Some(256), address: Some(4294901760), access: Some(Write), pasid: None, code: Some(16), reason: Some("F_TRANSLATION") }"#,
        );
        check(
            "arm-smmu fd800000.smmu: Unhandled context fault: fsr=0x402, iova=0x3165687460, fsynr=0x20001, cbfrsynra=0x877, cb=1",
            "DmaFault { reporter: SmmuV2, device: None, stream: Some(2167), address: Some(212154741856), access: Some(Read), pasid: None, code: Some(1026), reason: None }",
        );
        check(
            "arm-smmu 2b500000.smmu: Unhandled context fault: iova=0x00001000, fsynr=0x11, cb=1",
            "DmaFault { reporter: SmmuV2, device: None, stream: None, address: Some(4096), access: Some(Write), pasid: None, code: None, reason: None }",
        );
        check(
            "AMD-Vi: Event logged [\nIO_PAGE_FAULT device=05:00.0 domain=0x0012 address=0x00000000ff6101b0 flags=0x0070]",
            r#"DmaFault { reporter: AmdVi, device: Some(0000:05:00.0), stream: None, address: Some(4284547504), access: Some(Write), pasid: None, code: None, reason: Some("IO_PAGE_FAULT") }"#,
        );
    }
}
