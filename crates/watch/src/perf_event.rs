//! `perf_event_open(2)`: events that the kernel counts, or at which programs run.

#![allow(unsafe_code, reason = "the C library has no function for this system call")]

use std::io;
use std::mem::size_of;
use std::os::fd::{FromRawFd, OwnedFd};

/// `PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING`: a reading has the count, and both times in nanoseconds.
pub(crate) const WITH_TIMES: u64 = 0b11;
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// Bits of [`Attributes::options`].
pub(crate) const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
pub(crate) const EXCLUDE_GUESTS: u64 = 1 << 20;
/// Call chains end where user mode begins.
pub(crate) const EXCLUDE_USER_CHAINS: u64 = 1 << 22;
/// Bits of [`Attributes::sample_type`], in the order in which a sample has them.
pub(crate) const SAMPLE_ADDRESS: u64 = 1 << 0;
pub(crate) const SAMPLE_CHAIN: u64 = 1 << 5;
pub(crate) const SAMPLE_REGISTERS: u64 = 1 << 18;

/// `struct perf_event_attr` in its fifth version (Linux 3.19). Older kernels take it too while what they do not know is 0.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Attributes {
    /// The source's number.
    pub(crate) kind: u32,
    /// The size of this structure, set by [`Self::open`].
    pub(crate) bytes: u32,
    pub(crate) config: u64,
    /// Events from one sample to the next; 0 if there are no samples.
    pub(crate) sample_period: u64,
    pub(crate) sample_type: u64,
    pub(crate) read_format: u64,
    pub(crate) options: u64,
    pub(crate) _wakeup: u64,
    /// Also a name's address, of probes.
    pub(crate) config1: u64,
    pub(crate) config2: u64,
    pub(crate) _branches: u64,
    pub(crate) _user: [u64; 2],
    /// The interrupted code's registers that a sample has, a bit for each.
    pub(crate) sample_registers: u64,
}

impl Attributes {
    /// Opens the event for all processes on a CPU.
    pub(crate) fn open(self, cpu: libc::c_int) -> io::Result<OwnedFd> {
        self.open_of(-1, cpu)
    }

    /// Opens the event for the calling thread, on whichever CPU it runs.
    pub(crate) fn open_for_this_thread(self) -> io::Result<OwnedFd> {
        self.open_of(0, -1)
    }

    fn open_of(mut self, thread: libc::pid_t, cpu: libc::c_int) -> io::Result<OwnedFd> {
        self.bytes = size_of::<Self>() as u32;
        let no_group: libc::c_int = -1;
        let at = std::ptr::from_ref(&self);
        // SAFETY: the kernel reads the attributes, whose size they have, and keeps no reference.
        let result =
            unsafe { libc::syscall(libc::SYS_perf_event_open, at, thread, cpu, no_group, CLOSE_ON_EXEC) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nobody else has it.
        Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
    }
}
