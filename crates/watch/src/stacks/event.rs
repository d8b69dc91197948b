//! What takes samples, and why the kernel may not let it.

use super::setting::setting;
use super::symbols::SymbolError;
use crate::perf_event::{Attributes, EXCLUDE_HYPERVISOR, WITH_TIMES};
use std::io;

/// What takes samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The CPUs' counters of cycles, where their interrupts are non-maskable.
    Cycles,
    /// The kernel's timer of each CPU, in nanoseconds. It takes no sample where interrupts are off, which tests show.
    Timer,
}

impl Event {
    /// `PERF_TYPE_HARDWARE` with `PERF_COUNT_HW_CPU_CYCLES`, and `PERF_TYPE_SOFTWARE` with `PERF_COUNT_SW_CPU_CLOCK`.
    pub(super) fn attributes(self) -> Attributes {
        let kind = match self {
            Self::Cycles => 0,
            Self::Timer => 1,
        };
        Attributes {
            kind,
            config: 0,
            read_format: WITH_TIMES,
            options: EXCLUDE_HYPERVISOR,
            ..Attributes::default()
        }
    }
}

/// Why there are no samples.
#[derive(Debug, thiserror::Error)]
pub(super) enum SamplerError {
    #[error("{0}")]
    Source(String),
    #[error(
        "the kernel counts no cycles of this CPU ({0}), as in many virtual machines: it has no counters here, or no driver for them"
    )]
    NoCycles(io::Error),
    #[error(
        "the kernel lets this process sample no CPUs ({error}): expected root, or CAP_PERFMON; kernel.perf_event_paranoid is {paranoid}"
    )]
    Forbidden { error: io::Error, paranoid: String },
    #[error(
        "the kernel gives no memory for samples ({error}): {kib} KiB for each CPU; expected root, or CAP_IPC_LOCK; \
         kernel.perf_event_mlock_kb is {limit}"
    )]
    Memory { error: io::Error, kib: usize, limit: String },
    #[error("the counters of CPU {cpu} can't be opened: {error}")]
    Open { cpu: u32, error: io::Error },
    #[error(transparent)]
    Symbols(#[from] SymbolError),
    #[error("/sys/devices/system/cpu/online does not say which CPUs there are: {0:?}")]
    Cpus(String),
    #[error(
        "the CPU's counter counts nothing; another user of it may hold all counters, as a watchdog or `perf` does"
    )]
    Idle,
    #[error("the thread that reads samples: {0}")]
    Thread(io::Error),
}

/// What a refusal of the kernel means.
pub(super) fn refusal(error: io::Error, other: impl FnOnce(io::Error) -> SamplerError) -> SamplerError {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            SamplerError::Forbidden { error, paranoid: setting("perf_event_paranoid") }
        }
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => SamplerError::NoCycles(error),
        _ => other(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_what_is_missing() {
        let words = |code| {
            let error = io::Error::from_raw_os_error(code);
            refusal(error, |error| SamplerError::Open { cpu: 3, error }).to_string()
        };
        for code in [libc::EACCES, libc::EPERM] {
            let words = words(code);
            assert!(
                words.contains("expected root, or CAP_PERFMON; kernel.perf_event_paranoid is "),
                "{words}"
            );
        }
        for code in [libc::ENOENT, libc::EOPNOTSUPP] {
            assert!(words(code).contains("the kernel counts no cycles of this CPU"), "{}", words(code));
        }
        assert!(
            words(libc::EMFILE).starts_with("the counters of CPU 3 can't be opened: Too many open files")
        );
        let error = io::Error::from_raw_os_error(libc::EPERM);
        let memory = SamplerError::Memory { error, kib: 512, limit: setting("perf_event_mlock_kb") };
        let (words, limit) = (memory.to_string(), setting("perf_event_mlock_kb"));
        assert!(words.contains("512 KiB for each CPU") && words.ends_with(&limit), "{words}");
    }
}
