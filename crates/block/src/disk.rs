//! What a path names: a file, a block device, a controller, or a broker's socket.

use crate::BLOCK_BYTES;
use crate::driven::{Driven, check_block_shift};
use crate::errno;
use crate::space::reopen;
use nvme::broker::{BrokerError, ServedDisk};
use nvme::chunk::{Backing, Chunk, FileRing};
use nvme::{Controller, Namespace};
use rustix::fs::{FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

/// Most bytes of one request to a file.
const FILE_REQUEST_BYTES: usize = 128 << 10;

/// An opened disk, which chunks share.
#[derive(Debug)]
pub(crate) struct Disk {
    path: PathBuf,
    kind: Kind,
    /// Size in blocks of the C interface.
    pub(crate) blocks: u64,
}

#[derive(Debug)]
enum Kind {
    File {
        file: Arc<File>,
        is_device: bool,
    },
    Controller(Driven),
    /// A controller, or a part of it, that another process drives.
    Served(ServedDisk),
}

impl Disk {
    /// Opens what a path names. `is_read_only` allows a file that can't be written.
    ///
    /// # Errors
    /// What the system says; for a controller the thread's error text says more.
    pub(crate) fn open(path: &Path, is_read_only: bool) -> Result<Self, Errno> {
        match Driven::open(path) {
            Some(driven) => {
                let driven = driven?;
                let blocks = driven.bytes() / BLOCK_BYTES;
                Ok(Self { path: path.to_owned(), kind: Kind::Controller(driven), blocks })
            }
            None => Self::open_file(path, is_read_only),
        }
    }

    fn open_file(path: &Path, is_read_only: bool) -> Result<Self, Errno> {
        let is_device = rustix::fs::stat(path).is_ok_and(|stat| is_block_device(&stat));
        // The kernel refuses a device exclusively that is mounted or part of another. Its cache would be in the way.
        let more = if is_device { OFlags::EXCL | OFlags::DIRECT } else { OFlags::empty() };
        let flags = OFlags::CLOEXEC | OFlags::NONBLOCK | more;
        let open = |access| rustix::fs::open(path, flags | access, Mode::empty());
        let opened = open(OFlags::RDWR).or_else(|error| match error {
            Errno::ACCESS | Errno::PERM | Errno::ROFS if is_read_only => open(OFlags::RDONLY),
            error => Err(error),
        });
        let file = File::from(opened?);
        let stat = rustix::fs::fstat(&file)?;
        let bytes = if is_block_device(&stat) {
            rustix::fs::seek(&file, SeekFrom::End(0))?
        } else {
            stat.st_size as u64
        };
        let blocks = bytes / BLOCK_BYTES;
        if blocks == 0 {
            let text =
                format!("{}: {bytes} bytes; expected 1 or more blocks of {BLOCK_BYTES}", path.display());
            return Err(errno::say(text, Errno::INVAL));
        }
        Ok(Self { path: path.to_owned(), kind: Kind::File { file: Arc::new(file), is_device }, blocks })
    }

    /// A disk that a broker serves, if the path is a socket's. Each call is a connection of its own.
    pub(crate) fn connect_if_socket(path: &Path, is_read_only: bool) -> Option<Result<Self, Errno>> {
        let is_socket = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket;
        rustix::fs::stat(path).is_ok_and(is_socket).then(|| Self::connect(path, is_read_only))
    }

    fn connect(path: &Path, is_read_only: bool) -> Result<Self, Errno> {
        let served = ServedDisk::connect(path).map_err(|error| explain_broker(&error))?;
        if !served.is_writable() && !is_read_only {
            return Err(Errno::ROFS);
        }
        check_block_shift(served.block_shift())?;
        let blocks = (served.blocks() << served.block_shift()) / BLOCK_BYTES;
        Ok(Self { path: path.to_owned(), kind: Kind::Served(served), blocks })
    }

    /// The controller and its namespace; `None` for a file or block device.
    pub(crate) fn controller(&self) -> Option<(Arc<Mutex<Controller>>, Namespace)> {
        match &self.kind {
            Kind::Controller(driven) => driven.controller(),
            _ => None,
        }
    }

    /// Paths to it.
    pub(crate) fn paths(&self) -> u32 {
        match &self.kind {
            Kind::Controller(driven) => driven.paths(),
            _ => 1,
        }
    }

    /// Whether it is driven by this process, not by the kernel.
    pub(crate) fn is_controller(&self) -> bool {
        matches!(self.kind, Kind::Controller(_))
    }

    /// A queue for a thread, with at most this many requests at once. A broker keeps `holds` open until they have ended.
    ///
    /// # Errors
    /// What the system says; for a controller or broker `EAGAIN` if it has no queue left.
    pub(crate) fn queue(&self, requests: u16, holds: &[OwnedFd]) -> Result<Chunk, Errno> {
        let shift = BLOCK_BYTES.trailing_zeros() as u8;
        match &self.kind {
            Kind::File { file, .. } => {
                let ring =
                    FileRing::new(self.path.clone(), Arc::clone(file), shift, requests, FILE_REQUEST_BYTES);
                if let Ok(ring) = ring {
                    return Ok(ring.into());
                }
                // A kernel without io_uring, or one that does not allow it. Direct I/O would need other buffers.
                let flags = rustix::fs::fcntl_getfl(file)?;
                rustix::fs::fcntl_setfl(file, flags - OFlags::DIRECT)?;
                let file = file.try_clone().map_err(|error| errno::of_io(&error))?;
                let backing =
                    Backing::from_file(self.path.clone(), file, shift, requests, FILE_REQUEST_BYTES);
                backing.map(Chunk::from).map_err(|error| errno::errno_of(&error))
            }
            Kind::Controller(driven) => driven.queue(requests),
            Kind::Served(served) => {
                let holds: Vec<BorrowedFd<'_>> = holds.iter().map(AsFd::as_fd).collect();
                served.queue(requests, &holds).map(Chunk::from).map_err(|error| explain_broker(&error))
            }
        }
    }

    /// A description of a file whose locks say which parts of the disk virtual LUNs have. Each call opens another one.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn locks(&self) -> Result<File, Errno> {
        match &self.kind {
            Kind::File { file, .. } => reopen(file),
            Kind::Controller(driven) => reopen(driven.locks()),
            Kind::Served(served) => reopen(served.locks()),
        }
    }

    /// The size of the disk's blocks, as a shift, by which the C interface's are larger.
    pub(crate) fn block_shift_below(&self) -> u32 {
        let shift = match &self.kind {
            Kind::File { .. } => return 0,
            Kind::Controller(driven) => driven.block_shift(),
            Kind::Served(served) => served.block_shift(),
        };
        BLOCK_BYTES.trailing_zeros().saturating_sub(shift.into())
    }
}

/// The error number for a broker that does not serve, whose text is kept.
fn explain_broker(error: &BrokerError) -> Errno {
    let errno = match error {
        BrokerError::Socket { source, .. } => errno::of_io(source),
        BrokerError::Protocol { .. } => Errno::PROTO,
        BrokerError::Full { .. } => Errno::AGAIN,
        BrokerError::Restarted { .. } => Errno::STALE,
        BrokerError::NotASocket { .. } => Errno::CONNREFUSED,
        BrokerError::NoAnswer { .. } => Errno::TIMEDOUT,
        BrokerError::Resource(_) => Errno::NOMEM,
        _ => Errno::IO,
    };
    errno::explain("no served disk", error, errno)
}

fn is_block_device(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice
}

/// Controllers and block devices that are open, by path: each can be opened once.
#[derive(Debug)]
pub(crate) struct Disks(Vec<(PathBuf, Open)>);

#[derive(Debug)]
enum Open {
    /// Closed with its last chunk.
    Used(Weak<Disk>),
    /// Keeps its blocks for as long as the process lives, as a disk does.
    Emulated(Arc<Disk>),
}

impl Disks {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// In a child process controllers are the parent's: they must not be closed here.
    pub(crate) fn forget_controllers(&mut self) {
        for (path, open) in std::mem::take(&mut self.0) {
            match open.get() {
                Some(disk) if !disk.is_controller() => self.0.push((path, open)),
                controller => std::mem::forget((open, controller)),
            }
        }
    }

    /// The disk that a path names: one that is open, or is opened now.
    ///
    /// # Errors
    /// As for [`Disk::open`]
    pub(crate) fn open(&mut self, path: &Path, is_read_only: bool) -> Result<Arc<Disk>, Errno> {
        self.0.retain(|(_, disk)| disk.get().is_some());
        let open = self.0.iter().find(|(other, _)| other == path).and_then(|(_, disk)| disk.get());
        if let Some(disk) = open {
            return Ok(disk);
        }
        let disk = Arc::new(Disk::open(path, is_read_only)?);
        let open = match &disk.kind {
            Kind::File { is_device: false, .. } => return Ok(disk),
            Kind::Controller(driven) if driven.is_emulated() => Open::Emulated(Arc::clone(&disk)),
            _ => Open::Used(Arc::downgrade(&disk)),
        };
        self.0.push((path.to_owned(), open));
        Ok(disk)
    }
}

impl Open {
    fn get(&self) -> Option<Arc<Disk>> {
        match self {
            Self::Used(disk) => disk.upgrade(),
            Self::Emulated(disk) => Some(Arc::clone(disk)),
        }
    }
}
