//! The RDMA devices of an adapter: ports, counts, and how doorbells are mapped.

use crate::page::fact::{Fact, Section, Value};
use crate::page::quantity;
use host::facts::{Adapter, Host, RdmaDevice};

/// The RDMA devices of an adapter; `None` if it has none.
pub(super) fn section(host: &Host, adapter: &Adapter) -> Option<Section> {
    let is_own = |device: &&RdmaDevice| device.adapter() == Some(adapter.function.address);
    let facts: Vec<Fact> =
        host.rdma.iter().filter(is_own).flat_map(|device| device_facts(host, device)).collect();
    (!facts.is_empty()).then_some(Section { title: "RDMA", facts })
}

/// What is known of a device.
fn device_facts(host: &Host, device: &RdmaDevice) -> Vec<Fact> {
    let unknown = || {
        Value::Unknown(format!("`rdma resource show {}` prints it; its output can be given too", device.name))
    };
    let mut facts = vec![Fact::known("device", &device.name)];
    facts.extend(device.ports.iter().map(|port| Fact::known("", &port.to_string())));
    facts.push(Fact::cited("queue pairs", device.queue_pairs.as_ref(), ToString::to_string, unknown()));
    facts.push(Fact::cited("registrations", device.registrations.as_ref(), ToString::to_string, unknown()));
    facts.push(register_mappings(host, device));
    facts
}

/// The memory types with which its adapter's registers are mapped. Doorbells are meant to be write-combining.
fn register_mappings(host: &Host, device: &RdmaDevice) -> Fact {
    const LABEL: &str = "registers mapped";
    let Some(memory) = &host.memory else {
        return Fact::unknown(LABEL, "only x86 kernels list the types of mappings");
    };
    if memory.memtypes.is_empty() {
        return Fact::unknown(
            LABEL,
            "root can read /sys/kernel/debug/x86/pat_memtype_list, which was not read",
        );
    }
    let mut counts = std::collections::BTreeMap::<_, usize>::new();
    for mapping in device.mappings(&memory.memtypes) {
        *counts.entry(mapping.value.kind).or_default() += 1;
    }
    let one = |(kind, count): (&host::memory::MemoryType, &usize)| {
        format!("{} {kind}", quantity::count(*count, "range"))
    };
    match counts.is_empty() {
        true => Fact::absent(LABEL, "none listed by the kernel"),
        false => Fact::known(LABEL, &counts.iter().map(one).collect::<Vec<_>>().join(", ")),
    }
}
