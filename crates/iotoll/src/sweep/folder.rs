//! Where a sweep's parts are, under names that follow from their bytes.

use crate::pending_file::PendingFile;
use crate::whole_file::usual_mode;
use anyhow::{Context, bail};
use model::sweep::Shard;
use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A folder in which this process alone works on its shard.
pub(super) struct Folder {
    path: PathBuf,
    /// Held until the process ends, however it ends.
    _lock: File,
}

impl Folder {
    /// Makes it, and locks the shard in it.
    pub(super) fn open(path: &Path, shard: Shard) -> anyhow::Result<Self> {
        fs::create_dir_all(path).with_context(|| format!("can't make {}", path.display()))?;
        let name = format!("shard-{}", shard.to_string().replace('/', "-of-"));
        let lock = lock(&path.join(format!("{name}.lock")))?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// All parts, of whatever shard, in the order of their names.
    pub(super) fn parts(&self) -> anyhow::Result<Vec<PathBuf>> {
        let cant = || format!("can't read {}", self.path.display());
        let mut parts = Vec::new();
        for entry in fs::read_dir(&self.path).with_context(cant)? {
            let name = entry.with_context(cant)?.file_name();
            if name.to_str().is_some_and(|name| name.starts_with("part-") && name.ends_with(".parquet")) {
                parts.push(self.path.join(name));
            }
        }
        parts.sort_unstable();
        Ok(parts)
    }

    /// Adds a part: whole or not at all, even if the machine loses power.
    pub(super) fn put(&self, bytes: &[u8]) -> anyhow::Result<()> {
        let path = self.path.join(name(bytes));
        let write = || {
            let mut file = PendingFile::in_folder(&self.path)?;
            file.write_all(bytes)?;
            file.replace(&path, usual_mode())
        };
        write().with_context(|| format!("can't write {}", path.display()))
    }
}

/// Fails if a part's bytes are not those that were written.
pub(super) fn check(part: &Path) -> anyhow::Result<()> {
    let bytes = fs::read(part).with_context(|| format!("can't read {}", part.display()))?;
    let (is, expected) = (part.file_name().unwrap_or_default(), name(&bytes));
    if is != expected.as_str() {
        bail!(
            "{}: damaged: by its bytes it should be {expected}; expected a part as it was written. Without it, its points run again",
            part.display()
        );
    }
    Ok(())
}

fn name(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let digits: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("part-{digits}.parquet")
}

fn lock(path: &Path) -> anyhow::Result<File> {
    let cant = || format!("can't lock {}", path.display());
    // Nothing is ever written to it: whatever a link leads to stays as it is.
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path).with_context(cant)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            bail!("{}: another run is at this shard; expected none, or another --shard", path.display())
        }
        Err(TryLockError::Error(error)) => Err(error).with_context(cant),
    }
}
