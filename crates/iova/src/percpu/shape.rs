//! Size classes, and the capacities of stacks and depots.

/// The number of cached sizes: 1, 2, 4 ... 1,024 pages. Larger ranges come from the central tree.
pub(crate) const CLASSES: usize = if cfg!(loom) { 1 } else { 11 };
/// The largest capacity of a stack in ranges. Under loom, as few as show every interleaving of threads.
pub(super) const STACK_MAX: u64 = if cfg!(loom) { 4 } else { 126 };
/// A size whose stack would have a smaller capacity is not cached.
const STACK_MIN: u64 = 2;
/// Pages of one size that a CPU may cache: in the largest space, and in the smallest.
const CPU_PAGES_MAX: u64 = 1 << 14;
const CPU_PAGES_MIN: u64 = 8;
/// At most this fraction (1/N) of the space is cached in all stacks of a size, and as much in the size's depot.
const SPACE_PARTS: u64 = if cfg!(loom) { 2 } else { 64 };
/// The largest capacity of a depot in ranges.
const DEPOT_MAX: u64 = 1 << 14;

/// Pages of the largest cached size.
pub(crate) const CACHED_PAGES_MAX: u64 = 1 << (CLASSES - 1);

/// The class of a size: the base-2 logarithm of `pages`, rounded up. `None` for 0 pages and for more than [`CACHED_PAGES_MAX`].
#[inline(always)]
pub(crate) fn class_of(pages: u64) -> Option<usize> {
    let below = pages.wrapping_sub(1);
    // 2n+1 is never 0, so `ilog2` needs no zero check.
    (below < CACHED_PAGES_MAX).then(|| (2 * below + 1).ilog2() as usize)
}

/// The number of ranges that move at once between a stack and the depot: half of the stack's capacity, so that the next call
/// finds the stack neither empty nor full.
pub(crate) fn batch_ranges(stack_capacity: u64) -> u64 {
    stack_capacity.div_ceil(2)
}

/// The capacities of stacks and depots, for a space and a number of CPUs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Pages of one class that a CPU may cache.
    cpu_pages: u64,
    /// Pages that a depot may hold.
    depot_pages: u64,
}

impl Shape {
    pub(crate) fn new(space_pages: u64, cpus: usize) -> Self {
        let depot_pages = space_pages / SPACE_PARTS;
        let cpu_pages = (depot_pages / cpus.max(1) as u64).clamp(CPU_PAGES_MIN, CPU_PAGES_MAX);
        Self { cpu_pages, depot_pages }
    }

    /// The capacity of a class's stack in ranges; 0 if the class is not cached.
    pub(crate) fn stack_capacity(&self, class: usize) -> u64 {
        match (self.cpu_pages >> class).min(STACK_MAX) {
            ..STACK_MIN => 0,
            ranges => ranges,
        }
    }

    /// The capacity of a class's depot in ranges.
    pub(crate) fn depot_capacity(&self, class: usize) -> usize {
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
    fn less_is_cached_in_a_smaller_space() {
        let kept =
            |pages: u64, cpus: usize| [0, 5, 10].map(|class| Shape::new(pages, cpus).stack_capacity(class));
        assert_eq!(kept(1 << 36, 2), [126, 126, 16]);
        assert_eq!(kept(1 << 20, 2), [126, 126, 8]);
        assert_eq!(kept(1 << 20, 256), [64, 2, 0]);
        assert_eq!(kept(100, 2), [8, 0, 0]);
        let depot = |pages: u64| [0, 5, 10].map(|class| Shape::new(pages, 2).depot_capacity(class));
        assert_eq!(depot(1 << 36), [1 << 14, 1 << 14, 1 << 14]);
        assert_eq!(depot(1 << 20), [1 << 14, 512, 16]);
        assert_eq!(depot(100), [1, 0, 0]);
    }
}
