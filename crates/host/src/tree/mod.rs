//! One rooted reader for every way to reach a host: live, a directory, an archive, a sosreport.
//!
//! Paths are given from the host's root without a leading slash (`proc/cmdline`). Symbolic links
//! resolve inside the root, as they would on the host itself: an absolute target starts at the root
//! and `..` stops there. Everything read, and everything that could not be, is kept in a [`Ledger`],
//! so that a verdict can say what it did not see and a capture knows what to hold.
//!
//! ```
//! # fn main() -> Result<(), host::tree::OpenError> {
//! # let dir = std::env::temp_dir().join(format!("iotoll-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(dir.join("proc")).unwrap();
//! # std::fs::write(dir.join("proc/cmdline"), "quiet iommu=pt\n").unwrap();
//! let tree = host::tree::Tree::open(&dir)?;
//! let text = tree.text("proc/cmdline").unwrap();
//! assert_eq!(text.cite_value().to_string(), "proc/cmdline:1: quiet iommu=pt");
//! # std::fs::remove_dir_all(dir).unwrap();
//! # Ok(())
//! # }
//! ```

mod archive;
mod disk;
mod kmsg;
mod layout;
mod ledger;
mod memory;
mod save;
mod source;

pub use archive::ArchiveError;
pub use ledger::{Ledger, Miss};
pub use memory::Memory;
pub use source::{Node, Refusal};

use crate::Text;
use disk::Disk;
use source::Source;
use std::collections::{HashMap, HashSet};
use std::{cell::RefCell, io, path::Path};

/// Symbolic links followed on the way to one file, as many as Linux follows (`MAXSYMLINKS`).
const LINKS_MAX: u32 = 40;

/// How the host is reached; decides what may be said about "now" and about privileges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// The machine this program runs on.
    Live,
    /// A directory or archive copied from a host.
    Capture,
}

/// A capture that can't be opened at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The path itself can't be read.
    #[error("{path}")]
    Io {
        /// The path that was given.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// The archive is broken, hostile or of an unknown format.
    #[error("{path}")]
    Archive {
        /// The path that was given.
        path: String,
        /// What is wrong with it, and where.
        source: ArchiveError,
    },
    /// Nothing in it looks like a Linux host.
    #[error(
        "{path}: neither `proc` nor `sys` nor `sos_commands` found at its top or one folder below; \
         expected a host's file tree, a sosreport or an archive of one"
    )]
    NotAHost {
        /// The path that was given.
        path: String,
    },
}

/// A host's files.
pub struct Tree {
    source: Box<dyn Source>,
    reach: Reach,
    /// Folder of the capture in which the host's root lies; empty, or ending in a slash.
    prefix: String,
    /// Folders already resolved: as asked to as stored.
    folders: RefCell<HashMap<String, String>>,
    /// Stored paths already seen to be folders and no links: all devices lie below the same few.
    plain_folders: RefCell<HashSet<String>>,
    ledger: RefCell<Ledger>,
}

impl Tree {
    /// The machine under this program.
    pub fn live() -> Self {
        Self::over(Box::new(Disk::new(Path::new("/"))), Reach::Live, String::new())
    }

    /// A capture: a directory, or an archive (`.tar`, also compressed with gzip, xz or zstd).
    ///
    /// # Errors
    /// When the path can't be read, the archive is damaged or hostile, or it holds no host.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let shown = path.display().to_string();
        let io = |source| OpenError::Io { path: shown.clone(), source };
        let source: Box<dyn Source> = if std::fs::metadata(path).map_err(io)?.is_dir() {
            Box::new(Disk::new(path))
        } else {
            let file = std::fs::File::open(path).map_err(io)?;
            let memory =
                archive::unpack(file).map_err(|source| OpenError::Archive { path: shown.clone(), source })?;
            Box::new(memory)
        };
        let prefix = layout::host_root(source.as_ref()).ok_or(OpenError::NotAHost { path: shown })?;
        Ok(Self::over(source, Reach::Capture, prefix))
    }

    /// A capture held in memory; what tests and fuzzers use.
    pub fn of_memory(memory: Memory) -> Self {
        let prefix = layout::host_root(&memory).unwrap_or_default();
        Self::over(Box::new(memory), Reach::Capture, prefix)
    }

    fn over(source: Box<dyn Source>, reach: Reach, prefix: String) -> Self {
        Self {
            source,
            reach,
            prefix,
            folders: RefCell::default(),
            plain_folders: RefCell::default(),
            ledger: RefCell::default(),
        }
    }

    /// Whether this is the live machine.
    pub fn reach(&self) -> Reach {
        self.reach
    }

    /// The text of a file; `None` if it is not there, `None` and a line in the ledger if it can't be
    /// read. Bytes that are not UTF-8 become replacement characters.
    pub fn text(&self, path: &str) -> Option<Text> {
        let bytes = self.bytes(path)?;
        let body = String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        Some(Text::new(path, body))
    }

    /// The first line of a file without surrounding blanks: the value of a sysfs attribute.
    pub fn value(&self, path: &str) -> Option<crate::Cited<String>> {
        let text = self.text(path)?;
        let value = text.body().lines().next().unwrap_or_default().trim().to_owned();
        Some(crate::Cited::new(value, text.cite_value()))
    }

    /// The bytes of a file; `None` as for [`Tree::text`].
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let read = self.read_through(path, |stored| self.source.read(stored));
        self.note(path, read)
    }

    /// Reads at a path, and only where a link stands there, follows it: most names are files.
    fn read_through<T>(&self, path: &str, read: impl Fn(&str) -> Result<T, Refusal>) -> Result<T, Refusal> {
        match read(&self.resolve_folder_of(path)?) {
            Err(Refusal::LinkLoop | Refusal::NotAFile) => read(&self.resolve(path)?),
            other => other,
        }
    }

    /// At most `length` bytes of a file from `offset`, for files whose every byte costs.
    pub fn bytes_at(&self, path: &str, offset: usize, length: usize) -> Option<Vec<u8>> {
        let offset = u64::try_from(offset).ok()?;
        let read = self.read_through(path, |stored| self.source.read_at(stored, offset, length));
        self.note(path, read)
    }

    /// The kernel's log: `/dev/kmsg` live, or the first of the places where captures keep it.
    pub fn kernel_log(&self) -> Option<Text> {
        let live = match self.reach {
            Reach::Live => self.note(kmsg::PATH, kmsg::read()),
            Reach::Capture => None,
        };
        live.map(|body| Text::new(kmsg::PATH, body))
            .or_else(|| layout::KERNEL_LOGS.iter().find_map(|path| self.text(path)))
    }

    /// The names in a folder, sorted; empty if it can't be listed.
    pub fn names(&self, path: &str) -> Vec<String> {
        let listed = self.resolve(path).and_then(|resolved| self.source.names(&resolved));
        let mut names = self.note(path, listed).unwrap_or_default();
        names.sort_unstable();
        names
    }

    /// The last name of a symbolic link's target: `nvme` for `driver -> ../../bus/pci/drivers/nvme`.
    pub fn link_name(&self, path: &str) -> Option<crate::Cited<String>> {
        let target = self.link(path)?;
        let name = target.trim_end_matches('/').rsplit('/').next()?.to_owned();
        let at = crate::Citation::of_file(path, &format!("-> {target}"));
        (!name.is_empty() && name != "..").then(|| crate::Cited::new(name, at))
    }

    /// A symbolic link's target as it is written.
    pub fn link(&self, path: &str) -> Option<String> {
        let resolved = self.resolve_folder_of(path).ok()?;
        match self.source.node(&resolved) {
            Ok(Node::Link(target)) => {
                self.ledger.borrow_mut().saw_link(self.below_root(&resolved), &target);
                Some(target)
            }
            _ => None,
        }
    }

    /// Whether a file, folder or link to one is there.
    pub fn exists(&self, path: &str) -> bool {
        self.resolve(path).is_ok()
    }

    /// Where a path ends after all symbolic links, from the host's root.
    pub fn real_path(&self, path: &str) -> Option<String> {
        let resolved = self.resolve(path).ok()?;
        Some(self.below_root(&resolved).to_owned())
    }

    /// A stored path as seen from the host's root.
    fn below_root<'p>(&self, stored: &'p str) -> &'p str {
        stored.strip_prefix(&self.prefix).unwrap_or(stored)
    }

    /// What was read so far, and what could not be.
    pub fn ledger(&self) -> Ledger {
        self.ledger.borrow().clone()
    }

    fn note<T>(&self, path: &str, outcome: Result<T, Refusal>) -> Option<T> {
        let mut ledger = self.ledger.borrow_mut();
        match outcome {
            Ok(value) => {
                ledger.read(path);
                Some(value)
            }
            Err(refusal) => {
                ledger.missed(path, refusal);
                None
            }
        }
    }

    /// Follows every link, the last one included.
    fn resolve(&self, path: &str) -> Result<String, Refusal> {
        let path = self.resolve_folder_of(path)?;
        match self.source.node(&path)? {
            Node::Link(target) => {
                self.ledger.borrow_mut().saw_link(self.below_root(&path), &target);
                self.resolve_target(&path, &target, &mut { LINKS_MAX })
            }
            Node::File | Node::Folder => Ok(path),
            Node::Special => Err(Refusal::NotAFile),
        }
    }

    /// Follows the links of all but the last name, remembering folders.
    fn resolve_folder_of(&self, path: &str) -> Result<String, Refusal> {
        let path = path.trim_matches('/');
        let Some((folder, name)) = path.rsplit_once('/') else {
            return Ok(format!("{}{path}", self.prefix));
        };
        let known = self.folders.borrow().get(folder).cloned();
        let folder = match known {
            Some(known) => known,
            None => {
                let resolved = self.walk(&self.prefix, folder, &mut { LINKS_MAX })?;
                self.folders.borrow_mut().insert(folder.to_owned(), resolved.clone());
                resolved
            }
        };
        Ok(join(&folder, name))
    }

    fn resolve_target(&self, link: &str, target: &str, links_left: &mut u32) -> Result<String, Refusal> {
        let start = match target.starts_with('/') {
            true => self.prefix.trim_end_matches('/'),
            false => link.rsplit_once('/').map_or("", |(folder, _)| folder),
        };
        self.walk(start, target, links_left)
    }

    /// Walks `path` from the resolved folder `start`, following the links it meets. All links on
    /// the way draw on one allowance: links that each name two others would double it otherwise.
    fn walk(&self, start: &str, path: &str, links_left: &mut u32) -> Result<String, Refusal> {
        let root = self.prefix.trim_end_matches('/');
        let mut at = start.trim_end_matches('/').to_owned();
        for name in path.split('/') {
            match name {
                "" | "." => continue,
                ".." if at == root => continue,
                ".." => {
                    at.truncate(at.rfind('/').unwrap_or(0));
                    continue;
                }
                name => at = join(&at, name),
            }
            if self.plain_folders.borrow().contains(&at) {
                continue;
            }
            let node = self.source.node(&at)?;
            if node == Node::Folder {
                self.plain_folders.borrow_mut().insert(at.clone());
            }
            if let Node::Link(target) = node {
                self.ledger.borrow_mut().saw_link(self.below_root(&at), &target);
                *links_left = links_left.checked_sub(1).ok_or(Refusal::LinkLoop)?;
                at = self.resolve_target(&at, &target, links_left)?;
            }
        }
        Ok(at)
    }
}

fn join(folder: &str, name: &str) -> String {
    match folder {
        "" => name.to_owned(),
        folder => format!("{}/{name}", folder.trim_end_matches('/')),
    }
}
