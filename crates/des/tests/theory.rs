//! Queues of which the mean wait is known.
//!
//! Each is simulated 20 times from an empty start, with seeds of their own. The first customers are left out, for whom it
//! was emptier than it is in the long run. The mean of the 20 means is to lie within their 99 % confidence interval of what
//! theory says: of 100 such tests with free seeds one would fail, so seeds are fixed. The interval is to be narrow as well.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use des::{
    Answer, Calendar, Confidence, Model, Queue, Resource, RunningStats, Simulation, Span, Stream, Time, Usage,
};

const REPLICATIONS: u64 = 20;
const CUSTOMERS: u64 = 40_000;
const LEFT_OUT: u64 = 4_000;
const SERVICE_MEAN: Span = Span::from_ns(1_000);

#[derive(Debug, Clone, Copy)]
enum Service {
    Exponential,
    Fixed,
    /// A sum of four exponential parts.
    Erlang4,
}

/// One line, some servers, customers without memory.
struct Station {
    arrivals: Stream,
    services: Stream,
    gap_mean: Span,
    service: Service,
    resource: Resource<Time>,
    arrived: u64,
    waits_ps: RunningStats,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Arrives,
    Done,
}

impl Station {
    fn simulation(seed: u64, servers: u64, load: f64, service: Service) -> Simulation<Self> {
        let gap_mean = Span::from_ps_f64(SERVICE_MEAN.as_ps_f64() / load / servers as f64);
        let mut simulation = Simulation::new(Self {
            arrivals: Stream::new(seed, 0),
            services: Stream::new(seed, 1),
            gap_mean,
            service,
            resource: Resource::fifo(servers).unwrap(),
            arrived: 0,
            waits_ps: RunningStats::default(),
        });
        simulation.calendar.schedule_in(Span::ZERO, Event::Arrives);
        simulation
    }

    fn service(&mut self) -> Span {
        match self.service {
            Service::Exponential => self.services.exponential(SERVICE_MEAN),
            Service::Fixed => SERVICE_MEAN,
            Service::Erlang4 => {
                let part = Span::from_ps(SERVICE_MEAN.as_ps() / 4);
                (0..4).fold(Span::ZERO, |sum, _| sum + self.services.exponential(part))
            }
        }
    }

    fn begin(&mut self, now: Time, arrived: Time, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        if self.resource.usage(now).unwrap().waits_ps.count() > LEFT_OUT {
            self.waits_ps.add(now.since(arrived).unwrap().as_ps_f64());
        }
        let service = self.service();
        calendar.schedule_in(service, Event::Done);
    }
}

impl Model for Station {
    type Event = Event;

    fn handle(&mut self, now: Time, event: Event, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        match event {
            Event::Arrives => {
                self.arrived += 1;
                if self.arrived < CUSTOMERS {
                    calendar.schedule_in(self.arrivals.exponential(self.gap_mean), Event::Arrives);
                }
                if self.resource.request(now, now).unwrap() == Answer::Goes {
                    self.begin(now, now, calendar);
                }
            }
            Event::Done => {
                if let Some(arrived) = self.resource.release(now).unwrap() {
                    self.begin(now, arrived, calendar);
                }
            }
        }
    }
}

/// Mean waits of the replications, as multiples of the mean service, and how each used its resource.
fn measured(servers: u64, load: f64, service: Service) -> (RunningStats, Vec<Usage>) {
    let mut means = RunningStats::default();
    let usages = (0..REPLICATIONS).map(|replication| {
        let mut simulation = Station::simulation(1_000 + replication, servers, load, service);
        simulation.run();
        means.add(simulation.model.waits_ps.mean().unwrap() / SERVICE_MEAN.as_ps_f64());
        simulation.model.resource.usage(simulation.now()).unwrap()
    });
    let usages = usages.collect();
    (means, usages)
}

/// Asserts that the confidence interval has the theory in it, and is no wider than a share of it to either side.
fn agrees(means: &RunningStats, theory: f64, width_max: f64) {
    let interval = means.interval(Confidence::PERCENT_99).unwrap();
    assert!(interval.contains(theory), "{interval}, in theory {theory}");
    assert!(interval.half_width <= width_max * theory, "{interval} says too little of {theory}");
}

/// The probability that somebody has to wait, for exponential service (Erlang, 1917: Erlang C), by the recursion of Erlang B.
fn erlang_c(servers: u64, load: f64) -> f64 {
    let offered = load * servers as f64;
    let blocked =
        (1..=servers).fold(1.0, |blocked, server| offered * blocked / (server as f64 + offered * blocked));
    blocked / (1.0 - load * (1.0 - blocked))
}

/// The mean wait with exponential service, as a multiple of the mean service.
fn mmc_wait(servers: u64, load: f64) -> f64 {
    erlang_c(servers, load) / (servers as f64 * (1.0 - load))
}

#[test]
fn one_server_exponential() {
    for load in [0.3, 0.7] {
        let (means, usages) = measured(1, load, Service::Exponential);
        agrees(&means, load / (1.0 - load), 0.04);
        let mut utilisation = RunningStats::default();
        usages.iter().for_each(|usage| utilisation.add(usage.utilisation));
        agrees(&utilisation, load, 0.01);
    }
}

#[test]
fn one_server_fixed() {
    // Pollaczek and Khinchine: half of the wait with exponential service.
    let (means, _) = measured(1, 0.7, Service::Fixed);
    agrees(&means, 0.7 / (1.0 - 0.7) / 2.0, 0.04);
}

#[test]
fn several_servers_exponential() {
    assert!((erlang_c(1, 0.7) - 0.7).abs() < 1e-12);
    let (means, _) = measured(4, 0.8, Service::Exponential);
    agrees(&means, mmc_wait(4, 0.8), 0.06);
}

#[test]
fn several_servers_general() {
    // No exact formula is known. The approximation of Lee and Longton (1959), with the variance of a sum of four exponential
    // parts, is known to be good to some per cent; 5 % is allowed on top of the confidence interval.
    let (means, _) = measured(4, 0.8, Service::Erlang4);
    let theory = mmc_wait(4, 0.8) * (1.0 + 0.25) / 2.0;
    let interval = means.interval(Confidence::PERCENT_99).unwrap();
    let off = (interval.mean - theory).abs();
    assert!(off <= interval.half_width + 0.05 * theory, "{interval}, approximately {theory}");
    assert!(interval.half_width <= 0.06 * theory, "{interval}");
}

#[test]
fn littles_law_holds_to_the_picosecond() {
    let (_, usages) = measured(4, 0.8, Service::Erlang4);
    for usage in usages {
        assert_eq!((usage.arrivals, usage.completions), (CUSTOMERS, CUSTOMERS));
        assert_eq!(usage.queue_ps, usage.waited_ps);
        let waited = usage.waits_ps.mean().unwrap() * usage.waits_ps.count() as f64;
        assert!((waited / usage.queue_ps as f64 - 1.0).abs() < 1e-9);
    }
}
