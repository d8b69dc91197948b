//! Results for people: terminal text and self-contained HTML pages.
//!
//! ```text
//! facts, verdicts, measurements, models
//!   │   inspection, sheets, benchmarks, answers, reproductions    what is said, each thing once
//!   ▼
//! page::Page                                                      blocks in reading order
//!   │   render::{terminal, html, svg}                             how it looks
//!   ▼
//! text, HTML, SVG
//! ```
//!
//! Nothing here opens a file or draws a conclusion: facts and verdicts are those of `host`. An inspection is laid out straight from
//! `inspection`, since a terminal and HTML show its tables, trees and findings differently; all other reports are a [`Page`].
//!
//! Text that comes from a host is hostile until shown otherwise: `escape::terminal::plain` takes control characters
//! out of it before it is painted, and maud escapes it for HTML.

mod answers;
mod benchmarks;
mod evidence_share;
#[cfg(feature = "fleet")]
mod fleet_summary;
mod inspection;
mod page;
mod render;
mod reproductions;
mod sheets;
#[cfg(feature = "sweep")]
mod sweep_summary;

pub use answers::{
    adapters_answer, block_answer, flash_array_answer, hosts_answer, memory_answer, model_answer,
};
pub use benchmarks::{
    benchmark, benchmark_brief, blk_benchmark, comparison, map_benchmark, map_threads, map_threads_drawing,
    memtype_benchmark, net_benchmark, transfer_benchmark, watch, watch_interval, watch_interval_title,
};
#[cfg(feature = "fleet")]
pub use fleet_summary::fleet_summary;
pub use inspection::{
    BlockAdapter, BlockDisk, ControllerLog, ControllerUpkeep, LogEntry, LogGroup, UpkeepSection,
    block_adapters, controller_log, controller_upkeep, memory_range, mtrr_plan,
};
pub use page::Page;
pub use page::drawing::Drawing;
pub use page::length::{LINES_MAX, Length};
pub use page::quantity::count;
pub use render::html::{benchmark_page, html, inspection_page, page_with_benchmark, toll_page};
pub use render::svg::svg_file;
pub use render::terminal::inspection::{adapter, inspection};
pub use render::terminal::style::Style;
pub use render::terminal::text;
pub use reproductions::{Stories, drawings, reproductions};
pub use sheets::{LabPreset, lab_list, toll_comparison, toll_difference, toll_sheet};
#[cfg(feature = "sweep")]
pub use sweep_summary::sweep_summary;

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
