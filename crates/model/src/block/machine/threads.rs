//! Threads of the jobs, and what they ask for.

use super::{Event, Machine};
use crate::block::Setup;
use crate::block::task::Task;
use crate::fio::Access;
use des::{Calendar, Queue, Stream, Time};

/// A thread of a job.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) job: u32,
    pub(super) cpu: u32,
    /// Asked for and not taken.
    pub(super) in_flight: u32,
    /// Completed and not taken, in order.
    pub(super) done: Vec<u32>,
    /// It waits to be woken.
    is_asleep: bool,
    /// What it draws.
    pub(super) stream: Stream,
    /// Where its next read or write begins, if they follow each other.
    pub(super) next_die: Option<u32>,
}

/// A read or write.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) thread: u32,
    pub(super) began: Time,
    /// Its commands that are not completed.
    pub(super) commands: u32,
}

impl Thread {
    /// Those of all jobs.
    pub(super) fn all(setup: &Setup) -> Vec<Self> {
        let of_jobs = (0..).zip(&setup.jobs).flat_map(|(number, job)| (0..job.threads).map(move |_| number));
        let thread = |(thread, job): (u32, u32)| Self {
            job,
            cpu: setup.host.cpus.of_thread(thread),
            in_flight: 0,
            done: Vec::new(),
            is_asleep: true,
            stream: Stream::new(setup.seed, thread.into()),
            next_die: None,
        };
        (0..).zip(of_jobs).map(thread).collect()
    }

    /// Whether its next is a write.
    pub(super) fn draw_write(&mut self, access: Access) -> bool {
        match access {
            Access::Read => false,
            Access::Write => true,
            Access::Mixed { read_percent } => self.stream.below(100) >= u64::from(read_percent),
        }
    }
}

impl Machine<'_> {
    /// Has a thread that sleeps go on.
    pub(super) fn wake(
        &mut self,
        thread: u32,
        is_woken: bool,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let known = &mut self.threads[thread as usize];
        if std::mem::take(&mut known.is_asleep) {
            let cpu = known.cpu;
            self.push(cpu, Task::Go { thread, is_woken }, calendar);
        }
    }

    pub(super) fn begun(&mut self, now: Time, request: u32) {
        self.requests[request].began = now;
        self.totals.asked += 1;
        // Time never goes back.
        let _ = self.in_flight.set(now, self.in_flight.level() + 1);
    }

    pub(super) fn taken(&mut self, now: Time, request: u32) {
        let Request { thread, began, .. } = self.requests[request];
        self.requests.free(request);
        self.totals.got += 1;
        let _ = self.in_flight.set(now, self.in_flight.level() - 1);
        if self.is_measuring {
            let job = self.threads[thread as usize].job;
            self.measured.record(job, now.since(began).unwrap_or_default());
        }
    }

    /// A thread that may ask for more than a task does goes on.
    pub(super) fn asked(&mut self, thread: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let cpu = self.threads[thread as usize].cpu;
        self.push(cpu, Task::Go { thread, is_woken: false }, calendar);
    }

    /// While it went to sleep, something may have been completed.
    pub(super) fn slept(&mut self, thread: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let known = &mut self.threads[thread as usize];
        known.is_asleep = true;
        if !known.done.is_empty() {
            self.wake(thread, true, calendar);
        }
    }

    /// A command's data is with its thread; it is woken when all of the request is.
    pub(super) fn completed(
        &mut self,
        now: Time,
        command: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let request = self.commands[command].request;
        self.commands.free(command);
        self.totals.completions += 1;
        let _ = self.in_queues.set(now, self.in_queues.level() - 1);
        let known = &mut self.requests[request];
        known.commands -= 1;
        if known.commands == 0 {
            let thread = known.thread;
            self.threads[thread as usize].done.push(request);
            self.wake(thread, true, calendar);
        }
    }
}
