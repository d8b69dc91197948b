//! Rows of a folder's tables, as far as a report needs them.

use crate::capture::DOCUMENT;
use crate::folder::INPUTS_FILE;
use crate::part::{PartError, cell, complete_parts, each_row, expect_parts_alone};
use crate::table::Table;
use columns::{FolderError, open_part};
use parquet::record::{Field, Row};
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of the largest list of inputs that is read: that of a million.
const INPUTS_BYTES_MAX: u64 = 256 << 20;

/// A row of `hosts`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostRow {
    /// Digest of the capture.
    pub capture: String,
    /// The program that inspected it.
    pub rules: String,
    /// The input's path.
    pub input: String,
    /// When the input was changed last, in microseconds since 1970.
    pub modified_us: Option<i64>,
    /// The host's name.
    pub host_name: Option<String>,
    /// The machine's model.
    pub machine: Option<String>,
    /// The kernel's release.
    pub kernel_release: Option<String>,
    /// Whether everything that decides was read.
    pub complete: bool,
    /// Whether it was not inspected here, but is told by a document.
    pub is_document: bool,
}

/// A row of `adapters`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AdapterRow {
    /// Digest of the capture.
    pub capture: String,
    /// The program that inspected it.
    pub rules: String,
    /// Its address.
    pub address: String,
    /// The way in which its DMA reaches memory.
    pub dma_path: String,
    /// Vendor and device: `0x8086:0x10d3`; `None` if they were not read.
    pub model: Option<String>,
    /// The device's name.
    pub name: Option<String>,
    /// The driver that is bound to it.
    pub driver: Option<String>,
}

/// A row of `findings`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FindingRow {
    /// Digest of the capture.
    pub capture: String,
    /// The program that inspected it.
    pub rules: String,
    /// The kind of finding.
    pub id: String,
    /// Its severity.
    pub severity: String,
    /// The adapter; `None` for the host.
    pub address: Option<String>,
    /// What was found.
    pub what: String,
    /// What mends it; hosts that have the same share it.
    pub fix: Arc<Fix>,
}

/// What mends a finding.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fix {
    /// The fix, in words.
    pub fix: String,
    /// The commands in it.
    pub commands: Vec<String>,
    /// Its risk.
    pub risk: String,
}

/// A row of `unseen`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UnseenRow {
    /// Digest of the capture.
    pub capture: String,
    /// The program that inspected it.
    pub rules: String,
    /// What could not be read; captures that lack the same share it.
    pub what: Arc<str>,
}

/// A row of `errors`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ErrorRow {
    /// The input's path.
    pub input: String,
    /// When the input was changed last, in microseconds since 1970.
    pub modified_us: Option<i64>,
    /// The program that could not inspect it.
    pub rules: String,
    /// The kind of error.
    pub kind: String,
    /// What it was.
    pub what: String,
}

/// All of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tables {
    /// Captures. One has several rows if there are copies of it, or if an input was read twice.
    pub hosts: Vec<HostRow>,
    /// Their adapters, once for each capture and rules.
    pub adapters: Vec<AdapterRow>,
    /// Their findings, once for each capture and rules.
    pub findings: Vec<FindingRow>,
    /// What was not seen of them, once for each capture and rules.
    pub unseen: Vec<UnseenRow>,
    /// Inputs that were not inspected.
    pub errors: Vec<ErrorRow>,
    /// The paths of the inputs that the last run found, in all shards; `None` if they were not kept.
    pub inputs: Option<Vec<String>>,
}

/// A folder or file of tables that can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TablesError {
    /// There are none.
    #[error("{}: no tables; expected a folder that `iotoll fleet --out` has written", folder.display())]
    Missing {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder can't be read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A file of the tables can't be used.
    #[error(transparent)]
    Part(#[from] PartError),
}

impl Tables {
    /// Reads the tables of a folder, without what an unfinished run has written.
    ///
    /// # Errors
    /// [`TablesError`]
    pub fn read(folder: &Path) -> Result<Self, TablesError> {
        if !folder.join(Table::Hosts.name()).exists() {
            return Err(TablesError::Missing { folder: folder.to_owned() });
        }
        expect_parts_alone(folder)?;
        let complete = complete_parts(folder)?;
        let (mut tables, mut chosen) = (Self::default(), Chosen::default());
        let (mut fixes, mut unseen) = (HashSet::new(), HashSet::new());
        // The first table chooses.
        for table in Table::ALL {
            for name in &complete {
                each_row(folder, table, name, |row| match table {
                    Table::Hosts => {
                        chosen.add(name, row);
                        tables.hosts.push(HostRow::of(row));
                    }
                    Table::Adapters if chosen.has(name, row) => tables.adapters.push(AdapterRow::of(row)),
                    Table::Findings if chosen.has(name, row) => {
                        tables.findings.push(FindingRow::of(row, &mut fixes));
                    }
                    Table::Unseen if chosen.has(name, row) => {
                        tables.unseen.push(UnseenRow::of(row, &mut unseen));
                    }
                    Table::Errors => tables.errors.push(ErrorRow::of(row)),
                    Table::Adapters | Table::Findings | Table::Unseen => {}
                })?;
            }
        }
        tables.inputs = kept_inputs(folder);
        Ok(tables)
    }
}

/// Paths of all inputs, as a run has kept them; `None` if there is no such file, or another one of its name.
fn kept_inputs(folder: &Path) -> Option<Vec<String>> {
    let mut text = String::new();
    open_part(&folder.join(INPUTS_FILE)).ok()?.take(INPUTS_BYTES_MAX).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// The part and the input whose rows are those of a capture, by its digest and rules. Copies of the capture have the same ones again.
#[derive(Default)]
struct Chosen(HashMap<[String; 2], (OsString, String)>);

impl Chosen {
    /// Chooses the part and the input of a row of `hosts`, if they are the first of its capture.
    fn add(&mut self, part: &OsStr, row: &Row) {
        let first = || (part.to_owned(), required(row, "input"));
        self.0.entry(Self::key(row)).or_insert_with(first);
    }

    /// Whether a row of another table counts.
    fn has(&self, part: &OsStr, row: &Row) -> bool {
        self.0.get(&Self::key(row)).is_some_and(|chosen| *chosen == (part.to_owned(), required(row, "input")))
    }

    fn key(row: &Row) -> [String; 2] {
        [required(row, "capture"), required(row, "rules")]
    }
}

fn text(row: &Row, column: &str) -> Option<String> {
    match cell(row, column) {
        Some(Field::Str(text)) => Some(text.clone()),
        _ => None,
    }
}

fn required(row: &Row, column: &str) -> String {
    text(row, column).unwrap_or_default()
}

fn texts(row: &Row, column: &str) -> Vec<String> {
    let Some(Field::ListInternal(list)) = cell(row, column) else { return Vec::new() };
    let text = |field: &Field| match field {
        Field::Str(text) => Some(text.clone()),
        _ => None,
    };
    list.elements().iter().filter_map(text).collect()
}

fn modified_us(row: &Row) -> Option<i64> {
    match cell(row, "modified") {
        Some(Field::TimestampMicros(time)) => Some(*time),
        _ => None,
    }
}

impl HostRow {
    fn of(row: &Row) -> Self {
        Self {
            capture: required(row, "capture"),
            rules: required(row, "rules"),
            input: required(row, "input"),
            modified_us: modified_us(row),
            host_name: text(row, "host_name"),
            machine: text(row, "machine"),
            kernel_release: text(row, "kernel_release"),
            complete: matches!(cell(row, "complete"), Some(Field::Bool(true))),
            is_document: text(row, "source").as_deref() == Some(DOCUMENT),
        }
    }
}

impl AdapterRow {
    fn of(row: &Row) -> Self {
        Self {
            capture: required(row, "capture"),
            rules: required(row, "rules"),
            address: required(row, "address"),
            dma_path: required(row, "dma_path"),
            model: model(row),
            name: text(row, "device_name"),
            driver: text(row, "driver"),
        }
    }
}

/// Vendor and device.
fn model(row: &Row) -> Option<String> {
    Some(format!("{}:{}", text(row, "vendor_id")?, text(row, "device_id")?))
}

impl FindingRow {
    fn of(row: &Row, fixes: &mut HashSet<Arc<Fix>>) -> Self {
        let fix =
            Fix { fix: required(row, "fix"), commands: texts(row, "commands"), risk: required(row, "risk") };
        let fix = fixes.get(&fix).cloned().unwrap_or_else(|| {
            let fix = Arc::new(fix);
            fixes.insert(fix.clone());
            fix
        });
        Self {
            capture: required(row, "capture"),
            rules: required(row, "rules"),
            id: required(row, "id"),
            severity: required(row, "severity"),
            address: text(row, "address"),
            what: required(row, "what"),
            fix,
        }
    }
}

impl UnseenRow {
    fn of(row: &Row, known: &mut HashSet<Arc<str>>) -> Self {
        let what: Arc<str> = required(row, "what").into();
        let what = known.get(&what).cloned().unwrap_or_else(|| {
            known.insert(what.clone());
            what
        });
        Self { capture: required(row, "capture"), rules: required(row, "rules"), what }
    }
}

impl ErrorRow {
    fn of(row: &Row) -> Self {
        Self {
            input: required(row, "input"),
            modified_us: modified_us(row),
            rules: required(row, "rules"),
            kind: required(row, "kind"),
            what: required(row, "what"),
        }
    }
}
