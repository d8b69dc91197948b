//! Where a host is read from: this machine, a capture, or standard input.

use crate::output;
use crate::progress;
use host::Tree;
use std::io::{self, IsTerminal};
use std::path::Path;

/// What stands for standard input.
const STDIN: &str = "-";

/// Opens the live host or a capture, and shows progress where it takes long.
pub(crate) fn open(from: Option<&Path>) -> anyhow::Result<Tree> {
    match from {
        None => Ok(Tree::live()),
        Some(path) if path.as_os_str() == STDIN => stdin(),
        Some(path) => Ok(Tree::open_watched(path, progress::watcher(&path.display().to_string()))?),
    }
}

fn stdin() -> anyhow::Result<Tree> {
    let stdin = io::stdin().lock();
    if stdin.is_terminal() {
        output::say("iotoll: reading a kernel log or the output of lspci from the terminal; Ctrl-D ends it");
    }
    let what = "standard input";
    Ok(Tree::from_reader(stdin, what, progress::watcher(what))?)
}
