//! InfiniBand adapters that keep their contexts in host memory, compared with adapters that have their own memory.

mod drawings;
mod testbed;

use super::about::{About, PointFile, StudyResults};
use super::model_value::ModelValue;
use super::parameters::Parameters;
use super::replication::Replication;
use super::{Changes, StudyError};
use crate::infiniband::{self, Hca, MemoryKind, Pattern};
use crate::link::Link;
use crate::{Bounds, Chart, Curve, Given, Parameter, Reference, Reproduction};
use drawings::Drawing;
use serde::Deserialize;
use std::collections::BTreeMap;
use testbed::{BusKind, Testbed, with_study_error};
use toll::Evidence;

pub(super) const NAME: &str = "memfree-hca";
const FILE: &str = "memfree-hca.toml";
const TEXT: &str = include_str!("../../experiments/memfree-hca.toml");
/// A number of connections whose contexts exceed the adapter's cache.
const CONNECTIONS: u32 = 128;
/// Bytes of a small message.
const SMALL_BYTES: u64 = 4;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: About,
    link: GivenLink,
    parameters: BTreeMap<String, Given>,
    curves: Vec<CurveFile>,
    charts: Vec<ChartFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenLink {
    value: Link,
    evidence: Evidence,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CurveFile {
    figure: Figure,
    name: String,
    source: String,
    within: Option<f64>,
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
    PcieLatency,
    PcixLatency,
    Bandwidth,
    ReuseMemory,
    ReuseMemoryLess,
    Chunk,
}

impl Figure {
    /// The titles of the x and the y axis.
    fn titles(self) -> [&'static str; 2] {
        match self {
            Self::PcieLatency | Self::PcixLatency => ["figure", "us"],
            Self::Bandwidth => ["ways", "10^6 bytes/s"],
            Self::ReuseMemory | Self::ReuseMemoryLess => ["buffers used again, %", "2^20 bytes/s"],
            Self::Chunk => ["figure", "KiB"],
        }
    }
}

/// Runs the study.
pub(super) fn run(of: &Replication<'_>) -> Result<Reproduction, StudyError> {
    let File { about, link, parameters: given, curves, charts } = parse_file(of.changes)?;
    let testbed = Testbed { link: link.value, given: Parameters::from_table(FILE, given), seed: of.seed };
    let curves = curves.into_iter().map(|curve| build_curve(&testbed, curve)).collect::<Result<_, _>>()?;
    let charts = charts
        .into_iter()
        .filter(|_| of.draws())
        .map(|chart| build_chart(&testbed, chart))
        .collect::<Result<_, _>>()?;
    Ok(about.into_reproduction(NAME, StudyResults { parameters: parameters(of.changes)?, curves, charts }))
}

/// The study's parameters, with the rate of its link.
pub(super) fn parameters(changes: &Changes) -> Result<Vec<Parameter>, StudyError> {
    let File { link, parameters, .. } = parse_file(changes)?;
    let mut all = Parameters::from_table(FILE, parameters).parameter_list();
    all.push(Parameter {
        name: "link_gigabits_per_second".to_owned(),
        value: link.value.packet_bits_per_second() / 1e9,
        evidence: link.evidence,
    });
    Ok(all)
}

/// Parses the study file with the changes applied.
fn parse_file(changes: &Changes) -> Result<File, StudyError> {
    changes.read(FILE, TEXT, &["parameters"])
}

/// Runs the model for each point of a published curve.
fn build_curve(testbed: &Testbed, curve: CurveFile) -> Result<Curve, StudyError> {
    let point = |point: &PointFile| Ok(point.with_model_value(model_value(testbed, curve.figure, point.x)?));
    let [x_title, y_title] = curve.figure.titles().map(str::to_owned);
    Ok(Curve {
        points: curve.points.iter().map(point).collect::<Result<_, StudyError>>()?,
        name: curve.name,
        x_title,
        y_title,
        reference: Reference::Published,
        source: curve.source,
        within: curve.within,
        remark: curve.remark,
    })
}

/// Runs the model for each line of a chart.
fn build_chart(testbed: &Testbed, chart: ChartFile) -> Result<Chart, StudyError> {
    let [x_title, y_title] = chart.figure.titles().map(str::to_owned);
    let lines = chart.figure.lines(testbed, &chart.bounds)?;
    let (name, source, remark) = (chart.name, chart.source, chart.remark);
    Ok(Chart { name, x_title, y_title, source, remark, categories: Vec::new(), lines })
}

/// Computes the value of one published figure at `x`.
fn model_value(testbed: &Testbed, figure: Figure, x: f64) -> Result<ModelValue, StudyError> {
    let stream = |contexts, reuse_percent, both_ways, unit: f64| -> Result<ModelValue, StudyError> {
        let measured = testbed.stream(contexts, reuse_percent, both_ways)?;
        Ok(ModelValue::of_run(measured.bytes_per_second / unit, measured.outcome.parts()))
    };
    match figure {
        Figure::PcieLatency => {
            latency_us(testbed, BusKind::Pcie, MemoryKind::Adapter, 1).map(ModelValue::from)
        }
        Figure::PcixLatency => {
            latency_us(testbed, BusKind::PciX, MemoryKind::Adapter, 1).map(ModelValue::from)
        }
        Figure::Bandwidth => stream(MemoryKind::Adapter, 100.0, x > 1.0, 1e6),
        Figure::ReuseMemory => stream(MemoryKind::Adapter, x, false, f64::from(1 << 20)),
        Figure::ReuseMemoryLess => stream(MemoryKind::Host, x, false, f64::from(1 << 20)),
        Figure::Chunk => Ok((drawings::step_bytes(testbed.profile()?) as f64 / 1024.0).into()),
    }
}

/// Half the round-trip time of a small message, in us, with messages on all connections in turn.
fn latency_us(
    testbed: &Testbed,
    slot: BusKind,
    contexts: MemoryKind,
    connections: u32,
) -> Result<f64, StudyError> {
    latency_with(testbed, slot, contexts, connections, &|_| {})
}

/// Like `latency_us`, after `change` has modified the adapter.
fn latency_with(
    testbed: &Testbed,
    slot: BusKind,
    contexts: MemoryKind,
    connections: u32,
    change: &impl Fn(&mut Hca),
) -> Result<f64, StudyError> {
    let mut setup = testbed.setup(slot, contexts)?;
    change(&mut setup.adapter);
    let load = testbed.load(Pattern::PingPong, SMALL_BYTES, connections);
    Ok(with_study_error(infiniband::run(&setup, &load))?.latency_mean.as_ps_f64() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FigureKind;
    use crate::infiniband::nas::Kernel;

    fn testbed(changes: &[(&str, f64)]) -> Testbed {
        let changes = changes.iter().map(|(name, value)| ((*name).to_owned(), *value));
        let changes = Changes::new(changes).unwrap();
        let file = parse_file(&changes).unwrap();
        Testbed {
            link: file.link.value,
            given: Parameters::from_table(FILE, file.parameters),
            seed: Replication::FIRST_SEED,
        }
    }

    #[test]
    fn calibrated_figures_are_met() {
        let testbed = testbed(&[]);
        let file = parse_file(&Changes::default()).unwrap();
        for curve in file.curves {
            for point in curve.points.iter().filter(|point| point.kind == FigureKind::Calibrated) {
                let ours = model_value(&testbed, curve.figure, point.x).unwrap().value;
                assert!((ours / point.published - 1.0).abs() < 0.005, "{}: {ours}", curve.name);
            }
        }
    }

    fn scatter_points(changes: &[(&str, f64)]) -> Vec<(f64, f64)> {
        Drawing::Scatter.lines(&testbed(changes), &[]).unwrap().remove(0).points
    }

    #[test]
    fn a_cache_that_holds_all_costs_nothing() {
        for (bytes, ratio) in scatter_points(&[("cache_kib", 64.0)]) {
            assert!((ratio - 1.0).abs() < 0.01, "{bytes} {ratio}");
        }
    }

    /// Checks the remarks of the scatter chart with a slower CPU and with a slower adapter.
    #[test]
    fn a_slower_cpu_or_adapter_hides_context_misses() {
        let highest = |testbed: &Testbed| {
            let points = Drawing::Scatter.lines(testbed, &[]).unwrap().remove(0).points;
            points.into_iter().map(|point| point.1).fold(0.0, f64::max)
        };
        let mut testbed = testbed(&[]);
        let as_given = highest(&testbed);
        assert!(as_given > 1.2);
        for name in ["post_ns", "engine_gap_ns"] {
            let given = testbed.given.get(name).unwrap();
            testbed.given.set(name, 1000.0);
            let highest = highest(&testbed);
            assert!(highest < 0.9 * as_given, "{name} {highest} {as_given}");
            testbed.given.set(name, given);
        }
    }

    /// Even without computation, benchmarks lose less than 0.25 % by contexts in host memory. IS gains.
    #[test]
    fn benchmarks_lose_nothing_even_with_fast_processes() {
        let mut testbed = testbed(&[]);
        for kernel in Kernel::ALL {
            let name = format!("nas_{}_mops", kernel.name().to_lowercase());
            testbed.given.set(&name, 1e9);
            let lost = testbed.slowdown(kernel).unwrap() - 1.0;
            assert!(lost < 2.5e-3, "{kernel:?} {lost}");
        }
    }
}
