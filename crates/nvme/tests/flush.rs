//! A flush that succeeds has flushed all writes that were acknowledged before it, whichever queue of the process they came from. Each emulated controller
//! has a write cache of its own, which it loses with its power.

#![cfg(all(target_os = "linux", not(loom)))]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "support/serving.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod serving;
#[path = "support/two_paths.rs"]
mod two_paths;

use nvme::Controller;
use nvme::broker::ServedDisk;
use nvme::chunk::{Chunk, ChunkError, RetryPolicy, Wait};
use nvme::emulated::Fault;
use nvme::spec::status::Status;
use serving::Serving;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use two_paths::{BLOCK, TwoPaths};

fn write(chunk: &mut Chunk, blocks: std::ops::Range<u64>) {
    blocks.for_each(|at| chunk.write(at, &[1; BLOCK]).unwrap());
}

#[test]
fn the_controllers_say_that_the_path_can_t_be_used_now() {
    let bench = TwoPaths::new();
    let mut chunk = bench.chunk();
    write(&mut chunk, 0..4);
    let status = Status::of(Status::PATH_RELATED, 0x02).with_do_not_retry();
    (0..2).for_each(|place| bench.inject(place, Fault::Status(status)));
    bench.check(&chunk.flush(), 0..4);
}

/// The flush is repeated after each reset, but not for ever.
#[test]
fn others_reset_the_controller_again_and_again() {
    let bench = TwoPaths::new();
    let mut chunk = bench.chunk();
    write(&mut chunk, 0..4);
    let emulated = &bench.emulated[1];
    (0..6).for_each(|more| emulated.inject(emulated.commands() + more, Fault::Stuck));
    let flush = thread::scope(|scope| {
        let flushing = scope.spawn(|| chunk.flush());
        for _ in 0..5 {
            thread::sleep(Duration::from_millis(25));
            Controller::lock(&bench.controllers[1]).reset().unwrap();
        }
        flushing.join().unwrap()
    });
    bench.check(&flush, 0..4);
}

#[test]
fn a_write_is_acknowledged_after_another_queue_saw_the_controller_go() {
    let bench = TwoPaths::new();
    let (mut writing, mut flushing) = (bench.chunk(), bench.chunk());
    let begun = [10, 11].map(|at| writing.awrite(at, &[1; BLOCK]).unwrap());
    bench.inject(1, Fault::Gone);
    (20..24).for_each(|at| flushing.write(at, &[2; BLOCK]).unwrap());
    let _ = flushing.flush();
    for request in begun {
        writing.aresult(request, &mut [], Wait::Yes).unwrap();
    }
    bench.check(&flushing.flush(), 10..12);
}

/// A command whose every execution stops the second controller makes a queue give that up. Another queue resets it once more and goes on.
#[test]
fn one_queue_alone_gives_a_controller_up() {
    let bench = TwoPaths::new();
    let (mut writing, mut flushing) = (bench.chunk(), bench.chunk());
    bench.emulated[1].inject_at_block(77, Fault::Fatal);
    (0..2).for_each(|_| flushing.write(77, &[7; BLOCK]).unwrap());
    let _ = flushing.flush();
    write(&mut writing, 10..14);
    bench.check(&flushing.flush(), 10..14);
}

#[test]
fn a_client_s_thread_of_the_broker_alone_gives_a_controller_up() {
    let bench = TwoPaths::new();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("disk");
    let broker = bench.broker(&socket);
    let mut serving = Serving::start(broker, Arc::new(|_| {}));
    let [mut writing, mut flushing] =
        [(); 2].map(|()| Chunk::from(ServedDisk::connect(&socket).unwrap().queue(8, &[]).unwrap()));
    bench.emulated[1].inject_at_block(77, Fault::Fatal);
    (0..2).for_each(|_| flushing.write(77, &[7; BLOCK]).unwrap());
    let _ = flushing.flush();
    write(&mut writing, 10..14);
    let flush = flushing.flush();
    drop((writing, flushing));
    let _ = serving.stop();
    bench.check(&flush, 10..14);
}

#[test]
fn a_queue_is_opened_while_a_controller_has_failed() {
    let bench = TwoPaths::new();
    Controller::lock(&bench.controllers[1]).set_admin_timeout(Duration::from_millis(100));
    let mut writing = bench.chunk();
    bench.inject(1, Fault::Fatal);
    let begun = [8, 9].map(|at| writing.awrite(at, &[1; BLOCK]).unwrap());
    let mut flushing = bench.chunk();
    for request in begun {
        writing.aresult(request, &mut [], Wait::Yes).unwrap();
    }
    write(&mut writing, 10..14);
    bench.check(&flushing.flush(), 8..14);
}

#[test]
fn a_queue_is_opened_while_a_controller_is_wanted_back() {
    let (bench, request) = TwoPaths::with_removal();
    let mut writing = bench.chunk();
    write(&mut writing, 10..14);
    request.signal().unwrap();
    let mut flushing = bench.chunk();
    bench.check(&flushing.flush(), 10..14);
}

/// One queue has left a controller that is wanted back. Another has not looked yet, and goes on.
#[test]
fn one_queue_alone_has_left_a_controller() {
    for _ in 0..20 {
        let (bench, request) = TwoPaths::with_removal();
        let mut flushing = bench.chunk();
        thread::sleep(Duration::from_millis(5));
        let mut writing = bench.chunk();
        let before = Arc::strong_count(&bench.controllers[1]);
        request.signal().unwrap();
        while Arc::strong_count(&bench.controllers[1]) == before {
            flushing.write(20, &[2; BLOCK]).unwrap();
        }
        let _ = flushing.flush();
        write(&mut writing, 10..12);
        let flush = flushing.flush();
        bench.emulated[1].lose_power();
        let is_lost = bench.emulated[0].disk()[10 * BLOCK..12 * BLOCK] != [1; 2 * BLOCK];
        assert!(flush.is_err() || !is_lost);
    }
}

#[test]
fn a_queue_of_one_controller_writes() {
    let bench = TwoPaths::new();
    let (mut writing, mut flushing) = (TwoPaths::open(&[bench.path(1)]), bench.chunk());
    write(&mut writing, 10..11);
    bench.inject(1, Fault::Gone);
    bench.check(&flushing.flush(), 10..11);
}

/// A controller that is wanted back works: nothing is lost, so no flush fails.
#[test]
fn two_queues_leave_a_controller() {
    for _ in 0..10 {
        let (bench, request) = TwoPaths::with_removal();
        let mut chunks = [bench.chunk(), bench.chunk()];
        write(&mut chunks[0], 10..14);
        request.signal().unwrap();
        thread::sleep(Duration::from_millis(12));
        for number in 0..200 {
            for (chunk, first) in chunks.iter_mut().zip([100, 160]) {
                chunk.write(first + number % 50, &[3; BLOCK]).unwrap();
                if number % 10 == 0 {
                    chunk.flush().unwrap();
                }
            }
        }
        bench.emulated[1].lose_power();
        let disk = bench.emulated[0].disk();
        assert!(disk[10 * BLOCK..14 * BLOCK] == [1; 4 * BLOCK]);
        assert!([100, 160].iter().all(|first| disk[first * BLOCK..][..50 * BLOCK] == [3; 50 * BLOCK]));
    }
}

/// Nor does one that begins while the controller still has a command in flight.
#[test]
fn a_controller_that_is_being_left_is_flushed() {
    let (bench, request) = TwoPaths::with_removal();
    let mut policy = RetryPolicy::default();
    policy.timeout = Duration::from_millis(80);
    let mut chunk = Chunk::open(&bench.paths(), 8, 4096, policy).unwrap();
    write(&mut chunk, 10..14);
    bench.inject(1, Fault::Stuck);
    let begun = [20, 21].map(|at| chunk.awrite(at, &[1; BLOCK]).unwrap());
    request.signal().unwrap();
    for _ in 0..20 {
        chunk.read(0, &mut [0; BLOCK]).unwrap();
        thread::sleep(Duration::from_millis(1));
    }
    chunk.flush().unwrap();
    for request in begun {
        chunk.aresult(request, &mut [], Wait::Yes).unwrap();
    }
}

/// Whoever flushes next is told: the one whose result tells of the loss does not look at it.
#[test]
fn a_result_that_is_not_fetched_tells_nobody() {
    let bench = TwoPaths::new();
    write(&mut TwoPaths::open(&[bench.path(1)]), 10..11);
    let mut flushing = bench.chunk();
    let before = Arc::strong_count(&bench.controllers[1]);
    bench.inject(1, Fault::Gone);
    let flush = flushing.begin_flush().unwrap();
    while Arc::strong_count(&bench.controllers[1]) == before {
        flushing.read(0, &mut [0; BLOCK]).unwrap();
    }
    // Another result is fetched.
    bench.inject(0, Fault::Status(Status::LBA_OUT_OF_RANGE.with_do_not_retry()));
    assert!(matches!(flushing.read(0, &mut [0; BLOCK]), Err(ChunkError::Status(_))));
    let mut later = bench.chunk();
    assert!(matches!(later.flush(), Err(ChunkError::PathLost)));
    later.flush().unwrap();
    // And it is told all the same, when it looks.
    assert!(matches!(flushing.aresult(flush, &mut [], Wait::Yes), Err(ChunkError::PathLost)));
    flushing.flush().unwrap();
}

#[test]
fn a_client_that_has_left_was_not_told() {
    let bench = TwoPaths::new();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("disk");
    let mut serving = Serving::start(bench.broker(&socket), Arc::new(|_| {}));
    let open = || Chunk::from(ServedDisk::connect(&socket).unwrap().queue(8, &[]).unwrap());
    let mut leaving = open();
    write(&mut leaving, 10..14);
    bench.inject(1, Fault::Gone);
    // The broker sees the flush and the end together.
    leaving.begin_flush().unwrap();
    drop(leaving);
    let mut later = open();
    assert!(matches!(later.flush(), Err(ChunkError::PathLost)));
    later.flush().unwrap();
    drop(later);
    let _ = serving.stop();
}

/// Nor one that has its result and does not look at it.
#[test]
fn a_client_that_does_not_look_was_not_told() {
    let bench = TwoPaths::new();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("disk");
    let mut serving = Serving::start(bench.broker(&socket), Arc::new(|_| {}));
    let open = || Chunk::from(ServedDisk::connect(&socket).unwrap().queue(8, &[]).unwrap());
    let mut idle = open();
    write(&mut idle, 10..14);
    let before = Arc::strong_count(&bench.controllers[1]);
    bench.inject(1, Fault::Gone);
    let flush = idle.begin_flush().unwrap();
    while Arc::strong_count(&bench.controllers[1]) == before {
        idle.read(0, &mut [0; BLOCK]).unwrap();
    }
    // The flush has ended before this.
    idle.read(0, &mut [0; BLOCK]).unwrap();
    let mut later = open();
    assert!(matches!(later.flush(), Err(ChunkError::PathLost)));
    later.flush().unwrap();
    assert!(matches!(idle.aresult(flush, &mut [], Wait::Yes), Err(ChunkError::PathLost)));
    idle.flush().unwrap();
    assert!(open().flush().is_ok(), "somebody knows");
    drop((idle, later));
    let _ = serving.stop();
}

/// It has lost what its cache had.
#[test]
fn a_controller_loses_its_power_and_has_it_again() {
    let bench = TwoPaths::new();
    for paths in [bench.paths(), vec![bench.path(1)]] {
        let (mut writing, mut flushing) = (TwoPaths::open(&paths), TwoPaths::open(&paths));
        write(&mut writing, 10..14);
        bench.emulated[1].lose_power();
        assert!(matches!(flushing.flush(), Err(ChunkError::PathLost)));
        assert!(matches!(writing.flush(), Err(ChunkError::PathLost)));
        write(&mut writing, 10..14);
        [&mut flushing, &mut writing].into_iter().for_each(|chunk| chunk.flush().unwrap());
        bench.emulated[1].lose_power();
        assert!(bench.emulated[0].disk()[10 * BLOCK..14 * BLOCK] == [1; 4 * BLOCK]);
        flushing.flush().unwrap();
    }
}

/// The flush fails, and the writes are still to be flushed.
#[test]
fn another_thread_has_a_controller_that_is_to_be_flushed() {
    let (bench, request) = TwoPaths::with_removal();
    let mut writing = TwoPaths::open(&[bench.path(1)]);
    write(&mut writing, 10..11);
    request.signal().unwrap();
    let mut flushing = bench.chunk();
    let guard = Controller::lock(&bench.controllers[1]);
    let flush = thread::scope(|scope| scope.spawn(|| flushing.flush()).join().unwrap());
    assert!(matches!(flush, Err(ChunkError::Nvme(_))), "{flush:?}");
    drop(guard);
    bench.check(&flushing.flush(), 10..11);
}

#[test]
fn a_controller_that_was_shut_down_has_lost_nothing() {
    for shuts_down in [true, false] {
        let (bench, request) = TwoPaths::with_removal();
        let mut writing = TwoPaths::open(&[bench.path(1)]);
        write(&mut writing, 10..11);
        request.signal().unwrap();
        let mut flushing = bench.chunk();
        writing.close().unwrap();
        let TwoPaths { emulated, mut controllers } = bench;
        let controller = Arc::into_inner(controllers.pop().unwrap()).unwrap().into_inner().unwrap();
        if shuts_down {
            controller.shut_down().unwrap();
        } else {
            drop(controller);
        }
        assert_eq!(flushing.flush().is_ok(), shuts_down);
        flushing.flush().unwrap();
        emulated[1].lose_power();
        assert_eq!(emulated[0].disk()[10 * BLOCK..11 * BLOCK] == [1; BLOCK], shuts_down);
    }
}
