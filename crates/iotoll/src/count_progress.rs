//! Shows progress through a number of things on standard error.

use crate::output;
use crate::progress::LINE_INTERVAL;
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use std::io::{self, IsTerminal};
use std::time::Instant;

/// Progress through a number of things: a bar on a terminal, elsewhere a line every [`LINE_INTERVAL`]. Dropping it clears the bar.
pub(crate) struct CountProgress {
    things: &'static str,
    all: usize,
    bar: ProgressBar,
    next_line: Instant,
}

impl CountProgress {
    /// None of `all` things is done.
    pub(crate) fn new(things: &'static str, all: usize) -> anyhow::Result<Self> {
        let style = format!("{{bar:30}} {{percent:>3}} % {{pos}}/{{len}} {things} {{elapsed}}, {{eta}} left");
        let bar = ProgressBar::new(all as u64).with_finish(ProgressFinish::AndClear);
        bar.set_style(ProgressStyle::with_template(&style)?);
        Ok(Self { things, all, bar, next_line: Instant::now() + LINE_INTERVAL })
    }

    /// Another thing is done.
    pub(crate) fn advance(&self) {
        self.bar.inc(1);
    }

    /// Prints a line if it is time for one. Of what is done, `errors` failed.
    pub(crate) fn print_line(&mut self, errors: usize) {
        if io::stderr().is_terminal() || Instant::now() < self.next_line {
            return;
        }
        let Self { things, all, bar, .. } = self;
        output::print_note(&format!("iotoll: {} of {all} {things}, {errors} with errors", bar.position()));
        self.next_line = Instant::now() + LINE_INTERVAL;
    }
}
