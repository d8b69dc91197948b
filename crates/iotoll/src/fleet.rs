//! `iotoll fleet`: inspects many captures on all cores, and writes tables of them as Parquet files.

use crate::all_cores::on_all_cores;
use crate::cli::{Fleet, FleetCommand, FleetReport, FleetTables};
use crate::count_progress::CountProgress;
use crate::date;
use crate::inspect::program_version;
use crate::output::{self, Outcome};
use crate::part_name::expect_no_part;
use crate::whole_file::WholeFile;
use ::fleet::{FinishedInputs, Input, Inputs, Inspected, Rows, Summary, Tables, TablesFolder, Unlisted};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// The least time between two sets of Parquet files. A killed run inspects again what came after the last one.
const PART_INTERVAL: Duration = Duration::from_secs(1);
/// It grows with the run, so that there are not too many files: a kill costs at most this part of the time since the start.
const PART_SHARE: u32 = 50;

/// The version of the document's layout.
pub(crate) const SCHEMA: &str = "iotoll.fleet-run/1";

/// The version of the layout of the report's document.
pub(crate) const REPORT_SCHEMA: &str = "iotoll.fleet-report/1";

/// What `iotoll fleet report --json` prints.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Report<'a> {
    /// `iotoll.fleet-report/1`
    schema: &'static str,
    /// Name and version of the program.
    made_by: &'static str,
    /// The folder of the tables.
    tables: String,
    #[serde(flatten)]
    summary: &'a Summary,
}

/// What `iotoll fleet --json` prints.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Document {
    /// `iotoll.fleet-run/1`
    schema: &'static str,
    /// Name and version of the program.
    made_by: &'static str,
    /// The folder that the tables were written to.
    out: String,
    /// The shard, as `1/4`.
    shard: String,
    #[serde(flatten)]
    counts: Counts,
}

/// How many inputs a run found, and what became of them.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Counts {
    /// Inputs that were found.
    inputs: usize,
    /// Those of the shard.
    inputs_of_shard: usize,
    /// Inputs of the shard that an earlier run has inspected.
    inspected_before: usize,
    /// Inputs of the shard that an earlier run could not inspect.
    errors_before: usize,
    /// Inputs that this run has inspected.
    inspected: usize,
    /// Inputs that this run could not inspect: rows of the table `errors`.
    errors: usize,
    /// Files and folders that could not be looked at.
    unlisted: usize,
    /// Parquet files that were written.
    parts_written: usize,
}

/// Inspects captures, or shows what was inspected.
pub(crate) fn run(args: &Fleet) -> anyhow::Result<Outcome> {
    match (&args.report, &args.tables) {
        (Some(FleetCommand::Report(args)), _) => show(args),
        (None, Some(args)) => write_tables(args),
        (None, None) => anyhow::bail!("expected captures and --out, or `report`"),
    }
}

/// Prints a fleet's page or document, and writes the page as HTML.
fn show(args: &FleetReport) -> anyhow::Result<Outcome> {
    expect_no_part("--html", args.html.as_deref(), TablesFolder::is_part, "fleet.html")?;
    let tables = Tables::read(&args.folder)?;
    let summary = Summary::of(&tables, program_version());
    let folder = args.folder.display().to_string();
    let page = report::fleet_summary(&summary, &folder, date::of_microseconds, output::report_length());
    if let Some(file) = &args.html {
        WholeFile::write(file, report::html(&page, "iotoll · fleet", program_version()).as_bytes())?;
    }
    if args.json {
        let made_by = program_version();
        output::print_json(&Report { schema: REPORT_SCHEMA, made_by, tables: folder, summary: &summary })?;
    } else {
        output::print_page(&page)?;
    }
    Ok(if summary.findings.is_empty() && summary.odd.is_empty() { Outcome::Fine } else { Outcome::Findings })
}

/// Inspects those inputs of the shard whose rows the folder has not, and prints a summary.
fn write_tables(args: &FleetTables) -> anyhow::Result<Outcome> {
    let found = Inputs::find(args.paths.iter().map(AsRef::as_ref));
    found.unlisted.iter().for_each(print_unlisted);
    let shard = args.shard.file_name();
    let folder = TablesFolder::new(&args.out, &shard, program_version(), WholeFile::write_part);
    let _lock = folder.prepare()?;
    folder.keep_inputs(&found.found)?;
    let finished = folder.finished_inputs()?;
    let FinishedInputs { inspected, failed } = &finished;
    let mine: Vec<&Input> = found.found.iter().filter(|input| args.shard.has(hash(input))).collect();
    let number_in =
        |finished: &HashSet<Input>| mine.iter().filter(|input| finished.contains(&input.by_name())).count();
    let mut counts = Counts {
        inputs: found.found.len(),
        inputs_of_shard: mine.len(),
        inspected_before: number_in(inspected),
        errors_before: number_in(failed),
        unlisted: found.unlisted.len(),
        ..Counts::default()
    };
    let todo: Vec<&Input> = mine.into_iter().filter(|input| !finished.has(input)).collect();
    let began = Instant::now();
    inspect(&todo, &folder, &mut counts)?;
    print_summary(args, counts, began.elapsed())?;
    let failed = counts.errors_before + counts.errors + counts.unlisted;
    // An empty folder may be one whose file system is not mounted.
    Ok(if failed > 0 || counts.inputs == 0 { Outcome::Findings } else { Outcome::Fine })
}

/// The hash by which inputs are divided among shards: the same whatever other inputs there are.
fn hash(input: &Input) -> u64 {
    let digest = Sha256::digest(input.name().as_bytes());
    digest.iter().take(8).fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}

/// Inspects inputs on all cores. Their rows are written now and then.
fn inspect(todo: &[&Input], folder: &TablesFolder, counts: &mut Counts) -> anyhow::Result<()> {
    let mut progress = CountProgress::new("inputs", todo.len())?;
    let (mut rows, began, mut written) = (Rows::default(), Instant::now(), Instant::now());
    let read = |input: &&Input| Inspected::read((*input).clone(), program_version());
    on_all_cores(todo, read, |inspected| {
        if let Some(inspected) = inspected {
            *if inspected.error().is_some() { &mut counts.errors } else { &mut counts.inspected } += 1;
            rows.add(inspected);
            progress.advance();
        }
        if rows.inputs() > 0 && written.elapsed() >= PART_INTERVAL.max(began.elapsed() / PART_SHARE) {
            counts.parts_written += folder.add(&std::mem::take(&mut rows))?;
            written = Instant::now();
        }
        progress.print_line(counts.errors);
        Ok(())
    })?;
    drop(progress);
    if rows.inputs() > 0 {
        counts.parts_written += folder.add(&rows)?;
    }
    Ok(())
}

fn print_unlisted(one: &Unlisted) {
    output::print_note(&format!("iotoll: {}: {}", one.path.display(), one.error));
}

/// Prints the number of inputs as text or JSON.
fn print_summary(args: &FleetTables, counts: Counts, elapsed: Duration) -> anyhow::Result<()> {
    let (out, shard) = (args.out.display().to_string(), args.shard.to_string());
    if args.json {
        return output::print_json(&Document {
            schema: SCHEMA,
            made_by: program_version(),
            out,
            shard,
            counts,
        });
    }
    let Counts { inspected_before, inspected, .. } = counts;
    let errors = counts.errors_before + counts.errors;
    let mut lines = vec![format!(
        "{}{}: {inspected_before} inspected before, {inspected} inspected in {:.1} s, {errors} with errors",
        report::count(counts.inputs, "input"),
        args.shard.share(counts.inputs_of_shard),
        elapsed.as_secs_f64(),
    )];
    if counts.unlisted > 0 {
        let paths = report::count(counts.unlisted, "path");
        lines.push(format!("{paths} missing or unreadable, and in no table"));
    } else if counts.inputs == 0 {
        lines.push(
            "no file to inspect: symbolic links, checksums, signatures and tables are left out".to_owned(),
        );
    }
    lines.push(format!("{} written to {out}", report::count(counts.parts_written, "part")));
    if let (true, Some(folder)) = (counts.inputs > 0, escape::shell::quote(&out)) {
        lines.push(format!("see them on one page: iotoll fleet report {folder}"));
    }
    if errors > 0 {
        lines.push(
            "read those with errors again: the same command, once the folder `errors` is removed".to_owned(),
        );
    }
    output::print_text(&lines.join("\n"))
}
