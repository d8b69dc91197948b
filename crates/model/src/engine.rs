//! A DMA engine behind an IOMMU: transfers of one size at random offsets of a window, with a limit on transfers in
//! flight.
//!
//! ```text
//!   engine --requests--> link up --> IOTLB --miss--> walker --> memory --> link down --completions--> engine
//!     at most n in flight             hit ---------------------^
//! ```

use crate::iommu::{Hardware, Walker};
use crate::link::Link;
use crate::serial_server::{SerialServer, schedule_at};
use crate::steady::{CacheUse, Level, MeasuredWindow, Measurement, Progress, Sample, Unsteady};
use des::{Calendar, Model, Queue, Simulation, Span, Stream, Time};
use dma::{BusAddress, DomainId, Iotlb, Leaf};
use serde::{Deserialize, Serialize};

/// Direction of the transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// The engine reads memory.
    Read,
    /// The engine writes memory. A write is done when it is in memory.
    Write,
}

/// The engine, its link and its IOMMU.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// Direction of the transfers.
    pub operation: Operation,
    /// The PCIe link.
    pub link: Link,
    /// Bytes per transfer.
    pub transfer_bytes: u64,
    /// Alignment of transfers, before the offset is added.
    pub alignment_bytes: u64,
    /// Offset added to each aligned address.
    pub offset_bytes: u64,
    /// Size of the window, whole pages.
    pub window_bytes: u64,
    /// Most transfers in flight.
    pub in_flight_max: u32,
    /// Least time between the starts of two transfers.
    pub gap: Span,
    /// Latency of a transfer besides link time, with an IOTLB hit: to memory and back.
    pub path: Span,
    /// Processing time of the engine per byte, in picoseconds.
    pub copy_ps_per_byte: f64,
    /// The IOMMU; `None` without translation.
    pub iommu: Option<IommuSetup>,
    /// Seed of all random choices.
    pub seed: u64,
    /// Measured transfers, at least 10. Before them come a tenth as many, and at least two per IOTLB entry, so that
    /// the IOTLB is full.
    pub transfers: u64,
}

/// An IOMMU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IommuSetup {
    /// IOTLB and page walker.
    pub hardware: Hardware,
    /// Page size of the IOTLB entries.
    pub page_bytes: u64,
}

/// Results.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Mean duration of a transfer.
    pub latency_mean: Span,
    /// Transfers per second.
    pub transfers_per_second: f64,
    /// Share of lookups that missed the IOTLB.
    pub miss_share: f64,
    /// Busy share of the link for requests.
    pub up_busy_share: f64,
    /// Busy share of the link for completions.
    pub down_busy_share: f64,
    /// Busy share of the page walker.
    pub walker_busy_share: f64,
}

impl Outcome {
    /// Payload rate in 10^9 bits per second.
    pub fn gigabits_per_second(&self, transfer_bytes: u64) -> f64 {
        self.transfers_per_second * transfer_bytes as f64 * 8e-9
    }
}

/// Length of the warm-up: measured transfers divided by this, plus this many per possible transfer in flight and per
/// IOTLB entry.
const WARM_UP_PART: u64 = 10;
const WARM_UP_TIMES: u64 = 2;
/// Default number of measured transfers.
pub const TRANSFERS: u64 = 40_000;

/// Measures exactly the transfers of the setup. Nothing says that they are in a steady state, but the IOTLB is full
/// before, and as many transfers are in flight as there may be.
pub fn run(setup: &Setup) -> Outcome {
    let engine = run_measured(setup, Measurement::fixed(setup.warm_up(), setup.transfers));
    engine.outcome(setup.transfers)
}

/// Measures transfers until they are in a steady state, at least those of the setup.
///
/// # Errors
/// [`Unsteady`]
pub fn run_steady(setup: &Setup) -> Result<(Outcome, MeasuredWindow<u64>), Unsteady> {
    let measurement = Measurement::steady("time of the transfers", setup.warm_up(), setup.transfers);
    let mut engine = run_measured(setup, measurement);
    let window = std::mem::take(&mut engine.measurement).finish()?;
    Ok((engine.outcome(window.measured), window))
}

fn run_measured(setup: &Setup, measurement: Measurement<u64>) -> Engine {
    let mut simulation = Simulation::new(Engine::new(setup.clone(), measurement));
    simulation.calendar.schedule_in(Span::ZERO, Event::Begin);
    while !simulation.model.is_over && simulation.step() {}
    simulation.model
}

impl Setup {
    /// Transfers before those that are measured.
    fn warm_up(&self) -> u64 {
        let entries = self.iommu.map_or(0, |iommu| iommu.hardware.entries as u64);
        let in_flight = u64::from(self.in_flight_max.max(1));
        (entries.max(in_flight) * WARM_UP_TIMES).max(self.transfers / WARM_UP_PART)
    }
}

/// Events. A transfer is identified by its index in the list.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// The engine may start a transfer.
    Begin,
    /// A request reaches the IOMMU.
    AtIommu(u32),
    /// Memory answers.
    Answered(u32),
    /// The transfer is complete.
    Done(u32),
}

#[derive(Debug, Clone, Copy, Default)]
struct Transfer {
    address: u64,
    began: Time,
}

#[derive(Debug)]
struct Engine {
    setup: Setup,
    transfers: Vec<Transfer>,
    /// Free indices of the list.
    free: Vec<u32>,
    stream: Stream,
    iommu: Option<Translator>,
    up: SerialServer,
    down: SerialServer,
    /// Earliest start of the next transfer.
    next: Time,
    /// A `Begin` event is scheduled.
    is_beginning: bool,
    measurement: Measurement<u64>,
    /// Number of transfers that are done when the next sample is to be taken.
    next_sample: u64,
    is_over: bool,
    done: u64,
    latency_sum: Span,
    lookups: u64,
    misses: u64,
    /// State at the beginning and at the end of the measured transfers.
    from: Mark,
    until: Mark,
}

/// Translates pages of one size, all of which are mapped.
#[derive(Debug)]
struct Translator {
    iotlb: Iotlb,
    walker: Walker,
    page_bytes: u64,
}

/// Busy times up to a point in time.
#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    at: Time,
    up: Span,
    down: Span,
    walker: Span,
}

impl Engine {
    fn new(setup: Setup, measurement: Measurement<u64>) -> Self {
        let places = setup.in_flight_max.max(1);
        Self {
            transfers: vec![Transfer::default(); places as usize],
            free: (0..places).rev().collect(),
            stream: Stream::new(setup.seed, 0),
            iommu: setup.iommu.as_ref().map(Translator::new),
            setup,
            up: SerialServer::default(),
            down: SerialServer::default(),
            next: Time::ZERO,
            is_beginning: true,
            next_sample: measurement.first(),
            measurement,
            is_over: false,
            done: 0,
            latency_sum: Span::ZERO,
            lookups: 0,
            misses: 0,
            from: Mark::default(),
            until: Mark::default(),
        }
    }

    fn outcome(&self, transfers: u64) -> Outcome {
        let Mark { at, up, down, walker } = self.from;
        let until = self.until;
        let elapsed = until.at.since(at).unwrap_or(Span::ZERO).as_ps_f64();
        let share = |from: Span, to: Span| (to.as_ps_f64() - from.as_ps_f64()) / elapsed;
        let measured = transfers as f64;
        Outcome {
            latency_mean: Span::from_ps_f64(self.latency_sum.as_ps_f64() / measured),
            transfers_per_second: measured * 1e12 / elapsed,
            miss_share: self.misses as f64 / self.lookups.max(1) as f64,
            up_busy_share: share(up, until.up),
            down_busy_share: share(down, until.down),
            walker_busy_share: share(walker, until.walker),
        }
    }

    /// Busy times up to now, from which shares are computed.
    fn mark(&self, now: Time) -> Mark {
        let walker = self.iommu.as_ref().map_or(Span::ZERO, |iommu| iommu.walker.busy(now));
        Mark { at: now, up: self.up.busy(now), down: self.down.busy(now), walker }
    }

    /// Starts a transfer: its request, or its data, leaves the adapter.
    fn begin(&mut self, now: Time, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        self.is_beginning = false;
        let Some(place) = self.free.pop() else { return };
        let address = self.draw_address();
        self.transfers[place as usize] = Transfer { address, began: now };
        let (link, bytes) = (&self.setup.link, self.setup.transfer_bytes);
        let wire = match self.setup.operation {
            Operation::Read => link.read_request_bytes(address, bytes),
            Operation::Write => link.write_bytes(address, bytes),
        };
        let sent = self.up.occupy(now, link.time_of(wire));
        schedule_at(calendar, sent + half(self.setup.path), Event::AtIommu(place));
        self.next = now + self.setup.gap;
        self.begin_next(now, calendar);
    }

    /// Schedules the next transfer, if the limit of transfers in flight allows one.
    fn begin_next(&mut self, now: Time, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        if !self.is_beginning && !self.free.is_empty() {
            self.is_beginning = true;
            schedule_at(calendar, self.next.max(now), Event::Begin);
        }
    }

    /// A transfer reaches the IOMMU, which translates its address.
    fn at_iommu(&mut self, now: Time, place: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let address = self.transfers[place as usize].address;
        let mut translated = now;
        if let Some(iommu) = &mut self.iommu {
            self.lookups += 1;
            if !iommu.remembers(address) {
                self.misses += 1;
                translated = iommu.walker.walk(now);
            }
        }
        schedule_at(calendar, translated + half(self.setup.path), Event::Answered(place));
    }

    /// Data of a read, or nothing, returns to the adapter.
    fn answered(&mut self, now: Time, place: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let (link, bytes) = (&self.setup.link, self.setup.transfer_bytes);
        let wire = match self.setup.operation {
            Operation::Read => link.completion_bytes(self.transfers[place as usize].address, bytes),
            Operation::Write => 0,
        };
        let here = self.down.occupy(now, link.time_of(wire));
        let copied = Span::from_ps_f64(self.setup.copy_ps_per_byte * bytes as f64);
        schedule_at(calendar, here + copied, Event::Done(place));
    }

    /// Begins, continues or ends the measurement.
    fn sample(&mut self, now: Time, events: u64) {
        let filling = |iommu: &Translator| Level::cache("entries of the IOTLB in use", iommu.cache_use());
        let levels = self.iommu.iter().map(filling).collect();
        let sample = Sample { done: now.as_ps() as f64, levels };
        match self.measurement.take(sample, events) {
            Progress::Begins(next) => {
                (self.lookups, self.misses, self.latency_sum) = (0, 0, Span::ZERO);
                self.from = self.mark(now);
                self.next_sample += next;
            }
            Progress::Continues(next) => self.next_sample += next,
            Progress::Ends => (self.is_over, self.until) = (true, self.mark(now)),
        }
    }

    /// A transfer is done.
    fn finish(&mut self, now: Time, place: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let began = self.transfers[place as usize].began;
        self.done += 1;
        self.latency_sum += now.since(began).unwrap_or(Span::ZERO);
        while self.done == self.next_sample && !self.is_over {
            self.sample(now, calendar.scheduled());
        }
        self.free.push(place);
        self.begin_next(now, calendar);
    }

    /// A random address of a transfer within the window.
    fn draw_address(&mut self) -> u64 {
        let unit = self.setup.alignment_bytes.max(1);
        let taken = self.setup.offset_bytes + self.setup.transfer_bytes;
        let room = self.setup.window_bytes.saturating_sub(taken) / unit;
        self.stream.below(room + 1) * unit + self.setup.offset_bytes
    }
}

impl Model for Engine {
    type Event = Event;

    fn handle(&mut self, now: Time, event: Event, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        match event {
            Event::Begin => self.begin(now, calendar),
            Event::AtIommu(place) => self.at_iommu(now, place, calendar),
            Event::Answered(place) => self.answered(now, place, calendar),
            Event::Done(place) => self.finish(now, place, calendar),
        }
    }
}

impl Translator {
    fn new(setup: &IommuSetup) -> Self {
        let IommuSetup { hardware, page_bytes } = setup;
        Self { iotlb: hardware.iotlb(), walker: Walker::new(hardware), page_bytes: *page_bytes }
    }

    /// How the IOTLB was used so far. Nothing is invalidated.
    fn cache_use(&self) -> CacheUse {
        let of = self.iotlb.statistics();
        CacheUse { filled: of.misses - of.evictions, looked_up: of.hits + of.misses, missed: of.misses }
    }

    /// Looks up an address in the IOTLB, and inserts it on a miss. Returns whether it hit.
    fn remembers(&mut self, address: u64) -> bool {
        let page_bytes = self.page_bytes;
        let mut is_known = true;
        let walk = |_reads: &mut u64| {
            is_known = false;
            Ok::<Leaf, std::convert::Infallible>(Leaf {
                memory: dma::MemoryAddress(address - address % page_bytes),
                page_bytes,
                access: dma::Access::ReadWrite,
            })
        };
        let Ok(_) = self.iotlb.translate(DomainId(0), BusAddress(address), walk);
        is_known
    }
}

fn half(span: Span) -> Span {
    Span::from_ps(span.as_ps() / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup() -> Setup {
        Setup {
            operation: Operation::Read,
            link: Link {
                generation: 3.try_into().unwrap(),
                lanes: 8,
                payload_bytes_max: 256,
                read_request_bytes_max: 512,
                completion_boundary_bytes: 64,
                overhead_share: 0.0,
            },
            transfer_bytes: 64,
            alignment_bytes: 64,
            offset_bytes: 0,
            window_bytes: 1 << 20,
            in_flight_max: 1,
            gap: Span::ZERO,
            path: Span::from_ns(500),
            copy_ps_per_byte: 100.0,
            iommu: None,
            seed: 1,
            transfers: TRANSFERS,
        }
    }

    fn with_iommu(entries: usize) -> Setup {
        let (walk, walk_gap) = (Span::from_ns(300), Span::from_ns(50));
        Setup {
            iommu: Some(IommuSetup {
                hardware: Hardware { entries, ways: entries, walk, walk_gap },
                page_bytes: 4096,
            }),
            ..setup()
        }
    }

    #[test]
    fn a_transfer_alone_takes_the_sum_of_its_parts_to_the_picosecond() {
        // 24 bytes of request and 84 of completion at 7.877 bytes in a nanosecond: 3,047 and 10,664 ps.
        let link = setup().link;
        assert_eq!([24, 84].map(|bytes| link.time_of(bytes).as_ps()), [3_047, 10_664]);
        assert_eq!(run(&setup()).latency_mean.as_ps(), 3_047 + 500_000 + 10_664 + 6_400);
        let write = Setup { operation: Operation::Write, ..setup() };
        assert_eq!(run(&write).latency_mean.as_ps(), link.time_of(64 + 24).as_ps() + 500_000 + 6_400);
    }

    #[test]
    fn a_miss_adds_a_walk_and_nothing_else() {
        let alone = run(&setup()).latency_mean;
        // One entry, 256 pages: all but one in 256 miss.
        let outcome = run(&with_iommu(1));
        let expected = alone.as_ps_f64() + outcome.miss_share * 300_000.0;
        assert!((outcome.latency_mean.as_ps_f64() - expected).abs() < 1.0, "{outcome:?}");
        assert!((outcome.miss_share - 255.0 / 256.0).abs() < 0.002, "{outcome:?}");
        // As many entries as pages: none.
        let outcome = run(&with_iommu(256));
        assert_eq!((outcome.miss_share, outcome.latency_mean), (0.0, alone));
    }

    #[test]
    fn no_part_does_more_than_it_can() {
        for in_flight_max in [1, 4, 16, 64, 4096] {
            for base in [setup(), with_iommu(64), with_iommu(256)] {
                let setup = Setup { in_flight_max, ..base };
                let outcome = run(&setup);
                // Little's law: always as many in flight as there can be.
                let in_flight = outcome.transfers_per_second * outcome.latency_mean.as_ps_f64() / 1e12;
                assert!(
                    (in_flight / f64::from(in_flight_max) - 1.0).abs() < 0.005,
                    "{in_flight} {outcome:?}"
                );
                let shares = [outcome.up_busy_share, outcome.down_busy_share, outcome.walker_busy_share];
                assert!(shares.iter().all(|share| (0.0..=1.001).contains(share)), "{outcome:?}");
                let payload = outcome.gigabits_per_second(64) * 1e9;
                assert!(payload <= setup.link.packet_bits_per_second(), "{outcome:?}");
            }
        }
    }

    #[test]
    fn the_limiting_part_is_always_busy() {
        let busy = |setup: Setup| run(&Setup { in_flight_max: 128, ..setup });
        assert!(busy(with_iommu(1)).walker_busy_share > 0.99);
        assert!(busy(Setup { copy_ps_per_byte: 0.0, ..setup() }).down_busy_share > 0.99);
        let write = Setup { operation: Operation::Write, ..setup() };
        assert!(busy(write).up_busy_share > 0.99);
    }

    #[test]
    fn an_offset_costs_the_packets_that_it_cuts() {
        let write = |offset_bytes, alignment_bytes| {
            let setup = Setup {
                operation: Operation::Write,
                transfer_bytes: 256,
                in_flight_max: 128,
                gap: Span::ZERO,
                alignment_bytes,
                offset_bytes,
                ..setup()
            };
            run(&setup).transfers_per_second
        };
        let packets = |number: f64| 256.0 + number * 24.0;
        assert!((write(0, 256) / write(1, 256) - packets(2.0) / packets(1.0)).abs() < 1e-3);
        assert!((write(0, 256) / write(0, 512) - 1.0).abs() < 1e-3);
    }

    #[test]
    fn the_same_seed_gives_the_same() {
        let with = |seed| run(&Setup { seed, in_flight_max: 8, ..with_iommu(64) });
        assert_eq!(with(3), with(3));
        assert_ne!(with(3), with(4));
    }
}
