//! What a driver gets for a buffer: memory that `memmap=` sets aside, mapped by one of the kernel's calls, or memory of the DMA
//! API.
//!
//! The rules are those of [`host::memory`], which `iotoll inspect` goes by too.

use super::memory_system::Snoop;
use host::Text;
use host::memory::effective::{Answer, Call, Facts, MappedPart, Mapping, Reason, effective};
use host::memory::mtrr::lookup;
use host::memory::{DefaultType, MemmapArea, MemmapEffect, MemoryType, MtrrTable, PhysRange, parse_iomem};
use serde::{Deserialize, Serialize};

/// Kinds of memory that a driver has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Memory {
    /// Set aside by `memmap=` and mapped by a call; the device is given its physical address.
    Static,
    /// From the DMA API. On x86 these are pages of the page allocator, whose mapping is left as it is, and no call of the API
    /// flushes anything (arch/x86_64/kernel/pci-nommu.c of 2.6.18 and of RHEL 5, arch/x86/kernel/pci-dma.c of 2.6.32): that memory
    /// is coherent rests on accesses that snoop.
    DmaApi,
}

/// On which of its accesses a device sets the attribute No Snoop (PCI Express Base Specification, section 2.2.6.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NoSnoop {
    /// On none: it is coherent.
    Never,
    /// On those to memory that the DMA API did not hand out. The API promises coherent memory and x86's keeps that by snooping
    /// alone, so that a driver that opts in to No Snoop has to leave the API's memory out.
    OutsideDmaApi,
    /// On all.
    Always,
}

/// A device, with what is between it and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// When it sets No Snoop.
    pub no_snoop: NoSnoop,
    /// An IOMMU takes No Snoop off all accesses that the DMA API mapped (VT-d's snoop control). What the device reaches by its
    /// physical address is not mapped so.
    #[serde(default)]
    pub iommu_enforces_snoop: bool,
}

impl Card {
    /// Whether its accesses to this memory snoop.
    pub fn snoop(self, memory: Memory) -> Snoop {
        let sets_it = match self.no_snoop {
            NoSnoop::Never => false,
            NoSnoop::OutsideDmaApi => memory == Memory::Static,
            NoSnoop::Always => true,
        };
        let is_taken_off = self.iommu_enforces_snoop && memory == Memory::DmaApi;
        if sets_it && !is_taken_off { Snoop::Unsnooped } else { Snoop::Snooped }
    }
}

/// Memory as a driver has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Obtained {
    /// Which kind.
    pub memory: Memory,
    /// What the CPU does with its parts; none where the driver gets no mapping.
    pub parts: Vec<MappedPart>,
    /// Why.
    pub reasons: Vec<String>,
}

impl Obtained {
    /// A mapping of a static area.
    pub fn of_mapping(mapping: &Mapping) -> Self {
        let mut reasons: Vec<String> = mapping.reasons.iter().map(reason_text).collect();
        match mapping.answer {
            Answer::Absent => reasons.push(format!("this kernel has no {}", mapping.call.words())),
            Answer::Refused => reasons.push(format!("{} is refused", mapping.call.words())),
            Answer::Granted { page } => {
                reasons.push(format!("{} asks the page table for {page}", mapping.call.words()));
            }
        }
        Self { memory: Memory::Static, parts: mapping.parts.clone(), reasons }
    }

    /// Its type in a few words: `WB`, or `WB and UC` where it has parts.
    pub fn kinds(&self) -> String {
        let mut words: Vec<&str> = self.parts.iter().map(|part| part.kind.abbreviation()).collect();
        words.dedup();
        words.join(" and ")
    }

    /// The type of an address; `None` outside.
    pub fn kind_at(&self, address: u64) -> Option<MemoryType> {
        let holds = |part: &&MappedPart| (part.range.base()..=part.range.last()).contains(&address);
        self.parts.iter().find(holds).map(|part| part.kind)
    }
}

/// The reason, with its place in brackets.
fn reason_text(reason: &Reason) -> String {
    match &reason.at {
        None => reason.what.clone(),
        Some(at) => format!("{} ({at})", reason.what),
    }
}

/// Registers and a kernel that decide on types.
#[derive(Debug, Clone)]
pub struct MappingSource {
    /// The variable registers.
    pub mtrr: MtrrTable,
    /// The type outside of them.
    pub default: DefaultType,
    /// The areas of `memmap=`.
    pub memmap: Vec<MemmapArea>,
    /// The kernel whose rules count.
    pub kernel: (u32, u32, u32),
}

impl MappingSource {
    /// The first area that is set aside for a device.
    pub fn area(&self) -> Option<PhysRange> {
        self.memmap.iter().find_map(MemmapArea::set_aside)
    }

    /// The area mapped whole by a call, in a kernel that has taken it out of its memory.
    pub fn static_area(&self, area: PhysRange, call: Call) -> Obtained {
        let line = format!("{:08x}-{:08x} : reserved\n", area.base(), area.last());
        let (iomem, _) = parse_iomem(&Text::new("proc/iomem", line));
        let facts = Facts {
            registers: &self.mtrr.registers,
            default: &self.default,
            iomem: &iomem,
            memmap: &[],
            memtypes: &[],
            without_pat: false,
            kernel: self.kernel,
        };
        let effective = effective(&facts, area);
        let mapping = effective.mappings.iter().find(|mapping| mapping.call == call);
        let mut obtained = mapping.map_or_else(
            || Obtained { memory: Memory::Static, parts: Vec::new(), reasons: Vec::new() },
            Obtained::of_mapping,
        );
        let registers =
            effective.parts.iter().flat_map(|part| part.reasons.iter().filter(|reason| names_mtrr(reason)));
        obtained.reasons.splice(0..0, registers.map(reason_text));
        obtained.reasons.extend(self.memmap.iter().filter_map(|asked| memmap_deviation(asked, area)));
        obtained
    }

    /// Memory of the DMA API at these addresses.
    pub fn dma_memory(&self, range: PhysRange) -> Obtained {
        let registers: Vec<_> = self.mtrr.registers.iter().map(|register| register.value).collect();
        let parts = lookup(&registers, &self.default, range).into_iter().map(|part| MappedPart {
            range: part.range,
            kind: MemoryType::effective(part.effect.as_linux_sees_it(), MemoryType::WriteBack),
        });
        let why = "pages of the page allocator: the kernel's own mapping of them is WB, and the DMA API leaves it so";
        Obtained { memory: Memory::DmaApi, parts: parts.collect(), reasons: vec![why.to_owned()] }
    }
}

/// Describes the kernel's treatment of a `memmap=` area if it differs from the request.
fn memmap_deviation(asked: &MemmapArea, area: PhysRange) -> Option<String> {
    let is_it = asked.request.range() == Some(area) && asked.effect != MemmapEffect::Done;
    is_it.then(|| format!("memmap=: {}", asked.effect))
}

/// Whether a reason speaks of an MTRR.
fn names_mtrr(reason: &Reason) -> bool {
    reason.what.contains("MTRR")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snooping_follows_from_attribute_and_iommu() {
        let card = |no_snoop, iommu_enforces_snoop| Card { no_snoop, iommu_enforces_snoop };
        let snoops =
            |card: Card| [Memory::Static, Memory::DmaApi].map(|memory| card.snoop(memory) == Snoop::Snooped);
        assert_eq!(snoops(card(NoSnoop::Never, false)), [true, true]);
        assert_eq!(snoops(card(NoSnoop::OutsideDmaApi, false)), [false, true]);
        assert_eq!(snoops(card(NoSnoop::Always, false)), [false, false]);
        assert_eq!(snoops(card(NoSnoop::Always, true)), [false, true]);
    }
}
