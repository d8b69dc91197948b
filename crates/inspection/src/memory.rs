//! Memory types of an x86 host.

use crate::hex;
use host::facts::memory::MemoryTypes as Facts;
use host::memory::{MemmapEffect, MemmapRequest, MemoryType, PhysRange, TableLayout};
use host::{Citation, Cited};
use serde::Serialize;

/// Facts about all of memory.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryTypes {
    /// Whether `/proc/mtrr` exists.
    pub has_mtrr: bool,
    /// The type outside all variable MTRRs.
    pub default_type: MemoryType,
    /// End of the memory above 4 GiB that is write-back regardless of the MTRRs (AMD's TOM2).
    pub write_back_end: Option<String>,
    /// PAT is off.
    pub without_pat: bool,
    /// The order of columns in `/proc/mtrr`.
    pub mtrr_layout: Option<TableLayout>,
    /// `/proc/iomem` shows zeros instead of addresses.
    pub addresses_hidden: bool,
    /// Lines that could not be understood.
    pub problems: Vec<String>,
}

impl MemoryTypes {
    /// Converts the facts about all of memory.
    pub(crate) fn new(facts: &Facts) -> Self {
        Self {
            has_mtrr: facts.mtrr.is_some(),
            default_type: facts.default.kind,
            write_back_end: facts.default.top_mem2.map(hex::address),
            without_pat: facts.without_pat,
            mtrr_layout: facts.mtrr.as_ref().and_then(|table| table.layout),
            addresses_hidden: facts.iomem.as_ref().is_some_and(|iomem| iomem.hidden),
            problems: facts
                .problems
                .iter()
                .map(|problem| format!("{}: {}", problem.at, problem.what))
                .collect(),
        }
    }
}

/// A variable MTRR.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MtrrRegister {
    /// Its number.
    pub number: u32,
    /// First address.
    pub first: String,
    /// Last address.
    pub last: String,
    /// The type.
    pub memory_type: MemoryType,
    /// The kernel's usage count of it.
    pub use_count: u32,
    /// The line that it was read from.
    pub evidence: Citation,
}

impl MtrrRegister {
    /// The variable MTRRs of `/proc/mtrr`.
    pub(crate) fn all(facts: &Facts) -> Vec<Self> {
        let row = |Cited { value, at }: &Cited<host::memory::Register>| {
            let (first, last) = first_and_last(value.range);
            Self {
                number: value.number,
                first,
                last,
                memory_type: value.kind,
                use_count: value.count,
                evidence: at.clone(),
            }
        };
        facts.mtrr.iter().flat_map(|table| &table.registers).map(row).collect()
    }
}

/// An address range and its owner.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryResource {
    /// First address.
    pub first: String,
    /// Last address.
    pub last: String,
    /// Nesting level: 0 at the top, 1 inside such a range.
    pub depth: u32,
    /// `System RAM`, `PCI Bus 0000:3b`.
    pub name: String,
    /// Line in `/proc/iomem`.
    pub line: Option<u32>,
}

impl MemoryResource {
    /// The ranges of `/proc/iomem`, each before the ranges inside it.
    pub(crate) fn all(facts: &Facts) -> Vec<Self> {
        let row = |Cited { value, at }: &Cited<host::memory::Resource>| {
            let (first, last) = first_and_last(value.range);
            Self { first, last, depth: value.depth, name: value.name.clone(), line: at.line }
        };
        facts.iomem.iter().flat_map(|iomem| &iomem.resources).map(row).collect()
    }
}

/// A mapping whose type the kernel tracks.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PatMapping {
    /// First address.
    pub first: String,
    /// Last address.
    pub last: String,
    /// The type of its pages.
    pub memory_type: MemoryType,
    /// The line that it was read from.
    pub evidence: Citation,
}

impl PatMapping {
    /// The mappings in the kernel's list of memory types.
    pub(crate) fn all(facts: &Facts) -> Vec<Self> {
        let row = |Cited { value, at }: &Cited<host::memory::Memtype>| {
            let (first, last) = first_and_last(value.range);
            Self { first, last, memory_type: value.kind, evidence: at.clone() }
        };
        facts.memtypes.iter().map(row).collect()
    }
}

/// An argument `memmap=`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemmapArea {
    /// The kind of area requested.
    pub request: MemmapKind,
    /// First address; null if it has no range.
    pub first: Option<String>,
    /// Last address; null if it has no range.
    pub last: Option<String>,
    /// Its effect on this kernel.
    pub effect: MemmapEffect,
    /// The line that it was read from.
    pub evidence: Citation,
}

/// The kind of area that an argument `memmap=` requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MemmapKind {
    /// `@`: usable memory.
    Ram,
    /// `#`: ACPI data.
    Acpi,
    /// `$`: reserved.
    Reserved,
    /// `!`: persistent memory.
    Pmem,
    /// `%`: another type.
    Retype,
    /// A size alone: memory above it is not used.
    CutAbove,
    /// `exactmap`
    ExactMap,
    /// None of these.
    Malformed,
}

impl MemmapArea {
    /// The `memmap=` arguments of the command line.
    pub(crate) fn all(facts: &Facts) -> Vec<Self> {
        let row = |area: &host::memory::MemmapArea| {
            let (first, last) = area.request.range().map(first_and_last).unzip();
            Self {
                request: MemmapKind::of(&area.request),
                first,
                last,
                effect: area.effect,
                evidence: area.at.clone(),
            }
        };
        facts.memmap.iter().map(row).collect()
    }
}

impl MemmapKind {
    /// The kind of a request.
    fn of(request: &MemmapRequest) -> Self {
        match request {
            MemmapRequest::Ram { .. } => Self::Ram,
            MemmapRequest::Acpi { .. } => Self::Acpi,
            MemmapRequest::Reserved { .. } => Self::Reserved,
            MemmapRequest::Pmem { .. } => Self::Pmem,
            MemmapRequest::Retype { .. } => Self::Retype,
            MemmapRequest::CutAbove { .. } => Self::CutAbove,
            MemmapRequest::ExactMap => Self::ExactMap,
            MemmapRequest::Malformed => Self::Malformed,
        }
    }
}

/// First and last address.
fn first_and_last(range: PhysRange) -> (String, String) {
    (hex::address(range.base()), hex::address(range.last()))
}
