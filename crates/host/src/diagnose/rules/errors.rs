//! PCI Express errors in the kernel's log.

use super::Rule;
use crate::Bdf;
use crate::diagnose::{Advice, Case, Explanation, Finding, Id, Severity};
use crate::facts::Host;
use crate::facts::log::PcieErrors;
use escape::shell::Command;

/// The rule, with what its findings mean.
pub(super) const RULE: Rule = Rule {
    find,
    explains: &[Explanation {
        id: Id::PcieErrors,
        meaning: "A port or a device reported PCI Express errors. Corrected ones cost time, as packets are sent \
                  again. Uncorrected ones lost a transaction, and after a fatal one the link is not to be \
                  trusted.",
        severity: "critical for fatal errors; warning for uncorrected ones, and where a port cut its link off; \
                   note for corrected ones",
        evidence: "the kernel's lines on AER and on containment by ports",
        fix: "of packets that were sent again, whether the errors end without ASPM tells first; of a device that did not answer in time \
              (CmpltTO), what the log says of it before; of a packet that was refused (MalfTLP, UnsupReq), who sent it. Then look at the error registers of both ends of the link; reseat the card \
              or its cable, and update its firmware. `ACSViol` means that a device sent what its port forbids",
        risk: "reseating takes the machine down; `pci=noaer` only hides the errors",
        verify: "no new such line in `dmesg` under load",
    }],
};

/// Findings about errors on links.
fn find(case: &Case<'_>) -> Vec<Finding> {
    let errors = &case.host.log.pcie_errors;
    errors.iter().filter_map(|(address, errors)| finding(case.host, *address, errors)).collect()
}

/// A finding on the errors that one function reported.
fn finding(host: &Host, address: Bdf, errors: &PcieErrors) -> Option<Finding> {
    let severity = match errors {
        errors if errors.fatal.count > 0 => Severity::Critical,
        errors if errors.uncorrected.count > 0 || errors.contained.is_some() => Severity::Warning,
        _ => Severity::Note,
    };
    let counts =
        [(&errors.fatal, "fatal"), (&errors.uncorrected, "uncorrected"), (&errors.corrected, "corrected")];
    let counts: Vec<String> = counts
        .iter()
        .filter(|(lines, _)| lines.count > 0)
        .map(|(lines, kind)| format!("{} {kind}", lines.count))
        .collect();
    let names: Vec<String> = errors.names.iter().map(|name| in_words(name)).collect();
    let names = if names.is_empty() { String::new() } else { format!(" ({})", names.join("; ")) };
    let below = adapters_below(host, address);
    let cut = if errors.contained.is_some() { "; the port cut its link off" } else { "" };
    let counts = if counts.is_empty() { "some".to_owned() } else { counts.join(", ") };
    let first = [&errors.fatal, &errors.uncorrected, &errors.corrected]
        .into_iter()
        .filter_map(|lines| lines.first.clone());
    let packet = errors.packet.as_ref();
    let of_packet = packet
        .map_or_else(String::new, |packet| format!("; the first packet with an error: {}", packet.value));
    let mut evidence: Vec<_> = first.chain(errors.contained.clone()).collect();
    if evidence.is_empty() {
        return None;
    }
    evidence.extend(packet.map(|packet| packet.at.clone()));
    Some(Finding {
        id: Id::PcieErrors,
        severity,
        address: Some(address),
        what: format!("PCI Express errors were logged at {address}{below}: {counts}{names}{of_packet}{cut}"),
        evidence,
        fix: fix(address, errors),
        risk: "reseating takes the machine down; pci=noaer only hides the errors".to_owned(),
        verify: "no new such line in `dmesg` under load".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}

/// What to do about the errors, the most probable cause first. The names are those of drivers/pci/pcie/aer.c.
fn fix(address: Bdf, errors: &PcieErrors) -> Advice {
    /// Errors after which the link sends a packet again.
    const REPEATED: [&str; 5] = ["RxErr", "BadTLP", "BadDLLP", "Rollover", "Timeout"];
    const REPAIRED: &str = "packets were sent again, and nothing was lost. A link that sleeps too deeply (ASPM) is a frequent cause: whether the \
                            errors end with `pcie_aspm.policy=performance` for one boot tells. Else look at the error registers (";
    const SILENT: &str = "find out why the device below did not answer in time: it is being reset, sleeps, hangs or is gone, by the lines of the \
                          log before the first error. Then look at the error registers (";
    const MALFORMED: &str = "find who sent the packet that breaks the rules (its header is in the lines after the error, with the requester's ID): the logic \
                             or firmware of that device builds it wrong, or it is set to larger payloads than the port; no seat or cable does that. Then look at the \
                             error registers (";
    const UNSUPPORTED: &str = "find who sent the packet (its header is in the lines after the error, with the requester's ID): it asked for what is not there, \
                               such as an address outside of the function's BARs, or registers of one that sleeps or is being reset, or it is a message that the port was not set up to take; no seat or cable does that. \
                               Then look at the error registers (";
    let has = |short: &str, long: &str| errors.names.iter().any(|name| name == short || name == long);
    let is_repaired = errors.fatal.count == 0
        && errors.uncorrected.count == 0
        && !errors.names.is_empty()
        && errors.names.iter().all(|name| REPEATED.iter().any(|repeated| name.contains(repeated)));
    let (first, last) = match is_repaired {
        true => (REPAIRED, "; reseat the card or its cable, and update its firmware"),
        false if has("MalfTLP", "Malformed TLP") => {
            (MALFORMED, "; update its firmware or logic and its driver")
        }
        false if errors.names.iter().any(|name| name.contains("CmpltTO")) => {
            (SILENT, "; update its firmware")
        }
        false if has("UnsupReq", "Unsupported Request") => {
            (UNSUPPORTED, "; update its firmware and its driver")
        }
        false => ("look at the error registers (", "; reseat the card or its cable, and update its firmware"),
    };
    Advice::say(first)
        .and_run(Command::new("lspci").arg("-vvs").arg(address.to_string()))
        .and_say(" as root: DevSta, UESta, CESta)")
        .and_say(last)
}

/// The kernel's short name of an error with what it stands for (drivers/pci/pcie/aer.c; PCI Express Base Specification 6.0, section 7.8.4).
fn in_words(name: &str) -> String {
    const WORDS: [(&str, &str); 22] = [
        ("RxErr", "receiver error"),
        ("BadTLP", "damaged packet"),
        ("BadDLLP", "damaged link packet"),
        ("Rollover", "replayed too often"),
        ("Timeout", "replay timer ran out"),
        ("NonFatalErr", "advisory"),
        ("CorrIntErr", "internal, corrected"),
        ("HeaderOF", "header log overflow"),
        ("DLP", "link protocol error"),
        ("SDES", "link went down by surprise"),
        ("TLP", "poisoned packet"),
        ("FCP", "flow control error"),
        ("CmpltTO", "completion timeout"),
        ("CmpltAbrt", "completer abort"),
        ("UnxCmplt", "unexpected completion"),
        ("RxOF", "receiver overflow"),
        ("MalfTLP", "malformed packet"),
        ("ECRC", "end-to-end checksum"),
        ("UnsupReq", "unsupported request"),
        ("ACSViol", "ACS violation"),
        ("UncorrIntErr", "internal"),
        ("PoisonTLPBlocked", "poisoned packet, blocked"),
    ];
    let words = WORDS.iter().find(|(known, _)| *known == name);
    words.map_or_else(|| name.to_owned(), |(known, words)| format!("{known}, {words}"))
}

/// Which adapters are below a port: `, above 0000:05:00.0`.
fn adapters_below(host: &Host, port: Bdf) -> String {
    let below = host.adapters.iter().filter(|adapter| adapter.function.upstream.contains(&port));
    let below: Vec<String> = below.map(|adapter| adapter.function.address.to_string()).collect();
    if below.is_empty() { String::new() } else { format!(", above {}", below.join(", ")) }
}
