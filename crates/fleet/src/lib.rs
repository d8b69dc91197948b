//! Inspections of many hosts as tables.
//!
//! ```text
//!   paths -> Inputs::find -> Input -> Inspected::read -> Rows -> a Parquet file for each Table
//!            archives, folders, texts,     one host's inspection      hosts, adapters, findings, unseen, errors
//!            documents of iotoll inspect
//! ```
//!
//! An input that can't be inspected is a row of [`Table::Errors`], also if the program itself fails. One input is read at a time by each thread: a
//! thread needs the memory of one host's files, at most 1 GiB.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! std::fs::create_dir(folder.path().join("proc"))?;
//! std::fs::write(folder.path().join("proc/cmdline"), "quiet iommu=pt\n")?;
//! let mut rows = fleet::Rows::default();
//! for input in fleet::Inputs::find([folder.path()]).found {
//!     rows.add(fleet::Inspected::read(input, "example 1.0"));
//! }
//! let parquet = rows.parquet(fleet::Table::Hosts, "example 1.0")?;
//! assert!(parquet.starts_with(b"PAR1"));
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod capture;
mod document;
mod folder;
mod input;
mod part;
mod summary;
mod table;
mod tables;

pub use capture::{InputError, inspect};
pub use folder::{FinishedInputs, TablesFolder, TablesFolderError};
pub use input::{Input, Inputs, Unlisted};
pub use part::{PartError, PartProblem};
pub use summary::{Change, Failure, FleetFinding, FleetFix, FleetHost, Odd, PathCount, Summary};
pub use table::{Inspected, Rows, SCHEMA, Table};
pub use tables::{AdapterRow, ErrorRow, FindingRow, Fix, HostRow, Tables, TablesError, UnseenRow};

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
