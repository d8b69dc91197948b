//! The folder of a fleet's tables: a folder of Parquet files for each.

use crate::input::Input;
use crate::part::{
    PartError, PartProblem, bytes_of, complete_parts, each_row, expect_parts_alone, input_of, name_of,
    shard_of,
};
use crate::table::{Rows, Table};
use columns::{FolderError, ParquetError, PartFolder, ShardLock, WriteWhole};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// The file with the names of all inputs, beside the tables: a list in JSON.
pub(crate) const INPUTS_FILE: &str = "all.inputs";

/// Why the tables of a folder can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TablesFolderError {
    /// The system refuses it, or another process runs the shard.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A file of the tables can't be used.
    #[error(transparent)]
    Part(#[from] PartError),
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

    /// Creates the folders that are missing, locks the shard, and removes what a killed run has left: of this shard, and of those of other divisions that nobody runs.
    ///
    /// # Errors
    /// [`TablesFolderError::Folder`], or [`TablesFolderError::Part`] for a file with a name that no run gives
    pub fn prepare(&self) -> Result<ShardLock, TablesFolderError> {
        let folder = PartFolder::create(&self.path)?;
        let lock = folder.lock(&self.shard)?;
        for (shard, parts) in self.remains()? {
            if shard == self.shard {
                parts.iter().try_for_each(|part| folder.remove(part))?;
            } else if !is_of_same_division(&shard, &self.shard) {
                self.remove_remains_of(&shard)?;
            }
        }
        Ok(lock)
    }

    /// Removes what a killed run of another shard has left, unless it runs now, or its lock can't be taken.
    fn remove_remains_of(&self, shard: &str) -> Result<(), TablesFolderError> {
        let folder = PartFolder::existing(&self.path);
        let Ok(_lock) = folder.lock(shard) else { return Ok(()) };
        // Looked at again: until now it may have run, and be complete or removed.
        for part in self.remains()?.get(shard).into_iter().flatten() {
            folder.remove(part)?;
        }
        Ok(())
    }

    /// Files of parts that not all tables have, by shard.
    fn remains(&self) -> Result<BTreeMap<String, Vec<PathBuf>>, TablesFolderError> {
        for table in Table::ALL {
            self.table(table)?;
        }
        expect_parts_alone(&self.path)?;
        let complete = complete_parts(&self.path)?;
        let mut remains: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for table in Table::ALL {
            for part in self.table(table)?.parts()? {
                let name = part.file_name();
                if name.is_some_and(|name| complete.contains(name)) {
                    continue;
                }
                match name.and_then(shard_of) {
                    Some(shard) => remains.entry(shard).or_default().push(part),
                    None => return Err(PartError { path: part, problem: PartProblem::OtherBytes }.into()),
                }
            }
        }
        Ok(remains)
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

    /// Inputs that have rows, by the rules of this program, and have not been changed since. Of any shard. All files of all tables are looked at.
    ///
    /// # Errors
    /// [`TablesFolderError`]
    pub fn finished_inputs(&self) -> Result<FinishedInputs, TablesFolderError> {
        let mut finished = FinishedInputs::default();
        for name in complete_parts(&self.path)? {
            for table in Table::ALL {
                let inputs = match table {
                    Table::Hosts => &mut finished.inspected,
                    Table::Errors => &mut finished.failed,
                    Table::Adapters | Table::Findings | Table::Unseen => {
                        bytes_of(&self.path, table, &name)?;
                        continue;
                    }
                };
                each_row(&self.path, table, &name, |row| inputs.extend(input_of(row, &self.made_by)))?;
            }
        }
        Ok(finished)
    }

    /// Writes the rows as a part of each table. Returns the number of files.
    ///
    /// # Errors
    /// [`TablesFolderError`]
    pub fn add(&self, rows: &Rows) -> Result<usize, TablesFolderError> {
        let files = Table::ALL.iter().map(|table| rows.parquet(*table, &self.made_by));
        let files = files.collect::<Result<Vec<_>, ParquetError>>()?;
        let name = name_of(&self.shard, &files);
        let mut parts: Vec<(Table, Vec<u8>)> = Table::ALL.into_iter().zip(files).collect();
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
}

impl FinishedInputs {
    /// Whether an input need not be read again.
    pub fn has(&self, input: &Input) -> bool {
        let input = input.by_name();
        self.inspected.contains(&input) || self.failed.contains(&input)
    }
}

/// Whether two shards are of the same number of shards. Those run at the same time, and must not find their lock taken.
fn is_of_same_division(one: &str, other: &str) -> bool {
    let shards = |shard: &str| shard.rsplit('-').next().map(ToOwned::to_owned);
    shards(one) == shards(other)
}
