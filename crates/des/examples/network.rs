//! The central server model (Buzen, 1973) beside exact mean value analysis (Reiser and Lavenberg, 1980).
//!
//! ```text
//!    +--> CPU --60 %--> disk ----+
//!    |     |----30 %--> tape ----+      cargo run --release -p iotoll-des --example network
//!    |     +----10 %--> done ----+
//!    +---- again, or a new job <-+
//! ```

use des::{Answer, Calendar, Confidence, Misuse, Model, Queue, Resource};
use des::{RunningStats, Simulation, Span, Stream, Time, Weights};

const JOBS: u32 = 6;
const CPU: usize = 0;
/// Mean service of CPU, disk and tape, all exponential.
const SERVICES: [Span; 3] = [Span::from_us(5), Span::from_us(8), Span::from_us(20)];
/// After the CPU: done, to the disk, to the tape.
const ROUTES: [u64; 3] = [1, 6, 3];

struct Network {
    stations: [Resource<()>; 3],
    routes: Weights,
    stream: Stream,
    done: u64,
}

impl Network {
    fn enter(&mut self, now: Time, station: usize, calendar: &mut Calendar<usize, impl Queue<usize>>) {
        if self.stations[station].request(now, ()) == Ok(Answer::Goes) {
            calendar.schedule_in(self.stream.exponential(SERVICES[station]), station);
        }
    }

    /// Jobs done, and the integrals of the jobs at each station over time, in picoseconds.
    fn totals(&self, now: Time) -> Result<[f64; 4], Misuse> {
        let mut totals = [self.done as f64; 4];
        for (total, station) in totals[1..].iter_mut().zip(&self.stations) {
            let usage = station.usage(now)?;
            *total = (usage.queue_ps + usage.busy_ps) as f64;
        }
        Ok(totals)
    }
}

impl Model for Network {
    /// A job's service ends at this station.
    type Event = usize;

    fn handle(&mut self, now: Time, station: usize, calendar: &mut Calendar<usize, impl Queue<usize>>) {
        if let Ok(Some(())) = self.stations[station].release(now) {
            calendar.schedule_in(self.stream.exponential(SERVICES[station]), station);
        }
        let to = if station == CPU { self.routes.choose(&mut self.stream) } else { CPU };
        self.done += u64::from((station, to) == (CPU, CPU));
        self.enter(now, to, calendar);
    }
}

/// Jobs done per millisecond, and the mean number of jobs at each station.
pub(crate) fn simulated(seed: u64) -> Result<[f64; 4], Misuse> {
    let stations = [Resource::fifo(1)?, Resource::fifo(1)?, Resource::fifo(1)?];
    let routes = Weights::new(&ROUTES).expect("a weight is above zero");
    let network = Network { stations, routes, stream: Stream::new(seed, 0), done: 0 };
    let mut simulation = Simulation::new(network);
    (0..JOBS).for_each(|_| simulation.model.enter(Time::ZERO, CPU, &mut simulation.calendar));
    simulation.run_until(Time::ZERO + Span::from_ms(100));
    let before = simulation.model.totals(simulation.now())?;
    let window = Span::from_ms(2_000);
    simulation.run_until(simulation.now() + window);
    let after = simulation.model.totals(simulation.now())?;
    let units = [window.as_ps_f64() / Span::from_ms(1).as_ps_f64(), window.as_ps_f64()];
    Ok([0, 1, 2, 3].map(|figure| (after[figure] - before[figure]) / units[figure.min(1)]))
}

/// The same by mean value analysis: an arriving job finds what a network with one job less has on average.
pub(crate) fn theory() -> [f64; 4] {
    // A job passes the CPU ten times, and then once in ten is done.
    let visits = [10.0, 6.0, 3.0];
    let mut figures = [0.0; 4];
    for jobs in 1..=JOBS {
        let stays_ms =
            [0, 1, 2].map(|at| visits[at] * SERVICES[at].as_ns_f64() / 1e6 * (1.0 + figures[at + 1]));
        let per_ms = f64::from(jobs) / stays_ms.iter().sum::<f64>();
        figures = [per_ms, per_ms * stays_ms[0], per_ms * stays_ms[1], per_ms * stays_ms[2]];
    }
    figures
}

pub(crate) fn main() -> Result<(), Misuse> {
    let runs = (0..10).map(simulated).collect::<Result<Vec<_>, _>>()?;
    println!("{:18} {:>8} {:>18}", "6 jobs", "theory", "10 replications");
    for (figure, name) in ["done per ms", "at the CPU", "at the disk", "at the tape"].into_iter().enumerate()
    {
        let stats: RunningStats = runs.iter().map(|run| run[figure]).collect();
        let interval = stats.interval(Confidence::PERCENT_95).expect("there are ten runs");
        println!("{name:18} {:8.4} {interval:>18.4}", theory()[figure]);
    }
    Ok(())
}
