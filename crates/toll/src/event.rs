//! What instructions don't show: things that happen during an I/O and cost by themselves.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The kinds of events that are counted. Serialised names are stable: scripts match on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// Calls of the hypervisor.
    Hypercalls,
    /// IOTLB invalidation commands that the IOMMU carried out.
    Invalidations,
    /// Entries of the I/O page table or TCE table, written or cleared.
    TableEntries,
    /// DMA windows created, removed or asked about.
    WindowOperations,
    /// Mappings asked of the kernel's DMA layer: its functions that map memory, called. A driver that keeps its buffers
    /// mapped has none.
    Mappings,
    /// Writes to device registers.
    Doorbells,
    /// Reads of device registers: each waits for the adapter.
    DeviceReads,
    /// Interrupts taken.
    Interrupts,
    /// Repetitions of string instructions, which an instruction count takes for one.
    StringIterations,
    /// Looks at whether an adapter has completed something, where no interrupt tells. Where windows pause for the wait, its
    /// instructions are not counted, but its looks are.
    Polls,
}

impl Event {
    /// All kinds.
    pub const ALL: [Self; 10] = [
        Self::Hypercalls,
        Self::Invalidations,
        Self::TableEntries,
        Self::WindowOperations,
        Self::Mappings,
        Self::Doorbells,
        Self::DeviceReads,
        Self::Interrupts,
        Self::StringIterations,
        Self::Polls,
    ];

    /// The word used for it everywhere.
    pub fn word(self) -> &'static str {
        match self {
            Self::Hypercalls => "hypercalls",
            Self::Invalidations => "invalidations",
            Self::TableEntries => "table-entries",
            Self::WindowOperations => "window-operations",
            Self::Mappings => "mappings",
            Self::Doorbells => "doorbells",
            Self::DeviceReads => "device-reads",
            Self::Interrupts => "interrupts",
            Self::StringIterations => "string-iterations",
            Self::Polls => "polls",
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// How often something happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Occurrence {
    /// The median of all windows, per window.
    pub median: u64,
    /// All windows together. It shows what is rare, as an invalidation of a whole batch is.
    pub total: u64,
}

/// How often events of one kind happened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Tally {
    /// All of the kind.
    pub all: Occurrence,
    /// The same by name (of the hypercall, the command, the register ...), where names are known: then
    /// every event is under a name, and the totals add up to that of `all`. Medians need not.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_name: BTreeMap<String, Occurrence>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_in_all_places() {
        for event in Event::ALL {
            assert_eq!(serde_json::to_value(event).unwrap(), event.word());
            assert_eq!(serde_json::from_value::<Event>(event.word().into()).unwrap(), event);
        }
    }
}
