//! What the kernel's log says of DMA, one row for each statement.

use host::facts::LogProblem;
use host::facts::iommu::Kind;
use host::facts::log::{DdwLog, LogFacts};
use host::{Bdf, Citation, Cited};
use serde::Serialize;

/// The log that was read.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelLog {
    /// The file; null if there was none.
    pub file: Option<String>,
    /// It reaches back to the start of the boot.
    pub complete_from_boot: bool,
    /// It goes on to the start of user space without a gap: what it does not say of the boot was not said.
    pub covers_boot: bool,
    /// The IOMMU that it says translates.
    pub translates: Option<Kind>,
}

impl KernelLog {
    /// Converts the facts about the log itself.
    pub(crate) fn new(log: &LogFacts) -> Self {
        Self {
            file: Some(&log.file).filter(|file| !file.is_empty()).cloned(),
            complete_from_boot: log.complete_from_boot,
            covers_boot: log.covers_boot,
            translates: log.translates,
        }
    }
}

/// Messages of the log that tell of something wrong and that no finding is about.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnjudgedProblem {
    /// What is wrong, in a few words.
    pub what: String,
    /// The PCI function that they are about; null if they name none.
    pub address: Option<Bdf>,
    /// How many there are, with those that the kernel says it left out.
    pub messages: u64,
    /// The first of them.
    pub evidence: Citation,
}

impl UnjudgedProblem {
    /// Converts a problem.
    pub(crate) fn new(problem: &LogProblem) -> Self {
        Self {
            what: problem.what.to_owned(),
            address: problem.address,
            messages: problem.messages,
            evidence: problem.at.clone(),
        }
    }
}

/// A statement in the log.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LogFact {
    /// What it is about.
    pub kind: LogFactKind,
    /// The PCI function; null if it is about the host.
    pub address: Option<Bdf>,
    /// What it says: `true`, `false`, a number, a text; null where it says only that something happened.
    pub value: Option<String>,
    /// The line.
    pub evidence: Citation,
}

/// What a statement of the log is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LogFactKind {
    /// The default domain type is passthrough.
    DefaultPassthrough,
    /// The invalidation policy is strict.
    Strict,
    /// AMD-Vi invalidates at each unmap (before 5.13).
    AmdStrict,
    /// Batching of invalidations was disabled, because the IOMMU is virtual.
    BatchingDisallowed,
    /// DMA translation is in use.
    TranslationActive,
    /// An IOMMU was requested and could not be set up.
    IommuTrouble,
    /// ACPI tables describe an IOMMU.
    IommuTables,
    /// A function has an identity domain (true) or a translated one (false).
    IdentityDomain,
    /// A function was added to the IOMMU group of this number.
    IommuGroup,
    /// Memory is encrypted.
    MemoryEncryption,
    /// Size of the bounce pool in bytes.
    SwiotlbBytes,
    /// The bounce pool could not be allocated.
    SwiotlbFailed,
    /// The bounce pool was full.
    SwiotlbFull,
    /// A mapping was refused, because the DMA mask does not reach the buffer.
    MaskOverflow,
    /// A DMA fault, in a few words.
    DmaFault,
    /// 64-bit DMA windows are switched off.
    DdwDisabled,
    /// Firmware answered a query of windows with this status.
    DdwQuery,
    /// Firmware answered the creation of a window with this status.
    DdwCreate,
    /// A direct 64-bit window is used, at this offset.
    DdwDirect,
    /// A direct window reaches this far only.
    DdwLimited,
    /// A 64-bit window could not be used.
    DdwRefused,
    /// A window had no free entries.
    WindowExhausted,
    /// 64-bit bypass on POWER without a hypervisor.
    Bypass,
    /// The kernel does not know this option.
    UnknownOption,
    /// The bandwidth of a link in Mb/s, less than the device could use.
    LinkBandwidthMbps,
    /// A payload size could not be set.
    PayloadRefused,
    /// Memory types conflict.
    MemoryTypeConflict,
    /// A device without an IOMMU was made available to user space.
    UserWithoutIommu,
}

impl LogFact {
    /// All facts of a log, in the order of its lines.
    pub(crate) fn all(log: &LogFacts) -> Vec<Self> {
        let mut rows = Vec::new();
        add_host_facts(log, &mut rows);
        add_function_facts(log, &mut rows);
        for (address, ddw) in &log.ddw {
            add_window_facts(*address, ddw, &mut rows);
        }
        // The maps by function lose the order of the lines.
        rows.sort_by_key(|row: &Self| (row.evidence.line, row.address));
        rows
    }

    /// A fact with the line that it was read from.
    fn new(kind: LogFactKind, address: Option<Bdf>, value: Option<String>, at: &Citation) -> Self {
        Self { kind, address, value, evidence: at.clone() }
    }

    /// A fact whose value is the cited one, as text.
    fn with_cited_value<T: ToString>(kind: LogFactKind, address: Option<Bdf>, cited: &Cited<T>) -> Self {
        Self::new(kind, address, Some(cited.value.to_string()), &cited.at)
    }
}

/// Appends the facts about the host as a whole.
fn add_host_facts(log: &LogFacts, rows: &mut Vec<LogFact>) {
    use LogFactKind as Kind;
    let policies = [
        (Kind::DefaultPassthrough, &log.default_passthrough),
        (Kind::Strict, &log.strict),
        (Kind::AmdStrict, &log.amd_strict),
    ];
    let fact = |(kind, cited): (_, &Option<Cited<bool>>)| {
        Some(LogFact::with_cited_value(kind, None, cited.as_ref()?))
    };
    rows.extend(policies.into_iter().filter_map(fact));
    rows.extend(
        log.swiotlb_bytes.iter().map(|bytes| LogFact::with_cited_value(Kind::SwiotlbBytes, None, bytes)),
    );
    rows.extend(
        log.unknown_options.iter().map(|option| LogFact::with_cited_value(Kind::UnknownOption, None, option)),
    );
    let events: [(_, &[Citation]); 8] = [
        (Kind::BatchingDisallowed, log.batching_disallowed.as_slice()),
        (Kind::TranslationActive, log.translation_active.as_slice()),
        (Kind::IommuTrouble, &log.iommu_trouble),
        (Kind::IommuTables, log.iommu_tables.as_slice()),
        (Kind::MemoryEncryption, log.memory_encryption.as_slice()),
        (Kind::SwiotlbFailed, log.swiotlb_failed.as_slice()),
        (Kind::DdwDisabled, log.ddw_disabled.as_slice()),
        (Kind::MemoryTypeConflict, &log.memory_type_conflicts),
    ];
    for (kind, lines) in events {
        rows.extend(lines.iter().map(|at| LogFact::new(kind, None, None, at)));
    }
    rows.extend(
        log.mtrrs_refused
            .iter()
            .map(|refused| LogFact::new(Kind::MemoryTypeConflict, None, None, &refused.at)),
    );
}

/// Appends the facts about PCI functions, without those about POWER's windows.
fn add_function_facts(log: &LogFacts, rows: &mut Vec<LogFact>) {
    use LogFactKind as Kind;
    let full = log.swiotlb_full.iter().map(|full| (Kind::SwiotlbFull, full.address, &full.at));
    let overflows = log.mask_overflows.iter().map(|line| (Kind::MaskOverflow, line.address, &line.at));
    let no_iommu = log.no_iommu.iter().map(|(address, at)| (Kind::UserWithoutIommu, *address, at));
    let lines = full.chain(overflows).chain(no_iommu);
    rows.extend(lines.map(|(kind, address, at)| LogFact::new(kind, address, None, at)));
    for (kind, lines) in [(Kind::Bypass, &log.bypass), (Kind::PayloadRefused, &log.payload_refused)] {
        rows.extend(lines.iter().map(|(address, at)| LogFact::new(kind, Some(*address), None, at)));
    }
    rows.extend(
        log.faults
            .iter()
            .map(|fault| LogFact::new(Kind::DmaFault, fault.address, Some(fault.what.clone()), &fault.at)),
    );
    rows.extend(
        log.own_mapping
            .iter()
            .map(|(address, cited)| LogFact::with_cited_value(Kind::IdentityDomain, Some(*address), cited)),
    );
    rows.extend(
        log.groups
            .iter()
            .map(|(address, cited)| LogFact::with_cited_value(Kind::IommuGroup, Some(*address), cited)),
    );
    rows.extend(log.bandwidth.iter().map(|(address, line)| {
        LogFact::new(Kind::LinkBandwidthMbps, Some(*address), Some(line.available_mbps.to_string()), &line.at)
    }));
    rows.extend(log.bypass_buses.iter().map(|((domain, bus), at)| {
        LogFact::new(Kind::Bypass, None, Some(format!("{domain:04x}:{bus:02x}")), at)
    }));
}

/// Appends the facts about the 64-bit DMA window of a function.
fn add_window_facts(address: Bdf, ddw: &DdwLog, rows: &mut Vec<LogFact>) {
    use LogFactKind as Kind;
    let address = Some(address);
    let query = ddw.query.iter().map(|query| (Kind::DdwQuery, query.value.returned, &query.at));
    let create = ddw.create.iter().map(|create| (Kind::DdwCreate, create.value.returned, &create.at));
    for (kind, status, at) in query.chain(create) {
        rows.push(LogFact::new(kind, address, Some(status.to_string()), at));
    }
    for (kind, place) in [(Kind::DdwDirect, &ddw.direct), (Kind::DdwLimited, &ddw.limited)] {
        rows.extend(
            place
                .iter()
                .map(|cited| LogFact::new(kind, address, Some(crate::hex::address(cited.value)), &cited.at)),
        );
    }
    rows.extend(ddw.refused.iter().map(|at| LogFact::new(Kind::DdwRefused, address, None, at)));
    rows.extend(ddw.exhausted.iter().map(|at| LogFact::new(Kind::WindowExhausted, address, None, at)));
}
