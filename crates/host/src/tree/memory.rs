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
    /// Bytes of all paths and link targets.
    words_bytes: u64,
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

    /// Bytes that paths and link targets have taken. Each folder on the way to a file has a path of its
    /// own, so that one deep name takes the square of its length.
    pub(super) fn words_bytes(&self) -> u64 {
        self.words_bytes
    }

    fn put(&mut self, path: &str, entry: Entry) {
        let path = path.trim_matches('/');
        if path.is_empty() {
            return;
        }
        // What already stands there wins: a file can't become a folder by a later member. Its own
        // folders stand, too.
        for (end, _) in path.rmatch_indices('/') {
            if self.entries.contains_key(&path[..end]) {
                break;
            }
            self.insert(&path[..end], Entry::Folder);
        }
        self.insert(path, entry);
    }

    fn insert(&mut self, path: &str, entry: Entry) {
        let target_bytes = if let Entry::Link(target) = &entry { target.len() } else { 0 };
        let replaced = self.entries.insert(path.to_owned(), entry).is_some();
        let path_bytes = if replaced { 0 } else { path.len() };
        self.words_bytes += (path_bytes + target_bytes) as u64;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folder_on_the_way_is_counted_once() {
        let mut memory = Memory::default();
        memory.file("sys/a/b", "1");
        assert_eq!(memory.words_bytes(), ("sys".len() + "sys/a".len() + "sys/a/b".len()) as u64);
        let before = memory.words_bytes();
        memory.file("sys/a/b", "2");
        assert_eq!(memory.words_bytes(), before);
        memory.link("sys/a/c", "b");
        assert_eq!(memory.words_bytes(), before + ("sys/a/c".len() + "b".len()) as u64);
        // 5 KiB of an archive ask for 4 MiB of memory.
        memory.file(&"/a".repeat(2048), "");
        assert!(memory.words_bytes() > 4 << 20);
    }

    #[test]
    fn what_stands_first_stays() {
        let mut memory = Memory::default();
        memory.file("sys", "no folder");
        memory.file("sys/a/b", "1");
        assert_eq!(memory.node("sys"), Ok(Node::File));
        assert_eq!(memory.node("sys/a"), Ok(Node::Folder));
        assert_eq!(memory.read("sys/a/b"), Ok(b"1".to_vec()));
    }
}
