//! What a reader of files must offer: nodes, bytes and names, by path without links resolved.

/// What stands at a path, links not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A regular file.
    File,
    /// A directory.
    Folder,
    /// A symbolic link and its target as written.
    Link(String),
    /// A device, socket or pipe: never opened.
    Special,
}

/// Why something could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Not there.
    #[error("not there")]
    Absent,
    /// The system refuses it to this user.
    #[error("permission denied")]
    NoPermission,
    /// Larger than what is read of one file.
    #[error("larger than the {bytes_max} bytes that are read of one file")]
    TooLarge {
        /// The limit.
        bytes_max: u64,
    },
    /// Symbolic links that lead nowhere but to each other.
    #[error("too many symbolic links")]
    LinkLoop,
    /// A device, pipe, socket, or a folder where a file was expected.
    #[error("not a regular file")]
    NotAFile,
    /// More of something than is read: names in a folder, lines of a file, PCI functions.
    #[error("more than the {max} {what} that are read")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// A member of an archive whose type is not read here.
    #[error("a tar member of type `{flag}`, which is not read")]
    UnknownMember {
        /// The type's character.
        flag: String,
    },
    /// Another text tells of the same.
    #[error("another text that tells of the same was read")]
    AnotherIsRead,
    /// The log of another boot than the last one.
    #[error("the log of an earlier boot, which is not mixed with that of the last one")]
    EarlierBoot,
    /// Deeper in a folder than texts are looked for.
    #[error("deeper than the {folders_max} folders that are looked into for texts")]
    TooDeep {
        /// The limit.
        folders_max: usize,
    },
    /// What it leads to is not there.
    #[error("a symbolic link to what is not there")]
    DanglingLink,
    /// Enough was read of this host before: an honest one is smaller.
    #[error("the {bytes_max} bytes and {reads_max} files that are read of one host were spent before")]
    BudgetSpent {
        /// Bytes that are read of one host.
        bytes_max: u64,
        /// Files and folders that are.
        reads_max: u64,
    },
    /// Anything else, in the system's words.
    #[error("{message}")]
    Other {
        /// The system's words.
        message: String,
    },
}

impl From<std::io::Error> for Refusal {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind;
        if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
            return Self::LinkLoop;
        }
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Self::Absent,
            ErrorKind::PermissionDenied => Self::NoPermission,
            ErrorKind::IsADirectory => Self::NotAFile,
            _ => Self::Other { message: error.to_string() },
        }
    }
}

impl Refusal {
    /// Whether it was left out for what was read instead, or as of no use: no verdict hangs on it.
    pub fn is_left_out(&self) -> bool {
        matches!(self, Self::AnotherIsRead | Self::EarlierBoot | Self::TooDeep { .. })
    }

    /// Whether this program declined to read it; otherwise the system did.
    pub fn is_by_us(&self) -> bool {
        !matches!(self, Self::Absent | Self::DanglingLink | Self::NoPermission | Self::Other { .. })
    }
}

/// Names read of one folder. Most that Linux makes are the memory blocks of a machine with some hundred TiB.
pub(super) const NAMES_MAX: usize = 1 << 20;

/// Files by path. Implemented by the disk and by an unpacked archive.
pub(crate) trait Source {
    /// What stands at `path`.
    fn node(&self, path: &str) -> Result<Node, Refusal>;
    /// The bytes of the regular file at `path`.
    fn read(&self, path: &str) -> Result<Vec<u8>, Refusal>;
    /// At most `length` bytes of the regular file at `path`, from `offset`.
    fn read_at(&self, path: &str, offset: u64, length: usize) -> Result<Vec<u8>, Refusal>;
    /// The names in the folder at `path`, in any order.
    fn names(&self, path: &str) -> Result<Vec<String>, Refusal>;
}
