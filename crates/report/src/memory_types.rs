//! Memory types of the host: where memory lies, and what MTRRs, PAT and `memmap=` make of it.

use crate::fact::{Fact, Section};
use crate::quantity;
use host::memory::PhysRange;
use host::{Cited, Host};

/// The section, on machines that have memory types.
pub(crate) fn section(host: &Host) -> Option<Section> {
    let iomem = host.memory.as_ref()?.iomem.as_ref()?;
    let facts = match iomem.hidden {
        true => vec![Fact::unknown("memory", "/proc/iomem shows addresses to root only")],
        false => iomem.ram().iter().map(range).collect(),
    };
    Some(Section { title: "Memory types", facts })
}

fn range(ram: &Cited<PhysRange>) -> Fact {
    let size = u64::try_from(ram.value.size_bytes()).unwrap_or(u64::MAX);
    let words = format!("{:#x} to {:#x}, {}", ram.value.base(), ram.value.last(), quantity::bytes(size));
    Fact::known("memory", &words).at(&ram.at)
}
