//! Reads and writes through the kernel: one system call for each, or batches by io_uring.

#![allow(
    unsafe_code,
    reason = "io_uring gets pointers to buffers, which must live until its requests complete"
)]

use super::submitter::Submitter;
use super::{BlkError, BlkOperation, random_data};
use dma::Ram;
use io_uring::{IoUring, opcode, types};
use rustix::fs::{OFlags, fcntl_setfl};
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A kernel interface to a disk.
pub(super) struct Interface {
    read_name: &'static str,
    write_name: &'static str,
    /// A one-line description.
    pub(super) what: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Blocking,
    Uring { is_registered: bool, is_polled: bool },
}

pub(super) const INTERFACES: &[Interface] = &[
    Interface {
        read_name: "pread",
        write_name: "pwrite",
        what: "one blocking system call each time (O_DIRECT)",
        kind: Kind::Blocking,
    },
    Interface::io_uring(
        "io_uring",
        "one system call submits all requests that fit and waits for the next completion",
        Kind::Uring { is_registered: false, is_polled: false },
    ),
    Interface::io_uring(
        "io_uring registered",
        "the same with registered buffers and file, so that pages are pinned only once",
        Kind::Uring { is_registered: true, is_polled: false },
    ),
    Interface::io_uring(
        "io_uring polled",
        "registered, and polled instead of interrupts, if the driver has poll queues (nvme.poll_queues)",
        Kind::Uring { is_registered: true, is_polled: true },
    ),
];

/// Why an interface is not available.
type WhyAbsent = String;

impl Interface {
    const fn io_uring(name: &'static str, what: &'static str, kind: Kind) -> Self {
        Self { read_name: name, write_name: name, what, kind }
    }

    /// Its name for an operation.
    pub(super) fn name(&self, operation: BlkOperation) -> &'static str {
        match operation {
            BlkOperation::Read => self.read_name,
            BlkOperation::Write => self.write_name,
        }
    }

    /// Prepares requests of `bytes` to an open disk, with `depth` in flight. The inner error says why the interface is not available.
    pub(super) fn open<'a>(
        &self,
        file: &'a File,
        path: &'a Path,
        operation: BlkOperation,
        depth: u16,
        bytes: u64,
    ) -> Result<Result<Box<dyn Submitter + 'a>, WhyAbsent>, BlkError> {
        let failed = |source| BlkError::Disk { file: path.to_owned(), source };
        // Also clears O_NONBLOCK, with which requests might fail instead of waiting.
        fcntl_setfl(file, OFlags::DIRECT).map_err(|error| failed(error.into()))?;
        let disk_bytes = { file }.seek(SeekFrom::End(0)).map_err(failed)?;
        if bytes == 0 || !bytes.is_multiple_of(512) || bytes > disk_bytes {
            return Err(BlkError::Size { bytes, bytes_max: disk_bytes });
        }
        let buffers = Buffers::new(operation, depth, bytes).map_err(failed)?;
        let disk = Disk { file, path, operation, positions: disk_bytes / bytes, buffers };
        if self.kind == Kind::Blocking && depth > 1 {
            return Ok(Err("only one at a time".to_owned()));
        }
        let Kind::Uring { is_registered, is_polled } = self.kind else {
            return Ok(Ok(Box::new(Blocking { disk, ended: Vec::new() })));
        };
        if is_polled && !has_poll_queues(path) {
            return Ok(Err("the disk has no poll queue (nvme.poll_queues)".to_owned()));
        }
        match Uring::new(disk, depth, is_registered, is_polled) {
            Ok(uring) => Ok(Ok(Box::new(uring))),
            Err(error) => Ok(Err(format!("io_uring: {error}"))),
        }
    }
}

/// Whether the disk has poll queues. One without them ignores requests to poll and uses interrupts
/// (`Documentation/ABI/stable/sysfs-block`, `io_poll`).
fn has_poll_queues(disk: &Path) -> bool {
    let name = disk.file_name().unwrap_or_default();
    let io_poll = std::fs::read_to_string(Path::new("/sys/class/block").join(name).join("queue/io_poll"));
    io_poll.is_ok_and(|text| text.trim() == "1")
}

/// A page-aligned buffer for each slot.
struct Buffers {
    ram: Ram,
    bytes: u64,
    stride: u64,
}

impl Buffers {
    /// Buffers for reads, or with random data for writes.
    fn new(operation: BlkOperation, depth: u16, bytes: u64) -> io::Result<Self> {
        let stride = bytes.next_multiple_of(4096);
        let all = u64::from(depth) * stride;
        let ram = Ram::of_this_process(all)?;
        if operation == BlkOperation::Write {
            ram.write(ram.base(), &random_data(all)).map_err(io::Error::other)?;
        }
        Ok(Self { ram, bytes, stride })
    }

    /// The address of a slot's buffer; the slot must be below the depth.
    fn at(&self, slot: u16) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut((self.ram.base().0 + u64::from(slot) * self.stride) as usize)
    }
}

/// The opened disk and its buffers, which all interfaces need.
struct Disk<'a> {
    file: &'a File,
    path: &'a Path,
    operation: BlkOperation,
    /// The number of positions that requests may be for.
    positions: u64,
    buffers: Buffers,
}

impl Disk<'_> {
    /// Turns an I/O error into one that names the disk.
    fn error(&self, source: io::Error) -> BlkError {
        BlkError::Disk { file: self.path.to_owned(), source }
    }

    /// Fails unless a request transferred all of its bytes.
    fn expect_all(&self, transferred: u64) -> Result<(), BlkError> {
        let kind = match self.operation {
            BlkOperation::Read => io::ErrorKind::UnexpectedEof,
            BlkOperation::Write => io::ErrorKind::WriteZero,
        };
        if transferred == self.buffers.bytes { Ok(()) } else { Err(self.error(kind.into())) }
    }
}

/// One request after the other by pread(2) or pwrite(2).
struct Blocking<'a> {
    disk: Disk<'a>,
    ended: Vec<u16>,
}

impl Submitter for Blocking<'_> {
    fn positions(&self) -> u64 {
        self.disk.positions
    }

    fn begin(&mut self, slot: u16, position: u64) -> Result<(), BlkError> {
        let Buffers { bytes, .. } = self.disk.buffers;
        // SAFETY: the slot's buffer has this many bytes, belongs to this submitter, and no other reference to it exists.
        let buffer = unsafe { std::slice::from_raw_parts_mut(self.disk.buffers.at(slot), bytes as usize) };
        let transferred = match self.disk.operation {
            BlkOperation::Read => self.disk.file.read_at(buffer, position * bytes),
            BlkOperation::Write => self.disk.file.write_at(buffer, position * bytes),
        };
        let transferred = transferred.map_err(|error| self.disk.error(error))?;
        self.disk.expect_all(transferred as u64)?;
        self.ended.push(slot);
        Ok(())
    }

    fn wait(&mut self, ended: &mut Vec<u16>) -> Result<(), BlkError> {
        ended.append(&mut self.ended);
        Ok(())
    }
}

/// Requests by io_uring.
struct Uring<'a> {
    ring: IoUring,
    disk: Disk<'a>,
    is_registered: bool,
    in_flight: usize,
}

impl<'a> Uring<'a> {
    /// Creates a ring for `depth` requests in flight, with registered buffers and file or with polling if requested.
    fn new(disk: Disk<'a>, depth: u16, is_registered: bool, is_polled: bool) -> io::Result<Self> {
        let mut builder = IoUring::builder();
        if is_polled {
            builder.setup_iopoll();
        }
        let ring = builder.build(u32::from(depth).next_power_of_two())?;
        if is_registered {
            ring.submitter().register_files(&[disk.file.as_raw_fd()])?;
            let vectors: Vec<libc::iovec> = (0..depth)
                .map(|slot| libc::iovec {
                    iov_base: disk.buffers.at(slot).cast(),
                    iov_len: disk.buffers.bytes as usize,
                })
                .collect();
            // SAFETY: the ring is dropped before the buffers.
            unsafe { ring.submitter().register_buffers(&vectors) }?;
        }
        Ok(Self { ring, disk, is_registered, in_flight: 0 })
    }
}

impl Submitter for Uring<'_> {
    fn positions(&self) -> u64 {
        self.disk.positions
    }

    fn begin(&mut self, slot: u16, position: u64) -> Result<(), BlkError> {
        let Buffers { bytes, .. } = self.disk.buffers;
        let (at, offset, length) = (self.disk.buffers.at(slot), position * bytes, bytes as u32);
        let (fixed, file) = (types::Fixed(0), types::Fd(self.disk.file.as_raw_fd()));
        let entry = match (self.disk.operation, self.is_registered) {
            (BlkOperation::Read, true) => {
                opcode::ReadFixed::new(fixed, at, length, slot).offset(offset).build()
            }
            (BlkOperation::Read, false) => opcode::Read::new(file, at, length).offset(offset).build(),
            (BlkOperation::Write, true) => {
                opcode::WriteFixed::new(fixed, at, length, slot).offset(offset).build()
            }
            (BlkOperation::Write, false) => opcode::Write::new(file, at, length).offset(offset).build(),
        };
        let entry = entry.user_data(slot.into());
        // The kernel may accept fewer submissions than were made, so the ring can be full.
        if self.ring.submission().is_full() {
            self.ring.submit().map_err(|error| self.disk.error(error))?;
        }
        // SAFETY: the slot's buffer has this many bytes, outlives the ring, and has no other request in flight.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|error| self.disk.error(io::Error::other(error)))?;
        self.in_flight += 1;
        Ok(())
    }

    fn wait(&mut self, ended: &mut Vec<u16>) -> Result<(), BlkError> {
        if self.in_flight == 0 {
            return Ok(());
        }
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.disk.error(error)),
            }
        }
        for entry in self.ring.completion() {
            self.in_flight -= 1;
            if entry.result() < 0 {
                return Err(self.disk.error(io::Error::from_raw_os_error(-entry.result())));
            }
            self.disk.expect_all(entry.result() as u64)?;
            ended.push(entry.user_data() as u16);
        }
        Ok(())
    }
}

/// Waits for all requests in flight, because they still use the buffers, and gives the disk's file back.
impl Drop for Uring<'_> {
    fn drop(&mut self) {
        let mut ended = Vec::new();
        while self.in_flight > 0 {
            let before = self.in_flight;
            // An error may concern one request only; without progress, waiting longer is useless.
            let waited = self.wait(&mut ended);
            if waited.is_err() && self.in_flight == before {
                break;
            }
        }
        if self.is_registered {
            // The kernel tears a closed ring down in the background, and until then the disk would be in use and locked.
            let _ = self.ring.submitter().unregister_files();
        }
    }
}
