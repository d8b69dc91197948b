//! Links below what both their ends allow, and payload sizes that don't match along a path.

use super::Rule;
use crate::diagnose::{Advice, Case, Explanation, Finding, Id, Severity};
use crate::facts::log::BandwidthLine;
use crate::facts::{Adapter, Function, Host};
use crate::pci::link::{Caveat, HopJudgement};
use crate::pci::names::Ids;
use crate::pci::{Hop, Kind};
use crate::{Bdf, Citation};
use escape::shell::Command;
use std::collections::BTreeSet;
use toll::grouped;

/// The rule, with what its findings mean.
pub(super) const RULE: Rule = Rule {
    find,
    explains: &[
        Explanation {
            id: Id::LinkDegraded,
            meaning: "A PCIe link on the way to the adapter runs slower or narrower than both its ends \
                      allow; or, if only the card's end was seen, narrower than the card allows.",
            severity: "warning; note at 2.5 GT/s, which may be power saving",
            evidence: "link status and capabilities of both ends, or the kernel's line `available PCIe \
                       bandwidth`",
            fix: "reseat the card or cable; look for corrected errors at the port; retrain the link with \
                  `setpci`; check bifurcation and speed settings of the slot in firmware",
            risk: "retraining stops the link for some milliseconds: not under load of a device that can't \
                   bear it",
            verify: "`lspci -vvs ADDRESS | grep LnkSta` under load",
        },
        Explanation {
            id: Id::PayloadMismatch,
            meaning: "The adapter and a port above it are set to different maximum payload sizes. A packet \
                      larger than the port accepts is malformed there.",
            severity: "critical where the adapter sends more than the port accepts; warning where \
                       completions may be too large for it, or the kernel could not set the size; note \
                       otherwise",
            evidence: "the Device Control registers of both, or the kernel's line that it could not set the \
                       size",
            fix: "boot with `pci=pcie_bus_safe`",
            risk: "all functions below one root port get the smallest size that one of them supports: fast \
                   adapters beside slow ones lose some bandwidth to headers",
            verify: "`lspci -vvs ADDRESS | grep MaxPayload`, of the adapter and each port above it",
        },
    ],
};

/// Findings about links and payload sizes.
fn find(case: &Case<'_>) -> Vec<Finding> {
    // A link is shared by all functions of a card and all adapters below a switch: it is told once, for
    // the first of them.
    let mut told = BTreeSet::new();
    let mut findings = Vec::new();
    for (adapter, _) in case.adapters() {
        for (upper, lower) in case.host.hops(adapter) {
            let hop = Hop { upper: upper.link.value, lower: lower.link.value }.diagnose();
            if hop.is_degraded() && told.insert(upper.address) {
                findings.push(degraded(adapter, upper, lower, &hop));
            }
        }
        let said = said_at_boot(case.host, adapter, &told);
        findings.extend(said.or_else(|| below_own_width(case.host, adapter)));
        findings.extend(payload(case.host, adapter));
    }
    findings
}

/// A finding on a link slower or narrower than both its ends support.
fn degraded(adapter: &Adapter, upper: &Function, lower: &Function, hop: &HopJudgement) -> Finding {
    let shown =
        |link: Option<crate::pci::Link>| link.map_or_else(|| "less".to_owned(), |link| link.to_string());
    let saves_power = hop.caveats.contains(&Caveat::MaySavePower);
    let mut what = format!(
        "the link between {} and {} runs at {}, and both ends can do {}",
        upper.address,
        lower.address,
        shown(hop.current),
        shown(hop.possible)
    );
    for caveat in &hop.caveats {
        what.push_str(match caveat {
            Caveat::MaySavePower => "; 2.5 GT/s may be power saving: look again under load",
            Caveat::SpeedCapped(_) => "; the port's target speed is set below that",
            Caveat::EndsDisagree => "; the two ends report different states",
            Caveat::Training => "; it was being trained when read",
        });
    }
    Finding {
        id: Id::LinkDegraded,
        severity: if saves_power { Severity::Note } else { Severity::Warning },
        address: Some(adapter.function.address),
        what,
        evidence: vec![upper.link.at.clone(), lower.link.at.clone()],
        fix: if saves_power {
            Advice::say("nothing yet: look again while it moves data (")
                .and_run(super::lspci_register(lower.address, "LnkSta"))
                .and_say("); idle adapters, GPUs among them, lower the speed of their link to save power")
        } else {
            retrain(upper.address, lower.address)
        },
        risk: if saves_power {
            "none in looking"
        } else {
            "retraining stops the link for some milliseconds: not under load of a device that can't bear it"
        }
        .to_owned(),
        verify: Advice::run(super::lspci_register(lower.address, "LnkSta")).and_say(", under load"),
        gain: hop.possible.zip(hop.current).map(|(possible, current)| toll::Gain {
            what: format!(
                "{} to {} Mb/s on this link, after line encoding",
                current.megabits_per_second(),
                possible.megabits_per_second()
            ),
            evidence: toll::Evidence::Published {
                source: "PCI Express Base Specification 6.0: rates and encodings".to_owned(),
            },
        }),
        predicted: Vec::new(),
        forecast: None,
    }
}

/// How a degraded link is examined and trained again.
fn retrain(upper: Bdf, lower: Bdf) -> Advice {
    let at_upper = |program: &'static str, option: &'static str| {
        Command::new(program).arg(option).arg(upper.to_string())
    };
    Advice::say(format!("reseat the card or cable at {lower}; look for errors at {upper} ("))
        .and_run(at_upper("lspci", "-vvs"))
        .and_say(": CorrErr, BadTLP, and `dmesg | grep AER`); have it train again with ")
        .and_run(at_upper("setpci", "-s").arg("CAP_EXP+10.w=20:20"))
        .and_say("; then look at bifurcation and speed settings of the slot in firmware")
}

/// The kernel's own line, for hosts whose registers were not readable at every hop. It compares the
/// device with the whole path: only where the port named can do more is anything wrong, and that it
/// can't tell. So it is a finding only if no register says more.
fn said_at_boot(host: &Host, adapter: &Adapter, told: &BTreeSet<Bdf>) -> Option<Finding> {
    let line = host.log.bandwidth.get(&adapter.function.address)?;
    let Some(capable) = line.capable_mbps else { return said_by_driver(host, adapter, line) };
    let known = host
        .hops(adapter)
        .iter()
        .any(|(upper, lower)| upper.link.value.speed_max.is_some() && lower.link.value.speed.is_some());
    let is_told = adapter.function.upstream.iter().any(|bridge| told.contains(bridge));
    if line.available_mbps >= capable || known || is_told {
        return None;
    }
    let port = line.limited_at.map_or_else(|| "a port above".to_owned(), |port| port.to_string());
    let reduced = match &line.capable {
        Some(capable) if capable.speed_gts_tenths == line.link.speed_gts_tenths => "; the width is reduced",
        Some(capable) if capable.lanes == line.link.lanes => "; the speed is reduced",
        _ => "",
    };
    let could = line.capable.as_ref().map_or_else(String::new, |capable| format!("; it could do {capable}"));
    Some(Finding {
        id: Id::LinkDegraded,
        severity: Severity::Warning,
        address: Some(adapter.function.address),
        what: format!(
            "when it was found, {} of the {} Mb/s that it can do were available: a link below {port} ran {}{could}{reduced}, \
             by design of the slot or because the link trained low",
            grouped(line.available_mbps),
            grouped(capable),
            line.link
        ),
        evidence: vec![line.at.clone()],
        fix: format!(
            "compare LnkCap and LnkSta of {port} (lspci -vv as root): if its LnkCap is higher, reseat and look at \
             firmware settings; if not, the slot is the limit: move the card"
        )
        .into(),
        risk: "moving the card changes its address and so names derived from it".to_owned(),
        verify: "the line `available PCIe bandwidth` no longer says `limited by`".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}

/// A finding on a card with fewer lanes than it can use, where a text shows the card and not the port above it. A lower speed
/// alone may save power. In sysfs a card without a port is a guest's.
fn below_own_width(host: &Host, adapter: &Adapter) -> Option<Finding> {
    let function = &adapter.function;
    let link = function.link.value;
    let has_port = host.hops(adapter).last().is_some_and(|(upper, _)| upper.link.value.width_max.is_some());
    let (lanes, lanes_max) =
        link.width.zip(link.width_max).filter(|(lanes, max)| lanes < max && !has_port)?;
    // Red Hat's IDs: virtio, and what QEMU emulates.
    let is_of_qemu = |ids: &Ids| {
        matches!(ids.vendor, Some(0x1af4 | 0x1b36))
            || ids.subsystem.is_some_and(|subsystem| subsystem.vendor == 0x1af4)
    };
    let mut all = host.adapters.iter().map(|adapter| &adapter.function).chain(host.bridges.values());
    let is_guest = host.platform.is_guest() || all.any(|function| is_of_qemu(&function.ids));
    let is_known = host.iommus.visible || host.log.bandwidth.contains_key(&function.address);
    if is_guest || is_known || function.address.function != 0 {
        return None;
    }
    let path = Command::new("readlink").arg("-f").arg(format!("/sys/bus/pci/devices/{}", function.address));
    Some(Finding {
        id: Id::LinkDegraded,
        severity: Severity::Warning,
        address: Some(function.address),
        what: format!("its link runs at {lanes} and the card can do {lanes_max}: the slot has no more lanes, or the link trained low"),
        evidence: vec![function.link.at.clone()],
        fix: Advice::say("look at LnkCap of the port above it (its address is the one before the last in ")
            .and_complete_by(path)
            .and_say(
                "): if that has as many lanes as the card, reseat the card, clean its contacts, leave risers and adapters out, and look at the \
                 slot's bifurcation in the firmware's setup; if not, the slot is the limit: move the card",
            ),
        risk: "moving the card changes its address and so names derived from it".to_owned(),
        verify: Advice::run(super::lspci_register(function.address, "LnkSta")),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}

/// A finding on a link that the card's driver calls too slow. It does not say how fast a link the card could use.
fn said_by_driver(host: &Host, adapter: &Adapter, line: &BandwidthLine) -> Option<Finding> {
    let too_slow = host.log.links_too_slow.get(&adapter.function.address)?;
    Some(Finding {
        id: Id::LinkDegraded,
        severity: Severity::Warning,
        address: Some(adapter.function.address),
        what: format!(
            "its driver says that the card's link, {} ({} Mb/s for all functions of the card), is too slow for it",
            line.link,
            grouped(line.available_mbps)
        ),
        evidence: vec![line.at.clone(), too_slow.clone()],
        fix: Advice::say("compare LnkCap and LnkSta of the card (")
            .and_run(super::lspci_register(adapter.function.address, "Lnk"))
            .and_say(" as root): where LnkSta is below LnkCap, move it to a slot with more lanes"),
        risk: "moving the card changes its address and so names derived from it".to_owned(),
        verify: "the driver no longer prints that line".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}

/// Bytes that it asks for at most in one read.
fn read_request(function: &Function) -> Option<u32> {
    Some(function.capabilities.express.get()?.device.read_request?.bytes())
}

/// Each function on a path must accept the largest packet that another may send (PCI Express Base
/// Specification, section 2.2.2): a function set to more than what is above it sends packets that are
/// malformed there.
fn payload(host: &Host, adapter: &Adapter) -> Option<Finding> {
    // A virtual function's field is reserved and reads as 128 bytes: its physical function's counts (SR-IOV, VF
    // Device Control register).
    let is_virtual = adapter.virtualisation.physical.is_some();
    if is_virtual || adapter.function.ids.class.is_some_and(|class| class.kind() == Kind::Bridge) {
        return None;
    }
    let set = |function: &Function| function.capabilities.express.get()?.device.payload;
    let at = |function: &Function| {
        let said = set(function)
            .map_or_else(String::new, |payload| format!("payload size {} bytes", payload.bytes()));
        let file = function.config_at.as_ref().map_or(function.source.as_str(), |at| &at.file);
        Citation::of_file(file, &said)
    };
    let own = set(&adapter.function);
    let differing = adapter
        .function
        .upstream
        .iter()
        .filter_map(|address| host.bridges.get(address))
        .find(|bridge| matches!((set(bridge), own), (Some(above), Some(own)) if above != own));
    let refused = host.log.payload_refused.get(&adapter.function.address);
    let (severity, what, evidence) = match (differing, refused) {
        (Some(bridge), refused) => {
            let (above, own) = (set(bridge)?.bytes(), own?.bytes());
            let reads = read_request(&adapter.function);
            // The kernel pairs a smaller payload with reads no larger than it (`pcie_write_mrrs`).
            let reads_more = reads.is_some_and(|reads| reads > own);
            let (severity, but) = if own > above {
                (Severity::Critical, "; what it writes is malformed there")
            } else if reads_more {
                (
                    Severity::Warning,
                    "; it reads more at a time, and completions may be larger than it accepts",
                )
            } else {
                (Severity::Note, "")
            };
            let what =
                format!("its payload size is {own} bytes, and {above} at {} above it{but}", bridge.address);
            let evidence = [at(&adapter.function), at(bridge)].into_iter().chain(refused.cloned()).collect();
            (severity, what, evidence)
        }
        (None, Some(refused)) => {
            let what = "the kernel could not give it the payload size of the port above it".to_owned();
            (Severity::Warning, what, vec![refused.clone()])
        }
        (None, None) => return None,
    };
    Some(Finding {
        id: Id::PayloadMismatch,
        severity,
        address: Some(adapter.function.address),
        what,
        evidence,
        fix: match &host.requests.bus_tuning {
            Some(asked) => Advice::say("the command line has ")
                .and_argument(&asked.at.text)
                .and_say(" already: look for a firmware update of the adapter and the machine"),
            None => super::add_kernel_argument(host, "pci=pcie_bus_safe"),
        },
        risk: "all functions below one root port get the smallest size that one of them supports: fast adapters \
               beside slow ones lose some bandwidth to headers"
            .to_owned(),
        verify: Advice::run(super::lspci_register(adapter.function.address, "MaxPayload"))
            .and_say(", and of each port above it"),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}
