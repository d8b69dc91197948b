//! The table of I/O costs today and after the fixes, for terminals and HTML.

use crate::page::quantity;
use host::Bdf;
use host::diagnose::{DmaPath, LOAD_PER_SECOND, Outlook};
use std::collections::HashMap;
use toll::{figure, grouped, time};

/// Rows shown, those that change most.
const ROWS_MAX: usize = 8;

pub(crate) const TITLE: &str = "This host today and after the fixes";

/// A row of the table: adapters that have the same costs for the same I/O.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OutlookRow {
    /// The first of them, and how many more there are: `0000:3b:00.0 +3`.
    pub(crate) adapters: String,
    /// The I/O.
    pub(crate) io: String,
    /// The DMA path of today.
    pub(crate) dma_path_today: DmaPath,
    /// The CPU time of an I/O on it.
    pub(crate) today: String,
    /// The DMA path after the fixes.
    pub(crate) dma_path_after: DmaPath,
    /// The CPU time of an I/O on it.
    pub(crate) after: String,
    /// The change of an I/O's CPU time.
    pub(crate) change: String,
    /// The change as a share of a CPU at [`LOAD_PER_SECOND`].
    pub(crate) of_a_cpu: String,
}

/// The rows of the largest changes, up to [`ROWS_MAX`], and the number of rows left out.
pub(crate) fn largest_changes<'o>(
    outlooks: impl IntoIterator<Item = &'o Outlook>,
) -> (Vec<OutlookRow>, usize) {
    let mut same: Vec<(&Outlook, Vec<Bdf>)> = Vec::new();
    let mut places = HashMap::new();
    for one in outlooks {
        let ns = [one.today.ns.to_bits(), one.after.ns.to_bits()];
        let key = (one.io, one.only, one.today.dma_path, one.after.dma_path, ns);
        let place = *places.entry(key).or_insert(same.len());
        match same.get_mut(place) {
            Some((_, adapters)) => adapters.push(one.address),
            None => same.push((one, vec![one.address])),
        }
    }
    same.sort_by(|a, b| b.0.cpu_saved.abs().total_cmp(&a.0.cpu_saved.abs()));
    let left_out = same.len().saturating_sub(ROWS_MAX);
    (same.iter().take(ROWS_MAX).map(|(one, adapters)| outlook_row(one, adapters)).collect(), left_out)
}

/// The row of adapters that have the same costs for the same I/O.
fn outlook_row(one: &Outlook, adapters: &[Bdf]) -> OutlookRow {
    let more = match adapters.len() - 1 {
        0 => String::new(),
        more => format!(" +{}", grouped(more as u64)),
    };
    let saved = one.today.ns - one.after.ns;
    OutlookRow {
        adapters: format!("{}{more}", adapters.first().map(Bdf::to_string).unwrap_or_default()),
        io: format!("{}{}", one.io, if one.only.is_some() { ", beyond mask" } else { "" }),
        dma_path_today: one.today.dma_path,
        today: time(one.today.ns),
        dma_path_after: one.after.dma_path,
        after: time(one.after.ns),
        change: change_text(saved, &quantity::time_or_doubt(saved.abs(), one.half_width_ns)),
        of_a_cpu: change_text(one.cpu_saved, &format!("{} %", figure(one.cpu_saved.abs() * 100.0))),
    }
}

/// An amount with a minus if it is saved, else with a plus.
fn change_text(saved: f64, amount: &str) -> String {
    format!("{}{amount}", if saved > 0.0 { "-" } else { "+" })
}

/// The text below the table: where the figures come from, and what they leave out.
pub(crate) fn legend<'o>(outlooks: impl IntoIterator<Item = &'o Outlook>, left_out: usize) -> String {
    let (mut platforms, mut unpriced): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for one in outlooks {
        platforms.push(one.platform.clone());
        unpriced.extend(one.unpriced.iter().map(|event| event.word().replace('-', " ")));
    }
    for words in [&mut platforms, &mut unpriced] {
        words.sort_unstable();
        words.dedup();
    }
    let without = match unpriced.is_empty() {
        true => String::new(),
        false => format!(" Not included, because they have no price: {}.", unpriced.join(", ")),
    };
    let more = match left_out {
        0 => String::new(),
        more => format!(" {} that change less are not shown.", quantity::count(more, "row")),
    };
    format!(
        "CPU time of an I/O: counted on emulated machines, at the prices of {}; of a CPU: at {} such I/Os a second. None \
         of it was measured here; the findings say what each price rests on.{without}{more}",
        escape::terminal::plain(&platforms.join(" and ")),
        grouped(u64::from(LOAD_PER_SECOND))
    )
}
