//! Events during an I/O that cost more than the instructions that cause them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The kinds of events that are counted. Serialised names are stable, because scripts match on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// Hypercalls.
    Hypercalls,
    /// IOTLB invalidation commands that the IOMMU carried out.
    Invalidations,
    /// Entries of the I/O page table or TCE table, written or cleared.
    TableEntries,
    /// DMA windows created, removed or queried.
    WindowOperations,
    /// Calls of the DMA API's functions that map memory. A driver that keeps its buffers mapped makes none.
    Mappings,
    /// Writes to device registers.
    Doorbells,
    /// Reads of device registers: each waits for the adapter.
    DeviceReads,
    /// Interrupts handled.
    Interrupts,
    /// Repetitions of string instructions. The instruction count has each string instruction once.
    StringIterations,
    /// Polls of a completion queue, where no interrupt is used. If windows pause while the program waits, its polls are counted, but not its
    /// instructions.
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

    /// Its name in reports and documents.
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

/// How often an event happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Occurrence {
    /// The median of all windows, per window.
    pub median: u64,
    /// The total of all windows, which includes rare events such as the invalidation of a whole batch.
    pub total: u64,
}

/// How often events of one kind happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// All events of the kind.
    pub all: Occurrence,
    /// The same by name (of the hypercall, the command, the register ...), if names are known. Then every event has a name, and the totals
    /// add up to that of `all`; medians may not.
    pub by_name: BTreeMap<String, Occurrence>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_is_the_serialised_name() {
        for event in Event::ALL {
            assert_eq!(serde_json::to_value(event).unwrap(), event.word());
            assert_eq!(serde_json::from_value::<Event>(event.word().into()).unwrap(), event);
        }
    }
}
