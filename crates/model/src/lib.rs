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
//! let file = include_str!("../experiments/engine.toml");
//! let with_iommu = model::Experiment::read(file, "engine.toml")?.run()?;
//! assert!(with_iommu.miss_share.mean > 0.0);
//! let without = model::Experiment::read(file.split("[iommu]").next().unwrap_or_default(), "engine.toml")?.run()?;
//! assert!(without.transfers_per_second.mean > with_iommu.transfers_per_second.mean);
//! println!("{:.1} Gb/s, limited by {}", with_iommu.gigabits_per_second.mean, with_iommu.limit);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Pitfalls
//!
//! - Every parameter carries [its evidence](Given). Every figure says [what agreement would prove](FigureKind): only figures
//!   out of sample count as hits, and all but calibrated ones count as misses.
//! - Simulated time starts with a warm-up. A run whose window is not steady is extended, and refused if it never is;
//!   a warm-up that is long enough saves that time.
//! - Figures of a user's file are means over several seeds, with 95 % intervals. A single run has no interval.
//! - The same file and seed give the same numbers on every platform. A change in numbers is a change of the model.

#![forbid(unsafe_code)]

mod answer;
mod area_forecasts;
pub mod block;
pub mod command_queue;
pub mod contention;
mod description;
mod engine;
mod evidence_share;
mod experiment;
mod figure_kind;
mod file_evidence;
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
mod replications;
mod reproduction;
mod reproductions;
mod serial_server;
mod slab;
mod steady;
mod studies;
mod taken_price;
mod user_file;

/// Profiles of uperf, which two hosts run.
pub use uperf;

pub use answer::{Answer, DOCUMENT_SCHEMA, Document, Kind, RunError};
pub use area_forecasts::area_forecasts;
pub use description::{Description, TableError};
pub use engine::{IommuSetup, Operation, Outcome, Setup, TRANSFERS, run, run_steady};
pub use evidence_share::EvidenceShare;
pub use experiment::{Engine, EngineAnswer, Experiment, Iommu};
pub use figure_kind::FigureKind;
pub use file_evidence::FileEvidence;
pub use iommu::Hardware;
pub use link::{Generation, Link, UnknownGeneration};
pub use part::Part;
pub use reproduction::{
    Bounds, Chart, Curve, Line, Parameter, Point, Reference, Reproduction, Row, SCHEMA, Tally,
};
pub use reproductions::Reproductions;
pub use steady::{CountedRunsAnswer, Drift, MeasuredWindow, RunsAnswer, Unsteady};
pub use studies::{
    AreaExpectation, Changes, STUDY_SEEDS, StudyError, expect_of_area, reproduce, reproduce_with, studies,
};
pub use taken_price::{NoPriceTaken, PricedExperiment, TakenPrice};
pub use toll::Given;
pub use user_file::ExperimentError;

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
