//! The jobs' threads and their requests.

use super::{BlockModel, Event};
use crate::block::Setup;
use crate::block::task::Task;
use crate::fio::Access;
use des::{Calendar, Queue, Stream, Time};

/// A thread of a job.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) job: u32,
    pub(super) cpu: u32,
    /// Requests submitted whose results it has not taken.
    pub(super) in_flight: u32,
    /// Finished requests it has not taken, in order of completion.
    pub(super) done: Vec<u32>,
    /// It sleeps until it is woken.
    is_asleep: bool,
    /// Its random choices.
    pub(super) stream: Stream,
    /// The die of its next request, if access is sequential.
    pub(super) next_die: Option<u32>,
}

/// A read or write.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) thread: u32,
    pub(super) began: Time,
    /// Commands that are not completed yet.
    pub(super) commands: u32,
}

impl Thread {
    /// The threads of all jobs.
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

    /// Draws whether the next request is a write.
    pub(super) fn draw_write(&mut self, access: Access) -> bool {
        match access {
            Access::Read => false,
            Access::Write => true,
            Access::Mixed { read_percent } => self.stream.below(100) >= u64::from(read_percent),
        }
    }
}

impl BlockModel<'_> {
    /// Wakes a sleeping thread.
    pub(super) fn wake(
        &mut self,
        thread: u32,
        is_woken: bool,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let known = &mut self.threads[thread as usize];
        if std::mem::take(&mut known.is_asleep) {
            let cpu = known.cpu;
            self.schedule_task(cpu, Task::RunThread { thread, is_woken }, calendar);
        }
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

    /// Continues a thread that may submit more.
    pub(super) fn continue_thread(&mut self, thread: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let cpu = self.threads[thread as usize].cpu;
        self.schedule_task(cpu, Task::RunThread { thread, is_woken: false }, calendar);
    }

    /// Puts a thread to sleep, unless a request was finished meanwhile.
    pub(super) fn put_to_sleep(&mut self, thread: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let known = &mut self.threads[thread as usize];
        known.is_asleep = true;
        if !known.done.is_empty() {
            self.wake(thread, true, calendar);
        }
    }

    /// A command has completed. If it was the request's last, passes the request to its thread and wakes that.
    pub(super) fn complete_command(
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
