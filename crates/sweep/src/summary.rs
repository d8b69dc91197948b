//! A sweep on one page: what limits, and how a figure follows from each axis.

use crate::results::{Results, ResultsError};
use columns::{Cells, Column};
use std::collections::{BTreeMap, HashMap};
use toll::Estimate;

/// The axis whose values are only different random numbers: points that differ in it alone are one group.
const SEED: &str = "seed";
/// The column that says whether a point's runs were in a steady state.
const IS_STEADY: &str = "runs_is_steady";
/// Groups with the least and the greatest figure that are listed.
const EXTREMES: usize = 5;
/// Curves that can be told apart in one drawing.
const CURVES_MAX: usize = 8;

/// A sweep's results.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The plan's words.
    pub what: String,
    /// The version of the model.
    pub model: String,
    /// Points with a row.
    pub points: usize,
    /// Points of the plan; `None` if no part says it.
    pub points_of_plan: Option<u64>,
    /// Points whose result is of no steady state: of runs that ended before the figures stayed as they were.
    pub unsteady: usize,
    /// Points without a result, by why.
    pub errors: BTreeMap<String, usize>,
    /// How many points each part of the machine limits, most first.
    pub limits: Vec<(String, usize)>,
    /// All figures that can be asked for.
    pub figures: Vec<String>,
    /// The figure that was asked for; `None` if no point has a figure.
    pub figure: Option<Figure>,
}

/// How a figure follows from the axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Its name, with its unit last.
    pub name: String,
    /// Groups of points that differ in their seed alone, in order of the figure: the least and the greatest.
    pub extremes: Vec<Group>,
    /// The number of groups.
    pub groups: usize,
    /// Fewest and most seeds of a group.
    pub seeds: (usize, usize),
    /// By axis, without seeds.
    pub effects: Vec<AxisEffect>,
    /// The figure by one axis, for each value of another; none where the sweep has more axes, or no numbers on them.
    pub curves: Vec<Curve>,
}

/// Points that differ in their seed alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The axes' fields with their values, without the seed.
    pub values: Vec<(String, String)>,
    /// The figure: over the seeds, or as the point's own runs have it.
    pub figure: Estimate,
    /// The part of the machine that limits; none if the model names none.
    pub limit: Option<String>,
}

/// A figure by the values of an axis, whatever the others are.
#[derive(Debug, Clone, PartialEq)]
pub struct AxisEffect {
    /// The axis's field.
    pub field: String,
    /// By value: numbers in order, words as they came.
    pub values: Vec<AxisValue>,
}

/// A figure at one value of an axis.
#[derive(Debug, Clone, PartialEq)]
pub struct AxisValue {
    /// The value.
    pub value: String,
    /// Groups that have it and a result.
    pub groups: usize,
    /// Their figures; `None` if there are no groups.
    pub range: Option<Range>,
    /// The part that limits most of them.
    pub limit: Option<String>,
}

/// Where figures lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// The least.
    pub least: f64,
    /// The middle one.
    pub median: f64,
    /// The greatest.
    pub greatest: f64,
}

/// A figure by the numbers of an axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// The axis's field.
    pub x: String,
    /// The other axis's field, and its value; `None` if there is no other.
    pub of: Option<(String, String)>,
    /// Numbers of the axis, and the figure.
    pub points: Vec<(f64, Estimate)>,
}

/// The values of an axis that were seen, in order of their first row.
#[derive(Debug, Default)]
struct Values {
    texts: Vec<String>,
    places: HashMap<String, u32>,
}

/// A point with its figure.
#[derive(Debug, Clone)]
struct Sample {
    /// Of each axis but the seed, the place of its value.
    places: Box<[u32]>,
    figure: Estimate,
    /// The place of what limits.
    limit: Option<u32>,
}

impl Summary {
    /// Of results. `figure` is the name of a column; if it is `None`, the usual one.
    ///
    /// # Errors
    /// [`ResultsError`]
    pub fn of(results: &Results, figure: Option<&str>) -> Result<Self, ResultsError> {
        let name = results.figure(figure)?;
        let axes = results.axes();
        let seed = axes.iter().position(|axis| *axis == SEED);
        let mut samples =
            Samples { axes: axes.iter().map(|_| Values::default()).collect(), ..Samples::default() };
        let fixed = results.fixed_columns();
        let ends = name.map(|name| [name.to_owned(), format!("{name}_low"), format!("{name}_high")]);
        let mut names: Vec<&str> = fixed.iter().map(String::as_str).collect();
        names.extend(["limit", IS_STEADY]);
        names.extend(ends.iter().flatten().map(String::as_str));
        results.each_part(&names, |columns| {
            samples.add(&columns, name, seed);
            Ok(())
        })?;
        let figure =
            name.filter(|_| !samples.samples.is_empty()).map(|name| samples.figure(name, &axes, seed));
        let mut limits: Vec<(String, usize)> =
            samples.limits.texts.iter().cloned().zip(samples.limited.iter().copied()).collect();
        limits.sort_by_key(|(_, points)| std::cmp::Reverse(*points));
        Ok(Self {
            what: results.what().to_owned(),
            model: results.model().to_owned(),
            points: samples.points,
            points_of_plan: results.points_of_plan(),
            unsteady: samples.unsteady,
            errors: samples.errors,
            limits,
            figures: results.figures().into_iter().map(ToOwned::to_owned).collect(),
            figure,
        })
    }
}

/// What was read of all parts.
#[derive(Debug, Default)]
struct Samples {
    points: usize,
    unsteady: usize,
    errors: BTreeMap<String, usize>,
    axes: Vec<Values>,
    limits: Values,
    /// Points that each of `limits` limits.
    limited: Vec<usize>,
    samples: Vec<Sample>,
}

impl Samples {
    /// Adds a part's rows.
    fn add(&mut self, columns: &[Column], figure: Option<&str>, seed: Option<usize>) {
        let column = |name: &str| columns.iter().find(|column| column.name == name);
        let number = |name: &str, row: usize| match &column(name)?.cells {
            Cells::Float(cells) => cells.get(row).copied().flatten(),
            Cells::Integer(cells) => cells.get(row).copied().flatten().map(|number| number as f64),
            _ => None,
        };
        let rows = columns.first().map_or(0, |column| column.cells.len());
        for row in 0..rows {
            self.points += 1;
            // Also of a point with an error: a value without any result is shown as that.
            let places = (0..self.axes.len()).filter(|place| Some(*place) != seed).map(|place| {
                let value = columns.get(place).and_then(|column| text(&column.cells, row));
                self.axes[place].place(value.unwrap_or_default())
            });
            let places = places.collect();
            if let Some(error) = column("error").and_then(|errors| text(&errors.cells, row)) {
                *self.errors.entry(error).or_default() += 1;
                continue;
            }
            let is_steady = column(IS_STEADY).map(|column| &column.cells);
            if matches!(is_steady, Some(Cells::Flag(flags)) if flags.get(row) == Some(&Some(false))) {
                self.unsteady += 1;
            }
            let limit = column("limit")
                .and_then(|limits| text(&limits.cells, row))
                .map(|limit| self.limits.place(limit));
            if let Some(limit) = limit {
                self.limited.resize(self.limits.texts.len(), 0);
                self.limited[limit as usize] += 1;
            }
            let Some((name, mean)) = figure.and_then(|name| Some((name, number(name, row)?))) else {
                continue;
            };
            let [low, high] = ["low", "high"].map(|end| number(&format!("{name}_{end}"), row));
            self.samples.push(Sample { places, figure: Estimate { mean, low, high }, limit });
        }
    }

    /// The figure of all samples, of which there is one.
    fn figure(&mut self, name: &str, axes: &[&str], seed: Option<usize>) -> Figure {
        let own: Vec<usize> = (0..axes.len()).filter(|place| Some(*place) != seed).collect();
        let fields: Vec<String> = own.iter().map(|place| axes[*place].to_owned()).collect();
        let values: Vec<&Values> = own.iter().map(|place| &self.axes[*place]).collect();
        let (groups, seeds) = grouped(std::mem::take(&mut self.samples));
        let limit = |place: u32| self.limits.texts[place as usize].clone();
        let group = |sample: &Sample| Group {
            values: (fields.iter().cloned())
                .zip(
                    sample
                        .places
                        .iter()
                        .zip(&values)
                        .map(|(place, values)| values.texts[*place as usize].clone()),
                )
                .collect(),
            figure: sample.figure,
            limit: sample.limit.map(limit),
        };
        let mut by_figure: Vec<&Sample> = groups.iter().collect();
        by_figure.sort_by(|one, other| one.figure.mean.total_cmp(&other.figure.mean));
        let greatest = by_figure.len().saturating_sub(EXTREMES).max(EXTREMES.min(by_figure.len()));
        let extremes = by_figure
            .iter()
            .take(EXTREMES)
            .chain(&by_figure[greatest..])
            .map(|sample| group(sample))
            .collect();
        let effects = (0..fields.len()).map(|axis| AxisEffect {
            field: fields[axis].clone(),
            values: values[axis]
                .in_order()
                .map(|place| effect(&groups, axis, place, values[axis], &limit))
                .collect(),
        });
        Figure {
            name: name.to_owned(),
            extremes,
            groups: groups.len(),
            seeds,
            effects: effects.collect(),
            curves: curves(&groups, &fields, &values),
        }
    }
}

/// One sample for each group, and the fewest and most that a group had.
fn grouped(mut samples: Vec<Sample>) -> (Vec<Sample>, (usize, usize)) {
    samples.sort_by(|one, other| one.places.cmp(&other.places));
    let mut groups = Vec::new();
    let (mut fewest, mut most) = (usize::MAX, 1);
    for group in samples.chunk_by(|one, other| one.places == other.places) {
        let mut sample = group[0].clone();
        let means: Vec<f64> = group.iter().map(|sample| sample.figure.mean).collect();
        // A point alone keeps the interval of its own runs.
        if let (2.., Some(figure)) = (group.len(), Estimate::of(&means)) {
            sample.figure = figure;
        }
        (fewest, most) = (fewest.min(group.len()), most.max(group.len()));
        groups.push(sample);
    }
    (groups, (fewest, most))
}

/// What a figure is at one value of an axis.
fn effect(
    groups: &[Sample],
    axis: usize,
    place: u32,
    values: &Values,
    limit: &impl Fn(u32) -> String,
) -> AxisValue {
    let have: Vec<&Sample> = groups.iter().filter(|group| group.places[axis] == place).collect();
    let mut figures: Vec<f64> = have.iter().map(|group| group.figure.mean).collect();
    figures.sort_by(f64::total_cmp);
    let mut limits: BTreeMap<u32, usize> = BTreeMap::new();
    have.iter().filter_map(|group| group.limit).for_each(|limit| *limits.entry(limit).or_default() += 1);
    AxisValue {
        value: values.texts[place as usize].clone(),
        groups: figures.len(),
        range: Range::of(&figures),
        limit: limits.into_iter().max_by_key(|(_, groups)| *groups).map(|(place, _)| limit(place)),
    }
}

impl Range {
    /// Of figures in their order.
    fn of(figures: &[f64]) -> Option<Self> {
        let (least, greatest, middle) = (*figures.first()?, *figures.last()?, figures.len() / 2);
        let is_odd = figures.len() % 2 == 1;
        let median =
            if is_odd { figures[middle] } else { f64::midpoint(figures[middle - 1], figures[middle]) };
        Some(Self { least, median, greatest })
    }
}

/// Curves over the axis with the most numbers, if there is at most one other.
fn curves(groups: &[Sample], fields: &[String], values: &[&Values]) -> Vec<Curve> {
    let numeric =
        (0..fields.len()).filter(|axis| values[*axis].texts.len() > 1 && values[*axis].numbers().is_some());
    let Some(x) = numeric.max_by_key(|axis| values[*axis].texts.len()) else { return Vec::new() };
    let other = (0..fields.len()).find(|axis| *axis != x);
    let lines = other.map_or(1, |other| values[other].texts.len());
    let (Some(numbers), true) = (values[x].numbers(), fields.len() <= 2 && lines <= CURVES_MAX) else {
        return Vec::new();
    };
    let curve = |line: Option<u32>| {
        let of_line = groups
            .iter()
            .filter(|group| line.zip(other).is_none_or(|(line, other)| group.places[other] == line));
        let mut points: Vec<(f64, Estimate)> =
            of_line.map(|group| (numbers[group.places[x] as usize], group.figure)).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        let of = line
            .zip(other)
            .map(|(line, other)| (fields[other].clone(), values[other].texts[line as usize].clone()));
        Curve { x: fields[x].clone(), of, points }
    };
    match other {
        None => vec![curve(None)],
        Some(other) => values[other].in_order().map(|line| curve(Some(line))).collect(),
    }
}

impl Values {
    /// The place of a value.
    fn place(&mut self, value: String) -> u32 {
        if let Some(place) = self.places.get(&value) {
            return *place;
        }
        let place = self.texts.len() as u32;
        self.texts.push(value.clone());
        self.places.insert(value, place);
        place
    }

    /// All values as numbers; `None` if one is none.
    fn numbers(&self) -> Option<Vec<f64>> {
        self.texts.iter().map(|text| text.parse().ok()).collect()
    }

    /// Places of the values: of numbers in their order, of words as they came.
    fn in_order(&self) -> impl Iterator<Item = u32> {
        let mut places: Vec<u32> = (0..self.texts.len() as u32).collect();
        if let Some(numbers) = self.numbers() {
            places.sort_by(|one, other| numbers[*one as usize].total_cmp(&numbers[*other as usize]));
        }
        places.into_iter()
    }
}

/// A cell as text; `None` if it is null.
fn text(cells: &Cells, row: usize) -> Option<String> {
    match cells {
        Cells::Text(cells) => cells.get(row)?.clone(),
        Cells::Integer(cells) | Cells::Time(cells) => cells.get(row)?.map(|number| number.to_string()),
        Cells::Float(cells) => cells.get(row)?.map(|number| number.to_string()),
        Cells::Flag(cells) => cells.get(row)?.map(|flag| flag.to_string()),
        Cells::Texts(cells) => cells.get(row).map(|texts| texts.join(", ")),
    }
}
