//! Adapters that are alike, in one line: a thousand of them are still a page.

use crate::quantity;
use crate::row::Row;
use host::diagnose::DmaPath;
use std::collections::BTreeMap;

/// Up to this many adapters are shown one by one.
pub(crate) const SINGLE_MAX: usize = 24;

/// Adapters on the same DMA path and of the same kind, driver and chip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Batch {
    /// What they have in common; of what differs, from where to where.
    pub(crate) row: Row,
    /// How many they are.
    pub(crate) count: usize,
    /// Their addresses: the only one, or the first and the last.
    pub(crate) addresses: String,
    /// Their names.
    pub(crate) called: String,
}

/// One batch for each row, or fewer where there are too many to look at.
pub(crate) fn batches(rows: &[Row]) -> Vec<Batch> {
    if rows.len() <= SINGLE_MAX {
        return singles(rows);
    }
    let mut alike: BTreeMap<_, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let key = (crate::cost::rank(row.dma_path), row.kind, row.driver.as_str(), row.device.as_str());
        alike.entry(key).or_default().push(row);
    }
    alike.values().filter_map(|rows| together(rows)).collect()
}

/// One batch for each row.
pub(crate) fn singles(rows: &[Row]) -> Vec<Batch> {
    rows.iter().filter_map(|row| together(&[row])).collect()
}

fn together(rows: &[&Row]) -> Option<Batch> {
    let (first, rest) = rows.split_first()?;
    let last = rest.last().unwrap_or(first);
    let common = |text: fn(&Row) -> &str| spread(rows.iter().map(|row| text(row)));
    let row = Row {
        mask: common(|row| &row.mask),
        group: common(|row| &row.group),
        numa: common(|row| &row.numa),
        link: links(rows),
        findings: rows
            .iter()
            .fold(Default::default(), |sum: crate::row::Findings, row| sum.and(row.findings)),
        ..(*first).clone()
    };
    Some(Batch {
        count: rows.len(),
        addresses: match rest.is_empty() {
            true => first.address.to_string(),
            false => format!("{} … {}", first.address, last.address),
        },
        called: called(rows),
        row,
    })
}

/// `nvme0 … nvme511` of many, else all names of the one.
fn called(rows: &[&Row]) -> String {
    let first_name = |row: &&Row| row.interfaces.first().cloned();
    match rows {
        [] => String::new(),
        [row] => match row.interfaces.is_empty() {
            true => row.device.clone(),
            false => format!("{} · {}", row.called(), row.device),
        },
        [first, .., last] => {
            let names = first_name(first).zip(first_name(last));
            let names = names.map(|(first, last)| format!(" · {first} … {last}")).unwrap_or_default();
            format!("{} × {}{names}", quantity::grouped(rows.len() as u64), first.device)
        }
    }
}

/// Numbers from the least to the greatest, other texts as they are if they are all the same.
fn spread<'a>(texts: impl Iterator<Item = &'a str>) -> String {
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

/// The most common link, with how many have it.
fn links(rows: &[&Row]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows {
        *counts.entry(&row.link).or_default() += 1;
    }
    let most = counts.iter().max_by_key(|(_, count)| **count);
    match (most, counts.len()) {
        (Some((link, _)), 1) => (*link).to_owned(),
        (Some((link, count)), kinds) => {
            let link = if link.is_empty() { "none told" } else { link };
            format!("{count} × {link}, {} other", quantity::grouped(kinds as u64 - 1))
        }
        (None, _) => String::new(),
    }
}

/// DMA paths that occur, worst first, with how many adapters are on each.
pub(crate) fn dma_paths(rows: &[Row]) -> Vec<(DmaPath, usize)> {
    let count = |dma_path| rows.iter().filter(|row| row.dma_path == dma_path).count();
    crate::cost::worst_first()
        .map(|dma_path| (dma_path, count(dma_path)))
        .filter(|(_, count)| *count > 0)
        .collect()
}
