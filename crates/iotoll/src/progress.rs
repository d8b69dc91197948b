//! Says on standard error how far reading an outside source has come, once it takes longer than a second.

use crate::output;
use host::tree::{Progress, Watcher};
use indicatif::{ProgressBar, ProgressFinish};
use std::cell::RefCell;
use std::io::{self, IsTerminal};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Nothing is said of what is done before.
const QUIET: Duration = Duration::from_secs(1);
/// Between two lines where standard error is no terminal: a log of some minutes stays short.
const BETWEEN_LINES: Duration = Duration::from_secs(5);
/// Between two changes of a terminal's line.
const BETWEEN_CHANGES: Duration = Duration::from_millis(100);

/// Shows the progress of reading `what`. A line on a terminal goes when the watcher is dropped.
pub(crate) fn watcher(what: &str) -> Watcher {
    let shown = RefCell::new(Shown::new(what));
    Rc::new(move |progress| {
        // It never calls itself.
        if let Ok(mut shown) = shown.try_borrow_mut() {
            shown.tell(progress);
        }
    })
}

struct Shown {
    what: String,
    /// When something may be said next.
    next: Instant,
    is_terminal: bool,
    bar: Option<ProgressBar>,
}

impl Shown {
    fn new(what: &str) -> Self {
        let what = what.escape_debug().to_string();
        Self { what, next: Instant::now() + QUIET, is_terminal: io::stderr().is_terminal(), bar: None }
    }

    fn tell(&mut self, progress: Progress) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        let words = format!("reading {}: {}", self.what, words(progress));
        if self.is_terminal {
            let bar = self
                .bar
                .get_or_insert_with(|| ProgressBar::new_spinner().with_finish(ProgressFinish::AndClear));
            output::show_progress(bar, &words);
            bar.tick();
            self.next = now + BETWEEN_CHANGES;
        } else {
            output::say(&format!("iotoll: {words}"));
            self.next = now + BETWEEN_LINES;
        }
    }
}

fn words(progress: Progress) -> String {
    let Progress { bytes_in, bytes_unpacked, members, files } = progress;
    if files > 0 {
        return format!("{files} files and folders asked for");
    }
    format!("{} MiB in, {} MiB unpacked, {members} members", bytes_in >> 20, bytes_unpacked >> 20)
}
