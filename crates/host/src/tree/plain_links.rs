//! Captures whose symbolic links became plain files that hold their targets.
//!
//! Git with `core.symlinks=false`, and programs that copy from Linux to other systems, store links that way. Without
//! this, no function of such a capture has a driver, a group or a path through its bridges.

use super::source::{Node, Refusal, Source};

/// The folder of which every entry is a link on a real host: it tells whether a capture stores links as files.
const LINKS_ONLY: &str = "sys/bus/pci/devices";

/// Longest target that is looked at, as long as Linux's paths (`PATH_MAX`).
const TARGET_BYTES_MAX: usize = 4096;

/// Shows the files of `source` that hold a link's target as links, if the host's root at `prefix` stores them so.
pub(super) fn restore(source: Box<dyn Source>, prefix: &str) -> Box<dyn Source> {
    let folder = format!("{prefix}{LINKS_ONLY}");
    let first = source.names(&folder).ok().and_then(|names| names.into_iter().next());
    let is_plain = first.is_some_and(|name| source.node(&format!("{folder}/{name}")) == Ok(Node::File));
    if is_plain { Box::new(PlainLinks { source, below: format!("{prefix}sys/") }) } else { source }
}

/// A source that stores links as files.
struct PlainLinks {
    source: Box<dyn Source>,
    /// Links are restored below this folder; elsewhere a file may quote a path.
    below: String,
}

impl PlainLinks {
    /// The target that the file at `path` holds, if it holds nothing else.
    fn target(&self, path: &str) -> Option<String> {
        if !path.starts_with(&self.below) {
            return None;
        }
        let bytes = self.source.read_at(path, 0, TARGET_BYTES_MAX).ok()?;
        let text = String::from_utf8(bytes).ok()?;
        let target = text.trim_end_matches(['\r', '\n']);
        let is_target = target.starts_with("../") && !target.contains(['\n', '\0']);
        is_target.then(|| target.to_owned())
    }
}

impl Source for PlainLinks {
    fn node(&self, path: &str) -> Result<Node, Refusal> {
        match self.source.node(path)? {
            Node::File => Ok(self.target(path).map_or(Node::File, Node::Link)),
            node => Ok(node),
        }
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, Refusal> {
        match self.target(path) {
            Some(_) => Err(Refusal::NotAFile),
            None => self.source.read(path),
        }
    }

    fn read_at(&self, path: &str, offset: u64, length: usize) -> Result<Vec<u8>, Refusal> {
        match self.target(path) {
            Some(_) => Err(Refusal::NotAFile),
            None => self.source.read_at(path, offset, length),
        }
    }

    fn names(&self, path: &str) -> Result<Vec<String>, Refusal> {
        self.source.names(path)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Memory, Tree};

    const DEVICE: &str = "sys/devices/pci0001:00/0001:00:01.0";

    /// A host whose links are stored as files with this end.
    fn host(end: &str) -> Tree {
        let mut memory = Memory::default();
        let target = |target: &str| format!("{target}{end}");
        memory.file("sys/bus/pci/devices/0001:00:01.0", target("../../../devices/pci0001:00/0001:00:01.0"));
        memory.file(&format!("{DEVICE}/driver"), target("../../../bus/pci/drivers/tg3"));
        memory.file(&format!("{DEVICE}/vendor"), "0x14e4\n");
        memory.file("proc/cmdline", "../quoted");
        Tree::of_memory(memory)
    }

    #[test]
    fn files_that_hold_targets_are_links() {
        for end in ["", "\n", "\r\n"] {
            let tree = host(end);
            assert_eq!(tree.value("sys/bus/pci/devices/0001:00:01.0/vendor").unwrap().value, "0x14e4");
            assert_eq!(tree.link_name("sys/bus/pci/devices/0001:00:01.0/driver").unwrap().value, "tg3");
            assert_eq!(tree.real_path("sys/bus/pci/devices/0001:00:01.0").as_deref(), Some(DEVICE));
            assert_eq!(tree.text("proc/cmdline").unwrap().body(), "../quoted");
        }
    }

    #[test]
    fn a_host_with_links_keeps_its_files() {
        let mut memory = Memory::default();
        memory.link("sys/bus/pci/devices/0001:00:01.0", "../../../devices/pci0001:00/0001:00:01.0");
        memory.file(&format!("{DEVICE}/label"), "../not/a/link");
        let tree = Tree::of_memory(memory);
        let label = tree.value("sys/bus/pci/devices/0001:00:01.0/label").unwrap();
        assert_eq!(label.value, "../not/a/link");
    }
}
