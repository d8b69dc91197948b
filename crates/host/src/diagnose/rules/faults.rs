//! DMA faults and frozen slots in the kernel's log.

use super::Rule;
use super::fault_remedy::{self, Remedy};
use crate::Bdf;
use crate::diagnose::{Case, Explanation, Finding, Id, Severity};
use crate::facts::fault::{Fault, FaultKind};
use crate::kernel::message::fault::Cause;
use std::collections::BTreeMap;
use toll::grouped;

/// Lines quoted for one adapter: the first ones tell the cause, thousands tell nothing more.
const LINES_QUOTED_MAX: usize = 4;

/// The rule, with what its findings mean.
pub(super) const RULE: Rule = Rule {
    find,
    explains: &[Explanation {
        id: Id::DmaFaults,
        meaning: "The IOMMU refused an access or an interrupt of a device, or on POWER EEH froze its slot. The text says what \
                      the hardware's record proves: an address that is not mapped, or not for such an access; a requester without \
                      an entry, or with an invalid one; a request that the device may not send; tables that could not be read.",
        severity: "critical; warning for interrupts",
        evidence: "the first four such lines of the kernel log, and what else in it tells the cause",
        fix: "the most probable cause first, with what shows it: another device that holds the IOMMU up, a crash kernel \
                  (kdump) that inherited running devices, memory of a device in place of RAM, address 0, a requester that no \
                  table lists. Where nothing points elsewhere: update the adapter's driver and firmware; if firmware owns the \
                  address (RMRR, IVMD, RMR), update the machine's firmware; on POWER, the event log names the register that \
                  failed. For a driver under development: `CONFIG_DMA_API_DEBUG` and `dma_debug_driver=DRIVER`",
        risk: "passthrough, `arm-smmu.disable_bypass=0` and `eeh=off` only hide the fault: the access then reaches memory, or \
                   the adapter reads all ones",
        verify: "no new fault lines in `dmesg` under the load that showed them",
    }],
};

/// Who was refused, and whether an interrupt.
type Requester = (Option<Bdf>, Option<u32>, bool);

/// Findings about refused DMA.
fn find(case: &Case<'_>) -> Vec<Finding> {
    let mut by_requester: BTreeMap<Requester, Vec<&Fault>> = BTreeMap::new();
    for fault in &case.host.log.faults {
        let stream = fault.stream.filter(|_| fault.address.is_none());
        let is_interrupt = fault.cause() == Some(Cause::Interrupt);
        by_requester.entry((fault.address, stream, is_interrupt)).or_default().push(fault);
    }
    let mut findings: Vec<Finding> =
        by_requester.into_values().filter_map(|faults| finding(case, &faults)).collect();
    let suppressed = case.host.log.faults_suppressed.as_ref();
    if let (Some(suppressed), Some(first)) = (suppressed, findings.first_mut()) {
        let left_out = grouped(suppressed.value);
        first
            .what
            .push_str(&format!("; the kernel left {left_out} more messages about faults out, of any device"));
        first.evidence.push(suppressed.at.clone());
    }
    findings
}

/// A finding on the faults of one device.
fn finding(case: &Case<'_>, faults: &[&Fault]) -> Option<Finding> {
    let first = faults.first()?;
    let more = match faults.len() {
        1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    let whose = requester(first);
    let Remedy { fix, risk, evidence: shown_by } = fault_remedy::of(case, faults, first);
    let lines = faults.iter().take(LINES_QUOTED_MAX).map(|fault| fault.at.clone());
    let is_interrupt = first.cause() == Some(Cause::Interrupt);
    Some(Finding {
        id: Id::DmaFaults,
        severity: if is_interrupt { Severity::Warning } else { Severity::Critical },
        address: first.address,
        what: format!("{}: {whose}, {}{more}", what_happened(first.kind), first.what),
        evidence: lines.chain(shown_by).collect(),
        fix: fix.into(),
        risk: risk.to_owned(),
        verify: "no new fault lines in `dmesg` under the load that showed them".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}

/// Who was refused.
fn requester(fault: &Fault) -> String {
    match (fault.address, fault.stream) {
        (Some(address), Some(stream)) => format!("{address} (stream {stream:#x})"),
        (Some(address), None) => address.to_string(),
        (None, Some(stream)) => format!("stream {stream:#x}"),
        (None, None) if fault.kind == FaultKind::Fenced => "by POWER's EEH".to_owned(),
        (None, None) => "an unnamed function".to_owned(),
    }
}

/// What the record proves.
fn what_happened(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::Frozen | FaultKind::Refused(Cause::Unknown) => "DMA was refused",
        FaultKind::Fenced => "a host bridge was stopped, and with it all that is below",
        FaultKind::Refused(Cause::NotMapped) => "DMA was refused, as its address is not mapped",
        FaultKind::Refused(Cause::NotPermitted) => {
            "DMA was refused, as its address is mapped, but not for such an access"
        }
        FaultKind::Refused(Cause::NotMappedOrNotPermitted) => {
            "DMA was refused, as its address is not mapped, or not for such an access"
        }
        FaultKind::Refused(Cause::BeyondWidth) => {
            "DMA was refused, as its address has more bits than the IOMMU takes"
        }
        FaultKind::Refused(Cause::UnknownRequester) => {
            "the IOMMU has no entry for this requester, so it refused all its DMA"
        }
        FaultKind::Refused(Cause::InvalidEntry) => {
            "the IOMMU rejects its entry for this requester as invalid, so it refused all its DMA"
        }
        FaultKind::Refused(Cause::UnknownPasid) => {
            "DMA was refused, as no address space is attached for its PASID"
        }
        FaultKind::Refused(Cause::InvalidRequest) => {
            "a request was refused, as the device may not send such requests"
        }
        FaultKind::Refused(Cause::TableError) => {
            "DMA was refused, as the IOMMU could not read its tables or found nonsense in them"
        }
        FaultKind::Refused(Cause::Interrupt) => "an interrupt request was refused, no access to memory",
    }
}
