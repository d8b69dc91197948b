//! Columns of a table, and the Parquet files that hold them.

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use std::sync::Arc;

/// The values of a column, one for each row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cells {
    Text(Vec<Option<String>>),
    Integer(Vec<Option<i64>>),
    /// Microseconds since 1970, UTC.
    Time(Vec<Option<i64>>),
    Flag(Vec<Option<bool>>),
    /// A list of texts, which may be empty.
    Texts(Vec<Vec<String>>),
}

/// A column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    /// Whether it has a value in every row.
    pub(crate) is_required: bool,
    pub(crate) cells: Cells,
}

impl Column {
    /// A column that has a value in every row.
    pub(crate) fn of(name: &'static str, cells: Cells) -> Self {
        Self { name, is_required: true, cells }
    }

    /// A column whose values may be null.
    pub(crate) fn optional(name: &'static str, cells: Cells) -> Self {
        Self { name, is_required: false, cells }
    }

    fn field(&self) -> Result<TypePtr, ParquetError> {
        let repetition = if self.is_required { Repetition::REQUIRED } else { Repetition::OPTIONAL };
        let leaf = |name, physical, logical, repetition| {
            let leaf = Type::primitive_type_builder(name, physical).with_repetition(repetition);
            leaf.with_logical_type(logical).build().map(Arc::new)
        };
        let text = Some(LogicalType::String);
        match self.cells {
            Cells::Text(_) => leaf(self.name, Physical::BYTE_ARRAY, text, repetition),
            Cells::Integer(_) => leaf(self.name, Physical::INT64, None, repetition),
            Cells::Flag(_) => leaf(self.name, Physical::BOOLEAN, None, repetition),
            Cells::Time(_) => {
                let time = LogicalType::timestamp(true, parquet::basic::TimeUnit::MICROS);
                leaf(self.name, Physical::INT64, Some(time), repetition)
            }
            // The three levels of a list in the Parquet format's "LogicalTypes.md".
            Cells::Texts(_) => {
                let element = leaf("element", Physical::BYTE_ARRAY, text, Repetition::REQUIRED)?;
                let list = Type::group_type_builder("list").with_repetition(Repetition::REPEATED);
                let list = list.with_fields(vec![element]).build()?;
                let column = Type::group_type_builder(self.name).with_repetition(Repetition::REQUIRED);
                let column = column.with_logical_type(Some(LogicalType::List));
                column.with_fields(vec![Arc::new(list)]).build().map(Arc::new)
            }
        }
    }

    fn write(&self, into: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        match &self.cells {
            Cells::Text(cells) => {
                let (values, levels) = self.levels(cells, |text| ByteArray::from(text.as_str()));
                into.typed::<ByteArrayType>().write_batch(&values, levels.as_deref(), None)
            }
            Cells::Integer(cells) | Cells::Time(cells) => {
                let (values, levels) = self.levels(cells, |number| *number);
                into.typed::<Int64Type>().write_batch(&values, levels.as_deref(), None)
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

/// The bytes of a Parquet file with these columns, which have equally many rows.
pub(crate) fn parquet_bytes(
    table: &'static str,
    columns: &[Column],
    made_by: &str,
    metadata: Vec<KeyValue>,
) -> Result<Vec<u8>, ParquetError> {
    let fields = columns.iter().map(Column::field).collect::<Result<Vec<_>, _>>()?;
    let schema = Type::group_type_builder(table).with_fields(fields).build()?;
    let properties = WriterProperties::builder()
        .set_created_by(made_by.to_owned())
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(metadata));
    let mut bytes = Vec::new();
    let mut file = SerializedFileWriter::new(&mut bytes, Arc::new(schema), Arc::new(properties.build()))?;
    let mut group = file.next_row_group()?;
    for column in columns {
        let Some(mut into) = group.next_column()? else { break };
        column.write(&mut into)?;
        into.close()?;
    }
    group.close()?;
    file.close()?;
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
        let bytes = parquet_bytes("rows", &columns, "test 1.0", Vec::new()).unwrap();
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
        assert!(parquet_bytes("rows", &none, "test 1.0", Vec::new()).is_ok());
    }
}
