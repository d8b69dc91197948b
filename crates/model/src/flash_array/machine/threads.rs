//! Threads of the jobs, and what they ask for.

use super::{Event, Machine};
use crate::flash_array::load::{Job, Way};
use crate::flash_array::setup::Setup;
use crate::flash_array::task::Task;
use des::{Calendar, Queue, Stream, Time};
use std::ops::Range;

/// A thread of a job.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) job: u32,
    pub(super) cpu: u32,
    /// Its own, of all queues.
    pub(super) queue: Option<u32>,
    /// Asked for and not taken.
    pub(super) in_flight: u32,
    /// Got and not taken, in order.
    pub(super) done: Vec<u32>,
    /// Those that it has to send by another path itself.
    pub(super) again: Vec<u32>,
    /// It waits to be woken; one that looks for completions has nothing to look for.
    is_asleep: bool,
    stream: Stream,
}

/// A read or write.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) thread: u32,
    pub(super) began: Time,
    pub(super) disk: u32,
    pub(super) bytes: u64,
    pub(super) is_write: bool,
}

impl Thread {
    /// Those of all jobs.
    pub(super) fn all(setup: &Setup) -> Vec<Self> {
        let of_jobs =
            (0..).zip(&setup.jobs).flat_map(|(number, job)| (0..job.threads).map(move |_| (number, job)));
        let mut own_queues = setup.kernel_queues()..;
        let thread = |(thread, (job, of)): (u32, (u32, &Job))| Self {
            job,
            cpu: setup.cpus.of_thread(thread),
            queue: if of.way == Way::User { own_queues.next() } else { None },
            in_flight: 0,
            done: Vec::new(),
            again: Vec::new(),
            is_asleep: true,
            stream: Stream::new(setup.seed, thread.into()),
        };
        (0..).zip(of_jobs).map(thread).collect()
    }
}

impl Machine<'_> {
    pub(super) fn job(&self, thread: u32) -> &Job {
        &self.setup.jobs[self.threads[thread as usize].job as usize]
    }

    pub(super) fn may_ask(&self, thread: u32) -> bool {
        !self.is_over && self.threads[thread as usize].in_flight < self.job(thread).depth
    }

    /// What a thread asks for next: any disk's, read or written.
    pub(super) fn draw(&mut self, thread: u32) -> Request {
        let Job { read_share, io_bytes, .. } = *self.job(thread);
        let stream = &mut self.threads[thread as usize].stream;
        let disk = stream.below(self.setup.disks.into()) as u32;
        let is_write = stream.uniform() >= read_share;
        Request { thread, began: Time::ZERO, disk, bytes: io_bytes, is_write }
    }

    pub(super) fn open(&mut self, thread: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        self.wake(thread, false, calendar);
    }

    /// Has a thread that sleeps go on, where there is an idle CPU. One with a queue of its own stays where it is.
    fn wake(&mut self, thread: u32, is_woken: bool, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let known = &mut self.threads[thread as usize];
        if !std::mem::take(&mut known.is_asleep) {
            let cpu = known.cpu;
            return self.stop_polling(cpu, calendar);
        }
        if known.queue.is_some() {
            let cpu = known.cpu;
            return self.push(cpu, Task::Look { thread }, calendar);
        }
        let cpu = self.processors.place(known.cpu);
        known.cpu = cpu;
        self.push(cpu, Task::Go { thread, is_woken }, calendar);
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

    /// A thread goes on with another task, so that others come between.
    pub(super) fn goes(&mut self, thread: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let known = &self.threads[thread as usize];
        let task = match known.queue {
            Some(_) => Task::Look { thread },
            None => Task::Go { thread, is_woken: false },
        };
        let cpu = known.cpu;
        self.push(cpu, task, calendar);
    }

    /// While it went to sleep, something may have been completed.
    pub(super) fn slept(&mut self, thread: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let known = &mut self.threads[thread as usize];
        known.is_asleep = true;
        if !known.done.is_empty() || !known.again.is_empty() {
            self.wake(thread, true, calendar);
        }
    }

    /// The paths that a thread's requests may take: all, or those of the adapter that its own queue is of. Adapters take turns with
    /// such queues.
    pub(super) fn paths_of(&self, thread: u32) -> Range<u32> {
        let Some(queue) = self.threads[thread as usize].queue else { return 0..self.setup.paths() };
        let adapter = (queue - self.setup.kernel_queues()) % self.setup.adapters;
        let first = adapter * self.setup.adapter.ports;
        first..first + self.setup.adapter.ports
    }

    /// A request had no path when its CPU looked; one may have recovered since.
    pub(super) fn waits(
        &mut self,
        request: u32,
        cpu: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let paths = self.paths_of(self.requests[request].thread);
        if self.paths.is_any_usable(paths) {
            self.send_again(request, cpu, calendar);
        } else {
            self.paths.wait(request);
        }
    }

    /// A thread has what it asked for.
    pub(super) fn give(&mut self, request: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let thread = self.requests[request].thread;
        self.threads[thread as usize].done.push(request);
        self.wake(thread, true, calendar);
    }

    /// A request goes by another path: at once by this CPU, or by the thread whose own it is.
    pub(super) fn send_again(
        &mut self,
        request: u32,
        cpu: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let thread = self.requests[request].thread;
        let known = &mut self.threads[thread as usize];
        if known.queue.is_some() {
            known.again.push(request);
            return self.wake(thread, true, calendar);
        }
        self.push(cpu, Task::Retry { request }, calendar);
    }
}
