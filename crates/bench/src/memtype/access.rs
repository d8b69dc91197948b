//! The kinds of memory access that are measured.

use super::instruction;
use super::line::{LINE_BYTES, Line};
use serde::Serialize;
use std::hint::black_box;
use std::sync::atomic::Ordering::Relaxed;

/// Lines that are flushed together, before loads or after stores: those of a page, as in software that keeps a buffer
/// coherent.
const FLUSHED_LINES: usize = 4096 / LINE_BYTES;

/// A kind of memory access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Sequential loads of eight bytes.
    Load,
    /// One load per line in pseudo-random order, each depending on the one before.
    LoadInTurn,
    /// Loads of eight bytes from pages whose lines were flushed before.
    LoadFlushed,
    /// Non-temporal loads of sixteen bytes, which read a whole line at once from write-combining memory.
    LoadNonTemporal,
    /// Sequential stores of eight bytes.
    Store,
    /// Stores of eight bytes to pages whose lines are flushed afterwards.
    StoreFlushed,
    /// Non-temporal stores of eight bytes, which are combined and bypass the caches.
    StoreNonTemporal,
}

impl Access {
    /// Every kind of access.
    pub const ALL: [Self; 7] = [
        Self::Load,
        Self::LoadInTurn,
        Self::LoadFlushed,
        Self::LoadNonTemporal,
        Self::Store,
        Self::StoreFlushed,
        Self::StoreNonTemporal,
    ];

    /// Its name in reports.
    pub fn words(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::LoadInTurn => "load, one waits for the other",
            Self::LoadFlushed => "load, flushed before",
            Self::LoadNonTemporal => "load, non-temporal",
            Self::Store => "store",
            Self::StoreFlushed => "store, flushed after",
            Self::StoreNonTemporal => "store, non-temporal",
        }
    }

    /// Whether it writes to memory.
    pub fn is_store(self) -> bool {
        matches!(self, Self::Store | Self::StoreFlushed | Self::StoreNonTemporal)
    }

    /// Whether it flushes cache lines, which is useless in uncached memory.
    pub fn is_flushed(self) -> bool {
        matches!(self, Self::LoadFlushed | Self::StoreFlushed)
    }

    /// The size of one access in bytes.
    pub fn bytes(self) -> u64 {
        if self == Self::LoadNonTemporal { 16 } else { 8 }
    }

    /// The number of accesses in one walk through the lines.
    pub(super) fn count(self, lines: &[Line]) -> u64 {
        match self {
            Self::LoadInTurn => turns(lines) as u64,
            _ => size_of_val(lines) as u64 / self.bytes(),
        }
    }

    /// Why this CPU does not support it; `None` if it does.
    pub(super) fn absent(self) -> Option<&'static str> {
        match self {
            Self::LoadFlushed | Self::StoreFlushed => instruction::without_flush(),
            Self::LoadNonTemporal => instruction::without_non_temporal_load(),
            Self::StoreNonTemporal => instruction::without_non_temporal_store(),
            Self::Load | Self::LoadInTurn | Self::Store => None,
        }
    }

    /// Accesses all lines once.
    pub(super) fn walk(self, lines: &[Line]) {
        match self {
            Self::Load => load(lines),
            Self::LoadInTurn => load_in_turn(lines),
            Self::LoadFlushed => lines.chunks(FLUSHED_LINES).for_each(|page| {
                page.iter().for_each(|line| instruction::flush(&line.0));
                instruction::fence();
                load(page);
            }),
            Self::LoadNonTemporal => instruction::load_non_temporal(lines),
            Self::Store => store(lines),
            Self::StoreFlushed => lines.chunks(FLUSHED_LINES).for_each(|page| {
                store(page);
                page.iter().for_each(|line| instruction::flush(&line.0));
                instruction::fence();
            }),
            Self::StoreNonTemporal => {
                lines.iter().for_each(instruction::store_non_temporal);
                instruction::fence();
            }
        }
    }
}

/// Loads every word, in order.
fn load(lines: &[Line]) {
    let words = lines.iter().flat_map(|line| &line.0);
    black_box(words.fold(0_u64, |sum, word| sum.wrapping_add(word.load(Relaxed))));
}

/// Stores to every word, in order.
fn store(lines: &[Line]) {
    for (value, word) in (0_u64..).zip(lines.iter().flat_map(|line| &line.0)) {
        word.store(value, Relaxed);
    }
}

/// The number of lines that dependent loads visit: the largest power of two that fits.
fn turns(lines: &[Line]) -> usize {
    lines.len().checked_ilog2().map_or(0, |bits| 1 << bits)
}

/// Loads lines in the order of a random number generator with full period. Each address also depends on the value loaded
/// before, masked to zero, so that the CPU can't load ahead. The three instructions between loads take about 2 ns.
fn load_in_turn(lines: &[Line]) {
    let turns = turns(lines);
    let zero = black_box(0_u64);
    let (mut place, mut loaded) = (0_usize, 0_u64);
    for _ in 0..turns {
        place = place.wrapping_mul(0x9E37_79B5).wrapping_add(0x7F4A_7C15) & (turns - 1);
        loaded = lines[place ^ (loaded & zero) as usize].0[0].load(Relaxed);
    }
    black_box(loaded);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn lines() -> Vec<Line> {
        (0..130).map(|_| Line::filled(77)).collect()
    }

    fn marked(lines: &[Line]) -> usize {
        lines.iter().flat_map(|line| &line.0).filter(|word| word.load(Relaxed) == 77).count()
    }

    #[test]
    fn dependent_loads_visit_each_line() {
        let turns = 64;
        let mut place = 0_usize;
        let seen: BTreeSet<usize> = (0..turns)
            .map(|_| {
                place = place.wrapping_mul(0x9E37_79B5).wrapping_add(0x7F4A_7C15) & (turns - 1);
                place
            })
            .collect();
        assert_eq!(seen.len(), turns);
    }

    #[test]
    fn stores_reach_every_word() {
        for access in Access::ALL.into_iter().filter(|access| access.is_store()) {
            if access.absent().is_some() {
                continue;
            }
            let lines = lines();
            access.walk(&lines);
            // Stores count up from 0, so at most one word per page gets this value again.
            assert!(marked(&lines) <= 3, "{access:?}");
        }
    }

    #[test]
    fn loads_change_nothing() {
        let lines = lines();
        for access in Access::ALL.into_iter().filter(|access| !access.is_store()) {
            if access.absent().is_none() {
                access.walk(&lines);
            }
        }
        assert_eq!(marked(&lines), 130 * 8);
        assert_eq!(Access::LoadInTurn.count(&lines), 128);
        assert_eq!(Access::LoadNonTemporal.count(&lines), 130 * 4);
    }
}
