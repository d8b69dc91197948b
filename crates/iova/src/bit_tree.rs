//! An allocator with a tree of bits per block size, 64 bits to a node. It finds the lowest free block in a few steps.
//!
//! For each order k, there is one bit per aligned block of 2^k pages, which is set if any page of the block is allocated.
//! Above these bits are levels of words, in which a bit is set if all 64 bits below it are set. The lowest clear bit of an
//! order, which is the lowest free block, is found from the top level down with one word per level: six levels for 2^32
//! blocks. It is the structure of P. van Emde Boas, R. Kaas, E. Zijlstra, "Design and implementation of an efficient
//! priority queue", 1977, with machine words instead of recursion. The blocks are the buddies of K. Knowlton, "A fast
//! storage allocator", 1965, but each order has bits for all of its free blocks, so that nothing is split or merged.
//!
//! The block size of a request is its size or its alignment, whichever is larger, rounded up to a power of two. The request
//! gets the first pages of the lowest free block; the block's other pages stay free. If there is no such block below the
//! limit, the bits of single pages are searched for any run that fits. An allocation therefore fails only if nothing fits.
//!
//! Allocating takes O(log64 n) to find a block, and O(log n) words to mark it in all orders, for blocks of up to 64 pages;
//! for larger ones O(pages / 64). Marking stops at the first order whose bits are set already, usually soon. The search
//! for a run is O(n / 64). Freeing is O(log n) in the same way, and detects wrong frees. It reserves about three bits per
//! page; the kernel provides memory only for the words that were ever set.
//!
//! Limits: at most 2^32 pages, and no scaling, because all threads share one lock.

use crate::bits::Bits;
use crate::lock::Lock;
use crate::starts::Starts;
use crate::table::check_size;
use crate::{AllocateError, Allocator, FreeError, Range, Request, Space, SpaceError, Usage};
use alloc::vec::Vec;

/// A tree of bits for each order of blocks, under one lock. It allocates the lowest free block.
#[derive(Debug)]
pub struct BitTree(Lock<State>);

#[derive(Debug)]
struct State {
    /// By order. Bit 0 of every order stands for the same page, a multiple of the largest block size.
    orders: Vec<Order>,
    starts: Starts,
}

/// The blocks of one size: a bit per block, set if any page of it is allocated, and the levels above.
#[derive(Debug)]
struct Order {
    levels: Vec<Bits>,
}

impl BitTree {
    /// An allocator of all pages of `space` that are not reserved.
    ///
    /// # Errors
    /// If the space is invalid or has more than 2^32 pages.
    pub fn new(space: &Space) -> Result<Self, SpaceError> {
        let free = space.free_ranges()?;
        check_size(space)?;
        let largest = space.pages().next_power_of_two();
        let offset = space.first & !(largest - 1);
        let pages = space.last + 1 - offset;
        let orders = (0..=largest.trailing_zeros()).map(|order| Order::new(pages.div_ceil(1 << order)));
        let mut state = State { orders: orders.collect(), starts: Starts::new(offset, pages, &free) };
        for &(first, last) in state.starts.reserved() {
            mark_taken(&mut state.orders, first, last);
        }
        state.mark_blocks_beyond(pages);
        Ok(Self(Lock::new(state)))
    }
}

impl State {
    /// Marks the last block of each order as allocated if it extends beyond page `end`, the end of the space.
    fn mark_blocks_beyond(&mut self, end: u64) {
        for (order, blocks) in self.orders.iter_mut().enumerate() {
            if end % (1 << order) != 0 {
                blocks.set(end >> order, end >> order);
            }
        }
    }

    /// Allocates a range and returns its first page.
    fn allocate(&mut self, request: &Request) -> Option<u64> {
        let first = self.lowest_block(request).or_else(|| self.lowest_run(request))?;
        mark_taken(&mut self.orders, first, first + request.pages - 1);
        self.starts.record(first);
        Some(first + self.starts.offset())
    }

    /// The bit index of the lowest free block for the request, if it is below the request's limit.
    fn lowest_block(&self, request: &Request) -> Option<u64> {
        let block = request.pages.checked_next_power_of_two()?.max(request.alignment_pages());
        let order = block.trailing_zeros();
        let first = self.orders.get(order as usize)?.first_clear()? << order;
        (first + self.starts.offset() + request.pages - 1 <= request.limit).then_some(first)
    }

    /// The bit index of the lowest run of free pages that fits the request.
    fn lowest_run(&self, request: &Request) -> Option<u64> {
        let offset = self.starts.offset();
        let end = (request.limit.checked_sub(offset)?).saturating_add(1).min(self.pages().len());
        self.pages().clear_run(0, end, request.pages, request.alignment_pages(), offset)
    }

    /// The bits of single pages, set for allocated and reserved pages.
    fn pages(&self) -> &Bits {
        &self.orders[0].levels[0]
    }

    /// Frees a range, after checking that it is allocated.
    fn free(&mut self, range: Range) -> Result<(), FreeError> {
        let (first, last) = self.starts.remove(&self.orders[0].levels[0], range)?;
        mark_free(&mut self.orders, first, last);
        Ok(())
    }
}

/// Sets the bits of all blocks, in all orders, that contain one of the pages `first` to `last`.
fn mark_taken(orders: &mut [Order], mut first: u64, mut last: u64) {
    for order in orders {
        if order.levels[0].are_all_set(first, last) {
            return;
        }
        order.set(first, last);
        (first, last) = (first / 2, last / 2);
    }
}

/// Clears the bits of pages `first` to `last`, and in all orders the bits of blocks that are now free.
fn mark_free(orders: &mut [Order], mut first: u64, mut last: u64) {
    for order in orders {
        order.clear(first, last);
        let lower_buddy_taken = first % 2 != 0 && order.is_taken(first - 1);
        let upper_buddy_taken = last % 2 == 0 && order.is_taken(last + 1);
        let (from, end) =
            (first / 2 + u64::from(lower_buddy_taken), last / 2 + u64::from(!upper_buddy_taken));
        if from >= end {
            return;
        }
        (first, last) = (from, end - 1);
    }
}

impl Order {
    /// An order of free blocks.
    fn new(blocks: u64) -> Self {
        let mut levels = alloc::vec![Bits::new(blocks)];
        let mut len = blocks;
        while len > 64 {
            len = len.div_ceil(64);
            levels.push(Bits::new(len));
        }
        let mut order = Self { levels };
        order.fill_last_words();
        order
    }

    /// Sets the bits beyond the end of each level, so that its last word can be full.
    fn fill_last_words(&mut self) {
        for level in 0..self.levels.len() {
            let len = self.levels[level].len();
            if len % 64 != 0 {
                self.levels[level].set(len, len | 63);
            }
        }
    }

    /// Whether a block has an allocated page. Blocks beyond the end count as allocated.
    fn is_taken(&self, block: u64) -> bool {
        block >= self.levels[0].len() || self.levels[0].is_set(block)
    }

    /// Sets the bits of blocks, and the bits above of words that are now full.
    fn set(&mut self, mut first: u64, mut last: u64) {
        for level in &mut self.levels {
            level.set(first, last);
            let is_full = |word: u64| level.word(word) == u64::MAX;
            let (from, end) =
                (first / 64 + u64::from(!is_full(first / 64)), last / 64 + u64::from(is_full(last / 64)));
            if from >= end {
                return;
            }
            (first, last) = (from, end - 1);
        }
    }

    /// Clears the bits of blocks and all bits above them.
    fn clear(&mut self, mut first: u64, mut last: u64) {
        for level in &mut self.levels {
            level.clear(first, last);
            (first, last) = (first / 64, last / 64);
        }
    }

    /// The lowest free block.
    fn first_clear(&self) -> Option<u64> {
        let mut word = 0;
        for level in self.levels.iter().rev() {
            let clear = !level.word(word);
            if clear == 0 {
                return None;
            }
            word = 64 * word + u64::from(clear.trailing_zeros());
        }
        Some(word)
    }

    /// Memory in use, in bytes.
    fn memory_bytes(&self) -> u64 {
        self.levels.iter().map(Bits::memory_bytes).sum()
    }
}

impl Allocator for BitTree {
    fn allocate(&self, request: &Request) -> Result<u64, AllocateError> {
        if !request.is_valid() {
            return Err(AllocateError::InvalidRequest);
        }
        self.0.lock().allocate(request).ok_or(AllocateError::Full)
    }

    fn free(&self, range: Range) -> Result<(), FreeError> {
        self.0.lock().free(range)
    }

    fn usage(&self) -> Usage {
        let state = self.0.lock();
        let memory_bytes: u64 = state.orders.iter().map(Order::memory_bytes).sum();
        let pages = state.pages();
        let taken = pages.len() - pages.clear_lengths(pages.len()).sum::<u64>();
        let mut usage = Usage {
            allocated_pages: taken - state.starts.reserved_pages(),
            memory_bytes: memory_bytes + state.starts.memory_bytes(),
            ..Usage::default()
        };
        pages.clear_lengths(pages.len()).for_each(|pages| usage.add_free(pages));
        usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_block_is_allocated_and_its_other_pages_stay_free() {
        let tree = BitTree::new(&Space::new(1, 0xfffff)).unwrap();
        let first = |pages| tree.allocate(&Request::size_aligned(pages, u64::MAX)).unwrap();
        assert_eq!([first(1), first(5), first(1), first(3), first(2), first(3)], [1, 8, 2, 4, 14, 16]);
    }

    #[test]
    fn a_run_across_blocks_is_found_when_no_block_is_free() {
        let tree = BitTree::new(&Space::new(0, 199)).unwrap();
        let whole = Request::new(200, 199);
        tree.free(whole.range(tree.allocate(&whole).unwrap())).unwrap();
        let page = Request::new(1, 199);
        let firsts: Vec<u64> = (0..200).map(|_| tree.allocate(&page).unwrap()).collect();
        firsts[61..68].iter().for_each(|&first| tree.free(page.range(first)).unwrap());
        assert_eq!(tree.allocate(&Request::new(7, 199)), Ok(61));
        assert_eq!(tree.allocate(&page), Err(AllocateError::Full));
    }

    /// A space of the largest size needs memory only for words that are set.
    #[test]
    fn the_largest_space_can_be_allocated_from() {
        let tree = BitTree::new(&Space::new(1, (1 << 32) - 1)).unwrap();
        let request = Request::size_aligned(1 << 20, u64::MAX);
        assert_eq!(tree.allocate(&request).unwrap(), 1 << 20);
        assert!(BitTree::new(&Space::new(0, 1 << 32)).is_err());
    }
}
