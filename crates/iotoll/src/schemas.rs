//! Tests that docs/reference/schemas is up to date: the JSON Schemas of all documents, and their columns in DuckDB.

use crate::{blk, compare, inspect, lab, mtrr, watch};
use schemars::{JsonSchema, schema_for};
use serde_json::{Map, Value};
use std::path::Path;
use std::{env, fs};

/// The name of each document without its version, and its JSON Schema.
fn schemas() -> Vec<(String, Value)> {
    vec![
        named_schema::<inspection::Document>(inspection::SCHEMA),
        named_schema::<inspect::Range<'_>>(inspect::RANGE_SCHEMA),
        named_schema::<mtrr::Document<'_>>(mtrr::SCHEMA),
        named_schema::<lab::list::Document<'_>>(lab::list::SCHEMA),
        named_schema::<lab::show::Document<'_>>(lab::show::SCHEMA),
        named_schema::<lab::diff::Document<'_>>(lab::diff::SCHEMA),
        named_schema::<toll::TollSheet>(toll::SheetSchema::ID),
        named_schema::<bench::Benchmark>(bench::SCHEMA),
        named_schema::<bench::MapBenchmark>(bench::MAP_SCHEMA),
        named_schema::<bench::MapThreads>(bench::MAP_THREADS_SCHEMA),
        named_schema::<bench::MemtypeBenchmark>(bench::MEMTYPE_SCHEMA),
        named_schema::<bench::BlkBenchmark>(bench::BLK_SCHEMA),
        named_schema::<bench::TransferBenchmark>(bench::TRANSFER_SCHEMA),
        named_schema::<bench::net::NetBenchmark>(bench::net::NET_SCHEMA),
        named_schema::<watch::Document>(::watch::SCHEMA),
        named_schema::<compare::Document<'_>>(::compare::SCHEMA),
        named_schema::<blk::list::Document<'_>>(blk::list::SCHEMA),
        named_schema::<blk::health::Document<'_>>(blk::health::SCHEMA),
        named_schema::<blk::log::Document<'_>>(blk::log::SCHEMA),
        named_schema::<blk::namespace::listing::Document<'_>>(blk::namespace::listing::SCHEMA),
        named_schema::<model::Document<'_>>(model::DOCUMENT_SCHEMA),
        named_schema::<model::Reproductions<'_>>(model::SCHEMA),
        #[cfg(feature = "fleet")]
        named_schema::<crate::fleet::Document>(crate::fleet::SCHEMA),
        #[cfg(feature = "fleet")]
        named_schema::<crate::fleet::Report<'_>>(crate::fleet::REPORT_SCHEMA),
        #[cfg(feature = "sweep")]
        named_schema::<crate::sweep::Document<'_>>(crate::sweep::SCHEMA),
        #[cfg(feature = "sweep")]
        named_schema::<crate::sweep::Report<'_>>(crate::sweep::REPORT_SCHEMA),
    ]
}

/// The name and JSON Schema of a document. `id` is its schema name with version, such as `iotoll.inspect/2`.
fn named_schema<Document: JsonSchema>(id: &str) -> (String, Value) {
    let mut schema = schema_for!(Document).to_value();
    schema["$id"] = id.into();
    schema["properties"]["schema"]["const"] = id.into();
    let name = id.trim_start_matches("iotoll.").split('/').next().unwrap_or(id);
    (name.to_owned(), schema)
}

/// Asserts that a file of docs/reference/schemas has this text; with IOTOLL_UPDATE set, writes it first.
fn check_file(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/schemas").join(file);
    if env::var_os("IOTOLL_UPDATE").is_some() {
        fs::write(&path, text).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == text,
        "docs/reference/schemas/{file} is out of date: IOTOLL_UPDATE=1 cargo test -p iotoll --features sweep,fleet --bin iotoll schemas"
    );
}

#[test]
fn schemas_are_derived_from_the_types() {
    for (name, schema) in schemas() {
        check_file(&format!("{name}.json"), &(serde_json::to_string_pretty(&schema).unwrap() + "\n"));
    }
}

#[test]
fn columns_are_those_of_the_schemas() {
    for (name, schema) in schemas() {
        let columns: Vec<String> = fields(&schema, &schema)
            .iter()
            .map(|(name, field)| {
                format!("    \"{name}\": '{}'", duckdb_type(&schema, field).replace('\'', "''"))
            })
            .collect();
        let table = name.replace('-', "_");
        let sql = format!(
            "-- Reads documents `{}` into DuckDB, from a file with a line for each.\n\
             -- With the columns given, nothing is guessed from the values: an empty list is a list, a PCI address is no time of day.\n\
             CREATE TABLE \"{table}\" AS SELECT * FROM read_json('{name}.ndjson', columns = {{\n{}\n}});\n",
            schema["$id"].as_str().unwrap(),
            columns.join(",\n")
        );
        check_file(&format!("{name}.sql"), &sql);
    }
}

/// Columns of the tables that `iotoll fleet` writes, as their files have them.
#[cfg(feature = "fleet")]
#[test]
fn columns_of_a_fleet_s_tables_are_those_of_its_files() {
    use ::fleet::{Rows, SCHEMA, Table};
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let folder = tempfile::tempdir().unwrap();
    let mut sql = format!("-- The tables of `iotoll fleet`, `{SCHEMA}`, as DuckDB sees them.\n");
    for table in Table::ALL {
        let file = folder.path().join(table.name());
        fs::write(&file, Rows::default().parquet(table, "test").unwrap()).unwrap();
        let reader = SerializedFileReader::new(fs::File::open(&file).unwrap()).unwrap();
        let schema = reader.metadata().file_metadata().schema();
        let columns: Vec<String> = schema.get_fields().iter().map(|field| duckdb_column(field)).collect();
        sql += &format!("CREATE TABLE \"{}\" (\n{}\n);\n", table.name(), columns.join(",\n"));
    }
    check_file("fleet-tables.sql", &sql);
}

/// A column of a Parquet file: `    "input" VARCHAR NOT NULL`.
#[cfg(feature = "fleet")]
fn duckdb_column(field: &parquet::schema::types::Type) -> String {
    use parquet::basic::{ConvertedType, Repetition, Type as Physical};
    let info = field.get_basic_info();
    let is_required = info.repetition() == Repetition::REQUIRED;
    let kind = match (field.is_group(), info.converted_type()) {
        (true, ConvertedType::LIST) => "VARCHAR[]",
        (false, ConvertedType::TIMESTAMP_MICROS) => "TIMESTAMP WITH TIME ZONE",
        (false, ConvertedType::UTF8) => "VARCHAR",
        (false, ConvertedType::NONE) if field.get_physical_type() == Physical::INT64 => "BIGINT",
        (false, ConvertedType::NONE) if field.get_physical_type() == Physical::BOOLEAN => "BOOLEAN",
        other => panic!("{}: {other:?}", info.name()),
    };
    format!("    \"{}\" {kind}{}", info.name(), if is_required { " NOT NULL" } else { "" })
}

/// A schema with its `$ref` followed.
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

/// Names and schemas of an object's fields. A tagged union has the fields of all its variants.
fn fields(schema: &Value, of: &Value) -> Map<String, Value> {
    let of = resolved(schema, of);
    let mut found = of["properties"].as_object().cloned().unwrap_or_default();
    for one in alternatives(of) {
        found.extend(fields(schema, one));
    }
    found
}

/// The DuckDB type of a field.
fn duckdb_type(schema: &Value, of: &Value) -> String {
    let of = resolved(schema, of);
    let object = fields(schema, of);
    if !object.is_empty() {
        let fields: Vec<String> =
            object.iter().map(|(name, field)| format!("\"{name}\" {}", duckdb_type(schema, field))).collect();
        return format!("STRUCT({})", fields.join(", "));
    }
    let types = of["type"].as_array().cloned().unwrap_or_else(|| vec![of["type"].clone()]);
    let kind = types.iter().filter_map(Value::as_str).find(|kind| *kind != "null");
    match (kind, of["format"].as_str()) {
        (Some("array"), _) => format!("{}[]", duckdb_type(schema, &of["items"])),
        (Some("boolean"), _) => "BOOLEAN".to_owned(),
        (Some("number"), _) => "DOUBLE".to_owned(),
        (Some("integer"), Some("uint64")) => "UBIGINT".to_owned(),
        (Some("integer"), _) => "BIGINT".to_owned(),
        (Some("string"), _) => "VARCHAR".to_owned(),
        // An enum whose values have descriptions, or an optional string.
        _ => alternatives(of).next().map_or("VARCHAR".to_owned(), |one| duckdb_type(schema, one)),
    }
}
