//! An adapter in a slot with a 64-bit window and in one without.

use super::about::{About, Told};
use super::power7::{Driver, Machine, Power7, Run, Test, mean};
use super::{Changes, StudyError};
use crate::host::{DmaPath, Locking};
use crate::network::Outcome;
use crate::partition::{Partition, Windows};
use crate::{Chart, Curve, Line, Point, Reproduction, Role};
use ddw::{Era, PageSizes, Request};
use dma::tce::{DdwOutcome, Slot};
use dma::{BusAddress, Direction, DmaCounters, Limits, MemoryAddress};
use serde::Deserialize;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

pub(super) const NAME: &str = "power-window";
const FILE: &str = "power-window.toml";
const TEXT: &str = include_str!("../../../../experiments/power-window.toml");
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
const DEFAULT_BYTES: u64 = 2 * GIB;
/// Where Linux 2.6.32 on POWER7 finds the window: "Using 64-bit direct DMA at offset 10000000000000".
const WINDOW: BusAddress = BusAddress(1 << 52);
/// Pages of 16 MiB.
const PAGE_SHIFT: u32 = 24;
const PAGE_SIZES: PageSizes = PageSizes(0x7);
/// Of a registration of RDMA.
const REGISTRATION_BYTES: u64 = 1 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: About,
    sizes: Sizes,
    curves: Vec<CurveFile>,
    charts: Vec<ChartFile>,
}

/// What is varied, and how large the machines are.
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
    published: f64,
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

/// What is asked of the model.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Figure {
    UdpLatency,
    TcpThroughput,
    Registrations,
    RegistrationsDirect,
    BeyondWindow,
}

/// What is asked of the model by message size.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Drawing {
    UdpBySize,
    TcpBySize,
}

/// A slot, and the most memory that the partition may have.
#[derive(Debug, Clone, Copy)]
struct Seat {
    has_window: bool,
    memory_max_bytes: u64,
}

pub(super) fn reproduce(changes: &Changes) -> Result<Reproduction, StudyError> {
    let file: File = toml::from_str(TEXT).map_err(|source| StudyError::File { file: FILE, source })?;
    let bench = Bench { power7: Power7::read(changes)?, sizes: file.sizes, known: RefCell::default() };
    let curves = file.curves.into_iter().map(|curve| bench.curve(curve)).collect::<Result<_, _>>()?;
    let charts = file.charts.into_iter().map(|chart| bench.chart(chart)).collect::<Result<_, _>>()?;
    let parameters = bench.power7.parameters().listed();
    Ok(file.about.with(NAME, Told { parameters, curves, charts }))
}

struct Bench {
    power7: Power7,
    sizes: Sizes,
    /// What came of loads that several figures are of.
    known: RefCell<HashMap<Run, Rc<[Outcome]>>>,
}

impl Bench {
    fn curve(&self, curve: CurveFile) -> Result<Curve, StudyError> {
        let ours = match curve.figure {
            Figure::UdpLatency => self.mean_ratio(Test::UdpExchange, self.window(), latency)?,
            Figure::TcpThroughput => self.mean_ratio(Test::TcpStream, self.window(), throughput)?,
            Figure::Registrations => self.registered_gib(self.standard())?,
            Figure::RegistrationsDirect => self.registered_gib(self.window())?,
            Figure::BeyondWindow => self.mean_ratio(Test::UdpExchange, self.beyond(), latency)?,
        };
        let point = Point { x: 1.0, published: curve.published, ours, role: Role::Predicted };
        Ok(Curve {
            name: curve.name,
            x_title: "figure".to_owned(),
            y_title: curve.figure.title().to_owned(),
            source: curve.source,
            within: curve.within,
            remark: curve.remark,
            points: vec![point],
        })
    }

    fn chart(&self, chart: ChartFile) -> Result<Chart, StudyError> {
        let Sizes { udp_message_bytes, udp_instances, tcp_message_bytes, tcp_instances, .. } = &self.sizes;
        let most = udp_instances.iter().copied().max().unwrap_or(1);
        let udp = |name: &str, of| self.line(name, Test::UdpExchange, udp_message_bytes, most, of);
        let tcp = |instances: &u32| {
            let name = format!("{instances} instances");
            self.line(&name, Test::TcpStream, tcp_message_bytes, *instances, throughput)
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

    /// The mean over sizes and instances of what a slot has over the standard one.
    fn mean_ratio(&self, test: Test, seat: Seat, of: fn(&Outcome) -> f64) -> Result<f64, StudyError> {
        let (sizes, instances) = match test {
            Test::UdpExchange => (&self.sizes.udp_message_bytes, &self.sizes.udp_instances),
            Test::TcpStream | Test::TcpExchange => (&self.sizes.tcp_message_bytes, &self.sizes.tcp_instances),
        };
        let all = sizes.iter().flat_map(|size| instances.iter().map(move |instances| (*size, *instances)));
        let ratios = all.map(|(size, instances)| self.ratio(test, seat, size, instances, of));
        let ratios = ratios.collect::<Result<Vec<f64>, _>>()?;
        Ok(ratios.iter().sum::<f64>() / ratios.len() as f64)
    }

    fn line(
        &self,
        name: &str,
        test: Test,
        sizes: &[u64],
        instances: u32,
        of: fn(&Outcome) -> f64,
    ) -> Result<Line, StudyError> {
        let ratio = |size: &u64| Ok((*size as f64, self.ratio(test, self.window(), *size, instances, of)?));
        let points = sizes.iter().map(ratio).collect::<Result<_, StudyError>>()?;
        Ok(Line { name: name.to_owned(), bounds: None, points })
    }

    fn ratio(
        &self,
        test: Test,
        seat: Seat,
        message_bytes: u64,
        instances: u32,
        of: fn(&Outcome) -> f64,
    ) -> Result<f64, StudyError> {
        let measure = |seat: Seat| -> Result<f64, StudyError> {
            let machine =
                Machine { cores: self.sizes.cores, driver: Driver::Pages, dma_path: self.dma_path(seat)? };
            let run = Run { machines: [machine; 2], test, message_bytes, instances };
            Ok(mean(&self.outcomes(run)?, of))
        };
        Ok(measure(seat)? / measure(self.standard())?)
    }

    fn outcomes(&self, run: Run) -> Result<Rc<[Outcome]>, StudyError> {
        if let Some(known) = self.known.borrow().get(&run) {
            return Ok(Rc::clone(known));
        }
        let outcomes: Rc<[Outcome]> = self.power7.run(&run)?.into();
        self.known.borrow_mut().insert(run, Rc::clone(&outcomes));
        Ok(outcomes)
    }

    fn standard(&self) -> Seat {
        Seat { has_window: false, ..self.window() }
    }

    fn window(&self) -> Seat {
        Seat { has_window: true, memory_max_bytes: self.sizes.memory_gib * GIB }
    }

    fn beyond(&self) -> Seat {
        Seat { has_window: true, memory_max_bytes: self.sizes.memory_max_beyond_tib * TIB }
    }

    fn slot(&self, seat: Seat) -> Result<(Slot, DdwOutcome), StudyError> {
        let block_tces = (self.sizes.window_tib * TIB) >> PAGE_SHIFT;
        let windows = Windows { block_tces, page_sizes: PAGE_SIZES, first: WINDOW };
        let partition = Partition {
            memory_bytes: self.sizes.memory_gib * GIB,
            default_bytes: DEFAULT_BYTES,
            offer: seat.has_window.then_some(windows),
        };
        let slot = partition.slot(|| 0)?;
        let request = Request {
            era: Era::Rhel6,
            mask_bits: 64,
            memory_max_bytes: seat.memory_max_bytes,
            disable_ddw: false,
            persistent_memory: false,
        };
        let way = slot.enable_ddw(&request, &mut |_| (), &mut DmaCounters::default());
        Ok((slot, way))
    }

    /// Registers memory piece by piece, for good, until there is no more of it or no room.
    fn registered_gib(&self, seat: Seat) -> Result<f64, StudyError> {
        let (slot, way) = self.slot(seat)?;
        let mapper = slot.mapper(&way, Limits::of_bits(64)).with_debug(false);
        let register = |at: &u64| {
            let (memory, mut counters) = (MemoryAddress(*at), DmaCounters::default());
            mapper.map(memory, REGISTRATION_BYTES, Direction::Bidirectional, &mut counters).is_ok()
        };
        let places = (0..self.sizes.memory_gib * GIB).step_by(REGISTRATION_BYTES as usize);
        let registered = places.take_while(register).count() as u64 * REGISTRATION_BYTES;
        Ok(registered as f64 / GIB as f64)
    }

    /// How the adapter maps: what the kernel decides when it asks for 64 bits.
    fn dma_path(&self, seat: Seat) -> Result<DmaPath, StudyError> {
        Ok(match self.slot(seat)?.1 {
            DdwOutcome::Direct { .. } => DmaPath::Direct,
            _ => DmaPath::Window { bytes: DEFAULT_BYTES, locking: Locking::Table },
        })
    }
}

impl Figure {
    /// Of what comes out.
    fn title(self) -> &'static str {
        match self {
            Self::UdpLatency | Self::BeyondWindow => "time over time",
            Self::TcpThroughput => "throughput over throughput",
            Self::Registrations | Self::RegistrationsDirect => "GiB",
        }
    }
}

fn latency(outcome: &Outcome) -> f64 {
    outcome.latency_mean.as_ps_f64()
}

fn throughput(outcome: &Outcome) -> f64 {
    outcome.gigabits_per_second
}

fn client_cpu(outcome: &Outcome) -> f64 {
    outcome.hosts[0].cpus.busy_cpus / outcome.operations_per_second
}

fn server_cpu(outcome: &Outcome) -> f64 {
    outcome.hosts[1].cpus.busy_cpus / outcome.operations_per_second
}
