//! The documentation is whole: links and paths lead somewhere, every page is in the book, and commands that pages show do what they show.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../../../tests/console.rs"]
mod console;

use console::Shown;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

/// Pages in the repository's root that have links.
const ROOT_PAGES: &[&str] =
    &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];

/// README stays a page that is read in one go.
const README_LINES_MAX: usize = 120;

/// Paths that are named and are not there, each with the reason.
const NOT_THERE: &[(&str, &str)] = &[
    ("docs/specs/edu", "a file of QEMU's"),
    ("docs/studies/STUDY.md", "stands for every study"),
    ("docs/studies/nvme-tolls/flame.svg", "--flame makes names of files from it"),
    ("bench/engines/target/release/nexosim", "a build makes it"),
];

/// Beginnings of commands that no test runs, each with the reason. They still have to parse.
const NOT_RUN: &[(&str, &str)] = &[
    ("./check", "runs this test"),
    ("cargo ", "builds"),
    ("sudo ", "needs root, and what it names of the host"),
    ("dmesg ", "reads the host's log"),
    ("iotoll lab fetch", "needs a network"),
    ("iotoll lab run", "needs QEMU and a kernel; tests lab_run and lab_failures run it"),
    ("iotoll bench net", "needs another host; test bench_net runs it"),
    ("iotoll fleet", "needs a build with the feature fleet; test fleet runs it"),
    ("iotoll sweep", "needs a build with the feature sweep; test sweep runs it"),
];

fn repository() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

/// Files below a folder, but for what is built or hidden.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with('.') || name == "target" || path == repository().join("docs/book") {
        } else if path.is_dir() && !path.is_symlink() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "md")
}

fn pages() -> Vec<PathBuf> {
    let root = repository();
    let of_the_book = files_below(&root.join("docs")).into_iter().filter(|path| is_page(path));
    ROOT_PAGES.iter().map(|name| root.join(name)).chain(of_the_book).collect()
}

/// Lines outside of fenced and indented code, with what stands in backticks taken out.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> + '_ {
    let mut fenced = false;
    (1..).zip(text.lines()).filter_map(move |(number, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        let is_code = fenced || line.starts_with("    ");
        (!is_code).then(|| (number, line.split('`').step_by(2).collect::<Vec<_>>().join("``")))
    })
}

/// Targets of links and images in a line.
fn targets(line: &str) -> Vec<String> {
    let after = line.split("](").skip(1);
    after.filter_map(|rest| Some(rest.split_once(')')?.0.trim().to_owned())).collect()
}

/// A heading's anchor, as mdBook and code hosts make it.
fn anchor(heading: &str) -> String {
    let plain = heading.trim().to_lowercase();
    let kept = plain.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Anchors of a page; a heading that comes twice gets a number.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let mut fenced = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if let (false, Some((marks, heading))) = (fenced, line.split_once(' '))
            && !marks.is_empty()
            && marks.chars().all(|c| c == '#')
        {
            let name = anchor(heading);
            let time = times.entry(name.clone()).or_default();
            found.insert(if *time == 0 { name } else { format!("{name}-{time}") });
            *time += 1;
        }
    }
    found
}

/// Without `.` and `..`, whether it is there or not.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

#[test]
fn the_picture_in_readme_is_what_the_program_prints() {
    let picture = repository().join("docs/picture");
    let output = Command::new("python3")
        .arg(picture)
        .args(["--check", "--program", env!("CARGO_BIN_EXE_iotoll")])
        .output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn links_lead_somewhere() {
    let root = repository();
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let in_book = page.starts_with(root.join("docs"));
        for (number, line) in prose(&text) {
            for target in targets(&line).iter().filter(|target| !target.contains("://")) {
                checked += 1;
                let (file, part) = target.split_once('#').unwrap_or((target, ""));
                let path = match file {
                    "" => page.clone(),
                    file => normal(&page.parent().unwrap().join(file)),
                };
                let complaint = if !path.exists() {
                    "there is no such file"
                } else if in_book && !path.starts_with(root.join("docs")) {
                    "outside of the book; name the file in backticks instead"
                } else if !part.is_empty() && !anchors(&fs::read_to_string(&path).unwrap()).contains(part) {
                    "there is no such heading"
                } else {
                    continue;
                };
                wrong.push(format!("{}:{number}: {target}: {complaint}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(checked > 150, "{checked} links were found");
    eprintln!("{checked} links");
}

#[test]
fn every_page_is_in_the_book_once() {
    let docs = repository().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed: Vec<PathBuf> = summary.lines().flat_map(targets).map(|one| docs.join(one)).collect();
    let once: BTreeSet<&PathBuf> = listed.iter().collect();
    assert_eq!(once.len(), listed.len(), "a page is listed twice");
    let there: BTreeSet<PathBuf> = files_below(&docs)
        .into_iter()
        .filter(|path| is_page(path) && !path.ends_with("SUMMARY.md"))
        .collect();
    let missing: Vec<&PathBuf> = there.iter().filter(|path| !once.contains(path)).collect();
    assert!(missing.is_empty(), "not in docs/SUMMARY.md: {missing:#?}");
    assert_eq!(there.len(), listed.len(), "docs/SUMMARY.md lists pages that are not there");
}

#[test]
fn every_drawing_is_shown() {
    let docs = repository().join("docs");
    let mut shown = BTreeSet::new();
    let pages = files_below(&docs).into_iter().filter(|path| is_page(path));
    for page in pages.chain([repository().join("README.md")]) {
        let text = fs::read_to_string(&page).unwrap();
        let lines = prose(&text).flat_map(|(_, line)| targets(&line));
        shown.extend(lines.map(|target| normal(&page.parent().unwrap().join(target))));
    }
    let drawings =
        files_below(&docs).into_iter().filter(|path| path.extension().is_some_and(|end| end == "svg"));
    let unused: Vec<PathBuf> = drawings.filter(|path| !shown.contains(path)).collect();
    assert!(unused.is_empty(), "{unused:#?}");
}

/// Paths of a text that begin with one of these folders of the repository.
fn paths_in<'t>(text: &'t str, folders: &[&str]) -> Vec<&'t str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_');
    let mut found = Vec::new();
    for folder in folders {
        for (at, _) in text.match_indices(folder) {
            let before = text[..at].chars().next_back();
            if before.is_some_and(|c| is_part(c) && !text[..at].ends_with("../")) {
                continue;
            }
            let rest = &text[at..];
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            // A sentence's full stop, or a pattern such as `data/tolls/x86-*.json`.
            let path = rest[..end].trim_end_matches('.');
            let is_pattern = rest[end..].starts_with(['*', '{', '<', '$', '[']);
            found.push(if is_pattern { &path[..path.rfind('/').unwrap_or(0)] } else { path });
        }
    }
    found
}

#[test]
fn paths_that_are_named_are_there() {
    let root = repository();
    let mut files = pages();
    for folder in ["crates", "bench", "data", "experiments", "tests", "fuzz/src", "fuzz/fuzz_targets"] {
        files.extend(files_below(&root.join(folder)));
    }
    files.extend(
        ["check", "notices", "Cargo.toml", "deny.toml", "clippy.toml", "book.toml"]
            .map(|name| root.join(name)),
    );
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for file in files {
        // What is recorded or captured is no text of ours; this file names what is not there.
        let Ok(text) = fs::read_to_string(&file) else { continue };
        if file.extension().is_some_and(|end| end == "snap") || file.ends_with("iotoll/tests/docs.rs") {
            continue;
        }
        let folders: &[&str] = match is_page(&file) {
            true => &["docs/", "crates/", "experiments/", "data/", "bench/"],
            false => &["docs/"],
        };
        for path in paths_in(&text, folders) {
            checked += 1;
            let excused = NOT_THERE.iter().any(|(known, _)| *known == path);
            // ARCHITECTURE.md names files of the crate `bench` from `crates`.
            let is_there = root.join(path).exists() || root.join("crates").join(path).exists();
            if !excused && !is_there {
                wrong.push(format!("{}: {path}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    eprintln!("{checked} paths");
}

/// Names in backticks such as those of tests: four or more words joined by underscores.
fn long_names(line: &str) -> impl Iterator<Item = &str> {
    let in_backticks = line.split('`').skip(1).step_by(2);
    in_backticks.filter(|name| {
        let words = name.split('_');
        words.clone().count() >= 4
            && words.into_iter().all(|word| {
                !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
            })
    })
}

#[test]
fn tests_that_are_named_are_there() {
    let root = repository();
    let mut sources = String::new();
    for folder in ["crates", "fuzz/src", "tests", "bench", "data", "experiments"] {
        for file in files_below(&root.join(folder)) {
            sources.push_str(&fs::read_to_string(&file).unwrap_or_default());
        }
    }
    let known: BTreeSet<&str> = sources.split(|c: char| c != '_' && !c.is_ascii_alphanumeric()).collect();
    let mut wrong = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let unknown = text.lines().flat_map(long_names).filter(|name| !known.contains(name));
        wrong.extend(unknown.map(|name| format!("{}: {name}", page.display())));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn readme_is_short() {
    let lines = fs::read_to_string(repository().join("README.md")).unwrap().lines().count();
    assert!(
        lines <= README_LINES_MAX,
        "README.md has {lines} lines, and at most {README_LINES_MAX} are read"
    );
}

/// Every DMA path and every finding has its entry in the reference.
#[test]
fn every_dma_path_is_explained() {
    let page = fs::read_to_string(repository().join("docs/reference/dma-paths.md")).unwrap();
    let anchors = anchors(&page);
    for dma_path in toll::DmaPath::ALL {
        assert!(
            anchors.contains(dma_path.word()),
            "{dma_path} has no heading in docs/reference/dma-paths.md"
        );
    }
}

/// A folder that looks like the repository, in which commands may write.
fn workplace() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(repository()).unwrap().map(Result::unwrap) {
        let name = entry.file_name();
        if name != "target" {
            std::os::unix::fs::symlink(entry.path(), folder.path().join(name)).unwrap();
        }
    }
    folder
}

/// Runs a command as a reader would, in a shell; what it prints on both of its outputs.
fn run(command: &str, folder: &Path) -> (String, i32) {
    let program = Path::new(env!("CARGO_BIN_EXE_iotoll")).parent().unwrap();
    let path = format!("{}:{}", program.display(), env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("{{ {command}\n}} 2>&1")).current_dir(folder);
    shell.env("PATH", path).env("HOME", folder).env("LC_ALL", "C.UTF-8");
    ["XDG_STATE_HOME", "COLUMNS", "CLICOLOR_FORCE", "NO_COLOR"].iter().for_each(|name| {
        shell.env_remove(name);
    });
    let ran = shell.stdin(Stdio::null()).output().unwrap();
    (String::from_utf8_lossy(&ran.stdout).into_owned(), ran.status.code().unwrap_or(-1))
}

/// Whether a line is what is shown, in which `...` stands for anything.
fn line_fits(shown: &str, line: &str) -> bool {
    let (shown, line) = (shown.trim_end(), line.trim_end());
    let mut parts = shown.split("...");
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

/// The first line that is shown and was not printed where it should be. A line of `...` stands for any lines.
fn misfit<'s>(shown: &'s [String], printed: &[&str]) -> Option<&'s str> {
    let shown: Vec<&str> = shown.iter().map(|line| line.trim_end()).collect();
    let end = shown.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    let (mut at, mut skips) = (0, false);
    for line in &shown[..end] {
        if line.trim() == "..." {
            skips = true;
            continue;
        }
        let found = printed[at..].iter().position(|printed| line_fits(line, printed));
        match found {
            Some(ahead) if skips || ahead == 0 => at += ahead + 1,
            _ => return Some(line),
        }
        skips = false;
    }
    let all_seen = skips || printed[at..].iter().all(|line| line.trim().is_empty());
    (!all_seen).then_some("(the end: more was printed)")
}

/// The exit statuses that a shown command may end with: 2 where an error is shown, 0 or 1 where it depends on the host or on
/// the figures that were found, else 0.
fn expected_statuses(command: &str, output: &[String]) -> std::ops::RangeInclusive<i32> {
    const MAY_END_WITH_1: [&str; 3] = ["iotoll inspect", "iotoll reproduce", "iotoll lab diff"];
    if output.iter().any(|line| line.starts_with("iotoll: ")) {
        return 2..=2;
    }
    0..=i32::from(MAY_END_WITH_1.iter().any(|name| command.contains(name)))
}

#[test]
fn commands_print_the_output_that_pages_show() {
    let root = repository();
    let (mut wrong, mut ran) = (Vec::new(), 0);
    let mut unused: BTreeSet<&str> = NOT_RUN.iter().map(|(start, _)| *start).collect();
    for page in console::pages(&root) {
        let folder = workplace();
        for Shown { page, line, command, output } in console::shown(&root, &page) {
            if let Some((start, _)) = NOT_RUN.iter().find(|(start, _)| command.starts_with(start)) {
                unused.remove(start);
                continue;
            }
            let (printed, status) = run(&command, folder.path());
            ran += 1;
            let lines: Vec<&str> = printed.lines().collect();
            let expected = expected_statuses(&command, &output);
            if !expected.contains(&status) {
                wrong.push(format!(
                    "{page}:{line}: {command}: exit status {status}; expected {expected:?}\n{printed}"
                ));
            } else if let Some(misfit) = misfit(&output, &lines).filter(|_| !output.is_empty()) {
                wrong.push(format!(
                    "{page}:{line}: {command}: not printed: {misfit:?}; it printed\n{printed}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(unused.is_empty(), "no page shows a command that begins with {unused:?}");
    assert!(ran >= 10, "{ran} commands were run");
    eprintln!("{ran} commands ran");
}

#[test]
fn lines_fit_with_gaps() {
    assert!(line_fits("a ... c", "a bbb c") && !line_fits("a ... c", "a c d"));
    assert!(line_fits("same", "same  ") && !line_fits("same", "same thing"));
    assert!(line_fits("x...", "xyz") && !line_fits("...z", "xyzw"));
    let shown = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    assert_eq!(misfit(&shown(&["a", "...", "c"]), &["a", "b", "b", "c"]), None);
    assert_eq!(misfit(&shown(&["a", "c"]), &["a", "b", "c"]), Some("c"));
    assert!(misfit(&shown(&["a"]), &["a", "b"]).is_some());
    assert_eq!(misfit(&shown(&["a", "..."]), &["a", "b"]), None);
}
