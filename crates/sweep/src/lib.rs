//! Every combination of values of a modelled machine, and its results as Parquet tables.
//!
//! ```text
//!   plan.toml: [base], a machine as `iotoll model run` reads it; [axes], fields with the values that they take
//!     │  Plan::read, Plan::point
//!     ▼
//!   Point: a key, the axes' values, and an experiment
//!     │  Point::run, on any core of any machine and in any order
//!     ▼
//!   Row ──Table::parquet_bytes──▶ part-1.parquet, part-2.parquet, ...
//!                                   │  Results::open: all parts of a folder
//!                                   ├──▶ Results::merge: one file
//!                                   └──▶ Summary::of: what limits, and how a figure follows from each axis
//! ```
//!
//! ```
//! let plan = include_str!("../../../experiments/sweep.toml");
//! let plan = sweep::Plan::read(plan, "sweep.toml")?;
//! let row = plan.point(0)?.run();
//! println!("{}: {:?}", row.key, row.outcome);
//! let bytes = sweep::Table::of(&plan, "example 1.0")?.parquet_bytes(&[row])?;
//! assert!(bytes.starts_with(b"PAR1"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Pitfalls
//!
//! - A point whose model has no answer, because its window was never steady for example, is a row with an error. Readers must leave it out.
//! - Parts of one plan may have different columns: a host without a disk has no busy disk. Read them by name.

#![forbid(unsafe_code)]

mod folder;
mod key;
mod outcome;
mod plan;
mod results;
mod summary;
mod table;
mod value;
mod variance;

pub use folder::{ResultsFolder, ResultsFolderError};
pub use key::{Key, NotAKey, version};
pub use outcome::Row;
pub use plan::{Axis, POINTS_MAX, Plan, PlanError, PlanPlace, Point, set_field};
pub use results::{Results, ResultsError};
pub use summary::{
    AxisEffect, AxisValue, Curve, CurvePoint, ErrorCount, FieldValue, Figure, Group, Interaction,
    InteractionRow, LimitCount, Range, Summary, VarianceShare,
};
pub use table::{PartError, Table};
pub use value::Value;

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
