//! Commands, which are submission queue entries (Base, 3.3.3.1; NVM, 3.2; ZNS, 3.4).

use super::zone::{self, ZoneAction, ZoneState};

/// Bytes of a command.
pub const COMMAND_BYTES: usize = 64;
/// Most ranges of a [`Command::deallocate`].
pub const RANGES_MAX: usize = 256;
/// Bytes of a range.
pub const RANGE_BYTES: usize = 16;
/// Bytes of a source range of a [`Command::copy`], in descriptor format 0.
pub const COPIED_RANGE_BYTES: usize = 32;
/// Most source ranges of a [`Command::copy`]: they fill a page of 4 KiB.
pub const COPIED_RANGES_MAX: usize = 4096 / COPIED_RANGE_BYTES;

/// A command, as the words of its submission queue entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command(pub [u64; COMMAND_BYTES / 8]);

/// Opcodes of admin commands (Base, figure 138).
pub mod admin {
    /// Delete I/O Submission Queue.
    pub const DELETE_SUBMISSION_QUEUE: u8 = 0x00;
    /// Create I/O Submission Queue.
    pub const CREATE_SUBMISSION_QUEUE: u8 = 0x01;
    /// Get Log Page.
    pub const GET_LOG_PAGE: u8 = 0x02;
    /// Delete I/O Completion Queue.
    pub const DELETE_COMPLETION_QUEUE: u8 = 0x04;
    /// Create I/O Completion Queue.
    pub const CREATE_COMPLETION_QUEUE: u8 = 0x05;
    /// Identify.
    pub const IDENTIFY: u8 = 0x06;
    /// Abort.
    pub const ABORT: u8 = 0x08;
    /// Set Features.
    pub const SET_FEATURES: u8 = 0x09;
    /// Namespace Management.
    pub const NAMESPACE_MANAGEMENT: u8 = 0x0d;
    /// Firmware Commit.
    pub const FIRMWARE_COMMIT: u8 = 0x10;
    /// Firmware Image Download.
    pub const FIRMWARE_DOWNLOAD: u8 = 0x11;
    /// Device Self-test.
    pub const SELF_TEST: u8 = 0x14;
    /// Namespace Attachment.
    pub const NAMESPACE_ATTACHMENT: u8 = 0x15;
}

/// Opcodes of the NVM command set (NVM, figure 22).
pub mod nvm {
    /// Flush.
    pub const FLUSH: u8 = 0x00;
    /// Write.
    pub const WRITE: u8 = 0x01;
    /// Read.
    pub const READ: u8 = 0x02;
    /// Compare.
    pub const COMPARE: u8 = 0x05;
    /// Write Zeroes.
    pub const WRITE_ZEROES: u8 = 0x08;
    /// Dataset Management, which includes deallocation.
    pub const DATASET_MANAGEMENT: u8 = 0x09;
    /// Verify.
    pub const VERIFY: u8 = 0x0c;
    /// Copy.
    pub const COPY: u8 = 0x19;
}

/// Opcodes that zoned namespaces have besides (ZNS, figure 26).
pub mod zoned {
    /// Zone Management Send.
    pub const MANAGEMENT_SEND: u8 = 0x79;
    /// Zone Management Receive.
    pub const MANAGEMENT_RECEIVE: u8 = 0x7a;
    /// Zone Append.
    pub const APPEND: u8 = 0x7d;
}

/// What an Identify command asks for (CNS).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Identify {
    /// A namespace, by NSID.
    Namespace(u32),
    /// The controller.
    Controller,
    /// Active NSIDs greater than this one, at most 1,024.
    NamespacesAfter(u32),
    /// The identification descriptors of a namespace, by NSID.
    Descriptors(u32),
    /// A namespace's data of the zoned command set, by NSID.
    ZonedNamespace(u32),
    /// The controller's data of the zoned command set.
    ZonedController,
    /// NSIDs greater than this one that are allocated, attached or not, at most 1,024.
    AllocatedAfter(u32),
    /// A namespace that is allocated, attached or not, by NSID.
    Allocated(u32),
    /// The controllers that a namespace is attached to, from an identifier (CNTLID), at most 2,047.
    AttachedControllers {
        /// NSID.
        namespace: u32,
        /// The lowest identifier of interest.
        from: u16,
    },
    /// The controllers of the subsystem from an identifier, at most 2,047.
    ControllersFrom(u16),
}

/// Feature identifier: Number of Queues (Base, 5.27.1.5).
const FEATURE_QUEUES: u64 = 0x07;
/// Create Queue, PC: the queue is physically contiguous.
const CONTIGUOUS: u64 = 1;
/// Create Completion Queue, IEN: interrupts are enabled.
const INTERRUPTS: u64 = 1 << 1;
/// Dword 12 of commands that read or write blocks, FUA: force unit access (NVM, 3.2.4 and 3.2.6).
pub(crate) const FORCE_UNIT_ACCESS: u32 = 1 << 30;
/// Dataset Management, AD: deallocate.
const DEALLOCATE: u64 = 1 << 2;
/// Identify, CSI in dword 11: the zoned command set.
const ZONED: u64 = (zone::COMMAND_SET as u64) << 56;
/// Zone Management Send, Select All, in dword 13.
const ALL_ZONES: u64 = 1 << 8;
/// Zone Management Receive, Partial Report, in dword 13: it counts only the zones that it has.
const PARTIAL_REPORT: u64 = 1 << 16;
/// Log page identifier: Error Information (Base, 5.16.1.2).
const LOG_ERRORS: u64 = 0x01;

impl Command {
    /// A command with an opcode, a namespace and a data pointer; all else is zero.
    #[inline]
    pub(super) fn new(opcode: u8, namespace: u32, data: [u64; 2]) -> Self {
        let mut words = [0; COMMAND_BYTES / 8];
        words[0] = u64::from(opcode) | u64::from(namespace) << 32;
        [words[3], words[4]] = data;
        Self(words)
    }

    /// Sets command dwords 10 to 15, two per word.
    #[inline]
    pub(super) fn with(mut self, words: [u64; 3]) -> Self {
        self.0[5..].copy_from_slice(&words);
        self
    }

    /// Sets the command identifier (CID).
    #[must_use]
    #[inline]
    pub fn with_identifier(mut self, identifier: u16) -> Self {
        self.0[0] = self.0[0] & !0xffff_0000 | u64::from(identifier) << 16;
        self
    }

    /// Sets Force Unit Access (FUA): a read is of the media, and a write completes when the media have the data. For commands that read or
    /// write blocks.
    #[must_use]
    pub fn with_force_unit_access(mut self) -> Self {
        self.0[6] |= u64::from(FORCE_UNIT_ACCESS);
        self
    }

    /// Whether Force Unit Access is set in a command that reads or writes blocks.
    pub fn forces_unit_access(&self) -> bool {
        self.word(12) & FORCE_UNIT_ACCESS != 0
    }

    /// Marks the data pointer as an SGL descriptor (PSDT).
    #[must_use]
    pub fn using_sgl(mut self) -> Self {
        self.0[0] |= 1 << 14;
        self
    }

    /// Opcode.
    pub fn opcode(&self) -> u8 {
        self.0[0] as u8
    }

    /// Command identifier (CID).
    #[inline]
    pub fn identifier(&self) -> u16 {
        (self.0[0] >> 16) as u16
    }

    /// Namespace identifier (NSID).
    pub fn namespace(&self) -> u32 {
        (self.0[0] >> 32) as u32
    }

    /// Whether the data pointer is an SGL descriptor.
    pub fn uses_sgl(&self) -> bool {
        self.0[0] >> 14 & 3 != 0
    }

    /// The data pointer (DPTR): two PRP entries, or an SGL descriptor.
    pub fn data(&self) -> [u64; 2] {
        [self.0[3], self.0[4]]
    }

    /// Command dword `number`, 10 to 15.
    pub fn word(&self, number: usize) -> u32 {
        (self.0[number / 2] >> (32 * (number % 2))) as u32
    }

    /// Identify, which writes 4,096 bytes to `data`.
    pub fn identify(what: Identify, data: [u64; 2]) -> Self {
        let (namespace, structure) = match what {
            Identify::Namespace(number) => (number, 0),
            Identify::Controller => (0, 1),
            Identify::NamespacesAfter(number) => (number, 2),
            Identify::Descriptors(number) => (number, 3),
            Identify::ZonedNamespace(number) => (number, 5 | ZONED),
            Identify::ZonedController => (0, 6 | ZONED),
            Identify::AllocatedAfter(number) => (number, 0x10),
            Identify::Allocated(number) => (number, 0x11),
            Identify::AttachedControllers { namespace, from } => (namespace, 0x12 | u64::from(from) << 16),
            Identify::ControllersFrom(from) => (0, 0x13 | u64::from(from) << 16),
        };
        Self::new(admin::IDENTIFY, namespace, data).with([structure, 0, 0])
    }

    /// Creates a contiguous completion queue at `at`, with an interrupt vector or polled.
    pub fn create_completion_queue(queue: u16, entries: u16, at: u64, vector: Option<u16>) -> Self {
        let interrupts = vector.map_or(0, |vector| INTERRUPTS | u64::from(vector) << 16);
        let words = size(queue, entries) | (CONTIGUOUS | interrupts) << 32;
        Self::new(admin::CREATE_COMPLETION_QUEUE, 0, [at, 0]).with([words, 0, 0])
    }

    /// Creates a contiguous submission queue at `at`, whose completions go to queue `completions`.
    pub fn create_submission_queue(queue: u16, entries: u16, at: u64, completions: u16) -> Self {
        let words = size(queue, entries) | (CONTIGUOUS | u64::from(completions) << 16) << 32;
        Self::new(admin::CREATE_SUBMISSION_QUEUE, 0, [at, 0]).with([words, 0, 0])
    }

    /// Deletes a submission queue.
    pub fn delete_submission_queue(queue: u16) -> Self {
        Self::new(admin::DELETE_SUBMISSION_QUEUE, 0, [0; 2]).with([queue.into(), 0, 0])
    }

    /// Deletes a completion queue. Delete its submission queues first.
    pub fn delete_completion_queue(queue: u16) -> Self {
        Self::new(admin::DELETE_COMPLETION_QUEUE, 0, [0; 2]).with([queue.into(), 0, 0])
    }

    /// Requests I/O queues of each kind. The completion says how many were granted.
    pub fn set_queue_count(submission: u16, completion: u16) -> Self {
        let less_one = |queues: u16| u64::from(queues.saturating_sub(1));
        let words = FEATURE_QUEUES | (less_one(submission) | less_one(completion) << 16) << 32;
        Self::new(admin::SET_FEATURES, 0, [0; 2]).with([words, 0, 0])
    }

    /// Aborts a command of a queue.
    pub fn abort(queue: u16, identifier: u16) -> Self {
        let word = u64::from(queue) | u64::from(identifier) << 16;
        Self::new(admin::ABORT, 0, [0; 2]).with([word, 0, 0])
    }

    /// Reads the newest entries of the error log, 64 bytes each.
    pub fn error_log(entries: u8, data: [u64; 2]) -> Self {
        let words_less_one = u64::from(entries.max(1)) * 16 - 1;
        Self::new(admin::GET_LOG_PAGE, u32::MAX, data).with([LOG_ERRORS | words_less_one << 16, 0, 0])
    }

    /// A read, write or compare. The number of blocks is zero-based, as in the command (NLB).
    #[inline]
    pub(crate) fn transfer(
        kind: Transfer,
        namespace: u32,
        first: u64,
        blocks_less_one: u16,
        data: [u64; 2],
    ) -> Self {
        let control = u64::from(blocks_less_one) | u64::from(kind.flags);
        Self::new(kind.opcode, namespace, data).with([first, control, 0])
    }

    /// Reads 1 to 65,536 blocks.
    pub fn read(namespace: u32, first: u64, blocks: u32, data: [u64; 2]) -> Self {
        Self::transfer(Transfer::of(nvm::READ), namespace, first, blocks_less_one(blocks), data)
    }

    /// Writes 1 to 65,536 blocks.
    pub fn write(namespace: u32, first: u64, blocks: u32, data: [u64; 2]) -> Self {
        Self::transfer(Transfer::of(nvm::WRITE), namespace, first, blocks_less_one(blocks), data)
    }

    /// Compares 1 to 65,536 blocks with data in memory.
    pub fn compare(namespace: u32, first: u64, blocks: u32, data: [u64; 2]) -> Self {
        Self::transfer(Transfer::of(nvm::COMPARE), namespace, first, blocks_less_one(blocks), data)
    }

    /// Sets 1 to 65,536 blocks to zero.
    pub fn write_zeroes(namespace: u32, first: u64, blocks: u32) -> Self {
        Self::new(nvm::WRITE_ZEROES, namespace, [0; 2]).with([first, blocks_less_one(blocks).into(), 0])
    }

    /// Reads 1 to 65,536 blocks from the media and checks them, without a transfer to memory.
    pub fn verify(namespace: u32, first: u64, blocks: u32) -> Self {
        Self::new(nvm::VERIFY, namespace, [0; 2]).with([first, blocks_less_one(blocks).into(), 0])
    }

    /// Copies 1 to 128 ranges of blocks, which `data` holds as [`copied_range`]s, to `to` and the blocks behind it.
    pub fn copy(namespace: u32, to: u64, ranges: u16, data: [u64; 2]) -> Self {
        // Descriptor format 0 has the value 0.
        let less_one = u64::from(ranges.clamp(1, COPIED_RANGES_MAX as u16) - 1);
        Self::new(nvm::COPY, namespace, data).with([to, less_one, 0])
    }

    /// Appends 1 to 65,536 blocks to the zone that begins at `zone`.
    pub fn append(namespace: u32, zone: u64, blocks: u32, data: [u64; 2]) -> Self {
        Self::transfer(Transfer::of(zoned::APPEND), namespace, zone, blocks_less_one(blocks), data)
    }

    /// Executes an action on the zone that begins at `zone`, or on all.
    pub fn manage_zones(namespace: u32, zone: Option<u64>, action: ZoneAction) -> Self {
        let all = if zone.is_none() { ALL_ZONES } else { 0 };
        let words = [zone.unwrap_or(0), (u64::from(action.code()) | all) << 32, 0];
        Self::new(zoned::MANAGEMENT_SEND, namespace, [0; 2]).with(words)
    }

    /// Reports the zones from the one that holds `block`, those in a state or all, as many as fit in `bytes`, a multiple of 4.
    pub fn report_zones(
        namespace: u32,
        block: u64,
        state: Option<ZoneState>,
        bytes: u32,
        data: [u64; 2],
    ) -> Self {
        let dwords_less_one = u64::from((bytes / 4).saturating_sub(1));
        let filter = u64::from(state.map_or(0, ZoneState::filter)) << 8;
        let words = [block, dwords_less_one | (filter | PARTIAL_REPORT) << 32, 0];
        Self::new(zoned::MANAGEMENT_RECEIVE, namespace, data).with(words)
    }

    /// Flushes the volatile write cache.
    pub fn flush(namespace: u32) -> Self {
        Self::new(nvm::FLUSH, namespace, [0; 2])
    }

    /// Deallocates `ranges` ranges of blocks, which `data` holds as [`deallocated_range`]s.
    pub fn deallocate(namespace: u32, ranges: u16, data: [u64; 2]) -> Self {
        let less_one = u64::from(ranges.clamp(1, RANGES_MAX as u16) - 1);
        Self::new(nvm::DATASET_MANAGEMENT, namespace, data).with([less_one | DEALLOCATE << 32, 0, 0])
    }
}

/// A range of blocks, encoded for the data of [`Command::deallocate`].
pub fn deallocated_range(first: u64, blocks: u32) -> [u8; RANGE_BYTES] {
    let mut bytes = [0; RANGE_BYTES];
    bytes[4..8].copy_from_slice(&blocks.to_le_bytes());
    bytes[8..].copy_from_slice(&first.to_le_bytes());
    bytes
}

/// A source range, encoded for the data of [`Command::copy`] (NVM, 3.2.2, source range entries of format 0). It has 1 to 65,536 blocks.
pub fn copied_range(first: u64, blocks: u32) -> [u8; COPIED_RANGE_BYTES] {
    let mut bytes = [0; COPIED_RANGE_BYTES];
    bytes[8..16].copy_from_slice(&first.to_le_bytes());
    bytes[16..18].copy_from_slice(&blocks_less_one(blocks).to_le_bytes());
    bytes
}

/// A kind of command that transfers blocks to or from memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) opcode: u8,
    /// Bits of dword 12 besides the number of blocks.
    flags: u32,
}

impl Transfer {
    /// An opcode, with no flags.
    #[inline]
    pub(crate) const fn of(opcode: u8) -> Self {
        Self { opcode, flags: 0 }
    }

    /// The same with Force Unit Access.
    #[inline]
    pub(crate) const fn forced(opcode: u8) -> Self {
        Self { opcode, flags: FORCE_UNIT_ACCESS }
    }
}

/// QID and size of a queue in dword 10; the size is 0's based.
fn size(queue: u16, entries: u16) -> u64 {
    u64::from(queue) | u64::from(entries.saturating_sub(1)) << 16
}

/// The zero-based number of blocks (NLB).
fn blocks_less_one(blocks: u32) -> u16 {
    blocks.saturating_sub(1) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_where_the_specification_has_them() {
        let command = Command::read(7, 0x1_0000_0002, 8, [0x1000, 0x2000]).with_identifier(0xbeef);
        let expected = [0x0000_0007_beef_0002, 0, 0, 0x1000, 0x2000, 0x1_0000_0002, 7, 0];
        assert_eq!(command.0, expected);
        assert_eq!((command.opcode(), command.identifier(), command.namespace()), (nvm::READ, 0xbeef, 7));
        assert_eq!([10, 11, 12].map(|number| command.word(number)), [2, 1, 7]);
        assert_eq!(command.with_identifier(1).identifier(), 1);
        assert!(command.using_sgl().uses_sgl() && !command.uses_sgl());
    }

    #[test]
    fn queue_counts_are_encoded_less_one() {
        let completion = Command::create_completion_queue(3, 1024, 0x5000, Some(2));
        assert_eq!([10, 11].map(|number| completion.word(number)), [1023 << 16 | 3, 2 << 16 | 3]);
        let polled = Command::create_completion_queue(3, 2, 0x5000, None);
        assert_eq!([10, 11].map(|number| polled.word(number)), [1 << 16 | 3, 1]);
        let submission = Command::create_submission_queue(4, 64, 0x6000, 3);
        assert_eq!([10, 11].map(|number| submission.word(number)), [63 << 16 | 4, 3 << 16 | 1]);
        let queues = Command::set_queue_count(16, 8);
        assert_eq!([10, 11].map(|number| queues.word(number)), [7, 7 << 16 | 15]);
    }

    #[test]
    fn other_commands_have_their_fields() {
        let compare = Command::compare(7, 2, 8, [0x1000, 0x2000]);
        assert_eq!(compare.0, [0x0000_0007_0000_0005, 0, 0, 0x1000, 0x2000, 2, 7, 0]);
        assert_eq!(Command::identify(Identify::Controller, [1, 2]).word(10), 1);
        let list = Command::identify(Identify::NamespacesAfter(5), [1, 2]);
        assert_eq!((list.namespace(), list.word(10)), (5, 2));
        let [namespace, controller] = [Identify::ZonedNamespace(5), Identify::ZonedController]
            .map(|what| Command::identify(what, [1, 2]));
        assert_eq!([10, 11].map(|number| namespace.word(number)), [5, 2 << 24]);
        assert_eq!([1, 10, 11].map(|number| controller.word(number)), [0, 6, 2 << 24]);
        assert_eq!(Command::identify(Identify::Descriptors(5), [1, 2]).word(10), 3);
        let attached = Identify::AttachedControllers { namespace: 5, from: 0x0102 };
        for (what, namespace, word) in [
            (Identify::AllocatedAfter(5), 5, 0x10),
            (Identify::Allocated(5), 5, 0x11),
            (attached, 5, 0x0102_0012),
            (Identify::ControllersFrom(0x0102), 0, 0x0102_0013),
        ] {
            let command = Command::identify(what, [1, 2]);
            assert_eq!((command.namespace(), command.word(10)), (namespace, word), "{what:?}");
        }
        assert_eq!(Command::abort(2, 9).word(10), 9 << 16 | 2);
        assert_eq!(Command::error_log(4, [0; 2]).word(10), 63 << 16 | 1);
        let forced = Command::write(7, 2, 8, [0x1000, 0]).with_force_unit_access();
        assert_eq!([12, 13].map(|number| forced.word(number)), [1 << 30 | 7, 0]);
        assert!(forced.forces_unit_access() && !compare.forces_unit_access());
        let verify = Command::verify(7, 0x1_0000_0002, 0x1_0000);
        assert_eq!(verify.0, [0x0000_0007_0000_000c, 0, 0, 0, 0, 0x1_0000_0002, 0xffff, 0]);
        let copy = Command::copy(7, 0x1_0000_0002, 128, [0x1000, 0]);
        assert_eq!(copy.0, [0x0000_0007_0000_0019, 0, 0, 0x1000, 0, 0x1_0000_0002, 127, 0]);
        let mut range = [0; 32];
        (range[8], range[9], range[15], range[16], range[17]) = (2, 1, 9, 0xff, 0xff);
        assert_eq!(copied_range(9 << 56 | 0x0102, 1 << 16), range);
        let append = Command::append(7, 0x1_0000_0000, 8, [0x1000, 0x2000]);
        assert_eq!(append.0, [0x0000_0007_0000_007d, 0, 0, 0x1000, 0x2000, 0x1_0000_0000, 7, 0]);
        let reset = Command::manage_zones(7, Some(0x1_0000_0000), ZoneAction::Reset);
        assert_eq!(reset.0, [0x0000_0007_0000_0079, 0, 0, 0, 0, 0x1_0000_0000, 4 << 32, 0]);
        let all = Command::manage_zones(7, None, ZoneAction::Finish);
        assert_eq!([10, 13].map(|number| all.word(number)), [0, 0x102]);
        let report = Command::report_zones(7, 9, Some(ZoneState::Full), 4096, [0x1000, 0x2000]);
        assert_eq!(report.0, [0x0000_0007_0000_007a, 0, 0, 0x1000, 0x2000, 9, 0x1_0500_0000_03ff, 0]);
        let deallocate = Command::deallocate(1, 256, [0; 2]);
        assert_eq!([10, 11].map(|number| deallocate.word(number)), [255, 4]);
        assert_eq!(deallocated_range(0x0102, 3), [0, 0, 0, 0, 3, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]);
    }
}
