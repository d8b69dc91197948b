//! All orders in which a controller's reset can meet a thread that uses a queue pair of it.
//!
//!     RUSTFLAGS="--cfg loom" cargo test --profile loom -p iotoll-nvme --test loom
//!
//! The controller is the emulated one, whose own locks loom does not see: no thread changes while they are held.

#![cfg(loom)]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

/// How processes wake each other, with loom's atomics.
#[path = "../src/broker/sleep.rs"]
mod sleep;
/// What queues know of writes in a controller's cache, with the same.
#[path = "../src/unflushed.rs"]
#[allow(dead_code, reason = "only a path's part is checked")]
mod unflushed;
mod atomics {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
}

use atomics::{AtomicU64, Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use nvme::{Buffer, Controller, Namespace, QueueError, QueuePair};
use support::BLOCK_BYTES;

/// Enough to set up a controller, which loom's own are not.
const BRANCHES_MAX: usize = 1_000_000;
const STACK_WORDS: usize = 1 << 17;

/// A thread with a stack for what controllers do.
fn spawn(work: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
    thread::Builder::new().stack_size(STACK_WORDS).spawn(work).unwrap()
}

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.max_branches = BRANCHES_MAX;
    let check = std::sync::Arc::new(check);
    builder.check(move || {
        let check = std::sync::Arc::clone(&check);
        spawn(move || check()).join().unwrap();
    });
}

/// A queue pair, used by one thread, and the controller, which any thread resets.
struct User {
    controller: Arc<Mutex<Controller>>,
    disk: Namespace,
    queue: QueuePair,
    buffer: Buffer,
}

impl User {
    /// Completes what is in flight, whatever resets come in between.
    fn complete(&mut self) {
        while self.queue.in_flight() > 0 {
            match self.queue.poll(4, |done| assert!(done.status.is_success())) {
                Ok(_) => thread::yield_now(),
                Err(QueueError::Reset) => {
                    let mut controller = self.controller.lock().unwrap();
                    controller.renew(&mut self.queue).unwrap();
                }
                Err(other) => panic!("{other}"),
            }
        }
    }

    fn write(&mut self, block: u64) {
        self.queue.write(&self.disk, block, &[self.buffer.piece(0, BLOCK_BYTES).unwrap()]).unwrap();
        self.queue.ring_doorbell();
    }
}

fn check(resets: usize) {
    model(move || {
        let bench = support::bench();
        let mut controller = bench.controller;
        let (disk, queue) = (controller.namespaces()[0], controller.queue_pair(4).unwrap());
        let buffer = controller.allocate(BLOCK_BYTES).unwrap();
        bench.ram.write(buffer.memory(), &[7; BLOCK_BYTES as usize]).unwrap();
        let controller = Arc::new(Mutex::new(controller));
        let resetting = spawn({
            let controller = Arc::clone(&controller);
            move || (0..resets).for_each(|_| controller.lock().unwrap().reset().unwrap())
        });
        let mut user = User { controller, disk, queue, buffer };
        user.write(1);
        user.write(2);
        user.complete();
        resetting.join().unwrap();
        // The queue pair is not lost: it works, or says that it has to be renewed.
        user.write(3);
        user.complete();
        let (disk, block) = (bench.emulated.disk(), BLOCK_BYTES as usize);
        assert!(disk[block..4 * block].iter().all(|byte| *byte == 7), "all three writes arrived");
    });
}

#[test]
fn a_reset_while_commands_are_submitted() {
    check(1);
}

#[test]
fn two_resets_while_commands_are_submitted() {
    check(2);
}

/// A reader that sleeps is woken: loom fails where it would sleep for ever.
#[test]
fn a_reader_that_sleeps_is_woken() {
    const ENTRIES: u64 = 2;
    model(|| {
        let words = Arc::new([(); 2].map(|()| atomics::AtomicU64::new(0)));
        let event = Arc::new((Mutex::new(false), Condvar::new()));
        let (its_words, its_event) = (Arc::clone(&words), Arc::clone(&event));
        let writer = spawn(move || {
            for written in 1..=ENTRIES {
                if sleep::publish(&its_words[0], &its_words[1], written) {
                    *its_event.0.lock().unwrap() = true;
                    its_event.1.notify_one();
                }
            }
        });
        let mut read = 0;
        while read < ENTRIES {
            match words[0].load(atomics::Ordering::Acquire) {
                none if none == read && sleep::announce(&words[0], &words[1], read) => {
                    let mut is_signalled = event.0.lock().unwrap();
                    while !*is_signalled {
                        is_signalled = event.1.wait(is_signalled).unwrap();
                    }
                    *is_signalled = false;
                }
                written => read = written,
            }
        }
        writer.join().unwrap();
    });
}

/// A queue's write completes while another queue flushes: if that flush did not carry the write, a loss of the controller after both counts.
#[test]
fn a_write_that_no_flush_carried_is_lost_with_the_controller() {
    loom::model(|| {
        let unflushed = std::sync::Arc::new(unflushed::Unflushed::new());
        // An earlier write, so that the note is there already.
        unflushed.note_write();
        let cached = Arc::new(AtomicU64::new(0));
        let writer = {
            let (unflushed, cached) = (std::sync::Arc::clone(&unflushed), Arc::clone(&cached));
            thread::spawn(move || {
                cached.store(1, Ordering::Release);
                // The controller has the write before anybody sees that it has completed.
                fence(Ordering::SeqCst);
                unflushed.note_write();
            })
        };
        let (mut carried, before) = (0, unflushed.begin_flush());
        // The controller flushes what is in its cache when the flush comes, which is after the note.
        fence(Ordering::SeqCst);
        carried |= cached.load(Ordering::Acquire);
        before.into_iter().for_each(unflushed::Carried::succeed);
        writer.join().unwrap();
        unflushed.lose();
        assert!(carried == 1 || unflushed.losses() == 1);
    });
}

/// A queue's flush fails with the controller while another queue gives it up: that one sees the loss at once.
#[test]
fn whoever_gives_a_controller_up_sees_what_was_lost() {
    loom::model(|| {
        let unflushed = std::sync::Arc::new(unflushed::Unflushed::new());
        unflushed.note_write();
        let flusher = {
            let unflushed = std::sync::Arc::clone(&unflushed);
            thread::spawn(move || {
                drop(unflushed.begin_flush());
                unflushed.lose();
            })
        };
        unflushed.lose();
        assert!(unflushed.losses() >= 1);
        flusher.join().unwrap();
    });
}
