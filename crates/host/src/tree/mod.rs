//! One rooted reader for every way to reach a host: live, a directory, an archive, a sosreport.
//!
//! Paths are given from the host's root without a leading slash (`proc/cmdline`). Symbolic links
//! resolve inside the root, as they would on the host itself: an absolute target starts at the root
//! and `..` stops there. Everything read, and everything that could not be, is kept in a [`ReadLog`],
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
mod evidence;
mod journal;
mod kmsg;
mod layout;
mod memory;
mod pasted;
mod path_text;
mod plain_links;
mod progress;
mod rdma_resource;
mod read_log;
mod save;
mod source;

pub use archive::ArchiveError;
pub use evidence::Evidence;
pub use memory::Memory;
pub(crate) use pasted::NAMED_OPTIONS;
pub use pasted::SeveralHosts;
pub use path_text::path_text;
pub use progress::{Progress, Watcher};
pub use read_log::{ReadLog, UnreadFile};
pub use save::SaveReport;
pub use source::{Node, Refusal};

use crate::kernel::Log;
use crate::{Text, redact};
use disk::Disk;
use pasted::Origin;
use source::Source;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

/// Symbolic links followed on the way to one file, as many as Linux follows (`MAXSYMLINKS`).
const LINKS_MAX: u32 = 40;
/// Names walked on the way to one file, those of links included. Devices of sysfs lie below some 30 folders.
const STEPS_MAX: u32 = 512;
/// Bytes read of one host, all files together. Configuration space of 65,536 functions has 256 MiB.
const READ_BYTES_MAX: u64 = 1 << 30;
/// Files, folders and links asked for of one host: some 60 for each function.
const READS_MAX: u64 = 4_000_000;
/// Lines of a text; a kernel log of 64 MiB has less than a million.
const LINES_MAX: usize = 4_000_000;
/// Bytes of a sysfs attribute, where the kernel gives a page, which has at most 64 KiB, and of a command line, which is shorter on
/// every architecture (`COMMAND_LINE_SIZE`).
const VALUE_BYTES_MAX: u64 = 64 << 10;
/// The folder of RDMA devices.
pub(crate) const RDMA_DEVICES: &str = "sys/class/infiniband";
/// Bytes of resolved paths that are cached.
const CACHE_BYTES_MAX: usize = 64 << 20;

/// Whether the files are those of the running machine or of a capture. Only the former are current and depend on
/// privileges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "SourceReach"))]
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
    /// The path can't be read.
    #[error("{path}")]
    Io {
        /// The path that was given.
        path: String,
        /// The system's error.
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
    /// A named pipe, socket or device: reading it could block or change the device.
    #[error("{path}: {kind}; expected a directory, an archive or a log; `-` reads standard input")]
    NotAFile {
        /// The path that was given.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// It contains no file tree of a Linux host, and no text that tells of one.
    #[error(
        "{path}: neither `proc` nor `sys` nor `sos_commands` found at its top or one folder below, and no text with a \
         kernel log or the output of lspci; expected a host's file tree, a sosreport, an archive of one, or such texts"
    )]
    NotAHost {
        /// The path that was given.
        path: String,
    },
    /// It contains no host, but archives that may: `sos collect` makes one archive of the reports of many hosts.
    #[error(
        "{path}: holds archives, `{name}` among them, and no host beside them; unpack it if it is an archive itself, and \
         give one of those within"
    )]
    HoldsArchives {
        /// The path that was given.
        path: String,
        /// The first of them.
        name: String,
    },
    /// Several captures in one folder or archive.
    #[error("{path}: holds several hosts, `{}` and `{}` among them; expected one: give one of them", names[0], names[1])]
    SeveralCaptures {
        /// The path that was given.
        path: String,
        /// Two of them.
        names: [String; 2],
    },
    /// Two captures, each of a host.
    #[error("{} and {} are a capture each; expected one capture, and texts beside it", paths[0], paths[1])]
    TwoCaptures {
        /// The paths that were given.
        paths: [String; 2],
    },
    /// Texts of several hosts.
    #[error("{hosts}")]
    SeveralHosts {
        /// What shows it, and where.
        hosts: SeveralHosts,
    },
}

/// A host's files.
pub struct Tree {
    source: Box<dyn Source>,
    reach: Reach,
    /// The host's root within the capture; empty or with a slash at its end.
    prefix: String,
    /// Cache of resolved folders: from the path asked for to the stored path, or to the reason that there is none.
    folders: RefCell<HashMap<String, Result<String, Refusal>>>,
    /// Cache of stored paths that are folders and not links. Most device paths begin with the same few.
    plain_folders: RefCell<HashSet<String>>,
    /// Bytes in both caches.
    cached_bytes: Cell<usize>,
    read_log: RefCell<ReadLog>,
    spent: Cell<ReadTotals>,
    budget_reported: Cell<bool>,
    watcher: Watcher,
    /// Where files come from that were cut out of texts.
    origins: BTreeMap<String, Origin>,
}

/// Bytes and files read so far, against `READ_BYTES_MAX` and `READS_MAX`.
#[derive(Debug, Clone, Copy, Default)]
struct ReadTotals {
    bytes: u64,
    reads: u64,
}

impl Tree {
    /// The machine on which this program runs.
    pub fn live() -> Self {
        Self::with_prefix(Box::new(Disk::new(Path::new("/"))), Reach::Live, String::new(), progress::ignore())
    }

    /// A capture: a directory, an archive (`.tar`, also compressed with gzip, xz or zstd), or texts with the kernel's log,
    /// the output of lspci and the like: one, or a folder of them.
    ///
    /// # Errors
    /// When the path can't be read, the archive is damaged or hostile, or it holds no host.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Self::open_watched(path, progress::ignore())
    }

    /// As [`Tree::open`]. `watcher` is called with the progress, now and at later reads.
    ///
    /// # Errors
    /// As [`Tree::open`].
    pub fn open_watched(path: &Path, watcher: Watcher) -> Result<Self, OpenError> {
        let mut evidence = Evidence::new(watcher);
        evidence.add_path(path)?;
        evidence.into_tree()
    }

    /// A capture from a reader such as a pipe. Errors name it `shown`.
    ///
    /// # Errors
    /// As [`Tree::open`].
    pub fn from_reader(reader: impl Read, shown: &str, watcher: Watcher) -> Result<Self, OpenError> {
        let mut evidence = Evidence::new(watcher);
        evidence.add_reader(reader, shown)?;
        evidence.into_tree()
    }

    /// A capture held in memory, for tests and fuzzers.
    pub fn of_memory(memory: Memory) -> Self {
        let roots = layout::host_roots(&memory).unwrap_or_default();
        let prefix = if let [only] = roots.as_slice() { only.clone() } else { String::new() };
        let source = plain_links::restore(Box::new(memory), &prefix);
        Self::with_prefix(source, Reach::Capture, prefix, progress::ignore())
    }

    /// A tree of `source`, whose host's root is at `prefix`.
    fn with_prefix(source: Box<dyn Source>, reach: Reach, prefix: String, watcher: Watcher) -> Self {
        Self {
            source,
            reach,
            prefix,
            folders: RefCell::default(),
            plain_folders: RefCell::default(),
            cached_bytes: Cell::default(),
            read_log: RefCell::default(),
            spent: Cell::default(),
            budget_reported: Cell::default(),
            watcher,
            origins: BTreeMap::new(),
        }
    }

    /// The same tree, whose files at these paths were cut out of texts.
    fn with_origins(self, origins: BTreeMap<String, Origin>) -> Self {
        Self { origins, ..self }
    }

    /// Whether this is the live machine.
    pub fn reach(&self) -> Reach {
        self.reach
    }

    /// The text of a file; `None` if it does not exist or can't be read. The read log records which. Bytes that
    /// are not UTF-8 are replaced, and secrets on command lines and in logs become the word `redacted`.
    pub fn text(&self, path: &str) -> Option<Text> {
        let bytes = self.bytes(path)?;
        if memchr::memchr_iter(b'\n', &bytes).count() > LINES_MAX {
            return self.record_miss(path, Refusal::TooMany { what: "lines of one file", max: LINES_MAX });
        }
        let body = String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        let body = redact::without_secrets(path, body);
        Some(match self.origins.get(path) {
            Some(Origin { file, lines }) => Text::cut_out(Arc::clone(file), body, Arc::clone(lines)),
            None => Text::new(path, body),
        })
    }

    /// The first line of a file without surrounding blanks: the value of a sysfs attribute.
    pub fn value(&self, path: &str) -> Option<crate::Cited<String>> {
        let text = self.text(path)?;
        if text.body().len() as u64 > VALUE_BYTES_MAX {
            return self.record(path, Err(Refusal::TooLarge { bytes_max: VALUE_BYTES_MAX }));
        }
        let value = text.body().lines().next().unwrap_or_default().trim().to_owned();
        Some(crate::Cited::new(value, text.cite_value()))
    }

    /// The bytes of a file; `None` as for [`Tree::text`].
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let read =
            self.count_read().and_then(|()| self.read_through(path, |stored| self.source.read(stored)));
        self.count_bytes(read.as_ref().map_or(0, Vec::len));
        let is_command_line = || redact::content_of(path) == redact::Content::CommandLine;
        let read = read.and_then(|bytes| match bytes.len() as u64 > VALUE_BYTES_MAX && is_command_line() {
            true => Err(Refusal::TooLarge { bytes_max: VALUE_BYTES_MAX }),
            false => Ok(bytes),
        });
        self.record(path, read)
    }

    /// Reads a path. Follows the last name only if reading fails because it is a link: most are files.
    fn read_through<T>(&self, path: &str, read: impl Fn(&str) -> Result<T, Refusal>) -> Result<T, Refusal> {
        match read(&self.resolve_folder_of(path)?) {
            Err(Refusal::LinkLoop | Refusal::NotAFile) => {
                let read = self.resolve(path).and_then(|resolved| read(&resolved));
                read.map_err(
                    |refusal| if refusal == Refusal::Absent { Refusal::DanglingLink } else { refusal },
                )
            }
            other => other,
        }
    }

    /// At most `length` bytes of a file from `offset`, for files that are slow to read.
    pub fn bytes_at(&self, path: &str, offset: usize, length: usize) -> Option<Vec<u8>> {
        let offset = u64::try_from(offset).ok()?;
        let read = self
            .count_read()
            .and_then(|()| self.read_through(path, |stored| self.source.read_at(stored, offset, length)));
        self.count_bytes(read.as_ref().map_or(0, Vec::len));
        self.record(path, read)
    }

    /// The kernel log: `/dev/kmsg` of the running machine. Of a capture the log of a text beside it, or else the first that
    /// reaches back to the boot, or else the first.
    pub fn kernel_log(&self) -> Option<Text> {
        let live = match self.reach {
            Reach::Live => self.record(kmsg::PATH, kmsg::read()),
            Reach::Capture => None,
        };
        live.map(|body| Text::new(kmsg::PATH, redact::without_secrets(kmsg::PATH, body)))
            .or_else(|| self.captured_log())
    }

    /// The kernel log of a capture.
    fn captured_log(&self) -> Option<Text> {
        if self.origins.contains_key(pasted::LOG) {
            return self.text(pasted::LOG);
        }
        let mut first = None;
        for path in layout::KERNEL_LOGS {
            let text = self.text(path);
            let text = if layout::is_journal(path) {
                text.and_then(|text| journal::kernel_lines(&text))
            } else {
                text
            };
            if text.as_ref().is_some_and(|text| Log::parse(text).complete_from_boot()) {
                return text;
            }
            first = first.or(text);
        }
        first
    }

    /// What `rdma resource` prints: counts of each RDMA device's queue pairs, registrations and the like. The running kernel is
    /// asked only if it has such a device, and no file of the running machine is read for it.
    pub fn rdma_resources(&self) -> Option<Text> {
        if self.reach == Reach::Capture {
            return self.text(rdma_resource::PATH);
        }
        if self.names(RDMA_DEVICES).is_empty() {
            return None;
        }
        let text = self.record(rdma_resource::PATH, rdma_resource::read())?;
        Some(Text::new(rdma_resource::PATH, redact::without_secrets(rdma_resource::PATH, text)))
    }

    /// The names in a folder, sorted; empty if it can't be listed.
    pub fn names(&self, path: &str) -> Vec<String> {
        let listed = self.count_read().and_then(|()| self.resolve(path));
        let listed = listed.and_then(|resolved| self.source.names(&resolved));
        let mut names = self.record(path, listed).unwrap_or_default();
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

    /// A symbolic link's target, not resolved.
    pub fn link(&self, path: &str) -> Option<String> {
        let resolved = self.count_read().and_then(|()| self.resolve_folder_of(path));
        let node = resolved.and_then(|resolved| Ok((self.source.node(&resolved)?, resolved)));
        match node {
            Ok((Node::Link(target), resolved)) => {
                self.read_log.borrow_mut().record_link(self.without_prefix(&resolved), &target);
                Some(target)
            }
            Ok(_) => None,
            Err(refusal) => self.record_miss(path, refusal),
        }
    }

    /// Whether a file or folder exists, links followed. False, with an entry in the read log, if that can't be read.
    pub fn exists(&self, path: &str) -> bool {
        self.find(path).is_some()
    }

    /// The path with all symbolic links resolved, from the host's root.
    pub fn real_path(&self, path: &str) -> Option<String> {
        let resolved = self.find(path)?;
        Some(self.without_prefix(&resolved).to_owned())
    }

    /// The stored path with all links resolved; `None`, recorded in the read log, if it does not exist or can't be read.
    fn find(&self, path: &str) -> Option<String> {
        match self.count_read().and_then(|()| self.resolve(path)) {
            Ok(resolved) => Some(resolved),
            Err(refusal) => self.record_miss(path, refusal),
        }
    }

    /// A stored path without the capture's prefix.
    fn without_prefix<'p>(&self, stored: &'p str) -> &'p str {
        stored.strip_prefix(&self.prefix).unwrap_or(stored)
    }

    /// The files read so far, and those that could not be read.
    pub fn read_log(&self) -> ReadLog {
        self.read_log.borrow().clone()
    }

    /// Files that exist and could not be read, by path.
    pub fn unread(&self) -> std::collections::BTreeMap<String, Refusal> {
        self.read_log.borrow().missed().clone()
    }

    /// Whether `path` exists and could not be read when it was asked for.
    pub fn is_unread(&self, path: &str) -> bool {
        self.read_log.borrow().why_missed(path).is_some()
    }

    /// Records the outcome of a read in the read log.
    fn record<T>(&self, path: &str, outcome: Result<T, Refusal>) -> Option<T> {
        match outcome {
            Ok(value) => {
                self.read_log.borrow_mut().read(path);
                Some(value)
            }
            Err(refusal) => self.record_miss(path, refusal),
        }
    }

    /// Records that the content of a file was refused.
    pub fn refuse(&self, path: &str, why: Refusal) {
        self.record_miss::<()>(path, why);
    }

    /// Records that `path` was not read.
    fn record_miss<T>(&self, path: &str, why: Refusal) -> Option<T> {
        // Every later read fails for the same reason: only the first is recorded.
        if let Refusal::BudgetSpent { .. } = why
            && self.budget_reported.replace(true)
        {
            return None;
        }
        self.read_log.borrow_mut().miss(path, why);
        None
    }

    /// Counts one read; fails if a limit of reads or bytes is reached.
    fn count_read(&self) -> Result<(), Refusal> {
        let spent = self.spent.get();
        if spent.bytes > READ_BYTES_MAX || spent.reads >= READS_MAX {
            return Err(Refusal::BudgetSpent { bytes_max: READ_BYTES_MAX, reads_max: READS_MAX });
        }
        self.spent.set(ReadTotals { reads: spent.reads + 1, ..spent });
        (self.watcher)(Progress { files: spent.reads + 1, ..Progress::default() });
        Ok(())
    }

    /// Counts bytes read.
    fn count_bytes(&self, bytes: usize) {
        let spent = self.spent.get();
        self.spent.set(ReadTotals { bytes: spent.bytes.saturating_add(bytes as u64), ..spent });
    }

    /// Resolves all links of a path, including the last name.
    fn resolve(&self, path: &str) -> Result<String, Refusal> {
        let path = self.resolve_folder_of(path)?;
        match self.source.node(&path)? {
            Node::Link(target) => {
                self.read_log.borrow_mut().record_link(self.without_prefix(&path), &target);
                self.resolve_target(&path, &target, &mut Allowance::default())
            }
            Node::File | Node::Folder => Ok(path),
            Node::Special => Err(Refusal::NotAFile),
        }
    }

    /// Resolves the links of all but the last name. Folders are cached.
    fn resolve_folder_of(&self, path: &str) -> Result<String, Refusal> {
        let path = path.trim_matches('/');
        let Some((folder, name)) = path.rsplit_once('/') else {
            return Ok(format!("{}{path}", self.prefix));
        };
        let known = self.folders.borrow().get(folder).cloned();
        let folder = known.unwrap_or_else(|| {
            let resolved = self.walk(&self.prefix, folder, &mut Allowance::default());
            if self.may_cache(folder.len() + resolved.as_ref().map_or(0, String::len)) {
                self.folders.borrow_mut().insert(folder.to_owned(), resolved.clone());
            }
            resolved
        })?;
        Ok(join(&folder, name))
    }

    /// Resolves the target of the link at `link`.
    fn resolve_target(&self, link: &str, target: &str, left: &mut Allowance) -> Result<String, Refusal> {
        let start = match target.starts_with('/') {
            true => self.prefix.trim_end_matches('/'),
            false => link.rsplit_once('/').map_or("", |(folder, _)| folder),
        };
        self.walk(start, target, left)
    }

    /// Resolves `path` from the resolved folder `start`, links included. All nested links share one allowance,
    /// because links that each contain two others would otherwise double the work at each level.
    fn walk(&self, start: &str, path: &str, left: &mut Allowance) -> Result<String, Refusal> {
        let root = self.prefix.trim_end_matches('/');
        let mut at = start.trim_end_matches('/').to_owned();
        for name in path.split('/') {
            left.steps = left.steps.checked_sub(1).ok_or(Refusal::LinkLoop)?;
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
            if node == Node::Folder && self.may_cache(at.len()) {
                self.plain_folders.borrow_mut().insert(at.clone());
            }
            if let Node::Link(target) = node {
                self.read_log.borrow_mut().record_link(self.without_prefix(&at), &target);
                left.links = left.links.checked_sub(1).ok_or(Refusal::LinkLoop)?;
                at = self.resolve_target(&at, &target, left)?;
            }
        }
        Ok(at)
    }

    /// Whether the cache may grow by `bytes`, and counts them if so. A hostile capture could fill memory.
    fn may_cache(&self, bytes: usize) -> bool {
        let held = self.cached_bytes.get().saturating_add(bytes);
        let fits = held <= CACHE_BYTES_MAX;
        if fits {
            self.cached_bytes.set(held);
        }
        fits
    }
}

/// Links and names that may still be followed while resolving one path.
struct Allowance {
    links: u32,
    steps: u32,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { links: LINKS_MAX, steps: STEPS_MAX }
    }
}

/// Whether a path names an open file of this process, as `/dev/stdin` and a shell's `<(...)` do.
fn is_descriptor(path: &Path) -> bool {
    path == Path::new("/dev/stdin")
        || ["/dev/fd", "/proc/self/fd"].iter().any(|folder| path.starts_with(folder))
}

/// What errors call a file that is neither a regular file nor a folder.
fn name_of(kind: std::fs::FileType) -> &'static str {
    if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

/// Joins a folder and a name with one slash.
fn join(folder: &str, name: &str) -> String {
    match folder {
        "" => name.to_owned(),
        folder => format!("{}/{name}", folder.trim_end_matches('/')),
    }
}
