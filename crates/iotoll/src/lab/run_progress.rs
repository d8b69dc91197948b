//! Shows on standard error how far a run of the lab is.

use crate::output;
use indicatif::{ProgressBar, ProgressStyle};
use lab::run::Progress;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// Time between two lines if standard error is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Progress as a spinner on a terminal, or as a line now and then elsewhere.
pub(super) struct RunProgress {
    preset: String,
    /// The boot, in words.
    boot: String,
    bar: Option<ProgressBar>,
    begun: Instant,
    /// The earliest time of the next line.
    next: Instant,
}

impl RunProgress {
    pub(super) fn new(preset: &str) -> anyhow::Result<Self> {
        let preset = escape::terminal::plain(preset);
        let bar = io::stderr().is_terminal().then(|| spinner(&preset)).transpose()?;
        let now = Instant::now();
        Ok(Self { preset, boot: String::new(), bar, begun: now, next: now + LINE_INTERVAL })
    }

    /// Shows a step. Without a terminal, each boot has a line, and other steps only if the last line is some time ago.
    pub(super) fn update(&mut self, progress: Progress<'_>) {
        let is_boot = matches!(progress, Progress::Boot { .. });
        let step = match progress {
            Progress::Boot { vcpus, number, of, workloads } => {
                self.boot = format!("boot {number} of {of} with {}", report::count(vcpus as usize, "CPU"));
                format!("the kernel starts, {} to run", report::count(workloads, "workload"))
            }
            Progress::Workload { name, ended, of } => format!("{name} ({} of {of})", ended + 1),
            Progress::Fold => "counting".to_owned(),
        };
        let words = format!("{}: {step}", self.boot);
        if let Some(bar) = &self.bar {
            output::set_bar_message(bar, &words);
        } else if is_boot || Instant::now() >= self.next {
            self.next = Instant::now() + LINE_INTERVAL;
            let seconds = self.begun.elapsed().as_secs();
            output::print_note(&format!("iotoll: {}, {seconds} s: {words}", self.preset));
        }
    }

    /// Clears the spinner.
    pub(super) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A spinner with the preset's name and the elapsed time.
fn spinner(preset: &str) -> anyhow::Result<ProgressBar> {
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::with_template("{spinner} {prefix} {elapsed} {msg}")?);
    bar.set_prefix(preset.to_owned());
    bar.enable_steady_tick(Duration::from_millis(100));
    Ok(bar)
}
