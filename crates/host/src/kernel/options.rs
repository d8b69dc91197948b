//! The kernel options that decide how DMA is mapped.
//!
//! The options are data (`data/kernel/options.toml`), each with the kernel document or code that defines it.
//! What the kernel makes of a given command line is decided in [`verdict`](super::verdict).

#[cfg(test)]
mod rows;
mod values;

pub use values::{BooleanEffect, Parser, TextEffect, parse_number, parse_size};

use super::command_line::same_name;
use super::{Architecture, CpuVendor, Effect};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// `data/kernel/options.toml` as JSON, by `build.rs`.
const BUILTIN: &str = include_str!(concat!(env!("OUT_DIR"), "/options.json"));

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

/// The table that comes with the program.
#[expect(clippy::unwrap_used, reason = "the text is compiled in and read by a test")]
pub fn table() -> &'static OptionTable {
    static TABLE: LazyLock<OptionTable> = LazyLock::new(|| serde_json::from_str(BUILTIN).unwrap());
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
