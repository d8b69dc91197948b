//! The functions of the C interface, by the names that `capiblock.h` gives them. Each checks its arguments and calls the code behind it.

#![allow(unsafe_code, reason = "C functions get pointers; the header says what callers must keep to")]

pub mod chunk;
pub mod group;
pub mod list;
pub mod own;
pub mod queue;

use crate::c_types::{
    ArwStatus, CBLK_ARESULT_NEXT_TAG, CBLK_ARESULT_USER_TAG, CBLK_ARW_USER_STATUS_FLAG,
    CBLK_ARW_USER_TAG_FLAG, CBLK_ARW_WAIT_CMD_FLAGS, CBLK_OPN_NO_INTRP_THREADS, CBLK_OPN_SCRUB_DATA,
    CBLK_OPN_VIRT_LUN,
};
use crate::open_chunk::{Access, Issue, OpenChunk, Options, Which};
use crate::queue::{Buffer, Kind, NewCommand, UserStatus};
use crate::table;
use rustix::io::Errno;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// Opens a chunk.
fn open(path: &Path, commands: c_int, mode: c_int, flags: c_int) -> Result<c_int, Errno> {
    let access = Access::of_mode(mode)?;
    let options = Options {
        commands,
        is_virtual: flags & CBLK_OPN_VIRT_LUN != 0,
        scrubs: flags & CBLK_OPN_SCRUB_DATA != 0,
        has_threads: flags & CBLK_OPN_NO_INTRP_THREADS == 0,
    };
    // Links may change while the chunk is open.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    table::add(OpenChunk::new(table::disk(&path, !access.writes)?, access, options)?)
}

/// A path that a C caller gives.
///
/// # Safety
/// It is null, or ends with a zero byte.
unsafe fn path_of(path: *const c_char) -> Result<PathBuf, Errno> {
    if path.is_null() {
        return Err(Errno::NOENT);
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    if bytes.len() >= libc::PATH_MAX as usize {
        return Err(Errno::NAMETOOLONG);
    }
    Ok(PathBuf::from(OsStr::from_bytes(bytes)))
}

/// A command's data and blocks.
#[derive(Clone, Copy)]
struct Transfer {
    kind: Kind,
    buffer: *mut c_void,
    first: i64,
    blocks: usize,
}

impl Transfer {
    /// A blocking command.
    ///
    /// # Safety
    /// The buffer has as many bytes as the blocks, and nothing else uses it until the command has ended.
    unsafe fn blocking(self) -> Result<Issue, Errno> {
        // SAFETY: the caller's promise.
        let command = unsafe { self.command(None, None, false) }?;
        Ok(Issue { command, first: self.first, waits: true, rings: true })
    }

    /// An asynchronous command, with what its flags ask for.
    ///
    /// # Safety
    /// As for `blocking`, also for the status.
    unsafe fn asynchronous(
        self,
        tag: c_int,
        status: *mut ArwStatus,
        flags: c_int,
        rings: bool,
    ) -> Result<Issue, Errno> {
        let user_tag = (flags & CBLK_ARW_USER_TAG_FLAG != 0).then_some(tag);
        let status = match NonNull::new(status) {
            _ if flags & CBLK_ARW_USER_STATUS_FLAG == 0 => None,
            // SAFETY: the caller's promise.
            Some(status) => Some(unsafe { UserStatus::new(status) }),
            None => return Err(Errno::INVAL),
        };
        // SAFETY: the same.
        let command = unsafe { self.command(user_tag, status, true) }?;
        Ok(Issue { command, first: self.first, waits: flags & CBLK_ARW_WAIT_CMD_FLAGS != 0, rings })
    }

    unsafe fn command(
        self,
        user_tag: Option<i32>,
        status: Option<UserStatus>,
        is_async: bool,
    ) -> Result<NewCommand, Errno> {
        if self.buffer.is_null() {
            return Err(Errno::INVAL);
        }
        // SAFETY: the caller's promise.
        let buffer = unsafe { Buffer::new(self.buffer.cast()) };
        Ok(NewCommand { kind: self.kind, buffer, blocks: self.blocks, is_async, user_tag, status })
    }
}

/// Which command a tag and flags of `cblk_aresult` mean.
fn which(tag: c_int, flags: c_int) -> Which {
    if flags & CBLK_ARESULT_NEXT_TAG != 0 {
        Which::Next
    } else if flags & CBLK_ARESULT_USER_TAG != 0 {
        Which::Chosen(tag)
    } else {
        Which::Command(tag)
    }
}
