//! Sources that can't both be right.

use super::Rule;
use crate::diagnose::decide::domain_type;
use crate::diagnose::power_dma_path::find_bypass_line;
use crate::diagnose::{Case, DmaPath, Explanation, Finding, Id, Severity};
use crate::facts::Host;
use crate::facts::iommu::DomainType;
use crate::{Bdf, Citation};

/// The rule, with what its findings mean.
pub(super) const RULE: Rule = Rule {
    find,
    explains: &[Explanation {
        id: Id::SourcesDisagree,
        meaning: "Two sources can't both be right: the log is of another kernel than the one that runs; the command line asks for a default domain and the \
                      kernel, or every group, has the other; an IOMMU is registered despite `iommu=off`; an \
                      adapter of a bare-metal POWER machine bypasses translation despite `iommu=nobypass`; a virtio device \
                      bypasses the IOMMU group that sysfs shows for it; or the device tree shows a window \
                      that the log says was refused.",
        severity: "warning; note for virtio devices",
        evidence: "both lines",
        fix: "check that the log, the command line and the device tree are of the same boot; to have a \
                  virtio device translated, give the virtual machine `iommu_platform=on` for it",
        risk: "none: it only settles which source is right",
        verify: "`iotoll inspect` no longer shows this finding",
    }],
};

/// Findings about sources that contradict each other.
fn find(case: &Case<'_>) -> Vec<Finding> {
    let host = case.host;
    [other_kernel(host), default_domain(host), groups_against_request(case), iommu_despite_off(host)]
        .into_iter()
        .flatten()
        .chain(virtio_beside_its_group(case))
        .chain(windows(case))
        .chain(bypass_against_request(case))
        .collect()
}

fn finding(
    address: Option<Bdf>,
    severity: Severity,
    what: String,
    evidence: Vec<Citation>,
    fix: &'static str,
) -> Finding {
    Finding {
        id: Id::SourcesDisagree,
        severity,
        address,
        what,
        evidence,
        fix: fix.into(),
        risk: "none: it only settles which source is right".to_owned(),
        verify: "`iotoll inspect` no longer shows this finding".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    }
}

/// A finding if the command line asks for one type of default domain and every group of a working adapter has the other. Some
/// groups may differ by themselves: those of untrusted devices are translated, and drivers of a few platforms ask for identity.
fn groups_against_request(case: &Case<'_>) -> Option<Finding> {
    let asked = case.host.requests.passthrough.as_ref()?;
    if case.host.log.default_passthrough.is_some() || case.host.is_power() {
        return None;
    }
    let types: Vec<_> = case.working().filter_map(|(adapter, _)| domain_type(case.host, adapter)).collect();
    let is_other = |found: DomainType| match asked.value {
        true => matches!(found, DomainType::Dma | DomainType::DmaFq),
        false => found == DomainType::Identity,
    };
    let first = types.first().filter(|_| types.iter().all(|found| is_other(found.value)))?;
    let (wanted, got) =
        if asked.value { ("passthrough", "translated") } else { ("translated", "passthrough") };
    Some(finding(
        None,
        Severity::Warning,
        format!(
            "the command line asks for {wanted} domains, and the groups of all adapters in use are {got}"
        ),
        vec![asked.at.clone(), first.at.clone()],
        "check that the command line and sysfs are of the same boot, and whether something changed the groups' types since \
         (udev, tuned, a script)",
    ))
}

/// A finding if the log's banner names another kernel than `/proc/version` or `uname` does.
fn other_kernel(host: &Host) -> Option<Finding> {
    let runs = host.platform.kernel.as_ref()?;
    let logged = host.log.release.as_ref()?;
    (runs.value.release != logged.value).then(|| {
        finding(
            None,
            Severity::Warning,
            format!("the log is of kernel {}, and {} runs", logged.value, runs.value.release),
            vec![logged.at.clone(), runs.at.clone()],
            "check that the log and the other files are of the same boot of one host",
        )
    })
}

/// A finding if the kernel's log says another type of default domain than the command line asks for.
fn default_domain(host: &Host) -> Option<Finding> {
    let asked = host.requests.passthrough.as_ref()?;
    let said = host.log.default_passthrough.as_ref()?;
    let word = |passthrough| if passthrough { "passthrough" } else { "translated" };
    (asked.value != said.value).then(|| {
        finding(
            None,
            Severity::Warning,
            format!(
                "the command line asks for {} domains, and the kernel says that it took {}",
                word(asked.value),
                word(said.value)
            ),
            vec![asked.at.clone(), said.at.clone()],
            "check that the log and the command line are of the same boot; memory encryption and untrusted \
             devices override passthrough, and firmware can demand identity",
        )
    })
}

/// `iommu=off`, yet an IOMMU is registered.
fn iommu_despite_off(host: &Host) -> Option<Finding> {
    let off = host.requests.iommu_off()?;
    let instance = host.iommus.instances.first()?;
    // Options of the machine's other vendor turn nothing off here; the option's own verdict says so.
    Some(finding(
        None,
        Severity::Warning,
        format!("the command line turns the IOMMU off, and {} is registered", instance.name),
        vec![off.at.clone(), instance.at.clone()],
        "check that the capture and the command line are of the same boot; firmware or a virtual machine's \
         loader may force it on (tboot, dma_ops of confidential guests)",
    ))
}

/// sysfs shows a group and its type for every function behind an IOMMU, also where its driver goes
/// around it: the group says what would be translated.
fn virtio_beside_its_group(case: &Case<'_>) -> Vec<Finding> {
    let translating = |domain: DomainType| matches!(domain, DomainType::Dma | DomainType::DmaFq);
    let beside = case.working().filter_map(|(adapter, verdict)| {
        let group = adapter.function.iommu_group.as_ref()?;
        let domain = case.host.iommus.groups.get(&group.value)?.domain_type.as_ref()?;
        let goes_around = adapter.virtio.is_some() && verdict.dma_path == DmaPath::NoIommu && translating(domain.value);
        goes_around.then(|| {
            finding(
                Some(adapter.function.address),
                Severity::Note,
                "sysfs shows a translating IOMMU group, and the device is given physical addresses: it was made \
                 without VIRTIO_F_ACCESS_PLATFORM, so its DMA passes no IOMMU"
                    .to_owned(),
                verdict.evidence.iter().cloned().chain([domain.at.clone()]).collect(),
                "to have it translated, give the virtual device iommu_platform=on (QEMU: \
                 -device virtio-...,iommu_platform=on,disable-legacy=on); to keep its speed, leave it",
            )
        })
    });
    beside.collect()
}

/// A 64-bit window in the device tree that the log says was refused.
fn windows(case: &Case<'_>) -> Vec<Finding> {
    let unknown =
        case.working().filter(|(_, verdict)| verdict.dma_path == DmaPath::Unknown && case.host.is_power());
    unknown
        .filter(|(_, verdict)| verdict.evidence.len() >= 2)
        .map(|(adapter, verdict)| {
            finding(
                Some(adapter.function.address),
                Severity::Warning,
                verdict.reason.clone().unwrap_or_else(|| "its sources disagree".to_owned()),
                verdict.evidence.clone(),
                "check that the device tree and the log are of the same boot (a kdump kernel inherits windows)",
            )
        })
        .collect()
}

/// Bare-metal POWER: adapters that bypass translation although `iommu=nobypass` asks for the opposite. Before 5.4 the path
/// through the first translation entry did not look at the option (`pnv_pci_ioda_dma_64bit_bypass`).
fn bypass_against_request(case: &Case<'_>) -> Vec<Finding> {
    let asked = case
        .host
        .requests
        .passthrough
        .as_ref()
        .filter(|asked| !asked.value && asked.at.text.contains("nobypass"));
    let Some(asked) = asked else { return Vec::new() };
    let bypassing = case.adapters().filter_map(|(adapter, verdict)| {
        let bypass = find_bypass_line(case.host, adapter)?;
        (verdict.dma_path == DmaPath::DirectWindow).then_some((adapter, bypass))
    });
    bypassing
        .map(|(adapter, bypass)| {
            finding(
                Some(adapter.function.address),
                Severity::Warning,
                "the command line asks for no bypass of the IOMMU, and its endpoint bypasses it all the same: the \
                 protection that was asked for is not there for this adapter"
                    .to_owned(),
                vec![asked.at.clone(), bypass.clone()],
                "use a kernel whose `iommu=nobypass` covers this path too; until then nothing confines the adapter's DMA",
            )
        })
        .collect()
}
