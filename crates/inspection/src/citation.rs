//! Where facts stand: rows that name a fact of the document and the line that says it.

use host::{Citation, Cited};
use serde::Serialize;

/// The line that a fact of the document was read from.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CitedFact {
    /// JSON pointer (RFC 6901) to the fact: `/host/kernel_release`.
    pub fact: String,
    /// Path below the host's root, without a leading slash.
    pub file: String,
    /// Line, counted from 1; null where the file, link or folder as a whole says it.
    pub line: Option<u32>,
    /// What stands there, shortened if it is very long.
    pub text: String,
}

/// Collects citations while the document is made.
#[derive(Default)]
pub(crate) struct Citations(pub(crate) Vec<CitedFact>);

impl Citations {
    /// Takes the value, and notes where it stands.
    pub(crate) fn value<T: Clone>(&mut self, fact: String, cited: Option<&Cited<T>>) -> Option<T> {
        let cited = cited?;
        self.note(fact, &cited.at);
        Some(cited.value.clone())
    }

    /// Notes where a fact stands.
    pub(crate) fn note(&mut self, fact: String, at: &Citation) {
        self.0.push(CitedFact { fact, file: at.file.to_string(), line: at.line, text: at.text.clone() });
    }
}
