//! `iotoll reproduce` on the command line.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use assert_cmd::Command;
use std::process::Output;

fn reproduce(args: &[&str]) -> Output {
    let mut command = Command::cargo_bin("iotoll").unwrap();
    command.env("COLUMNS", "100").env("NO_COLOR", "1").arg("reproduce").args(args).output().unwrap()
}

#[test]
fn a_missed_prediction_is_exit_one_in_whatever_form() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let output = reproduce(&["iotlb", "--json", "--html", page.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], "iotoll.reproduction/4");
    let study = &document["reproductions"][0];
    assert_eq!(study["study"], "iotlb");
    for parameter in study["parameters"].as_array().unwrap() {
        assert!(parameter["evidence"]["kind"].is_string(), "{parameter}");
    }
    assert!(std::fs::read_to_string(page).unwrap().starts_with("<!DOCTYPE html>"));
}

#[test]
fn absent_inputs_are_exit_two() {
    let output = reproduce(&["nobody"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    let studies = model::studies().collect::<Vec<_>>().join(", ");
    assert!(said.contains(&format!(r#"there is no study "nobody"; expected one of {studies}"#)), "{said}");
}

#[test]
fn a_parameter_can_be_changed() {
    let ours = |args: &[&str]| {
        let output = reproduce(&[&["dma-contention", "--seeds", "2", "--json"], args].concat());
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        document["reproductions"][0]["curves"][0]["points"][0]["ours"].as_f64().unwrap()
    };
    let iotlb =
        |args: &[&str]| String::from_utf8(reproduce(&[&["iotlb", "--json"], args].concat()).stdout).unwrap();
    let kinds = |said: &str, kind: &str| said.matches(&format!(r#""kind": "{kind}","#)).count();
    let (given, with_walks) = (iotlb(&[]), iotlb(&["--set", "walk_ns=250"]));
    assert!(
        kinds(&given, "calibrated") > kinds(&with_walks, "calibrated"),
        "what changed was not calibrated"
    );
    assert!(
        kinds(&with_walks, "changed") > 0 && kinds(&with_walks, "saturated") > 0,
        "walks don't move links"
    );
    let as_given = |args: &[&str]| reproduce(&[&["premapped", "--json"], args].concat()).stdout;
    assert_eq!(as_given(&[]), as_given(&["--set", "instruction_ns=0.33"]), "the given value is no change");
    // The lock is held for a hypercall, and for a third as long besides.
    let gained = ours(&["--set", "hypercall_us=0.31"]) / ours(&[]);
    assert!((1.2..1.7).contains(&gained), "{gained}");
    for (args, words) in [
        (&["dma-contention", "--set", "hypercalls=1"][..], r#"has no parameter "hypercalls""#),
        (&["dma-contention", "--set", "hypercall_us=9"], "hypercall_us is 9; expected 0.31 to 1.24"),
        (&["dma-contention", "--set", "hypercall_us=nan"], "hypercall_us is NaN"),
        (&["dma-contention", "--set", "hypercall_us"], "expected NAME=VALUE"),
        (&["dma-contention", "--set", "hypercall_us=much"], "is not a number"),
        (
            &["dma-contention", "--set", "hypercall_us=0.5", "--set", "hypercall_us=0.6"],
            "hypercall_us is set twice",
        ),
        (&["dma-contention", "--set", "send_rings=5.6"], "send_rings is 5.6; expected a whole number"),
        (&["iotlb", "--set", "entries=100.5"], "entries is 100.5; expected a whole number"),
        (&["power-window", "--set", "receive_delay_us=0"], "receive_delay_us is given as 0"),
        (&["--set", "hypercall_us=0.5"], "STUDY"),
    ] {
        let output = reproduce(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(words), "{said}");
    }
}

/// A parameter that is set to the value that it has changes no row's kind, and counts as no value of the user's.
#[test]
fn a_given_value_does_not_relabel_rows() {
    let study = |args: &[&str]| -> serde_json::Value {
        let output = reproduce(&[&["premapped", "--json"], args].concat());
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        document["reproductions"][0].clone()
    };
    let given = study(&[]);
    for parameter in given["parameters"].as_array().unwrap() {
        let (name, value) = (parameter["name"].as_str().unwrap(), &parameter["value"]);
        assert_eq!(study(&["--set", &format!("{name}={value}")]), given, "{name}");
    }
    let changed = study(&["--set", "instruction_ns=0.4"]);
    assert_eq!((&given["evidence"]["given"], &changed["evidence"]["given"]), (&0.into(), &1.into()));
    let printed = String::from_utf8(reproduce(&["premapped", "--set", "instruction_ns=0.4"]).stdout).unwrap();
    let same = String::from_utf8(reproduce(&["premapped", "--set", "instruction_ns=0.33"]).stdout).unwrap();
    assert!(printed.contains("changed") && !same.contains("changed"), "{printed}{same}");
}
