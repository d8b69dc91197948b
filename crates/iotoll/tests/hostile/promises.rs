//! What every run keeps, whatever it is given.

use super::case::{Case, Input};
use super::program::{self, Bounds, Ended, Out};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Stands in a file beside the input: no output may have it.
pub(crate) const SECRET: &str = "what-is-beside-the-input";
/// Stands in every word that hostile hosts put where a command may be made of it.
pub(crate) const INJECTED: &str = "HOSTILE";

/// More than this nobody reads from a terminal.
const TERMINAL_BYTES_MAX: usize = 1 << 20;

/// What a case came to.
pub(crate) struct Checked {
    /// Each promise that was not kept.
    pub(crate) broken: Vec<String>,
    /// The exit status of `inspect`.
    pub(crate) status: Option<i32>,
    pub(crate) longest: Duration,
}

/// The folders of one case.
struct Place {
    folder: tempfile::TempDir,
    input: PathBuf,
}

impl Place {
    fn new(input: &Input) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let beside = folder.path().join("beside");
        for name in ["work", "work/home", "beside"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        fs::write(beside.join("secret"), SECRET).unwrap();
        let path = folder.path().join("input");
        match input {
            Input::Archive(make) => fs::write(&path, make()).unwrap(),
            Input::Tree(make) => {
                fs::create_dir(&path).unwrap();
                make(&path, &beside);
            }
            Input::Special(make) => make(&path),
            Input::There(_) => {}
        }
        let input = if let Input::There(there) = input { there.clone() } else { path };
        Self { folder, input }
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Everything that is in the folders now, but the input.
    fn files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for name in ["work", "beside"] {
            files_below(&self.folder.path().join(name), &mut found);
        }
        found.sort();
        found
    }
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, found);
        }
        found.push(path);
    }
}

/// Runs a case every way.
pub(crate) fn check(case: &Case) -> Checked {
    let place = Place::new(&case.input);
    let (mut broken, mut longest) = (Vec::new(), Duration::ZERO);
    let (input, work) = (place.input.to_str().unwrap(), place.work());
    let before = place.files();
    let mut run = |arguments: &[&str], out: Out, broken: &mut Vec<String>| {
        let ended = program::run(&work, arguments, out, Bounds::INSPECTION);
        longest = longest.max(ended.took);
        let mut promises = Vec::new();
        of_any_run(&ended, out, &mut promises);
        broken.extend(
            promises.into_iter().map(|promise| format!("`{}`: {promise}", arguments[0..1].join(" "))),
        );
        ended
    };

    let shown = run(&["inspect", "--from", input, "--html", "page.html"], Out::Terminal, &mut broken);
    if let Ok(page) = fs::read(work.join("page.html")) {
        of_page(&page, &mut broken);
    }
    let document = run(&["inspect", "--from", input, "--json"], Out::Pipe, &mut broken);
    if shown.status.is_some() && shown.code() != document.code() {
        broken.push(format!("inspect: {}, with --json: {}", shown.how(), document.how()));
    }
    of_document(&document, &mut broken);
    run(&["capture", "--from", input, "-o", "captured.tar.gz"], Out::Pipe, &mut broken);

    for name in ["page.html", "captured.tar.gz"] {
        let _ = fs::remove_file(work.join(name));
    }
    let after = place.files();
    if after != before {
        let new: Vec<_> = after.iter().filter(|file| !before.contains(file)).collect();
        broken.push(format!("leaves {new:?}"));
    }
    Checked { broken, status: shown.code(), longest }
}

/// No crash, no hang, nothing that a terminal obeys, nothing of other files.
pub(crate) fn of_any_run(ended: &Ended, out: Out, broken: &mut Vec<String>) {
    if !matches!(ended.code(), Some(0..=2)) {
        broken.push(ended.how());
    }
    let text = String::from_utf8_lossy(&ended.output);
    let complaint = String::from_utf8_lossy(&ended.complaint);
    for words in [&text, &complaint] {
        if words.contains("panicked at")
            || words.contains("stack overflow")
            || words.contains("RUST_BACKTRACE")
        {
            broken.push(format!("panics: {}", head(words)));
        }
        if words.contains(SECRET) {
            broken.push("shows a file beside the input".to_owned());
        }
        if let Some(obeyed) = obeyed_character(words) {
            broken.push(format!("writes {obeyed}"));
        }
    }
    if out == Out::Terminal && ended.output_bytes > TERMINAL_BYTES_MAX {
        broken.push(format!("writes {} bytes to a terminal", ended.output_bytes));
    }
}

/// The first character that a terminal obeys, with what is around it.
fn obeyed_character(text: &str) -> Option<String> {
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let here = rest;
        rest = &rest[character.len_utf8()..];
        if character == '\u{1b}'
            && let Some(behind) = behind_colour(rest)
        {
            rest = behind;
            continue;
        }
        // What takes long is shown in a line that is written over and cleared.
        if let Some(behind) = here.strip_prefix("\r\u{1b}[2K") {
            rest = behind;
            continue;
        }
        // A terminal gets a carriage return with every line end by itself.
        let is_line_end = character == '\n' || here.starts_with("\r\n");
        if !is_line_end && is_obeyed(character) {
            return Some(format!("{character:?} in {:?}", head(here)));
        }
    }
    None
}

fn behind_colour(rest: &str) -> Option<&str> {
    let numbers = rest.strip_prefix('[')?;
    numbers.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').strip_prefix('m')
}

/// Control characters of both sets (ECMA-48), and those that change the direction of text (UAX #9).
fn is_obeyed(character: char) -> bool {
    let turns = matches!(character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_control() || turns || matches!(character, '\u{2028}' | '\u{2029}')
}

fn of_page(page: &[u8], broken: &mut Vec<String>) {
    let Ok(page) = str::from_utf8(page) else {
        broken.push("the page is not UTF-8".to_owned());
        return;
    };
    for word in ["<hostile", "<script>hostile", "\" onhostile="] {
        if page.contains(word) {
            broken.push(format!("the page has {word}"));
        }
    }
    let is_bad = |c: char| is_obeyed(c) && c != '\n' && c != '\t';
    if let Some(at) = page.find(is_bad) {
        broken.push(format!("the page has {:?}", head(&page[at..])));
    }
}

/// The document is one, and what it says to do holds nothing of the host's that a shell would run.
fn of_document(ended: &Ended, broken: &mut Vec<String>) {
    if !matches!(ended.code(), Some(0 | 1)) || ended.output_bytes > ended.output.len() {
        return;
    }
    let Ok(document) = serde_json::from_slice::<serde_json::Value>(&ended.output) else {
        broken.push("what --json prints is no JSON".to_owned());
        return;
    };
    for finding in document["findings"].as_array().into_iter().flatten() {
        for field in ["fix", "verify"] {
            let words = finding[field].as_str().unwrap_or_default();
            if let Some(active) = active_words(words) {
                broken.push(format!("{field} of {}: {active:?} in {words:?}", finding["id"]));
            }
        }
    }
}

/// Words of the host's that a shell would not take for one word: those outside of single quotes with a character that means
/// something to a shell.
fn active_words(text: &str) -> Option<String> {
    let bare = without_quoted(text);
    let found = bare
        .split_whitespace()
        .find(|word| word.contains(INJECTED) && word.contains(['$', '`', ';', '|', '&', '<', '>', '(', ')']));
    found.map(str::to_owned)
}

/// The text without what is in single quotes.
fn without_quoted(text: &str) -> String {
    // A quote within quotes, which ends neither word.
    text.replace(r"'\''", "").split('\'').step_by(2).collect::<Vec<_>>().join("")
}

fn head(text: &str) -> String {
    text.chars().take(60).collect()
}
