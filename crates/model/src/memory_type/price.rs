//! Times of the CPU's memory accesses.

use super::line::LINE_BYTES;
use des::Span;
use serde::{Deserialize, Serialize};

/// Prices of a CPU's accesses, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// A load of uncached memory: one at a time, there and back.
    pub uncached_load_ns: f64,
    /// A store to uncached memory: one at a time, in order.
    pub uncached_store_ns: f64,
    /// An access that the cache answers.
    pub hit_ns: f64,
    /// A line from memory, where nothing announced it.
    pub miss_ns: f64,
    /// A line from or to memory in a row of lines, which prefetching keeps coming.
    pub streamed_line_ns: f64,
    /// Bytes of an access at most.
    pub access_bytes: u64,
}

impl Prices {
    /// Number of accesses needed for these bytes.
    fn accesses(&self, bytes: usize) -> f64 {
        bytes.div_ceil(usize::try_from(self.access_bytes).unwrap_or(usize::MAX).max(1)) as f64
    }

    /// Time to load these bytes uncached.
    pub(super) fn uncached_loads(&self, bytes: usize) -> Span {
        Span::from_ns_f64(self.accesses(bytes) * self.uncached_load_ns)
    }

    /// Time to store these bytes uncached.
    pub(super) fn uncached_stores(&self, bytes: usize) -> Span {
        Span::from_ns_f64(self.accesses(bytes) * self.uncached_store_ns)
    }

    /// Time to load or store these bytes in the cache.
    pub(super) fn hits(&self, bytes: usize) -> Span {
        Span::from_ns_f64(self.accesses(bytes) * self.hit_ns)
    }

    /// Time to fetch a line; shorter if it directly follows the line fetched `before`.
    pub(super) fn fill(&self, line: u64, before: Option<u64>) -> Span {
        let is_next = before.is_some_and(|before| before.wrapping_add(LINE_BYTES) == line);
        Span::from_ns_f64(if is_next { self.streamed_line_ns } else { self.miss_ns })
    }

    /// Time that memory is busy with a line written back.
    pub(super) fn write_back(&self) -> Span {
        Span::from_ns_f64(self.streamed_line_ns)
    }

    /// Time to drain a write-combining buffer: one burst if it is full, otherwise single stores.
    pub(super) fn drain(&self, stored: u64) -> Span {
        if stored == u64::MAX {
            return self.write_back();
        }
        self.uncached_stores(stored.count_ones() as usize)
    }
}
