//! Folders of Parquet files that several processes write, each the results of a shard of its own.

use rustix::fs::OFlags;
use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
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
    #[error("{}: another run works on this shard: wait until it ends, or run another shard", path.display())]
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

    /// Creates a folder within another if it is missing. A link in its place is an error: it could lead to other people's parts.
    ///
    /// # Errors
    /// [`FolderError::Io`]
    pub fn create_within(folder: &Path, name: &str) -> Result<Self, FolderError> {
        let path = folder.join(name);
        let found = Self::create(&path)?;
        match fs::symlink_metadata(&path).map_err(failed("read", &path))?.is_dir() {
            true => Ok(found),
            false => Err(failed("use", &path)(io::Error::new(io::ErrorKind::InvalidInput, "it is a link"))),
        }
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
        let file = open_lock(&path).map_err(failed("lock", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(ShardLock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(FolderError::Locked { path }),
            Err(TryLockError::Error(error)) => Err(failed("lock", &path)(error)),
        }
    }

    /// Paths of all parts, of any shard, sorted by name. What has such a name and is no file is an error: it could block whoever reads it.
    ///
    /// # Errors
    /// [`FolderError::Io`]
    pub fn parts(&self) -> Result<Vec<PathBuf>, FolderError> {
        let failed = failed("read", &self.path);
        let mut parts = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(&failed)? {
            let name = entry.map_err(&failed)?.file_name();
            let path = self.path.join(name);
            // Another run may have removed it since its name was read.
            if Self::is_part(&path) && fs::symlink_metadata(&path).is_ok() {
                check_is_file(&path)?;
                parts.push(path);
            }
        }
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

/// Opens the file of a lock, which is created if it is missing. In a folder that others write, too, a link may lead anywhere, and a pipe would block: neither is
/// opened.
fn open_lock(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).custom_flags(flags.cast_signed());
    match options.open(path) {
        Ok(file) if file.metadata()?.is_file() => Ok(file),
        // A pipe, once something reads it.
        Ok(_) => Err(not_a_file()),
        Err(error) if is_of_no_file(&error) => Err(not_a_file()),
        Err(error) => Err(error),
    }
}

/// Whether a file could not be opened because it is a link, a folder, or a pipe that nothing reads.
fn is_of_no_file(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let known = [Errno::LOOP, Errno::ISDIR, Errno::NXIO];
    Errno::from_io_error(error).is_some_and(|error| known.contains(&error))
}

/// Opens a part to read it. What is no regular file is refused, and does not block.
///
/// # Errors
/// The system's
pub fn open_part(part: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(part)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_a_file()) }
}

/// Fails if a part, or what it links to, is no regular file.
fn check_is_file(part: &Path) -> Result<(), FolderError> {
    match fs::metadata(part) {
        Ok(metadata) if metadata.is_file() => Ok(()),
        Ok(_) => Err(failed("read", part)(not_a_file())),
        Err(error) => Err(failed("read", part)(error)),
    }
}

fn not_a_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")
}

/// A hash of some bytes, in 32 hexadecimal digits.
pub fn hash(pieces: &[impl AsRef<[u8]>]) -> String {
    let hasher = pieces.iter().fold(Sha256::new(), |hasher, piece| hasher.chain_update(piece));
    hasher.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::error::Error;
    use std::os::unix::fs::symlink;

    /// The refusal's text and its cause's.
    fn said(error: &FolderError) -> [String; 2] {
        [error.to_string(), error.source().unwrap().to_string()]
    }

    fn make_pipe(path: &Path) {
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }

    #[test]
    fn a_planted_link_or_pipe_is_no_lock() {
        let folder = tempfile::tempdir().unwrap();
        let (parts, elsewhere) =
            (PartFolder::create(&folder.path().join("out")).unwrap(), folder.path().join("elsewhere"));
        let lock = |shard: &str| folder.path().join("out").join(format!("shard-{shard}.lock"));
        symlink(&elsewhere, lock("link")).unwrap();
        make_pipe(&lock("pipe"));
        fs::create_dir(lock("folder")).unwrap();
        for shard in ["link", "pipe", "folder"] {
            let [text, cause] = said(&parts.lock(shard).unwrap_err());
            assert!(text.ends_with(&format!("shard-{shard}.lock")), "{text}");
            assert_eq!(cause, "it is no regular file");
        }
        assert!(!elsewhere.exists());
        // A reader of the pipe makes no difference.
        let _reader = OpenOptions::new().read(true).write(true).open(lock("pipe")).unwrap();
        assert_eq!(said(&parts.lock("pipe").unwrap_err())[1], "it is no regular file");
        let held = parts.lock("0-of-1").unwrap();
        assert!(matches!(parts.lock("0-of-1"), Err(FolderError::Locked { .. })));
        drop(held);
        parts.lock("0-of-1").unwrap();
    }

    /// A file system without room has no permission to give, either: here a name that no file can have.
    #[test]
    fn a_lock_that_can_t_be_created_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let parts = PartFolder::existing(folder.path());
        let [_, cause] = said(&parts.lock(&"x".repeat(300)).unwrap_err());
        assert!(cause.contains("name too long"), "{cause}");
    }

    #[test]
    fn a_planted_link_is_no_folder_within_another() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("others")).unwrap();
        symlink("others", folder.path().join("link")).unwrap();
        let [text, cause] = said(&PartFolder::create_within(folder.path(), "link").unwrap_err());
        assert!(text.ends_with("/link") && cause == "it is a link", "{text}: {cause}");
        for _ in 0..2 {
            PartFolder::create_within(folder.path(), "new")
                .unwrap()
                .add("part-a.parquet", b"", |path, bytes| fs::write(path, bytes))
                .unwrap();
        }
    }

    #[test]
    fn a_pipe_is_no_part() {
        let folder = tempfile::tempdir().unwrap();
        let parts = PartFolder::existing(folder.path());
        fs::write(folder.path().join("part-a.parquet"), "").unwrap();
        symlink("part-a.parquet", folder.path().join("part-b.parquet")).unwrap();
        assert_eq!(parts.parts().unwrap().len(), 2);
        make_pipe(&folder.path().join("part-c.parquet"));
        let [text, cause] = said(&parts.parts().unwrap_err());
        assert!(text.ends_with("part-c.parquet"), "{text}");
        assert_eq!(cause, "it is no regular file");
        let refused = open_part(&folder.path().join("part-c.parquet")).unwrap_err();
        assert_eq!(refused.to_string(), "it is no regular file");
    }
}
