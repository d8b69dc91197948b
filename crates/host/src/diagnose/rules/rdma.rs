//! RDMA devices: paths that carry less than their ports, and devices of software.
//!
//! Their DMA windows on POWER are in `power`.

use super::{Rule, lspci_register};
use crate::diagnose::{Advice, Case, Explanation, Finding, Id, Severity};
use crate::facts::rdma::{Engine, RdmaDevice, RdmaPort};
use crate::facts::{Adapter, Host};
use crate::pci::link::{Caveat, PathJudgement, diagnose_path};
use crate::pci::{Hop, Link};
use crate::{Bdf, Cited};
use std::collections::BTreeMap;
use toll::grouped;

/// The rule, with what its findings mean.
pub(super) const RULE: Rule = Rule {
    find,
    explains: &[
        Explanation {
            id: Id::RdmaPathTooSlow,
            meaning: "The active ports of an RDMA adapter carry more than a PCIe link between it and memory.",
            severity: "warning where a slot limits; note where the adapter's own link does",
            evidence: "rate and state of the ports in `/sys/class/infiniband`, and status of all links up to the root",
            fix: "move the adapter to a slot with the speed and width of its own link; where its own link is the limit, nothing",
            risk: "moving the card changes its address and so names derived from it",
            verify: "`lspci -vvs ADDRESS | grep LnkSta`",
        },
        Explanation {
            id: Id::RdmaInSoftware,
            meaning: "An RDMA device is none of an adapter: the kernel copies its data and sends them by a network \
                      interface (soft-RoCE, soft-iWARP). What is said of an adapter's DMA path does not hold for it.",
            severity: "note",
            evidence: "the attribute `parent` of soft-RoCE, or a folder below no device",
            fix: "give applications the device of an adapter, if there is one",
            risk: "none",
            verify: "`ibv_devinfo` shows the adapter's device in use",
        },
    ],
};

/// Findings about RDMA devices.
fn find(case: &Case<'_>) -> Vec<Finding> {
    let software = case.host.rdma.iter().filter_map(|device| match &device.engine {
        Engine::Software(interface) => Some(in_software(case.host, device, interface.as_ref())),
        Engine::Adapter(_) | Engine::Other => None,
    });
    let cards = cards(case.host).into_values();
    software.chain(cards.filter_map(|card| path_too_slow(case.host, &card))).collect()
}

/// An adapter with one of its RDMA devices.
type Member<'h> = (&'h Adapter, &'h RdmaDevice);

/// Domain, bus and device number.
type Place = (u32, u8, u8);

/// RDMA devices by the card that they are on: its functions share a link. Virtual functions have no ports of their own.
fn cards(host: &Host) -> BTreeMap<Place, Vec<Member<'_>>> {
    let mut cards: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for device in &host.rdma {
        let adapter = device.adapter().and_then(|address| host.adapter(address));
        let Some(adapter) = adapter.filter(|adapter| adapter.virtualisation.physical.is_none()) else {
            continue;
        };
        let Bdf { domain, bus, device: slot, .. } = adapter.function.address;
        cards.entry((domain, bus, slot)).or_default().push((adapter, device));
    }
    cards
}

/// A finding on a card whose path to the root carries less than its active ports.
fn path_too_slow(host: &Host, card: &[Member<'_>]) -> Option<Finding> {
    let (adapter, _) = card.first()?;
    let active: Vec<(&RdmaDevice, &RdmaPort, u32)> = card
        .iter()
        .flat_map(|(_, device)| device.ports.iter().map(move |port| (*device, port)))
        .filter(|(_, port)| port.is_active == Some(true))
        .map(|(device, port)| Some((device, port, port.data_mbps()?)))
        .collect::<Option<_>>()?;
    let ports_mbps: u64 = active.iter().map(|(.., mbps)| u64::from(*mbps)).sum();
    let hops = host.hops(adapter);
    let links = hops.iter().map(|(upper, lower)| Hop { upper: upper.link.value, lower: lower.link.value });
    let path = diagnose_path(&links.collect::<Vec<_>>());
    // A link that lost speed or lanes is told as such, and may only save power.
    if path.hops.iter().any(|hop| hop.is_degraded() || hop.caveats.contains(&Caveat::MaySavePower)) {
        return None;
    }
    let link = path.current().filter(|link| u64::from(link.megabits_per_second()) < ports_mbps)?;
    let own = &adapter.function.link.value;
    let best = own.speed_max.zip(own.width_max).map(|(speed, width)| Link { speed, width })?;
    let (severity, fix) = remedy(&path, link, best);
    let said: Vec<String> =
        active.iter().map(|(device, port, _)| format!("{} {port}", device.name)).collect();
    let rates = active.iter().filter_map(|(_, port, _)| port.rate.as_ref()).map(|rate| rate.at.clone());
    let links = hops.iter().flat_map(|(upper, lower)| [upper.link.at.clone(), lower.link.at.clone()]);
    Some(Finding {
        id: Id::RdmaPathTooSlow,
        severity,
        address: Some(adapter.function.address),
        what: format!(
            "its active ports carry {} Mb/s together ({}), and its path to memory {} Mb/s, less headers of packets ({link})",
            grouped(ports_mbps),
            said.join("; "),
            grouped(link.megabits_per_second().into())
        ),
        evidence: rates.chain(links).collect(),
        fix,
        risk: match severity {
            Severity::Note => "none",
            Severity::Warning | Severity::Critical => {
                "moving the card changes its address and so names derived from it"
            }
        }
        .to_owned(),
        verify: Advice::run(lspci_register(adapter.function.address, "LnkSta")),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}

/// What to do about a path of which `link` carries least, where the adapter's own link could be `best`.
fn remedy(path: &PathJudgement, link: Link, best: Link) -> (Severity, Advice) {
    if link >= best {
        let own = "nothing in this machine: the adapter's own link carries no more; use one port at a time for what needs its \
                   full rate, or an adapter with a faster link";
        return (Severity::Note, own.into());
    }
    let above = path.narrowest.and_then(|at| path.hops.get(at)).map(|hop| hop.upper);
    let limit = above.map_or_else(String::new, |port| format!(": the link below {port} limits it"));
    let words = format!("move the adapter to a slot that gives it its own {best}{limit}");
    (Severity::Warning, words.into())
}

/// A finding on a device of software.
fn in_software(host: &Host, device: &RdmaDevice, interface: Option<&Cited<String>>) -> Finding {
    let on = interface.map_or_else(String::new, |interface| format!(" on {}", interface.value));
    let kind = if interface.is_some() { "soft-RoCE" } else { "soft-RoCE or soft-iWARP" };
    let others = host.rdma.iter().filter(|other| other.adapter().is_some());
    let names: Vec<&str> = others.map(|other| other.name.as_str()).collect();
    Finding {
        id: Id::RdmaInSoftware,
        severity: Severity::Note,
        address: None,
        what: format!(
            "the RDMA device {}{on} is {kind}: the kernel copies its data, and no adapter reads or writes the memory that \
             applications register",
            device.name
        ),
        evidence: interface.map(|interface| interface.at.clone()).into_iter().collect(),
        fix: match names.as_slice() {
            [] => "nothing: no adapter with RDMA of its own was seen".into(),
            names => Advice::say("give applications a device of an adapter (")
                .and_text(&names.join(", "))
                .and_say("), if they need its speed"),
        },
        risk: "none".to_owned(),
        verify: "`ibv_devinfo` shows which devices there are, and the application's own output which it uses"
            .into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    }
}
