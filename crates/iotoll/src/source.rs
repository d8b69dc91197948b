//! Opens what a host is read from: this machine, a capture, or standard input.

use crate::output;
use crate::progress;
use host::Tree;
use std::io::{self, IsTerminal};
use std::path::Path;

/// The argument that means standard input.
const STDIN: &str = "-";

/// Opens this host, a capture, or standard input for `-`. Shows progress if reading takes long.
pub(crate) fn open_tree(from: Option<&Path>) -> anyhow::Result<Tree> {
    match from {
        None => Ok(Tree::live()),
        Some(path) if path.as_os_str() == STDIN => read_stdin(),
        Some(path) => Ok(Tree::open_watched(path, progress::watcher(&path.display().to_string()))?),
    }
}

/// Reads an archive, a kernel log or the output of lspci from standard input.
fn read_stdin() -> anyhow::Result<Tree> {
    let stdin = io::stdin().lock();
    if stdin.is_terminal() {
        output::print_note(
            "iotoll: reading a kernel log or the output of lspci from the terminal; Ctrl-D ends it",
        );
    }
    let name = "standard input";
    Ok(Tree::from_reader(stdin, name, progress::watcher(name))?)
}
