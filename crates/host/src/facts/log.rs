//! What the kernel's log says, gathered from its messages.

use super::iommu;
use crate::kernel::message::fault::{Access, Reporter};
use crate::kernel::message::{
    AmdViMessage, BootMessage, DmaFault, EehMessage, IommuMessage, Logged, MemoryTypeMessage, Message,
    PcieMessage, SmmuMessage, SwiotlbMessage, VtDMessage, WindowMessage, classify,
};
use crate::kernel::{Architecture, Log};
use crate::{Bdf, Citation, Cited, Text};
use std::collections::{BTreeMap, HashMap};

/// A DMA fault, or a slot frozen because of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The function named in it.
    pub address: Option<Bdf>,
    /// The stream of an SMMU's fault, where no function is named.
    pub stream: Option<u32>,
    /// What happened, in a few words.
    pub what: String,
    /// The line.
    pub at: Citation,
}

/// A window that firmware was asked to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DdwCreate {
    /// Shift of its pages.
    pub page_shift: u32,
    /// Shift of its size.
    pub window_shift: u32,
    /// Status; 0 is success.
    pub returned: i64,
    /// Where it starts on the bus.
    pub base: u64,
}

/// What firmware answered to a query of windows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DdwQuery {
    /// Status; 0 is success.
    pub returned: i64,
    /// Entries of the largest block, where printed (6.1 and later).
    pub block_tces: Option<u64>,
    /// Mask of page sizes, likewise.
    pub page_sizes: Option<u32>,
    /// Windows left, likewise.
    pub windows_available: Option<u32>,
}

/// What the log says of one function's 64-bit window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DdwLog {
    /// The last query.
    pub query: Option<Cited<DdwQuery>>,
    /// The last creation.
    pub create: Option<Cited<DdwCreate>>,
    /// `Using 64-bit direct DMA at offset`, unless taken back later.
    pub direct: Option<Cited<u64>>,
    /// `64-bit OK but direct DMA is limited by`.
    pub limited: Option<Cited<u64>>,
    /// `Restoring 32-bit DMA via iommu`, a failed mapping of the window, and the like.
    pub refused: Option<Citation>,
    /// `iommu_alloc failed`: the window was full.
    pub exhausted: Vec<Citation>,
}

/// A link's speed and what it could be, as the kernel printed them when the device appeared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BandwidthLine {
    /// Available, Mb/s.
    pub available_mbps: u64,
    /// What the device itself could do, Mb/s.
    pub capable_mbps: Option<u64>,
    /// The port at which the path is narrowest.
    pub limited_at: Option<Bdf>,
    /// The line.
    pub at: Citation,
}

/// What the kernel's log says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogFacts {
    /// The file it was read from; empty without a log.
    pub file: String,
    /// It reaches back to the start of the boot: what it does not say was not said.
    pub complete_from_boot: bool,
    /// The architecture whose code printed what was understood.
    pub architecture: Option<Architecture>,
    /// The default domain type is passthrough.
    pub default_passthrough: Option<Cited<bool>>,
    /// The invalidation policy is strict.
    pub strict: Option<Cited<bool>>,
    /// AMD-Vi flushes at each unmap (before 5.13).
    pub amd_strict: Option<Cited<bool>>,
    /// Batching was given up because the IOMMU is virtual: strict, whatever the policy.
    pub batching_disallowed: Option<Citation>,
    /// Proof that DMA translation hardware is in use.
    pub translation_active: Option<Citation>,
    /// Which hardware that is.
    pub translates: Option<iommu::Kind>,
    /// The IOMMU was asked for and found wanting: firmware bugs, tables missing.
    pub iommu_trouble: Vec<Citation>,
    /// Tables that say the machine has an IOMMU.
    pub iommu_tables: Option<Citation>,
    /// Functions given an identity (true) or translated (false) domain by name: before 5.x, VT-d takes
    /// 32-bit functions out of passthrough where memory goes further.
    pub own_mapping: HashMap<Bdf, Cited<bool>>,
    /// Groups as functions were added to them.
    pub groups: HashMap<Bdf, Cited<u32>>,
    /// Memory is encrypted: all direct DMA is bounced.
    pub memory_encryption: Option<Citation>,
    /// Size of the bounce pool, bytes.
    pub swiotlb_bytes: Option<Cited<u64>>,
    /// The pool could not be had.
    pub swiotlb_failed: Option<Citation>,
    /// `swiotlb buffer is full`, with the function.
    pub swiotlb_full: Vec<(Option<Bdf>, Citation)>,
    /// Mappings refused because of a mask.
    pub mask_overflows: Vec<(Option<Bdf>, Citation)>,
    /// Faults, in order.
    pub faults: Vec<Fault>,
    /// 64-bit windows of POWER partitions.
    pub ddw: BTreeMap<Bdf, DdwLog>,
    /// `ppc iommu: disabling ddw.`
    pub ddw_disabled: Option<Citation>,
    /// 64-bit bypass on POWER bare metal, by function (to 4.19).
    pub bypass: HashMap<Bdf, Citation>,
    /// The same by domain and bus of a partition endpoint (5.x and later).
    pub bypass_buses: HashMap<(u32, u8), Citation>,
    /// Options that the kernel says it does not know.
    pub unknown_options: Vec<Cited<String>>,
    /// Links slower than they could be.
    pub bandwidth: HashMap<Bdf, BandwidthLine>,
    /// `can't set Max Payload Size to`.
    pub payload_refused: HashMap<Bdf, Citation>,
    /// Conflicting memory types, `ioremap on RAM`, MTRR mismatches.
    pub memory_type_conflicts: Vec<Citation>,
    /// Functions that vfio handed out without an IOMMU, which taints the kernel; `None` where the line names none.
    pub no_iommu: Vec<(Option<Bdf>, Citation)>,
}

impl LogFacts {
    /// Reads a log.
    pub fn read(text: &Text) -> Self {
        let log = Log::parse(text);
        let mut facts = Self {
            file: text.file().to_owned(),
            complete_from_boot: log.complete_from_boot(),
            ..Self::default()
        };
        for record in log.records() {
            // The firmware's tables are listed by ACPI, not by the IOMMU's own code.
            if facts.iommu_tables.is_none() && is_iommu_table(record.message) {
                facts.iommu_tables = Some(log.cite(record));
            }
        }
        for logged in classify(&log) {
            facts.keep(&logged);
        }
        facts
    }

    /// Keeps the facts of one message.
    fn keep(&mut self, logged: &Logged) {
        let at = &logged.at;
        self.architecture = self.architecture.take().or_else(|| printed_by(&logged.message));
        match &logged.message {
            Message::Iommu(message) => self.keep_iommu(message, logged),
            Message::VtD(message) => self.keep_vt_d(message, at),
            Message::AmdVi(message) => self.keep_amd_vi(message, at),
            Message::Smmu(message) => self.keep_smmu(message, at),
            Message::Swiotlb(message) => self.keep_swiotlb(message, logged),
            Message::Window(message) => self.keep_window(message, logged),
            Message::Eeh(message) => self.keep_eeh(message, logged),
            Message::Pcie(message) => self.keep_pcie(message, logged),
            Message::MemoryType(message) => self.keep_memory_type(message, at),
            Message::Boot(message) => self.keep_boot(message, at),
            Message::Fault(fault) => self.faults.push(fault_of_iommu(fault, at)),
        }
    }

    /// Keeps what the IOMMU core says: default domains, groups, invalidation.
    fn keep_iommu(&mut self, message: &IommuMessage, logged: &Logged) {
        let at = &logged.at;
        match message {
            IommuMessage::DefaultDomain { passthrough, .. } => {
                self.default_passthrough = Some(Cited::new(*passthrough, at.clone()));
            }
            IommuMessage::InvalidationPolicy { strict, .. } => {
                self.strict = Some(Cited::new(*strict, at.clone()))
            }
            IommuMessage::GroupJoined { bdf: Some(bdf), group, .. } => {
                self.groups.insert(*bdf, Cited::new(*group, at.clone()));
            }
            IommuMessage::GroupLeft { bdf: Some(bdf), .. } => {
                self.groups.remove(bdf);
            }
            IommuMessage::UnsafeNoIommu => self.no_iommu.push((logged.bdf(), at.clone())),
            _ => {}
        }
    }

    /// Keeps what the VT-d driver says.
    fn keep_vt_d(&mut self, message: &VtDMessage, at: &Citation) {
        match message {
            VtDMessage::Active => self.keep_translation(iommu::Kind::VtD, at),
            VtDMessage::DeviceMapping { device: Some(bdf), identity } => {
                self.own_mapping.insert(*bdf, Cited::new(*identity, at.clone()));
            }
            VtDMessage::StrictInGuest => self.batching_disallowed = Some(at.clone()),
            VtDMessage::StrictRequested => self.strict = Some(Cited::new(true, at.clone())),
            VtDMessage::Unit { .. } => {
                self.iommu_tables = self.iommu_tables.take().or_else(|| Some(at.clone()))
            }
            VtDMessage::BrokenFirmware(_) | VtDMessage::SetupProblem(_) => {
                self.iommu_trouble.push(at.clone())
            }
            VtDMessage::UnknownOption(option) => self.keep_unknown_option(option, at),
            _ => {}
        }
    }

    /// Keeps what the AMD-Vi driver says.
    fn keep_amd_vi(&mut self, message: &AmdViMessage, at: &Citation) {
        match message {
            AmdViMessage::Found { .. } => self.keep_translation(iommu::Kind::AmdVi, at),
            AmdViMessage::LazyFlush(lazy) => {
                // Printed under passthrough too: it tells how, not whether.
                self.amd_strict = Some(Cited::new(!lazy, at.clone()));
                self.keep_translation(iommu::Kind::AmdVi, at);
            }
            AmdViMessage::InitialisedPassthrough => {
                self.default_passthrough = Some(Cited::new(true, at.clone()));
                self.keep_translation(iommu::Kind::AmdVi, at);
            }
            AmdViMessage::StrictInGuest => self.batching_disallowed = Some(at.clone()),
            AmdViMessage::UnknownOption(option) => self.keep_unknown_option(option, at),
            AmdViMessage::Disabled(_) | AmdViMessage::CompletionTimeout => {
                self.iommu_trouble.push(at.clone())
            }
            _ => {}
        }
    }

    /// Keeps what the drivers of Arm's SMMUs say.
    fn keep_smmu(&mut self, message: &SmmuMessage, at: &Citation) {
        match message {
            SmmuMessage::FoundV2 => self.keep_translation(iommu::Kind::Smmu, at),
            SmmuMessage::FoundV3 { .. } => self.keep_translation(iommu::Kind::SmmuV3, at),
            SmmuMessage::CommandTimeout => self.iommu_trouble.push(at.clone()),
            _ => {}
        }
    }

    /// Keeps what the bounce buffer's code says.
    fn keep_swiotlb(&mut self, message: &SwiotlbMessage, logged: &Logged) {
        let at = &logged.at;
        let bytes = |mebibytes: u64| Some(Cited::new(mebibytes.saturating_mul(1 << 20), at.clone()));
        match message {
            SwiotlbMessage::Reserved { mebibytes } | SwiotlbMessage::Resized { mebibytes } => {
                self.swiotlb_bytes = bytes(*mebibytes);
            }
            SwiotlbMessage::NoMemory(_) => self.swiotlb_failed = Some(at.clone()),
            SwiotlbMessage::Full { .. } => self.swiotlb_full.push((logged.bdf(), at.clone())),
            SwiotlbMessage::ForcedByEncryption => self.memory_encryption = Some(at.clone()),
            SwiotlbMessage::MaskOverflow { .. } => self.mask_overflows.push((logged.bdf(), at.clone())),
            _ => {}
        }
    }

    /// Keeps what POWER's DMA windows say.
    fn keep_window(&mut self, message: &WindowMessage, logged: &Logged) {
        let at = &logged.at;
        if let WindowMessage::Disabled = message {
            self.ddw_disabled = Some(at.clone());
        }
        if let WindowMessage::BareMetalBypass(true) = message {
            match (logged.bdf(), logged.device.as_ref().and_then(|device| bus(&device.name))) {
                (Some(bdf), _) => self.bypass.insert(bdf, at.clone()),
                (None, Some(bus)) => self.bypass_buses.insert(bus, at.clone()),
                (None, None) => None,
            };
            return;
        }
        let Some(bdf) = logged.bdf() else { return };
        self.ddw.entry(bdf).or_default().keep(message, at);
    }

    /// Keeps an error that POWER's EEH reports as a fault.
    fn keep_eeh(&mut self, message: &EehMessage, logged: &Logged) {
        let what = match message {
            EehMessage::Frozen { phb, pe } => format!("EEH froze PE {pe:#x} of host bridge {phb:#x}"),
            EehMessage::Fenced { phb } => format!("EEH fenced host bridge {phb:#x}"),
            EehMessage::FailedTimes(times) => format!("EEH recovered it {times} times in the last hour"),
            EehMessage::GivenUp(_) => "EEH gave it up".to_owned(),
            _ => return,
        };
        self.faults.push(Fault { address: logged.bdf(), stream: None, what, at: logged.at.clone() });
    }

    /// Keeps what the PCI core says of a function's link.
    fn keep_pcie(&mut self, message: &PcieMessage, logged: &Logged) {
        let Some(bdf) = logged.bdf() else { return };
        let at = logged.at.clone();
        match message {
            PcieMessage::Bandwidth { available_mbps, limited_at, capable_mbps, .. } => {
                let line = BandwidthLine {
                    available_mbps: *available_mbps,
                    capable_mbps: *capable_mbps,
                    limited_at: *limited_at,
                    at,
                };
                self.bandwidth.insert(bdf, line);
            }
            PcieMessage::PayloadRefused { .. } => {
                self.payload_refused.insert(bdf, at);
            }
            _ => {}
        }
    }

    /// Keeps a conflict of memory types.
    fn keep_memory_type(&mut self, message: &MemoryTypeMessage, at: &Citation) {
        match message {
            MemoryTypeMessage::Conflict { .. }
            | MemoryTypeMessage::IoremapOnRam { .. }
            | MemoryTypeMessage::MtrrMismatch { .. } => self.memory_type_conflicts.push(at.clone()),
            _ => {}
        }
    }

    /// Keeps what the kernel says of its command line and memory at boot.
    fn keep_boot(&mut self, message: &BootMessage, at: &Citation) {
        match message {
            BootMessage::UnknownParameters(options) => {
                options.iter().for_each(|option| self.keep_unknown_option(option, at));
            }
            BootMessage::MalformedOption(option) => self.keep_unknown_option(option, at),
            BootMessage::MemoryEncryption(features) if encrypts_guest(features) => {
                self.memory_encryption = Some(at.clone());
            }
            _ => {}
        }
    }

    /// The line that says that vfio hands this function out without an IOMMU.
    pub fn no_iommu_taint(&self, address: Bdf) -> Option<&Citation> {
        let taints = |named: &Option<Bdf>| named.is_none_or(|named| named == address);
        self.no_iommu.iter().find(|(named, _)| taints(named)).map(|(_, at)| at)
    }

    /// Keeps that an IOMMU of this kind translates. The first message that says so counts.
    fn keep_translation(&mut self, kind: iommu::Kind, at: &Citation) {
        self.translates.get_or_insert(kind);
        self.translation_active.get_or_insert_with(|| at.clone());
    }

    /// Keeps an option that the kernel says it does not know.
    fn keep_unknown_option(&mut self, option: &str, at: &Citation) {
        self.unknown_options.push(Cited::new(option.to_owned(), at.clone()));
    }
}

impl DdwLog {
    /// Keeps what a message says of this endpoint's windows.
    fn keep(&mut self, message: &WindowMessage, at: &Citation) {
        match message {
            WindowMessage::Query { returned, entries_max, page_sizes, windows, .. } => {
                let query = DdwQuery {
                    returned: *returned,
                    block_tces: *entries_max,
                    page_sizes: *page_sizes,
                    windows_available: *windows,
                };
                self.query = Some(Cited::new(query, at.clone()));
            }
            WindowMessage::Create { page_shift, window_shift, returned, start, .. } => {
                let create = DdwCreate {
                    page_shift: *page_shift,
                    window_shift: *window_shift,
                    returned: *returned,
                    base: start.unwrap_or(0),
                };
                self.create = Some(Cited::new(create, at.clone()));
            }
            WindowMessage::Direct { offset } => {
                self.direct = Some(Cited::new(*offset, at.clone()));
                self.refused = None;
            }
            WindowMessage::Restored32Bit | WindowMessage::MapFailed(_) => {
                self.refused = Some(at.clone());
                self.direct = None;
            }
            WindowMessage::DirectLimited { limit } => self.limited = Some(Cited::new(*limit, at.clone())),
            WindowMessage::Exhausted { .. } => self.exhausted.push(at.clone()),
            _ => {}
        }
    }
}

/// The architecture that alone prints such messages. Endianness of POWER and width of Arm are guessed.
fn printed_by(message: &Message) -> Option<Architecture> {
    match message {
        Message::VtD(_) | Message::MemoryType(_) => Some(Architecture::X86_64),
        // The module of AMD's IOMMUv2 says on every x86 machine that it found nothing.
        Message::AmdVi(_) => Some(Architecture::X86_64),
        Message::Smmu(_) => Some(Architecture::Aarch64),
        Message::Window(_) | Message::Eeh(_) => Some(Architecture::Ppc64),
        Message::Fault(fault) => match fault.reporter {
            Reporter::VtD | Reporter::AmdVi => Some(Architecture::X86_64),
            Reporter::SmmuV2 | Reporter::SmmuV3 => Some(Architecture::Aarch64),
        },
        Message::Iommu(_) | Message::Swiotlb(_) | Message::Pcie(_) | Message::Boot(_) => None,
    }
}

/// The bus of a partition endpoint, named `0022:01`.
fn bus(name: &str) -> Option<(u32, u8)> {
    let (domain, bus) = name.trim().split_once(':')?;
    Some((u32::from_str_radix(domain, 16).ok()?, u8::from_str_radix(bus, 16).ok()?))
}

/// The fault that an IOMMU reported, in words.
fn fault_of_iommu(fault: &DmaFault, at: &Citation) -> Fault {
    let access = match fault.access {
        Some(Access::Read) => "read of",
        Some(Access::Write) => "write to",
        None => "access to",
    };
    let address =
        fault.address.map_or_else(|| "an address not told".to_owned(), |address| format!("{address:#x}"));
    let reason = fault.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
    Fault {
        address: fault.device,
        stream: fault.stream,
        what: format!("{access} {address}{reason}"),
        at: at.clone(),
    }
}

/// `ACPI: DMAR 0x...`, `ACPI: IVRS 0x...`, `ACPI: IORT 0x...` with an address: the table is there.
fn is_iommu_table(message: &str) -> bool {
    let Some(rest) = message.strip_prefix("ACPI: ") else { return false };
    // An IORT describes interrupt routing too, so it proves no SMMU.
    ["DMAR ", "IVRS "].iter().any(|table| rest.starts_with(table))
}

/// SME encrypts a host's own memory, and devices still reach it; in guests (SEV, TDX, CCA) they don't.
fn encrypts_guest(features: &[String]) -> bool {
    features
        .iter()
        .any(|feature| feature.starts_with("SEV") || feature.contains("TDX") || feature.contains("CCA"))
}
