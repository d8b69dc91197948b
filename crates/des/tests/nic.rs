//! The NIC model that engines are compared by: whether it does what it says.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../examples/engines/nic/mod.rs"]
mod nic;

use des::{Heap, Model, Queue, RunningStats, Simulation, Time, Wheel};
use nic::{Event, Message, Nic, Parameters, Work};

fn parameters() -> Parameters {
    toml::from_str(include_str!("../../../bench/nic.toml")).unwrap()
}

fn simulation<Q: Queue<Event>>(flows: u32, seed: u64) -> Simulation<Nic, Q> {
    Nic::new(&parameters(), flows, seed).unwrap().simulation()
}

/// All that happens, and when.
fn trace<Q: Queue<Event>>(flows: u32, seed: u64, events: usize) -> Vec<(Time, Event)> {
    let mut simulation = simulation::<Q>(flows, seed);
    let step = || {
        let entry = simulation.calendar.pop()?;
        simulation.model.handle(entry.time, entry.event, &mut simulation.calendar);
        Some((entry.time, entry.event))
    };
    std::iter::from_fn(step).take(events).collect()
}

#[test]
fn is_the_same_with_the_reference() {
    for flows in [1, 7, 16, 40, 1_024] {
        for seed in 0..3 {
            let (wheel, heap) =
                (trace::<Wheel<Event>>(flows, seed, 40_000), trace::<Heap<Event>>(flows, seed, 40_000));
            assert_eq!(wheel.len(), 40_000);
            assert!(wheel == heap, "{flows} flows, seed {seed}");
        }
    }
}

/// Of one flow, which never waits for another, each part of the round trip is known but the peer's, which has a known mean.
#[test]
fn one_flow_takes_the_sum_of_its_parts() {
    const FRAMES: u64 = 10_000;
    let parameters = parameters();
    let lines_ps: u64 = Message::ALL
        .into_iter()
        .map(|message| message.span(&parameters).as_ps() + message.way().line(&parameters).latency_ns * 1_000)
        .sum();
    let cpu = &parameters.cpu;
    let others_ns = 2 * parameters.memory_read_ns
        + parameters.moderation.wait_ns
        + cpu.write_ns
        + cpu.interrupt_ns
        + cpu.poll_ns;
    let fixed_ps = lines_ps + others_ns * 1_000;

    let mut simulation = simulation::<Wheel<Event>>(1, 1);
    let mut echoes_ns = RunningStats::default();
    for _ in 0..FRAMES {
        let before = simulation.model.tally;
        while simulation.model.tally.frames == before.frames {
            assert!(simulation.step(), "it goes on for ever");
        }
        let round_trip_ps = simulation.model.tally.round_trips_ps - before.round_trips_ps;
        let echo_ps = u64::try_from(round_trip_ps).unwrap().checked_sub(fixed_ps).unwrap();
        echoes_ns.add(echo_ps as f64 / 1e3);
    }
    let off = (echoes_ns.mean().unwrap() - parameters.echo_ns as f64) / echoes_ns.standard_error().unwrap();
    assert!(off.abs() < 4.0, "{off} standard errors");
    // Of an exponential distribution, mean and standard deviation are the same.
    let deviation = echoes_ns.variance().unwrap().sqrt() / parameters.echo_ns as f64;
    assert!((deviation - 1.0).abs() < 0.05, "{deviation}");
    // 9 messages with 2 each, 2 reads, 3 pieces of work, a timer, a thought, an echo.
    assert_eq!(simulation.handled(), FRAMES * 26);
}

/// Little's law: frames in flight, counted at each moment, are frames, each counted for as long as it was in flight.
#[test]
fn littles_law_holds_and_no_frame_is_lost() {
    for flows in [1, 16, 300] {
        let mut simulation = simulation::<Wheel<Event>>(flows, 5);
        let mut began = vec![None; flows as usize];
        let mut area_ps = 0;
        for _ in 0..100_000 {
            let (frames, last) = (simulation.model.tally.frames, simulation.now());
            let entry = simulation.calendar.pop().unwrap();
            simulation.model.handle(entry.time, entry.event, &mut simulation.calendar);
            let in_flight = began.iter().flatten().count();
            area_ps += in_flight as u128 * u128::from(entry.time.since(last).unwrap().as_ps());
            match entry.event {
                Event::Thought { flow } => {
                    let before = began[flow as usize].replace(entry.time);
                    assert_eq!(before, None, "a thread thinks when its frame is back");
                }
                Event::Worked { work: Work::Poll, flow } => {
                    began[flow as usize].take().expect("what is polled was written");
                    assert_eq!(simulation.model.tally.frames, frames + 1);
                }
                _ => assert_eq!(simulation.model.tally.frames, frames),
            }
        }
        let now = simulation.now();
        let still_ps = began.into_iter().flatten().map(|began| u128::from(now.since(began).unwrap().as_ps()));
        assert_eq!(area_ps, simulation.model.tally.round_trips_ps + still_ps.sum::<u128>());
    }
}

/// Each line carries what frames and interrupts need, no more and no less but for what is in flight.
#[test]
fn each_line_carries_the_messages_that_frames_need() {
    const FLOWS: u32 = 64;
    let mut simulation = simulation::<Wheel<Event>>(FLOWS, 2);
    simulation.run_until(Time::from_ps(50_000_000_000));
    let (now, nic) = (simulation.now(), &simulation.model);
    let arrivals = |way: usize| nic.lines[way].usage(now).unwrap().arrivals;
    let near = |count: u64, times: u64| {
        let frames = nic.tally.frames * times;
        assert!(count >= frames && count <= frames + times * u64::from(FLOWS), "{count} for {frames}");
    };
    let [down, up, out, back] = [0, 1, 2, 3].map(arrivals);
    near(down, 3);
    near(out, 1);
    near(back, 1);
    // A CPU writes and polls each frame; the rest is interrupts.
    let tasks: u64 = nic.cpus.iter().map(|cpu| cpu.usage(now).unwrap().arrivals).sum();
    let fetches: u64 = nic.send_rings.iter().map(|ring| ring.usage(now).unwrap().arrivals).sum();
    near(fetches, 1);
    let interrupts = tasks - 2 * nic.tally.frames;
    let in_flight = 5 * u64::from(FLOWS);
    assert!(
        (up - 3 * nic.tally.frames).abs_diff(interrupts) <= in_flight,
        "{up} up, {interrupts} interrupts"
    );
    assert!(interrupts > nic.tally.frames / 8 && interrupts <= nic.tally.frames, "{interrupts} interrupts");
    // The throughput of a closed loop: flows over thinking and round trip.
    let frames_per_ps = nic.tally.frames as f64 / now.as_ps() as f64;
    let round_trip_ps = nic.tally.round_trips_ps as f64 / nic.tally.frames as f64;
    let law = f64::from(FLOWS) / (parameters().think(FLOWS).as_ps_f64() + round_trip_ps);
    assert!((frames_per_ps / law - 1.0).abs() < 0.02, "{frames_per_ps}, {law}");
}
