//! Blocks of a namespace, read and written by a queue pair.

use crate::controller::{Namespace, PAGE_BYTES};
use crate::prp::{self, Piece, PrpError};
use crate::queue_pair::{LIST_BYTES, QueueError, QueuePair, Tag};
use crate::spec::command::Command;
use dma::{ByteOrder, MemoryAddress};

/// Why an I/O was not begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// It is not of whole blocks.
    #[error("{bytes} bytes; expected 1 or more blocks of {block_bytes}")]
    Blocks {
        /// What was asked for.
        bytes: u64,
        /// Of the namespace.
        block_bytes: u64,
    },
    /// It goes beyond the namespace.
    #[error("blocks {first} to {}; the namespace has {blocks}", first.saturating_add(*count))]
    Beyond {
        /// Its first block.
        first: u64,
        /// Its blocks.
        count: u64,
        /// Of the namespace.
        blocks: u64,
    },
    /// It is more than one command carries.
    #[error("{bytes} bytes in one command; the controller takes {bytes_max} at most")]
    Long {
        /// What was asked for.
        bytes: u64,
        /// Of a command.
        bytes_max: u64,
    },
    /// Its memory can't be told to the controller.
    #[error(transparent)]
    Memory(#[from] PrpError),
    /// The queue does not take it.
    #[error(transparent)]
    Queue(#[from] QueueError),
}

/// Blocks of a command at most.
const BLOCKS_MAX: u64 = 1 << 16;

impl QueuePair {
    /// Begins to read blocks into pieces of mapped memory: whole pages, but where the first begins and the last ends.
    ///
    /// # Errors
    /// [`BlockError`]; then nothing is begun.
    pub fn read(&mut self, of: &Namespace, first: u64, into: &[Piece]) -> Result<Tag, BlockError> {
        self.transfer(of, first, into, Command::read)
    }

    /// Begins to write blocks.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn write(&mut self, of: &Namespace, first: u64, from: &[Piece]) -> Result<Tag, BlockError> {
        self.transfer(of, first, from, Command::write)
    }

    /// Begins to make blocks zero.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn write_zeroes(&mut self, of: &Namespace, first: u64, blocks: u64) -> Result<Tag, BlockError> {
        within(of, first, blocks)?;
        Ok(self.submit(Command::write_zeroes(of.number, first, blocks as u32))?)
    }

    /// Begins to make stay what was written and completed before.
    ///
    /// # Errors
    /// [`QueueError`]
    pub fn flush(&mut self, of: &Namespace) -> Result<Tag, QueueError> {
        self.submit(Command::flush(of.number))
    }

    fn transfer(
        &mut self,
        of: &Namespace,
        first: u64,
        pieces: &[Piece],
        command: fn(u32, u64, u32, [u64; 2]) -> Command,
    ) -> Result<Tag, BlockError> {
        let (bytes, block_bytes) =
            (pieces.iter().fold(0_u64, |sum, piece| sum.saturating_add(piece.bytes)), of.is.block_bytes());
        if bytes == 0 || !bytes.is_multiple_of(block_bytes) {
            return Err(BlockError::Blocks { bytes, block_bytes });
        }
        let blocks = bytes >> of.is.block_shift;
        within(of, first, blocks)?;
        if bytes > of.transfer_bytes_max {
            return Err(BlockError::Long { bytes, bytes_max: of.transfer_bytes_max });
        }
        let tag = self.take()?;
        match self.tell(tag, pieces) {
            Ok(data) => {
                self.submit_as(tag, command(of.number, first, blocks as u32, data))?;
                Ok(tag)
            }
            Err(error) => {
                self.put_back(tag);
                Err(error)
            }
        }
    }

    /// Where data is, with the command's list written where it is needed.
    fn tell(&self, tag: Tag, pieces: &[Piece]) -> Result<[u64; 2], BlockError> {
        let (memory, at) = self.list(tag);
        // Most I/Os have two pages at most.
        let without_list = prp::tell(pieces, PAGE_BYTES, at, &mut []);
        if !matches!(without_list, Err(PrpError::Room { .. })) {
            return Ok(without_list?.0);
        }
        let mut list = [0; (LIST_BYTES / prp::ENTRY_BYTES) as usize];
        let (data, entries) = prp::tell(pieces, PAGE_BYTES, at, &mut list)?;
        for (offset, entry) in (0..).step_by(8).zip(&list[..entries]) {
            let written = self.ram.write_u64(MemoryAddress(memory.0 + offset), ByteOrder::Little, *entry);
            written.map_err(QueueError::from)?;
        }
        Ok(data)
    }
}

fn within(of: &Namespace, first: u64, count: u64) -> Result<(), BlockError> {
    let blocks = of.is.blocks;
    if count == 0 || count > BLOCKS_MAX {
        let block_bytes = of.is.block_bytes();
        return Err(BlockError::Long {
            bytes: count.saturating_mul(block_bytes),
            bytes_max: BLOCKS_MAX * block_bytes,
        });
    }
    let is_within = first.checked_add(count).is_some_and(|end| end <= blocks);
    is_within.then_some(()).ok_or(BlockError::Beyond { first, count, blocks })
}
