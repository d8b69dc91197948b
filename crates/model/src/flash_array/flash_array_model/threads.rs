//! The jobs' threads and their requests.

use super::{Event, FlashArrayModel};
use crate::flash_array::load::{IoInterface, Job};
use crate::flash_array::setup::Setup;
use crate::flash_array::task::Task;
use des::{Calendar, Queue, Stream, Time};
use std::ops::Range;

/// A thread of a job.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) job: u32,
    pub(super) cpu: u32,
    /// Its own queue, as an index among all queues; `None` for the kernel's.
    pub(super) queue: Option<u32>,
    /// Requests submitted whose results it has not taken.
    pub(super) in_flight: u32,
    /// Finished requests it has not taken, in order of completion.
    pub(super) done: Vec<u32>,
    /// Requests of its own queue to be resubmitted on another path.
    pub(super) again: Vec<u32>,
    /// It sleeps until it is woken.
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
    /// The threads of all jobs.
    pub(super) fn all(setup: &Setup) -> Vec<Self> {
        let of_jobs =
            (0..).zip(&setup.jobs).flat_map(|(number, job)| (0..job.threads).map(move |_| (number, job)));
        let mut own_queues = setup.kernel_queues()..;
        let thread = |(thread, (job, of)): (u32, (u32, &Job))| Self {
            job,
            cpu: setup.cpus.of_thread(thread),
            queue: if of.way == IoInterface::User { own_queues.next() } else { None },
            in_flight: 0,
            done: Vec::new(),
            again: Vec::new(),
            is_asleep: true,
            stream: Stream::new(setup.seed, thread.into()),
        };
        (0..).zip(of_jobs).map(thread).collect()
    }
}

impl FlashArrayModel<'_> {
    pub(super) fn job(&self, thread: u32) -> &Job {
        &self.setup.jobs[self.threads[thread as usize].job as usize]
    }

    pub(super) fn may_submit(&self, thread: u32) -> bool {
        !self.is_over && self.threads[thread as usize].in_flight < self.job(thread).depth
    }

    /// Draws a thread's next request: a random disk, a read or a write.
    pub(super) fn draw_request(&mut self, thread: u32) -> Request {
        let Job { read_share, io_bytes, .. } = *self.job(thread);
        let stream = &mut self.threads[thread as usize].stream;
        let disk = stream.below(self.setup.disks.into()) as u32;
        let is_write = stream.uniform() >= read_share;
        Request { thread, began: Time::ZERO, disk, bytes: io_bytes, is_write }
    }

    pub(super) fn start_thread(&mut self, thread: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        self.wake(thread, false, calendar);
    }

    /// Wakes a sleeping thread, on an idle CPU if there is one. A thread with its own queue stays on its CPU.
    fn wake(&mut self, thread: u32, is_woken: bool, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let known = &mut self.threads[thread as usize];
        if !std::mem::take(&mut known.is_asleep) {
            let cpu = known.cpu;
            return self.stop_polling(cpu, calendar);
        }
        if known.queue.is_some() {
            let cpu = known.cpu;
            return self.schedule_task(cpu, Task::PollQueue { thread }, calendar);
        }
        let cpu = self.processors.place(known.cpu);
        known.cpu = cpu;
        self.schedule_task(cpu, Task::RunThread { thread, is_woken }, calendar);
    }

    pub(super) fn start_request(&mut self, now: Time, request: u32) {
        self.requests[request].began = now;
        self.totals.asked += 1;
        // Can't fail: simulated time never goes back.
        let _ = self.in_flight.set(now, self.in_flight.level() + 1);
    }

    pub(super) fn finish_request(&mut self, now: Time, request: u32) {
        let Request { thread, began, .. } = self.requests[request];
        self.requests.free(request);
        self.totals.got += 1;
        let _ = self.in_flight.set(now, self.in_flight.level() - 1);
        if self.is_measuring {
            let job = self.threads[thread as usize].job;
            self.measured.record(job, now.since(began).unwrap_or_default());
        }
    }

    /// Continues a thread with a new task, so that other tasks can run in between.
    pub(super) fn continue_thread(&mut self, thread: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let known = &self.threads[thread as usize];
        let task = match known.queue {
            Some(_) => Task::PollQueue { thread },
            None => Task::RunThread { thread, is_woken: false },
        };
        let cpu = known.cpu;
        self.schedule_task(cpu, task, calendar);
    }

    /// Puts a thread to sleep, unless a request was finished meanwhile.
    pub(super) fn put_to_sleep(&mut self, thread: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let known = &mut self.threads[thread as usize];
        known.is_asleep = true;
        if !known.done.is_empty() || !known.again.is_empty() {
            self.wake(thread, true, calendar);
        }
    }

    /// The paths that a thread may use: all, or those of the adapter that its own queue belongs to. Own queues are
    /// spread over the adapters in turn.
    pub(super) fn paths_of(&self, thread: u32) -> Range<u32> {
        let Some(queue) = self.threads[thread as usize].queue else { return 0..self.setup.paths() };
        let adapter = (queue - self.setup.kernel_queues()) % self.setup.adapters;
        let first = adapter * self.setup.adapter.ports;
        first..first + self.setup.adapter.ports
    }

    /// Lets a request wait for a usable path. If a path recovered in the meantime, resubmits it at once.
    pub(super) fn wait_for_path(
        &mut self,
        request: u32,
        cpu: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let paths = self.paths_of(self.requests[request].thread);
        if self.paths.is_any_usable(paths) {
            self.resubmit(request, cpu, calendar);
        } else {
            self.paths.wait(request);
        }
    }

    /// Passes a finished request to its thread, and wakes that.
    pub(super) fn deliver_result(&mut self, request: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let thread = self.requests[request].thread;
        self.threads[thread as usize].done.push(request);
        self.wake(thread, true, calendar);
    }

    /// Resubmits a request on another path: by this CPU, or by its thread if that has its own queue.
    pub(super) fn resubmit(
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
        self.schedule_task(cpu, Task::Resubmit { request }, calendar);
    }
}
