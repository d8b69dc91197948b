//! Two hosts: exact timelines, and what must hold whatever they do.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use des::Span;
use model::host::{
    Cpus, DmaPath, InvalidationMode, InvalidationQueue, IommuSetup, LineTransfer, Locking, MappingCost,
    Memory, Stage,
};
use model::network::{
    HostsExperiment, NetworkAdapter, NetworkError, NetworkHost, Outcome, Paths, Pattern, Protocol,
    ReceiveBuffers, Setup, Wire, Work, run, run_on_heap, run_window,
};
use model::{Hardware, Link};
use proptest::prelude::*;

const PIECES: [u64; 2] = [512, 1024];

fn ns(ns: u64) -> Span {
    Span::from_ns(ns)
}

fn host(dma_path: DmaPath) -> NetworkHost {
    NetworkHost {
        cpus: Cpus {
            cores: 4,
            cores_per_node: 2,
            core_capacity: vec![1.0, 1.5],
            instruction_ns: 0.5,
            wake: ns(1_000),
            line: LineTransfer { same_node: ns(100), other_node: ns(200) },
        },
        paths: Paths { write: 3_000.0, send: 4_000.0, receive: 6_000.0, read: 5_000.0, interrupt: 1_000.0 },
        adapter: NetworkAdapter {
            link: Link {
                generation: 2.try_into().unwrap(),
                lanes: 8,
                payload_bytes_max: 256,
                read_request_bytes_max: 512,
                completion_boundary_bytes: 64,
                overhead_share: 0.0,
            },
            receive_rings: 4,
            receive_entries: 64,
            send_rings: 2,
            send_entries: 256,
            latency: ns(800),
            inline_bytes: 104,
            fragment_bytes: None,
            copied_bytes: 256,
            keeps_buffers: false,
            buffers: ReceiveBuffers::EachFrame { pieces_bytes: PIECES.to_vec() },
            receive_delay: Span::ZERO,
            receive_frames: 16,
            send_delay: ns(16_000),
            send_frames: 16,
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
        iommu: None,
        memory: None,
    }
}

fn translated(mode: InvalidationMode) -> DmaPath {
    DmaPath::Translated { mode }
}

fn window(locking: Locking) -> DmaPath {
    DmaPath::Window { bytes: 1 << 30, locking }
}

fn setup(
    dma_path: DmaPath,
    pattern: Pattern,
    protocol: Protocol,
    message_bytes: u64,
    instances: u32,
) -> Setup {
    Setup {
        hosts: [host(dma_path), host(dma_path)],
        wire: Wire { bits_per_second: 10e9, mtu_bytes: 1500, latency: ns(700) },
        work: Work { pattern, protocol, message_bytes, is_nodelay: false },
        instances,
        warm_up: Span::from_ms(1),
        measured: Span::from_ms(4),
        seed: 1,
    }
}

const TCP: Protocol = Protocol::Tcp { segment_bytes_max: 64 << 10 };
const STREAM: Pattern = Pattern::Stream { window_bytes: 256 << 10 };

/// One instance, and nothing that comes between.
fn alone(message_bytes: u64) -> Setup {
    let mut setup = setup(DmaPath::Direct, Pattern::Exchange, Protocol::Udp, message_bytes, 1);
    for host in &mut setup.hosts {
        // One thread a core, nothing is mapped to be sent, and so no interrupt tells that it was.
        host.cpus.core_capacity = vec![1.0];
        host.adapter.inline_bytes = 1514;
        host.adapter.copied_bytes = 1514;
    }
    setup
}

/// Half an exchange of a frame, part by part. Link: 24 bytes of request at 4 bytes a nanosecond; 92 bytes in one completion with
/// 20 more; the same written with 24 more. Wire: 92 + 38 bytes at 1.25 bytes a nanosecond.
#[test]
fn an_exchange_takes_the_sum_of_its_parts_to_the_picosecond() {
    let instructions = (3_000 + 4_000 + 1_000 + 6_000 + 5_000) * 500;
    let fetched = (24 + 92 + 20) * 1_000 / 4 + 800_000;
    let wire = (92 + 38) * 8 * 100 + 700_000;
    let written = (92 + 24) * 1_000 / 4 + 800_000;
    let half = instructions + fetched + wire + written + 1_000_000;
    let outcome = run(&alone(64)).unwrap();
    assert_eq!(outcome.latency_mean.unwrap().as_ps(), 2 * half);
}

/// Two frames of one message: the second is on its way while the first is received.
#[test]
fn two_frames_overlap_to_the_picosecond() {
    let [first, second] = [1_472_u64 + 28, 528 + 28];
    let link = |bytes: u64, unit: u64, header: u64| (bytes + bytes.div_ceil(unit) * header) * 1_000 / 4;
    let wire = |bytes: u64| (bytes + 38) * 800;
    // To the other's memory, from when its CPU hands it over; of the wire, when it is free again.
    let there = |handed: u64, bytes: u64, free: u64| {
        let fetched = handed + bytes.div_ceil(512) * 24 * 1_000 / 4 + link(bytes, 256, 20) + 800_000;
        let sent = fetched.max(free) + wire(bytes);
        (sent + 700_000 + link(bytes, 256, 24) + 800_000, sent)
    };
    let handed = (3_000 + 4_000) * 500;
    let (first_at, free) = there(handed, first, 0);
    let (second_at, _) = there(handed + 4_000 * 500, second, free);
    let first_done = first_at + (1_000 + 6_000) * 500;
    // It came before the first poll was over, and so without an interrupt of its own.
    assert!(first_at < second_at && second_at < first_done);
    let delivered = first_done + 6_000 * 500;
    let half = delivered + 1_000_000 + 5_000 * 500;
    assert_eq!(run(&alone(2_000)).unwrap().latency_mean.unwrap().as_ps(), 2 * half);
}

/// What a mapping takes to send, in steps of one CPU: outside, lock, hypercall.
#[test]
fn a_mapping_adds_its_price() {
    let with = |dma_path| {
        let mut setup = alone(64);
        for host in &mut setup.hosts {
            (host.dma_path, host.adapter.inline_bytes, host.adapter.send_delay) =
                (dma_path, 0, Span::from_ms(100));
            // Nothing is unmapped in the window.
            (host.adapter.send_frames, host.adapter.send_entries) = (u32::MAX, 4096);
        }
        run_window(&setup).unwrap().latency_mean.unwrap().as_ps()
    };
    let none = run(&alone(64)).unwrap().latency_mean.unwrap().as_ps();
    assert_eq!(with(DmaPath::Direct) - none, 2 * 100 * 500);
    for locking in [Locking::Table, Locking::Bitmap, Locking::Pools] {
        assert_eq!(with(window(locking)) - none, 2 * ((200 + 300) * 500 + 600_000), "{locking:?}");
    }
}

const WALK_NS: u64 = 300;

fn iommu(entries: usize) -> IommuSetup {
    let hardware = Hardware { entries, ways: entries, walk: ns(WALK_NS), walk_gap: ns(50) };
    IommuSetup { hardware, invalidates_domain: false, queue: None }
}

fn queue(slots: u32, waits_with_lock: bool) -> Option<InvalidationQueue> {
    Some(InvalidationQueue { slots, flush: ns(900), poll: Span::ZERO, waits_with_lock })
}

/// A seed that has the only instance use these rings, of four.
fn seed_of_ring(ring: u64) -> u64 {
    (0..).find(|seed| des::Stream::new(*seed, 0).below(4) == ring).unwrap()
}

/// One instance whose frames are mapped to be sent, and unmapped at once by a CPU that has nothing else to do then.
fn alone_by(dma_path: DmaPath, iommu: Option<IommuSetup>) -> Setup {
    let mut setup = alone(64);
    setup.seed = seed_of_ring(3);
    for host in &mut setup.hosts {
        (host.dma_path, host.iommu) = (dma_path, iommu);
        host.adapter.inline_bytes = 0;
        (host.adapter.send_rings, host.adapter.send_delay) = (4, Span::ZERO);
    }
    setup
}

/// Descriptors and the buffer that is received into, which is copied out of, stay known; what is sent was unmapped since, and is
/// walked for: a lookup of four.
#[test]
fn an_unmapped_range_is_walked_once() {
    for dma_path in [translated(InvalidationMode::Strict), window(Locking::Bitmap), window(Locking::Pools)] {
        let without = run(&alone_by(dma_path, None)).unwrap().latency_mean.unwrap().as_ps();
        let outcome = run(&alone_by(dma_path, Some(iommu(64)))).unwrap();
        assert_eq!(outcome.latency_mean.unwrap().as_ps(), without + 2 * WALK_NS * 1_000, "{dma_path:?}");
        for usage in outcome.hosts {
            let usage = usage.cpus.iommu.unwrap();
            assert!((usage.miss_share - 0.25).abs() < 0.01, "{usage:?}");
            let lookups = usage.lookups_per_second / outcome.operations_per_second;
            assert!((lookups - 4.0).abs() < 0.05 && usage.queue_busy_share.is_none(), "{usage:?}");
        }
    }
    let strict =
        run(&alone_by(translated(InvalidationMode::Strict), None)).unwrap().latency_mean.unwrap().as_ps();
    let none = run(&alone_by(DmaPath::Direct, Some(iommu(64)))).unwrap();
    assert_eq!(strict - none.latency_mean.unwrap().as_ps(), 2 * (400 - 100) * 500);
    assert_eq!(none.hosts[0].cpus.iommu, None);
}

/// Walks of 50 us go on side by side, as many as there are frames on their way: half an exchange takes three of them one after the
/// other, of a descriptor, its frame, and the buffer and its descriptor together, however many exchanges there are.
#[test]
fn walks_of_one_ring_hold_no_other_up() {
    let long = |instances, walk_ns| {
        let hardware = Hardware { entries: 1, ways: 1, walk: ns(walk_ns), walk_gap: Span::ZERO };
        let iommu = Some(IommuSetup { hardware, invalidates_domain: false, queue: None });
        let mut setup =
            setup(translated(InvalidationMode::Lazy), Pattern::Exchange, Protocol::Udp, 1_000, instances);
        for host in &mut setup.hosts {
            // Each flow has rings and CPUs of its own, nearly.
            host.cpus.cores = 64;
            (host.adapter.receive_rings, host.adapter.send_rings) = (64, 64);
            host.iommu = iommu;
        }
        holds(&setup).latency_mean.unwrap().as_ns_f64()
    };
    let (without, one, many) = (long(1, 0), long(1, 50_000), long(16, 50_000));
    assert!((one / (without + 6.0 * 50_000.0) - 1.0).abs() < 0.01, "{without} {one}");
    assert!(many < 1.5 * one, "{one} {many}");
}

/// A CPU waits for the IOMMU as long, whatever the other thread of its core does.
#[test]
fn a_wait_for_an_invalidation_is_no_work_of_the_core() {
    let mut setup = alone_by(translated(InvalidationMode::Strict), None);
    setup.instances = 2;
    for host in &mut setup.hosts {
        (host.cpus.cores, host.cpus.cores_per_node, host.cpus.core_capacity) = (1, 1, vec![1.0, 1.0]);
    }
    let outcome = holds(&setup);
    for usage in outcome.hosts.map(|host| host.cpus) {
        let waited = usage.busy_cpus_by_stage[Stage::Invalidation as usize] * 1e9;
        let each = waited / usage.invalidations_per_second;
        assert!((each / 700.0 - 1.0).abs() < 0.01, "{each}: {usage:?}");
    }
}

/// However long an adapter takes, and however short it is looked at, no part is busy for longer than that.
#[test]
fn parts_that_are_taken_ahead_are_busy_when_they_are() {
    for (latency, warm_up, measured) in [
        (ns(3_000_000), Span::from_ms(7), Span::from_ms(4)),
        (ns(800), Span::from_us(1_001), Span::from_us(1)),
    ] {
        let mut setup = setup(DmaPath::Direct, STREAM, TCP, 64 << 10, 8);
        setup.hosts.iter_mut().for_each(|host| host.adapter.latency = latency);
        (setup.warm_up, setup.measured) = (warm_up, measured);
        for usage in run_window(&setup).unwrap().hosts {
            let shares = [usage.wire_busy_share, usage.link_up_busy_share, usage.link_down_busy_share];
            assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{shares:?}");
        }
    }
}

/// Buffers that are kept are mapped once, however much is received into them.
#[test]
fn buffers_that_are_kept_are_not_unmapped() {
    let blocks = ReceiveBuffers::Blocks { block_bytes: 64 << 10, pieces_bytes: PIECES.to_vec() };
    for buffers in [ReceiveBuffers::EachFrame { pieces_bytes: PIECES.to_vec() }, blocks] {
        let mut setup = setup(translated(InvalidationMode::Strict), STREAM, TCP, 64 << 10, 4);
        let receiver = &mut setup.hosts[1].adapter;
        (receiver.keeps_buffers, receiver.buffers) = (true, buffers);
        // Nor are acknowledgements.
        receiver.inline_bytes = 104;
        let outcome = holds(&setup);
        let rates = outcome.hosts.each_ref().map(|host| host.cpus.invalidations_per_second);
        assert!(rates[0] > 1e3 && rates[1] == 0.0, "{rates:?}");
        assert!(outcome.totals.received_frames > 4 * 64, "each of 4 rings is gone round: {outcome:?}");
    }
}

/// Where an invalidation takes out all of the domain, nothing is known any more: descriptor and frame one after the other, and what
/// is written side by side but for the time between two walks.
#[test]
fn an_invalidation_of_the_domain_costs_walks_of_all() {
    let all = IommuSetup { invalidates_domain: true, ..iommu(64) };
    let dma_path = translated(InvalidationMode::Strict);
    let without = run(&alone_by(dma_path, None)).unwrap().latency_mean.unwrap().as_ps();
    let outcome = run(&alone_by(dma_path, Some(all))).unwrap();
    assert_eq!(outcome.latency_mean.unwrap().as_ps(), without + 2 * (3 * WALK_NS + 50) * 1_000);
    assert!(outcome.hosts[0].cpus.iommu.unwrap().miss_share > 0.99, "{outcome:?}");
}

/// The adapter is on the application's node, its ring on the other: what is received crosses twice, to the ring's memory and, a line
/// of 64 bytes, to the reader.
#[test]
fn memory_of_another_node_adds_its_way_to_the_picosecond() {
    let with = |ring, memory| {
        let mut setup = Setup { seed: seed_of_ring(ring), ..alone(64) };
        setup.hosts.iter_mut().for_each(|host| host.memory = memory);
        run(&setup).unwrap().latency_mean.unwrap().as_ps()
    };
    let memory = Memory {
        adapter_node: 0,
        remote_dma: ns(130),
        line_bytes: 64,
        remote_line: ns(20),
        copy_ps_per_byte: 100.0,
    };
    let none = with(3, None);
    // Written, copied out of its buffer with 42 bytes of headers, read.
    let copied = (64 + 106 + 64) * 100;
    assert_eq!(with(3, Some(memory)), none + 2 * (copied + 130_000 + 20_000));
    assert_eq!(with(1, Some(memory)), none + 2 * copied);
    let other = Memory { adapter_node: 1, ..memory };
    assert_eq!(with(3, Some(other)), none + 2 * (copied + 20_000));
}

/// One instance waits for nobody: by a queue as long as before, and longer where it looks seldom.
#[test]
fn an_empty_queue_is_waited_for_as_before() {
    let busy = |queue: Option<InvalidationQueue>| {
        let usage =
            run(&alone_by(translated(InvalidationMode::Strict), Some(IommuSetup { queue, ..iommu(64) })))
                .unwrap();
        let waiting = Stage::Invalidation as usize;
        usage.hosts[0].cpus.busy_cpus_by_stage[waiting] * 1e9 / usage.operations_per_second
    };
    let seldom = queue(256, true).map(|queue| InvalidationQueue { poll: ns(1_000), ..queue });
    for (queue, expected) in
        [(None, 700.0), (queue(256, true), 700.0), (queue(2, false), 700.0), (seldom, 1_000.0)]
    {
        let waited = busy(queue);
        assert!((waited / expected - 1.0).abs() < 0.01, "{waited} of {expected}: {queue:?}");
    }
}

/// With the lock held through the wait, the lock limits; without, the IOMMU, which is then always busy, and CPUs wait the longer
/// the more there are.
#[test]
fn a_queue_that_many_wait_for_limits() {
    let with = |queue| {
        let mut setup =
            setup(translated(InvalidationMode::Strict), Pattern::Exchange, Protocol::Udp, 1_000, 64);
        for host in &mut setup.hosts {
            // So fast that nothing else limits.
            (host.cpus.instruction_ns, host.iommu) = (0.1, Some(IommuSetup { queue, ..iommu(64) }));
        }
        let outcome = holds(&setup);
        (busiest(&outcome, &setup), outcome)
    };
    let (held, lock) = with(queue(256, true));
    let (dropped, all) = with(queue(256, false));
    assert!(
        held.starts_with("lock of the") && dropped.starts_with("invalidation queue of the"),
        "{held} {dropped}"
    );
    assert!(all.operations_per_second > 1.1 * lock.operations_per_second, "{all:?}");
    let rate = all.hosts[0].cpus.invalidations_per_second;
    // They are counted when a task begins that makes them, up to 64 at once.
    assert!(rate * 700e-9 < 1.01, "{rate}");
    // Room for one alone: the next waits for it with the lock held.
    let (_, one) = with(queue(2, false));
    let held = [&one, &all].map(|outcome| outcome.hosts[1].cpus.lock_busy_share());
    assert!(held[0] > 0.85 && held[1] < 0.5, "{held:?}");
}

/// Of a block of 2 MiB the IOTLB needs one entry, of one of 64 KiB sixteen.
#[test]
fn superpages_reach_further() {
    let missed = |block_bytes| {
        let mut setup = setup(translated(InvalidationMode::Lazy), STREAM, TCP, 64 << 10, 8);
        for host in &mut setup.hosts {
            host.adapter.buffers = ReceiveBuffers::Blocks { block_bytes, pieces_bytes: vec![4096] };
            host.iommu = Some(iommu(32));
        }
        holds(&setup).hosts[1].cpus.iommu.unwrap().miss_share
    };
    let [small, large] = [64 << 10, 2 << 20].map(missed);
    assert!(large < 0.5 * small, "{large} {small}");
}

/// An unmapping waits for its own invalidation, or one in some hundred does for all of them.
#[test]
fn lazily_one_waits_for_many() {
    let outcome = |mode| {
        let setup = setup(translated(mode), Pattern::Exchange, Protocol::Udp, 1_000, 16);
        let outcome = run(&setup).unwrap();
        // A frame sent and one received, in two pieces, on each host for each exchange.
        (outcome.hosts[0].cpus.invalidations_per_second / outcome.operations_per_second, outcome)
    };
    let (strict, strictly) = outcome(InvalidationMode::Strict);
    let (lazy, lazily) = outcome(InvalidationMode::Lazy);
    assert!((strict - 3.0).abs() < 0.1, "{strict}");
    // When one CPU's ring of 255 is full, what waits on the others is forgotten too.
    assert!((255.0..16.0 * 255.0).contains(&(strict / lazy)), "{strict} {lazy}");
    assert!(lazily.operations_per_second > 1.1 * strictly.operations_per_second);
    // Each holds the queue's lock for 200 instructions and 700 ns.
    assert!(strictly.hosts[0].cpus.invalidations_per_second < 1e9 / 800.0);
    assert!(strictly.hosts[0].cpus.busy_cpus_by_stage[Stage::Invalidation as usize] > 0.5);
}

fn holds(setup: &Setup) -> Outcome {
    check(setup, run(setup).unwrap())
}

/// What must hold whatever the hosts do.
fn check(setup: &Setup, outcome: Outcome) -> Outcome {
    let totals = outcome.totals;
    assert_eq!(totals.written_bytes, totals.read_bytes, "{outcome:?}");
    assert_eq!(totals.sent_frames, totals.received_frames, "{outcome:?}");
    assert_eq!(totals.mappings_left, totals.receive_mappings, "{outcome:?}");
    assert_eq!((totals.descriptors_left, totals.waiting_left), (0, 0), "{outcome:?}");
    let most =
        |of: fn(&NetworkAdapter) -> u32| setup.hosts.iter().map(|host| of(&host.adapter)).max().unwrap();
    assert!(totals.send_entries_max <= most(|adapter| adapter.send_entries), "{outcome:?}");
    assert!(totals.receive_entries_max <= most(|adapter| adapter.receive_entries), "{outcome:?}");
    assert!(totals.read_bytes > 0);
    assert!(outcome.gigabits_per_second * 1e9 <= 2.0 * setup.wire.bits_per_second, "{outcome:?}");
    for (usage, host) in outcome.hosts.iter().zip(&setup.hosts) {
        let shares = [
            usage.wire_busy_share,
            usage.cpus.lock_busy_share(),
            usage.link_up_busy_share,
            usage.link_down_busy_share,
        ];
        assert!(shares.iter().all(|share| (0.0..=1.000_001).contains(share)), "{usage:?}");
        if let Some(iommu) = usage.cpus.iommu {
            let shares =
                [iommu.miss_share, iommu.walker_busy_share, iommu.queue_busy_share.unwrap_or_default()];
            assert!(shares.iter().all(|share| (0.0..=1.000_001).contains(share)), "{usage:?}");
            // The adapter reaches for nothing that is not mapped, so nothing can lead it astray.
            assert_eq!((iommu.stale_uses, iommu.blocked), (0, 0), "{usage:?}");
            assert!(iommu.lookups_per_second > 0.0, "{usage:?}");
        }
        assert!(usage.cpus.busy_cpus <= f64::from(host.cpus.threads()) + 1e-6, "{usage:?}");
        let stages: f64 = usage.cpus.busy_cpus_by_stage.iter().sum();
        assert!((stages - usage.cpus.busy_cpus).abs() < 1e-6, "{usage:?}");
        assert_eq!(usage.cpus.mappings_refused, 0);
    }
    let seconds = outcome.window.measured.as_ps_f64() / 1e12;
    let instances = f64::from(setup.instances);
    // Exchanges that are in flight when measuring begins and ends count little if each instance has many.
    let has_many = outcome.operations_per_second * seconds > 40.0 * instances;
    if setup.work.pattern == Pattern::Exchange && has_many {
        // Little's law: each instance has an exchange in flight, always.
        let in_flight = outcome.operations_per_second * outcome.latency_mean.unwrap().as_ps_f64() / 1e12;
        assert!((in_flight / instances - 1.0).abs() < 0.06, "{in_flight} of {instances}");
    }
    if setup.work.pattern != Pattern::Exchange {
        assert_eq!((outcome.latency_mean, outcome.latency_p99), (None, None), "streams have no exchange");
    }
    outcome
}

fn busiest(outcome: &Outcome, setup: &Setup) -> String {
    let busiest =
        outcome.parts(setup).into_iter().max_by(|a, b| a.busy_share.total_cmp(&b.busy_share)).unwrap();
    assert!(busiest.busy_share > 0.95, "{busiest:?} {outcome:?}");
    busiest.name
}

fn dma_paths() -> impl Strategy<Value = DmaPath> {
    prop_oneof![
        Just(DmaPath::Direct),
        prop::sample::select(vec![InvalidationMode::Strict, InvalidationMode::Lazy]).prop_map(translated),
        prop::sample::select(vec![Locking::Table, Locking::Bitmap, Locking::Pools]).prop_map(window),
    ]
}

fn iommus() -> impl Strategy<Value = Option<IommuSetup>> {
    let queue = (2..64_u32, 0..2_000_u64, 0..1_500_u64, any::<bool>()).prop_map(
        |(slots, flush, poll, waits_with_lock)| InvalidationQueue {
            slots,
            flush: ns(flush),
            poll: ns(poll),
            waits_with_lock,
        },
    );
    let hardware =
        (1..200_usize, 1..9_usize, 0..500_u64, 0..200_u64).prop_map(|(sets, ways, walk, walk_gap)| {
            Hardware { entries: sets * ways, ways, walk: ns(walk), walk_gap: ns(walk_gap) }
        });
    let setup = (hardware, any::<bool>(), prop::option::of(queue))
        .prop_map(|(hardware, invalidates_domain, queue)| IommuSetup { hardware, invalidates_domain, queue });
    prop::option::of(setup)
}

fn memories() -> impl Strategy<Value = Option<Memory>> {
    let memory = (0..2_u32, 0..500_u64, 0..50_u64, 0.0..300.0).prop_map(
        |(adapter_node, remote_dma, remote_line, copy_ps_per_byte)| Memory {
            adapter_node,
            remote_dma: ns(remote_dma),
            line_bytes: 64,
            remote_line: ns(remote_line),
            copy_ps_per_byte,
        },
    );
    prop::option::of(memory)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn whatever_they_do(
        dma_path in dma_paths(), is_stream: bool, is_tcp: bool, message_bytes in 1..20_000_u64, instances in 1..40_u32,
        receive_delay_ns in 0..40_000_u64, copied_bytes in 0..1600_u64, seed: u64,
        keeps_buffers: bool, iommu in iommus(), memory in memories(), fragment_bytes in prop::option::of(512..70_000_u64),
        receive_entries in 1..80_u32, send_entries in 1..300_u32, inline_bytes in prop::sample::select(vec![0, 104, 1514]),
    ) {
        let is_stream = is_stream && is_tcp;
        let (pattern, protocol) =
            (if is_stream { STREAM } else { Pattern::Exchange }, if is_tcp { TCP } else { Protocol::Udp });
        let mut setup = setup(dma_path, pattern, protocol, message_bytes, instances);
        setup.seed = seed;
        for host in &mut setup.hosts {
            host.adapter.receive_delay = ns(receive_delay_ns);
            (host.adapter.copied_bytes, host.adapter.keeps_buffers) = (copied_bytes, keeps_buffers);
            (host.adapter.fragment_bytes, host.adapter.inline_bytes) = (fragment_bytes, inline_bytes);
            host.adapter.receive_entries = receive_entries;
            host.adapter.send_entries = send_entries.max(longest_packet(&setup.work, fragment_bytes));
            (host.iommu, host.memory) = (iommu, memory);
        }
        let blocks = ReceiveBuffers::Blocks { block_bytes: 64 << 10, pieces_bytes: PIECES.to_vec() };
        setup.hosts[1].adapter.buffers = blocks;
        match run(&setup) {
            Ok(outcome) => {
                let outcome = check(&setup, outcome);
                prop_assert_eq!(&outcome, &run_on_heap(&setup).unwrap(), "the same seed gives the same, by any calendar");
            }
            Err(NetworkError::Unsteady(unsteady)) => prop_assert!(!unsteady.drifts.is_empty()),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Descriptors of the longest packet.
fn longest_packet(work: &Work, fragment_bytes: Option<u64>) -> u32 {
    match work.protocol {
        Protocol::Udp => 1,
        Protocol::Tcp { segment_bytes_max } => {
            1 + segment_bytes_max.div_ceil(fragment_bytes.unwrap_or(segment_bytes_max)) as u32
        }
    }
}

/// A CPU that interrupts never leave alone loses its thread to one that is idle: all instances have an exchange in flight, and each ends some.
#[test]
fn no_thread_waits_for_interrupts_for_ever() {
    let mut setup = setup(translated(InvalidationMode::Strict), Pattern::Exchange, TCP, 1_449, 15);
    setup.seed = 7_501_899_675_420_661_090;
    setup.measured = Span::from_ms(100);
    let hardware = Hardware { entries: 1, ways: 1, walk: Span::ZERO, walk_gap: ns(38) };
    let queue = InvalidationQueue { slots: 2, flush: Span::ZERO, poll: ns(286), waits_with_lock: false };
    for host in &mut setup.hosts {
        (host.adapter.receive_delay, host.adapter.copied_bytes) = (ns(2_777), 0);
        host.iommu = Some(IommuSetup { hardware, invalidates_domain: false, queue: Some(queue) });
    }
    let outcome = holds(&setup);
    let instances = f64::from(setup.instances);
    let in_flight = outcome.operations_per_second * outcome.latency_mean.unwrap().as_ps_f64() / 1e12;
    // One that never ended an exchange would be one less in flight.
    assert!((in_flight - instances).abs() < 0.1, "{in_flight}");
}

#[test]
fn fewer_locks_are_never_slower() {
    let rate =
        |dma_path| holds(&setup(dma_path, Pattern::Exchange, Protocol::Udp, 1_000, 32)).operations_per_second;
    let [table, bitmap, pools] =
        [Locking::Table, Locking::Bitmap, Locking::Pools].map(|locking| rate(window(locking)));
    assert!(table < bitmap && bitmap < pools && pools < rate(DmaPath::Direct), "{table} {bitmap} {pools}");
}

#[test]
fn a_lock_that_is_always_held_limits() {
    let setup = setup(window(Locking::Table), Pattern::Exchange, Protocol::Udp, 1_000, 64);
    let outcome = holds(&setup);
    assert!(busiest(&outcome, &setup).starts_with("lock of the"), "{outcome:?}");
    // One holds it for 300 instructions, a hypercall and the line's way; the CPUs that wait spin.
    let usage = &outcome.hosts[0];
    assert!(usage.cpus.locked_per_second < 1e9 / (150.0 + 600.0), "{usage:?}");
    assert!(usage.cpus.busy_cpus_by_stage[Stage::Lock as usize] > 1.0, "{usage:?}");
}

#[test]
fn a_stream_fills_the_wire_and_no_more() {
    let mut setup = setup(DmaPath::Direct, STREAM, TCP, 64 << 10, 8);
    setup.hosts[1].paths.receive = 1_000.0;
    let outcome = holds(&setup);
    // 1,448 bytes of each 1,538.
    let most = 10.0 * 1_448.0 / 1_538.0;
    assert!((0.97 * most..=1.01 * most).contains(&outcome.gigabits_per_second), "{outcome:?}");
    assert_eq!(busiest(&outcome, &setup), "wire from the client");
}

#[test]
fn a_window_without_room_refuses_and_says_so() {
    let mut setup = setup(window(Locking::Bitmap), Pattern::Exchange, Protocol::Udp, 1_000, 4);
    for host in &mut setup.hosts {
        host.dma_path = DmaPath::Window { bytes: 2 << 20, locking: Locking::Bitmap };
    }
    let outcome = run(&setup).unwrap();
    assert!(outcome.hosts.iter().all(|usage| usage.cpus.mappings_refused > 0), "{outcome:?}");
    assert_eq!(outcome.totals.written_bytes, outcome.totals.read_bytes);
}

/// A CPU that takes back what was sent, each mapping of it behind a lock that many wait for, goes on to receive meanwhile: if not,
/// exchanges of some instances never end, and the mean is that of the others.
#[test]
fn no_process_waits_for_another_s_buffers() {
    let file = include_str!("../../../experiments/two-hosts.toml");
    let mut setup = HostsExperiment::read(file, "two-hosts.toml").unwrap().setup();
    (setup.warm_up, setup.measured) = (Span::from_ms(20), Span::from_ms(40));
    let outcome = holds(&setup);
    let in_flight = outcome.operations_per_second * outcome.latency_mean.unwrap().as_ps_f64() / 1e12;
    assert!((in_flight / f64::from(setup.instances) - 1.0).abs() < 0.02, "{in_flight}: {outcome:?}");
}

#[test]
fn steps_longer_than_the_measured_time_are_counted_as_far_as_they_go() {
    let mut setup = alone(64);
    setup.hosts[0].paths.write = 1e9;
    (setup.warm_up, setup.measured) = (Span::from_ms(1), Span::from_us(10));
    let usage = &run_window(&setup).unwrap().hosts[0];
    assert_eq!((usage.cpus.busy_cpus, usage.cpus.busy_cpus_by_stage), (1.0, [1.0, 0.0, 0.0, 0.0, 0.0]));
}

#[test]
fn the_first_exchange_counts_from_its_own_beginning() {
    let mut setup = alone(64);
    let settled = run(&setup).unwrap().latency_mean.unwrap().as_ps();
    setup.warm_up = Span::from_ns(1);
    setup.measured = Span::from_us(100 + settled.div_ceil(1_000_000));
    assert_eq!(run_window(&setup).unwrap().latency_mean.unwrap().as_ps(), settled);
}

#[test]
fn values_of_no_host_are_errors_with_their_place() {
    let text = include_str!("../../../experiments/two-hosts.toml");
    let check = |from: &str, to: &str, expected: &str| {
        assert!(text.contains(from), "{from}");
        let told = HostsExperiment::read(&text.replacen(from, to, 1), "x.toml").unwrap_err().to_string();
        let line = text.split(from).next().unwrap_or_default().matches('\n').count() + 1;
        let lines = line..=line + to.matches('\n').count();
        assert!(lines.into_iter().any(|line| told == format!("x.toml:{line}: {expected}")), "{line}: {told}");
    };
    check(
        "message_bytes = 1024",
        "message_bytes = 65508",
        "work.message_bytes is 65508; expected 1 to 65507",
    );
    check(
        "block_bytes = 65536",
        "block_bytes = 1023",
        "client.adapter.block_bytes is 1023; expected the largest of adapter.pieces_bytes or more",
    );
    let memory = "[client.memory]\nadapter_node = 2\nremote_dma_ns = 100\nline_bytes = 128\nremote_line_ns = 30\ncopy_ps_per_byte = 0\n\n[client.cpus]";
    check(
        "[client.cpus]",
        memory,
        "client.memory.adapter_node is 2; expected a node: less than cpus.cores over cpus.cores_per_node",
    );
    check(
        "[client.cpus]",
        &memory.replace("node = 2", "node = 1").replace("line_bytes = 128", "line_bytes = 100"),
        "client.memory.line_bytes is 100; expected a power of two from 16 to 4096",
    );
    let iommu = "[client.iommu]\nentries = 64\nways = 65\nwalk_ns = 300\nwalk_gap_ns = 50\n\n[client.cpus]";
    check("[client.cpus]", iommu, "client.iommu.ways is 65; expected 1 to as many as entries, and 4096");
    let queue = "queue = { slots = 1, flush_ns = 700, poll_ns = 0, waits_with_lock = true }\n\n[client.cpus]";
    check(
        "[client.cpus]",
        &iommu.replace("ways = 65", "ways = 64").replace("\n[client.cpus]", queue),
        "client.iommu.queue.slots is 1; expected 2 to 65536",
    );
    check(
        "inline_bytes = 104",
        "inline_bytes = 104\nfragment_bytes = 511",
        "client.adapter.fragment_bytes is 511; expected 512 to 16777216",
    );
    check("mtu_bytes = 1500", "mtu_bytes = 575", "wire.mtu_bytes is 575; expected 576 to 65535");
    check("wake_ns = 1000", "wake_ns = nan", "client.cpus.wake_ns is NaN; expected 0 to 1e9");
}

#[test]
fn a_window_in_which_no_exchange_ends_is_extended() {
    let text = include_str!("../../../experiments/two-hosts.toml");
    let mut setup = HostsExperiment::read(text, "x.toml").unwrap().setup();
    (setup.warm_up, setup.measured) = (Span::from_us(1), Span::from_us(1));
    let none = run_window(&setup).unwrap();
    assert_eq!((none.operations_per_second, none.latency_mean, none.latency_p99), (0.0, None, None));
    assert!(!none.window.is_checked);
    let outcome = holds(&setup);
    assert!(outcome.window.is_extended && outcome.window.measured > Span::from_us(100), "{outcome:?}");
    assert!(outcome.latency_mean.is_some());
}

/// A strict host that maps 4 KiB at a time sends what it can unmap, however fast its wire is. One CPU cleans up and
/// moves packets into the ring: to map or unmap takes 400 instructions, and to unmap 200 and 4 us more with the lock
/// held.
#[test]
fn a_strict_host_sends_what_it_can_unmap() {
    let mut setup = setup(translated(InvalidationMode::Strict), STREAM, TCP, 64 << 10, 32);
    setup.wire = Wire { bits_per_second: 100e9, mtu_bytes: 9_000, latency: ns(300) };
    let [sender, receiver] = &mut setup.hosts;
    sender.cpus.core_capacity = vec![1.0];
    sender.mapping.invalidation = ns(4_000);
    (sender.adapter.fragment_bytes, sender.adapter.send_rings) = (Some(4096), 1);
    // Acknowledgements are copied out of their buffers, so that nothing else is unmapped.
    (receiver.dma_path, receiver.adapter.keeps_buffers) = (translated(InvalidationMode::Lazy), true);
    let outcome = holds(&setup);
    let unmappings = outcome.hosts[0].cpus.invalidations_per_second;
    let most = 1e9 / (200.0 + 200.0 + 100.0 + 4_000.0);
    assert!((0.98 * most..=1.001 * most).contains(&unmappings), "{unmappings} of {most}: {outcome:?}");
    // A segment of 64 KiB is sixteen pieces and its headers.
    let gigabits = most * 16.0 / 17.0 * 4096.0 * 8e-9;
    let got = outcome.gigabits_per_second;
    assert!((0.98 * gigabits..=1.01 * gigabits).contains(&got), "{got} of {gigabits}");
    assert!(got < 4096.0 * 8.0 / 4_000.0, "less than a piece for each wait");
    assert!(outcome.hosts[0].send_stopped_share > 0.9, "{outcome:?}");
    // Enough bytes in flight would fill the wire.
    setup.hosts[0].dma_path = translated(InvalidationMode::Lazy);
    assert!(holds(&setup).gigabits_per_second > 3.0 * gigabits);
}

/// Each side maps a frame that it sends, and unmaps it: two hypercalls, since frames that are received are copied.
#[test]
fn an_exchange_makes_as_many_hypercalls_as_it_has_mappings() {
    let text = include_str!("../../../experiments/two-hosts.toml");
    let text = text.replace("message_bytes = 1024", "message_bytes = 64");
    let mut setup = HostsExperiment::read(&text, "x.toml").unwrap().setup();
    (setup.warm_up, setup.measured) = (Span::from_ms(60), Span::from_ms(60));
    let outcome = holds(&setup);
    for host in &outcome.hosts {
        let each = host.cpus.hypercalls_per_second / outcome.operations_per_second;
        assert!((each - 2.0).abs() < 0.005, "{each}: {outcome:?}");
    }
}

/// A ring of one descriptor has one frame in it at a time: the next is mapped when the first was cleaned up.
#[test]
fn a_packet_waits_until_the_ring_has_room_to_the_picosecond() {
    // Two frames of a datagram, whose exchange is longer by what the second one waits: from when it would have been
    // mapped until the first one is sent, its interrupt is taken and its clean-up is over.
    let with = |send_entries| {
        let mut setup = alone(2_000);
        for host in &mut setup.hosts {
            (host.adapter.inline_bytes, host.adapter.send_entries) = (0, send_entries);
            (host.adapter.send_rings, host.adapter.send_delay) = (4, Span::ZERO);
            host.adapter.copied_bytes = 1514;
            // What is received waits for nothing.
            (host.paths.receive, host.paths.interrupt) = (0.0, 0.0);
        }
        // The ring's interrupts run on a CPU of their own.
        setup.seed = seed_of_ring(3);
        let outcome = holds(&setup);
        (outcome.latency_mean.unwrap().as_ps(), outcome)
    };
    let ((one, stopped), (many, free)) = (with(1), with(256));
    let frame = [1_500_u64, 556];
    let fetched = |bytes: u64| {
        let requests = bytes.div_ceil(512) * 24;
        (requests + bytes + bytes.div_ceil(256) * 20) * 1_000 / 4
    };
    let wire = |bytes: u64| (bytes + 38) * 800;
    // Since the first frame's doorbell. To map or unmap takes 100 instructions of 500 ps.
    let first_sent = fetched(frame[0]) + 800_000 + wire(frame[0]);
    let second_mapped = first_sent + (100 + 100) * 500;
    let late = second_mapped + fetched(frame[1]) + 800_000 + wire(frame[1]);
    let second_sent =
        |doorbell: u64| (doorbell + fetched(frame[1]) + 800_000).max(first_sent) + wire(frame[1]);
    let early = second_sent((4_000 + 100) * 500);
    assert_eq!(one - many, 2 * (late - early));
    assert!(stopped.hosts[0].send_stopped_share > 0.0 && free.hosts[0].send_stopped_share == 0.0);
}

/// A receive ring of few entries holds frames up until a poll has put new buffers there; none is lost.
#[test]
fn frames_wait_for_a_full_receive_ring() {
    let with = |receive_entries| {
        let mut setup = setup(DmaPath::Direct, STREAM, TCP, 64 << 10, 8);
        setup.hosts[1].adapter.receive_entries = receive_entries;
        holds(&setup)
    };
    let (few, many) = (with(8), with(4096));
    assert!(few.hosts[1].receive_paused_share > 0.5 && many.hosts[1].receive_paused_share == 0.0, "{few:?}");
    assert!(few.gigabits_per_second < many.gigabits_per_second);
    assert_eq!(few.totals.receive_entries_max, 8);
}

/// Longer than its send ring, a packet would wait for ever.
#[test]
fn a_ring_too_short_for_a_segment_is_refused() {
    let mut setup = setup(DmaPath::Direct, STREAM, TCP, 64 << 10, 1);
    (setup.hosts[1].adapter.send_entries, setup.hosts[1].adapter.fragment_bytes) = (16, Some(4096));
    let told = run(&setup).unwrap_err().to_string();
    assert_eq!(
        told,
        "a send ring of the server has 16 descriptors; expected 17, those of the longest packet"
    );
}

#[test]
fn a_machine_that_is_never_steady_has_no_figures() {
    let mut setup = alone(64);
    // An exchange takes longer than any window.
    setup.hosts[0].paths.write = 1e15;
    let told = run(&setup).unwrap_err().to_string();
    assert!(
        told.starts_with("no steady state: after ") && told.contains("no bytes read in the window"),
        "{told}"
    );
}

/// A window of less than 1 GiB has one small pool; larger requests than 15 pages have one lock in any.
#[test]
fn pools_are_those_that_the_window_has() {
    let rate = |bytes, locking, block_bytes| {
        let mut setup = setup(window(locking), Pattern::Exchange, Protocol::Udp, 1_000, 32);
        for host in &mut setup.hosts {
            (host.dma_path, host.mapping.locked_instructions) = (DmaPath::Window { bytes, locking }, 5_000.0);
            host.adapter.buffers = ReceiveBuffers::EachFrame { pieces_bytes: vec![block_bytes] };
        }
        holds(&setup).operations_per_second
    };
    let four = rate(1 << 30, Locking::Pools, 2048);
    assert!(rate(512 << 20, Locking::Pools, 2048) < 0.9 * four);
    assert!(rate(1 << 30, Locking::Pools, 64 << 10) < 0.97 * four);
}

#[test]
fn a_load_of_tcp_takes_the_paths_of_tcp() {
    let text = include_str!("../../../experiments/two-hosts.toml");
    let write = |text: &str| {
        let setup = HostsExperiment::read(text, "two-hosts.toml").unwrap().setup();
        setup.hosts.map(|host| host.paths.write)
    };
    let tcp = text.replace("protocol = \"udp\"", "protocol = \"tcp\"");
    assert_eq!((write(text), write(&tcp)), ([4110.0; 2], [2082.0; 2]));
    let (before, table) = tcp.split_once("\n[client.tcp_paths]").unwrap();
    let without = format!("{before}\n{}", &table[table.find("[client.adapter]").unwrap()..]);
    assert_eq!(write(&without), [4110.0; 2]);
}
