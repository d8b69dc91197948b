//! A tree of free ranges, sorted by address and searched by size and alignment.

use crate::Range;
use alloc::vec::Vec;

/// No node.
const NONE: u32 = u32::MAX;

/// A node of the tree: a free range, with the maxima of its subtree.
#[derive(Debug, Clone, Copy)]
struct Gap {
    first: u64,
    pages: u64,
    /// Pages of the largest range of the subtree.
    pages_max: u64,
    left: u32,
    right: u32,
    /// The treap's heap key, which keeps the tree balanced: a hash of the range's first page.
    priority: u32,
    /// The largest [`order`] of the subtree's ranges.
    order_max: u8,
}

/// Disjoint, not adjacent ranges in a treap. Each node knows the largest range, and the largest aligned power of two, of its
/// subtree (Seidel and Aragon, "Randomized Search Trees", 1996; augmented as in Linux's `rbtree_augmented.h`).
///
/// Adding and taking a range take expected O(log n). A search enters only subtrees with a range that is large enough. For
/// unaligned requests, and powers of two aligned to their size, it descends once. For others (33 pages aligned to 64) it may
/// enter subtrees whose ranges are large enough but badly aligned.
#[derive(Debug)]
pub(crate) struct Gaps {
    nodes: Vec<Gap>,
    /// Nodes not in use, linked by `left`.
    unused: u32,
    root: u32,
    len: u64,
    pages: u64,
}

/// A search for a range.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    pages: u64,
    alignment: u64,
    limit: u64,
    /// Ranges of a smaller [`order`] can't contain it.
    order: u8,
}

/// The base-2 logarithm of the largest naturally aligned block within a range.
fn order(first: u64, pages: u64) -> u8 {
    let end = first + pages;
    // The page in (`first`, `end`] with the most trailing zeros splits the range. No aligned block crosses it, and
    // blocks of a power of two that end or begin there are aligned.
    let top = (first ^ end).ilog2();
    let middle = end >> top << top;
    (middle - first).max(end - middle).ilog2() as u8
}

impl Wanted {
    /// The first page that the allocation would have in a free range, if it fits.
    fn position_in(&self, first: u64, pages: u64) -> Option<u64> {
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
    /// The number of ranges.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The number of pages in all ranges.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    /// The lowest free page.
    pub(crate) fn first(&self) -> Option<u64> {
        let mut at = self.root;
        while at != NONE && self.node(at).left != NONE {
            at = self.node(at).left;
        }
        (at != NONE).then(|| self.node(at).first)
    }

    /// The size of the largest range.
    pub(crate) fn largest_pages(&self) -> u64 {
        if self.root == NONE { 0 } else { self.node(self.root).pages_max }
    }

    /// Memory of the nodes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.nodes.capacity() * size_of::<Gap>()) as u64
    }

    /// Adds a range and merges it with adjacent ones. A range that overlaps others, or has no end, is left out: a wrong free
    /// brought it.
    pub(crate) fn add(&mut self, range: Range) {
        if range.first.checked_add(range.pages).is_none() {
            return;
        }
        let (below, above) = self.split(self.root, range.first);
        let (below, previous) = self.cut_last(below);
        let (next, above) = self.cut_first(above);
        let ends_after = |node: u32| self.node(node).first + self.node(node).pages > range.first;
        let begins_before = |node: u32| self.node(node).first < range.first + range.pages;
        if previous.is_some_and(ends_after) || next.is_some_and(begins_before) {
            let below = previous.map_or(below, |previous| self.merge(below, previous));
            let above = next.map_or(above, |next| self.merge(next, above));
            self.root = self.merge(below, above);
            return;
        }
        let mut whole = range;
        let mut below = below;
        let mut above = above;
        if let Some(previous) = previous {
            let gap = *self.node(previous);
            if gap.first + gap.pages == range.first {
                whole = Range { first: gap.first, pages: gap.pages + whole.pages };
                self.discard(previous);
            } else {
                below = self.merge(below, previous);
            }
        }
        if let Some(next) = next {
            let gap = *self.node(next);
            if range.first + range.pages == gap.first {
                whole.pages += gap.pages;
                self.discard(next);
            } else {
                above = self.merge(next, above);
            }
        }
        let node = self.new_node(whole);
        let below = self.merge(below, node);
        self.root = self.merge(below, above);
        self.pages += range.pages;
    }

    /// Removes the lowest fit and returns it. `alignment` is a power of two, `limit` the highest allowed page.
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
            let before = self.new_node(Range { first: gap.first, pages: first - gap.first });
            root = self.merge(root, before);
        }
        let end = gap.first + gap.pages;
        if first + pages < end {
            let after = self.new_node(Range { first: first + pages, pages: end - first - pages });
            root = self.merge(root, after);
        }
        self.root = self.merge(root, above);
        self.pages -= pages;
        Some(Range { first, pages })
    }

    /// The node of the lowest fit in the subtree `at`, and the fit's first page.
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
        if let Some(first) = wanted.position_in(gap.first, gap.pages) {
            return Some((at, first));
        }
        self.find(gap.right, wanted)
    }

    /// The node with an index.
    fn node(&self, at: u32) -> &Gap {
        #[cfg(test)]
        tests::count_visit();
        &self.nodes[at as usize]
    }

    /// Creates a node without children and returns its index.
    fn new_node(&mut self, range: Range) -> u32 {
        // Fibonacci hashing, folded: neighbours get different priorities, and the same calls give the same tree.
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

    /// Adds a node to the list of unused ones.
    fn discard(&mut self, at: u32) {
        self.nodes[at as usize].left = self.unused;
        self.unused = at;
        self.len -= 1;
    }

    /// Recomputes the maxima of a node from its range and its children.
    fn update_maxima(&mut self, at: u32) {
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

    /// Splits a subtree into the ranges that begin below page `first`, and the others.
    fn split(&mut self, at: u32, first: u64) -> (u32, u32) {
        if at == NONE {
            return (NONE, NONE);
        }
        let gap = *self.node(at);
        if gap.first < first {
            let (left, right) = self.split(gap.right, first);
            self.nodes[at as usize].right = left;
            self.update_maxima(at);
            (at, right)
        } else {
            let (left, right) = self.split(gap.left, first);
            self.nodes[at as usize].left = right;
            self.update_maxima(at);
            (left, at)
        }
    }

    /// Merges two subtrees; all ranges of `left` must be below those of `right`.
    fn merge(&mut self, left: u32, right: u32) -> u32 {
        match (left, right) {
            (NONE, other) | (other, NONE) => other,
            _ if self.node(left).priority >= self.node(right).priority => {
                let merged = self.merge(self.node(left).right, right);
                self.nodes[left as usize].right = merged;
                self.update_maxima(left);
                left
            }
            _ => {
                let merged = self.merge(left, self.node(right).left);
                self.nodes[right as usize].left = merged;
                self.update_maxima(right);
                right
            }
        }
    }

    /// Removes the lowest range of a subtree. Returns its node, then the rest.
    fn cut_first(&mut self, at: u32) -> (Option<u32>, u32) {
        if at == NONE {
            return (None, NONE);
        }
        let gap = *self.node(at);
        if gap.left == NONE {
            self.nodes[at as usize].right = NONE;
            self.update_maxima(at);
            return (Some(at), gap.right);
        }
        let (cut, left) = self.cut_first(gap.left);
        self.nodes[at as usize].left = left;
        self.update_maxima(at);
        (cut, at)
    }

    /// Removes the highest range of a subtree. Returns the rest, then its node.
    fn cut_last(&mut self, at: u32) -> (u32, Option<u32>) {
        if at == NONE {
            return (NONE, None);
        }
        let gap = *self.node(at);
        if gap.right == NONE {
            self.nodes[at as usize].left = NONE;
            self.update_maxima(at);
            return (gap.left, Some(at));
        }
        let (right, cut) = self.cut_last(gap.right);
        self.nodes[at as usize].right = right;
        self.update_maxima(at);
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

    /// Counts a visit of a node.
    pub(super) fn count_visit() {
        VISITS.set(VISITS.get() + 1);
    }

    /// Runs `work` and counts the nodes that it visits.
    fn counting<T>(work: impl FnOnce() -> T) -> (T, u64) {
        VISITS.set(0);
        let result = work();
        (result, VISITS.get())
    }

    /// Sums and maxima of a subtree, recomputed from its ranges.
    struct Summary {
        nodes: u64,
        pages: u64,
        pages_max: u64,
        order_max: u8,
        depth: u32,
    }

    /// Checks a subtree, whose ranges must begin behind `end`, and sets `end` to the end of its last range.
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

    /// Checks the whole tree, and that each node is either in it or in the list of unused nodes.
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

    /// A tree of `ranges` ranges of `pages` pages; the first begins at page `first`, and each `every` pages after the last.
    fn comb(first: u64, pages: u64, every: u64, ranges: u64) -> Gaps {
        let mut gaps = Gaps::default();
        (0..ranges).for_each(|index| gaps.add(Range { first: first + index * every, pages }));
        gaps
    }

    const RANGES: u64 = 1 << 14;
    /// A balanced tree of this many nodes has depth 14; a treap has less than twice that. A search visits each node on the
    /// way down and its children.
    const DEPTH_MAX: u32 = 2 * 14;
    const SEARCH_MAX: u64 = 3 * DEPTH_MAX as u64;
    /// An addition or removal descends to split the tree, to remove neighbours, and twice to merge, and updates the maxima on
    /// each way back.
    const VISITS_MAX: u64 = 32 * DEPTH_MAX as u64;

    /// A request that can't be satisfied fails at the root, regardless of the number of ranges, and a fit is found in one
    /// descent. A driver that frees every other buffer creates such trees.
    #[test]
    fn searches_visit_few_nodes() {
        let last = u64::MAX;
        // Ranges of one page; and ranges of 14 pages that contain no 8 pages aligned to 8.
        for (mut gaps, refused, far) in [
            (comb(1, 1, 2, RANGES), [(2, 1), (2, 2)], Range { first: 1 << 20, pages: 8 }),
            (comb(1, 14, 16, RANGES), [(15, 1), (8, 8)], Range { first: 1 << 20, pages: 16 }),
        ] {
            for (pages, alignment) in refused {
                let (taken, visits) = counting(|| gaps.take(pages, alignment, last));
                assert_eq!((taken, visits), (None, 1), "{pages} pages aligned to {alignment}");
            }
            // The only fit is behind all of them.
            gaps.add(far);
            for (pages, alignment) in refused {
                let (taken, visits) = counting(|| gaps.take(pages, alignment, last));
                assert_eq!(taken.map(|range| range.first), Some(far.first));
                assert!(visits <= VISITS_MAX, "{pages} pages aligned to {alignment}: {visits} nodes");
                gaps.add(Range { first: far.first, pages });
                // If the fit is beyond the limit, the ranges before it are not tried one by one.
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

    /// Each step of an addition or removal leaves correct maxima.
    #[test]
    fn split_and_merged_trees_have_correct_maxima() {
        let nodes = |gaps: &Gaps, at| check_subtree(gaps, at, u32::MAX, &mut None).nodes;
        let mut gaps = Gaps::default();
        // The largest ranges are where the tree is split, so that a maximum that is not updated stays too large.
        (0..64).for_each(|index| gaps.add(Range { first: 512 * index, pages: 1 + 37 * index % 64 }));
        for first in (0..64).map(|index| 512 * index) {
            let (below, above) = gaps.split(gaps.root, first);
            assert_eq!((nodes(&gaps, below), nodes(&gaps, above)), (first / 512, 64 - first / 512));
            let (below, previous) = gaps.cut_last(below);
            nodes(&gaps, below);
            let (next, above) = gaps.cut_first(above);
            nodes(&gaps, above);
            let mut whole = below;
            for single in [previous, next].into_iter().flatten() {
                assert_eq!(nodes(&gaps, single), 1);
                whole = gaps.merge(whole, single);
                nodes(&gaps, whole);
            }
            gaps.root = gaps.merge(whole, above);
            assert_eq!(check(&gaps).nodes, 64);
        }
    }

    /// Ranges are added in ascending and descending order, and from both ends in turn.
    #[test]
    fn the_tree_stays_balanced_and_changes_visit_few_nodes() {
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
            // Nodes are reused, so there are no more of them than there were ranges at once.
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

    /// Benchmarks report this memory.
    #[test]
    fn the_reported_memory_is_that_of_the_nodes() {
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

        /// The lowest fit is found after any sequence of additions and removals, compared with a set of pages.
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
