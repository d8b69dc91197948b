//! A part of a sweep's results: rows as Parquet, and what they come from in the file's metadata.

use super::folder;
use crate::inspect::made_by;
use anyhow::{Context, bail};
use model::Answer;
use model::sweep::{Key, Plan, VERSION, Value};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{FileMetaData, KeyValue};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// A point and what came of it.
pub(super) struct Row {
    pub(super) key: Key,
    pub(super) values: Vec<Value>,
    pub(super) answer: Answer,
}

/// What all parts of a plan have in common.
pub(super) struct Table {
    schema: Arc<Type>,
    properties: Arc<WriterProperties>,
    /// The part of the metadata that has to be the same in all parts of a folder.
    origin: [KeyValue; 2],
}

/// A column's values.
enum Cells {
    Words(Vec<ByteArray>),
    Integers(Vec<i64>),
    Floats(Vec<f64>),
}

impl Table {
    pub(super) fn of(plan: &Plan) -> anyhow::Result<Self> {
        let origin = [("iotoll.model", VERSION.to_owned()), ("iotoll.base", plan.base_key()?.to_string())]
            .map(|(key, value)| KeyValue::new(key.to_owned(), value));
        let mut metadata = origin.to_vec();
        metadata.push(KeyValue::new("iotoll.plan".to_owned(), plan.what().to_owned()));
        let properties = WriterProperties::builder()
            .set_created_by(made_by().to_owned())
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(Some(metadata));
        let schema = schema(plan).context("can't name the columns")?;
        Ok(Self { schema: Arc::new(schema), properties: Arc::new(properties.build()), origin })
    }

    /// A file of these rows.
    pub(super) fn bytes(&self, rows: &[Row]) -> anyhow::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut file =
            SerializedFileWriter::new(&mut bytes, Arc::clone(&self.schema), Arc::clone(&self.properties))?;
        let mut group = file.next_row_group()?;
        let mut columns = columns(rows).into_iter();
        while let (Some(mut column), Some(cells)) = (group.next_column()?, columns.next()) {
            cells.write(&mut column)?;
            column.close()?;
        }
        group.close()?;
        file.close()?;
        Ok(bytes)
    }

    /// The keys of a part's points.
    pub(super) fn keys(&self, part: &Path) -> anyhow::Result<Vec<Key>> {
        folder::check(part)?;
        let file = File::open(part).with_context(|| format!("can't read {}", part.display()))?;
        let place = || part.display().to_string();
        let reader = SerializedFileReader::new(file).with_context(place)?;
        self.check_origin(reader.metadata().file_metadata()).with_context(place)?;
        keys(&reader).with_context(place)
    }

    /// Another machine's rows could not be told from ours: the varied fields are all that a row has of it.
    fn check_origin(&self, metadata: &FileMetaData) -> anyhow::Result<()> {
        let has = metadata.key_value_metadata().map_or(&[][..], Vec::as_slice);
        let is_ours = self.origin.iter().all(|ours| has.contains(ours));
        if !is_ours || metadata.schema().get_fields() != self.schema.get_fields() {
            bail!(
                "a part of another plan, by its axes, its base or the model's version; expected only parts of this plan in a folder"
            );
        }
        Ok(())
    }
}

fn schema(plan: &Plan) -> anyhow::Result<Type> {
    let first = plan.point(0)?;
    let mut fields = vec![column("key", Physical::BYTE_ARRAY)?];
    for (axis, value) in plan.axes().iter().zip(&first.values) {
        fields.push(column(&axis.field.replace('.', "_"), physical(value))?);
    }
    for name in ["latency_mean_ns", "transfers_per_second", "gigabits_per_second", "miss_share"] {
        fields.push(column(name, Physical::DOUBLE)?);
    }
    fields.push(column("limit", Physical::BYTE_ARRAY)?);
    Ok(Type::group_type_builder("sweep").with_fields(fields).build()?)
}

fn column(name: &str, physical: Physical) -> Result<Arc<Type>, ParquetError> {
    let words = (physical == Physical::BYTE_ARRAY).then_some(LogicalType::String);
    let column = Type::primitive_type_builder(name, physical).with_repetition(Repetition::REQUIRED);
    column.with_logical_type(words).build().map(Arc::new)
}

fn physical(value: &Value) -> Physical {
    match value {
        Value::Integer(_) => Physical::INT64,
        Value::Float(_) => Physical::DOUBLE,
        Value::Word(_) => Physical::BYTE_ARRAY,
    }
}

/// Rows as columns, in the schema's order.
fn columns(rows: &[Row]) -> Vec<Cells> {
    let words =
        |word: fn(&Row) -> String| Cells::Words(rows.iter().map(|row| word(row).as_str().into()).collect());
    let floats =
        |float: fn(&Answer) -> f64| Cells::Floats(rows.iter().map(|row| float(&row.answer)).collect());
    let axes = rows.first().map_or(0, |row| row.values.len());
    let mut columns = vec![words(|row| row.key.to_string())];
    columns.extend((0..axes).map(|axis| Cells::of_axis(rows, axis)));
    columns.extend([
        floats(|answer| answer.latency_mean_ns),
        floats(|answer| answer.transfers_per_second),
        floats(|answer| answer.gigabits_per_second),
        floats(|answer| answer.miss_share),
        words(|row| row.answer.limit.clone()),
    ]);
    columns
}

impl Cells {
    /// A field has one type in all points: its experiment's.
    fn of_axis(rows: &[Row], axis: usize) -> Self {
        let (mut words, mut integers, mut floats) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            match &row.values[axis] {
                Value::Word(word) => words.push(word.as_str().into()),
                Value::Integer(number) => integers.push(*number),
                Value::Float(number) => floats.push(*number),
            }
        }
        match (words.is_empty(), integers.is_empty()) {
            (false, _) => Self::Words(words),
            (_, false) => Self::Integers(integers),
            _ => Self::Floats(floats),
        }
    }

    fn write(&self, column: &mut SerializedColumnWriter) -> Result<usize, ParquetError> {
        match self {
            Self::Words(words) => column.typed::<ByteArrayType>().write_batch(words, None, None),
            Self::Integers(numbers) => column.typed::<Int64Type>().write_batch(numbers, None, None),
            Self::Floats(numbers) => column.typed::<DoubleType>().write_batch(numbers, None, None),
        }
    }
}

/// The first column of every row group.
fn keys(reader: &SerializedFileReader<File>) -> anyhow::Result<Vec<Key>> {
    let mut keys = Vec::new();
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group)?;
        let mut column = get_typed_column_reader::<ByteArrayType>(group.get_column_reader(0)?);
        let rows = usize::try_from(group.metadata().num_rows())?;
        let mut words = Vec::new();
        column.read_records(rows, None, None, &mut words)?;
        for word in &words {
            keys.push(word.as_utf8()?.parse()?);
        }
    }
    Ok(keys)
}
