//! Opens what a host is read from: this machine, a capture, or standard input.

use crate::output;
use crate::progress;
use host::Tree;
use host::tree::Evidence;
use std::io::{self, IsTerminal};
use std::path::Path;

/// The argument that means standard input.
const STDIN: &str = "-";
/// What citations and messages call it.
const STDIN_NAME: &str = "standard input";

/// Opens this host, a capture, or standard input for `-`. Shows progress if reading takes long.
pub(crate) fn open_tree(from: Option<&Path>) -> anyhow::Result<Tree> {
    open_evidence(from, None)
}

/// Opens what there is of a host: this one if nothing is given, else captures and texts, with a command line in place of theirs.
pub(crate) fn open_evidence<'p>(
    from: impl IntoIterator<Item = &'p Path>,
    command_line: Option<&str>,
) -> anyhow::Result<Tree> {
    let mut from = from.into_iter().peekable();
    if from.peek().is_none() && command_line.is_none() {
        return Ok(Tree::live());
    }
    let shown = match from.peek() {
        None => "--cmdline".to_owned(),
        Some(path) if path.as_os_str() == STDIN => STDIN_NAME.to_owned(),
        Some(path) => path.display().to_string(),
    };
    let mut evidence = Evidence::new(progress::watcher(&shown));
    for path in from {
        match path.as_os_str() == STDIN {
            true => read_stdin(&mut evidence)?,
            false => evidence.add_path(path)?,
        }
    }
    if let Some(line) = command_line {
        evidence.set_command_line(line);
    }
    Ok(evidence.into_tree()?)
}

/// Reads an archive or a text from standard input.
fn read_stdin(evidence: &mut Evidence) -> anyhow::Result<()> {
    let stdin = io::stdin().lock();
    if stdin.is_terminal() {
        output::print_note(
            "iotoll: reading a kernel log or the output of lspci from the terminal; Ctrl-D ends it",
        );
    }
    Ok(evidence.add_reader(stdin, STDIN_NAME)?)
}
