//! Which blocks of a disk a chunk has: all of a physical LUN, or parts that a virtual LUN allocates.
//!
//! A virtual LUN's part is a range of the disk's bytes that is locked (`fcntl(2)`, open file description locks). So the kernel knows which parts
//! are taken, by all processes that open the file. It frees them when the chunk is closed, or when its process and the children that
//! cloned the chunk are dead.

#![allow(unsafe_code, reason = "rustix has no open file description locks")]

use crate::BLOCK_BYTES;
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::RwLock;

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
    /// Locked for these parts alone.
    locks: File,
    parts: RwLock<Vec<Extent>>,
}

/// Consecutive blocks of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) first: u64,
    pub(crate) blocks: u64,
}

impl Extent {
    fn end(self) -> u64 {
        self.first + self.blocks
    }
}

impl Space {
    /// Its size.
    pub(crate) fn blocks(&self) -> u64 {
        match self {
            Self::Physical(blocks) => *blocks,
            Self::Virtual(parts) => parts.read().iter().map(|part| part.blocks).sum(),
        }
    }

    /// Calls `each` with the disk's blocks for these of the chunk, in order.
    ///
    /// # Errors
    /// `EINVAL` if the chunk does not have them.
    pub(crate) fn find(&self, first: u64, blocks: u64, mut each: impl FnMut(Extent)) -> Result<(), Errno> {
        let end = first.checked_add(blocks).filter(|_| blocks > 0).ok_or(Errno::INVAL)?;
        match self {
            Self::Physical(all) if end <= *all => {
                each(Extent { first, blocks });
                Ok(())
            }
            Self::Physical(_) => Err(Errno::INVAL),
            Self::Virtual(parts) => {
                let parts = parts.read();
                if end > parts.iter().map(|part| part.blocks).sum() {
                    return Err(Errno::INVAL);
                }
                let mut begin = 0;
                for part in parts.iter() {
                    let from = first.max(begin);
                    let to = end.min(begin + part.blocks);
                    if from < to {
                        each(Extent { first: part.first + (from - begin), blocks: to - from });
                    }
                    begin += part.blocks;
                }
                Ok(())
            }
        }
    }
}

impl Parts {
    /// None yet. `locks` was opened for this virtual LUN alone.
    pub(crate) fn new(locks: File) -> Self {
        Self { locks, parts: RwLock::new(Vec::new()) }
    }

    /// The same parts for a child process, which holds the same locks.
    pub(crate) fn for_child(&self) -> Result<Self, Errno> {
        let locks =
            self.locks.try_clone().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::MFILE))?;
        Ok(Self { locks, parts: RwLock::new(self.read().clone()) })
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Vec<Extent>> {
        self.parts.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Allocates or frees blocks at the end, so that there are as many as asked for. The data of the others stays. `disk_blocks` is the
    /// disk's size; `scrub` is called before blocks are freed.
    ///
    /// # Errors
    /// `ENOSPC` if others have too much of the disk; then nothing has changed. The error of `scrub`; then its blocks stay.
    pub(crate) fn resize(
        &self,
        blocks: u64,
        disk_blocks: u64,
        mut scrub: impl FnMut(Extent) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut parts = self.parts.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        let now: u64 = parts.iter().map(|part| part.blocks).sum();
        if blocks > now {
            let more = self.allocate(blocks - now, disk_blocks, &parts)?;
            for part in more {
                match parts.last_mut() {
                    Some(last) if last.end() == part.first => last.blocks += part.blocks,
                    _ => parts.push(part),
                }
            }
        }
        let mut surplus = now.saturating_sub(blocks);
        while surplus > 0 {
            let Some(last) = parts.last_mut() else { break };
            let freed = surplus.min(last.blocks);
            let tail = Extent { first: last.end() - freed, blocks: freed };
            scrub(tail)?;
            self.set_lock(tail, libc::F_UNLCK)?;
            last.blocks -= freed;
            surplus -= freed;
            if last.blocks == 0 {
                parts.pop();
            }
        }
        Ok(())
    }

    /// Locks free blocks, the first ones on the disk. `own` are those that this virtual LUN has.
    fn allocate(&self, blocks: u64, disk_blocks: u64, own: &[Extent]) -> Result<Vec<Extent>, Errno> {
        let mut found = Vec::new();
        let allocated = self.allocate_into(&mut found, blocks, disk_blocks, own);
        if let Err(error) = allocated {
            for part in found {
                self.set_lock(part, libc::F_UNLCK)?;
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
            match self.set_lock(part, libc::F_WRLCK) {
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
            let Some(taken) = self.conflict(within)? else { break };
            within.blocks = taken.first.saturating_sub(within.first);
            first = Some(taken);
        }
        Ok(first)
    }

    /// A part of these blocks that another virtual LUN has.
    fn conflict(&self, within: Extent) -> Result<Option<Extent>, Errno> {
        let mut lock = byte_range(within, libc::F_WRLCK);
        self.call(libc::F_OFD_GETLK, &mut lock)?;
        if lock.l_type == libc::F_UNLCK as libc::c_short {
            return Ok(None);
        }
        let first = lock.l_start as u64 / BLOCK_BYTES;
        // A length of 0 reaches to the end of all files.
        let bytes = if lock.l_len == 0 { i64::MAX as u64 - lock.l_start as u64 } else { lock.l_len as u64 };
        let end = (lock.l_start as u64).saturating_add(bytes).div_ceil(BLOCK_BYTES);
        Ok(Some(Extent { first, blocks: end - first }))
    }

    fn set_lock(&self, part: Extent, kind: i32) -> Result<(), Errno> {
        self.call(libc::F_OFD_SETLK, &mut byte_range(part, kind))
    }

    fn call(&self, command: i32, lock: &mut libc::flock) -> Result<(), Errno> {
        loop {
            // SAFETY: these commands read and write the structure, which lives until the call returns.
            let result = unsafe { libc::fcntl(self.locks.as_raw_fd(), command, &raw mut *lock) };
            match std::io::Error::last_os_error() {
                _ if result != -1 => return Ok(()),
                error if error.kind() == std::io::ErrorKind::Interrupted => {}
                error => return Err(Errno::from_io_error(&error).unwrap_or(Errno::NOLCK)),
            }
        }
    }
}

/// The bytes of blocks, as a lock.
fn byte_range(blocks: Extent, kind: i32) -> libc::flock {
    // SAFETY: the structure has numbers only, for which 0 is a value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = (blocks.first * BLOCK_BYTES) as libc::off_t;
    lock.l_len = (blocks.blocks * BLOCK_BYTES) as libc::off_t;
    lock
}
