//! The driver against an emulated controller behind an IOMMU in software.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "support/mod.rs"]
mod support;

use dma::{Direction, DmaCounters, Limits, Mapper, MemoryAddress, Ram};
use nvme::emulated::Fault;
use nvme::prp::Piece;
use nvme::spec::registers as register;
use nvme::spec::status::Status;
use nvme::{BlockError, CommandId, Controller, Done, Namespace, NvmeError, QueueError, QueuePair, Registers};
use proptest::prelude::*;
use std::sync::Arc;
use support::{BLOCK_BYTES, BLOCKS, OWN, bench, bytes, disk, fill};

/// All that is completed now.
fn poll(queue: &mut QueuePair) -> Vec<Done> {
    let mut all = Vec::new();
    queue.poll(usize::MAX, |done| all.push(done)).unwrap();
    all
}

fn one(queue: &mut QueuePair, id: CommandId) -> Status {
    queue.ring_doorbell();
    let done = poll(queue);
    assert_eq!((done.len(), done[0].id), (1, id));
    done[0].status
}

#[test]
fn a_controller_reports_its_identity() {
    let mut bench = bench();
    let identity = bench.controller.identity();
    assert_eq!((identity.model.as_str(), identity.has_sgl), ("iotoll emulated controller", true));
    let [namespace] = bench.controller.namespaces() else { panic!("{:?}", bench.controller) };
    assert_eq!((namespace.number, namespace.format.bytes()), (1, BLOCKS * BLOCK_BYTES));
    assert_eq!(namespace.transfer_bytes_max, 512 << 10);
    for _ in 0..nvme::emulated::QUEUES_MAX {
        bench.controller.queue_pair(8).unwrap();
    }
    let error = bench.controller.queue_pair(8).unwrap_err();
    assert_eq!(error.to_string(), "the controller has no further I/O queue");
    bench.controller.shut_down().unwrap();
}

#[test]
fn written_data_is_read_back_without_mappings() {
    let mut bench = bench();
    let (mut queue, disk) = (bench.controller.queue_pair(16).unwrap(), disk(&bench));
    let [from, into] = [0, 1].map(|_| bench.controller.allocate(256 << 10).unwrap());
    let before = bench.controller.counters();
    fill(&bench, &from, 0xa5);
    // 128 pages: a list. It begins within a page.
    let whole = from.piece(512, (256 << 10) - 512).unwrap();
    let id = queue.write(&disk, 1, &[whole]).unwrap();
    assert_eq!(one(&mut queue, id), Status::SUCCESS);
    let id = queue.read(&disk, 1, &[into.piece(512, whole.bytes).unwrap()]).unwrap();
    assert_eq!(one(&mut queue, id), Status::SUCCESS);
    let read = bytes(&bench, &into);
    assert!(read[..512].iter().all(|byte| *byte == 0) && read[512..].iter().all(|byte| *byte == 0xa5));
    let on_disk = bench.emulated.disk();
    assert!(on_disk[..512].iter().all(|byte| *byte == 0) && on_disk[512] == 0xa5);
    assert_eq!(bench.controller.counters(), before);
}

#[test]
fn a_compare_tells_whether_memory_holds_what_is_on_the_disk() {
    let mut bench = bench();
    let (mut queue, disk) = (bench.controller.queue_pair(16).unwrap(), disk(&bench));
    let buffer = bench.controller.allocate(8192).unwrap();
    fill(&bench, &buffer, 0xa5);
    let id = queue.write(&disk, 1, &[buffer.piece(0, 8192).unwrap()]).unwrap();
    assert_eq!(one(&mut queue, id), Status::SUCCESS);
    let before = bench.emulated.disk();
    let mut compared = || {
        let id = queue.compare(&disk, 1, &[buffer.piece(0, 8192).unwrap()]).unwrap();
        one(&mut queue, id)
    };
    assert_eq!(compared(), Status::SUCCESS);
    bench.ram.write(MemoryAddress(buffer.memory().0 + 8191), &[0]).unwrap();
    assert_eq!(compared(), Status::COMPARE_FAILURE);
    assert_eq!(bench.emulated.disk(), before, "nothing is written");
}

#[test]
fn io_to_memory_that_another_mapper_of_the_domain_mapped() {
    let mut bench = bench();
    let (mut queue, disk) = (bench.controller.queue_pair(4).unwrap(), disk(&bench));
    bench.ram.write(OWN, &[0x5a; 512]).unwrap();
    let own = Mapper::translated(Limits::of_bits(64), Arc::clone(&bench.domain));
    let mut counters = DmaCounters::default();
    let at = own.map(OWN, 512, Direction::ToDevice, &mut counters).unwrap();
    let id = queue.write(&disk, 3, &[Piece { at, bytes: 512 }]).unwrap();
    assert_eq!(one(&mut queue, id), Status::SUCCESS);
    own.unmap(at, 512, Direction::ToDevice, &mut counters).unwrap();
    assert!(bench.emulated.disk()[3 * 512..4 * 512].iter().all(|byte| *byte == 0x5a));
    let id = queue.write(&disk, 4, &[Piece { at, bytes: 512 }]).unwrap();
    assert_eq!(one(&mut queue, id), Status::DATA_TRANSFER, "it is unmapped");
}

/// A ring of 4 has 3 commands in flight; it goes round many times, and the doorbell is rung once for each batch.
#[test]
fn rings_go_round() {
    let mut bench = bench();
    let (mut queue, disk) = (bench.controller.queue_pair(4).unwrap(), disk(&bench));
    let buffer = bench.controller.allocate(4096).unwrap();
    for round in 0..50 {
        let ids: Vec<CommandId> = (0..3)
            .map(|place| queue.read(&disk, round + place, &[buffer.piece(0, 512).unwrap()]).unwrap())
            .collect();
        assert_eq!(queue.flush(&disk), Err(QueueError::Full(3)));
        assert_eq!((queue.available(), queue.in_flight()), (0, 3));
        assert!(poll(&mut queue).is_empty(), "nothing begins before the doorbell");
        queue.ring_doorbell();
        assert_eq!(poll(&mut queue).iter().map(|done| done.id).collect::<Vec<_>>(), ids);
    }
    assert_eq!(bench.emulated.commands(), 150);
}

#[test]
fn invalid_commands_are_refused_before_they_are_sent() {
    let mut bench = bench();
    let (mut queue, disk) = (bench.controller.queue_pair(4).unwrap(), disk(&bench));
    let buffer = bench.controller.allocate(1 << 20).unwrap();
    let piece = |from, bytes| buffer.piece(from, bytes).unwrap();
    let told = |result: Result<CommandId, BlockError>| result.unwrap_err().to_string();
    assert_eq!(told(queue.read(&disk, 0, &[piece(0, 100)])), "100 bytes; expected 1 or more blocks of 512");
    assert_eq!(told(queue.read(&disk, 0, &[])), "0 bytes; expected 1 or more blocks of 512");
    assert_eq!(
        told(queue.read(&disk, 511, &[piece(0, 1024)])),
        "2 blocks from block 511: beyond the end of the namespace, which has 512 blocks"
    );
    assert_eq!(
        told(queue.write_zeroes(&disk, u64::MAX, 2)),
        "2 blocks from block 18446744073709551615: beyond the end of the namespace, which has 512 blocks"
    );
    assert_eq!(
        told(queue.write_zeroes(&disk, 7, 0)),
        "0 blocks from block 7; expected 1 or more: a command can't express 0, its NLB is zero-based"
    );
    assert_eq!(
        told(queue.write_zeroes(&disk, 0, (1 << 16) + 1)),
        "33554944 bytes in one command; expected at most 33554432"
    );
    let large =
        Namespace { format: nvme::spec::identify::Namespace { blocks: 1 << 20, ..disk.format }, ..disk };
    let long = "1048576 bytes in one command; expected at most 524288";
    assert_eq!(told(queue.read(&large, 0, &[piece(0, 1 << 20)])), long);
    let without_sgl = Namespace { has_sgl: false, ..disk };
    let apart = [piece(0, 512), piece(512, 512)];
    assert!(told(queue.read(&without_sgl, 0, &apart)).contains("piece 0 of a buffer"));
    assert!(buffer.piece(1 << 20, 1).is_err() && buffer.piece(u64::MAX, 2).is_err());
    assert_eq!((queue.available(), bench.emulated.commands()), (3, 0));
}

/// The controller reaches only what is mapped: an address that is not, is a transfer that fails, and nothing is written.
#[test]
fn memory_that_is_not_mapped_is_not_reached() {
    let mut bench = bench();
    let (mut queue, disk) = (bench.controller.queue_pair(4).unwrap(), disk(&bench));
    let buffer = bench.controller.allocate(4096).unwrap();
    let at = buffer.piece(0, 512).unwrap();
    bench.controller.free(buffer).unwrap();
    for piece in [at, Piece { at: dma::BusAddress(0x7fff_0000), bytes: 512 }] {
        let id = queue.write(&disk, 0, &[piece]).unwrap();
        assert_eq!(one(&mut queue, id), Status::DATA_TRANSFER);
    }
    assert!(bench.emulated.disk().iter().all(|byte| *byte == 0));
}

#[test]
fn faults_are_reported() {
    let mut bench = bench();
    let (mut queue, disk) = (bench.controller.queue_pair(8).unwrap(), disk(&bench));
    let buffer = bench.controller.allocate(4096).unwrap();
    let piece = [buffer.piece(0, 4096).unwrap()];
    fill(&bench, &buffer, 7);
    let fail = |number, fault| bench.emulated.inject(number, fault);
    fail(0, Fault::Status(Status::WRITE_FAULT));
    let id = queue.write(&disk, 0, &piece).unwrap();
    assert_eq!(one(&mut queue, id), Status::WRITE_FAULT);
    assert!(bench.emulated.disk().iter().all(|byte| *byte == 0), "what failed is not on the disk");
    fail(1, Fault::LostCompletion);
    queue.write(&disk, 0, &piece).unwrap();
    queue.ring_doorbell();
    assert!(poll(&mut queue).is_empty() && queue.in_flight() == 1);
    fail(2, Fault::WrongIdentifier);
    queue.flush(&disk).unwrap();
    queue.ring_doorbell();
    assert!(matches!(queue.poll(9, |_| {}), Err(QueueError::Unknown(_))));
}

#[test]
fn a_failed_controller_is_distinguished_from_a_removed_one() {
    for (fault, words) in [(Fault::Fatal, "fatal error (CSTS.CFS)"), (Fault::Gone, "the adapter was removed")]
    {
        let mut bench = bench();
        let (mut queue, disk) = (bench.controller.queue_pair(8).unwrap(), disk(&bench));
        bench.emulated.inject(0, fault);
        queue.flush(&disk).unwrap();
        queue.ring_doorbell();
        assert!(poll(&mut queue).is_empty());
        let error = bench.controller.queue_pair(8).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert!(matches!(bench.controller.shut_down(), Err(NvmeError::Fatal | NvmeError::Gone)));
    }
}

/// The doorbells of 65,536 queues further are nobody's, and no admin queue's.
#[test]
fn doorbells_beyond_the_last_queue_belong_to_no_queue() {
    let mut bench = bench();
    let queue = bench.controller.queue_pair(4).unwrap();
    bench.emulated.write_u32(register::DOORBELLS + 8 * (65_536 + u64::from(queue.number())), 3);
    assert_eq!(bench.emulated.commands(), 0);
}

/// Queues have two entries at least; one that says less is refused before anything is asked of it.
#[test]
fn a_controller_with_queues_of_one_entry_is_refused() {
    /// All bits of its capabilities but those of its queues' entries.
    #[derive(Debug)]
    struct OneEntry;
    impl Registers for OneEntry {
        fn read_u32(&self, _: u64) -> u32 {
            0
        }
        fn read_u64(&self, _: u64) -> u64 {
            1 << 37
        }
        fn write_u32(&self, _: u64, _: u32) {}
        fn write_u64(&self, _: u64, _: u64) {}
    }
    let mapper = dma::Mapper::direct(dma::Limits::of_bits(64), 0);
    let ram = Arc::new(Ram::new(MemoryAddress(0), 4096));
    let error = Controller::open(Arc::new(OneEntry), mapper, ram).unwrap_err();
    assert_eq!(error.to_string(), "the controller has no queues of two entries");
}

#[derive(Debug, Clone)]
enum Step {
    Write { first: u64, blocks: u64, offset: u64, byte: u8 },
    Read { first: u64, blocks: u64, offset: u64 },
    Zero { first: u64, blocks: u64 },
    Flush,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let range = (0..BLOCKS, 1..100_u64, 0..16_u64)
        .prop_map(|(first, blocks, offset)| (first, blocks.min(BLOCKS - first), offset * BLOCK_BYTES));
    let step = (range, any::<u8>(), 0..4_u8).prop_map(|((first, blocks, offset), byte, kind)| match kind {
        0 => Step::Write { first, blocks, offset, byte },
        1 => Step::Read { first, blocks, offset },
        2 => Step::Zero { first, blocks },
        _ => Step::Flush,
    });
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever is read and written, the disk is what an array would be, and no byte of memory beside what was asked for changes.
    #[test]
    fn disks_are_arrays(steps in steps(), entries in 2_u16..20) {
        let mut bench = bench();
        let (mut queue, disk) = (bench.controller.queue_pair(entries).unwrap(), disk(&bench));
        let buffer = bench.controller.allocate(64 << 10).unwrap();
        let mut expected = vec![0_u8; (BLOCKS * BLOCK_BYTES) as usize];
        for step in steps {
            let place = |first: u64, blocks: u64| {
                (first * BLOCK_BYTES) as usize..((first + blocks) * BLOCK_BYTES) as usize
            };
            let (id, read) = match step {
                Step::Write { first, blocks, offset, byte } => {
                    fill(&bench, &buffer, byte);
                    expected[place(first, blocks)].fill(byte);
                    let piece = buffer.piece(offset, blocks * BLOCK_BYTES).unwrap();
                    (queue.write(&disk, first, &[piece]).unwrap(), None)
                }
                Step::Read { first, blocks, offset } => {
                    fill(&bench, &buffer, 0x5a);
                    let piece = buffer.piece(offset, blocks * BLOCK_BYTES).unwrap();
                    (queue.read(&disk, first, &[piece]).unwrap(), Some((offset as usize, place(first, blocks))))
                }
                Step::Zero { first, blocks } => {
                    expected[place(first, blocks)].fill(0);
                    (queue.write_zeroes(&disk, first, blocks).unwrap(), None)
                }
                Step::Flush => (queue.flush(&disk).unwrap(), None),
            };
            prop_assert_eq!(one(&mut queue, id), Status::SUCCESS);
            if let Some((offset, place)) = read {
                let bytes = bytes(&bench, &buffer);
                let end = offset + place.len();
                prop_assert_eq!(&bytes[offset..end], &expected[place]);
                prop_assert!(bytes[..offset].iter().chain(&bytes[end..]).all(|byte| *byte == 0x5a));
            }
        }
        prop_assert_eq!(bench.emulated.disk(), expected);
    }
}
