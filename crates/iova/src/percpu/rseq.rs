//! Per-CPU steps by Linux's restartable sequences, without atomic instructions or locks.
//!
//! A thread writes the address of a descriptor to the area that the C library registered for it (`struct rseq`, Linux's
//! `include/uapi/linux/rseq.h`; glibc since 2.35). If the kernel preempts it, migrates it or delivers a signal between
//! the two addresses in the descriptor, the thread continues at a third address, where the step is abandoned. The last
//! instruction of a sequence is the store that takes effect, so a step is done completely or not at all.

#![allow(unsafe_code, reason = "restartable sequences need assembly with fixed addresses")]

use super::cpus::Cpus;
use super::slabs::{PAGES_AT, PER_CPU, STACK_WORDS, Slabs, Stack};
use crate::sync::{AtomicU64, Ordering};
use core::arch::asm;
use core::num::NonZeroIsize;
use rustix::thread::{
    Cpuid, MembarrierCommand, MembarrierQuery, membarrier, membarrier_cpu, membarrier_query,
};

/// The begin of a sequence: its descriptor (`struct rseq_cs`, at label 9) and the store that activates it. The sequence
/// starts at label 3, and is abandoned at 7 if interrupted.
macro_rules! begin {
    () => {
        concat!(
            ".pushsection __rseq_cs, \"aw\", @progbits\n",
            ".balign 32\n",
            "9:\n",
            ".long 0, 0\n",
            ".quad 3f, 4f - 3f, 7f\n",
            ".popsection\n",
            "lea {rest}, [rip + 9b]\n",
            "mov fs:[{area} + 8], {rest}\n",
            "3:"
        )
    };
}

/// Computes the address of a stack of the current CPU, in a sequence: `{stack}` is its address for CPU 0 before. Abandons
/// the sequence at 5 if the thread is not registered, whose CPU is a large number.
macro_rules! find_stack {
    () => {
        concat!(
            "mov {rest:e}, fs:[{area} + 4]\n",
            "cmp {rest:e}, {cpus:e}\n",
            "jae 5f\n",
            "shl {rest}, 15\n",
            "add {stack}, {rest}"
        )
    };
}

/// The end of a sequence, behind its last store. An abandoned sequence executes `$given_up` and jumps to `$to`.
///
/// The kernel requires a signature before the address where an interrupted sequence continues. The C library defines it.
/// With the bytes before it, disassemblers decode it as an instruction, which is never executed.
macro_rules! end {
    ($given_up:literal, $to:literal) => {
        concat!(
            "4:\n",
            ".pushsection __rseq_failure, \"ax\", @progbits\n",
            ".byte 0x0f, 0xb9, 0x3d\n",
            ".long 0x53053053\n",
            "7:\n",
            "5:\n",
            $given_up,
            "\njmp ",
            $to,
            "\n.popsection\n",
            "6:"
        )
    };
}

/// What an abandoned pop returns: no page has this number.
const ABANDONED: u64 = u64::MAX;

const _: () = assert!(
    Stack::CLOSED == -2_i64 as u64 && PER_CPU * STACK_WORDS * 8 == 1 << 15 && PAGES_AT == 2,
    "the sequences contain these numbers"
);

/// Restartable sequences for the threads of this process.
#[derive(Debug)]
pub struct Rseq {
    /// Offset of the `struct rseq` from the thread pointer, where the pointer itself is.
    area: NonZeroIsize,
    cpus: usize,
}

impl Rseq {
    /// Restartable sequences, if the kernel (5.10 or newer) and the C library (glibc 2.35 or newer) support them.
    pub fn new() -> Option<Self> {
        let area = registered_area()?;
        let ours = Self { area, cpus: possible_cpus()? };
        if ours.cpu_id() >= ours.cpus as u32 {
            return None;
        }
        if !membarrier_query().contains(MembarrierQuery::PRIVATE_EXPEDITED_RSEQ) {
            return None;
        }
        membarrier(MembarrierCommand::RegisterPrivateExpeditedRseq).ok()?;
        Some(ours)
    }

    /// Sequences that are not registered with the kernel, to count instructions in an emulator without restartable
    /// sequences, such as valgrind. `None` if the C library has no area for them.
    ///
    /// # Safety
    /// Only one thread may use the result, and the kernel must not have registered that thread's area.
    pub unsafe fn unregistered() -> Option<Self> {
        let area = area_offset()?;
        // SAFETY: `area` is the offset of the C library's `struct rseq` of each thread, which the kernel does not use, as the
        // caller guarantees. The stores to `cpu_id_start` and `cpu_id` say that the thread runs on CPU 0.
        unsafe {
            asm!("mov dword ptr fs:[{area}], 0", "mov dword ptr fs:[{area} + 4], 0", area = in(reg) area.get(),
                options(nostack, preserves_flags));
        }
        Some(Self { area, cpus: 1 })
    }

    /// The field `cpu_id` of this thread: larger than any CPU's number if the thread is not registered.
    fn cpu_id(&self) -> u32 {
        let cpu;
        // SAFETY: `area` is the offset of each thread's `struct rseq`, and this reads one of its fields.
        unsafe {
            asm!("mov {cpu:e}, fs:[{area} + 4]", cpu = out(reg) cpu, area = in(reg) self.area.get(),
                options(nostack, preserves_flags, readonly));
        }
        cpu
    }
}

/// The offset of the `struct rseq` from the thread pointer, if the C library registers it with the kernel.
fn registered_area() -> Option<NonZeroIsize> {
    let size: *const u32;
    // SAFETY: reads only the address of a weak symbol, which the linker resolves or sets to 0.
    unsafe {
        asm!(".weak __rseq_size", "mov {size}, [rip + __rseq_size@GOTPCREL]", size = out(reg) size,
            options(nostack, preserves_flags, readonly));
    }
    // SAFETY: if the symbol exists, glibc declares it as a constant of this type (manual, "Restartable Sequences").
    let is_registered = !size.is_null() && unsafe { *size } > 0;
    if is_registered { area_offset() } else { None }
}

/// The offset of the C library's `struct rseq` from the thread pointer, registered or not.
fn area_offset() -> Option<NonZeroIsize> {
    let offset: *const isize;
    // SAFETY: as in `registered_area`.
    unsafe {
        asm!(".weak __rseq_offset", "mov {offset}, [rip + __rseq_offset@GOTPCREL]", offset = out(reg) offset,
            options(nostack, preserves_flags, readonly));
    }
    // SAFETY: as in `registered_area`.
    NonZeroIsize::new(if offset.is_null() { 0 } else { unsafe { *offset } })
}

/// One more than the highest possible number of a CPU. Numbers of existing CPUs may have gaps.
fn possible_cpus() -> Option<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").ok()?;
    let highest: usize = text.trim().rsplit([',', '-']).next()?.parse().ok()?;
    Some(highest + 1)
}

// SAFETY: the steps are restartable sequences, which the kernel abandons when their thread is preempted or migrated.
unsafe impl Cpus for Rseq {
    fn count(&self) -> usize {
        self.cpus
    }

    #[inline(always)]
    fn current(&self) -> usize {
        // Reading 32 bits clears the upper half of the register.
        let cpu;
        // SAFETY: as in `cpu_id`. This field, `cpu_id_start`, is always the number of a CPU, or 0.
        unsafe {
            asm!("mov {cpu:e}, fs:[{area}]", cpu = out(reg) cpu, area = in(reg) self.area.get(),
                options(nostack, preserves_flags, readonly));
        }
        cpu
    }

    #[inline(always)]
    fn pop(&self, slabs: &Slabs, number: usize, more: u64, limit: u64) -> Option<u64> {
        let page: u64;
        // SAFETY: the sequence from 3 to 4 reads this thread's `struct rseq` and a stack of `slabs`, to which it stores as its last
        // instruction. The stack lies within `slabs`, because the CPU is below `slabs.cpus()`, and `number` below `PER_CPU`: only
        // the allocator has `slabs`, and implementations of `Cpus` pass its arguments on. For the same reason the count is CLOSED,
        // with which no page is read, or at most the number of the stack's pages. It neither calls nor uses the program's stack.
        // If interrupted, it continues at 7, which the signature precedes, with the same registers, of which only outputs are
        // written. The kernel reads the descriptor until the thread's next interruption after the step: this code must stay
        // loaded (see the crate's pitfalls). To other CPUs, the accesses are like those of relaxed atomics on this architecture:
        // aligned 8-byte loads and stores, visible in program order.
        unsafe {
            asm!(
                begin!(),
                find_stack!(),
                "mov {rest}, qword ptr [{stack}]",
                "sub {rest}, 1",
                "js 5f",
                "mov {page}, qword ptr [{stack} + 8 * {rest} + 16]",
                "add {more}, {page}",
                "cmp {more}, {limit}",
                "ja 5f",
                "mov qword ptr [{stack}], {rest}",
                end!("mov {page}, -1", "6f"),
                area = in(reg) self.area.get(),
                cpus = in(reg) slabs.cpus(),
                stack = inout(reg) slabs.base().wrapping_add(number * STACK_WORDS) => _,
                more = inout(reg) more => _,
                limit = in(reg) limit,
                page = out(reg) page,
                rest = out(reg) _,
                options(nostack)
            );
        }
        (page != ABANDONED).then_some(page)
    }

    #[inline(always)]
    fn push(&self, slabs: &Slabs, number: usize, capacity: u64, page: u64) -> bool {
        let count: u64;
        // SAFETY: as in `pop`. The capacity is at most the number of the stack's pages. The store before the last one is to an
        // entry above the count, which no thread reads, so an interruption after it has no effect.
        unsafe {
            asm!(
                begin!(),
                find_stack!(),
                "mov {rest}, qword ptr [{stack}]",
                "cmp {rest}, {capacity}",
                "jae 5f",
                "mov qword ptr [{stack} + 8 * {rest} + 16], {page}",
                "add {rest}, 1",
                "mov qword ptr [{stack}], {rest}",
                end!("xor {rest:e}, {rest:e}", "6f"),
                area = in(reg) self.area.get(),
                cpus = in(reg) slabs.cpus(),
                stack = inout(reg) slabs.base().wrapping_add(number * STACK_WORDS) => _,
                capacity = in(reg) capacity,
                page = in(reg) page,
                rest = out(reg) count,
                options(nostack)
            );
        }
        count != 0
    }

    fn close(&self, cpu: usize, count_at: &AtomicU64) -> Option<u64> {
        let count: u64;
        // SAFETY: as in `pop`, with a borrowed atomic.
        unsafe {
            asm!(
                begin!(),
                "cmp fs:[{area} + 4], {cpu:e}",
                "jne 5f",
                "mov {count}, qword ptr [{count_at}]",
                "mov qword ptr [{count_at}], -2",
                end!("mov {count}, -2", "6f"),
                area = in(reg) self.area.get(),
                cpu = in(reg) cpu,
                count_at = in(reg) count_at.as_ptr(),
                count = out(reg) count,
                rest = out(reg) _,
                options(nostack)
            );
        }
        // Never Stack::CLOSED in practice: the caller holds the lock that is needed to close it.
        (count != Stack::CLOSED).then_some(count)
    }

    fn fence(&self, cpu: usize) {
        // The kernel interrupts the sequences of that CPU, or of all CPUs if it does not support single ones.
        // SAFETY: every number is sound; the kernel ignores one without a CPU.
        let cpu = unsafe { Cpuid::from_raw(cpu as u32) };
        if membarrier_cpu(MembarrierCommand::PrivateExpeditedRseq, cpu).is_err() {
            let all = membarrier(MembarrierCommand::PrivateExpeditedRseq);
            assert!(all.is_ok(), "membarrier failed after the kernel had registered it: {all:?}");
        }
        core::sync::atomic::fence(Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Allocator, Percpu, Request, Space};
    use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_setaffinity};
    use std::sync::atomic::{AtomicBool, AtomicU64};
    use std::sync::mpsc;

    const THREADS: u64 = 4;
    /// Numbers that a thread holds at first.
    const HELD: u64 = 8;
    const CAPACITY: u64 = 64;
    const MOVES: usize = 2_000;
    const COLLECTIONS: usize = 60_000;
    /// Steps that are to be abandoned.
    const STEPS: u64 = 200;

    /// Pops numbers from the current CPU's stack and pushes them, until `done`. Returns the numbers that it still holds.
    fn work(cpus: &Rseq, slabs: &Slabs, mut held: Vec<u64>, done: &AtomicBool) -> Vec<u64> {
        for turn in 0_u64.. {
            match (turn % 2, held.last()) {
                (0, _) => held.extend(cpus.pop(slabs, 0, 0, u64::MAX)),
                (1, Some(last)) if cpus.push(slabs, 0, CAPACITY, *last) => drop(held.pop()),
                _ if done.load(Ordering::Relaxed) => break,
                _ => {}
            }
        }
        held
    }

    /// Migrates threads from CPU to CPU.
    fn move_all(threads: &[Pid]) {
        let all = sched_getaffinity(None).unwrap();
        let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu)).collect();
        for turn in 0..MOVES {
            let mut one = CpuSet::new();
            one.set(cpus[turn / threads.len() % cpus.len()]);
            sched_setaffinity(Some(threads[turn % threads.len()]), &one).unwrap();
        }
        threads.iter().for_each(|thread| sched_setaffinity(Some(*thread), &all).unwrap());
    }

    #[test]
    fn steps_of_migrating_threads_are_done_completely_or_not_at_all() {
        let Some(cpus) = Rseq::new() else { return };
        let slabs = Slabs::new(cpus.count());
        let done = AtomicBool::new(false);
        let (sender, threads) = mpsc::channel();
        let mut all: Vec<u64> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (sender, cpus, slabs, done) = (sender.clone(), &cpus, &slabs, &done);
                    scope.spawn(move || {
                        sender.send(gettid()).unwrap();
                        work(cpus, slabs, (thread * HELD..(thread + 1) * HELD).collect(), done)
                    })
                })
                .collect();
            move_all(&threads.iter().take(THREADS as usize).collect::<Vec<_>>());
            done.store(true, Ordering::Relaxed);
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
        });
        for cpu in 0..cpus.count() {
            let stack = slabs.stack(cpu, 0).unwrap();
            all.extend(stack.closed(stack.len(), CAPACITY).oldest(usize::MAX));
        }
        all.sort_unstable();
        assert_eq!(all, (0..THREADS * HELD).collect::<Vec<_>>());
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

    /// Repeats a step until it is not interrupted.
    fn done<T>(step: impl FnMut() -> Option<T>) -> Option<T> {
        std::iter::repeat_with(step).take(1000).flatten().next()
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no assembly")]
    fn steps_are_complete_and_only_on_their_cpu() {
        let Some(cpus) = Rseq::new() else { return };
        let allowed = sched_getaffinity(None).unwrap();
        let (cpu, number, slabs) = (cpus.current(), 5, Slabs::new(cpus.count()));
        pin(cpu);
        let stack = slabs.stack(cpu, number).unwrap();
        let push = |page| cpus.push(&slabs, number, 2, page).then_some(());
        let pop = |more, limit| cpus.pop(&slabs, number, more, limit);
        assert_eq!(pop(0, u64::MAX), None, "empty");
        assert_eq!((done(|| push(40)), done(|| push(50)), push(51)), (Some(()), Some(()), None));
        assert_eq!((stack.len(), stack.pages[1].load(Ordering::Relaxed)), (2, 50));
        assert_eq!(pop(3, 52), None, "above the limit");
        assert_eq!(
            (done(|| pop(3, 53)), done(|| pop(0, u64::MAX)), pop(0, u64::MAX)),
            (Some(50), Some(40), None)
        );
        assert_eq!(done(|| push(60)), Some(()));
        assert_eq!(cpus.close(cpu + 1, stack.count), None, "of another CPU");
        assert_eq!(done(|| cpus.close(cpu, stack.count)), Some(1));
        assert_eq!((pop(0, u64::MAX), push(61)), (None, None), "closed");
        assert_eq!(stack.closed(1, 2).oldest(1).collect::<Vec<_>>(), [60]);
        // A thread on a CPU that has no stacks.
        let none = Slabs::new(0);
        assert!(!cpus.push(&none, 0, 2, 7) && cpus.pop(&none, 0, 0, u64::MAX).is_none());
        sched_setaffinity(None, &allowed).unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no assembly")]
    fn sequences_are_used_where_the_system_has_them() {
        if !system_has_sequences() {
            return;
        }
        let cpus = Rseq::new().unwrap();
        let existing = std::fs::read_dir("/sys/devices/system/cpu").unwrap();
        let existing = existing
            .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_prefix("cpu")?.parse().ok());
        assert!(existing.max().is_some_and(|highest: usize| highest < cpus.count()));
        let allowed = sched_getaffinity(None).unwrap();
        for cpu in (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)) {
            pin(cpu);
            assert_eq!((cpus.current(), cpus.cpu_id()), (cpu, cpu as u32));
        }
        sched_setaffinity(None, &allowed).unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri starts no programs")]
    fn sequences_that_are_not_registered_are_not_used() {
        const CHILD: &str = "IOTOLL_TEST_WITHOUT_SEQUENCES";
        if std::env::var_os(CHILD).is_some() {
            assert_eq!(registered_area(), None);
            return assert!(Rseq::new().is_none());
        }
        let name = "percpu::rseq::tests::sequences_that_are_not_registered_are_not_used";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", name]).env(CHILD, "1").env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
        let result = child.output().unwrap();
        assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stdout));
    }

    /// Steps that a thread has begun, that it was told to end, and that it has done.
    #[derive(Default)]
    struct Steps {
        begun: AtomicU64,
        told: AtomicU64,
        done: AtomicU64,
    }

    /// Begins a step that lasts until it is told to end. Returns whether it was done rather than abandoned.
    fn endless_step(cpus: &Rseq, steps: &Steps, number: u64) -> bool {
        // SAFETY: as in `Rseq::pop`, with three borrowed atomics. The first store only tells that the step has begun.
        unsafe {
            asm!(
                begin!(),
                "cmp fs:[{area} + 4], {cpu:e}",
                "jne 5f",
                "mov qword ptr [{begun}], {number}",
                "8:",
                "cmp qword ptr [{told}], {number}",
                "jne 8b",
                "mov qword ptr [{done}], {number}",
                end!("", "{given_up}"),
                area = in(reg) cpus.area.get(),
                cpu = in(reg) cpus.current(),
                begun = in(reg) steps.begun.as_ptr(),
                told = in(reg) steps.told.as_ptr(),
                done = in(reg) steps.done.as_ptr(),
                number = in(reg) number,
                rest = out(reg) _,
                given_up = label { return false },
                options(nostack)
            );
        }
        true
    }

    /// Lets the calling thread run only on this CPU.
    fn pin(cpu: usize) {
        let mut one = CpuSet::new();
        one.set(cpu);
        sched_setaffinity(None, &one).unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no assembly")]
    fn a_fence_abandons_the_step_of_another_cpu() {
        let allowed = sched_getaffinity(None).unwrap();
        let mut two = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
        let (Some(cpus), Some(here), Some(there)) = (Rseq::new(), two.next(), two.next()) else { return };
        let steps = Steps::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pin(there);
                for number in 1..=STEPS {
                    endless_step(&cpus, &steps, number);
                    // A step that was abandoned before it began has not told so.
                    steps.begun.store(number, Ordering::Relaxed);
                    while steps.told.load(Ordering::Relaxed) != number {
                        std::hint::spin_loop();
                    }
                }
            });
            pin(here);
            for number in 1..=STEPS {
                while steps.begun.load(Ordering::Relaxed) != number {
                    std::hint::spin_loop();
                }
                cpus.fence(there);
                steps.told.store(number, Ordering::Relaxed);
            }
        });
        sched_setaffinity(None, &allowed).unwrap();
        assert_eq!(steps.done.into_inner(), 0, "a step went on after the fence");
    }

    /// One thread allocates and frees all the time, while another empties its CPU's stack.
    #[test]
    fn ranges_collected_from_a_cpu_during_its_steps_are_collected_once() {
        let Some(cpus) = Rseq::new() else { return };
        let space = Space::new(1, 1 << 16);
        let allocator = Percpu::checked(&space, 0, cpus).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let page = Request::new(1, space.last);
                while !done.load(Ordering::Relaxed) {
                    let firsts = [(); 3].map(|()| allocator.allocate(&page).unwrap());
                    assert!(firsts[0] != firsts[1] && firsts[1] != firsts[2] && firsts[2] != firsts[0]);
                    firsts.iter().for_each(|first| allocator.free(page.range(*first)).unwrap());
                }
            });
            for _ in 0..COLLECTIONS {
                allocator.collect(space.last);
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(allocator.allocate(&Request::new(1 << 16, space.last)), Ok(1));
    }
}
