//! `iotoll_block_*`: what the interface of CAPI flash does not have.

use crate::errno::{self, returned};
use crate::table;
use std::ffi::{c_char, c_int};
use std::ptr;

/// Empties a disk's volatile write cache: writes that have ended survive a power failure.
#[unsafe(no_mangle)]
pub extern "C" fn iotoll_block_flush(chunk_id: c_int) -> c_int {
    returned(|| table::with(chunk_id, |chunk| chunk.flush()).map(|()| 0))
}

/// Copies why this thread's last call failed, where more is known than its `errno`, with a zero byte after it. Returns its length without
/// that byte, also where `size` is too small.
///
/// # Safety
/// `into` is null or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iotoll_block_error(into: *mut c_char, size: usize) -> usize {
    errno::with_text(|text| {
        let bytes = text.map_or(&b""[..], |text| text.as_bytes());
        let copied = bytes.len().min(size.saturating_sub(1));
        if !into.is_null() && size > 0 {
            // SAFETY: the caller's promise; `copied` leaves room for the zero byte.
            unsafe {
                ptr::copy_nonoverlapping(bytes.as_ptr(), into.cast(), copied);
                into.add(copied).write(0);
            }
        }
        bytes.len()
    })
}

/// The library's version, such as `0.1.0`.
#[unsafe(no_mangle)]
pub extern "C" fn iotoll_block_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
