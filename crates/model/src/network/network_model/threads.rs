//! The application threads: their next action, and what wakes them.

use super::{CLIENT, Event, NetworkModel};
use crate::network::flow::Pattern;
use crate::network::task::Task;
use des::{Calendar, Queue, Time};

/// How a thread continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resumed {
    /// It kept running.
    KeptRunning,
    /// It was woken from sleep.
    Woken,
}

impl NetworkModel<'_> {
    /// A thread has written a message: it reads the answer or writes the next one.
    pub(super) fn message_written(
        &mut self,
        host: usize,
        flow: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        match self.setup.work.pattern {
            Pattern::Exchange => {
                self.flows[flow as usize].is_reading[host] = true;
                self.read_next(host, flow, Resumed::KeptRunning, calendar);
            }
            Pattern::Stream { .. } => {
                self.flows[flow as usize].is_blocked = true;
                self.write_next(flow, Resumed::KeptRunning, calendar);
            }
        }
    }

    /// A thread has read data from a connection.
    pub(super) fn data_read(
        &mut self,
        now: Time,
        host: usize,
        flow: u32,
        bytes: u64,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        self.totals.read_bytes += bytes;
        if self.is_measuring {
            self.measured.read_bytes += bytes;
        }
        match self.setup.work.pattern {
            Pattern::Exchange => {
                if host == CLIENT {
                    self.finish_exchange(now, flow);
                    if self.is_over {
                        return;
                    }
                }
                self.resume(host, Task::Write { flow }, flow, Resumed::KeptRunning, calendar);
            }
            Pattern::Stream { .. } => {
                self.flows[flow as usize].read += bytes;
                self.flows[flow as usize].is_reading[host] = true;
                self.read_next(host, flow, Resumed::KeptRunning, calendar);
                self.write_next(flow, Resumed::Woken, calendar);
            }
        }
    }

    /// Ends an exchange and begins the next.
    fn finish_exchange(&mut self, now: Time, flow: u32) {
        let began = std::mem::replace(&mut self.flows[flow as usize].began, now);
        if self.is_measuring {
            let took = now.since(began).unwrap_or_default();
            self.measured.operations += 1;
            self.measured.latencies.record(took);
        }
    }

    /// Reads if enough bytes have arrived; otherwise the thread sleeps.
    pub(super) fn read_next(
        &mut self,
        host: usize,
        flow: u32,
        resumed: Resumed,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let enough = match self.setup.work.pattern {
            Pattern::Exchange => self.setup.work.message_bytes,
            Pattern::Stream { .. } => 1,
        };
        let known = &mut self.flows[flow as usize];
        if known.is_reading[host] && known.unread[host] >= enough {
            known.is_reading[host] = false;
            self.resume(host, Task::Read { flow }, flow, resumed, calendar);
        }
    }

    /// Lets a stream's client write if the window has space.
    pub(super) fn write_next(
        &mut self,
        flow: u32,
        resumed: Resumed,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let Pattern::Stream { window_bytes } = self.setup.work.pattern else { return };
        let bytes = self.setup.work.message_bytes;
        let known = &mut self.flows[flow as usize];
        let has_room = known.in_flight() == 0 || known.in_flight() + bytes <= window_bytes;
        if known.is_blocked && has_room && !self.is_over {
            known.is_blocked = false;
            self.resume(CLIENT, Task::Write { flow }, flow, resumed, calendar);
        }
    }

    /// Continues a thread on its CPU, or on the one chosen for it.
    fn resume(
        &mut self,
        host: usize,
        task: Task,
        flow: u32,
        resumed: Resumed,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let cpu = &mut self.flows[flow as usize].cpus[host];
        if resumed == Resumed::Woken {
            *cpu = self.hosts[host].processors.place(*cpu);
        }
        let cpu = *cpu;
        self.schedule_task(host, cpu, task, calendar);
    }
}
