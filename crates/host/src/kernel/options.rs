//! The kernel options that decide how DMA is mapped.
//!
//! The options are data (`data/kernel/options.toml`), each with the kernel document or code that defines it.
//! What the kernel makes of a given command line is decided in [`verdict`](super::verdict).

mod values;

pub use values::{BooleanEffect, Parser, TextEffect, parse_number, parse_size};

use super::command_line::same_name;
use super::{Architecture, CpuVendor, Effect};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

const BUILTIN: &str = include_str!("../../../../data/kernel/options.toml");

/// The options of the kernel that this program knows.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct OptionTable {
    /// Names of common options that do not concern DMA. They are never taken for misspelled DMA options.
    pub unrelated: Vec<String>,
    /// Documents and code that options cite, by key.
    #[serde(rename = "source")]
    pub sources: BTreeMap<String, Source>,
    /// The options that concern DMA. Of options with the same name, the first whose platform fits counts.
    #[serde(rename = "option")]
    pub options: Vec<OptionFacts>,
}

/// A document or a part of the kernel that defines options.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Title.
    pub title: String,
    /// Path in the kernel tree; `None` for a source outside the tree.
    pub file: Option<String>,
}

/// One option.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct OptionFacts {
    /// Name with underscores; the options of a module start with the module's name and a dot.
    pub name: String,
    /// The machines that it has an effect on.
    pub platform: Platform,
    /// Which kernels know it.
    #[serde(default)]
    pub kernels: Span,
    /// What did the same in kernels that do not know it yet.
    pub older_form: Option<String>,
    /// What it does, in one line.
    pub meaning: String,
    /// Keys of [`OptionTable::sources`].
    pub sources: Vec<String>,
    /// Which values it accepts.
    pub value: Grammar,
}

/// The machines that an option has an effect on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Platform {
    /// All machines.
    Every,
    /// x86 of any vendor.
    X86,
    /// x86 with VT-d.
    VtD,
    /// x86 with AMD-Vi.
    AmdVi,
    /// POWER.
    Power,
    /// Arm.
    Arm,
    /// IBM Z.
    S390,
}

impl Platform {
    /// Whether kernels for `architecture` know options of this platform.
    pub fn runs_on(self, architecture: &Architecture) -> bool {
        match self {
            Self::Every => true,
            Self::X86 | Self::VtD | Self::AmdVi => architecture.is_x86(),
            Self::Power => architecture.is_power(),
            Self::Arm => architecture.is_arm(),
            Self::S390 => *architecture == Architecture::S390x,
        }
    }

    /// Whether options of this platform have no effect on this vendor's processors.
    pub fn is_foreign_to(self, vendor: &CpuVendor) -> bool {
        match self {
            Self::VtD => vendor.has_amd_vi(),
            Self::AmdVi => vendor.has_vt_d(),
            _ => false,
        }
    }

    /// The platform in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Every => "every architecture",
            Self::X86 => "x86",
            Self::VtD => "x86 with Intel VT-d",
            Self::AmdVi => "x86 with AMD-Vi",
            Self::Power => "POWER",
            Self::Arm => "Arm",
            Self::S390 => "IBM Z",
        }
    }
}

/// Which vanilla kernels know an option or a word, as far as the trees that were compared show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Span {
    /// Major and minor release of the newest tree that does not know it yet.
    pub absent_in: Option<(u16, u16)>,
    /// Major and minor release of the oldest tree that no longer knows it.
    pub gone_in: Option<(u16, u16)>,
    /// The only major release of RHEL that knows it, where Red Hat added it on its own.
    pub only_rhel: Option<u16>,
}

impl Span {
    /// Whether no kernel at all lies in the span.
    fn is_empty(&self) -> bool {
        self.absent_in.zip(self.gone_in).is_some_and(|(absent, gone)| absent >= gone)
    }
}

/// How the words of a list are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Match {
    /// The word must be the same.
    Whole,
    /// The argument must begin with the word: the kernel compares by `strncmp` with the word's length.
    Start,
}

/// Which values an option accepts.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Grammar {
    /// None: the name alone is the option.
    Flag {
        /// What it asks for.
        effect: Option<Effect>,
    },
    /// A truth value as `kstrtobool` reads it.
    Boolean {
        /// What it switches on or off.
        effect: Option<BooleanEffect>,
    },
    /// Words from a list, separated by commas.
    Words {
        /// How the kernel compares them.
        compare: Match,
        /// The list.
        list: Vec<Word>,
    },
    /// Any value: the kernel reads it without any effect.
    Ignored {
        /// Why it has no effect.
        reason: String,
    },
    /// A value that a parser of this program reads.
    Parsed {
        /// The parser.
        #[serde(rename = "as")]
        parser: Parser,
        /// What it accepts, in words.
        expected: String,
    },
}

/// One word of a word list.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Word {
    /// The word; one that ends in `=` takes a value of its own.
    pub word: String,
    /// What it does, in one line.
    pub meaning: String,
    /// What it asks for.
    pub effect: Option<Effect>,
    /// What it asks for, given the text after its `=`.
    pub takes: Option<TextEffect>,
    /// Which kernels know it.
    #[serde(default)]
    pub kernels: Span,
    /// What newer kernels want instead.
    pub instead: Option<Replacement>,
}

impl Word {
    /// What the word asks for when `rest` follows it.
    pub fn effect_of(&self, rest: &str) -> Option<Effect> {
        self.takes.map(|effect| effect.with(rest)).or_else(|| self.effect.clone())
    }
}

/// An option that replaces a deprecated word.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replacement {
    /// The option with its value.
    pub option: String,
    /// Major and minor release of the oldest tree that calls the word deprecated.
    pub since: (u16, u16),
}

/// An invalid option table.
#[derive(Debug, thiserror::Error)]
pub enum OptionTableError {
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

/// The table that comes with the program.
#[expect(clippy::unwrap_used, reason = "the text is compiled in and read by a test")]
pub fn table() -> &'static OptionTable {
    static TABLE: LazyLock<OptionTable> = LazyLock::new(|| OptionTable::parse(BUILTIN).unwrap());
    &TABLE
}

/// Every option of the table with this name, on any platform: x86 and POWER both have an `iommu=`.
pub fn named(name: &str) -> impl Iterator<Item = &'static OptionFacts> {
    table().options.iter().filter(move |option| same_name(&option.name, name))
}

/// Whether this is a common option that does not concern DMA.
pub fn is_unrelated(name: &str) -> bool {
    table().unrelated.iter().any(|other| same_name(other, name))
}

impl OptionTable {
    /// Reads a table and checks its rows.
    ///
    /// # Errors
    /// If it is not TOML, or if a row contradicts the schema or another row.
    pub fn parse(text: &str) -> Result<Self, OptionTableError> {
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
    fn check_words(&self) -> Result<(), OptionTableError> {
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
fn row_error(row: &str, problem: String) -> OptionTableError {
    OptionTableError::Row { row: row.to_owned(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of the built-in table after `old` was replaced once by `new`.
    fn error_after(old: &str, new: &str) -> String {
        assert!(BUILTIN.contains(old), "{old}");
        let error = OptionTable::parse(&BUILTIN.replacen(old, new, 1)).unwrap_err();
        std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string)
    }

    #[test]
    fn the_builtin_table_is_valid_and_cites_every_source() {
        let table = OptionTable::parse(BUILTIN).unwrap();
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
        check(
            "effect = { multi-tce = false }",
            "effect = { multi-tse = false }",
            "unknown variant `multi-tse`",
        );
        check("effect = { iommu = true }", "effect = { iommu = \"yes\" }", "invalid type: string");
        check("as = \"memory-map\"", "as = \"map\"", "unknown variant `map`");
        check("platform = \"s390\"", "platform = \"z\"", "unknown variant `z`");
        check("compare = \"start\"", "compare = \"begin\"", "unknown variant `begin`");
        check("older-form =", "old-form =", "unknown field `old-form`");
        check("{ gone-in =", "{ until =", "unknown field `until`");
        check("expected = \"a size\"", "wanted = \"a size\"", "unexpected keys in table: wanted");
    }
}
