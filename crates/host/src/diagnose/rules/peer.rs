//! Traffic between adapters, and adapters that could translate by themselves.

use super::{LineEdit, Rule};
use crate::diagnose::{Advice, Case, Explanation, Finding, Id, Severity, Verdict};
use crate::facts::{Adapter, Function, Host};
use crate::kernel::Effect;
use crate::pci::Kind;
use crate::{Bdf, Citation};
use escape::shell::Command;
use std::collections::BTreeSet;

/// The rule, with what its findings mean.
pub(super) const RULE: Rule = Rule {
    find,
    explains: &[
        Explanation {
            id: Id::AcsRedirect,
            meaning: "GPUs or accelerators share a PCIe switch, and ACS sends what they write to each other \
                      up to the root complex and back.",
            severity: "note",
            evidence: "the ACS control registers of the switch's ports",
            fix: "where the machine runs one tenant: `pci=disable_acs_redir=PORTS`, or for now clear the \
                  bits with `setpci -s PORT ECAP_ACS+6.w=0:c`",
            risk: "the functions below the switch can then reach each other unseen by the IOMMU: they fall \
                   into one group and can't be given to different guests",
            verify: "`lspci -vvs PORT | grep ACSCtl` shows ReqRedir-",
        },
        Explanation {
            id: Id::AtsOff,
            meaning: "The adapter could keep translations itself (ATS), and ATS is off: each access is \
                      looked up in the IOMMU.",
            severity: "note",
            evidence: "the adapter's ATS capability, and the option that forbids it",
            fix: "remove `noats` from the command line; else look for ATS in the firmware's setup: the \
                  kernel enables it where firmware's tables (DMAR ATSR, IVRS, IORT) say that the root port \
                  supports it",
            risk: "with ATS the device sends addresses that nobody checks again: only for trusted devices; \
                   each unmap also invalidates the device's cache",
            verify: "`lspci -vvs ADDRESS | grep ATSCtl` shows Enable+",
        },
    ],
};

/// Findings about traffic between adapters, and ATS.
fn find(case: &Case<'_>) -> Vec<Finding> {
    let ats = case.working().filter_map(|(adapter, verdict)| ats_off(case.host, adapter, verdict));
    redirected_pairs(case).into_iter().chain(ats).collect()
}

/// Adapters between which data is moved directly: GPUs and accelerators with each other, and fabric or
/// fast storage with them.
fn is_peer(adapter: &Adapter) -> bool {
    let ids = &adapter.function.ids;
    let gpu = |kind| matches!(kind, Kind::Display | Kind::Accelerator);
    ids.class.is_some_and(|class| gpu(class.kind()) && class.is_high_rate(ids.vendor))
}

/// Adapters that share a switch whose downstream ports send their requests to each other up to the
/// root complex (PCI Express Base Specification, section 6.12: P2P Request Redirect).
fn redirected_pairs(case: &Case<'_>) -> Vec<Finding> {
    let peers: Vec<&Adapter> =
        case.adapters().map(|(adapter, _)| adapter).filter(|adapter| is_peer(adapter)).collect();
    let below_a_switch = |adapter: &Adapter| {
        peers.iter().any(|other| {
            other.function.address != adapter.function.address && shared_switch(adapter, other).is_some()
        })
    };
    if peers.len() < 2 {
        return Vec::new();
    }
    // Between root ports too, a request that the port redirects is not sent on within the root complex.
    let above = |adapter: &&'_ Adapter| {
        let is_switched = below_a_switch(adapter);
        (is_switched, redirecting_ports(case.host, adapter, is_switched))
    };
    let above: Vec<(bool, Vec<&Function>)> = peers.iter().map(above).collect();
    // The last list on the command line counts alone: it has all of them.
    let all: BTreeSet<Bdf> = above.iter().flat_map(|(_, ports)| ports).map(|port| port.address).collect();
    let each = peers.iter().zip(&above);
    each.filter_map(|(adapter, (is_switched, ports))| {
        redirected(case.host, adapter, *is_switched, ports, &all)
    })
    .collect()
}

/// The lowest bridge above both, if it is below a root port.
fn shared_switch(one: &Adapter, other: &Adapter) -> Option<Bdf> {
    let mut shared = one.function.upstream.iter().zip(&other.function.upstream).take_while(|(a, b)| a == b);
    shared.next()?;
    shared.last().map(|(bridge, _)| *bridge)
}

/// Ports above an adapter that redirect requests; below a switch, the first of them, which is the root port, does not matter.
fn redirecting_ports<'h>(host: &'h Host, adapter: &Adapter, is_switched: bool) -> Vec<&'h Function> {
    let skipped = usize::from(is_switched);
    let ports =
        adapter.function.upstream.iter().skip(skipped).filter_map(|address| host.bridges.get(address));
    let redirects = |port: &&Function| {
        port.capabilities.acs.get().is_some_and(|acs| acs.enabled.request_redirect == Some(true))
    };
    ports.filter(redirects).collect()
}

/// A finding if ACS redirects traffic between peers at one of these ports above the adapter. `all` has those of the other adapters too.
fn redirected(
    host: &Host,
    adapter: &Adapter,
    is_switched: bool,
    redirecting: &[&Function],
    all: &BTreeSet<Bdf>,
) -> Option<Finding> {
    let first = redirecting.first()?;
    let ports: Vec<Bdf> = redirecting.iter().map(|port| port.address).collect();
    let port_list: Vec<String> = ports.iter().map(Bdf::to_string).collect();
    let at = |file: &str| Citation::of_file(file, "ACS control: request redirect is on");
    Some(Finding {
        id: Id::AcsRedirect,
        severity: Severity::Note,
        address: Some(adapter.function.address),
        what: format!(
            "what it sends to other GPUs{} goes up to the {} and back: ACS redirects at {}",
            if is_switched { " below its switch" } else { "" },
            if is_switched { "root complex" } else { "IOMMU" },
            port_list.join(", ")
        ),
        evidence: redirecting
            .iter()
            .map(|port| at(port.config_at.as_ref().map_or(port.source.as_str(), |at| &at.file)))
            .collect(),
        fix: direct_path(host, &ports, all),
        risk: "the functions below the switch can then reach each other unseen by the IOMMU: they fall into one \
               group and can't be given to different guests"
            .to_owned(),
        verify: Advice::run(super::lspci_register(first.address, "ACSCtl")).and_say(" shows ReqRedir-"),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}

/// The registers for now, and the argument for good on kernels that have it (4.19 and later).
fn direct_path(host: &Host, ports: &[Bdf], all: &BTreeSet<Bdf>) -> Advice {
    let on_one_tenant = Advice::say("where the machine runs one tenant: ");
    if host.kernel().is_some_and(|kernel| kernel.knows((4, 14), (4, 19)) == Some(false)) {
        return on_one_tenant.and(clear_redirects(ports)).and_say("; after each boot");
    }
    let asked = host.requests.acs_redirect_off.last().map_or("", |asked| asked.value.as_str());
    let mut list: Vec<String> = asked.split(';').filter(|port| !port.is_empty()).map(str::to_owned).collect();
    list.extend(all.iter().map(Bdf::to_string).filter(|port| !asked.split(';').any(|asked| asked == port)));
    let escape = if list.len() > 1 {
        " (in GRUB's files write \\; for each ;, which ends a command there)"
    } else {
        ""
    };
    on_one_tenant
        .and(super::add_kernel_argument(host, &format!("pci=disable_acs_redir={}", list.join(";"))))
        .and_say(escape)
        .and_say("; or for now, ")
        .and(clear_redirects(ports))
}

/// Bits 2 and 3 redirect requests and completions; the others guard against forged addresses and stay.
fn clear_redirects(ports: &[Bdf]) -> Advice {
    let clear = |port: &Bdf| Command::new("setpci").arg("-s").arg(port.to_string()).arg("ECAP_ACS+6.w=0:c");
    let first = |advice: Advice, (index, port): (usize, &Bdf)| {
        advice.and_say(if index == 0 { "" } else { "; " }).and_run(clear(port))
    };
    ports.iter().enumerate().fold(Advice::default(), first)
}

/// A finding on an adapter that has ATS, which is off.
fn ats_off(host: &Host, adapter: &Adapter, verdict: &Verdict) -> Option<Finding> {
    let ats = adapter.function.capabilities.ats.get()?;
    // POWER's translation tables are the host bridge's: no adapter there is offered ATS by the kernel.
    if ats.enabled != Some(false) || !verdict.dma_path.is_translated() || host.is_power() {
        return None;
    }
    let forbidden = host.requests.no_ats.as_ref();
    let file = adapter.function.config_at.as_ref().map_or(adapter.function.source.as_str(), |at| &at.file);
    let mut evidence = vec![Citation::of_file(file, "ATS capability present, not enabled")];
    evidence.extend(forbidden.map(|cited| cited.at.clone()));
    let fix = match forbidden {
        Some(_) => LineEdit::of(host).stop_asking(&[Effect::NoAts]).advice(),
        None => {
            "look for ATS in firmware setup; the kernel enables it where firmware's tables (DMAR ATSR, IVRS, \
                 IORT) say that the root port passes it on"
                .into()
        }
    };
    Some(Finding {
        id: Id::AtsOff,
        severity: Severity::Note,
        address: Some(adapter.function.address),
        what: "it could keep translations by itself (ATS), but may not: each access is looked up in the IOMMU".to_owned(),
        evidence,
        fix,
        risk: "with ATS the device sends addresses that nobody checks again: only for trusted devices; and each \
               unmap also invalidates its cache"
            .to_owned(),
        verify: Advice::run(super::lspci_register(adapter.function.address, "ATSCtl")).and_say(" shows Enable+"),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}
