//! One hostile input.

use std::path::{Path, PathBuf};

/// A case, made when it is run: all of them together would fill the memory.
pub(crate) struct Case {
    pub(crate) category: &'static str,
    pub(crate) name: String,
    /// Takes more than a second or two to make or to read.
    pub(crate) is_heavy: bool,
    pub(crate) input: Input,
}

/// Makes the bytes of an archive.
type Archive = Box<dyn Fn() -> Vec<u8> + Send + Sync>;
/// Fills an empty folder; the other folder is one that nothing may be read from or written to.
type Tree = Box<dyn Fn(&Path, &Path) + Send + Sync>;
/// Makes the input itself, whatever it is, at a path.
type Special = Box<dyn Fn(&Path) + Send + Sync>;

/// How it is given to the program.
pub(crate) enum Input {
    Archive(Archive),
    Tree(Tree),
    Special(Special),
    /// A file that is there.
    There(PathBuf),
}

impl Case {
    pub(crate) fn archive(
        category: &'static str,
        name: impl Into<String>,
        make: impl Fn() -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        Self { category, name: name.into(), is_heavy: false, input: Input::Archive(Box::new(make)) }
    }

    pub(crate) fn tree(
        category: &'static str,
        name: impl Into<String>,
        make: impl Fn(&Path, &Path) + Send + Sync + 'static,
    ) -> Self {
        Self { category, name: name.into(), is_heavy: false, input: Input::Tree(Box::new(make)) }
    }

    pub(crate) fn special(
        category: &'static str,
        name: impl Into<String>,
        make: impl Fn(&Path) + Send + Sync + 'static,
    ) -> Self {
        Self { category, name: name.into(), is_heavy: false, input: Input::Special(Box::new(make)) }
    }

    pub(crate) fn heavy(self) -> Self {
        Self { is_heavy: true, ..self }
    }
}
