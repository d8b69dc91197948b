//! A path as text.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A path as text. A byte that is no UTF-8 is its number, as `\xf4`.
pub fn path_text(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}
