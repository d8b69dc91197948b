//! Benchmarks of `iotoll bench` and `iotoll blk bench`: their figures in words, and a page for each kind.

mod blk;
mod iova;
mod map;
mod memtype;
mod watch;
mod watch_drawings;
pub(crate) mod words;

pub use blk::blk_benchmark;
pub use iova::{benchmark, benchmark_brief};
pub use map::map_benchmark;
pub use memtype::memtype_benchmark;
pub use watch::{watch, watch_interval, watch_interval_title};
