//! What was read of a host, and what could not be.

use super::source::Refusal;
use std::collections::{BTreeMap, BTreeSet};

/// A file that could not be read, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Miss {
    /// Path from the host's root.
    pub file: String,
    /// Why.
    pub why: Refusal,
}

/// The files a reader asked for.
#[derive(Debug, Clone, Default)]
pub struct ReadLog {
    read: BTreeSet<String>,
    links: BTreeMap<String, String>,
    missed: BTreeMap<String, Refusal>,
}

impl ReadLog {
    pub(super) fn read(&mut self, path: &str) {
        self.read.insert(path.to_owned());
    }

    pub(super) fn saw_link(&mut self, path: &str, target: &str) {
        self.links.insert(path.to_owned(), target.to_owned());
    }

    /// Absence is no miss: most hosts lack most of what is asked for.
    pub(super) fn miss(&mut self, path: &str, why: Refusal) {
        if why != Refusal::Absent {
            self.missed.insert(path.to_owned(), why);
        }
    }

    /// Files and folders that were read, sorted.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.read.iter().map(String::as_str)
    }

    /// Symbolic links that were looked at, with their targets as written.
    pub fn links(&self) -> impl Iterator<Item = (&str, &str)> {
        self.links.iter().map(|(path, target)| (path.as_str(), target.as_str()))
    }

    /// Everything that was there but could not be read.
    pub fn unreadable(&self) -> Vec<Miss> {
        self.missed.iter().map(|(file, why)| Miss { file: file.clone(), why: why.clone() }).collect()
    }

    pub(super) fn missed(&self) -> &BTreeMap<String, Refusal> {
        &self.missed
    }

    /// Why `path` could not be read, if it was asked for, is there and could not.
    pub fn why_missed(&self, path: &str) -> Option<&Refusal> {
        self.missed.get(path)
    }
}
