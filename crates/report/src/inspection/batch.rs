//! Adapters that are alike, batched into one line: a thousand adapters are still one page.

use crate::inspection::row::Row;
use crate::page::quantity;
use host::diagnose::DmaPath;
use std::collections::BTreeMap;

/// Up to this number, adapters are shown one by one.
pub(crate) const SINGLE_MAX: usize = 24;

/// Adapters on the same DMA path and of the same kind, driver and chip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Batch {
    /// What they have in common; where numbers differ, the least and the greatest.
    pub(crate) row: Row,
    /// How many they are.
    pub(crate) count: usize,
    /// Their addresses: the only one, or the first and the last.
    pub(crate) addresses: String,
    /// Their names, and the names of their chips.
    pub(crate) called: String,
}

/// One batch for each row, or one for adapters that are alike if there are more than [`SINGLE_MAX`].
pub(crate) fn batches(rows: &[Row]) -> Vec<Batch> {
    if rows.len() <= SINGLE_MAX {
        return singles(rows);
    }
    let mut alike: BTreeMap<_, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let texts = (row.condition.as_str(), row.kind, row.driver.as_str(), row.device.as_str());
        let key = (crate::page::cost::rank(row.dma_path), texts);
        alike.entry(key).or_default().push(row);
    }
    alike.values().filter_map(|rows| batch_of(rows)).collect()
}

/// One batch for each row.
pub(crate) fn singles(rows: &[Row]) -> Vec<Batch> {
    rows.iter().filter_map(|row| batch_of(&[row])).collect()
}

/// The batch of these rows; `None` if there are none.
fn batch_of(rows: &[&Row]) -> Option<Batch> {
    let (first, rest) = rows.split_first()?;
    let last = rest.last().unwrap_or(first);
    let common = |text: fn(&Row) -> &str| common_text(rows.iter().map(|row| text(row)));
    let row = Row {
        mask: common(|row| &row.mask),
        group: common(|row| &row.group),
        numa: common(|row| &row.numa),
        link: common_link(rows),
        findings: rows
            .iter()
            .fold(Default::default(), |sum: crate::inspection::row::Findings, row| sum.and(row.findings)),
        ..(*first).clone()
    };
    Some(Batch {
        count: rows.len(),
        addresses: match rest.is_empty() {
            true => first.address.to_string(),
            false => format!("{} … {}", first.address, last.address),
        },
        called: names(rows),
        row,
    })
}

/// All names of a single adapter; `512 × PM1733 · nvme0 … nvme511` for several.
fn names(rows: &[&Row]) -> String {
    let first_name = |row: &&Row| row.interfaces.first().cloned();
    match rows {
        [] => String::new(),
        [row] => match row.interfaces.is_empty() {
            true => row.device.clone(),
            false => format!("{} · {}", row.display_name(), row.device),
        },
        [first, .., last] => {
            let names = first_name(first).zip(first_name(last));
            let names = names.map(|(first, last)| format!(" · {first} … {last}")).unwrap_or_default();
            format!("{} × {}{names}", quantity::grouped(rows.len() as u64), first.device)
        }
    }
}

/// The text that all rows share; else `0–3` for numbers, and `differ` for other texts.
fn common_text<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let texts: Vec<&str> = texts.collect();
    let numbers: Option<Vec<u64>> = texts.iter().map(|text| text.parse().ok()).collect();
    match (numbers.as_deref(), texts.as_slice()) {
        (_, []) => String::new(),
        (_, [first, rest @ ..]) if rest.iter().all(|text| text == first) => (*first).to_owned(),
        (Some(numbers), _) => {
            let (least, most) = (numbers.iter().min(), numbers.iter().max());
            least.zip(most).map_or_else(String::new, |(least, most)| format!("{least}–{most}"))
        }
        (None, _) => "differ".to_owned(),
    }
}

/// The most common link, with how many adapters have it and how many other links there are.
fn common_link(rows: &[&Row]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows {
        *counts.entry(&row.link).or_default() += 1;
    }
    let most = counts.iter().max_by_key(|(_, count)| **count);
    match (most, counts.len()) {
        (Some((link, _)), 1) => (*link).to_owned(),
        (Some((link, count)), kinds) => {
            let link = if link.is_empty() { "link unknown" } else { link };
            format!("{count} × {link}, {} other", quantity::grouped(kinds as u64 - 1))
        }
        (None, _) => String::new(),
    }
}

/// The DMA paths in use, worst first, with the number of adapters on each.
pub(crate) fn dma_paths(rows: &[Row]) -> Vec<(DmaPath, usize)> {
    let count = |dma_path| rows.iter().filter(|row| row.dma_path == dma_path).count();
    crate::page::cost::worst_first()
        .map(|dma_path| (dma_path, count(dma_path)))
        .filter(|(_, count)| *count > 0)
        .collect()
}
