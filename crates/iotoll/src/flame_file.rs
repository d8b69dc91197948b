//! `--flame FILE`: the path of a flame graph. Its extension chooses the format.

use anyhow::bail;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::str::FromStr;

/// The format of a flame graph: a drawing, or one line of text per stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlameFormat {
    Svg,
    Folded,
}

/// The file that `--flame` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FlameFile {
    pub(crate) path: PathBuf,
    pub(crate) format: FlameFormat,
}

impl FromStr for FlameFile {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let path = PathBuf::from(text);
        let format = match path.extension().and_then(OsStr::to_str) {
            Some("svg") => FlameFormat::Svg,
            Some("folded") => FlameFormat::Folded,
            _ => bail!("`{text}` has another extension; expected .svg for a drawing, or .folded for text"),
        };
        Ok(Self { path, format })
    }
}
