//! Tests of transfers with an emulated controller: that every word that differs is counted, and no other.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../../nvme/tests/support/mod.rs"]
mod support;

use bench::{
    BlkError, ExpectedFrom, Origin, TransferBenchmark, TransferMemory, TransferSettings, TransferSource,
    run_transfer,
};
use dma::{
    Domain, Frames, Iotlb, Limits, Mapper, MemoryAddress, Pool, Ram, Requester, SoftwareDomain, Unit, Vtd,
};
use nvme::emulated::Emulated;
use nvme::{Controller, Namespace};
use std::sync::{Arc, Mutex};
use support::Bench;

/// Eight commands.
const BYTES: u64 = 64 << 10;
const COMMAND_BYTES: u64 = 8 << 10;
/// The first block that is transferred.
const FIRST: u64 = 16;

/// An emulated controller whose disk holds a pattern, and the pattern from [`FIRST`] on.
struct Host {
    controller: Arc<Mutex<Controller>>,
    emulated: Arc<Emulated>,
    namespace: Namespace,
    pattern: Vec<u8>,
    ram: Arc<dma::Ram>,
}

fn host() -> Host {
    let Bench { ram, emulated, mut controller, .. } = support::bench();
    let namespace = controller.namespaces()[0];
    let pattern: Vec<u8> =
        (0..BYTES / 8).flat_map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect();
    let mut queue = controller.queue_pair(4).unwrap();
    let buffer = controller.allocate(BYTES).unwrap();
    ram.write(buffer.memory(), &pattern).unwrap();
    queue.write(&namespace, FIRST, &[buffer.piece(0, BYTES).unwrap()]).unwrap();
    queue.ring_doorbell();
    queue.poll(1, |done| assert!(done.status.is_success())).unwrap();
    controller.delete(queue).unwrap();
    controller.free(buffer).unwrap();
    Host { controller: Arc::new(Mutex::new(controller)), emulated, namespace, pattern, ram }
}

fn settings() -> TransferSettings {
    TransferSettings {
        bytes: BYTES,
        command_bytes: COMMAND_BYTES,
        depth: 3,
        first: FIRST,
        rounds: 2,
        round_ms: 1,
    }
}

impl Host {
    fn run(
        &self,
        settings: TransferSettings,
        expected: Option<Vec<u8>>,
        memories: &[TransferMemory],
    ) -> Result<TransferBenchmark, BlkError> {
        let origin = Origin {
            made_by: "test".to_owned(),
            command: vec!["test".to_owned()],
            date: "2000-01-01".to_owned(),
        };
        let source = TransferSource {
            adapter: "0000:00:05.0".to_owned(),
            namespace: self.namespace,
            expected,
            forces_snooping: None,
        };
        let mut steps = Vec::new();
        let progress = &mut |done, all| steps.push((done, all));
        let benchmark = run_transfer(settings, origin, &self.controller, source, memories, progress)?;
        let all = 3 * (1 + memories.len()) as u64;
        assert_eq!(steps, (0..all).map(|done| (done, all)).collect::<Vec<_>>());
        Ok(benchmark)
    }
}

#[test]
fn a_controller_that_sees_what_the_cpu_sees_has_no_miscompare() {
    let host = host();
    let before = host.emulated.disk();
    for (expected, from) in
        [(None, ExpectedFrom::ThisProgram), (Some(host.pattern.clone()), ExpectedFrom::Kernel)]
    {
        let benchmark = host.run(settings(), expected, &[]).unwrap();
        assert_eq!((benchmark.has_miscompares(), benchmark.expected_from), (false, from));
        let [row] = &benchmark.memories[..] else { panic!("{benchmark:?}") };
        let reads = row.controller_reads.as_ref().unwrap();
        // A pass of the warm-up round and one of each round at least; a command of the way back has as many words as one there.
        assert!(row.controller_writes.words >= 3 * BYTES / 8);
        assert_eq!(row.controller_writes.words * 8 / COMMAND_BYTES, reads.commands);
        let rates = [
            row.controller_writes.bytes_per_second,
            reads.bytes_per_second,
            row.cpu_store_bytes_per_second,
            row.cpu_load_bytes_per_second,
        ];
        assert!(rates.iter().all(|rate| rate.is_some_and(|rate| rate.min > 0.0)), "{row:?}");
    }
    assert!(host.emulated.disk() == before, "nothing is written to the disk");
}

#[test]
fn each_word_that_differs_is_counted_and_each_command_that_has_one() {
    let host = host();
    // Three words in two commands: the first of the buffer, and two in the last command.
    let differing = [0, BYTES - COMMAND_BYTES, BYTES - 8];
    let mut expected = host.pattern.clone();
    differing.iter().for_each(|offset| expected[*offset as usize + 7] ^= 1);
    let benchmark = host.run(settings(), Some(expected.clone()), &[]).unwrap();
    let row = &benchmark.memories[0];
    let passes = row.controller_writes.words / (BYTES / 8);
    assert_eq!(row.controller_writes.miscompares, 3 * passes);
    let reads = row.controller_reads.as_ref().unwrap();
    assert_eq!((reads.commands, reads.miscompares), (8 * passes, 2 * passes));
    assert!(benchmark.has_miscompares());
    let first = row.controller_writes.first_miscompare.unwrap();
    assert_eq!((first.offset, first.is_stale), (0, false));
    assert_eq!((first.expected ^ first.found).to_le_bytes(), [0, 0, 0, 0, 0, 0, 0, 1]);
}

/// The CPU looks at other memory than the adapter writes, as it does with a line that its cache has kept.
#[test]
fn what_the_cpu_had_stored_before_is_called_stale() {
    let host = host();
    let mut controller = Controller::lock(&host.controller);
    let [seen, written] = [0, 1].map(|_| controller.allocate(BYTES).unwrap());
    drop(controller);
    let memory = TransferMemory {
        name: "not coherent".to_owned(),
        mapping: "of a test".to_owned(),
        memory_type: Some("WB".to_owned()),
        ram: Arc::clone(&host.ram),
        at: seen.memory(),
        piece: written.piece(0, BYTES).unwrap(),
    };
    let benchmark = host.run(settings(), None, &[memory]).unwrap();
    let [coherent, other] = &benchmark.memories[..] else { panic!("{benchmark:?}") };
    assert_eq!(coherent.controller_writes.miscompares, 0);
    assert_eq!(other.controller_writes.miscompares, other.controller_writes.words);
    assert!(other.controller_writes.first_miscompare.unwrap().is_stale);
    assert_eq!(
        benchmark.head.warnings[0],
        "data differed in not coherent (WB): its rates are those of transfers that failed"
    );
    assert!(benchmark.has_miscompares());
}

#[test]
fn pages_that_are_alike_are_warned_of() {
    let host = host();
    let warned = |first: u64| {
        let settings = TransferSettings { first, bytes: COMMAND_BYTES, ..settings() };
        let warnings = host.run(settings, None, &[]).unwrap().head.warnings;
        warnings.iter().any(|warning| warning.starts_with("all pages on the disk are alike"))
    };
    // Behind the pattern the disk is zero.
    assert!(!warned(FIRST) && warned(FIRST + BYTES / 512));
}

/// As much memory as the settings ask for is enough for their queue and buffer.
#[test]
fn the_memory_holds_every_depth() {
    for depth in [1, 8, 500, 768, 1024] {
        let settings = TransferSettings { depth, ..settings() };
        let (tables, bytes) = (2 << 20, settings.memory_bytes());
        let ram = Arc::new(Ram::new(MemoryAddress(0), tables + bytes));
        let unit = Arc::new(Unit::new(Arc::clone(&ram), Iotlb::new(64, 4)));
        let frames = Arc::new(Frames::new(MemoryAddress(0), tables));
        let table: SoftwareDomain<Vtd> = SoftwareDomain::new(Arc::clone(&unit), frames, 4).unwrap();
        table.attach(Requester(0x0300));
        let pool = Arc::new(Pool::new(ram.clone(), MemoryAddress(tables), bytes).unwrap());
        let domain = Domain::builder(Arc::new(table)).build().unwrap();
        let mapper = Mapper::translated(Limits::of_bits(64), domain).with_coherent(pool);
        let emulated = Arc::new(Emulated::new(unit.adapter(Requester(0x0300)), 512, 9));
        let controller = Controller::open(emulated, mapper, ram).unwrap();
        let namespace = controller.namespaces()[0];
        let host = Host { controller: Arc::new(Mutex::new(controller)), namespace, ..host() };
        host.run(settings, None, &[]).unwrap();
    }
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let host = host();
    for (settings, words) in [
        (TransferSettings { command_bytes: 6144, ..settings() }, "expected a multiple of 4096"),
        (TransferSettings { command_bytes: 0, ..settings() }, "expected a multiple of 4096"),
        (TransferSettings { command_bytes: 1 << 20, bytes: 1 << 20, ..settings() }, "up to 524288"),
        (TransferSettings { bytes: 12 << 10, ..settings() }, "expected a multiple of 8192"),
        (TransferSettings { first: 500, ..settings() }, "up to "),
        (TransferSettings { first: u64::MAX, ..settings() }, "up to "),
    ] {
        let error = host.run(settings, None, &[]).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let mut controller = Controller::lock(&host.controller);
    for _ in 0..nvme::emulated::QUEUES_MAX {
        controller.queue_pair(4).unwrap();
    }
}
