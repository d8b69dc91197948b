//! Throughput and latency of DMA against the size of the window that it touches: shows the IOTLB's capacity.

use super::about::{About, PointFile, StudyResults};
use super::model_value::ModelValue;
use super::parameters::to_integer;
use super::replication::Replication;
use super::{Changes, StudyError};
use crate::engine::{self, IommuSetup, Operation, Setup};
use crate::experiment;
use crate::iommu::Hardware;
use crate::link::Link;
use crate::{Curve, Given, Parameter, Reference, Reproduction};
use des::Span;
use serde::Deserialize;
use toll::Evidence;

pub(super) const NAME: &str = "iotlb";
const FILE: &str = "iotlb.toml";
const TEXT: &str = include_str!("../../experiments/iotlb.toml");
const KIB: f64 = 1024.0;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: About,
    link: GivenLink,
    parameters: Parameters,
    curves: Vec<CurveFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenLink {
    value: Link,
    evidence: Evidence,
}

/// Parameters of the model.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    /// Entries of the IOTLB, which is fully associative.
    entries: Given,
    /// Time of a page table walk.
    walk_ns: Given,
    /// Shortest time between the starts of two walks.
    walk_gap_ns: Given,
    /// Latency of a lone 64-byte read of memory that is in the processor's cache.
    read_warm_ns: Given,
    /// The same for memory that is not cached.
    read_cold_ns: Given,
    /// Maximum number of reads in flight.
    reads_in_flight: Given,
    /// Shortest time between the starts of two reads.
    read_gap_ns: Given,
    /// Shortest time between the starts of two writes.
    write_gap_ns: Given,
    /// Time that the adapter adds for each byte, besides the link.
    copy_ps_per_byte: Given,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CurveFile {
    name: String,
    source: String,
    remark: Option<String>,
    operation: Operation,
    measure: Measure,
    vary: Vary,
    /// The memory is in the processor's cache.
    is_warm: bool,
    /// Page size of the translation; without it, addresses are not translated.
    page_kib: Option<u64>,
    /// Bytes of a transfer where they are not varied.
    #[serde(default = "cache_line_bytes")]
    transfer_bytes: u64,
    points: Vec<PointFile>,
}

/// What is measured.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Measure {
    /// Payload per second with the maximum number of transfers in flight.
    Throughput,
    /// The time of a single transfer.
    Latency,
}

/// What is varied.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Vary {
    /// The window, in KiB.
    WindowKib,
    /// The transfer, in bytes, in a window that the IOTLB holds.
    TransferBytes,
    /// The offset of transfers within a cache line, in bytes, in such a window.
    OffsetBytes,
}

/// Bytes of a cache line. Transfers start at multiples of the whole lines that they and their offset span, as in the
/// measurement.
const LINE: u64 = 64;
/// The window where it is not varied.
const WINDOW: u64 = 8 << 10;

/// Runs the study.
pub(super) fn run(of: &Replication<'_>) -> Result<Reproduction, StudyError> {
    let file = read(of.changes)?;
    let curves =
        file.curves.iter().map(|curve| file.build_curve(curve, of.seed)).collect::<Result<_, _>>()?;
    let parameters = file.parameters.parameter_list(&file.link);
    Ok(file.about.into_reproduction(NAME, StudyResults { parameters, curves, charts: Vec::new() }))
}

/// The study's parameters.
pub(super) fn parameters(changes: &Changes) -> Result<Vec<Parameter>, StudyError> {
    let file = read(changes)?;
    Ok(file.parameters.parameter_list(&file.link))
}

/// Parses the study file with the changes applied.
fn read(changes: &Changes) -> Result<File, StudyError> {
    changes.read(FILE, TEXT, &["parameters"])
}

impl File {
    /// Runs the model for each point of a published curve.
    fn build_curve(&self, curve: &CurveFile, seed: u64) -> Result<Curve, StudyError> {
        let point = |point: &PointFile| Ok(point.with_model_value(self.model_value(curve, point.x, seed)?));
        Ok(Curve {
            name: curve.name.clone(),
            x_title: match curve.vary {
                Vary::WindowKib => "window, KiB".to_owned(),
                Vary::TransferBytes => "transfer, bytes".to_owned(),
                Vary::OffsetBytes => "offset, bytes".to_owned(),
            },
            y_title: match curve.measure {
                Measure::Throughput => "Gb/s".to_owned(),
                Measure::Latency => "ns".to_owned(),
            },
            reference: Reference::Published,
            source: curve.source.clone(),
            within: None,
            remark: curve.remark.clone(),
            points: curve.points.iter().map(point).collect::<Result<_, StudyError>>()?,
        })
    }

    /// Runs the model at one `x`; returns Gb/s or ns, as the curve measures.
    fn model_value(&self, curve: &CurveFile, x: f64, seed: u64) -> Result<ModelValue, StudyError> {
        let setup = self.setup(curve, x, seed)?;
        let outcome = engine::run(&setup);
        let value = match curve.measure {
            Measure::Throughput => outcome.gigabits_per_second(setup.transfer_bytes),
            Measure::Latency => outcome.latency_mean.as_ns_f64(),
        };
        Ok(ModelValue::of_run(value, experiment::parts(&outcome, &setup)))
    }

    /// The simulation of one point of a curve.
    fn setup(&self, curve: &CurveFile, x: f64, seed: u64) -> Result<Setup, StudyError> {
        let given = &self.parameters;
        let (window_bytes, transfer_bytes, offset_bytes) = match curve.vary {
            Vary::WindowKib => ((x * KIB) as u64, curve.transfer_bytes, 0),
            Vary::TransferBytes => (WINDOW, x as u64, 0),
            Vary::OffsetBytes => (WINDOW, curve.transfer_bytes, x as u64),
        };
        let operation = curve.operation;
        let gap = match operation {
            Operation::Read => given.read_gap_ns.value,
            Operation::Write => given.write_gap_ns.value,
        };
        let path_ns = if curve.is_warm { given.read_warm_ns.value } else { given.read_cold_ns.value };
        let entries = to_integer("entries", given.entries.value)?;
        Ok(Setup {
            operation,
            link: self.link.value,
            transfer_bytes,
            alignment_bytes: (offset_bytes + transfer_bytes).next_multiple_of(LINE),
            offset_bytes,
            window_bytes,
            in_flight_max: match curve.measure {
                Measure::Throughput => to_integer("reads_in_flight", given.reads_in_flight.value)?,
                Measure::Latency => 1,
            },
            gap: Span::from_ns_f64(gap),
            path: Span::from_ns_f64(path_ns - self.link_and_copy_ns()),
            copy_ps_per_byte: given.copy_ps_per_byte.value,
            iommu: curve.page_kib.map(|page_kib| IommuSetup {
                hardware: Hardware {
                    entries,
                    ways: entries,
                    walk: Span::from_ns_f64(given.walk_ns.value),
                    walk_gap: Span::from_ns_f64(given.walk_gap_ns.value),
                },
                page_bytes: page_kib << 10,
            }),
            seed,
            transfers: engine::TRANSFERS,
        })
    }

    /// Time of a 64-byte read on the link and in the adapter, in ns; it is part of the measured latency.
    fn link_and_copy_ns(&self) -> f64 {
        let link = &self.link.value;
        let wire = link.read_request_bytes(0, LINE) + link.completion_bytes(0, LINE);
        link.time_of(wire).as_ns_f64() + self.parameters.copy_ps_per_byte.value * LINE as f64 / 1e3
    }
}

impl Parameters {
    /// Lists the parameters and the link's rate for the report.
    fn parameter_list(&self, link: &GivenLink) -> Vec<Parameter> {
        let Self {
            entries,
            walk_ns,
            walk_gap_ns,
            read_warm_ns,
            read_cold_ns,
            reads_in_flight,
            read_gap_ns,
            write_gap_ns,
            copy_ps_per_byte,
        } = self;
        let listed = [
            ("entries", entries),
            ("walk_ns", walk_ns),
            ("walk_gap_ns", walk_gap_ns),
            ("read_warm_ns", read_warm_ns),
            ("read_cold_ns", read_cold_ns),
            ("reads_in_flight", reads_in_flight),
            ("read_gap_ns", read_gap_ns),
            ("write_gap_ns", write_gap_ns),
            ("copy_ps_per_byte", copy_ps_per_byte),
        ];
        let mut all: Vec<Parameter> = listed
            .into_iter()
            .map(|(name, given)| Parameter {
                name: name.to_owned(),
                value: given.value,
                evidence: given.evidence.clone(),
            })
            .collect();
        all.push(Parameter {
            name: "link_gigabits_per_second".to_owned(),
            value: link.value.packet_bits_per_second() / 1e9,
            evidence: link.evidence.clone(),
        });
        all
    }
}

/// The default transfer size.
fn cache_line_bytes() -> u64 {
    LINE
}
