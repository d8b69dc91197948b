//! Something that is wrong or costs more than it must, with its remedy.

use super::advice::Advice;
use super::forecast::AreaForecast;
use super::prediction::Prediction;
use crate::{Bdf, Citation};
use serde::Serialize;
use toll::Gain;

/// How much a finding matters. Ordered: the worst is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// True and worth knowing, but a matter of choice.
    Note,
    /// Costs performance or protection.
    Warning,
    /// Data is or may be damaged, or DMA fails.
    Critical,
}

impl std::fmt::Display for Severity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Critical => "critical",
        })
    }
}

/// What is found. The serialised names are stable: scripts match on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Id {
    /// One invalidation per unmap on an adapter of high rate.
    StrictOnFastAdapter,
    /// Lazy invalidation although strict was asked for.
    LazyAgainstRequest,
    /// Strict invalidation although lazy was asked for.
    StrictAgainstRequest,
    /// A kernel option that is ignored or does something else than it seems to.
    KernelOptionInvalid,
    /// A kernel option of the boot loader's configuration that the running kernel was not started with.
    KernelOptionNotBooted,
    /// There is an IOMMU, but firmware or an option keeps it off.
    IommuOff,
    /// The adapter reaches 32 bits only, and memory goes further.
    Mask32Bit,
    /// Every transfer is copied.
    SwiotlbForced,
    /// Bounce buffers ran out, or nearly.
    SwiotlbFull,
    /// The bounce pool is too small for its users, or missing where it is needed.
    SwiotlbSmall,
    /// The GART's bus addresses ran out.
    GartFull,
    /// POWER: the default window although a direct one may be had.
    PowerDefaultWindow,
    /// POWER: the partition's maximum memory stands in the way of a direct window, or will.
    PowerMaximumMemory,
    /// POWER: mappings failed because a window was full.
    PowerWindowFull,
    /// POWER: a direct window is there, beyond the device's mask.
    PowerWindowExceedsMask,
    /// POWER: an RDMA adapter has no 64-bit window, and what applications register must fit the default one.
    RdmaOutsideWindow,
    /// An RDMA adapter's PCI Express path carries less than its active ports.
    RdmaPathTooSlow,
    /// An RDMA device whose work the kernel does.
    RdmaInSoftware,
    /// A link slower or narrower than both its ends allow.
    LinkDegraded,
    /// Functions on one path that disagree on the largest payload.
    PayloadMismatch,
    /// ACS sends peer-to-peer traffic through the root complex.
    AcsRedirect,
    /// The adapter could translate by itself, but may not.
    AtsOff,
    /// A device or the IOMMU does not answer invalidations.
    InvalidationTimeout,
    /// DMA faults or frozen slots in the kernel's log.
    DmaFaults,
    /// A mapping was refused, because its IOVA has more bits than the IOMMU takes.
    IovaBeyondWidth,
    /// The adapter's NUMA node has no CPUs, or its interrupts are taken elsewhere.
    NumaFar,
    /// PCI Express errors in the kernel's log.
    PcieErrors,
    /// A device no longer answers.
    DeviceGone,
    /// A driver did not get memory for DMA.
    DmaAllocationRefused,
    /// A function's registers got no room in the address space.
    RegistersUnplaced,
    /// Adapters that have nothing to do with each other share a group.
    GroupShared,
    /// Options make the kernel take devices for isolated that are not.
    IsolationWeakened,
    /// No DMA protection where a stranger may plug something in.
    PassthroughExposed,
    /// A `memmap=` area that is uncached and therefore slow.
    MemmapUncached,
    /// A `memmap=` area that is cached although the device may not be coherent.
    MemmapIncoherent,
    /// MTRR and PAT ask for different types, or an MTRR splits an area.
    MtrrPatConflict,
    /// MTRRs could not be set as wanted, or leave memory out.
    MtrrLayout,
    /// User space drives the adapter, and no IOMMU confines it.
    UserWithoutIommu,
    /// The kernel refuses to give an adapter to user space or to a guest.
    UserAttachRefused,
    /// Other devices of its IOMMU group keep an adapter from user space.
    GroupNotViable,
    /// The IOMMU does not check interrupts.
    InterruptsNotRemapped,
    /// SEV-SNP needs an IOMMU that translates.
    SnpRefused,
    /// A virtual IOMMU makes every translated adapter strict.
    VirtualIommuStrict,
    /// Two sources that can't both be right.
    SourcesDisagree,
}

impl Id {
    /// All kinds.
    pub const ALL: [Self; 44] = [
        Self::StrictOnFastAdapter,
        Self::LazyAgainstRequest,
        Self::StrictAgainstRequest,
        Self::KernelOptionInvalid,
        Self::KernelOptionNotBooted,
        Self::IommuOff,
        Self::Mask32Bit,
        Self::SwiotlbForced,
        Self::SwiotlbFull,
        Self::SwiotlbSmall,
        Self::GartFull,
        Self::PowerDefaultWindow,
        Self::PowerMaximumMemory,
        Self::PowerWindowFull,
        Self::PowerWindowExceedsMask,
        Self::RdmaOutsideWindow,
        Self::RdmaPathTooSlow,
        Self::RdmaInSoftware,
        Self::LinkDegraded,
        Self::PayloadMismatch,
        Self::AcsRedirect,
        Self::AtsOff,
        Self::InvalidationTimeout,
        Self::DmaFaults,
        Self::IovaBeyondWidth,
        Self::NumaFar,
        Self::PcieErrors,
        Self::DeviceGone,
        Self::DmaAllocationRefused,
        Self::RegistersUnplaced,
        Self::GroupShared,
        Self::IsolationWeakened,
        Self::PassthroughExposed,
        Self::MemmapUncached,
        Self::MemmapIncoherent,
        Self::MtrrPatConflict,
        Self::MtrrLayout,
        Self::UserWithoutIommu,
        Self::UserAttachRefused,
        Self::GroupNotViable,
        Self::InterruptsNotRemapped,
        Self::SnpRefused,
        Self::VirtualIommuStrict,
        Self::SourcesDisagree,
    ];

    /// The name used for it everywhere.
    pub fn word(self) -> &'static str {
        match self {
            Self::StrictOnFastAdapter => "strict-on-fast-adapter",
            Self::LazyAgainstRequest => "lazy-against-request",
            Self::StrictAgainstRequest => "strict-against-request",
            Self::KernelOptionInvalid => "kernel-option-invalid",
            Self::KernelOptionNotBooted => "kernel-option-not-booted",
            Self::IommuOff => "iommu-off",
            Self::Mask32Bit => "mask-32-bit",
            Self::SwiotlbForced => "swiotlb-forced",
            Self::SwiotlbFull => "swiotlb-full",
            Self::SwiotlbSmall => "swiotlb-small",
            Self::GartFull => "gart-full",
            Self::PowerDefaultWindow => "power-default-window",
            Self::PowerMaximumMemory => "power-maximum-memory",
            Self::PowerWindowFull => "power-window-full",
            Self::PowerWindowExceedsMask => "power-window-exceeds-mask",
            Self::RdmaOutsideWindow => "rdma-outside-window",
            Self::RdmaPathTooSlow => "rdma-path-too-slow",
            Self::RdmaInSoftware => "rdma-in-software",
            Self::LinkDegraded => "link-degraded",
            Self::PayloadMismatch => "payload-mismatch",
            Self::AcsRedirect => "acs-redirect",
            Self::AtsOff => "ats-off",
            Self::InvalidationTimeout => "invalidation-timeout",
            Self::DmaFaults => "dma-faults",
            Self::IovaBeyondWidth => "iova-beyond-width",
            Self::NumaFar => "numa-far",
            Self::PcieErrors => "pcie-errors",
            Self::DeviceGone => "device-gone",
            Self::DmaAllocationRefused => "dma-allocation-refused",
            Self::RegistersUnplaced => "registers-unplaced",
            Self::GroupShared => "group-shared",
            Self::IsolationWeakened => "isolation-weakened",
            Self::PassthroughExposed => "passthrough-exposed",
            Self::MemmapUncached => "memmap-uncached",
            Self::MemmapIncoherent => "memmap-incoherent",
            Self::MtrrPatConflict => "mtrr-pat-conflict",
            Self::MtrrLayout => "mtrr-layout",
            Self::UserWithoutIommu => "user-without-iommu",
            Self::UserAttachRefused => "user-attach-refused",
            Self::GroupNotViable => "group-not-viable",
            Self::InterruptsNotRemapped => "interrupts-not-remapped",
            Self::SnpRefused => "snp-refused",
            Self::VirtualIommuStrict => "virtual-iommu-strict",
            Self::SourcesDisagree => "sources-disagree",
        }
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.word())
    }
}

impl Serialize for Id {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// What a kind of finding means on any host. Each rule states its own; `docs/reference/findings.md` is made from them.
#[derive(Debug, Clone, Copy)]
pub struct Explanation {
    /// Which kind.
    pub id: Id,
    /// What is the case, and what that costs or endangers.
    pub meaning: &'static str,
    /// Which severity it has, and when another one.
    pub severity: &'static str,
    /// What it is concluded from.
    pub evidence: &'static str,
    /// What to do about it.
    pub fix: &'static str,
    /// What the fix may cost or break.
    pub risk: &'static str,
    /// How to see that the fix worked.
    pub verify: &'static str,
}

/// A finding.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// What kind.
    pub id: Id,
    /// How much it matters.
    pub severity: Severity,
    /// The adapter; `None` for the host as a whole.
    pub address: Option<Bdf>,
    /// What is the case, in a sentence or two.
    pub what: String,
    /// The lines it was concluded from.
    pub evidence: Vec<Citation>,
    /// The exact remedy: a command or a kernel argument. Serialised as its words (`fix`) and the commands in them
    /// (`commands`, null for one that must not be pasted).
    pub fix: Advice,
    /// What the remedy may cost or break.
    pub risk: String,
    /// How to see that it worked; serialised likewise, as `verify` and `verify_commands`.
    pub verify: Advice,
    /// What it gave somebody, where a published figure fits.
    pub gain: Option<Gain>,
    /// What an I/O is predicted to pay less, or more, where the remedy leads to another DMA path and toll sheets
    /// fit. One for each workload. Rules leave it empty: the DMA path tells.
    pub predicted: Vec<Prediction>,
    /// What transfers with the area of `memmap=` that it is about are expected to do, by a model of them.
    pub forecast: Option<AreaForecast>,
}
