//! Reads through the kernel: one system call per read, or batches by io_uring.

#![allow(unsafe_code, reason = "io_uring gets pointers to buffers, which must live until its reads complete")]

use super::BlkError;
use super::reader::Reader;
use dma::Ram;
use io_uring::{IoUring, opcode, types};
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A kernel interface for reading a disk.
pub(super) struct Interface {
    pub(super) name: &'static str,
    /// A one-line description.
    pub(super) what: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pread,
    Uring { is_registered: bool, is_polled: bool },
}

pub(super) const INTERFACES: &[Interface] = &[
    Interface { name: "pread", what: "one blocking system call per read (O_DIRECT)", kind: Kind::Pread },
    Interface {
        name: "io_uring",
        what: "one system call submits all reads that fit and waits for the next completion",
        kind: Kind::Uring { is_registered: false, is_polled: false },
    },
    Interface {
        name: "io_uring registered",
        what: "the same with registered buffers and file, so that pages are pinned only once",
        kind: Kind::Uring { is_registered: true, is_polled: false },
    },
    Interface {
        name: "io_uring polled",
        what: "registered, and polled instead of interrupts, if the driver has poll queues (nvme.poll_queues)",
        kind: Kind::Uring { is_registered: true, is_polled: true },
    },
];

/// Why an interface is not available.
type WhyAbsent = String;

impl Interface {
    /// Opens a disk for reads of `bytes` with `depth` in flight. The inner error says why the interface is not available.
    pub(super) fn open(
        &self,
        path: &Path,
        depth: u16,
        bytes: u64,
    ) -> Result<Result<Box<dyn Reader>, WhyAbsent>, BlkError> {
        let failed = |source| BlkError::Disk { file: path.to_owned(), source };
        let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
        let mut file = OpenOptions::new().read(true).custom_flags(direct).open(path).map_err(failed)?;
        let disk_bytes = file.seek(SeekFrom::End(0)).map_err(failed)?;
        if bytes == 0 || !bytes.is_multiple_of(512) || bytes > disk_bytes {
            return Err(BlkError::Size { bytes, bytes_max: disk_bytes });
        }
        let buffers = Buffers::new(depth, bytes).map_err(failed)?;
        let disk = Disk { file, path: path.to_owned(), positions: disk_bytes / bytes, buffers };
        if self.kind == Kind::Pread && depth > 1 {
            return Ok(Err("only one read at a time".to_owned()));
        }
        let Kind::Uring { is_registered, is_polled } = self.kind else {
            return Ok(Ok(Box::new(Pread { disk, ended: Vec::new() })));
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
    fn new(depth: u16, bytes: u64) -> io::Result<Self> {
        let stride = bytes.next_multiple_of(4096);
        Ok(Self { ram: Ram::of_this_process(u64::from(depth) * stride)?, bytes, stride })
    }

    /// The address of a slot's buffer; the slot must be below the depth.
    fn at(&self, slot: u16) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut((self.ram.base().0 + u64::from(slot) * self.stride) as usize)
    }
}

/// The opened disk and its buffers, which all interfaces need.
struct Disk {
    file: File,
    path: std::path::PathBuf,
    /// The number of positions that can be read.
    positions: u64,
    buffers: Buffers,
}

impl Disk {
    /// Turns an I/O error into one that names the disk.
    fn error(&self, source: io::Error) -> BlkError {
        BlkError::Disk { file: self.path.clone(), source }
    }
}

/// Reads one after the other by pread(2).
struct Pread {
    disk: Disk,
    ended: Vec<u16>,
}

impl Reader for Pread {
    fn positions(&self) -> u64 {
        self.disk.positions
    }

    fn begin(&mut self, slot: u16, position: u64) -> Result<(), BlkError> {
        let Buffers { bytes, .. } = self.disk.buffers;
        // SAFETY: the slot's buffer has this many bytes, belongs to this reader, and no other reference to it exists.
        let into = unsafe { std::slice::from_raw_parts_mut(self.disk.buffers.at(slot), bytes as usize) };
        let read = std::os::unix::fs::FileExt::read_at(&self.disk.file, into, position * bytes);
        let read = read.map_err(|error| self.disk.error(error))?;
        if read as u64 != bytes {
            return Err(self.disk.error(io::ErrorKind::UnexpectedEof.into()));
        }
        self.ended.push(slot);
        Ok(())
    }

    fn wait(&mut self, ended: &mut Vec<u16>) -> Result<(), BlkError> {
        ended.append(&mut self.ended);
        Ok(())
    }
}

/// Reads by io_uring.
struct Uring {
    ring: IoUring,
    disk: Disk,
    is_registered: bool,
    in_flight: usize,
}

impl Uring {
    /// Creates a ring for `depth` reads in flight, with registered buffers and file or with polling if requested.
    fn new(disk: Disk, depth: u16, is_registered: bool, is_polled: bool) -> io::Result<Self> {
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

impl Reader for Uring {
    fn positions(&self) -> u64 {
        self.disk.positions
    }

    fn begin(&mut self, slot: u16, position: u64) -> Result<(), BlkError> {
        let Buffers { bytes, .. } = self.disk.buffers;
        let (at, offset, length) = (self.disk.buffers.at(slot), position * bytes, bytes as u32);
        let entry = if self.is_registered {
            opcode::ReadFixed::new(types::Fixed(0), at, length, slot).offset(offset).build()
        } else {
            opcode::Read::new(types::Fd(self.disk.file.as_raw_fd()), at, length).offset(offset).build()
        };
        let entry = entry.user_data(slot.into());
        // The kernel may accept fewer submissions than were made, so the ring can be full.
        if self.ring.submission().is_full() {
            self.ring.submit().map_err(|error| self.disk.error(error))?;
        }
        // SAFETY: the slot's buffer has this many bytes, outlives the ring, and has no other read in flight.
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
                return Err(BlkError::Disk {
                    file: self.disk.path.clone(),
                    source: io::Error::from_raw_os_error(-entry.result()),
                });
            }
            if entry.result() as u64 != self.disk.buffers.bytes {
                return Err(BlkError::Disk {
                    file: self.disk.path.clone(),
                    source: io::ErrorKind::UnexpectedEof.into(),
                });
            }
            ended.push(entry.user_data() as u16);
        }
        Ok(())
    }
}

/// Waits for all reads in flight, because they still write to the buffers.
impl Drop for Uring {
    fn drop(&mut self) {
        let mut ended = Vec::new();
        while self.in_flight > 0 {
            let before = self.in_flight;
            // An error may concern one read only; without progress, waiting longer is useless.
            let waited = self.wait(&mut ended);
            if waited.is_err() && self.in_flight == before {
                break;
            }
        }
    }
}
