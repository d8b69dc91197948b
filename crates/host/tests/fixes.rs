//! A fix can only help: every command that a finding offers is carried out on paper, by a second telling of what kernels and
//! boot loaders do (`fixes/kernel.rs`), and must change what it is for, be accepted, and leave everything else alone.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, reason = "each test uses its part of the reader")]
mod fixture;
#[path = "fixes/hosts.rs"]
mod hosts;
#[path = "fixes/kernel.rs"]
mod kernel;

use host::diagnose::{Basis, Finding, Part};
use host::facts::bounce::SLOT_BYTES;
use host::{Host, Inspection, Tree};
use kernel::{GroupState, Machine, Maker, Settings, Tool, edited, options, refusal, refuses, settings};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What a fix does.
#[derive(Debug)]
enum Change {
    /// Arguments are taken away from the command line and added to it.
    Arguments { without: Vec<String>, with: Vec<String>, tool: Tool },
    /// A group's type is written.
    Type { group: u32, to: String, unbound: bool },
}

/// The texts between backticks of a text.
fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The changes of the command line that prose tells of: `add X to`, `remove X from`, `remove WORD from X on`, `replace X by Y on`.
fn told(prose: &str) -> Vec<Change> {
    const LINE: &str = " the kernel command line";
    let mut changes = Vec::new();
    for piece in prose.split_inclusive(LINE).filter(|piece| piece.ends_with(LINE)) {
        let verbs = ["add `", "remove `", "replace `"];
        let Some((at, verb)) = verbs.iter().filter_map(|verb| Some((piece.rfind(verb)?, *verb))).max() else {
            continue;
        };
        let words = quoted(&piece[at..]);
        // What a shell would interpret is shown cut, and changed by hand.
        if words.iter().any(|word| word.contains('…')) {
            continue;
        }
        let arguments = |text: &String| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let (without, with) = match (verb, words.as_slice()) {
            ("add `", [with]) => (Vec::new(), arguments(with)),
            ("replace `", [from @ .., to]) => (from.to_vec(), arguments(to)),
            ("remove `", [word, from]) if piece[at..].contains("` from `") => {
                let (name, value) = from.split_once('=').unwrap();
                let kept: Vec<&str> = value.split(',').filter(|other| other != word).collect();
                (vec![from.clone()], vec![format!("{name}={}", kept.join(","))])
            }
            ("remove `", all) => (all.to_vec(), Vec::new()),
            _ => panic!("not understood: {piece}"),
        };
        changes.push(Change::Arguments { without, with, tool: Tool::Hand });
    }
    changes
}

/// The change that the finding on an invalid option tells of: `replace X on the kernel command line: NEW`, `remove WORD from X on the
/// kernel command line, and add: NEW`. NEW ends where words of explanation begin.
fn replacement(prose: &str) -> Option<Change> {
    let (before, after) = prose.split_once(" on the kernel command line")?;
    let new = after.strip_prefix(": ").or_else(|| after.strip_prefix(", and add: "))?;
    let is_option = |word: &&str| {
        let inert = word.chars().all(|c| c.is_ascii_alphanumeric() || "=,.:_-/".contains(c));
        inert && word.split_once('=').is_some_and(|(name, value)| !name.is_empty() && !value.is_empty())
    };
    let with: Vec<String> = new.split_whitespace().take_while(is_option).map(str::to_owned).collect();
    let without = match quoted(before).as_slice() {
        [option] => vec![option.clone()],
        [word, option] => {
            let (name, value) = option.split_once('=')?;
            let kept: Vec<&str> = value.split(',').filter(|other| other != word).collect();
            return Some(Change::Arguments {
                without: vec![option.clone()],
                with: with.into_iter().chain([format!("{name}={}", kept.join(","))]).collect(),
                tool: Tool::Hand,
            });
        }
        _ => return None,
    };
    (!with.is_empty()).then_some(Change::Arguments { without, with, tool: Tool::Hand })
}

/// The change that a command makes.
fn made(line: &str, after: &str, before: &str) -> Option<Change> {
    let words = shlex::split(line)?;
    let option = |name: &str| {
        let found = words.iter().find_map(|word| word.strip_prefix(name));
        found.map_or_else(Vec::new, |value| value.split_whitespace().map(str::to_owned).collect())
    };
    match words.first()?.as_str() {
        "grubby" => Some(Change::Arguments {
            without: option("--remove-args="),
            with: option("--args="),
            tool: Tool::Grubby,
        }),
        "echo" if line.contains("/iommu_groups/") => Some(Change::Type {
            group: line.split("/iommu_groups/").nth(1)?.split('/').next()?.parse().ok()?,
            to: words[1].clone(),
            unbound: after.contains("unbound") || before.contains("/unbind"),
        }),
        _ => None,
    }
}

/// All changes that a finding offers.
fn changes(finding: &Finding) -> Vec<Change> {
    let parts: Vec<&Part> = finding.fix.parts().collect();
    let prose = parts.iter().map(|part| match part {
        Part::Prose(prose) => prose.to_string(),
        Part::Otherwise => "; ".to_owned(),
        _ => "COMMAND".to_owned(),
    });
    let prose: Vec<String> = prose.collect();
    let whole = prose.concat();
    if finding.id.word() == "kernel-option-invalid" && whole.starts_with("re") {
        return replacement(&whole).map_or_else(|| told(&whole), |replaced| vec![replaced]);
    }
    let mut all = told(&whole);
    for (index, part) in parts.iter().enumerate() {
        let (Part::Command(command) | Part::Completing(command)) = part else { continue };
        let before: String = parts[..index]
            .iter()
            .map(|part| match part {
                Part::Command(command) => command.to_string(),
                _ => String::new(),
            })
            .collect();
        let after = prose.get(index + 1).map_or("", String::as_str);
        all.extend(made(&command.to_string(), after, &before));
    }
    all
}

/// What is wrong with a change of the command line that a finding offers, on a host with a bounce pool of so many slots.
fn wrong_line(
    finding: &Finding,
    machine: &Machine,
    (line, slots): (&str, u64),
    change: (&[String], &[String], Tool),
) -> Option<String> {
    let (without, with, tool) = change;
    let missing = without.iter().find(|gone| !line.split_whitespace().any(|argument| argument == **gone));
    if let Some(gone) = missing {
        return Some(format!("{gone} is not on the command line"));
    }
    let after = edited(line, without, with, tool);
    let (then, now) = (settings(machine, &after), settings(machine, line));
    let offers_pool =
        finding.id.word() == "swiotlb-full" && with.iter().any(|new| new.starts_with("swiotlb="));
    let is_small = offers_pool && then.slots <= now.slots.max(Some(slots));
    let loses_pool = now.slots.is_some() && then.slots.is_none();
    let why = lost(line, &after, without, with)
        .or_else(|| loses_pool.then(|| "the size of the pool would be lost".to_owned()))
        .or_else(|| is_small.then(|| "the pool does not grow".to_owned()))
        .or_else(|| refuses(machine, &new_words(line, with)))
        .or_else(|| void(finding.id.word(), machine, &now, &then));
    why.map(|why| format!("{why}: {after}"))
}

/// The words of added arguments that the line does not have.
fn new_words(line: &str, with: &[String]) -> String {
    let there = options(line);
    let is_there =
        |name: &str, word: &String| there.iter().any(|(other, words)| other == name && words.contains(word));
    let new = options(&with.join(" ")).into_iter().flat_map(|(name, words)| {
        let words = words.into_iter().filter(|word| !is_there(&name, word));
        words.map(|word| format!("{name}={word}")).collect::<Vec<_>>()
    });
    new.collect::<Vec<_>>().join(" ")
}

/// A word that is gone and was not to go.
fn lost(line: &str, after: &str, without: &[String], with: &[String]) -> Option<String> {
    let words = |line: &str| -> BTreeSet<(String, String)> {
        let flat = |(name, words): (String, Vec<String>)| match words.is_empty() {
            true => vec![(name, String::new())],
            false => words.into_iter().map(|word| (name.clone(), word)).collect(),
        };
        options(line).into_iter().flat_map(flat).collect()
    };
    let gone: BTreeSet<_> = words(line).difference(&words(after)).cloned().collect();
    let wanted = words(&without.join(" "));
    // What sets the same as a new word is replaced by it.
    let replaced = |name: &str, word: &str| {
        let new: Vec<String> = options(&with.join(" "))
            .into_iter()
            .filter(|(other, _)| other == name)
            .flat_map(|(_, words)| words)
            .collect();
        match name {
            "iommu" => ["pt", "nopt"].contains(&word) && new.iter().any(|new| new.ends_with("pt")),
            "intel_iommu" => word == "off" && new.iter().any(|new| new == "on"),
            "swiotlb" => word.parse::<u64>().is_ok() && new.iter().any(|new| new.parse::<u64>().is_ok()),
            "iommu.strict" | "iommu.passthrough" => !new.is_empty(),
            "pci" => {
                word.starts_with("disable_acs_redir=")
                    && new.iter().any(|new| new.starts_with("disable_acs_redir="))
            }
            _ => false,
        }
    };
    let harmed = gone
        .iter()
        .find(|(name, word)| !wanted.contains(&(name.clone(), word.clone())) && !replaced(name, word));
    harmed.map(|(name, word)| format!("{name}={word} would be lost"))
}

/// Why a change of settings does not do what the finding of this name is for.
fn void(id: &str, machine: &Machine, now: &Settings, then: &Settings) -> Option<String> {
    let is_untranslated = then.iommu == Some(false) || then.identity == Some(true);
    let bounces_again = now.bounces_none && !then.bounces_none;
    let ends_encryption = now.encrypts != Some(false) && then.encrypts == Some(false);
    let fails = match id {
        "strict-on-fast-adapter" | "strict-against-request" | "virtual-iommu-strict" => {
            then.strict == Some(true) && then.identity != Some(true)
                || then.strict.is_none() && machine.maker == Maker::Arm && !then.is_open
        }
        "lazy-against-request" => then.strict == Some(false),
        "mask-32-bit" | "passthrough-exposed" | "swiotlb-small" => {
            is_untranslated && !bounces_again && !ends_encryption && !now.is_open
        }
        "swiotlb-full" => is_untranslated && then.slots == now.slots && !ends_encryption,
        "swiotlb-forced" => then.bounces_all,
        "iommu-off" | "user-without-iommu" => then.iommu == Some(false),
        "snp-refused" => is_untranslated,
        "ats-off" => then.no_ats,
        "payload-mismatch" => then.payload == now.payload,
        "acs-redirect" => then.direct_ports == now.direct_ports,
        "gart-full" => then.aperture_mebibytes <= machine.gart_mebibytes,
        "power-default-window" => then.no_direct_window,
        "isolation-weakened" => then.pretends_isolation,
        _ => false,
    };
    if fails {
        return Some(format!("{id} stays as it is"));
    }
    (now == then && id != "kernel-option-invalid" && !now.is_open)
        .then(|| format!("nothing changes for {id}"))
}

/// What is wrong with a finding's fix; empty if nothing is.
fn wrong(inspection: &Inspection, finding: &Finding, log: &str) -> Vec<String> {
    let host = &inspection.host;
    let machine = Machine::of(host, log);
    // An option that a text only talks about is taken for the whole line.
    let talked_about = host.configured.named.first().map_or("", |named| named.part.as_str());
    let line = host.command_line.as_ref().map_or(talked_about, |line| line.value.as_str());
    let slots = host.bounce.pool_bytes.as_ref().map_or(0, |pool| pool.value / SLOT_BYTES);
    let mut all = Vec::new();
    let is_guest = host.platform.hypervisor.is_some() && host.log.iommu_tables.is_none();
    if is_guest && finding.fix.to_string().contains("in the firmware's setup") {
        all.push(format!("{}: {}\n    a guest has no setup of firmware to change", finding.id, finding.fix));
    }
    for change in changes(finding) {
        let why = match &change {
            Change::Arguments { without, with, tool } => {
                wrong_line(finding, &machine, (line, slots), (without, with, *tool))
            }
            Change::Type { group, to, unbound } => host.iommus.groups.get(group).and_then(|group| {
                let is_member = |address| group.members.contains(address);
                let members = host.adapters.iter().filter(|adapter| is_member(&adapter.function.address));
                let is_untrusted = members.clone().any(|adapter| {
                    adapter.removable.as_ref().is_some_and(|cited| cited.value == "removable")
                });
                let bound = members.clone().any(|adapter| adapter.function.driver.is_some());
                let state = GroupState {
                    members: group.members.len() + group.other_members.len(),
                    now: group.domain_type.as_ref().map(|cited| cited.value),
                    is_untrusted,
                };
                refusal(&machine, &state, to, *unbound || !bound)
            }),
        };
        all.extend(why.map(|why| format!("{}: {}\n    {why}", finding.id, finding.fix)));
    }
    all
}

/// All that is wrong with the fixes of a host, and how many changes were looked at.
fn wrong_of(tree: &Tree) -> (Vec<String>, usize) {
    let log = tree.kernel_log().map_or(String::new(), |log| log.body().to_owned());
    let inspection =
        Inspection::with_basis(Host::read(tree), Basis { tolls: None, prices: None, areas: &[] });
    let count = inspection.findings.iter().map(|finding| changes(finding).len()).sum();
    (inspection.findings.iter().flat_map(|finding| wrong(&inspection, finding, &log)).collect(), count)
}

#[test]
fn fixes_of_all_kept_hosts_help() {
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let captures = std::fs::read_dir(captures).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        (path.display().to_string(), Tree::open(&path).unwrap())
    });
    let cases = [("rules", "why"), ("field", "source")]
        .into_iter()
        .flat_map(|(folder, key)| fixture::cases(folder, &[key]));
    let cases = cases.map(|case| (case.name.clone(), case.tree()));
    let (mut all, mut counted) = (Vec::new(), 0);
    for (name, tree) in captures.chain(cases) {
        let (wrong, count) = wrong_of(&tree);
        counted += count;
        all.extend(wrong.into_iter().map(|wrong| format!("{name}: {wrong}")));
    }
    eprintln!("{counted} changes of kept hosts were looked at");
    assert!(counted > 50, "{counted}");
    assert!(all.is_empty(), "{}", all.join("\n"));
}

/// Hosts that are made up, always the same ones.
const MADE_UP: usize = 1000;

#[test]
fn fixes_of_made_up_hosts_help() {
    let mut runner = TestRunner::deterministic();
    let mut counted = 0;
    // By the finding and the reason: the first host, and how many there are.
    let mut all: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for _ in 0..MADE_UP {
        let made = hosts::hosts().new_tree(&mut runner).unwrap().current();
        let (wrong, count) = wrong_of(&Tree::of_memory(made.files()));
        counted += count;
        for wrong in wrong {
            let kind =
                wrong.lines().last().unwrap_or_default().split(": ").next().unwrap_or_default().to_owned();
            all.entry(kind).or_insert_with(|| (format!("{made:?}\n  {wrong}"), 0)).1 += 1;
        }
    }
    eprintln!("{counted} changes of {MADE_UP} made-up hosts were looked at");
    assert!(counted > MADE_UP, "{counted}");
    let all: Vec<String> = all
        .into_iter()
        .map(|(kind, (example, count))| format!("{kind} ({count} times)\n  {example}"))
        .collect();
    assert!(all.is_empty(), "{}", all.join("\n"));
}
