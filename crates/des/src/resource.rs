//! A resource: servers with queues.

use crate::{Misuse, RunningStats, Time, TimeAverage};
use std::collections::VecDeque;

/// Equal servers with one queue per priority level. It decides who is served next; the model schedules the events. A
/// lower level goes first; within a level it is first come, first served. Service is never interrupted.
#[derive(Debug, Clone)]
pub struct Resource<W> {
    servers: u64,
    lines: Vec<VecDeque<Waiting<W>>>,
    busy: TimeAverage,
    queue: TimeAverage,
    arrivals: u64,
    completions: u64,
    /// Waiting times of those who waited and were served.
    waits: RunningStats,
    /// Total waiting time of those served.
    waited_ps: u128,
}

#[derive(Debug, Clone, Copy)]
struct Waiting<W> {
    since: Time,
    who: W,
}

/// Answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// A server is free: service starts now.
    Goes,
    /// All servers are busy: a later release returns this customer.
    Waits,
}

/// Use of a resource since time 0. To leave out a warm-up, take it at the warm-up's end too, and divide the differences of the
/// integrals by the time between.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Usage {
    /// Requests.
    pub arrivals: u64,
    /// Releases.
    pub completions: u64,
    /// Mean share of busy servers.
    pub utilisation: f64,
    /// Integral of busy servers over time, in picoseconds.
    pub busy_ps: u128,
    /// Mean queue length.
    pub queue_mean: f64,
    /// Longest queue.
    pub queue_max: u64,
    /// Integral of the queue length over time, in picoseconds.
    pub queue_ps: u128,
    /// Sum of all waiting times up to now; equals `queue_ps`.
    pub waited_ps: u128,
    /// Waiting times in picoseconds of all who were served, 0 for those served at once.
    pub waits_ps: RunningStats,
}

impl<W> Resource<W> {
    /// Servers with one queue, first come, first served.
    ///
    /// # Errors
    /// [`Misuse::Empty`]
    pub fn fifo(servers: u64) -> Result<Self, Misuse> {
        Self::with_levels(servers, 1)
    }

    /// Servers with `levels` queues.
    ///
    /// # Errors
    /// [`Misuse::Empty`]
    pub fn with_levels(servers: u64, levels: usize) -> Result<Self, Misuse> {
        if servers == 0 || levels == 0 {
            return Err(Misuse::Empty { servers, levels });
        }
        Ok(Self {
            servers,
            lines: (0..levels).map(|_| VecDeque::new()).collect(),
            busy: TimeAverage::default(),
            queue: TimeAverage::default(),
            arrivals: 0,
            completions: 0,
            waits: RunningStats::default(),
            waited_ps: 0,
        })
    }

    /// Requests a server at level 0.
    ///
    /// # Errors
    /// [`Misuse::TimeWentBack`]
    pub fn request(&mut self, now: Time, who: W) -> Result<Answer, Misuse> {
        self.request_at(now, 0, who)
    }

    /// Requests a server at a level.
    ///
    /// # Errors
    /// [`Misuse::NoSuchLevel`], [`Misuse::TimeWentBack`]
    #[inline]
    pub fn request_at(&mut self, now: Time, level: usize, who: W) -> Result<Answer, Misuse> {
        let levels = self.lines.len();
        let line = self.lines.get_mut(level).ok_or(Misuse::NoSuchLevel { level, levels })?;
        let answer = if self.busy.level() < self.servers {
            self.busy.set(now, self.busy.level() + 1)?;
            Answer::Goes
        } else {
            // While all servers are busy, the latest change of `busy` is also the latest call's time.
            self.busy.set(now, self.servers)?;
            self.queue.set(now, self.queue.level() + 1)?;
            line.push_back(Waiting { since: now, who });
            Answer::Waits
        };
        self.arrivals += 1;
        Ok(answer)
    }

    /// Releases a server. Returns the next customer, who is served from now on.
    ///
    /// # Errors
    /// [`Misuse::NobodyServed`], [`Misuse::TimeWentBack`]
    #[inline]
    pub fn release(&mut self, now: Time) -> Result<Option<W>, Misuse> {
        if self.busy.level() == 0 {
            return Err(Misuse::NobodyServed);
        }
        // Also checks the time, before anything changes.
        self.busy.set(now, self.busy.level())?;
        self.completions += 1;
        let Some(next) = self.lines.iter_mut().find_map(VecDeque::pop_front) else {
            self.busy.set(now, self.busy.level() - 1)?;
            return Ok(None);
        };
        self.queue.set(now, self.queue.level() - 1)?;
        let waited = now.since(next.since).unwrap_or_default();
        self.waits.add(waited.as_ps_f64());
        self.waited_ps += u128::from(waited.as_ps());
        Ok(Some(next.who))
    }

    /// Number of busy servers.
    pub fn busy(&self) -> u64 {
        self.busy.level()
    }

    /// Number of waiting customers.
    pub fn waiting(&self) -> u64 {
        self.queue.level()
    }

    /// Use up to now.
    ///
    /// # Errors
    /// [`Misuse::TimeWentBack`]
    pub fn usage(&self, now: Time) -> Result<Usage, Misuse> {
        let waiting = self.lines.iter().flatten().filter_map(|waiting| now.since(waiting.since));
        let went_at_once = self.arrivals - self.waits.count() - self.queue.level();
        Ok(Usage {
            arrivals: self.arrivals,
            completions: self.completions,
            utilisation: self.busy.average(now)? / self.servers as f64,
            busy_ps: self.busy.integral_ps(now)?,
            queue_mean: self.queue.average(now)?,
            queue_max: self.queue.max(),
            queue_ps: self.queue.integral_ps(now)?,
            waited_ps: self.waited_ps + waiting.map(|span| u128::from(span.as_ps())).sum::<u128>(),
            waits_ps: self.waits.with_zeros(went_at_once),
        })
    }
}
