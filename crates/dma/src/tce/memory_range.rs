//! Ranges of memory: a partition's, and those reserved for tables.

use crate::MemoryAddress;

/// A range of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryRange {
    /// First address.
    pub start: MemoryAddress,
    /// Size.
    pub bytes: u64,
}

impl MemoryRange {
    /// The first address after it.
    fn end(self) -> u64 {
        self.start.0.saturating_add(self.bytes)
    }

    /// The range from `start` to before `end`.
    fn between(start: u64, end: u64) -> Self {
        Self { start: MemoryAddress(start), bytes: end.saturating_sub(start) }
    }

    /// The parts not in `other`: below it, and above it.
    fn without(self, other: Self) -> [Self; 2] {
        let below = Self::between(self.start.0, self.end().min(other.start.0));
        let above = Self::between(self.start.0.max(other.end()), self.end());
        [below, above]
    }

    /// Whether both have an address in common.
    fn overlaps(self, other: Self) -> bool {
        self.start.0.max(other.start.0) < self.end().min(other.end())
    }
}

/// Disjoint, non-adjacent ranges in order of address.
#[derive(Debug, Clone, Default)]
pub(super) struct MemoryRanges(Vec<MemoryRange>);

impl MemoryRanges {
    /// Adds a range, joined with those that it touches.
    pub(super) fn add(&mut self, one: MemoryRange) {
        if one.bytes == 0 {
            return;
        }
        let touches = |known: &MemoryRange| known.start.0 <= one.end() && one.start.0 <= known.end();
        let (near, mut apart): (Vec<MemoryRange>, Vec<MemoryRange>) =
            self.0.iter().partition(|known| touches(known));
        let start = near.iter().map(|known| known.start.0).fold(one.start.0, u64::min);
        let end = near.iter().map(|known| known.end()).fold(one.end(), u64::max);
        apart.push(MemoryRange::between(start, end));
        apart.sort_unstable_by_key(|known| known.start);
        self.0 = apart;
    }

    /// Removes a range, which may cut others.
    pub(super) fn remove(&mut self, one: MemoryRange) {
        if one.bytes == 0 {
            return;
        }
        let rest = self.0.iter().flat_map(|known| known.without(one)).filter(|left| left.bytes > 0);
        self.0 = rest.collect();
    }

    /// Removes `bytes` from the lowest range that is large enough.
    pub(super) fn take(&mut self, bytes: u64) -> Option<MemoryAddress> {
        let start = self.0.iter().find(|known| known.bytes >= bytes)?.start;
        self.remove(MemoryRange { start, bytes });
        Some(start)
    }

    /// Whether one of the ranges contains all of it.
    pub(super) fn contains(&self, one: MemoryRange) -> bool {
        let last = one.bytes.checked_sub(1).and_then(|more| one.start.0.checked_add(more));
        let has =
            |known: &MemoryRange| known.start <= one.start && last.is_some_and(|last| last < known.end());
        self.0.iter().any(has)
    }

    /// Whether any of the ranges has an address in common with it.
    pub(super) fn overlaps(&self, one: MemoryRange) -> bool {
        self.0.iter().any(|known| known.overlaps(one))
    }

    /// Size of the largest range.
    pub(super) fn largest(&self) -> u64 {
        self.0.iter().map(|known| known.bytes).max().unwrap_or(0)
    }
}

impl FromIterator<MemoryRange> for MemoryRanges {
    fn from_iter<I: IntoIterator<Item = MemoryRange>>(stretches: I) -> Self {
        let mut all = Self::default();
        stretches.into_iter().for_each(|one| all.add(one));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn as_a_set_of_bytes(steps in prop::collection::vec((0_u64..60, 0_u64..20, any::<bool>()), 0..30)) {
            let (mut all, mut model) = (MemoryRanges::default(), [false; 80]);
            for (start, bytes, adds) in steps {
                let one = MemoryRange { start: MemoryAddress(start), bytes };
                if adds { all.add(one) } else { all.remove(one) }
                model[start as usize..(start + bytes) as usize].fill(adds);
                for start in 0..80 {
                    let byte = MemoryRange { start: MemoryAddress(start), bytes: 1 };
                    prop_assert_eq!(all.contains(byte), model[start as usize]);
                    prop_assert_eq!(all.overlaps(byte), model[start as usize]);
                }
            }
            let runs = model.split(|is_in| !is_in).map(|run| run.len() as u64);
            prop_assert_eq!(all.largest(), runs.clone().max().unwrap_or(0));
            prop_assert_eq!(all.0.len(), runs.filter(|length| *length > 0).count());
            let largest = all.largest();
            prop_assert_eq!(all.take(largest + 1), None);
            if largest > 0 {
                let start = all.take(largest).unwrap();
                let taken = MemoryRange { start, bytes: largest };
                prop_assert!(!all.overlaps(taken));
            }
        }
    }

    #[test]
    fn removing_nothing_cuts_nothing() {
        let ten = MemoryRange { start: MemoryAddress(0), bytes: 10 };
        let mut all: MemoryRanges = [ten].into_iter().collect();
        all.remove(MemoryRange { start: MemoryAddress(5), bytes: 0 });
        assert!(all.contains(ten));
    }

    #[test]
    fn the_end_of_all_addresses() {
        let top = MemoryRange { start: MemoryAddress(u64::MAX - 9), bytes: 100 };
        let all: MemoryRanges = [top].into_iter().collect();
        assert!(all.contains(MemoryRange { start: MemoryAddress(u64::MAX - 9), bytes: 9 }));
        assert!(!all.contains(top), "it wraps around");
        assert!(
            !all.contains(MemoryRange { start: MemoryAddress(u64::MAX - 9), bytes: 0 }),
            "nothing is nowhere"
        );
    }
}
