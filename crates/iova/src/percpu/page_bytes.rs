//! A sparse table with a byte per page, for the marks of allocated ranges.

use crate::sync::{AtomicU8, AtomicU64, Ordering};
use crate::zeros::zero_bytes;
use alloc::boxed::Box;
use spin::Once;

/// Entries of a leaf: 8 GiB of address space and 2 MiB of memory, of which only used pages are touched. Smaller under loom
/// and Miri, which are slow.
const LEAF: u64 = if cfg!(any(loom, miri)) { 1 << 12 } else { 1 << 21 };
/// Children of a node.
const FAN: u64 = 1 << 10;

type Leaf = Box<[AtomicU8]>;
type Node<T> = Box<[Once<T>]>;

/// Bytes by page, 0 at first. They have a fixed address until the table is dropped.
#[derive(Debug)]
pub(crate) struct PageBytes {
    origin: u64,
    pages: u64,
    /// The first leaf.
    first_leaf: Leaf,
    /// The other leaves, created when one of their pages is first used. A range may be far above all others.
    other_leaves: Node<Node<Node<Leaf>>>,
    node_bytes: AtomicU64,
    leaf_bytes: AtomicU64,
}

impl PageBytes {
    /// A table for pages `first` to `last`.
    pub(crate) fn new(first: u64, last: u64) -> Self {
        let pages = last - first + 1;
        let first_leaf_pages = LEAF.min(pages);
        let roots = pages.div_ceil(LEAF * FAN * FAN);
        let node_bytes = AtomicU64::new(roots * size_of::<Once<Node<Node<Leaf>>>>() as u64);
        let leaf_bytes = AtomicU64::new(first_leaf_pages);
        Self {
            origin: first,
            pages,
            first_leaf: zero_bytes(first_leaf_pages as usize),
            other_leaves: empty_node(roots),
            node_bytes,
            leaf_bytes,
        }
    }

    /// The byte of a page, if it is in the first leaf.
    #[inline(always)]
    pub(crate) fn in_first_leaf(&self, page: u64) -> Option<&AtomicU8> {
        self.first_leaf.get(usize::try_from(page.wrapping_sub(self.origin)).ok()?)
    }

    /// The byte of a page, if its leaf exists.
    pub(crate) fn get(&self, page: u64) -> Option<&AtomicU8> {
        self.in_first_leaf(page).or_else(|| {
            let [root, node, leaf, at] = self.leaf_indexes(page)?;
            self.other_leaves[root].get()?[node].get()?[leaf].get()?.get(at)
        })
    }

    /// The byte of a page; its leaf is created if necessary. `None` outside the space.
    pub(crate) fn reach(&self, page: u64) -> Option<&AtomicU8> {
        self.get(page).or_else(|| {
            let [root, node, leaf, at] = self.leaf_indexes(page)?;
            let nodes = self.other_leaves[root].call_once(|| self.new_node());
            let leaves = nodes[node].call_once(|| self.new_node());
            leaves[leaf].call_once(|| self.new_leaf()).get(at)
        })
    }

    /// Sets the byte of a page. No effect outside the space.
    pub(crate) fn store(&self, page: u64, byte: u8) {
        if let Some(place) = self.reach(page) {
            place.store(byte, Ordering::Relaxed);
        }
    }

    /// Memory in use, if at most `reached_pages` pages were used.
    pub(crate) fn memory_bytes(&self, reached_pages: u64) -> u64 {
        let leaf_bytes = self.leaf_bytes.load(Ordering::Relaxed);
        self.node_bytes.load(Ordering::Relaxed) + leaf_bytes.min(reached_pages)
    }

    /// The indexes of a page's byte at each level of the tree. `None` outside the space.
    fn leaf_indexes(&self, page: u64) -> Option<[usize; 4]> {
        let place = page.checked_sub(self.origin).filter(|place| *place < self.pages)?;
        let leaf = place / LEAF;
        Some([leaf / FAN / FAN, leaf / FAN % FAN, leaf % FAN, place % LEAF].map(|index| index as usize))
    }

    /// A node without children, whose memory is counted.
    fn new_node<T>(&self) -> Node<T> {
        self.node_bytes.fetch_add(FAN * size_of::<Once<T>>() as u64, Ordering::Relaxed);
        empty_node(FAN)
    }

    /// A leaf of zeros, whose memory is counted.
    fn new_leaf(&self) -> Leaf {
        self.leaf_bytes.fetch_add(LEAF, Ordering::Relaxed);
        zero_bytes(LEAF as usize)
    }
}

/// A node without children, with `count` slots for them.
fn empty_node<T>(count: u64) -> Node<T> {
    (0..count).map(|_| Once::new()).collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::PAGE_MAX;

    #[test]
    fn bytes_are_apart() {
        let table = PageBytes::new(7, PAGE_MAX);
        assert!(table.get(6).is_none() && table.get(0).is_none(), "below");
        assert!(table.get(7).is_some() && table.get(LEAF + 6).is_some());
        let at = |page: u64| core::ptr::from_ref(table.reach(page).unwrap());
        let pages = [7, LEAF + 6, LEAF + 7, 2 * LEAF + 7, LEAF * FAN + 7, LEAF * FAN * FAN + 7, PAGE_MAX];
        assert!(pages[2..].iter().all(|page| table.get(*page).is_none()), "not yet");
        let bytes = pages.map(at);
        assert_eq!(bytes, pages.map(at), "they stay");
        assert_eq!(bytes, pages.map(|page| core::ptr::from_ref(table.get(page).unwrap())));
        assert_eq!(std::collections::BTreeSet::from(bytes).len(), pages.len());
        assert!(table.reach(PAGE_MAX + 1).is_none());
        assert!(PageBytes::new(0, 9).reach(10).is_none());
    }

    #[test]
    fn indexes_are_the_digits_of_a_page_in_the_table() {
        let table = PageBytes::new(7, PAGE_MAX);
        let places =
            [0, LEAF - 1, 5 * LEAF + 3, (2 * FAN + 5) * LEAF + 3, ((4 * FAN + 2) * FAN + 5) * LEAF + 3];
        for place in places {
            let [root, node, leaf, at] = table.leaf_indexes(7 + place).unwrap().map(|index| index as u64);
            assert_eq!(((root * FAN + node) * FAN + leaf) * LEAF + at, place);
            assert!(node < FAN && leaf < FAN && at < LEAF);
        }
    }

    #[test]
    fn memory_counts_created_and_reached_tables() {
        let pointer = size_of::<Once<Leaf>>() as u64;
        let table = PageBytes::new(0, 9);
        assert_eq!([4, 10, 99].map(|reached| table.memory_bytes(reached) - pointer), [4, 10, 10]);
        let table = PageBytes::new(0, 2 * LEAF - 1);
        table.reach(LEAF).unwrap();
        let nodes = pointer + 2 * FAN * pointer;
        assert_eq!([4, u64::MAX].map(|reached| table.memory_bytes(reached) - nodes), [4, 2 * LEAF]);
    }

    #[test]
    fn a_page_far_up_takes_no_memory_for_those_below() {
        let table = PageBytes::new(0, PAGE_MAX);
        table.reach(PAGE_MAX / 2).unwrap();
        assert!(table.memory_bytes(PAGE_MAX) < 1 << 23, "{}", table.memory_bytes(PAGE_MAX));
    }
}
