//! `--peer NAME=LIB.so`: a library with another IOVA allocator.

use std::path::PathBuf;
use std::str::FromStr;

/// A shared library with an allocator, and its name in the results.
#[derive(Debug, Clone)]
pub(crate) struct PeerFile {
    pub(crate) name: String,
    pub(crate) library: PathBuf,
}

impl FromStr for PeerFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, library)) if !name.is_empty() && !library.is_empty() => {
                Ok(Self { name: name.to_owned(), library: library.into() })
            }
            _ => Err("expected NAME=LIB.so".to_owned()),
        }
    }
}
