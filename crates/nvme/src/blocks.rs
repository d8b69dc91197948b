//! NVM commands of a queue pair: read, write, write zeroes, deallocate and flush blocks of a namespace.

use crate::controller::{Namespace, PAGE_BYTES};
use crate::prp::{self, Piece, PrpError};
use crate::queue_pair::{CommandId, LIST_BYTES, QueueError, QueuePair};
use crate::sgl::{self, SglError};
use crate::spec::command::{Command, RANGES_MAX, deallocated_range, nvm};
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
        self.transfer(nvm::READ, namespace, first, into)
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
        self.transfer(nvm::WRITE, namespace, first, from)
    }

    /// Submits a command that compares blocks with data in memory: nothing is written to the disk. If they differ, it completes with
    /// [`Status::COMPARE_FAILURE`](crate::spec::status::Status::COMPARE_FAILURE). Controllers need not support it
    /// ([`can_compare`](crate::spec::identify::Controller::can_compare)).
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn compare(
        &mut self,
        namespace: &Namespace,
        first: u64,
        with: &[Piece],
    ) -> Result<CommandId, BlockError> {
        self.transfer(nvm::COMPARE, namespace, first, with)
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
        if blocks == 0 {
            return Err(BlockError::ZeroBlocks { first });
        }
        check_range(namespace, first, blocks)?;
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
            let count = range.end.saturating_sub(range.start);
            let is_within = count > 0 && count <= u32::MAX.into() && range.end <= namespace.format.blocks;
            is_within.then_some(()).ok_or(BlockError::OutOfRange {
                first: range.start,
                count,
                blocks: namespace.format.blocks,
            })?;
        }
        let id = self.allocate_id()?;
        let (memory, at) = self.list(id);
        for (offset, range) in (0..).step_by(16).zip(ranges) {
            let encoded = deallocated_range(range.start, (range.end - range.start) as u32);
            if let Err(error) = self.ram.write(MemoryAddress(memory.0 + offset), &encoded) {
                self.free_id(id);
                return Err(QueueError::from(error).into());
            }
        }
        self.submit_with(id, Command::deallocate(namespace.number, ranges.len() as u16, [at.0, 0]));
        Ok(id)
    }

    /// Submits a flush: all completed writes go from the volatile cache to the media.
    ///
    /// # Errors
    /// [`QueueError`]
    pub fn flush(&mut self, namespace: &Namespace) -> Result<CommandId, QueueError> {
        self.submit(Command::flush(namespace.number))
    }

    /// Submits a read, write or compare, by its opcode.
    #[inline]
    fn transfer(
        &mut self,
        opcode: u8,
        namespace: &Namespace,
        first: u64,
        pieces: &[Piece],
    ) -> Result<CommandId, BlockError> {
        // Most I/Os have one piece of at most two pages, and need no list.
        if let [piece] = pieces {
            if let Some(id) = self.transfer_without_list(opcode, namespace, first, *piece) {
                return Ok(id);
            }
        }
        self.transfer_with_list(opcode, namespace, first, pieces)
    }

    /// Submits a transfer that needs no PRP list. `None` if it needs one or can't be submitted: then
    /// [`transfer_with_list`](Self::transfer_with_list) submits it or says why. This way stays short because no error is made here.
    // A call would save and restore registers for some 25 instructions of 90.
    #[inline(always)]
    fn transfer_without_list(
        &mut self,
        opcode: u8,
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
        self.submit_with(id, Command::transfer(opcode, namespace.number, first, blocks_less_one, data));
        Some(id)
    }

    /// Submits any read, write or compare.
    #[cold]
    #[inline(never)]
    fn transfer_with_list(
        &mut self,
        opcode: u8,
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
        let id = self.allocate_id()?;
        let blocks_less_one = (blocks - 1) as u16;
        let command = |data| Command::transfer(opcode, namespace.number, first, blocks_less_one, data);
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
        ) {
            let format = identify::Namespace { blocks: 100, block_shift, metadata_bytes: 0, is_shared: false };
            let namespace = Namespace { number: 7, format, transfer_bytes_max, has_sgl: false };
            let piece = Piece { at: BusAddress(at), bytes };
            let [mut short, mut long] = [queue(), queue()];
            let submitted = short.0.transfer_without_list(nvm::WRITE, &namespace, first, piece);
            let expected = long.0.transfer_with_list(nvm::WRITE, &namespace, first, &[piece]);
            if let Some(id) = submitted {
                prop_assert_eq!(expected, Ok(id));
                prop_assert_eq!(first_entry(&short.1), first_entry(&long.1));
                prop_assert_eq!(short.0.transfer_without_list(nvm::WRITE, &namespace, first, piece), None, "the queue is full");
            } else {
                prop_assert_eq!((short.0.in_flight(), first_entry(&short.1)), (0, vec![0; 8]));
                prop_assert!(expected.is_err() || at % 4096 + bytes > 8192, "{:?}", expected);
            }
        }
    }
}
