//! The verdict in one sentence.

use crate::{batch, quantity, row::Row};
use escape::terminal::plain;
use host::Host;
use host::diagnose::{DmaPath, Finding, Inspection, Severity};

/// DMA paths named in the sentence; what pays most comes first.
const DMA_PATHS_MAX: usize = 2;

/// Doubts named in the sentence; all of them stand below it, under what was not seen.
const DOUBTS_MAX: usize = 2;

/// `2 of 5 adapters pay a hypercall for each mapping; 3 findings, 1 of them critical`.
pub(crate) fn sentence(rows: &[Row], inspection: &Inspection) -> String {
    let host = &inspection.host;
    let dma_paths = match host.adapters.is_empty() && host.bridges.is_empty() {
        true => "what was read names no PCI function".to_owned(),
        false => dma_paths(rows),
    };
    let said = format!("{dma_paths}; {}", count(&inspection.findings));
    match doubts(host) {
        Some(doubts) => format!("{said}; {doubts}"),
        None => said,
    }
}

/// `may be wrong: proc/cmdline could not be read (permission denied)`; `None` where all was read that decides.
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

fn dma_paths(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "no adapter with a driver was seen".to_owned();
    }
    let found = batch::dma_paths(rows);
    let all = rows.len();
    let paying: Vec<String> = found
        .iter()
        .filter_map(|(dma_path, count)| Some((toll(*dma_path)?, count)))
        .take(DMA_PATHS_MAX)
        .enumerate()
        .map(|(index, ((one, many), count))| match (index, *count) {
            (0, 2) if all == 2 => format!("both adapters {many}"),
            (0, 1) if all == 1 => format!("the only adapter {one}"),
            (0, 1) => format!("1 of {} {one}", quantity::count(all, "adapter")),
            (0, count) if count == all => format!("all {} {many}", quantity::count(all, "adapter")),
            (0, count) => {
                format!("{} of {} {many}", quantity::grouped(count as u64), quantity::count(all, "adapter"))
            }
            (_, 1) => format!("1 {one}"),
            (_, count) => format!("{} {many}", quantity::grouped(count as u64)),
        })
        .collect();
    match paying.is_empty() {
        true => match all {
            1 => "the only adapter pays nothing for address translation".to_owned(),
            2 => "neither of 2 adapters pays for address translation".to_owned(),
            _ => format!("none of {} pays for address translation", quantity::count(all, "adapter")),
        },
        false => paying.join(", "),
    }
}

/// What adapters on a DMA path do, for one and for several; `None` where nothing is paid per I/O.
fn toll(dma_path: DmaPath) -> Option<(&'static str, &'static str)> {
    match dma_path {
        DmaPath::Unknown => {
            Some(("can't be judged from what was readable", "can't be judged from what was readable"))
        }
        DmaPath::Bounce => Some((
            "has its data copied through bounce buffers",
            "have their data copied through bounce buffers",
        )),
        DmaPath::TranslatedStrict => {
            Some(("waits for an invalidation at each unmap", "wait for an invalidation at each unmap"))
        }
        DmaPath::TceWindow | DmaPath::DynamicWindow => {
            Some(("pays a hypercall for each mapping", "pay a hypercall for each mapping"))
        }
        DmaPath::TranslatedLazy => Some((
            "pays for a mapping at each I/O, invalidated in batches",
            "pay for a mapping at each I/O, invalidated in batches",
        )),
        DmaPath::NoIommu | DmaPath::Identity | DmaPath::DirectWindow | DmaPath::User | DmaPath::Unbound => {
            None
        }
    }
}

/// `3 findings, 1 of them critical`.
pub(crate) fn count(findings: &[Finding]) -> String {
    let critical = findings.iter().filter(|finding| finding.severity == Severity::Critical).count();
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
