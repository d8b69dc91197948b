//! The applications' threads: what they do next, and what wakes them.

use super::{CLIENT, Event, Machine};
use crate::network::flow::Pattern;
use crate::network::task::Task;
use des::{Calendar, Queue, Time};

impl Machine<'_> {
    pub(super) fn written(
        &mut self,
        host: usize,
        flow: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        match self.setup.work.pattern {
            Pattern::Exchange => {
                self.flows[flow as usize].is_reading[host] = true;
                self.wake_reader(host, flow, calendar);
            }
            Pattern::Stream { .. } => {
                self.flows[flow as usize].is_blocked = true;
                self.wake_writer(flow, calendar);
            }
        }
    }

    pub(super) fn read(
        &mut self,
        now: Time,
        host: usize,
        flow: u32,
        bytes: u64,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        self.totals.read_bytes += bytes;
        if self.is_measuring {
            self.read_bytes += bytes;
        }
        match self.setup.work.pattern {
            Pattern::Exchange => {
                if host == CLIENT {
                    self.exchanged(now, flow);
                    if self.is_over {
                        return;
                    }
                }
                let cpu = self.hosts[host].cpu_of_flow(flow);
                self.push(host, cpu, Task::Write { flow }, calendar);
            }
            Pattern::Stream { .. } => {
                self.flows[flow as usize].read += bytes;
                self.flows[flow as usize].is_reading[host] = true;
                self.wake_reader(host, flow, calendar);
                self.wake_writer(flow, calendar);
            }
        }
    }

    /// An exchange ends, and the next begins.
    fn exchanged(&mut self, now: Time, flow: u32) {
        let began = std::mem::replace(&mut self.flows[flow as usize].began, now);
        if self.is_measuring {
            let took = now.since(began).unwrap_or_default();
            self.operations += 1;
            self.latencies.record(took);
            self.latency.add(took.as_ps_f64());
        }
    }

    pub(super) fn wake_reader(
        &mut self,
        host: usize,
        flow: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let enough = match self.setup.work.pattern {
            Pattern::Exchange => self.setup.work.message_bytes,
            Pattern::Stream { .. } => 1,
        };
        let known = &mut self.flows[flow as usize];
        if known.is_reading[host] && known.unread[host] >= enough {
            known.is_reading[host] = false;
            let cpu = self.hosts[host].cpu_of_flow(flow);
            self.push(host, cpu, Task::Read { flow }, calendar);
        }
    }

    pub(super) fn wake_writer(&mut self, flow: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let Pattern::Stream { window_bytes } = self.setup.work.pattern else { return };
        let bytes = self.setup.work.message_bytes;
        let known = &mut self.flows[flow as usize];
        let has_room = known.under_way() == 0 || known.under_way() + bytes <= window_bytes;
        if known.is_blocked && has_room && !self.is_over {
            known.is_blocked = false;
            let cpu = self.hosts[CLIENT].cpu_of_flow(flow);
            self.push(CLIENT, cpu, Task::Write { flow }, calendar);
        }
    }
}
