//! Devices and IOMMUs that do not answer invalidations.

use super::{Rule, add_kernel_argument, counted};
use crate::Bdf;
use crate::diagnose::{Advice, Case, Explanation, Finding, Id, Severity};
use crate::facts::Host;
use crate::facts::invalidation_error::{Failure, InvalidationFailure};
use escape::shell::Command;
use std::collections::BTreeMap;

/// Lines quoted of each kind.
const LINES_QUOTED_MAX: usize = 3;

/// The rule, with what its findings mean.
pub(super) const RULE: Rule = Rule {
    find,
    explains: &[Explanation {
        id: Id::InvalidationTimeout,
        meaning: "A device did not answer when the IOMMU asked it to drop translations that it keeps itself (ATS), or the \
                  IOMMU did not carry out commands. The IOMMU works its commands off one after the other: all unmaps wait \
                  behind such a one, processors with them, and other devices' DMA may be refused or reach memory that was \
                  unmapped.",
        severity: "critical",
        evidence: "the lines of the IOMMU's driver: IOTLB_INV_TIMEOUT and Completion-Wait of AMD-Vi, Invalidation Time-out Error of \
                   VT-d, CMDQ errors and CMD_SYNC timeouts of SMMUs",
        fix: "find out why the device does not answer: it fell off the bus, sleeps in D3cold or is being reset. Mend it \
              before the devices whose DMA is refused. Way round: `pci=noats`",
        risk: "without ATS the IOMMU looks each access up itself, which costs devices with scattered buffers time; devices that share a process's address space \
               (PASID) then don't",
        verify: "no new such lines in `dmesg`",
    }],
};

/// Findings about invalidations that failed: one for each device that is named, else one for the host.
fn find(case: &Case<'_>) -> Vec<Finding> {
    let failures = &case.host.log.invalidation_failures;
    let mut by_device: BTreeMap<Bdf, Vec<&InvalidationFailure>> = BTreeMap::new();
    for failed in failures {
        if let Some(device) = failed.device {
            by_device.entry(device).or_default().push(failed);
        }
    }
    let unnamed: Vec<&InvalidationFailure> =
        failures.iter().filter(|failed| failed.device.is_none()).collect();
    if by_device.is_empty() {
        return of_host(case.host, &unnamed).or_else(|| of_status(case.host)).into_iter().collect();
    }
    by_device.into_iter().map(|(device, named)| of_device(case.host, device, &named, &unnamed)).collect()
}

/// A finding on a device that does not answer. Commands that timed out beside it waited for it.
fn of_device(
    host: &Host,
    device: Bdf,
    named: &[&InvalidationFailure],
    unnamed: &[&InvalidationFailure],
) -> Finding {
    let waited = match unnamed.len() {
        0 => String::new(),
        count => format!("; {} of the IOMMU failed with it", counted(count, "command")),
    };
    let what = format!(
        "{device} did not answer the IOMMU, which asked it to drop translations that it keeps itself (ATS), {}{waited}",
        counted(named.len(), "time")
    );
    let evidence = named.iter().take(LINES_QUOTED_MAX).chain(unnamed.iter().take(1));
    finding(host, Some(device), what, evidence, silent_device(host, Some(device)))
}

/// A finding on VT-d's status register alone.
fn of_status(host: &Host) -> Option<Finding> {
    host.log.invalidation_status.as_ref()?;
    let what = "a device did not answer the IOMMU, which asked it to drop translations that it keeps itself (ATS), by VT-d's fault \
                status register; the log does not tell which"
        .to_owned();
    Some(finding(host, None, what, [].iter(), silent_device(host, None)))
}

/// A finding on an IOMMU whose messages name no device.
fn of_host(host: &Host, failures: &[&InvalidationFailure]) -> Option<Finding> {
    let worst = failures.iter().map(|failed| failed.failure).min()?;
    let count = counted(failures.len(), "time");
    let (what, fix) = match worst {
        Failure::DeviceSilent => (
            format!(
                "a device did not answer the IOMMU, which asked it to drop translations that it keeps itself (ATS), {count}; \
                 the hardware does not tell which"
            ),
            silent_device(host, None),
        ),
        Failure::QueueStuck => (
            format!("the IOMMU did not carry out its driver's commands in time, {count}: unmaps wait for them"),
            Advice::say(
                "find the device that holds it up: one with ATS that is gone, asleep or in reset, by the lines before the first \
                 of these. If none is, update the machine's firmware and the kernel",
            ),
        ),
        Failure::CommandRejected => (
            format!("the IOMMU rejected commands of its driver, {count}"),
            "update the kernel, whose driver wrote them; look for memory errors in `dmesg` and the machine's event log".into(),
        ),
    };
    // One line of each kind.
    let of_kind =
        |kind: Failure| failures.iter().filter(move |failed| failed.failure == kind).take(LINES_QUOTED_MAX);
    let kinds = [Failure::DeviceSilent, Failure::CommandRejected, Failure::QueueStuck];
    Some(finding(host, None, what, kinds.into_iter().flat_map(of_kind), fix))
}

fn finding<'f>(
    host: &Host,
    address: Option<Bdf>,
    what: String,
    lines: impl Iterator<Item = &'f &'f InvalidationFailure>,
    fix: Advice,
) -> Finding {
    let lines = lines.map(|failed| failed.at.clone());
    let gone = host.log.inaccessible.iter().filter(|(bdf, _)| address.is_none_or(|address| address == **bdf));
    let beside = host.log.invalidation_status.iter().chain(&host.log.device_invalidation);
    let beside = beside.chain(gone.map(|(_, silent)| &silent.at)).cloned();
    Finding {
        id: Id::InvalidationTimeout,
        severity: Severity::Critical,
        address,
        what,
        evidence: lines.chain(beside).collect(),
        fix,
        risk: "without ATS the IOMMU looks each access up itself, which costs devices with scattered buffers time; devices that share a process's address space \
               (PASID) then don't"
            .to_owned(),
        verify: "no new such lines in `dmesg`".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    }
}

/// What to do about a device that does not answer.
fn silent_device(host: &Host, device: Option<Bdf>) -> Advice {
    let why = Advice::say("find out why the device does not answer: ");
    let why = match device {
        Some(device) => why
            .and_run(Command::new("lspci").arg("-vs").arg(device.to_string()))
            .and_say(" shows `rev ff` for one that is gone from the bus or in D3cold"),
        None => match host.log.inaccessible.keys().next() {
            Some(gone) => why.and_say(format!("by the log, {gone} is gone from the bus or asleep")),
            None => why.and_say(
                "it fell off the bus, sleeps in D3cold or is being reset, by the lines before the first of these",
            ),
        },
    };
    let driver = device.and_then(|device| host.adapter(device)?.function.vfio_driver());
    let why = match driver {
        Some(_) => why.and_say("; `vfio_pci.disable_idle_d3=1` keeps it awake while no guest has it"),
        None => why,
    };
    // pci=noats: 4.18.
    match host.kernel().is_none_or(|kernel| kernel.at_least(4, 18)) {
        true => why
            .and_say(". Way round, without such invalidations: ")
            .and(add_kernel_argument(host, "pci=noats")),
        false => why,
    }
}
