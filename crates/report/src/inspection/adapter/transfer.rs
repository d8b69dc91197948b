//! Registers that decide how an adapter's packets travel: sizes, ordering, isolation, translation.

use super::unread_reason;
use crate::page::fact::{Fact, Section};
use host::facts::{Adapter, Function, Host};
use host::pci::acs::AcsControls;
use host::pci::express::{Device, Device2, PayloadSize};
use host::pci::{Capabilities, Express, PortType, Presence};

/// How the adapter's packets travel: payload sizes, ordering and tags.
pub(super) fn section(host: &Host, adapter: &Adapter) -> Section {
    let function = &adapter.function;
    let why = unread_reason(function, &function.capabilities);
    let mut facts = match &function.capabilities.express {
        Presence::Present(express) => express_facts(express, why),
        Presence::Absent => vec![Fact::absent("PCI Express", "a conventional PCI function")],
        Presence::Unknown => [
            "port type",
            "payload",
            "read request",
            "relaxed ordering",
            "no snoop",
            "extended tags",
            "10-bit tags",
        ]
        .iter()
        .map(|label| Fact::unknown(label, why))
        .collect(),
    };
    facts.extend(payload_above(host, adapter));
    Section { title: "Transfers", facts }
}

/// Payload sizes, ordering and tags, from the PCI Express capability.
fn express_facts(express: &Express, why: &str) -> Vec<Fact> {
    let (device, second) = (&express.device, &express.device2);
    vec![
        known_or_unknown("port type", express.port.map(|port| port_word(port).to_owned()), why),
        known_or_unknown("payload", sizes(device.payload, device.payload_max), why),
        known_or_unknown(
            "read request",
            device.read_request.map(|size| format!("{} bytes at most", size.bytes())),
            why,
        ),
        known_or_unknown("relaxed ordering", device.relaxed_ordering_enabled.map(enabled_word), why),
        known_or_unknown("no snoop", device.no_snoop_enabled.map(enabled_word), why),
        extended_tags(device, why),
        ten_bit_tags(express, second, why),
    ]
}

/// A known fact; an unknown one for the reason `why` if there are no words.
fn known_or_unknown(label: &str, words: Option<String>, why: &str) -> Fact {
    words.map_or_else(|| Fact::unknown(label, why), |words| Fact::known(label, &words))
}

/// `enabled` or `disabled`.
fn enabled_word(enabled: bool) -> String {
    if enabled { "enabled".to_owned() } else { "disabled".to_owned() }
}

/// The payload size that is set, and the largest that is supported.
fn sizes(now: Option<PayloadSize>, most: Option<PayloadSize>) -> Option<String> {
    let most = most.map(|most| format!(", {} supported", most.bytes())).unwrap_or_default();
    now.map(|now| format!("{} bytes at most{most}", now.bytes()))
}

/// Whether tags of requests have 8 bits.
fn extended_tags(device: &Device, why: &str) -> Fact {
    match (device.extended_tag_enabled, device.extended_tag) {
        (Some(true), _) => Fact::known("extended tags", "enabled: 8 bits"),
        (Some(false), Some(false)) => Fact::absent("extended tags", "not supported: 5 bits"),
        (Some(false), _) => Fact::known("extended tags", "disabled: 5 bits"),
        (None, _) => Fact::unknown("extended tags", why),
    }
}

/// Whether tags of requests have 10 bits.
fn ten_bit_tags(express: &Express, second: &Device2, why: &str) -> Fact {
    match (second.ten_bit_tag_enabled, second.ten_bit_tag_requester) {
        (Some(true), _) => Fact::known("10-bit tags", "enabled"),
        (Some(false), Some(false)) => Fact::absent("10-bit tags", "not supported"),
        (Some(false), _) => Fact::known("10-bit tags", "disabled"),
        (None, _) if express.version == Some(1) => {
            Fact::absent("10-bit tags", "not in version 1 of the registers")
        }
        (None, _) => Fact::unknown("10-bit tags", why),
    }
}

/// Payload sizes of the bridges above that differ from the adapter's; `None` if none does.
fn payload_above(host: &Host, adapter: &Adapter) -> Option<Fact> {
    let payload = |function: &Function| function.capabilities.express.get()?.device.payload;
    let own = payload(&adapter.function)?;
    let above = adapter.function.upstream.iter().filter_map(|address| host.bridges.get(address));
    let others: Vec<String> = above
        .filter_map(|bridge| Some((bridge.address, payload(bridge)?)))
        .filter(|(_, size)| *size != own)
        .map(|(address, size)| format!("{address}: {} bytes", size.bytes()))
        .collect();
    (!others.is_empty()).then(|| Fact::known("payload above", &others.join(", ")))
}

/// ACS of the adapter and of the bridges above; address translation in the device; virtual functions.
pub(super) fn isolation(host: &Host, adapter: &Adapter) -> Section {
    let function = &adapter.function;
    let capabilities = &function.capabilities;
    let why = unread_reason(function, capabilities);
    let mut facts = vec![capability("ACS", &capabilities.acs, why, |acs| acs_controls(&acs.enabled))];
    facts.extend(
        adapter.function.upstream.iter().filter_map(|address| host.bridges.get(address)).map(port_acs),
    );
    facts.push(capability("ATS", &capabilities.ats, why, |ats| enabled_words(ats.enabled)));
    facts.push(capability("PRI", &capabilities.pri, why, |pri| enabled_words(pri.enabled)));
    facts.push(capability("PASID", &capabilities.pasid, why, |pasid| {
        let width = pasid.width_bits_max.map(|bits| format!(", {bits} bits")).unwrap_or_default();
        format!("{}{width}", enabled_words(pasid.enabled))
    }));
    facts.push(capability("SR-IOV", &capabilities.sriov, why, |sriov| {
        let of = |count: Option<u16>| count.map_or_else(|| "?".to_owned(), |count| count.to_string());
        format!(
            "{}, {} of {} virtual functions",
            enabled_words(sriov.enabled),
            of(sriov.number),
            of(sriov.total)
        )
    }));
    Section { title: "Isolation and translation in the device", facts }
}

/// A capability as a fact; `words` describe it if it is there.
fn capability<T>(label: &str, presence: &Presence<T>, why: &str, words: impl FnOnce(&T) -> String) -> Fact {
    match presence {
        Presence::Present(value) => Fact::known(label, &words(value)),
        Presence::Absent => Fact::absent(label, "not there"),
        Presence::Unknown => Fact::unknown(label, why),
    }
}

/// Whether a capability is enabled, as far as it could be read.
fn enabled_words(enabled: Option<bool>) -> String {
    enabled.map_or_else(|| "there, but whether enabled was not readable".to_owned(), enabled_word)
}

/// ACS of a bridge above the adapter.
fn port_acs(bridge: &Function) -> Fact {
    let label = format!("ACS of {}", bridge.address);
    let why = unread_reason(bridge, &bridge.capabilities);
    capability(&label, &bridge.capabilities.acs, why, |acs| acs_controls(&acs.enabled))
}

/// The ACS controls that are on.
fn acs_controls(enabled: &AcsControls) -> String {
    let all = [
        ("source validation", enabled.source_validation),
        ("translation blocking", enabled.translation_blocking),
        ("request redirect", enabled.request_redirect),
        ("completion redirect", enabled.completion_redirect),
        ("upstream forwarding", enabled.upstream_forwarding),
        ("egress control", enabled.egress_control),
        ("direct translated", enabled.direct_translated),
    ];
    let on: Vec<&str> = all.iter().filter(|(_, on)| *on == Some(true)).map(|(name, _)| *name).collect();
    match (all.iter().all(|(_, on)| on.is_none()), on.is_empty()) {
        (true, _) => "there, but its controls were not readable".to_owned(),
        (false, true) => "there, all controls off".to_owned(),
        (false, false) => format!("on: {}", on.join(", ")),
    }
}

/// How the adapter signals interrupts: by MSI-X, MSI or a wire.
pub(super) fn message_signalled(function: &Function, capabilities: &Capabilities) -> Fact {
    let count = |vectors: Option<u16>| vectors.map_or_else(|| "?".to_owned(), |count| count.to_string());
    match (&capabilities.msi_x, &capabilities.msi) {
        (Presence::Present(msi_x), _) if msi_x.enabled == Some(true) => {
            Fact::known("signalled by", &format!("MSI-X, a table of {}", count(msi_x.vectors)))
        }
        (_, Presence::Present(msi)) if msi.enabled == Some(true) => {
            Fact::known("signalled by", &format!("MSI, {} of {}", count(msi.vectors), count(msi.vectors_max)))
        }
        (Presence::Unknown, _) | (_, Presence::Unknown) => {
            Fact::unknown("signalled by", unread_reason(function, capabilities))
        }
        (Presence::Absent, Presence::Absent) => {
            Fact::absent("signalled by", "a wire: neither MSI-X nor MSI is there")
        }
        _ => Fact::known("signalled by", "a wire or nothing: MSI-X and MSI are off"),
    }
}

/// A port type in words.
pub(super) fn port_word(port: PortType) -> &'static str {
    match port {
        PortType::Endpoint => "endpoint",
        PortType::LegacyEndpoint => "legacy endpoint",
        PortType::RootPort => "root port",
        PortType::UpstreamPort => "switch's upstream port",
        PortType::DownstreamPort => "switch's downstream port",
        PortType::ExpressToPciBridge => "bridge to PCI",
        PortType::PciToExpressBridge => "bridge from PCI",
        PortType::RootComplexIntegratedEndpoint => "endpoint inside the root complex",
        PortType::RootComplexEventCollector => "event collector",
        PortType::Reserved(_) => "reserved type",
    }
}
