//! Ways of access to memory.

use super::instruction;
use serde::Serialize;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes of a cache line.
pub(super) const LINE_BYTES: usize = 64;
/// Lines that are flushed before they are loaded, or after they are stored: a page's, as software does that keeps a buffer coherent.
const FLUSHED_LINES: usize = 4096 / LINE_BYTES;

/// A cache line of words. What else changes them, an adapter or a CPU, words that are atomic allow for.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Line([AtomicU64; LINE_BYTES / 8]);

impl Line {
    /// With the same in each word.
    pub(super) fn filled(value: usize) -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(value as u64)))
    }
}

/// A way of access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Loads of eight bytes, one line after the other.
    Load,
    /// One load of each line in no order, each of which waits for the one before.
    LoadInTurn,
    /// Loads of eight bytes from pages whose lines are flushed before.
    LoadFlushed,
    /// Non-temporal loads of sixteen bytes: from write-combining memory, a whole line at once.
    LoadNonTemporal,
    /// Stores of eight bytes, one line after the other.
    Store,
    /// Stores of eight bytes to pages whose lines are flushed afterwards.
    StoreFlushed,
    /// Non-temporal stores of eight bytes, which are combined and go round the caches.
    StoreNonTemporal,
}

impl Access {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Load,
        Self::LoadInTurn,
        Self::LoadFlushed,
        Self::LoadNonTemporal,
        Self::Store,
        Self::StoreFlushed,
        Self::StoreNonTemporal,
    ];

    /// The words used for it everywhere.
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

    /// Whether it changes memory.
    pub fn is_store(self) -> bool {
        matches!(self, Self::Store | Self::StoreFlushed | Self::StoreNonTemporal)
    }

    /// Whether caches are flushed for it: there is no sense in that where nothing is cached.
    pub fn is_flushed(self) -> bool {
        matches!(self, Self::LoadFlushed | Self::StoreFlushed)
    }

    /// Bytes of an access.
    pub fn bytes(self) -> u64 {
        if self == Self::LoadNonTemporal { 16 } else { 8 }
    }

    /// How many accesses walk through so much memory.
    pub(super) fn count(self, lines: &[Line]) -> u64 {
        match self {
            Self::LoadInTurn => turns(lines) as u64,
            _ => size_of_val(lines) as u64 / self.bytes(),
        }
    }

    /// Why this CPU can't do it.
    pub(super) fn absent(self) -> Option<&'static str> {
        match self {
            Self::LoadFlushed | Self::StoreFlushed => instruction::without_flush(),
            Self::LoadNonTemporal => instruction::without_non_temporal_load(),
            Self::StoreNonTemporal => instruction::without_non_temporal_store(),
            Self::Load | Self::LoadInTurn | Self::Store => None,
        }
    }

    /// Walks through memory once.
    pub(super) fn walk(self, lines: &[Line]) {
        match self {
            Self::Load => load(lines),
            Self::LoadInTurn => load_in_turn(lines),
            Self::LoadFlushed => lines.chunks(FLUSHED_LINES).for_each(|page| {
                page.iter().for_each(instruction::flush);
                instruction::fence();
                load(page);
            }),
            Self::LoadNonTemporal => instruction::load_non_temporal(lines),
            Self::Store => store(lines),
            Self::StoreFlushed => lines.chunks(FLUSHED_LINES).for_each(|page| {
                store(page);
                page.iter().for_each(instruction::flush);
                instruction::fence();
            }),
            Self::StoreNonTemporal => {
                lines.iter().for_each(instruction::store_non_temporal);
                instruction::fence();
            }
        }
    }
}

fn load(lines: &[Line]) {
    let words = lines.iter().flat_map(|line| &line.0);
    black_box(words.fold(0_u64, |sum, word| sum.wrapping_add(word.load(Relaxed))));
}

fn store(lines: &[Line]) {
    for (value, word) in (0_u64..).zip(lines.iter().flat_map(|line| &line.0)) {
        word.store(value, Relaxed);
    }
}

/// Lines that are visited in turn: the largest power of two.
fn turns(lines: &[Line]) -> usize {
    lines.len().checked_ilog2().map_or(0, |bits| 1 << bits)
}

/// Places follow each other in the order of a generator of full period, which is known early; what was loaded is nonetheless part of
/// the next address, although nothing of it is left. That takes three instructions between loads, some two nanoseconds.
fn load_in_turn(lines: &[Line]) {
    let turns = turns(lines);
    let nothing = black_box(0_u64);
    let (mut place, mut loaded) = (0_usize, 0_u64);
    for _ in 0..turns {
        place = place.wrapping_mul(0x9E37_79B5).wrapping_add(0x7F4A_7C15) & (turns - 1);
        loaded = lines[place ^ (loaded & nothing) as usize].0[0].load(Relaxed);
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
    fn each_line_has_its_turn() {
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
            // One of each page at most was given this value again.
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
