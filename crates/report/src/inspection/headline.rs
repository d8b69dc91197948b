//! The verdict on a host in one sentence.

use super::batch;
use super::fold::Folded;
use super::row::Row;
use crate::page::quantity;
use escape::terminal::plain;
use host::Host;
use host::diagnose::{DmaPath, Inspection, Severity};

/// DMA paths named in the sentence, the costliest ones.
const DMA_PATHS_MAX: usize = 2;

/// Doubts named in the sentence; the report lists all of them under "Not seen".
const DOUBTS_MAX: usize = 2;

/// `IOMMU strict mode on 4 of 5 adapters: every unmap waits for an IOTLB flush; 3 findings, 1 of them critical`.
pub(crate) fn sentence(rows: &[Row], inspection: &Inspection, findings: &[Folded<'_>]) -> String {
    let host = &inspection.host;
    let dma_paths = match host.adapters.is_empty() && host.bridges.is_empty() {
        true => "what was read names no PCI function".to_owned(),
        false => costliest_modes(rows),
    };
    let unjudged = match inspection.unjudged.len() {
        0 => String::new(),
        count => format!("; {} in the log, not judged", quantity::count(count, "problem")),
    };
    let sentence = format!("{dma_paths}; {}{unjudged}", findings_count(findings));
    match doubts(host) {
        Some(doubts) => format!("{sentence}; {doubts}"),
        None => sentence,
    }
}

/// `may be wrong: proc/cmdline could not be read (permission denied)`; `None` if every file that decides was read.
pub(crate) fn doubts(host: &Host) -> Option<String> {
    let all: Vec<String> = host.doubts().map(|doubt| plain(&doubt)).collect();
    let shown = all.get(..all.len().min(DOUBTS_MAX))?;
    let rest = all.len() - shown.len();
    let more = if rest > 0 {
        format!("; and {} more, see \"Not seen\"", quantity::grouped(rest as u64))
    } else {
        String::new()
    };
    (!all.is_empty()).then(|| format!("may be wrong: {}{more}", shown.join("; ")))
}

/// The costliest modes in use, each with its number of adapters.
fn costliest_modes(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "no adapter with a driver was seen".to_owned();
    }
    let found = batch::dma_paths(rows);
    let all = rows.len();
    let paying: Vec<String> = found
        .iter()
        .filter_map(|(dma_path, count)| Some((mode_and_cost(*dma_path)?, *count, condition(rows, *dma_path))))
        .take(DMA_PATHS_MAX)
        .map(|((mode, cost), count, condition)| {
            format!("{mode}{condition} on {}: {cost}", adapters_of_all(count, all))
        })
        .collect();
    if !paying.is_empty() {
        return paying.join("; ");
    }
    let which =
        if all == 1 { "the only adapter" } else { &format!("any of {}", quantity::count(all, "adapter")) };
    let is_conditional = rows.iter().any(|row| !row.condition.is_empty());
    let condition = if is_conditional { ", on a condition" } else { "" };
    format!("no IOMMU mapping per I/O on {which}{condition}")
}

/// That a DMA path holds on a condition, for some adapter.
fn condition(rows: &[Row], dma_path: DmaPath) -> &'static str {
    let is_conditional = |row: &&Row| row.dma_path == dma_path && !row.condition.is_empty();
    if rows.iter().any(|row| is_conditional(&row)) { ", on a condition," } else { "" }
}

/// `4 of 5 adapters`
fn adapters_of_all(count: usize, all: usize) -> String {
    let of_all = quantity::count(all, "adapter");
    match (count, all) {
        (1, 1) => "the only adapter".to_owned(),
        (2, 2) => "both adapters".to_owned(),
        _ if count == all => format!("all {of_all}"),
        _ => format!("{} of {of_all}", quantity::grouped(count as u64)),
    }
}

/// A DMA path's mode and its cost per I/O, in words; `None` if it costs nothing per I/O.
fn mode_and_cost(dma_path: DmaPath) -> Option<(&'static str, &'static str)> {
    match dma_path {
        DmaPath::Unknown => Some(("DMA path unknown", "what was read does not tell it")),
        DmaPath::Bounce => Some(("bounce buffers", "data are copied")),
        DmaPath::TranslatedStrict => Some(("IOMMU strict mode", "every unmap waits for an IOTLB flush")),
        DmaPath::TranslatedLazy => {
            Some(("IOMMU lazy mode", "every I/O is mapped, IOTLB flushes are batched"))
        }
        DmaPath::TceWindow => Some(("default 32-bit DMA window", "every mapping is a hypercall")),
        DmaPath::DynamicWindow => Some(("dynamic DMA window", "every mapping is a hypercall")),
        DmaPath::NoIommu | DmaPath::Identity | DmaPath::DirectWindow | DmaPath::User | DmaPath::Unbound => {
            None
        }
    }
}

/// `3 findings, 1 of them critical`: alike ones of several adapters count once, as they are listed.
pub(crate) fn findings_count(findings: &[Folded<'_>]) -> String {
    let critical = findings.iter().filter(|folded| folded.finding.severity == Severity::Critical).count();
    match (findings.len(), critical) {
        (0, _) => "no findings".to_owned(),
        (all, 0) => quantity::count(all, "finding"),
        (1, _) => "1 finding, and it is critical".to_owned(),
        (all, critical) => format!(
            "{}, {} of them critical",
            quantity::count(all, "finding"),
            quantity::grouped(critical as u64)
        ),
    }
}
