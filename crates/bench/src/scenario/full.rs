//! A window of which hardly anything is free, in crumbs.
//!
//! Ranges of one size stay for ever, ranges of another come and go among them. Whatever is freed does for any request, and
//! there are free ones always: a request that fails, failed wrongly.

use super::{Setup, Worker};
use crate::caller::{Caller, Counts};
use crate::random::Random;
use iova::{Range, Request};

/// Of the window, this much is in use.
pub(super) const IN_USE: f64 = 0.99;
/// Before single pages are freed at random, so that what is free lies all over the window.
const IN_USE_FIRST: f64 = 0.999;
/// Of the ranges that stay where single pages come and go.
pub(super) const LONG_PAGES: u64 = 8;
/// Of the ranges that come and go among single pages that stay, as many pages of either: 256 KiB, twice of what Linux caches.
pub(super) const LARGE_PAGES: u64 = 64;
/// Of the window, this much is first filled with such ranges, of which every second goes again: single pages come into
/// the holes.
const LONG_FIRST: f64 = 0.8;
/// Single pages that are freed, one after another, before as many are allocated: at most so many, at random. More than two
/// of Linux's magazines hold, so that caches fill up and run dry.
pub(super) const BATCH_MAX: usize = 512;
/// The same of large ranges.
pub(super) const LARGE_BATCH_MAX: usize = 16;
/// Choices drawn in advance.
const CHOICES: usize = 4096;

pub(super) struct Full {
    /// What comes and goes.
    request: Request,
    /// The thread's share of the window.
    pages: u64,
    batch_max: usize,
    out: Vec<Range>,
    /// What is drawn next, in 2^-32 of all that can be.
    choices: Vec<u32>,
    next: usize,
}

impl Full {
    /// Single pages come and go.
    pub(super) fn singles(setup: &Setup, thread: usize) -> Self {
        Self::new(setup, thread, 1, BATCH_MAX)
    }

    /// Large ranges come and go.
    pub(super) fn large(setup: &Setup, thread: usize) -> Self {
        Self::new(setup, thread, LARGE_PAGES, LARGE_BATCH_MAX)
    }

    fn new(setup: &Setup, thread: usize, request_pages: u64, batch_max: usize) -> Self {
        let mut random = Random::of_thread(setup.seed, thread);
        let choices = (0..CHOICES).map(|_| random.below(1 << 32) as u32).collect();
        let request =
            Request { memory: setup.memory(thread), ..Request::size_aligned(request_pages, setup.limit()) };
        let pages = setup.space.pages() / setup.threads as u64;
        Self { request, pages, batch_max, out: Vec::new(), choices, next: 0 }
    }

    /// Ranges that stay, with holes between them; returns how many. Where there is no room for so many, single pages take
    /// what is left: that is no fault.
    fn long(&self, caller: &mut Caller<'_>, ranges: u64) -> u64 {
        let request =
            Request { memory: self.request.memory, ..Request::size_aligned(LONG_PAGES, self.request.limit) };
        let failed = caller.failed;
        let long: Vec<Range> = (0..ranges).map_while(|_| caller.allocate(&request)).collect();
        caller.failed = failed;
        long.iter().skip(1).step_by(2).for_each(|range| caller.free(*range));
        long.len().div_ceil(2) as u64
    }

    /// A random number below `end`.
    #[inline]
    fn draw(&mut self, end: usize) -> usize {
        // Each time through the choices they are turned, or the same places would be freed again and again.
        let turn = (self.next / CHOICES) as u32;
        let choice = self.choices[self.next % CHOICES].wrapping_add(turn.wrapping_mul(0x9e37_79b9));
        self.next += 1;
        ((u64::from(choice) * end as u64) >> 32) as usize
    }

    /// Frees any of the ranges that come and go.
    #[inline]
    fn free(&mut self, caller: &mut Caller<'_>) {
        let place = self.draw(self.out.len());
        caller.free(self.out.swap_remove(place));
    }

    /// Allocates another that comes and goes. One that there is no room for is no fault once as much as is guaranteed is in use.
    fn add(&mut self, caller: &mut Caller<'_>, is_guaranteed: bool) -> bool {
        let failed = caller.failed;
        let range = caller.allocate(&self.request);
        if !is_guaranteed {
            caller.failed = failed;
        }
        self.out.extend(range);
        range.is_some()
    }
}

impl Worker for Full {
    fn fill(&mut self, caller: &mut Caller<'_>) {
        let share = |of: f64| (self.pages as f64 * of) as u64;
        let (guaranteed, most) = (share(IN_USE), share(IN_USE_FIRST));
        let each = self.request.pages;
        let single = Request { memory: self.request.memory, ..Request::size_aligned(1, self.request.limit) };
        let mut used =
            if each == 1 { self.long(caller, share(LONG_FIRST) / LONG_PAGES) * LONG_PAGES } else { 0 };
        let stay = if each == 1 { 0 } else { each };
        // Where large ranges fit in the end depends on where the single pages went: nobody has to find room for the last.
        let must_fit = |used: u64| each == 1 && used < guaranteed;
        while used + each + stay <= most && self.add(caller, must_fit(used)) {
            used += each + (0..stay).filter(|_| caller.allocate(&single).is_some()).count() as u64;
        }
        while used > guaranteed && self.out.len() > 1 {
            self.free(caller);
            used -= each;
        }
    }

    fn work(&mut self, mut caller: Caller<'_>, pairs: u64) -> Counts {
        let mut left = pairs;
        while left > 0 && !self.out.is_empty() {
            let batch = (1 + self.draw(self.batch_max) as u64).min(left).min(self.out.len() as u64);
            (0..batch).for_each(|_| self.free(&mut caller));
            self.out.extend((0..batch).filter_map(|_| caller.allocate(&self.request)));
            left -= batch;
        }
        caller.done(2 * (pairs - left))
    }
}
