//! Benchmarks of this host: IOVA allocators, DMA mapping, disk reads and memory accesses; and of the network to another.
//!
//! - [`run()`] measures IOVA allocators with real threads. The [`Contestant`]s are the allocators of crate `iova`, and
//!   others that are loaded through a C interface (`include/iotoll_iova_peer.h`). A [`Scenario`] defines what each thread
//!   does. The result is a [`Benchmark`], the document `iotoll.bench/1`.
//! - [`run_map`] measures mapping and unmapping on each DMA path, and [`run_map_threads`] in many threads at once.
//!   [`measure_host_prices`] measures what a price list of this host can have by that.
//! - [`measure_kernel_interfaces`] and [`measure_user_space_driver`] measure random disk reads.
//! - [`run_memtype`] measures memory accesses by memory type.
//! - [`run_transfer`] moves data between an NVMe controller and memory of each kind, and checks every byte.
//! - [`net::run_net`] measures the network to another host, on which [`net::serve`] answers.
//!
//! All contestants are measured in turn, round by round in one process, so that disturbances of the host affect all alike
//! and their ratios stay valid. Allocators are called through the same trait object. The contestant `direct`, which
//! allocates nothing, shows the cost of that call and of the loop around it.

mod blk;
mod bytes;
mod caller;
mod check;
mod clock;
mod completion;
mod contestant;
mod head;
mod host_summary;
mod instruction_counter;
mod latency;
mod map;
mod memtype;
pub mod net;
mod pace;
mod peer;
mod random;
mod result;
mod round_time;
mod run;
mod scenario;
mod sizes;
mod spsc;
mod summary;
mod threads;
mod transfer;
mod warning;

pub use blk::{
    BLK_SCHEMA, BlkBenchmark, BlkCell, BlkError, BlkOperation, BlkProgress, BlkRow, BlkSettings,
    blk_benchmark, measure_kernel_interfaces, measure_user_space_driver,
};
pub use bytes::{BadBytes, Bytes};
pub use check::CheckError;
pub use contestant::{Contestant, Make, UnknownContestant, built_in_contestants, select};
pub use head::{Head, Origin};
pub use host_summary::HostSummary;
pub use latency::Latency;
pub use map::{
    AbsentPrice, Cell, HostPrice, HostPrices, MAP_SCHEMA, MAP_THREADS_SCHEMA, MapBenchmark, MapCase,
    MapCheckError, MapContestant, MapEntry, MapError, MapMeasured, MapSettings, MapThreads, MapThreadsError,
    MapThreadsSettings, PerPair, Row, dma_paths, map_contestants, measure_host_prices, run_map,
    run_map_threads, select_map,
};
pub use memtype::{
    Access, Area, AreaKind, BarError, MEMTYPE_SCHEMA, MemtypeBenchmark, MemtypeCell, MemtypeError,
    MemtypeRow, MemtypeSettings, run_memtype,
};
pub use peer::{Peer, PeerError};
pub use result::{Benchmark, Case, Clock, Entry, InvalidSetting, Measured, Named, Round, SCHEMA, Settings};
pub use round_time::RoundTime;
pub use run::{Progress, RunError, run};
pub use scenario::{Scenario, UnknownScenario};
pub use sizes::Sizes;
pub use summary::Summary;
pub use threads::ThreadError;
pub use transfer::{
    ControllerReads, ControllerWrites, ExpectedFrom, Miscompare, TRANSFER_SCHEMA, TransferBenchmark,
    TransferMemory, TransferRound, TransferRow, TransferSettings, TransferSource, run_transfer,
};

/// How a test says that it could not run.
#[cfg(test)]
#[path = "../../../tests/skip.rs"]
mod skip;

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
