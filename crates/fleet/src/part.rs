//! A part of a folder's tables: a file in each table's folder, all of the same name.
//!
//! ```text
//!   hosts/part-0-of-4-93b1d0f6c4a2-0fd8a1b2c3d4-....parquet
//!             |        |            `- hash of the file in adapters/, and so on
//!             |        `- hash of this file
//!             `- shard
//! ```

use crate::capture::DOCUMENT;
use crate::input::Input;
use crate::table::{SCHEMA, Table};
use bytes::Bytes;
use columns::{FolderError, PartFolder, hash, open_part, panic_text};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// The metadata with the version of the columns.
pub(crate) const SCHEMA_METADATA: &str = "iotoll.schema";
/// Digits of a file's hash in a name.
const HASH_DIGITS: usize = 12;
/// Bytes of the largest file that is read.
const FILE_BYTES_MAX: u64 = 4 << 30;

/// A file of a folder's tables that can't be used.
#[derive(Debug, thiserror::Error)]
#[error("can't use {}; {}", path.display(), problem.remedy())]
pub struct PartError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    #[source]
    pub problem: PartProblem,
}

/// What is wrong with a file of a folder's tables.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PartProblem {
    /// The system refuses it.
    #[error("it can't be read")]
    Io(#[from] io::Error),
    /// Its name has the hash of other bytes.
    #[error("it is damaged, or no run has written it: its name has the hash of other bytes")]
    OtherBytes,
    /// It is not called as a part.
    #[error("no run has written it, and queries of all tables of the folder would read it")]
    Foreign,
    /// Its columns are those of another version.
    #[error("its columns are those of {found}; expected {SCHEMA}")]
    OtherSchema {
        /// What it says that they are.
        found: String,
    },
    /// It is no Parquet file.
    #[error("it is no table")]
    Parquet(#[from] ParquetError),
}

impl PartProblem {
    /// What to do about it.
    fn remedy(&self) -> &'static str {
        match self {
            Self::Foreign => "move it out of the folder",
            _ => "remove the files of this name in all tables, and what they have is inspected again",
        }
    }
}

/// The name of a shard's part with these files, in the order of [`Table::ALL`].
pub(crate) fn name_of(shard: &str, files: &[Vec<u8>]) -> String {
    let hashes: Vec<String> = files.iter().map(|bytes| hash_of(bytes)).collect();
    format!("part-{shard}-{}.parquet", hashes.join("-"))
}

fn hash_of(bytes: &[u8]) -> String {
    let mut hash = hash(&[bytes]);
    hash.truncate(HASH_DIGITS);
    hash
}

/// The shard in the name of a part, which is `0-of-4`.
pub(crate) fn shard_of(name: &OsStr) -> Option<String> {
    let mut words = name.to_str()?.strip_prefix("part-")?.split('-');
    let (index, of, shards) = (words.next()?, words.next()?, words.next()?);
    // As runs write them, whose locks have the same names.
    let is_number = |word: &str| word.parse().is_ok_and(|number: u32| number.to_string() == word);
    (is_number(index) && of == "of" && is_number(shards)).then(|| format!("{index}-of-{shards}"))
}

/// Names of the parts that all tables have: that of `hosts` is written last.
///
/// # Errors
/// [`FolderError`]
pub(crate) fn complete_parts(folder: &Path) -> Result<BTreeSet<OsString>, FolderError> {
    let parts = PartFolder::existing(&folder.join(Table::Hosts.name())).parts()?;
    Ok(parts.iter().filter_map(|part| part.file_name()).map(ToOwned::to_owned).collect())
}

/// Refuses tables that no run has written: a query of `*.parquet` would count their rows.
///
/// # Errors
/// [`PartError`]
pub(crate) fn expect_parts_alone(folder: &Path) -> Result<(), PartError> {
    for table in Table::ALL {
        // A folder that is missing or can't be read is an error of those who read its parts.
        for entry in std::fs::read_dir(folder.join(table.name())).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|end| end == "parquet") && !PartFolder::is_part(&path) {
                return Err(PartError { path, problem: PartProblem::Foreign });
            }
        }
    }
    Ok(())
}

/// The bytes of a table's file of a part, which are those that were written. `None` if errors were removed, so that their inputs are read again.
///
/// # Errors
/// [`PartError`]
pub(crate) fn bytes_of(folder: &Path, table: Table, name: &OsStr) -> Result<Option<Bytes>, PartError> {
    let path = folder.join(table.name()).join(name);
    let mut bytes = Vec::new();
    let read = open_part(&path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
    match read {
        Err(error) if table == Table::Errors && error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(PartError { path, problem: error.into() }),
        Ok(_) if hash_in(name, table) != Some(&hash_of(&bytes)) => {
            Err(PartError { path, problem: PartProblem::OtherBytes })
        }
        Ok(_) => Ok(Some(bytes.into())),
    }
}

/// The hash that a part's name has of a table's file.
fn hash_in(name: &OsStr, table: Table) -> Option<&str> {
    let place = Table::ALL.iter().rev().position(|one| *one == table)?;
    name.to_str()?.strip_suffix(".parquet")?.rsplit('-').nth(place)
}

/// Calls `each` with the rows of a table's file of a part, if they are of this version's columns.
///
/// # Errors
/// [`PartError`]
pub(crate) fn each_row(
    folder: &Path,
    table: Table,
    name: &OsStr,
    each: impl FnMut(&Row),
) -> Result<(), PartError> {
    let Some(bytes) = bytes_of(folder, table, name)? else { return Ok(()) };
    // Whoever made the bytes made their hash, too, and what decodes them may panic.
    let read = catch_unwind(AssertUnwindSafe(|| each_row_in(bytes, each)))
        .unwrap_or_else(|panic| Err(ParquetError::General(panic_text(&*panic).to_owned()).into()));
    read.map_err(|problem| PartError { path: folder.join(table.name()).join(name), problem })
}

fn each_row_in(bytes: Bytes, mut each: impl FnMut(&Row)) -> Result<(), PartProblem> {
    let reader = SerializedFileReader::new(bytes)?;
    let metadata = reader.metadata().file_metadata().key_value_metadata();
    let schema = metadata.and_then(|all| all.iter().find(|one| one.key == SCHEMA_METADATA)?.value.clone());
    match schema {
        Some(schema) if schema == SCHEMA => {}
        found => {
            return Err(PartProblem::OtherSchema { found: found.unwrap_or_else(|| "no run".to_owned()) });
        }
    }
    for row in reader.get_row_iter(None)? {
        each(&row?);
    }
    Ok(())
}

/// A column's value in a row.
pub(crate) fn cell<'r>(row: &'r Row, column: &str) -> Option<&'r Field> {
    row.get_column_iter().find(|(name, _)| *name == column).map(|(_, field)| field)
}

/// The input of a row of [`Table::Hosts`] or [`Table::Errors`]; `None` if it has to be read again. That is not so by the rules of the program `made_by`, nor of
/// documents, whose rules are those of the program that made them.
pub(crate) fn input_of(row: &Row, made_by: &str) -> Option<Input> {
    let text = |name: &str| match cell(row, name) {
        Some(Field::Str(text)) => Some(text.as_str()),
        _ => None,
    };
    let number = |name: &str| match cell(row, name) {
        Some(Field::Long(number) | Field::TimestampMicros(number)) => Some(*number),
        _ => None,
    };
    let is_current = text("rules") == Some(made_by) || text("source") == Some(DOCUMENT);
    let path = PathBuf::from(text("input").filter(|_| is_current)?);
    let bytes = number("input_bytes").and_then(|bytes| u64::try_from(bytes).ok());
    Some(Input { path, bytes, modified_us: number("modified") })
}
