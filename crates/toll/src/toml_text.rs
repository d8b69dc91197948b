//! Reads TOML files of the user; errors have the line of the mistake.

use crate::toml_value::ParsedValue;
use serde::de::DeserializeOwned;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The text of a TOML file, and its name for errors.
///
/// ```
/// use toll::TomlText;
/// let text = TomlText::new("[link]\nlanes = 0\n", "x.toml");
/// assert_eq!(text.line_of("link.lanes"), 2);
/// // A missing field is reported at the first line of its table.
/// assert_eq!(text.line_of("link.payload"), 1);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct TomlText<'t> {
    text: &'t str,
    file: &'t str,
}

/// A mistake in a TOML file.
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

    /// Deserialises the text.
    ///
    /// # Errors
    /// [`TomlProblem`] if it is not TOML, or has fields missing, unknown or of another type.
    pub fn read<T: DeserializeOwned>(self) -> Result<T, TomlProblem> {
        let table = DeTable::parse(self.text).map_err(|error| {
            let line = error.span().map_or(1, |span| self.line_at(span.start));
            self.problem(line, error.message())
        })?;
        let whole = DeValue::Table(table.into_inner());
        T::deserialize(ParsedValue::whole(&whole)).map_err(|error| {
            let line = error.begins.map_or(1, |begins| self.line_at(begins));
            self.problem(line, &error.problem)
        })
    }

    /// An error at a line.
    pub fn problem(self, line: usize, problem: &str) -> TomlProblem {
        // The parser's message has what it expected on a second line.
        let problem = problem.trim_end().replace('\n', "; ");
        TomlProblem { file: self.file.to_owned(), line, problem }
    }

    /// The line of a field, by its dotted name, in which numbers name elements of lists, from 0. If it is missing, the line of the innermost
    /// table that exists.
    pub fn line_of(self, field: &str) -> usize {
        let names: Vec<&str> = field.split('.').collect();
        self.line_of_names(&names)
    }

    /// The line of a field, by its names from the outermost table in. They may contain dots.
    pub fn line_of_names(self, names: &[&str]) -> usize {
        self.find_line(names, |_| true)
    }

    /// The line of a field with this value. It finds the right table of an array of tables.
    pub fn line_of_value(self, field: &str, value: &str) -> usize {
        let names: Vec<&str> = field.split('.').collect();
        self.find_line(&names, |written| {
            let written = written.trim_matches(['"', '\'']);
            let is_equal = |one: f64, other: f64| one == other || (one.is_nan() && other.is_nan());
            written == value
                || number(written).zip(number(value)).is_some_and(|(one, other)| is_equal(one, other))
        })
    }

    /// The dotted name of the field or table that begins at a line, in which numbers name elements of lists, from 0. `None` if none begins there.
    pub fn field_at(self, line: usize) -> Option<String> {
        let table = DeTable::parse(self.text).ok()?;
        name_at(table.get_ref(), &|byte| self.line_at(byte) == line)
    }

    /// The text with another number in place of a field's value, by its dotted name. All lines stay where they are, since a number has
    /// one. `None` if there is no such field.
    pub fn with_number(self, field: &str, number: f64) -> Option<String> {
        let table = DeTable::parse(self.text).ok()?;
        let names: Vec<&str> = field.split('.').collect();
        let at = value_range(table.get_ref(), &names)?;
        let (before, after) = (self.text.get(..at.start)?, self.text.get(at.end..)?);
        Some(format!("{before}{number:?}{after}"))
    }

    /// The line of the first field with these names whose value `matches`.
    fn find_line(self, names: &[&str], matches: impl Fn(&str) -> bool) -> usize {
        let Ok(table) = DeTable::parse(self.text) else { return 1 };
        let matches = |span: Range<usize>| self.text.get(span).is_some_and(&matches);
        let at = match find_field(table.get_ref(), names, &matches) {
            Some(Found::Field(at) | Found::Table(at)) => at,
            None => 0,
        };
        self.line_at(at)
    }

    /// The line of a byte, from 1.
    fn line_at(self, byte: usize) -> usize {
        let before = self.text.as_bytes().iter().take(byte);
        1 + before.filter(|byte| **byte == b'\n').count()
    }
}

/// A number as TOML writes it.
fn number(written: &str) -> Option<f64> {
    let digits = written.replace('_', "");
    let of_radix = |prefix, radix| {
        let digits = digits.strip_prefix(prefix)?;
        i64::from_str_radix(digits, radix).ok().map(|number| number as f64)
    };
    [("0x", 16), ("0o", 8), ("0b", 2)]
        .into_iter()
        .find_map(|(prefix, radix)| of_radix(prefix, radix))
        .or_else(|| digits.parse().ok())
}

/// The byte where a field was found, or the innermost table of its name that exists.
enum Found {
    Field(usize),
    Table(usize),
}

/// Finds a field in a table. Of an array of tables, a number names one; without, it is the first in which the field's value `matches`.
fn find_field(table: &DeTable<'_>, names: &[&str], matches: &dyn Fn(Range<usize>) -> bool) -> Option<Found> {
    let (name, rest) = names.split_first()?;
    let (key, value) = table.iter().find(|(key, _)| key.get_ref() == name)?;
    let at = key.span().start;
    let inner = match value.get_ref() {
        _ if rest.is_empty() => return Some(Found::Field(at)),
        DeValue::Table(inner) => find_field(inner, rest, matches),
        DeValue::Array(elements) => match rest[0].parse::<usize>() {
            Ok(place) => elements.get(place).map(|element| find_in_element(element, &rest[1..], matches)),
            Err(_) => elements.iter().find_map(|element| {
                let DeValue::Table(inner) = element.get_ref() else { return None };
                find_field(inner, rest, matches)
                    .filter(|found| matches!(found, Found::Field(_)) && has_value(inner, rest, matches))
            }),
        },
        _ => None,
    };
    Some(inner.unwrap_or(Found::Table(at)))
}

/// Finds a field in an element of an array, or the element itself.
fn find_in_element(
    element: &Spanned<DeValue<'_>>,
    names: &[&str],
    matches: &dyn Fn(Range<usize>) -> bool,
) -> Found {
    let DeValue::Table(inner) = element.get_ref() else { return Found::Field(element.span().start) };
    find_field(inner, names, matches).unwrap_or(Found::Table(element.span().start))
}

/// The name of the innermost field that `begins` where it is asked for.
fn name_at(table: &DeTable<'_>, begins: &dyn Fn(usize) -> bool) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        let inner = match value.get_ref() {
            DeValue::Table(inner) => name_at(inner, begins),
            DeValue::Array(elements) => elements.iter().enumerate().find_map(|(place, element)| {
                let DeValue::Table(inner) = element.get_ref() else { return None };
                let field = name_at(inner, begins).map(|field| format!("{place}.{field}"));
                field.or_else(|| begins(element.span().start).then(|| place.to_string()))
            }),
            _ => None,
        };
        let name = key.get_ref();
        inner
            .map(|inner| format!("{name}.{inner}"))
            .or_else(|| begins(key.span().start).then(|| name.to_string()))
    })
}

/// The bytes of a field's value, which is a number, in tables and tables within tables.
fn value_range(table: &DeTable<'_>, names: &[&str]) -> Option<Range<usize>> {
    let (name, rest) = names.split_first()?;
    let (_, value) = table.iter().find(|(key, _)| key.get_ref() == name)?;
    match value.get_ref() {
        DeValue::Table(inner) => value_range(inner, rest),
        DeValue::Integer(_) | DeValue::Float(_) if rest.is_empty() => Some(value.span()),
        _ => None,
    }
}

/// Whether a field exists in a table and its value `matches`.
fn has_value(table: &DeTable<'_>, names: &[&str], matches: &dyn Fn(Range<usize>) -> bool) -> bool {
    let Some((name, rest)) = names.split_first() else { return false };
    let Some((_, value)) = table.iter().find(|(key, _)| key.get_ref() == name) else { return false };
    match value.get_ref() {
        _ if rest.is_empty() => matches(value.span()),
        DeValue::Table(inner) => has_value(inner, rest, matches),
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
    fn a_line_has_its_field() {
        let text = "\nwhat = \"\"\"\n[no table]\nno = 1\"\"\"\nseed = 1\n[host.link]\nlanes = 0\n\n[[jobs]]\nsize = 1\n[[jobs]]\n\nsize = 2\n";
        let fields =
            [(2, "what"), (5, "seed"), (6, "host.link"), (7, "host.link.lanes"), (10, "jobs.0.size")];
        for (line, field) in fields.into_iter().chain([(9, "jobs.0"), (11, "jobs.1"), (13, "jobs.1.size")]) {
            assert_eq!(TomlText::new(text, "x").field_at(line).as_deref(), Some(field), "{line}");
        }
        for line in [1, 3, 4, 8, 12, 99] {
            assert_eq!(TomlText::new(text, "x").field_at(line), None, "{line}");
        }
    }

    #[test]
    fn a_number_is_replaced_and_all_else_stays() {
        let text = TomlText::new(TEXT, "x.toml");
        let replaced = |field| text.with_number(field, 0.25);
        assert_eq!(replaced("host.cpus"), Some(TEXT.replace("cpus = 4", "cpus = 0.25")));
        assert_eq!(replaced("host.pcie.lanes"), Some(TEXT.replace("lanes = 8", "lanes = 0.25")));
        assert_eq!(replaced("host.link.lanes"), Some(TEXT.replace("lanes = 0", "lanes = 0.25")));
        for field in ["what", "host", "host.cpus.x", "host.none", "none"] {
            assert_eq!(replaced(field), None, "{field}");
        }
    }

    #[test]
    fn an_array_s_tables_are_selected_by_a_value() {
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
        let none = TomlText::new("[[a]]\nb = 1\n[[a]]\nb = nan\n", "x");
        assert_eq!(none.line_of_value("a.b", "NaN"), 4);
        let radixes = TomlText::new("[[a]]\nb = 0x1_f\n[[a]]\nb = 0b11\n[[a]]\nb = 0o17\n", "x");
        let line = |value| radixes.line_of_value("a.b", value);
        assert_eq!((line("31"), line("3"), line("15"), line("16")), (2, 4, 6, 1));
    }

    #[test]
    fn a_number_names_an_element() {
        let text = TomlText::new(
            "[[loads]]\nshare = 0.5\n[[loads]]\nshare = 7\n[loads.sizes]\nio = 1\n[list]\nsome = [\n1,\n{ a = 2 },\n]\n",
            "x.toml",
        );
        for (field, line) in [
            ("loads.0.share", 2),
            ("loads.1.share", 4),
            ("loads.1.sizes.io", 6),
            ("loads.1.none", 3),
            ("loads.0", 1),
            ("loads.1", 3),
            ("loads.2.share", 1),
            ("list.some.0", 9),
            ("list.some.1.a", 10),
        ] {
            assert_eq!(text.line_of(field), line, "{field}");
        }
    }

    #[test]
    fn unreadable_values_are_errors_with_their_line() {
        let told = |text: &str| TomlText::new(text, "x.toml").read::<Vec<u8>>().unwrap_err().to_string();
        assert_eq!(told("a = 1\n\nb = = 2\n").split(": ").next(), Some("x.toml:3"));
        assert!(!told("a = \"\u{1b}\n").contains(['\n', '\u{1b}']));
    }
}
