//! A table in a Parquet file.

use crate::column::{Cells, Column};
use parquet::basic::{Compression, Repetition, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// Writes a table, some rows at a time.
pub struct TableWriter<W: Write + Send>(SerializedFileWriter<W>);

impl<W: Write + Send> TableWriter<W> {
    /// Begins a file. Of `columns` the names and kinds count; `metadata` are names and their texts.
    ///
    /// # Errors
    /// [`ParquetError`] if it can't be written
    pub fn new(
        into: W,
        table: &str,
        columns: &[Column],
        made_by: &str,
        metadata: &[(&str, &str)],
    ) -> Result<Self, ParquetError> {
        let fields = columns.iter().map(Column::field).collect::<Result<Vec<_>, _>>()?;
        let schema = Type::group_type_builder(table).with_fields(fields).build()?;
        let metadata =
            metadata.iter().map(|(name, text)| KeyValue::new((*name).to_owned(), (*text).to_owned()));
        let properties = WriterProperties::builder()
            .set_created_by(made_by.to_owned())
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(Some(metadata.collect()));
        SerializedFileWriter::new(into, Arc::new(schema), Arc::new(properties.build())).map(Self)
    }

    /// Adds rows. The columns are those of the file, and have equally many of them.
    ///
    /// # Errors
    /// [`ParquetError`] if they can't be written
    pub fn add(&mut self, columns: &[Column]) -> Result<(), ParquetError> {
        let mut group = self.0.next_row_group()?;
        for column in columns {
            let Some(mut into) = group.next_column()? else { break };
            column.write(&mut into)?;
            into.close()?;
        }
        group.close().map(drop)
    }

    /// Ends the file.
    ///
    /// # Errors
    /// [`ParquetError`] if it can't be written
    pub fn finish(self) -> Result<(), ParquetError> {
        self.0.close().map(drop)
    }
}

/// A table of numbers, texts and flags, open for reading.
pub struct TableFile(SerializedFileReader<File>);

impl TableFile {
    /// Opens a Parquet file.
    ///
    /// # Errors
    /// [`ParquetError`] if it can't be read, or is damaged
    pub fn open(path: &Path) -> Result<Self, ParquetError> {
        SerializedFileReader::new(File::open(path)?).map(Self)
    }

    /// The text that the file's metadata have under a name.
    pub fn metadata(&self, name: &str) -> Option<&str> {
        let all = self.0.metadata().file_metadata().key_value_metadata()?;
        all.iter().find(|one| one.key == name)?.value.as_deref()
    }

    /// All columns, without rows. Those of kinds that are not read are left out.
    pub fn schema(&self) -> Vec<Column> {
        let schema = self.0.metadata().file_metadata().schema_descr();
        schema.root_schema().get_fields().iter().filter_map(|field| empty_column(field)).collect()
    }

    /// The columns of these names, with all rows. A name that the file does not have is left out.
    ///
    /// # Errors
    /// [`ParquetError`] if the file is damaged
    pub fn columns(&self, names: &[&str]) -> Result<Vec<Column>, ParquetError> {
        let schema = self.0.metadata().file_metadata().schema_descr();
        let fields = schema.root_schema().get_fields();
        let mut columns = Vec::new();
        for name in names {
            let Some(field) = fields.iter().find(|field| field.name() == *name) else { continue };
            let place =
                (0..schema.num_columns()).find(|place| schema.column(*place).path().parts() == [*name]);
            let (Some(place), Some(mut column)) = (place, empty_column(field)) else { continue };
            for group in 0..self.0.num_row_groups() {
                let group = self.0.get_row_group(group)?;
                let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
                append(&mut column, group.get_column_reader(place)?, rows)?;
            }
            columns.push(column);
        }
        Ok(columns)
    }
}

/// A column as a field of a schema describes it, without rows. `None` if it is of a kind that is not read.
fn empty_column(field: &Type) -> Option<Column> {
    if !field.is_primitive() || field.get_basic_info().repetition() == Repetition::REPEATED {
        return None;
    }
    let cells = match field.get_physical_type() {
        Physical::BYTE_ARRAY => Cells::Text(Vec::new()),
        Physical::INT64 if field.get_basic_info().logical_type_ref().is_none() => Cells::Integer(Vec::new()),
        Physical::DOUBLE => Cells::Float(Vec::new()),
        Physical::BOOLEAN => Cells::Flag(Vec::new()),
        _ => return None,
    };
    let is_required = field.get_basic_info().repetition() == Repetition::REQUIRED;
    Some(Column { name: field.name().to_owned().into(), is_required, cells })
}

/// Appends the rows of a row group to a column.
fn append(column: &mut Column, reader: ColumnReader, rows: usize) -> Result<(), ParquetError> {
    match (&mut column.cells, reader) {
        (Cells::Text(cells), ColumnReader::ByteArrayColumnReader(reader)) => {
            let values = read(reader, column.is_required, rows)?;
            let texts = values.into_iter().map(|value: Option<ByteArray>| match value {
                Some(bytes) => bytes.as_utf8().map(|text| Some(text.to_owned())),
                None => Ok(None),
            });
            cells.extend(texts.collect::<Result<Vec<_>, _>>()?);
        }
        (Cells::Integer(cells), ColumnReader::Int64ColumnReader(reader)) => {
            cells.extend(read(reader, column.is_required, rows)?);
        }
        (Cells::Float(cells), ColumnReader::DoubleColumnReader(reader)) => {
            cells.extend(read(reader, column.is_required, rows)?);
        }
        (Cells::Flag(cells), ColumnReader::BoolColumnReader(reader)) => {
            cells.extend(read(reader, column.is_required, rows)?);
        }
        _ => {
            return Err(ParquetError::General(format!(
                "column {}: another kind than the schema says",
                column.name
            )));
        }
    }
    Ok(())
}

/// The values of a column in a row group; `None` for nulls.
fn read<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    is_required: bool,
    rows: usize,
) -> Result<Vec<Option<T::T>>, ParquetError> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    let wanted_levels = if is_required { None } else { Some(&mut levels) };
    let (records, _, _) = reader.read_records(rows, wanted_levels, None, &mut values)?;
    if records != rows {
        return Err(ParquetError::General(format!("{records} rows; expected {rows}")));
    }
    if is_required {
        return Ok(values.into_iter().map(Some).collect());
    }
    let mut values = values.into_iter();
    Ok(levels.into_iter().map(|level| if level > 0 { values.next() } else { None }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::parquet_bytes;

    #[test]
    fn columns_come_back_from_several_groups() {
        let columns = [
            Column::of("name", Cells::Text(vec![Some("a".to_owned()), Some(String::new())])),
            Column::optional("word", Cells::Text(vec![None, Some("ü".to_owned())])),
            Column::optional("number", Cells::Integer(vec![Some(i64::MIN), None])),
            Column::of("share", Cells::Float(vec![Some(0.1), Some(-0.0)])),
            Column::optional("flag", Cells::Flag(vec![None, Some(true)])),
            Column::of("texts", Cells::Texts(vec![vec![], vec!["x".to_owned()]])),
            Column::optional("time", Cells::Time(vec![Some(1), None])),
        ];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table");
        let mut writer =
            TableWriter::new(File::create(&path).unwrap(), "rows", &columns, "test 1.0", &[("a", "b")])
                .unwrap();
        writer.add(&columns).unwrap();
        writer.add(&columns).unwrap();
        writer.finish().unwrap();
        let file = TableFile::open(&path).unwrap();
        assert_eq!((file.metadata("a"), file.metadata("b")), (Some("b"), None));
        let names: Vec<String> = file.schema().into_iter().map(|column| column.name.into_owned()).collect();
        assert_eq!(names, ["name", "word", "number", "share", "flag"]);
        let read = file.columns(&["flag", "nothing", "name", "texts", "number", "word", "share"]).unwrap();
        let names: Vec<&str> = read.iter().map(|column| &*column.name).collect();
        assert_eq!(names, ["flag", "name", "number", "word", "share"]);
        assert_eq!(read[0].cells, Cells::Flag(vec![None, Some(true), None, Some(true)]));
        assert_eq!(read[2].cells, Cells::Integer(vec![Some(i64::MIN), None, Some(i64::MIN), None]));
        assert_eq!(read[4].cells, Cells::Float(vec![Some(0.1), Some(-0.0), Some(0.1), Some(-0.0)]));
        let of = |column: &Column| Column {
            cells: file.columns(&[&column.name]).unwrap().remove(0).cells,
            ..column.clone()
        };
        assert_eq!(of(&columns[1]).is_required, read[3].is_required);
    }

    #[test]
    fn damaged_files_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table");
        let column = Column::of("number", Cells::Integer((0..1000).map(Some).collect()));
        let bytes = parquet_bytes("rows", &[column], "test 1.0", &[]).unwrap();
        for end in [0, 4, bytes.len() / 2, bytes.len() - 1] {
            std::fs::write(&path, &bytes[..end]).unwrap();
            assert!(TableFile::open(&path).is_err(), "{end}");
        }
        assert!(TableFile::open(&folder.path().join("missing")).is_err());
    }
}
