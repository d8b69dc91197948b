//! `iotoll sweep`: runs a model at every point of a plan on all cores, and writes the results as Parquet files.

use crate::all_cores::on_all_cores;
use crate::cli::{Sweep, SweepCommand, SweepPoints, SweepReport};
use crate::count_progress::CountProgress;
use crate::input;
use crate::inspect::program_version;
use crate::output::{self, Outcome};
use crate::part_name::expect_no_part;
use crate::whole_file::WholeFile;
use ::sweep::{Key, Plan, Results, ResultsFolder, Row, Summary, Table};
use anyhow::{Context, bail};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Time between two Parquet files. A killed run loses the results since the last one.
const PART_INTERVAL: Duration = Duration::from_secs(1);
/// Points that are checked between two looks at the clock.
const CHECKED_AT_ONCE: usize = 1 << 14;

/// The version of the document's layout.
pub(crate) const SCHEMA: &str = "iotoll.sweep/1";

/// The version of the layout of the report's document.
pub(crate) const REPORT_SCHEMA: &str = "iotoll.sweep-report/1";

/// What `iotoll sweep report --json` prints.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Report<'a> {
    /// `iotoll.sweep-report/1`
    schema: &'static str,
    /// Name and version of the program.
    made_by: &'static str,
    /// The folder of the results.
    results: String,
    #[serde(flatten)]
    summary: &'a Summary,
}

/// What `iotoll sweep --json` prints.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Document<'a> {
    /// `iotoll.sweep/1`
    schema: &'static str,
    /// Name and version of the program.
    made_by: &'static str,
    /// The version of the model: results of different versions are not mixed.
    model: &'static str,
    /// The plan's file.
    plan: String,
    /// The plan's description of itself.
    what: &'a str,
    /// The folder that the parts were written to.
    out: String,
    /// The shard, as `1/4`.
    shard: String,
    #[serde(flatten)]
    counts: Counts,
}

/// How many points a run found, skipped and ran.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Counts {
    /// Points of the whole plan.
    points: u64,
    /// Points of the shard.
    points_of_shard: usize,
    /// Points of the shard that an earlier run had finished.
    skipped: usize,
    /// Points that this run finished.
    done: usize,
    /// Those of them that have an error instead of a result.
    errors: usize,
    /// Points that an earlier run finished with an error.
    errors_before: usize,
    /// Parquet files that this run wrote.
    parts_written: usize,
}

/// Runs a plan, or shows its results.
pub(crate) fn run(args: &Sweep) -> anyhow::Result<Outcome> {
    match (&args.report, &args.points) {
        (Some(SweepCommand::Report(args)), _) => show(args),
        (None, Some(args)) => run_plan(args),
        (None, None) => bail!("expected a plan and --out, or `report`"),
    }
}

/// Prints the page or document of a sweep, and writes the page as HTML; writes all its rows as one file.
fn show(args: &SweepReport) -> anyhow::Result<Outcome> {
    let results = Results::open(ResultsFolder::parts_in(&args.folder)?)
        .with_context(|| format!("can't read the results in {}", args.folder.display()))?;
    let summary = Summary::of(&results, args.figure.as_deref())?;
    check_outputs(args)?;
    if let Some(path) = &args.merge {
        let mut file = WholeFile::create(path)?;
        results.merge(&mut file, program_version()).with_context(|| path.display().to_string())?;
        file.save()?;
    }
    let folder = args.folder.display().to_string();
    let page = report::sweep_summary(&summary, &folder);
    if let Some(path) = &args.html {
        WholeFile::write(path, report::html(&page, "iotoll · sweep", program_version()).as_bytes())?;
    }
    if args.json {
        let made_by = program_version();
        output::print_json(&Report { schema: REPORT_SCHEMA, made_by, results: folder, summary: &summary })?;
    } else {
        output::print_page(&page)?;
    }
    Ok(Outcome::Fine)
}

/// Checks that no output replaces a part of the results, nor another output.
fn check_outputs(args: &SweepReport) -> anyhow::Result<()> {
    let outputs = [("--html", &args.html, "sweep.html"), ("--merge", &args.merge, "all.parquet")];
    for (option, path, example) in outputs {
        expect_no_part(option, path.as_deref(), ResultsFolder::is_part, example)?;
    }
    if let (Some(html), Some(merged)) = (&args.html, &args.merge)
        && std::path::absolute(html)? == std::path::absolute(merged)?
    {
        bail!("--html and --merge both write {}; expected two files", merged.display());
    }
    Ok(())
}

/// Runs the unfinished points of the plan's shard, writes their results, and prints a summary.
fn run_plan(args: &SweepPoints) -> anyhow::Result<Outcome> {
    let file = args.plan.display().to_string();
    let text = input::read_text(&args.plan, input::DESCRIPTION_BYTES_MAX, "plan")?;
    let plan = Plan::read(&text, &file)?;
    check_points(&plan)?;
    let table = Table::of(&plan, program_version())?;
    let folder = ResultsFolder::create(&args.out, table, WholeFile::write_part)?;
    let _lock = folder.lock(&args.shard.file_name())?;
    let finished = folder.finished()?;
    let positions: Vec<u64> = args.shard.positions(plan.len()).collect();
    let (errors_before, todo) = unfinished_points(&plan, &positions, &finished)?;
    let began = Instant::now();
    let (errors, parts_written) = run_points(&plan, &todo, &folder)?;
    let counts = Counts {
        points: plan.len(),
        points_of_shard: positions.len(),
        skipped: positions.len() - todo.len(),
        done: todo.len(),
        errors,
        errors_before,
        parts_written,
    };
    print_summary(args, &plan, counts, began.elapsed())
}

/// Checks all points of the plan, also those of other shards, so that a mistake is reported before anything runs.
fn check_points(plan: &Plan) -> anyhow::Result<()> {
    let mut progress = CountProgress::new("points checked", usize::try_from(plan.len())?)?;
    for first in (0..plan.len()).step_by(CHECKED_AT_ONCE) {
        let some = first..plan.len().min(first + CHECKED_AT_ONCE as u64);
        let check = |position| {
            progress.advance();
            plan.check(position).err()
        };
        if let Some(error) = some.into_par_iter().find_map_first(check) {
            return Err(error.into());
        }
        progress.print_line(0);
    }
    Ok(())
}

/// Those of `positions` whose points are not finished, and how many are finished with an error.
fn unfinished_points(
    plan: &Plan,
    positions: &[u64],
    finished: &HashMap<Key, bool>,
) -> anyhow::Result<(usize, Vec<u64>)> {
    let has_error = |position: &u64| Ok(finished.get(&plan.point(*position)?.key).copied());
    let ends: Vec<Option<bool>> = positions.par_iter().map(has_error).collect::<anyhow::Result<_>>()?;
    let errors = ends.iter().filter(|end| **end == Some(true)).count();
    let todo = positions.iter().zip(&ends).filter(|(_, end)| end.is_none()).map(|(position, _)| *position);
    Ok((errors, todo.collect()))
}

/// Runs the points at the positions `todo`. Returns how many have an error, and the number of Parquet files written.
fn run_points(plan: &Plan, todo: &[u64], folder: &ResultsFolder) -> anyhow::Result<(usize, usize)> {
    let mut progress = CountProgress::new("points", todo.len())?;
    let (mut rows, mut errors, mut parts, mut written) = (Vec::new(), 0, 0, Instant::now());
    let run = |position: &u64| Ok(plan.point(*position)?.run());
    on_all_cores(todo, run, |row: Option<anyhow::Result<Row>>| {
        if let Some(row) = row.transpose()? {
            errors += usize::from(row.outcome.is_err());
            rows.push(row);
            progress.advance();
        }
        if !rows.is_empty() && written.elapsed() >= PART_INTERVAL {
            folder.add(&std::mem::take(&mut rows))?;
            parts += 1;
            written = Instant::now();
        }
        progress.print_line(errors);
        Ok(())
    })?;
    drop(progress);
    if !rows.is_empty() {
        folder.add(&rows)?;
        parts += 1;
    }
    Ok((errors, parts))
}

/// Prints the number of points and Parquet files as text or JSON.
fn print_summary(
    args: &SweepPoints,
    plan: &Plan,
    counts: Counts,
    elapsed: Duration,
) -> anyhow::Result<Outcome> {
    let out = args.out.display().to_string();
    if args.json {
        output::print_json(&Document {
            schema: SCHEMA,
            made_by: program_version(),
            model: plan.version()?,
            plan: args.plan.display().to_string(),
            what: plan.what(),
            out,
            shard: args.shard.to_string(),
            counts,
        })?;
    } else {
        let Counts { points, points_of_shard, skipped, done, errors, errors_before, parts_written } = counts;
        let before =
            if errors_before > 0 { format!(", {errors_before} of them with errors") } else { String::new() };
        let seconds = elapsed.as_secs_f64();
        output::print_text(&format!(
            "{}{}: {skipped} finished before{before}, {done} done in {seconds:.1} s, {errors} with errors\n\
             {} written to {out}",
            report::count(usize::try_from(points)?, "point"),
            args.shard.share(points_of_shard),
            report::count(parts_written, "part"),
        ))?;
    }
    Ok(if counts.errors + counts.errors_before > 0 { Outcome::Findings } else { Outcome::Fine })
}
