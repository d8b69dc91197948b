//! Captures among files and folders.

use host::tree::path_text;
use std::cmp::Ordering;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Folders between one that was given and a capture in it.
const DEPTH_MAX: usize = 16;

/// Names that a host's file tree, or a sosreport, has at its top.
const HOST_NAMES: [&str; 3] = ["proc", "sys", "sos_commands"];

/// Endings of files that are no captures: sums, tables, and the locks and lists of inputs beside these.
const NO_CAPTURES: [&str; 7] = ["md5", "sha1", "sha256", "sha512", "parquet", "lock", "inputs"];
/// Endings of signatures, which lie beside what is signed. Encrypted files have some of them, too.
const SIGNATURES: [&str; 3] = ["asc", "sig", "gpg"];
/// Endings of encrypted files.
const ENCRYPTED: [&str; 4] = ["gpg", "pgp", "asc", "age"];
/// The end of names such as `SHA256SUMS`.
const SUMS: &str = "SUMS";

/// A file or folder that may be a capture.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Input {
    /// Its absolute path without `..`: a link is resolved only where `..` follows it.
    pub path: PathBuf,
    /// The file's size; `None` for a folder.
    pub bytes: Option<u64>,
    /// When the file, or the folder's list of names, was changed last, in microseconds since 1970; `None` if the system does not tell.
    pub modified_us: Option<i64>,
}

/// Why an input was not found or read.
#[derive(Debug)]
pub struct Unlisted {
    /// The file or folder.
    pub path: PathBuf,
    /// The system's error.
    pub error: io::Error,
}

/// What there is at some paths.
#[derive(Debug, Default)]
pub struct Inputs {
    /// By path, each once.
    pub found: Vec<Input>,
    /// What could not be looked at.
    pub unlisted: Vec<Unlisted>,
}

impl Inputs {
    /// Finds captures, and calls them by absolute paths. A path that was given is followed through symbolic links; below it they are left out. A folder is a capture if it has
    /// `proc`, `sys` or `sos_commands`; in others each file is an input, but for checksums, tables, and signatures of files beside them, and so are captures among the folders below, down to 16.
    pub fn find<'p>(paths: impl IntoIterator<Item = &'p Path>) -> Self {
        let mut all = Self::default();
        for path in paths {
            let path = absolute(path);
            match fs::metadata(&path) {
                Ok(metadata) => all.add(path, &metadata, 0),
                Err(error) => all.unlisted.push(Unlisted { path, error }),
            }
        }
        let by_path = |one: &Input, other: &Input| -> Ordering { one.path.cmp(&other.path) };
        all.found.sort_by(by_path);
        all.found.dedup_by(|one, other| one.path == other.path);
        all
    }

    fn add(&mut self, path: PathBuf, metadata: &Metadata, depth: usize) {
        if !metadata.is_dir() {
            // What is no file is an input whose error says so.
            return self.found.push(Input::new(path, metadata));
        }
        if HOST_NAMES.iter().any(|name| path.join(name).is_dir()) {
            return self.found.push(Input::new(path, metadata));
        }
        if depth == DEPTH_MAX {
            let error = io::Error::other(format!("more than {DEPTH_MAX} folders deep"));
            return self.unlisted.push(Unlisted { path, error });
        }
        match fs::read_dir(&path) {
            Ok(entries) => entries.for_each(|entry| self.add_entry(&path, entry, depth + 1)),
            Err(error) => self.unlisted.push(Unlisted { path, error }),
        }
    }

    fn add_entry(&mut self, folder: &Path, entry: io::Result<fs::DirEntry>, depth: usize) {
        let looked_at = entry.and_then(|entry| {
            let metadata = entry.metadata()?;
            Ok((entry.path(), metadata))
        });
        match looked_at {
            Ok((_, metadata)) if metadata.is_symlink() => {}
            Ok((path, metadata)) if metadata.is_file() && is_no_capture(&path) => {}
            Ok((path, metadata)) => self.add(path, &metadata, depth),
            Err(error) => self.unlisted.push(Unlisted { path: folder.to_owned(), error }),
        }
    }
}

/// Whether a file has a name that no capture has.
fn is_no_capture(path: &Path) -> bool {
    ends_with(path, &NO_CAPTURES)
        || (ends_with(path, &SIGNATURES) && path.with_extension("").exists())
        || path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(SUMS))
}

/// Whether a file's name has one of these endings.
fn ends_with(path: &Path, endings: &[&str]) -> bool {
    let is_one = |end: &str| endings.iter().any(|one| end.eq_ignore_ascii_case(one));
    path.extension().and_then(|end| end.to_str()).is_some_and(is_one)
}

/// The path from `/`, the same from whatever folder it was given: without `.` and `..`, and without `/` at its end. An empty one stays, and so does `..` after a link that leads nowhere.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    let Ok(path) = std::path::absolute(path) else { return path.to_owned() };
    path.components().fold(PathBuf::new(), |above, name| match name {
        // `..` after a link leads to the folder above the link's target.
        Component::ParentDir if above.is_symlink() => {
            let resolved = fs::canonicalize(&above).ok();
            resolved.as_deref().and_then(Path::parent).map_or_else(|| above.join(name), Path::to_owned)
        }
        Component::ParentDir if above.ends_with("..") => above.join(name),
        Component::ParentDir => above.parent().map_or(above.clone(), Path::to_owned),
        _ => above.join(name),
    })
}

impl Input {
    fn new(path: PathBuf, metadata: &Metadata) -> Self {
        let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Self {
            path,
            bytes: metadata.is_file().then_some(metadata.len()),
            modified_us: modified.and_then(|since| i64::try_from(since.as_micros()).ok()),
        }
    }

    /// Whether its name is that of an encrypted file.
    pub(crate) fn is_named_encrypted(&self) -> bool {
        ends_with(&self.path, &ENCRYPTED)
    }

    /// The same with the path that tables have.
    pub fn by_name(&self) -> Self {
        Self { path: self.name().into(), ..self.clone() }
    }

    /// The path as text. A byte that is no UTF-8 is its number, as `\xf4`, so that two paths have two names.
    pub fn name(&self) -> String {
        path_text(&self.path)
    }
}
