//! The result of a point: an answer of any model as named values.

use crate::key::Key;
use crate::plan::Point;
use crate::value::Value;
use columns::{panic_text, with_causes};
use model::{Answer, Description};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Fields of answers that are no results: words about the file, stories and examples.
const NO_RESULTS: [&str; 5] = ["what", "log", "reasons", "stale", "set_aside"];
/// The field of a list's element that names it.
const NAMES: [&str; 2] = ["name", "memory"];

/// A point and its result.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What the point is known by.
    pub key: Key,
    /// The axes' values, in their order.
    pub values: Vec<Value>,
    /// The results by name, in the order of the model's document; or why there are none.
    pub outcome: Result<Vec<(String, Value)>, String>,
}

impl Point {
    /// Simulates the point. Whatever is wrong with it, or with the model, is the row's error.
    pub fn run(self) -> Row {
        let outcome = catch_unwind(AssertUnwindSafe(|| outcome(&self.description)));
        let outcome = outcome.unwrap_or_else(|panic| {
            Err(format!("a mistake in this program ended the model: {}", panic_text(&*panic)))
        });
        Row { key: self.key, values: self.values, outcome }
    }
}

fn outcome(description: &Description) -> Result<Vec<(String, Value)>, String> {
    let answer: Answer = description.run().map_err(|error| with_causes(&error))?;
    let answer = serde_json::to_value(&answer).map_err(|error| error.to_string())?;
    let mut results = NamedValues::default();
    results.flatten("", &answer);
    Ok(results.values)
}

/// The values in a document, each named by what leads to it. No name is there twice.
#[derive(Default)]
struct NamedValues {
    values: Vec<(String, Value)>,
    names: HashSet<String>,
}

impl NamedValues {
    fn push(&mut self, name: &str, value: Value) {
        self.names.insert(name.to_owned());
        self.values.push((name.to_owned(), value));
    }

    /// Adds the values in a document.
    fn flatten(&mut self, name: &str, value: &serde_json::Value) {
        match value {
            serde_json::Value::Null => {}
            serde_json::Value::Bool(flag) => self.push(name, Value::Flag(*flag)),
            serde_json::Value::Number(number) => {
                number_of(number).into_iter().for_each(|number| self.push(name, number));
            }
            serde_json::Value::String(word) => self.push(name, Value::Word(word.clone())),
            serde_json::Value::Array(list) => {
                for (place, element) in list.iter().enumerate() {
                    self.add_element(&below(name, &element_name(element, place)), element);
                }
            }
            serde_json::Value::Object(fields) => {
                for (field, value) in fields {
                    if !NO_RESULTS.contains(&field.as_str()) && !NAMES.contains(&field.as_str()) {
                        // The mean of an estimate has its name.
                        let is_mean = field == "mean" && fields.contains_key("low");
                        self.flatten(&if is_mean { name.to_owned() } else { below(name, field) }, value);
                    }
                }
            }
        }
    }

    /// Adds the values in an element of a list. Where one has a name that is taken, as of the jobs `a b` and `a-b`, or of `a` and
    /// `a reads`, the element has a number, from 2.
    fn add_element(&mut self, name: &str, element: &serde_json::Value) {
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        for name in std::iter::once(name.to_owned()).chain(numbered) {
            let mut of_element = Self::default();
            of_element.flatten(&name, element);
            if of_element.names.is_disjoint(&self.names) {
                self.names.extend(of_element.names);
                self.values.extend(of_element.values);
                return;
            }
        }
    }
}

fn below(name: &str, field: &str) -> String {
    if name.is_empty() { field.to_owned() } else { format!("{name}_{field}") }
}

fn number_of(number: &serde_json::Number) -> Option<Value> {
    number.as_i64().map(Value::Integer).or_else(|| number.as_f64().map(Value::Float))
}

/// The name of a list's element in columns; its place if it has none.
fn element_name(element: &serde_json::Value, place: usize) -> String {
    let name = NAMES.iter().find_map(|field| element.get(field)?.as_str());
    name.map_or_else(|| place.to_string(), column_name)
}

/// Words as a name of a column: lower case, with underscores between them.
fn column_name(words: &str) -> String {
    let is_part = |character: char| character.is_alphanumeric();
    let words = words.replace('\'', "");
    let parts: Vec<String> =
        words.split(|c| !is_part(c)).filter(|part| !part.is_empty()).map(str::to_lowercase).collect();
    parts.join("_")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of an example's results, and a digest of its values.
    fn names_and_digest(text: &str) -> (Vec<String>, String) {
        use sha2::{Digest, Sha256};
        let results = outcome(&Description::read(text, "x.toml").unwrap()).unwrap();
        let digest = Sha256::digest(format!("{results:?}"));
        let digest = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        (results.into_iter().map(|(name, _)| name).collect(), digest)
    }

    #[test]
    fn answers_of_all_models_are_named_values() {
        let examples = [
            (include_str!("../../../experiments/engine.toml"), "parts_the_link_towards_memory_busy_share"),
            (
                include_str!("../../../experiments/memory-types.toml"),
                "memories_static_test_comparison_miscompares",
            ),
            (include_str!("../../../experiments/nvme.toml"), "jobs_reads_latency_p99_ns_low"),
            (include_str!("../../../experiments/flash-array.toml"), "locks_a_queues_lock_waiting_cpus"),
            (include_str!("../../../experiments/infiniband.toml"), "memory_less_latency_mean_ns"),
        ];
        for (text, expected) in examples {
            let (names, _) = names_and_digest(text);
            assert!(names.iter().any(|name| name == expected), "{expected} is not in {names:?}");
            let mut sorted = names.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), names.len(), "a name is there twice in {names:?}");
            assert!(!names.iter().any(|name| name.starts_with("log") || name == "what"), "{names:?}");
        }
    }

    #[test]
    fn elements_whose_names_are_equal_as_columns_are_numbered() {
        let document = serde_json::json!({ "jobs": [
            { "name": "a", "reads": { "rate": { "mean": 1.0, "low": 0.5, "high": 1.5 } } },
            { "name": "a-reads", "rate": 2.0 },
            { "name": "a", "reads": { "rate": { "mean": 3.0, "low": 2.5, "high": 3.5 } } },
        ]});
        let mut results = NamedValues::default();
        results.flatten("", &document);
        let names: Vec<&str> = results.values.iter().map(|(name, _)| name.as_str()).collect();
        let expected = ["jobs_a_reads_rate", "jobs_a_reads_2_rate", "jobs_a_2_reads_rate"];
        let (means, ends): (Vec<&str>, Vec<&str>) =
            names.iter().partition(|name| !name.ends_with("_low") && !name.ends_with("_high"));
        assert_eq!(means, expected);
        assert!(ends.contains(&"jobs_a_2_reads_rate_low"), "{ends:?}");
    }
}
