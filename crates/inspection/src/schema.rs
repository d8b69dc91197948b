//! The document's JSON Schema, as it is published.

use crate::{Document, SCHEMA};
use std::path::Path;
use std::{env, fs};

fn made() -> String {
    let mut schema = schemars::schema_for!(Document);
    schema.insert("$id".to_owned(), SCHEMA.into());
    serde_json::to_string_pretty(&schema).unwrap() + "\n"
}

#[test]
fn the_schema_is_derived_from_the_types() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/schemas/inspect.json");
    if env::var_os("IOTOLL_UPDATE").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, made()).unwrap();
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == made(),
        "docs/reference/schemas/inspect.json is out of date: IOTOLL_UPDATE=1 cargo test -p inspection schema"
    );
}
