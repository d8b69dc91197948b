//! Interrupt vectors, how often each CPU took them and which CPUs may.

use super::numa::CpuList;
use crate::{Text, Tree};
use std::collections::HashMap;

/// One line of `/proc/interrupts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vector {
    /// Linux interrupt number.
    pub number: u32,
    /// How often it was taken, over all CPUs.
    pub count: u64,
    /// Name the driver gave it: `nvme0q1`, `eth0-rx-0`.
    pub name: String,
    /// CPUs that may take it (`/proc/irq/<n>/effective_affinity_list`), if readable.
    pub affinity: Option<CpuList>,
}

/// All numbered vectors, by number.
pub fn read(tree: &Tree) -> HashMap<u32, Vector> {
    let Some(text) = tree.text("proc/interrupts") else { return HashMap::new() };
    parse(&text).into_iter().map(|vector| (vector.number, vector)).collect()
}

/// Reads the affinity of one vector; only asked for adapters' own, since each is a file.
pub fn affinity(tree: &Tree, number: u32) -> Option<CpuList> {
    let folder = format!("proc/irq/{number}");
    ["effective_affinity_list", "smp_affinity_list"]
        .iter()
        .find_map(|name| tree.text(&format!("{folder}/{name}")))
        .map(|text| CpuList::parse(text.body()))
        .filter(|cpus| !cpus.is_empty())
}

/// Parses `/proc/interrupts`.
pub fn parse(text: &Text) -> Vec<Vector> {
    let mut lines = text.lines();
    let cpus = lines.next().map_or(0, |(_, header)| header.split_whitespace().count());
    lines.filter_map(|(_, line)| parse_vector(line, cpus)).collect()
}

/// Parses a line of `/proc/interrupts`, which has one count per CPU.
fn parse_vector(line: &str, cpus: usize) -> Option<Vector> {
    let (number, rest) = line.trim_start().split_once(':')?;
    let number = number.parse().ok()?;
    let mut words = rest.split_whitespace();
    let count =
        words.by_ref().take(cpus).map_while(|word| word.parse::<u64>().ok()).fold(0, u64::saturating_add);
    // Between the counts and the name stand the chip, the hardware number and the trigger.
    let name = words.last().unwrap_or_default().to_owned();
    Some(Vector { number, count, name, affinity: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_several_kernels() {
        let text = Text::new(
            "proc/interrupts",
            "           CPU0       CPU1       \n\
             \u{20}26:          0          5  IR-PCI-MSI 65537-edge      nvme1q1\n\
             \u{20}25:         12          0  pSeries-PCI-MSI 49152 Edge      nvme0q0\n\
             NMI:          0          0   Non-maskable interrupts\n\
             \u{20}77:  x\n",
        );
        let vectors = parse(&text);
        let shown: Vec<_> = vectors.iter().map(|v| (v.number, v.count, v.name.as_str())).collect();
        assert_eq!(shown, [(26, 5, "nvme1q1"), (25, 12, "nvme0q0"), (77, 0, "")]);
    }
}
