//! Lookups of contexts, and fetches of those that miss.

use super::{Application, Event, Fetch, InfinibandModel, Job, MemoryKind, NONE, Stage, schedule_at};
use crate::infiniband::cache::CacheLookup;
use crate::infiniband::hca::{Qp, object};
use crate::infiniband::icm::{PAGE_BYTES, Table};
use crate::infiniband::message::{Buffer, Verb};
use des::{Calendar, Queue, Span, Time};

/// A range of the context tables.
struct Object {
    address: u64,
    bytes: u64,
    /// The access modifies it.
    writes: bool,
}

impl<A: Application> InfinibandModel<A> {
    /// Continues a job through all of its contexts that are present.
    pub(super) fn advance(&mut self, now: Time, job: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        while let Some(Object { address, bytes, writes }) = self.next_context(&self.jobs[job]) {
            let node = self.jobs[job].node;
            let fetch = Fetch { node, address, bytes, missing: 0, first: job, last: job };
            let fetch = self.fetches.put(fetch);
            let found = self.find_in_cache(node, address, bytes, writes, fetch);
            match found {
                CacheLookup::Here => {
                    self.fetches.free(fetch);
                    self.jobs[job].step += 1;
                }
                CacheLookup::Coming(other) => {
                    self.fetches.free(fetch);
                    return self.wait_for(job, other);
                }
                CacheLookup::Missing { lines, written_back } => {
                    let line_bytes = self.setup.adapter.cache.line_bytes;
                    self.fetches[fetch].missing = lines * line_bytes;
                    self.write_back(now, node, written_back * line_bytes);
                    let job = &mut self.jobs[job];
                    (job.is_owner, job.next) = (true, NONE);
                    return self.fetch_when_allowed(now, fetch, calendar);
                }
            }
        }
        self.has_contexts(now, job, calendar);
    }

    /// Looks a context up in a node's cache, and counts it.
    fn find_in_cache(
        &mut self,
        node: u16,
        address: u64,
        bytes: u64,
        writes: bool,
        fetch: u32,
    ) -> CacheLookup {
        let cache = &mut self.nodes[usize::from(node)].cache;
        let filled = cache.filled;
        let found = cache.lookup(address, bytes, writes, fetch);
        let contexts = &mut self.actions.contexts;
        contexts.filled += cache.filled - filled;
        contexts.looked_up += u64::from(!matches!(found, CacheLookup::Coming(_)));
        if let CacheLookup::Missing { lines, .. } = found {
            contexts.missed += 1;
            contexts.fetched_bytes += lines * self.setup.adapter.cache.line_bytes;
        }
        found
    }

    /// Queues a job behind others that wait for a fetch.
    fn wait_for(&mut self, job: u32, fetch: u32) {
        let waiting = &mut self.jobs[job];
        (waiting.is_owner, waiting.next) = (false, NONE);
        let last = std::mem::replace(&mut self.fetches[fetch].last, job);
        self.jobs[last].next = job;
    }

    /// Writes evicted dirty lines back to the tables.
    fn write_back(&mut self, now: Time, node: u16, bytes: u64) {
        if bytes > 0 {
            self.nodes[usize::from(node)].written_back_bytes += bytes;
            self.write_memory(now, node, self.setup.contexts, 0, bytes);
        }
    }

    /// Starts a fetch, or queues it if the adapter has as many in progress as it can.
    fn fetch_when_allowed(
        &mut self,
        now: Time,
        fetch: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let node = &mut self.nodes[usize::from(self.fetches[fetch].node)];
        if node.fetching < self.setup.adapter.fetches_max {
            node.fetching += 1;
            self.fetch(now, fetch, calendar);
        } else {
            node.waiting_fetches.push_back(fetch);
        }
    }

    /// Reads missing contexts from host memory or the adapter's own.
    fn fetch(&mut self, now: Time, number: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let fetch = self.fetches[number];
        let node = &mut self.nodes[usize::from(fetch.node)];
        node.fetched_bytes += fetch.missing;
        match self.setup.contexts {
            MemoryKind::Host => {
                let requested = node.lanes.request(now, 0, fetch.missing);
                schedule_at(calendar, requested + self.setup.host.read, Event::FetchAnswered(number));
            }
            MemoryKind::Adapter => {
                let taken = self.setup.adapter.transfer(fetch.missing);
                schedule_at(
                    calendar,
                    node.memory.occupy(now, taken) + self.setup.adapter.memory,
                    Event::Fetched(number),
                );
            }
        }
    }

    /// Host memory has answered: the data crosses the bus.
    pub(super) fn fetch_answered(
        &mut self,
        now: Time,
        number: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let fetch = self.fetches[number];
        let here = self.nodes[usize::from(fetch.node)].lanes.completion(now, 0, fetch.missing);
        schedule_at(calendar, here, Event::Fetched(number));
    }

    /// A fetch has arrived: continues the waiting jobs in order.
    pub(super) fn fetched(
        &mut self,
        now: Time,
        number: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let Fetch { node, address, bytes, first, .. } = self.fetches[number];
        let at = &mut self.nodes[usize::from(node)];
        at.cache.arrived(address, bytes, number);
        at.fetching -= 1;
        if let Some(waiting) = at.waiting_fetches.pop_front() {
            at.fetching += 1;
            self.fetch(now, waiting, calendar);
        }
        self.fetches.free(number);
        let mut next = first;
        while next != NONE {
            let job = next;
            let waiting = &mut self.jobs[job];
            next = std::mem::replace(&mut waiting.next, NONE);
            // For another job's fetch, the needed lines may differ from those that came.
            waiting.step += u32::from(std::mem::take(&mut waiting.is_owner));
            self.advance(now, job, calendar);
        }
    }

    /// All contexts are present: occupies the engine if the job needs one, else continues at once.
    fn has_contexts(&mut self, now: Time, job: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let adapter = &self.setup.adapter;
        let Job { stage, node, .. } = self.jobs[job];
        let node = &mut self.nodes[usize::from(node)];
        let worked = match stage {
            Stage::Begin => {
                Some(node.send.occupy(now, adapter.send_gap) + rest(adapter.send, adapter.send_gap))
            }
            Stage::Request | Stage::WritePacket => Some(
                node.receive.occupy(now, adapter.receive_gap) + rest(adapter.receive, adapter.receive_gap),
            ),
            Stage::Packet | Stage::Accept | Stage::Notify | Stage::Complete => None,
        };
        match worked {
            Some(worked) => schedule_at(calendar, worked, Event::Worked(job)),
            None => self.worked(now, job, calendar),
        }
    }

    /// The next context that a job needs; `None` once it has all.
    fn next_context(&self, job: &Job) -> Option<Object> {
        let [asking, other] = self.ends(job.message);
        let work = &self.messages[job.message].work;
        match job.stage {
            Stage::Begin => match job.step {
                0 => Some(self.context(Table::Qp, asking.number.into(), true)),
                step => self.queue(asking.node, asking.region, step - 1),
            },
            Stage::Request => match job.step {
                0 => Some(self.context(Table::Qp, other.number.into(), true)),
                1 => Some(self.context(Table::ReadBuffer, other.number.into(), true)),
                _ => None,
            },
            Stage::Packet => {
                let from = if work.verb == Verb::Read { work.remote } else { work.local };
                self.pages(job, from, job.step)
            }
            Stage::Accept => match job.step {
                0 => Some(self.context(Table::Qp, other.number.into(), true)),
                step => self.queue(other.node, other.region, step - 1),
            },
            Stage::WritePacket => {
                let [_, to] = self.data_ends(job.message);
                let into = if work.verb == Verb::Read { work.local } else { work.remote };
                match job.step {
                    0 => Some(self.context(Table::Qp, to.number.into(), true)),
                    step => self.pages(job, into, step - 1),
                }
            }
            Stage::Notify => self.completion_queue_context(other, job.step),
            Stage::Complete => match job.step {
                0 => Some(self.context(Table::Qp, asking.number.into(), true)),
                step => self.completion_queue_context(asking, step - 1),
            },
        }
    }

    /// The bytes of an object in a table, to be looked up.
    fn context(&self, table: Table, number: u64, writes: bool) -> Object {
        let (address, bytes) = object(&self.layout, &self.setup.adapter.profile, table, number);
        Object { address, bytes, writes }
    }

    /// Contexts for an access to a queue buffer: its region, and one translation.
    fn queue(&self, node: u16, region: u32, step: u32) -> Option<Object> {
        let region = self.nodes[usize::from(node)].regions[region as usize];
        match step {
            0 => Some(self.context(Table::Region, region.context, false)),
            1 => Some(self.translation(region.segment, 0)),
            _ => None,
        }
    }

    /// Contexts for an access to a completion queue: its own, then those of its buffer.
    fn completion_queue_context(&self, qp: Qp, step: u32) -> Option<Object> {
        match step {
            0 => Some(self.context(Table::Cq, qp.cq.into(), true)),
            step => {
                let cq = self.nodes[usize::from(qp.node)].cqs[qp.cq as usize];
                self.queue(qp.node, cq.region, step - 1)
            }
        }
    }

    /// Contexts for a packet's data: its region, and a translation per page.
    fn pages(&self, job: &Job, buffer: Buffer, step: u32) -> Option<Object> {
        let region = self.nodes[usize::from(job.node)].regions[buffer.region as usize];
        let Some(page) = step.checked_sub(1) else {
            return Some(self.context(Table::Region, region.context, false));
        };
        let first = buffer.offset + job.offset;
        let page = first / PAGE_BYTES + u64::from(page);
        let last = (first + job.bytes.max(1) - 1) / PAGE_BYTES;
        (page <= last).then(|| self.translation(region.segment, page))
    }

    /// The bytes of a page's translation, to be looked up.
    fn translation(&self, segment: u64, page: u64) -> Object {
        let address = self.layout.translation(segment, page);
        Object { address, bytes: self.layout.translation_bytes(), writes: false }
    }
}

/// The rest of a duration after a part of it; zero if the part is longer.
fn rest(all: Span, part: Span) -> Span {
    Span::from_ps(all.as_ps().saturating_sub(part.as_ps()))
}
