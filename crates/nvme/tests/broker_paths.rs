//! A disk that a broker serves by several controllers, with threads that sleep until an interrupt.

#![cfg(all(target_os = "linux", not(loom)))]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "support/serving.rs"]
mod serving;

use dma::vfio::Interrupt;
use nvme::Controller;
use nvme::broker::{Broker, BrokerError, Limits, ServedDisk, Share};
use nvme::chunk::{Chunk, ChunkError, DiskPath, Wait};
use nvme::emulated::{Emulated, Fault, Machine};
use serving::Serving;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const BLOCKS: u64 = 256;
const BLOCK: usize = 4096;

/// Held by each test, which looks at all threads of brokers.
static ALONE: Mutex<()> = Mutex::new(());

struct Served {
    folder: tempfile::TempDir,
    emulated: Vec<Arc<Emulated>>,
    serving: Serving,
}

/// How the broker's thread waits.
#[derive(Clone, Copy, PartialEq)]
enum Waits {
    Polling,
    ForInterrupts,
}

impl Served {
    fn new(paths: usize, waits: Waits) -> Self {
        Self::prepared(paths, waits, |_| {})
    }

    fn prepared(paths: usize, waits: Waits, prepare: impl Fn(&mut Controller)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let machines = Machine::builder(BLOCKS, 12).open_paths(paths).unwrap();
        let path = |machine: Machine| {
            let namespace = machine.namespace().unwrap();
            let interrupts = (waits == Waits::ForInterrupts).then(|| machine.queue_interrupts(1).unwrap());
            let mut controller = machine.controller;
            prepare(&mut controller);
            let controller = Arc::new(Mutex::new(controller));
            (machine.emulated, DiskPath { controller, namespace, interrupts })
        };
        let (emulated, paths) = machines.into_iter().map(path).unzip();
        let mut limits = Limits::default();
        limits.requests = 16;
        limits.retry_policy.timeout = Duration::from_millis(400);
        let share = Share { socket: folder.path().join("disk"), first: 0, blocks: BLOCKS, is_writable: true };
        let broker = Broker::new(paths, vec![share], limits).unwrap();
        Self { folder, emulated, serving: Serving::start(broker, Arc::new(|_| {})) }
    }

    fn chunk(&self) -> Chunk {
        ServedDisk::connect(&self.folder.path().join("disk")).unwrap().queue(16, &[]).unwrap().into()
    }
}

fn block(byte: u8) -> Vec<u8> {
    vec![byte; BLOCK]
}

#[test]
fn clients_go_on_while_a_path_is_left() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for waits in [Waits::Polling, Waits::ForInterrupts] {
        let mut served = Served::new(2, waits);
        let before: Vec<u64> = served.emulated.iter().map(|emulated| emulated.commands()).collect();
        let mut chunk = served.chunk();
        for byte in 0..100 {
            if byte == 40 {
                let pulled = &served.emulated[1];
                pulled.inject(pulled.commands() + 3, Fault::Gone);
            }
            let begun: Vec<_> =
                (0..8).map(|slot| chunk.awrite(slot * 16, &block(byte + slot as u8)).unwrap()).collect();
            begun.into_iter().for_each(|write| {
                chunk.aresult(write, &mut [], Wait::Yes).unwrap();
            });
            let mut read = block(0);
            for slot in 0..8 {
                chunk.read(u64::from(slot) * 16, &mut read).unwrap();
                assert!(read == block(byte + slot));
            }
        }
        // Each who flushes is told once that writes may be lost, also one that has written nothing.
        let mut other = served.chunk();
        for flushing in [&mut chunk, &mut other] {
            assert!(matches!(flushing.flush(), Err(ChunkError::PathLost)));
            flushing.flush().unwrap();
        }
        served.chunk().flush().unwrap();
        for (emulated, before) in served.emulated.iter().zip(before) {
            assert!(emulated.commands() > before + 100);
        }
        let last = &served.emulated[0];
        last.inject(last.commands(), Fault::Gone);
        assert!(chunk.read(0, &mut block(0)).is_err());
        assert!(served.serving.stop().is_some());
    }
}

/// Switches of the broker's threads to other threads because they slept, not because their time was over.
fn sleeps() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let of_broker =
        |task: &PathBuf| fs::read_to_string(task.join("comm")).is_ok_and(|name| name == "iotoll-broker\n");
    let switches = |task: PathBuf| {
        let status = fs::read_to_string(task.join("status")).unwrap_or_default();
        let line =
            status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:").map(str::to_owned));
        line.map_or(0, |number| number.trim().parse().unwrap())
    };
    tasks.filter(of_broker).map(switches).sum()
}

#[test]
fn a_thread_sleeps_while_a_command_is_in_flight_if_it_has_interrupts() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let sleeps_while_stuck = |waits| {
        let served = Served::new(1, waits);
        let mut chunk = served.chunk();
        chunk.write(1, &block(1)).unwrap();
        let emulated = &served.emulated[0];
        emulated.inject(emulated.commands(), Fault::Stuck);
        let before = sleeps();
        // Aborted after 400 ms, and then repeated.
        chunk.write(3, &block(3)).unwrap();
        sleeps() - before
    };
    // It looks every 10 ms whether the controller works.
    let slept = sleeps_while_stuck(Waits::ForInterrupts);
    let polled = sleeps_while_stuck(Waits::Polling);
    assert!(slept > 10 && polled < 10, "{slept} and {polled} sleeps");
}

/// Where no path is left, the broker ends and says why.
#[test]
fn a_broker_ends_when_the_system_wants_its_controller_back() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let request = Interrupt::new().unwrap();
    let mut served = Served::prepared(1, Waits::Polling, |controller| {
        controller.on_removal_request(request.try_clone().unwrap());
    });
    let mut chunk = served.chunk();
    chunk.write(1, &block(1)).unwrap();
    request.signal().unwrap();
    while chunk.write(1, &block(2)).is_ok() {}
    let error = served.serving.end().unwrap_err();
    assert!(matches!(&error, BrokerError::Lost { why } if why.contains("wants the adapter back")), "{error}");
    assert!(!served.folder.path().join("disk").exists());
}
