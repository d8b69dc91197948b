//! What the kernel's log says, gathered from its messages.

use super::call_trace::{self, Shown};
use super::device_memory::{self, DeviceMemory};
use super::fault::{self, Fault, FaultKind};
use super::hypervisor::{self, Hypervisor};
use super::invalidation_error::{self, Failure, InvalidationFailure};
use super::log_problem::{LogProblem, LogProblems};
use super::named_function::{self, NamedFunction};
use super::refused_allocation::{RefusalFollower, RefusedAllocation, Wanted};
use super::traced_mapping::{TraceFollower, TracedMapping};
use super::{function, iommu};
use crate::kernel::message::fault::{Cause, Reporter};
use crate::kernel::message::swiotlb::Encryption;
use crate::kernel::message::{
    AmdViMessage, BootMessage, DmaFault, DriverMessage, EehMessage, GartMessage, HostBridgeMessage,
    InterruptRemappingMessage, IommuMessage, Logged, MemoryTypeMessage, Message, PcieMessage,
    ResourceMessage, SmmuMessage, SwiotlbMessage, VtDMessage, WindowMessage, XenMessage, classify, pcie,
    resource,
};
use crate::kernel::{Architecture, KernelVersion, Log};
use crate::pci::PacketHeader;
use crate::{Bdf, Citation, Cited, Text};
use std::collections::{BTreeMap, BTreeSet, HashMap};

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
    /// `can't map partition max`: the window offered is smaller than the partition's maximum memory.
    pub too_small: Option<Citation>,
    /// `Skipping ibm,pmemory`: the partition has persistent memory, which is left out of the window.
    pub persistent_memory: Option<Citation>,
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
    /// The narrowest link.
    pub link: pcie::Link,
    /// The link that the device itself could do.
    pub capable: Option<pcie::Link>,
    /// The line.
    pub at: Citation,
}

/// A mapping that found no room in the bounce buffers or in a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolFull {
    /// The function named in it.
    pub address: Option<Bdf>,
    /// The device named in it, where that is no PCI function: `fe007000.dma-controller`.
    pub other_device: Option<String>,
    /// Bytes that were to be mapped.
    pub bytes: Option<u64>,
    /// Slots of the pool; 0 where there is none.
    pub slots: Option<u64>,
    /// Slots in use.
    pub used_slots: Option<u64>,
    /// The line.
    pub at: Citation,
}

impl PoolFull {
    /// Whether there is no pool at all.
    pub fn lacks_pool(&self) -> bool {
        self.slots == Some(0)
    }
}

/// A mapping that the device's mask can't reach and that nothing bounced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskOverflow {
    /// The function named in it.
    pub address: Option<Bdf>,
    /// The bus address that was to be given to it.
    pub bus_address: Option<u64>,
    /// Bytes that were to be mapped.
    pub bytes: Option<u64>,
    /// The highest bus address that the device can reach.
    pub mask: Option<u64>,
    /// The highest one that its bus passes on, if that is less.
    pub bus_limit: Option<u64>,
    /// It is the bounce buffer itself that lies beyond.
    pub is_bounced: bool,
    /// The line names `nommu`: the kernel maps with neither an IOMMU nor bounce buffers.
    pub is_nommu: bool,
    /// The line.
    pub at: Citation,
}

/// Widths of the DMA masks that a driver announced, in bits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnnouncedMasks {
    /// Of streaming mappings.
    pub streaming: Option<Cited<u32>>,
    /// Of coherent memory.
    pub coherent: Option<Cited<u32>>,
}

/// Memory that devices below a host bridge can reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboundRange {
    /// The bridge, by its name in the device tree: `47d500000.pcie`.
    pub bridge: String,
    /// The first and the last bus address.
    pub bus: (u64, u64),
    /// The line.
    pub at: Citation,
}

/// How often something was logged, with its first line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Occurrences {
    /// How often.
    pub count: u64,
    /// The first line.
    pub first: Option<Citation>,
}

impl Occurrences {
    /// Adds a line.
    fn add(&mut self, at: Citation) {
        self.count += 1;
        self.first.get_or_insert(at);
    }
}

/// PCI Express errors that one function reported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PcieErrors {
    /// Errors that the hardware corrected by itself.
    pub corrected: Occurrences,
    /// Errors that lost a transaction.
    pub uncorrected: Occurrences,
    /// Errors after which the link is not to be trusted.
    pub fatal: Occurrences,
    /// The kernel's short names of the errors.
    pub names: BTreeSet<String>,
    /// The header of the first packet with an error.
    pub packet: Option<Cited<PacketHeader>>,
    /// The port cut the link below it off.
    pub contained: Option<Citation>,
}

/// A range for which two mappings want different memory types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConflictingTypes {
    /// First byte.
    pub start: u64,
    /// First byte after.
    pub end: u64,
    /// Both types.
    pub types: [String; 2],
}

/// A mapping that was refused, because its IOVA has more bits than the domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BeyondWidth {
    /// Bits of the domain's IOVAs.
    pub bits: u32,
    /// The IOVA.
    pub iova: u64,
}

/// What the kernel's log says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogFacts {
    /// The file it was read from; empty without a log.
    pub file: String,
    /// It reaches back to the start of the boot.
    pub complete_from_boot: bool,
    /// It goes on to the start of user space without a gap: what it does not say of the boot was not said.
    pub covers_boot: bool,
    /// The last line of earlier boots in the same file, which were not looked at.
    pub last_line_of_earlier_boots: Option<u32>,
    /// How many lines of the text are of those boots.
    pub lines_of_earlier_boots: u32,
    /// The release of the kernel whose log it is, by its banner.
    pub release: Option<Cited<String>>,
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
    /// A host encrypts its memory for itself (AMD SME): devices reach it if their mask reaches the encryption bit.
    pub host_encryption: Option<Citation>,
    /// Memory is encrypted, and a buffer was bounced.
    pub encrypted_bounce: Option<Citation>,
    /// Size of the bounce pool, bytes.
    pub swiotlb_bytes: Option<Cited<u64>>,
    /// The pool could not be had.
    pub swiotlb_failed: Option<Citation>,
    /// `swiotlb buffer is full`, with the function.
    pub swiotlb_full: Vec<PoolFull>,
    /// The GART remaps what devices can't reach.
    pub gart: Option<Citation>,
    /// Its bus addresses, in MiB.
    pub gart_mebibytes: Option<Cited<u64>>,
    /// Mappings that found them used up.
    pub gart_full: Vec<PoolFull>,
    /// Mappings that found a DMA window of POWER full, without a function's name.
    pub windows_full: Occurrences,
    /// Memory that devices can reach, of bridges whose device tree limits or moves it.
    pub inbound: Vec<InboundRange>,
    /// Host bridges whose link did not come up.
    pub links_down: BTreeSet<String>,
    /// The domains of these bridges, by name.
    pub bridge_domains: HashMap<String, u32>,
    /// DMA masks that drivers announced, by function.
    pub dma_masks: BTreeMap<Bdf, AnnouncedMasks>,
    /// Functions whose driver did not get the mask that it asked for.
    pub masks_refused: BTreeMap<Bdf, Citation>,
    /// Mappings refused because of a mask.
    pub mask_overflows: Vec<MaskOverflow>,
    /// Faults, in order.
    pub faults: Vec<Fault>,
    /// Invalidations that failed, in order.
    pub invalidation_failures: Vec<InvalidationFailure>,
    /// VT-d's fault status register, where it tells of a device that did not answer.
    pub invalidation_status: Option<Citation>,
    /// Functions that did not answer, and whether they were to wake up from D3cold.
    pub inaccessible: BTreeMap<Bdf, Cited<bool>>,
    /// Functions that were not back a second or longer after a reset, as far as the log goes.
    pub slow_resets: BTreeMap<Bdf, Citation>,
    /// Hot-plug ports whose slot became empty or was switched off, as far as the log goes.
    pub emptied_slots: BTreeMap<Bdf, Citation>,
    /// A call trace that stands in an invalidation of a device's own translations.
    pub device_invalidation: Option<Citation>,
    /// Mappings that call traces show.
    pub traced_mappings: Vec<TracedMapping>,
    /// Memory for DMA that drivers did not get.
    pub refused_allocations: Vec<RefusedAllocation>,
    /// Base address registers without room in the address space, by function and number.
    pub unplaced: BTreeMap<(Bdf, u8), Cited<resource::Need>>,
    /// The driver says that it remaps interrupts.
    pub remaps_interrupts: bool,
    /// What tells that interrupts are not remapped: the first line of each kind.
    pub interrupts_not_remapped: BTreeMap<InterruptRemappingMessage, Citation>,
    /// A driver unmapped what it had not mapped.
    pub unmatched_unmap: Option<Citation>,
    /// The driver of VT-d or AMD-Vi says that it is disabled.
    pub iommu_disabled: Option<Citation>,
    /// The first mapping that was refused for the width of its IOVA.
    pub beyond_width: Option<Cited<BeyondWidth>>,
    /// This is a crash kernel, which took over the IOMMU's tables from the kernel that crashed.
    pub inherited_tables: Option<Citation>,
    /// The driver of an SMMU shut it down.
    pub smmu_shut_down: Option<Citation>,
    /// VT-d is not in use, because the kernel rejected the firmware's table.
    pub vt_d_rejected: Option<Citation>,
    /// Whether Xen uses the IOMMU, by its own log.
    pub xen_translates: Option<Cited<bool>>,
    /// Why Xen does not.
    pub xen_setup_problem: Option<Citation>,
    /// Memory of PCI functions.
    pub device_memory: Vec<DeviceMemory>,
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
    /// Cards whose drivers say that their link is too slow for them.
    pub links_too_slow: HashMap<Bdf, Citation>,
    /// `can't set Max Payload Size to`.
    pub payload_refused: HashMap<Bdf, Citation>,
    /// SEV-SNP was refused because the IOMMU is off or passes addresses through.
    pub snp_refused: Option<Citation>,
    /// VT-d leaves integrated graphics out.
    pub graphics_untranslated: Option<Citation>,
    /// Messages about faults that the kernel left out because there were too many.
    pub faults_suppressed: Option<Cited<u64>>,
    /// Everything that its messages say is wrong.
    pub problems: Vec<LogProblem>,
    /// Requests to give a device to user space that were refused because firmware keeps memory mapped for it.
    pub user_attach_refused: BTreeMap<Option<Bdf>, Citation>,
    /// Adapters and their groups that QEMU could not have, because other devices of the group have drivers of the host.
    pub not_viable: BTreeMap<(Option<Bdf>, u32), Citation>,
    /// Devices for which a guest's program found no IOMMU, and whether Xen said so.
    pub no_group: BTreeMap<Option<Bdf>, Cited<bool>>,
    /// The patch that pretends isolation is there and in use.
    pub acs_override: Option<Citation>,
    /// Errors that ports and devices reported, by function.
    pub pcie_errors: BTreeMap<Bdf, PcieErrors>,
    /// The hypervisor that a line names.
    pub hypervisor: Option<Cited<Hypervisor>>,
    /// Maker and model of the machine.
    pub machine: Option<Cited<String>>,
    /// The kernel, by a call trace.
    pub traced_kernel: Option<Cited<KernelVersion>>,
    /// The end of memory, as x86 counts it at boot.
    pub memory_end: Option<Cited<u64>>,
    /// PCI functions that its lines name.
    pub functions: BTreeMap<Bdf, NamedFunction>,
    /// Conflicting memory types, `ioremap on RAM`.
    pub memory_type_conflicts: Vec<Citation>,
    /// The kernel made the processors' MTRRs alike.
    pub mtrrs_repaired: Option<Citation>,
    /// MTRRs that were asked for and could not be set.
    pub mtrrs_refused: Vec<Cited<MemoryTypeMessage>>,
    /// Memory that the kernel does not use, because no MTRR makes it cacheable.
    pub memory_trimmed_mebibytes: Option<Cited<u64>>,
    /// The first range for which two mappings want different types.
    pub memory_type_range: Option<ConflictingTypes>,
    /// Functions that vfio handed out without an IOMMU, which taints the kernel; `None` where the line names none.
    pub no_iommu: Vec<(Option<Bdf>, Citation)>,
}

impl LogFacts {
    /// Reads a log.
    pub fn read(text: &Text) -> Self {
        let log = Log::parse(text);
        let earlier = log.last_line_of_earlier_boots();
        let mut facts = Self {
            file: text.file().to_owned(),
            complete_from_boot: log.complete_from_boot(),
            covers_boot: log.covers_boot(),
            last_line_of_earlier_boots: earlier.and_then(|line| text.cite(line, "").line),
            lines_of_earlier_boots: earlier.unwrap_or(0),
            functions: named_function::read(&log, function::FUNCTIONS_MAX),
            ..Self::default()
        };
        let mut refusals = RefusalFollower::default();
        let mut traces = TraceFollower::default();
        for record in log.records() {
            // The firmware's tables are listed by ACPI, not by the IOMMU's own code.
            if facts.iommu_tables.is_none() && is_iommu_table(record.message) {
                facts.iommu_tables = Some(log.cite(record));
            }
            // Only x86 prints the firmware's memory map in these words.
            if facts.architecture.is_none() && record.message.starts_with("BIOS-e820: ") {
                facts.architecture = Some(Architecture::X86_64);
            }
            if let Some(end) = end_of_memory(record.message)
                && facts.memory_end.as_ref().is_none_or(|known| known.value < end)
            {
                facts.memory_end = Some(Cited::new(end, log.cite(record)));
            }
            let frame = call_trace::frame(record.message);
            let shown = frame.and_then(|frame| frame.shown());
            facts.keep_call_trace(shown, || log.cite(record));
            traces.take(record.message, frame.as_ref(), || log.cite(record));
            let refused = refusals.take(record.message, shown, || log.cite(record));
            refused.into_iter().for_each(|refused| facts.keep_refused_allocation(refused));
            if let Some((address, range, is_peer_memory)) = device_memory::read(record.message)
                && facts.device_memory.len() < device_memory::RANGES_MAX
            {
                let at = log.cite(record);
                facts.device_memory.push(DeviceMemory { range, address, is_peer_memory, at });
            }
            if facts.hypervisor.is_none() {
                let named = hypervisor::named_by(record.message);
                facts.hypervisor = named.map(|hypervisor| Cited::new(hypervisor, log.cite(record)));
            }
            if facts.machine.is_none() {
                let named = hypervisor::named_machine(record.message);
                facts.machine = named.map(|name| Cited::new(name.to_owned(), log.cite(record)));
            }
            if facts.traced_kernel.is_none() {
                let kernel = traced_kernel(record.message);
                facts.traced_kernel = kernel.map(|kernel| Cited::new(kernel, log.cite(record)));
            }
        }
        facts.traced_mappings = traces.into_list();
        let mut problems = LogProblems::default();
        for logged in classify(&log) {
            problems.add(&logged);
            facts.keep(&logged);
        }
        facts.problems = problems.into_list();
        facts.name_functions();
        facts
    }

    /// Adds the functions that only messages without a device prefix name.
    fn name_functions(&mut self) {
        let groups = self.groups.iter().map(|(bdf, cited)| (*bdf, &cited.at));
        let mappings = self.own_mapping.iter().map(|(bdf, cited)| (*bdf, &cited.at));
        let faults = self.faults.iter().filter_map(|fault| Some((fault.address?, &fault.at)));
        let full = self.swiotlb_full.iter().chain(&self.gart_full);
        let full = full.filter_map(|full| Some((full.address?, &full.at)));
        let silent =
            self.invalidation_failures.iter().filter_map(|failed| Some((failed.device?, &failed.at)));
        let groupless = self.no_group.iter().filter_map(|(device, said)| Some(((*device)?, &said.at)));
        for (bdf, at) in groups.chain(mappings).chain(faults).chain(full).chain(silent).chain(groupless) {
            if self.functions.len() < function::FUNCTIONS_MAX {
                self.functions.entry(bdf).or_insert_with(|| NamedFunction::at(at.clone()));
            }
        }
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
            Message::Gart(message) => self.keep_gart(message, logged),
            Message::HostBridge(message) => self.keep_host_bridge(message, logged),
            Message::Window(message) => self.keep_window(message, logged),
            Message::Eeh(message) => self.keep_eeh(message, logged),
            Message::Pcie(message) => self.keep_pcie(message, logged),
            Message::MemoryType(message) => self.keep_memory_type(message, at),
            Message::Boot(message) => self.keep_boot(message, at),
            Message::Fault(fault) => self.keep_fault(fault, logged),
            Message::Xen(message) => self.keep_xen(message, at),
            Message::Resource(message) => self.keep_resource(message, logged),
            Message::InterruptRemapping(message) => {
                self.interrupts_not_remapped.entry(*message).or_insert_with(|| at.clone());
            }
            Message::Driver(message) => self.keep_driver(message, logged),
        }
    }

    /// Keeps a fault. One of memory proves that its IOMMU translates; interrupts are remapped without that, too.
    fn keep_fault(&mut self, fault: &DmaFault, logged: &Logged) {
        let at = &logged.at;
        match fault {
            DmaFault { by_xen: true, cause, .. } => {
                self.hypervisor = Some(Cited::new(Hypervisor::XenDom0, at.clone()));
                if *cause != Cause::Interrupt {
                    self.xen_translates = Some(Cited::new(true, at.clone()));
                }
            }
            DmaFault { cause: Cause::Interrupt, .. } => {}
            fault => self.keep_translation(fault::kind_of(fault.reporter), at),
        }
        self.faults.push(Fault::of_iommu(fault, logged.seconds, at));
    }

    /// Keeps what Xen says of the IOMMU.
    fn keep_xen(&mut self, message: &XenMessage, at: &Citation) {
        self.hypervisor = Some(Cited::new(Hypervisor::XenDom0, at.clone()));
        match message {
            XenMessage::Virtualisation(on) => self.xen_translates = Some(Cited::new(*on, at.clone())),
            XenMessage::SetupProblem(_) => {
                self.xen_setup_problem.get_or_insert_with(|| at.clone());
            }
        }
    }

    /// Keeps an invalidation that failed. AMD-Vi's and the SMMUs' drivers send commands once they use the unit; VT-d's queue also
    /// serves interrupt remapping alone.
    fn keep_invalidation_failure(
        &mut self,
        failed: Option<(Failure, Option<Bdf>)>,
        kind: iommu::Kind,
        at: &Citation,
    ) {
        let Some((failure, device)) = failed else { return };
        if failure == Failure::DeviceSilent || kind != iommu::Kind::VtD {
            self.keep_translation(kind, at);
        }
        self.invalidation_failures.push(InvalidationFailure { failure, device, at: at.clone() });
    }

    /// Keeps what a line of a call trace shows.
    fn keep_call_trace(&mut self, shown: Option<Shown>, cite: impl Fn() -> Citation) {
        match shown {
            Some(Shown::Translation(Some(kind))) => self.keep_translation(kind, &cite()),
            Some(Shown::Translation(None)) => {
                self.translation_active.get_or_insert_with(cite);
            }
            Some(Shown::DeviceInvalidation) => {
                self.device_invalidation.get_or_insert_with(cite);
            }
            Some(Shown::Allocation(_)) | None => {}
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
                self.functions.remove(bdf);
            }
            IommuMessage::VirtioIommu => self.keep_translation(iommu::Kind::VirtioIommu, at),
            IommuMessage::FaultsSuppressed(count) => {
                let before = self.faults_suppressed.take().map_or(0, |cited| cited.value);
                self.faults_suppressed = Some(Cited::new(before.saturating_add(*count), at.clone()));
            }
            IommuMessage::UserAttachRefused => {
                self.user_attach_refused.entry(logged.bdf()).or_insert_with(|| at.clone());
            }
            IommuMessage::NoGroup { device, by_xen } => {
                self.no_group.entry(*device).or_insert_with(|| Cited::new(*by_xen, at.clone()));
            }
            IommuMessage::GroupNotViable { device, group } => {
                self.not_viable.entry((*device, *group)).or_insert_with(|| at.clone());
            }
            IommuMessage::UnsafeNoIommu => self.no_iommu.push((logged.bdf(), at.clone())),
            _ => {}
        }
    }

    /// Keeps what the VT-d driver says.
    fn keep_vt_d(&mut self, message: &VtDMessage, at: &Citation) {
        self.keep_invalidation_failure(invalidation_error::of_vt_d(message), iommu::Kind::VtD, at);
        if invalidation_error::is_timeout(message) {
            self.keep_translation(iommu::Kind::VtD, at);
            self.invalidation_status = Some(at.clone());
        }
        match message {
            VtDMessage::Active => self.keep_translation(iommu::Kind::VtD, at),
            // intel_iommu_init looks for units with address translation services after it decided to translate.
            VtDMessage::TableMissing(table) if table == "ATSR" => {
                self.keep_translation(iommu::Kind::VtD, at);
            }
            VtDMessage::DeviceMapping { device: Some(bdf), identity } => {
                self.own_mapping.insert(*bdf, Cited::new(*identity, at.clone()));
            }
            VtDMessage::GraphicsUntranslated => self.graphics_untranslated = Some(at.clone()),
            VtDMessage::StrictInGuest => self.batching_disallowed = Some(at.clone()),
            VtDMessage::StrictRequested => self.strict = Some(Cited::new(true, at.clone())),
            VtDMessage::Unit { .. } => {
                self.iommu_tables = self.iommu_tables.take().or_else(|| Some(at.clone()))
            }
            VtDMessage::BrokenFirmware(words) | VtDMessage::SetupProblem(words) => {
                self.iommu_trouble.push(at.clone());
                if rejects_table(words) {
                    self.vt_d_rejected = Some(at.clone());
                }
            }
            VtDMessage::BeyondWidth { bits, address } => {
                let beyond = BeyondWidth { bits: *bits, iova: *address };
                self.beyond_width.get_or_insert_with(|| Cited::new(beyond, at.clone()));
                self.keep_translation(iommu::Kind::VtD, at);
            }
            VtDMessage::InterruptRemapping => self.remaps_interrupts = true,
            VtDMessage::UnmatchedUnmap => {
                self.unmatched_unmap.get_or_insert_with(|| at.clone());
            }
            VtDMessage::DisableRequested => self.iommu_disabled = Some(at.clone()),
            VtDMessage::InheritedTables => self.inherited_tables = Some(at.clone()),
            VtDMessage::UnknownOption(option) => self.keep_unknown_option(option, at),
            _ => {}
        }
    }

    /// Keeps what the AMD-Vi driver says.
    fn keep_amd_vi(&mut self, message: &AmdViMessage, at: &Citation) {
        self.keep_invalidation_failure(invalidation_error::of_amd_vi(message), iommu::Kind::AmdVi, at);
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
            AmdViMessage::SnpNeedsTranslation => self.snp_refused = Some(at.clone()),
            AmdViMessage::StrictInGuest => self.batching_disallowed = Some(at.clone()),
            AmdViMessage::UnknownOption(option) => self.keep_unknown_option(option, at),
            AmdViMessage::Disabled(_) => {
                self.iommu_trouble.push(at.clone());
                self.iommu_disabled = Some(at.clone());
            }
            AmdViMessage::InterruptRemapping => self.remaps_interrupts = true,
            AmdViMessage::InheritedTables => self.inherited_tables = Some(at.clone()),
            _ => {}
        }
    }

    /// Keeps what the drivers of Arm's SMMUs say.
    fn keep_smmu(&mut self, message: &SmmuMessage, at: &Citation) {
        let kind = self.translates.unwrap_or(iommu::Kind::SmmuV3);
        self.keep_invalidation_failure(invalidation_error::of_smmu(message), kind, at);
        match message {
            SmmuMessage::FoundV2 => self.keep_translation(iommu::Kind::Smmu, at),
            SmmuMessage::FoundV3 { .. } => self.keep_translation(iommu::Kind::SmmuV3, at),
            SmmuMessage::ShutDown => self.smmu_shut_down = Some(at.clone()),
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
            SwiotlbMessage::CoherentFailed { bytes: Some(bytes) } => {
                let wanted = Wanted::Bytes(*bytes);
                self.keep_refused_allocation(RefusedAllocation {
                    wanted,
                    is_direct: true,
                    at: vec![at.clone()],
                });
            }
            SwiotlbMessage::Full { device, bytes, slots_total, slots_used } => {
                let address = logged.bdf().or(*device);
                let other = logged.device.as_ref().filter(|_| address.is_none());
                self.swiotlb_full.push(PoolFull {
                    address,
                    other_device: other.map(|device| device.name.clone()),
                    bytes: *bytes,
                    slots: *slots_total,
                    used_slots: *slots_used,
                    at: at.clone(),
                });
            }
            SwiotlbMessage::BouncedForEncryption(encryption) => {
                self.encrypted_bounce = Some(at.clone());
                match encryption {
                    Encryption::Host => self.host_encryption = Some(at.clone()),
                    Encryption::Guest => self.memory_encryption = Some(at.clone()),
                    Encryption::Unnamed => {}
                }
            }
            SwiotlbMessage::MaskOverflow { address, bytes, mask, bus_limit, is_bounced } => {
                let is_less = |limit: &u64| *limit != 0 && mask.is_some_and(|mask| *limit < mask);
                self.mask_overflows.push(MaskOverflow {
                    address: logged.bdf(),
                    bus_address: *address,
                    bytes: *bytes,
                    mask: *mask,
                    bus_limit: bus_limit.filter(is_less),
                    is_bounced: *is_bounced,
                    is_nommu: at.text.contains("nommu_map"),
                    at: at.clone(),
                });
            }
            _ => {}
        }
    }

    /// Keeps memory for DMA that a driver did not get: the first ones.
    fn keep_refused_allocation(&mut self, refused: RefusedAllocation) {
        const REFUSALS_MAX: usize = 64;
        if self.refused_allocations.len() < REFUSALS_MAX {
            self.refused_allocations.push(refused);
        }
    }

    /// Keeps what a driver says of its device's masks.
    fn keep_driver(&mut self, message: &DriverMessage, logged: &Logged) {
        let Some(bdf) = logged.bdf() else { return };
        let cited = |bits: u32| Cited::new(bits, logged.at.clone());
        match message {
            DriverMessage::Masks(masks) => {
                let known = self.dma_masks.entry(bdf).or_default();
                known.streaming = masks.streaming.map(cited).or(known.streaming.take());
                known.coherent = masks.coherent.map(cited).or(known.coherent.take());
            }
            DriverMessage::MaskRefused => {
                self.masks_refused.entry(bdf).or_insert_with(|| logged.at.clone());
            }
            _ => {}
        }
    }

    /// Keeps what a host bridge says. Logs of a board have a handful of these lines.
    fn keep_host_bridge(&mut self, message: &HostBridgeMessage, logged: &Logged) {
        const RANGES_MAX: usize = 64;
        let Some(device) = &logged.device else { return };
        let bridge = device.name.clone();
        match message {
            HostBridgeMessage::Inbound { first, last, bus } if self.inbound.len() < RANGES_MAX => {
                let end = bus.saturating_add(last.saturating_sub(*first));
                self.inbound.push(InboundRange { bridge, bus: (*bus, end), at: logged.at.clone() });
            }
            HostBridgeMessage::Domain(domain) if self.bridge_domains.len() < RANGES_MAX => {
                self.bridge_domains.insert(bridge, *domain);
            }
            HostBridgeMessage::LinkDown if self.links_down.len() < RANGES_MAX => {
                self.links_down.insert(bridge);
            }
            HostBridgeMessage::Inbound { .. }
            | HostBridgeMessage::Domain(_)
            | HostBridgeMessage::LinkDown => {}
        }
    }

    /// Keeps what the GART says.
    fn keep_gart(&mut self, message: &GartMessage, logged: &Logged) {
        let at = &logged.at;
        match message {
            GartMessage::InUse => self.gart = Some(at.clone()),
            GartMessage::Reserved { mebibytes } => {
                self.gart_mebibytes = Some(Cited::new(*mebibytes, at.clone()));
            }
            GartMessage::Full { device, bytes } => self.gart_full.push(PoolFull {
                address: logged.bdf().or(*device),
                other_device: None,
                bytes: Some(*bytes),
                slots: None,
                used_slots: None,
                at: at.clone(),
            }),
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
        let Some(bdf) = logged.bdf() else {
            // Up to 3.x, and of other buses, the line names no PCI function.
            if let WindowMessage::Exhausted { .. } = message {
                self.windows_full.add(at.clone());
            }
            return;
        };
        self.ddw.entry(bdf).or_default().keep(message, at);
    }

    /// Keeps an error that POWER's EEH reports as a fault.
    fn keep_eeh(&mut self, message: &EehMessage, logged: &Logged) {
        let (kind, what) = match message {
            EehMessage::Frozen { phb, pe } => {
                (FaultKind::Frozen, format!("EEH froze PE {pe:#x} of host bridge {phb:#x}"))
            }
            EehMessage::Fenced { phb } => (FaultKind::Fenced, format!("EEH fenced host bridge {phb:#x}")),
            EehMessage::FailedTimes(times) => {
                (FaultKind::Frozen, format!("EEH recovered it {times} times in the last hour"))
            }
            EehMessage::GivenUp(_) => (FaultKind::Frozen, "EEH gave it up".to_owned()),
            _ => return,
        };
        self.faults.push(Fault::by_eeh(kind, logged.bdf(), what, logged.at.clone()));
    }

    /// Keeps what the PCI core says of a function's link.
    fn keep_pcie(&mut self, message: &PcieMessage, logged: &Logged) {
        if let PcieMessage::AcsOverride = message {
            self.acs_override = Some(logged.at.clone());
        }
        let Some(bdf) = logged.bdf() else { return };
        let at = logged.at.clone();
        match message {
            PcieMessage::Bandwidth { available_mbps, link, limited_at, capable_mbps, capable } => {
                let line = BandwidthLine {
                    available_mbps: *available_mbps,
                    capable_mbps: *capable_mbps,
                    limited_at: *limited_at,
                    link: link.clone(),
                    capable: capable.clone(),
                    at,
                };
                self.bandwidth.insert(bdf, line);
            }
            PcieMessage::TooSlow => {
                self.links_too_slow.insert(bdf, at);
            }
            PcieMessage::PayloadRefused { .. } => {
                self.payload_refused.insert(bdf, at);
            }
            PcieMessage::BusError { severity, .. } => {
                let errors = self.pcie_errors.entry(bdf).or_default();
                match severity.as_str() {
                    // `Corrected` until Linux 6.7, `Correctable` since.
                    severity if severity.starts_with("Correct") => errors.corrected.add(at),
                    severity if severity.contains("(Fatal)") => errors.fatal.add(at),
                    _ => errors.uncorrected.add(at),
                }
            }
            PcieMessage::ErrorBit(name) => {
                self.pcie_errors.entry(bdf).or_default().names.insert(name.clone());
            }
            PcieMessage::Packet(header) => {
                self.pcie_errors.entry(bdf).or_default().packet.get_or_insert(Cited::new(*header, at));
            }
            PcieMessage::Inaccessible { from_d3cold } => {
                self.slow_resets.remove(&bdf);
                self.inaccessible.entry(bdf).or_insert(Cited::new(*from_d3cold, at));
            }
            PcieMessage::SlowReset { is_back: false } if !self.inaccessible.contains_key(&bdf) => {
                self.slow_resets.entry(bdf).or_insert(at);
            }
            PcieMessage::SlowReset { is_back: true } => {
                self.slow_resets.remove(&bdf);
                self.inaccessible.remove(&bdf);
            }
            PcieMessage::Answers => {
                self.inaccessible.remove(&bdf);
            }
            PcieMessage::Slot { is_occupied: true } => {
                self.emptied_slots.remove(&bdf);
            }
            PcieMessage::Slot { is_occupied: false } => {
                self.emptied_slots.entry(bdf).or_insert(at);
            }
            PcieMessage::Contained => self.pcie_errors.entry(bdf).or_default().contained = Some(at),
            _ => {}
        }
    }

    /// Keeps whether a BAR has room. The kernel tries several times: the last word counts.
    fn keep_resource(&mut self, message: &ResourceMessage, logged: &Logged) {
        let Some(address) = message.device.or(logged.bdf()) else { return };
        let register = (address, message.bar);
        match message.is_placed {
            true => self.unplaced.remove(&register),
            false => self.unplaced.insert(register, Cited::new(message.need, logged.at.clone())),
        };
    }

    /// Keeps a conflict of memory types.
    fn keep_memory_type(&mut self, message: &MemoryTypeMessage, at: &Citation) {
        const MTRRS_MAX: usize = 64;
        if let MemoryTypeMessage::Conflict { start, end, wanted, found } = message {
            self.memory_type_range.get_or_insert_with(|| ConflictingTypes {
                start: *start,
                end: *end,
                types: [wanted.clone(), found.clone()],
            });
        }
        match message {
            MemoryTypeMessage::Conflict { .. } | MemoryTypeMessage::IoremapOnRam { .. } => {
                self.memory_type_conflicts.push(at.clone());
            }
            MemoryTypeMessage::MtrrMismatch { .. }
            | MemoryTypeMessage::MtrrOverlap(_)
            | MemoryTypeMessage::MtrrsExhausted
                if self.mtrrs_refused.len() < MTRRS_MAX =>
            {
                self.mtrrs_refused.push(Cited::new(message.clone(), at.clone()));
            }
            MemoryTypeMessage::MtrrsRepaired => {
                self.mtrrs_repaired.get_or_insert_with(|| at.clone());
            }
            MemoryTypeMessage::MemoryTrimmed { mebibytes } => {
                self.memory_trimmed_mebibytes = Some(Cited::new(*mebibytes, at.clone()));
            }
            _ => {}
        }
    }

    /// Keeps what the kernel says of its command line and memory at boot.
    fn keep_boot(&mut self, message: &BootMessage, at: &Citation) {
        match message {
            BootMessage::Version(words) => {
                let version = KernelVersion::parse(words);
                self.release = version.map(|version| Cited::new(version.release, at.clone()));
            }
            BootMessage::UnknownParameters(options) => {
                options.iter().for_each(|option| self.keep_unknown_option(option, at));
            }
            BootMessage::MalformedOption(option) => self.keep_unknown_option(option, at),
            BootMessage::MemoryEncryption(features) if encrypts_guest(features) => {
                self.memory_encryption = Some(at.clone());
            }
            BootMessage::MemoryEncryption(features) if features.iter().any(|feature| feature == "SME") => {
                self.host_encryption = Some(at.clone());
            }
            _ => {}
        }
    }

    /// The lines of the last boot in the text that this was read from.
    pub fn lines_of_last_boot<'t>(&self, text: &'t Text) -> impl Iterator<Item = (u32, &'t str)> {
        let earlier = self.lines_of_earlier_boots;
        text.lines().filter(move |(line, _)| *line > earlier)
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
            WindowMessage::CannotMapMemory(_) => self.too_small = Some(at.clone()),
            WindowMessage::PersistentMemorySkipped => self.persistent_memory = Some(at.clone()),
            _ => {}
        }
    }
}

/// The kernel in the head of a call trace: `CPU: 3 PID: 812 Comm: fio Not tainted 6.1.0-18-amd64 #1 Debian 6.1.76-1`, up to 3.9
/// `Pid: 812, comm: fio Not tainted 2.6.32-5-amd64 #1`.
fn traced_kernel(message: &str) -> Option<KernelVersion> {
    let is_head = message.starts_with("CPU: ") && message.contains(" Comm: ")
        || message.starts_with("Pid: ") && message.contains(", comm: ");
    let before = is_head.then(|| message.split_once(" #")).flatten()?.0;
    let release = before.rsplit(' ').next()?;
    release.starts_with(|c: char| c.is_ascii_digit()).then(|| KernelVersion::parse(release)).flatten()
}

/// The end of memory by `last_pfn = 0x83f380 max_arch_pfn = 0x400000000` (arch/x86/kernel/e820.c, `e820_end_pfn`), from 3.10 to 4.11
/// with `e820: ` before it. A second such line tells where memory below 4 GiB ends.
fn end_of_memory(message: &str) -> Option<u64> {
    const PAGE_SHIFT: u32 = 12;
    let rest = message.strip_prefix("e820: ").unwrap_or(message).strip_prefix("last_pfn = 0x")?;
    let (frames, _) = rest.split_once(" max_arch_pfn")?;
    u64::from_str_radix(frames, 16).ok()?.checked_mul(1 << PAGE_SHIFT)
}

/// The architecture that alone prints such messages. Endianness of POWER and width of Arm are guessed.
fn printed_by(message: &Message) -> Option<Architecture> {
    match message {
        Message::VtD(_) | Message::MemoryType(_) | Message::Gart(_) => Some(Architecture::X86_64),
        // The module of AMD's IOMMUv2 says on every x86 machine that it found nothing.
        Message::AmdVi(_) => Some(Architecture::X86_64),
        Message::Smmu(_) => Some(Architecture::Aarch64),
        Message::Window(_) | Message::Eeh(_) => Some(Architecture::Ppc64),
        Message::Fault(fault) => match fault.reporter {
            Reporter::VtD | Reporter::AmdVi => Some(Architecture::X86_64),
            Reporter::SmmuV2 | Reporter::SmmuV3 => Some(Architecture::Aarch64),
            Reporter::Virtio => None,
        },
        Message::Iommu(_)
        | Message::Swiotlb(_)
        | Message::Pcie(_)
        | Message::Resource(_)
        | Message::Boot(_)
        | Message::HostBridge(_)
        | Message::Driver(_) => None,
        // VFIO says so on every architecture.
        Message::InterruptRemapping(InterruptRemappingMessage::UserRefused) => None,
        Message::InterruptRemapping(_) | Message::Xen(_) => Some(Architecture::X86_64),
    }
}

/// The bus of a partition endpoint, named `0022:01`.
fn bus(name: &str) -> Option<(u32, u8)> {
    let (domain, bus) = name.trim().split_once(':')?;
    Some((u32::from_str_radix(domain, 16).ok()?, u8::from_str_radix(bus, 16).ok()?))
}

/// Whether the kernel gives VT-d up for good (drivers/iommu/intel/dmar.c, `warn_invalid_dmar`, `dmar_table_init`).
fn rejects_table(words: &str) -> bool {
    words.contains("DMAR reported at address") || words.contains("arse DMAR table failure")
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
