//! NUMA nodes, and lists of CPUs as Linux writes them.

use crate::Tree;

/// Highest CPU number believed: larger than any kernel's `NR_CPUS`, small enough to expand.
const CPU_MAX: u32 = 1 << 16;

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its number.
    pub number: u32,
    /// Its CPUs; empty for nodes that hold memory only.
    pub cpus: CpuList,
    /// Memory on it, in KiB, if its `meminfo` could be read.
    pub memory_kib: Option<u64>,
    /// Distances to all nodes in the order of their numbers (ACPI SLIT: 10 is local).
    pub distances: Vec<u32>,
}

/// Reads `/sys/devices/system/node`.
pub fn read(tree: &Tree) -> Vec<Node> {
    let folder = "sys/devices/system/node";
    let mut nodes: Vec<Node> = numbered(tree, folder, "node")
        .map(|number| read_node(tree, &format!("{folder}/node{number}"), number))
        .collect();
    nodes.sort_by_key(|node| node.number);
    nodes
}

/// The numbers of entries named `prefix<number>` in a folder.
pub(crate) fn numbered(tree: &Tree, folder: &str, prefix: &str) -> impl Iterator<Item = u32> {
    let numbers: Vec<u32> = tree
        .names(folder)
        .iter()
        .filter_map(|name| name.strip_prefix(prefix).and_then(|number| number.parse().ok()))
        .collect();
    numbers.into_iter()
}

/// Reads a NUMA node from its folder in sysfs.
fn read_node(tree: &Tree, folder: &str, number: u32) -> Node {
    let value = |name: &str| tree.value(&format!("{folder}/{name}")).map(|cited| cited.value);
    Node {
        number,
        cpus: value("cpulist").map(|list| CpuList::parse(&list)).unwrap_or_else(CpuList::none),
        memory_kib: tree.text(&format!("{folder}/meminfo")).and_then(|text| memory_kib(text.body())),
        distances: value("distance")
            .map(|row| row.split_whitespace().filter_map(|cell| cell.parse().ok()).collect())
            .unwrap_or_default(),
    }
}

/// `MemTotal` of a node's `meminfo`, in KiB.
fn memory_kib(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.contains("MemTotal:"))?;
    line.split("MemTotal:").nth(1)?.split_whitespace().next()?.parse().ok()
}

/// CPU numbers as ranges, as in `0-3,8,10-11`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuList {
    ranges: Vec<(u32, u32)>,
}

impl CpuList {
    /// No CPU.
    pub fn none() -> Self {
        Self { ranges: Vec::new() }
    }

    /// Parses a list; parts that are no numbers are left out.
    pub fn parse(list: &str) -> Self {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (first <= last && last <= CPU_MAX).then_some((first, last))
        };
        Self { ranges: list.split(',').filter_map(range).collect() }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        // A file that lists the same CPUs a hundred thousand times is no list, and no reason to stop.
        self.ranges.iter().map(|(first, last)| last - first + 1).fold(0, u32::saturating_add)
    }

    /// Whether a CPU of `other` is in this list.
    pub fn meets(&self, other: &Self) -> bool {
        self.ranges.iter().any(|a| other.ranges.iter().any(|b| a.0 <= b.1 && b.0 <= a.1))
    }
}

impl std::fmt::Display for CpuList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, (first, last)) in self.ranges.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists() {
        let list = CpuList::parse("0-3,8,10-11\n");
        assert_eq!(list.to_string(), "0-3,8,10-11");
        assert_eq!(list.count(), 7);
        assert!(list.meets(&CpuList::parse("9-10")) && !list.meets(&CpuList::parse("4-7,9")));
        let repeated = CpuList::parse(&"0-65536,".repeat(1 << 16));
        assert_eq!(repeated.count(), u32::MAX);
        assert!(CpuList::parse("").is_empty() && CpuList::parse("3-1,x,4294967295").is_empty());
    }
}
