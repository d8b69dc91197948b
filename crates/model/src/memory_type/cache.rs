//! The CPU's last-level cache: set-associative, least recently used line evicted first.

use super::line::{LINE_BYTES, Line};
use std::num::NonZeroUsize;

/// A cached line.
#[derive(Debug, Clone)]
pub(super) struct Cached {
    /// Its address.
    pub(super) address: u64,
    pub(super) line: Line,
    /// It is newer than memory and must be written back.
    pub(super) is_dirty: bool,
    /// The access that filled it.
    pub(super) filled_at: u64,
}

/// The lines of a set. Addresses are stored apart from the data, because most lookups need only those.
#[derive(Debug, Clone, Default)]
struct Set {
    addresses: Vec<u64>,
    /// Time of the last use of each line.
    used: Vec<u64>,
    lines: Vec<Cached>,
}

/// The cache, inclusive of all higher levels and indexed by physical address.
#[derive(Debug, Clone)]
pub(super) struct Cache {
    sets: Vec<Set>,
    ways: usize,
    /// Number of uses so far.
    uses: u64,
}

impl Cache {
    pub(super) fn new(sets: NonZeroUsize, ways: NonZeroUsize) -> Self {
        Self { sets: vec![Set::default(); sets.get()], ways: ways.get(), uses: 0 }
    }

    /// The index of the set that holds this address.
    fn set_index(&self, address: u64) -> usize {
        // The number of sets fits memory, and the remainder that of sets.
        (address / LINE_BYTES % self.sets.len() as u64) as usize
    }

    /// A line, without counting as a use.
    pub(super) fn peek(&self, address: u64) -> Option<&Cached> {
        let set = &self.sets[self.set_index(address)];
        set.way_of(address).map(|place| &set.lines[place])
    }

    /// A line to be modified, without counting as a use.
    pub(super) fn peek_mut(&mut self, address: u64) -> Option<&mut Cached> {
        let number = self.set_index(address);
        let set = &mut self.sets[number];
        set.way_of(address).map(|place| &mut set.lines[place])
    }

    /// A line, counted as used now.
    pub(super) fn touch(&mut self, address: u64) -> Option<&mut Cached> {
        self.uses += 1;
        let number = self.set_index(address);
        let set = &mut self.sets[number];
        let place = set.way_of(address)?;
        set.used[place] = self.uses;
        Some(&mut set.lines[place])
    }

    /// Removes a line.
    pub(super) fn remove(&mut self, address: u64) -> Option<Cached> {
        let number = self.set_index(address);
        let set = &mut self.sets[number];
        set.way_of(address).map(|place| set.remove_at(place))
    }

    /// Evicts a line if the set is full, to make room for this address.
    pub(super) fn make_room(&mut self, address: u64) -> Option<Cached> {
        let number = self.set_index(address);
        let set = &mut self.sets[number];
        let (place, _) = set.used.iter().enumerate().min_by_key(|(_, used)| **used)?;
        (set.lines.len() >= self.ways).then(|| set.remove_at(place))
    }

    /// Inserts a line. Call `make_room` before.
    pub(super) fn put(&mut self, cached: Cached) {
        self.uses += 1;
        let number = self.set_index(cached.address);
        let set = &mut self.sets[number];
        set.addresses.push(cached.address);
        set.used.push(self.uses);
        set.lines.push(cached);
    }
}

impl Set {
    /// The index of this line within the set.
    fn way_of(&self, address: u64) -> Option<usize> {
        self.addresses.iter().position(|one| *one == address)
    }

    /// Removes a line from the set.
    fn remove_at(&mut self, place: usize) -> Cached {
        self.addresses.swap_remove(place);
        self.used.swap_remove(place);
        self.lines.swap_remove(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cached(address: u64) -> Cached {
        Cached { address, line: Line::BLANK, is_dirty: false, filled_at: 0 }
    }

    #[test]
    fn the_least_recently_used_line_is_evicted() {
        let two = NonZeroUsize::MIN.saturating_add(1);
        let mut cache = Cache::new(two, two);
        for address in [0, 128] {
            assert!(cache.make_room(address).is_none());
            cache.put(cached(address));
        }
        assert!(cache.make_room(64).is_none(), "another set");
        assert!(cache.touch(0).is_some() && cache.peek(128).is_some());
        assert_eq!(cache.make_room(256).unwrap().address, 128);
        cache.put(cached(256));
        assert_eq!(cache.make_room(384).unwrap().address, 0);
    }
}
