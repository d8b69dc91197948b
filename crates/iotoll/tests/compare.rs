//! `iotoll compare` as it is called.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use assert_cmd::Command;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

fn iotoll(args: &[&str]) -> Output {
    Command::cargo_bin("iotoll").unwrap().args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A file of the repository.
fn file(path: &str) -> String {
    let file: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    file.to_str().unwrap().to_owned()
}

fn documents() -> [String; 2] {
    ["strict", "lazy"].map(|name| file(&format!("crates/compare/tests/documents/{name}.json")))
}

/// The words of a command that must fail.
fn refused(args: &[&str]) -> String {
    let output = iotoll(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stdout));
    assert!(output.stdout.is_empty(), "{args:?}: no data beside an error");
    let error = text(&output.stderr);
    assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    error
}

#[test]
fn the_verdict_comes_first_and_the_page_is_written() {
    let [strict, lazy] = documents();
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("change.html");
    let output = iotoll(&["compare", &strict, &lazy, "--html", page.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    let shown = text(&output.stdout);
    assert!(
        shown.starts_with("DMA mapping costs 0.50 to 0.51 times as much CPU time per request; "),
        "{shown}"
    );
    assert!(text(&output.stderr).contains("change.html written"));
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("DMA mapping costs 0.50 to 0.51 times") && !page.contains("<script"));
}

/// What `iotoll watch` writes here, whatever it may count, is a document that can be compared.
#[test]
fn a_document_of_watch_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let output = iotoll(&["watch", "--json", "--seconds", "0.2", "--interval", "0.1"]);
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    // What the kernel refuses is a warning, in the text too, and the exit status says so.
    let refused = record["uncounted"].as_str();
    let is_counted = refused.is_none() && record["unwatched"].as_array().unwrap().is_empty();
    assert_eq!(output.status.code(), Some(i32::from(!is_counted)), "{}", text(&output.stderr));
    let warnings: Vec<&str> =
        record["warnings"].as_array().unwrap().iter().map(|words| words.as_str().unwrap()).collect();
    if let Some(why) = refused {
        assert_eq!(warnings[0], format!("the kernel's DMA functions were not counted: {why}"));
        assert!(warnings.len() > 1, "what was seen of the reasons: {warnings:?}");
        let shown = text(&iotoll(&["watch", "--seconds", "0.1"]).stdout)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert!(warnings.iter().all(|words| shown.contains(words)), "{warnings:?}\n{shown}");
    }
    let watched = folder.path().join("watched.json");
    fs::write(&watched, &output.stdout).unwrap();
    let watched = watched.to_str().unwrap();
    let compared = iotoll(&["compare", watched, watched, "--json"]);
    assert_eq!(compared.status.code(), Some(0), "{}", text(&compared.stderr));
    let document: serde_json::Value = serde_json::from_slice(&compared.stdout).unwrap();
    assert_eq!(
        (&document["schema"], &document["documents"]),
        (&"iotoll.compare/1".into(), &"iotoll.watch/1".into())
    );
}

/// Stacks are sampled, or the document says why not, and then claims no time.
#[test]
fn a_document_of_sampled_stacks_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let output = iotoll(&["watch", "--stacks", "--json", "--seconds", "0.2"]);
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((record["functions"].as_array().unwrap().len(), &record["calls"]), (0, &0.into()));
    let (stacks, warnings) = (&record["stacks"], record["warnings"].as_array().unwrap());
    match stacks["unknown"].as_str() {
        None => {
            assert!(warnings.is_empty() && stacks["evidence"].is_string(), "{record}");
            assert_eq!(output.status.code(), Some(0));
        }
        Some(why) => {
            assert_eq!(warnings, &[format!("CPU time by stage is unknown, because {why}")]);
            assert!(stacks["all"].is_null() && stacks["stages"].as_array().unwrap().is_empty(), "{stacks}");
            assert_eq!(output.status.code(), Some(1));
        }
    }
    let sampled = folder.path().join("sampled.json");
    fs::write(&sampled, &output.stdout).unwrap();
    let sampled = sampled.to_str().unwrap();
    let compared = iotoll(&["compare", sampled, sampled]);
    assert_eq!(compared.status.code(), Some(0), "{}", text(&compared.stderr));
    let both = iotoll(&["watch", "--stacks", "--prices", "list.toml"]);
    assert_eq!(both.status.code(), Some(2), "samples time no event");
}

#[test]
fn what_can_t_be_compared_is_an_error_of_one_line() {
    let [strict, lazy] = documents();
    let sheet = file("data/tolls/x86-vtd-strict.json");
    let folder = tempfile::tempdir().unwrap();
    let cut = folder.path().join("cut.json");
    fs::write(&cut, &fs::read(&strict).unwrap()[..500]).unwrap();
    let cut = cut.to_str().unwrap();
    let error = refused(&["compare", &strict, &sheet]);
    for words in [
        "strict.json is a document of iotoll watch (iotoll.watch/1)",
        "is a toll sheet",
        "expected documents of one kind",
    ] {
        assert!(error.contains(words), "{words}: {error}");
    }
    let error = refused(&["compare", &strict, cut]);
    assert!(error.contains("cut.json:") && error.contains("EOF while parsing"), "{error}");
    assert!(refused(&["compare", &strict, "no.json"]).contains("can't read document no.json"));
    assert!(refused(&["compare", "/dev/zero", &strict]).contains("/dev/zero: larger than 256 MiB"));
    assert!(refused(&["compare", &strict, &lazy, "--more-than", "1"]).contains("expected toll sheets"));
    let other = file("docs/reference/schemas/watch.json");
    assert!(
        refused(&["compare", &other, &strict])
            .contains("without a field `schema`; expected one of iotoll.watch/1")
    );
}

/// Copies of the kept documents, each of another day, in a folder: six names of files.
fn several(folder: &Path) -> Vec<String> {
    let copy = |(side, day): (usize, usize)| {
        let text = fs::read_to_string(&documents()[side]).unwrap();
        let file = folder.join(format!("{}-{day}.json", ["strict", "lazy"][side]));
        fs::write(&file, text.replace("2026-11-01", &format!("2026-11-0{day}"))).unwrap();
        file.to_str().unwrap().to_owned()
    };
    [0, 1].into_iter().flat_map(|side| (1..4).map(move |day| (side, day))).map(copy).collect()
}

#[test]
fn several_documents_of_each_side_are_runs() {
    let folder = tempfile::tempdir().unwrap();
    let files = several(folder.path());
    let [a, b, c, d, e, f] = &files[..] else { panic!("{files:?}") };
    let page = folder.path().join("change.html");
    let args = ["compare", "--before", a, b, c, "--after", d, e, f, "--html", page.to_str().unwrap()];
    let output = iotoll(&args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let flat = text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("BEFORE is the mean of 3 runs, and AFTER of 3"), "{flat}");
    assert!(fs::read_to_string(page).unwrap().contains("the mean of 3 runs"));
    // An option for each document is the same.
    let args = [
        "compare", "--json", "--after", d, "--before", a, "--before", b, "--before", c, "--after", e,
        "--after", f,
    ];
    let document: serde_json::Value = serde_json::from_slice(&iotoll(&args).stdout).unwrap();
    let row = &document["groups"][0]["rows"][1];
    assert_eq!((&row["sample"], &row["runs_before"]), (&"runs".into(), &3.into()));
    let runs = document["runs"]["after"].as_array().unwrap();
    assert_eq!((runs.len(), &runs[0]), (3, &document["after"]));
    assert_eq!(runs[2]["date"], "2026-11-03");
    // One of each is what BEFORE AFTER is.
    let options = iotoll(&["compare", "--before", a, "--after", d]);
    assert_eq!(text(&options.stdout), text(&iotoll(&["compare", a, d]).stdout));
    assert!(text(&options.stdout).starts_with("DMA mapping costs 0.50 to 0.51 times"));
}

#[test]
fn several_documents_that_can_t_be_compared_are_an_error_of_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let files = several(folder.path());
    let [a, b, c, d, e, _] = &files[..] else { panic!("{files:?}") };
    let named = |words: &str, error: &str| {
        assert!(error.contains(words), "{words}: {error}");
        assert!(error.matches(".json").count() <= 2, "each file is named once: {error}");
    };
    named(
        "strict-1.json: the same document as",
        &refused(&["compare", "--before", a, b, a, "--after", d, e]),
    );
    named("strict-2.json: the same document as", &refused(&["compare", "--before", a, b, "--after", d, b]));
    named("can't read document no.json", &refused(&["compare", "--before", a, "no.json", "--after", d, e]));
    let cut = folder.path().join("cut.json");
    fs::write(&cut, &fs::read(c).unwrap()[..500]).unwrap();
    named("cut.json:", &refused(&["compare", "--before", a, cut.to_str().unwrap(), "--after", d]));
    let [lazy, strict] =
        ["lazy", "strict"].map(|name| file(&format!("crates/toll/tests/sheets/x86-vtd-{name}.json")));
    named(
        "x86-vtd-strict.json: one of several toll sheets of a side",
        &refused(&["compare", "--before", &lazy, "--after", &strict, &other_sheet(folder.path())]),
    );
    named("and ", &refused(&["compare", "--before", a, &lazy, "--after", d]));
    let many = vec![a.as_str(); 101];
    let args = [&["compare", "--after", d, "--before"] as &[&str], &many].concat();
    named("BEFORE: 101 documents; expected 1 to 100", &refused(&args));
    // The limit of all together is that of the two largest.
    let large = |name: &str| {
        let path = folder.path().join(name);
        let file = fs::File::create(&path).unwrap();
        file.set_len(200 << 20).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let [one, two, three] = ["one", "two", "three"].map(large);
    let error = refused(&["compare", "--before", &one, &two, "--after", &three]);
    assert!(error.contains("three: with it the documents are larger than 512 MiB"), "{error}");
    for args in [
        &["compare", "--before", a] as &[&str],
        &["compare", "--after", a],
        &["compare", a],
        &["compare", a, d, "--before", b, "--after", e],
        &["compare", "--before", "--after", a],
    ] {
        let output = iotoll(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

/// A third toll sheet, which is no copy.
fn other_sheet(folder: &Path) -> String {
    let text = fs::read_to_string(file("crates/toll/tests/sheets/x86-vtd-strict.json")).unwrap();
    let other = folder.join("other-sheet.json");
    fs::write(&other, format!("{{ {}", &text.trim_start()[1..])).unwrap();
    other.to_str().unwrap().to_owned()
}

/// Whatever `lab diff` prints of two sheets, `compare` prints, with the same exit status.
#[test]
fn compare_is_diff_for_sheets() {
    let [lazy, strict] =
        ["lazy", "strict"].map(|name| file(&format!("crates/toll/tests/sheets/x86-vtd-{name}.json")));
    for limit in [&[] as &[&str], &["--more-than", "719", "--more-events-than", "1"], &["--json"]] {
        let diff = iotoll(&[&["lab", "diff", &lazy, &strict], limit].concat());
        let compared = iotoll(&[&["compare", &lazy, &strict], limit].concat());
        assert_eq!((text(&compared.stdout), compared.status), (text(&diff.stdout), diff.status), "{limit:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    assert_eq!(iotoll(&["compare", &lazy, &strict, "--html", page.to_str().unwrap()]).status.code(), Some(1));
    assert!(fs::read_to_string(page).unwrap().contains("x86-vtd-strict"));
}
