//! Size classes: what a block of each is made of.

/// Sizes that CPUs keep blocks of: 1, 2, 4 ... 1,024 pages. Larger ranges come from the central tree one by one.
pub(crate) const CLASSES: usize = if cfg!(loom) { 1 } else { 11 };
/// Items of a block at most: bits of half a word, the other half of which says whose the block is.
/// Under loom, as few as show every way in which threads can meet.
pub(crate) const ITEMS_MAX: u32 = if cfg!(loom) { 4 } else { 32 };
/// Pages that a unit of the table stands for. No block spans less, so that no unit belongs to two.
pub(crate) const UNIT_PAGES: u64 = ITEMS_MAX as u64;
/// Pages that a block spans at most, and the least of a block that is worth having.
const SPAN_PAGES_MAX: u64 = 4096;
const ITEMS_MIN: u64 = 4;
/// No more of the space than this part is to lie in the blocks of one class that CPUs have open.
const SPACE_PARTS: u64 = 64;

/// The class of ranges of `pages` pages: the smallest power of two that holds them. Above [`CLASSES`] for large ones.
#[inline(always)]
pub(crate) fn class_of(pages: u64) -> usize {
    (u64::BITS - pages.wrapping_sub(1).leading_zeros()) as usize
}

/// Blocks by class, for a space and a number of CPUs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Pages of a block of each class, less one: powers of two less one. 0 for a class without blocks.
    span_masks: [u64; CLASSES],
}

impl Shape {
    pub(crate) fn new(space_pages: u64, cpus: usize) -> Self {
        let fair = space_pages / (SPACE_PARTS * cpus as u64);
        let span_max = match fair {
            0 => UNIT_PAGES,
            fair => (1 << fair.ilog2()).clamp(UNIT_PAGES, SPAN_PAGES_MAX),
        };
        let span_masks = core::array::from_fn(|class| {
            let span = (u64::from(ITEMS_MAX) << class).min(span_max);
            if span >> class >= ITEMS_MIN { span - 1 } else { 0 }
        });
        Self { span_masks }
    }

    /// Pages of a block, less one; 0 if there are no blocks of the class.
    #[inline(always)]
    pub(crate) fn span_mask(&self, class: usize) -> u64 {
        self.span_masks[class]
    }

    pub(crate) fn span_pages(&self, class: usize) -> u64 {
        self.span_masks[class] + 1
    }

    /// A bit for each item of a block.
    pub(crate) fn items(&self, class: usize) -> u64 {
        (1 << (self.span_pages(class) >> class)) - 1
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn classes_are_powers_of_two() {
        let classes = [1, 2, 3, 4, 5, 32, 33, 64, 1024, 1025].map(class_of);
        assert_eq!(classes, [0, 1, 2, 2, 3, 5, 6, 6, 10, 11]);
    }

    #[test]
    fn blocks_shrink_with_the_space() {
        let items = |pages: u64, cpus: usize| {
            let shape = Shape::new(pages, cpus);
            [0, 5, 10]
                .map(|class| if shape.span_mask(class) == 0 { 0 } else { shape.items(class).count_ones() })
        };
        assert_eq!(items(1 << 36, 2), [32, 32, 4]);
        assert_eq!(items(1 << 20, 2), [32, 32, 4]);
        assert_eq!(items(1 << 20, 256), [32, 0, 0]);
        assert_eq!(items(100, 2), [32, 0, 0]);
    }
}
