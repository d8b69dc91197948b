//! Serialises maps of counts as rows of a table.
//!
//! In memory they are maps. In documents they are arrays whose rows all have the same fields, because a column store
//! makes a column of each key of an object. A field says so with `#[serde(with = "rows")]`.

use crate::{Estimate, Event, EventDifference, Occurrence, Stage, Tally};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

/// An entry of a map that is written as a row.
pub(crate) trait Entry {
    /// The key, different in all rows.
    type Key: Ord + Clone + fmt::Display;
    /// The count.
    type Value: Clone;
    /// The row's fields.
    type Row: Serialize + DeserializeOwned;

    /// The row of an entry.
    fn row(key: Self::Key, value: Self::Value) -> Self::Row;

    /// The entry of a row.
    fn from_row(row: Self::Row) -> (Self::Key, Self::Value);
}

/// Writes a map as an array of rows, in the order of their keys.
pub(crate) fn serialize<K, V, S: Serializer>(map: &BTreeMap<K, V>, serializer: S) -> Result<S::Ok, S::Error>
where
    (K, V): Entry<Key = K, Value = V>,
    K: Clone,
    V: Clone,
{
    serializer.collect_seq(map.iter().map(|(key, value)| <(K, V)>::row(key.clone(), value.clone())))
}

/// Reads an array of rows as a map.
///
/// # Errors
/// If the rows can't be deserialised, or two of them have the same key.
pub(crate) fn deserialize<'de, K, V, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<K, V>, D::Error>
where
    (K, V): Entry<Key = K, Value = V>,
    K: Ord + Clone + fmt::Display,
{
    let mut map = BTreeMap::new();
    for row in Vec::<<(K, V) as Entry>::Row>::deserialize(deserializer)? {
        let (key, value) = <(K, V)>::from_row(row);
        if map.insert(key.clone(), value).is_some() {
            return Err(D::Error::custom(format_args!("two rows of `{key}`; expected one")));
        }
    }
    Ok(map)
}

/// Instructions of a stage.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct StageRow<T> {
    /// The stage.
    stage: Stage,
    /// Instructions in it.
    instructions: T,
}

/// Instructions of a function.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct FunctionRow<T> {
    /// The function's name in the symbol table.
    function: String,
    /// Instructions in it, without those of functions that it calls.
    instructions: T,
}

/// Events of a kind.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct EventRow {
    /// The kind of event.
    event: Event,
    /// The median of all windows, per window.
    median: u64,
    /// The total of all windows, which includes rare events such as the invalidation of a whole batch.
    total: u64,
    /// The same by name (of the hypercall, the command, the register ...), if names are known. Then every event has a name, and the totals add
    /// up to `total`; medians may not.
    #[serde(with = "self")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<NamedEventRow>"))]
    by_name: BTreeMap<String, Occurrence>,
}

/// Events of a kind that have a name.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct NamedEventRow {
    /// The name.
    name: String,
    /// The median of all windows, per window.
    median: u64,
    /// The total of all windows.
    total: u64,
}

/// The difference in events of a kind between two tolls.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct EventDifferenceRow {
    /// The kind of event.
    event: Event,
    /// Difference of the medians.
    median: f64,
    /// Difference of the boots' means.
    mean: Estimate,
}

impl Entry for (Event, Tally) {
    type Key = Event;
    type Value = Tally;
    type Row = EventRow;

    fn row(event: Event, tally: Tally) -> EventRow {
        let Tally { all: Occurrence { median, total }, by_name } = tally;
        EventRow { event, median, total, by_name }
    }

    fn from_row(row: EventRow) -> (Event, Tally) {
        let EventRow { event, median, total, by_name } = row;
        (event, Tally { all: Occurrence { median, total }, by_name })
    }
}

impl Entry for (String, Occurrence) {
    type Key = String;
    type Value = Occurrence;
    type Row = NamedEventRow;

    fn row(name: String, Occurrence { median, total }: Occurrence) -> NamedEventRow {
        NamedEventRow { name, median, total }
    }

    fn from_row(NamedEventRow { name, median, total }: NamedEventRow) -> (String, Occurrence) {
        (name, Occurrence { median, total })
    }
}

impl Entry for (Event, EventDifference) {
    type Key = Event;
    type Value = EventDifference;
    type Row = EventDifferenceRow;

    fn row(event: Event, EventDifference { median, mean }: EventDifference) -> EventDifferenceRow {
        EventDifferenceRow { event, median, mean }
    }

    fn from_row(EventDifferenceRow { event, median, mean }: EventDifferenceRow) -> (Event, EventDifference) {
        (event, EventDifference { median, mean })
    }
}

/// Implements [`Entry`] for rows of a key and a number.
macro_rules! entries {
    ($(($key:ty, $value:ty): $row:ident { $name:ident, $count:ident };)*) => {$(
        impl Entry for ($key, $value) {
            type Key = $key;
            type Value = $value;
            type Row = $row<$value>;

            fn row($name: $key, $count: $value) -> $row<$value> {
                $row { $name, $count }
            }

            fn from_row($row { $name, $count }: $row<$value>) -> ($key, $value) {
                ($name, $count)
            }
        }
    )*};
}

/// Events of a kind, as a single number.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct EventCountRow<T> {
    /// The kind of event.
    event: Event,
    /// How many.
    count: T,
}

entries! {
    (Stage, u64): StageRow { stage, instructions };
    (Stage, Estimate): StageRow { stage, instructions };
    (String, u64): FunctionRow { function, instructions };
    (String, f64): FunctionRow { function, instructions };
    (Event, u64): EventCountRow { event, count };
    (Event, f64): EventCountRow { event, count };
}
