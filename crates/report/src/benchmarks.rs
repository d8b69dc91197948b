//! Benchmarks of `iotoll bench` and what `iotoll watch` saw: their figures in words, a page for each kind, and one of two documents compared.

mod blk;
mod comparison;
mod iova;
mod map;
mod map_threads;
mod memtype;
mod net;
mod net_drawings;
mod stacks;
mod transfer;
mod watch;
mod watch_drawings;
pub(crate) mod words;

pub use blk::blk_benchmark;
pub use comparison::comparison;
pub use iova::{benchmark, benchmark_brief};
pub use map::map_benchmark;
pub use map_threads::{map_threads, map_threads_drawing};
pub use memtype::memtype_benchmark;
pub use net::net_benchmark;
pub use transfer::transfer_benchmark;
pub use watch::{watch, watch_interval, watch_interval_title};
