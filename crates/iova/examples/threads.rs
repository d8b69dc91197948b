//! Threads share a space with a hole in it. An owner for each page proves that no two ranges overlap.
//!
//!     cargo run -p iova --example threads

use iova::{Checked, Range, Request, Space, host_percpu};
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    // 128 MiB in pages of 4 KiB, without those of message-signalled interrupts.
    let mut space = Space::new(1, (1 << 15) - 1);
    space.reserved.push(Range::between(0x6ee0, 0x6eef));
    let addresses = &*host_percpu::<Checked>(&space, 0)?;
    let owners: Vec<AtomicU64> = (0..=space.last).map(|_| AtomicU64::new(0)).collect();
    let change_owner = &|range: Range, from: u64, to: u64| {
        let pages = &owners[range.first as usize..=range.last() as usize];
        assert!(pages.iter().all(|owner| owner.swap(to, Ordering::SeqCst) == from), "{range} overlaps");
    };
    std::thread::scope(|scope| {
        for thread in 1..=8 {
            scope.spawn(move || {
                let mut held: Vec<Range> = Vec::new();
                for round in 0..20_000 {
                    let request = Request::size_aligned(1 + (7 * round + thread) % 40, (1 << 15) - 1);
                    let range = request.range(addresses.allocate(&request).expect("there is room"));
                    change_owner(range, 0, thread);
                    held.push(range);
                    while held.len() > if round < 19_999 { 16 } else { 0 } {
                        let range = held.swap_remove(round as usize % held.len());
                        change_owner(range, thread, 0);
                        addresses.free(range).expect("it was allocated");
                    }
                }
            });
        }
    });
    println!("{} pages are out", addresses.usage().allocated_pages);
    Ok(())
}
