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

const HOSTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/two-hosts.toml");
const PROFILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/uperf");

#[test]
fn two_hosts_talk_and_carry_out_a_profile() {
    let output = model(&["run", HOSTS]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for words in
        ["latency", "for 99 of 100", "limited by  lock of the", "hypercalls/s", "wire from the client"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let profile = format!("{PROFILES}/tcp-stream.xml");
    let run = |more: &[&str]| model(&[&["run", HOSTS, "--profile", &profile], more].concat());
    let output = run(&["--set", "n=8", "--set", "size=64k", "--set", "h=server", "--json"]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["gigabits_per_second"].as_f64().unwrap() > 8.0, "{document}");
    assert_eq!(document["latency_mean_ns"], serde_json::Value::Null);
    let refused = |output: &Output, words: &str| {
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(words), "{said}");
    };
    refused(&run(&["--set", "n=8", "--set", "h=server"]), "size");
    refused(&run(&["--set", "n"]), "expected NAME=VALUE");
    refused(&model(&["run", EXAMPLE, "--profile", &profile]), "carries out no profile");
    refused(&model(&["run", HOSTS, "--profile", "/nowhere/p.xml"]), "can't read profile /nowhere/p.xml");
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
    let hosts = std::fs::read_to_string(HOSTS).unwrap();
    for (from, to, expected) in [
        ("cores = 16", "cores = 0", "client.cpus.cores is 0; expected 1 to 4096"),
        ("core_capacity = [1.0, 1.4, 1.6, 1.8]", "core_capacity = []", "cpus.core_capacity is 0"),
        ("core_capacity = [1.0,", "core_capacity = [nan,", "cpus.core_capacity"),
        ("window_bytes = 2147483648", "window_bytes = 4096", "mapping.window_bytes is 4096"),
        ("mtu_bytes = 1500", "mtu_bytes = 50", "wire.mtu_bytes is 50"),
        ("pieces_bytes = [512, 1024]", "pieces_bytes = [0]", "client.adapter.pieces_bytes"),
        (
            "link = { generation = 2, lanes = 8",
            "link = { generation = 2, lanes = 99",
            "client.adapter.link.lanes is 99",
        ),
        ("measured_us = 6000", "measured_us = inf", "measured_us is inf"),
        (r#"pattern = "exchange""#, r#"pattern = "stream""#, "nothing bounds a stream"),
        (r#"road = "table-lock""#, r#"road = "motorway""#, "unknown variant `motorway`"),
        ("[client.mapping]", "[client.maps]", "unknown field `maps`"),
    ] {
        assert!(hosts.contains(from), "{from}");
        check(hosts.replacen(from, to, 1).as_bytes(), expected);
    }
    // One that never ends.
    let endless = model(&["run", "/dev/zero"]);
    assert_eq!(endless.status.code(), Some(2));
    assert!(text(&endless.stderr).contains("larger than 16 MiB"), "{}", text(&endless.stderr));
    let absent = model(&["run", "/nowhere/x.toml"]);
    assert_eq!(absent.status.code(), Some(2));
    assert!(text(&absent.stderr).contains("can't read experiment /nowhere/x.toml"));
}
