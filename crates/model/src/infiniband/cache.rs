//! The adapter's on-chip cache of contexts.

use des::Stream;
use serde::Deserialize;

/// Parameters of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheShape {
    /// Size in bytes.
    pub bytes: u64,
    /// Line size, a power of two.
    pub line_bytes: u64,
    /// Ways. The number of sets is a power of two. All bits of a line number select the set (hashed): tables begin at
    /// powers of two, and would otherwise all start in the same set.
    pub ways: u32,
    /// Replacement policy.
    pub replacement: Replacement,
}

/// Replacement policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// Least recently used.
    Lru,
    /// Random.
    Random,
}

/// Result of a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CacheLookup {
    /// All lines are present.
    Here,
    /// A line is being fetched, by this fetch.
    Coming(u32),
    /// Number of missing lines, which were allocated, and of dirty lines evicted for them.
    Missing { lines: u64, written_back: u64 },
}

/// Bytes are whole lines; addresses have no more than 2^63 bytes.
#[derive(Debug, Clone)]
pub(super) struct Cache {
    shape: CacheShape,
    sets: u64,
    lines: Vec<Line>,
    clock: u64,
    random: Stream,
    pub(super) looked_up: u64,
    pub(super) missed: u64,
    /// Lines in use.
    pub(super) filled: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Line {
    /// Its number and one; 0 for none.
    tag: u64,
    used: u64,
    /// Index of the fetch that brings it, plus one; 0 if it is present.
    fetch: u32,
    is_dirty: bool,
}

impl Cache {
    pub(super) fn new(shape: CacheShape, random: Stream) -> Self {
        let ways = u64::from(shape.ways.max(1));
        let sets = (shape.bytes / shape.line_bytes / ways).max(1);
        let lines = vec![Line::default(); (sets * ways) as usize];
        Self { shape, sets, lines, clock: 0, random, looked_up: 0, missed: 0, filled: 0 }
    }

    /// Looks up bytes. Missing lines are allocated, to be filled by `fetch`.
    pub(super) fn lookup(&mut self, address: u64, bytes: u64, writes: bool, fetch: u32) -> CacheLookup {
        let (first, last) = self.lines_of(address, bytes);
        self.clock += 1;
        if let Some(coming) = (first..=last).find_map(|line| self.fetch_of(line)) {
            return CacheLookup::Coming(coming);
        }
        self.looked_up += 1;
        let (mut lines, mut written_back) = (0, 0);
        for line in first..=last {
            match self.place_of(line) {
                Some(place) => {
                    let line = &mut self.lines[place];
                    line.used = self.clock;
                    line.is_dirty |= writes;
                }
                None => {
                    lines += 1;
                    written_back += u64::from(self.give_place(line, writes, fetch));
                }
            }
        }
        if lines == 0 {
            return CacheLookup::Here;
        }
        self.missed += 1;
        CacheLookup::Missing { lines, written_back }
    }

    /// Marks the lines of a fetch as present.
    pub(super) fn arrived(&mut self, address: u64, bytes: u64, fetch: u32) {
        let (first, last) = self.lines_of(address, bytes);
        for line in first..=last {
            if let Some(place) = self.place_of(line).filter(|place| self.lines[*place].fetch == fetch + 1) {
                self.lines[place].fetch = 0;
            }
        }
    }

    /// The first and the last line of these bytes.
    fn lines_of(&self, address: u64, bytes: u64) -> (u64, u64) {
        (address / self.shape.line_bytes, (address + bytes.max(1) - 1) / self.shape.line_bytes)
    }

    /// The places of a line's set. Its number is a fold of the line's number, so that strided addresses spread.
    fn places_of(&self, line: u64) -> std::ops::Range<usize> {
        let ways = self.shape.ways.max(1) as usize;
        let bits = self.sets.trailing_zeros().max(1);
        let (mut folded, mut rest) = (0, line);
        while rest > 0 {
            folded ^= rest;
            rest >>= bits;
        }
        let set = (folded & (self.sets - 1)) as usize;
        set * ways..(set + 1) * ways
    }

    /// Where a line is; `None` if it is missing.
    fn place_of(&self, line: u64) -> Option<usize> {
        self.places_of(line).find(|place| self.lines[*place].tag == line + 1)
    }

    /// The fetch that brings a line, if there is one.
    fn fetch_of(&self, line: u64) -> Option<u32> {
        let place = self.place_of(line)?;
        self.lines[place].fetch.checked_sub(1)
    }

    /// Allocates a line, unless all lines of its set are being fetched. Returns whether the evicted line was dirty.
    fn give_place(&mut self, line: u64, writes: bool, fetch: u32) -> bool {
        let free = self.places_of(line).filter(|place| self.lines[*place].fetch == 0);
        let place = match self.shape.replacement {
            Replacement::Lru => free.min_by_key(|place| self.lines[*place].used),
            Replacement::Random => {
                let places: Vec<usize> = free.collect();
                let empty = places.iter().copied().find(|place| self.lines[*place].tag == 0);
                let any = |places: &[usize], random: &mut Stream| {
                    (!places.is_empty()).then(|| places[random.below(places.len() as u64) as usize])
                };
                empty.or_else(|| any(&places, &mut self.random))
            }
        };
        let Some(place) = place else { return false };
        let new = Line { tag: line + 1, used: self.clock, fetch: fetch + 1, is_dirty: writes };
        let old = std::mem::replace(&mut self.lines[place], new);
        self.filled += u64::from(old.tag == 0);
        old.is_dirty
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cache(bytes: u64, ways: u32, replacement: Replacement) -> Cache {
        Cache::new(CacheShape { bytes, line_bytes: 64, ways, replacement }, Stream::new(1, 0))
    }

    /// Looks up and lets what is missing come at once.
    fn is_there(cache: &mut Cache, address: u64, bytes: u64, writes: bool) -> bool {
        match cache.lookup(address, bytes, writes, 7) {
            CacheLookup::Here => true,
            CacheLookup::Coming(_) => unreachable!("nothing is in flight"),
            CacheLookup::Missing { .. } => {
                cache.arrived(address, bytes, 7);
                false
            }
        }
    }

    #[test]
    fn the_least_recently_used_gives_way_and_is_written_back() {
        // One set of two lines.
        let mut cache = cache(128, 2, Replacement::Lru);
        let there = [(0, true), (64, false), (0, false), (128, false), (0, false), (64, false)]
            .map(|(address, writes)| is_there(&mut cache, address, 8, writes));
        assert_eq!(there, [false, false, true, false, true, false]);
        // Line 0 is written to, and the other is line 1: 128 takes line 0's place.
        is_there(&mut cache, 64, 8, false);
        assert_eq!(cache.lookup(128, 8, false, 3), CacheLookup::Missing { lines: 1, written_back: 1 });
        assert_eq!((cache.looked_up, cache.missed), (8, 5));
    }

    #[test]
    fn commands_in_flight_are_waited_for() {
        let mut cache = cache(4096, 4, Replacement::Lru);
        assert_eq!(cache.lookup(0, 256, true, 9), CacheLookup::Missing { lines: 4, written_back: 0 });
        assert_eq!(cache.lookup(192, 8, false, 1), CacheLookup::Coming(9));
        cache.arrived(0, 256, 9);
        assert_eq!(cache.lookup(192, 8, false, 1), CacheLookup::Here);
        // Half of it is there.
        assert_eq!(cache.lookup(128, 256, false, 1), CacheLookup::Missing { lines: 2, written_back: 0 });
    }

    #[test]
    fn a_set_whose_lines_are_all_in_flight_keeps_them() {
        let mut cache = cache(64, 1, Replacement::Lru);
        assert_eq!(cache.lookup(0, 8, false, 0), CacheLookup::Missing { lines: 1, written_back: 0 });
        assert_eq!(cache.lookup(64, 8, false, 1), CacheLookup::Missing { lines: 1, written_back: 0 });
        assert_eq!(cache.lookup(0, 8, false, 2), CacheLookup::Coming(0));
    }

    #[test]
    fn lines_side_by_side_and_beginnings_of_tables_are_in_sets_of_their_own() {
        let cache = cache(64 << 10, 4, Replacement::Lru);
        let sets = |lines: &mut dyn Iterator<Item = u64>| {
            lines.map(|line| cache.places_of(line).start).collect::<std::collections::HashSet<_>>().len()
        };
        assert_eq!(sets(&mut (1 << 20..(1 << 20) + 256)), 256);
        assert_eq!(sets(&mut (0..8).map(|table| table << 14)), 8);
    }

    proptest! {
        /// LRU against a list of what was used last, set by set.
        #[test]
        fn keeps_the_most_recently_used(
            lines in prop::collection::vec(0_u64..64, 1..300),
            ways in 1_u32..5,
            sets in 0_u32..4,
        ) {
            let mut cache = cache((64 * u64::from(ways)) << sets, ways, Replacement::Lru);
            let mut recent: Vec<Vec<u64>> = vec![Vec::new(); 1 << sets];
            for line in lines {
                let set = &mut recent[cache.places_of(line).start / ways as usize];
                let expected = set.iter().take(ways as usize).any(|other| *other == line);
                prop_assert_eq!(is_there(&mut cache, line * 64, 64, false), expected);
                set.retain(|other| *other != line);
                set.insert(0, line);
            }
        }

        /// At random too, never more is there than it holds, and what fits stays.
        #[test]
        fn a_working_set_that_fits_stays_cached(lines in prop::collection::vec(0_u64..16, 1..300)) {
            let mut cache = cache(16 * 64, 16, Replacement::Random);
            let mut seen = std::collections::HashSet::new();
            for line in lines {
                prop_assert_eq!(is_there(&mut cache, line * 64, 1, true), !seen.insert(line));
            }
        }
    }
}
