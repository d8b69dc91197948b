//! TOML files of the user's: read with the line of whatever is wrong in them.

use serde::de::DeserializeOwned;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// A TOML file's text.
///
/// ```
/// use toll::TomlText;
/// let text = TomlText::new("[link]\nlanes = 0\n", "x.toml");
/// assert_eq!(text.line_of("link.lanes"), 2);
/// // What is not there is missed where its table begins.
/// assert_eq!(text.line_of("link.payload"), 1);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct TomlText<'t> {
    text: &'t str,
    file: &'t str,
}

/// What is wrong with a TOML file, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {problem}")]
pub struct TomlProblem {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, in one line.
    pub problem: String,
}

impl<'t> TomlText<'t> {
    /// The text of a file, whose name is for errors only.
    pub fn new(text: &'t str, file: &'t str) -> Self {
        Self { text, file }
    }

    /// Reads it as a value.
    ///
    /// # Errors
    /// [`TomlProblem`] if it is no TOML, or has fields missing, unknown or of another type.
    pub fn read<T: DeserializeOwned>(self) -> Result<T, TomlProblem> {
        toml::from_str(self.text).map_err(|error| {
            let line = error.span().map_or(1, |span| self.line_at(span.start));
            self.problem(line, error.message())
        })
    }

    /// Something wrong in a line.
    pub fn problem(self, line: usize, problem: &str) -> TomlProblem {
        // The parser puts what it expected on a line of its own.
        let problem = problem.trim_end().replace('\n', "; ");
        TomlProblem { file: self.file.to_owned(), line, problem }
    }

    /// The line of a field by its dotted name; of what is not there, the line of the innermost table that is.
    pub fn line_of(self, field: &str) -> usize {
        let names: Vec<&str> = field.split('.').collect();
        self.line_of_names(&names)
    }

    /// The same by names that may have dots in them.
    pub fn line_of_names(self, names: &[&str]) -> usize {
        self.search(names, |_| true)
    }

    /// The line of a field with this value, which tells apart the tables of an array.
    pub fn line_of_value(self, field: &str, value: &str) -> usize {
        let names: Vec<&str> = field.split('.').collect();
        let number = |text: &str| text.replace('_', "").parse::<f64>().ok();
        self.search(&names, |written| {
            let written = written.trim_matches(['"', '\'']);
            written == value || number(written).is_some_and(|written| Some(written) == number(value))
        })
    }

    fn search(self, names: &[&str], is_it: impl Fn(&str) -> bool) -> usize {
        let Ok(table) = DeTable::parse(self.text) else { return 1 };
        let is_it = |span: Range<usize>| self.text.get(span).is_some_and(&is_it);
        let at = match within(table.get_ref(), names, &is_it) {
            Some(Found::Whole(at) | Found::Part(at)) => at,
            None => 0,
        };
        self.line_at(at)
    }

    fn line_at(self, byte: usize) -> usize {
        let before = self.text.as_bytes().iter().take(byte);
        1 + before.filter(|byte| **byte == b'\n').count()
    }
}

/// How much of a field's name was found, and where.
enum Found {
    Whole(usize),
    Part(usize),
}

/// Looks for a field in a table; of an array's tables, in the first that has it with the value that is looked for.
fn within(table: &DeTable<'_>, names: &[&str], is_it: &dyn Fn(Range<usize>) -> bool) -> Option<Found> {
    let (name, rest) = names.split_first()?;
    let (key, value) = table.iter().find(|(key, _)| key.get_ref() == name)?;
    let at = key.span().start;
    let inner = match value.get_ref() {
        _ if rest.is_empty() => return Some(Found::Whole(at)),
        DeValue::Table(inner) => within(inner, rest, is_it),
        DeValue::Array(elements) => elements.iter().find_map(|element| {
            let DeValue::Table(inner) = element.get_ref() else { return None };
            within(inner, rest, is_it)
                .filter(|found| matches!(found, Found::Whole(_)) && has_value(inner, rest, is_it))
        }),
        _ => None,
    };
    Some(inner.unwrap_or(Found::Part(at)))
}

/// Whether a field of a table has the value that is looked for.
fn has_value(table: &DeTable<'_>, names: &[&str], is_it: &dyn Fn(Range<usize>) -> bool) -> bool {
    let Some((name, rest)) = names.split_first() else { return false };
    let Some((_, value)) = table.iter().find(|(key, _)| key.get_ref() == name) else { return false };
    match value.get_ref() {
        _ if rest.is_empty() => is_it(value.span()),
        DeValue::Table(inner) => has_value(inner, rest, is_it),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::TomlText;

    const TEXT: &str = "what = 'x'\n\n[host]\ncpus = 4\npcie = { lanes = 8 }\n\n[host.link]\n# none\nlanes = 0\n[axes]\n\"a.b\" = [1]\n";

    #[test]
    fn a_field_has_its_line() {
        let text = TomlText::new(TEXT, "x.toml");
        for (field, line) in [
            ("what", 1),
            ("host", 3),
            ("host.cpus", 4),
            ("host.pcie.lanes", 5),
            ("host.link.lanes", 9),
            ("host.cpus.x", 4),
            ("none", 1),
        ] {
            assert_eq!(text.line_of(field), line, "{field}");
        }
        assert_eq!(text.line_of_names(&["axes", "a.b"]), 11);
        assert_eq!(TomlText::new("a = [", "x").line_of("a"), 1);
    }

    #[test]
    fn an_array_s_tables_are_told_apart_by_the_value() {
        let text = TomlText::new(
            "[[loads]]\nshare = 0.5\n[[loads]]\nshare = 7\n[loads.sizes]\nio = 4_097\n",
            "x.toml",
        );
        assert_eq!(
            (text.line_of_value("loads.share", "7"), text.line_of_value("loads.sizes.io", "4097")),
            (4, 6)
        );
        assert_eq!(
            (text.line_of_value("loads.share", "0.5"), text.line_of_value("loads.share", "9")),
            (2, 1)
        );
    }

    #[test]
    fn what_can_not_be_read_has_its_line() {
        let told = |text: &str| TomlText::new(text, "x.toml").read::<Vec<u8>>().unwrap_err().to_string();
        assert_eq!(told("a = 1\n\nb = = 2\n").split(": ").next(), Some("x.toml:3"));
        assert!(!told("a = \"\u{1b}\n").contains(['\n', '\u{1b}']));
    }
}
