//! A file in a disk's place: the same requests without hardware.

use super::{Asked, ChunkError};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// `O_EXCL` of Linux, which for a device means nobody else's.
const EXCLUSIVE: i32 = 0o200;

/// A file whose bytes are blocks. Requests end before they return.
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
    /// An existing file, or block device, as blocks of `1 << block_shift` bytes, with room for so many requests of so many bytes at most. What does not
    /// fill a block at its end is left alone. What this process may only read is read, and not written.
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
        // A device that is mounted, or part of another one, is in use: the kernel refuses it then.
        let is_device = std::fs::metadata(path).map_err(failed)?.file_type().is_block_device();
        let flags = if is_device { EXCLUSIVE } else { 0 };
        let open = |writes| OpenOptions::new().read(true).write(writes).custom_flags(flags).open(path);
        // What may be read only is read; its writes fail.
        let opened = open(true).or_else(|error| match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => open(false),
            _ => Err(error),
        });
        let file = opened.map_err(failed)?;
        Self::of(path.to_owned(), file, block_shift, requests, request_bytes)
    }

    /// A file that is open, or a block device, likewise.
    ///
    /// # Errors
    /// [`ChunkError::File`]
    pub fn of(
        path: PathBuf,
        mut file: File,
        block_shift: u8,
        requests: u16,
        request_bytes: usize,
    ) -> Result<Self, ChunkError> {
        let block_shift = block_shift.clamp(9, 16);
        // A block device has no length of its own to tell.
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

    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    pub(super) fn block_shift(&self) -> u8 {
        self.block_shift
    }

    pub(super) fn requests(&self) -> u16 {
        self.buffers.len() as u16
    }

    pub(super) fn request_bytes(&self) -> usize {
        self.request_bytes
    }

    pub(super) fn carry_out(&mut self, slot: u16, asked: Asked, from: &[u8]) -> Result<(), ChunkError> {
        let at = |block: u64| block << self.block_shift;
        let result = match asked {
            Asked::Read { first, blocks } => {
                let buffer = &mut self.buffers[usize::from(slot)];
                buffer.resize((blocks << self.block_shift) as usize, 0);
                self.file.read_exact_at(buffer, first << self.block_shift)
            }
            Asked::Write { first, .. } => self.file.write_all_at(from, at(first)),
            Asked::WriteZeroes { first, blocks } => {
                let zeros = vec![0; 1 << self.block_shift];
                (first..first + blocks).try_for_each(|block| self.file.write_all_at(&zeros, at(block)))
            }
            // What is forgotten may stay what it was.
            Asked::Deallocate { .. } => Ok(()),
            Asked::Flush => self.file.sync_data(),
        };
        result.map_err(|source| ChunkError::File { file: self.path.clone(), source })
    }

    pub(super) fn copy_out(&self, slot: u16, into: &mut [u8]) {
        let buffer = &self.buffers[usize::from(slot)];
        into.copy_from_slice(&buffer[..into.len()]);
    }
}
