//! A flash array behind CAPI adapters, compared with the same array behind Fibre Channel adapters.

mod drawings;
mod testbed;

use super::about::{About, PointFile, StudyResults};
use super::model_value::ModelValue;
use super::parameters::Parameters;
use super::power7::Power7;
use super::replication::Replication;
use super::{Changes, StudyError};
use crate::flash_array::{IoInterface, Job, Outcome, SECTOR_BYTES};
use crate::{Bounds, Chart, Curve, Given, Parameter, Reference, Reproduction};
use drawings::Drawing;
use serde::Deserialize;
use std::collections::BTreeMap;
use testbed::{Mix, StoragePath, Testbed};

pub(super) const NAME: &str = "capi-flash";
const FILE: &str = "capi-flash.toml";
const TEXT: &str = include_str!("../../experiments/capi-flash.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: About,
    loads: Loads,
    parameters: BTreeMap<String, Given>,
    curves: Vec<CurveFile>,
    charts: Vec<ChartFile>,
}

/// What a study file has besides its machines.
struct StudyFile {
    about: About,
    curves: Vec<CurveFile>,
    charts: Vec<ChartFile>,
}

/// The values over which the charts vary threads, contexts, cores and queue depths.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Loads {
    threads: Vec<u32>,
    user_threads: Vec<u32>,
    contexts: Vec<u32>,
    cores: Vec<u32>,
    depths: Vec<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CurveFile {
    figure: Figure,
    name: String,
    source: String,
    remark: Option<String>,
    points: Vec<PointFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChartFile {
    figure: Drawing,
    name: String,
    source: String,
    remark: Option<String>,
    /// One per line of the chart, in order.
    #[serde(default)]
    bounds: Vec<Bounds>,
}

/// Which figure of the publication a curve reproduces.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Figure {
    Instructions,
    Reads,
    Writes,
    Mix,
    PerCore,
    BlockioDeep,
    BlockioLong,
    FlashgtReads,
    FlashgtWrites,
}

/// Sectors of a long read in the benchmark of the CAPI block I/O library.
const LONG_SECTORS: u64 = 20;

impl Figure {
    /// The title of the y axis.
    fn y_title(self) -> &'static str {
        match self {
            Self::Instructions | Self::Reads | Self::Writes | Self::Mix | Self::PerCore => {
                "CAPI over Fibre Channel"
            }
            Self::BlockioDeep | Self::BlockioLong | Self::FlashgtReads | Self::FlashgtWrites => "a second",
        }
    }
}

/// Runs the study.
pub(super) fn run(of: &Replication<'_>) -> Result<Reproduction, StudyError> {
    let (testbed, StudyFile { about, curves, charts }) = read(of.changes, of.seed)?;
    let curves = curves.into_iter().map(|curve| build_curve(&testbed, curve)).collect::<Result<_, _>>()?;
    let charts = charts
        .into_iter()
        .filter(|_| of.draws())
        .map(|chart| build_chart(&testbed, chart))
        .collect::<Result<_, _>>()?;
    Ok(about.into_reproduction(NAME, StudyResults { parameters: testbed.parameter_list(), curves, charts }))
}

/// The study's parameters.
pub(super) fn parameters(changes: &Changes) -> Result<Vec<Parameter>, StudyError> {
    Ok(read(changes, Replication::FIRST_SEED)?.0.parameter_list())
}

/// The machines, and what they are compared with.
fn read(changes: &Changes, seed: u64) -> Result<(Testbed, StudyFile), StudyError> {
    let File { about, loads, parameters, curves, charts } = changes.read(FILE, TEXT, &["parameters"])?;
    let given = Parameters::from_table(FILE, parameters);
    let testbed = Testbed::new(Power7::read(changes)?, given, loads, seed);
    Ok((testbed, StudyFile { about, curves, charts }))
}

/// Runs the model for each point of a published curve.
fn build_curve(testbed: &Testbed, curve: CurveFile) -> Result<Curve, StudyError> {
    let point = |point: &PointFile| Ok(point.with_model_value(model_value(testbed, curve.figure)?));
    Ok(Curve {
        points: curve.points.iter().map(point).collect::<Result<_, StudyError>>()?,
        name: curve.name,
        x_title: "figure".to_owned(),
        y_title: curve.figure.y_title().to_owned(),
        reference: Reference::Published,
        source: curve.source,
        within: None,
        remark: curve.remark,
    })
}

/// Runs the model for each line of a chart.
fn build_chart(testbed: &Testbed, chart: ChartFile) -> Result<Chart, StudyError> {
    let [x_title, y_title] = chart.figure.titles().map(str::to_owned);
    Ok(Chart {
        lines: chart.figure.lines(testbed, &chart.bounds)?,
        categories: chart.figure.categories().iter().map(|&name| name.to_owned()).collect(),
        name: chart.name,
        x_title,
        y_title,
        source: chart.source,
        remark: chart.remark,
    })
}

/// Computes the value of one published figure; most are ratios of CAPI to Fibre Channel.
fn model_value(testbed: &Testbed, figure: Figure) -> Result<ModelValue, StudyError> {
    let ratio = |mix| -> Result<ModelValue, StudyError> {
        let [fc, capi] =
            [testbed.saturated(StoragePath::FibreChannel, mix)?, testbed.saturated(StoragePath::Capi, mix)?];
        Ok((capi.all.per_second / fc.all.per_second).into())
    };
    match figure {
        Figure::Instructions => {
            let [fc, capi] =
                [testbed.single_read(StoragePath::FibreChannel)?, testbed.single_read(StoragePath::Capi)?];
            Ok((capi.instructions_each() / fc.instructions_each()).into())
        }
        Figure::Reads => ratio(Mix::Reads),
        Figure::Writes => ratio(Mix::Writes),
        Figure::Mix => ratio(Mix::Both),
        Figure::PerCore => {
            let [fc, capi] = [
                testbed.saturated(StoragePath::FibreChannel, Mix::Reads)?,
                testbed.saturated(StoragePath::Capi, Mix::Reads)?,
            ];
            Ok((capi.per_core() / fc.per_core()).into())
        }
        Figure::BlockioDeep => Ok(rate(&testbed.blockio(2, Job { depth: 300, ..single_sector_read_job() })?)),
        Figure::BlockioLong => {
            let io_bytes = LONG_SECTORS * SECTOR_BYTES;
            Ok(rate(&testbed.blockio(1, Job { depth: 10, io_bytes, ..single_sector_read_job() })?))
        }
        Figure::FlashgtReads => Ok(rate(&testbed.flashgt(single_sector_read_job())?)),
        Figure::FlashgtWrites => {
            Ok(rate(&testbed.flashgt(Job { read_share: 0.0, ..single_sector_read_job() })?))
        }
    }
}

/// I/Os per second, and what limits them.
fn rate(outcome: &Outcome) -> ModelValue {
    ModelValue::of_run(outcome.all.per_second, outcome.parts())
}

/// A job with one thread in user mode that reads single sectors, one at a time.
fn single_sector_read_job() -> Job {
    Job { way: IoInterface::User, threads: 1, depth: 1, read_share: 1.0, io_bytes: SECTOR_BYTES }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FigureKind;
    use crate::flash_array::LockKind;

    fn testbed(changes: &[(&str, f64)]) -> (Testbed, Vec<CurveFile>) {
        let changes = changes.iter().map(|(name, value)| ((*name).to_owned(), *value));
        let (testbed, file) = read(&Changes::new(changes).unwrap(), Replication::FIRST_SEED).unwrap();
        (testbed, file.curves)
    }

    #[test]
    fn calibrated_figures_are_met() {
        let (testbed, curves) = testbed(&[]);
        for curve in curves {
            for point in curve.points.iter().filter(|point| point.kind == FigureKind::Calibrated) {
                let ours = model_value(&testbed, curve.figure).unwrap().value;
                assert!((ours / point.published - 1.0).abs() < 0.005, "{}: {ours}", curve.name);
            }
        }
    }

    /// Otherwise a user's change of one name would apply to both files.
    #[test]
    fn parameter_names_differ_from_those_of_the_shared_file() {
        let (testbed, _) = testbed(&[]);
        let names: Vec<String> =
            testbed.parameter_list().into_iter().map(|parameter| parameter.name).collect();
        let own: Vec<String> =
            testbed.given.parameter_list().into_iter().map(|parameter| parameter.name).collect();
        let shared = Power7::read(&Changes::default()).unwrap().parameters().parameter_list();
        assert!(shared.iter().all(|parameter| !own.contains(&parameter.name)), "{own:?}");
        assert_eq!(names.len(), own.len() + 8);
    }

    /// Checks the limits that the remarks of the study file name.
    #[test]
    fn the_queue_limits_fibre_channel_and_cables_limit_capi() {
        let (testbed, _) = testbed(&[]);
        let fc = testbed.saturated(StoragePath::FibreChannel, Mix::Reads).unwrap();
        assert_eq!(fc.most_waited().unwrap().kind, LockKind::Queue);
        assert!(fc.locks.iter().any(|lock| lock.kind == LockKind::Queue && lock.busy_share > 0.95));
        let capi = testbed.saturated(StoragePath::Capi, Mix::Reads).unwrap();
        assert!(capi.cable_busy_shares[1] > 0.99 && fc.cable_busy_shares[1] < 0.75);
        assert!((capi.all.per_second / 781_250.0 - 1.0).abs() < 1e-3, "{}", capi.all.per_second);
    }

    /// What the remark on writes says: CAPI does as many as the array, whatever that does.
    #[test]
    fn the_array_limits_writes_of_capi() {
        for thousand in [440.0, 600.0] {
            let (testbed, _) = testbed(&[("array_writes_thousand_per_second", thousand)]);
            let capi = testbed.saturated(StoragePath::Capi, Mix::Writes).unwrap();
            assert!((capi.all.per_second / (1e3 * thousand) - 1.0).abs() < 0.02, "{}", capi.all.per_second);
        }
    }

    #[test]
    fn with_half_as_many_in_flight_a_process_needs_more_threads() {
        let per_core = |depth: f64| {
            let (testbed, _) = testbed(&[("user_depth", depth)]);
            testbed.saturated(StoragePath::User, Mix::Reads).unwrap().per_core()
        };
        let ratio = per_core(64.0) / per_core(128.0);
        assert!((ratio - 0.5).abs() < 0.05, "{ratio}");
    }

    /// What the remark on reads says: twice the lines that were counted are not enough for the published ratio.
    #[test]
    fn more_cache_lines_with_each_lock_make_reads_of_fibre_channel_slower() {
        let ratio =
            |lines: f64| model_value(&testbed(&[("lock_lines", lines)]).0, Figure::Reads).unwrap().value;
        assert!(ratio(5.0) < ratio(7.5) && ratio(7.5) < ratio(10.0) && ratio(10.0) < 2.13);
    }
}
