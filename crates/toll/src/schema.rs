//! The JSON Schema of toll sheets, kept in `data/tolls/schema.json` for those who read them elsewhere.
//!
//! It is derived in tests alone, so that the program does not carry it.

use crate::{SheetSchema, TollSheet};
use std::path::Path;
use std::{env, fs};

fn made() -> String {
    let mut schema = schemars::schema_for!(TollSheet);
    schema.insert("$id".to_owned(), SheetSchema::ID.into());
    serde_json::to_string_pretty(&schema).unwrap() + "\n"
}

#[test]
fn the_schema_is_derived_from_the_types() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/tolls/schema.json");
    if env::var_os("IOTOLL_UPDATE").is_some() {
        fs::write(&file, made()).unwrap();
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == made(),
        "data/tolls/schema.json is out of date: IOTOLL_UPDATE=1 cargo test -p toll schema"
    );
}

/// Names of all properties in a schema, with whether each must be there.
fn properties(schema: &serde_json::Value) -> Vec<(String, bool)> {
    let required: Vec<&str> =
        schema["required"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let names = schema["properties"].as_object().unwrap().keys();
    names.map(|name| (name.clone(), required.contains(&name.as_str()))).collect()
}

#[test]
fn the_schema_names_the_fields_that_a_sheet_has() {
    let sheet: serde_json::Value =
        serde_json::from_str(include_str!("../tests/sheets/x86-vtd-strict.json")).unwrap();
    let schema: serde_json::Value = serde_json::from_str(&made()).unwrap();
    let check = |object: &serde_json::Value, schema: &serde_json::Value| {
        let mut fields: Vec<&String> = object.as_object().unwrap().keys().collect();
        fields.sort();
        let mut known = properties(schema);
        known.sort();
        assert_eq!(fields, known.iter().map(|(name, _)| name).collect::<Vec<_>>());
        assert_eq!(schema["additionalProperties"], false);
    };
    check(&sheet, &schema);
    check(&sheet["tolls"][0], &schema["$defs"]["Toll"]);
    check(&sheet["machine"], &schema["$defs"]["Machine"]);
    assert!(properties(&schema["$defs"]["Toll"]).iter().all(|(_, required)| *required));
}
