//! Columns of a table.

use crate::table_file::TableWriter;
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedColumnWriter;
use parquet::schema::types::{Type, TypePtr};
use std::borrow::Cow;
use std::sync::Arc;

/// The values of a column, one for each row.
#[derive(Debug, Clone, PartialEq)]
pub enum Cells {
    /// Texts.
    Text(Vec<Option<String>>),
    /// Whole numbers.
    Integer(Vec<Option<i64>>),
    /// Any numbers.
    Float(Vec<Option<f64>>),
    /// Microseconds since 1970, UTC.
    Time(Vec<Option<i64>>),
    /// Yes or no.
    Flag(Vec<Option<bool>>),
    /// A list of texts, which may be empty.
    Texts(Vec<Vec<String>>),
}

impl Cells {
    /// The number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Text(cells) => cells.len(),
            Self::Integer(cells) | Self::Time(cells) => cells.len(),
            Self::Float(cells) => cells.len(),
            Self::Flag(cells) => cells.len(),
            Self::Texts(cells) => cells.len(),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends nulls, or empty lists, up to a number of rows.
    pub fn pad(&mut self, rows: usize) {
        match self {
            Self::Text(cells) => cells.resize(rows.max(cells.len()), None),
            Self::Integer(cells) | Self::Time(cells) => cells.resize(rows.max(cells.len()), None),
            Self::Float(cells) => cells.resize(rows.max(cells.len()), None),
            Self::Flag(cells) => cells.resize(rows.max(cells.len()), None),
            Self::Texts(cells) => cells.resize(rows.max(cells.len()), Vec::new()),
        }
    }

    /// Appends those rows of another column that are wanted. False, and nothing is appended, if it is of another kind.
    pub fn append_wanted(&mut self, other: Self, wanted: &[bool]) -> bool {
        fn append<T>(to: &mut Vec<T>, from: Vec<T>, wanted: &[bool]) {
            to.extend(from.into_iter().zip(wanted).filter_map(|(cell, wanted)| wanted.then_some(cell)));
        }
        match (self, other) {
            (Self::Text(to), Self::Text(from)) => append(to, from, wanted),
            (Self::Integer(to), Self::Integer(from)) | (Self::Time(to), Self::Time(from)) => {
                append(to, from, wanted)
            }
            (Self::Float(to), Self::Float(from)) => append(to, from, wanted),
            (Self::Flag(to), Self::Flag(from)) => append(to, from, wanted),
            (Self::Texts(to), Self::Texts(from)) => append(to, from, wanted),
            _ => return false,
        }
        true
    }

    /// The same kind, without rows.
    pub fn cleared(&self) -> Self {
        match self {
            Self::Text(_) => Self::Text(Vec::new()),
            Self::Integer(_) => Self::Integer(Vec::new()),
            Self::Time(_) => Self::Time(Vec::new()),
            Self::Float(_) => Self::Float(Vec::new()),
            Self::Flag(_) => Self::Flag(Vec::new()),
            Self::Texts(_) => Self::Texts(Vec::new()),
        }
    }
}

/// A column.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Whether it has a value in every row.
    pub is_required: bool,
    /// Its values.
    pub cells: Cells,
}

impl Column {
    /// A column that has a value in every row.
    pub fn of(name: impl Into<Cow<'static, str>>, cells: Cells) -> Self {
        Self { name: name.into(), is_required: true, cells }
    }

    /// A column whose values may be null.
    pub fn optional(name: impl Into<Cow<'static, str>>, cells: Cells) -> Self {
        Self { name: name.into(), is_required: false, cells }
    }

    pub(crate) fn field(&self) -> Result<TypePtr, ParquetError> {
        let repetition = if self.is_required { Repetition::REQUIRED } else { Repetition::OPTIONAL };
        let leaf = |name: &str, physical, logical, repetition| {
            let leaf = Type::primitive_type_builder(name, physical).with_repetition(repetition);
            leaf.with_logical_type(logical).build().map(Arc::new)
        };
        let text = Some(LogicalType::String);
        match self.cells {
            Cells::Text(_) => leaf(&self.name, Physical::BYTE_ARRAY, text, repetition),
            Cells::Integer(_) => leaf(&self.name, Physical::INT64, None, repetition),
            Cells::Float(_) => leaf(&self.name, Physical::DOUBLE, None, repetition),
            Cells::Flag(_) => leaf(&self.name, Physical::BOOLEAN, None, repetition),
            Cells::Time(_) => {
                let time = LogicalType::timestamp(true, parquet::basic::TimeUnit::MICROS);
                leaf(&self.name, Physical::INT64, Some(time), repetition)
            }
            // The three levels of a list in the Parquet format's "LogicalTypes.md".
            Cells::Texts(_) => {
                let element = leaf("element", Physical::BYTE_ARRAY, text, Repetition::REQUIRED)?;
                let list = Type::group_type_builder("list").with_repetition(Repetition::REPEATED);
                let list = list.with_fields(vec![element]).build()?;
                let column = Type::group_type_builder(&self.name).with_repetition(Repetition::REQUIRED);
                let column = column.with_logical_type(Some(LogicalType::List));
                column.with_fields(vec![Arc::new(list)]).build().map(Arc::new)
            }
        }
    }

    pub(crate) fn write(&self, into: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        match &self.cells {
            Cells::Text(cells) => {
                let (values, levels) = self.levels(cells, |text| ByteArray::from(text.as_str()));
                into.typed::<ByteArrayType>().write_batch(&values, levels.as_deref(), None)
            }
            Cells::Integer(cells) | Cells::Time(cells) => {
                let (values, levels) = self.levels(cells, |number| *number);
                into.typed::<Int64Type>().write_batch(&values, levels.as_deref(), None)
            }
            Cells::Float(cells) => {
                let (values, levels) = self.levels(cells, |number| *number);
                into.typed::<DoubleType>().write_batch(&values, levels.as_deref(), None)
            }
            Cells::Flag(cells) => {
                let (values, levels) = self.levels(cells, |flag| *flag);
                into.typed::<BoolType>().write_batch(&values, levels.as_deref(), None)
            }
            Cells::Texts(rows) => {
                let values: Vec<ByteArray> =
                    rows.iter().flatten().map(|text| ByteArray::from(text.as_str())).collect();
                let (defined, repeated): (Vec<i16>, Vec<i16>) =
                    rows.iter().flat_map(|row| list_levels(row.len())).unzip();
                into.typed::<ByteArrayType>().write_batch(&values, Some(&defined), Some(&repeated))
            }
        }
        .map(|_| ())
    }

    /// The values that there are, and for a column with nulls where they are.
    fn levels<T, V>(&self, cells: &[Option<T>], value: impl Fn(&T) -> V) -> (Vec<V>, Option<Vec<i16>>) {
        let values = cells.iter().flatten().map(value).collect();
        let levels = || cells.iter().map(|cell| i16::from(cell.is_some())).collect();
        (values, (!self.is_required).then(levels))
    }
}

/// Definition and repetition levels of a list of this length.
fn list_levels(length: usize) -> impl Iterator<Item = (i16, i16)> {
    let empty = (length == 0).then_some((0, 0));
    empty.into_iter().chain((0..length).map(|place| (1, i16::from(place > 0))))
}

/// The bytes of a Parquet file with these columns, which have equally many rows. `table` is the name of its rows, and `metadata` are
/// names and their texts.
///
/// # Errors
/// [`ParquetError`] for more than a file can hold
pub fn parquet_bytes(
    table: &str,
    columns: &[Column],
    made_by: &str,
    metadata: &[(&str, &str)],
) -> Result<Vec<u8>, ParquetError> {
    let mut bytes = Vec::new();
    let mut writer = TableWriter::new(&mut bytes, table, columns, made_by, metadata)?;
    writer.add(columns)?;
    writer.finish()?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::SerializedFileReader;

    /// Of the rows that a reader of Parquet finds.
    #[test]
    fn rows_come_back() {
        let texts = |row: &[&str]| row.iter().map(|text| (*text).to_owned()).collect();
        let columns = [
            Column::of("name", Cells::Text(["a", "", "ü"].map(|text| Some(text.to_owned())).to_vec())),
            Column::optional("number", Cells::Integer(vec![None, Some(-3), Some(i64::MAX)])),
            Column::optional("time", Cells::Time(vec![Some(1_700_000_000_000_000), None, None])),
            Column::of("flag", Cells::Flag(vec![Some(true), Some(false), Some(true)])),
            Column::of("list", Cells::Texts(vec![texts(&[]), texts(&["x", "y"]), texts(&["z"])])),
            Column::optional("nothing", Cells::Text(vec![None, None, None])),
        ];
        let bytes = parquet_bytes("rows", &columns, "test 1.0", &[]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("rows"), bytes).unwrap();
        let file = std::fs::File::open(folder.path().join("rows")).unwrap();
        let rows: Vec<String> = SerializedFileReader::new(file)
            .unwrap()
            .into_iter()
            .map(|row| row.unwrap().to_string())
            .collect();
        assert_eq!(
            rows,
            [
                r#"{name: "a", number: null, time: 2023-11-14 22:13:20.000000 +00:00, flag: true, list: [], nothing: null}"#,
                r#"{name: "", number: -3, time: null, flag: false, list: ["x", "y"], nothing: null}"#,
                r#"{name: "ü", number: 9223372036854775807, time: null, flag: true, list: ["z"], nothing: null}"#,
            ]
        );
        // A table without rows is a file, too.
        let none =
            [Column::of("name", Cells::Text(Vec::new())), Column::of("list", Cells::Texts(Vec::new()))];
        assert!(parquet_bytes("rows", &none, "test 1.0", &[]).is_ok());
    }
}
