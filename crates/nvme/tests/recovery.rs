//! What is done about commands that don't come back and controllers that fail, by hand.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "support/mod.rs"]
mod support;

use nvme::emulated::Fault;
use nvme::prp::Piece;
use nvme::spec::command::Command;
use nvme::spec::completion::Completion;
use nvme::spec::registers as register;
use nvme::spec::status::Status;
use nvme::{Done, NvmeError, QueueError, QueueOptions, QueuePair, Registers};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{BLOCK_BYTES, bench, bench_with, bytes, disk, fill};

/// An emulated controller answers sooner, whatever else this machine does.
const PATIENCE: Duration = Duration::from_secs(10);

fn poll(queue: &mut QueuePair) -> Vec<Done> {
    let mut all = Vec::new();
    queue.poll(usize::MAX, |done| all.push(done)).unwrap();
    all
}

#[test]
fn a_stuck_command_is_aborted() {
    let mut bench = bench();
    let (mut queue, disk) = (bench.controller.queue_pair(4).unwrap(), disk(&bench));
    bench.emulated.inject(0, Fault::Stuck);
    let id = queue.write_zeroes(&disk, 0, 8).unwrap();
    queue.ring_doorbell();
    assert!(poll(&mut queue).is_empty());
    queue.tick();
    assert_eq!(queue.overdue(2).count(), 0);
    queue.tick();
    assert_eq!(queue.overdue(2).collect::<Vec<_>>(), [id]);
    assert!(bench.controller.abort(&queue, id, PATIENCE).unwrap());
    let [done] = poll(&mut queue)[..] else { panic!() };
    assert_eq!((done.id, done.status), (id, Status::ABORTED));
    assert!(!bench.controller.abort(&queue, id, PATIENCE).unwrap(), "it is no longer there");
}

/// Whatever became of it, the command is done in the end, and the one behind it too.
#[test]
fn a_reset_resubmits_commands_in_flight() {
    let faults = [
        Fault::LostCompletion,
        Fault::WrongPhase,
        Fault::WrongIdentifier,
        Fault::Stuck,
        Fault::Fatal,
        Fault::LinkReset,
    ];
    for fault in faults {
        let mut bench = bench();
        let (mut queue, disk) = (bench.controller.queue_pair(4).unwrap(), disk(&bench));
        let buffer = bench.controller.allocate(4096).unwrap();
        fill(&bench, &buffer, 0x77);
        bench.emulated.inject(0, fault);
        let ids = [0, 8].map(|first| queue.write(&disk, first, &[buffer.piece(0, 4096).unwrap()]).unwrap());
        queue.ring_doorbell();
        let mut seen: Vec<Done> = Vec::new();
        let _ = queue.poll(usize::MAX, |done| seen.push(done));
        bench.controller.reset().unwrap();
        assert_eq!(queue.poll(9, |_| {}), Err(QueueError::Reset));
        assert_eq!(bench.controller.renew(&mut queue).unwrap(), 2 - seen.len(), "{fault:?}");
        seen.extend(poll(&mut queue));
        let mut done: Vec<_> = seen.iter().map(|done| (done.id.slot(), done.status)).collect();
        done.sort_by_key(|done| done.0);
        assert_eq!(done, ids.map(|id| (id.slot(), Status::SUCCESS)), "{fault:?}");
        let on_disk = bench.emulated.disk();
        let written = 16 * BLOCK_BYTES as usize;
        assert!(on_disk[..written].iter().all(|byte| *byte == 0x77), "{fault:?}");
        assert!(on_disk[written..].iter().all(|byte| *byte == 0), "{fault:?}");
        bench.controller.shut_down().unwrap();
    }
}

#[test]
fn a_link_reset_is_reported() {
    let mut bench = bench();
    let (mut queue, disk) = (bench.controller.queue_pair(4).unwrap(), disk(&bench));
    bench.emulated.inject(0, Fault::LinkReset);
    queue.flush(&disk).unwrap();
    queue.ring_doorbell();
    assert!(matches!(bench.controller.check_working(), Err(NvmeError::Stopped)));
}

#[test]
fn failures_are_in_the_log() {
    let mut bench = bench();
    assert_eq!(bench.controller.error_log().unwrap(), []);
    let (mut queue, disk) = (bench.controller.queue_pair(4).unwrap(), disk(&bench));
    bench.emulated.inject(0, Fault::Status(Status::UNRECOVERED_READ));
    let buffer = bench.controller.allocate(4096).unwrap();
    let id = queue.read(&disk, 40, &[buffer.piece(0, 512).unwrap()]).unwrap();
    queue.ring_doorbell();
    poll(&mut queue);
    let [entry] = bench.controller.error_log().unwrap()[..] else { panic!() };
    assert_eq!((entry.count, entry.queue, entry.identifier), (1, queue.number(), id.0));
    assert_eq!((entry.status, entry.block, entry.namespace), (Status::UNRECOVERED_READ, 40, 1));
}

#[test]
fn a_reset_that_removes_a_namespace_is_reported() {
    let mut bench = bench();
    bench.emulated.remove_namespace();
    let told = bench.controller.reset();
    assert!(matches!(told, Err(NvmeError::Changed { what: "its list of namespaces" })), "{told:?}");
}

#[test]
fn the_log_holds_all_errors_the_newest_first() {
    let mut bench = bench();
    let (mut queue, disk) = (bench.controller.queue_pair(4).unwrap(), disk(&bench));
    let buffer = bench.controller.allocate(4096).unwrap();
    for (number, block) in [(0, 40), (1, 41), (2, 42)] {
        bench.emulated.inject(number, Fault::Status(Status::UNRECOVERED_READ));
        queue.read(&disk, block, &[buffer.piece(0, 512).unwrap()]).unwrap();
        queue.ring_doorbell();
        poll(&mut queue);
    }
    let blocks: Vec<u64> = bench.controller.error_log().unwrap().iter().map(|entry| entry.block).collect();
    assert_eq!(blocks, [42, 41, 40]);
}

#[test]
fn an_aborted_command_is_in_the_log_with_its_own_block() {
    let mut bench = bench();
    let (mut queue, disk) = (bench.controller.queue_pair(4).unwrap(), disk(&bench));
    let buffer = bench.controller.allocate(4096).unwrap();
    let mut ids = Vec::new();
    for (number, block) in [(0, 40), (1, 41)] {
        bench.emulated.inject(number, Fault::Stuck);
        ids.push(queue.read(&disk, block, &[buffer.piece(0, 512).unwrap()]).unwrap());
    }
    queue.ring_doorbell();
    assert!(bench.controller.abort(&queue, ids[0], PATIENCE).unwrap());
    poll(&mut queue);
    let [entry] = bench.controller.error_log().unwrap()[..] else { panic!() };
    assert_eq!((entry.queue, entry.identifier), (queue.number(), ids[0].0));
    assert_eq!((entry.status, entry.block, entry.namespace), (Status::ABORTED, 40, 1));
}

#[test]
fn a_completion_that_comes_twice_is_no_other_command_s() {
    let mut bench = bench();
    let (mut queue, disk) = (bench.controller.queue_pair(3).unwrap(), disk(&bench));
    bench.emulated.inject(0, Fault::Twice);
    let first = queue.flush(&disk).unwrap();
    queue.ring_doorbell();
    let taken = queue.poll(1, |done| assert_eq!(done.id, first)).unwrap();
    assert_eq!(taken, 1);
    // It has the same place, and is not done.
    bench.emulated.inject(1, Fault::Stuck);
    let second = queue.flush(&disk).unwrap();
    assert_eq!((first.slot(), first == second), (second.slot(), false));
    queue.ring_doorbell();
    assert_eq!(queue.poll(9, |_| {}), Err(QueueError::Unknown(first.0)));
}

#[test]
fn a_queue_that_is_deleted_makes_room() {
    let mut bench = bench();
    let disk = disk(&bench);
    for _ in 0..200 {
        let mut queue = bench.controller.queue_pair(64).unwrap();
        assert_eq!(queue.number(), 1);
        queue.flush(&disk).unwrap();
        queue.ring_doorbell();
        assert_eq!(poll(&mut queue).len(), 1);
        bench.controller.delete(queue).unwrap();
    }
}

/// A queue that the controller has forgotten is let go: what it has of memory comes back, and its number.
#[test]
fn a_queue_that_was_forgotten_is_deleted() {
    let mut bench = bench();
    let queues = [0; 2].map(|_| bench.controller.queue_pair(4).unwrap());
    let before = bench.controller.counters();
    bench.controller.reset().unwrap();
    for queue in queues {
        bench.controller.delete(queue).unwrap();
    }
    let after = bench.controller.counters();
    // Three pieces of memory of each queue; the rest is what the reset asked for and gave back.
    assert_eq!((after.unmappings - before.unmappings) - (after.mappings - before.mappings), 6);
    assert_eq!(bench.controller.queue_pair(4).unwrap().number(), 1);
}

/// Commands that a failed controller does not answer leave memory with it, and numbers of queues: a reset brings them back.
#[test]
fn a_reset_recovers_commands_of_a_failed_controller() {
    let mut bench = bench();
    let disk = disk(&bench);
    let held = |bench: &support::Bench| {
        bench.controller.counters().mappings - bench.controller.counters().unmappings
    };
    let [mut queue, other] = [0; 2].map(|_| bench.controller.queue_pair(4).unwrap());
    let before = held(&bench);
    for _ in 0..3 {
        bench.emulated.inject(bench.emulated.commands(), Fault::Fatal);
        queue.flush(&disk).unwrap();
        queue.ring_doorbell();
        assert!(bench.controller.queue_pair(4).is_err());
        bench.controller.error_log().unwrap_err();
        assert!(held(&bench) > before);
        bench.controller.reset().unwrap();
        assert_eq!(bench.controller.renew(&mut queue).unwrap(), 1);
        assert_eq!(poll(&mut queue).len(), 1);
        assert_eq!(held(&bench), before);
    }
    bench.emulated.inject(bench.emulated.commands(), Fault::Fatal);
    queue.flush(&disk).unwrap();
    queue.ring_doorbell();
    bench.controller.delete(other).unwrap_err();
    bench.controller.reset().unwrap();
    assert_eq!(bench.controller.queue_pair(4).unwrap().number(), 2);
}

/// A queue for which there is no memory takes none.
#[test]
fn a_queue_without_memory_takes_none() {
    let mut bench = bench();
    while bench.controller.queue_pair(1024).is_ok() {}
    for _ in 0..100 {
        assert!(matches!(bench.controller.queue_pair(1024), Err(NvmeError::Dma(_))));
    }
    bench.controller.queue_pair(8).unwrap();
}

/// What is stuck in a queue goes with it, and is no command of a queue that gets its number.
#[test]
fn stuck_commands_end_with_their_queue() {
    let mut bench = bench();
    let disk = disk(&bench);
    let mut first = bench.controller.queue_pair(4).unwrap();
    bench.emulated.inject(0, Fault::Stuck);
    let stuck = first.flush(&disk).unwrap();
    first.ring_doorbell();
    bench.controller.delete(first).unwrap();
    let mut second = bench.controller.queue_pair(4).unwrap();
    bench.emulated.inject(1, Fault::LostCompletion);
    let lost = second.flush(&disk).unwrap();
    second.ring_doorbell();
    assert_eq!((second.number(), lost), (1, stuck));
    assert!(!bench.controller.abort(&second, lost, PATIENCE).unwrap(), "it was done, and nobody was told");
    assert!(poll(&mut second).is_empty());
}

/// The admin queue is no I/O queue: who asks to delete it is refused, and it goes on.
#[test]
fn the_admin_queue_can_not_be_deleted() {
    let mut bench = bench();
    let rings = [0; 2].map(|_| bench.controller.allocate(4096).unwrap());
    let [submissions, completions] = rings.each_ref().map(|ring| ring.piece(0, 4096).unwrap().at.0);
    let emulated = &bench.emulated;
    emulated.write_u32(register::CONFIGURATION, 0);
    emulated.write_u32(register::ADMIN_QUEUES, register::admin_queues(8, 8));
    emulated.write_u64(register::ADMIN_SUBMISSION_QUEUE, submissions);
    emulated.write_u64(register::ADMIN_COMPLETION_QUEUE, completions);
    emulated.write_u32(register::CONFIGURATION, register::Configuration::enabled(4096).0);
    let commands = [Command::delete_submission_queue(0), Command::set_queue_count(2, 2)];
    let entries: Vec<u8> = commands.iter().flat_map(|command| command.0).flat_map(u64::to_le_bytes).collect();
    bench.ram.write(rings[0].memory(), &entries).unwrap();
    emulated.write_u32(register::DOORBELLS, 2);
    let entries = bytes(&bench, &rings[1]);
    let status = |place: usize| {
        let words = entries[16 * place..].as_chunks().0;
        let completion = Completion([words[0], words[1]].map(u64::from_le_bytes));
        (completion.phase(), completion.status())
    };
    assert_eq!([0, 1].map(status), [(true, Status::INVALID_QUEUE), (true, Status::SUCCESS)]);
}

#[test]
fn completions_interrupt_where_it_is_wanted() {
    let mut bench = bench();
    let vectors = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&vectors);
    bench.emulated.on_interrupt(move |vector| seen.lock().unwrap().push(vector));
    let disk = disk(&bench);
    let mut polled = bench.controller.queue_pair(4).unwrap();
    let mut options = QueueOptions::polled(4);
    options.vector = Some(3);
    let mut woken = bench.controller.queue_pair_with(options).unwrap();
    vectors.lock().unwrap().clear();
    for queue in [&mut polled, &mut woken] {
        queue.flush(&disk).unwrap();
        queue.ring_doorbell();
        assert_eq!(poll(queue).len(), 1);
    }
    assert_eq!(*vectors.lock().unwrap(), [3]);
}

#[test]
fn ranges_are_forgotten() {
    let mut bench = bench();
    let (mut queue, disk) = (bench.controller.queue_pair(4).unwrap(), disk(&bench));
    let buffer = bench.controller.allocate(4096).unwrap();
    fill(&bench, &buffer, 9);
    queue.write(&disk, 0, &[buffer.piece(0, 4096).unwrap()]).unwrap();
    queue.deallocate(&disk, &[1..2, 4..7]).unwrap();
    queue.ring_doorbell();
    assert!(poll(&mut queue).iter().all(|done| done.status.is_success()));
    let block = |block: usize| bench.emulated.disk()[block * 512];
    assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(block), [9, 0, 9, 9, 0, 0, 0, 9]);
    for ranges in [Vec::new(), vec![5_u64..5; 1], vec![511_u64..513; 1]] {
        queue.deallocate(&disk, &ranges).unwrap_err();
    }
    assert_eq!(queue.available(), 3);
}

/// Blocks of 4 KiB, and pieces that no PRP list can tell.
#[test]
fn pieces_of_any_shape_go_by_scatter_gather_list() {
    let mut bench = bench_with(64, 12);
    let (mut queue, disk) = (bench.controller.queue_pair(4).unwrap(), disk(&bench));
    assert_eq!(disk.format.block_bytes(), 4096);
    let [from, into] = [0, 1].map(|_| bench.controller.allocate(8192).unwrap());
    let pattern: Vec<u8> = (0..8192_u32).map(|place| (place % 251) as u8).collect();
    bench.ram.write(from.memory(), &pattern).unwrap();
    let pieces = |buffer: &nvme::Buffer, parts: &[(u64, u64)]| -> Vec<Piece> {
        parts.iter().map(|(from, bytes)| buffer.piece(*from, *bytes).unwrap()).collect()
    };
    let scattered = pieces(&from, &[(5000, 96), (0, 3000), (3000, 1000)]);
    queue.write(&disk, 7, &scattered).unwrap();
    queue.ring_doorbell();
    assert_eq!(poll(&mut queue)[0].status, Status::SUCCESS);
    let expected = [&pattern[5000..5096], &pattern[..4000]].concat();
    assert_eq!(bench.emulated.disk()[7 * 4096..8 * 4096], expected);
    queue.read(&disk, 7, &pieces(&into, &[(8, 4088), (4100, 8)])).unwrap();
    queue.ring_doorbell();
    assert_eq!(poll(&mut queue)[0].status, Status::SUCCESS);
    let read = bytes(&bench, &into);
    assert_eq!([&read[8..4096], &read[4100..4108]].concat(), expected);
    assert!(read[..8].iter().chain(&read[4096..4100]).chain(&read[4108..]).all(|byte| *byte == 0));
}
