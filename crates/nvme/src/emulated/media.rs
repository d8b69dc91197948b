//! The emulated controller's disk, and the copies between it and memory.

use crate::prp::Piece;
use crate::spec::command::{Command, RANGE_BYTES, nvm};
use crate::spec::identify::Namespace;
use crate::spec::status::Status;
use crate::walk;
use dma::SoftwareAdapter;
use std::ops::Range;

/// Identifier of the only namespace.
pub const NAMESPACE: u32 = 1;
/// MDTS: 128 pages of 4 KiB, so 512 KiB.
pub(super) const TRANSFER_PAGES_SHIFT: u8 = 7;

/// The disk's blocks.
#[derive(Debug)]
pub(super) struct Media {
    pub(super) namespace: Namespace,
    disk: Vec<u8>,
}

impl Media {
    /// A disk of zeros.
    pub(super) fn new(namespace: Namespace) -> Self {
        Self { namespace, disk: vec![0; namespace.bytes() as usize] }
    }

    /// The disk's content.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.disk
    }

    /// Executes a command.
    pub(super) fn execute(&mut self, adapter: &SoftwareAdapter, command: &Command) -> Status {
        if command.namespace() != NAMESPACE {
            return Status::INVALID_NAMESPACE.with_do_not_retry();
        }
        let blocks = u64::from(command.word(12) & 0xffff) + 1;
        match command.opcode() {
            nvm::FLUSH => Status::SUCCESS,
            nvm::DATASET_MANAGEMENT => self.deallocate(adapter, command),
            nvm::READ | nvm::WRITE | nvm::COMPARE | nvm::WRITE_ZEROES => {
                match self.byte_range(first_block(command), blocks) {
                    None => Status::LBA_OUT_OF_RANGE.with_do_not_retry(),
                    Some(range) => self.transfer(adapter, command, range),
                }
            }
            _ => Status::INVALID_OPCODE.with_do_not_retry(),
        }
    }

    /// The bytes of a range of blocks; `None` if it reaches beyond the disk.
    fn byte_range(&self, first: u64, blocks: u64) -> Option<Range<usize>> {
        let end = first.checked_add(blocks).filter(|end| *end <= self.namespace.blocks)?;
        let bytes = |block: u64| (block * self.namespace.block_bytes()) as usize;
        Some(bytes(first)..bytes(end))
    }

    /// Executes a read, write, compare or write-zeroes of a range of the disk.
    fn transfer(&mut self, adapter: &SoftwareAdapter, command: &Command, range: Range<usize>) -> Status {
        if command.opcode() == nvm::WRITE_ZEROES {
            self.disk[range].fill(0);
            return Status::SUCCESS;
        }
        if range.len() as u64 > 4096 << TRANSFER_PAGES_SHIFT {
            return Status::INVALID_FIELD.with_do_not_retry();
        }
        let pieces = match data_pieces(adapter, command, range.len() as u64) {
            Ok(pieces) => pieces,
            Err(status) => return status,
        };
        if command.opcode() == nvm::READ {
            return write_memory(adapter, &pieces, &self.disk[range]);
        }
        // Nothing is written unless all of the data can be read.
        match read_memory(adapter, &pieces) {
            Ok(bytes) if command.opcode() == nvm::COMPARE => match bytes == self.disk[range] {
                true => Status::SUCCESS,
                false => Status::COMPARE_FAILURE,
            },
            Ok(bytes) => {
                self.disk[range].copy_from_slice(&bytes);
                Status::SUCCESS
            }
            Err(status) => status,
        }
    }

    /// Zeroes the ranges that a Dataset Management command names.
    fn deallocate(&mut self, adapter: &SoftwareAdapter, command: &Command) -> Status {
        let ranges = usize::from(command.word(10) as u8) + 1;
        let bytes = data_pieces(adapter, command, (ranges * RANGE_BYTES) as u64)
            .and_then(|pieces| read_memory(adapter, &pieces));
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(status) => return status,
        };
        let range = |range: &[u8]| {
            let [_, blocks, first @ ..] = dwords(range);
            self.byte_range(u64::from(first[0]) | u64::from(first[1]) << 32, blocks.into())
        };
        let Some(places) = bytes.chunks_exact(RANGE_BYTES).map(range).collect::<Option<Vec<_>>>() else {
            return Status::LBA_OUT_OF_RANGE.with_do_not_retry();
        };
        // The deallocate attribute is set: these blocks read as zero from now on.
        if command.word(11) >> 2 & 1 == 1 {
            places.into_iter().for_each(|range| self.disk[range].fill(0));
        }
        Status::SUCCESS
    }
}

/// The starting LBA of a read or write.
pub(super) fn first_block(command: &Command) -> u64 {
    u64::from(command.word(10)) | u64::from(command.word(11)) << 32
}

/// The pieces of memory that hold a command's data.
pub(super) fn data_pieces(
    adapter: &SoftwareAdapter,
    command: &Command,
    bytes: u64,
) -> Result<Vec<Piece>, Status> {
    let read = |at| {
        let mut word = [0; 8];
        adapter.read(at, &mut word).ok().map(|()| u64::from_le_bytes(word))
    };
    if command.uses_sgl() {
        walk::sgl(command.data(), bytes, read)
    } else {
        walk::prp(command.data(), bytes, 4096, read)
    }
}

/// Writes bytes to pieces of the host's memory. The status is a transfer error if the IOMMU blocks one.
pub(super) fn write_memory(adapter: &SoftwareAdapter, pieces: &[Piece], mut bytes: &[u8]) -> Status {
    for piece in pieces {
        let (these, rest) = bytes.split_at(piece.bytes as usize);
        if adapter.write(piece.at, these).is_err() {
            return Status::DATA_TRANSFER;
        }
        bytes = rest;
    }
    Status::SUCCESS
}

/// Reads pieces of the host's memory.
pub(super) fn read_memory(adapter: &SoftwareAdapter, pieces: &[Piece]) -> Result<Vec<u8>, Status> {
    let mut bytes = vec![0; pieces.iter().map(|piece| piece.bytes as usize).sum()];
    let mut left = bytes.as_mut_slice();
    for piece in pieces {
        let (these, rest) = left.split_at_mut(piece.bytes as usize);
        adapter.read(piece.at, these).map_err(|_| Status::DATA_TRANSFER)?;
        left = rest;
    }
    Ok(bytes)
}

/// The first four little-endian dwords of `bytes`, zero where it is too short.
pub(super) fn dwords(bytes: &[u8]) -> [u32; 4] {
    let number = |place: usize| bytes.get(4 * place..4 * place + 4)?.try_into().ok().map(u32::from_le_bytes);
    std::array::from_fn(|place| number(place).unwrap_or_default())
}
