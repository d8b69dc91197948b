//! An adapter in a slot with a 64-bit window and in one without.

use super::about::{About, PointFile, StudyResults};
use super::power7::{Driver, Power7, Power7Host, Run, Test};
use super::replication::Replication;
use super::{Changes, StudyError};
use crate::host::{DmaPath, Locking};
use crate::network::Outcome;
use crate::partition::{Partition, Windows};
use crate::{Chart, Curve, Line, Parameter, Reference, Reproduction};
use ddw::{Era, PageSizes, Request};
use dma::tce::{DdwOutcome, PciSlot};
use dma::{BusAddress, Direction, DmaCounters, Limits, MemoryAddress};
use serde::Deserialize;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use toll::TomlText;

pub(super) const NAME: &str = "power-window";
const FILE: &str = "power-window.toml";
const TEXT: &str = include_str!("../../experiments/power-window.toml");
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
const DEFAULT_BYTES: u64 = 2 * GIB;
/// Where Linux 2.6.32 on POWER7 finds the window: "Using 64-bit direct DMA at offset 10000000000000".
const WINDOW: BusAddress = BusAddress(1 << 52);
/// Pages of 16 MiB.
const PAGE_SHIFT: u32 = 24;
const PAGE_SIZES: PageSizes = PageSizes(0x7);
/// Bytes of an RDMA memory registration.
const REGISTRATION_BYTES: u64 = 1 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: About,
    sizes: Sizes,
    curves: Vec<CurveFile>,
    charts: Vec<ChartFile>,
}

/// Message sizes and instances to vary, and the sizes of the machines.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sizes {
    udp_message_bytes: Vec<u64>,
    udp_instances: Vec<u32>,
    tcp_message_bytes: Vec<u64>,
    tcp_instances: Vec<u32>,
    cores: u32,
    memory_gib: u64,
    memory_max_beyond_tib: u64,
    window_tib: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CurveFile {
    figure: Figure,
    name: String,
    source: String,
    points: Vec<PointFile>,
    within: Option<f64>,
    remark: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChartFile {
    figure: Drawing,
    name: String,
    source: String,
    remark: Option<String>,
}

/// Which figure of the publication a curve reproduces.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Figure {
    UdpLatency,
    TcpThroughput,
    Registrations,
    RegistrationsDirect,
    BeyondWindow,
}

/// Charts against the message size.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Drawing {
    UdpBySize,
    TcpBySize,
}

/// A kind of slot, and the maximum memory of the partition.
#[derive(Debug, Clone, Copy)]
struct SlotKind {
    has_window: bool,
    memory_max_bytes: u64,
}

/// Runs the study.
pub(super) fn run(of: &Replication<'_>) -> Result<Reproduction, StudyError> {
    let file: File = TomlText::new(TEXT, FILE).read()?;
    let (power7, sizes) = (Power7::read(of.changes)?, file.sizes);
    let bench = Bench { power7, sizes, seed: of.seed, known: RefCell::default() };
    let curves = file.curves.into_iter().map(|curve| bench.build_curve(curve)).collect::<Result<_, _>>()?;
    let charts = file.charts.into_iter().map(|chart| bench.build_chart(chart)).collect::<Result<_, _>>()?;
    let parameters = parameters(of.changes)?;
    Ok(file.about.into_reproduction(NAME, StudyResults { parameters, curves, charts }))
}

/// The study's parameters, which are those of the machines.
pub(super) fn parameters(changes: &Changes) -> Result<Vec<Parameter>, StudyError> {
    Ok(Power7::read(changes)?.parameters().parameter_list())
}

/// The machines of the study, with a cache of outcomes.
struct Bench {
    power7: Power7,
    sizes: Sizes,
    seed: u64,
    /// Outcomes of loads that were already simulated; several figures use the same.
    known: RefCell<HashMap<Run, Rc<Outcome>>>,
}

impl Bench {
    /// Computes one published figure.
    fn build_curve(&self, curve: CurveFile) -> Result<Curve, StudyError> {
        let ours = match curve.figure {
            Figure::UdpLatency => self.mean_ratio(Test::UdpExchange, self.window_slot(), latency)?,
            Figure::TcpThroughput => self.mean_ratio(Test::TcpStream, self.window_slot(), throughput)?,
            Figure::Registrations => self.registered_gib(self.standard_slot())?,
            Figure::RegistrationsDirect => self.registered_gib(self.window_slot())?,
            Figure::BeyondWindow => self.mean_ratio(Test::UdpExchange, self.slot_beyond_window(), latency)?,
        };
        Ok(Curve {
            name: curve.name,
            x_title: "figure".to_owned(),
            y_title: curve.figure.y_title().to_owned(),
            reference: Reference::Published,
            source: curve.source,
            within: curve.within,
            remark: curve.remark,
            points: curve.points.iter().map(|point| point.with_model_value(ours)).collect(),
        })
    }

    /// Computes a chart against the message size.
    fn build_chart(&self, chart: ChartFile) -> Result<Chart, StudyError> {
        let Sizes { udp_message_bytes, udp_instances, tcp_message_bytes, tcp_instances, .. } = &self.sizes;
        let most = udp_instances.iter().copied().max().unwrap_or(1);
        let udp = |name: &str, of| self.ratio_line(name, Test::UdpExchange, udp_message_bytes, most, of);
        let tcp = |instances: &u32| {
            let name = format!("{instances} instances");
            self.ratio_line(&name, Test::TcpStream, tcp_message_bytes, *instances, throughput)
        };
        let lines = match chart.figure {
            Drawing::UdpBySize => vec![
                udp("time", latency)?,
                udp("client's CPUs", client_cpu)?,
                udp("server's CPUs", server_cpu)?,
            ],
            Drawing::TcpBySize => tcp_instances.iter().map(tcp).collect::<Result<_, _>>()?,
        };
        Ok(Chart {
            categories: Vec::new(),
            name: chart.name,
            x_title: "message, bytes".to_owned(),
            y_title: "64-bit slot over standard slot".to_owned(),
            source: chart.source,
            remark: chart.remark,
            lines,
        })
    }

    /// The mean, over message sizes and instances, of a slot's value divided by that of the standard slot.
    fn mean_ratio(
        &self,
        test: Test,
        slot_kind: SlotKind,
        of: fn(&Outcome) -> f64,
    ) -> Result<f64, StudyError> {
        let (sizes, instances) = match test {
            Test::UdpExchange => (&self.sizes.udp_message_bytes, &self.sizes.udp_instances),
            Test::TcpStream | Test::TcpExchange => (&self.sizes.tcp_message_bytes, &self.sizes.tcp_instances),
        };
        let all = sizes.iter().flat_map(|size| instances.iter().map(move |instances| (*size, *instances)));
        let ratios = all.map(|(size, instances)| self.ratio(test, slot_kind, size, instances, of));
        let ratios = ratios.collect::<Result<Vec<f64>, _>>()?;
        Ok(ratios.iter().sum::<f64>() / ratios.len() as f64)
    }

    /// A slot with a window relative to the standard slot, per message size.
    fn ratio_line(
        &self,
        name: &str,
        test: Test,
        sizes: &[u64],
        instances: u32,
        of: fn(&Outcome) -> f64,
    ) -> Result<Line, StudyError> {
        let ratio =
            |size: &u64| Ok((*size as f64, self.ratio(test, self.window_slot(), *size, instances, of)?));
        let points = sizes.iter().map(ratio).collect::<Result<_, StudyError>>()?;
        Ok(Line { name: name.to_owned(), bounds: None, points })
    }

    /// A value of a slot divided by that of the standard slot, for one load.
    fn ratio(
        &self,
        test: Test,
        slot_kind: SlotKind,
        message_bytes: u64,
        instances: u32,
        of: fn(&Outcome) -> f64,
    ) -> Result<f64, StudyError> {
        let measure = |slot_kind: SlotKind| -> Result<f64, StudyError> {
            let machine = Power7Host {
                cores: self.sizes.cores,
                driver: Driver::Pages,
                dma_path: self.dma_path(slot_kind)?,
            };
            let run = Run { machines: [machine; 2], test, message_bytes, instances, seed: self.seed };
            Ok(of(&*self.cached_outcome(run)?))
        };
        Ok(measure(slot_kind)? / measure(self.standard_slot())?)
    }

    /// Simulates a load unless its outcome is known.
    fn cached_outcome(&self, run: Run) -> Result<Rc<Outcome>, StudyError> {
        if let Some(known) = self.known.borrow().get(&run) {
            return Ok(Rc::clone(known));
        }
        let outcome = Rc::new(self.power7.run(&run)?);
        self.known.borrow_mut().insert(run, Rc::clone(&outcome));
        Ok(outcome)
    }

    /// A slot with only the default window.
    fn standard_slot(&self) -> SlotKind {
        SlotKind { has_window: false, ..self.window_slot() }
    }

    /// A slot with a 64-bit window that covers all memory.
    fn window_slot(&self) -> SlotKind {
        SlotKind { has_window: true, memory_max_bytes: self.sizes.memory_gib * GIB }
    }

    /// A slot with a 64-bit window in a partition whose maximum memory exceeds it.
    fn slot_beyond_window(&self) -> SlotKind {
        SlotKind { has_window: true, memory_max_bytes: self.sizes.memory_max_beyond_tib * TIB }
    }

    /// Builds the slot and asks the firmware for a dynamic DMA window.
    fn enable_ddw(&self, slot_kind: SlotKind) -> Result<(PciSlot, DdwOutcome), StudyError> {
        let block_tces = (self.sizes.window_tib * TIB) >> PAGE_SHIFT;
        let windows = Windows { block_tces, page_sizes: PAGE_SIZES, first: WINDOW };
        let partition = Partition {
            memory_bytes: self.sizes.memory_gib * GIB,
            default_bytes: DEFAULT_BYTES,
            offer: slot_kind.has_window.then_some(windows),
        };
        let slot = partition.slot(|| 0)?;
        let request = Request {
            era: Era::Rhel6,
            mask_bits: 64,
            memory_max_bytes: slot_kind.memory_max_bytes,
            disable_ddw: false,
            persistent_memory: false,
        };
        let way = slot.enable_ddw(&request, &mut |_| (), &mut DmaCounters::default());
        Ok((slot, way))
    }

    /// Registers memory in pieces without releasing any. Returns the GiB registered when memory or the window is exhausted.
    fn registered_gib(&self, slot_kind: SlotKind) -> Result<f64, StudyError> {
        let (slot, way) = self.enable_ddw(slot_kind)?;
        let mapper = slot.mapper(&way, Limits::of_bits(64)).with_debug(false);
        let register = |at: &u64| {
            let (memory, mut counters) = (MemoryAddress(*at), DmaCounters::default());
            mapper.map(memory, REGISTRATION_BYTES, Direction::Bidirectional, &mut counters).is_ok()
        };
        let places = (0..self.sizes.memory_gib * GIB).step_by(REGISTRATION_BYTES as usize);
        let registered = places.take_while(register).count() as u64 * REGISTRATION_BYTES;
        Ok(registered as f64 / GIB as f64)
    }

    /// The DMA path that the kernel chooses when the driver asks for a 64-bit mask.
    fn dma_path(&self, slot_kind: SlotKind) -> Result<DmaPath, StudyError> {
        Ok(match self.enable_ddw(slot_kind)?.1 {
            DdwOutcome::Direct { .. } => DmaPath::Direct,
            _ => DmaPath::Window { bytes: DEFAULT_BYTES, locking: Locking::Table },
        })
    }
}

impl Figure {
    /// The title of the y axis.
    fn y_title(self) -> &'static str {
        match self {
            Self::UdpLatency | Self::BeyondWindow => "time over time",
            Self::TcpThroughput => "throughput over throughput",
            Self::Registrations | Self::RegistrationsDirect => "GiB",
        }
    }
}

fn latency(outcome: &Outcome) -> f64 {
    outcome.latency_mean.map_or(f64::NAN, des::Span::as_ps_f64)
}

fn throughput(outcome: &Outcome) -> f64 {
    outcome.gigabits_per_second
}

/// Client CPU seconds per operation.
fn client_cpu(outcome: &Outcome) -> f64 {
    outcome.hosts[0].cpus.busy_cpus / outcome.operations_per_second
}

/// Server CPU seconds per operation.
fn server_cpu(outcome: &Outcome) -> f64 {
    outcome.hosts[1].cpus.busy_cpus / outcome.operations_per_second
}
