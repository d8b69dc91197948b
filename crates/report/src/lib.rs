//! Results for people: terminal tables and self-contained HTML pages.
//!
//! What both say is put into words once, in the modules named for it (`headline`, `summary`, `row`,
//! `fold`, `outlook`, `sheet`, `topology`; for toll sheets `platform`, `toll_text`); `terminal` and `html` only lay it out. Nothing here opens a file or
//! draws a conclusion: the facts and verdicts are `host`'s.
//!
//! Text that comes from a host is hostile until shown otherwise: `escape::terminal::plain` takes control characters
//! out of it before it is painted, and maud escapes it for HTML.

mod bars;
mod batch;
mod bench_text;
mod cost;
mod fact;
mod fold;
mod headline;
mod html;
mod length;
mod link_text;
mod memory_range;
mod memory_types;
mod mtrr_plan;
mod outlook;
mod platform;
mod plot;
mod quantity;
mod reproduction_text;
mod row;
mod sheet;
mod style;
mod summary;
mod svg;
mod terminal;
mod toll_text;
mod topology;
mod wrap;

pub use html::{
    benchmark_page, chart_drawing, curve_drawing, page, page_with_benchmark, reproduction_page, toll_page,
};
pub use length::{LINES_MAX, Length};
pub use memory_range::memory_range;
pub use mtrr_plan::mtrr_plan;
pub use style::Style;
pub use terminal::{
    BlockAdapter, BlockDisk, ControllerLog, LabPreset, LogEntry, adapter, adapters_answer, benchmark,
    benchmark_brief, blk_benchmark, block_adapters, block_answer, controller_log, flash_array_answer,
    hosts_answer, inspection, lab_list, map_benchmark, memory_answer, memtype_benchmark, model_answer,
    reproduction, toll_difference, toll_sheet, toll_table,
};
