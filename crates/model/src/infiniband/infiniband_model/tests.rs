use super::*;
use crate::Link;
use crate::infiniband::{Bus, CacheShape, Hca, HcaHost, Replacement, Wire, icm::Profile, message::Buffer};
use des::Wheel;

fn ns(ns: u64) -> Span {
    Span::from_ns(ns)
}

/// A link of 2 bytes a nanosecond, a wire of 1, memory of 2, and round times for everything else.
fn setup(contexts: MemoryKind) -> Setup {
    let link = Link {
        generation: 1.try_into().unwrap(),
        lanes: 8,
        payload_bytes_max: 128,
        read_request_bytes_max: 512,
        completion_boundary_bytes: 64,
        overhead_share: 0.0,
    };
    Setup {
        host: HcaHost { bus: Bus::Pcie(link), read: ns(400), post: ns(100), poll: ns(50) },
        adapter: Hca {
            send: ns(500),
            send_gap: ns(200),
            receive: ns(400),
            receive_gap: ns(100),
            works_max: 8,
            packets_max: 8,
            fetches_max: 8,
            cache: CacheShape { bytes: 1 << 20, line_bytes: 64, ways: 16, replacement: Replacement::Lru },
            profile: Profile::default(),
            memory: ns(150),
            memory_bytes_per_second: 2e9,
        },
        contexts,
        wire: Wire { bits_per_second: 8e9, overhead_share: 0.0, mtu_bytes: 2048, latency: ns(200) },
        seed: 1,
    }
}

/// Posts one message after another, and keeps how long each took until both sides knew.
#[derive(Debug)]
struct SequentialMessages {
    plan: Vec<Work>,
    posted: Time,
    known: u32,
    took: Vec<u64>,
}

impl SequentialMessages {
    fn known(&mut self, now: Time, actions: &mut Actions) {
        self.known += 1;
        if self.known.is_multiple_of(2) {
            self.took.push(now.since(self.posted).unwrap().as_ps());
            self.next(now, actions);
        }
    }

    fn next(&mut self, now: Time, actions: &mut Actions) {
        self.posted = now + ns(1000);
        if let Some(work) = self.plan.pop() {
            actions.post(self.posted, work);
        }
    }
}

impl Application for SequentialMessages {
    fn delivered(&mut self, now: Time, _: &Work, actions: &mut Actions) {
        self.known(now, actions);
    }

    fn completed(&mut self, now: Time, _: &Work, _: Time, actions: &mut Actions) {
        self.known(now, actions);
    }

    fn woken(&mut self, now: Time, _: u32, actions: &mut Actions) {
        self.next(now, actions);
    }
}

/// How long messages took whose buffers begin at these offsets, on the side that asks.
fn took(contexts: MemoryKind, verb: Verb, bytes: u64, offsets: &[u64]) -> Vec<u64> {
    let mut nodes = Nodes::new(&setup(contexts), 2);
    let regions = [0, 1].map(|node| nodes.node(node).register(1 << 20));
    let cqs = [0, 1].map(|node| nodes.node(node).completion_queue());
    let qp = nodes.connect([0, 1], cqs);
    let buffer = |node: usize, offset| Buffer { region: regions[node], offset, place: MemoryKind::Host };
    let work =
        |offset: &u64| Work { verb, qp, bytes, local: buffer(0, *offset), remote: buffer(1, 0), tag: 0 };
    let plan = offsets.iter().rev().map(work).collect();
    let application = SequentialMessages { plan, posted: Time::ZERO, known: 0, took: Vec::new() };
    let (application, outcome) = InfinibandModel::new(nodes, application).run::<Wheel<Event>>().unwrap();
    assert_eq!(outcome.totals.left, 0);
    application.took
}

/// Of 64 bytes read: the request's 24 bytes at 2 bytes a nanosecond, memory, 64 bytes with 20 more.
const READ: u64 = 12_000 + 400_000 + 42_000;

/// From the doorbell to when data of 64 bytes is on the wire.
const SENT: u64 = 16_000 + 200_000 + 500_000 + READ + READ + 92_000;

#[test]
fn a_small_send_takes_the_sum_of_its_parts_to_the_picosecond() {
    // It arrives, its descriptor is read, the engine works on it.
    let accepted = SENT + 200_000 + READ + 400_000;
    // Its 64 bytes are written with 24 more, then a completion of 32 with 24 more.
    let notified = accepted + 44_000 + 200_000 + 28_000 + 200_000;
    // The acknowledgement of 32 bytes goes back, and a completion is written.
    let completed = accepted + 32_000 + 200_000 + 28_000 + 200_000;
    let both = took(MemoryKind::Host, Verb::Send, 64, &[0, 0])[1];
    assert_eq!(both, notified.max(completed));
    assert_eq!(took(MemoryKind::Adapter, Verb::Send, 64, &[0, 0])[1], both);
}

#[test]
fn a_context_that_is_missing_adds_its_fetch_and_nothing_else() {
    // The ninth page of the buffer is translated by another segment, which only the sender lacks.
    let with_miss = |contexts| {
        let took = took(contexts, Verb::Write, 64, &[0, 0, 8 * 4096, 8 * 4096]);
        assert_eq!(took[3], took[1]);
        took[2] - took[1]
    };
    assert_eq!(with_miss(MemoryKind::Host), READ);
    assert_eq!(with_miss(MemoryKind::Adapter), 32_000 + 150_000);
}

#[test]
fn a_write_tells_its_receiver_nothing() {
    // Data is in memory while the acknowledgement is on its way.
    let accepted = SENT + 16_000 + 200_000 + 400_000;
    assert_eq!(
        took(MemoryKind::Host, Verb::Write, 64, &[0, 0])[1],
        accepted + 32_000 + 200_000 + 28_000 + 200_000
    );
}

#[test]
fn a_read_goes_there_and_comes_back() {
    // A request of 44 bytes, which the other engine serves.
    let asked = 16_000 + 200_000 + 500_000 + READ + 44_000 + 200_000 + 400_000;
    // Data of 64 bytes comes back and is written; its completion is behind it on the same link.
    let back = asked + READ + 92_000 + 200_000 + 400_000 + 44_000;
    assert_eq!(took(MemoryKind::Host, Verb::Read, 64, &[0, 0])[1], back + 28_000 + 200_000);
}

#[test]
fn packets_overlap() {
    // Two packets: the second is read while the first is on the wire, and follows it at once.
    let read = |bytes: u64| {
        let (requests, completions) = (bytes.div_ceil(512), bytes.div_ceil(128));
        (requests * 12_000, 400_000, (bytes + completions * 20) * 500)
    };
    let (first, memory, here) = read(2048);
    let posted = 16_000 + 200_000 + 500_000 + READ;
    let sent = posted + first + memory + here + (2048 + 28 + 16) * 1_000;
    // The second is there long before: it was asked for right behind the first.
    let second = sent + (2048 + 28) * 1_000 + 200_000 + 400_000;
    let expected = second + 32_000 + 200_000 + 28_000 + 200_000;
    // Placing the second takes until then: 16 packets with 24 bytes more each, and half of memory's time.
    let placed = second + (2048 + 16 * 24) * 500 + 200_000;
    assert_eq!(took(MemoryKind::Host, Verb::Write, 4096, &[0, 0])[1], expected.max(placed));
}
