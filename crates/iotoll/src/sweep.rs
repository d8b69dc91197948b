//! `iotoll sweep`: a plan's points, run on all cores and kept in parts.

mod folder;
mod part;

use crate::cli::Sweep;
use crate::input;
use crate::inspect::made_by;
use crate::output::{self, Outcome};
use folder::Folder;
use indicatif::{ProgressBar, ProgressStyle};
use model::sweep::{Key, Plan, Point, VERSION};
use part::{Row, Table};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// A part is written so often: what a killed run loses at most, besides the points in flight.
const PART_EVERY: Duration = Duration::from_secs(1);
/// Points of a core between two looks at the clock.
const BATCH_PER_CORE: usize = 32;

/// The document.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    made_by: &'static str,
    model: &'static str,
    plan: String,
    what: &'a str,
    out: String,
    shard: String,
    #[serde(flatten)]
    counts: Counts,
}

/// What became of a shard's points.
#[derive(Debug, Clone, Copy, Serialize)]
struct Counts {
    /// Of the whole plan.
    points: u64,
    /// Of the shard.
    points_of_shard: usize,
    /// Those that a part had already.
    skipped: usize,
    /// Those that were run.
    done: usize,
    parts_written: usize,
}

pub(crate) fn run(args: &Sweep) -> anyhow::Result<Outcome> {
    let file = args.plan.display().to_string();
    let text = input::text(&args.plan, input::DESCRIPTION_BYTES_MAX, "plan")?;
    let plan = Plan::read(&text, &file)?;
    check(&plan)?;
    let table = Table::of(&plan)?;
    let folder = Folder::open(&args.out, args.shard)?;
    let finished = finished(&folder, &table)?;
    let positions: Vec<u64> = args.shard.positions(plan.len()).collect();
    let todo = unfinished(&plan, &positions, &finished)?;
    let began = Instant::now();
    let parts_written = work(&plan, &todo, &table, &folder)?;
    let counts = Counts {
        points: plan.len(),
        points_of_shard: positions.len(),
        skipped: positions.len() - todo.len(),
        done: todo.len(),
        parts_written,
    };
    tell(args, &plan, counts, began.elapsed())
}

/// Looks at all points of the plan, other shards' too: a mistake is told before anything runs.
fn check(plan: &Plan) -> anyhow::Result<()> {
    let error = (0..plan.len()).into_par_iter().find_map_first(|position| plan.check(position).err());
    error.map_or(Ok(()), |error| Err(error.into()))
}

fn finished(folder: &Folder, table: &Table) -> anyhow::Result<HashSet<Key>> {
    let mut finished = HashSet::new();
    for part in folder.parts()? {
        finished.extend(table.keys(&part)?);
    }
    Ok(finished)
}

fn unfinished(plan: &Plan, positions: &[u64], finished: &HashSet<Key>) -> anyhow::Result<Vec<u64>> {
    let is_finished = |position: u64| Ok(finished.contains(&plan.point(position)?.key));
    let todo = positions.par_iter().filter_map(|position| match is_finished(*position) {
        Ok(true) => None,
        Ok(false) => Some(Ok(*position)),
        Err(error) => Some(Err(error)),
    });
    todo.collect()
}

/// Runs points and returns how many parts they became.
fn work(plan: &Plan, todo: &[u64], table: &Table, folder: &Folder) -> anyhow::Result<usize> {
    let bar = ProgressBar::new(todo.len() as u64);
    bar.set_style(ProgressStyle::with_template(
        "{bar:30} {percent:>3} % {pos}/{len} points {elapsed}, {eta} left",
    )?);
    let (mut rows, mut parts, mut written) = (Vec::new(), 0, Instant::now());
    let mut left = todo.len();
    for batch in todo.chunks(BATCH_PER_CORE * rayon::current_num_threads()) {
        let ran: Vec<Row> =
            batch.par_iter().map(|position| row(plan, *position)).collect::<Result<_, _>>()?;
        rows.extend(ran);
        left -= batch.len();
        bar.inc(batch.len() as u64);
        if left == 0 || written.elapsed() >= PART_EVERY {
            folder.put(&table.bytes(&rows)?)?;
            rows.clear();
            parts += 1;
            written = Instant::now();
        }
    }
    bar.finish_and_clear();
    Ok(parts)
}

fn row(plan: &Plan, position: u64) -> anyhow::Result<Row> {
    let Point { key, values, experiment } = plan.point(position)?;
    Ok(Row { key, values, answer: experiment.run() })
}

fn tell(args: &Sweep, plan: &Plan, counts: Counts, took: Duration) -> anyhow::Result<Outcome> {
    let out = args.out.display().to_string();
    if args.json {
        output::json(&Document {
            schema: "iotoll.sweep/1",
            made_by: made_by(),
            model: VERSION,
            plan: args.plan.display().to_string(),
            what: plan.what(),
            out,
            shard: args.shard.to_string(),
            counts,
        })?;
    } else {
        let Counts { points, points_of_shard, skipped, done, parts_written } = counts;
        let seconds = took.as_secs_f64();
        output::data(&format!(
            "{points} points, {points_of_shard} of shard {}: {skipped} finished before, {done} done in {seconds:.1} s\n\
             {parts_written} parts written to {out}",
            args.shard
        ))?;
    }
    Ok(Outcome::Fine)
}
