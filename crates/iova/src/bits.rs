//! A bitmap in words of 64 bits, whose bits are searched, set and cleared in runs.

use alloc::vec;
use alloc::vec::Vec;

/// A fixed number of bits, all clear at first. The words are allocated zeroed, so that the kernel provides memory only
/// when a bit is set.
#[derive(Debug, Clone)]
pub(crate) struct Bits {
    words: Vec<u64>,
    len: u64,
}

impl Bits {
    /// `len` bits, all clear.
    pub(crate) fn new(len: u64) -> Self {
        Self { words: vec![0; len.div_ceil(64) as usize], len }
    }

    /// The number of bits.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The word that holds bits `64 * index` to `64 * index + 63`.
    pub(crate) fn word(&self, index: u64) -> u64 {
        self.words[index as usize]
    }

    /// Whether a bit is set.
    pub(crate) fn is_set(&self, index: u64) -> bool {
        self.words[(index / 64) as usize] & 1 << (index % 64) != 0
    }

    /// Sets the bits `first` to `last`, which may lie in the last word beyond the end.
    pub(crate) fn set(&mut self, first: u64, last: u64) {
        for (word, mask) in masks(first, last) {
            self.words[word] |= mask;
        }
    }

    /// Clears the bits `first` to `last`.
    pub(crate) fn clear(&mut self, first: u64, last: u64) {
        for (word, mask) in masks(first, last) {
            self.words[word] &= !mask;
        }
    }

    /// Whether the bits `first` to `last` are all set.
    pub(crate) fn are_all_set(&self, first: u64, last: u64) -> bool {
        masks(first, last).all(|(word, mask)| self.words[word] & mask == mask)
    }

    /// The first set bit of `from..end`, or `end`.
    pub(crate) fn first_set(&self, from: u64, end: u64) -> u64 {
        self.first_unlike(0, from, end)
    }

    /// The first clear bit of `from..end`, or `end`.
    pub(crate) fn first_clear(&self, from: u64, end: u64) -> u64 {
        self.first_unlike(u64::MAX, from, end)
    }

    /// The first bit of `from..end` that differs from those of the word `same`, or `end`.
    fn first_unlike(&self, same: u64, from: u64, end: u64) -> u64 {
        if from >= end {
            return end;
        }
        let (mut word, last) = ((from / 64) as usize, ((end - 1) / 64) as usize);
        let mut found = (self.words[word] ^ same) & u64::MAX << (from % 64);
        while found == 0 {
            if word == last {
                return end;
            }
            word += 1;
            found = self.words[word] ^ same;
        }
        (64 * word as u64 + u64::from(found.trailing_zeros())).min(end)
    }

    /// The first run of `len` clear bits in `from..end` that begins where index + `offset` is a multiple of `alignment`,
    /// a power of two.
    pub(crate) fn clear_run(
        &self,
        from: u64,
        end: u64,
        len: u64,
        alignment: u64,
        offset: u64,
    ) -> Option<u64> {
        let mut from = from;
        loop {
            let first = align_up(self.first_clear(from, end) + offset, alignment)? - offset;
            let after = first.checked_add(len).filter(|&after| after <= end)?;
            match self.first_set(first, after) {
                taken if taken < after => from = taken + 1,
                _ => return Some(first),
            }
        }
    }

    /// The lengths of the runs of clear bits before `end`.
    pub(crate) fn clear_lengths(&self, end: u64) -> impl Iterator<Item = u64> {
        let mut from = 0;
        core::iter::from_fn(move || {
            let first = self.first_clear(from, end);
            from = self.first_set(first, end);
            (first < end).then(|| from - first)
        })
    }

    /// The number of set bits.
    pub(crate) fn set_count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Memory in use, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        size_of_val(self.words.as_slice()) as u64
    }
}

/// Rounds `at` up to a multiple of a power of two.
fn align_up(at: u64, alignment: u64) -> Option<u64> {
    Some(at.checked_add(alignment - 1)? & !(alignment - 1))
}

/// The words that contain bits `first` to `last`, each with a mask of these bits.
fn masks(first: u64, last: u64) -> impl Iterator<Item = (usize, u64)> {
    let (from, to) = ((first / 64) as usize, (last / 64) as usize);
    (from..to + 1).map(move |word| {
        let low = if word == from { u64::MAX << (first % 64) } else { u64::MAX };
        let high = if word == to { u64::MAX >> (63 - last % 64) } else { u64::MAX };
        (word, low & high)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_across_words() {
        let mut bits = Bits::new(200);
        bits.set(3, 130);
        assert!(bits.are_all_set(3, 130) && !bits.is_set(2) && !bits.is_set(131));
        assert_eq!(
            (bits.first_set(0, 200), bits.first_clear(3, 200), bits.first_clear(3, 100)),
            (3, 131, 100)
        );
        assert_eq!(bits.clear_lengths(200).collect::<Vec<_>>(), [3, 69]);
        bits.clear(64, 67);
        assert_eq!(bits.clear_run(0, 200, 4, 1, 0), Some(64));
        assert_eq!(
            bits.clear_run(0, 200, 4, 8, 1),
            Some(135),
            "135 + 1 is the first multiple of 8 with room"
        );
        assert_eq!(bits.clear_run(0, 200, 70, 1, 0), None);
        assert_eq!(bits.clear_run(0, 200, 1, 1 << 63, 1), None);
        assert_eq!(bits.set_count(), 124);
    }
}
