//! The scenarios `full` and `full-large`: a nearly full, fragmented space.
//!
//! Ranges of one size are held for ever; ranges of another size are freed and allocated between them. All requests have the
//! same size, so every freed range fits every request. If a request fails, the allocator is at fault.

use super::{Setup, Worker};
use crate::caller::{Caller, Counts};
use crate::random::Random;
use iova::{Range, Request};

/// Share of the window in use during the measurement.
pub(super) const IN_USE: f64 = 0.99;
/// Share allocated at first. Random pages of it are then freed, which scatters the free ones over the window.
const IN_USE_FIRST: f64 = 0.999;
/// Pages of the held ranges, when single pages are freed and allocated.
pub(super) const LONG_PAGES: u64 = 8;
/// Pages of the freed and allocated ranges, when single pages are held: 256 KiB, twice the largest that Linux caches.
pub(super) const LARGE_PAGES: u64 = 64;
/// Share of the window filled with held ranges at first. Every second one is freed again, and single pages fill the holes.
const LONG_FIRST: f64 = 0.8;
/// Most single pages freed in a row, before as many are allocated; the number is random. More than two of Linux's magazines
/// hold, so that per-CPU caches overflow and run empty.
pub(super) const BATCH_MAX: usize = 512;
/// Most large ranges freed in a row, before as many are allocated.
pub(super) const LARGE_BATCH_MAX: usize = 16;
/// Number of random choices drawn in advance, to keep the generator out of the measured loop.
const CHOICES: usize = 4096;

/// A thread's part of the scenario.
// Workers change with each call, and share no cache line, of which CPUs fetch two at once.
#[repr(align(128))]
pub(super) struct Full {
    /// The request that is repeated.
    request: Request,
    /// The thread's share of the window.
    pages: u64,
    batch_max: usize,
    out: Vec<Range>,
    /// Random choices, as fractions of 2^32.
    choices: Vec<u32>,
    next: usize,
}

impl Full {
    /// Frees and allocates single pages.
    pub(super) fn singles(setup: &Setup, thread: usize) -> Self {
        Self::new(setup, thread, 1, BATCH_MAX)
    }

    /// Frees and allocates large ranges.
    pub(super) fn large(setup: &Setup, thread: usize) -> Self {
        Self::new(setup, thread, LARGE_PAGES, LARGE_BATCH_MAX)
    }

    /// Frees and allocates ranges of `request_pages`, up to `batch_max` in a row.
    fn new(setup: &Setup, thread: usize, request_pages: u64, batch_max: usize) -> Self {
        let mut random = Random::of_thread(setup.seed, thread);
        let choices = (0..CHOICES).map(|_| random.below(1 << 32) as u32).collect();
        let request =
            Request { memory: setup.memory(thread), ..Request::size_aligned(request_pages, setup.limit()) };
        let pages = setup.space.pages() / setup.threads as u64;
        Self { request, pages, batch_max, out: Vec::new(), choices, next: 0 }
    }

    /// Allocates up to `ranges` held ranges and frees every second one. Returns how many are left. If fewer fit, that is not
    /// counted as a failure: single pages fill the rest.
    fn hold_with_holes(&self, caller: &mut Caller<'_>, ranges: u64) -> u64 {
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
        // Rotate the choices on each pass, so that the same ranges are not freed again and again.
        let pass = (self.next / CHOICES) as u32;
        let choice = self.choices[self.next % CHOICES].wrapping_add(pass.wrapping_mul(0x9e37_79b9));
        self.next += 1;
        ((u64::from(choice) * end as u64) >> 32) as usize
    }

    /// Frees a random range.
    #[inline]
    fn free(&mut self, caller: &mut Caller<'_>) {
        let index = self.draw(self.out.len());
        caller.free(self.out.swap_remove(index));
    }

    /// Allocates a range. Once the guaranteed share is in use, a failure is not counted.
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
        let mut used = if each == 1 {
            self.hold_with_holes(caller, share(LONG_FIRST) / LONG_PAGES) * LONG_PAGES
        } else {
            0
        };
        let stay = if each == 1 { 0 } else { each };
        // Large ranges may not fit between the single pages near the end, so only single pages must fit.
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
        caller.finish(2 * (pairs - left))
    }
}
