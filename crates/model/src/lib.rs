//! Hosts, links, IOMMUs and adapters in virtual time: what was published of real ones, beside what a model says.
//!
//! A model takes parameters, each [with its evidence](Given), and says what figures follow from them. Those that a parameter was
//! chosen by are [calibrated](Role), and prove nothing; the others are predictions, and stay as they come out.

#![forbid(unsafe_code)]

pub mod contention;
mod description;
mod engine;
mod experiment;
mod family;
mod link;
pub mod network;
mod partition;
mod reproduction;
mod serial;
pub mod sweep;
pub mod uperf;

pub use description::Description;
pub use engine::{IommuSetup, Operation, Outcome, Setup, TRANSFERS, run};
pub use experiment::{Answer, Engine, Experiment, ExperimentError, Iommu, Part};
pub use family::{Changes, FamilyError, families, reproduce, reproduce_with};
pub use link::{Generation, Link, UnknownGeneration};
pub use reproduction::{Bounds, Chart, Curve, Line, Parameter, Point, Reproduction, Role, SCHEMA};
pub use toll::Given;
