//! Finds where each vendor and class begins in `pci.ids`, so that the library looks a name up without reading the whole table.

use std::path::Path;

/// The table, behind a link to the repository's data: files outside of a crate's folder are not packaged.
const TABLE: &str = "data/pci/pci.ids";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={TABLE}");
    let folder = std::env::var("OUT_DIR")?;
    let sections = format!("{:?}", sections(&std::fs::read_to_string(TABLE)?));
    Ok(std::fs::write(Path::new(&folder).join("pci_ids_sections.rs"), sections)?)
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
