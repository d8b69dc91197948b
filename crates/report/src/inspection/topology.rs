//! The PCI hierarchy above the adapters, folded until it is small enough to draw.
//!
//! A switch is one node: its downstream ports are named on the links that leave them. Where there are many adapters, siblings
//! that look the same are drawn once with their number, from the leaves up. A thousand adapters below switches of one kind
//! thus become a handful of nodes.

use crate::inspection::batch::SINGLE_MAX;
use crate::inspection::link_text;
use crate::inspection::row::Row;
use crate::page::quantity;
use escape::terminal::plain;
use host::diagnose::{DmaPath, Severity};
use host::pci::{Hop, PortType};
use host::{Bdf, Host};
use std::collections::BTreeMap;

/// The kind of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body {
    /// A root bus of the host.
    Root,
    /// A root port, switch or other bridge.
    Bridge,
    /// An adapter.
    Adapter(Box<Row>),
}

/// The link from a node up to its parent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Edge {
    /// The switch's downstream port.
    pub(crate) port: Option<Bdf>,
    /// Its current speed and width.
    pub(crate) link: String,
    /// The best speed and width that both ends support; empty if the link has them.
    pub(crate) possible: String,
    /// Whether the link is slower than both ends support.
    pub(crate) degraded: bool,
}

/// A node of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    /// Its name: an address, or a root bus.
    pub(crate) label: String,
    /// What it is, such as `root port`, or the adapter's chip.
    pub(crate) detail: String,
    pub(crate) body: Body,
    pub(crate) edge: Edge,
    pub(crate) children: Vec<Node>,
    /// How many nodes it stands for; `label` is that of the first.
    pub(crate) count: usize,
    /// The label of the last of these nodes.
    pub(crate) last_label: String,
}

impl Node {
    /// The DMA path of all adapters at or below it; `None` if they differ.
    pub(crate) fn dma_path(&self) -> Option<DmaPath> {
        match &self.body {
            Body::Adapter(row) => Some(row.dma_path),
            Body::Root | Body::Bridge => {
                let mut dma_paths = self.children.iter().map(Self::dma_path);
                let first = dma_paths.next()??;
                dma_paths.all(|dma_path| dma_path == Some(first)).then_some(first)
            }
        }
    }

    /// The number of levels below it.
    pub(crate) fn depth(&self) -> usize {
        self.children.iter().map(|child| child.depth() + 1).max().unwrap_or(0)
    }

    /// The number of adapters at or below all nodes that it stands for.
    pub(crate) fn adapters(&self) -> usize {
        let below: usize = match &self.body {
            Body::Adapter(_) => 1,
            Body::Root | Body::Bridge => self.children.iter().map(Self::adapters).sum(),
        };
        below.saturating_mul(self.count)
    }

    /// A text that is the same for nodes that are drawn as one.
    fn folding_key(&self) -> String {
        let own = match &self.body {
            Body::Adapter(row) => {
                let worst = row.findings.worst.map(|worst: Severity| worst.to_string());
                format!("{}|{}|{}|{}|{worst:?}", row.dma_path, row.kind, row.device, row.driver)
            }
            Body::Root | Body::Bridge => self.detail.clone(),
        };
        let below: Vec<String> =
            self.children.iter().map(|child| format!("{}×{}", child.count, child.folding_key())).collect();
        format!("{own}|{}|{}[{}]", self.edge.link, self.edge.possible, below.join(";"))
    }
}

/// The trees of a host's root buses.
pub(crate) fn trees(host: &Host, rows: &[Row]) -> Vec<Node> {
    let mut roots: BTreeMap<(u32, u8), Branch<'_>> = BTreeMap::new();
    for row in rows {
        let upstream = host
            .adapters
            .binary_search_by_key(&row.address, |adapter| adapter.function.address)
            .ok()
            .and_then(|index| host.adapters.get(index))
            .map_or(&[][..], |adapter| adapter.function.upstream.as_slice());
        let top = upstream.first().unwrap_or(&row.address);
        roots.entry((top.domain, top.bus)).or_default().insert(upstream, row);
    }
    let folds = rows.len() > SINGLE_MAX;
    let trees = roots.iter().map(|((domain, bus), branch)| Node {
        label: format!("{domain:04x}:{bus:02x}"),
        detail: "root bus".to_owned(),
        body: Body::Root,
        edge: Edge::default(),
        children: branch.nodes(host, None, folds),
        count: 1,
        last_label: format!("{domain:04x}:{bus:02x}"),
    });
    fold_siblings(trees.collect(), folds)
}

/// Bridges and adapters below a bus, by address.
#[derive(Default)]
struct Branch<'r> {
    bridges: BTreeMap<Bdf, Branch<'r>>,
    rows: Vec<&'r Row>,
}

impl<'r> Branch<'r> {
    /// Adds an adapter below the bridges of its path.
    fn insert(&mut self, upstream: &[Bdf], row: &'r Row) {
        match upstream.split_first() {
            Some((bridge, rest)) => self.bridges.entry(*bridge).or_default().insert(rest, row),
            None => self.rows.push(row),
        }
    }

    /// The nodes below `parent`, the bridge that leads to them.
    fn nodes(&self, host: &Host, parent: Option<Bdf>, folds: bool) -> Vec<Node> {
        let adapters = self.rows.iter().map(|row| adapter(host, parent, row));
        let bridges = self.bridges.iter().flat_map(|(address, branch)| {
            // A downstream port is part of its switch.
            match port_type(host, *address) {
                Some(PortType::DownstreamPort) if parent.is_some() => {
                    let mut below = branch.nodes(host, Some(*address), folds);
                    for node in &mut below {
                        node.edge.port = Some(*address);
                    }
                    below
                }
                _ => vec![branch.bridge(host, parent, *address, folds)],
            }
        });
        fold_siblings(adapters.chain(bridges).collect(), folds)
    }

    /// The node of a bridge, with all that is below it.
    fn bridge(&self, host: &Host, parent: Option<Bdf>, address: Bdf, folds: bool) -> Node {
        let detail = match port_type(host, address) {
            Some(PortType::RootPort) => "root port",
            Some(PortType::UpstreamPort) => "switch",
            Some(PortType::DownstreamPort) => "switch port",
            Some(PortType::ExpressToPciBridge | PortType::PciToExpressBridge) => "PCI bridge",
            // Also of a bridge that is only known from the path below it.
            _ => "bridge",
        };
        Node {
            label: address.to_string(),
            detail: detail.to_owned(),
            body: Body::Bridge,
            edge: edge(host, parent, address),
            children: self.nodes(host, Some(address), folds),
            count: 1,
            last_label: address.to_string(),
        }
    }
}

/// The port type of a bridge; `None` if it is not known.
fn port_type(host: &Host, address: Bdf) -> Option<PortType> {
    host.bridges.get(&address)?.capabilities.express.get()?.port
}

/// The node of an adapter.
fn adapter(host: &Host, parent: Option<Bdf>, row: &Row) -> Node {
    let known = edge(host, parent, row.address);
    Node {
        label: row.address.to_string(),
        detail: plain(&row.device),
        body: Body::Adapter(Box::new(row.clone())),
        // On a root bus there is no other end, so the link is what the adapter reports.
        edge: if known.link.is_empty() { Edge { link: row.link.clone(), ..known } } else { known },
        children: Vec::new(),
        count: 1,
        last_label: row.address.to_string(),
    }
}

/// The link between two functions; empty if one of them is not known.
fn edge(host: &Host, parent: Option<Bdf>, lower: Bdf) -> Edge {
    let upper = parent.and_then(|address| host.bridges.get(&address)).filter(|upper| upper.leads_down());
    let below = host.bridges.get(&lower).or_else(|| {
        let index = host.adapters.binary_search_by_key(&lower, |adapter| adapter.function.address).ok()?;
        host.adapters.get(index).map(|adapter| &adapter.function)
    });
    match (upper, below) {
        (Some(upper), Some(below)) => {
            let judged = Hop { upper: upper.link.value, lower: below.link.value }.diagnose();
            let (link, possible) = link_text::current_and_best(&judged);
            Edge { port: None, link, possible, degraded: judged.is_degraded() }
        }
        _ => Edge::default(),
    }
}

/// Folds siblings that look the same into one node, if `folds`.
fn fold_siblings(nodes: Vec<Node>, folds: bool) -> Vec<Node> {
    if !folds {
        return nodes;
    }
    let mut kept: Vec<(String, Node)> = Vec::new();
    for node in nodes {
        let folding_key = node.folding_key();
        match kept.iter_mut().find(|(known, _)| *known == folding_key) {
            Some((_, known)) => {
                known.count += node.count;
                add_findings(known, &node);
                known.last_label = node.last_label;
            }
            None => kept.push((folding_key, node)),
        }
    }
    kept.into_iter().map(|(_, node)| node).collect()
}

/// Adds the findings of a node that is folded into another.
fn add_findings(known: &mut Node, other: &Node) {
    if let (Body::Adapter(sum), Body::Adapter(row)) = (&mut known.body, &other.body) {
        sum.findings = sum.findings.and(row.findings);
    }
    for (one, same) in known.children.iter_mut().zip(&other.children) {
        add_findings(one, same);
    }
}

/// The title of an adapter's card: `32 × NVMe SSD`, or the name of a single adapter.
pub(crate) fn card_title(node: &Node, row: &Row) -> String {
    match node.count {
        1 => match row.interfaces.is_empty() {
            true => row.device.clone(),
            false => format!("{} · {}", row.display_name(), row.device),
        },
        count => format!("{} × {}", quantity::grouped(count as u64), row.device),
    }
}
