//! The folder of a sweep's Parquet files, which are named by a hash of their bytes.

use crate::pending_file::PendingFile;
use crate::whole_file::mode_by_umask;
use anyhow::{Context, bail};
use model::sweep::Shard;
use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A folder of results, with a lock on one shard: no other process runs that shard.
pub(super) struct Folder {
    path: PathBuf,
    /// The kernel releases the lock when the process ends, even if it is killed.
    _lock: File,
}

impl Folder {
    /// Creates the folder if it is missing, and locks the shard.
    pub(super) fn open(path: &Path, shard: Shard) -> anyhow::Result<Self> {
        fs::create_dir_all(path).with_context(|| format!("can't create {}", path.display()))?;
        let name = format!("shard-{}", shard.to_string().replace('/', "-of-"));
        let lock = lock_file(&path.join(format!("{name}.lock")))?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// Paths of all Parquet files, of any shard, sorted by name.
    pub(super) fn parts(&self) -> anyhow::Result<Vec<PathBuf>> {
        let failed = || format!("can't read {}", self.path.display());
        let mut parts = Vec::new();
        for entry in fs::read_dir(&self.path).with_context(failed)? {
            let name = entry.with_context(failed)?.file_name();
            if name.to_str().is_some_and(|name| name.starts_with("part-") && name.ends_with(".parquet")) {
                parts.push(self.path.join(name));
            }
        }
        parts.sort_unstable();
        Ok(parts)
    }

    /// Writes a Parquet file, which appears complete or not at all, even after a power loss.
    pub(super) fn add_part(&self, bytes: &[u8]) -> anyhow::Result<()> {
        let path = self.path.join(part_name(bytes));
        let write = || {
            let mut file = PendingFile::in_folder(&self.path)?;
            file.write_all(bytes)?;
            file.replace(&path, mode_by_umask())
        };
        write().with_context(|| format!("can't write {}", path.display()))
    }
}

/// Fails if a Parquet file's bytes do not match the hash in its name.
pub(super) fn check_part(part: &Path) -> anyhow::Result<()> {
    let bytes = fs::read(part).with_context(|| format!("can't read {}", part.display()))?;
    let (name, expected) = (part.file_name().unwrap_or_default(), part_name(&bytes));
    if name != expected.as_str() {
        bail!(
            "{}: damaged: the hash of its bytes gives the name {expected}; remove the file, and its points run again",
            part.display()
        );
    }
    Ok(())
}

/// The name of a Parquet file with these bytes.
fn part_name(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let digits: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("part-{digits}.parquet")
}

/// Creates and locks a file. Fails if another process holds the lock.
fn lock_file(path: &Path) -> anyhow::Result<File> {
    let failed = || format!("can't lock {}", path.display());
    // Nothing is written to it, so a link planted by another user does no harm.
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path).with_context(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            bail!(
                "{}: another process runs this shard; wait for it, or choose another --shard",
                path.display()
            )
        }
        Err(TryLockError::Error(error)) => Err(error).with_context(failed),
    }
}
