//! Which ranges are out: a byte for each page.

#![allow(unsafe_code, reason = "memory that is zero when it comes is not written to make it so")]

use crate::sync::{AtomicU8, AtomicU64, Ordering};
use alloc::boxed::Box;
use spin::Once;

/// Pages of a leaf: 8 GiB, 2 MiB of memory of which only what is used is touched. Few where each step of a test is dear.
const LEAF: u64 = if cfg!(any(loom, miri)) { 1 << 12 } else { 1 << 21 };
/// What a node leads to.
const FAN: u64 = 1 << 10;

type Leaf = Box<[AtomicU8]>;
type Node<T> = Box<[Once<T>]>;

/// Bytes by page, 0 at first. They never move, and are there until the table is dropped.
#[derive(Debug)]
pub(crate) struct Table {
    origin: u64,
    pages: u64,
    /// The first leaf.
    near: Leaf,
    /// The others, made where the space is used: a range may lie far above all others.
    far: Node<Node<Node<Leaf>>>,
    node_bytes: AtomicU64,
    leaf_bytes: AtomicU64,
}

impl Table {
    /// For pages from `first` to `last`.
    pub(crate) fn new(first: u64, last: u64) -> Self {
        let pages = last - first + 1;
        let near = LEAF.min(pages);
        let roots = pages.div_ceil(LEAF * FAN * FAN);
        let node_bytes = AtomicU64::new(roots * size_of::<Once<Node<Node<Leaf>>>>() as u64);
        let leaf_bytes = AtomicU64::new(near);
        Self { origin: first, pages, near: zeros(near), far: empty(roots), node_bytes, leaf_bytes }
    }

    /// The byte of a page that is near.
    #[inline(always)]
    pub(crate) fn near(&self, page: u64) -> Option<&AtomicU8> {
        self.near.get(usize::try_from(page.wrapping_sub(self.origin)).ok()?)
    }

    /// A page's byte, if any about there was ever reached.
    pub(crate) fn get(&self, page: u64) -> Option<&AtomicU8> {
        self.near(page).or_else(|| {
            let [root, node, leaf, at] = self.far_place(page)?;
            self.far[root].get()?[node].get()?[leaf].get()?.get(at)
        })
    }

    /// A page's byte, made if need be. Nothing outside the space.
    pub(crate) fn reach(&self, page: u64) -> Option<&AtomicU8> {
        self.get(page).or_else(|| {
            let [root, node, leaf, at] = self.far_place(page)?;
            let nodes = self.far[root].call_once(|| self.node());
            let leaves = nodes[node].call_once(|| self.node());
            leaves[leaf].call_once(|| self.leaf()).get(at)
        })
    }

    /// Memory that is in use, if no more than so many pages were reached.
    pub(crate) fn memory_bytes(&self, reached_pages: u64) -> u64 {
        let leaf_bytes = self.leaf_bytes.load(Ordering::Relaxed);
        self.node_bytes.load(Ordering::Relaxed) + leaf_bytes.min(reached_pages * size_of::<AtomicU8>() as u64)
    }

    /// Which way leads to the byte of a page of the space.
    fn far_place(&self, page: u64) -> Option<[usize; 4]> {
        let place = page.checked_sub(self.origin).filter(|place| *place < self.pages)?;
        let leaf = place / LEAF;
        Some([leaf / FAN / FAN, leaf / FAN % FAN, leaf % FAN, place % LEAF].map(|index| index as usize))
    }

    fn node<T>(&self) -> Node<T> {
        self.node_bytes.fetch_add(FAN * size_of::<Once<T>>() as u64, Ordering::Relaxed);
        empty(FAN)
    }

    fn leaf(&self) -> Leaf {
        self.leaf_bytes.fetch_add(LEAF, Ordering::Relaxed);
        zeros(LEAF)
    }
}

fn empty<T>(count: u64) -> Node<T> {
    (0..count).map(|_| Once::new()).collect()
}

#[cfg(not(loom))]
fn zeros(count: u64) -> Box<[AtomicU8]> {
    let zeros = Box::into_raw(alloc::vec![0_u8; count as usize].into_boxed_slice());
    // SAFETY: `AtomicU8` has the size, the alignment and the bits of `u8`, and nobody else has the box.
    unsafe { Box::from_raw(zeros as *mut [AtomicU8]) }
}

#[cfg(loom)]
fn zeros(count: u64) -> Box<[AtomicU8]> {
    (0..count).map(|_| AtomicU8::new(0)).collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::PAGE_MAX;

    #[test]
    fn bytes_are_apart() {
        let table = Table::new(7, PAGE_MAX);
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
        assert!(Table::new(0, 9).reach(10).is_none());
    }

    #[test]
    fn a_page_far_up_takes_no_memory_for_those_below() {
        let table = Table::new(0, PAGE_MAX);
        table.reach(PAGE_MAX / 2).unwrap();
        assert!(table.memory_bytes(PAGE_MAX) < 1 << 23, "{}", table.memory_bytes(PAGE_MAX));
    }
}
