//! Files of results, which appear complete or not at all.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::Builder;

/// Writes a file, under a temporary name first. What a killed process leaves of it has no part's name.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // The umask applies to the mode.
    let mode = Permissions::from_mode(0o666);
    let mut file = Builder::new().prefix(".iotoll-").suffix(".part").permissions(mode).tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}
