//! An inspection as an HTML document.

use super::document::document;
use super::facts::{definitions, more};
use super::{adapters, benchmark as bench, findings, outlook};
use crate::inspection::fold::{Folded, fold};
use crate::inspection::row::{self, Row};
use crate::inspection::{batch, headline, memory_types, summary, topology};
use crate::page::fact::Fact;
use crate::page::quantity;
use crate::page::shorten::capitalised;
use crate::render::svg;
use ::bench::Benchmark;
use escape::terminal::plain;
use host::Host;
use host::diagnose::Inspection;
use host::facts::numa::Node;
use host::tree::Reach;
use maud::{Markup, html};

/// Unread sources on the page.
const UNSEEN_MAX: usize = 1_000;

/// The page of a host; `made_by` names the program and its version.
pub fn page(inspection: &Inspection, made_by: &str) -> String {
    whole_page(inspection, None, made_by)
}

/// The page of a host, with a short benchmark that was run on it.
pub fn page_with_benchmark(inspection: &Inspection, benchmark: &Benchmark, made_by: &str) -> String {
    whole_page(inspection, Some(benchmark), made_by)
}

/// The page of a host, with or without a benchmark.
fn whole_page(inspection: &Inspection, benchmark: Option<&Benchmark>, made_by: &str) -> String {
    let rows = row::rows(inspection);
    let folded = fold(&inspection.findings);
    let verdict = headline::sentence(&rows, inspection, &folded);
    let host = &inspection.host;
    let body = html! {
        header {
            p.kicker { "iotoll · what each I/O costs on " (title(host)) }
            h1 { (capitalised(&verdict)) "." }
            (contents(inspection, &folded, benchmark.is_some()))
        }
        main {
            (findings::section(&folded))
            (findings::unjudged(&inspection.unjudged))
            (adapters::section(inspection, &rows))
            (dma_paths(inspection, &rows))
            (host_section(host))
            (outlook::section(&inspection.outlooks))
            @if let Some(benchmark) = benchmark { (bench::brief(benchmark)) }
            (unseen(host))
            (origin(host, made_by))
        }
    };
    document(&title(host), benchmark.map_or("", |_| svg::STYLE), &body)
}

/// The machine's name.
fn title(host: &Host) -> String {
    host.platform.machine.as_ref().map_or_else(|| "this host".to_owned(), |machine| plain(&machine.value))
}

/// Links to the parts of the page.
fn contents(inspection: &Inspection, findings: &[Folded<'_>], has_benchmark: bool) -> Markup {
    let unseen = !inspection.host.unseen.is_empty();
    html! {
        nav aria-label="Contents" {
            a href="#findings" { (capitalised(&headline::findings_count(findings))) }
            @if !inspection.unjudged.is_empty() { a href="#unjudged" { "Problems not judged" } }
            a href="#adapters" { "Adapters" }
            a href="#dma-paths" { "DMA paths" }
            a href="#host" { "Host" }
            @if !inspection.outlooks.is_empty() { a href="#outlook" { "After the fixes" } }
            @if has_benchmark { a href="#allocators" { "Allocators" } }
            @if unseen { a href="#unseen" { "Not seen" } }
        }
    }
}

/// The host in a few facts.
fn host_section(host: &Host) -> Markup {
    let mut facts = summary::facts(host);
    let nodes = &host.platform.nodes;
    // The first lines name the CPUs of few nodes, but no memory.
    let says_more_than_summary = nodes.len() > 4 || nodes.iter().any(|node| node.memory_kib.is_some());
    facts.extend(nodes.iter().filter(|_| nodes.len() > 1 && says_more_than_summary).map(node));
    let line = host.command_line.as_ref();
    facts.extend(line.map(|line| Fact::known("command line", &line.value).at(&line.at)));
    html! {
        section #host aria-labelledby="host-title" {
            h2 #host-title { "The host" }
            (definitions(&facts))
            @if let Some(section) = memory_types::section(host) {
                details {
                    summary { (section.title) }
                    (definitions(&section.facts))
                }
            }
        }
    }
}

/// A NUMA node with its CPUs and its memory.
fn node(node: &Node) -> Fact {
    let cpus = if node.cpus.is_empty() { "no CPUs".to_owned() } else { format!("CPUs {}", node.cpus) };
    let memory = node.memory_kib.map(|kib| quantity::bytes(kib.saturating_mul(1024)));
    let memory = memory.map(|memory| format!(", {memory}")).unwrap_or_default();
    Fact::known(&format!("NUMA node {}", node.number), &format!("{cpus}{memory}"))
}

/// The legend of DMA paths, and the trees of bridges.
fn dma_paths(inspection: &Inspection, rows: &[Row]) -> Markup {
    let trees = topology::trees(&inspection.host, rows);
    let depth = trees.iter().map(topology::Node::depth).max().unwrap_or(0);
    let unbound = row::unbound(inspection);
    html! {
        section #dma-paths aria-labelledby="dma-paths-title" {
            h2 #dma-paths-title { "DMA paths to memory" }
            (legend(rows))
            @for tree in &trees {
                @if tree.count > 1 {
                    p.remark { (tree.count) " root buses look the same, " (tree.label) " to " (tree.last_label) ": one is drawn." }
                }
                (svg::tree(tree, depth))
            }
            @if trees.iter().any(|tree| tree.adapters() != card_count(tree)) {
                p.remark { "Siblings that look the same are drawn once, with their number." }
            }
            @if unbound > 0 {
                p.remark { (quantity::count(unbound, "function")) " without a driver, not drawn: no DMA." }
            }
        }
    }
}

/// The number of cards that are drawn for a node.
fn card_count(node: &topology::Node) -> usize {
    if node.children.is_empty() { 1 } else { node.children.iter().map(card_count).sum() }
}

/// The DMA paths in use, each with the number of adapters and the cost per I/O.
fn legend(rows: &[Row]) -> Markup {
    html! {
        table.legend {
            caption { "DMA paths in use, worst first, and the cost of one I/O on each" }
            thead { tr { th scope="col" { "DMA path" } th.number scope="col" { "adapters" } th scope="col" { "toll of one I/O" } } }
            tbody {
                @for (dma_path, count) in batch::dma_paths(rows) {
                    tr {
                        th scope="row" { (svg::swatch(dma_path)) (dma_path.word()) }
                        td.number { (quantity::grouped(count as u64)) }
                        td { (dma_path.toll()) }
                    }
                }
            }
        }
    }
}

/// What could not be read, why, and what would show it.
fn unseen(host: &Host) -> Markup {
    html! {
        @if !host.unseen.is_empty() {
            section #unseen aria-labelledby="unseen-title" {
                h2 #unseen-title { "Not seen" }
                table {
                    caption { "What could not be read, and what would show it" }
                    thead { tr { th scope="col" { "not known" } th scope="col" { "because" } th scope="col" { "would show it" } } }
                    tbody {
                        @for one in host.unseen.iter().take(UNSEEN_MAX) {
                            tr { td { (plain(&one.what)) } td { (plain(&one.why)) } td { (plain(&one.remedy)) } }
                        }
                    }
                }
                (more(host.unseen.len(), UNSEEN_MAX, "more source"))
            }
        }
    }
}

/// How the facts were obtained, and what they are worth.
fn origin(host: &Host, made_by: &str) -> Markup {
    let source = match host.reach {
        Reach::Live => "the running host itself",
        Reach::Capture => "a capture of the host: what was true when it was made",
    };
    html! {
        footer {
            h2 { "How this was obtained" }
            p { "Made by " (made_by) " from " (source) ". Files were read; nothing was changed, and nothing was measured." }
            p { "DMA paths and findings follow from the lines cited as evidence. Gains are figures of other machines, with their source: a direction and an order of magnitude, not a promise." }
        }
    }
}
