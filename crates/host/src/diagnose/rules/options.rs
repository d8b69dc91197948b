//! Kernel options that don't do what they say.

use super::Rule;
use crate::diagnose::advice::{is_inert, shown_argument};
use crate::diagnose::{Advice, Case, Explanation, Finding, Id, Severity};
use crate::facts::Host;
use crate::kernel::verdict::{TokenVerdict, Verdict};
use crate::{Citation, Cited};

/// The rule, with what its findings mean.
pub(super) const RULE: Rule = Rule {
    find,
    explains: &[Explanation {
        id: Id::KernelOptionInvalid,
        meaning: "A kernel option about DMA is misspelled, belongs to another kernel or machine, or is \
                      overridden by another option: it has no effect.",
        severity: "warning; note where the option is valid and has no effect on this host",
        evidence: "the option on the command line, and the kernel's own complaint where there is one",
        fix: "replace it by the suggested option, or remove it",
        risk: "none in removing it; what replaces it takes effect for the first time, so read its \
                   meaning first",
        verify: "after the reboot, `iotoll inspect` shows the DMA paths that the option was to bring",
    }],
};

fn find(case: &Case<'_>) -> Vec<Finding> {
    let host = case.host;
    let mut findings: Vec<Finding> =
        host.options.iter().filter_map(|judged| of_option(host, judged)).collect();
    findings.extend(refused_by_kernel(host));
    findings
}

fn of_option(host: &Host, judged: &TokenVerdict) -> Option<Finding> {
    let (severity, reason, suggestion) = match &judged.verdict {
        Verdict::Invalid { reason, suggestion, .. } => (Severity::Warning, reason, suggestion),
        Verdict::Ineffective { reason, suggestion } => (Severity::Note, reason, suggestion),
        Verdict::Understood { .. } | Verdict::NotDma => return None,
    };
    let said = said_by_kernel(host, judged);
    let mut evidence = vec![judged.token.at.clone()];
    evidence.extend(said.cloned());
    Some(finding(severity, &judged.part, reason, suggestion.as_deref(), evidence))
}

/// The kernel's own complaint about an option, if it made one.
fn said_by_kernel<'h>(host: &'h Host, judged: &TokenVerdict) -> Option<&'h Citation> {
    host.log.unknown_options.iter().find(|said| names(judged, &said.value)).map(|said| &said.at)
}

fn names(judged: &TokenVerdict, said: &str) -> bool {
    let value = judged.part.split_once('=').map_or("", |(_, value)| value);
    !said.is_empty() && (said == judged.part || said == judged.token.words() || said == value)
}

/// Options of which the kernel says that it doesn't know them, and that our table holds for good or
/// does not hold. `Unknown kernel command line parameters` also lists what is meant for init: only
/// names that look like the DMA code's count.
fn refused_by_kernel(host: &Host) -> Vec<Finding> {
    let known = |said: &&Cited<String>| {
        !host.options.iter().any(|judged| {
            names(judged, &said.value)
                && matches!(
                    judged.verdict,
                    Verdict::Invalid { .. } | Verdict::Ineffective { .. } | Verdict::NotDma
                )
        })
    };
    let ours = |said: &&Cited<String>| {
        let name = said.value.split('=').next().unwrap_or_default();
        ["iommu", "swiotlb", "smmu", "ddw", "tce"].iter().any(|part| name.contains(part))
            || host.options.iter().any(|judged| names(judged, &said.value))
    };
    let refused = host.log.unknown_options.iter().filter(known).filter(ours);
    refused
        .map(|said| {
            let reason = "the kernel says that it does not know it";
            finding(Severity::Warning, &said.value, reason, None, vec![said.at.clone()])
        })
        .collect()
}

/// A suggestion with the argument's own value (`iommu.passthrough=1` for a misspelled name) is typed by whoever reads it.
fn shown_suggestion(suggestion: &str) -> String {
    let (argument, rest) = suggestion.split_once(' ').unwrap_or((suggestion, ""));
    let end = argument.find(|c: char| !is_inert(c)).unwrap_or(argument.len());
    match end == argument.len() || argument.ends_with(':') {
        true => suggestion.to_owned(),
        false => format!("{}… {rest}", &argument[..end]).trim_end().to_owned(),
    }
}

fn finding(
    severity: Severity,
    part: &str,
    reason: &str,
    suggestion: Option<&str>,
    evidence: Vec<Citation>,
) -> Finding {
    let fix = match suggestion {
        Some(suggestion) => Advice::say("replace ")
            .and_argument(part)
            .and_say(" on the kernel command line: ")
            .and_text(&shown_suggestion(suggestion)),
        None => Advice::say("take ")
            .and_argument(part)
            .and_say(" off the kernel command line: it only misleads readers"),
    };
    Finding {
        id: Id::KernelOptionInvalid,
        severity,
        address: None,
        what: format!("kernel option {} has no effect: {reason}", shown_argument(part)),
        evidence,
        fix,
        risk:
            "none in removing it; what replaces it takes effect for the first time, so read its meaning first"
                .to_owned(),
        verify: "after the reboot, `iotoll inspect` shows the DMA paths that the option was to bring".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    }
}
