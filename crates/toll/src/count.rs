//! Names of all counts of a toll, so that they can be compared in one table.

use crate::{Event, Occurrence, Stage, Toll};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// How the windows of a workload are averaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Average {
    /// The median of the windows: the cost of a typical I/O.
    Median,
    /// The total divided by the number of I/Os, which includes rare events.
    Mean,
}

/// The name of a count.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Count {
    /// Instructions, by the median.
    Instructions,
    /// Instructions of a stage in the median window.
    Stage {
        /// The stage.
        stage: Stage,
    },
    /// Instructions of a function in the median window.
    Function {
        /// Its name.
        function: String,
    },
    /// Events of a kind.
    Event {
        /// The kind.
        event: Event,
        /// Median or mean.
        average: Average,
    },
    /// Events of a kind that have a name.
    NamedEvent {
        /// The kind.
        event: Event,
        /// The name.
        name: String,
        /// Median or mean.
        average: Average,
    },
}

impl Count {
    /// The kind of event; `None` for instructions.
    pub fn event(&self) -> Option<Event> {
        match self {
            Self::Event { event, .. } | Self::NamedEvent { event, .. } => Some(*event),
            Self::Instructions | Self::Stage { .. } | Self::Function { .. } => None,
        }
    }

    /// For a mean, the name of the median of the same events; otherwise `None`.
    pub fn median(&self) -> Option<Self> {
        let average = Average::Median;
        match self {
            Self::Event { event, average: Average::Mean } => Some(Self::Event { event: *event, average }),
            Self::NamedEvent { event, name, average: Average::Mean } => {
                Some(Self::NamedEvent { event: *event, name: name.clone(), average })
            }
            _ => None,
        }
    }

    /// Whether it is a sum, not a part of another count. A part may grow because another part shrank.
    pub fn is_whole(&self) -> bool {
        matches!(self, Self::Instructions | Self::Event { .. })
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instructions => f.write_str("instructions"),
            Self::Stage { stage } => write!(f, "{stage}"),
            Self::Function { function } => f.write_str(function),
            Self::Event { event, average: Average::Median } => write!(f, "{event}"),
            Self::Event { event, average: Average::Mean } => write!(f, "{event} (mean)"),
            Self::NamedEvent { event, name, average: Average::Median } => write!(f, "{event} {name}"),
            Self::NamedEvent { event, name, average: Average::Mean } => write!(f, "{event} {name} (mean)"),
        }
    }
}

impl Toll {
    /// All counts by name, per I/O. A stage, function or event that is missing was not counted.
    pub fn counts(&self) -> BTreeMap<Count, f64> {
        let mut counts = BTreeMap::from([(Count::Instructions, self.per_io(self.instructions.median))]);
        counts.extend(self.stages.iter().map(|(stage, n)| (Count::Stage { stage: *stage }, self.per_io(*n))));
        let function =
            |(name, n): (&String, &u64)| (Count::Function { function: name.clone() }, self.per_io(*n));
        counts.extend(self.functions.iter().map(function));
        for (&event, tally) in &self.events {
            let all = |average| Count::Event { event, average };
            counts.extend(self.averages(tally.all, all));
            for (name, named) in &tally.by_name {
                let one = |average| Count::NamedEvent { event, name: name.clone(), average };
                counts.extend(self.averages(*named, one));
            }
        }
        counts
    }

    /// The median and the mean of an event, per I/O, each with its name.
    fn averages(&self, seen: Occurrence, count: impl Fn(Average) -> Count) -> [(Count, f64); 2] {
        [
            (count(Average::Median), self.per_io(seen.median)),
            (count(Average::Mean), self.mean_per_io(seen.total)),
        ]
    }
}
