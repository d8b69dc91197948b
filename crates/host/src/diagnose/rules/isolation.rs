//! Isolation between devices that options give up.

use super::{Rule, remove_kernel_argument};
use crate::diagnose::{Case, Explanation, Finding, Id, Severity};
use crate::facts::Host;
use crate::{Citation, Cited};

/// The rule, with what its findings mean.
pub(super) const RULE: Rule = Rule {
    find: |case: &Case<'_>| {
        [acs_override(case.host), unsafe_interrupts(case.host)].into_iter().flatten().collect()
    },
    explains: &[Explanation {
        id: Id::IsolationWeakened,
        meaning: "An option makes the kernel take devices for isolated that are not: `pcie_acs_override=` (a patch outside the kernel) puts devices into \
                  groups of their own that can still reach each other past the IOMMU; `allow_unsafe_interrupts` lets VFIO give devices away on hosts \
                  whose interrupts are not checked.",
        severity: "note",
        evidence: "the option on the command line, or the patch's warning",
        fix: "remove the option, unless all guests are trusted; a slot with a root port of its own, or ACS in the firmware's setup, isolates for good",
        risk: "without it groups become larger, and a guest may no longer start",
        verify: "`dmesg` has no such warning after the reboot",
    }],
};

/// Devices are put into groups that the hardware does not isolate.
fn acs_override(host: &Host) -> Option<Finding> {
    let is_unknown = |option: &Cited<String>| option.value.starts_with("pcie_acs_override");
    if host.log.unknown_options.iter().any(is_unknown) {
        return None;
    }
    let asked = host.requests.acs_override.first();
    let evidence: Vec<Citation> =
        asked.map(|asked| asked.at.clone()).into_iter().chain(host.log.acs_override.clone()).collect();
    let fix = match asked {
        Some(asked) => remove_kernel_argument(host, &asked.at.text)
            .and_say(", unless all guests are trusted: a slot with a root port of its own, or ACS in the firmware's setup, isolates for good"),
        None => "remove `pcie_acs_override=` from the command line, unless all guests are trusted".into(),
    };
    (!evidence.is_empty()).then(|| Finding {
        id: Id::IsolationWeakened,
        severity: Severity::Note,
        address: None,
        what: format!(
            "`pcie_acs_override=`{} puts devices into groups of their own that can still reach each other past the IOMMU: a guest with one may \
             read and write what belongs to another or to the host",
            if host.log.acs_override.is_some() { "" } else { ", if this kernel has the patch for it," }
        ),
        evidence,
        fix,
        risk: "without it groups become larger, and a guest may no longer start".to_owned(),
        verify: "`dmesg` has no \"ACS overrides enabled\" after the reboot".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}

/// Devices are given away although their interrupts are not checked.
fn unsafe_interrupts(host: &Host) -> Option<Finding> {
    let asked = host.requests.unsafe_interrupts.as_ref().filter(|asked| asked.value)?;
    Some(Finding {
        id: Id::IsolationWeakened,
        severity: Severity::Note,
        address: None,
        what: "`allow_unsafe_interrupts` lets VFIO give devices away where interrupts are not checked: a guest can then raise any interrupt of the host and \
               stop it; where they are checked it does nothing"
            .to_owned(),
        evidence: vec![asked.at.clone()],
        fix: remove_kernel_argument(host, &asked.at.text).and_say(", unless all guests are trusted"),
        risk: "where interrupts are not checked no guest gets a device then".to_owned(),
        verify: "`dmesg` says that interrupt remapping is enabled, and the guest starts after the reboot".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}
