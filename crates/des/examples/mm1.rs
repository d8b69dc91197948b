//! An M/M/1 queue beside queueing theory: independent replications, then one long run.
//!
//! ```text
//! cargo run --release -p iotoll-des --example mm1
//! ```

use des::{Answer, BatchMeans, Calendar, Confidence, Misuse, Model, Queue, Resource};
use des::{RunningStats, Simulation, Span, Stream, Time};

const GAP_MEAN: Span = Span::from_ns(100);
const SERVICE_MEAN: Span = Span::from_ns(70);

#[derive(Debug, Clone, Copy)]
enum Event {
    Arrival,
    Completion,
}

/// A clerk who serves one customer after the other.
struct Desk {
    clerk: Resource<Time>,
    gaps: Stream,
    services: Stream,
    /// The wait of each customer served, in order.
    waits_ns: Vec<f64>,
}

impl Desk {
    fn simulation(seed: u64) -> Result<Simulation<Self>, Misuse> {
        let (gaps, services) = (Stream::new(seed, 0), Stream::new(seed, 1));
        let desk = Self { clerk: Resource::fifo(1)?, gaps, services, waits_ns: Vec::new() };
        let mut simulation = Simulation::new(desk);
        simulation.calendar.schedule_in(Span::ZERO, Event::Arrival);
        Ok(simulation)
    }

    fn serve(&mut self, now: Time, arrived: Time, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        self.waits_ns.push(now.since(arrived).expect("it came before").as_ns_f64());
        calendar.schedule_in(self.services.exponential(SERVICE_MEAN), Event::Completion);
    }
}

impl Model for Desk {
    type Event = Event;

    fn handle(&mut self, now: Time, event: Event, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        match event {
            Event::Arrival => {
                calendar.schedule_in(self.gaps.exponential(GAP_MEAN), Event::Arrival);
                if self.clerk.request(now, now) == Ok(Answer::Goes) {
                    self.serve(now, now, calendar);
                }
            }
            Event::Completion => {
                if let Ok(Some(arrived)) = self.clerk.release(now) {
                    self.serve(now, arrived, calendar);
                }
            }
        }
    }
}

/// Mean wait in ns and mean number of customers at the desk, by queueing theory.
pub(crate) const THEORY: [f64; 2] = [70.0 * 0.7 / (1.0 - 0.7), 0.7 / (1.0 - 0.7)];

/// Both of one run. Time is cut into slices of ten services: each gives one value of the number.
pub(crate) fn run(seed: u64, warm_up_slices: u64, slices: u64) -> Result<[BatchMeans; 2], Misuse> {
    let mut simulation = Desk::simulation(seed)?;
    let (slice, mut before_ps) = (Span::from_ns(700), 0);
    // In a slice, seven customers arrive on average.
    let [mut waits, mut numbers] = [7 * warm_up_slices, warm_up_slices].map(BatchMeans::after);
    for _ in 0..warm_up_slices + slices {
        simulation.run_until(simulation.now() + slice);
        let usage = simulation.model.clerk.usage(simulation.now())?;
        let after_ps = usage.queue_ps + usage.busy_ps;
        numbers.add((after_ps - before_ps) as f64 / slice.as_ps_f64());
        before_ps = after_ps;
    }
    simulation.model.waits_ns.iter().for_each(|wait| waits.add(*wait));
    Ok([waits, numbers])
}

pub(crate) fn main() -> Result<(), Misuse> {
    let long = run(99, 1_000, 200_000)?;
    let short = (0..10).map(|seed| run(seed, 1_000, 20_000)).collect::<Result<Vec<_>, _>>()?;
    println!("{:24} {:>8} {:>18} {:>18}", "M/M/1, load 0.7", "theory", "10 replications", "one long run");
    for (figure, name) in ["mean wait, ns", "mean number of customers"].into_iter().enumerate() {
        let means: RunningStats = short.iter().filter_map(|run| run[figure].mean()).collect();
        let of_ten = means.interval(Confidence::PERCENT_95).expect("there are ten runs");
        let of_one = long[figure].interval(Confidence::PERCENT_95).expect("there are batches");
        println!("{name:24} {:8.3} {of_ten:>18.3} {of_one:>18.3}", THEORY[figure]);
    }
    Ok(())
}
