//! Threads that poll and find nothing. The simulation skips ahead instead of handling an event per poll.

use super::{Event, FlashArrayModel};
use crate::flash_array::task::Task;
use crate::host::Stage;
use des::{Calendar, Queue, Span, Time};

/// The polls of one idle CPU, back to back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Polls {
    thread: u32,
    /// When the first began.
    since: Time,
    each: Span,
}

impl Polls {
    /// Number of polls begun by now.
    fn begun(&self, now: Time) -> u64 {
        self.past_ps(now) / self.each.as_ps() + 1
    }

    /// Number of polls until the current one ends, and the time until then.
    fn until_next(&self, now: Time) -> (u64, Span) {
        let (past, each) = (self.past_ps(now), self.each.as_ps());
        let polls = past.div_ceil(each).max(1);
        (polls, Span::from_ps(polls.saturating_mul(each) - past))
    }

    /// The duration of all polls up to now.
    fn past_ps(&self, now: Time) -> u64 {
        now.since(self.since).unwrap_or_default().as_ps()
    }
}

impl FlashArrayModel<'_> {
    /// Lets a thread poll until something arrives for it or its CPU.
    pub(super) fn poll_until_event(&mut self, now: Time, cpu: u32, thread: u32) {
        let poll = self.setup.cpus.time_of(self.setup.library.poll);
        let each = self.processors.spin(now, cpu, poll, Stage::Stack).max(Span::from_ps(1));
        self.polls[cpu as usize] = Some(Polls { thread, since: now, each });
    }

    /// Something arrived for the polling thread or its CPU. The thread notices it at the end of the current poll.
    pub(super) fn stop_polling(&mut self, cpu: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let Some(polls) = self.polls[cpu as usize].take() else { return };
        let (count, left) = polls.until_next(calendar.now());
        self.instructions[0] += count as f64 * self.setup.library.poll;
        let task = Task::PollQueue { thread: polls.thread };
        // The CPU is busy polling, so it needs no wake-up event.
        let _ = self.processors.push(cpu, task, task.level());
        calendar.schedule_in(left, Event::StepDone { cpu });
    }

    /// Instructions of the polls that have not been counted yet.
    pub(super) fn polling_instructions(&self, now: Time) -> f64 {
        let begun: u64 = self.polls.iter().flatten().map(|polls| polls.begun(now)).sum();
        begun as f64 * self.setup.library.poll
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_poll_sees_a_completion() {
        let polls = Polls { thread: 0, since: Time::from_ps(100), each: Span::from_ps(10) };
        let seen = [100, 101, 109, 110, 111, 200].map(|now| {
            let (count, left) = polls.until_next(Time::from_ps(now));
            (count, left.as_ps(), polls.begun(Time::from_ps(now)))
        });
        assert_eq!(seen, [(1, 10, 1), (1, 9, 1), (1, 1, 1), (1, 0, 2), (2, 9, 2), (10, 0, 11)]);
    }
}
