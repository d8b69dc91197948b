//! What happens in PHOLD, event by event.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use des::{Calendar, Heap, Model, Phold, Queue, Simulation, Time, Wheel};

/// Of the times and places of all that happened, a hash (FNV-1a).
fn trace<Q: Queue<u32>>(processes: u32, seed: u64, pending: u32, events: u64) -> u64 {
    let mut simulation = Phold::new(processes, seed).simulation::<Q>(pending);
    let mut hash = 0xcbf2_9ce4_8422_2325;
    for _ in 0..events {
        let entry = simulation.calendar.pop().unwrap();
        for byte in entry.time.as_ps().to_le_bytes().into_iter().chain(entry.event.to_le_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        simulation.model.handle(entry.time, entry.event, &mut simulation.calendar);
    }
    assert_eq!(simulation.calendar.pending(), pending as usize);
    hash
}

#[test]
fn is_the_same_with_the_reference() {
    for seed in 0..5 {
        for (processes, pending) in [(1, 1), (3, 17), (64, 64), (100, 1_000), (1_000, 20_000)] {
            let wheel = trace::<Wheel<u32>>(processes, seed, pending, 30_000);
            let heap = trace::<Heap<u32>>(processes, seed, pending, 30_000);
            assert_eq!(wheel, heap, "seed {seed}, {processes} processes, {pending} pending");
        }
    }
}

#[test]
fn is_the_same_on_every_platform() {
    assert_eq!(trace::<Wheel<u32>>(256, 1, 1_024, 200_000), 0xf826_d9c6_f049_9cf3);
    assert_ne!(trace::<Wheel<u32>>(256, 2, 1_024, 200_000), trace::<Wheel<u32>>(256, 1, 1_024, 200_000));
}

#[test]
fn every_message_arrives() {
    let mut simulation = Phold::new(10, 3).simulation::<Wheel<u32>>(100);
    assert_eq!(simulation.run_events(1_000), 1_000);
    assert_eq!(simulation.model.received().sum::<u64>(), 1_000);
    assert_eq!(simulation.handled(), 1_000);
    assert!(Phold::new(0, 0).simulation::<Heap<u32>>(0).calendar.pop().is_none());
}

/// Counts down.
struct Fuse(Vec<Time>);

impl Model for Fuse {
    type Event = u8;

    fn handle(&mut self, now: Time, left: u8, calendar: &mut Calendar<u8, impl Queue<u8>>) {
        self.0.push(now);
        if left > 0 {
            calendar.schedule_in(des::Span::from_ps(10), left - 1);
        }
    }
}

#[test]
fn runs_until_a_time_so_many_events_or_the_end() {
    let mut simulation = Simulation::new(Fuse(Vec::new()));
    simulation.calendar.schedule_in(des::Span::ZERO, 5);
    simulation.run_until(Time::from_ps(20));
    assert_eq!((simulation.handled(), simulation.now()), (3, Time::from_ps(20)));
    simulation.run_until(Time::from_ps(25));
    assert_eq!((simulation.handled(), simulation.now()), (3, Time::from_ps(25)));
    assert_eq!((simulation.run_events(1), simulation.now()), (1, Time::from_ps(30)));
    simulation.run();
    assert_eq!(simulation.run_events(5), 0);
    assert_eq!(simulation.model.0, [0, 10, 20, 30, 40, 50].map(Time::from_ps));
}
