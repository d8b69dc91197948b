//! Blocks of a namespace, read and written by a queue pair.

use crate::controller::{Namespace, PAGE_BYTES};
use crate::prp::{self, Piece, PrpError};
use crate::queue_pair::{CommandId, LIST_BYTES, QueueError, QueuePair};
use crate::sgl::{self, SglError};
use crate::spec::command::{Command, RANGES_MAX, deallocated_range};
use dma::MemoryAddress;
use std::ops::Range;
use std::sync::atomic::Ordering;

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
    /// Nor by a scatter-gather list.
    #[error(transparent)]
    List(#[from] SglError),
    /// More ranges than one command takes, or none.
    #[error("{ranges} ranges of blocks; expected 1 to {RANGES_MAX}")]
    Ranges {
        /// What was asked for.
        ranges: usize,
    },
    /// The queue does not take it.
    #[error(transparent)]
    Queue(#[from] QueueError),
}

/// Blocks of a command at most.
const BLOCKS_MAX: u64 = 1 << 16;

impl QueuePair {
    /// Begins to read blocks into pieces of mapped memory: whole pages, but where the first begins and the last ends. Where the
    /// controller takes scatter-gather lists, other pieces will do too.
    ///
    /// # Errors
    /// [`BlockError`]; then nothing is begun.
    #[inline]
    pub fn read(&mut self, of: &Namespace, first: u64, into: &[Piece]) -> Result<CommandId, BlockError> {
        self.transfer(of, first, into, Command::read)
    }

    /// Begins to write blocks.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    #[inline]
    pub fn write(&mut self, of: &Namespace, first: u64, from: &[Piece]) -> Result<CommandId, BlockError> {
        self.transfer(of, first, from, Command::write)
    }

    /// Begins to make blocks zero.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn write_zeroes(&mut self, of: &Namespace, first: u64, blocks: u64) -> Result<CommandId, BlockError> {
        within(of, first, blocks)?;
        Ok(self.submit(Command::write_zeroes(of.number, first, blocks as u32))?)
    }

    /// Begins to let the controller forget what is in ranges of blocks.
    ///
    /// # Errors
    /// As for [`read`](Self::read); also for a controller's limit of ranges.
    pub fn deallocate(&mut self, of: &Namespace, ranges: &[Range<u64>]) -> Result<CommandId, BlockError> {
        if ranges.is_empty() || ranges.len() > RANGES_MAX {
            return Err(BlockError::Ranges { ranges: ranges.len() });
        }
        for range in ranges {
            let count = range.end.saturating_sub(range.start);
            let is_within = count > 0 && count <= u32::MAX.into() && range.end <= of.is.blocks;
            is_within.then_some(()).ok_or(BlockError::Beyond {
                first: range.start,
                count,
                blocks: of.is.blocks,
            })?;
        }
        let id = self.allocate_id()?;
        let (memory, at) = self.list(id);
        for (offset, range) in (0..).step_by(16).zip(ranges) {
            let told = deallocated_range(range.start, (range.end - range.start) as u32);
            if let Err(error) = self.ram.write(MemoryAddress(memory.0 + offset), &told) {
                self.free_id(id);
                return Err(QueueError::from(error).into());
            }
        }
        self.submit_with(id, Command::deallocate(of.number, ranges.len() as u16, [at.0, 0]))?;
        Ok(id)
    }

    /// Begins to make stay what was written and completed before.
    ///
    /// # Errors
    /// [`QueueError`]
    pub fn flush(&mut self, of: &Namespace) -> Result<CommandId, QueueError> {
        self.submit(Command::flush(of.number))
    }

    #[inline]
    fn transfer(
        &mut self,
        of: &Namespace,
        first: u64,
        pieces: &[Piece],
        command: fn(u32, u64, u32, [u64; 2]) -> Command,
    ) -> Result<CommandId, BlockError> {
        let bytes = pieces.iter().fold(0_u64, |sum, piece| sum.saturating_add(piece.bytes));
        let (blocks, block_bytes) = (bytes >> of.is.block_shift, of.is.block_bytes());
        if bytes == 0 || bytes & (block_bytes - 1) != 0 {
            return Err(BlockError::Blocks { bytes, block_bytes });
        }
        within(of, first, blocks)?;
        if bytes > of.transfer_bytes_max {
            return Err(BlockError::Long { bytes, bytes_max: of.transfer_bytes_max });
        }
        let id = self.allocate_id()?;
        match self.tell(id, pieces, of.has_sgl) {
            Ok(Data::Pages(data)) => self.submit_with(id, command(of.number, first, blocks as u32, data))?,
            Ok(Data::List(data)) => {
                self.submit_with(id, command(of.number, first, blocks as u32, data).by_sgl())?;
            }
            Err(error) => {
                self.free_id(id);
                return Err(error);
            }
        }
        Ok(id)
    }

    /// Where data is, with the command's list written where it is needed.
    #[inline]
    fn tell(&self, id: CommandId, pieces: &[Piece], has_sgl: bool) -> Result<Data, BlockError> {
        // Most I/Os have one piece, and two pages at most.
        if let [piece] = pieces
            && let Some(data) = prp::without_list(*piece, PAGE_BYTES)
        {
            return Ok(Data::Pages(data));
        }
        self.tell_by_list(id, pieces, has_sgl)
    }

    #[inline(never)]
    fn tell_by_list(&self, id: CommandId, pieces: &[Piece], has_sgl: bool) -> Result<Data, BlockError> {
        let (memory, at) = self.list(id);
        let mut list = [0; (LIST_BYTES / prp::ENTRY_BYTES) as usize];
        match prp::tell(pieces, PAGE_BYTES, at, &mut list) {
            Ok((data, entries)) => {
                self.write_list(memory, list[..entries].iter())?;
                Ok(Data::Pages(data))
            }
            Err(PrpError::Gap { .. } | PrpError::Unaligned(_)) if has_sgl => {
                let mut list = [[0; 2]; (LIST_BYTES / sgl::DESCRIPTOR_BYTES) as usize];
                let (data, descriptors) = sgl::tell(pieces, at, &mut list)?;
                self.write_list(memory, list[..descriptors].iter().flatten())?;
                Ok(Data::List(data))
            }
            Err(error) => Err(error.into()),
        }
    }

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

/// Where a command's data is.
enum Data {
    /// By two entries of pages.
    Pages([u64; 2]),
    /// By a descriptor of a scatter-gather list.
    List([u64; 2]),
}

#[inline]
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
