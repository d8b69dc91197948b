//! A host that something is found on, to be made hostile.

use super::tar;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// One thing of a host's.
#[derive(Debug, Clone)]
pub(crate) enum Thing {
    File(Vec<u8>),
    Link(String),
}

/// Its files and links, by path. Later ones replace earlier ones.
#[derive(Debug, Clone, Default)]
pub(crate) struct Host(pub(crate) Vec<(String, Thing)>);

impl Host {
    /// An NVMe disk behind VT-d, where each unmap waits for an IOTLB flush: two findings.
    pub(crate) fn plain() -> Self {
        Self::rule("strict-x86-5-10-by-option")
    }

    /// One of the hosts that rules are tested by.
    pub(crate) fn rule(name: &str) -> Self {
        let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/tests/rules");
        Self::read(&rules.join(name).with_extension("txtar"))
    }

    /// All files of hosts that rules and verdicts are tested by, by name.
    pub(crate) fn known() -> Vec<(String, PathBuf)> {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/tests");
        let files = ["rules", "field"].map(|folder| fs::read_dir(tests.join(folder)).unwrap());
        let paths = files.into_iter().flatten().map(|entry| entry.unwrap().path());
        let named = |path: PathBuf| (path.file_stem().unwrap().to_string_lossy().into_owned(), path);
        let mut all: Vec<_> = paths.map(named).collect();
        all.sort();
        all
    }

    pub(crate) fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let (_, text) = text.split_once("\n-- ").unwrap();
        let part = |part: &str| {
            let (path, content) = part.split_once(" --").unwrap();
            let content = content.strip_prefix('\n').unwrap_or(content);
            match (path.split_once(" -> "), path.strip_suffix(" (hex)")) {
                (Some((path, target)), _) => (path.to_owned(), Thing::Link(target.to_owned())),
                (None, Some(path)) => (path.to_owned(), Thing::File(from_hex(content))),
                (None, None) => (path.to_owned(), Thing::File(content.as_bytes().to_vec())),
            }
        };
        Self(text.split("\n-- ").map(part).collect())
    }

    pub(crate) fn file(mut self, path: &str, content: impl Into<Vec<u8>>) -> Self {
        self.0.retain(|(known, _)| known != path);
        self.0.push((path.to_owned(), Thing::File(content.into())));
        self
    }

    /// Its members, without an archive's end.
    pub(crate) fn members(&self) -> Vec<u8> {
        let member = |(path, thing): &(String, Thing)| match thing {
            Thing::File(content) => tar::file(path.as_bytes(), content),
            Thing::Link(target) => tar::link(path.as_bytes(), target.as_bytes()),
        };
        self.0.iter().flat_map(member).collect()
    }

    pub(crate) fn archive(&self) -> Vec<u8> {
        [self.members(), tar::end()].concat()
    }

    /// Writes it below a folder. What can't be there beside the rest is left out.
    pub(crate) fn write(&self, root: &Path) {
        for (path, thing) in &self.0 {
            let path = root.join(path);
            let _ = fs::create_dir_all(path.parent().unwrap());
            let _ = match thing {
                Thing::File(content) => fs::write(&path, content),
                Thing::Link(target) => symlink(target, &path),
            };
        }
    }
}

fn from_hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect()
}
