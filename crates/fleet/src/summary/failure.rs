//! Inputs that were not inspected.

use crate::capture::ENCRYPTED;
use crate::tables::{ErrorRow, Tables};
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};

/// An input that was not inspected, nor later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Failure {
    /// Its path.
    pub input: String,
    /// The kind of error, as in the table `errors`.
    pub kind: String,
    /// What was wrong.
    pub what: String,
}

/// When an input was changed, and whether the rules are those of now: of two rows of the input, the greater one counts.
type Age = (Option<i64>, bool);

/// Each input that has an error, by path. One that was inspected later has none, and one that failed several times has the last one.
pub(super) fn all(tables: &Tables, made_by: &str) -> Vec<Failure> {
    let age = |modified_us, rules: &str| -> Age { (modified_us, rules == made_by) };
    let failed = tables.errors.iter().map(|row| (&row.input, age(row.modified_us, &row.rules), Some(row)));
    let inspected = tables.hosts.iter().map(|row| (&row.input, age(row.modified_us, &row.rules), None));
    let mut newest: BTreeMap<&String, (Age, Option<&ErrorRow>)> = BTreeMap::new();
    for (input, age, row) in failed.chain(inspected) {
        let last = newest.entry(input).or_insert((age, row));
        // Of the same age, the inspection counts.
        if age > last.0 || (age == last.0 && row.is_none()) {
            *last = (age, row);
        }
    }
    // Decrypted since, as a file of its own.
    let inspected: HashSet<&str> = tables.hosts.iter().map(|row| row.input.as_str()).collect();
    let is_decrypted = |row: &ErrorRow| {
        row.kind == ENCRYPTED
            && row.input.rsplit_once('.').is_some_and(|(plain, _)| inspected.contains(plain))
    };
    let failure =
        |row: &ErrorRow| Failure { input: row.input.clone(), kind: row.kind.clone(), what: row.what.clone() };
    newest.into_values().filter_map(|(_, row)| row).filter(|row| !is_decrypted(row)).map(failure).collect()
}
