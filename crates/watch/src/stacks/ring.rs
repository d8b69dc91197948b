//! The ring buffer in which the kernel leaves the samples of one event.

#![allow(unsafe_code, reason = "the kernel writes into this memory while it is read")]

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

/// Where `struct perf_event_mmap_page` has the numbers of bytes that the kernel has written and that were taken
/// (`include/uapi/linux/perf_event.h`).
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// A page of numbers, and after it the records.
#[derive(Debug)]
pub(super) struct Ring {
    memory: NonNull<u8>,
    page_bytes: usize,
    data_bytes: usize,
}

// SAFETY: the memory belongs to this value alone, and no thread's state is in it.
unsafe impl Send for Ring {}

impl Ring {
    /// The ring of an event, with a power of two of bytes for records, which are whole pages.
    pub(super) fn of(event: &impl AsFd, data_bytes: usize) -> io::Result<Self> {
        let page_bytes = rustix::param::page_size();
        if !data_bytes.is_power_of_two() || data_bytes % page_bytes != 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (read_write, event) = (libc::PROT_READ | libc::PROT_WRITE, event.as_fd().as_raw_fd());
        // SAFETY: new memory at a place that the kernel chooses; nothing of this program is replaced.
        let memory = unsafe {
            libc::mmap(ptr::null_mut(), page_bytes + data_bytes, read_write, libc::MAP_SHARED, event, 0)
        };
        match NonNull::new(memory.cast()).filter(|_| memory != libc::MAP_FAILED) {
            Some(memory) => Ok(Self { memory, page_bytes, data_bytes }),
            None => Err(io::Error::last_os_error()),
        }
    }

    /// Moves what the kernel has written since the last call to the end of `records`. Each record is whole there.
    pub(super) fn take(&mut self, records: &mut Vec<u8>) {
        // Acquire: the records were written before the head that says so.
        let head = self.number(HEAD).load(Ordering::Acquire);
        let tail = self.number(TAIL).load(Ordering::Relaxed);
        // The kernel never writes beyond what was not taken yet.
        let bytes = (head.wrapping_sub(tail) as usize).min(self.data_bytes);
        let from = tail as usize & (self.data_bytes - 1);
        let first = bytes.min(self.data_bytes - from);
        records.reserve(bytes);
        for (at, bytes) in [(from, first), (0, bytes - first)] {
            // SAFETY: `at + bytes` is at most `data_bytes`, and this memory is mapped after the first page. The kernel writes nothing
            // between the tail and the head. There is room for all bytes after the end of `records`, which no reference leads to.
            unsafe {
                let source = self.memory.as_ptr().add(self.page_bytes + at);
                ptr::copy_nonoverlapping(source, records.as_mut_ptr().add(records.len()), bytes);
                records.set_len(records.len() + bytes);
            }
        }
        // Release: the records were read before the kernel may write over them.
        self.number(TAIL).store(head, Ordering::Release);
    }

    fn number(&self, at: usize) -> &AtomicU64 {
        // SAFETY: it lies within the first page, on a boundary of 8 bytes, lives as long as `self`, and both sides access it atomically.
        unsafe { AtomicU64::from_ptr(self.memory.as_ptr().add(at).cast()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped by `of` with this length, and nothing refers to it any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.page_bytes + self.data_bytes) };
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use std::fs::File;
    use std::io::Write;
    use std::os::unix::fs::FileExt;

    /// A file in place of the kernel's memory, which this test writes as the kernel does.
    struct Made {
        file: File,
        page_bytes: usize,
        data_bytes: usize,
        head: u64,
    }

    impl Made {
        fn new() -> Self {
            let mut file = tempfile::tempfile().unwrap();
            let page_bytes = rustix::param::page_size();
            file.write_all(&vec![0; 2 * page_bytes]).unwrap();
            Self { file, page_bytes, data_bytes: page_bytes, head: 0 }
        }

        fn write(&mut self, bytes: &[u8]) {
            for byte in bytes {
                let at = self.page_bytes as u64 + self.head % self.data_bytes as u64;
                self.file.write_all_at(&[*byte], at).unwrap();
                self.head += 1;
            }
            self.file.write_all_at(&self.head.to_ne_bytes(), HEAD as u64).unwrap();
        }

        fn tail(&self) -> u64 {
            let mut bytes = [0; 8];
            self.file.read_exact_at(&mut bytes, TAIL as u64).unwrap();
            u64::from_ne_bytes(bytes)
        }
    }

    #[test]
    fn records_are_whole_where_the_ring_begins_again() {
        let mut made = Made::new();
        let mut ring = Ring::of(&made.file, made.data_bytes).unwrap();
        let mut written: Vec<u8> = Vec::new();
        let mut taken = Vec::new();
        for round in 0..100_u64 {
            let bytes: Vec<u8> = (0..1000 + round).map(|at| (at * 7 + round) as u8).collect();
            made.write(&bytes);
            written.extend(&bytes);
            ring.take(&mut taken);
            assert_eq!(made.tail(), written.len() as u64);
        }
        assert!(written.len() > 10 * made.data_bytes && taken == written);
        ring.take(&mut taken);
        assert_eq!(taken.len(), written.len(), "nothing new");
    }

    #[test]
    fn a_head_that_can_t_be_takes_no_more_than_the_ring_has() {
        let mut made = Made::new();
        let mut ring = Ring::of(&made.file, made.data_bytes).unwrap();
        made.head = u64::MAX - 3;
        made.write(&[1, 2]);
        let mut taken = Vec::new();
        ring.take(&mut taken);
        assert_eq!(taken.len(), made.data_bytes);
    }

    #[test]
    fn other_sizes_are_refused() {
        let made = Made::new();
        for bytes in [0, 1, made.page_bytes / 2, 3 * made.page_bytes] {
            assert!(Ring::of(&made.file, bytes).is_err(), "{bytes}");
        }
    }
}
