//! What a comparison says, as data.

use crate::document::{DocumentError, Kind};
use crate::explanation::Explanation;
use crate::head::ReadHead;
use crate::quantity::{Quantity, Unit};
use crate::ratio::Ratio;
use crate::sample::Sample;
use bench::HostSummary;
use serde::Serialize;
use std::cmp::Ordering;
use toll::Stage;

/// The document's schema. Its version increases when a field is removed or changes its meaning, not for new fields.
pub const SCHEMA: &str = "iotoll.compare/1";

/// Documents of one kind, compared: those before a change with those after it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// The schema of all documents.
    pub documents: &'static str,
    /// The document before; the first, if there are several.
    pub before: Source,
    /// The document after; the first, if there are several.
    pub after: Source,
    /// All documents of each side.
    pub runs: Runs,
    /// What else differs between the documents, and may be the reason.
    pub differences: Vec<Difference>,
    /// Reasons to doubt the figures.
    pub doubts: Vec<Doubt>,
    /// What is compared, the whole first.
    pub groups: Vec<Group>,
}

impl Comparison {
    /// Fails if a side has no document.
    pub(crate) fn new(
        kind: Kind,
        runs: Runs,
        differences: Vec<Difference>,
        doubts: Vec<Doubt>,
        groups: Vec<Group>,
    ) -> Result<Self, DocumentError> {
        let first = |side, runs: &[Source]| {
            runs.first().cloned().ok_or(DocumentError::Number { side, number: runs.len() })
        };
        Ok(Self {
            documents: kind.schema(),
            before: first(Side::Before, &runs.before)?,
            after: first(Side::After, &runs.after)?,
            runs,
            differences,
            doubts,
            groups,
        })
    }

    /// What intervals are from.
    pub fn sample(&self) -> Sample {
        Sample::of(self.runs.before.len(), self.runs.after.len())
    }

    /// Whether a side has several documents.
    pub fn has_several_runs(&self) -> bool {
        self.runs.before.len() > 1 || self.runs.after.len() > 1
    }
}

/// All documents of each side, in the order in which they were given. Each is one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Runs {
    /// The documents before.
    pub before: Vec<Source>,
    /// The documents after.
    pub after: Vec<Source>,
}

/// Where a document comes from.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Source {
    /// Its file.
    pub file: String,
    /// The program that made it, and its version.
    pub made_by: String,
    /// The command line.
    pub command: Vec<String>,
    /// The day, YYYY-MM-DD.
    pub date: String,
    /// The machine that was measured.
    pub machine: HostSummary,
    /// Seconds that were watched, in documents of `iotoll watch`.
    pub seconds: Option<f64>,
    /// Intervals in documents of `iotoll watch`.
    pub intervals: Option<usize>,
}

impl Source {
    pub(crate) fn new(file: &str, head: ReadHead) -> Self {
        let ReadHead { made_by, command, date, machine, .. } = head;
        Self { file: file.to_owned(), made_by, command, date, machine, seconds: None, intervals: None }
    }
}

/// One of the two sides of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The first.
    Before,
    /// The second.
    After,
}

impl Side {
    /// Its name, as the command line has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Before => "BEFORE",
            Self::After => "AFTER",
        }
    }
}

/// Something besides the counts that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// What: `kernel`, `command` and so on.
    pub what: String,
    /// Before; null if it is unknown or there was none.
    pub before: Option<String>,
    /// After; null if it is unknown or there was none.
    pub after: Option<String>,
}

/// A reason to doubt figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Doubt {
    /// The side it is about; null if about both.
    pub side: Option<Side>,
    /// The documents that it is about; empty if about all of the side, or of both.
    pub files: Vec<String>,
    /// The reason.
    pub words: String,
}

/// What a group of figures is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum GroupKind {
    /// All adapters, and what worked for none.
    AllAdapters,
    /// One adapter, or a device that is none.
    Adapter,
    /// A case of a benchmark.
    Case,
}

/// Figures that belong together.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Group {
    /// What it is about.
    pub kind: GroupKind,
    /// The adapter's PCI address or name, empty for what worked for no device; or the case.
    pub name: String,
    /// What the counts say of the reason.
    pub explanations: Vec<Explanation>,
    /// The figures.
    pub rows: Vec<Row>,
}

impl Group {
    /// The row of a quantity, of all stages.
    pub fn row(&self, quantity: Quantity) -> Option<&Row> {
        self.rows.iter().find(|row| row.quantity == quantity && row.stage.is_none())
    }
}

/// Whether a ratio is more or less than 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Sign {
    /// More than 1.
    More,
    /// Less than 1.
    Less,
}

/// A figure before and after.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Row {
    /// What is compared.
    pub quantity: Quantity,
    /// The stage, of CPU time by stage.
    pub stage: Option<Stage>,
    /// The contestant of a benchmark.
    pub contestant: Option<String>,
    /// What the figures are divided by.
    pub unit: Unit,
    /// Before; null if it was not counted.
    pub before: Option<f64>,
    /// After; null if it was not counted.
    pub after: Option<f64>,
    /// How many documents before have the figure. Those that do not are left out, and not taken for 0.
    pub runs_before: usize,
    /// How many documents after have it.
    pub runs_after: usize,
    /// After by before; null if `reason` says why.
    pub ratio: Option<f64>,
    /// The lower end of the ratio's 95 % confidence interval; null if `reason` says why.
    pub ratio_low: Option<f64>,
    /// Its upper end.
    pub ratio_high: Option<f64>,
    /// What the interval is from; null if there is none.
    pub sample: Option<Sample>,
    /// Whether the ratio is more or less than 1; null if the interval leaves that open, or there is none.
    pub sign: Option<Sign>,
    /// Why there is no ratio, or no interval.
    pub reason: Option<String>,
}

impl Row {
    /// A row without figures.
    pub(crate) fn new(quantity: Quantity, unit: Unit) -> Self {
        Self {
            quantity,
            stage: None,
            contestant: None,
            unit,
            before: None,
            after: None,
            runs_before: 0,
            runs_after: 0,
            ratio: None,
            ratio_low: None,
            ratio_high: None,
            sample: None,
            sign: None,
            reason: None,
        }
    }

    /// The row with both figures and their ratio, if the figure before is more than 0; the interval is still missing, for this reason.
    pub(crate) fn with_figures(self, before: f64, after: f64, reason: impl Into<String>) -> Self {
        let ratio = Some(after / before).filter(|ratio| before > 0.0 && ratio.is_finite());
        let reason = match ratio {
            Some(_) => Some(reason.into()),
            None if after == before => None,
            None => Some("it was 0 before".to_owned()),
        };
        Self { before: Some(before), after: Some(after), ratio, reason, ..self }
    }

    /// The row with the interval of its ratio, and what that is from.
    pub(crate) fn with_interval(self, interval: Ratio, sample: Sample) -> Self {
        let sign = interval.sign().and_then(|sign| match sign {
            Ordering::Greater => Some(Sign::More),
            Ordering::Less => Some(Sign::Less),
            Ordering::Equal => None,
        });
        let Ratio { ratio, low, high } = interval;
        Self {
            ratio: Some(ratio),
            ratio_low: Some(low),
            ratio_high: Some(high),
            sample: Some(sample),
            sign,
            reason: None,
            ..self
        }
    }

    /// The ratio with its interval, if it has one.
    pub fn interval(&self) -> Option<Ratio> {
        Some(Ratio { ratio: self.ratio?, low: self.ratio_low?, high: self.ratio_high? })
    }

    /// Whether there is nothing to show: both figures are 0.
    pub fn is_nothing(&self) -> bool {
        self.before == Some(0.0) && self.after == Some(0.0)
    }
}
