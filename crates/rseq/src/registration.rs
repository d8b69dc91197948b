//! How the C library and the kernel register sequences, and the kernel's fence.

use crate::arch::{self, Area, weak_symbol};
use crate::{Rseq, Unsupported};
use core::arch::asm;
use core::sync::atomic::{Ordering, fence as memory_fence};
use rustix::thread::{
    Cpuid, MembarrierCommand, MembarrierQuery, membarrier, membarrier_cpu, membarrier_query,
};

/// Sequences, if the C library has registered the calling thread, and the kernel fences.
pub(crate) fn registered() -> Result<Rseq, Unsupported> {
    let area = registered_area().ok_or(Unsupported::CLibrary)?;
    let ours = Rseq { area, cpus: possible_cpus().ok_or(Unsupported::Kernel)? };
    ours.registered_cpu().ok_or(Unsupported::CLibrary)?;
    if !membarrier_query().contains(MembarrierQuery::PRIVATE_EXPEDITED_RSEQ) {
        return Err(Unsupported::Kernel);
    }
    membarrier(MembarrierCommand::RegisterPrivateExpeditedRseq).map_err(|_| Unsupported::Kernel)?;
    Ok(ours)
}

/// The offset of the `struct rseq` from the thread pointer, if the C library registers it with the kernel.
pub(crate) fn registered_area() -> Option<Area> {
    let size: *const u32 = weak_symbol!("__rseq_size");
    // SAFETY: if the symbol exists, glibc declares it as a constant of this type (manual, "Restartable Sequences").
    let is_registered = !size.is_null() && unsafe { *size } > 0;
    if is_registered { area_offset() } else { None }
}

/// The offset of the C library's `struct rseq` from the thread pointer, registered or not.
pub(crate) fn area_offset() -> Option<Area> {
    let offset: *const isize = weak_symbol!("__rseq_offset");
    // SAFETY: as in `registered_area`.
    arch::Area::new(if offset.is_null() { 0 } else { unsafe { *offset } })
}

/// One more than the highest possible number of a CPU.
fn possible_cpus() -> Option<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").ok()?;
    let highest: usize = text.trim().rsplit([',', '-']).next()?.parse().ok()?;
    Some(highest + 1)
}

/// See [`Rseq::fence`].
pub(crate) fn fence(cpu: usize) {
    // The kernel interrupts the sequences of that CPU, or of all CPUs if it does not support single ones.
    // SAFETY: every number is sound; the kernel ignores one without a CPU.
    let cpu = unsafe { Cpuid::from_raw(cpu as u32) };
    if membarrier_cpu(MembarrierCommand::PrivateExpeditedRseq, cpu).is_err() {
        let all = membarrier(MembarrierCommand::PrivateExpeditedRseq);
        assert!(all.is_ok(), "membarrier failed after the kernel had registered it: {all:?}");
    }
    // The kernel has no barrier on its way out if nothing runs on that CPU, or there is only one CPU or thread.
    memory_fence(Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    /// Lets the calling thread run only on this CPU.
    fn pin(cpu: usize) {
        let mut one = CpuSet::new();
        one.set(cpu);
        sched_setaffinity(None, &one).unwrap();
    }

    /// Whether the C library and the kernel have restartable sequences, by what they say of themselves: glibc 2.35 or newer that
    /// was not told to do without, and a kernel (6.3 or newer) that gives programs the size of `struct rseq`.
    fn system_has_sequences() -> bool {
        const AT_RSEQ_FEATURE_SIZE: u64 = 27;
        let library = std::process::Command::new("getconf").arg("GNU_LIBC_VERSION").output().unwrap();
        let version = String::from_utf8_lossy(&library.stdout).trim().replace("glibc 2.", "").parse();
        let vector = std::fs::read("/proc/self/auxv").unwrap();
        let mut keys = vector.chunks_exact(16).map(|pair| u64::from_ne_bytes(pair[..8].try_into().unwrap()));
        version.is_ok_and(|minor: u32| minor >= 35)
            && !std::env::var("GLIBC_TUNABLES").is_ok_and(|tunables| tunables.contains("rseq=0"))
            && keys.any(|key| key == AT_RSEQ_FEATURE_SIZE)
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no assembly")]
    fn sequences_are_used_where_the_system_has_them() {
        if !system_has_sequences() {
            return;
        }
        let rseq = Rseq::new().unwrap();
        let existing = std::fs::read_dir("/sys/devices/system/cpu").unwrap();
        let existing = existing
            .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_prefix("cpu")?.parse().ok());
        assert!(existing.max().is_some_and(|highest: usize| highest < rseq.cpus()));
        let allowed = sched_getaffinity(None).unwrap();
        for cpu in (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)) {
            pin(cpu);
            assert_eq!((rseq.current(), rseq.registered_cpu()), (cpu, Some(cpu)));
        }
        sched_setaffinity(None, &allowed).unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri starts no programs")]
    fn sequences_that_are_not_registered_are_not_used() {
        const CHILD: &str = "IOTOLL_TEST_WITHOUT_SEQUENCES";
        if std::env::var_os(CHILD).is_some() {
            assert_eq!(registered_area(), None);
            return assert_eq!(Rseq::new().unwrap_err(), Unsupported::CLibrary);
        }
        let name = "registration::tests::sequences_that_are_not_registered_are_not_used";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", name]).env(CHILD, "1").env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
        let result = child.output().unwrap();
        assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stdout));
    }
}
