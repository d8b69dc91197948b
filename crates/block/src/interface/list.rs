//! `cblk_listio`: several commands in one call.

use super::Transfer;
use super::chunk::result;
use crate::c_types::{
    CBLK_ARESULT_BLOCKING, CBLK_ARESULT_NO_HARVEST, CBLK_ARESULT_USER_TAG, CBLK_ARW_STATUS_FAIL,
    CBLK_ARW_STATUS_INVALID, CBLK_ARW_STATUS_PENDING, CBLK_ARW_STATUS_SUCCESS, CBLK_ARW_USER_STATUS_FLAG,
    CBLK_ARW_USER_TAG_FLAG, CBLK_ARW_WAIT_CMD_FLAGS, CBLK_IO_TYPE_READ, CBLK_IO_TYPE_UNMAP,
    CBLK_IO_TYPE_WRITE, CBLK_IO_USER_STATUS, CBLK_IO_USER_TAG, CBLK_LISTIO_WAIT_ISSUE_CMD, Io,
};
use crate::errno::{self, returned};
use crate::open_chunk::OpenChunk;
use crate::queue::Kind;
use crate::table;
use rustix::io::Errno;
use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// A request's place in the caller's memory. The same request may be in several lists.
type Request = *mut Io;

/// The lists of a call.
struct Lists<'a> {
    issue: &'a [Request],
    pending: &'a [Request],
    wait: &'a [Request],
    completions: &'a [Request],
    completed: usize,
}

/// Begins the commands of one list, fetches results of a second, and waits for those of a third.
///
/// # Safety
/// Each list is null or has as many pointers as its number says; each pointer is null or points to a request that can be read and written, and
/// for which [`cblk_aread`](super::chunk::cblk_aread)'s conditions hold. The first pointer of the list of completions is null, or that of an
/// array with as many. `completion_items` is null or can be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cblk_listio(
    chunk_id: c_int,
    issue_io_list: *mut Request,
    issue_items: c_int,
    pending_io_list: *mut Request,
    pending_items: c_int,
    wait_io_list: *mut Request,
    wait_items: c_int,
    completion_io_list: *mut Request,
    completion_items: *mut c_int,
    timeout: u64,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let completed = unsafe { completion_items.as_mut() };
    // The lists of a chunk that is not open are not read.
    let process = |chunk: &OpenChunk| {
        let completed = completed.ok_or(Errno::INVAL)?;
        // SAFETY: the caller's promise.
        let mut lists = unsafe {
            Lists {
                issue: list(issue_io_list, issue_items)?,
                pending: list(pending_io_list, pending_items)?,
                wait: list(wait_io_list, wait_items)?,
                completions: list(completion_io_list, *completed)?,
                completed: 0,
            }
        };
        // SAFETY: the caller's promise.
        unsafe { lists.check() }?;
        *completed = 0;
        // SAFETY: the same.
        let result = unsafe { lists.process(chunk, timeout, flags) };
        *completed = lists.completed as c_int;
        result
    };
    returned(|| table::with(chunk_id, process))
}

/// # Safety
/// As for [`cblk_listio`].
unsafe fn list<'a>(first: *mut Request, items: c_int) -> Result<&'a [Request], Errno> {
    match usize::try_from(items) {
        Ok(0) => Ok(&[]),
        Ok(items) if !first.is_null() => {
            // SAFETY: the caller's promise.
            Ok(unsafe { std::slice::from_raw_parts(first, items) })
        }
        _ => Err(Errno::INVAL),
    }
}

/// What a request does.
fn kind(io: &Io) -> Option<Kind> {
    match io.request_type {
        CBLK_IO_TYPE_READ => Some(Kind::Read),
        CBLK_IO_TYPE_WRITE => Some(Kind::Write),
        CBLK_IO_TYPE_UNMAP => Some(Kind::Unmap),
        _ => None,
    }
}

fn set_status(io: &mut Io, status: c_int, blocks: usize, errno: c_int) {
    (io.stat.status, io.stat.blocks_transferred, io.stat.fail_errno) = (status, blocks, errno);
}

/// Notes that a request has failed. The call goes on.
fn set_failed(io: &mut Io, error: Errno) {
    set_status(io, CBLK_ARW_STATUS_FAIL, 0, error.raw_os_error());
    errno::settle_text();
}

/// Whether the library updates a request's status, and nobody fetches its result.
fn updates_status(io: &Io) -> bool {
    io.flags & (CBLK_IO_USER_STATUS | CBLK_IO_USER_TAG) == CBLK_IO_USER_STATUS
}

/// Whether a request whose status the library updates has not ended.
fn is_pending(io: &mut Io) -> bool {
    // SAFETY: the status lives as long as the request, and the library's threads write it atomically, too.
    let status = unsafe { AtomicI32::from_ptr(&raw mut io.stat.status) };
    status.load(Ordering::Acquire) == CBLK_ARW_STATUS_PENDING
}

/// Whether two requests are copies of each other.
fn is_same(one: &Io, other: &Io) -> bool {
    (one.buf, one.lba, one.nblocks) == (other.buf, other.lba, other.nblocks)
}

impl Lists<'_> {
    /// Checks all requests before any is begun. The first that can't be is marked, and all others stay as they are: nothing was begun whose end
    /// their statuses would tell.
    unsafe fn check(&self) -> Result<(), Errno> {
        let Self { issue, pending, wait, completions, .. } = self;
        let has_none = issue.is_empty() && pending.is_empty() && wait.is_empty();
        if has_none || wait.len() + completions.len() < issue.len() + pending.len() {
            return Err(Errno::INVAL);
        }
        for (list, is_waited_for) in [(issue, false), (pending, false), (wait, true)] {
            for request in *list {
                // SAFETY: the caller's promise.
                let io = unsafe { request.as_mut() }.ok_or(Errno::INVAL)?;
                // Nobody fetches the result of one with a status of the caller's.
                let can_end = !is_waited_for || io.flags & CBLK_IO_USER_STATUS == 0;
                if io.buf.is_null() || kind(io).is_none() || !can_end {
                    set_status(io, CBLK_ARW_STATUS_INVALID, 0, Errno::INVAL.raw_os_error());
                    return Err(Errno::INVAL);
                }
            }
        }
        Ok(())
    }

    unsafe fn process(&mut self, chunk: &OpenChunk, timeout: u64, flags: c_int) -> Result<c_int, Errno> {
        for (place, request) in self.issue.iter().enumerate() {
            // SAFETY: the caller's promise, as below.
            unsafe { self.begin(chunk, *request, place, flags) };
        }
        chunk.ring_doorbell();
        let mut harvests = true;
        for request in self.pending {
            // SAFETY: the caller's promise.
            let io = unsafe { &mut **request };
            if updates_status(io) {
                if is_pending(io) {
                    if std::mem::take(&mut harvests) {
                        chunk.harvest();
                    }
                    if !is_pending(io) {
                        // SAFETY: the caller's promise.
                        unsafe { self.note_end(*request) };
                    }
                }
            } else if io.stat.status == CBLK_ARW_STATUS_PENDING {
                let no_harvest = if harvests { 0 } else { CBLK_ARESULT_NO_HARVEST };
                harvests = false;
                let ended = fetch(chunk, io, no_harvest);
                if ended {
                    // SAFETY: the caller's promise.
                    unsafe { self.note_end(*request) };
                }
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.wait(chunk, timeout) }
    }

    /// Begins a request, and notes its end if it could not be begun.
    unsafe fn begin(&mut self, chunk: &OpenChunk, request: Request, place: usize, flags: c_int) {
        // SAFETY: the caller's promise.
        let io = unsafe { &mut *request };
        let Some(kind) = kind(io) else { return };
        set_status(io, CBLK_ARW_STATUS_PENDING, 0, 0);
        let mut io_flags = 0;
        if io.flags & CBLK_IO_USER_TAG != 0 {
            io_flags |= CBLK_ARW_USER_TAG_FLAG;
        } else if io.flags & CBLK_IO_USER_STATUS != 0 {
            io_flags |= CBLK_ARW_USER_STATUS_FLAG;
        }
        if flags & CBLK_LISTIO_WAIT_ISSUE_CMD != 0 {
            io_flags |= CBLK_ARW_WAIT_CMD_FLAGS;
        }
        let transfer = Transfer { kind, buffer: io.buf, first: io.lba, blocks: io.nblocks };
        // SAFETY: the caller's promise.
        let issue = unsafe { transfer.asynchronous(io.tag, &raw mut io.stat, io_flags, false) };
        match issue.and_then(|issue| chunk.begin(&issue).map(|tag| (tag, issue.command.user_tag))) {
            Ok((tag, None)) => io.tag = tag as c_int,
            Ok((_, Some(_))) => {}
            Err(error) => {
                set_failed(io, error);
                // SAFETY: the caller's promise.
                unsafe { self.note_end(request) };
                return;
            }
        }
        // Nearly always the lists have the same pointers.
        if self.wait.get(place) == Some(&request) {
            return;
        }
        // A copy in the list to wait for gets the tag.
        let copy = self.wait.iter().find(|other| {
            // SAFETY: the caller's promise; the pointers were found not to be null.
            let (one, other) = unsafe { (&*request, &***other) };
            is_same(one, other)
        });
        if let Some(copy) = copy {
            // SAFETY: the caller's promise.
            unsafe { (**copy).tag = (*request).tag };
        }
    }

    /// Tells of an end in the list to wait for, or else in that of completions.
    unsafe fn note_end(&mut self, request: Request) {
        // SAFETY: the caller's promise.
        let io = unsafe { *request };
        let waited = self.wait.iter().find(|other| {
            // SAFETY: the caller's promise; the pointers were found not to be null.
            is_same(&io, unsafe { &***other })
        });
        let place = match waited {
            Some(waited) => *waited,
            None => {
                // The first pointer is that of an array, as in CAPI flash's library: callers need not have the others.
                let Some(first) =
                    self.completions.first().filter(|_| self.completed < self.completions.len())
                else {
                    return;
                };
                self.completed += 1;
                first.wrapping_add(self.completed - 1)
            }
        };
        // SAFETY: the caller's promise.
        if let Some(copy) = unsafe { place.as_mut() } {
            (copy.stat, copy.tag) = (io.stat, io.tag);
        }
    }

    /// Waits for the requests of the third list.
    unsafe fn wait(&self, chunk: &OpenChunk, timeout_us: u64) -> Result<c_int, Errno> {
        let end = (timeout_us > 0).then(|| Instant::now().checked_add(Duration::from_micros(timeout_us)));
        loop {
            let mut is_done = true;
            for (place, request) in self.wait.iter().enumerate() {
                // SAFETY: the caller's promise.
                let io = unsafe { &mut **request };
                if io.stat.status != CBLK_ARW_STATUS_PENDING {
                    continue;
                }
                let blocking = if timeout_us == 0 { CBLK_ARESULT_BLOCKING } else { 0 };
                if fetch(chunk, io, blocking) {
                    if self.issue.get(place) != Some(request) {
                        let io = *io;
                        // SAFETY: the caller's promise.
                        unsafe { self.update_copies(&io) };
                    }
                } else {
                    is_done = false;
                }
            }
            if is_done {
                return Ok(0);
            }
            if end.flatten().is_some_and(|end| Instant::now() >= end) {
                return Err(Errno::TIMEDOUT);
            }
            std::thread::yield_now();
        }
    }

    /// Tells of an end in the lists of new and pending requests.
    unsafe fn update_copies(&self, io: &Io) {
        let copy = self.issue.iter().chain(self.pending).find(|other| {
            // SAFETY: the caller's promise; the pointers were found not to be null.
            let other = unsafe { &***other };
            is_same(io, other) && io.tag == other.tag
        });
        if let Some(copy) = copy {
            // SAFETY: the caller's promise.
            unsafe { (**copy).stat = io.stat };
        }
    }
}

/// Fetches a request's result. Returns whether it has ended.
fn fetch(chunk: &OpenChunk, io: &mut Io, mut flags: c_int) -> bool {
    if io.flags & CBLK_IO_USER_TAG != 0 {
        flags |= CBLK_ARESULT_USER_TAG;
    }
    match result(chunk, &mut io.tag, flags) {
        Ok(0) => return false,
        Ok(blocks) => set_status(io, CBLK_ARW_STATUS_SUCCESS, blocks as usize, 0),
        Err(error) => set_failed(io, error),
    }
    true
}
