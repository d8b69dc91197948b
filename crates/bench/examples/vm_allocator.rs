//! Compares rust-vmm's address allocator, which VMMs use for device memory, with this project's allocators.
//!
//!     cargo run --release -p iotoll-bench --example vm_allocator
//!
//! It is the only allocator on crates.io that supports alignment and frees by address: range-alloc 0.1 has no alignment,
//! and offset-allocator 0.2 frees by a handle. It is behind a lock here, because it is not thread safe.

use bench::{Contestant, Origin, Scenario, Settings, built_in_contestants, run, select};
use iova::{AllocateError, Allocator, FreeError, Range, Request, Space, Usage};
use std::error::Error;
use std::sync::{Mutex, PoisonError};
use vm_allocator::{AddressAllocator, AllocPolicy, RangeInclusive};

/// The allocator manages addresses, as in a VMM, and not pages.
const PAGE_BYTES: u64 = 4096;

struct RustVmm(Mutex<AddressAllocator>);

impl Allocator for RustVmm {
    /// Ignores the request's limit: in this benchmark it is the end of the space.
    fn allocate(&self, request: &Request) -> Result<u64, AllocateError> {
        let mut allocator = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (size, alignment) = (request.pages * PAGE_BYTES, request.alignment_pages() * PAGE_BYTES);
        let found = allocator.allocate(size, alignment, AllocPolicy::FirstMatch);
        found.map(|range| range.start() / PAGE_BYTES).map_err(|_| AllocateError::Full)
    }

    fn free(&self, range: Range) -> Result<(), FreeError> {
        let (start, end) = (range.first * PAGE_BYTES, (range.last() + 1) * PAGE_BYTES - 1);
        let range = RangeInclusive::new(start, end).map_err(|_| FreeError::NotAllocated)?;
        let mut allocator = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        allocator.free(&range).map_err(|_| FreeError::NotAllocated)
    }

    fn usage(&self) -> Usage {
        Usage::default()
    }
}

fn make(space: &Space) -> Result<Box<dyn Allocator + Send + Sync>, String> {
    let allocator = AddressAllocator::new(space.first * PAGE_BYTES, space.pages() * PAGE_BYTES)
        .map_err(|why| why.to_string())?;
    Ok(Box::new(RustVmm(Mutex::new(allocator))))
}

fn main() -> Result<(), Box<dyn Error>> {
    let names = ["direct", "percpu", "gap-tree"].map(str::to_owned);
    let mut contestants = select(&built_in_contestants(), &names)?;
    contestants.push(Contestant::new(
        "rust-vmm",
        "vm-allocator: an interval tree, searched from the lowest",
        make,
    ));
    let settings = Settings {
        scenarios: vec![Scenario::Pairs, Scenario::Held, Scenario::Network, Scenario::Storage],
        threads: vec![1, 2],
        ..Settings::default()
    };
    let origin = Origin { made_by: "vm_allocator".to_owned(), command: Vec::new(), date: String::new() };
    let benchmark = run(&contestants, Some("percpu"), settings, origin, &mut |_| ())?;
    println!("{:8} {:>7} {:>10} {:>11} {:>14}", "scenario", "threads", "", "ns per pair", "of percpu's");
    for case in &benchmark.cases {
        for entry in &case.entries {
            let Some(measured) = &entry.measured else { continue };
            let ratio = measured.over_baseline.as_ref().map_or(0.0, |ratio| ratio.median);
            let (scenario, threads) = (case.scenario.name(), case.threads);
            let time_ns = measured.ns_per_pair.median;
            println!("{scenario:8} {threads:7} {:>10} {time_ns:11.1} {ratio:14.2}", entry.contestant);
        }
    }
    Ok(())
}
