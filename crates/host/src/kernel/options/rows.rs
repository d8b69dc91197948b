//! Tests of the rows of `data/kernel/options.toml`: that they keep to the schema, and do not contradict each other.

use super::{Grammar, OptionFacts, OptionTable, Platform, Span, Word, same_name};
use std::collections::BTreeSet;

const SOURCE: &str = include_str!("../../../data/kernel/options.toml");

/// An invalid option table.
#[derive(Debug, thiserror::Error)]
enum TableError {
    /// Not TOML, or other fields.
    #[error("option table")]
    Toml(#[from] toml::de::Error),
    /// A row that contradicts the schema or another row.
    #[error("option table: `{row}` {problem}")]
    Row {
        /// The option, with the word if it is one.
        row: String,
        /// What is wrong; expected what.
        problem: String,
    },
}

impl Span {
    /// Whether no kernel at all lies in the span.
    fn is_empty(&self) -> bool {
        self.absent_in.zip(self.gone_in).is_some_and(|(absent, gone)| absent >= gone)
    }
}

impl OptionTable {
    /// Reads a table and checks its rows.
    fn parse(text: &str) -> Result<Self, TableError> {
        let table: Self = toml::from_str(text)?;
        for (at, option) in table.options.iter().enumerate() {
            let before = table.options.get(..at).unwrap_or_default();
            table.check_option(option, before).map_err(|problem| row_error(&option.name, problem))?;
            option.check_words()?;
        }
        Ok(table)
    }

    /// Checks one option against the schema and the options `before` it; the error says what is wrong.
    fn check_option(&self, option: &OptionFacts, before: &[OptionFacts]) -> Result<(), String> {
        let same = || before.iter().filter(|other| other.name == option.name);
        if option.name.is_empty() || option.name.contains('-') {
            return Err("is not a canonical name; expected underscores instead of dashes".to_owned());
        }
        if same().any(|other| other.platform == option.platform || other.platform == Platform::Every) {
            return Err("is never reached; expected an earlier place or another platform".to_owned());
        }
        if self.unrelated.iter().any(|other| same_name(other, &option.name)) {
            return Err("is listed as unrelated too; expected one of both".to_owned());
        }
        if option.sources.is_empty() {
            return Err("cites no source; expected keys of [source]".to_owned());
        }
        if let Some(key) = option.sources.iter().find(|key| !self.sources.contains_key(*key)) {
            return Err(format!("cites `{key}`, which [source] does not list"));
        }
        check_common(&option.meaning, &option.kernels)
    }
}

impl OptionFacts {
    /// Checks the words of its list, if it has one.
    fn check_words(&self) -> Result<(), TableError> {
        let Grammar::Words { list, .. } = &self.value else { return Ok(()) };
        if list.is_empty() {
            return Err(row_error(&self.name, "has no words; expected at least one".to_owned()));
        }
        let mut seen = BTreeSet::new();
        for word in list {
            let row = format!("{}={}", self.name, word.word);
            if !seen.insert(&word.word) {
                return Err(row_error(&row, "is listed twice; expected each word once".to_owned()));
            }
            word.check().map_err(|problem| row_error(&row, problem))?;
        }
        Ok(())
    }
}

impl Word {
    /// Checks the word; the error says what is wrong.
    fn check(&self) -> Result<(), String> {
        if self.word.is_empty() || self.word.contains(',') {
            return Err("cannot be a word of a list; expected text without commas".to_owned());
        }
        if self.takes.is_some() && (!self.word.ends_with('=') || self.effect.is_some()) {
            return Err("cannot take a value; expected a trailing `=` and no other effect".to_owned());
        }
        check_common(&self.meaning, &self.kernels)
    }
}

/// Checks the fields that options and words have in common.
fn check_common(meaning: &str, kernels: &Span) -> Result<(), String> {
    if meaning.is_empty() {
        return Err("has no meaning; expected one line".to_owned());
    }
    if kernels.is_empty() {
        return Err("is in no kernel; expected absent-in before gone-in".to_owned());
    }
    Ok(())
}

/// An error about one row.
fn row_error(row: &str, problem: String) -> TableError {
    TableError::Row { row: row.to_owned(), problem }
}

/// The error of the built-in table after `old` was replaced once by `new`.
fn error_after(old: &str, new: &str) -> String {
    assert!(SOURCE.contains(old), "{old}");
    let error = OptionTable::parse(&SOURCE.replacen(old, new, 1)).unwrap_err();
    std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string)
}

#[test]
fn the_builtin_table_is_valid_and_cites_every_source() {
    let table = OptionTable::parse(SOURCE).unwrap();
    assert_eq!(format!("{table:?}"), format!("{:?}", super::table()));
    assert_eq!(table.options.len(), 59);
    let cited: BTreeSet<&String> = table.options.iter().flat_map(|option| &option.sources).collect();
    assert_eq!(cited, table.sources.keys().collect());
    assert!(table.sources.values().all(|source| !source.title.is_empty()));
}

#[test]
fn invalid_rows_are_refused() {
    let check = |old: &str, new: &str, expect: &str| {
        assert_eq!(error_after(old, new), format!("option table: {expect}"), "{new}");
    };
    check(
        "name = \"intel_iommu\"",
        "name = \"intel-iommu\"",
        "`intel-iommu` is not a canonical name; expected underscores instead of dashes",
    );
    check(
        "name = \"amd_iommu\"\nplatform = \"amd-vi\"",
        "name = \"intel_iommu\"\nplatform = \"vt-d\"",
        "`intel_iommu` is never reached; expected an earlier place or another platform",
    );
    check(
        "name = \"iommu.strict\"\nplatform = \"x86\"",
        "name = \"iommu.strict\"\nplatform = \"every\"",
        "`iommu.strict` is never reached; expected an earlier place or another platform",
    );
    check(
        "unrelated = [",
        "unrelated = [\"swiotlb\",",
        "`swiotlb` is listed as unrelated too; expected one of both",
    );
    check(
        "sources = [\"eeh\"]",
        "sources = [\"nowhere\"]",
        "`eeh` cites `nowhere`, which [source] does not list",
    );
    check("sources = [\"eeh\"]", "sources = []", "`eeh` cites no source; expected keys of [source]");
    check(
        "meaning = \"POWER's IOMMU settings\"",
        "meaning = \"\"",
        "`iommu` has no meaning; expected one line",
    );
    check(
        "word = \"igfx_off\"",
        "word = \"on\"",
        "`intel_iommu=on` is listed twice; expected each word once",
    );
    check(
        "word = \"sm_off\"",
        "word = \"sm,off\"",
        "`intel_iommu=sm,off` cannot be a word of a list; expected text without commas",
    );
    check(
        "word = \"config_acs=\"",
        "word = \"config_acs\"",
        "`pci=config_acs` cannot take a value; expected a trailing `=` and no other effect",
    );
    check(
        "kernels = { gone-in = [6, 1] }",
        "kernels = { gone-in = [6, 1], absent-in = [6, 1] }",
        "`iommu=forcesac` is in no kernel; expected absent-in before gone-in",
    );
}

#[test]
fn unknown_fields_effects_and_parsers_are_refused() {
    let check = |old: &str, new: &str, expect: &str| {
        let error = error_after(old, new);
        assert!(error.contains(expect), "{error}");
    };
    check("effect = { multi-tce = false }", "effect = { multi-tse = false }", "unknown variant `multi-tse`");
    check("effect = { iommu = true }", "effect = { iommu = \"yes\" }", "invalid type: string");
    check("as = \"memory-map\"", "as = \"map\"", "unknown variant `map`");
    check("platform = \"s390\"", "platform = \"z\"", "unknown variant `z`");
    check("compare = \"start\"", "compare = \"begin\"", "unknown variant `begin`");
    check("older-form =", "old-form =", "unknown field `old-form`");
    check("{ gone-in =", "{ until =", "unknown field `until`");
    check("expected = \"a size\"", "wanted = \"a size\"", "unexpected keys in table: wanted");
}
