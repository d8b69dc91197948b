//! All facts of one adapter, by sections.

mod rdma;
mod transfer;

use super::link_text;
use crate::page::fact::{Fact, Section, Value};
use crate::page::quantity;
use host::Bdf;
use host::diagnose::{Inspection, Verdict};
use host::facts::iommu::{DomainType, Group};
use host::facts::{Adapter, Function, Host};
use host::pci::link::{HopJudgement, diagnose_path};
use host::pci::{Capabilities, Hop, Reach};

/// Interrupt vectors listed one by one.
const VECTORS_MAX: usize = 8;
/// Members of an IOMMU group listed one by one.
const MEMBERS_MAX: usize = 12;

/// All facts of the adapter at an address, by sections.
pub(crate) fn sections(inspection: &Inspection, address: Bdf) -> Option<Vec<Section>> {
    let (adapter, verdict) =
        inspection.adapters().find(|(adapter, _)| adapter.function.address == address)?;
    let host = &inspection.host;
    let mut sections = vec![
        identity(host, adapter),
        dma_path(verdict),
        dma(host, adapter),
        location(host, adapter),
        interrupts(adapter),
        links(host, adapter),
        transfer::section(host, adapter),
        transfer::isolation(host, adapter),
    ];
    sections.extend(rdma::section(host, adapter));
    Some(sections)
}

/// What the adapter is: names, numbers, driver and interfaces.
fn identity(host: &Host, adapter: &Adapter) -> Section {
    let (names, function) = (&adapter.names, &adapter.function);
    let absent = "not in the tables of names";
    let name = |label: &str, name: Option<&String>, absent: &str| match name {
        Some(name) => Fact::known(label, name),
        None => Fact::absent(label, absent),
    };
    let has_ids = function.ids.vendor.is_some() && function.ids.device.is_some();
    let by_ids = if has_ids { absent } else { "the IDs were not read" };
    let mut facts = vec![
        name("maker", names.vendor.as_ref(), by_ids),
        name("chip", names.device.as_ref(), by_ids),
        match (&names.subsystem, function.ids.subsystem) {
            (None, None) => Fact::absent("card", "its numbers are not shown"),
            (card, _) => name("card", card.as_ref(), absent),
        },
        name("class", names.class.as_ref(), absent),
        numbers(function),
        driver(host, function),
    ];
    facts.push(match adapter.interfaces.is_empty() {
        true => Fact::absent("interfaces", "none seen"),
        false => {
            let one = |one: &host::facts::adapter::Interface| format!("{} ({})", one.name, one.class);
            Fact::known("interfaces", &adapter.interfaces.iter().map(one).collect::<Vec<_>>().join(", "))
        }
    });
    Section { title: "Identity", facts }
}

/// Vendor and device IDs, those of the card, and the class code, as far as they were read.
fn numbers(function: &Function) -> Fact {
    let ids = &function.ids;
    let device = ids.vendor.zip(ids.device).map(|(vendor, device)| format!("{vendor:04x}:{device:04x}"));
    let card = ids.subsystem.map(|card| format!("card {:04x}:{:04x}", card.vendor, card.device));
    let class = ids.class.map(|class| {
        let interface = class.interface.map(|byte| format!("{byte:02x}")).unwrap_or_default();
        format!("class {:02x}{:02x}{interface}", class.base, class.sub)
    });
    let all: Vec<String> = [device, card, class].into_iter().flatten().collect();
    match all.is_empty() {
        true => Fact::absent("numbers", "not in what was read"),
        false => Fact::known("numbers", &all.join(", ")),
    }
}

/// The driver that is bound, if the source shows drivers.
fn driver(host: &Host, function: &Function) -> Fact {
    let otherwise = match host.shows_drivers {
        true => Value::Absent("none is bound".to_owned()),
        false => Value::Unknown("the source does not show drivers".to_owned()),
    };
    Fact::cited("driver", function.driver.as_ref(), Clone::clone, otherwise)
}

/// The DMA path, its cost per I/O, and the lines that show it.
fn dma_path(verdict: &Verdict) -> Section {
    let mut facts =
        vec![Fact::known("DMA path", verdict.dma_path.word()), Fact::known("toll", verdict.dma_path.toll())];
    facts.extend(verdict.condition.as_ref().map(|condition| Fact::known("if", condition)));
    facts.extend(verdict.reason.as_ref().map(|reason| Fact::known("reason", reason)));
    let labels = std::iter::once("evidence").chain(std::iter::repeat(""));
    facts.extend(labels.zip(&verdict.evidence).map(|(label, at)| Fact::known(label, &at.to_string())));
    Section { title: "DMA path to memory", facts }
}

/// DMA masks and the IOMMU group.
fn dma(host: &Host, adapter: &Adapter) -> Section {
    let mask = |label: &str, file: &str, bits: Option<&host::Cited<u32>>| {
        let why = format!("{file} was not there: old kernels lack it, and lspci does not show it");
        Fact::cited(label, bits, |bits| format!("{bits} bits"), Value::Unknown(why))
    };
    let mut facts = vec![
        mask("streaming mask", "dma_mask_bits", adapter.dma_mask_bits.as_ref()),
        mask("coherent mask", "consistent_dma_mask_bits", adapter.coherent_mask_bits.as_ref()),
        group_number(host, adapter),
    ];
    let group = adapter.function.iommu_group.as_ref().and_then(|at| host.iommus.groups.get(&at.value));
    facts.extend(group.into_iter().flat_map(|group| group_facts(host, group)));
    facts.extend(adapter.virtio.as_ref().map(|virtio| {
        let words = match virtio.access_platform.value {
            true => "uses the platform's DMA (VIRTIO_F_ACCESS_PLATFORM)",
            false => "is given physical addresses, whatever IOMMU there is (no VIRTIO_F_ACCESS_PLATFORM)",
        };
        Fact::known("virtio", words).at(&virtio.access_platform.at)
    }));
    Section { title: "DMA", facts }
}

/// The number of the adapter's IOMMU group.
fn group_number(host: &Host, adapter: &Adapter) -> Fact {
    let otherwise = match host.iommus.visible {
        true => Value::Absent("in none".to_owned()),
        false => Value::Unknown("sysfs was not there to show groups".to_owned()),
    };
    Fact::cited("IOMMU group", adapter.function.iommu_group.as_ref(), ToString::to_string, otherwise)
}

/// The type and the members of an IOMMU group, and regions that firmware claims.
fn group_facts(host: &Host, group: &Group) -> Vec<Fact> {
    let why = "the group's `type` file is absent, as before 4.x, or was not readable".to_owned();
    let mut facts = vec![Fact::cited(
        "group's type",
        group.domain_type.as_ref(),
        |kind| domain_type(*kind, host.tells_lazy_groups()).to_owned(),
        Value::Unknown(why),
    )];
    let members: Vec<String> =
        group.members.iter().map(Bdf::to_string).chain(group.other_members.iter().cloned()).collect();
    if !members.is_empty() {
        facts.push(Fact::known("group's members", &quantity::listed(&members, MEMBERS_MAX)));
    }
    if group.direct_regions > 0 {
        let count = quantity::count(group.direct_regions as usize, "region");
        facts.push(Fact::known("firmware's claims", &format!("{count} mapped one to one for firmware")));
    }
    facts
}

/// What a domain type means for I/Os. Some kernels' types do not distinguish lazy from strict mode.
fn domain_type(kind: DomainType, shows_lazy: bool) -> &'static str {
    match kind {
        DomainType::Blocked => "blocked: no DMA gets through",
        DomainType::Identity => "identity: addresses pass through",
        DomainType::Unmanaged => "unmanaged: mapped by its user (VFIO)",
        DomainType::Dma if shows_lazy => "DMA: mapped per I/O, invalidated at each unmap",
        DomainType::Dma => "DMA: mapped per I/O; this kernel's types do not tell lazy from strict",
        DomainType::DmaFq => "DMA-FQ: mapped per I/O, invalidated in batches",
        DomainType::Unknown => "unknown, in the kernel's own word",
    }
}

/// Where the adapter is: NUMA node, slot, the bridges above it, and its virtual functions.
fn location(host: &Host, adapter: &Adapter) -> Section {
    let function = &adapter.function;
    let absent = |words: &str| Value::Absent(words.to_owned());
    let mut facts = vec![
        Fact::cited(
            "NUMA node",
            function.numa_node.as_ref(),
            ToString::to_string,
            absent("firmware names none"),
        ),
        match &adapter.local_cpus {
            Some(cpus) => Fact::known("CPUs nearby", &cpus.to_string()),
            None => Fact::unknown("CPUs nearby", "local_cpulist was not there"),
        },
        Fact::cited("slot", adapter.slot.as_ref(), Clone::clone, absent("firmware names none")),
    ];
    facts.push(match function.upstream.is_empty() {
        true => Fact::absent("below", "no bridge: on a root bus, or the tree is not shown"),
        false => Fact::known("below", &upstream(host, function)),
    });
    facts.extend(adapter.device_tree_node.as_ref().map(|node| Fact::known("device tree", node)));
    facts.extend(adapter.removable.as_ref().map(|word| Fact::known("removable", &word.value).at(&word.at)));
    let sriov = &adapter.virtualisation;
    facts.extend(sriov.physical.map(|of| Fact::known("virtual function of", &of.to_string())));
    let functions: Vec<String> = sriov.virtual_functions.iter().map(Bdf::to_string).collect();
    if !functions.is_empty() {
        facts.push(Fact::known("virtual functions", &quantity::listed(&functions, MEMBERS_MAX)));
    }
    Section { title: "Place", facts }
}

/// The bridges from the root down to the adapter, with their port types.
fn upstream(host: &Host, function: &Function) -> String {
    let port = |address: &Bdf| {
        let express = host.bridges.get(address).and_then(|bridge| bridge.capabilities.express.get());
        match express.and_then(|express| express.port) {
            Some(port) => format!("{address} ({})", transfer::port_word(port)),
            None => address.to_string(),
        }
    };
    function.upstream.iter().map(port).collect::<Vec<_>>().join(" → ")
}

/// Interrupt vectors with their counts and CPUs.
fn interrupts(adapter: &Adapter) -> Section {
    let capabilities = &adapter.function.capabilities;
    let mut facts = vec![match adapter.vectors.is_empty() {
        true => Fact::absent("vectors", "none in /proc/interrupts, as far as it was readable"),
        false => {
            let taken = adapter.vectors.iter().fold(0u64, |sum, vector| sum.saturating_add(vector.count));
            let count = quantity::count(adapter.vectors.len(), "vector");
            Fact::known("vectors", &format!("{count}, taken {} times", quantity::grouped(taken)))
        }
    }];
    for vector in adapter.vectors.iter().take(VECTORS_MAX) {
        let cpus = vector.affinity.as_ref().map(|cpus| format!(", CPUs {cpus}")).unwrap_or_default();
        let words = format!("{}, taken {} times{cpus}", vector.name, quantity::grouped(vector.count));
        facts.push(Fact::known(&format!("IRQ {}", vector.number), &words));
    }
    if let Some(more @ 1..) = adapter.vectors.len().checked_sub(VECTORS_MAX) {
        facts.push(Fact::known("more", &format!("{} in /proc/interrupts", quantity::count(more, "vector"))));
    }
    facts.push(transfer::message_signalled(&adapter.function, capabilities));
    Section { title: "Interrupts", facts }
}

/// The links from the root down to the adapter, and what limits its bandwidth.
fn links(host: &Host, adapter: &Adapter) -> Section {
    let ends: Vec<Hop> = host
        .hops(adapter)
        .iter()
        .map(|(upper, lower)| Hop { upper: upper.link.value, lower: lower.link.value })
        .collect();
    let path = diagnose_path(&ends);
    let mut facts: Vec<Fact> = path.hops.iter().map(hop).collect();
    if facts.is_empty() {
        facts.push(own_link(adapter));
    }
    if let Some(narrowest) = path.narrowest.and_then(|index| path.hops.get(index)).filter(|_| ends.len() > 1)
    {
        let link = narrowest.current.map(|link| link.to_string()).unwrap_or_default();
        facts.push(Fact::known(
            "narrowest now",
            &format!("{} → {}: {link}", narrowest.upper, narrowest.lower),
        ));
    }
    if let Some(link) = path.current() {
        let rate = quantity::grouped(u64::from(link.megabits_per_second()));
        facts.push(Fact::known("bandwidth", &format!("{rate} Mb/s each way after line encoding")));
    }
    Section { title: "Links, root first", facts }
}

/// The link as the adapter sees it, where no bridge is known. Virtual functions and root complex endpoints have none.
fn own_link(adapter: &Adapter) -> Fact {
    let link = &adapter.function.link;
    let text = link_text::one_end(&link.value);
    let express = &adapter.function.capabilities.express;
    match (text.is_empty(), express.is_absent(), express.is_unknown()) {
        (false, ..) => Fact::known("its own end", &text).at(&link.at),
        (true, true, _) => Fact::absent("its own end", "not PCI Express"),
        (true, _, true) => {
            Fact::unknown("its own end", unread_reason(&adapter.function, &adapter.function.capabilities))
        }
        (true, _, false) => Fact::absent("its own end", "shows no link: inside the root complex, or virtual"),
    }
}

/// One link: its speed and width, and whether both ends could do more.
fn hop(judged: &HopJudgement) -> Fact {
    let label = format!("{} → {}", judged.upper, judged.lower);
    let text = link_text::both_ends(judged);
    if text.is_empty() {
        return Fact::unknown(&label, "neither end shows its link");
    }
    let reached = match (judged.possible.is_none(), judged.is_degraded()) {
        (true, _) => "what it could do is unknown (an end was not readable)",
        (false, true) => "less than both ends can",
        (false, false) => "all that both ends can",
    };
    let remarks = link_text::remarks(judged);
    let words: Vec<String> = [format!("{text}: {reached}")].into_iter().chain(remarks).collect();
    Fact::known(&label, &words.join("; "))
}

/// Why the registers of a function could not be read.
fn unread_reason(function: &Function, capabilities: &Capabilities) -> &'static str {
    match function.config_reach {
        None if capabilities.express.is_present() => "lspci's output does not show it",
        None => "configuration space was not readable",
        Some(Reach::Header) => "of configuration space only 64 bytes were readable; root sees all",
        Some(Reach::Conventional) => "of configuration space only 256 bytes were readable",
        Some(Reach::Extended) => "its registers are cut short or out of place",
    }
}
