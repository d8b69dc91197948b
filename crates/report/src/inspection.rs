//! A host in words: what an inspection found, put the same way for a terminal and for HTML.
//!
//! Nothing here opens a file or draws a conclusion: facts and verdicts are those of `host`. Text that comes from a host is
//! hostile until shown otherwise, so `escape::terminal::plain` takes control characters out of it.

pub(crate) mod adapter;
pub(crate) mod batch;
mod controller_upkeep;
pub(crate) mod fold;
pub(crate) mod footnotes;
pub(crate) mod headline;
mod link_text;
mod memory_range;
pub(crate) mod memory_types;
mod mtrr_plan;
mod nvme_controllers;
pub(crate) mod outlook;
pub(crate) mod row;
pub(crate) mod summary;
pub(crate) mod topology;

pub use controller_upkeep::{ControllerUpkeep, UpkeepSection, controller_upkeep};
pub use memory_range::memory_range;
pub use mtrr_plan::mtrr_plan;
pub use nvme_controllers::{
    BlockAdapter, BlockDisk, ControllerLog, LogEntry, LogGroup, block_adapters, controller_log,
};
