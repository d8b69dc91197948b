//! Documents of captured kernels and of hosts that people posted, held against the published schema and against each other.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, reason = "each test uses its part of the reader")]
#[path = "../../host/tests/fixture/mod.rs"]
mod fixture;

use host::{Host, Tree};
use inspection::Document;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn document(tree: &Tree) -> Value {
    let inspection = fixture::inspect(Host::read(tree), &fixture::tolls());
    serde_json::to_value(Document::new(&inspection, "iotoll", "a test", None)).unwrap()
}

/// All documents, by the name of the capture or case. They are made once for all tests.
static DOCUMENTS: LazyLock<BTreeMap<String, Value>> = LazyLock::new(documents);

fn documents() -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(repository().join("crates/host/tests/captures")).unwrap() {
        let path = entry.unwrap().path();
        found.insert(path.display().to_string(), document(&Tree::open(&path).unwrap()));
    }
    let captures = found.len();
    for (name, text) in fixture::texts("../../host/tests/field") {
        let keys = ["source", "machine", "excerpt", "authors-found"];
        let case = fixture::Case::parse(&text, name.clone(), &keys);
        found.insert(name, document(&case.tree()));
    }
    assert!(captures >= 5 && found.len() >= captures + 30, "captures or cases went missing");
    found
}

#[test]
fn all_documents_have_the_published_schema() {
    let schema = fs::read(repository().join("docs/reference/schemas/inspect.json")).unwrap();
    let mut schema: Value = serde_json::from_slice(&schema).unwrap();
    // The name of a document's layout is no address to resolve references against.
    schema.as_object_mut().unwrap().remove("$id");
    let validator = jsonschema::validator_for(&schema).unwrap();
    for (name, document) in DOCUMENTS.iter() {
        let errors: Vec<String> = validator
            .iter_errors(document)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{name}: {errors:#?}");
    }
}

/// What a value is to a column store.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Calls `each` with the path of every value; rows of an array share one.
fn walk(path: &str, value: &Value, each: &mut dyn FnMut(&str, &Value)) {
    each(path, value);
    match value {
        Value::Array(rows) => rows.iter().for_each(|row| walk(&format!("{path}[]"), row, each)),
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| walk(&format!("{path}.{name}"), field, each));
        }
        _ => {}
    }
}

#[test]
fn a_field_has_one_type_in_all_documents() {
    let mut kinds: BTreeMap<String, &str> = BTreeMap::new();
    for (name, document) in DOCUMENTS.iter() {
        walk("", document, &mut |path, value| {
            if !value.is_null() {
                let before = *kinds.entry(path.to_owned()).or_insert(kind(value));
                assert_eq!(before, kind(value), "{name}: {path}");
            }
        });
    }
    assert!(kinds.len() > 250, "{} fields", kinds.len());
}

#[test]
fn rows_of_a_table_have_the_same_fields_in_all_documents() {
    let mut fields: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, document) in DOCUMENTS.iter() {
        walk("", document, &mut |path, value| {
            // The fields of evidence depend on its kind.
            if let Value::Object(object) = value
                && !path.ends_with("price_ns.evidence")
                && !path.ends_with("gain.evidence")
                && !path.ends_with("predicted[].evidence")
                && !path.ends_with("rests_on[].evidence")
            {
                let names: Vec<String> = object.keys().cloned().collect();
                let before = fields.entry(path.to_owned()).or_insert_with(|| names.clone());
                assert_eq!(*before, names, "{name}: {path}");
            }
        });
    }
}

#[test]
fn keys_are_in_snake_case() {
    let is_snake = |key: &str| {
        key.starts_with(|first: char| first.is_ascii_lowercase())
            && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    for (name, document) in DOCUMENTS.iter() {
        walk("", document, &mut |path, value| {
            for key in value.as_object().into_iter().flat_map(serde_json::Map::keys) {
                assert!(is_snake(key), "{name}: {path}.{key}");
            }
        });
    }
}

#[test]
fn every_citation_names_a_fact_of_the_document() {
    for (name, document) in DOCUMENTS.iter() {
        for citation in document["citations"].as_array().unwrap() {
            let fact = document.pointer(citation["fact"].as_str().unwrap());
            assert!(fact.is_some_and(|fact| !fact.is_null()), "{name}: {citation}");
        }
    }
}
