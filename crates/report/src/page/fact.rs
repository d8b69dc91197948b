//! Named facts, and sections of them.

use escape::terminal::plain;
use host::{Citation, Cited};

/// The value of a fact. `Absent` and `Unknown` are different answers and never look alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// The value.
    Known(String),
    /// There is none, as the words say.
    Absent(String),
    /// It could not be read, for this reason.
    Unknown(String),
    /// A command to paste, which is never wrapped.
    Command(String),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Known(text) | Self::Absent(text) | Self::Command(text) => f.write_str(text),
            Self::Unknown(why) => write!(f, "unknown ({why})"),
        }
    }
}

/// A fact with its name, and the line that it was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fact {
    /// Its name.
    pub(crate) label: String,
    pub(crate) value: Value,
    /// The line that it was read from.
    pub(crate) at: Option<Citation>,
}

impl Fact {
    /// A fact of this name, without a line.
    fn new(label: &str, value: Value) -> Self {
        Self { label: plain(label), value, at: None }
    }

    /// A fact that is known.
    pub(crate) fn known(label: &str, text: &str) -> Self {
        Self::new(label, Value::Known(plain(text)))
    }

    /// A command to paste.
    #[cfg_attr(not(feature = "fleet"), expect(dead_code, reason = "of pages of fleets alone"))]
    pub(crate) fn command(label: &str, command: &str) -> Self {
        Self::new(label, Value::Command(plain(command)))
    }

    /// A thing that is known not to exist.
    pub(crate) fn absent(label: &str, words: &str) -> Self {
        Self::new(label, Value::Absent(plain(words)))
    }

    /// A value that could not be read, and why.
    pub(crate) fn unknown(label: &str, why: &str) -> Self {
        Self::new(label, Value::Unknown(plain(why)))
    }

    /// A value with the line that it was read from; `otherwise` if there is none.
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

    /// The fact with the line that it was read from.
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
