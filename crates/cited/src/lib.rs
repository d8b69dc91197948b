//! Values with the file and line that they were read from.
//!
//! A parser takes a [`Text`] and returns [`Cited`] values: each has a [`Citation`], so that a report can say where it stands.
//!
//! ```
//! use cited::Text;
//!
//! let text = Text::new("sys/module/nvme/version", "1.0\n");
//! assert_eq!(text.cite_value().to_string(), "sys/module/nvme/version:1: 1.0");
//! ```
#![forbid(unsafe_code)]

use serde::Serialize;
use std::sync::Arc;

/// Longest quotation kept, in characters: kernel messages fit, a mangled binary line does not.
const QUOTE_CHARS_MAX: usize = 240;

/// A place in the host's files, with the words that stand there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Citation {
    /// Path below the host's root, without a leading slash: `proc/cmdline`.
    pub file: Arc<str>,
    /// Line, counted from 1; `None` where the file as a whole (or a link, or a directory) says it.
    pub line: Option<u32>,
    /// What stands there, shortened if it is very long.
    pub text: String,
}

impl Citation {
    /// A citation of a whole file, link or directory.
    pub fn of_file(file: &str, text: &str) -> Self {
        Self { file: Arc::from(file), line: None, text: cut_quote(text) }
    }
}

impl std::fmt::Display for Citation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.text),
            None => write!(f, "{}: {}", self.file, self.text),
        }
    }
}

/// A value and where it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cited<T> {
    /// What was read.
    pub value: T,
    /// Where.
    pub at: Citation,
}

impl<T> Cited<T> {
    /// Joins a value to its place.
    pub fn new(value: T, at: Citation) -> Self {
        Self { value, at }
    }
}

/// The text of one file: lines that can be cited.
#[derive(Debug, Clone)]
pub struct Text {
    file: Arc<str>,
    body: String,
    /// The line of `file` that each line of the body is, where it was cut out of a longer text.
    numbers: Option<Arc<[u32]>>,
}

impl Text {
    /// The text of `file`, a name or path as citations shall show it.
    pub fn new(file: &str, body: impl Into<String>) -> Self {
        Self { file: Arc::from(file), body: body.into(), numbers: None }
    }

    /// The text of lines that were cut out of `file`; `numbers` has the line there of each of them.
    pub fn cut_out(file: Arc<str>, body: String, numbers: Arc<[u32]>) -> Self {
        Self { file, body, numbers: Some(numbers) }
    }

    /// Name of the file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The whole text.
    pub fn body(&self) -> &str {
        &self.body
    }

    /// Lines with their numbers, counted from 1, without line ends.
    pub fn lines(&self) -> impl Iterator<Item = (u32, &str)> {
        (1..).zip(self.body.lines())
    }

    /// Cites line `line`, counted as [`Text::lines`] does, whose words the caller has at hand.
    pub fn cite(&self, line: u32, text: &str) -> Citation {
        let number = |numbers: &Arc<[u32]>| numbers.get(usize::try_from(line).ok()?.checked_sub(1)?).copied();
        let line = self.numbers.as_ref().and_then(number).unwrap_or(line);
        Citation { file: Arc::clone(&self.file), line: Some(line), text: cut_quote(text) }
    }

    /// Cites the file's first line: for files that hold a single value.
    pub fn cite_value(&self) -> Citation {
        self.cite(1, self.body.lines().next().unwrap_or_default())
    }
}

/// The text without blanks at its ends, cut to the length of a quotation.
fn cut_quote(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(QUOTE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
