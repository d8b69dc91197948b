//! The tables that are printed, in Markdown.

use crate::{Held, HeldHost};
use model::{Drift, Unsteady};
use std::collections::BTreeMap;

const COLUMNS: [&str; 3] = ["steady", "extended", "refused"];

/// How many hosts of each kind are steady in their first window, in a later one, or in none.
#[derive(Default)]
pub(crate) struct Table(BTreeMap<&'static str, BTreeMap<&'static str, u32>>);

impl Table {
    pub(crate) fn count(&mut self, kind: &'static str, column: &'static str) {
        *self.0.entry(kind).or_default().entry(column).or_default() += 1;
    }

    pub(crate) fn print(&self) {
        println!("| hosts | steady as given | extended | refused |\n|---|---:|---:|---:|");
        let cell = |row: &BTreeMap<&str, u32>, column| row.get(column).copied().unwrap_or_default();
        for (kind, row) in &self.0 {
            let [steady, extended, refused] = COLUMNS.map(|column| cell(row, column));
            println!("| {kind} | {steady} | {extended} | {refused} |");
        }
        let [steady, extended, refused] =
            COLUMNS.map(|column| self.0.values().map(|row| cell(row, column)).sum::<u32>());
        println!("| all | {steady} | {extended} | {refused} |\n");
    }
}

/// What drifts, without its numbers.
pub(crate) fn reason(unsteady: &Unsteady) -> String {
    let of = |drift: &Drift| match *drift {
        Drift::Nothing { unit } => format!("no {unit}"),
        Drift::Rate { unit, .. } => format!("{unit} differ"),
        Drift::Noise { unit, .. } => format!("too few {unit}"),
        Drift::Short { name, .. } => format!("{name} pass too seldom"),
        Drift::Level { name, .. } => format!("{name} pile up or run out"),
    };
    unsteady.drifts.iter().map(of).collect::<Vec<_>>().join(", ")
}

pub(crate) fn print_reasons(reasons: &BTreeMap<String, u32>) {
    if reasons.is_empty() {
        return;
    }
    println!("| refused because | hosts |\n|---|---:|");
    for (reason, hosts) in reasons {
        println!("| {reason} | {hosts} |");
    }
    println!();
}

/// Where a figure of a long run lies: within the interval of the short one, or how far from its mean.
fn place(held: &Held, long: f64) -> (bool, String) {
    let (Some(low), Some(high)) = (held.short.low, held.short.high) else {
        return (false, "no interval".to_owned());
    };
    let is_within = (low..=high).contains(&long);
    let off = 100.0 * (long / held.short.mean - 1.0);
    (is_within, if is_within { "within".to_owned() } else { format!("{off:+.2} %") })
}

/// A figure of the hosts that have it.
pub(crate) fn print_held(title: &str, all: &[HeldHost], of: impl Fn(&HeldHost) -> Option<&Held>) {
    println!(
        "\n| host: {title} | five seeds | the same, ten times as long | | fifty other seeds | |\n|---|---:|---:|---|---:|---|"
    );
    let (mut hosts, mut longer, mut more) = (0, 0, 0);
    for (host, held) in all.iter().filter_map(|host| Some((host, of(host)?))) {
        hosts += 1;
        let [(is_longer, longer_place), (is_more, more_place)] =
            [held.longer, held.more].map(|figure| place(held, figure));
        longer += u32::from(is_longer);
        more += u32::from(is_more);
        let half = held.short.half_width().unwrap_or_default();
        println!(
            "| {} {} | {:.6} ±{:.2} % | {:.6} | {longer_place} | {:.6} | {more_place} |",
            host.kind,
            host.number,
            held.short.mean,
            100.0 * half / held.short.mean,
            held.longer,
            held.more
        );
    }
    println!(
        "\nTen times as long: {longer} of {hosts} within the interval. Ten times as many seeds: {more} of {hosts}."
    );
}
