//! The words that iotoll's parts share.
//!
//! A number without its origin is worth nothing to the people who read ours, so the first word is
//! [`Evidence`]: every figure carries one, from where it was obtained to every output it appears in.
//!
//! What I/Os pay on a [`DmaPath`] is written on a [`TollSheet`], one document per preset and kernel: the
//! instructions of each [`Stage`] and function, and every [`Event`] that instructions don't show. Sheets
//! whose sums don't hold are refused when read. [`compare()`] says what grew from one sheet to another,
//! [`toll_over`] what a DMA path costs more than one without translation. A [`PriceList`] says what it comes to in
//! time on one platform: an [`Expense`].
//!
//! Nothing here opens a file, and nothing measures.

mod amount;
mod compare;
mod count;
mod difference;
mod dma_path;
mod event;
mod evidence;
mod expense;
mod flaw;
mod gain;
mod given;
mod limit;
mod machine;
mod price_list;
#[cfg(test)]
mod schema;
mod sheet;
mod spread;
mod stage;
mod toll;
mod toml_text;

pub use amount::{figure, grouped, time};
pub use compare::{Change, Changed, Side, compare, grew};
pub use count::{Average, Count};
pub use difference::{Difference, EventDifference, toll_over, untranslated};
pub use dma_path::{DmaPath, UnknownDmaPath};
pub use event::{Event, Occurrence, Tally};
pub use evidence::Evidence;
pub use expense::{Charge, Expense};
pub use flaw::{Flaw, Part};
pub use gain::Gain;
pub use given::Given;
pub use limit::{BadTolerance, Limit, Tolerance};
pub use machine::{KernelId, Machine};
pub use price_list::{PriceList, PriceListError};
pub use sheet::{SheetError, SheetSchema, TollSheet};
pub use spread::Spread;
pub use stage::Stage;
pub use toll::Toll;
pub use toml_text::{TomlProblem, TomlText};
