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
        "expected two documents of one kind",
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
