//! `perf_event_open(2)`: events that the kernel counts, or at which programs run.

#![allow(unsafe_code, reason = "the C library has no function for this system call")]

use std::io;
use std::mem::size_of;
use std::os::fd::{FromRawFd, OwnedFd};

/// `PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING`: a reading has the count, and both times in nanoseconds.
pub(crate) const WITH_TIMES: u64 = 0b11;
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// `struct perf_event_attr` in its second version.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Attributes {
    /// The source's number.
    pub(crate) kind: u32,
    /// The size of this structure, set by [`Self::open`].
    pub(crate) bytes: u32,
    pub(crate) config: u64,
    pub(crate) _sampling: [u64; 2],
    pub(crate) read_format: u64,
    pub(crate) _options: [u64; 2],
    /// Also a name's address, of probes.
    pub(crate) config1: u64,
    pub(crate) config2: u64,
}

impl Attributes {
    /// Opens the event for all processes on a CPU.
    pub(crate) fn open(mut self, cpu: libc::c_int) -> io::Result<OwnedFd> {
        self.bytes = size_of::<Self>() as u32;
        let (every_process, no_group): (libc::pid_t, libc::c_int) = (-1, -1);
        let at = std::ptr::from_ref(&self);
        // SAFETY: the kernel reads the attributes, whose size they have, and keeps no reference.
        let result = unsafe {
            libc::syscall(libc::SYS_perf_event_open, at, every_process, cpu, no_group, CLOSE_ON_EXEC)
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nobody else has it.
        Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
    }
}
