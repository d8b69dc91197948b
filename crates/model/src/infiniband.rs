//! InfiniBand adapters that keep their contexts in memory of their own or in the host's, and what talks over them.
//!
//! ```text
//!   process --doorbell--> adapter: QP context, WQE, translations --packets--> port --switch--> port --> adapter --> memory
//!                            |  cache of contexts                                              ACK, completion
//!                            +--miss--> adapter memory, or host memory behind the bus
//! ```
//!
//! Contexts and translations lie in tables as the mthca driver lays them out ([`icm`]); every one that an adapter needs is looked
//! up in its [`cache`](CacheShape), and what is not there is fetched from where the tables are. Everything else, queues and
//! buffers, is in host memory.

mod bus;
mod cache;
mod experiment;
mod hca;
pub mod icm;
mod infiniband_model;
mod message;
pub mod mpi;
pub mod nas;
mod outcome;
pub mod trace;
mod verbs;
mod wire;

pub use bus::{Bus, PciX};
pub use cache::{CacheShape, Replacement};
pub use experiment::{AdaptersAnswer, AdaptersError, AdaptersExperiment, PlacedAnswer};
pub use hca::{Hca, HcaHost, Setup};
pub use message::{MemoryKind, Verb};
pub use outcome::{ContextUse, NodeUsage, Outcome, RunError, Totals};
pub use verbs::{Load, Measured, Pattern, run, run_on_heap};
pub use wire::Wire;
