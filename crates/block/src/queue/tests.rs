//! Queues that threads share, on an emulated controller.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use super::*;
use crate::errno;
use crate::thread_number;
use nvme::chunk::{DiskPath, RetryPolicy};
use nvme::emulated::{Emulated, Fault, Machine};
use nvme::spec::status::Status;
use std::thread::{self, JoinHandle};
use std::time::Instant;

const TAGS: u16 = 8;

/// A queue, and the controller behind it. Commands are never overdue.
struct Shared {
    queue: Queue,
    tags: Tags,
    emulated: Arc<Emulated>,
}

impl Shared {
    fn new() -> Arc<Self> {
        Self::of(vec![Machine::open(64, 12).unwrap()])
    }

    /// The same by several controllers, of which the last is the one in which faults are injected.
    fn of(machines: Vec<Machine>) -> Arc<Self> {
        let emulated = Arc::clone(&machines.last().unwrap().emulated);
        let path = |machine: Machine| {
            let namespace = machine.namespace().unwrap();
            DiskPath::polled(Arc::new(Mutex::new(machine.controller)), namespace)
        };
        let paths: Vec<DiskPath> = machines.into_iter().map(path).collect();
        let mut retry_policy = RetryPolicy::default();
        retry_policy.timeout = Duration::from_secs(3600);
        let disk = Chunk::open(&paths, TAGS, 4096, retry_policy).unwrap();
        let queue = Queue::new(disk, TAGS.into()).unwrap();
        Arc::new(Self { queue, tags: Tags::new(TAGS), emulated })
    }

    /// Injects a fault into the next command.
    fn inject(&self, fault: Fault) {
        self.emulated.inject(self.emulated.commands(), fault);
    }

    fn begin(&self, kind: Kind, data: &mut [u8], first: u64) -> Result<u32, Errno> {
        self.begin_with(kind, data, first, true)
    }

    fn begin_with(&self, kind: Kind, data: &mut [u8], first: u64, is_async: bool) -> Result<u32, Errno> {
        let tag = self.tags.take().unwrap();
        // SAFETY: the tests keep their data until they have the result.
        let buffer = unsafe { Buffer::new(data.as_mut_ptr()) };
        let command = NewCommand { kind, buffer, blocks: 1, is_async, user_tag: None, status: None };
        let run = Run { first, blocks: 1, offset: 0 };
        let begun = self.queue.begin(tag, &command, &[run], &self.tags, true);
        begun.inspect_err(|_| self.tags.free(tag, None)).map(|()| tag)
    }

    fn wait(&self, tag: u32) -> Result<usize, Errno> {
        loop {
            if let Some(blocks) = self.queue.take(tag, &self.tags, true)? {
                return Ok(blocks);
            }
            self.queue.wait(&self.tags, LOOK_AFTER, Awaited::Command(tag));
        }
    }

    /// Begins a flush in a thread of its own.
    fn flush(self: &Arc<Self>) -> JoinHandle<Result<(), Errno>> {
        let (shared, before) = (Arc::clone(self), self.emulated.commands());
        let flushes = thread::spawn(move || shared.queue.flush(&shared.tags));
        wait_until(|| self.emulated.commands() > before);
        flushes
    }
}

/// Long enough for any machine.
const LONG: Duration = Duration::from_secs(120);

fn wait_until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LONG);
        thread::sleep(Duration::from_millis(1));
    }
}

/// What a thread returns that must not hang.
fn join<T>(thread: JoinHandle<T>) -> T {
    wait_until(|| thread.is_finished());
    thread.join().unwrap()
}

#[test]
fn each_flush_has_its_own_result_and_holds_up_nobody() {
    let shared = Shared::new();
    let failure = Fault::Status(Status::INVALID_FIELD.with_do_not_retry());
    shared.inject(failure);
    // Of a thread that fetches its result late.
    let late = shared.queue.lock().as_mut().unwrap().begin_own(OwnOperation::Flush).unwrap();
    shared.inject(Fault::Stuck);
    let stuck = shared.flush();
    shared.inject(failure);
    assert_eq!(join(shared.flush()), Err(Errno::IO));
    let commands = thread::spawn({
        let shared = Arc::clone(&shared);
        move || {
            let mut data = vec![7; 4096];
            for block in 0..64 {
                let tag = shared.begin(Kind::Write, &mut data, block).unwrap();
                assert_eq!(shared.wait(tag), Ok(1));
            }
        }
    });
    join(commands);
    assert_eq!(join(shared.flush()), Ok(()));
    assert!(!stuck.is_finished());
    // The controller is reset, and the flush that never ended is submitted again.
    shared.inject(Fault::Fatal);
    assert_eq!(join(shared.flush()), Ok(()));
    assert_eq!(join(stuck), Ok(()));
    let result = shared.queue.lock().as_mut().unwrap().own.take(late, OwnOperation::Flush);
    assert!(matches!(result, Some(Err(ChunkError::Status(_)))), "{result:?}");
    assert_eq!(shared.queue.close().map_err(|error| error.to_string()), Ok(()));
}

/// A flush waits for a slot, as commands do.
#[test]
fn a_flush_waits_for_a_slot() {
    let shared = Shared::new();
    let mut data = vec![vec![0; 4096]; TAGS.into()];
    shared.inject(Fault::Stuck);
    let tags: Vec<u32> = data.iter_mut().map(|data| shared.begin(Kind::Read, data, 0).unwrap()).collect();
    let flushes = thread::spawn({
        let shared = Arc::clone(&shared);
        move || shared.queue.flush(&shared.tags)
    });
    assert_eq!(join(flushes), Ok(()));
    assert_eq!(tags[1..].iter().filter(|tag| shared.wait(**tag) == Ok(1)).count(), tags.len() - 1);
    shared.inject(Fault::Fatal);
    assert_eq!(join(shared.flush()), Ok(()));
    assert_eq!(shared.wait(tags[0]), Ok(1));
}

#[test]
fn more_blocks_are_zeroed_than_one_request_can() {
    let machine = Machine::builder(1 << 17, 9).memory_bytes(16 << 20).open().unwrap();
    let (namespace, emulated) = (machine.namespace().unwrap(), machine.emulated);
    let path = DiskPath::polled(Arc::new(Mutex::new(machine.controller)), namespace);
    let disk = Chunk::open(&[path], TAGS, 4096, RetryPolicy::default()).unwrap();
    let (queue, tags) = (Queue::new(disk, TAGS.into()).unwrap(), Tags::new(TAGS));
    assert_eq!(queue.write_zeroes(&tags, 1, (1 << 17) - 1), Ok(()));
    assert_eq!(emulated.commands(), 2);
    assert_eq!(queue.write_zeroes(&tags, 0, (1 << 17) + 1), Err(Errno::INVAL));
}

#[test]
fn a_queue_that_was_stopped_ends_what_it_has() {
    let shared = Shared::new();
    let mut data = vec![7; 4096];
    let before = shared.begin(Kind::Write, &mut data, 3).unwrap();
    shared.queue.stop();
    let mut read = vec![0; 4096];
    assert_eq!(shared.begin(Kind::Read, &mut read, 3), Err(Errno::INVAL));
    assert_eq!(shared.queue.flush(&shared.tags), Err(Errno::INVAL));
    assert_eq!(shared.wait(before), Ok(1));
    assert_eq!(shared.queue.write_zeroes(&shared.tags, 4, 1), Ok(()), "a close does that");
    shared.queue.resume();
    let after = shared.begin(Kind::Read, &mut read, 3).unwrap();
    assert_eq!((shared.wait(after), read == data), (Ok(1), true));
    assert_eq!((shared.queue.flush(&shared.tags), shared.tags.in_use()), (Ok(()), 0));
}

/// What waits for commands to end does not wait for flushes, which other threads may begin without an end.
#[test]
fn a_flush_is_no_command() {
    let shared = Shared::new();
    let queue = &shared.queue;
    shared.inject(Fault::Stuck);
    let flush = shared.flush();
    assert!(queue.is_in_flight() && !queue.has_parts());
    let mut data = vec![7; 4096];
    shared.inject(Fault::Stuck);
    let stuck = shared.begin(Kind::Write, &mut data, 3).unwrap();
    assert!(queue.has_parts());
    shared.inject(Fault::Fatal);
    assert_eq!(join(shared.flush()), Ok(()));
    assert_eq!((join(flush), shared.wait(stuck), queue.has_parts()), (Ok(()), Ok(1), false));
}

/// Asynchronous commands have results that may never be fetched.
#[test]
fn a_queue_is_busy_until_its_threads_have_their_results() {
    let shared = Shared::new();
    let queue = &shared.queue;
    let mut data = vec![7; 4096];
    shared.inject(Fault::Stuck);
    let stuck = shared.begin(Kind::Write, &mut data, 3).unwrap();
    queue.harvest_now(&shared.tags);
    assert!(queue.is_busy(), "it is in flight");
    shared.inject(Fault::Fatal);
    assert_eq!(join(shared.flush()), Ok(()));
    wait_until(|| {
        queue.harvest_now(&shared.tags);
        !queue.is_busy()
    });
    assert_eq!(shared.wait(stuck), Ok(1));
    let idle = || {
        queue.harvest_now(&shared.tags);
        !queue.is_in_flight()
    };
    let blocking = shared.begin_with(Kind::Read, &mut data, 3, false).unwrap();
    wait_until(idle);
    assert!(queue.is_busy());
    assert_eq!((shared.wait(blocking), queue.is_busy()), (Ok(1), false));
    let flush = queue.lock().as_mut().unwrap().begin_own(OwnOperation::Flush).unwrap();
    wait_until(idle);
    assert!(queue.is_busy());
    assert!(queue.lock().as_mut().unwrap().own.take(flush, OwnOperation::Flush).is_some());
    assert!(!queue.is_busy());
}

/// A command's failure is told to the thread that fetches its result.
#[test]
fn a_failed_command_keeps_its_text() {
    let shared = Shared::new();
    let text = || errno::with_text(|text| text.map(|text| text.to_str().unwrap().to_owned()));
    let expected = "the write: the command failed: write fault (type 0x2, code 0x80), do not retry";
    let mut data = vec![7; 4096];
    for is_next in [false, true] {
        errno::forget_text();
        shared.inject(Fault::Status(Status::WRITE_FAULT.with_do_not_retry()));
        let failed = shared.begin(Kind::Write, &mut data, 3).unwrap();
        // Another one, whose thread processes the failure and is told nothing.
        let read = shared.begin(Kind::Read, &mut data, 4).unwrap();
        assert_eq!((shared.wait(read), text()), (Ok(1), None));
        let result = if is_next {
            shared.queue.take_next(&shared.tags, false).unwrap().1.map(Some)
        } else {
            shared.queue.take(failed, &shared.tags, false)
        };
        assert_eq!((result, text().as_deref()), (Err(Errno::IO), Some(expected)));
    }
}

/// The disk tells the queue of it once.
#[test]
fn each_thread_is_told_of_a_loss_once() {
    let shared = Shared::of(Machine::builder(64, 12).open_paths(2).unwrap());
    let flush_twice = |shared: &Shared| [(); 2].map(|()| shared.queue.flush(&shared.tags));
    let (go, wait) = std::sync::mpsc::channel();
    let (number, numbers) = std::sync::mpsc::channel();
    let other = thread::spawn({
        let shared = Arc::clone(&shared);
        move || {
            number.send(thread_number::own()).unwrap();
            wait.recv().unwrap();
            flush_twice(&shared)
        }
    });
    assert_ne!(numbers.recv().unwrap(), thread_number::own());
    let mut data = vec![7; 4096];
    for block in 0..4 {
        let tag = shared.begin(Kind::Write, &mut data, block).unwrap();
        assert_eq!(shared.wait(tag), Ok(1));
    }
    shared.inject(Fault::Gone);
    assert_eq!(flush_twice(&shared), [Err(Errno::IO), Ok(())]);
    let later = thread::spawn({
        let shared = Arc::clone(&shared);
        move || flush_twice(&shared)
    });
    assert_eq!(join(later), [Ok(()); 2], "it was not there");
    go.send(()).unwrap();
    assert_eq!(join(other), [Err(Errno::IO), Ok(())]);
}
