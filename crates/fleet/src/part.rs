//! Parts of tables that were written before.

use crate::capture::DOCUMENT;
use crate::input::Input;
use columns::open_part;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use std::path::{Path, PathBuf};

/// The inputs of a part of [`Table::Hosts`](crate::Table) or [`Table::Errors`](crate::Table) that the program `made_by` need not read again: by its rules,
/// or of documents, whose rules are those of the program that made them.
///
/// # Errors
/// [`ParquetError`] if the file can't be read, or is damaged
pub fn inputs_of_part(part: &Path, made_by: &str) -> Result<Vec<Input>, ParquetError> {
    let reader = SerializedFileReader::new(open_part(part)?)?;
    let rows = reader.get_row_iter(None)?.map(|row| Ok(input_of(&row?, made_by)));
    rows.filter_map(Result::transpose).collect()
}

/// A column's value in a row.
pub(crate) fn cell<'r>(row: &'r Row, column: &str) -> Option<&'r Field> {
    row.get_column_iter().find(|(name, _)| *name == column).map(|(_, field)| field)
}

/// A row's input; `None` if it has to be read again.
fn input_of(row: &Row, made_by: &str) -> Option<Input> {
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
