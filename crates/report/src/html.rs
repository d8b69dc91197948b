//! Results as self-contained pages; here, an inspection.

mod adapters;
mod bench;
mod document;
mod findings;
mod outlook;
mod reproduction;
mod tolls;

pub use self::bench::benchmark_page;
pub use reproduction::{chart_drawing, curve_drawing, reproduction_page};
pub use tolls::toll_page;

use crate::fact::{Fact, Section, Value};
use crate::length::MORE_IN_JSON;
use crate::row::Row;
use crate::{batch, headline, memory_types, quantity, row, summary, svg, topology};
use ::bench::Benchmark;
use document::document;
use escape::terminal::plain;
use host::Host;
use host::diagnose::Inspection;
use host::facts::numa::Node;
use host::tree::Reach;
use maud::{Markup, html};

/// Facts of a list.
const FACTS_MAX: usize = 1_000;
/// Sources that were not seen.
const UNSEEN_MAX: usize = 1_000;

/// The page of a host; `made_by` names the program and its version.
pub fn page(inspection: &Inspection, made_by: &str) -> String {
    whole(inspection, None, made_by)
}

/// The page of a host, with what was measured on it for a moment.
pub fn page_with_benchmark(inspection: &Inspection, benchmark: &Benchmark, made_by: &str) -> String {
    whole(inspection, Some(benchmark), made_by)
}

fn whole(inspection: &Inspection, benchmark: Option<&Benchmark>, made_by: &str) -> String {
    let rows = row::rows(inspection);
    let verdict = headline::sentence(&rows, inspection);
    let host = &inspection.host;
    let body = html! {
        header {
            p.kicker { "iotoll · what each I/O pays on " (title(host)) }
            h1 { (capitalised(&verdict)) "." }
            (contents(inspection, benchmark.is_some()))
        }
        main {
            (the_host(host))
            (dma_paths(inspection, &rows))
            (adapters::section(inspection, &rows))
            (outlook::section(&inspection.outlooks))
            (findings::section(&inspection.findings))
            @if let Some(benchmark) = benchmark { (self::bench::brief(benchmark)) }
            (unseen(host))
            (origin(host, made_by))
        }
    };
    document(&title(host), benchmark.map_or("", |_| self::bench::STYLE), &body)
}

fn title(host: &Host) -> String {
    host.platform.machine.as_ref().map_or_else(|| "this host".to_owned(), |machine| plain(&machine.value))
}

fn capitalised(sentence: &str) -> String {
    let mut chars = sentence.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

fn contents(inspection: &Inspection, has_benchmark: bool) -> Markup {
    let unseen = !inspection.host.unseen.is_empty();
    html! {
        nav aria-label="Contents" {
            a href="#dma-paths" { "DMA paths" }
            a href="#adapters" { "Adapters" }
            @if !inspection.outlooks.is_empty() { a href="#outlook" { "After the fixes" } }
            a href="#findings" { (capitalised(&headline::count(&inspection.findings))) }
            @if has_benchmark { a href="#allocators" { "Allocators" } }
            @if unseen { a href="#unseen" { "Not seen" } }
        }
    }
}

fn the_host(host: &Host) -> Markup {
    let mut facts = summary::facts(host);
    let nodes = &host.platform.nodes;
    // The first lines name the CPUs of few nodes, but no memory.
    let says_more = nodes.len() > 4 || nodes.iter().any(|node| node.memory_kib.is_some());
    facts.extend(nodes.iter().filter(|_| nodes.len() > 1 && says_more).map(node));
    let line = host.command_line.as_ref();
    facts.extend(line.map(|line| Fact::known("command line", &line.value).at(&line.at)));
    html! {
        section #host aria-labelledby="host-title" {
            h2 #host-title { "The host" }
            (definitions(&facts))
            @if let Some(section) = memory_types::section(host) {
                h3 { (section.title) }
                (definitions(&section.facts))
            }
        }
    }
}

fn node(node: &Node) -> Fact {
    let cpus = if node.cpus.is_empty() { "no CPUs".to_owned() } else { format!("CPUs {}", node.cpus) };
    let memory = node.memory_kib.map(|kib| quantity::bytes(kib.saturating_mul(1024)));
    let memory = memory.map(|memory| format!(", {memory}")).unwrap_or_default();
    Fact::known(&format!("NUMA node {}", node.number), &format!("{cpus}{memory}"))
}

/// Facts as a list of terms; absent and unknown ones are marked as such.
fn definitions(facts: &[Fact]) -> Markup {
    html! {
        dl {
            @for fact in facts.iter().take(FACTS_MAX) {
                div {
                    dt { (fact.label) }
                    dd title=[fact.at.as_ref().map(|at| plain(&at.to_string()))] { (value(&fact.value)) }
                }
            }
        }
    }
}

/// How many more there are than the page has.
fn more(count: usize, shown_max: usize, of_what: &str) -> Markup {
    html! {
        @if count > shown_max {
            p.remark { "And " (quantity::count(count - shown_max, of_what)) ": " (MORE_IN_JSON) "." }
        }
    }
}

fn value(value: &Value) -> Markup {
    match value {
        Value::Known(text) => html! { (text) },
        Value::Absent(text) => html! { span.absent { (text) } },
        Value::Unknown(why) => html! { span.unknown { "unknown" } " " span.absent { "(" (why) ")" } },
    }
}

fn sheet(sections: &[Section]) -> Markup {
    html! {
        div.sheet {
            @for section in sections {
                div { h4 { (section.title) } (definitions(&section.facts)) }
            }
        }
    }
}

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
            @if trees.iter().any(|tree| tree.adapters() != leaves(tree)) {
                p.remark { "Siblings that look the same are drawn once, with their number." }
            }
            @if unbound > 0 {
                p.remark { (quantity::count(unbound, "function")) " without a driver, not drawn: no DMA." }
            }
        }
    }
}

fn leaves(node: &topology::Node) -> usize {
    if node.children.is_empty() { 1 } else { node.children.iter().map(leaves).sum() }
}

fn legend(rows: &[Row]) -> Markup {
    html! {
        table.legend {
            caption { "DMA paths in use, worst first, and what one I/O pays on each" }
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
