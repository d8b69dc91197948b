//! Prepares tables that the program looks into at every start: tables in TOML as JSON, which is read with a fifth of the work.

use std::error::Error;
use std::path::Path;

/// A link to the repository's data: files outside of a crate's folder are not packaged.
const DATA: &str = "data";
const TABLES: [&str; 2] = ["kernel/options", "tolls/digest"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let folder = std::env::var("OUT_DIR")?;
    for table in TABLES {
        let (name, text) = (table.rsplit('/').next().unwrap_or(table), read(&format!("{table}.toml"))?);
        let table: serde_json::Value = toml::from_str(&text)?;
        std::fs::write(Path::new(&folder).join(format!("{name}.json")), serde_json::to_vec(&table)?)?;
    }
    Ok(())
}

/// A file of the repository's data.
fn read(file: &str) -> Result<String, std::io::Error> {
    let path = format!("{DATA}/{file}");
    println!("cargo::rerun-if-changed={path}");
    std::fs::read_to_string(path)
}
