//! `perf_event_open(2)`: events that the kernel counts, or at which programs run.

#![allow(unsafe_code, reason = "the C library has no function for this system call")]

use std::fs::File;
use std::io::{self, Read};
use std::mem::size_of;
use std::os::fd::{FromRawFd, OwnedFd};

/// Where the kernel shows its sources of events, below the root.
pub(crate) const SOURCES: &str = "sys/bus/event_source/devices";
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

/// A reading of an event that was opened [`WITH_TIMES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) count: u64,
    pub(crate) enabled_ns: u64,
    pub(crate) running_ns: u64,
}

impl Reading {
    pub(crate) fn of(event: &mut File) -> io::Result<Self> {
        let mut bytes = [0; 24];
        event.read_exact(&mut bytes)?;
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_ne_bytes(word)
        };
        Ok(Self { count: word(0), enabled_ns: word(8), running_ns: word(16) })
    }

    /// What came since an earlier reading.
    pub(crate) fn since(self, earlier: &Self) -> Self {
        Self {
            count: self.count.wrapping_sub(earlier.count),
            enabled_ns: self.enabled_ns.saturating_sub(earlier.enabled_ns),
            running_ns: self.running_ns.saturating_sub(earlier.running_ns),
        }
    }

    /// The count, scaled up if other events had the counter for a part of the time.
    pub(crate) fn scaled(self) -> f64 {
        self.count as f64 * self.enabled_ns as f64 / self.running_ns.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_other_events_share_are_scaled() {
        let earlier = Reading { count: 10, enabled_ns: 100, running_ns: 100 };
        let later = Reading { count: 60, enabled_ns: 300, running_ns: 150 };
        assert_eq!(later.since(&earlier), Reading { count: 50, enabled_ns: 200, running_ns: 50 });
        assert_eq!(later.since(&earlier).scaled(), 200.0);
    }
}
