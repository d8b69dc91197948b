//! Settings of the kernel, for words about what it refuses.

use std::fs;
use std::path::Path;

/// A setting of the kernel (`/proc/sys/kernel`); `unknown` if it can't be read.
pub(super) fn setting(name: &str) -> String {
    let text = fs::read_to_string(Path::new("/proc/sys/kernel").join(name));
    text.map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}
