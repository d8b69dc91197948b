//! A file or block device in place of a controller, by io_uring: requests are in flight while the caller goes on.

#![allow(
    unsafe_code,
    reason = "io_uring gets pointers to buffers, which must live until its requests have ended"
)]

use super::{ChunkError, Operation, Wait};
use dma::{MemoryAddress, Ram};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::fs::{FallocateFlags, FileType, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;

/// Most bytes of a request, so that a ring's length field can't overflow.
const REQUEST_BYTES_MAX: usize = 1 << 30;

/// A file with a ring of its own. Several may share the file.
pub struct FileRing {
    ring: IoUring,
    path: PathBuf,
    file: Arc<File>,
    blocks: u64,
    block_shift: u8,
    /// A buffer for each slot.
    ram: Ram,
    request_bytes: usize,
    slots: Vec<Option<InFlight>>,
    in_flight: usize,
    /// Requests in the ring that the kernel was not told of yet.
    unsubmitted: usize,
    /// Requests that ended when they were begun.
    ended: Vec<(u16, Result<(), ChunkError>)>,
    /// Data may be in the page cache, and the file system reads it from there without waiting.
    has_cache: bool,
}

impl std::fmt::Debug for FileRing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("FileRing").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A request in the ring.
#[derive(Debug, Clone, Copy)]
struct InFlight {
    operation: Operation,
    /// Bytes that were transferred: the kernel may return after a part.
    done: usize,
    retries: u32,
}

/// The kernel ends requests of a thread that ends with errors of its own. Each is tried again at most so often.
const RETRIES_MAX: u32 = 10_000;

/// Zeros, at a place that direct I/O takes.
#[repr(align(4096))]
struct Zeros([u8; 1 << 16]);
static ZEROS: Zeros = Zeros([0; 1 << 16]);

impl FileRing {
    /// Uses a file or block device that is open already as blocks of `1 << block_shift` bytes, with `requests` slots of at least
    /// `request_bytes` each. A partial block at the end is left alone.
    ///
    /// # Errors
    /// [`ChunkError::File`], also where the kernel has no io_uring or does not allow it.
    pub fn new(
        path: PathBuf,
        file: Arc<File>,
        block_shift: u8,
        requests: u16,
        request_bytes: usize,
    ) -> Result<Self, ChunkError> {
        let failed = |source| ChunkError::File { file: path.clone(), source };
        let block_shift = block_shift.clamp(9, 16);
        let bytes = size_bytes(&file).map_err(failed)?;
        let has_cache = has_cache(&file).map_err(failed)?;
        let request_bytes = request_bytes.clamp(1, REQUEST_BYTES_MAX).next_multiple_of(1 << block_shift);
        // Direct I/O needs buffers at the boundaries of blocks.
        let stride = request_bytes.next_multiple_of(4096);
        let requests = requests.max(1);
        let ram = Ram::of_this_process(u64::from(requests) * stride as u64).map_err(failed)?;
        let ring = IoUring::new(u32::from(requests).next_power_of_two()).map_err(failed)?;
        Ok(Self {
            ring,
            path,
            file,
            blocks: bytes >> block_shift,
            block_shift,
            ram,
            request_bytes: stride,
            slots: vec![None; requests.into()],
            in_flight: 0,
            unsubmitted: 0,
            ended: Vec::new(),
            has_cache,
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
        self.slots.len() as u16
    }

    /// The most bytes of a request.
    pub(super) fn request_bytes(&self) -> usize {
        self.request_bytes
    }

    /// Can be read when requests have ended.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring holds its descriptor open for as long as `self` is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }

    /// Reads from the page cache until `into` is full. Returns false, with undefined content in `into`, if not all of it is there.
    pub(super) fn read_cached(&mut self, first: u64, into: &mut [u8]) -> bool {
        if !self.has_cache {
            return false;
        }
        let (at, bytes) = (first << self.block_shift, into.len());
        match rustix::io::preadv2(&*self.file, &mut [IoSliceMut::new(into)], at, ReadWriteFlags::NOWAIT) {
            Ok(read) => read == bytes,
            Err(error) => {
                // Other errors are for the ring to report, if they come again.
                self.has_cache = !matches!(error, Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL);
                false
            }
        }
    }

    /// Puts a request into the ring. The kernel sees it after the next [`submit`](Self::submit).
    pub(super) fn begin(&mut self, slot: u16, operation: Operation, from: &[u8]) -> Result<(), ChunkError> {
        if !from.is_empty() {
            self.ram.write(self.buffer(slot), from)?;
        }
        self.push(slot, InFlight { operation, done: 0, retries: 0 });
        Ok(())
    }

    fn push(&mut self, slot: u16, request: InFlight) {
        let entry = self.entry(slot, request).user_data(slot.into());
        // SAFETY: the buffer that the entry names is part of `ram`, and neither it nor the file is dropped while requests are in flight
        // (see `drop`). A slot's buffer is not used again before its request has ended.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        match pushed {
            Ok(()) => {
                self.slots[usize::from(slot)] = Some(request);
                self.in_flight += 1;
                self.unsubmitted += 1;
            }
            // There are as many entries as slots.
            Err(_) => {
                let full = io::Error::from(io::ErrorKind::WouldBlock);
                self.ended.push((slot, Err(self.failed(full))));
            }
        }
    }

    /// The ring's entry for what is left of a request.
    fn entry(&self, slot: u16, request: InFlight) -> squeue::Entry {
        let file = types::Fd(self.file.as_raw_fd());
        let at = |first: u64| (first << self.block_shift) + request.done as u64;
        let left = |blocks: u64| ((blocks << self.block_shift) as usize - request.done) as u32;
        let buffer = std::ptr::with_exposed_provenance_mut::<u8>(self.buffer(slot).0 as usize + request.done);
        match request.operation {
            Operation::Read { first, blocks } => {
                opcode::Read::new(file, buffer, left(blocks)).offset(at(first)).build()
            }
            Operation::Write { first, blocks } => {
                opcode::Write::new(file, buffer, left(blocks)).offset(at(first)).build()
            }
            // A hole reads as zeros.
            Operation::WriteZeroes { first, blocks } | Operation::Deallocate { first, blocks } => {
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                opcode::Fallocate::new(file, blocks << self.block_shift)
                    .offset(at(first))
                    .mode(hole.bits() as i32)
                    .build()
            }
            Operation::Flush => opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build(),
        }
    }

    /// Tells the kernel of the requests that were begun since the last time.
    pub(super) fn submit(&mut self) {
        while self.unsubmitted > 0 {
            match self.ring.submit() {
                Ok(0) => return,
                Ok(submitted) => self.unsubmitted = self.unsubmitted.saturating_sub(submitted),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The next call tries again.
                Err(_) => return,
            }
        }
    }

    /// Calls `ended` for requests that have ended. With [`Wait::Yes`] it waits for one, if any is in flight.
    pub(super) fn process_completions(
        &mut self,
        wait: Wait,
        ended: &mut impl FnMut(u16, Result<(), ChunkError>),
    ) {
        if wait == Wait::Yes
            && self.ended.is_empty()
            && self.in_flight > 0
            && self.ring.completion().is_empty()
        {
            if let Ok(submitted) = self.ring.submit_and_wait(1) {
                self.unsubmitted = self.unsubmitted.saturating_sub(submitted);
            }
        } else {
            self.submit();
        }
        while let Some(completion) = self.next_completion() {
            self.process(&completion);
        }
        self.submit();
        self.ended.drain(..).for_each(|(slot, result)| ended(slot, result));
    }

    fn next_completion(&mut self) -> Option<cqueue::Entry> {
        self.ring.completion().next()
    }

    /// Notes a request's end, or begins what is left of it.
    fn process(&mut self, completion: &cqueue::Entry) {
        let slot = completion.user_data() as u16;
        let Some(request) = self.slots.get_mut(usize::from(slot)).and_then(Option::take) else { return };
        self.in_flight -= 1;
        let result = completion.result();
        let error = |code: i32| io::Error::from_raw_os_error(code);
        let result = match request.operation {
            // The buffers are this ring's own: no address is wrong. Only the thread that submitted the request is gone.
            _ if request.retries < RETRIES_MAX && is_of_the_thread(-result) => {
                return self.push(slot, InFlight { retries: request.retries + 1, ..request });
            }
            Operation::Read { blocks, .. } | Operation::Write { blocks, .. } if result >= 0 => {
                let done = request.done + result as usize;
                match (blocks << self.block_shift) as usize {
                    bytes if done == bytes => Ok(()),
                    _ if result == 0 => Err(io::ErrorKind::UnexpectedEof.into()),
                    _ => return self.push(slot, InFlight { done, ..request }),
                }
            }
            Operation::WriteZeroes { first, blocks } if -result == libc::EOPNOTSUPP => {
                self.write_zeros(first, blocks)
            }
            // A file system without holes keeps the blocks, which is allowed.
            Operation::Deallocate { .. } if -result == libc::EOPNOTSUPP => Ok(()),
            _ if result < 0 => Err(error(-result)),
            _ => Ok(()),
        };
        let result = result.map_err(|source| self.failed(source));
        self.ended.push((slot, result));
    }

    /// Writes zeros where the file system makes no holes.
    fn write_zeros(&self, first: u64, blocks: u64) -> io::Result<()> {
        let (mut at, mut left) = (first << self.block_shift, (blocks << self.block_shift) as usize);
        while left > 0 {
            let bytes = left.min(ZEROS.0.len());
            std::os::unix::fs::FileExt::write_all_at(&*self.file, &ZEROS.0[..bytes], at)?;
            (at, left) = (at + bytes as u64, left - bytes);
        }
        Ok(())
    }

    /// Copies the data that a slot has read.
    pub(super) fn copy_out(&self, slot: u16, into: &mut [u8]) -> Result<(), ChunkError> {
        Ok(self.ram.read(self.buffer(slot), into)?)
    }

    fn buffer(&self, slot: u16) -> MemoryAddress {
        MemoryAddress(self.ram.base().0 + u64::from(slot) * self.request_bytes as u64)
    }

    fn failed(&self, source: io::Error) -> ChunkError {
        ChunkError::File { file: self.path.clone(), source }
    }
}

/// Whether an error says nothing about the file, but that the submitting thread was interrupted or has ended.
fn is_of_the_thread(error: i32) -> bool {
    matches!(error, libc::EINTR | libc::EAGAIN | libc::ECANCELED | libc::EFAULT)
}

/// Size of a file or block device. `metadata` reports length 0 for a block device, so this seeks to its end.
fn size_bytes(file: &File) -> io::Result<u64> {
    let metadata = rustix::fs::fstat(file.as_fd())?;
    match FileType::from_raw_mode(metadata.st_mode) {
        FileType::BlockDevice => Ok(rustix::fs::seek(file.as_fd(), rustix::fs::SeekFrom::End(0))?),
        _ => Ok(metadata.st_size as u64),
    }
}

/// Whether a file's data goes through the page cache. Block devices are opened to bypass it.
fn has_cache(file: &File) -> io::Result<bool> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode);
    Ok(kind == FileType::RegularFile && !rustix::fs::fcntl_getfl(file)?.contains(OFlags::DIRECT))
}

impl Drop for FileRing {
    /// Waits for the requests in flight: the kernel may still write to their buffers.
    fn drop(&mut self) {
        while self.in_flight > 0 {
            let before = self.in_flight;
            self.process_completions(Wait::Yes, &mut |_, _| {});
            if self.in_flight == before && self.ring.submit_and_wait(1).is_err() {
                std::thread::yield_now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use std::os::unix::fs::{FileExt, OpenOptionsExt};
    use std::path::Path;

    fn open(path: &Path, flags: i32) -> Option<FileRing> {
        let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
        FileRing::new(path.to_owned(), Arc::new(file), 9, 4, 8192).ok()
    }

    #[test]
    fn files_without_a_page_cache_are_not_asked_for_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(8192).unwrap();
        for (flags, has_cache) in [(0, true), (libc::O_DIRECT, false)] {
            // No io_uring, or a file system that knows no direct I/O.
            let Some(mut ring) = open(file.path(), flags) else { continue };
            assert_eq!(ring.has_cache, has_cache);
            // All pages are holes: reading them once caches them.
            file.as_file().read_exact_at(&mut [1; 8192], 0).unwrap();
            assert_eq!(ring.read_cached(1, &mut [1; 512]), has_cache);
        }
    }

    /// The kernel's types are in a file that can't be read without waiting.
    #[test]
    fn a_file_system_that_can_t_is_asked_once() {
        let Some(mut ring) = open(Path::new("/sys/kernel/btf/vmlinux"), 0) else { return };
        assert!(ring.has_cache);
        assert!(!ring.read_cached(1, &mut [1; 512]));
        assert!(!ring.has_cache);
    }
}
