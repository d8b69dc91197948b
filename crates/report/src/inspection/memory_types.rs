//! Memory types of the host: where its RAM is, and how MTRRs, PAT and `memmap=` change its type.

use crate::page::fact::{Fact, Section};
use crate::page::quantity;
use host::facts::memory::MemoryTypes;
use host::memory::{Iomem, MemmapArea};
use host::tree::Reach;
use host::{Cited, Host};

const NOT_CAPTURED: &str = "the capture has no /proc/mtrr: it was not captured, or the machine has no MTRRs";

/// The facts about memory types; `None` on machines that have none.
pub(crate) fn section(host: &Host) -> Option<Section> {
    let memory = host.memory.as_ref()?;
    let mut facts = Vec::new();
    facts.extend(memory.iomem.as_ref().map(ram));
    facts.push(mtrrs(memory, host.reach));
    facts.extend(memory.memmap.iter().map(area));
    if !memory.memtypes.is_empty() {
        facts.push(Fact::known("PAT", &format!("{} mappings tracked", memory.memtypes.len())));
    }
    Some(Section { title: "Memory types", facts })
}

/// The size and the end of RAM.
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

/// The MTRRs in use, and the type of all other addresses. A capture without `/proc/mtrr` may come from a machine that has them.
fn mtrrs(memory: &MemoryTypes, reach: Reach) -> Fact {
    let Some(table) = &memory.mtrr else {
        return match reach {
            Reach::Live => Fact::absent("MTRR", "no /proc/mtrr: no MTRRs, or a hypervisor hides them"),
            Reach::Capture => Fact::unknown("MTRR", NOT_CAPTURED),
        };
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

/// An area that `memmap=` sets aside.
fn area(area: &MemmapArea) -> Fact {
    Fact::known("memmap=", &format!("{}: {}", area.at.text, area.effect)).at(&area.at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::tree::{Memory, Tree};

    #[test]
    fn a_capture_without_mtrr_says_that_it_was_not_captured() {
        let mut files = Memory::default();
        files.file("proc/version", "Linux version 6.8.0-1-amd64 (x@y) #1 SMP x86_64\n");
        let host = Host::read(&Tree::of_memory(files));
        let words = |reach| mtrrs(host.memory.as_ref().unwrap(), reach);
        assert_eq!(words(Reach::Capture), Fact::unknown("MTRR", NOT_CAPTURED));
        assert_ne!(words(Reach::Live), words(Reach::Capture));
    }
}
