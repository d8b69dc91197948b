//! A named fact, as every layout shows it.

use escape::terminal::plain;
use host::{Citation, Cited};

/// What is known. `Absent` and `Unknown` are different answers and never look alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// The fact.
    Known(String),
    /// It was looked for, and there is none; in words.
    Absent(String),
    /// Nobody could look, and why.
    Unknown(String),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Known(text) | Self::Absent(text) => f.write_str(text),
            Self::Unknown(why) => write!(f, "unknown ({why})"),
        }
    }
}

/// A fact with its name and the line it stands in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fact {
    /// What it is about.
    pub(crate) label: String,
    /// The fact.
    pub(crate) value: Value,
    /// Where it was read.
    pub(crate) at: Option<Citation>,
}

impl Fact {
    fn new(label: &str, value: Value) -> Self {
        Self { label: plain(label), value, at: None }
    }

    /// A fact that is known.
    pub(crate) fn known(label: &str, text: &str) -> Self {
        Self::new(label, Value::Known(plain(text)))
    }

    /// Something known not to be there.
    pub(crate) fn absent(label: &str, words: &str) -> Self {
        Self::new(label, Value::Absent(plain(words)))
    }

    /// Something that could not be seen.
    pub(crate) fn unknown(label: &str, why: &str) -> Self {
        Self::new(label, Value::Unknown(plain(why)))
    }

    /// A fact with its place, or that it is not known.
    pub(crate) fn cited<T>(
        label: &str,
        cited: Option<&Cited<T>>,
        words: impl FnOnce(&T) -> String,
        otherwise: Value,
    ) -> Self {
        match cited {
            Some(cited) => Self::known(label, &words(&cited.value)).at(&cited.at),
            None => Self::new(label, otherwise),
        }
    }

    /// With the place where it was read.
    pub(crate) fn at(mut self, at: &Citation) -> Self {
        self.at = Some(at.clone());
        self
    }
}

/// Facts that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Section {
    /// Its title.
    pub(crate) title: &'static str,
    /// The facts.
    pub(crate) facts: Vec<Fact>,
}
