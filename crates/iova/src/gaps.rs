//! The free ranges of a space in order of address, searched by size and alignment.

use crate::Range;
use alloc::vec::Vec;

/// No node.
const NONE: u32 = u32::MAX;

/// A free range, and what the subtree below it holds.
#[derive(Debug, Clone, Copy)]
struct Gap {
    first: u64,
    pages: u64,
    /// Pages of the largest range of the subtree.
    pages_max: u64,
    left: u32,
    right: u32,
    /// A heap in this, by which the tree keeps its balance: a hash of where the range began when it was made.
    priority: u32,
    /// The largest order of the subtree.
    order_max: u8,
}

/// Disjoint ranges, none next to another, in a treap whose nodes know the largest range and the largest aligned power of
/// two below them (Seidel and Aragon, "Randomized Search Trees", 1996; the augmentation as in Linux's
/// `lib/rbtree_augmented`).
///
/// Adding and taking cost O(log n) expected. Searches descend only where the size fits; for unaligned requests and for
/// powers of two aligned to their size that is one descent. For others (33 pages aligned to 64) subtrees may be entered in
/// vain: those with a range large enough that lies badly.
#[derive(Debug)]
pub(crate) struct Gaps {
    nodes: Vec<Gap>,
    /// Nodes not in use, linked by `left`.
    unused: u32,
    root: u32,
    len: u64,
    pages: u64,
}

/// What is searched for.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    pages: u64,
    alignment: u64,
    limit: u64,
    /// No range of a smaller order holds it.
    order: u8,
}

/// The order of the largest power of two that lies in the range, aligned to itself.
fn order(first: u64, pages: u64) -> u8 {
    let end = first + pages;
    // The address behind `first` with the most trailing zeros splits the range. No aligned block lies across it, and a block that
    // ends or begins there is aligned.
    let top = (first ^ end).ilog2();
    let middle = end >> top << top;
    (middle - first).max(end - middle).ilog2() as u8
}

impl Wanted {
    /// Where it would begin in a range, if it fits.
    fn place(&self, first: u64, pages: u64) -> Option<u64> {
        let at = first.checked_next_multiple_of(self.alignment)?;
        let last = at.checked_add(self.pages - 1)?;
        (last < first + pages && last <= self.limit).then_some(at)
    }
}

impl Default for Gaps {
    fn default() -> Self {
        Self { nodes: Vec::new(), unused: NONE, root: NONE, len: 0, pages: 0 }
    }
}

impl Gaps {
    /// How many ranges there are.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Pages in all of them.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    /// The lowest page of all.
    pub(crate) fn first(&self) -> Option<u64> {
        let mut at = self.root;
        while at != NONE && self.node(at).left != NONE {
            at = self.node(at).left;
        }
        (at != NONE).then(|| self.node(at).first)
    }

    /// Pages of the largest.
    pub(crate) fn largest_pages(&self) -> u64 {
        if self.root == NONE { 0 } else { self.node(self.root).pages_max }
    }

    /// Memory of the nodes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.nodes.capacity() * size_of::<Gap>()) as u64
    }

    /// Adds pages, which must not be in it, and joins them to their neighbours.
    pub(crate) fn add(&mut self, range: Range) {
        let (below, above) = self.split(self.root, range.first);
        let (below, previous) = self.cut_last(below);
        let (next, above) = self.cut_first(above);
        let mut whole = range;
        let mut below = below;
        let mut above = above;
        if let Some(previous) = previous {
            let gap = *self.node(previous);
            debug_assert!(gap.first + gap.pages <= range.first, "pages added twice");
            if gap.first + gap.pages == range.first {
                whole = Range { first: gap.first, pages: gap.pages + whole.pages };
                self.discard(previous);
            } else {
                below = self.merge(below, previous);
            }
        }
        if let Some(next) = next {
            let gap = *self.node(next);
            debug_assert!(range.first + range.pages <= gap.first, "pages added twice");
            if range.first + range.pages == gap.first {
                whole.pages += gap.pages;
                self.discard(next);
            } else {
                above = self.merge(next, above);
            }
        }
        let node = self.make(whole);
        let below = self.merge(below, node);
        self.root = self.merge(below, above);
        self.pages += range.pages;
    }

    /// Takes the lowest fit out. `alignment` is a power of two.
    pub(crate) fn take(&mut self, pages: u64, alignment: u64, limit: u64) -> Option<Range> {
        let log2 = |value: u64| (63 - value.leading_zeros()) as u8;
        let wanted = Wanted { pages, alignment, limit, order: log2(alignment).min(log2(pages)) };
        let (node, first) = self.find(self.root, &wanted)?;
        let gap = *self.node(node);
        let (below, rest) = self.split(self.root, gap.first);
        let (_, above) = self.cut_first(rest);
        self.discard(node);
        let mut root = below;
        if first > gap.first {
            let before = self.make(Range { first: gap.first, pages: first - gap.first });
            root = self.merge(root, before);
        }
        let end = gap.first + gap.pages;
        if first + pages < end {
            let after = self.make(Range { first: first + pages, pages: end - first - pages });
            root = self.merge(root, after);
        }
        self.root = self.merge(root, above);
        self.pages -= pages;
        Some(Range { first, pages })
    }

    /// The node of the lowest fit below `at`, and where it begins.
    fn find(&self, at: u32, wanted: &Wanted) -> Option<(u32, u64)> {
        if at == NONE {
            return None;
        }
        let gap = self.node(at);
        if gap.pages_max < wanted.pages || gap.order_max < wanted.order {
            return None;
        }
        if let Some(found) = self.find(gap.left, wanted) {
            return Some(found);
        }
        if gap.first > wanted.limit {
            return None;
        }
        if let Some(first) = wanted.place(gap.first, gap.pages) {
            return Some((at, first));
        }
        self.find(gap.right, wanted)
    }

    fn node(&self, at: u32) -> &Gap {
        #[cfg(test)]
        tests::count_visit();
        &self.nodes[at as usize]
    }

    fn make(&mut self, range: Range) -> u32 {
        // Fibonacci hashing, folded: neighbours get unlike priorities, and the same run makes the same tree.
        let hash = range.first.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let gap = Gap {
            first: range.first,
            pages: range.pages,
            pages_max: range.pages,
            left: NONE,
            right: NONE,
            priority: (hash ^ (hash >> 29)) as u32,
            order_max: order(range.first, range.pages),
        };
        self.len += 1;
        match self.unused {
            NONE => {
                self.nodes.push(gap);
                (self.nodes.len() - 1) as u32
            }
            at => {
                self.unused = self.node(at).left;
                self.nodes[at as usize] = gap;
                at
            }
        }
    }

    fn discard(&mut self, at: u32) {
        self.nodes[at as usize].left = self.unused;
        self.unused = at;
        self.len -= 1;
    }

    /// Recomputes what a node says of its subtree.
    fn sum_up(&mut self, at: u32) {
        let gap = *self.node(at);
        let (mut pages_max, mut order_max) = (gap.pages, order(gap.first, gap.pages));
        for child in [gap.left, gap.right] {
            if child != NONE {
                let child = self.node(child);
                pages_max = pages_max.max(child.pages_max);
                order_max = order_max.max(child.order_max);
            }
        }
        let gap = &mut self.nodes[at as usize];
        (gap.pages_max, gap.order_max) = (pages_max, order_max);
    }

    /// Those that begin below `first`, and the others.
    fn split(&mut self, at: u32, first: u64) -> (u32, u32) {
        if at == NONE {
            return (NONE, NONE);
        }
        let gap = *self.node(at);
        if gap.first < first {
            let (left, right) = self.split(gap.right, first);
            self.nodes[at as usize].right = left;
            self.sum_up(at);
            (at, right)
        } else {
            let (left, right) = self.split(gap.left, first);
            self.nodes[at as usize].left = right;
            self.sum_up(at);
            (left, at)
        }
    }

    /// All of both, those of `left` being below those of `right`.
    fn merge(&mut self, left: u32, right: u32) -> u32 {
        match (left, right) {
            (NONE, other) | (other, NONE) => other,
            _ if self.node(left).priority >= self.node(right).priority => {
                let merged = self.merge(self.node(left).right, right);
                self.nodes[left as usize].right = merged;
                self.sum_up(left);
                left
            }
            _ => {
                let merged = self.merge(left, self.node(right).left);
                self.nodes[right as usize].left = merged;
                self.sum_up(right);
                right
            }
        }
    }

    /// The tree without its lowest range, after it.
    fn cut_first(&mut self, at: u32) -> (Option<u32>, u32) {
        if at == NONE {
            return (None, NONE);
        }
        let gap = *self.node(at);
        if gap.left == NONE {
            self.nodes[at as usize].right = NONE;
            self.sum_up(at);
            return (Some(at), gap.right);
        }
        let (cut, left) = self.cut_first(gap.left);
        self.nodes[at as usize].left = left;
        self.sum_up(at);
        (cut, at)
    }

    /// The tree without its highest range, before it.
    fn cut_last(&mut self, at: u32) -> (u32, Option<u32>) {
        if at == NONE {
            return (NONE, None);
        }
        let gap = *self.node(at);
        if gap.right == NONE {
            self.nodes[at as usize].left = NONE;
            self.sum_up(at);
            return (gap.left, Some(at));
        }
        let (right, cut) = self.cut_last(gap.right);
        self.nodes[at as usize].right = right;
        self.sum_up(at);
        (at, cut)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use alloc::collections::BTreeSet;
    use core::cell::Cell;
    use proptest::prelude::*;

    std::thread_local! {
        static VISITS: Cell<u64> = const { Cell::new(0) };
    }

    /// Counts a node that was looked at.
    pub(super) fn count_visit() {
        VISITS.set(VISITS.get() + 1);
    }

    /// Nodes that something looks at.
    fn counting<T>(work: impl FnOnce() -> T) -> (T, u64) {
        VISITS.set(0);
        let result = work();
        (result, VISITS.get())
    }

    /// What a subtree comes to, recomputed from its ranges alone.
    struct Summary {
        nodes: u64,
        pages: u64,
        pages_max: u64,
        order_max: u8,
        depth: u32,
    }

    /// Checks a subtree whose ranges begin behind `end`, and moves `end` behind them.
    fn check_subtree(gaps: &Gaps, at: u32, priority_max: u32, end: &mut Option<u64>) -> Summary {
        if at == NONE {
            return Summary { nodes: 0, pages: 0, pages_max: 0, order_max: 0, depth: 0 };
        }
        let gap = &gaps.nodes[at as usize];
        assert!(gap.priority <= priority_max, "a heap in its priorities");
        let left = check_subtree(gaps, gap.left, gap.priority, end);
        assert!(end.is_none_or(|end| end < gap.first), "in order, disjoint, and none next to another");
        *end = Some(gap.first + gap.pages);
        let right = check_subtree(gaps, gap.right, gap.priority, end);
        let whole = Summary {
            nodes: left.nodes + 1 + right.nodes,
            pages: left.pages + gap.pages + right.pages,
            pages_max: left.pages_max.max(gap.pages).max(right.pages_max),
            order_max: left.order_max.max(order_by_trying(gap.first, gap.pages)).max(right.order_max),
            depth: 1 + left.depth.max(right.depth),
        };
        assert_eq!((gap.pages_max, gap.order_max), (whole.pages_max, whole.order_max), "at {}", gap.first);
        whole
    }

    /// Checks the whole tree, and that each node is in it or waits to be used again.
    fn check(gaps: &Gaps) -> Summary {
        let whole = check_subtree(gaps, gaps.root, u32::MAX, &mut None);
        assert_eq!((gaps.len(), gaps.pages()), (whole.nodes, whole.pages));
        assert_eq!(gaps.largest_pages(), whole.pages_max);
        let (mut unused, mut at) = (0, gaps.unused);
        while at != NONE {
            (unused, at) = (unused + 1, gaps.nodes[at as usize].left);
        }
        assert_eq!(whole.nodes + unused, gaps.nodes.len() as u64, "no node is lost");
        whole
    }

    /// As many ranges as asked for, each of so many pages behind the last, the first of them at `first`.
    fn comb(first: u64, pages: u64, every: u64, ranges: u64) -> Gaps {
        let mut gaps = Gaps::default();
        (0..ranges).for_each(|index| gaps.add(Range { first: first + index * every, pages }));
        gaps
    }

    const RANGES: u64 = 1 << 14;
    /// A perfect tree of so many nodes is 14 deep; a treap is less than twice as deep. Searches look at each node of the way down and
    /// its children.
    const DEPTH_MAX: u32 = 2 * 14;
    const SEARCH_MAX: u64 = 3 * DEPTH_MAX as u64;
    /// An addition and a removal walk down to split the tree, to cut out neighbours, and twice to merge, and sum up on each way back.
    const VISITS_MAX: u64 = 32 * DEPTH_MAX as u64;

    /// What can't be had is refused at the root, however many ranges there are; one that fits is found in one descent. Each is
    /// what an adapter's owner could bring about by freeing every other buffer.
    #[test]
    fn searches_look_at_few_ranges() {
        let last = u64::MAX;
        // Single pages; and 14 pages each that hold no 8 aligned to 8.
        for (mut gaps, refused, far) in [
            (comb(1, 1, 2, RANGES), [(2, 1), (2, 2)], Range { first: 1 << 20, pages: 8 }),
            (comb(1, 14, 16, RANGES), [(15, 1), (8, 8)], Range { first: 1 << 20, pages: 16 }),
        ] {
            for (pages, alignment) in refused {
                let (taken, visits) = counting(|| gaps.take(pages, alignment, last));
                assert_eq!((taken, visits), (None, 1), "{pages} pages aligned to {alignment}");
            }
            // The only fit lies behind all of them.
            gaps.add(far);
            for (pages, alignment) in refused {
                let (taken, visits) = counting(|| gaps.take(pages, alignment, last));
                assert_eq!(taken.map(|range| range.first), Some(far.first));
                assert!(visits <= VISITS_MAX, "{pages} pages aligned to {alignment}: {visits} nodes");
                gaps.add(Range { first: far.first, pages });
                // Beyond the limit it is no fit, and those before it are not tried one after another.
                for limit in [far.first - 1, far.first, far.first + pages - 2] {
                    let (taken, visits) = counting(|| gaps.take(pages, alignment, limit));
                    assert_eq!(taken, None);
                    assert!(visits <= SEARCH_MAX, "below {limit}: {visits} nodes");
                }
                let at_limit = gaps.take(pages, alignment, far.first + pages - 1);
                assert_eq!(at_limit.map(|range| range.first), Some(far.first));
                gaps.add(Range { first: far.first, pages });
            }
            check(&gaps);
        }
    }

    /// Ranges beyond the limit would all be large enough.
    #[test]
    fn ranges_beyond_the_limit_are_not_tried() {
        let mut gaps = comb(1000, 8, 16, RANGES);
        for limit in [0, 999, 1000, 1006] {
            let (taken, visits) = counting(|| gaps.take(8, 1, limit));
            assert_eq!(taken, None);
            assert!(visits <= SEARCH_MAX, "below {limit}: {visits} nodes");
        }
        assert_eq!(gaps.take(8, 1, 1007), Some(Range { first: 1000, pages: 8 }));
    }

    /// Each step leaves right summaries, whatever its caller does next.
    #[test]
    fn trees_taken_apart_are_summed_up() {
        let summed_up = |gaps: &Gaps, at| check_subtree(gaps, at, u32::MAX, &mut None).nodes;
        let mut gaps = Gaps::default();
        // The largest are where the tree is cut: a summary that is not made anew stays too large.
        (0..64).for_each(|index| gaps.add(Range { first: 512 * index, pages: 1 + 37 * index % 64 }));
        for first in (0..64).map(|index| 512 * index) {
            let (below, above) = gaps.split(gaps.root, first);
            assert_eq!((summed_up(&gaps, below), summed_up(&gaps, above)), (first / 512, 64 - first / 512));
            let (below, previous) = gaps.cut_last(below);
            summed_up(&gaps, below);
            let (next, above) = gaps.cut_first(above);
            summed_up(&gaps, above);
            let mut whole = below;
            for single in [previous, next].into_iter().flatten() {
                assert_eq!(summed_up(&gaps, single), 1);
                whole = gaps.merge(whole, single);
                summed_up(&gaps, whole);
            }
            gaps.root = gaps.merge(whole, above);
            assert_eq!(check(&gaps).nodes, 64);
        }
    }

    /// Added upwards, downwards, and from both ends in turn, the tree stays flat, and each addition and removal looks at few nodes.
    #[test]
    fn the_tree_stays_flat() {
        let upwards: Vec<u64> = (0..RANGES).collect();
        let downwards: Vec<u64> = (0..RANGES).rev().collect();
        let inwards: Vec<u64> = (0..RANGES / 2).flat_map(|index| [index, RANGES - 1 - index]).collect();
        for starts in [upwards, downwards, inwards] {
            let (mut gaps, mut most) = (Gaps::default(), 0);
            for start in &starts {
                let ((), visits) = counting(|| gaps.add(Range { first: 4 * start, pages: 2 }));
                most = most.max(visits);
            }
            assert!(most <= VISITS_MAX, "an addition looks at {most} nodes");
            assert!(check(&gaps).depth <= DEPTH_MAX, "{} deep", check(&gaps).depth);
            for taken in 0..RANGES {
                let (range, visits) = counting(|| gaps.take(2, 2, u64::MAX));
                assert_eq!(range, Some(Range { first: 4 * taken, pages: 2 }));
                assert!(visits <= VISITS_MAX, "taking the first looks at {visits} nodes");
            }
            assert_eq!((gaps.len(), gaps.pages(), gaps.first(), gaps.largest_pages()), (0, 0, None, 0));
            // Nodes are used again: as many as there were ranges at once.
            assert_eq!(gaps.nodes.len() as u64, RANGES);
            check(&gaps);
        }
    }

    fn order_by_trying(first: u64, pages: u64) -> u8 {
        let fits = |order: u8| first.next_multiple_of(1 << order) + (1 << order) <= first + pages;
        (0..63).rev().find(|order| fits(*order)).unwrap_or(0)
    }

    #[test]
    fn the_order_of_each_small_range_is_the_largest_that_fits() {
        for (first, pages) in (0..200).flat_map(|first| (1..200).map(move |pages| (first, pages))) {
            assert_eq!(order(first, pages), order_by_trying(first, pages), "{pages} pages from {first}");
        }
        assert_eq!((order(0, u64::MAX), order(u64::MAX - 1, 1), order(1, u64::MAX - 1)), (63, 0, 62));
    }

    /// What benches report as its memory.
    #[test]
    fn memory_is_that_of_the_nodes() {
        let gaps = comb(1, 1, 2, 1000);
        let bytes = 1000 * size_of::<Gap>() as u64;
        assert!((bytes..=2 * bytes).contains(&gaps.memory_bytes()), "{} bytes", gaps.memory_bytes());
        assert_eq!(Gaps::default().memory_bytes(), 0);
    }

    proptest! {
        #[test]
        fn the_order_is_the_largest_that_fits(first in 0_u64..5000, pages in 1_u64..5000) {
            prop_assert_eq!(order(first, pages), order_by_trying(first, pages));
        }

        /// Against a set of pages: the lowest fit is found, whatever was taken and added before.
        #[test]
        fn the_lowest_fit_is_found(
            steps in prop::collection::vec((1_u64..40, 0_u32..7, 0_u64..300, any::<bool>(), any::<prop::sample::Index>()), 1..150)
        ) {
            let mut gaps = Gaps::default();
            gaps.add(Range { first: 3, pages: 253 });
            let mut free: BTreeSet<u64> = (3..256).collect();
            let mut out: Vec<Range> = Vec::new();
            for (pages, align, limit, give, which) in steps {
                if give && !out.is_empty() {
                    let range = out.swap_remove(which.index(out.len()));
                    gaps.add(range);
                    free.extend(range.first..=range.last());
                } else {
                    let fits = |first: &u64| first + pages - 1 <= limit && (*first..first + pages).all(|page| free.contains(&page));
                    let expected = (0..256).step_by(1 << align).find(fits);
                    let taken = gaps.take(pages, 1 << align, limit);
                    prop_assert_eq!(taken.map(|range| range.first), expected);
                    if let Some(range) = taken {
                        (range.first..=range.last()).for_each(|page| { free.remove(&page); });
                        out.push(range);
                    }
                }
                prop_assert_eq!(gaps.pages(), free.len() as u64);
                let starts = free.iter().filter(|page| !free.contains(&(*page - 1))).count();
                prop_assert_eq!(gaps.len(), starts as u64);
                prop_assert_eq!(gaps.first(), free.first().copied());
                check(&gaps);
            }
        }
    }
}
