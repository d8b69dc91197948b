//! The house's rules on who may depend on whom, read from the manifests.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::{collections::BTreeMap, fs, path::Path};

/// The crates, lowest first, each with those of ours that it may use. A crate missing here fails the
/// test: a new room needs its place on the map.
const MAY_USE: &[(&str, &[&str])] = &[
    ("escape", &[]),
    ("toll", &[]),
    ("iova", &[]),
    ("des", &[]),
    ("ddw", &[]),
    ("dma", &["iova", "ddw"]),
    ("nvme", &["escape", "dma"]),
    ("host", &["escape", "toll", "ddw"]),
    ("bench", &["toll", "iova", "dma", "nvme"]),
    ("model", &["toll", "iova", "ddw", "dma", "des", "host"]),
    ("report", &["escape", "toll", "host", "bench", "model"]),
    ("lab-plugin", &[]),
    ("lab-guest", &["dma", "nvme"]),
    ("lab", &["toll"]),
    ("iotoll", &["escape", "toll", "host", "dma", "nvme", "bench", "model", "report", "lab"]),
];

/// Libraries that only some crates may know.
const KNOWN_TO: &[(&str, &[&str])] = &[
    ("clap", &["iotoll"]),
    ("clap_complete", &["iotoll"]),
    ("clap_mangen", &["iotoll"]),
    ("anyhow", &["iotoll"]),
    ("parquet", &["iotoll"]),
    ("rayon", &["iotoll"]),
    ("maud", &["report"]),
    ("comfy-table", &["report"]),
    ("io-uring", &["bench"]),
    ("hdrhistogram", &["bench", "des"]),
    ("libloading", &["bench"]),
];

fn manifests() -> BTreeMap<String, toml::Table> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let read = |folder: fs::DirEntry| {
        let text = fs::read_to_string(folder.path().join("Cargo.toml")).unwrap();
        (folder.file_name().into_string().unwrap(), text.parse().unwrap())
    };
    fs::read_dir(crates).unwrap().map(|folder| read(folder.unwrap())).collect()
}

fn uses(manifest: &toml::Table) -> Vec<&str> {
    manifest
        .get("dependencies")
        .and_then(toml::Value::as_table)
        .map(|table| table.keys().map(String::as_str).collect())
        .unwrap_or_default()
}

#[test]
fn dependencies_point_down() {
    let manifests = manifests();
    let ours: Vec<&str> = MAY_USE.iter().map(|(name, _)| *name).collect();
    let mut wrong = Vec::new();
    for (name, manifest) in &manifests {
        let Some((_, allowed)) = MAY_USE.iter().find(|(known, _)| known == name) else {
            wrong.push(format!("{name} is not on the map"));
            continue;
        };
        let edges = uses(manifest).into_iter().filter(|used| ours.contains(used) && !allowed.contains(used));
        wrong.extend(edges.map(|used| format!("{name} -> {used}")));
    }
    assert!(wrong.is_empty(), "edges that the house does not allow: {wrong:#?}");
}

#[test]
fn folders_are_named_for_their_crates() {
    for (folder, manifest) in manifests() {
        assert_eq!(manifest["package"]["name"].as_str().unwrap(), folder);
    }
}

#[test]
fn only_these_crates_know_each_of_these() {
    let mut wrong = Vec::new();
    for (name, manifest) in manifests() {
        for (library, knowing) in KNOWN_TO {
            if !knowing.contains(&name.as_str()) && uses(&manifest).contains(library) {
                wrong.push(format!("{name} -> {library}, known to {knowing:?} alone"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
