//! Memory that the per-CPU allocator asks the system for.

#![allow(unsafe_code, reason = "a memory allocator that counts")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use iova::{Allocator, Percpu, Request, Sharded, Space};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that the thread allocated and did not free.
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static MEMORY: Counting = Counting;

// SAFETY: all calls are the system's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.set(BYTES.get().wrapping_add(layout.size()));
        // SAFETY: as the caller guarantees.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        BYTES.set(BYTES.get().wrapping_add(layout.size()));
        // SAFETY: as the caller guarantees.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, first: *mut u8, layout: Layout) {
        BYTES.set(BYTES.get().wrapping_sub(layout.size()));
        // SAFETY: as the caller guarantees.
        unsafe { System.dealloc(first, layout) }
    }
}

/// After use, with ranges in stacks, depots and the tree.
fn bytes_left_by(allocator: impl FnOnce(&Space) -> Box<dyn Allocator>) -> usize {
    let before = BYTES.get();
    let allocator = allocator(&Space::new(1, 1 << 16));
    let page = Request::new(1, u64::MAX);
    let firsts: Vec<u64> = (0..2000).map(|_| allocator.allocate(&page).unwrap()).collect();
    assert!(BYTES.get().wrapping_sub(before) > 32 << 10, "the stacks of a CPU, at least");
    firsts.into_iter().for_each(|first| allocator.free(page.range(first)).unwrap());
    drop(allocator);
    BYTES.get().wrapping_sub(before)
}

#[test]
fn a_dropped_allocator_leaves_no_memory_behind() {
    let cpus = || Sharded::new(3, || 1);
    assert_eq!(bytes_left_by(|space| Box::new(Percpu::checked(space, 1 << 12, cpus()).unwrap())), 0);
    assert_eq!(bytes_left_by(|space| Box::new(Percpu::audited(space, 1 << 12, cpus()).unwrap())), 0);
    assert_eq!(bytes_left_by(|space| Box::new(Percpu::trusting(space, 1 << 12, cpus()).unwrap())), 0);
}
