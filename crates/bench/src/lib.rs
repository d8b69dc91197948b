//! Measures allocators of I/O virtual addresses with real threads on this machine's CPUs.
//!
//! [`Contestant`]s are those of the crate `iova` and, loaded through a C interface (`include/iotoll_iova_peer.h`), any
//! other. A [`Scenario`] says what each thread does. [`run()`] lets the contestants take turns, round by round in one
//! process, so that what disturbs the machine disturbs them alike and their ratios hold; what it returns, a
//! [`Benchmark`], serialises as the document `iotoll.bench/1`.
//!
//! Every contestant is called through the same table of functions; what that and the loop around it cost is what
//! `direct` takes, which has nothing to allocate.

mod blk;
mod bytes;
mod caller;
mod check;
mod clock;
mod contestant;
mod head;
mod latency;
mod machine;
mod map;
mod memtype;
mod pace;
mod peer;
mod random;
mod result;
mod run;
mod scenario;
mod sizes;
mod spsc;
mod summary;
mod threads;
mod warning;

pub use blk::{
    BLK_SCHEMA, BlkBenchmark, BlkCell, BlkError, BlkRow, BlkSettings, blk_benchmark, past_the_kernel,
    through_the_kernel,
};
pub use bytes::{BadBytes, Bytes};
pub use check::CheckError;
pub use contestant::{Contestant, Make, UnknownContestant, ours, select};
pub use head::{Head, Origin};
pub use latency::Latency;
pub use machine::Machine;
pub use map::{Cell, MAP_SCHEMA, MapBenchmark, MapError, MapSettings, PerPair, Row, dma_paths, run_map};
pub use memtype::{
    Access, Area, AreaKind, BarError, MEMTYPE_SCHEMA, MemtypeBenchmark, MemtypeCell, MemtypeError,
    MemtypeRow, MemtypeSettings, run_memtype,
};
pub use peer::{Peer, PeerError};
pub use result::{Benchmark, Case, Clock, Entry, Measured, Named, Round, SCHEMA, Settings};
pub use run::{Progress, RunError, run};
pub use scenario::{Scenario, UnknownScenario};
pub use sizes::Sizes;
pub use summary::Summary;
pub use threads::ThreadError;
