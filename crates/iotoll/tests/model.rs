//! `iotoll model` on the command line.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use assert_cmd::Command;
use std::process::Output;

fn model(args: &[&str]) -> Output {
    let mut command = Command::cargo_bin("iotoll").unwrap();
    command.env("COLUMNS", "100").env("NO_COLOR", "1").arg("model").args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/engine.toml");

#[test]
fn the_example_runs() {
    let output = model(&["run", EXAMPLE]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for words in ["reads of 64 bytes", "latency", "Gb/s", "limited by  the walker's beginning of walks"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let document: serde_json::Value =
        serde_json::from_slice(&model(&["run", EXAMPLE, "--json"]).stdout).unwrap();
    assert_eq!(document["schema"], "iotoll.model/1");
    assert!(document["gigabits_per_second"].as_f64().unwrap() > 10.0);
    assert_eq!(text(&model(&["list"]).stdout), "power-window\ndma-contention\niotlb\n");
}

#[test]
fn a_file_that_is_none_is_exit_two_and_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    let check = |contents: &[u8], expected: &str| {
        std::fs::write(&file, contents).unwrap();
        let output = model(&["run", file.to_str().unwrap()]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("mine.toml") && said.contains(expected), "{said}");
        assert!(output.stdout.is_empty());
    };
    check(b"", "missing field `what`");
    check(b"\xff\xfe", "valid UTF-8");
    check(b"what = 1", "invalid type");
    let example = std::fs::read_to_string(EXAMPLE).unwrap();
    check(example.replace("lanes = 8", "lanes = 33").as_bytes(), "link.lanes is 33; expected 1 to 32");
    check(&example.as_bytes()[..300], "TOML parse error");
    // One that never ends.
    let endless = model(&["run", "/dev/zero"]);
    assert_eq!(endless.status.code(), Some(2));
    assert!(text(&endless.stderr).contains("larger than 16 MiB"), "{}", text(&endless.stderr));
    let absent = model(&["run", "/nowhere/x.toml"]);
    assert_eq!(absent.status.code(), Some(2));
    assert!(text(&absent.stderr).contains("can't read experiment /nowhere/x.toml"));
}
