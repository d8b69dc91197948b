//! Size classes: how much of each is kept where.

/// Sizes that CPUs keep ranges of: 1, 2, 4 ... 1,024 pages. Larger ones come from the central tree.
pub(crate) const CLASSES: usize = if cfg!(loom) { 1 } else { 11 };
/// Ranges of a size that a CPU keeps at most. Under loom, as few as show every way in which threads can meet.
const STACK_MAX: u64 = if cfg!(loom) { 4 } else { 128 };
/// A CPU keeps no sizes of which it could have fewer than this.
const STACK_MIN: u64 = 2;
/// Pages that a CPU may keep of one size: at most, and in the smallest space.
const KEPT_PAGES_MAX: u64 = 1 << 14;
const KEPT_PAGES_MIN: u64 = 8;
/// No more of the space than this part is to be kept of one size, by all CPUs, nor in the depot of that size.
const SPACE_PARTS: u64 = if cfg!(loom) { 2 } else { 64 };
/// Ranges in a depot at most.
const DEPOT_MAX: u64 = 1 << 14;

/// Pages of the largest size.
pub(crate) const KEPT_MAX: u64 = 1 << (CLASSES - 1);

/// The class of ranges of `pages` pages: the smallest power of two that holds them. Nothing for none, and for more than
/// [`KEPT_MAX`].
#[inline(always)]
pub(crate) fn class_of(pages: u64) -> Option<usize> {
    CLASS_OF.get(usize::try_from(pages.wrapping_sub(1)).ok()?).map(|class| usize::from(*class))
}

/// By pages, less one. Without the instruction LZCNT, which not every x86-64 has, the logarithm costs more than a look here.
static CLASS_OF: [u8; KEPT_MAX as usize] = class_table();

const fn class_table() -> [u8; KEPT_MAX as usize] {
    let mut classes = [0; KEPT_MAX as usize];
    let mut pages = 2;
    while pages <= KEPT_MAX {
        classes[pages as usize - 1] = (pages - 1).ilog2() as u8 + 1;
        pages += 1;
    }
    classes
}

/// How much is kept of each class, for a space and a number of CPUs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Pages that a CPU may keep of one class.
    kept_pages: u64,
    /// Pages that a depot may.
    depot_pages: u64,
}

impl Shape {
    pub(crate) fn new(space_pages: u64, cpus: usize) -> Self {
        let depot_pages = space_pages / SPACE_PARTS;
        let kept_pages = (depot_pages / cpus.max(1) as u64).clamp(KEPT_PAGES_MIN, KEPT_PAGES_MAX);
        Self { kept_pages, depot_pages }
    }

    /// Ranges of a class that a CPU keeps at most; 0 for one that it doesn't keep.
    pub(crate) fn stack(&self, class: usize) -> usize {
        match (self.kept_pages >> class).min(STACK_MAX) {
            ..STACK_MIN => 0,
            ranges => ranges as usize,
        }
    }

    /// Ranges of a class that its depot holds at most.
    pub(crate) fn depot(&self, class: usize) -> usize {
        (self.depot_pages >> class).min(DEPOT_MAX) as usize
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn classes_are_powers_of_two() {
        let classes = [1, 2, 3, 4, 5, 32, 33, 64, 1024].map(class_of);
        assert_eq!(classes, [0, 1, 2, 2, 3, 5, 6, 6, 10].map(Some));
        assert_eq!([0, 1025, (1 << 63) + 1, u64::MAX].map(class_of), [None; 4]);
    }

    #[test]
    fn less_is_kept_of_a_smaller_space() {
        let kept = |pages: u64, cpus: usize| [0, 5, 10].map(|class| Shape::new(pages, cpus).stack(class));
        assert_eq!(kept(1 << 36, 2), [128, 128, 16]);
        assert_eq!(kept(1 << 20, 2), [128, 128, 8]);
        assert_eq!(kept(1 << 20, 256), [64, 2, 0]);
        assert_eq!(kept(100, 2), [8, 0, 0]);
        let depot = |pages: u64| [0, 5, 10].map(|class| Shape::new(pages, 2).depot(class));
        assert_eq!(depot(1 << 36), [1 << 14, 1 << 14, 1 << 14]);
        assert_eq!(depot(1 << 20), [1 << 14, 512, 16]);
        assert_eq!(depot(100), [1, 0, 0]);
    }
}
