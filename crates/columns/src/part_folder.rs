//! Folders of Parquet files that several processes write, each the results of a shard of its own.

use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// Writes a file that appears at its path complete or not at all, even after a power loss.
pub type WriteWhole = fn(&Path, &[u8]) -> io::Result<()>;

/// Why a folder can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The system refuses it.
    #[error("can't {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another process holds the lock of the shard.
    #[error("{}: another process runs this shard; wait for it, or choose another --shard", path.display())]
    Locked {
        /// The lock's file.
        path: PathBuf,
    },
}

/// What failed, as a function that makes an error of the system's.
fn failed(action: &'static str, path: &Path) -> impl Fn(io::Error) -> FolderError {
    move |source| FolderError::Io { action, path: path.to_owned(), source }
}

/// A lock on one shard of a folder: no other process runs that shard. The kernel releases it when the process ends, even if it is killed.
#[derive(Debug)]
pub struct ShardLock {
    _file: File,
}

/// A folder of parts.
#[derive(Debug, Clone)]
pub struct PartFolder {
    path: PathBuf,
}

impl PartFolder {
    /// Creates the folder if it is missing.
    ///
    /// # Errors
    /// [`FolderError::Io`]
    pub fn create(path: &Path) -> Result<Self, FolderError> {
        fs::create_dir_all(path).map_err(failed("create", path))?;
        Ok(Self::existing(path))
    }

    /// A folder that is there.
    pub fn existing(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Locks a shard, which is called `0-of-4`.
    ///
    /// # Errors
    /// [`FolderError`]
    pub fn lock(&self, shard: &str) -> Result<ShardLock, FolderError> {
        let path = self.path.join(format!("shard-{shard}.lock"));
        // Nothing is written to it, so a link planted by another user does no harm.
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(failed("lock", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(ShardLock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(FolderError::Locked { path }),
            Err(TryLockError::Error(error)) => Err(failed("lock", &path)(error)),
        }
    }

    /// Paths of all parts, of any shard, sorted by name.
    ///
    /// # Errors
    /// [`FolderError::Io`]
    pub fn parts(&self) -> Result<Vec<PathBuf>, FolderError> {
        let failed = failed("read", &self.path);
        let mut parts = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(&failed)? {
            let name = entry.map_err(&failed)?.file_name();
            parts.push(self.path.join(name));
        }
        parts.retain(|path| Self::is_part(path));
        parts.sort_unstable();
        Ok(parts)
    }

    /// Whether a path has the name of a part.
    pub fn is_part(path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("part-") && name.ends_with(".parquet"))
    }

    /// Writes a part with this name.
    ///
    /// # Errors
    /// [`FolderError::Io`]
    pub fn add(&self, name: &str, bytes: &[u8], write: WriteWhole) -> Result<(), FolderError> {
        let path = self.path.join(name);
        write(&path, bytes).map_err(failed("write", &path))
    }

    /// Removes a part.
    ///
    /// # Errors
    /// [`FolderError::Io`]
    pub fn remove(&self, part: &Path) -> Result<(), FolderError> {
        fs::remove_file(part).map_err(failed("remove", part))
    }
}

/// A hash of some bytes, in 32 hexadecimal digits.
pub fn hash(pieces: &[impl AsRef<[u8]>]) -> String {
    let hasher = pieces.iter().fold(Sha256::new(), |hasher, piece| hasher.chain_update(piece));
    hasher.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
