//! The folder of a fleet's tables: a folder of Parquet files for each.

use crate::inspect::program_version;
use crate::parts::{PartFolder, ShardLock, hash};
use crate::shard::Shard;
use ::fleet::{Input, Rows, Table, inputs_of_part};
use anyhow::Context;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// The tables of a shard, which no other process writes meanwhile.
///
/// The rows of some inputs are a part of each table, with the same name. That of `hosts` is written last: without it, the others are remains of a run that
/// was killed.
pub(super) struct FleetFolder {
    path: PathBuf,
    shard: Shard,
    _lock: ShardLock,
}

impl FleetFolder {
    /// Creates the folders that are missing, locks the shard, and removes what a killed run has left of it.
    pub(super) fn open(path: &Path, shard: Shard) -> anyhow::Result<Self> {
        let lock = ShardLock::take(path, shard)?;
        let folder = Self { path: path.to_owned(), shard, _lock: lock };
        for table in Table::ALL {
            folder.table(table)?;
        }
        folder.remove_remains()?;
        Ok(folder)
    }

    fn table(&self, table: Table) -> anyhow::Result<PartFolder> {
        PartFolder::open(&self.path.join(table.name()))
    }

    /// What the name of each part of this shard begins with.
    fn prefix(&self) -> String {
        format!("part-{}-", self.shard.to_string().replace('/', "-of-"))
    }

    /// Removes parts of other tables that have no part of `hosts`.
    fn remove_remains(&self) -> anyhow::Result<()> {
        let complete = self.complete_parts()?;
        let is_own = |name: &OsString| name.to_string_lossy().starts_with(&self.prefix());
        for table in Table::ALL {
            for part in self.table(table)?.parts()? {
                let name = part.file_name().unwrap_or_default().to_owned();
                if is_own(&name) && !complete.contains(&name) {
                    fs::remove_file(&part).with_context(|| format!("can't remove {}", part.display()))?;
                }
            }
        }
        Ok(())
    }

    /// Names of the parts that all tables have.
    fn complete_parts(&self) -> anyhow::Result<HashSet<OsString>> {
        let parts = self.table(Table::Hosts)?.parts()?;
        Ok(parts.iter().filter_map(|part| part.file_name()).map(ToOwned::to_owned).collect())
    }

    /// Inputs that have rows, by the rules of this program, and have not been changed since. Of any shard.
    pub(super) fn finished_inputs(&self) -> anyhow::Result<Finished> {
        let complete = self.complete_parts()?;
        let inputs = |table: Table| {
            let mut inputs = HashSet::new();
            for part in self.table(table)?.parts()? {
                if part.file_name().is_some_and(|name| complete.contains(name)) {
                    inputs.extend(inputs_of_part(&part, program_version()).with_context(|| damaged(&part))?);
                }
            }
            anyhow::Ok(inputs)
        };
        Ok(Finished { inspected: inputs(Table::Hosts)?, failed: inputs(Table::Errors)? })
    }

    /// Writes the rows as a part of each table. Returns the number of files.
    pub(super) fn add(&self, rows: &Rows) -> anyhow::Result<usize> {
        let parts = Table::ALL.iter().map(|table| Ok((*table, rows.parquet(*table, program_version())?)));
        let mut parts = parts.collect::<anyhow::Result<Vec<_>>>()?;
        let bytes: Vec<&Vec<u8>> = parts.iter().map(|(_, bytes)| bytes).collect();
        let name = format!("{}{}.parquet", self.prefix(), hash(&bytes));
        parts.sort_by_key(|(table, _)| *table == Table::Hosts);
        parts.iter().try_for_each(|(table, bytes)| self.table(*table)?.add(&name, bytes))?;
        Ok(parts.len())
    }
}

/// Inputs that were read before.
pub(super) struct Finished {
    pub(super) inspected: HashSet<Input>,
    pub(super) failed: HashSet<Input>,
}

fn damaged(part: &Path) -> String {
    format!(
        "{}: damaged; remove the files of this name in all tables, and what they have runs again",
        part.display()
    )
}
