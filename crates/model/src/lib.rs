//! Simulations of hosts, PCIe links, IOMMUs and adapters, and their comparison with published measurements.
//!
//! ```text
//!   a user's TOML file                 experiments/*.toml, with evidence for each parameter
//!     | Description::read                | studies::reproduce
//!     v                                  v
//!   Setup of a machine: engine, network, block, flash_array, memory_type, infiniband
//!     | run, on crate des (virtual time); mapping calls run the real code of dma and iova
//!     v
//!   Outcome: rates, latencies, how busy each Part is, and which one limits
//! ```
//!
//! A DMA engine that reads through an IOMMU, and what limits it:
//!
//! ```
//! let file = include_str!("../../../experiments/engine.toml");
//! let with_iommu = model::Experiment::read(file, "engine.toml")?.run();
//! assert!(with_iommu.miss_share > 0.0);
//! let without = model::Experiment::read(file.split("[iommu]").next().unwrap_or_default(), "engine.toml")?.run();
//! assert!(without.transfers_per_second > with_iommu.transfers_per_second);
//! println!("{:.1} Gb/s, limited by {}", with_iommu.gigabits_per_second, with_iommu.limit);
//! # Ok::<(), model::ExperimentError>(())
//! ```
//!
//! # Pitfalls
//!
//! - Every parameter carries [its evidence](Given). A figure that a parameter was fitted to is [calibrated](Role) and proves
//!   nothing; only the others are predictions, and they are published as they come out.
//! - Simulated time starts with a warm-up. Choose it long enough for caches, queues and flush queues to reach a steady state.
//! - The same file and seed give the same numbers on every platform. A change in numbers is a change of the model.

#![forbid(unsafe_code)]

pub mod block;
pub mod contention;
mod description;
mod engine;
mod experiment;
pub mod fio;
pub mod flash_array;
pub mod host;
pub mod infiniband;
mod iommu;
mod latencies;
mod link;
pub mod memory_type;
mod moderation;
pub mod network;
mod part;
mod partition;
mod reproduction;
mod serial_server;
mod slab;
mod studies;
pub mod sweep;
pub mod uperf;
mod user_file;

pub use description::Description;
pub use engine::{IommuSetup, Operation, Outcome, Setup, TRANSFERS, run};
pub use experiment::{Answer, Engine, Experiment, Iommu};
pub use iommu::Hardware;
pub use link::{Generation, Link, UnknownGeneration};
pub use part::Part;
pub use reproduction::{Bounds, Chart, Curve, Line, Parameter, Point, Reproduction, Role, SCHEMA};
pub use studies::{AreaExpectation, Changes, StudyError, expect_of_area, reproduce, reproduce_with, studies};
pub use toll::Given;
pub use user_file::ExperimentError;
