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
    assert_eq!(document["schema"], "iotoll.reproduction/1");
    let family = &document["reproductions"][0];
    assert_eq!(family["family"], "iotlb");
    for parameter in family["parameters"].as_array().unwrap() {
        assert!(parameter["evidence"]["kind"].is_string(), "{parameter}");
    }
    assert!(std::fs::read_to_string(page).unwrap().starts_with("<!DOCTYPE html>"));
}

#[test]
fn what_there_is_not_is_exit_two() {
    let output = reproduce(&["nobody"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(r#"there is no family "nobody"; there are iotlb, dma-contention"#), "{said}");
}
