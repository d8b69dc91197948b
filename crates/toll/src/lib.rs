//! The types that iotoll's crates share: DMA paths, toll sheets, price lists and evidence.
//!
//! The toll is the cost of one I/O on its [`DmaPath`]: instructions by [`Stage`] and function, and [`Event`]s such as hypercalls and
//! invalidations. A [`TollSheet`] has the tolls of all workloads of one preset and kernel. It is rejected when read if its sums do not
//! add up.
//!
//! - [`compare()`] finds the counts that changed from one sheet to another.
//! - [`toll_over`] is the cost that a DMA path adds, compared with an untranslated one.
//! - A [`PriceList`] turns counts into CPU time on one platform, an [`Expense`].
//! - Every number has its [`Evidence`], from its origin to every output.
//!
//! Nothing here opens a file, and nothing measures.
//!
//! Enumerations of the schema ([`Stage`], [`Event`], [`DmaPath`], [`Evidence`] and others) are exhaustive: a new variant comes with a new
//! number of the schema, and the compiler then shows each place that has to handle it. Errors are not exhaustive.

mod amount;
mod boot;
mod change_row;
mod compare;
mod count;
mod difference;
mod dma_path;
mod emulated_machine;
mod estimate;
mod event;
mod evidence;
mod expense;
mod flaw;
mod gain;
mod given;
mod limit;
mod price_list;
mod priced;
mod rows;
mod sheet;
mod spread;
mod stage;
mod toll;
mod toml_text;
mod toml_value;
mod written_table;

pub use amount::{figure, grouped, time, time_within};
pub use boot::{Boot, BootCounts, GuestProgram};
pub use change_row::{ChangeKind, ChangeRow};
pub use compare::{Change, Changed, Side, compare, grew};
pub use count::{Average, Count};
pub use difference::{Difference, EventDifference, toll_over, untranslated};
pub use dma_path::{DmaPath, UnknownDmaPath};
pub use emulated_machine::{EmulatedMachine, KernelId};
pub use estimate::Estimate;
pub use event::{Event, Occurrence, Tally};
pub use evidence::Evidence;
pub use expense::{Charge, Expense};
pub use flaw::{Flaw, Part};
pub use gain::Gain;
pub use given::Given;
pub use limit::{BadTolerance, Limit, Tolerance};
pub use price_list::{PriceList, PriceListError};
pub use priced::Priced;
pub use sheet::{SheetError, SheetSchema, TollSheet};
pub use spread::Spread;
pub use stage::Stage;
pub use toll::Toll;
pub use toml_text::{TomlProblem, TomlText};
pub use written_table::{FieldProblem, WrittenTable};

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
