//! Clean-ups of send rings: what was sent is unmapped and freed, and the ring has descriptors again.

use super::{CLEAN_UP_BURSTS_MAX, Event, NetworkModel};
use crate::host::Step;
use crate::network::task::{Effect, Task};
use des::{Calendar, Queue, Span};

impl NetworkModel<'_> {
    /// The last frame of a burst has left: it can be cleaned up.
    pub(super) fn burst_sent(
        &mut self,
        host: usize,
        burst: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let ring = self.ring_of_burst(host, burst);
        self.hosts[host].rings.send[ring as usize].sent.push_back(burst);
        self.free_inline(host, ring);
        self.wake_ring(host, ring, calendar);
        self.start_send_timer(host, ring, calendar);
    }

    /// Frees inline bursts at the head of a ring. Nothing of them is mapped, so they need no clean-up: the path that
    /// sends a packet includes what taking such descriptors back costs (mlx4's `mlx4_en_xmit_poll`). Behind a burst
    /// with mappings they wait for its clean-up, since a ring is freed in order.
    fn free_inline(&mut self, host: usize, ring: u32) {
        let rings = &mut self.hosts[host].rings;
        let known = &mut rings.send[ring as usize];
        let is_inline = |burst: &mut u32| rings.bursts[*burst].is_inline;
        let mut freed = Vec::new();
        while let Some(burst) = known.sent.pop_front_if(is_inline) {
            freed.push(burst);
        }
        for burst in freed {
            known.free(rings.bursts.take(burst).descriptors);
        }
    }

    /// Starts a clean-up of sent bursts, at once if there are enough, else after a delay.
    fn start_send_timer(
        &mut self,
        host: usize,
        ring: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let state = &mut self.hosts[host];
        let adapter = &state.adapter;
        let known = &mut state.rings.send[ring as usize];
        if known.cleanup_is_pending || known.sent.is_empty() {
            return;
        }
        if known.sent.len() >= adapter.send_frames as usize || adapter.send_delay == Span::ZERO {
            self.raise_send_interrupt(host, ring, calendar);
        } else if let Some(timer) = known.moderation.begin() {
            calendar.schedule_in(adapter.send_delay, Event::SendTimer { host: host as u8, ring, timer });
        }
    }

    /// Raises a send ring's interrupt, unless a clean-up is pending.
    pub(super) fn raise_send_interrupt(
        &mut self,
        host: usize,
        ring: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let known = &mut self.hosts[host].rings.send[ring as usize];
        if !known.cleanup_is_pending && !known.sent.is_empty() {
            known.cleanup_is_pending = true;
            known.moderation.end();
            let cpu = self.hosts[host].cpu_of_ring(ring);
            self.schedule_task(host, cpu, Task::CleanUp { ring, by_interrupt: true }, calendar);
        }
    }

    /// Unmaps and frees the next sent burst, until there is none or the task has done enough.
    pub(super) fn clean_up_next(&mut self, host: usize, cpu: u32, ring: u32, left: u32) {
        self.insert_steps(host, cpu, |machine, steps| {
            let state = &mut machine.hosts[host];
            let known = &mut state.rings.send[ring as usize];
            let next = if left > 0 { known.sent.pop_front() } else { None };
            let Some(burst) = next else {
                return steps.push(Step::Then(Effect::CleanedUp { ring }));
            };
            let burst = state.rings.bursts.take(burst);
            known.reclaim(burst.descriptors);
            for mapped in burst.mapped {
                state.mapping.unmap(cpu, mapped, steps);
            }
            if !burst.is_inline {
                steps.extend(machine.freed_step(&burst.packet));
            }
            steps.push(Step::Then(Effect::CleanUpNext { ring, left: left - 1 }));
        });
    }

    /// A clean-up ends: its descriptors are free, which may wake the ring. Cleans up again without an interrupt while
    /// a task's worth of bursts is left.
    pub(super) fn cleaned_up(
        &mut self,
        host: usize,
        ring: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        self.hosts[host].rings.send[ring as usize].free_reclaimed();
        self.free_inline(host, ring);
        let known = &mut self.hosts[host].rings.send[ring as usize];
        known.cleanup_is_pending = known.sent.len() >= CLEAN_UP_BURSTS_MAX as usize;
        let is_pending = known.cleanup_is_pending;
        self.wake_ring(host, ring, calendar);
        if is_pending {
            let cpu = self.hosts[host].cpu_of_ring(ring);
            return self.schedule_task(host, cpu, Task::CleanUp { ring, by_interrupt: false }, calendar);
        }
        self.start_send_timer(host, ring, calendar);
    }
}
