//! What was drawn without numbers, and what nobody has drawn.

use super::testbed::{Mix, StoragePath, Testbed};
use crate::flash_array::{LockKind, LockUsage, Outcome};
use crate::host::Stage;
use crate::studies::StudyError;
use crate::{Bounds, Line};
use serde::Deserialize;

/// What is drawn.
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

/// Threads where something else is varied.
const THREADS: u32 = 192;
const MIXES: [&str; 3] = ["reads", "writes", "70 % reads"];

impl Drawing {
    /// What is varied, and what comes out.
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

    /// Names of the places where there are no numbers: bars.
    pub(super) fn categories(self) -> &'static [&'static str] {
        match self {
            Self::UserOverFc | Self::Maximum | Self::CoresUsed => &MIXES,
            Self::Path => &["stack and driver", "mapping", "hypervisor", "all"],
            _ => &[],
        }
    }

    pub(super) fn lines(self, testbed: &Testbed, bounds: &[Bounds]) -> Result<Vec<Line>, StudyError> {
        let lines: Vec<(&str, Points)> = match self {
            Self::UserOverFc => vec![("user mode", user_over_fc(testbed)?)],
            Self::Path => by_storage_path(&KERNEL, |storage_path| path(testbed, storage_path))?,
            Self::Maximum => by_storage_path(&KERNEL, |storage_path| {
                by_mix(testbed, storage_path, |of| of.all.per_second / 1e3)
            })?,
            Self::CoresUsed => {
                by_storage_path(&ALL, |storage_path| by_mix(testbed, storage_path, |of| of.per_core() / 1e3))?
            }
            Self::Threads => by_storage_path(&KERNEL, |storage_path| {
                by_threads(testbed, storage_path, |of| of.all.per_second / 1e3)
            })?,
            Self::Locks => by_lock(testbed, |lock| 100.0 * lock.busy_share)?,
            Self::Waiting => by_lock(testbed, |lock| lock.waiting_cpus)?,
            Self::Contexts => contexts(testbed)?,
            Self::ByCores => by_storage_path(&KERNEL, |storage_path| by_cores(testbed, storage_path))?,
            Self::Depth => by_storage_path(&ALL, |storage_path| depth(testbed, storage_path))?,
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

fn name(storage_path: StoragePath) -> &'static str {
    match storage_path {
        StoragePath::FibreChannel => "Fibre Channel",
        StoragePath::Capi => "CAPI",
        StoragePath::User => "CAPI, user mode",
    }
}

fn by_storage_path(
    storage_paths: &[StoragePath],
    points: impl Fn(StoragePath) -> Result<Points, StudyError>,
) -> Result<Vec<(&'static str, Points)>, StudyError> {
    storage_paths.iter().map(|&storage_path| Ok((name(storage_path), points(storage_path)?))).collect()
}

/// Where there are names instead of numbers: one after the other.
fn in_order(values: impl IntoIterator<Item = f64>) -> Points {
    (1..).map(f64::from).zip(values).collect()
}

fn user_over_fc(testbed: &Testbed) -> Result<Points, StudyError> {
    let ratio = |mix| -> Result<f64, StudyError> {
        Ok(testbed.most(StoragePath::User, mix)?.per_core()
            / testbed.most(StoragePath::FibreChannel, mix)?.per_core())
    };
    Ok(in_order(Mix::ALL.map(ratio).into_iter().collect::<Result<Vec<_>, _>>()?))
}

fn path(testbed: &Testbed, storage_path: StoragePath) -> Result<Points, StudyError> {
    let outcome = testbed.alone(storage_path)?;
    let [partition, hypervisor] = outcome.instructions_per_second.map(|all| all / outcome.all.per_second);
    let mapping = outcome.cpus.busy_cpus_by_stage[Stage::Mapping as usize];
    let stack = outcome.cpus.busy_cpus_by_stage[Stage::Stack as usize];
    let mapping = partition * mapping / (mapping + stack);
    Ok(in_order([partition - mapping, mapping, hypervisor, partition + hypervisor]))
}

fn by_mix(
    testbed: &Testbed,
    storage_path: StoragePath,
    of: fn(&Outcome) -> f64,
) -> Result<Points, StudyError> {
    let value = |mix| -> Result<f64, StudyError> { Ok(of(&*testbed.most(storage_path, mix)?)) };
    Ok(in_order(Mix::ALL.map(value).into_iter().collect::<Result<Vec<_>, _>>()?))
}

fn by_threads(
    testbed: &Testbed,
    storage_path: StoragePath,
    of: fn(&Outcome) -> f64,
) -> Result<Points, StudyError> {
    let point =
        |&threads: &u32| Ok((f64::from(threads), of(&testbed.load(storage_path, Mix::Reads, threads)?)));
    testbed.loads.threads.iter().map(point).collect()
}

fn by_lock(testbed: &Testbed, of: fn(&LockUsage) -> f64) -> Result<Vec<(&'static str, Points)>, StudyError> {
    let outcomes = testbed.loads.threads.iter();
    let outcomes =
        outcomes.map(|&threads| Ok((threads, testbed.load(StoragePath::FibreChannel, Mix::Reads, threads)?)));
    let outcomes = outcomes.collect::<Result<Vec<_>, StudyError>>()?;
    let line = |kind: LockKind| {
        let value = |outcome: &Outcome| outcome.locks.iter().find(|lock| lock.kind == kind).map_or(0.0, of);
        (kind.words(), outcomes.iter().map(|(threads, of)| (f64::from(*threads), value(of))).collect())
    };
    Ok(LockKind::ALL.into_iter().map(line).collect())
}

fn contexts(testbed: &Testbed) -> Result<Vec<(&'static str, Points)>, StudyError> {
    let with = |&contexts: &u32| {
        let change = |setup: &mut crate::flash_array::Setup| setup.adapter.kernel_queues = contexts;
        Ok((f64::from(contexts), testbed.changed(StoragePath::Capi, THREADS, change)?))
    };
    let outcomes = testbed.loads.contexts.iter().map(with).collect::<Result<Vec<_>, StudyError>>()?;
    let line = |of: fn(&Outcome) -> f64| {
        outcomes.iter().map(|(contexts, outcome)| (*contexts, of(outcome))).collect()
    };
    Ok(vec![("all", line(|of| of.all.per_second / 1e3)), ("for each core", line(|of| of.per_core() / 1e3))])
}

fn by_cores(testbed: &Testbed, storage_path: StoragePath) -> Result<Points, StudyError> {
    let with = |&cores: &u32| {
        let outcome = testbed.changed(storage_path, THREADS, |setup| setup.cpus.cores = cores)?;
        Ok((f64::from(cores), outcome.all.per_second / 1e3))
    };
    testbed.loads.cores.iter().map(with).collect()
}

fn depth(testbed: &Testbed, storage_path: StoragePath) -> Result<Points, StudyError> {
    let with = |&depth: &u32| Ok((f64::from(depth), testbed.deep(storage_path, depth)?.all.per_second / 1e3));
    testbed.loads.depths.iter().map(with).collect()
}
