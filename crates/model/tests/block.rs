//! A host with a disk: exact timelines, and what must hold whatever its jobs do.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use des::Span;
use model::Link;
use model::block::{
    BlockError, BlockExperiment, BlockHost, Media, NvmeAdapter, Outcome, Paths, Service, Setup, run,
    run_on_heap, run_window,
};
use model::fio::{Access, Engine, Job};
use model::host::{Cpus, DmaPath, InvalidationMode, LineTransfer, Locking, MappingCost, Stage};
use proptest::prelude::*;
use std::error::Error;

fn ns(ns: u64) -> Span {
    Span::from_ns(ns)
}

/// Instructions take 0.5 ns, the link carries 4 bytes in a nanosecond, a channel one.
fn host(dma_path: DmaPath) -> BlockHost {
    BlockHost {
        cpus: Cpus {
            cores: 4,
            cores_per_node: 2,
            core_capacity: vec![1.0],
            instruction_ns: 0.5,
            wake: ns(1_000),
            line: LineTransfer { same_node: ns(100), other_node: ns(200) },
        },
        paths: Paths {
            submit: 4_000.0,
            submit_page: 600.0,
            queue: 80.0,
            interrupt: 500.0,
            complete: 1_000.0,
            complete_page: 100.0,
            sleep: 2_000.0,
            wake: 3_000.0,
        },
        adapter: NvmeAdapter {
            link: Link {
                generation: 2.try_into().unwrap(),
                lanes: 8,
                payload_bytes_max: 256,
                read_request_bytes_max: 512,
                completion_boundary_bytes: 64,
                overhead_share: 0.0,
            },
            queues: 4,
            queue_entries: 1024,
            transfer_bytes_max: 128 << 10,
            latency: ns(2_000),
            read: ns(500),
            posted: ns(250),
            coalescing: Span::ZERO,
            coalesced: 1,
        },
        media: Media {
            channels: 8,
            dies: 32,
            page_bytes: 4096,
            read: Service::Fixed(ns(3_000)),
            write: Service::Fixed(ns(50_000)),
            channel_bytes_per_second: 1e9,
            buffer_bytes: 0,
        },
        dma_path,
        mapping: MappingCost {
            direct_instructions: 100.0,
            window_instructions: 200.0,
            locked_instructions: 300.0,
            translated_instructions: 400.0,
            submit_instructions: 200.0,
            invalidation: ns(700),
            hypercall: ns(600),
            entry: ns(10),
            lock_lines: 1.0,
        },
        entry_instructions: 250.0,
    }
}

fn job(access: Access, block_bytes: u64, depth: u32, threads: u32) -> Job {
    let engine = if depth == 1 { Engine::Sync } else { Engine::Asynchronous };
    Job { name: "job".to_owned(), access, is_random: true, block_bytes, depth, threads, engine }
}

fn setup(dma_path: DmaPath, jobs: Vec<Job>) -> Setup {
    Setup { host: host(dma_path), jobs, warm_up: Span::from_ms(1), measured: Span::from_ms(4), seed: 1 }
}

fn strict() -> DmaPath {
    DmaPath::Translated { mode: InvalidationMode::Strict }
}

fn lazy() -> DmaPath {
    DmaPath::Translated { mode: InvalidationMode::Lazy }
}

/// From the doorbell to where the adapter has the command: 28 bytes; 24 bytes of a request, 64 with 20 more.
const TOLD_NS: u64 = 7 + 250 + 6 + 500 + 21;
/// 40 bytes of a completion, 28 of an interrupt; then what the CPU does until the thread has it.
const BACK_NS: u64 = 10 + 7 + 250;

#[test]
fn a_read_takes_the_sum_of_its_parts_to_the_picosecond() {
    let asks = (4_000 + 100 + 80) / 2;
    let disk = 2_000 + 3_000 + 4_096;
    // Packets of 256 bytes with 24 more.
    let data = (4_096 + 16 * 24) / 4;
    let ends = (500 + 1_000 + 100 + 3_000) / 2;
    let outcome = run(&setup(DmaPath::Direct, vec![job(Access::Read, 4096, 1, 1)])).unwrap();
    let expected = asks + TOLD_NS + disk + data + BACK_NS + ends;
    assert_eq!(outcome.all.latency_mean.as_ps(), expected * 1_000);
    assert_eq!(outcome.depth_mean, 1.0, "one is always in flight");
}

/// 32 pages: their list, 256 requests for them, and 32 dies of which each channel has four.
#[test]
fn a_long_write_takes_the_sum_of_its_parts_to_the_picosecond() {
    let bytes = 128 << 10;
    let asks = (4_000 + 31 * 600 + 100 + 80) / 2;
    let list = 6 + 500 + (31 * 8 + 20) / 4;
    let data = 256 * 24 / 4 + 500 + (bytes + 512 * 20) / 4;
    let ends = (500 + 1_000 + 31 * 100 + 100 + 3_000) / 2;
    let latency = |setup: &Setup| run(setup).unwrap().all.latency_mean.as_ps();
    let mut setup = setup(DmaPath::Direct, vec![job(Access::Write, bytes, 1, 1)]);
    let expected = asks + TOLD_NS + list + data + 2_000 + 4 * 4_096 + 50_000 + BACK_NS + ends;
    assert_eq!(latency(&setup), expected * 1_000);
    setup.host.media.buffer_bytes = 64 << 20;
    assert_eq!(latency(&setup), (expected - 4 * 4_096 - 50_000) * 1_000, "the buffer has it");
}

/// What a mapping and its end take, in steps of one CPU; entries beyond the first on both ways.
#[test]
fn a_mapping_adds_its_price() {
    let latency = |dma_path, bytes| {
        run(&setup(dma_path, vec![job(Access::Read, bytes, 1, 1)])).unwrap().all.latency_mean.as_ps()
    };
    let direct = latency(DmaPath::Direct, 4096);
    assert_eq!(latency(strict(), 4096) - direct, 300 * 500 * 2 + 200 * 500 + 700_000);
    let [short, long] =
        [4096, 32 << 10].map(|bytes| latency(strict(), bytes) - latency(DmaPath::Direct, bytes));
    assert_eq!(long - short, 2 * 7 * 250 * 500);
    for locking in [Locking::Table, Locking::Bitmap, Locking::Pools] {
        let window = DmaPath::Window { bytes: 1 << 30, locking };
        assert_eq!(latency(window, 4096) - direct, 2 * ((200 + 300 - 100) * 500 + 600_000), "{locking:?}");
    }
}

fn holds(setup: &Setup) -> Outcome {
    check(setup, run(setup).unwrap())
}

/// What must hold whatever the jobs do.
fn check(setup: &Setup, outcome: Outcome) -> Outcome {
    let totals = outcome.totals;
    assert_eq!(totals.asked, totals.got, "{outcome:?}");
    assert_eq!(totals.commands, totals.completions, "{outcome:?}");
    assert!(totals.asked > 0 && totals.commands >= totals.asked, "{outcome:?}");
    assert_eq!(totals.mappings, totals.commands, "each has its own");
    assert_eq!((totals.mappings_left, outcome.cpus.mappings_refused), (0, 0), "{outcome:?}");
    for part in outcome.parts(setup) {
        assert!((0.0..=1.000_001).contains(&part.busy_share), "{part:?} {outcome:?}");
    }
    let stages: f64 = outcome.cpus.busy_cpus_by_stage.iter().sum();
    assert!((stages - outcome.cpus.busy_cpus).abs() < 1e-6, "{outcome:?}");
    let all: f64 = outcome.jobs.iter().map(|job| job.per_second).sum();
    assert!((all / outcome.all.per_second.max(1.0) - 1.0).abs() < 1e-9 || all == 0.0, "{outcome:?}");
    let may_be: u32 = setup.jobs.iter().map(|job| job.depth * job.threads).sum();
    assert!(outcome.depth_mean <= f64::from(may_be) + 1e-9, "{outcome:?}");
    let got = outcome.all.per_second * outcome.window.measured.as_ps_f64() / 1e12;
    // Those that are in flight when measuring begins and ends count little if there are many others.
    if got > 100.0 * f64::from(may_be) {
        let in_flight = outcome.all.per_second * outcome.all.latency_mean.as_ps_f64() / 1e12;
        assert!((in_flight / outcome.depth_mean - 1.0).abs() < 0.03, "{in_flight} {outcome:?}");
    }
    outcome
}

fn dma_paths() -> impl Strategy<Value = DmaPath> {
    let locking = prop::sample::select(vec![Locking::Table, Locking::Bitmap, Locking::Pools]);
    prop_oneof![
        Just(DmaPath::Direct),
        Just(strict()),
        Just(lazy()),
        locking.prop_map(|locking| DmaPath::Window { bytes: 1 << 30, locking }),
    ]
}

fn jobs() -> impl Strategy<Value = Job> {
    let access = prop_oneof![
        Just(Access::Read),
        Just(Access::Write),
        (0..=100_u32).prop_map(|read_percent| Access::Mixed { read_percent }),
    ];
    (access, any::<bool>(), 1..600_u64, 1..20_u32, 1..8_u32).prop_map(
        |(access, is_random, sectors, depth, threads)| Job {
            is_random,
            ..job(access, sectors * 512, depth, threads)
        },
    )
}

prop_compose! {
    fn setups()(
        dma_path in dma_paths(), jobs in prop::collection::vec(jobs(), 1..4), queues in 1..6_u32, is_smt: bool,
        coalescing_ns in prop_oneof![Just(0), 0..50_000_u64], coalesced in 1..20_u32, dies in 1..40_u32,
        page_shift in 9..16_u32, is_exponential: bool, is_buffered: bool, seed: u64,
    ) -> Setup {
        let mut setup = setup(dma_path, jobs);
        (setup.seed, setup.measured) = (seed, Span::from_ms(2));
        let host = &mut setup.host;
        if is_smt {
            host.cpus.core_capacity = vec![1.0, 1.4];
        }
        (host.adapter.queues, host.adapter.coalesced) = (queues, coalesced);
        host.adapter.coalescing = ns(coalescing_ns);
        (host.media.dies, host.media.page_bytes) = (dies, 1_u64 << page_shift);
        host.media.buffer_bytes = if is_buffered { 2 << 20 } else { 0 };
        if is_exponential {
            host.media.read = Service::Exponential(ns(3_000));
            host.media.write = Service::Exponential(ns(20_000));
        }
        setup
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn whatever_they_do(setup in setups()) {
        match run(&setup) {
            Ok(outcome) => {
                let outcome = check(&setup, outcome);
                prop_assert_eq!(&outcome, &run_on_heap(&setup).unwrap(), "the same seed gives the same, by any calendar");
            }
            Err(BlockError::Unsteady(unsteady)) => prop_assert!(!unsteady.drifts.is_empty()),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn the_media_bound_reads() {
    let mut setup = setup(DmaPath::Direct, vec![Job { is_random: false, ..job(Access::Read, 4096, 64, 4) }]);
    setup.host.media.read = Service::Fixed(ns(100_000));
    let rate = holds(&setup).all.per_second;
    let bound = 32.0 / 100e-6;
    assert!((0.97 * bound..=1.001 * bound).contains(&rate), "{rate} of {bound}");
}

#[test]
fn the_drain_rate_of_a_full_buffer_bounds_writes() {
    let mut setup = setup(DmaPath::Direct, vec![job(Access::Write, 4096, 64, 4)]);
    (setup.host.media.buffer_bytes, setup.warm_up) = (2 << 20, Span::from_ms(10));
    let full = holds(&setup);
    let bound = 32.0 / 50e-6;
    assert!((0.8 * bound..=1.01 * bound).contains(&full.all.per_second), "{full:?}");
    // As long as it has room, a write takes as long as without any media.
    setup.jobs = vec![job(Access::Write, 4096, 1, 4)];
    let room = holds(&setup);
    assert!(room.all.latency_p99_9 < ns(20_000) && full.all.latency_p50 > ns(200_000), "{room:?} {full:?}");
}

/// A buffer that fills takes writes as fast as the link brings them. That is not what the media sustains, so the window
/// is extended until it is full.
#[test]
fn a_buffer_that_fills_is_not_a_steady_state() {
    let mut setup = setup(DmaPath::Direct, vec![job(Access::Write, 128 << 10, 16, 4)]);
    setup.host.media.buffer_bytes = 32 << 20;
    let filling = run_window(&setup).unwrap();
    let outcome = holds(&setup);
    let bound = 32.0 * 4096.0 / 50e-6;
    let rate = |outcome: &Outcome| outcome.all.gigabytes_per_second * 1e9;
    assert!(rate(&filling) > 1.2 * bound, "{filling:?}");
    assert!((0.98 * bound..=1.01 * bound).contains(&rate(&outcome)), "{outcome:?}");
    assert!(outcome.window.is_extended && !filling.window.is_extended, "{outcome:?}");
}

/// One die with exponential times, and a fixed time for everything else: a closed network of a queue and a delay. Mean
/// value analysis (Reiser and Lavenberg, 1980) gives its throughput exactly, and the interval over five seeds holds it.
#[test]
fn a_closed_queue_has_the_throughput_of_mean_value_analysis() {
    let with = |depth, read, seed| {
        let mut setup = setup(DmaPath::Direct, vec![job(Access::Read, 4096, depth, 1)]);
        let host = &mut setup.host;
        host.paths = Paths {
            submit: 0.0,
            submit_page: 0.0,
            queue: 0.0,
            interrupt: 0.0,
            complete: 0.0,
            complete_page: 0.0,
            sleep: 0.0,
            wake: 0.0,
        };
        (host.cpus.wake, host.mapping.direct_instructions) = (Span::ZERO, 0.0);
        host.adapter.latency = ns(100_000);
        (host.media.dies, host.media.channels, host.media.channel_bytes_per_second) = (1, 1, 1e12);
        host.media.read = read;
        (setup.measured, setup.seed) = (Span::from_ms(2_000), seed);
        run(&setup).unwrap().all
    };
    let delay = with(1, Service::Fixed(Span::ZERO), 1).latency_mean.as_ps_f64();
    let service = 20e6;
    let (mut queued, mut expected) = (0.0, 0.0);
    for depth in 1..=8_u32 {
        let stay = service * (1.0 + queued);
        expected = f64::from(depth) / (stay + delay);
        queued = expected * stay;
    }
    let rates = [1, 2, 3, 4, 5].map(|seed| with(8, Service::Exponential(ns(20_000)), seed).per_second / 1e12);
    let estimate = toll::Estimate::of(&rates).unwrap();
    let (low, high) = (estimate.low.unwrap(), estimate.high.unwrap());
    assert!((low..=high).contains(&expected), "{expected}: {estimate:?}");
    assert!((high - low) / expected < 0.01, "{estimate:?}");
}

#[test]
fn the_link_bounds_reads() {
    let mut setup = setup(DmaPath::Direct, vec![job(Access::Read, 128 << 10, 16, 4)]);
    (setup.host.media.channel_bytes_per_second, setup.measured) = (1e12, Span::from_ms(40));
    let outcome = holds(&setup);
    // Each with its completion, its interrupt, and requests for the command and its list.
    let most = 4e9 * 131_072.0 / f64::from(131_072 + 512 * 24 + 40 + 28 + 2 * 24);
    let bytes = outcome.all.gigabytes_per_second * 1e9;
    assert!((0.99 * most..=1.01 * most).contains(&bytes), "{bytes} of {most}");
}

#[test]
fn dma_paths_have_their_order() {
    let rate = |dma_path| {
        let mut setup = setup(dma_path, vec![job(Access::Read, 4096, 32, 4)]);
        setup.host.adapter.link.lanes = 32;
        holds(&setup).all.per_second
    };
    let [direct, lazy, strict] = [DmaPath::Direct, lazy(), strict()].map(rate);
    assert!(direct > 1.02 * lazy && lazy > 1.1 * strict, "{direct} {lazy} {strict}");
    // One waits at a time, for 700 ns and 200 instructions.
    assert!(strict < 1e9 / 800.0);
}

#[test]
fn interrupts_held_back_are_fewer_and_later() {
    let with = |coalescing, coalesced| {
        let mut setup = setup(DmaPath::Direct, vec![job(Access::Read, 4096, 16, 1)]);
        (setup.host.adapter.coalescing, setup.host.adapter.coalesced) = (coalescing, coalesced);
        holds(&setup)
    };
    let (each, held) = (with(Span::ZERO, 1), with(ns(100_000), 8));
    let per = |outcome: &Outcome| outcome.all.per_second / outcome.interrupts_per_second;
    assert!(per(&held) >= 8.0 && per(&each) < 4.0, "{} {}", per(&held), per(&each));
    // One alone waits for all of the time.
    let alone = |coalescing, coalesced| {
        let mut setup = setup(DmaPath::Direct, vec![job(Access::Read, 4096, 1, 1)]);
        (setup.host.adapter.coalescing, setup.host.adapter.coalesced) = (coalescing, coalesced);
        run(&setup).unwrap().all.latency_mean
    };
    assert_eq!(alone(ns(100_000), 8), alone(Span::ZERO, 1) + ns(100_000));
}

#[test]
fn cpus_that_share_a_queue_wait_for_its_lock() {
    let with = |queues| {
        let mut setup = setup(DmaPath::Direct, vec![job(Access::Read, 4096, 32, 4)]);
        (setup.host.adapter.queues, setup.host.paths.queue) = (queues, 2_000.0);
        holds(&setup)
    };
    let (own, shared) = (with(4), with(1));
    let waits = |outcome: &Outcome| outcome.cpus.busy_cpus_by_stage[Stage::Lock as usize];
    assert!(waits(&own) < 0.01 && waits(&shared) > 0.1, "{own:?} {shared:?}");
    assert!(own.all.per_second > shared.all.per_second);
}

/// Each job has what it would have alone, as long as nothing is scarce; and is told apart.
#[test]
fn jobs_are_distinguished() {
    let [reads, writes] =
        [job(Access::Read, 4096, 1, 1), Job { is_random: false, ..job(Access::Write, 8192, 1, 1) }];
    let quick = |jobs| {
        let mut setup = setup(DmaPath::Direct, jobs);
        setup.host.media.write = Service::Fixed(ns(100));
        holds(&setup)
    };
    let both = quick(vec![reads.clone(), writes.clone()]);
    for (of_both, job) in both.jobs.iter().zip([reads, writes]) {
        let alone = quick(vec![job]).all;
        assert!((of_both.per_second / alone.per_second - 1.0).abs() < 0.1, "{of_both:?} {alone:?}");
    }
    let mixed =
        holds(&setup(DmaPath::Direct, vec![job(Access::Mixed { read_percent: 70 }, 4096, 8, 2)])).totals;
    let share = mixed.stored_bytes as f64 / (mixed.stored_bytes + mixed.fetched_bytes) as f64;
    assert!((share - 0.7).abs() < 0.02, "{share}");
}

#[test]
fn a_long_read_is_several_commands() {
    let totals = holds(&setup(strict(), vec![job(Access::Read, 1 << 20, 4, 1)])).totals;
    assert_eq!(totals.commands, 8 * totals.asked);
    assert_eq!(totals.stored_bytes, totals.asked << 20);
}

const FILE: &str = include_str!("../../../experiments/nvme.toml");

#[test]
fn the_example_matches_its_source() {
    let alone = FILE.replace("iodepth=8", "iodepth=1").replace("numjobs=16", "numjobs=1");
    let read = |text: &str| BlockExperiment::read(text, "x.toml").unwrap().run().unwrap();
    let write = alone.replace("rw=randread", "rw=randwrite");
    let [reads, writes] = [read(&alone), read(&write)].map(|answer| answer.all.latency_mean_ns.unwrap().mean);
    // Published are 12 to 20 us and 16 us.
    assert!((12e3..20e3).contains(&reads) && (8e3..16e3).contains(&writes), "{reads} {writes}");
    let many =
        FILE.replace("rw=randread", "rw=randwrite").replace("warm_up_us = 12000", "warm_up_us = 100000");
    let rate = read(&many).all.operations_per_second.mean;
    assert!((rate / 170e3 - 1.0).abs() < 0.05, "{rate}, which the dies' time was calibrated by");
}

/// An error with those behind it, as it is told to people.
fn chain(error: &dyn Error) -> String {
    let behind = error.source().map(|source| format!(": {}", chain(source)));
    format!("{error}{}", behind.unwrap_or_default())
}

#[test]
fn values_of_no_host_are_errors_with_their_place() {
    let check = |from: &str, to: &str, expected: &str| {
        assert!(FILE.contains(from), "{from}");
        let text = FILE.replacen(from, to, 1);
        let told = match BlockExperiment::read(&text, "x.toml") {
            Err(error) => chain(&error),
            Ok(experiment) => chain(&experiment.setup().unwrap_err()),
        };
        // The line of what was changed.
        let line = FILE.split(from).next().unwrap_or_default().matches('\n').count() + 1;
        let place = if expected.starts_with(": ") { format!(":{line}") } else { String::new() };
        assert_eq!(told, format!("x.toml{place}{expected}"));
    };
    check("queues = 32", "queues = 0", ": adapter.queues is 0; expected 1 to 65535");
    check("lanes = 4", "lanes = 0", ": adapter.link.lanes is 0; expected 1 to 32");
    check("dies = 128", "dies = 0", ": media.dies is 0; expected 1 to 65536");
    check(
        "buffer_bytes = 8388608",
        "buffer_bytes = 1",
        ": media.buffer_bytes is 1; expected 0, or 2097152 to 2^40",
    );
    check("wake_ns = 1000", "wake_ns = nan", ": cpus.wake_ns is NaN; expected 0 to 1e9");
    check("iodepth=8", "iodepth=x", ", jobs:7: iodepth is x; expected a number from 1 to 2147483647");
    check(
        "numjobs=16",
        "numjobs=4097",
        ", jobs: the jobs have 4097 threads, the sum of their numjobs; expected at most 4096",
    );
    let told = ", jobs: a queue of the adapter has up to 1024 commands in flight (iodepth of all threads whose CPUs share it, split \
                by adapter.transfer_bytes_max); expected at most 1023, one less than adapter.queue_entries";
    check("iodepth=8", "iodepth=1024", told);
    let told = ", jobs: the jobs have 4294971392 bytes in flight (bs x iodepth x numjobs); expected at most 4294967296";
    check("iodepth=8\nnumjobs=16", "iodepth=1048577", told);
}
