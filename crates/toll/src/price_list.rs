//! Price lists: what instructions and events take on one platform.

use crate::{Event, Evidence, Given, TomlProblem, TomlText};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Dearer than anything an I/O does once: a second.
const PRICE_NS_MAX: f64 = 1e9;

/// What one instruction, hypercall, invalidation ... takes of a CPU's time on one platform.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceList {
    /// The machine that the prices are of, in a few words.
    pub platform: String,
    /// Its architecture, in the words of toll sheets: `x86`, `arm`, `ppc`.
    pub arch: String,
    /// What it may stand for, and what not.
    pub applies_to: String,
    /// One instruction.
    pub instruction_ns: Given,
    /// One event of each kind, beyond the instructions that are counted with it. A kind that is not here has no
    /// price, which is not a price of zero.
    #[serde(default)]
    pub event_ns: BTreeMap<Event, Given>,
}

/// Why a text is no price list that can be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PriceListError {
    /// It is not TOML, or not of a price list's fields and types.
    #[error(transparent)]
    Form(#[from] TomlProblem),
    /// A value that can't be meant.
    #[error("{file}:{line}: {field} is {value}; expected {expected}")]
    Value {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// Which value.
        field: String,
        /// What it is.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
}

impl PriceList {
    /// Those that the program carries, one of each architecture.
    pub fn builtin() -> &'static [Self] {
        // That each can be read is held by a test: without them there would be no times, and no harm.
        static BUILTIN: LazyLock<Vec<PriceList>> = LazyLock::new(|| {
            let texts = [
                include_str!("../../../data/prices/arm.toml"),
                include_str!("../../../data/prices/ppc.toml"),
                include_str!("../../../data/prices/x86.toml"),
            ];
            texts.into_iter().filter_map(|text| PriceList::read(text, "built in").ok()).collect()
        });
        &BUILTIN
    }

    /// Reads a list from the text of a file, whose name is for errors only.
    ///
    /// # Errors
    /// [`PriceListError`] if it is not TOML, has fields missing, unknown or of another type, a price that is none,
    /// or one without evidence.
    pub fn read(text: &str, file: &str) -> Result<Self, PriceListError> {
        let text = TomlText::new(text, file);
        let list: Self = text.read()?;
        match list.wrong() {
            None => Ok(list),
            Some(InvalidField { field, value, expected }) => {
                let line = text.line_of(&field);
                Err(PriceListError::Value { file: file.to_owned(), line, field, value, expected })
            }
        }
    }

    fn wrong(&self) -> Option<InvalidField> {
        let words = [("platform", &self.platform), ("arch", &self.arch)];
        let words = words.into_iter().find_map(|(field, words)| unsaid(field, words));
        let events =
            || self.event_ns.iter().find_map(|(event, given)| price(&format!("event_ns.{event}"), given));
        words.or_else(|| price("instruction_ns", &self.instruction_ns)).or_else(events)
    }
}

/// A value that can't be meant.
struct InvalidField {
    field: String,
    value: String,
    expected: &'static str,
}

fn price(name: &str, given: &Given) -> Option<InvalidField> {
    if !(0.0..=PRICE_NS_MAX).contains(&given.value) {
        let (field, value) = (format!("{name}.value"), given.value.to_string());
        return Some(InvalidField { field, value, expected: "a number of nanoseconds from 0 to 1000000000" });
    }
    let (of, words) = match &given.evidence {
        Evidence::Measured { how, on } if !how.trim().is_empty() => ("on", on),
        Evidence::Measured { how, .. } => ("how", how),
        Evidence::Published { source } => ("source", source),
        Evidence::Calibrated { against } => ("against", against),
        Evidence::Assumed { why } => ("why", why),
    };
    unsaid(&format!("{name}.evidence.{of}"), words)
}

fn unsaid(field: &str, words: &str) -> Option<InvalidField> {
    let is_said = !words.trim().is_empty();
    let wrong = || InvalidField {
        field: field.to_owned(),
        value: format!("`{words}`"),
        expected: "words that say it",
    };
    (!is_said).then(wrong)
}
