//! Zoned namespaces of an emulated controller.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use dma::MemoryAddress;
use nvme::emulated::{Fault, Machine, ZoneOptions};
use nvme::prp::Piece;
use nvme::spec::command::Command;
use nvme::spec::status::Status;
use nvme::spec::zone::{Zone, ZoneAction, ZoneState, report};
use nvme::{BlockError, CommandId, Done, Namespace, QueuePair, Zones};

const BLOCK: usize = 512;
/// Four zones of 16 blocks, and half a zone, of which 10 blocks can be written; 2 may be open and 3 active.
const BLOCKS: u64 = 72;
const OPTIONS: ZoneOptions = ZoneOptions {
    zone_blocks: 16,
    capacity: 10,
    active_max: Some(3),
    open_max: Some(2),
    reads_across_zones: false,
};

/// A machine, a queue, and a buffer.
struct User {
    machine: Machine,
    queue: QueuePair,
    disk: Namespace,
    memory: MemoryAddress,
    whole: Piece,
}

impl User {
    fn new(options: ZoneOptions) -> Self {
        let mut machine = Machine::builder(BLOCKS, 9).zones(options).open().unwrap();
        let (queue, disk) = (machine.controller.queue_pair(8).unwrap(), machine.namespace().unwrap());
        let buffer = machine.controller.allocate(256 << 10).unwrap();
        let whole = buffer.piece(0, buffer.bytes()).unwrap();
        Self { machine, queue, disk, memory: buffer.memory(), whole }
    }

    /// The first blocks of the buffer.
    fn piece(&self, blocks: u64) -> Piece {
        Piece { bytes: blocks * BLOCK as u64, ..self.whole }
    }

    fn fill(&self, byte: u8) {
        self.machine.ram.write(self.memory, &[byte; 16 * BLOCK]).unwrap();
    }

    /// Rings the doorbell, and polls for all commands in flight.
    fn complete(&mut self) -> Vec<Done> {
        self.queue.ring_doorbell();
        let mut completed = Vec::new();
        self.queue.poll(64, |done| completed.push(done)).unwrap();
        completed
    }

    fn one(&mut self, id: Result<CommandId, BlockError>) -> (Status, u64) {
        let id = id.unwrap();
        let [done] = self.complete()[..] else { panic!("one command is in flight") };
        assert_eq!(done.id, id);
        (done.status, done.result)
    }

    fn write(&mut self, first: u64, blocks: u64) -> Status {
        let id = self.queue.write(&self.disk, first, &[self.piece(blocks)]);
        self.one(id).0
    }

    fn append(&mut self, zone: u64, blocks: u64) -> (Status, u64) {
        let id = self.queue.append(&self.disk, zone, &[self.piece(blocks)]);
        self.one(id)
    }

    fn read(&mut self, first: u64, blocks: u64) -> Status {
        let id = self.queue.read(&self.disk, first, &[self.piece(blocks)]);
        self.one(id).0
    }

    fn act(&mut self, zone: u64, action: ZoneAction) -> Status {
        let id = self.queue.manage_zone(&self.disk, zone, action);
        self.one(id).0
    }

    fn act_on_all(&mut self, action: ZoneAction) -> Status {
        let id = self.queue.manage_all_zones(&self.disk, action);
        self.one(id).0
    }

    /// Zones from the one with a block, in a report of so many bytes.
    fn report(&mut self, block: u64, state: Option<ZoneState>, bytes: u64) -> Vec<Zone> {
        self.machine.ram.write(self.memory, &[0xff; 512]).unwrap();
        let into = Piece { bytes, ..self.whole };
        let id = self.queue.report_zones(&self.disk, block, state, &[into]);
        assert_eq!(self.one(id).0, Status::SUCCESS);
        let mut bytes = vec![0; bytes as usize];
        self.machine.ram.read(self.memory, &mut bytes).unwrap();
        report(&bytes).collect()
    }

    fn states(&mut self) -> Vec<ZoneState> {
        self.report(0, None, 4096).into_iter().map(|zone| zone.state).collect()
    }

    /// The first byte of each block.
    fn bytes(&self) -> Vec<u8> {
        self.machine.emulated.disk().chunks(BLOCK).map(|block| block[0]).collect()
    }
}

use ZoneState::{Closed, Empty, ExplicitlyOpen, Full, ImplicitlyOpen, Offline, ReadOnly};

#[test]
fn a_zoned_namespace_is_identified() {
    let user = User::new(OPTIONS);
    let expected = Zones {
        zone_blocks: 16,
        active_max: Some(3),
        open_max: Some(2),
        reads_across_zones: false,
        append_bytes_max: 128 << 10,
    };
    assert_eq!((user.disk.zones, user.disk.format.blocks), (Some(expected), BLOCKS));
    let user = User::new(ZoneOptions { reads_across_zones: true, ..ZoneOptions::whole(32) });
    let expected =
        Zones { zone_blocks: 32, active_max: None, open_max: None, reads_across_zones: true, ..expected };
    assert_eq!(user.disk.zones, Some(expected));
}

#[test]
fn a_namespace_without_zones_has_no_commands_of_zones() {
    let mut machine = Machine::open(BLOCKS, 9).unwrap();
    let (mut queue, disk) = (machine.controller.queue_pair(8).unwrap(), machine.namespace().unwrap());
    assert_eq!(disk.zones, None);
    let buffer = machine.controller.allocate(4096).unwrap();
    let piece = buffer.piece(0, 4096).unwrap();
    assert_eq!(queue.append(&disk, 0, &[piece]), Err(BlockError::NotZoned));
    assert_eq!(queue.manage_zone(&disk, 0, ZoneAction::Reset), Err(BlockError::NotZoned));
    assert_eq!(queue.manage_all_zones(&disk, ZoneAction::Reset), Err(BlockError::NotZoned));
    assert_eq!(queue.report_zones(&disk, 0, None, &[piece]), Err(BlockError::NotZoned));
    for command in [
        Command::append(1, 0, 1, [piece.at.0, 0]),
        Command::manage_zones(1, None, ZoneAction::Reset),
        Command::report_zones(1, 0, None, 4096, [piece.at.0, 0]),
    ] {
        queue.submit(command).unwrap();
        queue.ring_doorbell();
        let refused = Status::INVALID_OPCODE.with_do_not_retry();
        assert_eq!(queue.poll(1, |done| assert_eq!(done.status, refused)).unwrap(), 1);
    }
}

#[test]
fn zones_are_written_sequentially() {
    let mut user = User::new(OPTIONS);
    let dnr = Status::with_do_not_retry;
    user.fill(1);
    assert_eq!(user.write(16, 4), Status::SUCCESS);
    let zone = Zone { state: ImplicitlyOpen, first: 16, capacity: 10, write_pointer: Some(20) };
    assert_eq!(user.report(20, None, 128), [zone]);
    assert_eq!(user.write(16, 4), dnr(Status::ZONE_INVALID_WRITE));
    assert_eq!(user.write(21, 1), dnr(Status::ZONE_INVALID_WRITE));
    assert_eq!(user.write(20, 7), dnr(Status::ZONE_BOUNDARY));
    user.fill(2);
    assert_eq!(user.write(20, 6), Status::SUCCESS);
    assert_eq!(user.write(26, 1), dnr(Status::ZONE_FULL));
    let zone = Zone { state: Full, first: 16, capacity: 10, write_pointer: None };
    assert_eq!(user.report(31, None, 128), [zone]);
    assert_eq!(user.bytes()[15..27], [0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 0]);
    // A zone is read also where it is not written. Another zone is another read.
    assert_eq!(user.read(16, 16), Status::SUCCESS);
    assert_eq!(user.read(31, 2), dnr(Status::ZONE_BOUNDARY));
    assert_eq!(user.act(16, ZoneAction::Reset), Status::SUCCESS);
    assert_eq!((user.states()[1], user.bytes()[16..26].iter().sum::<u8>()), (Empty, 0));
    let mut user = User::new(ZoneOptions { reads_across_zones: true, ..OPTIONS });
    assert_eq!(user.read(31, 2), Status::SUCCESS);
}

#[test]
fn appends_in_flight_tell_where_they_wrote() {
    let mut user = User::new(OPTIONS);
    user.fill(7);
    assert_eq!(user.append(32, 2), (Status::SUCCESS, 32));
    let blocks = [1, 3, 2];
    let ids = blocks.map(|blocks| user.queue.append(&user.disk, 32, &[user.piece(blocks)]).unwrap());
    let completed = user.complete();
    let expected: Vec<_> = ids.into_iter().zip([34, 35, 38]).collect();
    assert_eq!(completed.iter().map(|done| (done.id, done.result)).collect::<Vec<_>>(), expected);
    assert_eq!(user.bytes()[31..41], [0, 7, 7, 7, 7, 7, 7, 7, 7, 0]);
    assert_eq!(user.append(32, 3), (Status::ZONE_BOUNDARY.with_do_not_retry(), 0));
    assert_eq!(user.append(32, 2), (Status::SUCCESS, 40));
    assert_eq!(user.append(32, 1).0, Status::ZONE_FULL.with_do_not_retry());
    // The last zone is shorter than the others.
    assert_eq!(user.append(64, 8), (Status::SUCCESS, 64));
    assert_eq!(user.states()[4], Full);
    assert_eq!(user.append(64, 1).0, Status::ZONE_BOUNDARY.with_do_not_retry(), "behind it the disk ends");
}

#[test]
fn invalid_commands_of_zones_are_refused() {
    let mut user = User::new(OPTIONS);
    let words = |result: Result<CommandId, BlockError>| result.unwrap_err().to_string();
    let start = "block 17 is not the first of a zone; zones have 16 blocks";
    let beyond = "1 blocks from block 72: beyond the end of the namespace, which has 72 blocks";
    let piece = user.piece(1);
    assert_eq!(words(user.queue.append(&user.disk, 17, &[piece])), start);
    assert_eq!(words(user.queue.manage_zone(&user.disk, 17, ZoneAction::Open)), start);
    assert_eq!(words(user.queue.append(&user.disk, 72, &[piece])), beyond);
    assert_eq!(words(user.queue.manage_zone(&user.disk, 72, ZoneAction::Open)), beyond);
    assert_eq!(words(user.queue.report_zones(&user.disk, 72, None, &[piece])), beyond);
    assert_eq!(
        words(user.queue.report_zones(&user.disk, 0, None, &[])),
        "0 bytes; expected 1 or more blocks of 4"
    );
    let large = Namespace {
        format: nvme::spec::identify::Namespace { blocks: 1 << 20, ..user.disk.format },
        ..user.disk
    };
    assert_eq!(
        words(user.queue.append(&large, 0, &[user.whole])),
        "262144 bytes in one command; expected at most 131072"
    );
    assert_eq!(user.queue.in_flight(), 0);
    // And by the controller.
    let at = user.piece(1).at.0;
    let [field, range] = [Status::INVALID_FIELD, Status::LBA_OUT_OF_RANGE].map(Status::with_do_not_retry);
    let mut report_of_another_kind = Command::report_zones(1, 0, None, 64, [at, 0]);
    report_of_another_kind.0[6] |= 1 << 32;
    for (command, expected) in [
        (Command::append(1, 17, 1, [at, 0]), field),
        (Command::append(1, 0, 257, [at, 0]), field),
        (Command::append(1, 72, 1, [at, 0]), range),
        (Command::manage_zones(1, Some(17), ZoneAction::Open), field),
        (Command::manage_zones(1, Some(72), ZoneAction::Open), range),
        (Command::report_zones(1, 72, None, 64, [at, 0]), range),
        (report_of_another_kind, field),
    ] {
        let id = user.queue.submit(command).map_err(BlockError::from);
        assert_eq!(user.one(id).0, expected, "{command:x?}");
    }
}

#[test]
fn reports_have_the_zones_that_were_asked_for() {
    let mut user = User::new(OPTIONS);
    user.write(16, 10);
    user.write(32, 1);
    assert_eq!(user.states(), [Empty, Full, ImplicitlyOpen, Empty, Empty]);
    let mut firsts = |block, state, bytes| {
        user.report(block, state, bytes).into_iter().map(|zone| zone.first).collect::<Vec<_>>()
    };
    assert_eq!(firsts(33, None, 4096), [32, 48, 64]);
    assert_eq!(firsts(0, Some(Empty), 4096), [0, 48, 64]);
    assert_eq!(firsts(1, Some(Full), 4096), [16]);
    assert_eq!(firsts(0, Some(Closed), 4096), []);
    // There is room for so many.
    assert_eq!(firsts(0, Some(Empty), 64 + 2 * 64), [0, 48]);
    assert_eq!(firsts(0, None, 64 + 60), []);
    assert_eq!(firsts(0, None, 4), []);
    // Not a partial report: it counts all, and has what fits.
    let mut command = Command::report_zones(1, 0, None, 128, [user.whole.at.0, 0]);
    command.0[6] &= !(1 << 48);
    let id = user.queue.submit(command).map_err(BlockError::from);
    assert_eq!(user.one(id).0, Status::SUCCESS);
    let mut bytes = [0; 128];
    user.machine.ram.read(user.memory, &mut bytes).unwrap();
    assert_eq!((bytes[0], report(&bytes).count()), (5, 1));
}

#[test]
fn open_and_active_zones_are_limited() {
    let mut user = User::new(OPTIONS);
    user.fill(1);
    assert_eq!((user.write(0, 1), user.write(16, 1)), (Status::SUCCESS, Status::SUCCESS));
    // A third one closes the first, which was opened implicitly, before the second.
    assert_eq!(user.write(32, 1), Status::SUCCESS);
    assert_eq!(user.states(), [Closed, ImplicitlyOpen, ImplicitlyOpen, Empty, Empty]);
    assert_eq!(user.write(48, 1), Status::TOO_MANY_ACTIVE_ZONES.with_do_not_retry());
    assert_eq!(user.act(16, ZoneAction::Open), Status::SUCCESS);
    assert_eq!(user.act(32, ZoneAction::Open), Status::SUCCESS);
    assert_eq!(user.write(1, 1), Status::TOO_MANY_OPEN_ZONES.with_do_not_retry());
    assert_eq!(user.states(), [Closed, ExplicitlyOpen, ExplicitlyOpen, Empty, Empty]);
    assert_eq!(user.act(16, ZoneAction::Finish), Status::SUCCESS);
    assert_eq!(user.write(1, 1), Status::SUCCESS);
    assert_eq!(user.states(), [ImplicitlyOpen, Full, ExplicitlyOpen, Empty, Empty]);
    assert_eq!(user.write(48, 1), Status::SUCCESS);
    assert_eq!(user.states(), [Closed, Full, ExplicitlyOpen, ImplicitlyOpen, Empty]);
    let mut user = User::new(OPTIONS);
    assert_eq!([user.write(16, 1), user.write(0, 1), user.write(17, 1)], [Status::SUCCESS; 3]);
    user.write(32, 1);
    assert_eq!(user.states()[..3], [ImplicitlyOpen, Closed, ImplicitlyOpen], "16 was opened before 0");
}

#[test]
fn actions_change_states_as_the_specification_has_it() {
    let invalid = Status::INVALID_ZONE_TRANSITION.with_do_not_retry();
    use ZoneAction::{Close, Finish, Open, Reset};
    // From each state, the state after each action, or none where it is refused.
    let rows: [(ZoneState, [Option<ZoneState>; 5]); 7] = [
        (Empty, [Some(ExplicitlyOpen), None, Some(Full), Some(Empty), None]),
        (ImplicitlyOpen, [Some(ExplicitlyOpen), Some(Closed), Some(Full), Some(Empty), None]),
        (ExplicitlyOpen, [Some(ExplicitlyOpen), Some(Closed), Some(Full), Some(Empty), None]),
        (Closed, [Some(ExplicitlyOpen), Some(Closed), Some(Full), Some(Empty), None]),
        (Full, [None, None, Some(Full), Some(Empty), None]),
        (ReadOnly, [None, None, None, None, Some(Offline)]),
        (Offline, [None, None, None, None, Some(Offline)]),
    ];
    for (from, after) in rows {
        for (action, to) in [Open, Close, Finish, Reset, ZoneAction::Offline].into_iter().zip(after) {
            let mut user = User::new(OPTIONS);
            user.machine.emulated.set_zone_state(16, from);
            let expected = to.map_or(invalid, |_| Status::SUCCESS);
            assert_eq!(user.act(16, action), expected, "{action:?} of {from:?}");
            assert_eq!(user.states()[1], to.unwrap_or(from), "{action:?} of {from:?}");
        }
    }
    // Of all zones, those in the right state.
    let states = [Empty, ImplicitlyOpen, Closed, Full, ReadOnly];
    for (action, expected) in [
        (Open, [Empty, ImplicitlyOpen, ExplicitlyOpen, Full, ReadOnly]),
        (Close, [Empty, Closed, Closed, Full, ReadOnly]),
        (Finish, [Empty, Full, Full, Full, ReadOnly]),
        (Reset, [Empty, Empty, Empty, Empty, ReadOnly]),
        (ZoneAction::Offline, [Empty, ImplicitlyOpen, Closed, Full, Offline]),
    ] {
        let mut user = User::new(OPTIONS);
        for (zone, state) in (0..).step_by(16).zip(states) {
            user.machine.emulated.set_zone_state(zone, state);
        }
        assert_eq!(user.act_on_all(action), Status::SUCCESS);
        assert_eq!(user.states(), expected, "{action:?}");
    }
}

#[test]
fn worn_zones_are_not_written_and_perhaps_not_read() {
    let mut user = User::new(OPTIONS);
    user.machine.emulated.set_zone_state(0, ReadOnly);
    user.machine.emulated.set_zone_state(16, Offline);
    let dnr = Status::with_do_not_retry;
    assert_eq!((user.write(0, 1), user.read(0, 1)), (dnr(Status::ZONE_READ_ONLY), Status::SUCCESS));
    assert_eq!((user.write(16, 1), user.read(16, 1)), (dnr(Status::ZONE_OFFLINE), dnr(Status::ZONE_OFFLINE)));
    let id = user.queue.verify(&user.disk, 16, 1);
    assert_eq!(user.one(id).0, dnr(Status::ZONE_OFFLINE));
}

#[test]
fn other_commands_that_write_keep_to_the_write_pointer() {
    let mut user = User::new(OPTIONS);
    user.fill(9);
    user.write(0, 4);
    let dnr = Status::with_do_not_retry;
    let id = user.queue.write_zeroes(&user.disk, 5, 1);
    assert_eq!(user.one(id).0, dnr(Status::ZONE_INVALID_WRITE));
    let id = user.queue.write_zeroes(&user.disk, 4, 1);
    assert_eq!(user.one(id).0, Status::SUCCESS);
    let id = user.queue.copy(&user.disk, 17, std::slice::from_ref(&(0..2)));
    assert_eq!(user.one(id).0, dnr(Status::ZONE_INVALID_WRITE));
    let id = user.queue.copy(&user.disk, 16, &[0..2, 3..5]);
    assert_eq!(user.one(id).0, Status::SUCCESS);
    assert_eq!(user.bytes()[15..21], [0, 9, 9, 9, 0, 0]);
    // Deallocated blocks read as zero, and the write pointer stays.
    let id = user.queue.deallocate(&user.disk, std::slice::from_ref(&(16..17)));
    assert_eq!(user.one(id).0, Status::SUCCESS);
    assert_eq!((user.bytes()[16], user.report(16, None, 128)[0].write_pointer), (0, Some(20)));
    // What is written is on the media.
    user.machine.emulated.lose_power();
    assert_eq!(user.bytes()[..4], [9; 4]);
}

#[test]
fn a_reset_closes_zones_and_cuts_appends_off() {
    let mut user = User::new(OPTIONS);
    user.fill(3);
    user.write(0, 2);
    assert_eq!(user.act(16, ZoneAction::Open), Status::SUCCESS);
    for fault in [Fault::LostCompletion, Fault::Stuck] {
        user.machine.emulated.inject(user.machine.emulated.commands(), fault);
        let append = user.queue.append(&user.disk, 0, &[user.piece(2)]).unwrap();
        user.machine.emulated.inject(user.machine.emulated.commands() + 1, Fault::LostCompletion);
        let read = user.queue.read(&user.disk, 0, &[user.piece(1)]).unwrap();
        assert!(user.complete().is_empty());
        user.machine.controller.reset().unwrap();
        // The read is resubmitted, the append is not: it was executed once, or never.
        assert_eq!(user.machine.controller.renew(&mut user.queue).unwrap(), 1);
        assert_eq!(user.queue.take_cut_off(), [append]);
        assert!(user.queue.take_cut_off().is_empty());
        let completed = user.complete();
        assert_eq!(completed.iter().map(|done| done.id).collect::<Vec<_>>(), [read]);
        assert_eq!((user.queue.in_flight(), user.queue.available()), (0, 7));
        let zone = Zone { state: Closed, first: 0, capacity: 10, write_pointer: Some(4) };
        assert_eq!(user.report(0, None, 64 + 128)[0], zone, "{fault:?}");
        assert_eq!(user.states()[1], Empty, "nothing was written to it");
    }
    // A write that was executed is not executed again: the zone's write pointer is behind it.
    user.machine.emulated.inject(user.machine.emulated.commands(), Fault::LostCompletion);
    let id = user.queue.write(&user.disk, 4, &[user.piece(1)]).unwrap();
    assert!(user.complete().is_empty());
    user.machine.controller.reset().unwrap();
    assert_eq!(user.machine.controller.renew(&mut user.queue).unwrap(), 1);
    assert_eq!(user.one(Ok(id)).0, Status::ZONE_INVALID_WRITE.with_do_not_retry());
    assert_eq!(user.report(0, None, 128)[0].write_pointer, Some(5));
}

#[test]
fn limits_of_lengths_are_each_their_own() {
    let mut user = User::new(OPTIONS);
    let two = user.piece(2);
    // A controller's limit of appends may be below that of transfers.
    let zones = user.disk.zones.map(|zones| Zones { append_bytes_max: BLOCK as u64, ..zones });
    let appends = Namespace { zones, ..user.disk };
    let long = BlockError::TooLong { bytes: 1024, bytes_max: 512 };
    assert_eq!(user.queue.append(&appends, 0, &[two]), Err(long));
    let transfers = Namespace { transfer_bytes_max: BLOCK as u64, ..user.disk };
    assert_eq!(user.queue.append(&transfers, 0, &[two]), Err(long));
    assert_eq!(user.queue.report_zones(&transfers, 0, None, &[two]), Err(long));
    let partial = Piece { bytes: 510, ..two };
    let error = BlockError::PartialBlock { bytes: 510, block_bytes: 4 };
    assert_eq!(user.queue.report_zones(&user.disk, 0, None, &[partial]), Err(error));
    let id = user.queue.report_zones(&transfers, 0, None, &[user.piece(1)]);
    assert_eq!(user.one(id).0, Status::SUCCESS, "as long as the limit");
    let id = user.queue.append(&appends, 0, &[user.piece(1)]);
    assert_eq!(user.one(id).0, Status::SUCCESS, "as long as the limit");
}

#[test]
fn zones_behind_the_end_are_refused() {
    let mut user = User::new(OPTIONS);
    let range = BlockError::OutOfRange { first: 80, count: 1, blocks: BLOCKS };
    assert_eq!(user.queue.append(&user.disk, 80, &[user.piece(1)]), Err(range));
    assert_eq!(user.queue.manage_zone(&user.disk, 80, ZoneAction::Reset), Err(range));
    assert_eq!(user.queue.report_zones(&user.disk, 80, None, &[user.piece(1)]), Err(range));
    assert_eq!(user.queue.in_flight(), 0);
}

#[test]
fn a_read_across_zones_touches_no_offline_zone() {
    let mut user = User::new(ZoneOptions { reads_across_zones: true, ..OPTIONS });
    user.machine.emulated.set_zone_state(32, Offline);
    let offline = Status::ZONE_OFFLINE.with_do_not_retry();
    assert_eq!([user.read(31, 2), user.read(47, 2), user.read(30, 2)], [offline, offline, Status::SUCCESS]);
    assert_eq!(user.read(48, 2), Status::SUCCESS);
}

#[test]
fn a_capacity_is_at_most_a_zone() {
    let mut user = User::new(ZoneOptions { capacity: 40, ..OPTIONS });
    let capacities: Vec<u64> = user.report(0, None, 4096).iter().map(|zone| zone.capacity).collect();
    assert_eq!(capacities, [16, 16, 16, 16, 8]);
    user.fill(1);
    assert_eq!([user.write(0, 16), user.write(64, 8)], [Status::SUCCESS; 2]);
    assert_eq!(user.states(), [Full, Empty, Empty, Empty, Full]);
}

#[test]
fn a_reset_of_all_zones_empties_each() {
    let mut user = User::new(OPTIONS);
    user.fill(5);
    assert_eq!([user.write(0, 10), user.write(16, 1), user.write(64, 8)], [Status::SUCCESS; 3]);
    assert_eq!(user.act_on_all(ZoneAction::Reset), Status::SUCCESS);
    assert!(user.bytes().iter().all(|byte| *byte == 0), "{:?}", user.bytes());
    let pointers: Vec<Option<u64>> =
        user.report(0, None, 4096).iter().map(|zone| zone.write_pointer).collect();
    assert_eq!(pointers, [0, 16, 32, 48, 64].map(Some));
}

#[test]
fn an_action_on_all_zones_ends_at_a_limit() {
    let mut user = User::new(OPTIONS);
    for zone in [0, 16, 32] {
        assert_eq!(user.write(zone, 1), Status::SUCCESS);
        assert_eq!(user.act(zone, ZoneAction::Close), Status::SUCCESS);
    }
    assert_eq!(user.act_on_all(ZoneAction::Open), Status::TOO_MANY_OPEN_ZONES.with_do_not_retry());
    assert_eq!(user.states()[..3], [ExplicitlyOpen, ExplicitlyOpen, Closed]);
    // A closed zone is active already: opening it takes no more of them.
    assert_eq!(user.act(0, ZoneAction::Close), Status::SUCCESS);
    assert_eq!(user.act(32, ZoneAction::Open), Status::SUCCESS);
    assert_eq!(user.act(48, ZoneAction::Open), Status::TOO_MANY_ACTIVE_ZONES.with_do_not_retry());
}
