//! Allocates and frees a page COUNT times in one thread, to count an allocator's instructions.
//!
//!     valgrind --tool=callgrind target/release/examples/pairs direct 100000
//!     valgrind --tool=callgrind target/release/examples/pairs NAME=LIB.so 100000
//!
//! The difference of two allocators' counts contains no overhead of the loop (`bench/iova_instructions.py`).

use bench::{Contestant, Peer, built_in_contestants, select};
use iova::{Allocator, Request, Space};
use std::error::Error;
use std::hint::black_box;
use std::path::Path;

/// Ends the names of per-CPU allocators with restartable sequences that valgrind can execute.
const COUNTED: &str = "-counted";

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [name, count] = words.as_slice() else {
        for contestant in built_in_contestants() {
            println!("{}", contestant.name);
        }
        return Err("usage: pairs NAME|NAME=LIB.so COUNT; these are the names".into());
    };
    let space = Space::new(1, 0xf_ffff);
    if let Some(name) = name.strip_suffix(COUNTED) {
        return pairs(counted(&space, name)?.as_ref(), count.parse()?);
    }
    let contestant = match name.split_once('=') {
        Some((name, library)) => {
            // A peer may read the CPU's number from the C library's area, as Linux's allocator in user space does.
            unregistered_cpus();
            Contestant::peer(name, &Peer::load(Path::new(library))?)
        }
        None => select(&built_in_contestants(), std::slice::from_ref(name))?.remove(0),
    };
    pairs(contestant.allocator(&space)?.as_ref(), count.parse()?)
}

/// Allocates and frees a page `count` times.
fn pairs(allocator: &dyn Allocator, count: u64) -> Result<(), Box<dyn Error>> {
    let request = Request { memory: 512, ..Request::size_aligned(1, 0xf_ffff) };
    for _ in 0..count {
        let first = allocator.allocate(black_box(&request))?;
        allocator.free(request.range(black_box(first)))?;
    }
    Ok(())
}

/// The per-CPU allocator with restartable sequences that are not registered with the kernel.
fn counted(space: &Space, name: &str) -> Result<Box<dyn Allocator + Send + Sync>, Box<dyn Error>> {
    let cpus = unregistered_cpus()
        .ok_or("restartable sequences are registered (not below valgrind) or not supported")?;
    match name {
        "percpu" => Ok(Box::new(iova::Percpu::trusting(space, 1 << 20, cpus)?)),
        "percpu-audited" => Ok(Box::new(iova::Percpu::audited(space, 1 << 20, cpus)?)),
        "percpu-checked" => Ok(Box::new(iova::Percpu::checked(space, 1 << 20, cpus)?)),
        _ => Err("expected percpu, percpu-audited or percpu-checked".into()),
    }
}

/// Restartable sequences below valgrind, which does not register them with the kernel but executes their code.
#[allow(unsafe_code, reason = "counts instructions below valgrind")]
fn unregistered_cpus() -> Option<iova::Rseq> {
    if iova::Rseq::new().is_ok() {
        return None;
    }
    // SAFETY: this program has one thread, and the kernel has not registered its area.
    unsafe { iova::Rseq::unregistered() }.ok()
}
