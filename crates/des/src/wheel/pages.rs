//! The closed pages.

use super::occupancy::Occupancy;
use crate::{Entry, Time};

const NONE: u32 = u32::MAX;
/// Entries are stored in chunks of this many, so that opening a page reads few cache lines.
const CHUNK: usize = 8;

/// The entries of a page: its last chunk, which links to the one before.
#[derive(Debug, Clone, Copy)]
struct Stack {
    chunk: u32,
    /// Entries in that chunk. Earlier chunks are full.
    filled: u32,
}

const EMPTY: Stack = Stack { chunk: NONE, filled: CHUNK as u32 };

/// Unordered entries by page, for as many pages from `first` as there are stacks. Pages are numbered from time 0; a
/// page's stack is its number modulo the number of stacks.
#[derive(Debug, Clone)]
pub(super) struct Pages<E> {
    stacks: Vec<Stack>,
    occupied: Occupancy,
    /// All chunks. Unused entries have any content.
    entries: Vec<Entry<E>>,
    /// Per chunk: the previous chunk of its stack, or the next free chunk.
    before: Vec<u32>,
    free: u32,
    first: u64,
    len: usize,
}

impl<E: Copy> Pages<E> {
    /// `pages` pages, a power of two of at least 64.
    pub(super) fn new(pages: usize) -> Self {
        Self {
            stacks: vec![EMPTY; pages],
            occupied: Occupancy::of(pages),
            entries: Vec::new(),
            before: Vec::new(),
            free: NONE,
            first: 0,
            len: 0,
        }
    }

    /// Whether no page has an entry.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of pages.
    pub(super) fn count(&self) -> usize {
        self.stacks.len()
    }

    /// Memory in use, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.stacks.capacity() * size_of::<Stack>()
            + self.occupied.bytes()
            + self.entries.capacity() * size_of::<Entry<E>>()
            + self.before.capacity() * size_of::<u32>()
    }

    /// Whether a page is within the range.
    #[inline]
    pub(super) fn has(&self, page: u64) -> bool {
        // For a page before the first the subtraction wraps, so it is out of range too.
        page.wrapping_sub(self.first) < self.stacks.len() as u64
    }

    /// Moves the range to begin at this page. Earlier pages must be empty.
    pub(super) fn skip_to(&mut self, page: u64) {
        self.first = page;
    }

    /// Adds an entry to a page in the range. Returns `false`, and adds nothing, if no chunk is free.
    #[inline(always)]
    pub(super) fn put(&mut self, page: u64, entry: Entry<E>) -> bool {
        let place = self.place(page);
        let mut stack = self.stacks[place];
        if stack.filled as usize == CHUNK {
            let Some(chunk) = self.chunk(entry.event) else { return false };
            self.before[chunk as usize] = stack.chunk;
            self.occupied.set(place);
            stack = Stack { chunk, filled: 0 };
        }
        self.entries[stack.chunk as usize * CHUNK + stack.filled as usize] = entry;
        stack.filled += 1;
        self.stacks[place] = stack;
        self.len += 1;
        true
    }

    /// The index of a page's stack.
    fn place(&self, page: u64) -> usize {
        page as usize & (self.stacks.len() - 1)
    }

    /// Allocates a chunk, filled with copies of `event`; `None` if there are too many.
    #[inline(never)]
    fn chunk(&mut self, event: E) -> Option<u32> {
        if let Some(next) = self.before.get(self.free as usize) {
            return Some(std::mem::replace(&mut self.free, *next));
        }
        let chunk = u32::try_from(self.before.len()).ok().filter(|chunk| *chunk != NONE)?;
        self.before.push(NONE);
        if self.entries.capacity() - self.entries.len() < CHUNK {
            // Grow by a quarter, not to twice the size: this is most of the memory.
            self.entries.reserve_exact(CHUNK + self.entries.len() / 4);
        }
        let unused = Entry { time: Time::ZERO, sequence: 0, event };
        self.entries.resize(self.entries.len() + CHUNK, unused);
        Some(chunk)
    }

    /// The first page with entries. There must be one.
    pub(super) fn next(&self) -> u64 {
        let start = self.place(self.first);
        let place = self.occupied.next_from(start);
        self.first + (place.wrapping_sub(start) & (self.stacks.len() - 1)) as u64
    }

    /// Removes all entries of a page. The range then begins after it; earlier pages must be empty.
    #[inline]
    pub(super) fn take(&mut self, page: u64, mut each: impl FnMut(Entry<E>)) {
        let place = self.place(page);
        self.first = page + 1;
        self.occupied.clear(place);
        let Stack { mut chunk, mut filled } = std::mem::replace(&mut self.stacks[place], EMPTY);
        while let Some(before) = self.before.get_mut(chunk as usize) {
            let start = chunk as usize * CHUNK;
            self.entries[start..start + filled as usize].iter().for_each(|entry| each(*entry));
            self.len -= filled as usize;
            filled = CHUNK as u32;
            let next = std::mem::replace(before, self.free);
            self.free = chunk;
            chunk = next;
        }
    }
}

impl<E: Copy> Default for Pages<E> {
    /// No pages.
    fn default() -> Self {
        Self::new(0)
    }
}
