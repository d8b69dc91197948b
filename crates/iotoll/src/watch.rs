//! `iotoll watch`: counts and times DMA mapping on the running kernel.

use crate::cli::Watch;
use crate::date::today;
use crate::inspect::program_version;
use crate::interrupt;
use crate::output::{self, Outcome};
use crate::whole_file::WholeFile;
use ::watch::{Action, AdapterSummary, Record, SCHEMA, Session};
use anyhow::Context;
use bench::{Head, HostSummary, Origin};
use host::diagnose::{MeasuredGain, MeasuredMapping};
use host::{Host, Inspection, Tree};
use serde::Serialize;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};
use toll::Stage;

/// Seconds without a command and without `--seconds`.
const SECONDS_DEFAULT: f64 = 10.0;
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
    /// How the command ended, where one was run.
    command_ended: Option<String>,
}

/// Watches until the time is over, the command has ended, or a signal arrives.
pub(crate) fn run(args: &Watch) -> anyhow::Result<Outcome> {
    // Fails now, not after the time, if the page can't be written.
    args.html.as_deref().map_or(Ok(()), |path| WholeFile::create(path).map(drop))?;
    let stop = interrupt::stop_flag()?;
    let mut session = Session::start(args.adapters.clone())?;
    let mut command = start(args)?;
    let seconds = args.seconds.or(command.is_none().then_some(SECONDS_DEFAULT)).map(Duration::from_secs_f64);
    let (begun, mut last) = (Instant::now(), Instant::now());
    let interval = Duration::from_secs_f64(args.interval);
    if !args.json {
        output::print_text(&report::watch_interval_title())?;
    }
    let mut ended = None;
    loop {
        let is_over =
            seconds.is_some_and(|seconds| begun.elapsed() >= seconds) || stop.load(Ordering::Relaxed);
        if let Some(child) = &mut command {
            ended = child.try_wait()?;
        }
        let ends = is_over || ended.is_some();
        if ends || last.elapsed() >= interval {
            last = Instant::now();
            let done = session.interval()?;
            if !args.json {
                report::watch_interval(&done).iter().try_for_each(|line| output::print_text(line))?;
            }
        }
        if ends {
            break;
        }
        thread::sleep(LOOK.min(interval));
    }
    let command_ended = command.map(|child| end(child, ended)).transpose()?;
    let is_fine = command_ended.as_ref().is_none_or(|(is_fine, _)| *is_fine);
    show(args, session.finish(), command_ended.map(|(_, words)| words), is_fine)?;
    Ok(if is_fine { Outcome::Fine } else { Outcome::Findings })
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
fn show(args: &Watch, record: Record, command_ended: Option<String>, is_fine: bool) -> anyhow::Result<()> {
    let origin =
        Origin { made_by: program_version().to_owned(), command: std::env::args().collect(), date: today()? };
    let mut head = Head::new(SCHEMA, origin, HostSummary::here());
    if let Some(words) = command_ended.as_ref().filter(|_| !is_fine) {
        head.warnings.push(format!("the command failed: {words}"));
    }
    let gains = gains(&record);
    let page = report::watch(&head, &record, &gains);
    if let Some(path) = &args.html {
        WholeFile::write(path, report::html(&page, "iotoll · watch", program_version()).as_bytes())?;
    }
    if args.json {
        return output::print_json(&Document { head, record, gains, command_ended });
    }
    if let Some(words) = &command_ended {
        output::print_note(&format!("the command ended: {words}"));
    }
    output::print_text("")?;
    output::print_page(&page)
}

/// What the fixes of this host's findings would save of what was measured.
fn gains(record: &Record) -> Vec<MeasuredGain> {
    let measured = |address: &str| {
        let adapter = record.adapters.iter().find(|adapter| adapter.adapter == address)?;
        measured_mapping(adapter, record.seconds)
    };
    let inspection = Inspection::of(Host::read(&Tree::live()));
    let outlooks = inspection.outlooks.iter();
    outlooks.filter_map(|outlook| outlook.of_measured(&measured(&outlook.address.to_string())?)).collect()
}

/// An adapter's DMA mapping per I/O, without the time of programs that watched it. `None` if it did no I/O or that time is not known.
fn measured_mapping(adapter: &AdapterSummary, seconds: f64) -> Option<MeasuredMapping> {
    let (ios, _) = adapter.completed.io()?;
    let per_io = |ns: u64| ns as f64 / ios as f64;
    let of_action = |action| adapter.tally(action).map_or(0, |tally| tally.ns);
    let bounce = adapter.stages.iter().find(|one| one.stage == Stage::Bounce);
    let bounce = bounce.map_or(Some(0), |one| Some(one.ns.saturating_sub(one.programs_ns?)))?;
    let (invalidation, hypercall) = (of_action(Action::Invalidate), of_action(Action::CallHypervisor));
    let all = adapter.ns().saturating_sub(adapter.programs_ns()?);
    Some(MeasuredMapping {
        ios_per_second: ios as f64 / seconds,
        invalidation_ns: per_io(invalidation),
        hypercall_ns: per_io(hypercall),
        bounce_ns: per_io(bounce),
        other_ns: per_io(all.saturating_sub(invalidation + hypercall + bounce)),
    })
}
