//! Changes between two toll sheets, as rows of a table.

use crate::{Average, Change, Changed, Count, Event, Side, Stage};
use serde::Serialize;

/// What kind of change a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ChangeKind {
    /// The workload is in one of the sheets only.
    Workload,
    /// An I/O moves another amount of bytes.
    BytesPerIo,
    /// Events of a kind were counted for one of the sheets only.
    Uncounted,
    /// Instructions of an I/O.
    Instructions,
    /// Instructions of a stage.
    Stage,
    /// Instructions of a function.
    Function,
    /// Events of a kind.
    Event,
    /// Events of a kind with one name.
    NamedEvent,
}

/// A [`Change`] as documents have it. All rows have the same fields; fields that do not apply are null.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChangeRow {
    /// The workload.
    pub workload: String,
    /// The kind of change.
    pub change: ChangeKind,
    /// The sheet that has it, if only one does.
    pub only_in: Option<Side>,
    /// The stage whose instructions were counted.
    pub stage: Option<Stage>,
    /// The function whose instructions were counted.
    pub function: Option<String>,
    /// The kind of event that was counted.
    pub event: Option<Event>,
    /// The name of the event: a hypercall, a command, a register.
    pub event_name: Option<String>,
    /// Which average of the windows the amounts are.
    pub average: Option<Average>,
    /// The amount in the first sheet: bytes, instructions or events per I/O.
    pub a: Option<f64>,
    /// The amount in the second sheet.
    pub b: Option<f64>,
    /// Whether an amount grew beyond the limit.
    pub grew: bool,
    /// Whether an amount is less or, beyond the limit, more, but the boots leave open whether it shrank or grew.
    pub may_be_chance: bool,
}

impl ChangeRow {
    /// The row of a change.
    pub fn new(change: &Change) -> Self {
        let row = Self::empty(&change.workload);
        match &change.what {
            Changed::Workload { only_in } => {
                Self { only_in: Some(*only_in), change: ChangeKind::Workload, ..row }
            }
            Changed::BytesPerIo { a, b } => Self { a: Some(*a as f64), b: Some(*b as f64), ..row },
            Changed::Uncounted { event, only_in, mean_per_io } => {
                let (a, b) = match only_in {
                    Side::A => (Some(*mean_per_io), None),
                    Side::B => (None, Some(*mean_per_io)),
                };
                let (only_in, event, average) = (Some(*only_in), Some(*event), Some(Average::Mean));
                Self { change: ChangeKind::Uncounted, only_in, event, average, a, b, ..row }
            }
            Changed::Count { count, a, b, grew, may_be_chance } => {
                let (grew, may_be_chance) = (*grew, *may_be_chance);
                Self { a: Some(*a), b: Some(*b), grew, may_be_chance, ..row }.with_count(count)
            }
        }
    }

    /// A row in which only the workload is set; `change` is a placeholder.
    fn empty(workload: &str) -> Self {
        Self {
            workload: workload.to_owned(),
            change: ChangeKind::BytesPerIo,
            only_in: None,
            stage: None,
            function: None,
            event: None,
            event_name: None,
            average: None,
            a: None,
            b: None,
            grew: false,
            may_be_chance: false,
        }
    }

    /// Sets the kind of change and the fields that name the count.
    fn with_count(self, count: &Count) -> Self {
        match count.clone() {
            Count::Instructions => {
                Self { change: ChangeKind::Instructions, average: Some(Average::Median), ..self }
            }
            Count::Stage { stage } => Self { change: ChangeKind::Stage, stage: Some(stage), ..self },
            Count::Function { function } => {
                Self { change: ChangeKind::Function, function: Some(function), ..self }
            }
            Count::Event { event, average } => {
                Self { change: ChangeKind::Event, event: Some(event), average: Some(average), ..self }
            }
            Count::NamedEvent { event, name, average } => {
                let (event, event_name, average) = (Some(event), Some(name), Some(average));
                Self { change: ChangeKind::NamedEvent, event, event_name, average, ..self }
            }
        }
    }
}
