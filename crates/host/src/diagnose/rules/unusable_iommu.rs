//! IOMMUs that Xen or the kernel gave up, on hosts where no adapter's DMA path tells it.

use super::{DefaultDomain, Rule, turn_iommu_on};
use crate::Citation;
use crate::diagnose::{Advice, Case, Finding, Id, Severity};
use crate::facts::Host;

/// The rule. What its findings mean is explained beside the other causes of `iommu-off`, in `protection`.
pub(super) const RULE: Rule = Rule { find, explains: &[] };

/// The finding on an IOMMU that was given up.
fn find(case: &Case<'_>) -> Vec<Finding> {
    of_xen(case.host)
        .or_else(|| of_rejected_table(case))
        .or_else(|| of_missing_group(case))
        .into_iter()
        .collect()
}

/// Xen says that it uses none.
fn of_xen(host: &Host) -> Option<Finding> {
    let off = host.log.xen_translates.as_ref().filter(|cited| !cited.value)?;
    let (why, fix) = match &host.log.xen_setup_problem {
        Some(_) => (
            "could not set the IOMMU up by the firmware's tables",
            "update Xen, whose later versions read more of such tables, and the machine's firmware",
        ),
        None => (
            "does not use an IOMMU",
            "enable VT-d or AMD-Vi in the firmware's setup, and look for `iommu=` on Xen's command line",
        ),
    };
    let what = format!("Xen {why}: nothing confines devices, and none can be given safely to a domain");
    let evidence = host.log.xen_setup_problem.iter().chain([&off.at]).cloned().collect();
    let fix = Advice::say(fix).and_say("; options of dom0's kernel do not change it");
    Some(finding(what, evidence, fix, "`xl dmesg` says \"I/O virtualisation enabled\""))
}

/// The kernel rejected the firmware's table, and no adapter's path shows it.
fn of_rejected_table(case: &Case<'_>) -> Option<Finding> {
    let host = case.host;
    let rejected = host.log.vt_d_rejected.as_ref().filter(|_| host.log.translation_active.is_none())?;
    // `protection` then says why.
    if case.shows_no_iommu() {
        return None;
    }
    let what = "the kernel gave VT-d up, because firmware describes it wrongly (table DMAR): nothing translates, and without interrupt remapping \
                a device gets one MSI at most"
        .to_owned();
    let evidence = host.log.iommu_trouble.iter().take(2).chain([rejected]).cloned().collect();
    let fix = "update the machine's firmware (BIOS): no option of the kernel mends its table".into();
    Some(finding(what, evidence, fix, "/sys/class/iommu lists an IOMMU after the reboot"))
}

/// A guest's program found no IOMMU for a device.
fn of_missing_group(case: &Case<'_>) -> Option<Finding> {
    let host = case.host;
    // A nameless line comes first.
    let (device, said) = host.log.no_group.last_key_value()?;
    let is_in_use = host.log.translation_active.is_some()
        || !host.iommus.instances.is_empty()
        || !host.iommus.groups.is_empty();
    if is_in_use || case.shows_no_iommu() {
        return None;
    }
    let device = device.map_or_else(|| "a device".to_owned(), |device| device.to_string());
    let asked = host.requests.iommu_on().filter(|_| !said.value);
    let what = format!(
        "no IOMMU is in use, and so no guest can have {device}{}",
        if asked.is_some() { ": the command line asks for one, and firmware offers none" } else { "" }
    );
    let fix = match said.value {
        true => Advice::say(
            "enable VT-d or AMD-Vi in the firmware's setup, then look at what `xl dmesg` says of the IOMMU; options of dom0's kernel do not change it",
        ),
        false => turn_iommu_on(host, DefaultDomain::AsIs),
    };
    let evidence = std::iter::once(&said.at).chain(asked.map(|asked| &asked.at)).cloned().collect();
    let verify = if said.value {
        "`xl dmesg` says \"I/O virtualisation enabled\""
    } else {
        "/sys/class/iommu lists an IOMMU after the reboot"
    };
    Some(finding(what, evidence, fix, verify))
}

fn finding(what: String, evidence: Vec<Citation>, fix: Advice, verify: &'static str) -> Finding {
    Finding {
        id: Id::IommuOff,
        severity: Severity::Warning,
        address: None,
        what,
        evidence,
        fix,
        risk: "with translation each I/O pays for a mapping".to_owned(),
        verify: verify.into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    }
}
