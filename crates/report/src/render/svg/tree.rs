//! The PCI hierarchy as a tree: a root bus on the left, its adapters on the right.
//!
//! The page's style sheet has the colours, for light and for dark. The line's pattern, a mark and the DMA path's word say the
//! same as the colour.

use super::marks::{mark, severity_mark};
use crate::inspection::row::Row;
use crate::inspection::topology::{self, Body, Node};
use crate::page::cost::Cost;
use crate::page::quantity;
use host::diagnose::DmaPath;
use maud::{Markup, html};

/// From the middle of one adapter's card to the next, in units of the drawing as all lengths here.
const ROW: usize = 54;
/// Height of an adapter's card.
const CARD: usize = 42;
const CARD_WIDTH: usize = 372;
const BOX_WIDTH: usize = 112;
const BOX: usize = 36;
/// Between two columns, wide enough for a link's text.
const LINK_GAP: usize = 140;
/// Between a root bus and its ports, where there is no link.
const ROOT_GAP: usize = 36;
const MARGIN: usize = 8;

/// Draws the tree below a root bus. Its adapters stand in the column that the deepest tree of the page, of `depth` levels, needs.
pub(crate) fn tree(root: &Node, depth: usize) -> Markup {
    let plan = Plan { leaf_x: leaf_column(depth) };
    let mut shapes = Shapes { plan, rows: 0, drawn: Vec::new() };
    shapes.place(root, 0);
    let (width, height) = (plan.leaf_x + CARD_WIDTH + MARGIN, MARGIN * 2 + shapes.rows * ROW);
    let name = format!("PCI hierarchy below {} {}", root.detail, root.label);
    html! {
        div.scroll {
            svg.tree viewBox=(format!("0 0 {width} {height}")) width=(width) height=(height) role="img"
                style=(format!("min-width: {}px", width * 3 / 4)) aria-label=(name) {
                title { (name) }
                @for shape in &shapes.drawn { (shape) }
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Plan {
    leaf_x: usize,
}

/// Left edge of a column.
fn column(depth: usize) -> usize {
    match depth {
        0 => MARGIN,
        1 => MARGIN + BOX_WIDTH + ROOT_GAP,
        deeper => column(1) + (deeper - 1) * (BOX_WIDTH + LINK_GAP),
    }
}

/// Left edge of the adapters, with room for the text of links even where they are on the root bus.
fn leaf_column(depth: usize) -> usize {
    column(depth).max(MARGIN + BOX_WIDTH + LINK_GAP)
}

struct Shapes {
    plan: Plan,
    /// Cards placed so far.
    rows: usize,
    drawn: Vec<Markup>,
}

impl Shapes {
    /// Draws a node and all below it; returns the y of the node's middle.
    fn place(&mut self, node: &Node, depth: usize) -> usize {
        if let Body::Adapter(row) = &node.body {
            let middle = MARGIN + self.rows * ROW + ROW / 2;
            self.rows += 1;
            self.drawn.push(card(self.plan.leaf_x, middle, node, row));
            return middle;
        }
        let middles: Vec<usize> = node.children.iter().map(|child| self.place(child, depth + 1)).collect();
        let (Some(first), Some(last)) = (middles.first().copied(), middles.last().copied()) else {
            self.rows += 1;
            return MARGIN + (self.rows - 1) * ROW + ROW / 2;
        };
        let middle = (first + last) / 2;
        let x = column(depth);
        let trunk = x + BOX_WIDTH + ROOT_GAP / 2;
        self.drawn.push(trunk_lines(node, &middles, (x + BOX_WIDTH, middle), trunk));
        for (child, at) in node.children.iter().zip(&middles) {
            let left = if child.children.is_empty() { self.plan.leaf_x } else { column(depth + 1) };
            self.drawn.push(branch(child, trunk, left, *at));
        }
        self.drawn.push(bridge(x, middle, node));
        middle
    }
}

/// The line from a node to its trunk, and the trunk, from which a line leads to each child.
fn trunk_lines(node: &Node, middles: &[usize], (x, y): (usize, usize), trunk: usize) -> Markup {
    let (first, last) = (middles.first().unwrap_or(&y), middles.last().unwrap_or(&y));
    let path = format!("M{x} {y}H{trunk}M{trunk} {first}V{last}");
    html! { path.edge.(dma_path_class(node.dma_path())) d=(path) {} }
}

/// The line from a parent's trunk to its child, with the text of the link above it.
fn branch(child: &Node, trunk: usize, left: usize, y: usize) -> Markup {
    let edge = &child.edge;
    let port = edge.port.map(|port| format!("{:02x}:{:02x}.{:x}", port.bus, port.device, port.function));
    let class = if edge.degraded { "link degraded" } else { "link" };
    // What it does stands above the line, what it could do below.
    let (now, most) = (&edge.link, &edge.possible);
    let sign = if edge.degraded { "▼ " } else { "" };
    let (below, x) = (if most.is_empty() { y + 14 } else { y + 26 }, left - 10);
    html! {
        path.edge.(dma_path_class(child.dma_path())) d=(format!("M{trunk} {y}H{left}")) {}
        @if !now.is_empty() {
            text class=(class) x=(x) y=(y - 6) text-anchor="end" {
                @if edge.degraded { title { "This link does less than both its ends can" } }
                (sign) (now)
            }
        }
        @if !most.is_empty() { text class=(class) x=(x) y=(y + 14) text-anchor="end" { "of " (most) } }
        @if let Some(port) = port { text.port x=(x) y=(below) text-anchor="end" { "port " (port) } }
    }
}

/// The class of a DMA path in style sheets; `several` if adapters below differ.
fn dma_path_class(dma_path: Option<DmaPath>) -> &'static str {
    dma_path.map_or("several", |dma_path| Cost::of(dma_path).class())
}

/// The box of a root bus, a switch or another bridge.
fn bridge(x: usize, middle: usize, node: &Node) -> Markup {
    let top = middle - BOX / 2;
    let label = match node.count {
        1 => node.detail.clone(),
        count => format!("{} × {}", quantity::grouped(count as u64), node.detail),
    };
    let whole = match node.count {
        1 => format!("{} {}", node.detail, node.label),
        count => format!("{count} alike, {}: {} to {}", node.detail, node.label, node.last_label),
    };
    html! {
        g {
            title { (whole) ", " (quantity::count(node.adapters(), "adapter")) " below" }
            (stacked_edges(x, top, BOX_WIDTH, BOX, node.count))
            rect.bridge x=(x) y=(top) width=(BOX_WIDTH) height=(BOX) rx="5" {}
            text.what x=(x + 10) y=(middle - 4) { (label) }
            text.address x=(x + 10) y=(middle + 11) { (node.label) }
        }
    }
}

/// The edges of boxes behind a node that stands for several.
fn stacked_edges(x: usize, top: usize, width: usize, height: usize, count: usize) -> Markup {
    let behind: &[usize] = match count {
        0 | 1 => &[],
        2 => &[3],
        _ => &[6, 3],
    };
    html! {
        @for by in behind {
            rect.bridge x=(x + by) y=(top + by) width=(width) height=(height) rx="5" {}
        }
    }
}

/// The card of an adapter: name, address, DMA path and findings.
fn card(x: usize, middle: usize, node: &Node, row: &Row) -> Markup {
    let top = middle - CARD / 2;
    let cost = Cost::of(row.dma_path);
    let addresses = match node.count {
        1 => node.label.clone(),
        _ => format!("{} … {}", node.label, node.last_label),
    };
    let name = topology::card_title(node, row);
    let driver = if row.driver.is_empty() { String::new() } else { format!(", driver {}", row.driver) };
    let whole = format!("{name}, {addresses}{driver}, {}: {}", row.dma_path, row.dma_path.toll());
    let room = if row.findings.count > 0 { CARD_WIDTH - 84 } else { CARD_WIDTH - 54 };
    html! {
        g {
            title { (whole) }
            (stacked_edges(x, top, CARD_WIDTH - 8, CARD, node.count))
            rect.card x=(x) y=(top) width=(CARD_WIDTH - 8) height=(CARD) rx="5" {}
            rect.band.(cost.class()) x=(x) y=(top) width="6" height=(CARD) rx="2" {}
            g transform=(format!("translate({} {})", x + 20, middle)) { (mark(cost)) }
            text.name x=(x + 36) y=(middle - 4) { (cut_to_width(&name, room)) }
            text.address x=(x + 36) y=(middle + 13) {
                (addresses)
                tspan.dma_path.(cost.class()) dx="9" { (row.dma_path.word()) }
            }
            @if let Some(worst) = row.findings.worst {
                g transform=(format!("translate({} {})", x + CARD_WIDTH - 44, top + 13)) {
                    title { (quantity::count(row.findings.count, "finding")) ", the worst: " (worst) }
                    (severity_mark(worst))
                    text.count x="11" y="4.5" { (quantity::grouped(row.findings.count as u64)) }
                }
            }
        }
    }
}

/// Cuts a text to `room` units of width. Characters are assumed as wide as in a wide font, because viewers' fonts differ.
pub(super) fn cut_to_width(text: &str, room: usize) -> String {
    let tenths = |c: char| match c {
        'i' | 'j' | 'l' | 't' | 'f' | 'r' | 'I' | ' ' | '.' | ',' | '/' | '|' | '-' | '·' => 56,
        'm' | 'w' | 'M' | 'W' | '@' => 140,
        'A'..='Z' => 104,
        c if c.is_ascii() => 94,
        _ => 140,
    };
    let room = room * 10;
    let whole: usize = text.chars().map(tenths).sum();
    if whole <= room {
        return text.to_owned();
    }
    let mut used = tenths('…');
    let fits = |c: &char| {
        used += tenths(*c);
        used <= room
    };
    let mut short: String = text.chars().take_while(fits).collect();
    short.truncate(short.trim_end().len());
    short.push('…');
    short
}
