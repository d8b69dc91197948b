//! Hostile archives, trees and file contents, each through the program as a user runs it.
//!
//! Whatever comes in, `iotoll inspect` and `iotoll capture` end with status 0, 1 or 2, within bounds of time, memory and output;
//! write nothing that steers a terminal, nothing into a page but text, and no file that was not asked for; and no
//! command in a fix has words of the host outside of quotes.
//!
//! ```text
//! cargo test -p iotoll --test hostile                               # what takes no long time; all of them and the figures:
//! cargo test -p iotoll --test hostile --release -- --ignored --nocapture every_case
//! HOSTILE_ARCHIVES=DIR cargo test -p iotoll --test hostile --release -- --ignored --nocapture other_peoples_archives
//! cargo test -p iotoll --test hostile -- --ignored --nocapture extreme_experiments
//! ```
//!
//! The last is for a build with overflow checks, as one for development is.
//! `HOSTILE_ONLY=WORD` runs the cases that have the word in category or name, `HOSTILE_PROGRAM=FILE` another build of the program.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod archives;
mod case;
mod contents;
mod extremes;
mod fixes;
mod host;
mod program;
mod promises;
mod tar;
mod trees;

use case::{Case, Input};
use promises::Checked;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

fn all() -> Vec<Case> {
    let mut all = archives::cases();
    all.extend(trees::cases());
    all.extend(contents::cases());
    all.extend(fixes::cases());
    let only = std::env::var("HOSTILE_ONLY").unwrap_or_default();
    all.retain(|case| format!("{} {}", case.category, case.name).contains(&only));
    all
}

/// Figures of a category.
#[derive(Default)]
struct Row {
    cases: usize,
    /// Cases of which every run kept every promise.
    fine: usize,
    /// Runs of `inspect` by exit status 0, 1 and 2.
    ended: [usize; 3],
    longest_ms: u128,
}

/// Runs cases, on each CPU one; what each broke.
fn run(cases: Vec<Case>) -> Vec<String> {
    let count = cases.len();
    let checked = side_by_side(cases, |case| (case.category, case.name.clone(), promises::check(case)));
    let (mut rows, mut broken): (BTreeMap<&str, Row>, Vec<String>) = Default::default();
    for (category, name, Checked { broken: promises, status, longest }) in checked {
        let row = rows.entry(category).or_default();
        row.cases += 1;
        row.fine += usize::from(promises.is_empty());
        row.longest_ms = row.longest_ms.max(longest.as_millis());
        if let Some(ended) = status.and_then(|status| row.ended.get_mut(status as usize)) {
            *ended += 1;
        }
        broken.extend(promises.iter().map(|promise| format!("{category} / {name}: {promise}")));
    }
    println!(
        "| category | cases | fine | exit 0 | exit 1 | exit 2 | slowest run, ms |\n|---|---|---|---|---|---|---|"
    );
    for (category, Row { cases, fine, ended: [zero, one, two], longest_ms }) in rows {
        println!("| {category} | {cases} | {fine} | {zero} | {one} | {two} | {longest_ms} |");
    }
    println!("{count} cases, {} broken promises", broken.len());
    broken
}

/// What is made of each, on all CPUs, in no certain order.
fn side_by_side<T: Send, U: Send>(all: Vec<T>, make: impl Fn(&T) -> U + Sync) -> Vec<U> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (all, made) = (Mutex::new(all), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let Some(one) = all.lock().unwrap().pop() else { break };
                    let done = make(&one);
                    made.lock().unwrap().push(done);
                }
            });
        }
    });
    made.into_inner().unwrap()
}

#[test]
fn quick_cases() {
    let broken = run(all().into_iter().filter(|case| !case.is_heavy).collect());
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
#[ignore = "takes minutes: bombs, and files of many megabytes"]
fn every_case() {
    let cases = all();
    assert!(cases.len() >= 200 || std::env::var_os("HOSTILE_ONLY").is_some(), "{}", cases.len());
    let broken = run(cases);
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
#[ignore = "needs a folder of archives, HOSTILE_ARCHIVES"]
fn other_peoples_archives() {
    let folder = std::env::var_os("HOSTILE_ARCHIVES").expect("HOSTILE_ARCHIVES names a folder");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    let case = |path: &PathBuf| Case {
        category: "other people's",
        name: path.file_name().unwrap().to_string_lossy().into_owned(),
        is_heavy: true,
        input: Input::There(path.clone()),
    };
    let broken = run(paths.iter().map(case).collect());
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Figures of a kind of file.
#[derive(Default)]
struct Extremes {
    files: usize,
    refused: usize,
    fine: usize,
    longest_ms: u128,
}

/// Runs every so many of the files; what each broke.
fn run_extremes(step: usize) -> Vec<String> {
    let only = std::env::var("HOSTILE_ONLY").unwrap_or_default();
    let folder = tempfile::tempdir().unwrap();
    let host = extremes::host(folder.path());
    let (mut rows, mut broken): (BTreeMap<&str, Extremes>, Vec<String>) = Default::default();
    let wanted = extremes::all().into_iter().filter(|extreme| extreme.name.contains(&only)).step_by(step);
    let ran =
        side_by_side(wanted.collect(), |extreme| (extreme.kind, extreme.name.clone(), extreme.run(&host)));
    for (kind, name, came) in ran {
        let row = rows.entry(kind).or_default();
        row.files += 1;
        row.refused += usize::from(came.is_refused);
        row.fine += usize::from(came.broken.is_empty());
        row.longest_ms = row.longest_ms.max(came.took.as_millis());
        broken.extend(came.broken.iter().map(|promise| format!("{kind} / {name}: {promise}")));
    }
    println!("| files | changed | fine | refused | run | slowest, ms |\n|---|---|---|---|---|---|");
    for (kind, Extremes { files, refused, fine, longest_ms }) in rows {
        println!("| {kind} | {files} | {fine} | {refused} | {} | {longest_ms} |", files - refused);
    }
    broken
}

#[test]
#[ignore = "takes minutes: thousands of models"]
fn extreme_experiments() {
    let broken = run_extremes(1);
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn some_extreme_experiments() {
    let broken = run_extremes(97);
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
