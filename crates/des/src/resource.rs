//! Servers, and those who wait for one.

use crate::{Misuse, RunningStats, Time, TimeAverage};
use std::collections::VecDeque;

/// Equal servers and lines before them, one for each level. It says who may go on; what that leads to and when is the
/// model's to schedule. Whoever waits on a lower level goes first, on the same level whoever came first; who is being served
/// is not interrupted.
#[derive(Debug, Clone)]
pub struct Resource<W> {
    servers: u64,
    lines: Vec<VecDeque<Waiting<W>>>,
    busy: TimeAverage,
    queue: TimeAverage,
    arrivals: u64,
    completions: u64,
    /// Of those who waited until served; the others are known by their number.
    waits: RunningStats,
    /// Of those who wait no more.
    waited_ps: u128,
}

#[derive(Debug, Clone, Copy)]
struct Waiting<W> {
    since: Time,
    who: W,
}

/// What somebody who asks for a server is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Served from now on, until released.
    Goes,
    /// Released by somebody else later.
    Waits,
}

/// How a resource was used since the beginning of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// How many asked for a server.
    pub arrivals: u64,
    /// How many were done.
    pub completions: u64,
    /// The share of all servers' time in which they were busy.
    pub utilisation: f64,
    /// Busy servers times how long, in picoseconds.
    pub busy_ps: u128,
    /// How many waited, on average.
    pub queue_mean: f64,
    /// How many waited at most.
    pub queue_max: u64,
    /// Those who waited times how long, in picoseconds, by the length of the queue.
    pub queue_ps: u128,
    /// The same summed over each of them, up to now for those who still wait.
    pub waited_ps: u128,
    /// How long each waited until served, in picoseconds; nothing for who went at once. Without those who still wait.
    pub waits_ps: RunningStats,
}

impl<W> Resource<W> {
    /// One line before so many servers: first come, first served.
    pub fn fifo(servers: u64) -> Result<Self, Misuse> {
        Self::with_levels(servers, 1)
    }

    /// So many lines before so many servers.
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

    /// Somebody wants a server.
    pub fn request(&mut self, now: Time, who: W) -> Result<Answer, Misuse> {
        self.request_at(now, 0, who)
    }

    /// Somebody of this level wants a server.
    #[inline]
    pub fn request_at(&mut self, now: Time, level: usize, who: W) -> Result<Answer, Misuse> {
        let levels = self.lines.len();
        let line = self.lines.get_mut(level).ok_or(Misuse::NoSuchLevel { level, levels })?;
        let answer = if self.busy.level() < self.servers {
            self.busy.set(now, self.busy.level() + 1)?;
            Answer::Goes
        } else {
            // As long as all servers are busy, this is also when they last changed hands.
            self.busy.set(now, self.servers)?;
            self.queue.set(now, self.queue.level() + 1)?;
            line.push_back(Waiting { since: now, who });
            Answer::Waits
        };
        self.arrivals += 1;
        Ok(answer)
    }

    /// Somebody is done. Who is told here goes on in their place.
    #[inline]
    pub fn release(&mut self, now: Time) -> Result<Option<W>, Misuse> {
        if self.busy.level() == 0 {
            return Err(Misuse::NobodyServed);
        }
        // Checks the time, too, before anything changes.
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

    /// How many are served.
    pub fn busy(&self) -> u64 {
        self.busy.level()
    }

    /// How many wait.
    pub fn waiting(&self) -> u64 {
        self.queue.level()
    }

    /// How it was used up to now.
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
