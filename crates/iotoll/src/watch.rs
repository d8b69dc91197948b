//! `iotoll watch`: counts and times DMA mapping on the running kernel.

mod diagnosis;
mod obstacle;

use crate::cli::Watch;
use crate::date::today;
use crate::inspect::program_version;
use crate::interrupt;
use crate::output::{self, Outcome};
use crate::prices;
use crate::whole_file::WholeFile;
use ::compare::{CostPerIo, costs_per_io};
use ::watch::{Interval, Record, SCHEMA, Session, WatchError};
use anyhow::Context;
use bench::{Head, HostSummary, Origin};
use diagnosis::{gains, price_list};
use host::diagnose::MeasuredGain;
use host::{Host, Inspection, Tree};
use obstacle::obstacles;
use serde::Serialize;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// Seconds without a command and without `--seconds`.
const SECONDS_DEFAULT: f64 = 10.0;
/// The same with `--max-cores`, which counts a part of them.
const PART_TIME_SECONDS_DEFAULT: f64 = 120.0;
/// How often it looks whether to end.
const LOOK: Duration = Duration::from_millis(20);

/// The document.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Document {
    #[serde(flatten)]
    head: Head,
    #[serde(flatten)]
    record: Record,
    /// What the fixes of findings would save of what was measured, where that can be said.
    gains: Vec<MeasuredGain>,
    /// What each adapter's mapping costs per I/O, and how certain that is.
    costs_per_io: Vec<CostPerIo>,
    /// How the command ended, where one was run.
    command_ended: Option<String>,
}

/// Watches until the time is over, the command has ended, or a signal arrives.
pub(crate) fn run(args: &Watch) -> anyhow::Result<Outcome> {
    WholeFile::check(args.html.as_deref())?;
    prices::expect_new(args.prices.as_deref())?;
    let stop = interrupt::stop_flag()?;
    let mut session = match args.max_cores {
        _ if args.stacks => Session::start_sampling(args.adapters.clone())?,
        Some(max_cores) => Session::start_part_time(args.adapters.clone(), max_cores)?,
        None => Session::start(args.adapters.clone())?,
    };
    if let Some(why) = session.refusal() {
        output::print_note(&format!("only what adapters complete is counted: {why}"));
    }
    let mut command = start(args)?;
    let default = if args.max_cores.is_some() { PART_TIME_SECONDS_DEFAULT } else { SECONDS_DEFAULT };
    let seconds = args.seconds.or(command.is_none().then_some(default)).map(Duration::from_secs_f64);
    let begun = Instant::now();
    let interval = Duration::from_secs_f64(args.interval);
    if !args.json {
        output::print_text(&report::watch_interval_title())?;
    }
    let (mut ended, mut failure) = (None, None);
    loop {
        let is_over =
            seconds.is_some_and(|seconds| begun.elapsed() >= seconds) || stop.load(Ordering::Relaxed);
        if let Some(child) = &mut command {
            ended = child.try_wait()?;
        }
        let ends = is_over || ended.is_some();
        match advance(&mut session, ends, interval) {
            Ok(Some(done)) if !args.json => {
                report::watch_interval(&done).iter().try_for_each(|line| output::print_text(line))?;
            }
            Ok(_) => {}
            Err(error) => failure = Some(error),
        }
        if ends || failure.is_some() {
            break;
        }
        thread::sleep(LOOK.min(interval));
    }
    // Before the command is waited for, which may take its time to end.
    let record = session.finish();
    let command_ended = command.map(|child| end(child, ended)).transpose()?;
    let is_fine = command_ended.as_ref().is_none_or(|(is_fine, _)| *is_fine);
    let mut uncounted = uncounted(&record);
    // What was counted before is shown.
    uncounted.extend(failure.map(|error| format!("watching ended early: {error}")));
    let is_all_counted = uncounted.is_empty();
    show(args, record, uncounted, command_ended.map(|(_, words)| words), is_fine)?;
    Ok(if is_fine && is_all_counted { Outcome::Fine } else { Outcome::Findings })
}

/// Ends the current interval if its time has come.
fn advance(session: &mut Session, ends: bool, interval: Duration) -> Result<Option<Interval>, WatchError> {
    let must_end = ends || session.step()?;
    let is_due = session.counts_since().is_some_and(|since| must_end || since.elapsed() >= interval);
    is_due.then(|| session.interval()).transpose()
}

/// What could not be counted, and what was seen of the reasons.
fn uncounted(record: &Record) -> Vec<String> {
    if let Some(stacks) = &record.stacks {
        let why = stacks.unknown.iter();
        return why.map(|why| format!("CPU time by stage is unknown, because {why}")).collect();
    }
    let refused = match (&record.uncounted, record.unwatched.first()) {
        (Some(why), _) => format!("the kernel's DMA functions were not counted: {why}"),
        (None, Some(first)) => format!(
            "{} of the kernel's DMA functions were not counted; the first is {}: {}",
            record.unwatched.len(),
            first.function,
            first.why
        ),
        (None, None) => return Vec::new(),
    };
    let reasons = obstacles(Path::new("/"));
    std::iter::once(refused).chain(reasons.iter().map(ToString::to_string)).collect()
}

/// Starts the command, if there is one. With `--json` standard output is the document's alone.
fn start(args: &Watch) -> anyhow::Result<Option<Child>> {
    let Some((program, arguments)) = args.command.split_first() else { return Ok(None) };
    let mut command = Command::new(program);
    command.args(arguments);
    if args.json {
        command.stdout(output::stderr_for_command()?);
    }
    let child = command.spawn().with_context(|| format!("can't run {}", program.to_string_lossy()))?;
    Ok(Some(child))
}

/// Waits for the command, which is told to end if the time was over first. Returns whether it succeeded, and how it ended.
fn end(mut child: Child, ended: Option<ExitStatus>) -> anyhow::Result<(bool, String)> {
    if let Some(status) = ended {
        return Ok((status.success(), status.to_string()));
    }
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM)?;
    let status = child.wait()?;
    Ok((true, format!("told to end after the time: {status}")))
}

/// Prints the results.
fn show(
    args: &Watch,
    record: Record,
    uncounted: Vec<String>,
    command_ended: Option<String>,
    is_fine: bool,
) -> anyhow::Result<()> {
    let origin =
        Origin { made_by: program_version().to_owned(), command: std::env::args().collect(), date: today()? };
    let mut head = Head::new(SCHEMA, origin, HostSummary::here());
    head.warnings = uncounted;
    if let Some(words) = command_ended.as_ref().filter(|_| !is_fine) {
        head.warnings.push(format!("the command failed: {words}"));
    }
    let inspection = Inspection::of(Host::read(&Tree::live()));
    let gains = gains(&inspection, &record);
    let page = || report::watch(&head, &record, &gains);
    if let Some(path) = &args.html {
        WholeFile::write(path, report::html(&page(), "iotoll · watch", program_version()).as_bytes())?;
    }
    if let Some(path) = &args.prices {
        match price_list(&inspection.host, &record, &head) {
            Some(list) => prices::write(path, &list, &[])?,
            None => output::print_note(&format!(
                "{} not written: fewer than 100 invalidations and hypercalls were timed",
                path.display()
            )),
        }
    }
    if args.json {
        return output::print_json(&Document {
            head,
            costs_per_io: costs_per_io(&record),
            record,
            gains,
            command_ended,
        });
    }
    if let Some(words) = &command_ended {
        output::print_note(&format!("the command ended: {words}"));
    }
    output::print_text("")?;
    output::print_page(&page())
}
