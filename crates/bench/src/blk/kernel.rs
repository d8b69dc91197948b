//! Reads through the kernel: one system call for each, or batches by io_uring.

#![allow(unsafe_code, reason = "io_uring is told where buffers are, which outlive what is in flight")]

use super::BlkError;
use super::reader::Reader;
use dma::Ram;
use io_uring::{IoUring, opcode, types};
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// One of the kernel's ways.
pub(super) struct Way {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pread,
    Uring { is_registered: bool, is_polled: bool },
}

pub(super) const WAYS: &[Way] = &[
    Way {
        name: "pread",
        what: "one system call for each read, which waits for it (O_DIRECT)",
        kind: Kind::Pread,
    },
    Way {
        name: "io_uring",
        what: "one system call for all reads that can begin, and to wait for the next",
        kind: Kind::Uring { is_registered: false, is_polled: false },
    },
    Way {
        name: "io_uring registered",
        what: "the same with buffers and file registered: pages are pinned once",
        kind: Kind::Uring { is_registered: true, is_polled: false },
    },
    Way {
        name: "io_uring polled",
        what: "registered, and without interrupts, where the driver has queues for that (nvme.poll_queues)",
        kind: Kind::Uring { is_registered: true, is_polled: true },
    },
];

/// Why a way is not there, in words.
type Absent = String;

impl Way {
    /// Opens a disk by its file.
    pub(super) fn open(
        &self,
        disk: &Path,
        depth: u16,
        bytes: u64,
    ) -> Result<Result<Box<dyn Reader>, Absent>, BlkError> {
        let failed = |source| BlkError::Disk { file: disk.to_owned(), source };
        let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
        let mut file = OpenOptions::new().read(true).custom_flags(direct).open(disk).map_err(failed)?;
        let disk_bytes = file.seek(SeekFrom::End(0)).map_err(failed)?;
        if bytes == 0 || !bytes.is_multiple_of(512) || bytes > disk_bytes {
            return Err(BlkError::Size { bytes, bytes_max: disk_bytes });
        }
        let buffers = Buffers::new(depth, bytes).map_err(failed)?;
        let base = Base { file, path: disk.to_owned(), places: disk_bytes / bytes, buffers };
        if self.kind == Kind::Pread && depth > 1 {
            return Ok(Err("one read at a time".to_owned()));
        }
        let Kind::Uring { is_registered, is_polled } = self.kind else {
            return Ok(Ok(Box::new(Pread { base, ended: Vec::new() })));
        };
        if is_polled && !has_polled_queues(disk) {
            return Ok(Err("the disk has no queue that is polled (nvme.poll_queues)".to_owned()));
        }
        match Uring::new(base, depth, is_registered, is_polled) {
            Ok(uring) => Ok(Ok(Box::new(uring))),
            Err(error) => Ok(Err(format!("io_uring: {error}"))),
        }
    }
}

/// A disk without them completes by interrupts, whatever it is asked for (`Documentation/ABI/stable/sysfs-block`, `io_poll`).
fn has_polled_queues(disk: &Path) -> bool {
    let name = disk.file_name().unwrap_or_default();
    let told = std::fs::read_to_string(Path::new("/sys/class/block").join(name).join("queue/io_poll"));
    told.is_ok_and(|text| text.trim() == "1")
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

    /// Of a slot below the depth.
    fn at(&self, slot: u16) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut((self.ram.base().0 + u64::from(slot) * self.stride) as usize)
    }
}

struct Base {
    file: File,
    path: std::path::PathBuf,
    places: u64,
    buffers: Buffers,
}

impl Base {
    fn failed(&self, source: io::Error) -> BlkError {
        BlkError::Disk { file: self.path.clone(), source }
    }
}

/// One after the other.
struct Pread {
    base: Base,
    ended: Vec<u16>,
}

impl Reader for Pread {
    fn places(&self) -> u64 {
        self.base.places
    }

    fn begin(&mut self, slot: u16, place: u64) -> Result<(), BlkError> {
        let Buffers { bytes, .. } = self.base.buffers;
        // SAFETY: the slot's buffer has so many bytes, is this reader's alone, and nobody else has a reference into it.
        let into = unsafe { std::slice::from_raw_parts_mut(self.base.buffers.at(slot), bytes as usize) };
        let read = std::os::unix::fs::FileExt::read_at(&self.base.file, into, place * bytes);
        let read = read.map_err(|error| self.base.failed(error))?;
        if read as u64 != bytes {
            return Err(self.base.failed(io::ErrorKind::UnexpectedEof.into()));
        }
        self.ended.push(slot);
        Ok(())
    }

    fn wait(&mut self, ended: &mut Vec<u16>) -> Result<(), BlkError> {
        ended.append(&mut self.ended);
        Ok(())
    }
}

struct Uring {
    ring: IoUring,
    base: Base,
    is_registered: bool,
    in_flight: usize,
}

impl Uring {
    fn new(base: Base, depth: u16, is_registered: bool, is_polled: bool) -> io::Result<Self> {
        let mut builder = IoUring::builder();
        if is_polled {
            builder.setup_iopoll();
        }
        let ring = builder.build(u32::from(depth).next_power_of_two())?;
        if is_registered {
            ring.submitter().register_files(&[base.file.as_raw_fd()])?;
            let vectors: Vec<libc::iovec> = (0..depth)
                .map(|slot| libc::iovec {
                    iov_base: base.buffers.at(slot).cast(),
                    iov_len: base.buffers.bytes as usize,
                })
                .collect();
            // SAFETY: the buffers live as long as the ring, which is dropped before them.
            unsafe { ring.submitter().register_buffers(&vectors) }?;
        }
        Ok(Self { ring, base, is_registered, in_flight: 0 })
    }
}

impl Reader for Uring {
    fn places(&self) -> u64 {
        self.base.places
    }

    fn begin(&mut self, slot: u16, place: u64) -> Result<(), BlkError> {
        let Buffers { bytes, .. } = self.base.buffers;
        let (at, offset, length) = (self.base.buffers.at(slot), place * bytes, bytes as u32);
        let entry = if self.is_registered {
            opcode::ReadFixed::new(types::Fixed(0), at, length, slot).offset(offset).build()
        } else {
            opcode::Read::new(types::Fd(self.base.file.as_raw_fd()), at, length).offset(offset).build()
        };
        let entry = entry.user_data(slot.into());
        // The kernel may take fewer at a time than there are.
        if self.ring.submission().is_full() {
            self.ring.submit().map_err(|error| self.base.failed(error))?;
        }
        // SAFETY: the slot's buffer has so many bytes, stays until the ring is gone, and has no other read in flight.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|error| self.base.failed(io::Error::other(error)))?;
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
                Err(error) => return Err(self.base.failed(error)),
            }
        }
        for entry in self.ring.completion() {
            self.in_flight -= 1;
            if entry.result() < 0 {
                return Err(BlkError::Disk {
                    file: self.base.path.clone(),
                    source: io::Error::from_raw_os_error(-entry.result()),
                });
            }
            if entry.result() as u64 != self.base.buffers.bytes {
                return Err(BlkError::Disk {
                    file: self.base.path.clone(),
                    source: io::ErrorKind::UnexpectedEof.into(),
                });
            }
            ended.push(entry.user_data() as u16);
        }
        Ok(())
    }
}

/// What is in flight still writes to its buffers: it is waited for.
impl Drop for Uring {
    fn drop(&mut self) {
        let mut ended = Vec::new();
        while self.in_flight > 0 {
            let before = self.in_flight;
            // An error is one read's; without progress nothing can be done.
            let waited = self.wait(&mut ended);
            if waited.is_err() && self.in_flight == before {
                break;
            }
        }
    }
}
