//! A file tree in memory: an unpacked archive, or a host made up by a test.

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

/// Estimated memory of one map entry, without its path and content.
const ENTRY_BYTES: u64 = 128;

/// A file tree in memory. Paths have no leading slash. Parent folders are implied by the files in them and not
/// stored: otherwise a deep path would take memory quadratic in its length.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    entries: BTreeMap<String, Entry>,
    /// Memory of all entries without the contents of files.
    overhead_bytes: u64,
}

impl Memory {
    /// Adds or replaces a file.
    pub fn file(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.put(path, Entry::File(bytes.into()));
    }

    /// Adds or replaces a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) {
        self.put(path, Entry::Link(target.to_owned()));
    }

    /// Adds an empty folder.
    pub fn folder(&mut self, path: &str) {
        self.put(path, Entry::Folder);
    }

    /// Adds a file that exists but can't be read.
    pub fn refused(&mut self, path: &str, why: Refusal) {
        self.put(path, Entry::Refused(why));
    }

    /// Adds a device, pipe or socket.
    pub(super) fn special(&mut self, path: &str) {
        self.put(path, Entry::Special);
    }

    /// Memory of all entries without the contents of files, in bytes.
    pub(super) fn overhead_bytes(&self) -> u64 {
        self.overhead_bytes
    }

    /// Adds an entry and counts its memory.
    fn put(&mut self, path: &str, entry: Entry) {
        let path = path.trim_matches('/');
        // An archive that was appended to may name a folder again; it stays as it is.
        let is_known_folder = entry == Entry::Folder && self.entries.contains_key(path);
        if path.is_empty() || is_known_folder {
            return;
        }
        let target_bytes = if let Entry::Link(target) = &entry { target.len() } else { 0 };
        let replaced = self.entries.insert(path.to_owned(), entry).is_some();
        let path_bytes = if replaced { 0 } else { path.len() as u64 + ENTRY_BYTES };
        self.overhead_bytes += path_bytes + target_bytes as u64;
    }

    /// Whether any entry is below this path, so that it is a folder.
    fn has_entries_below(&self, path: &str) -> bool {
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
            None if self.has_entries_below(path) => Ok(Node::Folder),
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
        // Jump from each name past all entries below it.
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

/// The character after `/` in ASCII: all keys that begin with `a/` sort before `a0`.
const AFTER_SLASH: char = '0';

impl Memory {
    /// Applies `take` to the bytes of a file.
    fn content<T>(&self, path: &str, take: impl Fn(&[u8]) -> T) -> Result<T, Refusal> {
        match self.entries.get(path) {
            Some(Entry::File(bytes)) => Ok(take(bytes)),
            Some(Entry::Refused(why)) => Err(why.clone()),
            Some(Entry::Folder | Entry::Link(_) | Entry::Special) => Err(Refusal::NotAFile),
            None if self.has_entries_below(path) => Err(Refusal::NotAFile),
            None => Err(Refusal::Absent),
        }
    }
}

/// At most `length` bytes from `offset`.
fn part(bytes: &[u8], offset: u64, length: usize) -> Vec<u8> {
    let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
    rest.get(..length).unwrap_or(rest).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overhead_grows_linearly_with_the_length_of_names() {
        let mut memory = Memory::default();
        memory.file("sys/a/b", "1");
        assert_eq!(memory.overhead_bytes(), "sys/a/b".len() as u64 + ENTRY_BYTES);
        let before = memory.overhead_bytes();
        memory.file("sys/a/b", "2");
        assert_eq!(memory.overhead_bytes(), before);
        memory.link("sys/a/c", "b");
        assert_eq!(memory.overhead_bytes(), before + "sys/a/cb".len() as u64 + ENTRY_BYTES);
        memory.file(&"/a".repeat(2048), "");
        assert!(memory.overhead_bytes() < 8 << 10);
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
    fn a_file_stays_a_file_when_an_entry_below_it_is_added() {
        let mut memory = Memory::default();
        memory.file("sys", "no folder");
        memory.file("sys/a/b", "1");
        assert_eq!(memory.node("sys"), Ok(Node::File));
        assert_eq!(memory.node("sys/a"), Ok(Node::Folder));
        assert_eq!(memory.read("sys/a/b"), Ok(b"1".to_vec()));
    }
}
