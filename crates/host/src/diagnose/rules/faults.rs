//! DMA faults and frozen slots in the kernel's log.

use super::Rule;
use crate::Bdf;
use crate::diagnose::{Case, Explanation, Finding, Id, Severity};
use crate::facts::log::{Fault, FaultKind};
use std::collections::BTreeMap;
use toll::grouped;

/// Lines quoted for one adapter: the first ones tell the cause, thousands tell nothing more.
const LINES_QUOTED_MAX: usize = 4;

const FIND_WHO: &str = "find who used an address that was not mapped: update the adapter's firmware and driver first; a \
                        driver under development shows the mapping with CONFIG_DMA_API_DEBUG and \
                        dma_debug_driver=<driver>";
const OF_IOMMU: &str = ". If firmware owns the address (RMRR, IVMD, RMR), an update of it must list it";
const OF_REQUESTER: &str = "find the device that sends with this ID: where no function has it, a bridge to conventional PCI \
                            sends the requests of all functions behind it as BUS:00.0, and some cards use the ID of another \
                            function. Newer kernels know more of such devices (quirks); update the kernel and the card's \
                            firmware";
const OF_INTERRUPT: &str = "have the device use MSI instead of line interrupts, or update the machine's firmware, whose tables \
                            tell the IOMMU where interrupts come from";
const OF_EEH: &str = ". The lines after it in `dmesg` and the event log (rtas_errd, opal-elog) name the register that \
                      failed; faults of the slot or cable freeze it as well";
const RISK_OF_IOMMU: &str = "passthrough silences the fault by giving up the protection that caught it: the stray \
                             access then reaches memory";
const RISK_OF_EEH: &str =
    "eeh=off only hides it: the adapter then reads all ones and its driver fails in other ways";

/// The rule, with what its findings mean.
pub(super) const RULE: Rule = Rule {
    find,
    explains: &[Explanation {
        id: Id::DmaFaults,
        meaning: "The IOMMU refused an access of the adapter, or on POWER EEH froze its slot. The \
                      adapter used an address that was not mapped, or not mapped for writing; or the \
                      hardware failed.",
        severity: "critical",
        evidence: "the first four such lines of the kernel log",
        fix: "update the adapter's firmware and driver first; if firmware owns the address (RMRR, IVMD, \
                  RMR), update the machine's firmware; on POWER, the event log names the register that \
                  failed. For a driver under development: `CONFIG_DMA_API_DEBUG` and \
                  `dma_debug_driver=DRIVER`",
        risk: "passthrough and `eeh=off` only hide the fault: the access then reaches memory, or the \
                   adapter reads all ones",
        verify: "no new fault lines in `dmesg` under the load that showed them",
    }],
};

/// Findings about refused DMA.
fn find(case: &Case<'_>) -> Vec<Finding> {
    let mut by_adapter: BTreeMap<(Option<Bdf>, bool), Vec<&Fault>> = BTreeMap::new();
    for fault in &case.host.log.faults {
        let address = fault.address.or_else(|| of_stream(case, fault.stream?));
        by_adapter.entry((address, fault.kind == FaultKind::Interrupt)).or_default().push(fault);
    }
    let is_power = case.host.is_power();
    let suppressed = case.host.log.faults_suppressed.as_ref();
    let mut findings: Vec<Finding> =
        by_adapter.into_iter().map(|((address, _), faults)| finding(address, &faults, is_power)).collect();
    if let (Some(suppressed), Some(first)) = (suppressed, findings.first_mut()) {
        let left_out = grouped(suppressed.value);
        first
            .what
            .push_str(&format!("; the kernel left {left_out} more messages about faults out, of any device"));
        first.evidence.push(suppressed.at.clone());
    }
    findings
}

/// Firmware usually makes a function's requester ID its stream's low 16 bits (IORT, identity mapping of
/// a root complex). Taken only where one adapter alone fits.
fn of_stream(case: &Case<'_>, stream: u32) -> Option<Bdf> {
    let requester = |at: Bdf| u32::from(at.bus) << 8 | u32::from(at.device) << 3 | u32::from(at.function);
    let mut fitting = case.adapters().map(|(adapter, _)| adapter.function.address);
    let mut fitting = fitting.by_ref().filter(|at| requester(*at) == stream & 0xffff);
    let first = fitting.next()?;
    fitting.next().is_none().then_some(first)
}

/// A finding on the faults of one device.
fn finding(address: Option<Bdf>, faults: &[&Fault], is_power: bool) -> Finding {
    let first = faults.first();
    let what = first.map_or("", |fault| fault.what.as_str());
    let more = match faults.len() {
        0 | 1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    let stream = || first.and_then(|fault| fault.stream).map(|stream| format!("stream {stream:#x}"));
    let whose = address.map(|address| address.to_string()).or_else(stream);
    let whose = whose.unwrap_or_else(|| "an unnamed function".to_owned());
    let kind = first.map_or(FaultKind::Mapping, |fault| fault.kind);
    let verb = match kind {
        FaultKind::UnknownRequester => "the IOMMU has no entry for this requester, so it refused all its DMA",
        FaultKind::Interrupt => "an interrupt request was refused, no access to memory",
        FaultKind::Mapping | FaultKind::Frozen => "DMA was refused",
    };
    let fix = match kind {
        FaultKind::UnknownRequester => OF_REQUESTER.to_owned(),
        FaultKind::Interrupt => OF_INTERRUPT.to_owned(),
        FaultKind::Mapping | FaultKind::Frozen => {
            format!("{FIND_WHO}{}", if is_power { OF_EEH } else { OF_IOMMU })
        }
    };
    Finding {
        id: Id::DmaFaults,
        severity: Severity::Critical,
        address,
        what: format!("{verb}: {whose}, {what}{more}"),
        evidence: faults.iter().take(LINES_QUOTED_MAX).map(|fault| fault.at.clone()).collect(),
        fix: fix.into(),
        risk: if is_power { RISK_OF_EEH } else { RISK_OF_IOMMU }.to_owned(),
        verify: "no new fault lines in `dmesg` under the load that showed them".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    }
}
