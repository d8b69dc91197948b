//! Prepares tables that the program looks into at every start, so that it needs little work: tables in TOML as JSON, which is read with
//! a fifth of the work, and where in `pci.ids` each vendor and class begins.

use std::error::Error;
use std::path::Path;

/// A link to the repository's data: files outside of a crate's folder are not packaged.
const DATA: &str = "data";
const TABLES: [&str; 2] = ["kernel/options", "tolls/digest"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let folder = std::env::var("OUT_DIR")?;
    let out = |name: &str| Path::new(&folder).join(name);
    for table in TABLES {
        let (name, text) = (table.rsplit('/').next().unwrap_or(table), read(&format!("{table}.toml"))?);
        let table: serde_json::Value = toml::from_str(&text)?;
        std::fs::write(out(&format!("{name}.json")), serde_json::to_vec(&table)?)?;
    }
    let sections = format!("{:?}", sections(&read("pci/pci.ids")?));
    Ok(std::fs::write(out("pci_ids_sections.rs"), sections)?)
}

/// A file of the repository's data.
fn read(file: &str) -> Result<String, std::io::Error> {
    let path = format!("{DATA}/{file}");
    println!("cargo::rerun-if-changed={path}");
    std::fs::read_to_string(path)
}

/// The sections of `pci.ids`, sorted by the number that `section_code` gives each: that number, the first byte, and the byte behind it.
fn sections(table: &str) -> Vec<(u32, usize, usize)> {
    let mut sections: Vec<(u32, usize, usize)> = Vec::new();
    let mut start = 0;
    for line in table.split_inclusive('\n') {
        let end = start + line.len();
        match (section_code(line), sections.last_mut()) {
            (Some(code), _) => sections.push((code, start, end)),
            (None, Some((.., section_end))) => *section_end = end,
            (None, None) => {}
        }
        start = end;
    }
    sections.sort_unstable();
    sections
}

/// Of the first line of a vendor, `15b3  Mellanox Technologies`, its ID; of a class, `C 02  Network controller`, its code and 2^16.
fn section_code(line: &str) -> Option<u32> {
    let (code, _) = line.split_once("  ")?;
    match code.strip_prefix("C ") {
        Some(class) => Some(1 << 16 | u32::from_str_radix(class, 16).ok()?),
        None => u32::from_str_radix(code, 16).ok(),
    }
}
