//! Adapters far from the CPUs that serve them.

use super::Rule;
use crate::diagnose::{Advice, Case, Explanation, Finding, Id, Severity};
use crate::facts::numa::{CpuList, Node};
use crate::facts::{Adapter, Host};
use crate::{Citation, Cited};
use escape::shell::Command;

/// The rule, with what its findings mean.
pub(super) const RULE: Rule = Rule {
    find,
    explains: &[Explanation {
        id: Id::NumaFar,
        meaning: "The adapter's NUMA node has no CPUs, or all its interrupts in use go to CPUs of other \
                      nodes: every interrupt crosses the interconnect between nodes.",
        severity: "warning",
        evidence: "the adapter's `numa_node`, the nodes' CPU lists, and the interrupts' effective \
                       affinity",
        fix: "write the node's CPUs to `smp_affinity_list` of the adapter's interrupts, and keep \
                  irqbalance from undoing it; move the adapter to a slot of a node with CPUs. Interrupts \
                  that the kernel spreads itself (nvme) refuse it: there, move the programs to the node",
        risk: "the chosen CPUs get all of the adapter's interrupt load",
        verify: "`/proc/interrupts`: the adapter's counts grow under CPUs of its node, or of the nearest \
                     node with CPUs",
    }],
};

/// Findings about NUMA nodes.
fn find(case: &Case<'_>) -> Vec<Finding> {
    if case.host.platform.nodes.len() < 2 {
        return Vec::new();
    }
    let on_nodes =
        case.working().filter_map(|(adapter, _)| Some((adapter, adapter.function.numa_node.as_ref()?)));
    on_nodes.filter_map(|(adapter, number)| check_adapter(case.host, adapter, number)).collect()
}

/// Compares an adapter's node, `number`, with the CPUs that serve its interrupts.
fn check_adapter(host: &Host, adapter: &Adapter, number: &Cited<u32>) -> Option<Finding> {
    let node = host.platform.nodes.iter().find(|node| node.number == number.value)?;
    match node.cpus.is_empty() {
        true => Some(node_without_cpus(host, adapter, node, number)),
        false => far_interrupts(adapter, node, number),
    }
}

/// A finding on an adapter whose node has no CPUs.
fn node_without_cpus(host: &Host, adapter: &Adapter, node: &Node, number: &Cited<u32>) -> Finding {
    let near = nearest_with_cpus(host, node);
    let near = near.map_or_else(String::new, |near| {
        format!("; the nearest with CPUs is node {} ({})", near.number, near.cpus)
    });
    finding(
        adapter,
        format!("its NUMA node {} has no CPUs{near}: every interrupt and buffer crosses the interconnect", node.number),
        vec![number.at.clone(), cite_cpus(node)],
        "move the adapter to a slot of a node with CPUs; until then bind its interrupts and its users to the \
         nearest one (numactl --cpunodebind)"
            .into(),
        "the nearest node",
    )
}

/// The nearest node that has CPUs.
fn nearest_with_cpus<'h>(host: &'h Host, node: &Node) -> Option<&'h Node> {
    let distance = |other: &Node| {
        let index = host.platform.nodes.iter().position(|known| known.number == other.number)?;
        node.distances.get(index).copied()
    };
    let with_cpus = host.platform.nodes.iter().filter(|other| !other.cpus.is_empty());
    with_cpus.min_by_key(|other| distance(other).unwrap_or(u32::MAX))
}

/// A finding if all interrupts of an adapter that ever occurred are bound to CPUs of other NUMA nodes.
fn far_interrupts(adapter: &Adapter, node: &Node, number: &Cited<u32>) -> Option<Finding> {
    let used: Vec<(u32, &CpuList)> = adapter
        .vectors
        .iter()
        .filter(|vector| vector.count > 0)
        .filter_map(|vector| Some((vector.number, vector.affinity.as_ref()?)))
        .collect();
    let far = !used.is_empty() && used.iter().all(|(_, cpus)| !cpus.meets(&node.cpus));
    let (first, cpus) = used.first()?;
    far.then(|| {
        let at = Citation::of_file(&format!("proc/irq/{first}/effective_affinity_list"), &cpus.to_string());
        finding(
            adapter,
            format!(
                "it is on NUMA node {} (CPUs {}), and all its interrupts in use go to CPUs of other nodes ({cpus} ...)",
                node.number, node.cpus
            ),
            vec![number.at.clone(), cite_cpus(node), at],
            Advice::run(bind_interrupts(adapter, node)).and_say(
                ", and keep irqbalance from undoing it (IRQBALANCE_BANNED_CPULIST, or --banirq); \
                 interrupts that the kernel spreads itself (nvme's) refuse it: there, move the users to the node",
            ),
            "its own node",
        )
    })
}

/// The command that binds the adapter's interrupts to the CPUs of `node`.
fn bind_interrupts(adapter: &Adapter, node: &Node) -> Command {
    let folder = format!("/sys/bus/pci/devices/{}/msi_irqs", adapter.function.address);
    Command::new("echo")
        .arg(node.cpus.to_string())
        .into_file_of_variables("/proc/irq/$n/smp_affinity_list")
        .for_each("n", Command::new("ls").arg(folder))
}

/// Cites the node's list of CPUs.
fn cite_cpus(node: &Node) -> Citation {
    let said = if node.cpus.is_empty() { "no CPUs".to_owned() } else { node.cpus.to_string() };
    Citation::of_file(&format!("sys/devices/system/node/node{}/cpulist", node.number), &said)
}

/// A finding on an adapter far from its CPUs.
fn finding(adapter: &Adapter, what: String, evidence: Vec<Citation>, fix: Advice, near: &str) -> Finding {
    Finding {
        id: Id::NumaFar,
        severity: Severity::Warning,
        address: Some(adapter.function.address),
        what,
        evidence,
        fix,
        risk: "the chosen CPUs get all of its interrupt load".to_owned(),
        verify: format!("/proc/interrupts: the adapter's counts grow under CPUs of {near}").into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    }
}
