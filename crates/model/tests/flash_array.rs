//! A host with an array of flash: exact timelines, and what must hold whatever its jobs do and whichever cables are pulled.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use des::Span;
use model::flash_array::{
    Array, ArrayAdapter, Change, Fault, FlashArrayError, FlashArrayExperiment, IoInterface, Job, Library,
    LockKind, Module, Multipath, Outcome, PathChange, PathId, Policy, SECTOR_BYTES, Service, Setup, Stack,
    Translation, run, run_on_heap,
};
use model::host::{Cpus, DmaPath, LineTransfer, Locking, MappingCost};
use proptest::prelude::*;
use std::error::Error;

fn ns(ns: u64) -> Span {
    Span::from_ns(ns)
}

fn module(submit: f64, complete: f64) -> Module {
    Module { submit, complete, locked_share: 0.5, lines: 3.0 }
}

fn job(way: IoInterface, threads: u32, depth: u32) -> Job {
    Job { way, threads, depth, read_share: 1.0, io_bytes: SECTOR_BYTES }
}

/// Instructions take 0.5 ns, a cable carries a byte in a nanosecond, a bus four.
fn setup(jobs: Vec<Job>) -> Setup {
    Setup {
        cpus: Cpus {
            cores: 4,
            cores_per_node: 2,
            core_capacity: vec![1.0],
            instruction_ns: 0.5,
            wake: ns(1_000),
            line: LineTransfer { same_node: ns(100), other_node: ns(200) },
        },
        stack: Stack {
            system_call: 3_000.0,
            file_system: 1_000.0,
            disk: module(2_000.0, 800.0),
            protocol: None,
            adapter: module(600.0, 200.0),
            interrupt: 500.0,
            sleep: 2_000.0,
            wake: 3_000.0,
        },
        library: Library { submit: 1_200.0, complete: 800.0, poll: 100.0 },
        translation: None,
        adapters: 2,
        adapter: ArrayAdapter {
            ports: 2,
            kernel_queues: 8,
            queues_max: 508,
            latency: ns(2_000),
            memory: ns(1_500),
            posted: ns(250),
            bus_bytes_per_second: 4e9,
            port_bytes_per_second: 1e9,
            wire: ns(100),
            detection: ns(30_000),
        },
        multipath: Multipath { policy: Policy::ShortestQueue, health_check: Span::from_us(200) },
        array: Array {
            modules: 12,
            read: Service { latency: ns(20_000), per_second: 2e6 },
            write: Service { latency: ns(15_000), per_second: 1e6 },
        },
        disks: 16,
        jobs,
        faults: Vec::new(),
        warm_up: Span::from_ms(1),
        measured: Span::from_ms(4),
        seed: 1,
    }
}

/// With one queue, a protocol's module, and a table of translations.
fn fibre_channel(jobs: Vec<Job>) -> Setup {
    let mut setup = setup(jobs);
    (setup.adapter.kernel_queues, setup.adapter.queues_max) = (1, 1);
    setup.stack.protocol = Some(module(1_000.0, 400.0));
    let cost = MappingCost {
        window_instructions: 200.0,
        locked_instructions: 300.0,
        hypercall: ns(600),
        entry: ns(10),
        direct_instructions: 0.0,
        translated_instructions: 0.0,
        submit_instructions: 0.0,
        invalidation: Span::ZERO,
        lock_lines: 1.0,
    };
    let dma_path = DmaPath::Window { bytes: 1 << 30, locking: Locking::Bitmap };
    Setup { translation: Some(Translation { dma_path, cost }), ..setup }
}

/// One CPU: no cache line moves.
fn alone(setup: Setup) -> Setup {
    Setup { cpus: Cpus { cores: 1, ..setup.cpus.clone() }, ..setup }
}

/// From the doorbell to the completion in memory, of a read: the adapter, the wire both ways with the data, the array, the bus.
const READ_NS: u64 = 250 + 2_000 + 1_500 + 2 * 100 + 4_096 + 20_000 + 1_024 + 250;
const ASK_NS: u64 = (3_000 + 1_000 + 2_000 + 600) / 2;
const END_NS: u64 = (500 + 200 + 800 + 3_000) / 2;

#[test]
fn a_read_takes_the_sum_of_its_parts_to_the_picosecond() {
    let outcome = run(&alone(setup(vec![job(IoInterface::Kernel, 1, 1)]))).unwrap();
    assert_eq!(outcome.all.latency_mean, ns(ASK_NS + READ_NS + END_NS));
    let outcome = run(&alone(fibre_channel(vec![job(IoInterface::Kernel, 1, 1)]))).unwrap();
    let protocol = (1_000 + 400) / 2;
    let mapped_and_unmapped = 2 * ((200 + 300) / 2 + 600);
    assert_eq!(outcome.all.latency_mean, ns(ASK_NS + READ_NS + END_NS + protocol + mapped_and_unmapped));
}

/// Data comes from memory before it is sent, by a request of its own, and nothing comes back.
#[test]
fn a_write_takes_the_sum_of_its_parts_to_the_picosecond() {
    let writes = Job { read_share: 0.0, ..job(IoInterface::Kernel, 1, 1) };
    let outcome = run(&alone(setup(vec![writes]))).unwrap();
    assert_eq!(outcome.all.latency_mean, ns(ASK_NS + READ_NS + 1_500 - 20_000 + 15_000 + END_NS));
}

/// Sixteen pages are one call that writes and one that clears.
#[test]
fn each_page_beyond_the_first_takes_an_entry() {
    let latency = |pages: u64| {
        let long = Job { io_bytes: pages * SECTOR_BYTES, ..job(IoInterface::Kernel, 1, 1) };
        let [with, without] =
            [fibre_channel(vec![long]), Setup { translation: None, ..fibre_channel(vec![long]) }];
        let [with, without] =
            [with, without].map(|setup| run(&alone(setup)).unwrap().all.latency_mean.as_ps());
        with - without
    };
    assert_eq!(latency(16) - latency(1), 2 * 15 * 10_000);
}

#[test]
fn a_process_pays_no_kernel_and_finds_its_answer_when_it_looks() {
    let outcome = run(&alone(setup(vec![job(IoInterface::User, 1, 1)]))).unwrap();
    let least = 600 + READ_NS + 400;
    let latency = outcome.all.latency_mean.as_ps();
    assert!((least * 1_000..(least + 50) * 1_000).contains(&latency), "{latency}");
    assert_eq!(outcome.interrupts_per_second, 0.0);
    assert!((outcome.cores_used - 1.0).abs() < 1e-9, "it looks all the time");
}

/// Billions of looks in vain are counted, and aren't events.
#[test]
fn looks_in_vain_take_instructions_and_no_events() {
    let mut setup = alone(setup(vec![job(IoInterface::User, 1, 1)]));
    setup.array.read.latency = Span::from_ms(20);
    let outcome = holds(&setup);
    assert!(outcome.events < 3_000, "{}", outcome.events);
    let each_second = 1e9 / 0.5;
    let [partition, _] = outcome.instructions_per_second;
    assert!((partition / each_second - 1.0).abs() < 1e-3, "{partition}");
    assert!((outcome.cores_used - 1.0).abs() < 1e-9);
}

#[test]
fn cables_carry_their_capacity_and_no_more() {
    let mut setup = setup(vec![job(IoInterface::User, 8, 64)]);
    setup.cpus.cores = 8;
    setup.adapter.port_bytes_per_second = 800e6;
    let outcome = run(&setup).unwrap();
    let cables = 4.0 * 800e6 / 4096.0;
    assert!((outcome.all.per_second / cables - 1.0).abs() < 1e-3, "{}", outcome.all.per_second);
}

#[test]
fn a_lock_that_is_always_held_gives_one_for_each_time_it_is() {
    let mut setup = fibre_channel(vec![job(IoInterface::Kernel, 64, 1)]);
    setup.cpus = Cpus {
        cores: 64,
        line: LineTransfer { same_node: Span::ZERO, other_node: Span::ZERO },
        ..setup.cpus
    };
    setup.stack.adapter.locked_share = 1.0;
    (setup.adapters, setup.array.read.per_second) = (1, 1e8);
    let outcome = run(&setup).unwrap();
    let held_ns = (600.0 + 200.0) / 2.0 + 2.0 * (500.0 / 2.0 + 600.0);
    assert!((outcome.all.per_second * held_ns / 1e9 - 1.0).abs() < 0.02, "{}", outcome.all.per_second);
    assert_eq!(outcome.most_waited().unwrap().kind, LockKind::Queue);
    let queue = outcome.locks.iter().find(|lock| lock.kind == LockKind::Queue).unwrap();
    assert!(queue.busy_share > 0.98, "{queue:?}");
}

fn pulled(path: u32, from_us: u64, to_us: Option<u64>) -> Vec<Fault> {
    let fault = |at, change| Fault { at: Span::from_us(at), path: PathId(path), change };
    let plugged = to_us.map(|at| fault(at, Change::Plugged));
    [fault(from_us, Change::Pulled)].into_iter().chain(plugged).collect()
}

#[test]
fn a_cable_that_is_pulled_loses_nothing_and_is_used_again() {
    for (kind, jobs) in [
        (IoInterface::Kernel, job(IoInterface::Kernel, 16, 4)),
        (IoInterface::User, job(IoInterface::User, 4, 16)),
    ] {
        let faults = pulled(1, 2_000, Some(3_000));
        let outcome = holds(&Setup { faults, ..setup(vec![jobs]) });
        let log: Vec<_> = outcome.log.iter().map(|entry| (entry.what, entry.path)).collect();
        assert_eq!(log, [(PathChange::Failed, PathId(1)), (PathChange::Recovered, PathId(1))], "{kind:?}");
        let at_us = |entry: usize| outcome.log[entry].at.as_ps() / 1_000_000;
        assert!(
            (2_000..2_100).contains(&at_us(0)) && (3_000..3_400).contains(&at_us(1)),
            "{:?}",
            outcome.log
        );
        assert_eq!(outcome.log[0].ios, outcome.totals.given_up);
        assert!(outcome.totals.given_up > 0 && outcome.totals.waiting == 0, "{kind:?}");
    }
}

/// The only path of all: everything waits until it is back.
#[test]
fn without_a_path_everything_waits_for_one() {
    for way in [IoInterface::Kernel, IoInterface::User] {
        let mut setup =
            Setup { adapters: 1, faults: pulled(0, 2_000, Some(3_000)), ..setup(vec![job(way, 4, 2)]) };
        setup.adapter.ports = 1;
        let outcome = holds(&setup);
        assert_eq!(outcome.totals.waiting, 0);
        assert_eq!(outcome.log[1].ios, 8, "all that were in flight: {:?}", outcome.log);
        setup.faults = pulled(0, 2_000, None);
        let outcome = holds(&setup);
        assert_eq!((outcome.totals.waiting, outcome.totals.asked - outcome.totals.got), (8, 8));
    }
}

/// A cable is out for a microsecond, while the array has all commands: their answers have no link to come by.
#[test]
fn commands_on_a_failed_link_are_lost() {
    let faults = pulled(0, 2_000, Some(2_001));
    let mut setup = Setup { adapters: 1, faults, ..setup(vec![job(IoInterface::Kernel, 8, 1)]) };
    setup.adapter.ports = 1;
    setup.array.read.latency = Span::from_ms(1);
    let outcome = holds(&setup);
    assert_eq!((outcome.totals.given_up, outcome.totals.waiting), (8, 0));
    assert_eq!(
        outcome.log.iter().map(|entry| entry.what).collect::<Vec<_>>(),
        [PathChange::Failed, PathChange::Recovered]
    );
}

/// What was on a full cable comes late, and is not held against the path again.
#[test]
fn a_full_cable_that_is_out_for_a_moment_fails_once() {
    let writes = Job { read_share: 0.0, ..job(IoInterface::Kernel, 192, 8) };
    let faults = pulled(0, 2_000, Some(2_200));
    let mut setup = Setup { adapters: 1, faults, ..setup(vec![writes]) };
    (setup.adapter.ports, setup.cpus.cores) = (1, 24);
    (setup.warm_up, setup.measured) = (Span::from_us(3_000), Span::from_ms(10));
    let outcome = holds(&setup);
    let log: Vec<_> = outcome.log.iter().map(|entry| entry.what).collect();
    assert_eq!(log, [PathChange::Failed, PathChange::Recovered]);
    assert_eq!(outcome.log[0].ios, outcome.totals.given_up);
    let cable = 1e9 / 4096.0;
    assert!((outcome.all.per_second / cable - 1.0).abs() < 0.02, "{}", outcome.all.per_second);
}

#[test]
fn a_path_that_failed_carries_again_once_it_is_back() {
    let busy = |faults| {
        let mut setup = Setup { faults, ..setup(vec![job(IoInterface::Kernel, 4, 1)]) };
        setup.multipath.policy = Policy::FailOver;
        (setup.warm_up, setup.measured) = (Span::from_ms(4), Span::from_ms(4));
        run(&setup).unwrap().cable_busy_shares[1]
    };
    // With the first path alone in use, it has it all; while it is out, the second has.
    let [never, back, gone] =
        [busy(Vec::new()), busy(pulled(0, 1_000, Some(2_000))), busy(pulled(0, 1_000, None))];
    assert!((back / never - 1.0).abs() < 0.02, "{never} {back}");
    assert!((gone / never - 1.0).abs() < 0.02, "{never} {gone}");
}

#[test]
fn unknown_names_are_refused() {
    let said = |setup: &Setup| run(setup).unwrap_err().to_string();
    let users = fibre_channel(vec![job(IoInterface::User, 3, 1)]);
    assert_eq!(
        said(&users),
        "3 threads need their own queue of an adapter; expected at most 0, those that the kernel does not use"
    );
    let mut many = setup(vec![job(IoInterface::User, 1_001, 1)]);
    assert!(matches!(run(&many), Err(FlashArrayError::Queues { threads: 1_001, queues: 1_000 })));
    many.adapter.kernel_queues = 509;
    assert!(said(&many).starts_with("adapter.kernel_queues is 509; expected"), "{}", said(&many));
    let lost = Setup { faults: pulled(4, 0, None), ..setup(Vec::new()) };
    assert_eq!(said(&lost), "a fault's path is 4; expected an existing path");
    let odd = Job { io_bytes: 5_000, ..job(IoInterface::Kernel, 1, 1) };
    assert!(said(&setup(vec![odd])).contains("io_bytes is 5000"));
}

fn holds(setup: &Setup) -> Outcome {
    check(setup, run(setup).unwrap())
}

/// What must hold whatever its jobs do.
fn check(setup: &Setup, outcome: Outcome) -> Outcome {
    let totals = outcome.totals;
    assert_eq!(totals.asked, totals.got + totals.waiting, "{outcome:?}");
    assert_eq!(totals.commands, totals.answered + totals.given_up, "{outcome:?}");
    assert_eq!((totals.mappings_left, outcome.cpus.mappings_refused), (0, 0), "{outcome:?}");
    for part in outcome.parts() {
        assert!((0.0..=1.000_001).contains(&part.busy_share), "{part:?} {outcome:?}");
    }
    let stages: f64 = outcome.cpus.busy_cpus_by_stage.iter().sum();
    assert!((stages - outcome.cpus.busy_cpus).abs() < 1e-6, "{outcome:?}");
    let cores: f64 = outcome.cpus.cores_by_busy_threads.iter().sum();
    assert!((cores - f64::from(setup.cpus.cores)).abs() < 1e-6, "{outcome:?}");
    assert!(outcome.cores_used <= f64::from(setup.cpus.cores) + 1e-6, "{outcome:?}");
    let may_be: u32 = setup.jobs.iter().map(|job| job.depth * job.threads).sum();
    assert!(outcome.depth_mean <= f64::from(may_be) + 1e-9, "{outcome:?}");
    let got = outcome.all.per_second * outcome.window.measured.as_ps_f64() / 1e12;
    // Those that are in flight when measuring begins and ends count little if there are many others.
    if setup.faults.is_empty() && got > 100.0 * f64::from(may_be) {
        let in_flight = outcome.all.per_second * outcome.all.latency_mean.as_ps_f64() / 1e12;
        assert!((in_flight / outcome.depth_mean - 1.0).abs() < 0.03, "{in_flight} {outcome:?}");
    }
    outcome
}

fn jobs() -> impl Strategy<Value = Job> {
    let way = prop::sample::select(vec![IoInterface::Kernel, IoInterface::User]);
    (way, 1..8_u32, 1..12_u32, 0.0..=1.0, 1..20_u64).prop_map(|(way, threads, depth, read_share, sectors)| {
        let io_bytes = sectors * SECTOR_BYTES;
        Job { way, threads, depth, read_share, io_bytes }
    })
}

fn faults(paths: u32) -> impl Strategy<Value = Vec<Fault>> {
    let change = prop::sample::select(vec![Change::Pulled, Change::Plugged]);
    let fault = (0..5_000_u64, 0..paths, change).prop_map(|(us, path, change)| Fault {
        at: Span::from_us(us),
        path: PathId(path),
        change,
    });
    prop::collection::vec(fault, 0..6)
}

prop_compose! {
    fn setups()(
        jobs in prop::collection::vec(jobs(), 0..4), faults in faults(2), adapters in 1..4_u32, kernel_queues in 1..20_u32,
        is_smt: bool, has_windows: bool, has_protocol: bool, modules in 1..20_u32, disks in 1..40_u32, lines in 0.0..10.0,
        policy in prop::sample::select(vec![Policy::FailOver, Policy::RoundRobin, Policy::ShortestQueue]), seed: u64,
    ) -> Setup {
        let base = fibre_channel(jobs);
        let mut setup = Setup { faults, adapters, disks, seed, ..base };
        (setup.adapter.kernel_queues, setup.adapter.queues_max) = (kernel_queues, 508);
        setup.array.modules = modules;
        setup.multipath.policy = policy;
        setup.stack.adapter.lines = lines;
        setup.measured = Span::from_ms(2);
        if is_smt { setup.cpus.core_capacity = vec![1.0, 1.5]; }
        if !has_windows { setup.translation = None; }
        if !has_protocol { setup.stack.protocol = None; }
        setup
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_request_is_served_or_waits(setup in setups()) {
        match run(&setup) {
            Ok(outcome) => {
                let outcome = check(&setup, outcome);
                prop_assert_eq!(&outcome, &run(&setup).unwrap(), "the same seed");
                let on_heap = run_on_heap(&setup).unwrap();
                prop_assert_eq!(&outcome, &on_heap, "any calendar");
            }
            Err(FlashArrayError::Unsteady(unsteady)) => prop_assert!(!unsteady.drifts.is_empty()),
            Err(error) => panic!("{error}"),
        }
    }

    /// Whatever numbers there are, something is said of them.
    #[test]
    fn no_numbers_are_too_odd(
        counts in prop::array::uniform6(prop_oneof![0..4_u32, Just(u32::MAX)]), rate in prop::num::f64::ANY,
        instructions in prop_oneof![prop::num::f64::ANY, 0.0..1e3], share in prop::num::f64::ANY, span_ns in prop_oneof![0..1_000_u64, Just(u64::MAX)],
    ) {
        let mut setup = setup(vec![Job { read_share: share, ..job(IoInterface::User, counts[0].min(3), counts[1]) }]);
        (setup.adapters, setup.disks, setup.array.modules) = (counts[2], counts[3], counts[4]);
        setup.adapter.ports = counts[5];
        setup.adapter.bus_bytes_per_second = rate;
        setup.library.poll = instructions;
        setup.stack.disk.lines = share;
        setup.adapter.latency = ns(span_ns);
        setup.measured = Span::from_us(50);
        setup.warm_up = Span::from_us(110);
        let _ = run(&setup);
    }
}

const FILE: &str = include_str!("../../../experiments/flash-array.toml");

#[test]
fn the_example_loses_nothing_and_uses_its_cable_again() {
    let experiment = FlashArrayExperiment::read(FILE, "x.toml").unwrap();
    holds(&experiment.setup());
    let answer = experiment.run().unwrap();
    let log: Vec<_> = answer.log.iter().map(|entry| (entry.what, entry.path)).collect();
    assert_eq!((log, answer.waiting), (vec![("failed", 1), ("recovered", 1)], 0));
}

/// The path lengths of the module whose line begins so.
fn path_lengths<'t>(file: &'t str, module: &str) -> &'t str {
    let (_, line) = file.split_once(module).unwrap();
    line.split_once("locked_share").unwrap().0
}

/// With what it says of Fibre Channel, it is the study's machine.
#[test]
fn the_example_s_fibre_channel_section_is_valid() {
    let text = FILE.replace("# protocol =", "protocol =").replace("kernel_queues = 8", "kernel_queues = 1");
    let text =
        text.replace("queues_max = 508", "queues_max = 1").replace("memory_ns = 1500", "memory_ns = 550");
    let (adapter, protocol) = (path_lengths(FILE, "\nadapter = "), path_lengths(FILE, "# protocol = "));
    let text = text.replace(adapter, protocol);
    let (head, tail) = text.split_once("# [mapping]\n").unwrap();
    let (mapping, tail) = tail.split_once("\n\n").unwrap();
    let mapping = mapping.replace("# ", "");
    let text = format!("{head}[mapping]\n{mapping}\n\n{tail}").replace("read_share = 0.7", "read_share = 1");
    let (text, _) = text.split_once("[[faults]]").unwrap();
    let answer = FlashArrayExperiment::read(text, "x.toml").unwrap().run().unwrap();
    let rate = answer.all.operations_per_second.mean;
    assert!((rate / 555.8e3 - 1.0).abs() < 0.02, "{rate}");
    assert_eq!(answer.limit, "a queue's lock");
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
        let told = chain(&FlashArrayExperiment::read(&FILE.replacen(from, to, 1), "x.toml").unwrap_err());
        let line = FILE.split(from).next().unwrap_or_default().matches('\n').count() + 1;
        assert!(told.starts_with(&format!("x.toml:{line}: {expected}")), "{line}: {told}");
    };
    check("cores = 24", "cores = 0", "cpus.cores is 0; expected 1 to 4096");
    check("kernel_queues = 8", "kernel_queues = 509", "adapter.kernel_queues is 509; expected 1 to 508");
    check("locked_share = 0.5", "locked_share = 1.5", "stack.disk.locked_share is 1.5; expected 0 to 1");
    check(
        "poll_instructions = 100",
        "poll_instructions = 0",
        "library.poll_instructions is 0; expected 10 to 1e9",
    );
    check(
        "port_megabytes_per_second = 800",
        "port_megabytes_per_second = nan",
        "adapter.port_megabytes_per_second is NaN",
    );
    check(
        "reads_per_second = 1100000",
        "reads_per_second = -1",
        "array.reads_per_second is -1; expected 1 to 1e12",
    );
    check(
        "health_check_us = 500",
        "health_check_us = 0",
        "multipath.health_check_us is 0; expected 1 to 1e7",
    );
    check("io_bytes = 4096", "io_bytes = 4097", "loads.io_bytes is 4097; expected a multiple of 4096");
    check("read_share = 0.7", "read_share = 7", "loads.read_share is 7; expected 0 to 1");
    check("path = 1", "path = 4", "faults.path is 4; expected less than adapter.count times adapter.ports");
    check("change = \"pulled\"", "change = \"cut\"", "unknown variant `cut`");
    check("disks = 32", "discs = 32", "unknown field `discs`");
}
