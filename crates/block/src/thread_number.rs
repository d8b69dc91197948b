//! Threads, numbered in the order of their first commands.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

static THREADS: AtomicUsize = AtomicUsize::new(0);

/// The number of this thread.
#[inline]
pub(crate) fn own() -> usize {
    const NONE: usize = usize::MAX;
    thread_local!(static NUMBER: Cell<usize> = const { Cell::new(NONE) });
    let number = NUMBER.get();
    if number != NONE {
        return number;
    }
    let next = THREADS.fetch_add(1, Ordering::Relaxed);
    NUMBER.set(next);
    next
}

/// The number that the next thread will get.
pub(crate) fn next() -> usize {
    THREADS.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_keeps_a_number_of_its_own() {
        let number = own();
        let other = std::thread::scope(|scope| scope.spawn(|| (own(), own())).join());
        assert!(other.is_ok_and(|(other, again)| other == again && other != number));
        assert!(own() == number && next() > number);
    }
}
