//! Files that a test writes, and the host that files and folders tell of.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use host::Host;
use host::tree::{Evidence, OpenError};
use std::path::Path;

/// A folder with these files.
pub(crate) fn folder(files: &[(&str, impl AsRef<[u8]>)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

/// The host that all of these tell of.
pub(crate) fn host_of(paths: &[&Path], command_line: Option<&str>) -> Result<Host, OpenError> {
    let mut evidence = Evidence::new(std::rc::Rc::new(|_| {}));
    for path in paths {
        evidence.add_path(path)?;
    }
    if let Some(line) = command_line {
        evidence.set_command_line(line);
    }
    Ok(Host::read(&evidence.into_tree()?))
}
