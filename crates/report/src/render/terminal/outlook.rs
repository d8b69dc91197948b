//! What I/Os cost today and after the fixes, on a terminal.

use super::screen::Screen;
use crate::inspection::outlook;
use crate::page::table::{Row, Table};
use host::diagnose::Outlook;

/// Writes the table, if any fix changes what an I/O costs.
pub(super) fn show<'i>(screen: &mut Screen, outlooks: impl IntoIterator<Item = &'i Outlook> + Clone) {
    let (rows, left_out) = outlook::largest_changes(outlooks.clone());
    if rows.is_empty() {
        return;
    }
    screen.heading(outlook::TITLE);
    let titles = ["today", "after", "change", "of a CPU", "DMA path after"].map(str::to_owned).to_vec();
    let rows = rows.into_iter().map(|row| Row {
        name: format!("{}: {}", row.adapters, row.io),
        ink: None,
        cells: vec![row.today, row.after, row.change, row.of_a_cpu, row.dma_path_after.word().to_owned()],
    });
    screen.table(&Table { names: "I/O", wraps_names: false, titles, rows: rows.collect() });
    screen.prose(&outlook::legend(outlooks, left_out), 2);
}
