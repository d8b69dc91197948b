//! This host today beside after the fixes.

use super::grid::{Grid, Row};
use super::page::Page;
use crate::outlook;
use host::diagnose::Outlook;

pub(super) fn show<'i>(page: &mut Page, outlooks: impl IntoIterator<Item = &'i Outlook> + Clone) {
    let (rows, left_out) = outlook::rows(outlooks.clone());
    if rows.is_empty() {
        return;
    }
    page.heading(outlook::TITLE);
    let titles = ["today", "after", "change", &outlook::load(), "DMA path after"].map(str::to_owned).to_vec();
    let rows = rows.into_iter().map(|row| Row {
        name: format!("{}: {}", row.adapters, row.io),
        ink: None,
        cells: vec![row.today, row.after, row.change, row.of_a_cpu, row.dma_path_after.word().to_owned()],
    });
    Grid { names: "I/O", titles, rows: rows.collect() }.show(page);
    page.prose(&outlook::legend(outlooks, left_out), 2);
}
