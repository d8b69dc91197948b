//! The open page, whose lines are so short that two entries rarely share one.

use crate::Entry;

const NONE: u32 = u32::MAX;
const WORD_BITS: usize = u64::BITS as usize;
/// Log2 of the number of lines.
pub(super) const LINES_LOG2: u32 = 8;
const LINES: usize = 1 << LINES_LOG2;
const WORDS: usize = LINES / WORD_BITS;

#[derive(Debug, Clone)]
struct EntrySlot<E> {
    entry: Entry<E>,
    /// The next slot of the same line, or of the free list.
    next: u32,
}

/// The entries of the lines from `first` to the end of the page. Lines are numbered from time 0.
#[derive(Debug, Clone)]
pub(super) struct Page<E> {
    slots: Vec<EntrySlot<E>>,
    free: u32,
    heads: Box<[u32; LINES]>,
    occupied: [u64; WORDS],
    /// Words before this one are empty.
    word: usize,
    first: u64,
}

impl<E: Copy> Page<E> {
    /// Memory in use, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<EntrySlot<E>>() + size_of_val(&*self.heads)
    }

    /// Opens an empty page at this line.
    pub(super) fn open(&mut self, line: u64) {
        self.first = line;
        self.word = 0;
    }

    /// Whether a line is on this page, and its entries were not removed yet.
    #[inline]
    pub(super) fn has(&self, line: u64) -> bool {
        line >= self.first && line >> LINES_LOG2 == self.first >> LINES_LOG2
    }

    /// Adds an entry. Returns `false`, and adds nothing, if the page is full.
    #[inline]
    pub(super) fn put(&mut self, line: u64, entry: Entry<E>) -> bool {
        let place = line as usize % LINES;
        let next = self.heads[place];
        let Some(slot) = self.slot(EntrySlot { entry, next }) else { return false };
        self.heads[place] = slot;
        self.occupied[place / WORD_BITS] |= 1 << (place % WORD_BITS);
        self.word = self.word.min(place / WORD_BITS);
        true
    }

    /// Stores an entry in a free slot and returns its index; `None` if there is none.
    #[inline]
    fn slot(&mut self, content: EntrySlot<E>) -> Option<u32> {
        if let Some(free) = self.slots.get_mut(self.free as usize) {
            let slot = self.free;
            self.free = free.next;
            *free = content;
            return Some(slot);
        }
        let slot = u32::try_from(self.slots.len()).ok().filter(|slot| *slot != NONE)?;
        self.slots.push(content);
        Some(slot)
    }

    /// Index of the first line with entries.
    #[inline]
    pub(super) fn next(&mut self) -> Option<usize> {
        while let Some(word) = self.occupied.get(self.word) {
            if *word != 0 {
                return Some(self.word * WORD_BITS + word.trailing_zeros() as usize);
            }
            self.word += 1;
        }
        None
    }

    /// The entry of a line, if it has exactly one.
    #[inline]
    pub(super) fn single(&self, place: usize) -> Option<&Entry<E>> {
        let slot = self.slots.get(self.heads[place] as usize)?;
        (slot.next == NONE).then_some(&slot.entry)
    }

    /// Removes that entry.
    #[inline]
    pub(super) fn remove_single(&mut self, place: usize) {
        let slot = std::mem::replace(&mut self.heads[place], NONE);
        self.occupied[place / WORD_BITS] &= !(1 << (place % WORD_BITS));
        if let Some(taken) = self.slots.get_mut(slot as usize) {
            taken.next = std::mem::replace(&mut self.free, slot);
        }
    }

    /// Removes all entries of a line. This line and earlier ones accept none from then on.
    pub(super) fn take(&mut self, place: usize, into: &mut Vec<Entry<E>>) {
        // After the very last line, `first` wraps to a line of a past page, so the page accepts nothing.
        self.first = (self.first & !(LINES as u64 - 1)).wrapping_add(place as u64 + 1);
        self.occupied[place / WORD_BITS] &= !(1 << (place % WORD_BITS));
        let mut slot = std::mem::replace(&mut self.heads[place], NONE);
        while let Some(taken) = self.slots.get_mut(slot as usize) {
            into.push(taken.entry);
            let next = std::mem::replace(&mut taken.next, self.free);
            self.free = slot;
            slot = next;
        }
    }
}

impl<E> Default for Page<E> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: NONE,
            heads: Box::new([NONE; LINES]),
            occupied: [0; WORDS],
            word: 0,
            first: 0,
        }
    }
}
