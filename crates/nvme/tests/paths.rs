//! One disk through two controllers, of which one fails under load.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use dma::vfio::Interrupt;
use nvme::Controller;
use nvme::chunk::{Chunk, ChunkError, DiskPath, Drive, Paths, RetryPolicy, Wait, Waiting};
use nvme::emulated::{Emulated, Fault, Machine};
use nvme::spec::status::Status;
use proptest::prelude::*;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const BLOCKS: u64 = 256;
const BLOCK: usize = 512;
const SLOTS: u16 = 8;

struct Bench {
    emulated: Vec<Arc<Emulated>>,
    controllers: Vec<Arc<Mutex<Controller>>>,
}

impl Bench {
    fn new(paths: usize) -> Self {
        Self::of(Machine::builder(BLOCKS, 9).open_paths(paths).unwrap())
    }

    fn of(machines: Vec<Machine>) -> Self {
        let (emulated, controllers) = machines
            .into_iter()
            .map(|machine| (machine.emulated, Arc::new(Mutex::new(machine.controller))))
            .unzip();
        Self { emulated, controllers }
    }

    fn drives(&self) -> Vec<Drive> {
        let mut policy = RetryPolicy::default();
        policy.timeout = Duration::from_millis(80);
        let drive = |controller: &Arc<Mutex<Controller>>| {
            let namespace = controller.lock().unwrap().namespaces()[0];
            Drive::open(Arc::clone(controller), namespace, SLOTS, 4096, Waiting::Polling, policy).unwrap()
        };
        self.controllers.iter().map(drive).collect()
    }

    fn chunk(&self) -> Chunk {
        Paths::new(self.drives()).unwrap().into()
    }

    fn disk(&self) -> Vec<u8> {
        self.emulated[0].disk()
    }
}

fn block(byte: u8) -> [u8; BLOCK] {
    [byte; BLOCK]
}

#[test]
fn requests_take_turns_among_the_paths() {
    let bench = Bench::new(2);
    let before: Vec<u64> = bench.emulated.iter().map(|emulated| emulated.commands()).collect();
    let mut chunk = bench.chunk();
    for number in 0..20 {
        chunk.write(number, &block(number as u8)).unwrap();
    }
    let mut read = vec![0; 20 * BLOCK];
    for number in 0..20_usize {
        chunk.read(number as u64, &mut read[number * BLOCK..(number + 1) * BLOCK]).unwrap();
    }
    assert!(read.chunks(BLOCK).zip(0..).all(|(data, number)| data == block(number)));
    let each = bench.emulated.iter().zip(before).map(|(emulated, before)| emulated.commands() - before);
    assert_eq!(each.collect::<Vec<_>>(), [20, 20]);
    chunk.flush().unwrap();
    chunk.close().unwrap();
}

/// Only different controllers of one subsystem with one shared namespace are paths to it.
#[test]
fn other_disks_are_no_paths() {
    let refused = |drives: Vec<Drive>| match Paths::new(drives) {
        Err(ChunkError::NotOneDisk { what }) => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(Vec::new()), "no controller");
    let bench = Bench::new(2);
    let twice = bench.drives().into_iter().take(1).chain(bench.drives().into_iter().take(1)).collect();
    assert_eq!(refused(twice), "one controller twice");
    let alone = Bench::of(vec![Machine::open(BLOCKS, 9).unwrap(), Machine::open(BLOCKS, 9).unwrap()]);
    assert_eq!(refused(alone.drives()), "a namespace that is not shared");
    let other = Bench::new(1);
    let two_disks = bench.drives().into_iter().take(1).chain(other.drives()).collect();
    assert_eq!(refused(two_disks), "namespaces of different names");
    let change = |emulated: &Emulated| {
        emulated.change_controller(|identity| identity.subsystem = "nqn.other".to_owned());
    };
    let foreign = Bench::of(vec![Machine::builder(BLOCKS, 9).open_prepared(change).unwrap()]);
    let foreign = bench.drives().into_iter().take(1).chain(foreign.drives()).collect();
    assert_eq!(refused(foreign), "controllers of different subsystems");
    assert!(Paths::new(bench.drives().into_iter().take(1).collect()).is_ok(), "one path is enough");
}

#[test]
fn a_path_related_status_is_no_end_of_the_path() {
    let bench = Bench::new(2);
    let mut chunk = bench.chunk();
    for status in
        [Status::of(Status::PATH_RELATED, 0x02), Status::of(Status::PATH_RELATED, 0x70).with_do_not_retry()]
    {
        let emulated = &bench.emulated[0];
        (0..6).for_each(|more| emulated.inject(emulated.commands() + more, Fault::Status(status)));
        chunk.write(3, &block(3)).unwrap();
        let mut read = block(0);
        chunk.read(3, &mut read).unwrap();
        assert_eq!(read, block(3));
    }
    assert!(chunk.events().moved >= 2, "{:?}", chunk.events());
    // Where all paths say so, the request fails with that.
    for emulated in &bench.emulated {
        emulated
            .inject_at_block(9, Fault::Status(Status::of(Status::PATH_RELATED, 0x01).with_do_not_retry()));
    }
    let error = chunk.write(9, &block(9)).unwrap_err();
    assert!(matches!(error, ChunkError::Status(status) if status.kind() == 3), "{error}");
    chunk.close().unwrap();
    // An error of the media is one on any path.
    let bench = Bench::new(2);
    let mut chunk = bench.chunk();
    bench.emulated.iter().for_each(|emulated| {
        emulated.inject_at_block(10, Fault::Status(Status::UNRECOVERED_READ.with_do_not_retry()));
    });
    assert!(matches!(chunk.read(10, &mut block(0)), Err(ChunkError::Status(_))));
    assert_eq!(chunk.events().moved, 0);
    chunk.close().unwrap();
}

#[test]
fn a_flush_says_that_a_path_was_lost_with_unflushed_writes() {
    let bench = Bench::new(2);
    let mut chunk = bench.chunk();
    (0..4).for_each(|number| chunk.write(number, &block(1)).unwrap());
    chunk.flush().unwrap();
    (0..4).for_each(|number| chunk.write(number, &block(2)).unwrap());
    let emulated = &bench.emulated[1];
    emulated.inject(emulated.commands(), Fault::Gone);
    (0..4).for_each(|number| chunk.write(number, &block(3)).unwrap());
    assert!(matches!(chunk.flush(), Err(ChunkError::PathLost)));
    // Said once, as the kernel does of a file.
    chunk.flush().unwrap();
    (0..4).for_each(|number| chunk.write(number, &block(4)).unwrap());
    chunk.flush().unwrap();
    // Nothing was written since: nothing can be lost with the other.
    let emulated = &bench.emulated[0];
    emulated.inject(emulated.commands(), Fault::Gone);
    assert!(matches!(chunk.read(0, &mut block(0)), Err(ChunkError::Nvme(_))));
    assert!(matches!(chunk.flush(), Err(ChunkError::Abandoned { .. })));
    assert!(matches!(chunk.write(0, &block(5)), Err(ChunkError::Abandoned { .. })));
    chunk.close().unwrap();
}

#[test]
fn a_path_that_is_lost_by_a_flush_had_writes() {
    for has_written in [false, true] {
        let bench = Bench::new(2);
        let mut chunk = bench.chunk();
        if has_written {
            (0..4).for_each(|number| chunk.write(number, &block(1)).unwrap());
        }
        let emulated = &bench.emulated[1];
        emulated.inject(emulated.commands(), Fault::Gone);
        assert_eq!(matches!(chunk.flush(), Err(ChunkError::PathLost)), has_written);
        chunk.flush().unwrap();
        chunk.close().unwrap();
    }
}

/// Writes of one queue, a flush through another: as for a file, it does not matter whose they were.
#[test]
fn another_queue_s_flush_says_that_writes_were_lost() {
    let bench = Bench::new(2);
    let (mut writing, mut flushing) = (bench.chunk(), bench.chunk());
    (0..4).for_each(|number| writing.write(number, &block(1)).unwrap());
    flushing.flush().unwrap();
    (0..4).for_each(|number| writing.write(number, &block(2)).unwrap());
    let emulated = &bench.emulated[1];
    emulated.inject(emulated.commands(), Fault::Gone);
    assert!(matches!(flushing.flush(), Err(ChunkError::PathLost)));
    flushing.flush().unwrap();
    assert!(matches!(writing.flush(), Err(ChunkError::PathLost)));
    writing.flush().unwrap();
    // A later one is opened by the path that is left. What others were told of is no news.
    let open = || {
        let namespace = bench.controllers[0].lock().unwrap().namespaces()[0];
        let path = |controller: &Arc<Mutex<Controller>>| DiskPath::polled(Arc::clone(controller), namespace);
        let paths: Vec<DiskPath> = bench.controllers.iter().map(path).collect();
        Chunk::open(&paths, SLOTS, 4096, RetryPolicy::default())
    };
    let mut later = open().unwrap();
    later.write(5, &block(5)).unwrap();
    later.flush().unwrap();
    let last = &bench.emulated[0];
    last.inject(last.commands(), Fault::Gone);
    assert!(later.write(5, &block(6)).is_err() && open().is_err());
}

/// The system wants a controller back: requests go on through the other, nothing is lost, and nothing keeps the controller.
#[test]
fn a_controller_that_is_wanted_back_is_left() {
    let bench = Bench::new(2);
    let requests = [(); 2].map(|()| Interrupt::new().unwrap());
    for (controller, request) in bench.controllers.iter().zip(&requests) {
        controller.lock().unwrap().on_removal_request(request.try_clone().unwrap());
    }
    let mut chunk = bench.chunk();
    (0..8).for_each(|number| chunk.write(number, &block(number as u8)).unwrap());
    // Results of both paths that are fetched later.
    let reads: Vec<_> = (0..4).map(|number| chunk.aread(number, 1).unwrap()).collect();
    requests[1].signal().unwrap();
    let mut done = 0_u64;
    while Arc::strong_count(&bench.controllers[1]) > 1 {
        chunk.write(100 + done % 50, &block(9)).unwrap();
        done += 1;
    }
    for (number, read) in (0..).zip(reads) {
        let mut data = block(0xff);
        chunk.aresult(read, &mut data, Wait::Yes).unwrap();
        assert_eq!(data, block(number));
    }
    // The controller's cache was flushed before it was left.
    bench.emulated[1].lose_power();
    chunk.flush().unwrap();
    assert!(bench.disk()[7 * BLOCK..8 * BLOCK] == block(7));
    let before = bench.emulated[1].commands();
    (0..8).for_each(|number| chunk.write(number, &block(1)).unwrap());
    assert_eq!(bench.emulated[1].commands(), before);
    // The last one, too.
    requests[0].signal().unwrap();
    let error = loop {
        match chunk.write(0, &block(2)) {
            Ok(()) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ChunkError::Abandoned { .. }), "{error}");
    chunk.close().unwrap();
}

/// What a random run does.
#[derive(Debug, Clone)]
enum Step {
    Write { first: u64, blocks: usize, byte: u8 },
    Read { first: u64, blocks: usize },
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    let range = || (0..BLOCKS - 8, 1_usize..8);
    prop_oneof![
        4 => (range(), any::<u8>()).prop_map(|((first, blocks), byte)| Step::Write { first, blocks, byte }),
        4 => range().prop_map(|(first, blocks)| Step::Read { first, blocks }),
        1 => Just(Step::Flush),
    ]
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        Just(Fault::Gone),
        Just(Fault::Fatal),
        Just(Fault::LinkReset),
        Just(Fault::LostCompletion),
        Just(Fault::Stuck),
        Just(Fault::Twice),
        Just(Fault::Status(Status::of(Status::PATH_RELATED, 0x60))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Faults of one path, whatever they are, are not seen: the disk is what an array is, since each write ends before the next begins.
    #[test]
    fn one_path_may_fail_in_any_way(
        steps in prop::collection::vec(step(), 1..60),
        faults in prop::collection::vec((0_u64..80, fault()), 1..6),
        failing in 0_usize..2,
    ) {
        let bench = Bench::new(2);
        let start = bench.emulated[failing].commands();
        for (number, fault) in faults {
            bench.emulated[failing].inject(start + number, fault);
        }
        let (mut chunk, mut model) = (bench.chunk(), vec![0; BLOCKS as usize * BLOCK]);
        for step in steps {
            match step {
                Step::Write { first, blocks, byte } => {
                    chunk.write(first, &vec![byte; blocks * BLOCK]).unwrap();
                    model[first as usize * BLOCK..][..blocks * BLOCK].fill(byte);
                }
                Step::Read { first, blocks } => {
                    let mut read = vec![0; blocks * BLOCK];
                    chunk.read(first, &mut read).unwrap();
                    prop_assert!(read == model[first as usize * BLOCK..][..blocks * BLOCK]);
                }
                Step::Flush => match chunk.flush() {
                    Ok(()) | Err(ChunkError::PathLost) => {}
                    Err(error) => panic!("{error}"),
                },
            }
        }
        prop_assert!(bench.disk() == model);
        chunk.close().unwrap();
    }
}

/// A path is pulled while all slots are busy, at every place: each request ends well, and each acknowledged write is on the disk.
#[test]
fn a_path_is_pulled_under_load() {
    let (mut moved, mut writes) = (0, 0);
    for pulled_after in 0..40 {
        let bench = Bench::new(2);
        let emulated = &bench.emulated[pulled_after % 2];
        emulated.inject(emulated.commands() + pulled_after as u64 / 2, Fault::Gone);
        let mut chunk = bench.chunk();
        for round in 0..5_u8 {
            let begun: Vec<_> = (0..u64::from(SLOTS))
                .map(|slot| chunk.awrite(slot * 4, &block(round * 8 + slot as u8 + 1)).unwrap())
                .collect();
            for request in begun {
                chunk.aresult(request, &mut [], Wait::Yes).unwrap();
                writes += 1;
            }
            let disk = bench.disk();
            for slot in 0..usize::from(SLOTS) {
                let on_disk = &disk[slot * 4 * BLOCK..][..BLOCK];
                assert!(on_disk == block(round * 8 + slot as u8 + 1), "{pulled_after} {round} {slot}");
            }
            let begun: Vec<_> = (0..u64::from(SLOTS)).map(|slot| chunk.aread(slot * 4, 1).unwrap()).collect();
            for (slot, request) in (0..).zip(begun) {
                let mut read = block(0);
                chunk.aresult(request, &mut read, Wait::Yes).unwrap();
                assert_eq!(read, block(round * 8 + slot + 1));
            }
        }
        moved += chunk.events().moved;
        chunk.close().unwrap();
    }
    println!("{writes} writes, {moved} requests moved, 40 paths pulled");
    assert!(moved >= 40);
}
