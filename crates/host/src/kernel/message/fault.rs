//! Accesses and interrupts that an IOMMU refused: one file for each kind of IOMMU, which names its sources.

mod amd_vi;
mod smmu_v2;
mod smmu_v3;
mod virtio;
mod vt_d;
mod xen;

use super::{Device, Message, SmmuMessage, scan};
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
    /// A paravirtual IOMMU.
    Virtio,
}

/// What the device tried to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read memory.
    Read,
    /// Write memory.
    Write,
}

/// What the hardware's record of a fault proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Nothing is mapped at the address.
    NotMapped,
    /// The page is mapped, but not for such an access.
    NotPermitted,
    /// Either of both: VT-d reports a missing page and a page that must not be read or written alike.
    NotMappedOrNotPermitted,
    /// The address has more bits than the IOMMU or the domain's tables.
    BeyondWidth,
    /// The IOMMU has no entry for the requester: nothing of it passes.
    UnknownRequester,
    /// The IOMMU has an entry for the requester and rejects the entry itself: nothing of it passes.
    InvalidEntry,
    /// No address space is attached for the PASID of the access.
    UnknownPasid,
    /// The requester's entry does not allow this kind of request: translated ones, requests for translations or pages.
    InvalidRequest,
    /// The IOMMU could not read its tables, or found nonsense in them.
    TableError,
    /// It was an interrupt, no access to memory.
    Interrupt,
    /// The record does not tell.
    Unknown,
}

/// One refused access. What the message does not tell is absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DmaFault {
    /// Who refused.
    pub reporter: Reporter,
    /// Xen's hypervisor printed it, which then drives the IOMMU.
    pub by_xen: bool,
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
    /// What the record proves.
    pub cause: Cause,
    /// The hardware's number for the reason: VT-d's fault reason, SMMUv3's event, SMMUv2's status.
    pub code: Option<u32>,
    /// The reason in the kernel's words, or the names of the bits that are set.
    pub reason: Option<String>,
}

impl DmaFault {
    /// A fault of which only the reporter is known yet.
    fn reported_by(reporter: Reporter) -> Self {
        Self {
            reporter,
            by_xen: false,
            device: None,
            stream: None,
            address: None,
            access: None,
            pasid: None,
            cause: Cause::Unknown,
            code: None,
            reason: None,
        }
    }
}

/// Reads a message that reports a fault, or the first line of one.
pub(super) fn read(body: &str, device: Option<&Device>) -> Option<DmaFault> {
    if is_smmu(device) {
        return smmu_v3::read(body).or_else(|| smmu_v2::read(body));
    }
    if device.is_some_and(|device| device.driver == "virtio_iommu") {
        return virtio::read(body);
    }
    match body.as_bytes().first()? {
        b'D' | b'd' | b'I' => vt_d::read(body),
        b'A' | b'E' => amd_vi::read(body, device).or_else(|| xen::read(body)),
        b'[' => xen::read(body),
        _ => None,
    }
}

/// Whether the message was printed for an SMMU.
fn is_smmu(device: Option<&Device>) -> bool {
    device.is_some_and(|device| device.driver.contains("arm-smmu") || device.name.contains("smmu"))
}

/// The names of the bits that are set, as `names` lists them from bit 0 on; those without a name are left out.
fn bit_names(bits: u64, names: &[&str]) -> Option<String> {
    let is_set = |position: usize| bits >> position & 1 == 1;
    let set = names.iter().enumerate().filter(|(position, name)| is_set(*position) && !name.is_empty());
    let set: Vec<&str> = set.map(|(_, name)| *name).collect();
    (!set.is_empty()).then(|| set.join(" "))
}

/// What the lines after a message may belong to.
pub(super) enum Pending {
    /// A fault whose further lines are still to come.
    Fault {
        /// Words of an SMMUv3 event record seen so far.
        words: usize,
        /// The kernel's own decoding of the record was seen.
        is_decoded: bool,
    },
    /// A command that an SMMUv3 rejected: its words follow, which look like those of an event.
    RejectedCommand,
}

impl Pending {
    /// What may follow a message.
    pub(super) fn after(message: &Message) -> Option<Self> {
        let fault = match message {
            Message::Fault(fault) => fault,
            Message::Smmu(SmmuMessage::CommandError(_)) => return Some(Self::RejectedCommand),
            _ => return None,
        };
        let more = match fault.reporter {
            Reporter::VtD => fault.reason.is_none(),
            Reporter::AmdVi => fault.reason.is_none() || fault.device.is_none(),
            Reporter::SmmuV2 | Reporter::SmmuV3 => true,
            Reporter::Virtio => false,
        };
        // A record whose first lines were cut off begins with its first word, or with the decoding of it.
        let is_smmu_v3 = fault.reporter == Reporter::SmmuV3;
        let words = usize::from(is_smmu_v3 && fault.stream.is_some());
        more.then_some(Self::Fault { words, is_decoded: is_smmu_v3 && fault.device.is_some() })
    }

    /// Adds a line to the fault it belongs to; `false` if it belongs to none.
    pub(super) fn take_line(&mut self, message: &mut Message, body: &str) -> bool {
        let (words, is_decoded) = match self {
            Self::RejectedCommand => return is_command_dump(body.trim()),
            Self::Fault { words, is_decoded } => (words, is_decoded),
        };
        let Message::Fault(fault) = message else { return false };
        match fault.reporter {
            Reporter::VtD if fault.by_xen => xen::add_reason(fault, body),
            Reporter::VtD => vt_d::add_reason_line(fault, body),
            Reporter::AmdVi => amd_vi::add_line(fault, body),
            Reporter::Virtio => false,
            Reporter::SmmuV2 => smmu_v2::add_line(fault, body.trim()),
            Reporter::SmmuV3 => smmu_v3::add_line(fault, words, is_decoded, body.trim()),
        }
    }
}

/// `skipping command in error state:` and the words of the command.
fn is_command_dump(body: &str) -> bool {
    body.starts_with("skipping command") || scan::raw_word(body).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Text;
    use crate::kernel::Log;

    /// Checks that `log` holds one message, a fault, and what it says: reporter, device, stream, access, address and PASID where
    /// they are told, the cause, and the reason.
    fn check(log: &str, expect: &str) {
        let text = Text::new("dmesg", log);
        let messages = super::super::classify(&Log::parse(&text));
        let got: Vec<String> = messages.iter().map(|logged| shown(&logged.message)).collect();
        assert_eq!(got, [expect], "{log}");
    }

    fn shown(message: &Message) -> String {
        let Message::Fault(fault) = message else { return format!("{message:?}") };
        let told = [
            fault.by_xen.then(|| "by Xen".to_owned()),
            fault.device.map(|device| device.to_string()),
            fault.stream.map(|stream| format!("stream {stream:#x}")),
            fault.access.map(|access| format!("{access:?}")),
            fault.address.map(|address| format!("{address:#x}")),
            fault.pasid.map(|pasid| format!("pasid {pasid:#x}")),
            Some(format!("{:?}", fault.cause)),
        ];
        let told: Vec<String> = told.into_iter().flatten().collect();
        let reason = fault.reason.as_deref().unwrap_or("-");
        format!("{:?} {}: {reason}", fault.reporter, told.join(" "))
    }

    #[test]
    fn faults_of_vt_d() {
        let write = "VtD 0000:03:00.0 Write 0xffff0000 NotMappedOrNotPermitted: PTE Write access is not set";
        for log in [
            "DMAR:[DMA Write] Request device [03:00.0] fault addr ffff0000 \nDMAR:[fault reason 05] PTE Write access is not set",
            "dmar: DMAR:[DMA Write] Request device [03:00.0] fault addr ffff0000 \nDMAR:[fault reason 05] PTE Write access is not set",
            "DMAR: [DMA Write] Request device [03:00.0] fault addr ffff0000 [fault reason 05] PTE Write access is not set",
            "DMAR: [DMA Write NO_PASID] Request device [0000:03:00.0] fault addr 0xffff0000 [fault reason 0x05] PTE Write access is not set",
        ] {
            check(log, write);
        }
        check(
            "DMAR: [DMA Read] Request device [00:02.0] PASID ffffffff fault addr 7000 [fault reason 12] non-zero reserved fields in PTE",
            "VtD 0000:00:02.0 Read 0x7000 TableError: non-zero reserved fields in PTE",
        );
        check(
            "DMAR: [DMA Write PASID 0x5] Request device [0001:00:02.0] fault addr 0x7000 [fault reason 0x71] SM: Present bit in first-level paging entry is clear",
            "VtD 0001:00:02.0 Write 0x7000 pasid 0x5 NotMapped: SM: Present bit in first-level paging entry is clear",
        );
        check(
            "DMAR: [DMA Read] Request device [ed:01.1] PASID ffffffff fault addr fffd0000 [fault reason 02] Present bit in context entry is clear",
            "VtD 0000:ed:01.1 Read 0xfffd0000 UnknownRequester: Present bit in context entry is clear",
        );
    }

    #[test]
    fn interrupt_faults_of_vt_d() {
        let refused = "VtD 0000:42:00.1 Interrupt: Present field in the IRTE entry is clear";
        for log in [
            "INTR-REMAP: Request device [[42:00.1] fault index b0\nINTR-REMAP:[fault reason 34] Present field in the IRTE entry is clear",
            "dmar: INTR-REMAP: Request device [[42:00.1] fault index b0\nINTR-REMAP:[fault reason 34] Present field in the IRTE entry is clear",
            "DMAR: [INTR-REMAP] Request device [42:00.1] fault index b0 [fault reason 34] Present field in the IRTE entry is clear",
            "DMAR: [INTR-REMAP] Request device [0000:42:00.1] fault index 0xb0 [fault reason 0x22] Present field in the IRTE entry is clear",
        ] {
            check(log, refused);
        }
        for folded in ["\n", " "] {
            let reason = "INTR-REMAP:[] Present field in the IRTE entry is clear";
            check(&format!("INTR-REMAP: Request device[[42:00.1] fault index b0{folded}{reason}"), refused);
        }
        check(
            "DMAR: [INTR-REMAP] Request device [f0:1f.0] fault index 0x0 [fault reason 0x25] Blocked a compatibility format interrupt request",
            "VtD 0000:f0:1f.0 Interrupt: Blocked a compatibility format interrupt request",
        );
    }

    #[test]
    fn faults_of_amd_vi() {
        check(
            "AMD-Vi: Event logged [IO_PAGE_FAULT device=00:14.0 domain=0x0000 address=0x0000000000001000 flags=0x0020]",
            "AmdVi 0000:00:14.0 Write 0x1000 NotMapped: IO_PAGE_FAULT with RW",
        );
        check(
            "ahci 0000:0c:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0017 address=0xc5f3f000 flags=0x0050]",
            "AmdVi 0000:0c:00.0 Read 0xc5f3f000 NotPermitted: IO_PAGE_FAULT with PR PE",
        );
        check(
            "AMD-Vi: Event logged [\nIO_PAGE_FAULT device=05:00.0 domain=0x0012 address=0x00000000ff6101b0 flags=0x0070]",
            "AmdVi 0000:05:00.0 Write 0xff6101b0 NotPermitted: IO_PAGE_FAULT with PR RW PE",
        );
        check(
            "AMD-Vi: Event logged [IO_PAGE_FAULT device=00:14.0 domain=0x0000 address=0xfdf8000000 flags=0x0008]",
            "AmdVi 0000:00:14.0 Read 0xfdf8000000 Interrupt: IO_PAGE_FAULT with I",
        );
        check(
            "AMD-Vi: Event logged [Device not attached to domain properly]\nAMD-Vi:   device=0000:03:00.0 domain=0x0000",
            "AmdVi 0000:03:00.0 UnknownRequester: Device not attached to domain properly",
        );
        check(
            "mlx5_core 0000:81:00.0: AMD-Vi: Event logged [RMP_PAGE_FAULT vmg_tag=0x0000, gpa=0x1000, flags_rmp=0x0002, flags=0x0020]",
            "AmdVi 0000:81:00.0 0x1000 NotPermitted: RMP_PAGE_FAULT",
        );
    }

    #[test]
    fn the_function_before_another_event_is_the_iommu() {
        check(
            "iommu ivhd0: AMD-Vi: Event logged [ILLEGAL_DEV_TABLE_ENTRY device=0000:00:01.0 pasid=0x00000 address=0xfffffffdf8000000 flags=0x0080]",
            "AmdVi 0000:00:01.0 0xfffffffdf8000000 InvalidEntry: ILLEGAL_DEV_TABLE_ENTRY",
        );
        check(
            "pci 0000:00:00.2: AMD-Vi: Event logged [PAGE_TAB_HARDWARE_ERROR device=0a:00.0 pasid=0x0000 address=0x1000 flags=0x0000]",
            "AmdVi 0000:0a:00.0 0x1000 TableError: PAGE_TAB_HARDWARE_ERROR",
        );
        check(
            "iommu ivhd1: AMD-Vi: Event logged [INVALID_DEVICE_REQUEST device=c1:00.0 pasid=0x00000 address=0xfffffffdf8000000 flags=0x0a00]",
            "AmdVi 0000:c1:00.0 0xfffffffdf8000000 InvalidRequest: INVALID_DEVICE_REQUEST",
        );
    }

    #[test]
    fn events_of_smmu_v3() {
        let smmu = |lines: &[&str]| -> String {
            lines.iter().map(|line| format!("arm-smmu-v3 arm-smmu-v3.0.auto: {line}\n")).collect()
        };
        const WORDS: [&str; 4] =
            ["\t0x0000010000000010", "\t0x0000020000000000", "\t0x00000000ffff0000", "\t0x0000000000000000"];
        const DECODED: &str =
            "event: F_TRANSLATION client: 0000:01:00.0 sid: 0x100 ssid: 0x0 iova: 0xffff0000 ipa: 0x0";
        const ACCESS: &str = "unpriv data write s1 \"Input address caused fault\" stag: 0x0";
        let fault = "SmmuV3 stream 0x100 Write 0xffff0000 NotMapped: F_TRANSLATION";
        let of_function = "SmmuV3 0000:01:00.0 stream 0x100 Write 0xffff0000 NotMapped: F_TRANSLATION";
        let [first, second, third, fourth] = WORDS;
        check(&smmu(&["event 0x10 received:", first, second, third, fourth]), fault);
        check(&smmu(&[first, second, third, fourth]), fault);
        check(&smmu(&["event 0x10 received:", first, second, third, fourth, DECODED, ACCESS]), of_function);
        check(&smmu(&["event 0x10 received:", DECODED, ACCESS]), of_function);
        check(&smmu(&[DECODED, ACCESS]), of_function);
        check(
            &smmu(&[
                "event 0x04 received:",
                "\t0x00007d1100000004",
                "\t0x0000100800000080",
                "\t0x00000000fe040000",
            ]),
            "SmmuV3 stream 0x7d11 InvalidEntry: C_BAD_STE",
        );
        check(
            &smmu(&["event 0x02 received:", "\t0x0000002000000002"]),
            "SmmuV3 stream 0x20 UnknownRequester: C_BAD_STREAMID",
        );
        check(
            &smmu(&[
                "event 0x13 received:",
                "\t0x0000002000003813",
                "\t0x0000020800000000",
                "\t0x0000000000001000",
            ]),
            "SmmuV3 stream 0x20 Read 0x1000 pasid 0x3 NotPermitted: F_PERMISSION",
        );
        check(
            &smmu(&["event 0x10 received:", "\t0x0000002000000010", "\t0x0000008400000000"]),
            "SmmuV3 stream 0x20 Write NotMapped: F_TRANSLATION of an instruction at stage 2",
        );
    }

    #[test]
    fn context_faults_of_smmu_v2() {
        check(
            "arm-smmu fd800000.smmu: Unhandled context fault: fsr=0x402, iova=0x3165687460, fsynr=0x20001, cbfrsynra=0x877, cb=1",
            "SmmuV2 stream 0x877 Read 0x3165687460 NotMapped: TF",
        );
        check(
            "arm-smmu 2b500000.smmu: Unhandled context fault: iova=0x00001000, fsynr=0x11, cb=1",
            "SmmuV2 Write 0x1000 NotMappedOrNotPermitted: -",
        );
        check(
            "arm-smmu 12000000.iommu: Unhandled context fault: iova=0x17fe0fe00, fsynr=0x220003, cb=21, sid=17(0x11 - AFI), pgd=25bec9003, pud=25bec9003, pmd=235086003, pte=0",
            "SmmuV2 stream 0x11 Read 0x17fe0fe00 NotMapped: -",
        );
        let since_6_12 = "arm-smmu 15000000.iommu: Unhandled context fault: fsr=0x402, iova=0xfff0, fsynr=0x11, cbfrsynra=0x1c00, cb=1\n\
                          arm-smmu 15000000.iommu: FSR    = 00000402 [Format=2 TF], SID=0x1c00\n\
                          arm-smmu 15000000.iommu: FSYNR0 = 00000011 [S1CBNDX=0 WNR PLVL=1]";
        check(since_6_12, "SmmuV2 stream 0x1c00 Write 0xfff0 NotMapped: TF");
        let (_, decoded) = since_6_12.split_once('\n').unwrap();
        check(decoded, "SmmuV2 stream 0x1c00 Write NotMapped: TF");
        check(
            "arm-smmu fd800000.smmu: Unhandled context fault: fsr=0x408, iova=0x1000, fsynr=0x11, cbfrsynra=0x877, cb=1",
            "SmmuV2 stream 0x877 Write 0x1000 NotPermitted: PF",
        );
    }

    #[test]
    fn global_faults_of_smmu_v2() {
        const REGISTERS: &str = "arm-smmu 5000000.iommu: \tGFSR 0x80000002, GFSYNR0 0x00000002, GFSYNR1 0x00000429, GFSYNR2 0x00000000";
        let blocked = "arm-smmu 5000000.iommu: Blocked unknown Stream ID 0x429; boot with \"arm-smmu.disable_bypass=0\" to allow, but this may have security implications";
        let unexpected = "arm-smmu 5000000.iommu: Unexpected global fault, this could be serious";
        let fault = "SmmuV2 stream 0x429 Write UnknownRequester: USF";
        check(&format!("{blocked}\n{REGISTERS}"), fault);
        check(&format!("{unexpected}\n{REGISTERS}"), fault);
        check(REGISTERS, fault);
        check(blocked, "SmmuV2 stream 0x429 UnknownRequester: USF");
        check(unexpected, "SmmuV2 Unknown: -");
        check(
            &format!("{unexpected}\n{}", REGISTERS.replace("0x80000002", "0x00000004")),
            "SmmuV2 stream 0x429 Write InvalidEntry: SMCF",
        );
    }

    #[test]
    fn faults_of_a_paravirtual_iommu() {
        check(
            "virtio_iommu virtio0: page fault from EP 24 at 0x1000 [W]",
            "Virtio 0000:00:03.0 Write 0x1000 NotMappedOrNotPermitted: page fault",
        );
        check(
            "virtio_iommu virtio0: domain fault from EP 24",
            "Virtio 0000:00:03.0 UnknownRequester: domain fault",
        );
    }

    #[test]
    fn faults_that_xen_prints() {
        check(
            "(XEN) [VT-D]DMAR:[DMA Read] Request device [0000:00:02.0] fault addr 29375f2000, iommu reg = ffff82c00021d000\n\
             (XEN) [VT-D]DMAR: reason 06 - PTE Read access is not set",
            "VtD by Xen 0000:00:02.0 Read 0x29375f2000 NotMappedOrNotPermitted: PTE Read access is not set",
        );
        check(
            "(XEN) [VT-D]iommu.c:859: DMAR:[DMA Write] Request device [02:00.0] fault addr bdf80000, iommu reg = ffff82c3fff57000\n\
             (XEN) DMAR:[fault reason 05h] PTE Write access is not set",
            "VtD by Xen 0000:02:00.0 Write 0xbdf80000 NotMappedOrNotPermitted: PTE Write access is not set",
        );
        check(
            "(XEN) [   37.201160] [VT-D]INTR-REMAP: Request device [0000:f0:1f.0] fault index 0\n\
             (XEN) [   37.201164] [VT-D]INTR-REMAP: reason 25 - Blocked a compatibility format interrupt request",
            "VtD by Xen 0000:f0:1f.0 Interrupt: Blocked a compatibility format interrupt request",
        );
        check(
            "[VT-D]DMAR:[DMA Read] Request device [0000:00:02.0] fault addr 29375f2000, iommu reg = ffff82c0009f2000 [VT-D]DMAR: reason 06 - PTE Read access is not set",
            "VtD by Xen 0000:00:02.0 Read 0x29375f2000 NotMappedOrNotPermitted: PTE Read access is not set",
        );
        check(
            "[VT-D]DMAR:[DMA Read] Request device [0000:00:02.0] fault addr 29375f2000",
            "VtD by Xen 0000:00:02.0 Read 0x29375f2000 Unknown: -",
        );
        check(
            "(XEN) AMD-Vi: IO_PAGE_FAULT: 0000:00:14.0 d0 addr 000000fdf8010140 flags 0x8 I",
            "AmdVi by Xen 0000:00:14.0 Read 0xfdf8010140 Interrupt: IO_PAGE_FAULT with I",
        );
        check(
            "(XEN) AMD-Vi: IO_PAGE_FAULT: domain = 0, device id = 0x2600, fault address = 0x1000, flags = 0x20",
            "AmdVi by Xen 0000:26:00.0 Write 0x1000 NotMapped: IO_PAGE_FAULT with RW",
        );
    }
}
