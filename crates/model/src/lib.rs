//! Hosts, links, IOMMUs and adapters in virtual time.
#![forbid(unsafe_code)]

mod given;
mod link;
mod reproduction;

pub use given::Given;
pub use link::{Generation, Link, UnknownGeneration};
pub use reproduction::{Figure, Parameter, Reproduction, Role, SCHEMA};
