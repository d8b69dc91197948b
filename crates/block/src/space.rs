//! Which blocks of a disk a chunk has: all of a physical LUN, or parts that a virtual LUN allocates.
//!
//! A virtual LUN's part is a range of the disk's bytes that is locked (`fcntl(2)`, open file description locks). So the kernel knows which parts
//! are taken, by all processes that open the file, and frees those of processes that die.
//!
//! ```text
//!   bytes of the disk        parts of virtual LUNs, locked for writing
//!   2^62 + 2n                virtual LUN number n exists, locked for writing
//!   2^62 + 2n + 1            read-locked by each process that uses it, with a description of its own
//! ```
//!
//! A child that clones a virtual LUN has the parent's locks, so neither may free a part while the other uses it.

#![allow(unsafe_code, reason = "rustix has no open file description locks")]

use crate::BLOCK_BYTES;
use crate::errno::of_io;
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

/// Where the locks of virtual LUNs' numbers begin: behind all disks.
const NUMBERS: u64 = 1 << 62;
/// Virtual LUNs of a disk at most.
const NUMBERS_MAX: u64 = 1 << 20;

/// A chunk's blocks.
#[derive(Debug)]
pub(crate) enum Space {
    /// As many blocks of the disk, from its first on.
    Physical(u64),
    /// What was allocated.
    Virtual(Parts),
}

/// Parts of the disk, each after the one before in the virtual LUN. Blocks are the C interface's.
#[derive(Debug)]
pub(crate) struct Parts {
    /// Its locks are the parts, and the number. Children have the same description.
    locks: File,
    number: u64,
    /// The description by which this process uses the virtual LUN; `None` after it was closed.
    user: Mutex<Option<File>>,
    /// How often the size was changed, in memory that children share.
    changes: File,
    is_clone: bool,
    parts: RwLock<Extents>,
}

/// The parts, and how often they had been changed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Extents {
    all: Vec<Extent>,
    changes: u64,
}

/// Consecutive blocks of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) first: u64,
    pub(crate) blocks: u64,
}

impl Extent {
    /// Itself, if it is not empty and within as many blocks.
    ///
    /// # Errors
    /// `EINVAL`
    #[inline]
    pub(crate) fn within(self, all: u64) -> Result<Self, Errno> {
        let end = self.first.checked_add(self.blocks).filter(|end| self.blocks > 0 && *end <= all);
        end.map(|_| self).ok_or(Errno::INVAL)
    }

    fn end(self) -> u64 {
        self.first + self.blocks
    }
}

impl Space {
    /// Its size.
    pub(crate) fn blocks(&self) -> u64 {
        match self {
            Self::Physical(blocks) => *blocks,
            Self::Virtual(parts) => parts.fix().blocks(),
        }
    }

    /// Descriptions with locks of its blocks.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn holds(&self) -> Result<Vec<OwnedFd>, Errno> {
        match self {
            Self::Physical(_) => Ok(Vec::new()),
            Self::Virtual(parts) => parts.holds(),
        }
    }
}

impl Extents {
    /// Calls `each` with the disk's blocks for these of the virtual LUN, in order.
    ///
    /// # Errors
    /// `EINVAL` if the virtual LUN does not have them.
    pub(crate) fn find(&self, first: u64, blocks: u64, mut each: impl FnMut(Extent)) -> Result<(), Errno> {
        let end = Extent { first, blocks }.within(self.blocks())?.end();
        let mut begin = 0;
        for part in &self.all {
            let from = first.max(begin);
            let to = end.min(begin + part.blocks);
            if from < to {
                each(Extent { first: part.first + (from - begin), blocks: to - from });
            }
            begin += part.blocks;
        }
        Ok(())
    }

    fn blocks(&self) -> u64 {
        self.all.iter().map(|part| part.blocks).sum()
    }
}

/// A file that is open, opened anew: a description of its own, for locks of its own.
///
/// # Errors
/// What the system says.
pub(crate) fn reopen(file: &File) -> Result<File, Errno> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?.into())
}

/// Locks a number that no other virtual LUN has.
fn lock_number(locks: &File) -> Result<u64, Errno> {
    for number in 0..NUMBERS_MAX {
        match set_lock(locks, number_byte(number), libc::F_WRLCK) {
            Ok(()) => return Ok(number),
            // Another one has it.
            Err(Errno::AGAIN | Errno::ACCESS) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::NOLCK)
}

impl Parts {
    /// None yet. `locks` was opened for this virtual LUN alone.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn new(locks: File) -> Result<Self, Errno> {
        let number = lock_number(&locks)?;
        let user = reopen(&locks)?;
        set_lock(&user, user_byte(number), libc::F_RDLCK)?;
        let changes = File::from(memfd_create("iotoll-block-changes", MemfdFlags::CLOEXEC)?);
        changes.write_all_at(&0_u64.to_ne_bytes(), 0).map_err(|error| of_io(&error))?;
        let parts = RwLock::new(Extents::default());
        Ok(Self { locks, number, user: Mutex::new(Some(user)), changes, is_clone: false, parts })
    }

    /// The same parts for a child process.
    ///
    /// # Errors
    /// `EBUSY` if a thread of the parent was changing the size when it forked, `EINVAL` if the parent changed it since.
    pub(crate) fn for_child(&self) -> Result<Self, Errno> {
        // A thread that held the lock does not exist in the child.
        let parts = self.parts.try_read().map_err(|_| Errno::BUSY)?;
        let user = reopen(&self.locks)?;
        set_lock(&user, user_byte(self.number), libc::F_RDLCK)?;
        // From here on the parent frees nothing; what it did before is seen.
        if self.changes()? != parts.changes {
            return Err(Errno::INVAL);
        }
        Ok(Self {
            locks: self.locks.try_clone().map_err(|error| of_io(&error))?,
            number: self.number,
            user: Mutex::new(Some(user)),
            changes: self.changes.try_clone().map_err(|error| of_io(&error))?,
            is_clone: true,
            parts: RwLock::new(parts.clone()),
        })
    }

    /// In a child process: it does not use the virtual LUN as its parent does.
    pub(crate) fn forget_use(&self) {
        // A thread that held the lock does not exist here. Then the parent seems to live as long as this child.
        if let Ok(mut user) = self.user.try_lock() {
            *user = None;
        }
    }

    /// The descriptions by which this process has the parts and uses them.
    fn holds(&self) -> Result<Vec<OwnedFd>, Errno> {
        let user = self.user.lock().unwrap_or_else(PoisonError::into_inner);
        // The user first: who sees the number free must not see a user of it.
        let files = user.as_ref().into_iter().chain([&self.locks]);
        let copy = |file: &File| file.try_clone().map(OwnedFd::from).map_err(|error| of_io(&error));
        files.map(copy).collect()
    }

    /// The parts, which do not change while this exists.
    pub(crate) fn fix(&self) -> RwLockReadGuard<'_, Extents> {
        self.parts.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn changes(&self) -> Result<u64, Errno> {
        let mut changes = [0; 8];
        self.changes.read_exact_at(&mut changes, 0).map_err(|error| of_io(&error))?;
        Ok(u64::from_ne_bytes(changes))
    }

    fn is_closed(&self) -> bool {
        self.user.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Whether other processes use this virtual LUN: clones, or the parent of this one.
    fn has_other_users(&self) -> Result<bool, Errno> {
        let user = self.user.lock().unwrap_or_else(PoisonError::into_inner);
        let user = user.as_ref().ok_or(Errno::INVAL)?;
        Ok(find_lock(user, user_byte(self.number), libc::F_WRLCK)?.is_some())
    }

    /// Allocates or frees blocks at the end, so that there are as many as asked for. The data of the others stays. `disk_blocks` is the
    /// disk's size. Before blocks are freed, `drain` waits for all commands, while none begins, and `scrub` is called with them.
    ///
    /// # Errors
    /// `ENOSPC` if others have too much of the disk; then nothing has changed. `EINVAL` for a clone, or after it was closed, `EBUSY` if blocks would be freed that a
    /// clone has. The error of `scrub`; then its blocks stay.
    pub(crate) fn resize(
        &self,
        blocks: u64,
        disk_blocks: u64,
        drain: impl FnOnce(),
        mut scrub: impl FnMut(Extent) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        if self.is_clone {
            return Err(Errno::INVAL);
        }
        let mut parts = self.parts.write().unwrap_or_else(PoisonError::into_inner);
        if self.is_closed() {
            return Err(Errno::INVAL);
        }
        let now = parts.blocks();
        self.note_change(&mut parts)?;
        if blocks > now {
            for part in self.allocate(blocks - now, disk_blocks, &parts.all)? {
                match parts.all.last_mut() {
                    Some(last) if last.end() == part.first => last.blocks += part.blocks,
                    _ => parts.all.push(part),
                }
            }
        }
        let mut surplus = now.saturating_sub(blocks);
        if surplus > 0 {
            if self.has_other_users()? {
                return Err(Errno::BUSY);
            }
            drain();
        }
        while surplus > 0 {
            let Some(last) = parts.all.last_mut() else { break };
            let freed = surplus.min(last.blocks);
            let tail = Extent { first: last.end() - freed, blocks: freed };
            scrub(tail)?;
            set_lock(&self.locks, tail.into(), libc::F_UNLCK)?;
            last.blocks -= freed;
            surplus -= freed;
            if last.blocks == 0 {
                parts.all.pop();
            }
        }
        Ok(())
    }

    /// Ends this process's use. The parts are free if no other process uses them; `scrub` is called with them before. Nothing is in flight.
    ///
    /// # Errors
    /// That of `scrub`; then all stays.
    pub(crate) fn close(&self, mut scrub: impl FnMut(Extent) -> Result<(), Errno>) -> Result<(), Errno> {
        let mut parts = self.parts.write().unwrap_or_else(PoisonError::into_inner);
        // Looked at again after the change was noted, for a child that clones meanwhile. A clone whose parent lives changes nothing.
        let is_last = (!self.is_clone || !self.has_other_users()?) && {
            self.note_change(&mut parts)?;
            !self.has_other_users()?
        };
        if is_last {
            parts.all.iter().try_for_each(|part| scrub(*part))?;
            // Also where a child holds the same description, but did not clone.
            set_lock(&self.locks, ByteRange { first: 0, bytes: 0 }, libc::F_UNLCK)?;
        }
        parts.all.clear();
        *self.user.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }

    /// Counts a change before it is made: a child that clones meanwhile sees it, or is seen as another user.
    fn note_change(&self, parts: &mut Extents) -> Result<(), Errno> {
        parts.changes += 1;
        self.changes.write_all_at(&parts.changes.to_ne_bytes(), 0).map_err(|error| of_io(&error))
    }

    /// Locks free blocks, the first ones on the disk. `own` are those that this virtual LUN has.
    fn allocate(&self, blocks: u64, disk_blocks: u64, own: &[Extent]) -> Result<Vec<Extent>, Errno> {
        let mut found = Vec::new();
        let allocated = self.allocate_into(&mut found, blocks, disk_blocks, own);
        if let Err(error) = allocated {
            for part in found {
                set_lock(&self.locks, part.into(), libc::F_UNLCK)?;
            }
            return Err(error);
        }
        Ok(found)
    }

    fn allocate_into(
        &self,
        found: &mut Vec<Extent>,
        mut blocks: u64,
        disk_blocks: u64,
        own: &[Extent],
    ) -> Result<(), Errno> {
        let mut from = 0;
        while blocks > 0 {
            let left = Extent { first: from, blocks: disk_blocks.saturating_sub(from) };
            if left.blocks == 0 {
                return Err(Errno::NOSPC);
            }
            // Locks of this virtual LUN do not conflict with each other.
            let own = own.iter().copied().filter(|part| part.end() > from);
            let taken = own.chain(self.first_conflict(left)?).min_by_key(|part| part.first);
            if let Some(taken) = taken.filter(|taken| taken.first <= from) {
                from = taken.end();
                continue;
            }
            let free = taken.map_or(left.blocks, |taken| taken.first - from);
            let part = Extent { first: from, blocks: free.min(blocks) };
            match set_lock(&self.locks, part.into(), libc::F_WRLCK) {
                Ok(()) => {
                    found.push(part);
                    blocks -= part.blocks;
                    from = part.end();
                }
                // Another process was faster: look again.
                Err(Errno::AGAIN | Errno::ACCESS) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The first part of these blocks that another virtual LUN has. The kernel names any, so this asks until there is none before it.
    fn first_conflict(&self, mut within: Extent) -> Result<Option<Extent>, Errno> {
        let mut first = None;
        while within.blocks > 0 {
            let Some(taken) = find_lock(&self.locks, within.into(), libc::F_WRLCK)? else { break };
            let taken = taken.blocks();
            within.blocks = taken.first.saturating_sub(within.first);
            first = Some(taken);
        }
        Ok(first)
    }
}

/// Bytes that a lock covers; as many as there can be if their number is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ByteRange {
    first: u64,
    bytes: u64,
}

impl From<Extent> for ByteRange {
    fn from(blocks: Extent) -> Self {
        Self { first: blocks.first * BLOCK_BYTES, bytes: blocks.blocks * BLOCK_BYTES }
    }
}

impl ByteRange {
    /// The blocks that are partly or wholly in it.
    fn blocks(self) -> Extent {
        let first = self.first / BLOCK_BYTES;
        let bytes = if self.bytes == 0 { i64::MAX as u64 - self.first } else { self.bytes };
        Extent { first, blocks: self.first.saturating_add(bytes).div_ceil(BLOCK_BYTES) - first }
    }
}

fn number_byte(number: u64) -> ByteRange {
    ByteRange { first: NUMBERS + 2 * number, bytes: 1 }
}

fn user_byte(number: u64) -> ByteRange {
    ByteRange { first: NUMBERS + 2 * number + 1, bytes: 1 }
}

/// Another description's lock that one of this kind would conflict with.
fn find_lock(file: &File, range: ByteRange, kind: i32) -> Result<Option<ByteRange>, Errno> {
    let mut lock = flock(range, kind);
    call(file, libc::F_OFD_GETLK, &mut lock)?;
    let is_free = lock.l_type == libc::F_UNLCK as libc::c_short;
    Ok((!is_free).then_some(ByteRange { first: lock.l_start as u64, bytes: lock.l_len as u64 }))
}

fn set_lock(file: &File, range: ByteRange, kind: i32) -> Result<(), Errno> {
    call(file, libc::F_OFD_SETLK, &mut flock(range, kind))
}

fn call(file: &File, command: i32, lock: &mut libc::flock) -> Result<(), Errno> {
    loop {
        // SAFETY: these commands read and write the structure, which lives until the call returns.
        let result = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut *lock) };
        match std::io::Error::last_os_error() {
            _ if result != -1 => return Ok(()),
            error if error.kind() == std::io::ErrorKind::Interrupted => {}
            error => return Err(of_io(&error)),
        }
    }
}

fn flock(range: ByteRange, kind: i32) -> libc::flock {
    // SAFETY: the structure has numbers only, for which 0 is a value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = range.first as libc::off_t;
    lock.l_len = range.bytes as libc::off_t;
    lock
}
