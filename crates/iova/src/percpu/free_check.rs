//! Whether frees are checked.

use super::page_bytes::PageBytes;
use super::shape::CACHED_PAGES_MAX;
use crate::sync::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use crate::{FreeError, Range, Space};
use core::fmt::Debug;

/// How an allocator treats wrong frees: [`Checked`], [`Audited`] or [`Trusting`].
pub trait FreeCheck: Debug + Send + Sync + sealed::Sealed {
    /// Whether each range's size is recorded. If it is, the central tree may allocate a range of a size that is not its class's: its free
    /// goes back to the tree. If not, the free goes to a stack of the class, so the range must have the class's size and alignment.
    #[doc(hidden)]
    const KNOWS_SIZES: bool;

    /// For a space.
    #[doc(hidden)]
    fn new(space: &Space) -> Self;

    /// Records a range of a class that is allocated, and returns its first page.
    #[doc(hidden)]
    #[inline(always)]
    fn allocate(&self, range: Range) -> u64 {
        range.first
    }

    /// Records that a range is free, if it was allocated with this size, which is that of a class. False if the central tree
    /// allocated it, for a wrong free, and where finding out takes longer.
    #[doc(hidden)]
    #[inline(always)]
    fn release(&self, _range: Range) -> bool {
        true
    }

    /// Like `release`, also where it takes longer.
    #[doc(hidden)]
    fn release_slowly(&self, _range: Range) -> bool {
        false
    }

    /// Records a range that was allocated from the central tree, which knows its size if it has no class.
    #[doc(hidden)]
    fn allocate_central(&self, _first: u64, _class: Option<usize>) {}

    /// Checks that the central tree may have allocated the range that begins at a page. The tree finds out whether it did.
    ///
    /// # Errors
    /// If it did not.
    #[doc(hidden)]
    fn check_central(&self, _first: u64) -> Result<(), FreeError> {
        Ok(())
    }

    /// Records that a CPU's stack got free ranges of a class from a depot or the central tree.
    #[doc(hidden)]
    fn enter(&self, _class: usize, _firsts: &[u64]) {}

    /// Whether a free range of a class may leave a CPU's stack, which is recorded. If it may not, a wrong free brought it.
    #[doc(hidden)]
    fn may_leave(&self, _class: usize, _first: u64) -> bool {
        true
    }

    /// The error of a wrong free that was found since the last call.
    ///
    /// # Errors
    /// [`FreeError::Earlier`]
    #[doc(hidden)]
    fn report(&self) -> Result<(), FreeError> {
        Ok(())
    }

    /// Memory in use in bytes, if at most `reached_pages` pages were used.
    #[doc(hidden)]
    fn memory_bytes(&self, _reached_pages: u64) -> u64 {
        0
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Audited {}
    impl Sealed for super::Checked {}
    impl Sealed for super::Trusting {}
}

/// Detects a range that is freed twice, with another size, or without having been allocated. A byte per page records the
/// size of the allocated range that begins there. CPUs whose ranges are neighbours share cache lines of these bytes.
#[derive(Debug)]
pub struct Checked {
    marks: PageBytes,
}

/// Looks for wrong frees when a batch of free ranges leaves a CPU: a range that is not allocated, or of another class. The next free
/// that moves a batch returns [`FreeError::Earlier`] with one of those that were found. Until then, a range that was freed twice may be
/// allocated twice. It is not found if its second copy leaves a CPU after another CPU has fetched the first, so with ranges
/// that are freed on other CPUs most are missed.
///
/// A byte per page records the class of the range that begins there, while it is allocated or in a CPU's stack. It is read and
/// written only when batches move, so that CPUs rarely share its cache line.
#[derive(Debug)]
pub struct Audited {
    marks: PageBytes,
    /// The pages of the space.
    first: u64,
    last: u64,
    /// Whether a wrong free was found and not reported yet.
    is_wrong: AtomicBool,
    /// The first page of the range that was found last.
    wrong: AtomicU64,
}

/// Believes every free, as Linux does. For callers that prove each free themselves: a wrong one may lead to ranges that overlap,
/// and to pages outside of the space.
#[derive(Debug)]
pub struct Trusting;

/// Mark of a page at which no allocated range begins.
const FREE: u8 = 0;
/// Mark of a range that was allocated from the central tree, which records its size. The mark stays when the range is freed:
/// the tree finds a second free.
const UNCACHED: u8 = u8::MAX;
/// Sizes up to this one have a mark of their own.
const EXACT_PAGES_MAX: u64 = 240;
/// Base-2 logarithm of the step in which larger sizes share marks.
const MARK_STEP_ORDER: u32 = 7;

const _: () = assert!(EXACT_PAGES_MAX + (CACHED_PAGES_MAX >> MARK_STEP_ORDER) < UNCACHED as u64);

/// The mark of an allocated range of a class: its size in one byte, exact up to [`EXACT_PAGES_MAX`] pages.
#[inline(always)]
fn mark_of(pages: u64) -> u8 {
    if pages <= EXACT_PAGES_MAX {
        pages as u8
    } else {
        (EXACT_PAGES_MAX + ((pages - 1) >> MARK_STEP_ORDER)) as u8
    }
}

impl Checked {
    /// Sets the mark of a page, and returns the page.
    #[cold]
    #[inline(never)]
    fn mark(&self, first: u64, mark: u8) -> u64 {
        self.marks.store(first, mark);
        first
    }

    /// Removes a mark if it is right for the size.
    #[inline(always)]
    fn release_marked(mark: &AtomicU8, pages: u64) -> bool {
        let is_right = mark.load(Ordering::Relaxed) == mark_of(pages);
        if is_right {
            // Before another thread can allocate the range.
            mark.store(FREE, Ordering::Relaxed);
        }
        is_right
    }
}

impl FreeCheck for Checked {
    const KNOWS_SIZES: bool = true;

    fn new(space: &Space) -> Self {
        Self { marks: PageBytes::new(space.first, space.last) }
    }

    #[inline(always)]
    fn allocate(&self, range: Range) -> u64 {
        match self.marks.in_first_leaf(range.first) {
            Some(mark) => {
                mark.store(mark_of(range.pages), Ordering::Relaxed);
                range.first
            }
            None => self.mark(range.first, mark_of(range.pages)),
        }
    }

    fn allocate_central(&self, first: u64, _class: Option<usize>) {
        self.mark(first, UNCACHED);
    }

    #[inline(always)]
    fn release(&self, range: Range) -> bool {
        self.marks.in_first_leaf(range.first).is_some_and(|mark| Self::release_marked(mark, range.pages))
    }

    fn release_slowly(&self, range: Range) -> bool {
        self.marks.get(range.first).is_some_and(|mark| Self::release_marked(mark, range.pages))
    }

    fn check_central(&self, first: u64) -> Result<(), FreeError> {
        match self.marks.get(first).map_or(FREE, |mark| mark.load(Ordering::Relaxed)) {
            FREE => Err(FreeError::NotAllocated),
            UNCACHED => Ok(()),
            _ => Err(FreeError::OtherSize),
        }
    }

    fn memory_bytes(&self, reached_pages: u64) -> u64 {
        self.marks.memory_bytes(reached_pages)
    }
}

impl Audited {
    /// The mark of a range of a class that is allocated or in a CPU's stack.
    fn mark_of_class(class: usize) -> u8 {
        class as u8 + 1
    }
}

impl FreeCheck for Audited {
    const KNOWS_SIZES: bool = false;

    fn new(space: &Space) -> Self {
        let (first, last) = (space.first, space.last);
        let (is_wrong, wrong) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { marks: PageBytes::new(first, last), first, last, is_wrong, wrong }
    }

    #[inline(always)]
    fn release(&self, range: Range) -> bool {
        self.first <= range.first && range.first <= self.last
    }

    fn allocate_central(&self, first: u64, class: Option<usize>) {
        if let Some(class) = class {
            self.marks.store(first, Self::mark_of_class(class));
        }
    }

    fn enter(&self, class: usize, firsts: &[u64]) {
        firsts.iter().for_each(|first| self.marks.store(*first, Self::mark_of_class(class)));
    }

    fn may_leave(&self, class: usize, first: u64) -> bool {
        let inside = Self::mark_of_class(class);
        let mark = self.marks.get(first);
        // At once, because another CPU's batch may have the same range.
        let is_right = mark.is_some_and(|mark| {
            mark.compare_exchange(inside, FREE, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        });
        if !is_right {
            self.wrong.store(first, Ordering::Relaxed);
            self.is_wrong.store(true, Ordering::Release);
        }
        is_right
    }

    fn report(&self) -> Result<(), FreeError> {
        if !self.is_wrong.load(Ordering::Relaxed) || !self.is_wrong.swap(false, Ordering::Acquire) {
            return Ok(());
        }
        Err(FreeError::Earlier { first: self.wrong.load(Ordering::Relaxed) })
    }

    fn memory_bytes(&self, reached_pages: u64) -> u64 {
        self.marks.memory_bytes(reached_pages)
    }
}

impl FreeCheck for Trusting {
    const KNOWS_SIZES: bool = false;

    fn new(_space: &Space) -> Self {
        Self
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::shape::class_of;
    use super::*;

    #[test]
    fn sizes_of_different_classes_have_different_marks() {
        for pages in 1..=CACHED_PAGES_MAX {
            assert!(![FREE, UNCACHED].contains(&mark_of(pages)), "{pages}");
            let is_distinct = pages <= EXACT_PAGES_MAX || pages % (1 << MARK_STEP_ORDER) == 0;
            assert_eq!(mark_of(pages) < mark_of(pages + 1), is_distinct, "{pages}");
            assert!(class_of(pages) == class_of(pages + 1) || is_distinct, "{pages}");
        }
    }

    #[test]
    fn an_audit_knows_the_class_of_what_is_in_a_stack() {
        let audit = Audited::new(&Space::new(0, 99));
        assert!(!audit.may_leave(2, 8), "it was never in a stack");
        assert_eq!(audit.report(), Err(FreeError::Earlier { first: 8 }));
        assert_eq!(audit.report(), Ok(()));
        audit.enter(2, &[8]);
        assert!(!audit.may_leave(1, 8), "another class");
        assert!(audit.may_leave(2, 8) && !audit.may_leave(2, 8), "twice");
        audit.enter(2, &[8]);
        assert!(audit.may_leave(2, 8), "it is in a stack again");
        assert!(!audit.may_leave(2, 1000), "outside of the space");
    }

    #[test]
    fn the_marks_of_reached_pages_are_the_memory_of_a_check() {
        let space = Space::new(1, 100);
        let memory_bytes = PageBytes::new(1, 100).memory_bytes(40);
        assert!(memory_bytes >= 40);
        assert_eq!(Checked::new(&space).memory_bytes(40), memory_bytes);
        assert_eq!(Audited::new(&space).memory_bytes(40), memory_bytes);
        assert_eq!(Trusting::new(&space).memory_bytes(40), 0);
    }
}
