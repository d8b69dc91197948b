//! A part of a sweep's results: a Parquet file with a row for each point. Its metadata name the plan and the model's version.

use crate::inspect::program_version;
use crate::parts::hash;
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
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

/// A point of the plan and its result.
pub(super) struct Row {
    pub(super) key: Key,
    pub(super) values: Vec<Value>,
    pub(super) answer: Answer,
}

/// The schema and metadata of a plan's Parquet files.
pub(super) struct Table {
    schema: Arc<Type>,
    properties: Arc<WriterProperties>,
    /// The metadata that must be equal in all files of a folder: the model's version and the plan's base.
    origin: [KeyValue; 2],
}

/// The values of a column.
enum Cells {
    Words(Vec<ByteArray>),
    Integers(Vec<i64>),
    Floats(Vec<f64>),
}

impl Table {
    /// The schema of a plan: a column for the key, one for each axis, and those of the results.
    pub(super) fn of(plan: &Plan) -> anyhow::Result<Self> {
        let origin = [("iotoll.model", VERSION.to_owned()), ("iotoll.base", plan.base_key()?.to_string())]
            .map(|(key, value)| KeyValue::new(key.to_owned(), value));
        let mut metadata = origin.to_vec();
        metadata.push(KeyValue::new("iotoll.plan".to_owned(), plan.what().to_owned()));
        let properties = WriterProperties::builder()
            .set_created_by(program_version().to_owned())
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(Some(metadata));
        let schema = schema(plan).context("can't name the columns")?;
        Ok(Self { schema: Arc::new(schema), properties: Arc::new(properties.build()), origin })
    }

    /// The bytes of a Parquet file with these rows.
    pub(super) fn parquet_bytes(&self, rows: &[Row]) -> anyhow::Result<Vec<u8>> {
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

    /// The keys of the points in a Parquet file. Fails if the file is damaged or of another plan.
    pub(super) fn keys(&self, part: &Path) -> anyhow::Result<Vec<Key>> {
        check_part(part)?;
        let file = File::open(part).with_context(|| format!("can't read {}", part.display()))?;
        let path = || part.display().to_string();
        let reader = SerializedFileReader::new(file).with_context(path)?;
        self.check_origin(reader.metadata().file_metadata()).with_context(path)?;
        read_keys(&reader).with_context(path)
    }

    /// Fails if a file is of another plan or model version. Rows hold only the varied fields, so they could not be told apart.
    fn check_origin(&self, metadata: &FileMetaData) -> anyhow::Result<()> {
        let found = metadata.key_value_metadata().map_or(&[][..], Vec::as_slice);
        let is_ours = self.origin.iter().all(|ours| found.contains(ours));
        if !is_ours || metadata.schema().get_fields() != self.schema.get_fields() {
            bail!(
                "results of another plan: the axes, the base or the model's version differ; expected a folder for this plan alone"
            );
        }
        Ok(())
    }
}

/// The Parquet schema of a plan.
fn schema(plan: &Plan) -> anyhow::Result<Type> {
    let first = plan.point(0)?;
    let mut fields = vec![column("key", Physical::BYTE_ARRAY)?];
    for (axis, value) in plan.axes().iter().zip(&first.values) {
        fields.push(column(&axis.field.replace('.', "_"), physical_type(value))?);
    }
    for name in ["latency_mean_ns", "transfers_per_second", "gigabits_per_second", "miss_share"] {
        fields.push(column(name, Physical::DOUBLE)?);
    }
    fields.push(column("limit", Physical::BYTE_ARRAY)?);
    Ok(Type::group_type_builder("sweep").with_fields(fields).build()?)
}

/// A Parquet column without nulls. Byte arrays are marked as strings.
fn column(name: &str, physical: Physical) -> Result<Arc<Type>, ParquetError> {
    let words = (physical == Physical::BYTE_ARRAY).then_some(LogicalType::String);
    let column = Type::primitive_type_builder(name, physical).with_repetition(Repetition::REQUIRED);
    column.with_logical_type(words).build().map(Arc::new)
}

/// The Parquet type of an axis's values.
fn physical_type(value: &Value) -> Physical {
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
    /// The column of an axis. Its values have the same type in all rows.
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

    /// Appends the values to a Parquet column. Returns their number.
    fn write(&self, column: &mut SerializedColumnWriter) -> Result<usize, ParquetError> {
        match self {
            Self::Words(words) => column.typed::<ByteArrayType>().write_batch(words, None, None),
            Self::Integers(numbers) => column.typed::<Int64Type>().write_batch(numbers, None, None),
            Self::Floats(numbers) => column.typed::<DoubleType>().write_batch(numbers, None, None),
        }
    }
}

/// Reads the keys, which are the first column, from all row groups.
fn read_keys(reader: &SerializedFileReader<File>) -> anyhow::Result<Vec<Key>> {
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

/// Fails if a Parquet file's bytes do not match the hash in its name.
fn check_part(part: &Path) -> anyhow::Result<()> {
    let bytes = fs::read(part).with_context(|| format!("can't read {}", part.display()))?;
    let (name, expected) = (part.file_name().unwrap_or_default(), part_name(&bytes));
    if name != expected.as_str() {
        bail!(
            "{}: damaged: the hash of its bytes gives the name {expected}; remove the file, and what it has runs again",
            part.display()
        );
    }
    Ok(())
}

/// The name of a part with these bytes.
pub(super) fn part_name(bytes: &[u8]) -> String {
    format!("part-{}.parquet", hash(&[bytes]))
}
