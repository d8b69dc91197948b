//! Toll sheets: the documents that the lab writes.

use crate::{Boot, DmaPath, EmulatedMachine, Flaw, GuestProgram, KernelId, Toll};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The costs of I/Os on one machine with one kernel: all workloads of one preset.
///
/// [`TollSheet::read`] returns only sheets that pass [`TollSheet::check`]. A sheet built in memory may contradict itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TollSheet {
    /// The version of the document's layout.
    pub schema: SheetSchema,
    /// Name and version of the program that made it.
    pub made_by: String,
    /// The preset: a machine, a DMA path and a kernel command line under one name.
    pub preset: String,
    /// The preset of the same machine and kernel without translation, with which its costs are compared; none if it has no translation
    /// itself.
    pub base: Option<String>,
    /// The DMA path of its adapters.
    pub dma_path: DmaPath,
    /// The machine, in its first boot.
    pub machine: EmulatedMachine,
    /// The kernel.
    pub kernel: KernelId,
    /// The programs that ran the workloads.
    pub programs: Vec<GuestProgram>,
    /// How often the machine was booted for each workload, and what was different each time.
    pub boots: Vec<Boot>,
    /// The day it was measured, YYYY-MM-DD.
    pub measured_on: String,
    /// How many times the preset was run, with the same counts each time.
    pub repeats: u32,
    /// The toll of each workload.
    pub tolls: Vec<Toll>,
}

/// The version of the layout, [`SheetSchema::ID`]. Sheets of other versions are rejected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SheetSchema;

impl SheetSchema {
    /// The name of the layout.
    pub const ID: &'static str = "iotoll.toll-sheet/4";
}

impl Serialize for SheetSchema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(Self::ID)
    }
}

impl<'de> Deserialize<'de> for SheetSchema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = String::deserialize(deserializer)?;
        match found == Self::ID {
            true => Ok(Self),
            false => Err(de::Error::invalid_value(de::Unexpected::Str(&found), &Self::ID)),
        }
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for SheetSchema {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SheetSchema".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "const": Self::ID })
    }
}

/// How to replace a sheet of an older version; empty for other schemas.
fn upgrade_hint(found: &str) -> &'static str {
    match found {
        "iotoll.toll-sheet/1" | "iotoll.toll-sheet/2" | "iotoll.toll-sheet/3" => {
            ": make the sheet again with `iotoll lab run`"
        }
        _ => "",
    }
}

/// Why a text can't be used as a toll sheet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SheetError {
    /// It is not JSON, or not of a sheet's fields and types.
    #[error("{file}:{line}:{column}: not a toll sheet: {problem}")]
    Document {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The column, in bytes.
        column: usize,
        /// What is there, and what was expected.
        problem: String,
    },
    /// It has the schema of another document or version.
    #[error("{file}: schema is `{found}`; expected `{}`{}", SheetSchema::ID, upgrade_hint(found))]
    Schema {
        /// The file.
        file: String,
        /// The schema it names.
        found: String,
    },
    /// It has no schema.
    #[error("{file}: a JSON object without a field `schema`; expected \"schema\": \"{}\"", SheetSchema::ID)]
    NoSchema {
        /// The file.
        file: String,
    },
    /// It contradicts itself.
    #[error("{file}: {flaw}")]
    Flaw {
        /// The file.
        file: String,
        /// The contradiction.
        flaw: Box<Flaw>,
    },
}

/// The field that names the kind of document.
#[derive(Deserialize)]
struct Head {
    schema: Option<String>,
}

impl TollSheet {
    /// Reads a sheet from the text of a file, whose name is for errors only.
    ///
    /// # Errors
    /// [`SheetError`] if it is not JSON, of another schema, has fields missing, unknown or of another type,
    /// or contradicts itself.
    pub fn read(text: &str, file: &str) -> Result<Self, SheetError> {
        let head: Head = parse_json(text, file)?;
        match head.schema {
            None => return Err(SheetError::NoSchema { file: file.to_owned() }),
            Some(found) if found != SheetSchema::ID => {
                return Err(SheetError::Schema { file: file.to_owned(), found });
            }
            Some(_) => {}
        }
        let sheet: Self = parse_json(text, file)?;
        sheet.check().map_err(|flaw| SheetError::Flaw { file: file.to_owned(), flaw: Box::new(flaw) })?;
        Ok(sheet)
    }

    /// The toll of a workload.
    pub fn toll(&self, workload: &str) -> Option<&Toll> {
        self.tolls.iter().find(|toll| toll.workload == workload)
    }
}

/// Parses JSON. The error has the line and column once.
fn parse_json<'t, T: Deserialize<'t>>(text: &'t str, file: &str) -> Result<T, SheetError> {
    serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let words = error.to_string();
        // serde_json appends the position, which the error has in front already.
        let place = format!(" at line {line} column {column}");
        let problem = words.strip_suffix(&place).unwrap_or(&words).to_owned();
        SheetError::Document { file: file.to_owned(), line, column, problem }
    })
}
