//! Facts that could not be read, and what would show them.

use host::facts::unseen::{ReadState, Unseen as Fact};
use host::tree::Refusal;
use serde::Serialize;

/// Something that is not known, because its source could not be read.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unseen {
    /// The fact that is not known.
    pub what: String,
    /// The file, and why it could not be read.
    pub why: String,
    /// The privilege, or the file of a capture, that would show it.
    pub remedy: String,
    /// The state of its source.
    pub state: ReadState,
    /// Whether DMA paths or findings may be wrong without it.
    pub decisive: bool,
    /// The first file that exists and was not read; null if none exists.
    pub file: Option<String>,
    /// The number of such files.
    pub files: Option<u64>,
    /// Why they were not read.
    pub reason: Option<String>,
    /// The reason as a stable word.
    pub reason_kind: Option<ReasonKind>,
}

impl Unseen {
    /// Converts a fact that could not be read.
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ReasonKind {
    /// It does not exist.
    Absent,
    /// The system did not permit it.
    NoPermission,
    /// It is larger than the limit of one file.
    TooLarge,
    /// Symbolic links lead in a circle.
    LinkLoop,
    /// A pipe, socket, device or folder.
    NotAFile,
    /// One of more files than are read.
    TooMany,
    /// A member of an archive of a type that is not read.
    UnknownMember,
    /// Another text that tells of the same was read.
    AnotherIsRead,
    /// It is the log of an earlier boot.
    EarlierBoot,
    /// It is deeper in a folder than texts are looked for.
    TooDeep,
    /// A symbolic link whose target does not exist.
    DanglingLink,
    /// The limit of all files of a host was reached before.
    BudgetSpent,
    /// Another error of the system.
    Other,
}

impl ReasonKind {
    /// The kind of a reason.
    fn of(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::Absent => Self::Absent,
            Refusal::NoPermission => Self::NoPermission,
            Refusal::TooLarge { .. } => Self::TooLarge,
            Refusal::LinkLoop => Self::LinkLoop,
            Refusal::NotAFile => Self::NotAFile,
            Refusal::TooMany { .. } => Self::TooMany,
            Refusal::UnknownMember { .. } => Self::UnknownMember,
            Refusal::AnotherIsRead => Self::AnotherIsRead,
            Refusal::EarlierBoot => Self::EarlierBoot,
            Refusal::TooDeep { .. } => Self::TooDeep,
            Refusal::DanglingLink => Self::DanglingLink,
            Refusal::BudgetSpent { .. } => Self::BudgetSpent,
            Refusal::Other { .. } => Self::Other,
        }
    }
}
