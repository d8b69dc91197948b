//! Published figures beside ours: what the document `iotoll.reproduction/4` is made of.

use crate::evidence_share::EvidenceShare;
use crate::figure_kind::FigureKind;
use crate::part::Part;
use crate::replications::Replications;
use serde::{Deserialize, Serialize, Serializer};
use toll::{Estimate, Evidence};

/// The version of these types' layout in documents. It grows when a field changes its meaning or goes; new fields leave it as it is.
pub const SCHEMA: &str = "iotoll.reproduction/4";

/// A study of published figures, each beside what a model of the same machine says.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reproduction {
    /// The study's name: `iotlb`.
    pub study: String,
    /// What was asked.
    pub question: String,
    /// How the model answers it.
    pub method: String,
    /// What the model takes as given, each with its evidence.
    pub parameters: Vec<Parameter>,
    /// How many of them were published, measured, calibrated or assumed.
    pub evidence: EvidenceShare,
    /// How far off a figure may be, as a share of its reference; see also [`Curve::within`].
    pub bound: f64,
    /// The figures.
    pub curves: Vec<Curve>,
    /// What is known of figures that were drawn and not told.
    pub charts: Vec<Chart>,
}

/// A parameter of the model, for people.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Parameter {
    /// Its name, the unit last: `walk_ns`.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Where that comes from.
    pub evidence: Evidence,
}

/// Figures of one kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Curve {
    /// What they are of.
    pub name: String,
    /// What is varied, with its unit.
    pub x_title: String,
    /// What the figures are, with their unit.
    pub y_title: String,
    /// What ours are held against.
    pub reference: Reference,
    /// Where that was published, or how it was measured.
    pub source: String,
    /// How far off figures may be, in the figures' own unit, where it is not the study's share that counts.
    pub within: Option<f64>,
    /// Why figures are off where they are, and what their kinds rest on.
    pub remark: Option<String>,
    /// The figures.
    pub points: Vec<Point>,
}

/// What a curve's figures are held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Reference {
    /// Published figures.
    #[default]
    Published,
    /// Figures that this project measured.
    Measured,
}

impl Reference {
    /// The title of its column.
    pub fn word(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Measured => "measured here",
        }
    }
}

/// A figure and ours.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Point {
    /// Where on the curve.
    pub x: f64,
    /// What was published, or measured: see [`Curve::reference`].
    pub reference: f64,
    /// What the model says: the mean over several seeds.
    pub ours: f64,
    /// The lower end of its 95 % interval: `ours` if no seed changes it.
    pub ours_low: f64,
    /// The interval's upper end.
    pub ours_high: f64,
    /// What agreement would prove.
    pub kind: FigureKind,
    /// The row that it repeats, if that is its kind.
    pub repeats: Option<Row>,
    /// The busiest part of its run; null where the figure is not that of a single run.
    pub limit: Option<Part>,
}

/// A row of a study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The name of its curve.
    pub curve: String,
    /// Where on the curve.
    pub x: f64,
}

/// Our lines where no figures were published, but perhaps between what theirs lie: the ends of a drawing's axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Chart {
    /// What they are of.
    pub name: String,
    /// What is varied, with its unit.
    pub x_title: String,
    /// What is drawn, with its unit.
    pub y_title: String,
    /// Where it was published.
    pub source: String,
    /// What there is to say of it.
    pub remark: Option<String>,
    /// Names of what is varied, where it has no numbers: at 1, 2, ... Then there are bars in place of lines.
    pub categories: Vec<String>,
    /// The lines.
    pub lines: Vec<Line>,
}

/// A line of ours.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Line {
    /// Of what.
    pub name: String,
    /// Between what the published one lies; `None` if there is none.
    pub bounds: Option<Bounds>,
    /// Where, and what the model says there.
    #[serde(serialize_with = "serialize_points")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<LinePoint>"))]
    pub points: Vec<(f64, f64)>,
}

/// A point of a line, as documents have it.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct LinePoint {
    /// Where on the line.
    x: f64,
    /// What the model says there.
    ours: f64,
}

/// Serializes points as objects with names.
fn serialize_points<S: Serializer>(points: &[(f64, f64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(points.iter().map(|&(x, ours)| LinePoint { x, ours }))
}

/// Between what a published line lies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// Nothing of it is below.
    pub low: f64,
    /// Nor above.
    pub high: f64,
    /// It ends here.
    pub x_max: f64,
}

impl Bounds {
    /// Whether they are within a hundredth of each other: what is held against them wants more digits.
    pub fn is_narrow(&self) -> bool {
        self.high - self.low < 0.01 * self.high.abs()
    }
}

/// Rows, and those of them that are too far off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Rows.
    pub rows: usize,
    /// Those of them that miss.
    pub missed: usize,
}

impl Tally {
    fn of_row(is_missed: bool) -> Self {
        Self { rows: 1, missed: usize::from(is_missed) }
    }

    /// Rows that are within their bound.
    pub fn within(self) -> usize {
        self.rows - self.missed
    }
}

impl std::iter::Sum for Tally {
    fn sum<Tallies: Iterator<Item = Self>>(all: Tallies) -> Self {
        let add = |sum: Self, one: Self| Self { rows: sum.rows + one.rows, missed: sum.missed + one.missed };
        all.fold(Self::default(), add)
    }
}

impl Point {
    /// Ours with its interval.
    pub fn estimate(&self) -> Estimate {
        Estimate { mean: self.ours, low: Some(self.ours_low), high: Some(self.ours_high) }
    }

    /// How far off ours is, as a share of the reference.
    pub fn error(&self) -> f64 {
        self.ours / self.reference - 1.0
    }
}

impl Curve {
    /// Whether there is a line to draw.
    pub fn is_line(&self) -> bool {
        self.points.len() > 1
    }

    /// Whether one of its figures is further off than it may be, by `bound` where the curve has none of its own. A calibrated
    /// figure is not a miss.
    pub fn misses(&self, point: &Point, bound: f64) -> bool {
        point.kind.can_miss() && !self.is_within(point, point.ours, bound)
    }

    /// Whether the interval of one of its figures leaves open whether that misses.
    pub fn is_open(&self, point: &Point, bound: f64) -> bool {
        let Point { ours, ours_low: low, ours_high: high, reference, .. } = *point;
        let nearest = reference.max(low).min(high);
        let is_within = |ours| self.is_within(point, ours, bound);
        point.kind.can_miss()
            && [low, nearest, high].into_iter().any(|other| is_within(other) != is_within(ours))
    }

    /// Whether a value for one of its points is as near as it must be. What is no number isn't.
    fn is_within(&self, point: &Point, ours: f64, bound: f64) -> bool {
        match self.within {
            Some(within) => (ours - point.reference).abs() <= within,
            None => (ours / point.reference - 1.0).abs() <= bound,
        }
    }
}

impl Line {
    /// Whether a point of ours lies where the published line does not; `None` if that one does not come so far.
    pub fn is_outside(&self, (x, ours): (f64, f64)) -> Option<bool> {
        let bounds = self.bounds.filter(|bounds| x <= bounds.x_max)?;
        Some(!(bounds.low..=bounds.high).contains(&ours))
    }
}

impl Reproduction {
    /// The mean of some runs of a study, with the intervals of its figures. What is not random is that of the first. A line is the
    /// mean of the runs that drew it.
    pub(crate) fn mean(runs: &Replications<Self>) -> Self {
        let mut one = runs.first().clone();
        for (curve_place, curve) in one.curves.iter_mut().enumerate() {
            for (place, point) in curve.points.iter_mut().enumerate() {
                let ours = runs.estimate(|run| run.curves[curve_place].points[place].ours);
                let Estimate { mean, low, high } = ours;
                (point.ours, point.ours_low, point.ours_high) =
                    (mean, low.unwrap_or(mean), high.unwrap_or(mean));
            }
        }
        for (chart_place, chart) in one.charts.iter_mut().enumerate() {
            for (line_place, line) in chart.lines.iter_mut().enumerate() {
                for (place, point) in line.points.iter_mut().enumerate() {
                    let ours =
                        |run: &Self| Some(run.charts.get(chart_place)?.lines[line_place].points[place].1);
                    point.1 = runs.estimate_known(ours).map_or(f64::NAN, |ours| ours.mean);
                }
            }
        }
        one
    }

    /// Points where only bounds were published, and those of them outside.
    pub fn bounded(&self) -> Tally {
        let lines = self.charts.iter().flat_map(|chart| &chart.lines);
        let checked = lines.flat_map(|line| line.points.iter().filter_map(|&point| line.is_outside(point)));
        checked.map(Tally::of_row).sum()
    }

    /// Rows of the kinds that `is_wanted` selects.
    pub fn tally(&self, is_wanted: impl Fn(FigureKind) -> bool) -> Tally {
        let rows = self.curves.iter().flat_map(|curve| curve.points.iter().map(move |point| (curve, point)));
        rows.filter(|(_, point)| is_wanted(point.kind))
            .map(|(curve, point)| Tally::of_row(curve.misses(point, self.bound)))
            .sum()
    }

    /// Rows of which a hit counts: those out of sample.
    pub fn out_of_sample(&self) -> Tally {
        self.tally(|kind| kind == FigureKind::OutOfSample)
    }

    /// Rows of which only a miss counts.
    pub fn others(&self) -> Tally {
        self.tally(|kind| kind.can_miss() && kind != FigureKind::OutOfSample)
    }

    /// Rows that miss, of whatever kind, and points outside published bounds.
    pub fn misses(&self) -> usize {
        self.tally(FigureKind::can_miss).missed + self.bounded().missed
    }

    /// Compares with the same study without changed parameters: a row whose value differs is of the kind
    /// [`FigureKind::Changed`], and a parameter whose value differs was given by the user.
    pub(crate) fn mark_changes(&mut self, given: &Self) {
        for (curve, as_given) in self.curves.iter_mut().zip(&given.curves) {
            for (point, as_given) in curve.points.iter_mut().zip(&as_given.points) {
                if point.ours.to_bits() != as_given.ours.to_bits() {
                    point.kind = FigureKind::Changed;
                    point.repeats = None;
                }
            }
        }
        let mut evidence = EvidenceShare::default();
        for (parameter, as_given) in self.parameters.iter().zip(&given.parameters) {
            let is_given = parameter.value.to_bits() == as_given.value.to_bits();
            evidence.add(is_given.then_some(&parameter.evidence));
        }
        self.evidence = evidence;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(ours: f64, kind: FigureKind) -> Point {
        Point {
            x: 1.0,
            reference: 100.0,
            ours,
            ours_low: ours,
            ours_high: ours,
            kind,
            repeats: None,
            limit: None,
        }
    }

    fn curve(within: Option<f64>, points: Vec<Point>) -> Curve {
        Curve {
            name: String::new(),
            x_title: String::new(),
            y_title: String::new(),
            reference: Reference::Published,
            source: String::new(),
            within,
            remark: None,
            points,
        }
    }

    fn study(points: Vec<Point>, value: f64) -> Reproduction {
        let evidence = Evidence::Assumed { why: String::new() };
        let parameters = vec![Parameter { name: "p".to_owned(), value, evidence }];
        Reproduction {
            study: String::new(),
            question: String::new(),
            method: String::new(),
            evidence: EvidenceShare::of_parameters(&parameters),
            parameters,
            bound: 0.1,
            curves: vec![curve(None, points)],
            charts: Vec::new(),
        }
    }

    #[test]
    fn all_kinds_but_calibrated_can_miss() {
        let misses = |ours, kind| curve(None, Vec::new()).misses(&point(ours, kind), 0.1);
        for kind in FigureKind::OF_ROWS {
            assert_eq!(misses(120.0, kind), kind != FigureKind::Calibrated, "{kind:?}");
            assert!(!misses(109.0, kind), "{kind:?}");
        }
        assert!(misses(89.0, FigureKind::Rule) && misses(f64::NAN, FigureKind::Repeats));
        assert!((point(89.0, FigureKind::Rule).error() + 0.11).abs() < 1e-9);
        let wide = Point { ours_low: 105.0, ours_high: 113.0, ..point(109.0, FigureKind::Rule) };
        let curve_of = |point: Point| {
            (curve(None, Vec::new()).misses(&point, 0.1), curve(None, Vec::new()).is_open(&point, 0.1))
        };
        assert_eq!(curve_of(wide.clone()), (false, true), "109 is within 10 %, and 113 isn't");
        assert_eq!(curve_of(Point { ours_high: 109.9, ..wide }), (false, false));
        let around = Point { ours_low: 80.0, ours_high: 150.0, ..point(115.0, FigureKind::Rule) };
        assert_eq!(curve_of(around), (true, true), "the ends miss, and what is between them doesn't");
        let by_unit =
            |within| curve(Some(within), Vec::new()).misses(&point(97.5, FigureKind::OutOfSample), 0.0);
        assert!(by_unit(2.0) && !by_unit(3.0));
    }

    #[test]
    fn only_hits_out_of_sample_count() {
        let off = FigureKind::OF_ROWS.map(|kind| point(150.0, kind));
        let met = FigureKind::OF_ROWS.map(|kind| point(100.0, kind));
        let one = study(off.into_iter().chain(met).collect(), 1.0);
        assert_eq!(one.out_of_sample(), Tally { rows: 2, missed: 1 });
        assert_eq!(one.others(), Tally { rows: 10, missed: 5 });
        assert_eq!(one.misses(), 6);
    }

    #[test]
    fn a_row_is_changed_only_if_its_value_is() {
        let kinds = |ours: [f64; 2], value| {
            let rows =
                |[a, b]: [f64; 2]| vec![point(a, FigureKind::Calibrated), point(b, FigureKind::OutOfSample)];
            let mut one = study(rows(ours), value);
            one.mark_changes(&study(rows([1.0, 2.0]), 5.0));
            (one.curves[0].points.iter().map(|point| point.kind).collect::<Vec<_>>(), one.evidence)
        };
        let assumed = EvidenceShare { assumed: 1, ..EvidenceShare::default() };
        let given = EvidenceShare { given: 1, ..EvidenceShare::default() };
        assert_eq!(kinds([1.0, 2.0], 5.0), (vec![FigureKind::Calibrated, FigureKind::OutOfSample], assumed));
        assert_eq!(kinds([1.5, 2.0], 6.0), (vec![FigureKind::Changed, FigureKind::OutOfSample], given));
    }

    #[test]
    fn bounds_hold_as_far_as_the_published_line_goes() {
        let bounds = Some(Bounds { low: 1.0, high: 10.0, x_max: 8.0 });
        let points = vec![(1.0, 1.0), (8.0, 10.1), (16.0, 100.0)];
        let line = Line { name: String::new(), bounds, points };
        assert_eq!([0, 1, 2].map(|at| line.is_outside(line.points[at])), [Some(false), Some(true), None]);
        assert_eq!(line.is_outside((1.0, f64::NAN)), Some(true), "what is no number is outside");
        assert_eq!(Line { bounds: None, ..line }.is_outside((1.0, 1.0)), None);
    }
}
