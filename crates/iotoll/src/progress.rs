//! Shows the progress of reading a capture on standard error, once it takes longer than a second.

use crate::output;
use host::tree::{Progress, Watcher};
use indicatif::{ProgressBar, ProgressFinish};
use std::cell::RefCell;
use std::io::{self, IsTerminal};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A shorter read shows no progress.
const FIRST_AFTER: Duration = Duration::from_secs(1);
/// Time between two lines if standard error is no terminal, so that a log of some minutes stays short.
pub(crate) const LINE_INTERVAL: Duration = Duration::from_secs(5);
/// Time between two updates of a terminal's line.
const UPDATE_INTERVAL: Duration = Duration::from_millis(100);

/// A callback that shows the progress of reading `source`. Dropping it clears its line on a terminal.
pub(crate) fn watcher(source: &str) -> Watcher {
    let shown = RefCell::new(ProgressLine::new(source));
    Rc::new(move |progress| {
        // This callback never runs inside itself, so the borrow never fails.
        if let Ok(mut shown) = shown.try_borrow_mut() {
            shown.update(progress);
        }
    })
}

/// Progress as a line that is updated on a terminal, or as new lines elsewhere.
struct ProgressLine {
    source: String,
    /// Earliest time of the next update.
    next: Instant,
    is_terminal: bool,
    bar: Option<ProgressBar>,
}

impl ProgressLine {
    fn new(source: &str) -> Self {
        let source = source.escape_debug().to_string();
        Self {
            source,
            next: Instant::now() + FIRST_AFTER,
            is_terminal: io::stderr().is_terminal(),
            bar: None,
        }
    }

    /// Shows the progress, unless the last update was too recent.
    fn update(&mut self, progress: Progress) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        let words = format!("reading {}: {}", self.source, progress_words(progress));
        if self.is_terminal {
            let bar = self
                .bar
                .get_or_insert_with(|| ProgressBar::new_spinner().with_finish(ProgressFinish::AndClear));
            output::set_bar_message(bar, &words);
            bar.tick();
            self.next = now + UPDATE_INTERVAL;
        } else {
            output::print_note(&format!("iotoll: {words}"));
            self.next = now + LINE_INTERVAL;
        }
    }
}

/// How much was read: files of a folder, or bytes and members of an archive.
fn progress_words(progress: Progress) -> String {
    let Progress { bytes_in, bytes_unpacked, members, files } = progress;
    if files > 0 {
        return format!("{files} files and folders read");
    }
    format!("{} MiB read, {} MiB unpacked, {members} members", bytes_in >> 20, bytes_unpacked >> 20)
}
