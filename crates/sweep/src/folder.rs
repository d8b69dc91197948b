//! The folder of a sweep's results: a Parquet file for each part.

use crate::{Key, PartError, Row, Table};
use columns::{FolderError, ParquetError, PartFolder, ShardLock, WriteWhole, hash};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Why the results of a folder can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ResultsFolderError {
    /// The system refuses it, or another process runs the shard.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A file can't be read.
    #[error("can't read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file's bytes are not those that were written.
    #[error(
        "{}: damaged: the hash of its bytes gives the name {expected}; remove the file, and what it has runs again",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The name that it would have.
        expected: String,
    },
    /// A file is no part of this plan's results.
    #[error("{}", path.display())]
    Part {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: PartError,
    },
    /// More rows than a file can hold.
    #[error(transparent)]
    Rows(#[from] ParquetError),
}

/// A folder of a plan's results. The same rows have the same name, so that what is done twice is there once.
#[derive(Debug)]
pub struct ResultsFolder {
    parts: PartFolder,
    table: Table,
    write: WriteWhole,
}

impl ResultsFolder {
    /// Creates the folder if it is missing.
    ///
    /// # Errors
    /// [`ResultsFolderError::Folder`]
    pub fn create(path: &Path, table: Table, write: WriteWhole) -> Result<Self, ResultsFolderError> {
        Ok(Self { parts: PartFolder::create(path)?, table, write })
    }

    /// Paths of the parts in a folder of any plan's results, with the bytes that were written.
    ///
    /// # Errors
    /// [`ResultsFolderError`]
    pub fn parts_in(path: &Path) -> Result<Vec<PathBuf>, ResultsFolderError> {
        let parts = PartFolder::existing(path).parts()?;
        parts.iter().try_for_each(|part| check(part))?;
        Ok(parts)
    }

    /// Whether a path has the name of a part, which `sweep` and reports read.
    pub fn is_part(path: &Path) -> bool {
        PartFolder::is_part(path)
    }

    /// Locks a shard, which is called `0-of-4`.
    ///
    /// # Errors
    /// [`ResultsFolderError::Folder`]
    pub fn lock(&self, shard: &str) -> Result<ShardLock, ResultsFolderError> {
        Ok(self.parts.lock(shard)?)
    }

    /// The points that have a row here, and whether each has an error instead of a result.
    ///
    /// # Errors
    /// [`ResultsFolderError`]
    pub fn finished(&self) -> Result<HashMap<Key, bool>, ResultsFolderError> {
        let mut finished = HashMap::new();
        for part in self.parts.parts()? {
            check(&part)?;
            finished.extend(self.keys(part)?);
        }
        Ok(finished)
    }

    /// Fails if the first part here is of another plan. For who adds to a folder that [`ResultsFolder::finished`] has read: that reads all parts.
    ///
    /// # Errors
    /// [`ResultsFolderError`]
    pub fn check_plan(&self) -> Result<(), ResultsFolderError> {
        self.parts.parts()?.into_iter().next().map_or(Ok(()), |part| self.keys(part).map(drop))
    }

    fn keys(&self, part: PathBuf) -> Result<Vec<(Key, bool)>, ResultsFolderError> {
        self.table.keys(&part).map_err(|source| ResultsFolderError::Part { path: part, source })
    }

    /// Writes rows as a part.
    ///
    /// # Errors
    /// [`ResultsFolderError`]
    pub fn add(&self, rows: &[Row]) -> Result<(), ResultsFolderError> {
        let bytes = self.table.parquet_bytes(rows)?;
        Ok(self.parts.add(&name(&bytes), &bytes, self.write)?)
    }
}

/// Fails if a part's bytes do not match the hash in its name.
fn check(part: &Path) -> Result<(), ResultsFolderError> {
    let read = |source| ResultsFolderError::Read { path: part.to_owned(), source };
    let expected = name(&fs::read(part).map_err(read)?);
    match part.file_name().is_some_and(|name| name == expected.as_str()) {
        true => Ok(()),
        false => Err(ResultsFolderError::Damaged { path: part.to_owned(), expected }),
    }
}

/// The name of a part with these bytes.
fn name(bytes: &[u8]) -> String {
    format!("part-{}.parquet", hash(&[bytes]))
}
