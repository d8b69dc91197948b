//! The folder of a fleet's tables: a folder of Parquet files for each.

use crate::input::Input;
use crate::part::inputs_of_part;
use crate::table::{Rows, Table};
use columns::{FolderError, ParquetError, PartFolder, ShardLock, WriteWhole, hash};
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The file with the names of all inputs, beside the tables: a list in JSON.
pub(crate) const INPUTS_FILE: &str = "all.inputs";

/// Why the tables of a folder can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TablesFolderError {
    /// The system refuses it, or another process runs the shard.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A file is damaged.
    #[error(
        "{}: damaged; remove the files of this name in all tables, and what they have runs again",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ParquetError,
    },
    /// More rows than a file can hold.
    #[error(transparent)]
    Rows(#[from] ParquetError),
}

/// The tables of a shard.
///
/// The rows of some inputs are a part of each table, with the same name. That of `hosts` is written last: without it, the others are remains of a run that
/// was killed. The same rows have the same name, so that what is done twice is there once.
#[derive(Debug, Clone)]
pub struct TablesFolder {
    path: PathBuf,
    shard: String,
    made_by: String,
    write: WriteWhole,
}

/// Inputs that were read before.
#[derive(Debug, Default)]
pub struct FinishedInputs {
    /// Those that have a row in `hosts`.
    pub inspected: HashSet<Input>,
    /// Those that have a row in `errors`.
    pub failed: HashSet<Input>,
}

impl TablesFolder {
    /// Of a shard, which is called `0-of-4`. `made_by` is the name and version of the program.
    pub fn new(path: &Path, shard: &str, made_by: &str, write: WriteWhole) -> Self {
        Self { path: path.to_owned(), shard: shard.to_owned(), made_by: made_by.to_owned(), write }
    }

    /// Creates the folders that are missing, locks the shard, and removes what a killed run has left of it.
    ///
    /// # Errors
    /// [`TablesFolderError::Folder`]
    pub fn prepare(&self) -> Result<ShardLock, TablesFolderError> {
        let lock = PartFolder::create(&self.path)?.lock(&self.shard)?;
        for table in Table::ALL {
            self.table(table)?;
        }
        let complete = self.complete_parts()?;
        let is_own = |name: &OsString| name.to_string_lossy().starts_with(&self.prefix());
        for table in Table::ALL {
            let folder = self.table(table)?;
            for part in folder.parts()? {
                let name = part.file_name().unwrap_or_default().to_owned();
                if is_own(&name) && !complete.contains(&name) {
                    folder.remove(&part)?;
                }
            }
        }
        Ok(lock)
    }

    /// Keeps the names of the inputs that were found, of all shards: a report then says which of them have no rows.
    ///
    /// # Errors
    /// [`TablesFolderError::Folder`]
    pub fn keep_inputs(&self, inputs: &[Input]) -> Result<(), TablesFolderError> {
        let names: Vec<String> = inputs.iter().map(Input::name).collect();
        let list = serde_json::json!(names).to_string();
        Ok(PartFolder::existing(&self.path).add(INPUTS_FILE, list.as_bytes(), self.write)?)
    }

    /// Inputs that have rows, by the rules of this program, and have not been changed since. Of any shard.
    ///
    /// # Errors
    /// [`TablesFolderError`]
    pub fn finished_inputs(&self) -> Result<FinishedInputs, TablesFolderError> {
        let complete = self.complete_parts()?;
        let inputs = |table: Table| {
            let mut inputs = HashSet::new();
            for part in self.table(table)?.parts()? {
                if part.file_name().is_some_and(|name| complete.contains(name)) {
                    let found = inputs_of_part(&part, &self.made_by);
                    inputs.extend(found.map_err(|source| TablesFolderError::Damaged { path: part, source })?);
                }
            }
            Ok::<_, TablesFolderError>(inputs)
        };
        Ok(FinishedInputs { inspected: inputs(Table::Hosts)?, failed: inputs(Table::Errors)? })
    }

    /// Writes the rows as a part of each table. Returns the number of files.
    ///
    /// # Errors
    /// [`TablesFolderError`]
    pub fn add(&self, rows: &Rows) -> Result<usize, TablesFolderError> {
        let parts = Table::ALL.iter().map(|table| Ok((*table, rows.parquet(*table, &self.made_by)?)));
        let mut parts = parts.collect::<Result<Vec<_>, ParquetError>>()?;
        let bytes: Vec<&Vec<u8>> = parts.iter().map(|(_, bytes)| bytes).collect();
        let name = format!("{}{}.parquet", self.prefix(), hash(&bytes));
        parts.sort_by_key(|(table, _)| *table == Table::Hosts);
        for (table, bytes) in &parts {
            self.table(*table)?.add(&name, bytes, self.write)?;
        }
        Ok(parts.len())
    }

    /// Whether a path has the name of a part of a table.
    pub fn is_part(path: &Path) -> bool {
        PartFolder::is_part(path)
    }

    fn table(&self, table: Table) -> Result<PartFolder, FolderError> {
        PartFolder::create_within(&self.path, table.name())
    }

    /// What the name of each part of this shard begins with.
    fn prefix(&self) -> String {
        format!("part-{}-", self.shard)
    }

    /// Names of the parts that all tables have.
    fn complete_parts(&self) -> Result<HashSet<OsString>, FolderError> {
        let parts = self.table(Table::Hosts)?.parts()?;
        Ok(parts.iter().filter_map(|part| part.file_name()).map(ToOwned::to_owned).collect())
    }
}

impl FinishedInputs {
    /// Whether an input need not be read again.
    pub fn has(&self, input: &Input) -> bool {
        let input = input.by_name();
        self.inspected.contains(&input) || self.failed.contains(&input)
    }
}
