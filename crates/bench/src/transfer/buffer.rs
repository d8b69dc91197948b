//! A buffer that CPU and controller share, and the data that it is to hold.

use super::result::Miscompare;
use crate::blk::BlkError;
use crate::memtype::{fence, flush};
use dma::{MemoryAddress, NoMemory, Ram};
use nvme::prp::Piece;
use nvme::{Buffer, QueueError};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Words of a cache line.
const LINE_WORDS: usize = 8;
const LINE_BYTES: u64 = 64;

/// A buffer for transfers.
#[derive(Debug, Clone)]
pub struct TransferMemory {
    /// Its name in reports.
    pub name: String,
    /// How the CPU's mapping was made.
    pub mapping: String,
    /// The memory type that the CPU uses, where it is known.
    pub memory_type: Option<String>,
    /// The memory that it is in.
    pub ram: Arc<Ram>,
    /// Its address for the CPU, a multiple of 64.
    pub at: MemoryAddress,
    /// The whole buffer, by the controller's address.
    pub piece: Piece,
}

/// The data of the disk, as words in the order of memory.
#[derive(Debug)]
pub(super) struct Expected(Vec<[u64; LINE_WORDS]>);

impl Expected {
    /// The first `bytes` of `data`, whole cache lines.
    pub(super) fn new(data: &[u8], bytes: u64) -> Result<Self, BlkError> {
        let size = BlkError::Expected { bytes, expected: data.len() as u64 };
        let data = usize::try_from(bytes).ok().and_then(|bytes| data.get(..bytes)).ok_or(size)?;
        let line = |line: &[u8]| {
            let mut words = [0; LINE_WORDS];
            for (word, bytes) in words.iter_mut().zip(line.as_chunks().0) {
                *word = u64::from_ne_bytes(*bytes);
            }
            words
        };
        Ok(Self(data.chunks_exact(LINE_BYTES as usize).map(line).collect()))
    }

    /// The number of words.
    pub(super) fn words(&self) -> u64 {
        (self.0.len() * LINE_WORDS) as u64
    }
}

impl TransferMemory {
    /// Ordinary DMA memory: pages that are mapped as long as the buffer exists.
    pub(super) fn of_buffer(buffer: &Buffer, ram: Arc<Ram>) -> Result<Self, NoMemory> {
        Ok(Self {
            name: "DMA API".to_owned(),
            mapping: "ordinary memory, as dma_alloc_coherent() returns it for a coherent device".to_owned(),
            memory_type: cfg!(target_arch = "x86_64").then(|| "WB".to_owned()),
            ram,
            at: buffer.memory(),
            piece: buffer.piece(0, buffer.bytes())?,
        })
    }

    /// A copy of its content.
    pub(super) fn bytes(&self) -> Result<Vec<u8>, BlkError> {
        let mut bytes = vec![0; self.piece.bytes as usize];
        self.ram.read(self.at, &mut bytes).map_err(QueueError::from)?;
        Ok(bytes)
    }

    /// Stores the data, and waits until all stores have left the CPU's buffers.
    pub(super) fn store(&self, expected: &Expected) -> Result<(), BlkError> {
        self.store_each(expected, |word| word)
    }

    /// Stores the complement of the data, so that each word differs from what is expected.
    pub(super) fn store_complement(&self, expected: &Expected) -> Result<(), BlkError> {
        self.store_each(expected, |word| !word)
    }

    fn store_each(&self, expected: &Expected, value: impl Fn(u64) -> u64) -> Result<(), BlkError> {
        for (index, line) in (0..).zip(&expected.0) {
            let words = self.ram.words_at::<LINE_WORDS>(self.line(index)).map_err(QueueError::from)?;
            for (into, word) in words.iter().zip(line) {
                into.store(value(*word), Ordering::Relaxed);
            }
        }
        fence();
        Ok(())
    }

    /// Writes all lines back and removes them from the caches, where the CPU has an instruction for it.
    pub(super) fn flush(&self) -> Result<(), BlkError> {
        for index in 0..self.piece.bytes / LINE_BYTES {
            flush(self.ram.words_at(self.line(index)).map_err(QueueError::from)?);
        }
        fence();
        Ok(())
    }

    /// Loads each word and compares it. Returns how many differ, and the first.
    pub(super) fn compare(&self, expected: &Expected) -> Result<(u64, Option<Miscompare>), BlkError> {
        let (mut miscompares, mut first) = (0, None);
        for (index, line) in (0..).zip(&expected.0) {
            let words = self.ram.words_at::<LINE_WORDS>(self.line(index)).map_err(QueueError::from)?;
            for ((word_index, word), expected) in (0..).zip(words).zip(line) {
                let found = word.load(Ordering::Relaxed);
                if found != *expected {
                    miscompares += 1;
                    let offset = index * LINE_BYTES + word_index * 8;
                    let is_stale = found == !*expected;
                    first.get_or_insert(Miscompare { offset, expected: *expected, found, is_stale });
                }
            }
        }
        Ok((miscompares, first))
    }

    /// The address of a cache line.
    fn line(&self, index: u64) -> MemoryAddress {
        MemoryAddress(self.at.0 + index * LINE_BYTES)
    }
}
