//! The toll sheets that are kept in `data/tolls`.

use std::fs;
use std::path::Path;
use toll::TollSheet;

/// All of them, by preset.
pub(crate) fn sheets() -> Vec<TollSheet> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/tolls");
    let mut sheets = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_sheet = path.extension().is_some_and(|end| end == "json") && !path.ends_with("schema.json");
        if is_sheet {
            let text = fs::read_to_string(&path).unwrap();
            sheets.push(TollSheet::read(&text, &path.display().to_string()).unwrap());
        }
    }
    sheets.sort_by(|a, b| a.preset.cmp(&b.preset));
    sheets
}
