//! Writes, flushes and faults in random orders, by several queues of a disk with two controllers. What a flush promised is there after all power is lost.

#![cfg(all(target_os = "linux", not(loom)))]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "support/serving.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod serving;
#[path = "support/two_paths.rs"]
mod two_paths;

use nvme::broker::ServedDisk;
use nvme::chunk::{Chunk, ChunkError, Request, RetryPolicy, Wait};
use nvme::emulated::Fault;
use nvme::spec::status::Status;
use proptest::prelude::*;
use serving::Serving;
use std::sync::Arc;
use two_paths::{BLOCK, TwoPaths};

const QUEUES: usize = 3;
/// Blocks that are written.
const BLOCKS: usize = 4;

#[derive(Debug, Clone, Copy)]
enum Step {
    Write {
        queue: usize,
        block: usize,
    },
    BeginFlush {
        queue: usize,
    },
    FetchFlush {
        queue: usize,
    },
    /// Closes a queue, with results that were not fetched, and opens another one.
    Reopen {
        queue: usize,
    },
    /// A controller loses its power, and has it again.
    Restart {
        controller: usize,
    },
    /// The next command of a controller fails.
    Fail {
        controller: usize,
        fault: Fault,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let path_error = Status::of(Status::PATH_RELATED, 0x02).with_do_not_retry();
    let failure = prop_oneof![
        2 => (0..2_usize, Just(Fault::Status(path_error))),
        2 => (0..2_usize, Just(Fault::Fatal)),
        // Of two controllers one stays.
        3 => Just((1, Fault::Gone)),
    ];
    let queue = 0..QUEUES;
    prop_oneof![
        8 => (queue.clone(), 0..BLOCKS).prop_map(|(queue, block)| Step::Write { queue, block }),
        4 => queue.clone().prop_map(|queue| Step::BeginFlush { queue }),
        4 => queue.clone().prop_map(|queue| Step::FetchFlush { queue }),
        1 => queue.prop_map(|queue| Step::Reopen { queue }),
        1 => (0..2_usize).prop_map(|controller| Step::Restart { controller }),
        1 => failure.prop_map(|(controller, fault)| Step::Fail { controller, fault }),
    ]
}

/// Contents of a block, with the times at which their writes ended.
#[derive(Debug, Default)]
struct Block {
    /// The last one whose write succeeded, and all others that a loss may leave.
    contents: Vec<(u64, bool)>,
    /// When the newest content that a flush has promised was written; 0 for none.
    promised: u64,
}

/// What the library has said.
#[derive(Debug, Default)]
struct Said {
    time: u64,
    blocks: [Block; BLOCKS],
    /// By queue: it was told that writes until then may be lost.
    told: [u64; QUEUES],
    /// Some queue was told so. Those that are opened later are not.
    told_any: u64,
}

impl Said {
    fn note_write(&mut self, block: usize, has_succeeded: bool) {
        self.blocks[block].contents.push((self.time, has_succeeded));
    }

    fn note_flush(&mut self, queue: usize, begun: u64, result: &Result<(), ChunkError>) {
        if let Err(error) = result {
            self.told[queue] = self.time;
            if matches!(error, ChunkError::PathLost) {
                self.told_any = self.time;
            }
            return;
        }
        for block in &mut self.blocks {
            let is_promised = |&&(time, has_succeeded): &&(u64, bool)| {
                has_succeeded && time > self.told[queue] && time <= begun
            };
            let newest = block.contents.iter().filter(is_promised).map(|(time, _)| *time).max();
            block.promised = block.promised.max(newest.unwrap_or(0));
        }
    }

    /// Whether a block may hold what was written at this time, or zeros.
    fn allows(&self, block: usize, time: u64) -> bool {
        let Block { contents, promised } = &self.blocks[block];
        time >= *promised && (time == 0 || contents.iter().any(|(of, _)| *of == time))
    }
}

/// A queue, and its flush in flight, with the time when it was begun.
struct Queue {
    chunk: Chunk,
    flush: Option<(Request, u64)>,
    is_reopened: bool,
}

/// Takes steps. Then all queues can flush, and the disk has what was promised.
fn take(bench: &TwoPaths, steps: &[Step], open: impl Fn() -> Option<Chunk>) {
    let mut said = Said::default();
    let mut queues = [(); QUEUES].map(|()| Queue { chunk: open().unwrap(), flush: None, is_reopened: false });
    for step in steps {
        said.time += 1;
        match *step {
            Step::Write { queue, block } => {
                let result = queues[queue].chunk.write(block as u64, &content(said.time));
                said.note_write(block, result.is_ok());
            }
            Step::BeginFlush { queue } => {
                let Queue { chunk, flush, .. } = &mut queues[queue];
                if flush.is_none() {
                    *flush = chunk.begin_flush().ok().map(|request| (request, said.time));
                    chunk.ring_doorbell();
                }
            }
            Step::FetchFlush { queue } => fetch_flush(&mut said, &mut queues[queue], queue),
            // Where one controller is gone and the other has to be reset, none can be opened.
            Step::Reopen { queue } => {
                if let Some(chunk) = open() {
                    queues[queue] = Queue { chunk, flush: None, is_reopened: true };
                    said.told[queue] = said.told_any;
                }
            }
            Step::Restart { controller } => bench.emulated[controller].lose_power(),
            Step::Fail { controller, fault } => bench.inject(controller, fault),
        }
    }
    for (number, queue) in queues.iter_mut().enumerate() {
        fetch_flush(&mut said, queue, number);
        // Each fault fails one flush, and each loss.
        let has_flushed = (0..2 * steps.len()).any(|_| {
            said.time += 1;
            let result = queue.chunk.flush();
            said.note_flush(number, said.time, &result);
            // One that was opened while a controller had failed may have lost the other.
            result.is_ok() || queue.is_reopened && matches!(result, Err(ChunkError::Abandoned { .. }))
        });
        assert!(has_flushed, "flushes fail for ever");
    }
    bench.emulated.iter().for_each(|emulated| emulated.lose_power());
    let disk = bench.emulated[0].disk();
    for block in 0..BLOCKS {
        let bytes = &disk[block * BLOCK..][..BLOCK];
        let time = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        assert!(bytes == content(time) && said.allows(block, time), "block {block} is of {time}: {said:?}");
    }
}

fn fetch_flush(said: &mut Said, queue: &mut Queue, number: usize) {
    if let Some((request, begun)) = queue.flush.take() {
        let result = queue.chunk.aresult(request, &mut [], Wait::Yes).map(|_| ());
        said.note_flush(number, begun, &result);
    }
}

/// What is written at this time.
fn content(time: u64) -> [u8; BLOCK] {
    let mut content = [0; BLOCK];
    content[..8].copy_from_slice(&time.to_le_bytes());
    content
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn flushed_writes_are_there_in_any_order(steps in prop::collection::vec(step(), 1..50)) {
        let bench = TwoPaths::new();
        take(&bench, &steps, || Chunk::open(&bench.paths(), 8, 4096, RetryPolicy::default()).ok());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(15))]
    #[test]
    fn a_broker_s_clients_have_the_same_promise(steps in prop::collection::vec(step(), 1..50)) {
        let bench = TwoPaths::new();
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("disk");
        let mut serving = Serving::start(bench.broker(&socket), Arc::new(|_| {}));
        let open = || Chunk::from(ServedDisk::connect(&socket).unwrap().queue(8, &[]).unwrap());
        take(&bench, &steps, || Some(open()));
        // Closing the queues of a controller that is gone fails.
        let _ = serving.stop();
    }
}
