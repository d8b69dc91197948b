//! Requests by their results: a controller that fails in every way there is, and a file.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "support/mod.rs"]
mod support;

use nvme::NvmeError;
use nvme::chunk::{Backing, Chunk, ChunkError, Drive, FileRing, Item, RetryPolicy, Wait, Waiting};
use nvme::emulated::{Emulated, Fault};
use nvme::spec::status::Status;
use proptest::prelude::*;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::{BLOCK_BYTES, BLOCKS, Bench, bench};

const BLOCK: usize = BLOCK_BYTES as usize;

fn retry_policy() -> RetryPolicy {
    let mut policy = RetryPolicy::default();
    (policy.timeout, policy.retries, policy.resets) = (Duration::from_millis(16), 2, 2);
    policy
}

fn shared(bench: Bench) -> (Arc<Mutex<nvme::Controller>>, Arc<Emulated>) {
    let Bench { mut controller, emulated, .. } = bench;
    controller.set_admin_timeout(Duration::from_millis(50));
    (Arc::new(Mutex::new(controller)), emulated)
}

fn chunk_of(controller: &Arc<Mutex<nvme::Controller>>, requests: u16) -> Chunk {
    let namespace = controller.lock().unwrap().namespaces()[0];
    let controller = Arc::clone(controller);
    Drive::open(controller, namespace, requests, 8192, Waiting::Polling, retry_policy()).unwrap().into()
}

fn chunk() -> (Chunk, Arc<Emulated>) {
    let (controller, emulated) = shared(bench());
    (chunk_of(&controller, 4), emulated)
}

fn file(blocks: usize) -> (Chunk, tempfile::NamedTempFile) {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len((blocks * BLOCK) as u64).unwrap();
    (Backing::open(file.path(), 9, 4, 8192).unwrap().into(), file)
}

/// The same by io_uring; `None` where the kernel has none.
fn ring(blocks: usize) -> Option<(Chunk, tempfile::NamedTempFile)> {
    let (_, file) = file(blocks);
    let opened = Arc::new(file.reopen().unwrap());
    match FileRing::new(file.path().to_owned(), opened, 9, 4, 8192) {
        Ok(ring) => Some((ring.into(), file)),
        Err(error) => {
            eprintln!("SKIPPED io_uring: {error:?}");
            None
        }
    }
}

/// A chunk of each kind.
fn chunks() -> Vec<(Chunk, Option<tempfile::NamedTempFile>)> {
    let on_files = [Some(file(BLOCKS as usize)), ring(BLOCKS as usize)];
    let on_files = on_files.into_iter().flatten().map(|(chunk, file)| (chunk, Some(file)));
    [(chunk().0, None)].into_iter().chain(on_files).collect()
}

#[test]
fn completions_come_once() {
    for (mut chunk, _file) in chunks() {
        let begun: Vec<_> =
            (0..4).map(|block| chunk.begin_write(block, &[block as u8; BLOCK]).unwrap()).collect();
        let slots: std::collections::BTreeSet<usize> = begun.iter().map(|request| request.slot()).collect();
        assert_eq!(slots, (0..4).collect());
        chunk.ring_doorbell();
        // One result is fetched by its request, and is not among the others.
        assert_eq!(chunk.aresult(begun[2], &mut [], Wait::Yes).unwrap(), Some(0));
        let mut ended = Vec::new();
        while ended.len() < 3 {
            chunk.poll(|completion| {
                ended.push(completion.request());
                assert_eq!(completion.finish(&mut []).unwrap(), 0);
            });
        }
        assert!(begun.iter().all(|request| ended.contains(request) != (*request == begun[2])));
        assert!(matches!(chunk.aresult(begun[0], &mut [], Wait::No), Err(ChunkError::NoRequest)));
        let mut read = [0; 4 * BLOCK];
        let reads: Vec<_> = (0..4).map(|block| chunk.begin_read(block, 1).unwrap()).collect();
        let mut left = reads.len();
        while left > 0 {
            left -= chunk.poll(|completion| {
                let place = reads.iter().position(|request| *request == completion.request()).unwrap();
                assert_eq!(completion.finish(&mut read[place * BLOCK..][..BLOCK]).unwrap(), BLOCK);
            });
        }
        assert!(read.chunks(BLOCK).zip(0..).all(|(block, value)| block.iter().all(|byte| *byte == value)));
        chunk.begin_write_zeroes(1, 2).unwrap();
        chunk.begin_flush().unwrap();
        let mut left = 2;
        while left > 0 {
            left -= chunk.poll(|completion| assert_eq!(completion.finish(&mut []).unwrap(), 0));
        }
        chunk.read(0, &mut read).unwrap();
        let values: Vec<u8> = read.chunks(BLOCK).map(|block| block[0]).collect();
        assert_eq!(values, [0, 0, 0, 3]);
        chunk.close().unwrap();
    }
}

/// Results that are fetched by request leave nothing behind.
#[test]
fn a_chunk_without_polls_does_not_grow() {
    for (mut chunk, _file) in chunks() {
        for _ in 0..1000 {
            chunk.write(0, &[1; 5 * BLOCK]).unwrap();
        }
        assert!(format!("{chunk:?}").len() < 20_000);
        let mut others = 0;
        chunk.poll(|_| others += 1);
        assert_eq!(others, 0);
    }
}

/// What the kernel may still write to is not freed with the chunk.
#[test]
fn a_ring_is_dropped_with_requests_in_flight() {
    for _ in 0..50 {
        let Some((mut chunk, _file)) = ring(64) else { return };
        (0..4).for_each(|block| assert!(chunk.begin_read(block, 1).is_ok()));
        chunk.ring_doorbell();
    }
}

/// What is in the page cache needs no request; what is not, or is not cached at all, does.
#[test]
fn cached_data_is_read_at_once() {
    for (mut chunk, file) in chunks() {
        let is_ring = format!("{chunk:?}").contains("FileRing");
        let (written, mut read) = (vec![7; 2 * BLOCK], vec![0; 2 * BLOCK]);
        chunk.write(5, &written).unwrap();
        assert_eq!(chunk.read_cached(5, &mut read).unwrap(), is_ring);
        assert_eq!(read == written, is_ring);
        if is_ring {
            let refused = chunk.read_cached(BLOCKS - 1, &mut read);
            assert!(matches!(refused, Err(ChunkError::OutOfRange { .. })), "{refused:?}");
            let refused = chunk.read_cached(0, &mut read[1..]);
            assert!(matches!(refused, Err(ChunkError::PartialBlock { .. })), "{refused:?}");
            // The file is shorter than it was: a part is read, which is not enough.
            file.unwrap().as_file().set_len(6 * BLOCK as u64).unwrap();
            assert!(!chunk.read_cached(5, &mut read).unwrap());
            assert!(matches!(chunk.read(5, &mut read), Err(ChunkError::File { .. })));
        }
        chunk.close().unwrap();
    }
}

#[test]
fn results_come_by_request() {
    for (mut chunk, _file) in chunks() {
        assert_eq!((chunk.blocks(), chunk.block_bytes(), chunk.requests()), (BLOCKS, BLOCK, 4));
        let mut read = vec![0; 2 * BLOCK];
        let write = chunk.awrite(3, &[1; BLOCK]).unwrap();
        assert_eq!(chunk.aresult(write, &mut [], Wait::Yes).unwrap(), Some(0));
        let reads = [0; 4].map(|_| chunk.aread(3, 2).unwrap());
        let full = chunk.aread(3, 2).unwrap_err();
        assert_eq!(
            full.to_string(),
            "all 4 request slots are in flight or hold a result that was not fetched"
        );
        for request in reads {
            assert_eq!(chunk.aresult(request, &mut read, Wait::Yes).unwrap(), Some(2 * BLOCK));
            assert!(
                read[..BLOCK].iter().all(|byte| *byte == 1) && read[BLOCK..].iter().all(|byte| *byte == 0)
            );
            assert!(matches!(chunk.aresult(request, &mut read, Wait::Yes), Err(ChunkError::NoRequest)));
        }
        // A slot is used again, and a handle of its earlier use leads nowhere.
        let again = chunk.aread(3, 2).unwrap();
        for request in reads {
            assert!(matches!(chunk.aresult(request, &mut read, Wait::Yes), Err(ChunkError::NoRequest)));
        }
        assert_eq!(chunk.aresult(again, &mut read, Wait::Yes).unwrap(), Some(2 * BLOCK));
        chunk.write_zeroes(0, 100).unwrap();
        chunk.deallocate(0, BLOCKS).unwrap();
        chunk.flush().unwrap();
        chunk.close().unwrap();
    }
}

#[test]
fn lists_are_of_any_length() {
    for (mut chunk, _file) in chunks() {
        // 256 blocks: sixteen requests, four at a time.
        let data: Vec<u8> = (0..256 * BLOCK).map(|place| (place / BLOCK) as u8).collect();
        chunk.write(100, &data).unwrap();
        let (mut all, mut last) = (vec![0; data.len()], vec![0; BLOCK]);
        let results = chunk.listio(&mut [
            Item::Read { first: 100, into: &mut all },
            Item::Write { first: 600, from: &[0; BLOCK] },
            Item::Read { first: 0, into: &mut [0; 7] },
            Item::Read { first: 355, into: &mut last },
        ]);
        assert!(results[0].is_ok() && results[3].is_ok());
        assert!(matches!(results[1], Err(ChunkError::OutOfRange { first: 600, .. })));
        assert!(matches!(results[2], Err(ChunkError::PartialBlock { bytes: 7, .. })));
        assert!(all == data && last == data[255 * BLOCK..]);
        all.fill(0);
        chunk.read(100, &mut all).unwrap();
        assert!(all == data, "a read alone is of any length too");
    }
}

#[test]
fn impossible_requests_are_refused() {
    let (mut chunk, emulated) = chunk();
    assert!(matches!(chunk.aread(0, 17), Err(ChunkError::TooLong { bytes: 8704, bytes_max: 8192 })));
    assert!(matches!(chunk.aread(u64::MAX, 2), Err(ChunkError::OutOfRange { .. })));
    assert!(matches!(chunk.aread(0, 0), Err(ChunkError::OutOfRange { .. })));
    assert!(matches!(chunk.write(0, &[]), Err(ChunkError::PartialBlock { .. })));
    assert!(matches!(chunk.write_zeroes(512, 1), Err(ChunkError::OutOfRange { .. })));
    assert_eq!(emulated.commands(), 0);
    assert!(
        Backing::open(std::path::Path::new("/no/such/file"), 9, 1, 1)
            .unwrap_err()
            .to_string()
            .contains("/no/such")
    );
}

/// Each kind of fault: the write is answered without an error and on the disk, or the error is told.
#[test]
fn every_fault_is_survived_or_reported() {
    let survived = [
        Fault::LostCompletion,
        Fault::WrongPhase,
        Fault::WrongIdentifier,
        Fault::Twice,
        Fault::Stuck,
        Fault::Fatal,
        Fault::LinkReset,
        Fault::Status(Status::of(0, 0x22)),
    ];
    for fault in survived {
        let (mut chunk, emulated) = chunk();
        emulated.inject(1, fault);
        for round in 0..4 {
            chunk
                .write(round * 100, &[round as u8 + 1; BLOCK])
                .unwrap_or_else(|error| panic!("{fault:?}: {error}"));
        }
        let disk = emulated.disk();
        for round in 0..4 {
            assert_eq!(disk[round * 100 * BLOCK], round as u8 + 1, "{fault:?}");
        }
        assert!(chunk.events() != nvme::chunk::Events::default(), "{fault:?}");
        chunk.close().unwrap();
    }
}

#[test]
fn failures_without_recovery_are_reported() {
    let (mut chunk, emulated) = chunk();
    emulated.inject(0, Fault::Status(Status::WRITE_FAULT.with_do_not_retry()));
    let error = chunk.write(0, &[1; BLOCK]).unwrap_err();
    assert!(error.to_string().contains("write fault"), "{error}");
    // One that may go better is tried three times.
    (1..4).for_each(|number| emulated.inject(number, Fault::Status(Status::UNRECOVERED_READ)));
    let error = chunk.read(0, &mut [0; BLOCK]).unwrap_err();
    assert!(error.to_string().contains("unrecovered read error"), "{error}");
    assert_eq!((chunk.events().retries, emulated.commands()), (2, 4));
    emulated.inject(4, Fault::Gone);
    assert!(matches!(chunk.flush(), Err(ChunkError::Nvme(NvmeError::Gone))));
    // It does not come back.
    let error = chunk.flush().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the disk is no longer used after an earlier failure: the adapter was removed: its registers read as all ones"
    );
}

#[test]
fn a_controller_that_always_fails_is_given_up() {
    let (mut chunk, emulated) = chunk();
    (0..100).for_each(|number| emulated.inject(number, Fault::Fatal));
    let error = chunk.write(0, &[1; BLOCK]).unwrap_err();
    assert_eq!(error.to_string(), "the command did not complete after 2 controller resets");
}

/// Two threads with queues of their own; one's failures reset the controller, and the other goes on.
#[test]
fn a_reset_by_one_thread_is_survived_by_others() {
    let (controller, emulated) = shared(bench());
    (0..20).for_each(|number| {
        emulated.inject(number * 37, if number % 2 == 0 { Fault::Fatal } else { Fault::LostCompletion })
    });
    // Nobody opens one while another thread's failure is still to be mended.
    let chunks = [0_u64, 1, 2].map(|thread| (thread, chunk_of(&controller, 3)));
    let chunks = std::thread::scope(|scope| {
        let threads = chunks.map(|(thread, mut chunk)| {
            scope.spawn(move || {
                for round in 0..100_u64 {
                    let first = thread * 150 + round;
                    chunk.write(first, &[(round + thread) as u8 | 1; BLOCK]).unwrap();
                    let mut read = [0; BLOCK];
                    chunk.read(first, &mut read).unwrap();
                    assert_eq!(read, [(round + thread) as u8 | 1; BLOCK]);
                }
                chunk
            })
        });
        threads.map(|thread| thread.join().unwrap())
    });
    chunks.into_iter().for_each(|chunk| chunk.close().unwrap());
    for thread in 0..3_u64 {
        for round in 0..100_u64 {
            let block = (thread * 150 + round) as usize;
            assert_eq!(emulated.disk()[block * BLOCK], (round + thread) as u8 | 1);
        }
    }
}

/// One thread resets the controller and has it fail once more before another takes up its queue: that one resets it again.
#[test]
fn a_failure_behind_another_one_s_reset_is_survived() {
    let (controller, emulated) = shared(bench());
    let [mut one, mut other] = [0; 2].map(|_| chunk_of(&controller, 3));
    emulated.inject(0, Fault::LostCompletion);
    emulated.inject(1, Fault::Fatal);
    emulated.inject(3, Fault::Fatal);
    let first = other.awrite(0, &[1; BLOCK]).unwrap();
    one.write(1, &[2; BLOCK]).unwrap();
    let last = one.awrite(2, &[3; BLOCK]).unwrap();
    assert_eq!((one.events().resets, emulated.commands()), (1, 4));
    assert_eq!(other.aresult(first, &mut [], Wait::Yes).unwrap(), Some(0));
    assert_eq!(one.aresult(last, &mut [], Wait::Yes).unwrap(), Some(0));
    assert_eq!((one.events().resets, other.events().resets), (1, 1));
    assert_eq!([0, 1, 2].map(|block| emulated.disk()[block * BLOCK]), [1, 2, 3]);
}

#[derive(Debug, Clone)]
enum Step {
    Write { first: u64, blocks: u64, byte: u8 },
    Zero { first: u64, blocks: u64 },
    Read { first: u64, blocks: u64 },
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    let range = (0..BLOCKS, 1..40_u64).prop_map(|(first, blocks)| (first, blocks.min(BLOCKS - first)));
    (range, 1..=255_u8, 0..4_u8).prop_map(|((first, blocks), byte, kind)| match kind {
        0 => Step::Write { first, blocks, byte },
        1 => Step::Zero { first, blocks },
        2 => Step::Read { first, blocks },
        _ => Step::Flush,
    })
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        Just(Fault::LostCompletion),
        Just(Fault::WrongPhase),
        Just(Fault::WrongIdentifier),
        Just(Fault::Twice),
        Just(Fault::Stuck),
        Just(Fault::Fatal),
        Just(Fault::LinkReset),
        (0..4_u8, 1..=255_u8, any::<bool>()).prop_map(|(kind, code, is_for_good)| {
            let status = Status::of(kind, code);
            Fault::Status(if is_for_good { status.with_do_not_retry() } else { status })
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Whatever fails and when: what was answered without an error is on the disk and is read, a block whose write failed is old or new, and no other
    /// block changes.
    #[test]
    fn nothing_that_was_answered_is_lost(
        steps in prop::collection::vec(step(), 1..25),
        faults in prop::collection::btree_map(0..60_u64, fault(), 0..6),
    ) {
        let (mut chunk, emulated) = chunk();
        faults.into_iter().for_each(|(number, fault)| emulated.inject(number, fault));
        // What each block may be.
        let mut allowed: Vec<Vec<u8>> = vec![vec![0]; BLOCKS as usize];
        for step in steps {
            let (range, byte, result) = match step {
                Step::Write { first, blocks, byte } => {
                    let data = vec![byte; blocks as usize * BLOCK];
                    (first..first + blocks, byte, chunk.write(first, &data))
                }
                Step::Zero { first, blocks } => (first..first + blocks, 0, chunk.write_zeroes(first, blocks)),
                Step::Read { first, blocks } => {
                    let mut data = vec![0; blocks as usize * BLOCK];
                    if chunk.read(first, &mut data).is_ok() {
                        for (block, data) in (first as usize..).zip(data.chunks(BLOCK)) {
                            prop_assert!(allowed[block].contains(&data[0]) && data.iter().all(|byte| *byte == data[0]));
                        }
                    }
                    continue;
                }
                Step::Flush => {
                    let _ = chunk.flush();
                    continue;
                }
            };
            for block in range {
                match result {
                    Ok(()) => allowed[block as usize] = vec![byte],
                    Err(_) => allowed[block as usize].push(byte),
                }
            }
        }
        for (allowed, data) in allowed.iter().zip(emulated.disk().chunks(BLOCK)) {
            prop_assert!(allowed.contains(&data[0]) && data.iter().all(|byte| *byte == data[0]));
        }
    }
}

/// A disk that is another one after a reset is written by nobody, whichever thread finds out.
#[test]
fn another_disk_is_not_written() {
    let (controller, emulated) = shared(bench());
    let [mut one, mut other] = [0; 2].map(|_| chunk_of(&controller, 2));
    one.write(0, &[1; BLOCK]).unwrap();
    emulated.inject(1, Fault::Fatal);
    emulated.change_identity();
    assert!(matches!(one.write(3, &[2; BLOCK]), Err(ChunkError::Nvme(NvmeError::Changed { .. }))));
    other.write(3, &[3; BLOCK]).unwrap_err();
    other.write(3, &[3; BLOCK]).unwrap_err();
    assert!(emulated.disk()[BLOCK..].iter().all(|byte| *byte == 0));
}

/// A request that brings the controller down each time ends with an error, and others go on.
#[test]
fn a_request_that_always_fails_does_not_go_on_for_ever() {
    let (controller, emulated) = shared(bench());
    let mut chunk = chunk_of(&controller, 4);
    emulated.inject_at_block(77, Fault::Fatal);
    let results = chunk.listio(&mut [
        Item::Write { first: 0, from: &[1; BLOCK] },
        Item::Write { first: 77, from: &[1; BLOCK] },
    ]);
    assert!(results[0].is_ok() || results[1].is_err());
    assert!(matches!(results[1], Err(ChunkError::TooManyResets { .. })), "{results:?}");
    assert!(chunk.events().resets <= 4, "{:?}", chunk.events());
}

/// Queues that another thread's reset has made the controller forget are given back all the same.
#[test]
fn a_forgotten_queue_is_closed() {
    let (controller, emulated) = shared(bench());
    for round in 0..40 {
        let [mut one, idle] = [0; 2].map(|_| chunk_of(&controller, 2));
        emulated.inject(round * 2, Fault::Fatal);
        one.flush().unwrap();
        idle.close().unwrap();
        one.close().unwrap();
    }
}

/// A controller hears once of a list, however long, as long as there is room.
#[test]
fn a_list_needs_one_doorbell() {
    let (mut chunk, emulated) = chunk();
    let data = [1; BLOCK];
    let mut items = [0, 1, 2, 3].map(|first| Item::Write { first, from: &data });
    let before = emulated.doorbells();
    assert!(chunk.listio(&mut items).iter().all(Result::is_ok));
    // Of submissions and of completions.
    assert_eq!((emulated.doorbells() - before, emulated.commands()), (2, 4));
}

/// A command that never ends is noticed, however busy the disk is with others.
#[test]
fn a_stuck_command_is_aborted_while_others_end() {
    let (mut chunk, emulated) = chunk();
    emulated.inject(emulated.commands(), Fault::Stuck);
    let stuck = chunk.aread(1, 1).unwrap();
    let begun = Instant::now();
    let mut block = vec![0; BLOCK];
    while chunk.aresult(stuck, &mut block, Wait::No).unwrap().is_none() {
        // Each ends at once.
        chunk.write(2, &block).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
    assert_eq!(chunk.events().aborts, 1);
}
