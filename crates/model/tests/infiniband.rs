//! InfiniBand adapters: what must hold whatever they do.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use des::Span;
use model::Link;
use model::infiniband::icm::{Layout, Profile};
use model::infiniband::mpi::{Library, Op, Program, run_program, run_program_on_heap};
use model::infiniband::nas::Kernel;
use model::infiniband::trace::Trace;
use model::infiniband::{
    AdaptersExperiment, Bus, CacheShape, Hca, HcaHost, Load, Measured, MemoryKind, Pattern, PciX,
    Replacement, Setup, Verb, Wire, run, run_on_heap,
};
use proptest::prelude::*;

fn link(generation: u8) -> Bus {
    Bus::Pcie(Link {
        generation: generation.try_into().unwrap(),
        lanes: 8,
        payload_bytes_max: 128,
        read_request_bytes_max: 512,
        completion_boundary_bytes: 64,
        overhead_share: 0.1,
    })
}

fn pcix() -> Bus {
    Bus::PciX(PciX { clock_hz: 133.33e6, bytes_per_clock: 8, overhead_clocks: 8, burst_bytes_max: 512 })
}

fn setup(bus: Bus, contexts: MemoryKind, cache_bytes: u64) -> Setup {
    let ns = Span::from_ns;
    Setup {
        host: HcaHost { bus, read: ns(500), post: ns(300), poll: ns(100) },
        adapter: Hca {
            send: ns(800),
            send_gap: ns(300),
            receive: ns(700),
            receive_gap: ns(300),
            works_max: 8,
            packets_max: 8,
            fetches_max: 4,
            cache: CacheShape { bytes: cache_bytes, line_bytes: 64, ways: 4, replacement: Replacement::Lru },
            profile: Profile::default(),
            memory: ns(200),
            memory_bytes_per_second: 2.6e9,
        },
        contexts,
        wire: Wire { bits_per_second: 8e9, overhead_share: 0.02, mtu_bytes: 2048, latency: ns(200) },
        seed: 1,
    }
}

fn load(pattern: Pattern, message_bytes: u64, connections: u32) -> Load {
    Load {
        pattern,
        verb: Verb::Write,
        message_bytes,
        connections,
        is_loop: false,
        buffers: MemoryKind::Host,
        messages: 400,
    }
}

fn check(setup: &Setup, load: &Load, measured: &Measured) {
    let outcome = &measured.outcome;
    let totals = &outcome.totals;
    assert_eq!((totals.posted, totals.posted, 0), (totals.delivered, totals.completed, totals.left));
    assert_eq!(totals.delivered_bytes, totals.posted * load.message_bytes);
    assert_eq!(totals.in_flight_ps, totals.stayed_ps, "Little's law");
    if load.is_loop {
        assert_eq!(totals.sent_bytes, 0);
    } else {
        assert!(totals.sent_bytes > totals.delivered_bytes);
    }
    for node in &outcome.nodes {
        let shares = [
            node.up_busy_share,
            node.down_busy_share,
            node.port_busy_share,
            node.egress_busy_share,
            node.memory_busy_share,
            node.send_busy_share,
            node.receive_busy_share,
        ];
        assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{node:?}");
        assert!(node.missed <= node.looked_up && node.fetched_bytes >= 64 * node.missed);
    }
    // Over all the time: of what was begun before measuring, much may come in a short time.
    let rate = totals.delivered_bytes as f64 * 1e12 / outcome.elapsed.as_ps_f64();
    let both_ways = if matches!(load.pattern, Pattern::Stream { both_ways: true, .. }) { 2.0 } else { 1.0 };
    if load.buffers == MemoryKind::Host {
        assert!(rate <= both_ways * setup.host.bus.bytes_per_second(), "{measured:?}");
    }
    if !load.is_loop {
        assert!(rate <= both_ways * setup.wire.bits_per_second / 8.0, "{measured:?}");
    }
}

fn any_pattern() -> impl Strategy<Value = Pattern> {
    prop_oneof![
        Just(Pattern::Alone),
        Just(Pattern::PingPong),
        Just(Pattern::Scatter),
        (1_u32..40, 0_u32..=100, any::<bool>()).prop_map(|(window, reuse_percent, both_ways)| {
            Pattern::Stream { window, reuse_percent, both_ways }
        }),
        (1_u32..40).prop_map(|window| Pattern::Random { window }),
    ]
}

prop_compose! {
    fn any_setup()(
        bus in prop_oneof![Just(link(1)), Just(link(4)), Just(pcix())],
        contexts in prop_oneof![Just(MemoryKind::Host), Just(MemoryKind::Adapter)],
        cache_lines in 0_u32..12,
        ways in 1_u32..5,
        replacement in prop_oneof![Just(Replacement::Lru), Just(Replacement::Random)],
        fetches_max in 1_u32..5,
        packets_max in 1_u32..9,
        works_max in 1_u32..9,
        seed in 0_u64..1000,
    ) -> Setup {
        let mut setup = setup(bus, contexts, (64 * u64::from(ways)) << cache_lines);
        (setup.adapter.cache.ways, setup.adapter.cache.replacement) = (ways, replacement);
        setup.adapter.works_max = works_max;
        (setup.adapter.fetches_max, setup.adapter.packets_max, setup.seed) = (fetches_max, packets_max, seed);
        setup
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever two processes do: nothing is lost, nothing is faster than it can be, and the calendar makes no difference.
    #[test]
    fn posted_messages_are_delivered_and_completed(
        setup in any_setup(),
        pattern in any_pattern(),
        message_bytes in prop_oneof![0_u64..200, 1_u64..20_000],
        connections in 1_u32..40,
        verb in prop_oneof![Just(Verb::Send), Just(Verb::Write), Just(Verb::Read)],
        is_loop in any::<bool>(),
        buffers in prop_oneof![Just(MemoryKind::Host), Just(MemoryKind::Adapter)],
    ) {
        let verb = if pattern == Pattern::PingPong && verb == Verb::Read { Verb::Write } else { verb };
        let load = Load { verb, is_loop, buffers, messages: 60, ..load(pattern, message_bytes, connections) };
        let measured = run(&setup, &load).unwrap();
        check(&setup, &load, &measured);
        prop_assert_eq!(measured, run_on_heap(&setup, &load).unwrap());
    }
}

/// With a cache that holds everything, it does not matter where the rest is.
#[test]
fn an_unlimited_cache_makes_both_placements_one() {
    let all = Layout::new(Profile::default()).bytes().next_power_of_two();
    for pattern in [Pattern::Alone, Pattern::PingPong, Pattern::Scatter] {
        for connections in [1, 64] {
            let load = load(pattern, 1000, connections);
            let [one, other] = [MemoryKind::Host, MemoryKind::Adapter]
                .map(|place| run(&setup(link(1), place, all), &load).unwrap());
            assert_eq!(one.latency_mean, other.latency_mean, "{pattern:?}");
            assert_eq!(one.outcome.nodes[0].missed, other.outcome.nodes[0].missed);
        }
    }
}

#[test]
fn more_connections_than_the_cache_holds_cost_more_where_memory_is_farther() {
    let latency = |contexts, connections| {
        let load = load(Pattern::PingPong, 4, connections);
        run(&setup(link(1), contexts, 16 << 10), &load).unwrap().latency_mean
    };
    let [host, adapter] = [MemoryKind::Host, MemoryKind::Adapter].map(|place| latency(place, 1));
    assert_eq!(host, adapter);
    assert!(latency(MemoryKind::Adapter, 128) > adapter);
    assert!(latency(MemoryKind::Host, 128) > latency(MemoryKind::Adapter, 128));
}

#[test]
fn misses_while_the_cache_fills_are_not_measured() {
    // All contexts fit, so no lookup misses in the end.
    let setup = setup(link(1), MemoryKind::Host, 4 << 20);
    let load = Load { messages: 1_000, ..load(Pattern::Random { window: 16 }, 64, 2_048) };
    let measured = run(&setup, &load).unwrap();
    let in_all: u64 = measured.outcome.nodes.iter().map(|node| node.missed).sum();
    assert!(in_all > 2_048, "each connection misses once: {in_all}");
    assert!(measured.contexts.miss_share() < 0.001, "{:?}", measured.contexts);
}

#[test]
fn a_stream_is_limited_by_its_slowest_part() {
    let stream = Pattern::Stream { window: 16, reuse_percent: 100, both_ways: false };
    let rate =
        |bus| run(&setup(bus, MemoryKind::Host, 1 << 20), &load(stream, 65_536, 1)).unwrap().bytes_per_second;
    // 2,048 of 2,076 bytes, and 2 % for what is not packets.
    let wire = 1e9 * 0.98 * 2048.0 / 2076.0;
    assert!((rate(link(1)) / wire - 1.0).abs() < 0.01, "{}", rate(link(1)));
    // PCI-X carries requests and data on the same wires: 512 bytes in 64 clocks and twice 8 more.
    let shared = 133.33e6 * 512.0 / 80.0;
    assert!((rate(pcix()) / shared - 1.0).abs() < 0.01, "{}", rate(pcix()));
}

fn library() -> Library {
    Library {
        processes_per_node: 2,
        eager_bytes_max: 8192,
        copy_ps_per_byte: 500.0,
        call: Span::from_ns(200),
        shared: Span::from_ns(500),
    }
}

/// Programs of pairs of operations that are bound to meet.
fn any_program() -> impl Strategy<Value = Program> {
    let pair = (0_u16..6, 0_u16..6, prop_oneof![0_u64..100, 1_u64..60_000], any::<bool>(), 0_u64..3000);
    prop::collection::vec(pair, 1..30).prop_map(|pairs| {
        let mut ops = vec![Vec::new(); 6];
        for (from, to, bytes, is_waited_for, ns) in pairs {
            ops[usize::from(from)].push(Op::Compute(Span::from_ns(ns)));
            ops[usize::from(to)].push(Op::BeginReceive { from });
            ops[usize::from(from)].push(Op::BeginSend { to, bytes });
            if is_waited_for {
                ops[usize::from(from)].push(Op::WaitAll);
                ops[usize::from(to)].push(Op::WaitAll);
            }
        }
        ops.iter_mut().for_each(|ops| ops.push(Op::WaitAll));
        Program { ops, rounds: 2 }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Messages that have both ends arrive, in whatever order they are asked for, and the calendar makes no difference.
    #[test]
    fn programs_that_fit_together_end(setup in any_setup(), program in any_program()) {
        let library = library();
        let ran = run_program(&setup, &library, &program).unwrap();
        let totals = ran.outcome.totals;
        prop_assert_eq!((totals.posted, totals.posted, 0), (totals.delivered, totals.completed, totals.left));
        prop_assert_eq!(totals.in_flight_ps, totals.stayed_ps);
        prop_assert_eq!(ran, run_program_on_heap(&setup, &library, &program).unwrap());
    }
}

#[test]
fn processes_that_wait_for_nothing_are_distinguished() {
    let setup = setup(link(1), MemoryKind::Host, 1 << 20);
    let ops = vec![vec![], vec![], vec![], vec![Op::Compute(Span::from_ns(1)), Op::Receive { from: 0 }]];
    let error = run_program(&setup, &library(), &Program { ops, rounds: 1 }).unwrap_err();
    assert_eq!(
        error.to_string(),
        "process 3, operation 2: it waits for a message or a receive that never comes"
    );
}

/// Process 0 sends to process 2 of another node; both are in a node with another each.
fn two(sends: Vec<Op>, receives: Vec<Op>, rounds: u32) -> Program {
    Program { ops: vec![sends, vec![], receives, vec![]], rounds }
}

/// Of 40 short messages to a process that computes, 32 go into its buffers and 8 are announced, answered, sent and ended.
#[test]
fn short_messages_without_a_buffer_are_announced() {
    let setup = setup(link(1), MemoryKind::Host, 1 << 20);
    let bytes = 64;
    let sends = [vec![Op::BeginSend { to: 2, bytes }; 40], vec![Op::WaitAll, Op::Receive { from: 2 }]];
    let receives = [
        vec![Op::Compute(Span::from_ms(1))],
        vec![Op::Receive { from: 0 }; 40],
        vec![Op::Send { to: 0, bytes }],
    ];
    let (sends, receives) = (sends.concat(), receives.concat());
    let ran = run_program(&setup, &library(), &two(sends, receives, 1)).unwrap();
    assert_eq!((ran.outcome.totals.posted, ran.unreceived), (2 * (32 + 8 * 4 + 1), 0));
}

/// Buffers are free again while a process goes on sending, whether or not it computes in between.
#[test]
fn a_process_does_not_run_ahead_of_time() {
    let setup = setup(link(1), MemoryKind::Host, 1 << 20);
    let round = |between: &[Op]| {
        let sends = [&[Op::BeginSend { to: 2, bytes: 64 }][..], between].concat();
        let sends = [sends.repeat(200), vec![Op::WaitAll]].concat();
        let receives = vec![Op::Receive { from: 0 }; 200];
        let ran = run_program(&setup, &library(), &two(sends, receives, 4)).unwrap();
        (ran.round, ran.outcome.totals.posted)
    };
    assert_eq!(round(&[]), round(&[Op::Compute(Span::ZERO)]));
}

/// A short message goes on although a long one that was begun before it is not taken.
#[test]
fn a_send_waits_for_its_own_memory_alone() {
    let setup = setup(link(1), MemoryKind::Host, 1 << 20);
    let sends = vec![Op::BeginSend { to: 2, bytes: 1 << 16 }, Op::Send { to: 3, bytes: 8 }, Op::WaitAll];
    let ops = vec![
        sends,
        vec![],
        vec![Op::Receive { from: 3 }, Op::Receive { from: 0 }],
        vec![Op::Receive { from: 0 }, Op::Send { to: 2, bytes: 8 }],
    ];
    assert!(run_program(&setup, &library(), &Program { ops, rounds: 2 }).is_ok());
}

/// A word that is looked up at once does not tell of bytes whose translations are still fetched, here for a millisecond each.
#[test]
fn no_message_is_received_before_its_bytes_are_there() {
    let mut setup = setup(link(1), MemoryKind::Adapter, 1 << 20);
    setup.adapter.memory = Span::from_ms(1);
    let bytes = 36 << 10;
    let at_once = vec![Op::Send { to: 2, bytes }, Op::Receive { from: 2 }];
    let answers = vec![Op::Receive { from: 0 }, Op::Send { to: 0, bytes: 8 }];
    let ran = run_program(&setup, &library(), &two(at_once, answers, 1)).unwrap();
    assert_eq!((ran.messages, ran.bytes), (2, bytes + 8));
    let begun = vec![Op::WaitAll, Op::BeginSend { to: 2, bytes }, Op::Receive { from: 2 }, Op::WaitAll];
    let answers = vec![Op::Receive { from: 0 }, Op::Send { to: 0, bytes: 8 }];
    let other = run_program(&setup, &library(), &two(begun, answers, 1)).unwrap();
    let [one, other] = [ran.round, other.round].map(Span::as_ns_f64);
    assert!((one / other - 1.0).abs() < 0.05, "{one} {other}");
}

/// However many are announced, none is looked at but those there is a place for.
#[test]
fn many_announcements_take_no_longer_each() {
    let setup = setup(link(1), MemoryKind::Host, 1 << 20);
    let sends = [vec![Op::BeginSend { to: 2, bytes: 1 << 14 }; 20_000], vec![Op::WaitAll]].concat();
    let receives = [vec![Op::Compute(Span::from_ms(100))], vec![Op::Receive { from: 0 }; 20_000]].concat();
    let ran = run_program(&setup, &library(), &two(sends, receives, 1)).unwrap();
    assert_eq!((ran.unreceived, ran.outcome.totals.posted), (0, 2 * 4 * 20_000));
}

#[test]
fn runs_that_take_too_long_are_refused() {
    let setup = setup(link(1), MemoryKind::Host, 1 << 20);
    let told = |program| run_program(&setup, &library(), &program).unwrap_err().to_string();
    let send = |bytes| vec![Op::BeginSend { to: 2, bytes }];
    let said = told(two(send(64), vec![Op::Compute(Span::from_ns(1))], 1 << 20));
    let full = "process 0, operation 1: more than 262144 messages in flight";
    assert_eq!(said, full);
    let said = told(two(send(1 << 30), vec![Op::Receive { from: 0 }], 99_999));
    assert_eq!(said, "the program's messages have 52428800000 packets; expected at most 67108864");
    let said = told(two(vec![Op::Compute(Span::from_ms(1_000_000))], vec![], 20_000));
    assert!(said.starts_with("the simulation lasts longer than 100 days"), "{said}");
}

#[test]
fn unreceived_messages_are_counted() {
    let setup = setup(link(1), MemoryKind::Host, 1 << 20);
    for bytes in [64, 1 << 20] {
        let sends = vec![Op::BeginSend { to: 2, bytes }, Op::BeginSend { to: 1, bytes }, Op::WaitAll];
        let ran = run_program(&setup, &library(), &two(sends, vec![Op::Receive { from: 0 }], 3)).unwrap();
        assert_eq!(ran.unreceived, 4, "those to process 1");
    }
}

#[test]
fn a_trace_that_deadlocks_is_an_error_with_its_line() {
    let file = include_str!("../../../experiments/infiniband.toml");
    let [verbs, processes] = ["[verbs]", "# [processes]"].map(|table| file.find(table).unwrap());
    let processes: Vec<&str> = file[processes..].lines().filter_map(|line| line.strip_prefix("# ")).collect();
    let text = format!("{}{}", &file[..verbs], processes.join("\n"));
    let with = |trace: &str| {
        let trace = Trace::read(trace, "my.trace").unwrap();
        AdaptersExperiment::read(&text, "x.toml").unwrap().with_trace(trace).unwrap().run()
    };
    let head = "iotoll-trace 1\nprocesses 4\n\n";
    let told = with(&format!("{head}0 send 2 64\n2 receive 0\n2 receive 0 # never\n")).unwrap_err();
    // In the second round: the first takes both messages.
    assert_eq!(
        told.to_string(),
        "my.trace:5: process 2, operation 1: it waits for a message or a receive that never comes"
    );
    let answer = with(&format!("{head}0 send 2 64\n0 begin-send 3 64\n2 receive 0\n")).unwrap();
    assert_eq!(answer.what, "trace my.trace");
    assert_eq!(answer.memory_less.unreceived, 2);
}

/// A long message is announced, answered, sent and ended: four times as many.
#[test]
fn long_messages_are_announced() {
    let setup = setup(link(1), MemoryKind::Host, 1 << 20);
    let round = |bytes| {
        let ops = vec![
            vec![Op::Send { to: 2, bytes }, Op::Receive { from: 2 }],
            vec![],
            vec![Op::Receive { from: 0 }, Op::Send { to: 0, bytes }],
            vec![],
        ];
        run_program(&setup, &library(), &Program { ops, rounds: 4 }).unwrap()
    };
    let (eager, announced) = (round(8192), round(8193));
    assert_eq!(eager.outcome.totals.posted, 10);
    assert_eq!(announced.outcome.totals.posted, 40);
    // Copying 8 KiB twice takes longer than saying so.
    assert!(announced.round < eager.round);
}

/// Whether adapters have memory makes no difference to what four benchmarks say, but to when.
#[test]
fn benchmarks_send_the_same_wherever_contexts_are() {
    for kernel in Kernel::ALL {
        let program = kernel.program(1e9, 1);
        let [host, adapter] = [MemoryKind::Host, MemoryKind::Adapter]
            .map(|place| run_program(&setup(link(1), place, 32 << 10), &library(), &program).unwrap());
        let [one, other] =
            [&host, &adapter].map(|ran| (ran.outcome.totals.posted, ran.outcome.totals.sent_bytes));
        assert_eq!(one, other);
        // Which of two messages comes first may turn round.
        let ratio = host.round.as_ps_f64() / adapter.round.as_ps_f64();
        assert!(ratio > 0.998, "{kernel:?} {ratio}");
    }
}
