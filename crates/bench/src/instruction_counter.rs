//! The CPU's counter of instructions, by `perf_event_open(2)`.

use std::fs::File;
use std::io::{self, Read};
use std::mem::size_of;
use std::os::fd::{FromRawFd, OwnedFd};

/// What is counted: `type` and `config` of an event.
#[derive(Debug, Clone, Copy)]
struct Counted {
    kind: u32,
    config: u64,
}

/// `PERF_TYPE_HARDWARE`, `PERF_COUNT_HW_INSTRUCTIONS`.
const INSTRUCTIONS: Counted = Counted { kind: 0, config: 1 };
/// `PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING`.
const WITH_TIMES: u64 = 0b11;
/// Bits `pinned`, `exclude_kernel` and `exclude_hv`: a counter of its own, of user mode. Nobody needs a privilege for it.
const USER_MODE: u64 = 1 << 2 | 1 << 5 | 1 << 6;
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// `struct perf_event_attr` in its first version.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    bytes: u32,
    config: u64,
    sampling: [u64; 2],
    read_format: u64,
    flags: u64,
    wakeup: [u32; 2],
    address: u64,
}

/// Counts what the thread that opened it does in user mode.
#[derive(Debug)]
pub(crate) struct InstructionCounter(File);

impl InstructionCounter {
    /// Starts to count this thread's instructions. Fails on CPUs and virtual machines without a counter, or where it is forbidden.
    pub(crate) fn open() -> io::Result<Self> {
        Self::open_for(INSTRUCTIONS)
    }

    fn open_for(counted: Counted) -> io::Result<Self> {
        let bytes = size_of::<Attributes>() as u32;
        let attributes = Attributes {
            kind: counted.kind,
            bytes,
            config: counted.config,
            read_format: WITH_TIMES,
            flags: USER_MODE,
            ..Attributes::default()
        };
        Ok(Self(File::from(open_event(&attributes)?)))
    }

    /// The count so far. Fails if the counter was taken away meanwhile, so that the count has gaps.
    pub(crate) fn read(&mut self) -> io::Result<u64> {
        // The kernel gives no bytes once a pinned event lost its counter.
        let mut bytes = [0; 24];
        self.0.read_exact(&mut bytes)?;
        let (words, _) = bytes.as_chunks();
        let word = |place: usize| words.get(place).map_or(0, |word| u64::from_ne_bytes(*word));
        let [count, enabled, running] = [0, 1, 2].map(word);
        if running < enabled {
            return Err(io::Error::other("the counter was in use for another program at times"));
        }
        Ok(count)
    }
}

/// Opens an event of the calling thread on any CPU.
#[allow(unsafe_code, reason = "no safe function makes this system call")]
fn open_event(attributes: &Attributes) -> io::Result<OwnedFd> {
    let (this_thread, any_cpu, no_group): (libc::pid_t, libc::c_int, libc::c_int) = (0, -1, -1);
    let at = std::ptr::from_ref(attributes);
    // SAFETY: the kernel reads the attributes, whose size they have, and keeps no reference.
    let result = unsafe {
        libc::syscall(libc::SYS_perf_event_open, at, this_thread, any_cpu, no_group, CLOSE_ON_EXEC)
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `PERF_TYPE_SOFTWARE`, `PERF_COUNT_SW_PAGE_FAULTS`: a counter that every kernel has, for what a test can cause.
    const PAGE_FAULTS: Counted = Counted { kind: 1, config: 2 };

    #[test]
    fn an_event_is_counted_as_often_as_it_happens() {
        let mut counter = match InstructionCounter::open_for(PAGE_FAULTS) {
            Ok(counter) => counter,
            Err(error) => return crate::skip::skip(&format!("perf_event_open: {error}")),
        };
        const PAGES: usize = 300;
        let before = counter.read().unwrap();
        // Zeroed pages are not there before they are written.
        let mut memory = vec![0_u8; PAGES << 12];
        memory.chunks_mut(4096).for_each(|page| page[0] = std::hint::black_box(1));
        let counted = counter.read().unwrap() - before;
        std::hint::black_box(&memory);
        // Huge pages make fewer.
        assert!((1..PAGES as u64 * 2).contains(&counted), "{counted}");
        assert_eq!(counter.read().unwrap() - before, counted);
    }

    #[test]
    fn instructions_are_those_of_a_loop_where_there_is_a_counter() {
        let mut counter = match InstructionCounter::open() {
            Ok(counter) => counter,
            Err(error) => return crate::skip::skip(&format!("no counter of instructions: {error}")),
        };
        let before = counter.read().unwrap();
        (0..1_000_000_u64).for_each(|number| _ = std::hint::black_box(number));
        let counted = counter.read().unwrap() - before;
        assert!((1_000_000..200_000_000).contains(&counted), "{counted}");
    }
}
