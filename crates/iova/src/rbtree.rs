//! Linux's allocator before 4.7: one red-black tree of allocated ranges, one lock, and a walk from the top.
//!
//! A search goes down from the highest range, range by range, to the first gap that is large enough. Only requests whose
//! limit is exactly the last page below 4 GiB start elsewhere: at the range that the last such request got. After a range
//! above it is freed, they start at the range above the freed one.
//!
//! Source: `drivers/iommu/iova.c` of Linux 4.4 (`drivers/pci/iova.c` in 2.6.32, the same but for the padding).
//!
//! Allocating is O(n) in the allocated ranges. Without the 32-bit limit, every search walks past all ranges above the first
//! gap. With it, every free near the top makes the next search start there again, and walk past all ranges allocated since.
//! This was found by O. Peleg, A. Morrison, B. Serebrin, D. Tsafrir, "Utilizing the IOMMU scalably", 2015, and M. Malka,
//! N. Amit, D. Tsafrir, "Efficient intra-operating system protection against harmful DMAs", 2015. Freeing is O(log n).
//! Memory is a node per range.
//!
//! Limits, as in Linux: it never allocates the lowest page of the space. 32-bit requests don't find gaps above the cached
//! range, and fail although pages are free, until a range above it is freed. It does not scale.
//!
//! Linux frees the range around any page, even a reserved one; here first page and size must be right. Reserved pages are
//! ranges of the tree, as in Linux.

use crate::lock::Lock;
use crate::tree::{Index, NIL, Tree};
use crate::{AllocateError, Allocator, FreeError, Range, Request, Space, SpaceError, Usage};

/// One red-black tree under one lock, searched from the top: Linux before 4.7.
#[derive(Debug)]
pub struct Rbtree {
    /// The lowest page that is not reserved.
    lowest: u64,
    /// The last page of the space.
    last: u64,
    page_32bit: u64,
    state: Lock<State>,
}

#[derive(Debug)]
struct State {
    tree: Tree,
    /// The range of the last request with the limit `page_32bit` (`cached32_node`).
    cached: Index,
}

impl Rbtree {
    /// An allocator of all pages of `space` that are not reserved. `page_32bit` is the last page below 4 GiB: 0xfffff with
    /// 4 KiB pages.
    ///
    /// # Errors
    /// If the space is invalid.
    pub fn new(space: &Space, page_32bit: u64) -> Result<Self, SpaceError> {
        let mut tree = Tree::new();
        let lowest = insert_reserved(&mut tree, space)?;
        Ok(Self { lowest, last: space.last, page_32bit, state: Lock::new(State { tree, cached: NIL }) })
    }

    /// The request's limit, at most the last page of the space, as the kernel's DMA layer limits it.
    fn limit(&self, request: &Request) -> u64 {
        request.limit.min(self.last)
    }
}

/// Inserts the reserved pages between and above the free ranges of `space` into `tree`. Returns the lowest free page, or the
/// page above the space if none is free.
pub(crate) fn insert_reserved(tree: &mut Tree, space: &Space) -> Result<u64, SpaceError> {
    let free = space.free_ranges()?;
    let nexts = free.iter().skip(1).map(|range| range.first).chain([space.last + 1]);
    for (range, next) in free.iter().zip(nexts).filter(|(range, next)| range.last() + 1 < *next) {
        tree.reserve_highest(range.last() + 1, next - 1);
    }
    Ok(free.first().map_or(space.last + 1, |range| range.first))
}

/// Adds the gaps of `tree` between pages `lowest` and `last` to `usage`.
pub(crate) fn count_gaps(tree: &Tree, lowest: u64, last: u64, usage: &mut Usage) {
    let mut end = last + 1;
    for node in tree.downward().filter(|&node| tree.first(node) <= last) {
        if tree.last(node) + 1 < end {
            usage.add_free(end - tree.last(node) - 1);
        }
        end = tree.first(node);
    }
    if lowest < end {
        usage.add_free(end - lowest);
    }
}

impl State {
    /// Allocates a range and returns its first page.
    fn allocate(&mut self, request: &Request, limit: u64, lowest: u64, page_32bit: u64) -> Option<u64> {
        let (first, above) = self.search(request, limit, lowest, page_32bit)?;
        let node = self.tree.insert_below(above, first, first + request.pages - 1);
        if limit == page_32bit {
            self.cached = node;
        }
        Some(first)
    }

    /// The first page of the highest gap that fits, and the range above it.
    fn search(&self, request: &Request, limit: u64, lowest: u64, page_32bit: u64) -> Option<(u64, Index)> {
        let tree = &self.tree;
        let (mut limit, mut above) = match self.cached {
            cached if limit == page_32bit && cached != NIL => (tree.first(cached) - 1, cached),
            _ => (limit, NIL),
        };
        let mut node = if above == NIL { tree.highest() } else { tree.below(above) };
        while node != NIL {
            if limit >= tree.first(node) {
                if tree.last(node).checked_add(padded(request, limit)?)? <= limit {
                    break;
                }
                limit = tree.first(node) - 1;
            }
            (above, node) = (node, tree.below(node));
        }
        let padded = padded(request, limit)?;
        (node != NIL || lowest.checked_add(padded)? <= limit).then(|| (limit + 1 - padded, above))
    }

    /// Frees a range and moves the cached range, as Linux does.
    fn free(&mut self, range: Range, page_32bit: u64) -> Result<(), FreeError> {
        let node = find_allocated(&self.tree, range)?;
        if self.cached != NIL && range.first >= self.tree.first(self.cached) {
            let above = self.tree.above(node);
            let is_32bit = above != NIL && self.tree.first(above) < page_32bit;
            self.cached = if is_32bit { above } else { NIL };
        }
        self.tree.remove(node);
        Ok(())
    }
}

/// The size of a request plus the pages above it that stay free for its alignment, if it is placed directly below `limit`.
fn padded(request: &Request, limit: u64) -> Option<u64> {
    let pad = (limit + 1).wrapping_sub(request.pages) & (request.alignment_pages() - 1);
    request.pages.checked_add(pad)
}

/// The node of an allocated range.
pub(crate) fn find_allocated(tree: &Tree, range: Range) -> Result<Index, FreeError> {
    match tree.find(range.first).filter(|&node| !tree.is_reserved(node)) {
        None => Err(FreeError::NotAllocated),
        Some(node) if range.pages > 0 && tree.last(node) == range.last() => Ok(node),
        Some(_) => Err(FreeError::OtherSize),
    }
}

impl Allocator for Rbtree {
    fn allocate(&self, request: &Request) -> Result<u64, AllocateError> {
        if !request.is_valid() {
            return Err(AllocateError::InvalidRequest);
        }
        let limit = self.limit(request);
        let first = self.state.lock().allocate(request, limit, self.lowest, self.page_32bit);
        first.ok_or(AllocateError::Full)
    }

    fn free(&self, range: Range) -> Result<(), FreeError> {
        self.state.lock().free(range, self.page_32bit)
    }

    fn usage(&self) -> Usage {
        let state = self.state.lock();
        let pages = |node| state.tree.last(node) - state.tree.first(node) + 1;
        let allocated = state.tree.downward().filter(|&node| !state.tree.is_reserved(node));
        let mut usage = Usage {
            allocated_pages: allocated.map(pages).sum(),
            memory_bytes: state.tree.memory_bytes(),
            ..Usage::default()
        };
        count_gaps(&state.tree, self.lowest + 1, self.last, &mut usage);
        usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn firsts(allocator: &Rbtree, requests: &[Request]) -> Vec<Option<u64>> {
        requests.iter().map(|request| allocator.allocate(request).ok()).collect()
    }

    #[test]
    fn it_allocates_from_the_top_and_never_the_lowest_page() {
        let allocator = Rbtree::new(&Space::new(1, 8), 0xfffff).unwrap();
        let requests =
            [Request::new(3, 8), Request::size_aligned(2, 8), Request::new(2, 8), Request::new(1, 8)];
        assert_eq!(firsts(&allocator, &requests), [Some(6), Some(4), Some(2), None]);
    }

    #[test]
    fn a_32_bit_request_misses_gaps_above_the_cached_range() {
        let allocator = Rbtree::new(&Space::new(1, 99), 99).unwrap();
        // The first leaves pages 97 to 99 free above it, and the second gets all others.
        let requests = [Request { alignment_order: 5, ..Request::new(1, 99) }, Request::new(94, 99)];
        assert_eq!(firsts(&allocator, &requests), [Some(96), Some(2)]);
        assert_eq!(firsts(&allocator, &[Request::new(1, 99)]), [None], "though three pages are free");
        assert_eq!(
            firsts(&allocator, &[Request::new(1, 98)]),
            [Some(98)],
            "a request with another limit starts at the top"
        );
        allocator.free(Range { first: 98, pages: 1 }).unwrap();
        assert_eq!(firsts(&allocator, &[Request::new(1, 99)]), [Some(99)], "a free above resets the cache");
    }
    #[test]
    fn only_the_32_bit_limit_moves_the_cached_range() {
        let allocator = Rbtree::new(&Space::new(1, 99), 80).unwrap();
        let requests = [50, 80, 80, 99].map(|limit| Request::new(1, limit));
        assert_eq!(firsts(&allocator, &requests), [50, 80, 79, 99].map(Some));
    }
}
