//! A desk whose services all last as long (M/D/1): the mean wait of one long run, beside the formula of Pollaczek and Khinchine.
//!
//!     cargo run --release -p iotoll-des --example md1

use des::{Answer, BatchMeans, Calendar, Confidence, Model, Queue, Resource, Simulation, Span, Stream, Time};

struct Desk {
    clerk: Resource<Time>,
    gaps: Stream,
    waits_ns: BatchMeans,
}

impl Model for Desk {
    type Event = bool; // Whether a customer arrives; else a service ends.

    fn handle(&mut self, now: Time, arrives: bool, calendar: &mut Calendar<bool, impl Queue<bool>>) {
        let served = if arrives {
            calendar.schedule_in(self.gaps.exponential(Span::from_ns(100)), true);
            (self.clerk.request(now, now) == Ok(Answer::Goes)).then_some(now)
        } else {
            self.clerk.release(now).expect("one is served")
        };
        if let Some(arrived) = served {
            self.waits_ns.add(now.since(arrived).expect("it came before").as_ns_f64());
            calendar.schedule_in(Span::from_ns(70), false);
        }
    }
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (clerk, gaps) = (Resource::fifo(1)?, Stream::new(1, 0));
    let mut simulation = Simulation::new(Desk { clerk, gaps, waits_ns: BatchMeans::after(10_000) });
    simulation.calendar.schedule_in(Span::ZERO, true);
    simulation.run_until(Time::ZERO + Span::from_ms(100));
    let interval = simulation.model.waits_ns.interval(Confidence::PERCENT_95).ok_or("too short a run")?;
    let theory = 0.7 * 70.0 / (2.0 * (1.0 - 0.7));
    println!("waits of {interval:.2} ns, by theory {theory:.2} ns");
    if interval.contains(theory) { Ok(()) } else { Err("theory is outside of the interval".into()) }
}
