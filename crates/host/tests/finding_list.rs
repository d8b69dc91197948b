//! `docs/reference/findings.md` is made from what the rules say of their findings, and this keeps it true.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use host::diagnose::{Explanation, Id, explanations};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::{env, fs, path::Path};

const HEAD: &str = "\
# Findings

Every finding of `iotoll inspect` has one of these identifiers; scripts may match on them. Its report names the host's
own lines as evidence, and commands to paste as its fix. This page says what each means on any host. It is made from
the rules in `crates/host/src/diagnose/rules`: `IOTOLL_UPDATE=1 cargo test -p iotoll-host --test finding_list`.

- critical: data is or may be damaged, or DMA fails.
- warning: costs performance or protection.
- note: true and worth knowing, but a matter of choice.

Commands as the reports print them, and how to read them: [Read the report](../guide/report.md).
";

/// The first sentence.
fn summary(explanation: &Explanation) -> &str {
    explanation.meaning.split_inclusive(". ").next().unwrap_or_default().trim_end_matches([' ', '.'])
}

/// The severities that it may have.
fn severities(explanation: &Explanation) -> String {
    let named =
        ["critical", "warning", "note"].into_iter().filter(|word| explanation.severity.contains(word));
    named.collect::<Vec<_>>().join(", ")
}

/// With links to the other findings that it names.
fn linked(text: &str, own: Id) -> String {
    let others = explanations().into_iter().map(|one| one.id).filter(|id| *id != own);
    others.fold(text.to_owned(), |text, id| text.replace(id.word(), &format!("[{id}](#{id})")))
}

fn page() -> String {
    let mut page = format!("{HEAD}\n| finding | severity | short |\n|---|---|---|\n");
    for one in explanations() {
        writeln!(page, "| [{0}](#{0}) | {1} | {2} |", one.id, severities(one), summary(one)).unwrap();
    }
    for one in explanations() {
        let Explanation { id, meaning, severity, evidence, fix, risk, verify } = one;
        writeln!(page, "\n## {id}\n\n{}\n", linked(meaning, *id)).unwrap();
        for (what, words) in
            [("Severity", severity), ("Evidence", evidence), ("Fix", fix), ("Risk", risk), ("Verify", verify)]
        {
            writeln!(page, "- **{what}**: {}.", linked(words, *id)).unwrap();
        }
    }
    page
}

#[test]
fn the_page_of_findings_is_generated_from_the_rules() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/findings.md");
    let made = page();
    if env::var_os("IOTOLL_UPDATE").is_some() {
        fs::write(&file, &made).unwrap();
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == made,
        "docs/reference/findings.md is out of date: IOTOLL_UPDATE=1 cargo test -p iotoll-host --test finding_list"
    );
}

/// Names of all kinds of findings, as `Id::word` has them.
fn words_in_the_source() -> BTreeSet<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/diagnose/finding.rs");
    let source = fs::read_to_string(source).unwrap();
    let (_, body) = source.split_once("pub fn word(self)").unwrap();
    let arms = body.lines().take_while(|line| *line != "    }");
    arms.filter_map(|line| Some(line.split_once("=> \"")?.1.trim_end_matches("\",").to_owned())).collect()
}

#[test]
fn each_finding_is_explained_once() {
    let explained: Vec<String> = explanations().iter().map(|one| one.id.word().to_owned()).collect();
    let once: BTreeSet<String> = explained.iter().cloned().collect();
    assert_eq!(explained.len(), once.len(), "explained twice: {explained:?}");
    assert_eq!(once, words_in_the_source());
    assert!(once.len() >= 25);
}

#[test]
fn explanations_are_sentences() {
    for one in explanations() {
        assert!(one.meaning.ends_with('.'), "{}: {}", one.id, one.meaning);
        for part in [one.severity, one.evidence, one.fix, one.risk, one.verify] {
            assert!(!part.is_empty() && !part.ends_with('.'), "{}: {part}", one.id);
            let starts_small = part.starts_with(|c: char| !c.is_uppercase());
            let is_name = ["MTRR", "ACS", "SEV"].iter().any(|name| part.starts_with(name));
            assert!(starts_small || is_name || part.starts_with('`'), "{}: {part}", one.id);
        }
    }
}
