//! Charts whose publication shows no numbers, and charts that were not published.

use super::testbed::{Mix, StoragePath, Testbed};
use crate::flash_array::{LockKind, LockUsage, Outcome};
use crate::host::Stage;
use crate::studies::StudyError;
use crate::{Bounds, Line};
use serde::Deserialize;

/// The charts of this study.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Drawing {
    UserOverFc,
    Path,
    Maximum,
    CoresUsed,
    Threads,
    Locks,
    Waiting,
    Contexts,
    ByCores,
    Depth,
}

type Points = Vec<(f64, f64)>;

/// Number of threads in charts that vary something else.
const THREADS: u32 = 192;
const MIXES: [&str; 3] = ["reads", "writes", "70 % reads"];

impl Drawing {
    /// The titles of the x and the y axis.
    pub(super) fn titles(self) -> [&'static str; 2] {
        match self {
            Self::UserOverFc => ["load", "times as many for each core"],
            Self::Path => ["who", "instructions"],
            Self::Maximum => ["load", "thousands a second"],
            Self::CoresUsed => ["load", "thousands a second for each core"],
            Self::Threads => ["threads", "thousands of reads a second"],
            Self::Locks => ["threads", "held, % of the time"],
            Self::Waiting => ["threads", "hardware threads"],
            Self::Contexts => ["contexts", "thousands of reads a second"],
            Self::ByCores => ["cores", "thousands of reads a second"],
            Self::Depth => ["in flight", "thousands of reads a second"],
        }
    }

    /// Names of the bars; empty if the x axis is numeric.
    pub(super) fn categories(self) -> &'static [&'static str] {
        match self {
            Self::UserOverFc | Self::Maximum | Self::CoresUsed => &MIXES,
            Self::Path => &["stack and driver", "mapping", "hypervisor", "all"],
            _ => &[],
        }
    }

    /// Simulates every line of the chart and attaches its published bounds.
    pub(super) fn lines(self, testbed: &Testbed, bounds: &[Bounds]) -> Result<Vec<Line>, StudyError> {
        let lines: Vec<(&str, Points)> = match self {
            Self::UserOverFc => vec![("user mode", user_over_fc_per_mix(testbed)?)],
            Self::Path => {
                line_per_storage_path(&KERNEL, |storage_path| instructions_per_io(testbed, storage_path))?
            }
            Self::Maximum => line_per_storage_path(&KERNEL, |storage_path| {
                points_per_mix(testbed, storage_path, |of| of.all.per_second / 1e3)
            })?,
            Self::CoresUsed => line_per_storage_path(&ALL, |storage_path| {
                points_per_mix(testbed, storage_path, |of| of.per_core() / 1e3)
            })?,
            Self::Threads => line_per_storage_path(&KERNEL, |storage_path| {
                points_per_thread_count(testbed, storage_path, |of| of.all.per_second / 1e3)
            })?,
            Self::Locks => line_per_lock(testbed, |lock| 100.0 * lock.busy_share)?,
            Self::Waiting => line_per_lock(testbed, |lock| lock.waiting_cpus)?,
            Self::Contexts => rate_per_context_count(testbed)?,
            Self::ByCores => {
                line_per_storage_path(&KERNEL, |storage_path| rate_per_core_count(testbed, storage_path))?
            }
            Self::Depth => line_per_storage_path(&ALL, |storage_path| rate_per_depth(testbed, storage_path))?,
        };
        let line = |(at, (name, points)): (usize, (&str, Points))| Line {
            name: name.to_owned(),
            bounds: bounds.get(at).copied(),
            points,
        };
        Ok(lines.into_iter().enumerate().map(line).collect())
    }
}

const ALL: [StoragePath; 3] = [StoragePath::FibreChannel, StoragePath::Capi, StoragePath::User];
const KERNEL: [StoragePath; 2] = [StoragePath::FibreChannel, StoragePath::Capi];

fn path_name(storage_path: StoragePath) -> &'static str {
    match storage_path {
        StoragePath::FibreChannel => "Fibre Channel",
        StoragePath::Capi => "CAPI",
        StoragePath::User => "CAPI, user mode",
    }
}

/// Computes one line of points for each storage path.
fn line_per_storage_path(
    storage_paths: &[StoragePath],
    points: impl Fn(StoragePath) -> Result<Points, StudyError>,
) -> Result<Vec<(&'static str, Points)>, StudyError> {
    storage_paths.iter().map(|&storage_path| Ok((path_name(storage_path), points(storage_path)?))).collect()
}

/// Gives the values of a bar chart the x positions 1, 2, ...
fn number_bars(values: impl IntoIterator<Item = f64>) -> Points {
    (1..).map(f64::from).zip(values).collect()
}

/// Saturated rate per core in user mode over that of Fibre Channel, for each mix.
fn user_over_fc_per_mix(testbed: &Testbed) -> Result<Points, StudyError> {
    let ratio = |mix| -> Result<f64, StudyError> {
        Ok(testbed.saturated(StoragePath::User, mix)?.per_core()
            / testbed.saturated(StoragePath::FibreChannel, mix)?.per_core())
    };
    Ok(number_bars(Mix::ALL.map(ratio).into_iter().collect::<Result<Vec<_>, _>>()?))
}

/// Instructions of a single read: stack, mapping, hypervisor and their sum.
fn instructions_per_io(testbed: &Testbed, storage_path: StoragePath) -> Result<Points, StudyError> {
    let outcome = testbed.single_read(storage_path)?;
    let [partition, hypervisor] = outcome.instructions_per_second.map(|all| all / outcome.all.per_second);
    let mapping = outcome.cpus.busy_cpus_by_stage[Stage::Mapping as usize];
    let stack = outcome.cpus.busy_cpus_by_stage[Stage::Stack as usize];
    let mapping = partition * mapping / (mapping + stack);
    Ok(number_bars([partition - mapping, mapping, hypervisor, partition + hypervisor]))
}

/// A value of the saturated load, for each mix.
fn points_per_mix(
    testbed: &Testbed,
    storage_path: StoragePath,
    of: fn(&Outcome) -> f64,
) -> Result<Points, StudyError> {
    let value = |mix| -> Result<f64, StudyError> { Ok(of(&*testbed.saturated(storage_path, mix)?)) };
    Ok(number_bars(Mix::ALL.map(value).into_iter().collect::<Result<Vec<_>, _>>()?))
}

/// A value of the outcome, for each number of threads that read.
fn points_per_thread_count(
    testbed: &Testbed,
    storage_path: StoragePath,
    of: fn(&Outcome) -> f64,
) -> Result<Points, StudyError> {
    let point = |&threads: &u32| {
        Ok((f64::from(threads), of(&testbed.run_threads(storage_path, Mix::Reads, threads)?)))
    };
    testbed.loads.threads.iter().map(point).collect()
}

/// A value of each lock against the number of threads that read over Fibre Channel.
fn line_per_lock(
    testbed: &Testbed,
    of: fn(&LockUsage) -> f64,
) -> Result<Vec<(&'static str, Points)>, StudyError> {
    let outcomes = testbed.loads.threads.iter();
    let outcomes = outcomes
        .map(|&threads| Ok((threads, testbed.run_threads(StoragePath::FibreChannel, Mix::Reads, threads)?)));
    let outcomes = outcomes.collect::<Result<Vec<_>, StudyError>>()?;
    let line = |kind: LockKind| {
        let value = |outcome: &Outcome| outcome.locks.iter().find(|lock| lock.kind == kind).map_or(0.0, of);
        (kind.words(), outcomes.iter().map(|(threads, of)| (f64::from(*threads), value(of))).collect())
    };
    Ok(LockKind::ALL.into_iter().map(line).collect())
}

/// Thousand reads per second, in all and per core, against the number of CAPI contexts.
fn rate_per_context_count(testbed: &Testbed) -> Result<Vec<(&'static str, Points)>, StudyError> {
    let with = |&contexts: &u32| {
        let change = |setup: &mut crate::flash_array::Setup| setup.adapter.kernel_queues = contexts;
        Ok((f64::from(contexts), testbed.run_changed(StoragePath::Capi, THREADS, change)?))
    };
    let outcomes = testbed.loads.contexts.iter().map(with).collect::<Result<Vec<_>, StudyError>>()?;
    let line = |of: fn(&Outcome) -> f64| {
        outcomes.iter().map(|(contexts, outcome)| (*contexts, of(outcome))).collect()
    };
    Ok(vec![("all", line(|of| of.all.per_second / 1e3)), ("for each core", line(|of| of.per_core() / 1e3))])
}

/// Thousand reads per second against the number of cores.
fn rate_per_core_count(testbed: &Testbed, storage_path: StoragePath) -> Result<Points, StudyError> {
    let with = |&cores: &u32| {
        let outcome = testbed.run_changed(storage_path, THREADS, |setup| setup.cpus.cores = cores)?;
        Ok((f64::from(cores), outcome.all.per_second / 1e3))
    };
    testbed.loads.cores.iter().map(with).collect()
}

/// Thousand reads per second of one thread against the reads in flight.
fn rate_per_depth(testbed: &Testbed, storage_path: StoragePath) -> Result<Points, StudyError> {
    let with =
        |&depth: &u32| Ok((f64::from(depth), testbed.run_depth(storage_path, depth)?.all.per_second / 1e3));
    testbed.loads.depths.iter().map(with).collect()
}
