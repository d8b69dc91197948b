//! A plan: what its file says, and the points that follow.

use crate::key::{Key, version};
use crate::value::{Value, canonical};
use model::{Description, TableError};
use serde::Deserialize;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use toll::{FieldProblem, TomlProblem, TomlText};

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
    pub description: Description,
}

/// Where a plan has a mistake that a point shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanPlace {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The point: its number and values.
    pub point: String,
}

impl fmt::Display for PlanPlace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.file, self.line, self.point)
    }
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
        /// Where.
        place: Box<PlanPlace>,
        /// What.
        problem: String,
    },
    /// A value of a point that no machine has.
    #[error("{place}: {field} is {value}; expected {expected}")]
    Value {
        /// Where.
        place: Box<PlanPlace>,
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
    axes: BTreeMap<String, toml::Value>,
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
        if axes.is_empty() {
            return Err(wrong("axes", "is empty", "a field with a list of values"));
        }
        let axes = axes.into_iter().map(|(field, value)| Axis::new(field, value, toml, file));
        let axes = axes.collect::<Result<Vec<Axis>, _>>()?;
        axes.iter().try_for_each(|axis| axis.check(toml, file))?;
        check_overlaps(&axes, toml, file)?;
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

    /// The version of the model that the points are run by.
    ///
    /// # Errors
    /// [`PlanError`] if the first point is wrong.
    pub fn version(&self) -> Result<&'static str, PlanError> {
        Ok(version(self.description(0)?.kind()))
    }

    /// The point at a place below [`Plan::len`]: axes by name, the last varying fastest, values as the file lists them.
    ///
    /// # Errors
    /// [`PlanError`] if no machine has these values together.
    pub fn point(&self, position: u64) -> Result<Point, PlanError> {
        let description = self.description(position)?;
        let mut values: Vec<Value> = self.chosen(position).map(|(axis, value)| axis.value(value)).collect();
        values.reverse();
        Ok(Point { key: Key::of(version(description.kind()), self.fields(position)), values, description })
    }

    /// What all points have in common is known by this: plans whose axes differ in values alone have the same.
    ///
    /// # Errors
    /// [`PlanError`] if the first point is wrong.
    pub fn base_key(&self) -> Result<Key, PlanError> {
        let mut fields = self.fields(0);
        for axis in &self.axes {
            set_field(&mut fields, &axis.field, false.into());
        }
        Ok(Key::of(self.version()?, fields))
    }

    /// The machine apart from the axes: a table of TOML, with `"varies"` in place of what an axis sets. Plans of the same [`Plan::base_key`] have
    /// the same.
    pub(crate) fn machine(&self) -> String {
        let mut base = self.base.clone();
        base.remove("what");
        for axis in &self.axes {
            set_field(&mut base, &axis.field, "varies".into());
        }
        base.to_string()
    }

    /// What the axes' values are known by, in whatever order they are listed.
    pub(crate) fn grid_key(&self) -> Key {
        let sorted = |axis: &Axis| {
            let mut values: Vec<String> = axis.values.iter().map(canonical).collect();
            values.sort_unstable();
            (axis.field.clone(), toml::Value::from(values))
        };
        Key::of("grid/1", self.axes.iter().map(sorted).collect())
    }

    /// Whether a machine has these values together.
    ///
    /// # Errors
    /// [`PlanError`] if not.
    pub fn check(&self, position: u64) -> Result<(), PlanError> {
        self.description(position).map(drop)
    }

    /// The fields of the machine at a point.
    fn fields(&self, position: u64) -> toml::Table {
        let mut fields = self.base.clone();
        for (axis, value) in self.chosen(position) {
            set_field(&mut fields, &axis.field, value.clone());
        }
        fields
    }

    /// The machine at a point.
    fn description(&self, position: u64) -> Result<Description, PlanError> {
        Description::from_table(&self.fields(position)).map_err(|error| {
            let problem = error.to_string();
            match error {
                TableError::Value { field, value, expected } => {
                    let place = self.place(position, &field, Some(&value));
                    PlanError::Value { place, field, value, expected }
                }
                TableError::Form(FieldProblem { field, .. }) => {
                    PlanError::Machine { place: self.place(position, &field, None), problem }
                }
            }
        })
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

    /// The line of a field, in the axes or else in the base. Of elements that have the field, the one with this value is meant.
    fn line_of(&self, position: u64, field: &str, value: Option<&str>) -> usize {
        let toml = TomlText::new(&self.text, &self.file);
        let chosen: Vec<(&Axis, &toml::Value)> = self.chosen(position).collect();
        let is_varied = |axis: &Axis| axis.field == field || is_below(field, &axis.field);
        // An element's field is told without its place, and a table that base lacks is one that an axis has made.
        let is_whole = value_at(&self.base, field).is_some_and(|value| !value.is_array());
        let is_made = |axis: &Axis, chosen: &toml::Value| {
            let has_value = value.is_none_or(|value| Value::from(chosen).to_string() == value);
            (without_places(&axis.field) == field && has_value) || (!is_whole && is_below(&axis.field, field))
        };
        let varied = chosen.iter().find(|(axis, _)| is_varied(axis));
        match varied.or_else(|| chosen.iter().find(|(axis, chosen)| is_made(axis, chosen))) {
            Some((axis, _)) => toml.line_of_names(&["axes", &axis.field]),
            None => {
                let field = format!("base.{field}");
                value.map_or_else(|| toml.line_of(&field), |value| toml.line_of_value(&field, value))
            }
        }
    }

    /// A point and the line of one of its fields, for errors.
    fn place(&self, position: u64, field: &str, value: Option<&str>) -> Box<PlanPlace> {
        let mut values: Vec<_> =
            self.chosen(position).map(|(axis, value)| format!("{} = {value}", axis.field)).collect();
        values.reverse();
        let point = format!("point {position} ({})", values.join(", "));
        Box::new(PlanPlace { file: self.file.clone(), line: self.line_of(position, field, value), point })
    }

    /// Checks that a machine has each value of each axis, and that no value is listed twice.
    fn check_values(&self) -> Result<(), PlanError> {
        let toml = TomlText::new(&self.text, &self.file);
        let mut stride = self.len;
        for axis in &self.axes {
            if !set_field(&mut self.base.clone(), &axis.field, false.into()) {
                let expected = "one that a machine has; elements of a list are counted from 0";
                return Err(axis.invalid_field(toml, &self.file, "is no field of base", expected));
            }
            stride /= axis.values.len() as u64;
            let mut seen = HashSet::new();
            for (at, value) in (0..).zip(&axis.values) {
                self.check(at * stride)?;
                if !seen.insert(canonical(value)) {
                    let is = format!("has {} twice", Value::from(value));
                    return Err(axis.invalid_field(toml, &self.file, &is, "each value once"));
                }
            }
        }
        self.check_seeds(toml)
    }

    /// Checks that no run belongs to two points: their figures would seem to be independent.
    fn check_seeds(&self, toml: TomlText<'_>) -> Result<(), PlanError> {
        let numbers = |field: &str| {
            let axis = self.axes.iter().find(|axis| axis.field == field)?;
            let mut numbers: Vec<i64> = axis.values.iter().filter_map(toml::Value::as_integer).collect();
            numbers.sort_unstable();
            Some((axis, numbers))
        };
        let Some((axis, first_seeds)) = numbers("seed") else { return Ok(()) };
        let runs = numbers("seeds").and_then(|(_, runs)| runs.last().copied());
        let runs = runs.unwrap_or(self.description(0)?.seeds().into());
        let shared = first_seeds.windows(2).find(|pair| pair[1].abs_diff(pair[0]) < runs.unsigned_abs());
        let Some(&[one, other]) = shared else { return Ok(()) };
        let is = format!("has {one} and {other}, whose points share runs: each runs {runs} seeds in a row");
        let expected = format!("values {runs} apart, or seeds = 1 in base");
        Err(axis.invalid_field(toml, &self.file, &is, &expected))
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
        match self.values.iter().find(|value| value.is_table() || value.is_datetime()) {
            Some(value) => Err(self.invalid_field(
                toml,
                file,
                &format!("has {value}"),
                "numbers, words, booleans or lists",
            )),
            None => self.check_kinds(toml, file),
        }
    }

    /// All values of an axis are of one column: numbers, words, or booleans.
    fn check_kinds(&self, toml: TomlText<'_>, file: &str) -> Result<(), PlanError> {
        let kind = |value: &toml::Value| match value {
            toml::Value::Integer(_) | toml::Value::Float(_) => "numbers",
            toml::Value::Boolean(_) => "booleans",
            _ => "words",
        };
        let (first, values) = (kind(&self.values[0]), &self.values[1..]);
        match values.iter().find(|value| kind(value) != first) {
            Some(value) => {
                Err(self.invalid_field(toml, file, &format!("has {value}"), &format!("{first} alone")))
            }
            None => Ok(()),
        }
    }

    fn new(field: String, value: toml::Value, toml: TomlText<'_>, file: &str) -> Result<Self, PlanError> {
        let mut axis = Self { field, values: Vec::new() };
        match value {
            toml::Value::Array(values) => axis.values = values,
            toml::Value::Table(mut table) => {
                let mut whole = axis.field.clone();
                while let Some((name, value)) = table.into_iter().next() {
                    whole = format!("{whole}.{name}");
                    table = match value {
                        toml::Value::Table(below) => below,
                        _ => break,
                    };
                }
                let expected = format!(
                    "a list of values, by the field's whole name in quotation marks: {whole:?} = [...]"
                );
                return Err(axis.invalid_field(toml, file, "is a table", &expected));
            }
            _ => return Err(axis.invalid_field(toml, file, "is one value", "a list of values")),
        }
        Ok(axis)
    }

    /// A value of this axis. Numbers are of one type: if one has a fraction, all are floats.
    fn value(&self, value: &toml::Value) -> Value {
        match Value::from(value) {
            Value::Integer(number) if self.values.iter().any(toml::Value::is_float) => {
                Value::Float(number as f64)
            }
            value => value,
        }
    }

    fn invalid_field(&self, toml: TomlText<'_>, file: &str, is: &str, expected: &str) -> PlanError {
        let line = toml.line_of_names(&["axes", &self.field]);
        axes_error(file, line, &format!("axes.{:?}", self.field), is, expected)
    }
}

/// Whether a field is in what `above` names, a table or a list.
fn is_below(field: &str, above: &str) -> bool {
    field.strip_prefix(above).is_some_and(|below| below.starts_with('.'))
}

/// Checks that no axis varies a part of what another does: one of them would be undone.
fn check_overlaps(axes: &[Axis], toml: TomlText<'_>, file: &str) -> Result<(), PlanError> {
    let fields: HashSet<&str> = axes.iter().map(|axis| axis.field.as_str()).collect();
    for axis in axes {
        let mut dots = axis.field.match_indices('.').map(|(dot, _)| &axis.field[..dot]);
        if let Some(above) = dots.find(|above| fields.contains(above)) {
            let is = format!("is a part of axes.{above:?}");
            return Err(axis.invalid_field(toml, file, &is, "axes that are no part of each other"));
        }
    }
    Ok(())
}

fn axes_error(file: &str, line: usize, place: &str, is: &str, expected: &str) -> PlanError {
    let [file, place, is, expected] = [file, place, is, expected].map(str::to_owned);
    PlanError::Axes { file, line, place, is, expected }
}

/// Sets a field by its dotted name, in which a number names an element of a list. False if what is before a dot is no table and no list
/// with such an element.
pub fn set_field(table: &mut toml::Table, field: &str, value: toml::Value) -> bool {
    let Some((above, below)) = field.split_once('.') else {
        table.insert(field.to_owned(), value);
        return true;
    };
    let inner = table.entry(above).or_insert_with(|| toml::Table::new().into());
    set_inner(inner, below, value)
}

fn set_inner(inner: &mut toml::Value, field: &str, value: toml::Value) -> bool {
    match inner {
        toml::Value::Table(inner) => set_field(inner, field, value),
        toml::Value::Array(list) => {
            let (place, below) = outermost(field);
            let Some(element) = list_place(place).and_then(|place| list.get_mut(place)) else { return false };
            match below {
                Some(below) => set_inner(element, below, value),
                None => {
                    *element = value;
                    true
                }
            }
        }
        _ => false,
    }
}

/// The place that a number names, which is written in one way alone: otherwise one field could be two axes.
fn list_place(number: &str) -> Option<usize> {
    number.parse().ok().filter(|place: &usize| place.to_string() == number)
}

/// The outermost part of a dotted name, and what is left.
fn outermost(field: &str) -> (&str, Option<&str>) {
    field.split_once('.').map_or((field, None), |(above, below)| (above, Some(below)))
}

/// The value of a field, by its dotted name.
fn value_at<'t>(table: &'t toml::Table, field: &str) -> Option<&'t toml::Value> {
    let (above, below) = outermost(field);
    match (table.get(above)?, below) {
        (toml::Value::Table(inner), Some(below)) => value_at(inner, below),
        (value, _) => Some(value),
    }
}

/// A field's name without the numbers of elements, as those name it who don't know the element.
fn without_places(field: &str) -> String {
    let names: Vec<&str> = field.split('.').filter(|name| list_place(name).is_none()).collect();
    names.join(".")
}

#[cfg(test)]
mod tests;
