//! Whether a capability is present, absent, or could not be read.

use serde::Serialize;

/// Whether a capability exists. `Unknown` is not `Absent`: the list of capabilities was not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Presence<T> {
    /// It exists, with these registers.
    Present(T),
    /// It does not exist: the whole list was read.
    Absent,
    /// The list could not be read far enough to tell.
    #[default]
    Unknown,
}

impl<T> Presence<T> {
    /// The value if it is present.
    pub fn get(&self) -> Option<&T> {
        match self {
            Self::Present(value) => Some(value),
            Self::Absent | Self::Unknown => None,
        }
    }

    /// Whether it is known to exist.
    pub fn is_present(&self) -> bool {
        matches!(self, Self::Present(_))
    }

    /// Whether it is known not to exist.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// Whether too little was read to tell.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }

    /// Applies `make` to the value if it is present.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Presence<U> {
        match self {
            Self::Present(value) => Presence::Present(make(value)),
            Self::Absent => Presence::Absent,
            Self::Unknown => Presence::Unknown,
        }
    }

    /// This answer, or `other` where this one is unknown.
    pub fn or(self, other: Self) -> Self {
        match self {
            Self::Unknown => other,
            Self::Present(_) | Self::Absent => self,
        }
    }
}
