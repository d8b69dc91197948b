//! The document's JSON Schema and the columns it has in DuckDB, as they are published.

use crate::{Document, SCHEMA};
use serde_json::{Map, Value};
use std::path::Path;
use std::{env, fs};

fn schema() -> Value {
    let mut schema = schemars::schema_for!(Document);
    schema.insert("$id".to_owned(), SCHEMA.into());
    schema.to_value()
}

/// A file of docs/reference/schemas is what it is made from; the variable IOTOLL_UPDATE makes it anew.
fn check(name: &str, made: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/schemas").join(name);
    if env::var_os("IOTOLL_UPDATE").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, made).unwrap();
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == made,
        "docs/reference/schemas/{name} is out of date: IOTOLL_UPDATE=1 cargo test -p inspection schema"
    );
}

#[test]
fn the_schema_is_derived_from_the_types() {
    check("inspect.json", &(serde_json::to_string_pretty(&schema()).unwrap() + "\n"));
}

#[test]
fn the_columns_are_those_of_the_schema() {
    let schema = schema();
    let columns: Vec<String> = fields(&schema, &schema)
        .iter()
        .map(|(name, field)| format!("    {name}: '{}'", column(&schema, field).replace('\'', "''")))
        .collect();
    let sql = format!(
        "-- Reads documents of `iotoll inspect --json` into DuckDB: one row for each host, which is a line of hosts.ndjson.\n\
         -- With the columns given, nothing is guessed from the values: an empty list is a list, a PCI address is no time of day.\n\
         CREATE TABLE inspections AS SELECT * FROM read_json('hosts.ndjson', columns = {{\n{}\n}});\n",
        columns.join(",\n")
    );
    check("inspect.sql", &sql);
}

/// What a reference stands for.
fn resolved<'s>(schema: &'s Value, of: &'s Value) -> &'s Value {
    match of["$ref"].as_str() {
        Some(reference) => resolved(schema, schema.pointer(reference.trim_start_matches('#')).unwrap()),
        None => of,
    }
}

/// The alternatives of a type that may be several things, without null.
fn alternatives(of: &Value) -> impl Iterator<Item = &Value> {
    let all = of["anyOf"].as_array().or(of["oneOf"].as_array());
    all.into_iter().flatten().filter(|one| one["type"] != "null")
}

/// Names and types of an object's fields. One that is tagged has the fields of all its kinds.
fn fields(schema: &Value, of: &Value) -> Map<String, Value> {
    let of = resolved(schema, of);
    let mut found = of["properties"].as_object().cloned().unwrap_or_default();
    for one in alternatives(of) {
        found.extend(fields(schema, one));
    }
    found
}

fn column(schema: &Value, of: &Value) -> String {
    let of = resolved(schema, of);
    let object = fields(schema, of);
    if !object.is_empty() {
        let fields: Vec<String> =
            object.iter().map(|(name, field)| format!("\"{name}\" {}", column(schema, field))).collect();
        return format!("STRUCT({})", fields.join(", "));
    }
    let types = of["type"].as_array().cloned().unwrap_or_else(|| vec![of["type"].clone()]);
    let kind = types.iter().filter_map(Value::as_str).find(|kind| *kind != "null");
    match (kind, of["format"].as_str()) {
        (Some("array"), _) => format!("{}[]", column(schema, &of["items"])),
        (Some("boolean"), _) => "BOOLEAN".to_owned(),
        (Some("number"), _) => "DOUBLE".to_owned(),
        (Some("integer"), Some("uint64")) => "UBIGINT".to_owned(),
        (Some("integer"), _) => "BIGINT".to_owned(),
        (Some("string"), _) => "VARCHAR".to_owned(),
        // Words with an explanation each, or a name that may be missing.
        _ => alternatives(of).next().map_or("VARCHAR".to_owned(), |one| column(schema, one)),
    }
}
