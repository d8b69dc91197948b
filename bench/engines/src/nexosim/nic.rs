//! The NIC model (docs/internals/des.md) on NeXosim: a model for each box of it, ports for the lines that join them.
//!
//! ```text
//!            down                  out
//!          ┌──────►┐             ┌──────►┐
//!     Host │       │ Adapter     │       │ Peer
//!          └◄──────┘             └◄──────┘
//!            up                    back
//! ```
//!
//! An event is counted when something happens that was scheduled; handing on through a port is none. Its time has nanoseconds,
//! ours picoseconds: the number is the same. So are the random numbers, and with them all that happens.

mod adapter;
mod host;
mod line;
#[path = "../../../../crates/des/examples/engines/nic/message.rs"]
mod message;
#[path = "../../../../crates/des/examples/engines/nic/parameters.rs"]
mod parameters;
mod peer;

use crate::cpu_seconds;
use adapter::Adapter;
use host::Host;
use line::Line;
use message::{Message, Way};
use nexosim::{
    simulation::{Mailbox, SimInit, Simulation},
    time::MonotonicTime,
};
use parameters::Parameters;
use peer::Peer;
use serde::{Deserialize, Serialize};
use std::{
    fs,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

pub struct Task {
    pub flows: u32,
    pub warm_up: u64,
    pub frames: u64,
    pub seed: u64,
}

/// What goes through the ports. An interrupt is a ring's, all else a flow's.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Transfer {
    message: Message,
    flow: u32,
}

/// Counts, of all models together, as there is one thread.
struct Count(AtomicU64);

impl Count {
    fn add(&self, number: u64) {
        self.0.store(self.get() + number, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

static EVENTS: Count = Count(AtomicU64::new(0));
static FRAMES: Count = Count(AtomicU64::new(0));
static ROUND_TRIPS_PS: Count = Count(AtomicU64::new(0));

/// It takes no delay of nothing.
fn delay(span: des::Span) -> Duration {
    Duration::from_nanos(span.as_ps().max(1))
}

fn assemble(parameters: &Parameters, task: &Task) -> Simulation {
    let mut host = Host::new(parameters, task);
    let mut adapter = Adapter::new(parameters);
    let mut peer = Peer::new(parameters, task);
    let [mut down, mut up, mut out, mut back] =
        [Way::Down, Way::Up, Way::Out, Way::In].map(|way| Line::new(parameters, way));
    let (host_box, adapter_box, peer_box) = (Mailbox::new(), Mailbox::new(), Mailbox::new());
    let (down_box, up_box, out_box, back_box) =
        (Mailbox::new(), Mailbox::new(), Mailbox::new(), Mailbox::new());

    host.down.connect(Line::send, &down_box);
    down.output.connect(Adapter::receive, &adapter_box);
    adapter.up.connect(Line::send, &up_box);
    // Moderation is the adapter's, and counts what has landed at the host.
    host.interrupts.connect(Line::send, &up_box);
    up.output.connect(Host::receive, &host_box);
    adapter.out.connect(Line::send, &out_box);
    out.output.connect(Peer::receive, &peer_box);
    peer.back.connect(Line::send, &back_box);
    back.output.connect(Adapter::receive, &adapter_box);

    SimInit::with_num_threads(1)
        .add_model(host, host_box, "host")
        .add_model(adapter, adapter_box, "adapter")
        .add_model(peer, peer_box, "peer")
        .add_model(down, down_box, "down")
        .add_model(up, up_box, "up")
        .add_model(out, out_box, "out")
        .add_model(back, back_box, "back")
        .init(MonotonicTime::EPOCH)
        .expect("nothing is wrong with the models")
}

pub fn run(parameters: &str, task: &Task) {
    let text = fs::read_to_string(parameters).unwrap_or_else(|error| panic!("{parameters}: {error}"));
    let parameters: Parameters =
        toml::from_str(&text).unwrap_or_else(|error| panic!("{parameters}: {error}"));
    let mut simulation = assemble(&parameters, task);
    let mut until = |frames: u64| {
        while FRAMES.get() < frames {
            simulation.step().expect("there is always an event");
        }
    };
    until(task.warm_up);
    let (frames, events, round_trips_ps) = (FRAMES.get(), EVENTS.get(), ROUND_TRIPS_PS.get());
    let begun = cpu_seconds();
    until(frames + task.frames);
    let seconds = cpu_seconds() - begun;
    let round_trips_ns = (ROUND_TRIPS_PS.get() - round_trips_ps) as f64 / 1e3;
    println!("{seconds} {} {} {round_trips_ns}", FRAMES.get() - frames, EVENTS.get() - events);
}
