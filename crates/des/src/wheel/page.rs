//! The open page: a line for each moment, so short that hardly ever two entries share one.

use crate::Entry;

const NONE: u32 = u32::MAX;
const WORD_BITS: usize = u64::BITS as usize;
/// Pages have so many lines, as a power of two.
pub(super) const LINES_LOG2: u32 = 8;
const LINES: usize = 1 << LINES_LOG2;
const WORDS: usize = LINES / WORD_BITS;

#[derive(Debug, Clone)]
struct Slot<E> {
    entry: Entry<E>,
    /// Of the line's entries, or of the free slots.
    next: u32,
}

/// Entries of the lines from `first` on, up to the end of the page. Lines are numbered from the beginning of time.
#[derive(Debug, Clone)]
pub(super) struct Page<E> {
    slots: Vec<Slot<E>>,
    free: u32,
    heads: Box<[u32; LINES]>,
    occupied: [u64; WORDS],
    /// No word before has an occupied line.
    word: usize,
    first: u64,
}

impl<E: Copy> Page<E> {
    pub(super) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot<E>>() + size_of_val(&*self.heads)
    }

    /// Takes entries from this line on, up to its page's last. None may be in it.
    pub(super) fn open(&mut self, line: u64) {
        self.first = line;
        self.word = 0;
    }

    /// Whether entries of this line are taken.
    #[inline]
    pub(super) fn has(&self, line: u64) -> bool {
        line >= self.first && line >> LINES_LOG2 == self.first >> LINES_LOG2
    }

    /// Takes an entry of a line that it has, or gives it back if there are too many.
    #[inline]
    pub(super) fn put(&mut self, line: u64, entry: Entry<E>) -> Result<(), Entry<E>> {
        let place = line as usize % LINES;
        let next = self.heads[place];
        let slot = self.slot(Slot { entry, next }).ok_or(entry)?;
        self.heads[place] = slot;
        self.occupied[place / WORD_BITS] |= 1 << (place % WORD_BITS);
        self.word = self.word.min(place / WORD_BITS);
        Ok(())
    }

    #[inline]
    fn slot(&mut self, content: Slot<E>) -> Option<u32> {
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

    /// The place of the first line with entries.
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

    /// The entry at a place that has just one.
    #[inline]
    pub(super) fn single(&self, place: usize) -> Option<&Entry<E>> {
        let slot = self.slots.get(self.heads[place] as usize)?;
        (slot.next == NONE).then_some(&slot.entry)
    }

    /// Takes that one away.
    #[inline]
    pub(super) fn remove_single(&mut self, place: usize) {
        let slot = std::mem::replace(&mut self.heads[place], NONE);
        self.occupied[place / WORD_BITS] &= !(1 << (place % WORD_BITS));
        if let Some(taken) = self.slots.get_mut(slot as usize) {
            taken.next = std::mem::replace(&mut self.free, slot);
        }
    }

    /// Takes what is at a place, the line of which takes no more from then on, nor do those before.
    pub(super) fn take(&mut self, place: usize, into: &mut Vec<Entry<E>>) {
        // After the last line of all time comes the first, the page of which is over: then no line is taken at all.
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
