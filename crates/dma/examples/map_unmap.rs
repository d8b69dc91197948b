//! Nanoseconds of mapping and unmapping in the tables of each format, in one thread, without invalidation:
//!
//!     cargo run --release -p dma --example map_unmap
//!
//! The kernel's figures beside them are those of its generic page table code on an i7-12700 (J. Gunthorpe, cover letter of the generic page
//! table code, 2025): another machine, and code that does what this does.

use dma::{Access, Amd, BusAddress, DmaCounters, Format, Frames, MemoryAddress, Radix, Ram, Smmu, Vtd};
use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Where the tables lie.
const TABLES: MemoryAddress = MemoryAddress(0);
const TABLES_BYTES: u64 = 64 * MIB;
/// Bus addresses that mappings are made in.
const SPAN_BYTES: u64 = 256 * MIB;
const ROUNDS: usize = 41;

/// What is mapped at once, in pages of which sizes, and what the kernel takes to map and unmap it.
struct Case {
    name: &'static str,
    bytes: u64,
    page_sizes: u64,
    kernel_ns: Option<(u32, u32)>,
}

/// The kernel's figures for one page and for 256.
struct Kernel {
    page_ns: (u32, u32),
    pages_256_ns: (u32, u32),
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:<10} {:<26} {:>9} {:>9}   kernel, other machine", "format", "mapping", "map ns", "unmap ns");
    let kernel = |page_ns, pages_256_ns| Kernel { page_ns, pages_256_ns };
    format::<Amd>("AMD v1", 4, &kernel((53, 69), (386, 353)))?;
    format::<Vtd>("VT-d", 4, &kernel((55, 69), (391, 210)))?;
    format::<Smmu>("SMMUv3", 4, &kernel((57, 72), (380, 521)))
}

fn format<F: Format>(name: &str, levels: u32, kernel: &Kernel) -> Result<(), Box<dyn Error>> {
    let all = u64::MAX;
    let small = 4 * KIB;
    let cases = [
        Case { name: "4 KiB", bytes: 4 * KIB, page_sizes: all, kernel_ns: Some(kernel.page_ns) },
        Case { name: "64 KiB", bytes: 64 * KIB, page_sizes: all, kernel_ns: None },
        Case {
            name: "1 MiB in 4 KiB pages",
            bytes: MIB,
            page_sizes: small,
            kernel_ns: Some(kernel.pages_256_ns),
        },
        Case { name: "2 MiB", bytes: 2 * MIB, page_sizes: all, kernel_ns: None },
        Case { name: "2 MiB in 4 KiB pages", bytes: 2 * MIB, page_sizes: small, kernel_ns: None },
    ];
    for case in cases {
        let (map_ns, unmap_ns) = measure::<F>(levels, &case)?;
        let kernel = case.kernel_ns.map_or(String::new(), |(map, unmap)| format!("{map} and {unmap}"));
        println!("{name:<10} {:<26} {map_ns:>9.1} {unmap_ns:>9.1}   {kernel}", case.name);
    }
    Ok(())
}

/// The medians of rounds, each of which fills the span and empties it.
fn measure<F: Format>(levels: u32, case: &Case) -> Result<(f64, f64), Box<dyn Error>> {
    let ram = Arc::new(Ram::new(TABLES, TABLES_BYTES));
    let frames = Arc::new(Frames::new(TABLES, TABLES_BYTES));
    let table = Radix::<F>::new(ram, frames, levels)?.with_page_sizes(case.page_sizes);
    let places = (SPAN_BYTES / case.bytes).min(4096);
    let (mut maps, mut unmaps) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        maps.push(timed(|| each(places, case.bytes, |at| map(&table, at, case.bytes)))?);
        unmaps.push(timed(|| each(places, case.bytes, |at| unmap(&table, at, case.bytes)))?);
        table.all_invalidated(|| {});
    }
    let median_ns = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times[ROUNDS / 2].as_nanos() as f64 / places as f64
    };
    Ok((median_ns(maps), median_ns(unmaps)))
}

fn each(
    places: u64,
    bytes: u64,
    mut call: impl FnMut(u64) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    (0..places).try_for_each(|place| call(black_box((1 << 32) + place * bytes)))
}

fn map<F: Format>(table: &Radix<F>, at: u64, bytes: u64) -> Result<(), Box<dyn Error>> {
    let mut counters = DmaCounters::default();
    table.map(BusAddress(at), MemoryAddress(at), bytes, Access::ReadWrite, &mut counters)?;
    black_box(counters);
    Ok(())
}

fn unmap<F: Format>(table: &Radix<F>, at: u64, bytes: u64) -> Result<(), Box<dyn Error>> {
    let mut counters = DmaCounters::default();
    table.unmap(BusAddress(at), bytes, &mut counters)?;
    black_box(counters);
    Ok(())
}

fn timed(work: impl FnOnce() -> Result<(), Box<dyn Error>>) -> Result<Duration, Box<dyn Error>> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}
