//! Every document that `--json` prints: its published schema, who made it, and how its keys are written.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod published;

use assert_cmd::Command;
use published::{document, repository};
use serde_json::Value;
use std::collections::BTreeSet;

/// Runs a command in the repository's root and returns its document.
fn printed(line: &str) -> Value {
    let mut command = Command::cargo_bin("iotoll").unwrap();
    let output = command.current_dir(repository("")).args(line.split(' ')).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{line}: {said}");
    document(&output.stdout)
}

/// Commands and documents that need neither root nor a disk of their own. `lab run` prints what `lab show` prints; `blk log`
/// takes a controller, so guests run it (test `blk_guest`).
const LINES: [&str; 24] = [
    "inspect --json --from crates/host/tests/captures/ppc-noddw.tar.gz",
    "inspect --json --from crates/host/tests/captures/x86-vtd-lazy.tar.gz",
    "inspect --json --range 0x10000000+2M --from crates/host/tests/captures/x86-no-iommu.tar.gz",
    "mtrr plan --json --want 0x10000000:80M:uncachable --from crates/host/tests/captures/x86-no-iommu.tar.gz",
    "lab list --json",
    "lab show --json data/tolls/x86-no-iommu.json data/tolls/x86-vtd-strict.json",
    "lab show --json data/tolls/ppc-tce-window.json data/tolls/ppc-direct-window.json",
    "lab diff --json data/tolls/x86-vtd-lazy.json data/tolls/x86-vtd-strict.json",
    "lab diff --json data/tolls/arm-smmu-strict.json data/tolls/arm-no-iommu.json",
    "compare --json data/tolls/x86-vtd-lazy.json data/tolls/x86-vtd-strict.json",
    "compare --json crates/compare/tests/documents/strict.json crates/compare/tests/documents/lazy.json",
    "bench iova --json --scenario pairs,held,handoff,network,storage,bursts,drift --rounds 2 --pairs 200 --threads 1,2",
    "bench map --json --rounds 1 --round-ms 1",
    "bench map --json --rounds 2 --pairs 200 --threads 1,2",
    "bench memtype --json --rounds 1 --round-ms 1",
    "blk list --json",
    "model run --json experiments/engine.toml",
    "model run --json experiments/two-hosts.toml",
    "model run --json experiments/nvme.toml",
    "model run --json experiments/flash-array.toml",
    "model run --json experiments/infiniband.toml",
    "model run --json experiments/memory-types.toml",
    "reproduce --json iotlb",
    "reproduce --json premapped",
];

#[test]
fn every_document_has_its_published_schema_and_its_maker() {
    let mut schemas = BTreeSet::new();
    for line in LINES {
        let document = printed(line);
        assert_eq!(document["made_by"], concat!("iotoll ", env!("CARGO_PKG_VERSION")), "{line}");
        keys_are_in_snake_case(line, &document);
        schemas.insert(document["schema"].as_str().unwrap().to_owned());
    }
    // All but toll sheets, which others hold, and those of `bench blk`, `bench net`, `blk log` and `sweep`.
    assert_eq!(schemas.len(), 14, "{schemas:?}");
}

fn keys_are_in_snake_case(line: &str, value: &Value) {
    match value {
        Value::Array(rows) => rows.iter().for_each(|row| keys_are_in_snake_case(line, row)),
        Value::Object(fields) => {
            for (key, field) in fields {
                let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
                assert!(
                    key.bytes().all(is_plain) && !key.starts_with(|c: char| c.is_ascii_digit()),
                    "{line}: {key}"
                );
                keys_are_in_snake_case(line, field);
            }
        }
        _ => {}
    }
}
