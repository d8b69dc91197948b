//! Allocates and frees a page COUNT times in one thread, and nothing else: for instruction counts.
//!
//!     valgrind --tool=callgrind target/release/examples/pairs direct 100000
//!     valgrind --tool=callgrind target/release/examples/pairs NAME=LIB.so 100000
//!
//! The difference of two counts is the allocator's alone (`bench/iova_instructions.py`).

use bench::{Contestant, Peer, ours, select};
use iova::{Request, Space};
use std::error::Error;
use std::hint::black_box;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [name, count] = words.as_slice() else {
        for contestant in ours() {
            println!("{}", contestant.name);
        }
        return Err("usage: pairs NAME|NAME=LIB.so COUNT; these are the names".into());
    };
    let contestant = match name.split_once('=') {
        Some((name, library)) => Contestant::peer(name, &Peer::load(Path::new(library))?),
        None => select(&ours(), std::slice::from_ref(name))?.remove(0),
    };
    let space = Space::new(1, 0xf_ffff);
    let allocator = contestant.allocator(&space)?;
    let request = Request { memory: 512, ..Request::size_aligned(1, space.last) };
    for _ in 0..count.parse()? {
        let first = allocator.allocate(black_box(&request))?;
        allocator.free(request.range(black_box(first)))?;
    }
    Ok(())
}
