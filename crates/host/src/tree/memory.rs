//! Files held in memory: an unpacked archive, or a host written down in a test.

use super::source::{Node, Refusal, Source};
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
enum Entry {
    File(Vec<u8>),
    Folder,
    Link(String),
    Special,
    Refused(Refusal),
}

/// A file tree in memory. Paths have no leading slash; folders come into being with what they hold.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    entries: BTreeMap<String, Entry>,
}

impl Memory {
    /// Puts a file.
    pub fn file(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.put(path, Entry::File(bytes.into()));
    }

    /// Puts a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) {
        self.put(path, Entry::Link(target.to_owned()));
    }

    /// Puts an empty folder.
    pub fn folder(&mut self, path: &str) {
        self.put(path, Entry::Folder);
    }

    pub(super) fn special(&mut self, path: &str) {
        self.put(path, Entry::Special);
    }

    pub(super) fn refused(&mut self, path: &str, why: Refusal) {
        self.put(path, Entry::Refused(why));
    }

    fn put(&mut self, path: &str, entry: Entry) {
        let path = path.trim_matches('/');
        if path.is_empty() {
            return;
        }
        for (end, _) in path.match_indices('/') {
            // What already stands there wins: a file can't become a folder by a later member.
            self.entries.entry(path[..end].to_owned()).or_insert(Entry::Folder);
        }
        self.entries.insert(path.to_owned(), entry);
    }
}

impl Source for Memory {
    fn node(&self, path: &str) -> Result<Node, Refusal> {
        if path.is_empty() {
            return Ok(Node::Folder);
        }
        match self.entries.get(path).ok_or(Refusal::Absent)? {
            Entry::File(_) => Ok(Node::File),
            Entry::Folder => Ok(Node::Folder),
            Entry::Link(target) => Ok(Node::Link(target.clone())),
            Entry::Special => Ok(Node::Special),
            Entry::Refused(why) => Err(why.clone()),
        }
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, Refusal> {
        match self.entries.get(path).ok_or(Refusal::Absent)? {
            Entry::File(bytes) => Ok(bytes.clone()),
            Entry::Refused(why) => Err(why.clone()),
            Entry::Folder | Entry::Link(_) | Entry::Special => Err(Refusal::NotAFile),
        }
    }

    fn read_at(&self, path: &str, offset: u64, length: usize) -> Result<Vec<u8>, Refusal> {
        let bytes = self.read(path)?;
        let from = usize::try_from(offset).map_or(bytes.len(), |offset| offset.min(bytes.len()));
        Ok(bytes[from..bytes.len().min(from.saturating_add(length))].to_vec())
    }

    fn names(&self, path: &str) -> Result<Vec<String>, Refusal> {
        if self.node(path)? != Node::Folder {
            return Err(Refusal::NotAFile);
        }
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        let below = self.entries.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix));
        Ok(below.filter_map(|(key, _)| direct_child(&key[prefix.len()..])).collect())
    }
}

fn direct_child(rest: &str) -> Option<String> {
    (!rest.is_empty() && !rest.contains('/')).then(|| rest.to_owned())
}
