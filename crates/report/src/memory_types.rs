//! Memory types of the host: where memory lies, and what MTRRs, PAT and `memmap=` make of it.

use crate::fact::{Fact, Section};
use crate::quantity;
use host::facts::memory::MemoryTypes;
use host::memory::{Iomem, MemmapArea};
use host::{Cited, Host};

/// The section, on machines that have memory types.
pub(crate) fn section(host: &Host) -> Option<Section> {
    let memory = host.memory.as_ref()?;
    let mut facts = Vec::new();
    facts.extend(memory.iomem.as_ref().map(ram));
    facts.push(registers(memory));
    facts.extend(memory.memmap.iter().map(area));
    if !memory.memtypes.is_empty() {
        facts.push(Fact::known("PAT", &format!("{} mappings tracked", memory.memtypes.len())));
    }
    Some(Section { title: "Memory types", facts })
}

fn ram(iomem: &Iomem) -> Fact {
    let ranges = iomem.ram();
    let bytes: u128 = ranges.iter().map(|ram| ram.value.size_bytes()).sum();
    match ranges.iter().max_by_key(|ram| ram.value.last()) {
        Some(Cited { value, at }) => {
            let bytes = quantity::bytes(u64::try_from(bytes).unwrap_or(u64::MAX));
            let words = format!("{bytes} in {} ranges, the last up to {:#x}", ranges.len(), value.last());
            Fact::known("memory", &words).at(at)
        }
        None if iomem.hidden => Fact::unknown("memory", "/proc/iomem shows addresses to root only"),
        None => Fact::unknown("memory", "/proc/iomem lists none"),
    }
}

fn registers(memory: &MemoryTypes) -> Fact {
    let Some(table) = &memory.mtrr else {
        return Fact::absent("MTRR", "no /proc/mtrr: none, or hidden by a hypervisor");
    };
    let kinds: Vec<String> = table
        .registers
        .iter()
        .map(|register| format!("{} {}", register.value.range, register.value.kind))
        .collect();
    let reasons: Vec<String> = memory.default.reasons.iter().map(ToString::to_string).collect();
    let words = match kinds.as_slice() {
        [] => "no register in use".to_owned(),
        kinds => kinds.join("; "),
    };
    Fact::known("MTRR", &format!("{words}; elsewhere {} ({})", memory.default.kind, reasons.join("; ")))
}

fn area(area: &MemmapArea) -> Fact {
    Fact::known("memmap=", &format!("{}: {}", area.at.text, area.effect)).at(&area.at)
}
