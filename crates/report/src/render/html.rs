//! Self-contained HTML documents: one file each, no script, nothing loaded.

mod adapters;
mod benchmark;
mod document;
mod facts;
mod findings;
mod inspection;
mod outlook;
mod page;
mod tolls;

pub use self::benchmark::benchmark_page;
pub use self::page::html;
pub use inspection::{page as inspection_page, page_with_benchmark};
pub use tolls::toll_page;
