//! Hosts, links, IOMMUs and adapters in virtual time: what was published of real ones, beside what a model says.
//!
//! A model takes parameters, each [with its evidence](Given), and says what figures follow from them. Those that a parameter was
//! chosen by are [calibrated](Role), and prove nothing; the others are predictions, and stay as they come out.

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
