//! The tree of `lspci -t`: which functions are below which bridge, with `-v` also their names.
//!
//! ```text
//! -[0000:00]-+-00.0  Maker Host bridge              domain and bus, then a function on it
//!            +-1c.0-[01-02]----00.0-[02]--+-00.0    a bridge with its buses, and what is below it
//!            |                            \-01.0    the column of `+` or `\` tells the bus
//!            \-1f.0  Maker ISA bridge
//! ```

use super::hex;
use crate::Bdf;

/// A tree while its lines are read.
#[derive(Debug, Default)]
pub(super) struct TreeReader {
    /// Buses that have more functions in lines to come, from left to right.
    branches: Vec<Branch>,
}

/// A bus whose functions stand in one column.
#[derive(Debug, Clone, Copy)]
struct Branch {
    column: usize,
    bus: Option<Bus>,
}

/// A bus of a domain.
#[derive(Debug, Clone, Copy)]
struct Bus {
    domain: u32,
    number: u8,
}

/// A function in a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Node<'a> {
    pub(super) address: Bdf,
    /// The first and the last bus below it, of bridges.
    pub(super) buses: Option<(u8, u8)>,
    /// What `-v` prints: names, IDs or both. Bridges have none.
    pub(super) name: Option<&'a str>,
}

impl TreeReader {
    /// Ends the tree.
    pub(super) fn end(&mut self) {
        self.branches.clear();
    }

    /// The functions in a line; none if the line is of no tree.
    pub(super) fn read<'a>(&mut self, line: &'a str) -> Vec<Node<'a>> {
        if is_root(line) {
            self.end();
            return self.read_chain(line, 0, None);
        }
        let column = line.bytes().take_while(|byte| matches!(byte, b' ' | b'|')).count();
        if !line.get(column..).is_some_and(|rest| rest.starts_with(['+', '\\'])) {
            return Vec::new();
        }
        while self.branches.last().is_some_and(|branch| branch.column > column) {
            self.branches.pop();
        }
        match self.branches.last() {
            Some(branch) if branch.column == column => self.read_chain(line, column + 1, branch.bus),
            _ => Vec::new(),
        }
    }

    /// The functions in a line from byte `at` on: the first is on `bus`, each other below the one before it.
    fn read_chain<'a>(&mut self, line: &'a str, mut at: usize, mut bus: Option<Bus>) -> Vec<Node<'a>> {
        let mut nodes = Vec::new();
        while let Some(rest) = line.get(at..) {
            if rest.starts_with('+') {
                self.branches.push(Branch { column: at, bus });
                at += 1;
            } else if rest.starts_with('-') {
                at += 1;
            } else if let Some(label) = Label::parse(rest) {
                bus = label.bus(bus);
                at += label.length;
            } else if let (Some((device, function)), Some(on)) = (parse_place(rest), bus) {
                let address = Bdf { domain: on.domain, bus: on.number, device, function };
                let below = rest.get(PLACE_LENGTH..).unwrap_or_default();
                let label = below.strip_prefix('-').and_then(Label::parse);
                let name = below.strip_prefix("  ").map(str::trim).filter(|name| !name.is_empty());
                nodes.push(Node { address, buses: label.map(|label| (label.first, label.last)), name });
                bus = label.and_then(|label| label.bus(bus));
                at += PLACE_LENGTH + label.map_or(0, |label| 1 + label.length);
            } else {
                break;
            }
        }
        nodes
    }
}

/// Whether a line begins a tree: `-[0000:00]-`, or `-+-[0000:00]-` if there are more domains or buses.
pub(super) fn is_root(line: &str) -> bool {
    let label = line.strip_prefix("-+-").or_else(|| line.strip_prefix('-')).and_then(Label::parse);
    label.is_some_and(|label| label.domain.is_some())
}

/// Length of `1f.0`.
const PLACE_LENGTH: usize = 4;

/// Device and function number in `1f.0`.
fn parse_place(text: &str) -> Option<(u8, u8)> {
    let (device, function) = text.get(..PLACE_LENGTH)?.split_once('.')?;
    let (device, function): (u8, u8) = (hex(device, 2)?, hex(function, 1)?);
    (device < 32 && function < 8).then_some((device, function))
}

/// Buses in brackets: `[02]`, `[02-05]`, with their domain `[0001:02]`, before pciutils 3.2 also `[0001:02-05]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Label {
    domain: Option<u32>,
    first: u8,
    last: u8,
    /// Bytes from bracket to bracket.
    length: usize,
}

impl Label {
    /// The label that a text begins with.
    fn parse(text: &str) -> Option<Self> {
        let (inner, _) = text.strip_prefix('[')?.split_once(']')?;
        let (domain, buses) = match inner.split_once(':') {
            Some((domain, buses)) => (Some(hex(domain, 4).or_else(|| hex(domain, 5))?), buses),
            None => (None, inner),
        };
        let (first, last) = buses.split_once('-').unwrap_or((buses, buses));
        Some(Self { domain, first: hex(first, 2)?, last: hex(last, 2)?, length: inner.len() + 2 })
    }

    /// The first of its buses. A label without a domain is of the bus above.
    fn bus(self, above: Option<Bus>) -> Option<Bus> {
        let domain = self.domain.or(above.map(|bus| bus.domain))?;
        Some(Bus { domain, number: self.first })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The functions of a tree: address, first and last bus below, name.
    fn nodes(tree: &str) -> Vec<String> {
        let mut reader = TreeReader::default();
        let mut found = Vec::new();
        for line in tree.lines() {
            for Node { address, buses, name } in reader.read(line) {
                let buses = buses.map(|(first, last)| format!(" {first:x}-{last:x}")).unwrap_or_default();
                let name = name.map(|name| format!(" {name}")).unwrap_or_default();
                found.push(format!("{address}{buses}{name}"));
            }
        }
        found
    }

    fn check(tree: &str, expect: &[&str]) {
        assert_eq!(nodes(tree), expect, "{tree}");
    }

    #[test]
    fn branches_and_chains() {
        let tree = r"-[0000:00]-+-00.0  Maker Host  bridge
           +-01.0-[01]--
           +-03.0-[02-05]----00.0-[03-05]--+-00.0-[04]----00.0  Maker NIC [8086:1521]
           |                               \-02.0-[05]--
           +-07.0-[06]--+-00.0  8086:0001
           |            \-00.1
           \-1f.0";
        check(
            tree,
            &[
                "0000:00:00.0 Maker Host  bridge",
                "0000:00:01.0 1-1",
                "0000:00:03.0 2-5",
                "0000:02:00.0 3-5",
                "0000:03:00.0 4-4",
                "0000:04:00.0 Maker NIC [8086:1521]",
                "0000:03:02.0 5-5",
                "0000:00:07.0 6-6",
                "0000:06:00.0 8086:0001",
                "0000:06:00.1",
                "0000:00:1f.0",
            ],
        );
    }

    #[test]
    fn several_domains_and_buses() {
        let tree = "-+-[10000:e0]-+-17.0\n |            \\-17.1-[e1]----00.0\n +-[0000:3a]---00.0\n \\-[0000:00]---1f.2";
        let expect =
            ["10000:e0:17.0", "10000:e0:17.1 e1-e1", "10000:e1:00.0", "0000:3a:00.0", "0000:00:1f.2"];
        check(tree, &expect);
        // A bridge with functions on buses beyond its first.
        let tree =
            "-[0000:00]---01.0-[01-03]--+-[0000:03]---00.0\n                           \\-[0000:01]---00.0";
        check(tree, &["0000:00:01.0 1-3", "0000:03:00.0", "0000:01:00.0"]);
        check("-[0000:00]---01.0-[0000:01-03]----00.0", &["0000:00:01.0 1-3", "0000:01:00.0"]);
    }

    #[test]
    fn what_is_below_a_bridge_without_buses_is_not_guessed() {
        check("-[0000:00]---1c.0--+-00.0", &["0000:00:1c.0"]);
    }

    #[test]
    fn other_lines() {
        check("- [0000:00] a list\n-[x]-00.0\n +-00.0\n           +-00.0\n-[0000:00]", &[]);
        check("-[0000:00]-+-20.0\n           +-00.8\n          +-00.0\n           +-1\u{e9}.0", &[]);
    }

    proptest! {
        #[test]
        fn any_lines(tree in "(-\\[0000:00\\]|[-+|\\\\ \\[\\]0-9.:\u{e9}\n]){0,80}") {
            let _ = nodes(&tree);
        }
    }
}
