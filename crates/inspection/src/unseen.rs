//! What could not be seen, and what would show it.

use host::facts::unseen::{State, Unseen as Fact};
use host::tree::Refusal;
use serde::Serialize;

/// Something that is not known, because its source could not be read.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Unseen {
    /// What is therefore not known.
    pub what: String,
    /// The file, and why it could not be read.
    pub why: String,
    /// The privilege, or the file of a capture, that would show it.
    pub remedy: String,
    /// How its source was found.
    pub state: State,
    /// Whether DMA paths or findings may be wrong for it.
    pub decisive: bool,
    /// The first file that was there and not read; null if none was there.
    pub file: Option<String>,
    /// How many files that are.
    pub files: Option<u64>,
    /// Why they were not read.
    pub reason: Option<String>,
    /// The same as a word that is stable.
    pub reason_kind: Option<ReasonKind>,
}

impl Unseen {
    pub(crate) fn new(fact: &Fact) -> Self {
        let unread = fact.unread.as_ref();
        Self {
            what: fact.what.clone(),
            why: fact.why.clone(),
            remedy: fact.remedy.clone(),
            state: fact.state,
            decisive: fact.decisive,
            file: unread.map(|unread| unread.file.clone()),
            files: unread.map(|unread| unread.files as u64),
            reason: unread.map(|unread| unread.reason.to_string()),
            reason_kind: unread.map(|unread| ReasonKind::of(&unread.reason)),
        }
    }
}

/// Why a file was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ReasonKind {
    /// It is not there.
    Absent,
    /// The system did not permit it.
    NoPermission,
    /// It is larger than what is read of one file.
    TooLarge,
    /// Symbolic links lead in a circle.
    LinkLoop,
    /// A pipe, socket, device or folder.
    NotAFile,
    /// One of more files than are read.
    TooMany,
    /// A member of an archive of a type that is not read.
    UnknownMember,
    /// A symbolic link to what is not there.
    DanglingLink,
    /// What is read of one host was spent before.
    BudgetSpent,
    /// Another error of the system.
    Other,
}

impl ReasonKind {
    fn of(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::Absent => Self::Absent,
            Refusal::NoPermission => Self::NoPermission,
            Refusal::TooLarge { .. } => Self::TooLarge,
            Refusal::LinkLoop => Self::LinkLoop,
            Refusal::NotAFile => Self::NotAFile,
            Refusal::TooMany { .. } => Self::TooMany,
            Refusal::UnknownMember { .. } => Self::UnknownMember,
            Refusal::DanglingLink => Self::DanglingLink,
            Refusal::BudgetSpent { .. } => Self::BudgetSpent,
            Refusal::Other { .. } => Self::Other,
        }
    }
}
