//! The emulated controller's disk, and the way of data between it and memory.

use super::state::{NAMESPACE, number4};
use crate::prp::Piece;
use crate::spec::command::{Command, RANGE_BYTES, nvm};
use crate::spec::identify::Namespace;
use crate::spec::status::Status;
use crate::walk;
use dma::Adapter;
use std::ops::Range;

/// 128 pages of data: 512 KiB.
pub(super) const TRANSFER_PAGES_SHIFT: u8 = 7;

/// Blocks, all zero at first.
#[derive(Debug)]
pub(super) struct Media {
    pub(super) namespace: Namespace,
    disk: Vec<u8>,
}

impl Media {
    pub(super) fn new(namespace: Namespace) -> Self {
        Self { namespace, disk: vec![0; namespace.bytes() as usize] }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.disk
    }

    /// Carries out a command.
    pub(super) fn transfer(&mut self, adapter: &Adapter, command: &Command) -> Status {
        if command.namespace() != NAMESPACE {
            return Status::INVALID_NAMESPACE.for_good();
        }
        let blocks = u64::from(command.word(12) & 0xffff) + 1;
        match command.opcode() {
            nvm::FLUSH => Status::SUCCESS,
            nvm::DATASET_MANAGEMENT => self.deallocate(adapter, command),
            nvm::READ | nvm::WRITE | nvm::WRITE_ZEROES => match self.place(first_block(command), blocks) {
                None => Status::LBA_OUT_OF_RANGE.for_good(),
                Some(place) => self.move_data(adapter, command, place),
            },
            _ => Status::INVALID_OPCODE.for_good(),
        }
    }

    /// Where blocks are on the disk.
    fn place(&self, first: u64, blocks: u64) -> Option<Range<usize>> {
        let end = first.checked_add(blocks).filter(|end| *end <= self.namespace.blocks)?;
        let bytes = |block: u64| (block * self.namespace.block_bytes()) as usize;
        Some(bytes(first)..bytes(end))
    }

    fn move_data(&mut self, adapter: &Adapter, command: &Command, place: Range<usize>) -> Status {
        if command.opcode() == nvm::WRITE_ZEROES {
            self.disk[place].fill(0);
            return Status::SUCCESS;
        }
        if place.len() as u64 > 4096 << TRANSFER_PAGES_SHIFT {
            return Status::INVALID_FIELD.for_good();
        }
        let pieces = match data(adapter, command, place.len() as u64) {
            Ok(pieces) => pieces,
            Err(status) => return status,
        };
        if command.opcode() == nvm::READ {
            return give(adapter, &pieces, &self.disk[place]);
        }
        // What can't be read whole is not written.
        match take(adapter, &pieces) {
            Ok(bytes) => {
                self.disk[place].copy_from_slice(&bytes);
                Status::SUCCESS
            }
            Err(status) => status,
        }
    }

    fn deallocate(&mut self, adapter: &Adapter, command: &Command) -> Status {
        let ranges = usize::from(command.word(10) as u8) + 1;
        let bytes =
            data(adapter, command, (ranges * RANGE_BYTES) as u64).and_then(|pieces| take(adapter, &pieces));
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(status) => return status,
        };
        let range = |range: &[u8]| {
            let [_, blocks, first @ ..] = number4(range);
            self.place(u64::from(first[0]) | u64::from(first[1]) << 32, blocks.into())
        };
        let Some(places) = bytes.chunks_exact(RANGE_BYTES).map(range).collect::<Option<Vec<_>>>() else {
            return Status::LBA_OUT_OF_RANGE.for_good();
        };
        // Only if it was asked to forget them: they read as zero from then on.
        if command.word(11) >> 2 & 1 == 1 {
            places.into_iter().for_each(|place| self.disk[place].fill(0));
        }
        Status::SUCCESS
    }
}

/// The block with which a read or write begins.
pub(super) fn first_block(command: &Command) -> u64 {
    u64::from(command.word(10)) | u64::from(command.word(11)) << 32
}

/// Where a command's data is.
pub(super) fn data(adapter: &Adapter, command: &Command, bytes: u64) -> Result<Vec<Piece>, Status> {
    let read = |at| {
        let mut word = [0; 8];
        adapter.read(at, &mut word).ok().map(|()| u64::from_le_bytes(word))
    };
    if command.is_by_sgl() {
        walk::sgl(command.data(), bytes, read)
    } else {
        walk::prp(command.data(), bytes, 4096, read)
    }
}

pub(super) fn give(adapter: &Adapter, pieces: &[Piece], mut bytes: &[u8]) -> Status {
    for piece in pieces {
        let (these, rest) = bytes.split_at(piece.bytes as usize);
        if adapter.write(piece.at, these).is_err() {
            return Status::DATA_TRANSFER;
        }
        bytes = rest;
    }
    Status::SUCCESS
}

fn take(adapter: &Adapter, pieces: &[Piece]) -> Result<Vec<u8>, Status> {
    let mut bytes = vec![0; pieces.iter().map(|piece| piece.bytes as usize).sum()];
    let mut left = bytes.as_mut_slice();
    for piece in pieces {
        let (these, rest) = left.split_at_mut(piece.bytes as usize);
        adapter.read(piece.at, these).map_err(|_| Status::DATA_TRANSFER)?;
        left = rest;
    }
    Ok(bytes)
}
