//! Kernel options that have no effect, or would have another than is wanted.

use super::Rule;
use super::boot_loader::Tool;
use super::bounce::asks_for_small_pool;
use super::line_edit::LineEdit;
use crate::diagnose::advice::{is_inert, shown_argument};
use crate::diagnose::{Advice, Case, Explanation, Finding, Id, Severity};
use crate::facts::Host;
use crate::kernel::verdict::{TokenVerdict, Verdict};
use crate::{Citation, Cited};
use escape::shell::Command;
use std::collections::BTreeSet;

/// The rule, with what its findings mean.
pub(super) const RULE: Rule = Rule {
    find,
    explains: &[
        Explanation {
            id: Id::KernelOptionNotBooted,
            meaning: "A kernel option about DMA stands in the boot loader's configuration, and the running kernel was not started with it: the boot \
                  entries were not written after the change, the host was not rebooted, or its boot loader reads another file.",
            severity: "note",
            evidence: "the option in /etc/default/grub or /etc/kernel/cmdline, and the kernel's command line",
            fix: "write the boot entries by the distribution's tool, and reboot",
            risk: "what the option asks for takes effect for the first time, so read its meaning first",
            verify: "`cat /proc/cmdline` shows it after the reboot",
        },
        Explanation {
            id: Id::KernelOptionInvalid,
            meaning: "A kernel option about DMA is misspelled, belongs to another kernel or machine, or is \
                      overridden by another option: it has no effect.",
            severity: "warning; note where the option is valid and has no effect on this host",
            evidence: "the option on the command line, and the kernel's own complaint where there is one",
            fix: "replace it by the suggested option, or remove it",
            risk: "none in removing it; what replaces it takes effect for the first time, so read its \
                   meaning first",
            verify: "after the reboot, `iotoll inspect` shows the DMA paths that the new option asks for",
        },
    ],
};

/// Findings about kernel options.
fn find(case: &Case<'_>) -> Vec<Finding> {
    let host = case.host;
    let mut findings: Vec<Finding> =
        host.options.iter().filter_map(|checked| invalid_option(host, checked, "")).collect();
    findings.extend(unknown_to_kernel(host));
    findings.extend(of_other_places(host));
    findings.extend(not_booted(host));
    findings
}

/// Findings on invalid options of the boot loader's configuration, and of sentences in a text. What the running kernel's line has
/// is judged there.
fn of_other_places(host: &Host) -> Vec<Finding> {
    let mut told: BTreeSet<&str> = host.options.iter().map(|judged| judged.part.as_str()).collect();
    let mut findings = Vec::new();
    for (judged, aside) in [
        (&host.configured.for_next_boot, ", which stands in the boot loader's configuration,"),
        (&host.configured.named, ", of which the text talks,"),
    ] {
        let invalid = judged.iter().filter(|judged| matches!(judged.verdict, Verdict::Invalid { .. }));
        let untold = invalid.filter(|judged| told.insert(&judged.part));
        findings.extend(untold.filter_map(|judged| invalid_option(host, judged, aside)).map(|finding| Finding {
            severity: Severity::Note,
            verify: "`iotoll inspect` of the host shows the DMA paths that the new option asks for, once it was booted with it"
                .into(),
            ..finding
        }));
    }
    findings
}

/// Findings on options about DMA that are configured, and that the running kernel was not started with. Xen's boot entries have options
/// of their own, and recovery entries have not all.
fn not_booted(host: &Host) -> Vec<Finding> {
    let is_dom0 = host.platform.hypervisor.as_ref().is_some_and(|hypervisor| hypervisor.value.hides_iommu());
    if is_dom0 || host.has_option("single") || host.has_option("recovery") {
        return Vec::new();
    }
    let mut told = BTreeSet::new();
    let missing = host.options_not_booted().filter(|judged| concerns_dma_anew(host, judged));
    let missing = missing.filter(|judged| !asks_for_small_pool(judged) && told.insert(judged.token.words()));
    missing.map(|judged| of_next_boot(host, judged)).collect()
}

/// Whether an option asks for something about DMA that the running kernel was not asked for.
fn concerns_dma_anew(host: &Host, judged: &TokenVerdict) -> bool {
    let Verdict::Understood { effects, .. } = &judged.verdict else { return false };
    !effects.iter().all(|effect| LineEdit::asks(host, std::slice::from_ref(effect)))
}

/// A finding on an option for the next boot.
fn of_next_boot(host: &Host, judged: &TokenVerdict) -> Finding {
    let words = judged.token.words();
    let shown = shown_argument(&words);
    let fix = match Tool::of(host) {
        Tool::UpdateGrub => Advice::run(Command::new("update-grub")).and_say(", which writes it into the boot entries, and reboot"),
        Tool::Grubby if words.chars().all(is_inert) => super::add_kernel_argument(host, &words),
        _ => "have the boot loader's own tool write the boot entries (`update-grub`, `grub2-mkconfig`, `proxmox-boot-tool refresh`), and reboot".into(),
    };
    Finding {
        id: Id::KernelOptionNotBooted,
        severity: Severity::Note,
        address: None,
        what: format!("{shown} stands in the boot loader's configuration, and the running kernel was not started with it"),
        evidence: std::iter::once(&judged.token.at).chain(host.command_line.as_ref().map(|line| &line.at)).cloned().collect(),
        fix,
        risk: "none in writing the boot entries; what the option asks for takes effect for the first time, so read its meaning first".to_owned(),
        verify: "`cat /proc/cmdline` shows it after the reboot".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    }
}

/// A finding for an option that is invalid or ineffective; `aside` tells where it stands, if not on the running kernel's line.
fn invalid_option(host: &Host, checked: &TokenVerdict, aside: &str) -> Option<Finding> {
    let (severity, reason, suggestion) = match &checked.verdict {
        Verdict::Invalid { reason, suggestion, .. } => (Severity::Warning, reason, suggestion),
        Verdict::Ineffective { reason, suggestion } => (Severity::Note, reason, suggestion),
        Verdict::Understood { .. } | Verdict::NotDma => return None,
    };
    let said = kernel_complaint(host, checked);
    let mut evidence = vec![checked.token.at.clone()];
    evidence.extend(said.cloned());
    let option = (checked.token.words() != checked.part).then(|| checked.token.words());
    let what = what(&checked.part, aside, reason);
    Some(finding(severity, what, &checked.part, option.as_deref(), suggestion.as_deref(), evidence))
}

/// The line of the log in which the kernel says that it does not know an option.
fn kernel_complaint<'h>(host: &'h Host, checked: &TokenVerdict) -> Option<&'h Citation> {
    host.log.unknown_options.iter().find(|said| message_names(checked, &said.value)).map(|said| &said.at)
}

/// Whether the words of a kernel message, `said`, name this option, its value or a part of it.
fn message_names(checked: &TokenVerdict, said: &str) -> bool {
    let value = checked.part.split_once('=').map_or("", |(_, value)| value);
    !said.is_empty() && (said == checked.part || said == checked.token.words() || said == value)
}

/// Findings for options that the kernel reports as unknown and that have no finding yet.
///
/// `Unknown kernel command line parameters` also lists arguments for init: only options of the table and names
/// that look like DMA options count.
fn unknown_to_kernel(host: &Host) -> Vec<Finding> {
    let has_no_finding = |said: &&Cited<String>| {
        !host.options.iter().any(|checked| {
            message_names(checked, &said.value)
                && matches!(
                    checked.verdict,
                    Verdict::Invalid { .. } | Verdict::Ineffective { .. } | Verdict::NotDma
                )
        })
    };
    let concerns_dma = |said: &&Cited<String>| {
        let name = said.value.split('=').next().unwrap_or_default();
        ["iommu", "swiotlb", "smmu", "ddw", "tce"].iter().any(|part| name.contains(part))
            || host.options.iter().any(|checked| message_names(checked, &said.value))
    };
    let unknown = host.log.unknown_options.iter().filter(has_no_finding).filter(concerns_dma);
    unknown
        .map(|said| {
            let reason = "the kernel reports it as unknown";
            finding(
                Severity::Warning,
                what(&said.value, "", reason),
                &said.value,
                None,
                None,
                vec![said.at.clone()],
            )
        })
        .collect()
}

/// A suggestion that is safe to type: cut at the first character that a shell or a boot loader interprets.
///
/// It may contain the value from the host's command line (`iommu.passthrough=1` for a misspelled name).
fn shown_suggestion(suggestion: &str) -> String {
    let (argument, rest) = suggestion.split_once(' ').unwrap_or((suggestion, ""));
    let end = argument.find(|c: char| !is_inert(c)).unwrap_or(argument.len());
    match end == argument.len() || argument.ends_with(':') {
        true => suggestion.to_owned(),
        false => format!("{}… {rest}", &argument[..end]).trim_end().to_owned(),
    }
}

/// What is removed or replaced, and where: an option, or one word of an option whose other words stay.
fn shown_place(part: &str, option: Option<&str>) -> [String; 2] {
    match option {
        None => [shown_argument(part), "the kernel command line".to_owned()],
        Some(option) => {
            let word = part.split_once('=').map_or(part, |(_, word)| word);
            [shown_argument(word), format!("{} on the kernel command line", shown_argument(option))]
        }
    }
}

/// That an option has no effect, and why.
fn what(part: &str, aside: &str, reason: &str) -> String {
    format!("kernel option {}{aside} has no effect: {reason}", shown_argument(part))
}

/// A finding about one option, or about one word of `option`.
fn finding(
    severity: Severity,
    what: String,
    part: &str,
    option: Option<&str>,
    suggestion: Option<&str>,
    evidence: Vec<Citation>,
) -> Finding {
    let [shown, place] = shown_place(part, option);
    // Some suggestions say that what the option was for needs none.
    let replacement = suggestion.filter(|suggestion| !suggestion.starts_with("nothing"));
    let (risk, verify) = match replacement {
        Some(_) => (
            "none in removing it; what replaces it takes effect for the first time, so read its meaning first",
            "after the reboot, `iotoll inspect` shows the DMA paths that the new option asks for",
        ),
        None => ("none: it did nothing", "`cat /proc/cmdline` no longer shows it after the reboot"),
    };
    let fix = match (suggestion, option) {
        (Some(suggestion), _) if replacement.is_none() => {
            Advice::say(format!("remove {shown} from {place}; in its place ")).and_text(suggestion)
        }
        (Some(suggestion), None) => {
            Advice::say(format!("replace {shown} on {place}: ")).and_text(&shown_suggestion(suggestion))
        }
        (Some(suggestion), Some(_)) => Advice::say(format!("remove {shown} from {place}, and add: "))
            .and_text(&shown_suggestion(suggestion)),
        (None, _) => {
            Advice::say(format!("remove {shown} from {place}: it has no effect and misleads readers"))
        }
    };
    Finding {
        id: Id::KernelOptionInvalid,
        severity,
        address: None,
        what,
        evidence,
        fix,
        risk: risk.to_owned(),
        verify: verify.into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    }
}
