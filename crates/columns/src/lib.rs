//! Tables in Parquet files, by columns, and folders of such files that several processes write.
//!
//! ```text
//!   Column, Column, ... --parquet_bytes, TableWriter--> hosts.parquet     a row group at a time
//!   Column, Column, ... <-----------TableFile---------- hosts.parquet     those that are asked for
//! ```
//!
//! ```
//! use columns::{Cells, Column, TableFile};
//! let hosts = Column::of("host", Cells::Text(vec![Some("a".to_owned()), Some("b".to_owned())]));
//! let watts = Column::optional("watts", Cells::Float(vec![None, Some(2.5)]));
//! let bytes = columns::parquet_bytes("hosts", &[hosts, watts.clone()], "example 1.0", &[])?;
//! let folder = tempfile::tempdir()?;
//! std::fs::write(folder.path().join("hosts.parquet"), bytes)?;
//! let table = TableFile::open(&folder.path().join("hosts.parquet"))?;
//! assert_eq!(table.columns(&["watts"])?, [watts]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod column;
mod error_text;
mod part_folder;
mod table_file;

pub use column::{Cells, Column, parquet_bytes};
pub use error_text::{panic_text, with_causes};
pub use parquet::errors::ParquetError;
pub use part_folder::{FolderError, PartFolder, ShardLock, WriteWhole, hash, open_part};
pub use table_file::{TableFile, TableWriter};

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
