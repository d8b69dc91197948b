//! A sweep on one page: what limits, and how a figure follows from each axis.

use crate::results::{self, Results, ResultsError};
use crate::variance::{self, GridPoint, Share};
use columns::{Cells, Column};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use toll::Estimate;

/// The axis whose values are only different random numbers: points that differ in it alone are one group.
const SEED: &str = "seed";
/// The column that says whether a point's runs were in a steady state.
const IS_STEADY: &str = "runs_is_steady";
/// The column that says with how many seeds, from its own on, a point ran.
const SEEDS: &str = "runs_seeds";
/// Groups with the least and the greatest figure that are listed.
const EXTREMES: usize = 5;
/// Curves that can be told apart in one drawing.
const CURVES_MAX: usize = 8;
/// Columns of a table of two axes.
const COLUMNS_MAX: usize = 12;
/// The least share of two axes together that is shown in full, if there are others.
const INTERACTION_MIN: f64 = 0.01;

/// A sweep's results.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summary {
    /// The plan's words.
    pub what: String,
    /// The version of the model.
    pub model: String,
    /// The machine as the plan describes it, with `"varies"` in place of what an axis sets; `None` if no part says it.
    pub machine: Option<String>,
    /// Points with a row.
    pub points: usize,
    /// Points of the plan; `None` if no part says it, or if there are results of several plans.
    pub points_of_plan: Option<u64>,
    /// How many plans with other values on the same axes the results are of. One that grew is another.
    pub plans: usize,
    /// The number of seeds that a point ran with, if one that differs in its seed alone ran with some of them: intervals are too narrow.
    pub shared_seeds: Option<u64>,
    /// Points whose result is of no steady state: of runs that ended before the figures stayed as they were.
    pub unsteady: usize,
    /// Points without a result, by why; most first.
    pub errors: Vec<ErrorCount>,
    /// How many points each part of the machine limits, most first.
    pub limits: Vec<LimitCount>,
    /// All figures that can be asked for.
    pub figures: Vec<String>,
    /// The figure that was asked for; `None` if no point has a figure.
    pub figure: Option<Figure>,
}

/// How a figure follows from the axes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Figure {
    /// Its name, with its unit last.
    pub name: String,
    /// Groups of points that differ in their seed alone, in order of the figure: the least and the greatest.
    pub extremes: Vec<Group>,
    /// The number of groups.
    pub groups: usize,
    /// The fewest values of seed that a group has.
    pub seeds_fewest: usize,
    /// The most.
    pub seeds_most: usize,
    /// By axis, without seeds.
    pub effects: Vec<AxisEffect>,
    /// The figure by one axis, for each value of another; none where the sweep has more axes, or no numbers on them.
    pub curves: Vec<Curve>,
    /// What part of the figure's variance over the grid axes have, greatest first. None if a combination has no result, or figures are the same.
    pub shares: Vec<VarianceShare>,
    /// The figure by the two axes that have the greatest share together; none if that is small or there are not two.
    pub interaction: Option<Interaction>,
}

/// The share of a figure's variance that one axis has, or two beyond what each has alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VarianceShare {
    /// The fields of one axis, or of two.
    pub fields: Vec<String>,
    /// From 0 to 1.
    pub share: f64,
}

/// A figure by two axes, whatever the others are.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interaction {
    /// The field of the rows.
    pub row_field: String,
    /// The field of the columns.
    pub column_field: String,
    /// Values of the columns.
    pub columns: Vec<String>,
    /// Rows, in order of their values.
    pub rows: Vec<InteractionRow>,
}

/// A figure at one value of an axis, by the values of another.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InteractionRow {
    /// The value.
    pub value: String,
    /// The median of the figure in each column; null where there is no result.
    pub medians: Vec<Option<f64>>,
}

/// Points that differ in their seed alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Group {
    /// The axes' values, without the seed.
    pub values: Vec<FieldValue>,
    /// The figure: over the seeds, or as the point's own runs have it.
    pub figure: Estimate,
    /// The part of the machine that limits; none if the model names none.
    pub limit: Option<String>,
}

/// A figure by the values of an axis, whatever the others are.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AxisEffect {
    /// The axis's field.
    pub field: String,
    /// By value: numbers in order, words as they came.
    pub values: Vec<AxisValue>,
}

/// A figure at one value of an axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AxisValue {
    /// The value.
    pub value: String,
    /// Groups that have it and a result.
    pub groups: usize,
    /// Their figures; `None` if there are no groups.
    pub range: Option<Range>,
    /// The part that limits most of them; null if several limit equally many, or none is named.
    pub limit: Option<String>,
    /// How many of them it limits, or each of several that limit equally many; 0 if none is named.
    pub limit_groups: usize,
}

/// Where figures lie.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Range {
    /// The least.
    pub least: f64,
    /// The middle one.
    pub median: f64,
    /// The greatest.
    pub greatest: f64,
}

/// A figure by the numbers of an axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Curve {
    /// The axis's field.
    pub x: String,
    /// The other axis's value; `None` if there is no other.
    pub of: Option<FieldValue>,
    /// By the axis.
    pub points: Vec<CurvePoint>,
}

/// A figure at a number.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CurvePoint {
    /// The axis's number.
    pub x: f64,
    /// The figure.
    pub figure: Estimate,
}

/// How many points a part of the machine limits.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LimitCount {
    /// The part.
    pub part: String,
    /// The points.
    pub points: usize,
}

/// How many points have no result for the same reason.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorCount {
    /// Why.
    pub error: String,
    /// The points.
    pub points: usize,
}

/// A value of a field.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FieldValue {
    /// The field.
    pub field: String,
    /// Its value.
    pub value: String,
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
    /// Its first seed, and how many it ran with from there on; `None` without an axis of seeds.
    seeds: Option<(i64, u64)>,
}

impl Sample {
    /// How many seeds it ran with, if the next one, whose first seed is not below its own, ran with one of them.
    fn shared_seeds(&self, next: &Self) -> Option<u64> {
        let ((first, seeds), (next, _)) = self.seeds.zip(next.seeds)?;
        (next.abs_diff(first) < seeds).then_some(seeds)
    }
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
        names.extend(["limit", IS_STEADY, SEEDS]);
        names.extend(ends.iter().flatten().map(String::as_str));
        results.each_part(&names, |columns| {
            samples.add(&columns, name, seed);
            Ok(())
        })?;
        let (figure, shared_seeds) = name
            .filter(|_| !samples.samples.is_empty())
            .map(|name| samples.figure(name, &axes, seed))
            .unzip();
        let limit = |(part, points): (&String, &usize)| LimitCount { part: part.clone(), points: *points };
        let mut limits: Vec<LimitCount> =
            samples.limits.texts.iter().zip(&samples.limited).map(limit).collect();
        limits.sort_by_key(|limit| Reverse(limit.points));
        let error = |(error, points)| ErrorCount { error, points };
        let mut errors: Vec<ErrorCount> = samples.errors.into_iter().map(error).collect();
        errors.sort_by_key(|error| Reverse(error.points));
        Ok(Self {
            what: results.what().to_owned(),
            model: results.model().to_owned(),
            machine: results.machine().map(ToOwned::to_owned),
            points: samples.points,
            points_of_plan: results.points_of_plan(),
            plans: results.plans(),
            shared_seeds: shared_seeds.flatten(),
            unsteady: samples.unsteady,
            errors,
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
        let number = |name: &str, row: usize| results::number(&column(name)?.cells, row);
        let integer = |name: &str, row: usize| match &column(name)?.cells {
            Cells::Integer(cells) => cells.get(row).copied().flatten(),
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
            let first = seed.and_then(|axis| integer(&columns.get(axis)?.name, row));
            let seeds = first.zip(integer(SEEDS, row).and_then(|seeds| u64::try_from(seeds).ok()));
            self.samples.push(Sample { places, figure: Estimate { mean, low, high }, limit, seeds });
        }
    }

    /// The figure of all samples, of which there is one, and what [`Summary::shared_seeds`] says.
    fn figure(&mut self, name: &str, axes: &[&str], seed: Option<usize>) -> (Figure, Option<u64>) {
        let own: Vec<usize> = (0..axes.len()).filter(|place| Some(*place) != seed).collect();
        let fields: Vec<String> = own.iter().map(|place| axes[*place].to_owned()).collect();
        let values: Vec<&Values> = own.iter().map(|place| &self.axes[*place]).collect();
        let Groups { groups, seeds_fewest, seeds_most, shared_seeds } =
            Groups::of(std::mem::take(&mut self.samples));
        let limit = |place: u32| self.limits.texts[place as usize].clone();
        let of_sample = |sample: &Sample| {
            let texts =
                sample.places.iter().zip(&values).map(|(place, values)| &values.texts[*place as usize]);
            fields.iter().zip(texts).map(|(field, value)| FieldValue::of(field, value)).collect()
        };
        let group = |sample: &Sample| Group {
            values: of_sample(sample),
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
            values: effect(&groups, axis, values[axis], &limit),
        });
        let points: Vec<GridPoint<'_>> =
            groups.iter().map(|group| (&*group.places, group.figure.mean)).collect();
        let sizes: Vec<usize> = values.iter().map(|values| values.texts.len()).collect();
        // Groups of few seeds have more chance in their means, which would count as a difference between the groups.
        let shares = if seeds_fewest == seeds_most { variance::shares(&points, &sizes) } else { Vec::new() };
        let figure = Figure {
            name: name.to_owned(),
            extremes,
            groups: groups.len(),
            seeds_fewest,
            seeds_most,
            effects: effects.collect(),
            curves: curves(&groups, &fields, &values),
            interaction: interaction(&groups, &fields, &values, &shares),
            shares: shares.iter().map(|share| share.named(&fields)).collect(),
        };
        (figure, shared_seeds)
    }
}

/// Points that differ in their seed alone, as one sample each.
struct Groups {
    groups: Vec<Sample>,
    seeds_fewest: usize,
    seeds_most: usize,
    shared_seeds: Option<u64>,
}

impl Groups {
    fn of(mut samples: Vec<Sample>) -> Self {
        samples.sort_by(|one, other| (&one.places, one.seeds).cmp(&(&other.places, other.seeds)));
        let mut all =
            Self { groups: Vec::new(), seeds_fewest: usize::MAX, seeds_most: 1, shared_seeds: None };
        for group in samples.chunk_by(|one, other| one.places == other.places) {
            let mut sample = group[0].clone();
            let means: Vec<f64> = group.iter().map(|sample| sample.figure.mean).collect();
            // A point alone keeps the interval of its own runs.
            if let (2.., Some(figure)) = (group.len(), Estimate::of(&means)) {
                sample.figure = figure;
            }
            all.shared_seeds =
                all.shared_seeds.or(group.windows(2).find_map(|pair| pair[0].shared_seeds(&pair[1])));
            all.seeds_fewest = all.seeds_fewest.min(group.len());
            all.seeds_most = all.seeds_most.max(group.len());
            all.groups.push(sample);
        }
        all
    }
}

/// What a figure is at each value of an axis.
fn effect(groups: &[Sample], axis: usize, values: &Values, limit: &impl Fn(u32) -> String) -> Vec<AxisValue> {
    let mut by_place: Vec<Vec<&Sample>> = vec![Vec::new(); values.texts.len()];
    groups.iter().for_each(|group| by_place[group.places[axis] as usize].push(group));
    let value = |place: u32| {
        let have = &by_place[place as usize];
        let mut figures: Vec<f64> = have.iter().map(|group| group.figure.mean).collect();
        figures.sort_by(f64::total_cmp);
        let mut limits: BTreeMap<u32, usize> = BTreeMap::new();
        have.iter().filter_map(|group| group.limit).for_each(|limit| *limits.entry(limit).or_default() += 1);
        let most = limits.values().copied().max().unwrap_or(0);
        let mut parts = limits.into_iter().filter(|(_, groups)| *groups == most).map(|(part, _)| part);
        let part = parts.next().filter(|_| parts.next().is_none());
        AxisValue {
            value: values.texts[place as usize].clone(),
            groups: figures.len(),
            range: Range::of(&figures),
            limit: part.map(limit),
            limit_groups: most,
        }
    };
    values.in_order().map(value).collect()
}

impl FieldValue {
    fn of(field: &str, value: &str) -> Self {
        Self { field: field.to_owned(), value: value.to_owned() }
    }
}

impl Share {
    fn named(&self, fields: &[String]) -> VarianceShare {
        let axes = [Some(self.axes.0), self.axes.1].into_iter().flatten();
        VarianceShare { fields: axes.map(|axis| fields[axis].clone()).collect(), share: self.share }
    }
}

/// The figure by the two axes whose share together is the greatest.
fn interaction(
    groups: &[Sample],
    fields: &[String],
    values: &[&Values],
    shares: &[Share],
) -> Option<Interaction> {
    let together = |share: &Share| share.axes.1.map(|other| (share.axes.0, other, share.share));
    let is_shown = |(.., share): &(usize, usize, f64)| *share >= INTERACTION_MIN || fields.len() == 2;
    let (one, other, _) = shares.iter().find_map(together).filter(is_shown)?;
    let by_values = |axis: &usize| values[*axis].texts.len();
    let (rows, columns) = if by_values(&one) >= by_values(&other) { (one, other) } else { (other, one) };
    if by_values(&columns) > COLUMNS_MAX {
        return None;
    }
    let mut figures: HashMap<(u32, u32), Vec<f64>> = HashMap::new();
    for group in groups {
        figures.entry((group.places[rows], group.places[columns])).or_default().push(group.figure.mean);
    }
    figures.values_mut().for_each(|figures| figures.sort_by(f64::total_cmp));
    let median =
        |row, column| figures.get(&(row, column)).and_then(|figures| Some(Range::of(figures)?.median));
    let text = |axis: usize, place: u32| values[axis].texts[place as usize].clone();
    let row = |row| InteractionRow {
        value: text(rows, row),
        medians: values[columns].in_order().map(|column| median(row, column)).collect(),
    };
    Some(Interaction {
        row_field: fields[rows].clone(),
        column_field: fields[columns].clone(),
        columns: values[columns].in_order().map(|column| text(columns, column)).collect(),
        rows: values[rows].in_order().map(row).collect(),
    })
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
        let point =
            |group: &Sample| CurvePoint { x: numbers[group.places[x] as usize], figure: group.figure };
        let mut points: Vec<CurvePoint> = of_line.map(point).collect();
        points.sort_by(|one, other| one.x.total_cmp(&other.x));
        let of = line
            .zip(other)
            .map(|(line, other)| FieldValue::of(&fields[other], &values[other].texts[line as usize]));
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
        self.texts.iter().map(|text| text.parse().ok().filter(|number: &f64| number.is_finite())).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_limits_most_where_several_limit_equally_many() {
        let mut values = Values::default();
        values.place("8".to_owned());
        let limit = |place: u32| ["link", "walker"][place as usize].to_owned();
        let check = |limits: &[Option<u32>], part: Option<&str>, groups: usize| {
            let sample = |limit: &Option<u32>| Sample {
                places: Box::new([0]),
                figure: Estimate { mean: 1.0, low: None, high: None },
                limit: *limit,
                seeds: None,
            };
            let samples: Vec<Sample> = limits.iter().map(sample).collect();
            let [value] = &effect(&samples, 0, &values, &limit)[..] else { panic!() };
            assert_eq!((value.limit.as_deref(), value.limit_groups), (part, groups));
        };
        check(&[Some(0), Some(1), Some(1)], Some("walker"), 2);
        check(&[Some(0), Some(1)], None, 1);
        check(&[None], None, 0);
    }
}
