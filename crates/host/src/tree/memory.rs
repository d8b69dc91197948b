//! Files held in memory: an unpacked archive, or a host written down in a test.

use super::source::{NAMES_MAX, Node, Refusal, Source};
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    File(Vec<u8>),
    Folder,
    Link(String),
    Special,
    Refused(Refusal),
}

/// What keeping one entry takes beside its path and its content: the map's own memory.
const ENTRY_BYTES: u64 = 128;

/// A file tree in memory. Paths have no leading slash. Folders come into being with what they hold, and take
/// no memory then: a deep name would take the square of its length otherwise.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    entries: BTreeMap<String, Entry>,
    /// Memory that entries take beside the contents of files.
    keeping_bytes: u64,
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

    /// Puts something that is there and can't be read.
    pub fn refused(&mut self, path: &str, why: Refusal) {
        self.put(path, Entry::Refused(why));
    }

    pub(super) fn special(&mut self, path: &str) {
        self.put(path, Entry::Special);
    }

    /// Bytes of memory that entries take, without the contents of files.
    pub(super) fn keeping_bytes(&self) -> u64 {
        self.keeping_bytes
    }

    fn put(&mut self, path: &str, entry: Entry) {
        let path = path.trim_matches('/');
        // A folder that is named again, as in an archive that was appended to, is no other thing.
        let is_known_folder = entry == Entry::Folder && self.entries.contains_key(path);
        if path.is_empty() || is_known_folder {
            return;
        }
        let target_bytes = if let Entry::Link(target) = &entry { target.len() } else { 0 };
        let replaced = self.entries.insert(path.to_owned(), entry).is_some();
        let path_bytes = if replaced { 0 } else { path.len() as u64 + ENTRY_BYTES };
        self.keeping_bytes += path_bytes + target_bytes as u64;
    }

    /// Whether anything lies below a path.
    fn holds_any(&self, path: &str) -> bool {
        let prefix = format!("{path}/");
        self.entries.range(prefix.clone()..).next().is_some_and(|(key, _)| key.starts_with(&prefix))
    }
}

impl Source for Memory {
    fn node(&self, path: &str) -> Result<Node, Refusal> {
        if path.is_empty() {
            return Ok(Node::Folder);
        }
        match self.entries.get(path) {
            Some(Entry::File(_)) => Ok(Node::File),
            Some(Entry::Folder) => Ok(Node::Folder),
            Some(Entry::Link(target)) => Ok(Node::Link(target.clone())),
            Some(Entry::Special) => Ok(Node::Special),
            Some(Entry::Refused(why)) => Err(why.clone()),
            None if self.holds_any(path) => Ok(Node::Folder),
            None => Err(Refusal::Absent),
        }
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, Refusal> {
        self.content(path, |bytes| bytes.to_vec())
    }

    fn read_at(&self, path: &str, offset: u64, length: usize) -> Result<Vec<u8>, Refusal> {
        self.content(path, |bytes| part(bytes, offset, length))
    }

    fn names(&self, path: &str) -> Result<Vec<String>, Refusal> {
        if self.node(path)? != Node::Folder {
            return Err(Refusal::NotAFile);
        }
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        let mut names = Vec::new();
        let mut from = prefix.clone();
        // From each name on to what lies behind all that is below it.
        while let Some((key, _)) = self.entries.range(from..).next() {
            let Some(rest) = key.strip_prefix(&prefix) else { break };
            let (name, below) = rest.split_once('/').map_or((rest, false), |(name, _)| (name, true));
            from = match below {
                true => format!("{prefix}{name}{AFTER_SLASH}"),
                false => format!("{key}\0"),
            };
            names.push(name.to_owned());
            if names.len() > NAMES_MAX {
                return Err(Refusal::TooMany { what: "names of one folder", max: NAMES_MAX });
            }
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }
}

/// The character that follows `/`: keys below `a/` are before `a0`.
const AFTER_SLASH: char = '0';

impl Memory {
    fn content<T>(&self, path: &str, take: impl Fn(&[u8]) -> T) -> Result<T, Refusal> {
        match self.entries.get(path) {
            Some(Entry::File(bytes)) => Ok(take(bytes)),
            Some(Entry::Refused(why)) => Err(why.clone()),
            Some(Entry::Folder | Entry::Link(_) | Entry::Special) => Err(Refusal::NotAFile),
            None if self.holds_any(path) => Err(Refusal::NotAFile),
            None => Err(Refusal::Absent),
        }
    }
}

fn part(bytes: &[u8], offset: u64, length: usize) -> Vec<u8> {
    let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
    rest.get(..length).unwrap_or(rest).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_grows_with_the_length_of_names_and_not_with_its_square() {
        let mut memory = Memory::default();
        memory.file("sys/a/b", "1");
        assert_eq!(memory.keeping_bytes(), "sys/a/b".len() as u64 + ENTRY_BYTES);
        let before = memory.keeping_bytes();
        memory.file("sys/a/b", "2");
        assert_eq!(memory.keeping_bytes(), before);
        memory.link("sys/a/c", "b");
        assert_eq!(memory.keeping_bytes(), before + "sys/a/cb".len() as u64 + ENTRY_BYTES);
        memory.file(&"/a".repeat(2048), "");
        assert!(memory.keeping_bytes() < 8 << 10);
        assert_eq!(memory.node(&["a"; 2047].join("/")), Ok(Node::Folder));
    }

    #[test]
    fn names_are_listed_once_whether_folders_are_named_or_implied() {
        let mut memory = Memory::default();
        for file in ["p/c/1", "p/c/2/3", "p/c!x", "p/c-", "p/c0", "p/d", "q"] {
            memory.file(file, "");
        }
        memory.folder("p/c");
        memory.folder("p/c/2");
        assert_eq!(memory.names("p").unwrap(), ["c", "c!x", "c-", "c0", "d"]);
        assert_eq!(memory.names("p/c").unwrap(), ["1", "2"]);
        assert_eq!(memory.names("").unwrap(), ["p", "q"]);
        assert_eq!(memory.names("p/d"), Err(Refusal::NotAFile));
        assert_eq!(memory.names("r"), Err(Refusal::Absent));
        memory.folder("empty");
        assert!(memory.names("empty").unwrap().is_empty());
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
