//! The fast queue: a calendar queue of pages for the near future, and a heap for the rest.

mod occupancy;
mod page;
mod pages;
mod shape;
mod tempo;

use crate::{Entry, Heap, Queue, Time};
use page::{LINES_LOG2, Page};
use pages::Pages;
use shape::Shape;
use std::cmp::Reverse;
use tempo::Tempo;

/// The near future is divided into pages of unordered entries. Opening a page distributes its entries to lines, by a
/// shift of the time. A line usually has one entry; it is sorted only if it has more. The heap takes the rest:
/// entries beyond the pages, and those for a line already taken. The next entry is the earlier one of both, so the
/// order is exact whatever the shape of the pages. Width and number of pages adapt to the entries (`shape`, `tempo`).
/// With few entries there are no pages, only the current line.
#[derive(Debug, Clone)]
pub struct Wheel<E> {
    /// The current line, last entry first.
    line: Vec<Entry<E>>,
    page: Page<E>,
    pages: Pages<E>,
    line_log2: u32,
    heap: Heap<E>,
    tempo: Tempo,
    len: usize,
}

impl<E: Copy> Wheel<E> {
    /// Adds an entry. Where it is inlined, the entry stays in registers: through memory, it is written in parts and read as
    /// a whole, for which a CPU waits.
    #[inline(always)]
    fn put(&mut self, entry: Entry<E>) {
        let page = entry.time.as_ps() >> self.line_log2 >> LINES_LOG2;
        if !self.pages.has(page) || !self.pages.put(page, entry) {
            self.put_elsewhere(entry.time, entry.sequence, entry.event);
        }
    }

    /// Adds an entry for which there is no closed page: to the open page, the current line or the heap.
    #[inline(never)]
    fn put_elsewhere(&mut self, time: Time, sequence: u64, event: E) {
        let entry = Entry { time, sequence, event };
        let line = time.as_ps() >> self.line_log2;
        if self.pages.count() == 0 {
            self.line_up(entry);
        } else if !self.page.has(line) || !self.page.put(line, entry) {
            self.heap.push(entry);
        }
    }

    /// Inserts an entry into the current line. The search begins at the front, since most entries are due soon.
    #[inline]
    fn line_up(&mut self, entry: Entry<E>) {
        let later = self.line.iter().rposition(|other| other.key() > entry.key());
        self.line.insert(later.map_or(0, |place| place + 1), entry);
    }

    /// Index of the first line with entries, on the open page or the next one.
    #[inline]
    fn next_line(&mut self) -> Option<usize> {
        let place = self.page.next();
        if place.is_none() && !self.pages.is_empty() {
            self.open_page();
            return self.page.next();
        }
        place
    }

    /// Opens the next page with entries and sorts them into its lines. Entries that do not fit go to the heap.
    #[inline(never)]
    fn open_page(&mut self) {
        let next = self.pages.next();
        self.page.open(next << LINES_LOG2);
        let Self { page, pages, heap, line_log2, .. } = self;
        pages.take(next, |entry| {
            if !page.put(entry.time.as_ps() >> *line_log2, entry) {
                heap.push(entry);
            }
        });
    }

    /// Removes the first entry, if it is on the current line.
    #[inline]
    fn pop_lined(&mut self, limit: Time) -> Option<Entry<E>> {
        let next = self.line.last()?;
        let heaped = self.heap.first().is_some_and(|heaped| heaped.key() < next.key());
        if heaped || next.time > limit {
            return None;
        }
        self.line.pop()
    }

    /// Removes the first entry, if it is alone on its line.
    #[inline]
    fn pop_single(&mut self, place: usize, limit: Time) -> Option<Entry<E>> {
        let next = *self.page.single(place)?;
        let heaped = self.heap.first().is_some_and(|heaped| heaped.key() < next.key());
        if heaped || next.time > limit {
            return None;
        }
        self.page.remove_single(place);
        Some(next)
    }

    /// Removes the first entry, from the heap or from a line with several.
    #[inline(never)]
    fn pop_other(&mut self, place: Option<usize>, limit: Time) -> Option<Entry<E>> {
        if let Some(place) = place {
            self.page.take(place, &mut self.line);
            self.line.sort_unstable_by_key(|entry| Reverse(entry.key()));
        }
        let heap_is_next = match (self.line.last(), self.heap.first()) {
            (Some(lined), Some(heaped)) => heaped.key() < lined.key(),
            (lined, _) => lined.is_none(),
        };
        if !heap_is_next {
            self.line.last().filter(|next| next.time <= limit)?;
            return self.line.pop();
        }
        let next = self.heap.pop_until(limit)?;
        if self.heap.len() + 1 == self.len && self.pages.count() > 0 {
            self.skip_to(next.time);
        }
        Some(next)
    }

    /// Opens the page of a time. All pages must be empty.
    fn skip_to(&mut self, time: Time) {
        let line = time.as_ps() >> self.line_log2;
        self.page.open(line);
        self.pages.skip_to((line >> LINES_LOG2) + 1);
    }

    /// Reshapes the pages if their width or number no longer fits the rate of events.
    #[cold]
    fn review(&mut self) {
        let (entries, elapsed_ps) = self.tempo.pace();
        let fit = Shape::fit(entries, elapsed_ps, self.len, LINES_LOG2);
        let shape = Shape { line_log2: self.line_log2, pages: self.pages.count() };
        if shape.is_far_from(&fit) {
            self.reshape();
        } else {
            self.tempo.begin(self.len);
        }
    }

    /// Changes the width of lines and the number of pages to fit the current rate, and adds all entries again.
    #[cold]
    fn reshape(&mut self) {
        let mut all = self.take_all();
        let (entries, elapsed_ps) = self.tempo.pace_of(&mut all);
        let shape = Shape::fit(entries, elapsed_ps, all.len(), LINES_LOG2);
        self.line_log2 = shape.line_log2;
        self.page = Page::default();
        self.pages = Pages::new(shape.pages);
        self.skip_to(self.tempo.last());
        self.tempo.begin(all.len());
        all.into_iter().for_each(|entry| self.put(entry));
    }

    /// Removes all entries, in any order.
    fn take_all(&mut self) -> Vec<Entry<E>> {
        let mut all = Vec::with_capacity(self.len);
        all.append(&mut std::mem::take(&mut self.line));
        while let Some(place) = self.page.next() {
            self.page.take(place, &mut all);
        }
        while !self.pages.is_empty() {
            self.pages.take(self.pages.next(), |entry| all.push(entry));
        }
        all.extend(std::mem::take(&mut self.heap).drain());
        all
    }
}

impl<E: Copy> Default for Wheel<E> {
    fn default() -> Self {
        Self {
            line: Vec::new(),
            page: Page::default(),
            pages: Pages::default(),
            line_log2: 0,
            heap: Heap::default(),
            tempo: Tempo::default(),
            len: 0,
        }
    }
}

impl<E: Copy> Queue<E> for Wheel<E> {
    #[inline(always)]
    fn push(&mut self, entry: Entry<E>) {
        self.len += 1;
        self.put(entry);
        if self.len > self.tempo.full_at() {
            self.reshape();
        }
    }

    #[inline]
    fn pop_until(&mut self, limit: Time) -> Option<Entry<E>> {
        let place = if self.line.is_empty() { self.next_line() } else { None };
        let quick = match place {
            Some(place) => self.pop_single(place, limit),
            None => self.pop_lined(limit),
        };
        let next = match quick {
            Some(next) => next,
            None => self.pop_other(place, limit)?,
        };
        self.len -= 1;
        if self.tempo.beat(next.time) {
            self.review();
        }
        Some(next)
    }

    fn len(&self) -> usize {
        self.len
    }

    fn bytes(&self) -> usize {
        self.line.capacity() * size_of::<Entry<E>>()
            + self.page.bytes()
            + self.pages.bytes()
            + self.heap.bytes()
    }
}
