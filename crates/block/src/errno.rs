//! The C interface's errors.

#![allow(unsafe_code, reason = "errno belongs to the C library")]

use nvme::chunk::ChunkError;
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::error::Error;
use std::ffi::{CString, c_int};
use std::io;

thread_local! {
    /// Why this thread's last call failed, where more is known than its `errno`.
    static TEXT: RefCell<Option<CString>> = const { RefCell::new(None) };
    /// That text is of the call that is being made.
    static IS_NEW: Cell<bool> = const { Cell::new(false) };
}

/// Keeps for the caller what failed and why, with all causes, and returns the number that stands for it.
pub(crate) fn explain(what: &str, error: &dyn Error, errno: Errno) -> Errno {
    let mut text = format!("{what}: {error}");
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    say(text, errno)
}

/// Keeps for the caller why its call failed.
#[cold]
pub(crate) fn say(text: String, errno: Errno) -> Errno {
    let text = CString::new(text.replace('\0', " ")).ok();
    // A thread that ends has no place for it.
    let _ = TEXT.try_with(|last| last.replace(text));
    let _ = IS_NEW.try_with(|is_new| is_new.set(true));
    errno
}

/// Forgets what was kept, because the call goes on or nothing more is known of its failure.
pub(crate) fn forget_text() {
    let _ = TEXT.try_with(|last| last.take());
    settle_text();
}

/// Keeps a text for a call that succeeds although a part of it has failed.
pub(crate) fn settle_text() {
    let _ = IS_NEW.try_with(|is_new| is_new.set(false));
}

/// Calls `read` with the text of this thread's last error, if there is one.
pub(crate) fn with_text<T>(read: impl FnOnce(Option<&CString>) -> T) -> T {
    let text = TEXT.try_with(|last| last.borrow().clone()).ok().flatten();
    read(text.as_ref())
}

/// The error number of a failure of the system's.
pub(crate) fn of_io(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// The error number of a request's failure.
pub(crate) fn errno_of(error: &ChunkError) -> Errno {
    match error {
        ChunkError::OutOfRange { .. } | ChunkError::PartialBlock { .. } | ChunkError::TooLong { .. } => {
            Errno::INVAL
        }
        ChunkError::NoFreeSlot { .. } => Errno::AGAIN,
        ChunkError::File { source, .. } => of_io(source),
        _ => Errno::IO,
    }
}

/// Sets the thread's `errno`.
pub(crate) fn set(errno: Errno) {
    let _ = returned(|| Err(errno));
}

/// A C function's return value: `Err` sets the thread's `errno` and returns -1. A call that succeeds leaves `errno` as it was, although it may
/// have waited for a lock, which changes it.
pub(crate) fn returned(call: impl FnOnce() -> Result<c_int, Errno>) -> c_int {
    // SAFETY: the C library returns a pointer to the thread's own `errno`, which lives as long as the thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: only this thread uses it.
    let before = unsafe { errno.read() };
    let (after, value) = match call() {
        Ok(value) => (before, value),
        Err(error) => {
            // An earlier call's text says nothing of this one.
            if !IS_NEW.try_with(|is_new| is_new.replace(false)).unwrap_or(false) {
                forget_text();
            }
            (error.raw_os_error(), -1)
        }
    };
    // SAFETY: the same.
    unsafe { errno.write(after) };
    value
}
