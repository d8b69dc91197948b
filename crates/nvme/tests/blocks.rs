//! Commands that a disk may have besides reads and writes, and what a loss of power leaves of writes, on an emulated controller.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![allow(clippy::single_range_in_vec_init, reason = "a copy of one range of blocks")]

#[path = "support/mod.rs"]
mod support;

use dma::MemoryAddress;
use nvme::emulated::Fault;
use nvme::prp::Piece;
use nvme::spec::command::{COPIED_RANGES_MAX, Command, copied_range};
use nvme::spec::identify::CopyLimits;
use nvme::spec::status::Status;
use nvme::{BlockError, CommandId, Namespace, QueuePair};
use proptest::prelude::*;
use std::ops::Range;
use support::{BLOCKS, Bench, bench, bench_prepared, disk, fill};

const BLOCK: usize = 512;

/// Rings the doorbell and polls the one command in flight.
fn status(queue: &mut QueuePair, id: CommandId) -> Status {
    queue.ring_doorbell();
    let mut found = None;
    queue.poll(2, |done| assert!(found.replace((done.id, done.status)).is_none())).unwrap();
    let (found, status) = found.unwrap();
    assert_eq!(found, id);
    status
}

/// A controller, a queue, and a block full of a byte.
struct User {
    bench: Bench,
    queue: QueuePair,
    disk: Namespace,
    memory: MemoryAddress,
    piece: Piece,
}

impl User {
    fn new(mut bench: Bench, byte: u8) -> Self {
        let (queue, disk) = (bench.controller.queue_pair(8).unwrap(), disk(&bench));
        let buffer = bench.controller.allocate(4096).unwrap();
        fill(&bench, &buffer, byte);
        let piece = buffer.piece(0, BLOCK as u64).unwrap();
        Self { memory: buffer.memory(), bench, queue, disk, piece }
    }

    fn succeed(
        &mut self,
        submit: impl FnOnce(&mut QueuePair, &Namespace, Piece) -> Result<CommandId, BlockError>,
    ) {
        let id = submit(&mut self.queue, &self.disk, self.piece).unwrap();
        assert_eq!(status(&mut self.queue, id), Status::SUCCESS);
    }

    /// The first byte of each of the first blocks.
    fn blocks<const COUNT: usize>(&self) -> [u8; COUNT] {
        let disk = self.bench.emulated.disk();
        std::array::from_fn(|block| disk[block * BLOCK])
    }
}

#[test]
fn a_loss_of_power_takes_what_is_neither_flushed_nor_forced() {
    let mut user = User::new(bench(), 7);
    user.succeed(|queue, disk, piece| queue.write(disk, 0, &[piece]));
    user.succeed(|queue, disk, _| Ok(queue.flush(disk)?));
    user.succeed(|queue, disk, piece| queue.write(disk, 1, &[piece]));
    user.succeed(|queue, disk, piece| queue.write_fua(disk, 2, &[piece]));
    // A forced read of a block that is in the cache writes it to the media.
    user.succeed(|queue, disk, piece| queue.write(disk, 3, &[piece]));
    user.succeed(|queue, disk, piece| queue.read_fua(disk, 3, &[piece]));
    user.succeed(|queue, disk, piece| queue.write(disk, 4, &[piece]));
    user.succeed(|queue, disk, piece| queue.read(disk, 4, &[piece]));
    // What the cache has is the newer: it is lost again.
    user.succeed(|queue, disk, _| queue.write_zeroes(disk, 0, 1));
    // A forced write of a block that is in the cache leaves nothing older there.
    user.succeed(|queue, disk, _| queue.write_zeroes(disk, 5, 1));
    user.succeed(|queue, disk, piece| queue.write_fua(disk, 5, &[piece]));
    assert_eq!(user.blocks(), [0, 7, 7, 7, 7, 7]);
    user.bench.emulated.lose_power();
    assert_eq!(user.blocks(), [7, 0, 7, 7, 0, 7]);
    // The controller works again after a reset.
    user.bench.controller.reset().unwrap();
    user.bench.controller.renew(&mut user.queue).unwrap();
    user.succeed(|queue, disk, piece| queue.write(disk, 1, &[piece]));
}

#[test]
fn a_controller_without_a_write_cache_loses_nothing() {
    let bench = bench_prepared(BLOCKS, 9, |emulated| {
        emulated.change_controller(|identity| identity.has_write_cache = false);
    });
    let mut user = User::new(bench, 7);
    user.succeed(|queue, disk, piece| queue.write(disk, 1, &[piece]));
    user.bench.emulated.lose_power();
    assert_eq!(user.blocks(), [0, 7]);
}

#[test]
fn a_shutdown_saves_the_write_cache() {
    let mut user = User::new(bench(), 7);
    user.succeed(|queue, disk, piece| queue.write(disk, 1, &[piece]));
    let emulated = user.bench.emulated.clone();
    user.bench.controller.shut_down().unwrap();
    emulated.lose_power();
    assert_eq!(emulated.disk()[BLOCK], 7);
}

#[test]
fn blocks_are_verified() {
    let mut user = User::new(bench(), 7);
    user.succeed(|queue, disk, _| queue.verify(disk, 0, BLOCKS));
    user.bench.emulated.inject_at_block(9, Fault::Status(Status::UNRECOVERED_READ));
    let id = user.queue.verify(&user.disk, 9, 1).unwrap();
    assert_eq!(status(&mut user.queue, id), Status::UNRECOVERED_READ);
    let refused = |user: &mut User, first, count| user.queue.verify(&user.disk, first, count).unwrap_err();
    assert_eq!(refused(&mut user, 5, 0), BlockError::ZeroBlocks { first: 5 });
    assert_eq!(
        refused(&mut user, BLOCKS, 1),
        BlockError::OutOfRange { first: BLOCKS, count: 1, blocks: BLOCKS }
    );
}

#[test]
fn commands_that_a_controller_lacks_are_refused() {
    let bench = bench_prepared(BLOCKS, 9, |emulated| {
        emulated.change_controller(|identity| {
            (identity.can_compare, identity.can_verify, identity.can_copy) = (false, false, false);
        });
    });
    let mut user = User::new(bench, 7);
    let (queue, disk) = (&mut user.queue, &user.disk);
    let words = |result: Result<CommandId, BlockError>| result.unwrap_err().to_string();
    assert_eq!(words(queue.compare(disk, 0, &[user.piece])), "the controller has no Compare command");
    assert_eq!(words(queue.verify(disk, 0, 1)), "the controller has no Verify command");
    assert_eq!(words(queue.copy(disk, 8, &[0..1])), "the controller has no Copy command");
    assert_eq!(queue.in_flight(), 0);
    // And the controller refuses them itself.
    let at = user.piece.at.0;
    for command in
        [Command::compare(1, 0, 1, [at, 0]), Command::verify(1, 0, 1), Command::copy(1, 8, 1, [at, 0])]
    {
        let id = queue.submit(command).unwrap();
        assert_eq!(status(queue, id), Status::INVALID_OPCODE.with_do_not_retry());
    }
}

#[test]
fn a_controller_that_takes_other_formats_of_ranges_has_no_copy() {
    for (copy_formats, limits, expected) in [
        (1 << 1, CopyLimits { range_blocks_max: 8, blocks_max: 8, ranges_max: 8 }, false),
        (1 << 1 | 1, CopyLimits { range_blocks_max: 8, blocks_max: 8, ranges_max: 8 }, true),
        (1, CopyLimits { range_blocks_max: 0, blocks_max: 8, ranges_max: 8 }, false),
        (1, CopyLimits { range_blocks_max: 8, blocks_max: 0, ranges_max: 8 }, false),
    ] {
        let bench = bench_prepared(BLOCKS, 9, |emulated| {
            emulated.change_controller(|identity| identity.copy_formats = copy_formats);
            emulated.set_copy_limits(limits);
        });
        assert_eq!(disk(&bench).copy_limits, expected.then_some(limits));
    }
}

/// Copies take at most 3 ranges of 4 blocks, and 10 blocks in all.
const LIMITS: CopyLimits = CopyLimits { range_blocks_max: 4, blocks_max: 10, ranges_max: 3 };
/// So many blocks are full of their number; the others are zero.
const NUMBERED: u64 = 40;

fn copying(limits: CopyLimits) -> User {
    let mut user = User::new(bench_prepared(BLOCKS, 9, |emulated| emulated.set_copy_limits(limits)), 0);
    for block in 0..NUMBERED {
        user.bench.ram.write(user.memory, &[block as u8; BLOCK]).unwrap();
        user.succeed(|queue, disk, piece| queue.write(disk, block, &[piece]));
    }
    user
}

#[test]
fn ranges_are_copied_in_their_order() {
    let mut user = copying(LIMITS);
    user.succeed(|queue, disk, _| queue.copy(disk, 100, &[7..9, 2..6, 7..8]));
    let disk = user.bench.emulated.disk();
    for (place, block) in (99..).zip([0, 7, 8, 2, 3, 4, 5, 7, 0]) {
        assert!(disk[place * BLOCK..(place + 1) * BLOCK].iter().all(|byte| *byte == block), "{place}");
    }
    // What was copied is in the write cache like what was written.
    user.bench.emulated.lose_power();
    assert!(user.bench.emulated.disk()[100 * BLOCK..].iter().all(|byte| *byte == 0));
}

#[test]
fn a_copy_is_resubmitted_after_a_reset() {
    let mut user = copying(LIMITS);
    user.bench.emulated.inject(user.bench.emulated.commands(), Fault::LostCompletion);
    user.queue.copy(&user.disk, 100, &[7..9]).unwrap();
    user.queue.ring_doorbell();
    assert_eq!(user.queue.poll(1, |_| {}).unwrap(), 0);
    user.bench.controller.reset().unwrap();
    assert_eq!(user.bench.controller.renew(&mut user.queue).unwrap(), 1);
    let mut statuses = Vec::new();
    user.queue.poll(1, |done| statuses.push(done.status)).unwrap();
    assert_eq!((statuses, user.bench.emulated.disk()[101 * BLOCK]), (vec![Status::SUCCESS], 8));
}

#[test]
fn copies_beyond_a_limit_are_refused() {
    let mut user = copying(LIMITS);
    let mut words =
        |to, ranges: &[Range<u64>]| user.queue.copy(&user.disk, to, ranges).unwrap_err().to_string();
    assert_eq!(words(100, &[]), "a copy of 0 ranges; expected 1 to 3");
    assert_eq!(words(100, &[0..1, 1..2, 2..3, 3..4]), "a copy of 4 ranges; expected 1 to 3");
    assert_eq!(words(100, &[0..4, 0..5]), "a copy of 5 blocks in a range; expected 1 to 4");
    assert_eq!(words(100, &[3..3]), "a copy of 0 blocks in a range; expected 1 to 4");
    #[allow(clippy::reversed_empty_ranges, reason = "what is refused")]
    let reversed = 4..3;
    assert_eq!(words(100, &[reversed]), "a copy of 0 blocks in a range; expected 1 to 4");
    assert_eq!(words(100, &[0..4, 0..4, 0..3]), "a copy of 11 blocks; expected 1 to 10");
    let beyond = "beyond the end of the namespace, which has 512 blocks";
    assert_eq!(words(100, &[510..513]), format!("3 blocks from block 510: {beyond}"));
    assert_eq!(words(511, &[0..1, 5..6]), format!("2 blocks from block 511: {beyond}"));
    assert_eq!(words(u64::MAX, &[0..1]), format!("1 blocks from block {}: {beyond}", u64::MAX));
    // The destination is blocks 4 to 7.
    assert_eq!(words(4, &[0..1, 7..10]), "blocks 7 to 9 are read and written by the same copy");
    assert_eq!(words(4, &[2..5, 9..10]), "blocks 2 to 4 are read and written by the same copy");
    assert_eq!(user.queue.in_flight(), 0);
    user.succeed(|queue, disk, _| queue.copy(disk, 4, &[1..4, 8..9]));
    user.succeed(|queue, disk, _| queue.copy(disk, 508, &[0..4]));
}

/// The list memory of a command has a page, whatever the controller allows.
#[test]
fn a_copy_has_no_more_ranges_than_its_list_memory() {
    let mut user = copying(CopyLimits { range_blocks_max: 1, blocks_max: 256, ranges_max: 256 });
    let ranges = |count: usize| vec![7..8; count];
    let refused = user.queue.copy(&user.disk, 100, &ranges(COPIED_RANGES_MAX + 1)).unwrap_err();
    assert_eq!(refused.to_string(), "a copy of 129 ranges; expected 1 to 128");
    user.succeed(|queue, disk, _| queue.copy(disk, 100, &ranges(COPIED_RANGES_MAX)));
    let disk = user.bench.emulated.disk();
    let copied = &disk[100 * BLOCK..];
    assert_eq!(copied.iter().filter(|byte| **byte == 7).count(), COPIED_RANGES_MAX * BLOCK);
}

/// The controller checks all that a driver should have checked.
#[test]
fn the_controller_refuses_what_exceeds_its_limits() {
    let mut user = copying(LIMITS);
    let before = user.bench.emulated.disk();
    let mut refused = |to, ranges: &[(u64, u32)], format: u64| {
        let encoded: Vec<u8> =
            ranges.iter().flat_map(|(first, blocks)| copied_range(*first, *blocks)).collect();
        user.bench.ram.write(user.memory, &encoded).unwrap();
        let mut command = Command::copy(1, to, ranges.len() as u16, [user.piece.at.0, 0]);
        command.0[6] |= format << 8;
        let id = user.queue.submit(command).unwrap();
        status(&mut user.queue, id)
    };
    let [limit, beyond] = [Status::SIZE_LIMIT, Status::LBA_OUT_OF_RANGE].map(Status::with_do_not_retry);
    assert_eq!(refused(100, &[(0, 1); 4], 0), limit);
    assert_eq!(refused(100, &[(0, 5)], 0), limit);
    assert_eq!(refused(100, &[(0, 4), (0, 4), (0, 3)], 0), limit);
    assert_eq!(refused(100, &[(0, 1), (510, 3)], 0), beyond);
    assert_eq!(refused(511, &[(0, 1), (5, 1)], 0), beyond);
    assert_eq!(refused(100, &[(0, 1)], 1), Status::INVALID_FIELD.with_do_not_retry());
    assert_eq!(user.bench.emulated.disk(), before, "nothing was written");
}

proptest! {
    /// A copy does to the disk what it does to an array, or is refused and changes nothing.
    #[test]
    fn copies_are_those_of_an_array(copies in prop::collection::vec(
        (0..60_u64, prop::collection::vec((0..60_u64, 0..6_u64), 0..5)), 1..12)
    ) {
        let mut user = copying(LIMITS);
        let mut expected: Vec<u8> = (0..BLOCKS).map(|block| if block < NUMBERED { block as u8 } else { 0 }).collect();
        for (to, ranges) in copies {
            let ranges: Vec<Range<u64>> = ranges.into_iter().map(|(first, count)| first..first + count).collect();
            let copied: Vec<u8> = ranges.iter().cloned().flatten().map(|block| expected[block as usize]).collect();
            let written = to..to + copied.len() as u64;
            let is_valid = (1..=3).contains(&ranges.len())
                && ranges.iter().all(|range| (1..=4).contains(&range.clone().count()))
                && copied.len() <= 10
                && ranges.iter().cloned().flatten().all(|block| !written.contains(&block));
            let submitted = user.queue.copy(&user.disk, to, &ranges);
            prop_assert_eq!(submitted.is_ok(), is_valid, "{:?}", submitted);
            if let Ok(id) = submitted {
                prop_assert_eq!(status(&mut user.queue, id), Status::SUCCESS);
                expected[to as usize..][..copied.len()].copy_from_slice(&copied);
            }
        }
        let disk = user.bench.emulated.disk();
        prop_assert_eq!(disk.chunks(BLOCK).map(|block| block[0]).collect::<Vec<_>>(), expected);
    }
}
