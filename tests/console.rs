// Console blocks of the documentation: commands after `$ `, and the output shown under them.

use std::fs;
use std::path::{Path, PathBuf};

/// A command that a page shows.
#[allow(dead_code, reason = "some tests need only the command")]
pub(crate) struct Shown {
    /// The page, from the repository's root.
    pub(crate) page: String,
    /// Its line there, from 1.
    pub(crate) line: usize,
    /// The command, with its continued lines joined.
    pub(crate) command: String,
    /// What the page shows as its output.
    pub(crate) output: Vec<String>,
}

/// README, that of the program's package, and the pages of the guide, in their order.
pub(crate) fn pages(root: &Path) -> Vec<PathBuf> {
    let guide = fs::read_dir(root.join("docs/guide")).into_iter().flatten();
    let mut pages: Vec<PathBuf> = guide.filter_map(|entry| Some(entry.ok()?.path())).collect();
    pages.retain(|page| page.extension().is_some_and(|end| end == "md"));
    pages.sort();
    pages.splice(0..0, ["README.md", "crates/iotoll/README.md"].map(|page| root.join(page)));
    pages
}

/// The commands of a page. A line with `$ ` begins one, in any fenced block.
pub(crate) fn shown(root: &Path, page: &Path) -> Vec<Shown> {
    let text = fs::read_to_string(page).unwrap_or_default();
    let name = page.strip_prefix(root).unwrap_or(page).display().to_string();
    let mut found: Vec<Shown> = Vec::new();
    let (mut fenced, mut open, mut continued) = (false, false, false);
    for (number, line) in (1..).zip(text.lines()) {
        if line.starts_with("```") {
            (fenced, open, continued) = (!fenced, false, false);
        } else if !fenced {
        } else if let (true, Some(last)) = (continued, found.last_mut()) {
            last.command.push_str(line.trim().trim_end_matches('\\').trim_end());
            continued = line.ends_with('\\');
            last.command.push_str(if continued { " " } else { "" });
        } else if let Some(command) = line.strip_prefix("$ ") {
            continued = command.ends_with('\\');
            let mut command = command.trim_end_matches('\\').trim_end().to_owned();
            command.push_str(if continued { " " } else { "" });
            found.push(Shown { page: name.clone(), line: number, command, output: Vec::new() });
            open = true;
        } else if let (true, Some(last)) = (open, found.last_mut()) {
            last.output.push(line.to_owned());
        }
    }
    found
}
