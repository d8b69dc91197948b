//! `iotoll_queue_*`: a controller's queue for one thread, without copies.

use super::path_of;
use crate::direct_queue::{DirectCompletion, DirectQueue, Direction};
use crate::errno::{self, returned};
use crate::table;
use rustix::io::Errno;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::MaybeUninit;

/// Opens a queue of a controller, or returns null.
///
/// # Safety
/// `path` ends with a zero byte, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iotoll_queue_open(
    path: *const c_char,
    depth: c_uint,
    buffer_bytes: usize,
) -> *mut DirectQueue {
    let open = || {
        // SAFETY: the caller's promise.
        let path = unsafe { path_of(path) }?;
        let depth = u16::try_from(depth).map_err(|_| Errno::INVAL)?;
        DirectQueue::open(table::disk(&path, false)?, depth, buffer_bytes as u64)
    };
    match open() {
        Ok(queue) => Box::into_raw(Box::new(queue)),
        Err(error) => {
            errno::set(error);
            std::ptr::null_mut()
        }
    }
}

/// Closes a queue. Its buffer is gone.
///
/// # Safety
/// The queue was opened by [`iotoll_queue_open`] and is not used after this, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iotoll_queue_close(queue: *mut DirectQueue) -> c_int {
    if queue.is_null() {
        return 0;
    }
    // SAFETY: the caller's promise.
    let queue = unsafe { Box::from_raw(queue) };
    returned(|| queue.close().map(|()| 0))
}

/// The memory that the controller reaches.
///
/// # Safety
/// The queue is open, as for all functions below, which are called by one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iotoll_queue_buffer(queue: *const DirectQueue) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { &*queue }.memory().cast()
}

/// Size of the disk in its own blocks.
///
/// # Safety
/// As for [`iotoll_queue_buffer`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iotoll_queue_blocks(queue: *const DirectQueue) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { &*queue }.blocks()
}

/// Size of the disk's blocks.
///
/// # Safety
/// As for [`iotoll_queue_buffer`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iotoll_queue_block_bytes(queue: *const DirectQueue) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { &*queue }.block_bytes()
}

/// The most blocks of a command.
///
/// # Safety
/// As for [`iotoll_queue_buffer`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iotoll_queue_blocks_max(queue: *const DirectQueue) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { &*queue }.blocks_max()
}

#[inline]
fn code(result: Result<(), Errno>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => failed(error),
    }
}

/// A negative error number: `errno` is not set, which takes a call.
#[cold]
fn failed(error: Errno) -> c_int {
    -error.raw_os_error()
}

/// Submits a read. The controller sees it after [`iotoll_queue_submit`].
///
/// # Safety
/// As for [`iotoll_queue_buffer`]. That part of the buffer is used by nothing else until the command has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iotoll_queue_read(
    queue: *mut DirectQueue,
    offset: usize,
    first: u64,
    blocks: u32,
    cookie: u64,
) -> c_int {
    // SAFETY: the caller's promise.
    let queue = unsafe { &mut *queue };
    code(queue.submit(Direction::Read, offset as u64, first, blocks, cookie))
}

/// Submits a write.
///
/// # Safety
/// As for [`iotoll_queue_read`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iotoll_queue_write(
    queue: *mut DirectQueue,
    offset: usize,
    first: u64,
    blocks: u32,
    cookie: u64,
) -> c_int {
    // SAFETY: the caller's promise.
    let queue = unsafe { &mut *queue };
    code(queue.submit(Direction::Write, offset as u64, first, blocks, cookie))
}

/// Submits a flush of the disk's write cache.
///
/// # Safety
/// As for [`iotoll_queue_buffer`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iotoll_queue_flush(queue: *mut DirectQueue, cookie: u64) -> c_int {
    // SAFETY: the caller's promise.
    code(unsafe { &mut *queue }.flush(cookie))
}

/// Lets the controller see what was submitted.
///
/// # Safety
/// As for [`iotoll_queue_buffer`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iotoll_queue_submit(queue: *mut DirectQueue) {
    // SAFETY: the caller's promise.
    unsafe { &mut *queue }.ring_doorbell();
}

/// Takes up to `most` commands that have ended, without waiting.
///
/// # Safety
/// As for [`iotoll_queue_buffer`]. `into` has room for `most`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iotoll_queue_poll(
    queue: *mut DirectQueue,
    into: *mut DirectCompletion,
    most: c_uint,
) -> c_int {
    if most == 0 {
        return 0;
    }
    // SAFETY: the caller's promise. Its memory need not be initialised, and is only written.
    let into = unsafe {
        std::slice::from_raw_parts_mut(into.cast::<MaybeUninit<DirectCompletion>>(), most as usize)
    };
    // SAFETY: the same.
    match unsafe { &mut *queue }.poll(into) {
        Ok(number) => number as c_int,
        Err(error) => failed(error),
    }
}

/// Whether the controller works.
///
/// # Safety
/// As for [`iotoll_queue_buffer`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iotoll_queue_check(queue: *const DirectQueue) -> c_int {
    // SAFETY: the caller's promise.
    code(unsafe { &*queue }.check())
}
