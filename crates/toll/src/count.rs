//! Everything a toll counts, under one kind of name.

use crate::{Event, Occurrence, Stage, Toll};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// What is typical of many windows, and what they come to together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Average {
    /// The median of the windows: what most I/Os pay.
    Median,
    /// The total by the number of I/Os: shows what is rare, too.
    Mean,
}

/// The name of a count.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(tag = "of", rename_all = "kebab-case")]
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
        /// Typical, or all.
        average: Average,
    },
    /// Events of a kind that have a name.
    NamedEvent {
        /// The kind.
        event: Event,
        /// The name.
        name: String,
        /// Typical, or all.
        average: Average,
    },
}

impl Count {
    /// The kind of event that is counted, if events are.
    pub fn event(&self) -> Option<Event> {
        match self {
            Self::Event { event, .. } | Self::NamedEvent { event, .. } => Some(*event),
            Self::Instructions | Self::Stage { .. } | Self::Function { .. } => None,
        }
    }

    /// For a mean, the median of the same.
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

    /// Whether it is a sum that the others only divide: its growth is growth, theirs may be a move.
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
    /// All its counts, per I/O. Of what is not in it, nothing was counted.
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

    fn averages(&self, seen: Occurrence, count: impl Fn(Average) -> Count) -> [(Count, f64); 2] {
        [
            (count(Average::Median), self.per_io(seen.median)),
            (count(Average::Mean), self.mean_per_io(seen.total)),
        ]
    }
}
