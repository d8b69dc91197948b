//! The files of a host that were read, and those that could not be read.

use super::source::Refusal;
use std::collections::{BTreeMap, BTreeSet};

/// A file that could not be read, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadFile {
    /// Path from the host's root.
    pub file: String,
    /// Why.
    pub why: Refusal,
}

/// The files that were asked for, with the outcome.
#[derive(Debug, Clone, Default)]
pub struct ReadLog {
    read: BTreeSet<String>,
    links: BTreeMap<String, String>,
    missed: BTreeMap<String, Refusal>,
}

impl ReadLog {
    /// Records a file or folder that was read.
    pub(super) fn read(&mut self, path: &str) {
        self.read.insert(path.to_owned());
    }

    /// Records a symbolic link that was followed or read.
    pub(super) fn record_link(&mut self, path: &str, target: &str) {
        self.links.insert(path.to_owned(), target.to_owned());
    }

    /// Records a file that could not be read. An absent file is not recorded: every host lacks many.
    pub(super) fn miss(&mut self, path: &str, why: Refusal) {
        if why != Refusal::Absent {
            self.missed.insert(path.to_owned(), why);
        }
    }

    /// Files and folders that were read, sorted.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.read.iter().map(String::as_str)
    }

    /// Symbolic links that were followed or read, with their unresolved targets.
    pub fn links(&self) -> impl Iterator<Item = (&str, &str)> {
        self.links.iter().map(|(path, target)| (path.as_str(), target.as_str()))
    }

    /// All files that exist but could not be read.
    pub fn unreadable(&self) -> Vec<UnreadFile> {
        self.missed.iter().map(|(file, why)| UnreadFile { file: file.clone(), why: why.clone() }).collect()
    }

    /// Files that exist but could not be read, with the reason.
    pub(super) fn missed(&self) -> &BTreeMap<String, Refusal> {
        &self.missed
    }

    /// Why `path` could not be read; `None` if it was read, is absent or was not asked for.
    pub fn why_missed(&self, path: &str) -> Option<&Refusal> {
        self.missed.get(path)
    }
}
