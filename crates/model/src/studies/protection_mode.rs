//! The throughput that IOMMU strict mode costs a network adapter, on a machine that was strict by accident.

use super::about::{About, PointFile, StudyResults};
use super::model_value::ModelValue;
use super::parameters::Parameters;
use super::replication::Replication;
use super::{Changes, StudyError};
use crate::host::{
    Cpus, DmaPath, InvalidationMode, InvalidationQueue, IommuSetup, LineTransfer, MappingCost, Memory,
};
use crate::iommu::Hardware;
use crate::link::{Generation, Link};
use crate::network::{
    self, NetworkAdapter, NetworkHost, Paths, Pattern, Protocol, ReceiveBuffers, Setup, Wire, Work,
};
use crate::{Chart, Curve, Given, Line, Parameter, Reference, Reproduction};
use des::Span;
use serde::Deserialize;
use std::collections::BTreeMap;

pub(super) const NAME: &str = "protection-mode";
const FILE: &str = "protection-mode.toml";
const TEXT: &str = include_str!("../../experiments/protection-mode.toml");
const WIRE_BITS_PER_SECOND: f64 = 100e9;
const STREAMS: u32 = 32;
/// Warm-up time, in which windows fill, and measured time.
const SPANS: [Span; 2] = [Span::from_ms(5), Span::from_ms(8)];
/// Warm-up and measured time of slow setups, whose windows must drain first.
const SLOW_SPANS: [Span; 2] = [Span::from_ms(120), Span::from_ms(60)];
const LINE_BYTES: u64 = 64;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: About,
    figures: Vec<Figure>,
    sensitivity: Sensitivity,
    parameters: BTreeMap<String, Given>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure {
    mode: Mode,
    name: String,
    source: String,
    remark: Option<String>,
    points: Vec<PointFile>,
}

/// When an unmapped IOVA is removed from the IOTLB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    Lazy,
    Strict,
}

/// The cost of strict mode under other assumptions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sensitivity {
    name: String,
    source: String,
    remark: Option<String>,
    /// How long the lock is held for an invalidation.
    waits_us: Vec<f64>,
    /// Sizes of a mapping of a stream's data.
    fragments_kib: Vec<u64>,
}

/// The parameters of the two machines.
#[derive(Debug)]
struct Machines(Parameters);

/// Runs the study.
pub(super) fn run(of: &Replication<'_>) -> Result<Reproduction, StudyError> {
    let (file, seed) = (read(of.changes)?, of.seed);
    let machines = Machines(Parameters::from_table(FILE, file.parameters));
    let curve = |figure| machines.build_curve(figure, seed);
    let curves = file.figures.into_iter().map(curve).collect::<Result<_, _>>()?;
    let charts =
        if of.draws() { vec![machines.sensitivity_chart(file.sensitivity, seed)?] } else { Vec::new() };
    Ok(file
        .about
        .into_reproduction(NAME, StudyResults { parameters: machines.0.parameter_list(), curves, charts }))
}

/// The study's parameters.
pub(super) fn parameters(changes: &Changes) -> Result<Vec<Parameter>, StudyError> {
    Ok(Parameters::from_table(FILE, read(changes)?.parameters).parameter_list())
}

/// Parses the study file with the changes applied.
fn read(changes: &Changes) -> Result<File, StudyError> {
    changes.read(FILE, TEXT, &["parameters"])
}

impl Machines {
    /// The throughput in one mode.
    fn build_curve(&self, figure: Figure, seed: u64) -> Result<Curve, StudyError> {
        let setup = self.setup(figure.mode, seed)?;
        let outcome = network::run(&setup)?;
        let ours = ModelValue::of_run(outcome.gigabits_per_second, outcome.parts(&setup));
        let point = |point: PointFile| point.with_model_value(ours.clone());
        Ok(Curve {
            name: figure.name,
            x_title: "test".to_owned(),
            y_title: "Gb/s".to_owned(),
            reference: Reference::Published,
            source: figure.source,
            within: None,
            remark: figure.remark,
            points: figure.points.into_iter().map(point).collect(),
        })
    }

    /// Throughput in strict mode against the invalidation time, per size of a mapping.
    fn sensitivity_chart(&self, sensitivity: Sensitivity, seed: u64) -> Result<Chart, StudyError> {
        let line = |fragment_kib: u64| {
            let point = |wait_us: &f64| {
                let [warm_up, measured] = SLOW_SPANS;
                let mut setup = Setup { warm_up, measured, ..self.setup(Mode::Strict, seed)? };
                let sender = &mut setup.hosts[0];
                sender.adapter.fragment_bytes = Some(fragment_kib << 10);
                sender.mapping.invalidation = Span::from_ns_f64(wait_us * 1e3);
                if let Some(queue) = sender.iommu.as_mut().and_then(|iommu| iommu.queue.as_mut()) {
                    queue.poll = Span::ZERO;
                }
                Ok((*wait_us, network::run(&setup)?.gigabits_per_second))
            };
            let points = sensitivity.waits_us.iter().map(point).collect::<Result<_, StudyError>>()?;
            Ok(Line { name: format!("pieces of {fragment_kib} KiB"), bounds: None, points })
        };
        let lines =
            sensitivity.fragments_kib.iter().map(|kib| line(*kib)).collect::<Result<_, StudyError>>()?;
        Ok(Chart {
            categories: Vec::new(),
            name: sensitivity.name,
            x_title: "an invalidation, us".to_owned(),
            y_title: "Gb/s".to_owned(),
            source: sensitivity.source,
            remark: sensitivity.remark,
            lines,
        })
    }

    /// A sender in this mode, and a receiver in lazy mode.
    fn setup(&self, mode: Mode, seed: u64) -> Result<Setup, StudyError> {
        let given = &self.0;
        let wire = Wire {
            bits_per_second: WIRE_BITS_PER_SECOND,
            mtu_bytes: given.count("mtu_bytes")?,
            latency: given.us("wire_us")?,
        };
        let [warm_up, measured] = SPANS;
        let segment_bytes_max = given.kib("segment_kib")?;
        Ok(Setup {
            // Lazy mode on the sender alone restored the throughput, so the receiver did not limit.
            hosts: [self.host(mode)?, self.host(Mode::Lazy)?],
            wire,
            work: Work {
                pattern: Pattern::Stream { window_bytes: given.kib("window_kib")? },
                protocol: Protocol::Tcp { segment_bytes_max },
                // Several writes fill a segment; the paths are the sum for all of them.
                message_bytes: segment_bytes_max,
                is_nodelay: false,
            },
            instances: STREAMS,
            warm_up,
            measured,
            seed,
        })
    }

    fn host(&self, mode: Mode) -> Result<NetworkHost, StudyError> {
        let given = &self.0;
        let mode = match mode {
            Mode::Lazy => InvalidationMode::Lazy,
            Mode::Strict => InvalidationMode::Strict,
        };
        Ok(NetworkHost {
            cpus: self.cpus()?,
            paths: self.paths()?,
            adapter: self.adapter()?,
            dma_path: DmaPath::Translated { mode },
            mapping: self.mapping()?,
            iommu: Some(self.iommu()?),
            memory: Some(Memory {
                adapter_node: 0,
                remote_dma: Span::ZERO,
                line_bytes: LINE_BYTES,
                remote_line: Span::ZERO,
                copy_ps_per_byte: given.get("copy_ps_per_byte")?,
            }),
        })
    }

    fn cpus(&self) -> Result<Cpus, StudyError> {
        let given = &self.0;
        Ok(Cpus {
            cores: given.count("cores")?,
            cores_per_node: given.count("cores_per_group")?,
            core_capacity: vec![1.0, given.get("core_capacity_2_threads")?],
            instruction_ns: given.get("instruction_ns")?,
            wake: given.us("wake_us")?,
            line: LineTransfer {
                same_node: given.ns("line_same_group_ns")?,
                other_node: given.ns("line_other_group_ns")?,
            },
        })
    }

    /// Instructions of the network stack per segment.
    fn paths(&self) -> Result<Paths, StudyError> {
        let given = &self.0;
        let messages = given.get("segment_kib")? / given.get("message_kib")?;
        Ok(Paths {
            write: messages * given.get("write_instructions")?,
            send: given.get("send_instructions")?,
            receive: given.get("receive_instructions")?,
            read: messages * given.get("read_instructions")?,
            interrupt: given.get("interrupt_instructions")?,
        })
    }

    fn adapter(&self) -> Result<NetworkAdapter, StudyError> {
        let given = &self.0;
        let (rings, delay) = (given.count("rings")?, given.us("interrupt_delay_us")?);
        Ok(NetworkAdapter {
            link: link(),
            receive_rings: rings,
            receive_entries: given.count("receive_ring_entries")?,
            send_rings: rings,
            send_entries: given.count("send_ring_entries")?,
            latency: given.us("adapter_us")?,
            inline_bytes: 0,
            fragment_bytes: Some(given.kib("fragment_kib")?),
            copied_bytes: 0,
            keeps_buffers: true,
            buffers: ReceiveBuffers::EachFrame { pieces_bytes: vec![4096; 3] },
            receive_delay: delay,
            receive_frames: u32::MAX,
            send_delay: delay,
            send_frames: u32::MAX,
        })
    }

    /// Costs of translated mapping; table time is converted to instructions.
    fn mapping(&self) -> Result<MappingCost, StudyError> {
        let given = &self.0;
        let tables = given.get("table_ns")? / given.get("instruction_ns")?;
        Ok(MappingCost {
            translated_instructions: given.get("call_instructions")? + tables,
            submit_instructions: given.get("submit_instructions")?,
            invalidation: given.ns("invalidation_ns")?,
            // These machines have no windows, and all DMA is translated.
            direct_instructions: 0.0,
            window_instructions: 0.0,
            locked_instructions: 0.0,
            hypercall: Span::ZERO,
            entry: Span::ZERO,
            lock_lines: given.get("lock_lines")?,
        })
    }

    fn iommu(&self) -> Result<IommuSetup, StudyError> {
        let given = &self.0;
        let entries = given.count("iotlb_entries")?;
        let (walk, walk_gap) = (given.ns("walk_ns")?, given.ns("walk_gap_ns")?);
        Ok(IommuSetup {
            hardware: Hardware { entries, ways: entries, walk, walk_gap },
            // "iommu/amd: Selective flush on unmap" (Amit, 2021) came after this kernel.
            invalidates_domain: true,
            queue: Some(InvalidationQueue {
                slots: given.count("queue_slots")?,
                flush: given.ns("invalidation_ns")?,
                poll: given.us("poll_us")?,
                waits_with_lock: true,
            }),
        })
    }
}

/// PCIe 4.0 x16, what the adapter and a slot of the board have; no figure of the link was published.
fn link() -> Link {
    Link {
        generation: Generation::Gen4,
        lanes: 16,
        payload_bytes_max: 256,
        read_request_bytes_max: 512,
        completion_boundary_bytes: 64,
        overhead_share: 0.055,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_the_lock_is_held_and_the_more_is_mapped_the_less_is_sent() {
        let one = run(&Replication::first(&Changes::default())).unwrap();
        let lines = &one.charts[0].lines;
        for line in lines {
            assert!(line.points.windows(2).all(|two| two[1].1 < 1.01 * two[0].1), "{line:?}");
        }
        for two in lines.windows(2) {
            let pairs = two[0].points.iter().zip(&two[1].points);
            assert!(pairs.into_iter().all(|(large, small)| small.1 < 1.01 * large.1), "{two:?}");
        }
        // The lock limits the last: a mapping of 4 KiB in 4 us and what goes with it. What is sent may be a little ahead of what is taken back.
        let least = lines[2].points[2].1;
        let most = 4096.0 * 8.0 / 4000.0;
        assert!((0.8 * most..1.03 * most).contains(&least), "{least} of {most}");
    }
}
