//! A plan: what its file says, and the points that follow.

use super::fields::{Fields, Value};
use super::key::Key;
use crate::experiment::Experiment;
use crate::user_file::InvalidField;
use serde::Deserialize;
use std::collections::{BTreeMap, HashSet};
use toll::{TomlProblem, TomlText};

/// More points than this are a mistake.
pub const POINTS_MAX: u64 = 10_000_000;

/// A machine, and the fields of it that take several values.
#[derive(Debug, Clone)]
pub struct Plan {
    what: String,
    file: String,
    /// The file's, for the lines of what is wrong in it.
    text: String,
    /// An experiment's table, maybe without what the axes bring.
    base: toml::Table,
    axes: Vec<Axis>,
    len: u64,
}

/// A field and the values that it takes.
#[derive(Debug, Clone)]
pub struct Axis {
    /// Its dotted name.
    pub field: String,
    values: Vec<toml::Value>,
}

/// One combination of values.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// What it is known by.
    pub key: Key,
    /// The axes' values, in their order.
    pub values: Vec<Value>,
    /// What to run.
    pub experiment: Experiment,
}

/// What is wrong with a plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// It is not of this form.
    #[error(transparent)]
    Form(#[from] TomlProblem),
    /// What it describes is no experiment.
    #[error("{place}: {problem}")]
    Machine {
        /// The file, the line and the point.
        place: String,
        /// What.
        problem: String,
    },
    /// A value of a point that no machine has.
    #[error("{place}: {field} is {value}; expected {expected}")]
    Value {
        /// The file, the line and the point.
        place: String,
        /// Which value.
        field: std::borrow::Cow<'static, str>,
        /// What it is.
        value: String,
        /// What it should be.
        expected: std::borrow::Cow<'static, str>,
    },
    /// Axes that make no points.
    #[error("{file}:{line}: {place} {is}; expected {expected}")]
    Axes {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// Which.
        place: String,
        /// What is wrong.
        is: String,
        /// What should be.
        expected: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    what: String,
    base: toml::Table,
    axes: BTreeMap<String, Vec<toml::Value>>,
}

impl Plan {
    /// Reads a file's text; `file` is its name, for errors. Each value is looked at once; which combinations no machine has,
    /// [`Plan::point`] says.
    ///
    /// # Errors
    /// [`PlanError`]
    pub fn read(text: &str, file: &str) -> Result<Self, PlanError> {
        let toml = TomlText::new(text, file);
        let PlanFile { what, mut base, axes } = toml.read()?;
        let wrong = |place: &str, is: &str, expected: &str| {
            axes_error(file, toml.line_of(place), place, is, expected)
        };
        if base.insert("what".to_owned(), what.clone().into()).is_some() {
            return Err(wrong("base.what", "is of no machine", "what above [base]"));
        }
        if base.contains_key("seeds") {
            return Err(wrong("base.seeds", "has no effect", "an axis `seed`: a point is one run"));
        }
        if axes.is_empty() {
            return Err(wrong("axes", "is empty", "a field with a list of values"));
        }
        let axes: Vec<Axis> = axes.into_iter().map(|(field, values)| Axis { field, values }).collect();
        axes.iter().try_for_each(|axis| axis.check(toml, file))?;
        let len = axes.iter().try_fold(1, |len: u64, axis| len.checked_mul(axis.values.len() as u64));
        let Some(len) = len.filter(|len| *len <= POINTS_MAX) else {
            return Err(wrong("axes", "make too many points", &format!("at most {POINTS_MAX}")));
        };
        let plan = Self { what, file: file.to_owned(), text: text.to_owned(), base, axes, len };
        plan.check_values()?;
        Ok(plan)
    }

    /// What it is about, for people.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// The fields that vary, by name.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// How many points.
    #[expect(clippy::len_without_is_empty, reason = "no plan is empty")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The point at a place below [`Plan::len`]: axes by name, the last varying fastest, values as the file lists them.
    ///
    /// # Errors
    /// [`PlanError`] if no machine has these values together.
    pub fn point(&self, position: u64) -> Result<Point, PlanError> {
        let (experiment, fields) = self.experiment(position)?;
        let values = self.axes.iter().filter_map(|axis| fields.get(&axis.field).cloned()).collect();
        Ok(Point { key: fields.key(), values, experiment })
    }

    /// What all points have in common is known by this: plans whose axes differ in values alone have the same.
    ///
    /// # Errors
    /// [`PlanError`] if the first point is wrong.
    pub fn base_key(&self) -> Result<Key, PlanError> {
        let (_, mut fields) = self.experiment(0)?;
        self.axes.iter().for_each(|axis| fields.remove(&axis.field));
        Ok(fields.key())
    }

    /// Whether a machine has these values together.
    ///
    /// # Errors
    /// [`PlanError`] if not.
    pub fn check(&self, position: u64) -> Result<(), PlanError> {
        self.checked_experiment(position).map(drop)
    }

    /// The experiment at a point of the sweep, and its fields.
    fn experiment(&self, position: u64) -> Result<(Experiment, Fields), PlanError> {
        let experiment = self.checked_experiment(position)?;
        let error = |error: toml::ser::Error| self.machine_error(position, &error.to_string());
        let fields = Fields::of(&experiment).map_err(error)?;
        Ok((experiment, fields))
    }

    /// The experiment at a point of the sweep, checked.
    fn checked_experiment(&self, position: u64) -> Result<Experiment, PlanError> {
        let mut table = self.base.clone();
        for (axis, value) in self.chosen(position) {
            set_field(&mut table, &axis.field, value.clone());
        }
        let experiment: Experiment = table
            .try_into()
            .map_err(|error: toml::de::Error| self.machine_error(position, &error.to_string()))?;
        if let Some(InvalidField { field, value, expected }) = experiment.invalid_field() {
            let place = self.place(position, &field);
            return Err(PlanError::Value { place, field, value, expected });
        }
        Ok(experiment)
    }

    fn machine_error(&self, position: u64, problem: &str) -> PlanError {
        let problem = problem.trim_end().replace('\n', "; ");
        PlanError::Machine { place: self.place(position, "base"), problem }
    }

    /// Each axis with its value at a place, the last first.
    fn chosen(&self, position: u64) -> impl Iterator<Item = (&Axis, &toml::Value)> {
        let mut rest = position;
        self.axes.iter().rev().map(move |axis| {
            let values = axis.values.len() as u64;
            let value = &axis.values[(rest % values) as usize];
            rest /= values;
            (axis, value)
        })
    }

    /// The line of a field, in the axes or else in the base, and the point.
    fn place(&self, position: u64, field: &str) -> String {
        let toml = TomlText::new(&self.text, &self.file);
        let line = match self.axes.iter().any(|axis| axis.field == field) {
            true => toml.line_of_names(&["axes", field]),
            false => toml.line_of(&format!("base.{field}")),
        };
        let mut values: Vec<_> =
            self.chosen(position).map(|(axis, value)| format!("{} = {value}", axis.field)).collect();
        values.reverse();
        format!("{}:{line}: point {position} ({})", self.file, values.join(", "))
    }

    /// Checks that every axis is a field of the experiment, and that no value is listed twice.
    fn check_values(&self) -> Result<(), PlanError> {
        let toml = TomlText::new(&self.text, &self.file);
        let mut stride = self.len;
        for axis in &self.axes {
            stride /= axis.values.len() as u64;
            let mut seen = HashSet::new();
            for at in 0..axis.values.len() {
                let (_, fields) = self.experiment(at as u64 * stride)?;
                let Some(value) = fields.get(&axis.field) else {
                    return Err(axis.invalid_field(
                        toml,
                        &self.file,
                        "is no field of base",
                        "one that stands for a number or a word",
                    ));
                };
                if !seen.insert(value.canonical()) {
                    return Err(axis.invalid_field(
                        toml,
                        &self.file,
                        &format!("has {value} twice"),
                        "each value once",
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Axis {
    fn check(&self, toml: TomlText<'_>, file: &str) -> Result<(), PlanError> {
        if self.field == "what" {
            return Err(self.invalid_field(toml, file, "is of no machine", "a field of base"));
        }
        if self.values.is_empty() {
            return Err(self.invalid_field(toml, file, "is empty", "a list of values"));
        }
        match self.values.iter().find(|value| value.is_table() || value.is_array()) {
            Some(value) => Err(self.invalid_field(toml, file, &format!("has {value}"), "numbers or words")),
            None => Ok(()),
        }
    }

    fn invalid_field(&self, toml: TomlText<'_>, file: &str, is: &str, expected: &str) -> PlanError {
        let line = toml.line_of_names(&["axes", &self.field]);
        axes_error(file, line, &format!("axes.{:?}", self.field), is, expected)
    }
}

fn axes_error(file: &str, line: usize, place: &str, is: &str, expected: &str) -> PlanError {
    let [file, place, is, expected] = [file, place, is, expected].map(str::to_owned);
    PlanError::Axes { file, line, place, is, expected }
}

/// Sets a field by its dotted name. If the part before the dot names no table, reading the experiment reports it.
fn set_field(table: &mut toml::Table, field: &str, value: toml::Value) {
    let Some((above, below)) = field.split_once('.') else {
        table.insert(field.to_owned(), value);
        return;
    };
    let inner = table.entry(above).or_insert_with(|| toml::Table::new().into());
    if let toml::Value::Table(inner) = inner {
        set_field(inner, below, value);
    }
}

#[cfg(test)]
mod tests;
