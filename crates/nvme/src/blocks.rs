//! NVM commands of a queue pair: read, write, compare, verify, copy, write zeroes, deallocate and flush blocks of a namespace.

use crate::controller::{Namespace, PAGE_BYTES};
use crate::prp::{self, Piece, PrpError};
use crate::queue_pair::{CommandId, LIST_BYTES, QueueError, QueuePair};
use crate::sgl::{self, SglError};
use crate::spec::command::{
    COPIED_RANGE_BYTES, COPIED_RANGES_MAX, Command, RANGE_BYTES, RANGES_MAX, Transfer, copied_range,
    deallocated_range, nvm,
};
use crate::spec::identify::CopyLimits;
use dma::MemoryAddress;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Why a command was not submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlockError {
    /// The data is not a whole number of blocks.
    #[error("{bytes} bytes; expected 1 or more blocks of {block_bytes}")]
    PartialBlock {
        /// Bytes of the data.
        bytes: u64,
        /// Block size of the namespace.
        block_bytes: u64,
    },
    /// A command without blocks. The field NLB is zero-based (NVM Command Set Specification 1.0, section 3.2.8), so it
    /// can't express 0.
    #[error(
        "0 blocks from block {first}; expected 1 or more: a command can't express 0, its NLB is zero-based"
    )]
    ZeroBlocks {
        /// First block of the command.
        first: u64,
    },
    /// The blocks reach beyond the end of the namespace.
    #[error("{count} blocks from block {first}: beyond the end of the namespace, which has {blocks} blocks")]
    OutOfRange {
        /// First block of the command.
        first: u64,
        /// Blocks of the command.
        count: u64,
        /// Blocks of the namespace.
        blocks: u64,
    },
    /// The data exceeds the controller's transfer limit (MDTS).
    #[error("{bytes} bytes in one command; expected at most {bytes_max}")]
    TooLong {
        /// Bytes of the data.
        bytes: u64,
        /// The controller's limit.
        bytes_max: u64,
    },
    /// The data can't be described by PRPs.
    #[error(transparent)]
    Memory(#[from] PrpError),
    /// The data can't be described by an SGL.
    #[error(transparent)]
    List(#[from] SglError),
    /// More ranges than one command takes, or none.
    #[error("{ranges} ranges of blocks; expected 1 to {RANGES_MAX}")]
    Ranges {
        /// Ranges of the command.
        ranges: usize,
    },
    /// The controller lacks an optional command.
    #[error("the controller has no {0} command")]
    Unsupported(&'static str),
    /// The namespace has no zones.
    #[error("the namespace has no zones")]
    NotZoned,
    /// No zone begins at the block.
    #[error("block {block} is not the first of a zone; zones have {zone_blocks} blocks")]
    ZoneStart {
        /// The block.
        block: u64,
        /// Blocks from one zone to the next.
        zone_blocks: u64,
    },
    /// The ranges of a copy exceed a limit of the namespace, or of this driver.
    #[error("a copy of {count} {unit}; expected 1 to {max}")]
    CopyLimit {
        /// What is counted.
        unit: &'static str,
        /// How many there are.
        count: u64,
        /// The limit.
        max: u64,
    },
    /// The destination of a copy overlaps a source. A reset can execute the copy twice, and the second would read what the first wrote.
    #[error("blocks {} to {} are read and written by the same copy", blocks.0, blocks.1)]
    CopyOverlap {
        /// The first and the last block of the source range.
        blocks: (u64, u64),
    },
    /// The queue is full, or the controller was reset.
    #[error(transparent)]
    Queue(#[from] QueueError),
}

/// Most blocks of one command: the count field has 16 bits.
const BLOCKS_MAX: u64 = 1 << 16;

impl QueuePair {
    /// Submits a read into pieces of mapped memory. With PRPs, only the first piece may begin within a page and only
    /// the last may end within one. With SGLs, pieces may have any alignment.
    ///
    /// # Errors
    /// [`BlockError`]; then nothing is submitted.
    #[inline]
    pub fn read(
        &mut self,
        namespace: &Namespace,
        first: u64,
        into: &[Piece],
    ) -> Result<CommandId, BlockError> {
        self.transfer(Transfer::of(nvm::READ), namespace, first, into)
    }

    /// Submits a read of the media, not of the controller's volatile cache: what the cache has of these blocks is written to the media
    /// first (Force Unit Access).
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    #[inline]
    pub fn read_fua(
        &mut self,
        namespace: &Namespace,
        first: u64,
        into: &[Piece],
    ) -> Result<CommandId, BlockError> {
        self.transfer(Transfer::forced(nvm::READ), namespace, first, into)
    }

    /// Submits a write.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    #[inline]
    pub fn write(
        &mut self,
        namespace: &Namespace,
        first: u64,
        from: &[Piece],
    ) -> Result<CommandId, BlockError> {
        self.transfer(Transfer::of(nvm::WRITE), namespace, first, from)
    }

    /// Submits a write that completes when the data are on the media, as after a [`flush`](Self::flush) of these blocks alone (Force
    /// Unit Access).
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    #[inline]
    pub fn write_fua(
        &mut self,
        namespace: &Namespace,
        first: u64,
        from: &[Piece],
    ) -> Result<CommandId, BlockError> {
        self.transfer(Transfer::forced(nvm::WRITE), namespace, first, from)
    }

    /// Submits a command that compares blocks with data in memory: nothing is written to the disk. If they differ, it completes with
    /// [`Status::COMPARE_FAILURE`](crate::spec::status::Status::COMPARE_FAILURE). Controllers need not support it
    /// ([`Namespace::has_compare`]).
    ///
    /// # Errors
    /// As for [`read`](Self::read), and [`BlockError::Unsupported`].
    pub fn compare(
        &mut self,
        namespace: &Namespace,
        first: u64,
        with: &[Piece],
    ) -> Result<CommandId, BlockError> {
        if !namespace.has_compare {
            return Err(BlockError::Unsupported("Compare"));
        }
        self.transfer(Transfer::of(nvm::COMPARE), namespace, first, with)
    }

    /// Submits a command that reads blocks from the media and checks them, without a transfer to memory. Controllers need not support it
    /// ([`Namespace::has_verify`]).
    ///
    /// # Errors
    /// As for [`read`](Self::read), and [`BlockError::Unsupported`].
    pub fn verify(
        &mut self,
        namespace: &Namespace,
        first: u64,
        blocks: u64,
    ) -> Result<CommandId, BlockError> {
        if !namespace.has_verify {
            return Err(BlockError::Unsupported("Verify"));
        }
        check_blocks(namespace, first, blocks)?;
        Ok(self.submit(Command::verify(namespace.number, first, blocks as u32))?)
    }

    /// Submits a command by which the controller copies ranges of blocks to `to` and the blocks behind it, in their order. No data are
    /// transferred to memory. Controllers need not support it, and limit it ([`Namespace::copy_limits`]).
    ///
    /// # Errors
    /// As for [`read`](Self::read), and [`BlockError::Unsupported`], [`BlockError::CopyLimit`] or [`BlockError::CopyOverlap`].
    pub fn copy(
        &mut self,
        namespace: &Namespace,
        to: u64,
        ranges: &[Range<u64>],
    ) -> Result<CommandId, BlockError> {
        let limits = namespace.copy_limits.ok_or(BlockError::Unsupported("Copy"))?;
        check_copy(namespace, limits, to, ranges)?;
        let encoded = ranges.iter().map(|range| copied_range(range.start, count(range) as u32));
        let (id, data) = self.allocate_with_ranges(encoded)?;
        self.submit_with(id, Command::copy(namespace.number, to, ranges.len() as u16, data));
        Ok(id)
    }

    /// Submits a command that sets blocks to zero.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn write_zeroes(
        &mut self,
        namespace: &Namespace,
        first: u64,
        blocks: u64,
    ) -> Result<CommandId, BlockError> {
        check_blocks(namespace, first, blocks)?;
        Ok(self.submit(Command::write_zeroes(namespace.number, first, blocks as u32))?)
    }

    /// Submits a command that deallocates (trims) ranges of blocks.
    ///
    /// # Errors
    /// As for [`read`](Self::read). Also fails for more ranges than one command takes.
    pub fn deallocate(
        &mut self,
        namespace: &Namespace,
        ranges: &[Range<u64>],
    ) -> Result<CommandId, BlockError> {
        if ranges.is_empty() || ranges.len() > RANGES_MAX {
            return Err(BlockError::Ranges { ranges: ranges.len() });
        }
        for range in ranges {
            let count = count(range);
            let is_within = count > 0 && count <= u32::MAX.into() && range.end <= namespace.format.blocks;
            is_within.then_some(()).ok_or(BlockError::OutOfRange {
                first: range.start,
                count,
                blocks: namespace.format.blocks,
            })?;
        }
        let encoded = ranges.iter().map(|range| deallocated_range(range.start, count(range) as u32));
        let (id, data) = self.allocate_with_ranges(encoded)?;
        self.submit_with(id, Command::deallocate(namespace.number, ranges.len() as u16, data));
        Ok(id)
    }

    /// Allocates a command identifier and writes ranges to its list memory. Returns also the command's data pointer.
    fn allocate_with_ranges<const BYTES: usize>(
        &mut self,
        ranges: impl Iterator<Item = [u8; BYTES]>,
    ) -> Result<(CommandId, [u64; 2]), QueueError> {
        let id = self.allocate_id()?;
        let (memory, at) = self.list(id);
        for (offset, range) in (0..).step_by(BYTES).zip(ranges) {
            if let Err(error) = self.ram.write(MemoryAddress(memory.0 + offset), &range) {
                self.free_id(id);
                return Err(error.into());
            }
        }
        Ok((id, [at.0, 0]))
    }

    /// Submits a flush: all completed writes go from the volatile cache to the media.
    ///
    /// # Errors
    /// [`QueueError`]
    pub fn flush(&mut self, namespace: &Namespace) -> Result<CommandId, QueueError> {
        self.submit(Command::flush(namespace.number))
    }

    /// Submits a read, write, compare or append.
    #[inline]
    pub(crate) fn transfer(
        &mut self,
        kind: Transfer,
        namespace: &Namespace,
        first: u64,
        pieces: &[Piece],
    ) -> Result<CommandId, BlockError> {
        // Most I/Os have one piece of at most two pages, and need no list.
        if let [piece] = pieces {
            if let Some(id) = self.transfer_without_list(kind, namespace, first, *piece) {
                return Ok(id);
            }
        }
        self.transfer_with_list(kind, namespace, first, pieces)
    }

    /// Submits a transfer that needs no PRP list. `None` if it needs one or can't be submitted: then
    /// [`transfer_with_list`](Self::transfer_with_list) submits it or says why. This way stays short because no error is made here.
    // A call would save and restore registers for some 25 instructions of 90.
    #[inline(always)]
    fn transfer_without_list(
        &mut self,
        kind: Transfer,
        namespace: &Namespace,
        first: u64,
        piece: Piece,
    ) -> Option<CommandId> {
        let format = &namespace.format;
        let data = prp::without_list(piece, PAGE_BYTES)?;
        let blocks = piece.bytes >> format.block_shift;
        let is_valid = blocks << format.block_shift == piece.bytes
            && piece.bytes <= namespace.transfer_bytes_max
            && first.checked_add(blocks)? <= format.blocks;
        if !is_valid {
            return None;
        }
        let id = self.allocate_id().ok()?;
        // One block or more, and at most two pages: the field can express it.
        let blocks_less_one = blocks.wrapping_sub(1) as u16;
        self.submit_with(id, Command::transfer(kind, namespace.number, first, blocks_less_one, data));
        Some(id)
    }

    /// Submits any read, write or compare.
    #[cold]
    #[inline(never)]
    fn transfer_with_list(
        &mut self,
        kind: Transfer,
        namespace: &Namespace,
        first: u64,
        pieces: &[Piece],
    ) -> Result<CommandId, BlockError> {
        let bytes = pieces.iter().fold(0_u64, |sum, piece| sum.saturating_add(piece.bytes));
        let (blocks, block_bytes) = (bytes >> namespace.format.block_shift, namespace.format.block_bytes());
        if bytes == 0 || bytes & (block_bytes - 1) != 0 {
            return Err(BlockError::PartialBlock { bytes, block_bytes });
        }
        check_range(namespace, first, blocks)?;
        if bytes > namespace.transfer_bytes_max {
            return Err(BlockError::TooLong { bytes, bytes_max: namespace.transfer_bytes_max });
        }
        let blocks_less_one = (blocks - 1) as u16;
        self.submit_with_data(namespace, pieces, |data| {
            Command::transfer(kind, namespace.number, first, blocks_less_one, data)
        })
    }

    /// Submits a command whose data are in pieces of memory.
    pub(crate) fn submit_with_data(
        &mut self,
        namespace: &Namespace,
        pieces: &[Piece],
        command: impl FnOnce([u64; 2]) -> Command,
    ) -> Result<CommandId, BlockError> {
        let id = self.allocate_id()?;
        let command = match self.write_data_pointer(id, pieces, namespace.has_sgl) {
            Ok(DataPointer::Prp(data)) => command(data),
            Ok(DataPointer::Sgl(data)) => command(data).using_sgl(),
            Err(error) => {
                self.free_id(id);
                return Err(error);
            }
        };
        self.submit_with(id, command);
        Ok(id)
    }

    /// The command's data pointer: PRPs, or an SGL if PRPs can't describe the pieces. Writes a list into the slot's list memory if one is
    /// needed.
    fn write_data_pointer(
        &self,
        id: CommandId,
        pieces: &[Piece],
        has_sgl: bool,
    ) -> Result<DataPointer, BlockError> {
        let (memory, at) = self.list(id);
        let mut list = [0; (LIST_BYTES / prp::ENTRY_BYTES) as usize];
        match prp::encode(pieces, PAGE_BYTES, at, &mut list) {
            Ok((data, entries)) => {
                self.write_list(memory, list[..entries].iter())?;
                Ok(DataPointer::Prp(data))
            }
            Err(PrpError::Gap { .. } | PrpError::Unaligned(_)) if has_sgl => {
                let mut list = [[0; 2]; (LIST_BYTES / sgl::DESCRIPTOR_BYTES) as usize];
                let (data, descriptors) = sgl::encode(pieces, at, &mut list)?;
                self.write_list(memory, list[..descriptors].iter().flatten())?;
                Ok(DataPointer::Sgl(data))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Writes words to a command's list memory.
    fn write_list<'a>(
        &self,
        at: MemoryAddress,
        words: impl Iterator<Item = &'a u64>,
    ) -> Result<(), QueueError> {
        let page = self.ram.words_at::<{ (LIST_BYTES / 8) as usize }>(at)?;
        page.iter().zip(words).for_each(|(into, word)| into.store(word.to_le(), Ordering::Relaxed));
        Ok(())
    }
}

/// The data pointer of a command (DPTR).
enum DataPointer {
    /// PRP1 and PRP2.
    Prp([u64; 2]),
    /// An SGL descriptor.
    Sgl([u64; 2]),
}

// The ranges of a command fit in its list memory.
const _: () = assert!(RANGES_MAX * RANGE_BYTES <= LIST_BYTES as usize);
const _: () = assert!(COPIED_RANGES_MAX * COPIED_RANGE_BYTES <= LIST_BYTES as usize);

/// Blocks of a range; 0 if it ends before its start.
fn count(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

/// Checks the ranges of a copy, and where it writes.
fn check_copy(
    namespace: &Namespace,
    limits: CopyLimits,
    to: u64,
    ranges: &[Range<u64>],
) -> Result<(), BlockError> {
    let check = |unit, count, max| match (1..=max).contains(&count) {
        true => Ok(()),
        false => Err(BlockError::CopyLimit { unit, count, max }),
    };
    let ranges_max = usize::from(limits.ranges_max).min(COPIED_RANGES_MAX);
    check("ranges", ranges.len() as u64, ranges_max as u64)?;
    let mut copied = 0;
    for range in ranges {
        check("blocks in a range", count(range), limits.range_blocks_max.into())?;
        check_range(namespace, range.start, count(range))?;
        copied += count(range);
    }
    check("blocks", copied, limits.blocks_max.into())?;
    let is_within = to.checked_add(copied).is_some_and(|end| end <= namespace.format.blocks);
    if !is_within {
        let blocks = namespace.format.blocks;
        return Err(BlockError::OutOfRange { first: to, count: copied, blocks });
    }
    match ranges.iter().find(|range| range.start < to + copied && to < range.end) {
        Some(source) => Err(BlockError::CopyOverlap { blocks: (source.start, source.end - 1) }),
        None => Ok(()),
    }
}

/// Checks that one command can have so many blocks, and that they are in the namespace.
fn check_blocks(namespace: &Namespace, first: u64, count: u64) -> Result<(), BlockError> {
    if count == 0 {
        return Err(BlockError::ZeroBlocks { first });
    }
    check_range(namespace, first, count)
}

/// Checks that one command can have so many blocks, 1 or more, and that they are in the namespace.
fn check_range(namespace: &Namespace, first: u64, count: u64) -> Result<(), BlockError> {
    let blocks = namespace.format.blocks;
    if count > BLOCKS_MAX {
        let block_bytes = namespace.format.block_bytes();
        return Err(BlockError::TooLong {
            bytes: count.saturating_mul(block_bytes),
            bytes_max: BLOCKS_MAX * block_bytes,
        });
    }
    let is_within = first.checked_add(count).is_some_and(|end| end <= blocks);
    is_within.then_some(()).ok_or(BlockError::OutOfRange { first, count, blocks })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use crate::link::Link;
    use crate::queue_pair::QueueLayout;
    use crate::registers::Registers;
    use crate::spec::identify;
    use dma::{BusAddress, Ram};
    use proptest::prelude::*;
    use std::sync::Arc;

    /// No doorbell is written here.
    #[derive(Debug)]
    struct NoRegisters;

    impl Registers for NoRegisters {
        fn read_u32(&self, _at: u64) -> u32 {
            u32::MAX
        }

        fn read_u64(&self, _at: u64) -> u64 {
            u64::MAX
        }

        fn write_u32(&self, _at: u64, _value: u32) {}

        fn write_u64(&self, _at: u64, _value: u64) {}
    }

    const SUBMISSIONS: MemoryAddress = MemoryAddress(0x1000);
    const ENTRIES: u16 = 2;

    /// A queue pair for one command, and its memory.
    fn queue() -> (QueuePair, Arc<Ram>) {
        let ram = Arc::new(Ram::new(SUBMISSIONS, 4 * 4096));
        let at =
            |page: u64| (MemoryAddress(SUBMISSIONS.0 + page * 4096), BusAddress(0x10_0000 + page * 4096));
        let layout = QueueLayout {
            number: 1,
            submissions: at(0),
            completions: at(1),
            entries: ENTRIES,
            vector: None,
            doorbells: [0, 4],
            lists: at(2),
        };
        let link = Arc::new(Link::new(Box::new(NoRegisters)));
        (QueuePair::new(link, Arc::clone(&ram), layout).unwrap(), ram)
    }

    fn first_entry(ram: &Ram) -> Vec<u64> {
        let words = ram.words_at::<8>(SUBMISSIONS).unwrap();
        words.iter().map(|word| u64::from_le(word.load(Ordering::Relaxed))).collect()
    }

    fn near(limits: &'static [u64]) -> impl Strategy<Value = u64> {
        let limit = || prop::sample::select(limits);
        prop_oneof![
            1 => any::<u64>(),
            5 => limit(),
            2 => (limit(), prop::sample::select(&[1, u64::MAX][..])).prop_map(|(limit, more)| limit.wrapping_add(more)),
        ]
    }

    proptest! {
        /// What the short way submits, the long way submits too; and what the short way leaves to it is too long for two pages, or refused.
        #[test]
        fn short_transfers_are_submitted_like_all_others(
            at in near(&[0, 0x1000, 0x1e00, 0x2000, u64::MAX]),
            bytes in near(&[0, 512, 4096, 8192]),
            first in near(&[0, 100, u64::MAX]),
            block_shift in 9_u8..14,
            transfer_bytes_max in near(&[4096, 8192]),
            kind in prop::sample::select(vec![Transfer::of(nvm::READ), Transfer::forced(nvm::WRITE)]),
        ) {
            let copy_limits = CopyLimits::default();
            let format =
                identify::Namespace { blocks: 100, block_shift, metadata_bytes: 0, is_shared: false, copy_limits, names: identify::NamespaceNames::default() };
            let namespace = Namespace {
                number: 7,
                format,
                transfer_bytes_max,
                has_sgl: false,
                has_compare: false,
                has_verify: false,
                copy_limits: None,
                zones: None,
            };
            let piece = Piece { at: BusAddress(at), bytes };
            let [mut short, mut long] = [queue(), queue()];
            let submitted = short.0.transfer_without_list(kind, &namespace, first, piece);
            let expected = long.0.transfer_with_list(kind, &namespace, first, &[piece]);
            if let Some(id) = submitted {
                prop_assert_eq!(expected, Ok(id));
                prop_assert_eq!(first_entry(&short.1), first_entry(&long.1));
                prop_assert_eq!(short.0.transfer_without_list(kind, &namespace, first, piece), None, "the queue is full");
            } else {
                prop_assert_eq!((short.0.in_flight(), first_entry(&short.1)), (0, vec![0; 8]));
                prop_assert!(expected.is_err() || at % 4096 + bytes > 8192, "{:?}", expected);
            }
        }
    }
}
