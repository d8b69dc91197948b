//! Price lists: the time of an instruction and of each kind of event on one platform.

mod combined;

use crate::{Event, Evidence, Given, Priced, TomlProblem, TomlText};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Upper limit of a price: one second.
const PRICE_NS_MAX: f64 = 1e9;

/// The CPU time of one instruction, hypercall, invalidation ... on one platform.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceList {
    /// The machine that the prices are of, in a few words.
    pub platform: String,
    /// Its architecture, in the words of toll sheets: `x86`, `arm`, `ppc`.
    pub arch: String,
    /// Machines that the prices may be used for, and those that they may not.
    pub applies_to: String,
    /// Time of one instruction.
    pub instruction_ns: Given,
    /// Time of one event of each kind, beyond the instructions counted with it. A missing kind has an unknown price, not a price of zero.
    #[serde(default)]
    pub event_ns: BTreeMap<Event, Given>,
}

/// Why a text can't be used as a price list.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PriceListError {
    /// It is not TOML, or not of a price list's fields and types.
    #[error(transparent)]
    Form(#[from] TomlProblem),
    /// A value is out of its range.
    #[error("{file}:{line}: {field} is {value}; expected {expected}")]
    Value {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The name of the value.
        field: String,
        /// The value found.
        value: String,
        /// The values allowed.
        expected: &'static str,
    },
    /// Two lists that are combined are of different architectures.
    #[error("{file}: arch is `{arch}`; expected `{expected}`, the architecture of {other_file}")]
    Architectures {
        /// The file.
        file: String,
        /// Its architecture.
        arch: String,
        /// The file before.
        other_file: String,
        /// Its architecture.
        expected: String,
    },
    /// Two lists that are combined have different prices of a kind, and neither has better evidence.
    #[error(
        "{file}: {priced} is {}, and {} in {other_file} with evidence that is as good; expected one of them: remove the other",
        .values.0, .values.1
    )]
    TwoPrices {
        /// The file.
        file: String,
        /// The file before.
        other_file: String,
        /// What the prices are of.
        priced: Priced,
        /// The price in `file`, and that in `other_file`.
        values: (f64, f64),
    },
}

impl PriceList {
    /// The lists built into the program, one for each architecture.
    pub fn builtin() -> &'static [Self] {
        // A test reads each of them, so none is skipped here.
        static BUILTIN: LazyLock<Vec<PriceList>> = LazyLock::new(|| {
            let texts = [
                include_str!("../data/prices/arm.toml"),
                include_str!("../data/prices/ppc.toml"),
                include_str!("../data/prices/x86.toml"),
            ];
            texts.into_iter().filter_map(|text| PriceList::read(text, "built in").ok()).collect()
        });
        &BUILTIN
    }

    /// Reads a list from the text of a file, whose name is for errors only.
    ///
    /// # Errors
    /// [`PriceListError`] if it is not TOML, has fields missing, unknown or of another type, a price out of range,
    /// or a price without evidence.
    pub fn read(text: &str, file: &str) -> Result<Self, PriceListError> {
        let text = TomlText::new(text, file);
        let list: Self = text.read()?;
        match list.first_invalid() {
            None => Ok(list),
            Some(InvalidField { field, value, expected }) => {
                let line = text.line_of(&field);
                Err(PriceListError::Value { file: file.to_owned(), line, field, value, expected })
            }
        }
    }

    /// All prices.
    pub fn prices(&self) -> impl Iterator<Item = (Priced, &Given)> {
        let events = self.event_ns.iter().map(|(event, given)| (Priced::Event(*event), given));
        std::iter::once((Priced::Instruction, &self.instruction_ns)).chain(events)
    }

    /// Sets a price.
    pub fn set(&mut self, priced: Priced, given: Given) {
        match priced {
            Priced::Instruction => self.instruction_ns = given,
            Priced::Event(event) => _ = self.event_ns.insert(event, given),
        }
    }

    /// The list of one machine, `platform`: prices that were measured on it, and those of this list where there is none.
    pub fn with_measured(&self, measured: impl IntoIterator<Item = (Priced, Given)>, platform: &str) -> Self {
        let mut list = self.clone();
        measured.into_iter().for_each(|(priced, given)| list.set(priced, given));
        list.applies_to = format!("this host; what was not measured is that of {}", self.platform);
        list.platform = platform.to_owned();
        list
    }

    /// The first invalid field, if there is one.
    fn first_invalid(&self) -> Option<InvalidField> {
        let words = [("platform", &self.platform), ("arch", &self.arch)];
        let words = words.into_iter().find_map(|(field, words)| empty_field(field, words));
        let events = || {
            self.event_ns.iter().find_map(|(event, given)| invalid_price(&format!("event_ns.{event}"), given))
        };
        words.or_else(|| invalid_price("instruction_ns", &self.instruction_ns)).or_else(events)
    }
}

/// A field with a value that is not allowed.
struct InvalidField {
    field: String,
    value: String,
    expected: &'static str,
}

/// The first invalid part of a price: its number or its evidence.
fn invalid_price(name: &str, given: &Given) -> Option<InvalidField> {
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
    empty_field(&format!("{name}.evidence.{of}"), words)
}

/// An error if a text field is empty.
fn empty_field(field: &str, words: &str) -> Option<InvalidField> {
    let is_given = !words.trim().is_empty();
    let invalid = || InvalidField {
        field: field.to_owned(),
        value: format!("`{words}`"),
        expected: "a text that is not empty",
    };
    (!is_given).then(invalid)
}
