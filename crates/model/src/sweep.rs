//! Many experiments from one file: a machine, and the fields of it that take several values. Every combination is a point, with
//! a place in a fixed order and a key that no other point has.

mod fields;
mod key;
mod plan;
mod shard;

pub use fields::Value;
pub use key::{Key, NotAKey, VERSION};
pub use plan::{Axis, POINTS_MAX, Plan, PlanError, Point};
pub use shard::{NotAShard, Shard};
