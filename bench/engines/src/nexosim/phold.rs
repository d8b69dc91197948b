//! PHOLD on NeXosim.
//!
//! All processes are one model, which schedules its own events: of the ways that NeXosim has, the one with the least to do
//! for each.

use crate::cpu_seconds;
use des::Phold;
use nexosim::{
    model::{Context, Model, schedulable},
    simulation::{Mailbox, SimInit, Simulation},
    time::MonotonicTime,
};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// A step handles all events of its time, so they are counted where they happen.
static HANDLED: AtomicU64 = AtomicU64::new(0);

#[derive(Serialize, Deserialize)]
struct Processes {
    #[serde(skip)]
    phold: Option<Phold>,
    pending: u32,
}

#[Model]
impl Processes {
    #[nexosim(init)]
    async fn init(&mut self, cx: &Context<Self>) {
        let Some(phold) = &mut self.phold else { return };
        for (delay, to) in phold.first(self.pending) {
            schedule(cx, delay, to);
        }
    }

    #[nexosim(schedulable)]
    async fn receive(&mut self, process: u32, cx: &Context<Self>) {
        HANDLED.store(HANDLED.load(Relaxed) + 1, Relaxed);
        if let Some((delay, to)) = self.phold.as_mut().and_then(|phold| phold.receive(process)) {
            schedule(cx, delay, to);
        }
    }
}

/// Its time has nanoseconds, ours picoseconds: the number is the same.
fn schedule(cx: &Context<Processes>, delay: des::Span, to: u32) {
    cx.schedule_event(Duration::from_nanos(delay.as_ps()), schedulable!(Processes::receive), to)
        .expect("delays are positive");
}

fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux says it");
    line.trim_end_matches("kB").trim().parse::<u64>().expect("a number of KiB") * 1024
}

/// Runs until so many events have been handled in all.
fn handle(simulation: &mut Simulation, events: u64) {
    while HANDLED.load(Relaxed) < events {
        simulation.step().expect("there is always an event");
    }
}

pub fn run(pending: u32, events: u32) {
    let model = Processes { phold: Some(Phold::new(pending.min(1024), 1)), pending };
    let before = resident_bytes();
    let simulation = SimInit::with_num_threads(1).add_model(model, Mailbox::new(), "processes");
    let mut simulation = simulation.init(MonotonicTime::EPOCH).expect("nothing is wrong with the model");
    handle(&mut simulation, 2 * u64::from(pending));
    let (from, begun_at, begun) = (HANDLED.load(Relaxed), simulation.time(), cpu_seconds());
    handle(&mut simulation, from + u64::from(events));
    let seconds = cpu_seconds() - begun;
    let elapsed = simulation.time().duration_since(begun_at).as_nanos();
    println!("{seconds} {} {} {elapsed}", HANDLED.load(Relaxed) - from, resident_bytes() - before);
}
