//! A part of a sweep's results: a Parquet file with a row for each point. Its metadata name the plan and the model's version.

use crate::key::{Key, NotAKey};
use crate::outcome::Row;
use crate::plan::{Plan, PlanError};
use crate::value::Value;
use columns::{Cells, Column, ParquetError, TableFile, parquet_bytes};
use std::collections::HashMap;
use std::path::Path;

/// Names of the metadata: the plan's words, its axes, and what tells results of different models and machines apart.
pub(crate) const PLAN: &str = "iotoll.plan";
pub(crate) const AXES: &str = "iotoll.axes";
pub(crate) const MODEL: &str = "iotoll.model";
pub(crate) const BASE: &str = "iotoll.base";
/// How many points the plan had. It grows with the plan.
pub(crate) const POINTS: &str = "iotoll.points";
/// What tells plans apart that differ in the axes' values alone.
pub(crate) const GRID: &str = "iotoll.grid";
/// The machine apart from the axes, for readers: a table of TOML.
pub(crate) const MACHINE: &str = "iotoll.machine";
/// The columns of every part, besides those of the axes.
pub(crate) const KEY: &str = "key";
pub(crate) const ERROR: &str = "error";

/// The columns and metadata of a plan's Parquet files.
#[derive(Debug)]
pub struct Table {
    made_by: String,
    /// The plan's words.
    what: String,
    /// The axes' fields, and the columns that they have in every part, without rows.
    axes: Vec<(String, Column)>,
    /// The plan's points.
    points: u64,
    /// What its values on the axes are known by.
    grid: String,
    /// The machine apart from the axes.
    machine: String,
    /// The metadata that are equal in all parts of a folder.
    origin: [(&'static str, String); 2],
}

/// Why a part is not one of a plan's.
#[derive(Debug, thiserror::Error)]
pub enum PartError {
    /// It can't be read.
    #[error(transparent)]
    Parquet(#[from] ParquetError),
    /// A key is none.
    #[error(transparent)]
    Key(#[from] NotAKey),
    /// Rows hold only the varied fields, so they could not be told apart.
    #[error(
        "results of another plan: the axes, the base or the model's version differ; expected a folder for this plan alone"
    )]
    OtherPlan,
}

impl Table {
    /// Of a plan. `made_by` is the name and version of the program.
    ///
    /// # Errors
    /// [`PlanError`] if the first point is wrong.
    pub fn of(plan: &Plan, made_by: &str) -> Result<Self, PlanError> {
        let first = plan.point(0)?;
        let axis = |(field, value): (&String, &Value)| (field.clone(), axis_column(field, cells(value)));
        let fields: Vec<String> = plan.axes().iter().map(|axis| axis.field.clone()).collect();
        Ok(Self {
            made_by: made_by.to_owned(),
            what: plan.what().to_owned(),
            axes: fields.iter().zip(&first.values).map(axis).collect(),
            points: plan.len(),
            grid: plan.grid_key().to_string(),
            machine: plan.machine(),
            origin: [(MODEL, plan.version()?.to_owned()), (BASE, plan.base_key()?.to_string())],
        })
    }

    /// The bytes of a Parquet file with these rows.
    ///
    /// # Errors
    /// [`ParquetError`] for more than a file can hold
    pub fn parquet_bytes(&self, rows: &[Row]) -> Result<Vec<u8>, ParquetError> {
        let mut columns =
            vec![Column::of(KEY, Cells::Text(rows.iter().map(|row| Some(row.key.to_string())).collect()))];
        for (place, (_, axis)) in self.axes.iter().enumerate() {
            let mut column = axis.clone();
            rows.iter().for_each(|row| push(&mut column.cells, row.values.get(place)));
            columns.push(column);
        }
        let errors = rows.iter().map(|row| row.outcome.as_ref().err().cloned());
        columns.push(Column::optional(ERROR, Cells::Text(errors.collect())));
        columns.extend(self.results(rows));
        let axes = self.fields();
        let [model, base] = &self.origin;
        let points = self.points.to_string();
        let metadata = [
            (PLAN, self.what.as_str()),
            (AXES, &axes),
            (model.0, &model.1),
            (base.0, &base.1),
            (POINTS, &points),
            (GRID, &self.grid),
            (MACHINE, &self.machine),
        ];
        parquet_bytes("sweep", &columns, &self.made_by, &metadata)
    }

    /// The columns of the results: those that any row has.
    fn results(&self, rows: &[Row]) -> Vec<Column> {
        let mut columns: Vec<Column> = Vec::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        for (number, row) in rows.iter().enumerate() {
            for (name, value) in row.outcome.iter().flatten() {
                let place = *places.entry(name).or_insert_with(|| {
                    columns.push(Column::optional(self.result_name(name), cells(value)));
                    columns.len() - 1
                });
                let column = &mut columns[place].cells;
                column.pad(number);
                push(column, Some(value));
            }
        }
        columns.iter_mut().for_each(|column| column.cells.pad(rows.len()));
        columns
    }

    /// The fields of the axes, one on each line.
    fn fields(&self) -> String {
        let fields: Vec<&str> = self.axes.iter().map(|(field, _)| field.as_str()).collect();
        fields.join("\n")
    }

    /// The name of a result's column, which no axis has.
    fn result_name(&self, name: &str) -> String {
        let is_taken = name == KEY || name == ERROR || self.axes.iter().any(|(_, axis)| axis.name == name);
        if is_taken { format!("result_{name}") } else { name.to_owned() }
    }

    /// The keys of the points in a Parquet file, and whether each has an error instead of a result.
    ///
    /// # Errors
    /// [`PartError`] if the file is damaged or of another plan
    pub fn keys(&self, part: &Path) -> Result<Vec<(Key, bool)>, PartError> {
        let file = TableFile::open(part)?;
        let has = |(name, value): &(&str, String)| file.metadata(name) == Some(value);
        let columns = file.schema();
        let has_axis = |(_, axis): &(String, Column)| columns.contains(axis);
        let has_axes = file.metadata(AXES) == Some(&self.fields());
        if !has_axes || !self.origin.iter().all(has) || !self.axes.iter().all(has_axis) {
            return Err(PartError::OtherPlan);
        }
        let mut columns = file.columns(&[KEY, ERROR])?.into_iter().map(|column| column.cells);
        let (Some(Cells::Text(keys)), Some(Cells::Text(errors))) = (columns.next(), columns.next()) else {
            return Err(PartError::OtherPlan);
        };
        let rows = keys.iter().zip(&errors);
        rows.filter_map(|(key, error)| Some((key.as_ref()?, error.is_some())))
            .map(|(key, has_error)| Ok((key.parse()?, has_error)))
            .collect()
    }
}

/// The column of an axis.
fn axis_column(field: &str, cells: Cells) -> Column {
    Column::of(axis_name(field), cells)
}

/// The name of an axis's column: `engine_window_bytes` of `engine.window_bytes`.
pub(crate) fn axis_name(field: &str) -> String {
    field.replace('.', "_")
}

/// Cells for such values, none yet.
fn cells(value: &Value) -> Cells {
    match value {
        Value::Integer(_) => Cells::Integer(Vec::new()),
        Value::Float(_) => Cells::Float(Vec::new()),
        Value::Word(_) => Cells::Text(Vec::new()),
        Value::Flag(_) => Cells::Flag(Vec::new()),
    }
}

/// Appends a value. One of another kind becomes null; a model gives each of its results one kind.
fn push(cells: &mut Cells, value: Option<&Value>) {
    match (cells, value) {
        (Cells::Integer(cells), Some(Value::Integer(number))) => cells.push(Some(*number)),
        (Cells::Float(cells), Some(Value::Float(number))) => cells.push(Some(*number)),
        (Cells::Text(cells), Some(Value::Word(word))) => cells.push(Some(word.clone())),
        (Cells::Flag(cells), Some(Value::Flag(flag))) => cells.push(Some(*flag)),
        (cells, _) => cells.pad(cells.len() + 1),
    }
}
