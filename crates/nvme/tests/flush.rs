//! A flush that succeeds has flushed all writes that were acknowledged before it, whichever queue of the process they came from. Each emulated controller
//! has a write cache of its own, which it loses with its power.

#![cfg(all(target_os = "linux", not(loom)))]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "support/serving.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod serving;

use dma::vfio::Interrupt;
use nvme::Controller;
use nvme::broker::{Broker, Limits, ServedDisk, Share};
use nvme::chunk::{Chunk, ChunkError, DiskPath, RetryPolicy, Wait};
use nvme::emulated::{Emulated, Fault, Machine};
use nvme::spec::status::Status;
use serving::Serving;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const BLOCKS: u64 = 256;
const BLOCK: usize = 512;

struct Bench {
    emulated: Vec<Arc<Emulated>>,
    controllers: Vec<Arc<Mutex<Controller>>>,
}

impl Bench {
    /// Two controllers with one disk.
    fn new() -> Self {
        let machines = Machine::builder(BLOCKS, 9).open_paths(2).unwrap().into_iter();
        let both = machines.map(|machine| (machine.emulated, Arc::new(Mutex::new(machine.controller))));
        let (emulated, controllers) = both.unzip();
        Self { emulated, controllers }
    }

    /// The same; the system wants the second one back when the interrupt is signalled.
    fn with_removal() -> (Self, Interrupt) {
        let (bench, request) = (Self::new(), Interrupt::new().unwrap());
        Controller::lock(&bench.controllers[1]).on_removal_request(request.try_clone().unwrap());
        (bench, request)
    }

    fn path(&self, place: usize) -> DiskPath {
        let controller = Arc::clone(&self.controllers[place]);
        let namespace = controller.lock().unwrap().namespaces()[0];
        DiskPath::polled(controller, namespace)
    }

    fn paths(&self) -> Vec<DiskPath> {
        vec![self.path(0), self.path(1)]
    }

    fn chunk(&self) -> Chunk {
        Self::open(&self.paths())
    }

    fn open(paths: &[DiskPath]) -> Chunk {
        let mut policy = RetryPolicy::default();
        policy.timeout = Duration::from_millis(80);
        Chunk::open(paths, 8, 4096, policy).unwrap()
    }

    /// Has the next command of a controller fail.
    fn inject(&self, place: usize, fault: Fault) {
        let emulated = &self.emulated[place];
        emulated.inject(emulated.commands(), fault);
    }

    /// The second controller loses its cache. Then the flush must have failed, or the blocks of ones are there.
    fn check(&self, flush: &Result<(), ChunkError>, blocks: std::ops::Range<usize>) {
        self.emulated[1].lose_power();
        let disk = self.emulated[0].disk();
        let is_lost = blocks.into_iter().any(|at| disk[at * BLOCK..][..BLOCK] != [1; BLOCK]);
        assert!(flush.is_err() || !is_lost, "acknowledged, flushed and lost");
        assert!(is_lost, "the case has no writes in the second controller's cache");
    }
}

fn write(chunk: &mut Chunk, blocks: std::ops::Range<u64>) {
    blocks.for_each(|at| chunk.write(at, &[1; BLOCK]).unwrap());
}

#[test]
fn the_controllers_say_that_the_path_can_t_be_used_now() {
    let bench = Bench::new();
    let mut chunk = bench.chunk();
    write(&mut chunk, 0..4);
    let status = Status::of(Status::PATH_RELATED, 0x02).with_do_not_retry();
    (0..2).for_each(|place| bench.inject(place, Fault::Status(status)));
    bench.check(&chunk.flush(), 0..4);
}

/// The flush is repeated after each reset, but not for ever.
#[test]
fn others_reset_the_controller_again_and_again() {
    let bench = Bench::new();
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
    let bench = Bench::new();
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
    let bench = Bench::new();
    let (mut writing, mut flushing) = (bench.chunk(), bench.chunk());
    bench.emulated[1].inject_at_block(77, Fault::Fatal);
    (0..2).for_each(|_| flushing.write(77, &[7; BLOCK]).unwrap());
    let _ = flushing.flush();
    write(&mut writing, 10..14);
    bench.check(&flushing.flush(), 10..14);
}

#[test]
fn a_client_s_thread_of_the_broker_alone_gives_a_controller_up() {
    let bench = Bench::new();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("disk");
    let mut limits = Limits::default();
    (limits.threads, limits.requests) = (2, 8);
    limits.retry_policy.timeout = Duration::from_millis(400);
    let share = Share { socket: socket.clone(), first: 0, blocks: BLOCKS, is_writable: true };
    let broker = Broker::new(bench.paths(), vec![share], limits).unwrap();
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
    let bench = Bench::new();
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
    let (bench, request) = Bench::with_removal();
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
        let (bench, request) = Bench::with_removal();
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
    let bench = Bench::new();
    let (mut writing, mut flushing) = (Bench::open(&[bench.path(1)]), bench.chunk());
    write(&mut writing, 10..11);
    bench.inject(1, Fault::Gone);
    bench.check(&flushing.flush(), 10..11);
}

/// A controller that is wanted back works: nothing is lost, so no flush fails.
#[test]
fn two_queues_leave_a_controller() {
    for _ in 0..10 {
        let (bench, request) = Bench::with_removal();
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
    let (bench, request) = Bench::with_removal();
    let mut chunk = bench.chunk();
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
