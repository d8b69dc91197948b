//! What differs in the heads of two documents, and may be why their figures do.

use crate::comparison::{Difference, Doubt, Side};
use crate::head::ReadHead;
use bench::HostSummary;

/// All differences of programs, command lines and machines. What one does not know differs from what the other does. Of the load nothing is said:
/// it is never the same.
pub(crate) fn differences(before: &ReadHead, after: &ReadHead) -> Vec<Difference> {
    let told = [told(before), told(after)];
    let [before, after] = told;
    let pairs = before.into_iter().zip(after);
    let different = pairs.filter(|((_, before), (_, after))| before != after);
    different
        .map(|((what, before), (_, after))| Difference { what: what.to_owned(), before, after })
        .collect()
}

/// What a head says, by name.
fn told(head: &ReadHead) -> [(&'static str, Option<String>); 8] {
    let ReadHead { made_by, command, machine, .. } = head;
    let HostSummary { cpu, cpus, architecture, kernel, governor, is_virtual, load_average: _ } = machine;
    let is_virtual = is_virtual.map(|is| if is { "yes" } else { "no" }.to_owned());
    [
        ("kernel", kernel.clone()),
        ("CPU", cpu.clone()),
        ("number of CPUs", Some(cpus.to_string())),
        ("architecture", Some(architecture.clone())),
        ("frequency governor", governor.clone()),
        ("virtual machine", is_virtual),
        ("command line", Some(command.join(" "))),
        ("program", Some(made_by.clone())),
    ]
}

/// Warnings of both documents, and one if their CPUs differ.
pub(crate) fn doubts_of_machines(before: &ReadHead, after: &ReadHead) -> Vec<Doubt> {
    let cpu = |head: &ReadHead| {
        let HostSummary { cpu, cpus, architecture, .. } = &head.machine;
        (cpu.clone(), *cpus, architecture.clone())
    };
    let words = "the CPUs differ, so times differ by them, too".to_owned();
    let of_cpus = (cpu(before) != cpu(after)).then_some(Doubt { side: None, words });
    let warnings = [(Side::Before, before), (Side::After, after)].into_iter().flat_map(|(side, head)| {
        head.warnings.iter().map(move |words| Doubt { side: Some(side), words: words.clone() })
    });
    of_cpus.into_iter().chain(warnings).collect()
}

/// Each doubt once: what is said of both documents becomes one doubt about both.
pub(crate) fn joined(doubts: Vec<Doubt>) -> Vec<Doubt> {
    let mut all: Vec<Doubt> = Vec::new();
    for doubt in doubts {
        match all.iter_mut().find(|known| known.words == doubt.words) {
            Some(known) if known.side != doubt.side => known.side = None,
            Some(_) => {}
            None => all.push(doubt),
        }
    }
    all
}
