//! Folders of Parquet files, which are named by a hash of their bytes, and locks on shards, whose results they are.

use crate::pending_file::PendingFile;
use crate::shard::Shard;
use crate::whole_file::mode_by_umask;
use anyhow::{Context, bail};
use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A lock on one shard of a folder of results: no other process runs that shard. The kernel releases it when the process ends, even if it is killed.
pub(crate) struct ShardLock {
    _file: File,
}

impl ShardLock {
    /// Creates the folder if it is missing, and locks the shard.
    pub(crate) fn take(folder: &Path, shard: Shard) -> anyhow::Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("can't create {}", folder.display()))?;
        let name = format!("shard-{}", shard.to_string().replace('/', "-of-"));
        Ok(Self { _file: lock_file(&folder.join(format!("{name}.lock")))? })
    }
}

/// A folder of parts.
pub(crate) struct PartFolder {
    path: PathBuf,
}

impl PartFolder {
    /// Creates the folder if it is missing.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(path).with_context(|| format!("can't create {}", path.display()))?;
        Ok(Self { path: path.to_owned() })
    }

    /// A folder that is read only.
    pub(crate) fn existing(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Paths of all parts, of any shard, sorted by name.
    pub(crate) fn parts(&self) -> anyhow::Result<Vec<PathBuf>> {
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

    /// Writes a part with this name, which appears complete or not at all, even after a power loss.
    pub(crate) fn add(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let path = self.path.join(name);
        let write = || {
            let mut file = PendingFile::in_folder(&self.path)?;
            file.write_all(bytes)?;
            file.replace(&path, mode_by_umask())
        };
        write().with_context(|| format!("can't write {}", path.display()))
    }
}

/// A hash of some bytes, in 32 hexadecimal digits.
pub(crate) fn hash(pieces: &[impl AsRef<[u8]>]) -> String {
    let hasher = pieces.iter().fold(Sha256::new(), |hasher, piece| hasher.chain_update(piece));
    hasher.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
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
