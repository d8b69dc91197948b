//! The counter of a CPU and the ring with its samples.

use super::event::{Event, SamplerError, refusal};
use super::ring::Ring;
use super::setting::setting;
use crate::cpu_list::cpus_of;
use crate::perf_event::{
    Attributes, EXCLUDE_GUESTS, EXCLUDE_HYPERVISOR, EXCLUDE_USER_CHAINS, SAMPLE_ADDRESS, SAMPLE_CHAIN,
    SAMPLE_REGISTERS, SOURCES,
};
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Samples of a CPU in a second of work, and of all CPUs together, at most.
const CPU_RATE_MAX: u64 = 999;
const RATE_MAX: u64 = 4000;
/// A ring has room for a second of samples of this size: a chain of some sixty functions. It is less than what a user without
/// CAP_IPC_LOCK may lock for each CPU (`perf_event_mlock_kb`, 516 KiB).
const SAMPLE_BYTES: u64 = 512;
const RING_BYTES_MAX: usize = 512 << 10;
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// What each CPU samples.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sampling {
    pub(super) event: Event,
    /// Registers that samples have, a bit for each.
    pub(super) registers: u64,
    /// Samples in a second of work.
    pub(super) rate: u64,
    /// Cycles from one to the next.
    pub(super) period: u64,
}

/// A CPU's counter and its ring.
#[derive(Debug)]
pub(super) struct CpuRing {
    pub(super) counter: File,
    pub(super) ring: Ring,
    pub(super) has_register: bool,
}

impl CpuRing {
    /// `None` if the CPU is offline.
    pub(super) fn open(cpu: u32, sampling: &Sampling) -> Result<Option<Self>, SamplerError> {
        let &Sampling { event, registers: sample_registers, rate, period } = sampling;
        let kind = hybrid_kind(&Path::new("/").join(SOURCES), cpu).filter(|_| event == Event::Cycles);
        let plain = Attributes {
            config: kind.map_or(0, |kind| kind << 32),
            sample_period: period,
            sample_type: SAMPLE_ADDRESS | SAMPLE_CHAIN,
            options: EXCLUDE_HYPERVISOR | EXCLUDE_USER_CHAINS,
            ..event.attributes()
        };
        let without_guests = Attributes { options: plain.options | EXCLUDE_GUESTS, ..plain };
        let sample_type = plain.sample_type | SAMPLE_REGISTERS;
        let with_register = Attributes { sample_type, sample_registers, ..without_guests };
        // Not every kernel and CPU has each.
        let attempts = [with_register, without_guests, plain];
        let first = usize::from(sample_registers == 0);
        let mut refused = io::Error::from(io::ErrorKind::Unsupported);
        for attributes in &attempts[first..] {
            match attributes.open(cpu as libc::c_int) {
                Ok(counter) => return Self::with_ring(counter, attributes, rate).map(Some),
                Err(error) => refused = error,
            }
        }
        match refused.raw_os_error() {
            Some(libc::ENODEV) => Ok(None),
            _ => Err(refusal(refused, |error| SamplerError::Open { cpu, error })),
        }
    }

    fn with_ring(counter: OwnedFd, attributes: &Attributes, rate: u64) -> Result<Self, SamplerError> {
        let data_bytes = ring_bytes(rate, rustix::param::page_size());
        let ring = Ring::of(&counter, data_bytes).map_err(|error| SamplerError::Memory {
            error,
            kib: data_bytes >> 10,
            limit: setting("perf_event_mlock_kb"),
        })?;
        Ok(Self { counter: File::from(counter), ring, has_register: attributes.sample_registers != 0 })
    }
}

/// The number of the counters that a CPU has, where a machine has several kinds of CPUs: `cpu_core` and `cpu_atom` of Intel's. Arm's are found without
/// it.
fn hybrid_kind(sources: &Path, cpu: u32) -> Option<u64> {
    let text = |path: &str| fs::read_to_string(sources.join(path)).ok();
    let has_cpu = |kind: &&str| {
        text(&format!("{kind}/cpus")).and_then(|list| cpus_of(&list)).is_some_and(|cpus| cpus.contains(&cpu))
    };
    let kind = ["cpu_core", "cpu_atom"].into_iter().find(has_cpu)?;
    text(&format!("{kind}/type"))?.trim().parse().ok().filter(|kind: &u64| *kind <= u64::from(u32::MAX))
}

/// CPUs that are online.
pub(super) fn online_cpus() -> Result<Vec<u32>, SamplerError> {
    let list = fs::read_to_string(ONLINE).unwrap_or_default();
    cpus_of(&list).ok_or(SamplerError::Cpus(list))
}

/// Samples of a CPU in a second of work: all CPUs together take at most [`RATE_MAX`]. It is at most half of what the kernel allows (`allowed`), which
/// would stop the counter for a while. Odd, so that samples do not keep step with the kernel's tick.
pub(super) fn rate(cpus: usize, allowed: u64) -> u64 {
    let share = (RATE_MAX / cpus.max(1) as u64).min(allowed / 2).clamp(1, CPU_RATE_MAX);
    if share % 2 == 0 { share - 1 } else { share }
}

/// Bytes of a CPU's ring.
fn ring_bytes(rate: u64, page_bytes: usize) -> usize {
    let bytes = (rate * SAMPLE_BYTES) as usize;
    bytes.next_power_of_two().min(RING_BYTES_MAX).max(page_bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    #[test]
    fn samples_are_bounded_by_cpu_and_altogether() {
        for cpus in 1..=4001 {
            let rate = rate(cpus, 100_000);
            assert!(rate % 2 == 1 && rate <= CPU_RATE_MAX, "{cpus}: {rate}");
            assert!(rate * cpus as u64 <= RATE_MAX || rate == 1, "{cpus}: {rate}");
            for page in [4 << 10, 64 << 10] {
                let bytes = ring_bytes(rate, page);
                assert!(bytes % page == 0 && bytes.is_power_of_two() && bytes <= RING_BYTES_MAX);
            }
        }
        assert_eq!([1, 4, 5, 128].map(|cpus| rate(cpus, 100_000)), [999, 999, 799, 31]);
        assert_eq!([0, 1, 500, 2000].map(|allowed| rate(1, allowed)), [1, 1, 249, 999]);
    }

    #[test]
    fn a_cpu_s_own_kind_of_counters_is_found() {
        let sources = tempfile::tempdir().unwrap();
        for (kind, number, cpus) in [("cpu_core", "4\n", "0-7\n"), ("cpu_atom", "10\n", "8-15\n")] {
            let folder = sources.path().join(kind);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("type"), number).unwrap();
            fs::write(folder.join("cpus"), cpus).unwrap();
        }
        assert_eq!(
            [0, 7, 8, 16].map(|cpu| hybrid_kind(sources.path(), cpu)),
            [Some(4), Some(4), Some(10), None]
        );
    }
}
