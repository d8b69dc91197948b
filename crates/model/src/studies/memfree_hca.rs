//! InfiniBand adapters that keep their contexts in the host's memory, beside those with memory of their own.

mod drawings;
mod testbed;

use super::about::{About, PointFile, Told};
use super::parameters::Parameters;
use super::{Changes, StudyError};
use crate::infiniband::{self, Adapter, MemoryKind, Pattern};
use crate::link::Link;
use crate::{Bounds, Chart, Curve, Given, Parameter, Reproduction};
use drawings::Drawing;
use serde::Deserialize;
use std::collections::BTreeMap;
use testbed::{Slot, Testbed, measured};
use toll::Evidence;

pub(super) const NAME: &str = "memfree-hca";
const FILE: &str = "memfree-hca.toml";
const TEXT: &str = include_str!("../../../../experiments/memfree-hca.toml");
/// Connections with which contexts miss.
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
    /// By line.
    #[serde(default)]
    bounds: Vec<Bounds>,
}

/// What is asked of the model.
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
    /// What is varied, and what comes out.
    fn titles(self) -> [&'static str; 2] {
        match self {
            Self::PcieLatency | Self::PcixLatency => ["figure", "us"],
            Self::Bandwidth => ["ways", "10^6 bytes/s"],
            Self::ReuseMemory | Self::ReuseMemoryLess => ["buffers used again, %", "2^20 bytes/s"],
            Self::Chunk => ["figure", "KiB"],
        }
    }
}

pub(super) fn reproduce(changes: &Changes) -> Result<Reproduction, StudyError> {
    let File { about, link, parameters, curves, charts } = read(changes)?;
    let testbed = Testbed { link: link.value, given: Parameters::of(FILE, parameters) };
    let curves = curves.into_iter().map(|curve| self::curve(&testbed, curve)).collect::<Result<_, _>>()?;
    let charts = charts.into_iter().map(|chart| self::chart(&testbed, chart)).collect::<Result<_, _>>()?;
    let mut parameters = testbed.given.listed();
    parameters.push(Parameter {
        name: "link_gigabits_per_second".to_owned(),
        value: link.value.packet_bits_per_second() / 1e9,
        evidence: link.evidence,
    });
    Ok(about.with(NAME, Told { parameters, curves, charts }))
}

fn read(changes: &Changes) -> Result<File, StudyError> {
    changes.read(FILE, TEXT, &["parameters"])
}

fn curve(testbed: &Testbed, curve: CurveFile) -> Result<Curve, StudyError> {
    let point = |point: &PointFile| Ok(point.beside(ours(testbed, curve.figure, point.x)?));
    let [x_title, y_title] = curve.figure.titles().map(str::to_owned);
    Ok(Curve {
        points: curve.points.iter().map(point).collect::<Result<_, StudyError>>()?,
        name: curve.name,
        x_title,
        y_title,
        source: curve.source,
        within: curve.within,
        remark: curve.remark,
    })
}

fn chart(testbed: &Testbed, chart: ChartFile) -> Result<Chart, StudyError> {
    let [x_title, y_title] = chart.figure.titles().map(str::to_owned);
    let lines = chart.figure.lines(testbed, &chart.bounds)?;
    let (name, source, remark) = (chart.name, chart.source, chart.remark);
    Ok(Chart { name, x_title, y_title, source, remark, categories: Vec::new(), lines })
}

fn ours(testbed: &Testbed, figure: Figure, x: f64) -> Result<f64, StudyError> {
    match figure {
        Figure::PcieLatency => latency_us(testbed, Slot::Pcie, MemoryKind::Adapter, 1),
        Figure::PcixLatency => latency_us(testbed, Slot::PciX, MemoryKind::Adapter, 1),
        Figure::Bandwidth => Ok(testbed.bytes_per_second(MemoryKind::Adapter, 100.0, x > 1.0)? / 1e6),
        Figure::ReuseMemory => {
            Ok(testbed.bytes_per_second(MemoryKind::Adapter, x, false)? / f64::from(1 << 20))
        }
        Figure::ReuseMemoryLess => {
            Ok(testbed.bytes_per_second(MemoryKind::Host, x, false)? / f64::from(1 << 20))
        }
        Figure::Chunk => Ok(drawings::step_bytes(testbed.profile()?) as f64 / 1024.0),
    }
}

/// A small message there and back on connections in turn, halved.
fn latency_us(
    testbed: &Testbed,
    slot: Slot,
    contexts: MemoryKind,
    connections: u32,
) -> Result<f64, StudyError> {
    latency_with(testbed, slot, contexts, connections, &|_| {})
}

/// The same of another adapter.
fn latency_with(
    testbed: &Testbed,
    slot: Slot,
    contexts: MemoryKind,
    connections: u32,
    change: &impl Fn(&mut Adapter),
) -> Result<f64, StudyError> {
    let mut setup = testbed.setup(slot, contexts)?;
    change(&mut setup.adapter);
    let load = testbed.load(Pattern::PingPong, SMALL_BYTES, connections);
    Ok(measured(infiniband::run(&setup, &load))?.latency_mean.as_ps_f64() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Role;
    use crate::infiniband::nas::Kernel;

    fn testbed(changes: &[(&str, f64)]) -> Testbed {
        let changes = changes.iter().map(|(name, value)| ((*name).to_owned(), *value));
        let changes = Changes::new(changes).unwrap();
        let file = read(&changes).unwrap();
        Testbed { link: file.link.value, given: Parameters::of(FILE, file.parameters) }
    }

    #[test]
    fn calibrated_figures_are_met() {
        let testbed = testbed(&[]);
        let file = read(&Changes::default()).unwrap();
        for curve in file.curves {
            for point in curve.points.iter().filter(|point| point.role == Role::Calibrated) {
                let ours = ours(&testbed, curve.figure, point.x).unwrap();
                assert!((ours / point.published - 1.0).abs() < 0.005, "{}: {ours}", curve.name);
            }
        }
    }

    fn scatters(changes: &[(&str, f64)]) -> Vec<(f64, f64)> {
        Drawing::Scatter.lines(&testbed(changes), &[]).unwrap().remove(0).points
    }

    #[test]
    fn a_cache_that_holds_all_costs_nothing() {
        for (bytes, ratio) in scatters(&[("cache_kib", 64.0)]) {
            assert!((ratio - 1.0).abs() < 0.01, "{bytes} {ratio}");
        }
    }

    /// What the remarks of the scatter say follows, from either side.
    #[test]
    fn what_takes_longer_than_contexts_hides_them() {
        let highest = |testbed: &Testbed| {
            let points = Drawing::Scatter.lines(testbed, &[]).unwrap().remove(0).points;
            points.into_iter().map(|point| point.1).fold(0.0, f64::max)
        };
        let mut testbed = testbed(&[]);
        assert!(highest(&testbed) > 1.4);
        for name in ["post_ns", "engine_gap_ns"] {
            let given = testbed.given.get(name).unwrap();
            testbed.given.set(name, 1000.0);
            let highest = highest(&testbed);
            assert!(highest < 1.2, "{name} {highest}");
            testbed.given.set(name, given);
        }
    }

    /// Without any computing, benchmarks lose less than a four-hundredth.
    #[test]
    fn benchmarks_lose_nothing_however_fast_processes_are() {
        let mut testbed = testbed(&[]);
        for kernel in Kernel::ALL {
            let name = format!("nas_{}_mops", kernel.name().to_lowercase());
            testbed.given.set(&name, 1e9);
            let lost = testbed.slowdown(kernel).unwrap() - 1.0;
            assert!(lost.abs() < 2.5e-3, "{kernel:?} {lost}");
        }
    }
}
