//! This host today beside after the fixes, as rows for both layouts.

use crate::quantity;
use host::Bdf;
use host::diagnose::{DmaPath, LOAD_PER_SECOND, Outlook};
use std::collections::HashMap;
use toll::{figure, grouped, time};

/// Rows shown; those that change most come first.
const ROWS_MAX: usize = 8;

pub(crate) const TITLE: &str = "This host today and after the fixes";

/// Adapters that pay the same for the same I/O.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OutlookRow {
    /// The first of them, and how many more.
    pub(crate) adapters: String,
    /// The I/O.
    pub(crate) io: String,
    /// The DMA path of today.
    pub(crate) dma_path_today: DmaPath,
    /// What an I/O takes on it.
    pub(crate) today: String,
    /// The DMA path after the fixes.
    pub(crate) dma_path_after: DmaPath,
    /// What an I/O takes on that.
    pub(crate) after: String,
    /// The change of an I/O's time.
    pub(crate) change: String,
    /// The same of a CPU at the load.
    pub(crate) of_a_cpu: String,
}

/// The rows, and how many were left out.
pub(crate) fn rows<'o>(outlooks: impl IntoIterator<Item = &'o Outlook>) -> (Vec<OutlookRow>, usize) {
    let mut alike: Vec<(&Outlook, Vec<Bdf>)> = Vec::new();
    let mut places = HashMap::new();
    for one in outlooks {
        let ns = [one.today.ns.to_bits(), one.after.ns.to_bits()];
        let key = (one.io, one.only, one.today.dma_path, one.after.dma_path, ns);
        let place = *places.entry(key).or_insert(alike.len());
        match alike.get_mut(place) {
            Some((_, adapters)) => adapters.push(one.address),
            None => alike.push((one, vec![one.address])),
        }
    }
    alike.sort_by(|a, b| b.0.cpu_saved.abs().total_cmp(&a.0.cpu_saved.abs()));
    let left_out = alike.len().saturating_sub(ROWS_MAX);
    (alike.iter().take(ROWS_MAX).map(|(one, adapters)| row(one, adapters)).collect(), left_out)
}

fn row(one: &Outlook, adapters: &[Bdf]) -> OutlookRow {
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
        change: less(saved, &time(saved.abs())),
        of_a_cpu: less(one.cpu_saved, &format!("{} %", figure(one.cpu_saved.abs() * 100.0))),
    }
}

/// What is saved is written as less.
fn less(saved: f64, amount: &str) -> String {
    format!("{}{amount}", if saved > 0.0 { "-" } else { "+" })
}

/// The load that shares of a CPU are of.
pub(crate) fn load() -> String {
    format!("CPU at {}/s", grouped(u64::from(LOAD_PER_SECOND)))
}

/// What the figures are, and what is not in them.
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
        false => format!(" Not priced, and in neither: {}.", unpriced.join(", ")),
    };
    let more = match left_out {
        0 => String::new(),
        more => format!(" {} that change less are not shown.", quantity::count(more, "row")),
    };
    format!(
        "What an I/O takes of a CPU: counted on emulated machines, at the prices of {}. None of it was measured here; the \
         findings say what each price rests on.{without}{more}",
        escape::terminal::plain(&platforms.join(" and "))
    )
}
