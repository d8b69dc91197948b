//! A file in place of a disk: the same requests without hardware.

use super::{ChunkError, Operation};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Linux's `O_EXCL`. On a block device it fails if the device is mounted or claimed.
const EXCLUSIVE: i32 = 0o200;

/// A file as a disk. Every request is complete when its call returns.
#[derive(Debug)]
pub struct Backing {
    path: PathBuf,
    file: File,
    blocks: u64,
    block_shift: u8,
    buffers: Vec<Vec<u8>>,
    request_bytes: usize,
}

impl Backing {
    /// Opens an existing file or block device as blocks of `1 << block_shift` bytes, with `requests` slots of
    /// `request_bytes` each. A partial block at the end is left alone. A file without write permission is opened
    /// read-only.
    ///
    /// # Errors
    /// [`ChunkError::File`]
    pub fn open(
        path: &Path,
        block_shift: u8,
        requests: u16,
        request_bytes: usize,
    ) -> Result<Self, ChunkError> {
        let failed = |source| ChunkError::File { file: path.to_owned(), source };
        // With O_EXCL the kernel refuses a device that is mounted or part of another device.
        let is_device = std::fs::metadata(path).map_err(failed)?.file_type().is_block_device();
        let flags = if is_device { EXCLUSIVE } else { 0 };
        let open = |writes| OpenOptions::new().read(true).write(writes).custom_flags(flags).open(path);
        // Without write permission: open read-only, so that writes fail.
        let opened = open(true).or_else(|error| match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => open(false),
            _ => Err(error),
        });
        let file = opened.map_err(failed)?;
        Self::from_file(path.to_owned(), file, block_shift, requests, request_bytes)
    }

    /// Uses a file or block device that is already open as blocks, like [`open`](Self::open).
    ///
    /// # Errors
    /// [`ChunkError::File`]
    pub fn from_file(
        path: PathBuf,
        mut file: File,
        block_shift: u8,
        requests: u16,
        request_bytes: usize,
    ) -> Result<Self, ChunkError> {
        let block_shift = block_shift.clamp(9, 16);
        // `metadata` reports length 0 for a block device, so seek to its end.
        let bytes = io::Seek::seek(&mut file, io::SeekFrom::End(0))
            .map_err(|source| ChunkError::File { file: path.clone(), source })?;
        let request_bytes = request_bytes.next_multiple_of(1 << block_shift).max(1 << block_shift);
        Ok(Self {
            path,
            file,
            blocks: bytes >> block_shift,
            block_shift,
            buffers: vec![Vec::new(); requests.max(1).into()],
            request_bytes,
        })
    }

    /// Size in blocks.
    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Log2 of the block size.
    pub(super) fn block_shift(&self) -> u8 {
        self.block_shift
    }

    /// The number of slots.
    pub(super) fn requests(&self) -> u16 {
        self.buffers.len() as u16
    }

    /// The most bytes of a request.
    pub(super) fn request_bytes(&self) -> usize {
        self.request_bytes
    }

    /// Executes an operation at once. A read's data stays in the slot's buffer.
    pub(super) fn execute(&mut self, slot: u16, operation: Operation, from: &[u8]) -> Result<(), ChunkError> {
        let at = |block: u64| block << self.block_shift;
        let result = match operation {
            Operation::Read { first, blocks } => {
                let buffer = &mut self.buffers[usize::from(slot)];
                buffer.resize((blocks << self.block_shift) as usize, 0);
                self.file.read_exact_at(buffer, first << self.block_shift)
            }
            Operation::Write { first, .. } => self.file.write_all_at(from, at(first)),
            Operation::WriteZeroes { first, blocks } => {
                let zeros = vec![0; 1 << self.block_shift];
                (first..first + blocks).try_for_each(|block| self.file.write_all_at(&zeros, at(block)))
            }
            // Deallocated blocks may keep their content: nothing to do.
            Operation::Deallocate { .. } => Ok(()),
            Operation::Flush => self.file.sync_data(),
        };
        result.map_err(|source| ChunkError::File { file: self.path.clone(), source })
    }

    /// Copies the data that a slot has read.
    pub(super) fn copy_out(&self, slot: u16, into: &mut [u8]) {
        let buffer = &self.buffers[usize::from(slot)];
        into.copy_from_slice(&buffer[..into.len()]);
    }
}
