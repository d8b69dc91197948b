//! A bitmap of a window's mapped pages, kept by the operating system.

use std::sync::atomic::{AtomicU64, Ordering};

/// One bit per page. In Linux the allocator's bitmap (`it_map`) serves for that.
///
/// The allocator gives a range to one thread at a time and orders one owner before the next, so relaxed atomics are
/// enough.
#[derive(Debug)]
pub(super) struct MappedPages(Box<[AtomicU64]>);

impl MappedPages {
    /// A record of `pages` pages, none of them mapped.
    pub(super) fn new(pages: u64) -> Self {
        Self((0..pages.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    /// Sets all bits of a range. If one is set already, returns it and changes nothing.
    pub(super) fn set(&self, first: u64, count: u64) -> Result<(), u64> {
        self.change(first, count, true)
    }

    /// Clears all bits of a range. If one is clear already, returns it and changes nothing.
    pub(super) fn clear(&self, first: u64, count: u64) -> Result<(), u64> {
        self.change(first, count, false)
    }

    /// Whether any bit is set.
    pub(super) fn any(&self) -> bool {
        self.0.iter().any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// Sets or clears the bits of `count` pages. If one already has that value, undoes the change and returns its index.
    fn change(&self, first: u64, count: u64, to: bool) -> Result<(), u64> {
        for (done, (word, bits)) in words(first, count).enumerate() {
            let changed = self.flip(word, bits, to);
            if changed != bits {
                self.flip(word, changed, !to);
                words(first, count).take(done).for_each(|(word, bits)| {
                    self.flip(word, bits, !to);
                });
                return Err(word * 64 + u64::from((bits & !changed).trailing_zeros()));
            }
        }
        Ok(())
    }

    /// Sets or clears bits of a word. Returns those that were different before.
    fn flip(&self, word: u64, bits: u64, to: bool) -> u64 {
        let Some(word) = self.0.get(word as usize) else { return 0 };
        match to {
            true => bits & !word.fetch_or(bits, Ordering::Relaxed),
            false => bits & word.fetch_and(!bits, Ordering::Relaxed),
        }
    }
}

/// The 64-bit words of a non-empty range of pages: the index of each, and the mask of the range's bits in it.
fn words(first: u64, count: u64) -> impl Iterator<Item = (u64, u64)> {
    let last = first + (count - 1);
    (first / 64..=last / 64).map(move |word| {
        let low = if word == first / 64 { first % 64 } else { 0 };
        let high = if word == last / 64 { last % 64 } else { 63 };
        (word, u64::MAX << low & u64::MAX >> (63 - high))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_or_nothing(steps in prop::collection::vec((0_u64..200, 1_u64..140, any::<bool>()), 0..40)) {
            let (mapped_pages, mut model) = (MappedPages::new(340), [false; 340]);
            for (first, count, to) in steps {
                let range = first as usize..(first + count) as usize;
                let stuck = range.clone().find(|page| model[*page] == to).map(|page| page as u64);
                let answer = if to { mapped_pages.set(first, count) } else { mapped_pages.clear(first, count) };
                prop_assert_eq!(answer.err(), stuck);
                if stuck.is_none() {
                    model[range].fill(to);
                }
                prop_assert_eq!(mapped_pages.any(), model.contains(&true));
            }
        }
    }
}
