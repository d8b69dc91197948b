//! Citations: for each fact of the document, the file and line that it was read from.

use host::{Citation, Cited};
use serde::Serialize;

/// The line that a fact of the document was read from.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CitedFact {
    /// JSON pointer (RFC 6901) to the fact: `/host/kernel_release`.
    pub fact: String,
    /// Path below the host's root, without a leading slash.
    pub file: String,
    /// Line, counted from 1; null if the fact is from a file, link or folder as a whole.
    pub line: Option<u32>,
    /// The text of the line, shortened if it is very long.
    pub text: String,
}

/// Collects citations while the document is built.
#[derive(Default)]
pub(crate) struct Citations(pub(crate) Vec<CitedFact>);

impl Citations {
    /// Returns a fact's value and records its citation under the JSON pointer `fact`.
    pub(crate) fn cite_value<T: Clone>(&mut self, fact: String, cited: Option<&Cited<T>>) -> Option<T> {
        let cited = cited?;
        self.record(fact, &cited.at);
        Some(cited.value.clone())
    }

    /// Records the citation of a fact, which `fact` names as a JSON pointer.
    pub(crate) fn record(&mut self, fact: String, at: &Citation) {
        self.0.push(CitedFact { fact, file: at.file.to_string(), line: at.line, text: at.text.clone() });
    }
}
