//! Documents that commands print, held against the schemas that docs/reference/schemas publishes.

#![allow(dead_code, reason = "each test program uses a part")]

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// A file of the repository.
pub(crate) fn repository(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)
}

/// The document that a command printed. Panics where it isn't of the published schema that it names.
pub(crate) fn document(stdout: &[u8]) -> Value {
    let document: Value = serde_json::from_slice(stdout).unwrap();
    let id = document["schema"].as_str().unwrap();
    let name = id.trim_start_matches("iotoll.").split('/').next().unwrap();
    let schema = fs::read(repository(&format!("docs/reference/schemas/{name}.json"))).unwrap();
    let mut schema: Value = serde_json::from_slice(&schema).unwrap();
    // A document's name is no address to resolve references against.
    assert_eq!(schema.as_object_mut().unwrap().remove("$id").unwrap(), id);
    let errors: Vec<String> = jsonschema::validator_for(&schema)
        .unwrap()
        .iter_errors(&document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{id}: {errors:#?}");
    document
}
