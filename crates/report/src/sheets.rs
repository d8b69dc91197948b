//! Toll sheets in words, and the pages of `iotoll lab`: one sheet, the same workload on several, two sheets' difference, and what can be run.

mod comparison;
pub(crate) mod control;
mod difference;
pub(crate) mod driver;
pub(crate) mod platform;
mod presets;
mod sheet;
pub(crate) mod words;

pub use comparison::toll_comparison;
pub use difference::toll_difference;
pub use presets::{LabPreset, lab_list};
pub use sheet::toll_sheet;
