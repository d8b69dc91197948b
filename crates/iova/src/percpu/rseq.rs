//! Steps on a CPU by Linux's restartable sequences: no atomic instruction, no lock.
//!
//! A thread writes the address of a descriptor into the area that the C library registered for it (`struct rseq`, Linux's
//! `include/uapi/linux/rseq.h`; glibc since 2.35). If the kernel preempts it, migrates it or delivers it a signal between
//! the two addresses in the descriptor, it goes on at a third, where the step gives up. The last instruction of a
//! sequence is the store that counts: a step is done wholly or not at all.

#![allow(unsafe_code, reason = "restartable sequences are addresses of instructions")]

use super::cpus::Cpus;
use super::stack::{CLOSED, NO_PAGE, Stack};
use crate::sync::Ordering;
use core::arch::asm;
use rustix::thread::{
    Cpuid, MembarrierCommand, MembarrierQuery, membarrier, membarrier_cpu, membarrier_query,
};

/// Begins a sequence, from label 3 on, which gives up at 7 when interrupted and goes to 5 on another CPU than `cpu`: its
/// descriptor (`struct rseq_cs`, at label 9), and the store that makes the kernel look at it.
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
            "3:\n",
            "cmp fs:[{area} + 4], {cpu:e}\n",
            "jne 5f"
        )
    };
}

/// Ends a sequence, behind its last store. One that gives up does what is given and goes where is given.
///
/// The kernel wants a signature before the address where an interrupted sequence goes on. The C library chose it, and
/// disassemblers take it with the bytes before it for an instruction that never executes.
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

const _: () =
    assert!(NO_PAGE == -1_i64 as u64 && CLOSED == -2_i64 as u64, "they are written so in the sequences");

/// Restartable sequences of this process.
#[derive(Debug)]
pub struct Rseq {
    /// From a thread's pointer to its `struct rseq`.
    area: isize,
    cpus: usize,
}

impl Rseq {
    /// Where kernel (5.10 or newer) and C library (glibc 2.35 or newer) have them.
    pub fn new() -> Option<Self> {
        let area = area()?;
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

    /// For counting instructions in an emulator that has no such sequences, as valgrind: they are executed, and nothing would
    /// interrupt them. Nothing if the C library has no place for them.
    ///
    /// # Safety
    /// No other thread may use what is made with it, and the kernel must not have registered this one.
    pub unsafe fn unregistered() -> Option<Self> {
        let area = place()?;
        // SAFETY: `area` is where the C library keeps a `struct rseq` for each thread, of which the kernel, as the caller
        // says, knows nothing. This thread is on the only CPU, number 0, by `cpu_id_start` and `cpu_id`.
        unsafe {
            asm!("mov dword ptr fs:[{area}], 0", "mov dword ptr fs:[{area} + 4], 0", area = in(reg) area,
                options(nostack, preserves_flags));
        }
        Some(Self { area, cpus: 1 })
    }

    /// `cpu_id` of this thread: above all CPUs where the thread is not registered.
    fn cpu_id(&self) -> u32 {
        let cpu;
        // SAFETY: `area` is where the C library says each thread has a `struct rseq`, of which this reads a field.
        unsafe {
            asm!("mov {cpu:e}, fs:[{area} + 4]", cpu = out(reg) cpu, area = in(reg) self.area,
                options(nostack, preserves_flags, readonly));
        }
        cpu
    }
}

/// Where threads have their `struct rseq`, if the C library registers it.
fn area() -> Option<isize> {
    let size: *const u32;
    // SAFETY: a weak symbol, whose address the linker resolves or leaves 0. Nothing is read but that address.
    unsafe {
        asm!(".weak __rseq_size", "mov {size}, [rip + __rseq_size@GOTPCREL]", size = out(reg) size,
            options(nostack, preserves_flags, readonly));
    }
    // SAFETY: if it is there, glibc (manual, "Restartable Sequences") declares it so: a constant of the process.
    let is_registered = !size.is_null() && unsafe { *size } > 0;
    if is_registered { place() } else { None }
}

/// Where the C library has a place for each thread's `struct rseq`.
fn place() -> Option<isize> {
    let offset: *const isize;
    // SAFETY: as in `area`.
    unsafe {
        asm!(".weak __rseq_offset", "mov {offset}, [rip + __rseq_offset@GOTPCREL]", offset = out(reg) offset,
            options(nostack, preserves_flags, readonly));
    }
    // SAFETY: as in `area`.
    (!offset.is_null()).then(|| unsafe { *offset })
}

/// Linux may number CPUs up to the highest that it could ever have, with holes.
fn possible_cpus() -> Option<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").ok()?;
    let highest: usize = text.trim().rsplit([',', '-']).next()?.parse().ok()?;
    Some(highest + 1)
}

impl Cpus for Rseq {
    fn count(&self) -> usize {
        self.cpus
    }

    #[inline(always)]
    fn current(&self) -> usize {
        // 32 bits are read, the others are 0 then.
        let cpu;
        // SAFETY: as in `cpu_id`. This field, `cpu_id_start`, is always the number of a CPU, or 0.
        unsafe {
            asm!("mov {cpu:e}, fs:[{area}]", cpu = out(reg) cpu, area = in(reg) self.area,
                options(nostack, preserves_flags, readonly));
        }
        cpu
    }

    #[inline(always)]
    fn take_top(&self, cpu: usize, stack: &Stack, more: u64, limit: u64) -> Option<u64> {
        let page: u64;
        // SAFETY: the sequence from 3 to 4 reads this thread's `struct rseq` and an atomic, borrowed and so valid, to which it
        // stores as its last instruction. It neither calls nor touches the stack. Interrupted, it goes on at 7, which the
        // signature precedes, with the same registers, of which only outputs are written. The descriptor has the
        // program's lifetime. Another CPU's concurrent access is that of relaxed atomics on this architecture: aligned
        // 8-byte loads and stores, which it sees in the order in which they were made.
        unsafe {
            asm!(
                begin!(),
                "mov {page}, qword ptr [{top}]",
                "test {page}, {page}",
                "js 5f",
                "lea {rest}, [{page} + {more}]",
                "cmp {rest}, {limit}",
                "ja 5f",
                "mov qword ptr [{top}], -1",
                end!("mov {page}, -1", "6f"),
                area = in(reg) self.area,
                cpu = in(reg) cpu,
                top = in(reg) stack.top.as_ptr(),
                more = in(reg) more,
                limit = in(reg) limit,
                page = out(reg) page,
                rest = out(reg) _,
                options(nostack)
            );
        }
        (page != NO_PAGE).then_some(page)
    }

    #[inline(always)]
    fn put_top(&self, cpu: usize, stack: &Stack, page: u64) -> bool {
        // SAFETY: as in `take_top`.
        unsafe {
            asm!(
                begin!(),
                "cmp qword ptr [{top}], -1",
                "jne 5f",
                "mov qword ptr [{top}], {page}",
                end!("", "{given_up}"),
                area = in(reg) self.area,
                cpu = in(reg) cpu,
                top = in(reg) stack.top.as_ptr(),
                page = in(reg) page,
                rest = out(reg) _,
                given_up = label { return false },
                options(nostack)
            );
        }
        true
    }

    #[inline]
    fn pop(&self, cpu: usize, stack: &Stack, more: u64, limit: u64) -> Option<u64> {
        let page: u64;
        // SAFETY: as in `take_top`. A count is CLOSED, with which it reads no page, or at most that of the pages (`Stack`).
        unsafe {
            asm!(
                begin!(),
                "mov {left}, qword ptr [{count}]",
                "sub {left}, 1",
                "js 5f",
                "mov {page}, qword ptr [{pages} + 8 * {left}]",
                "lea {rest}, [{page} + {more}]",
                "cmp {rest}, {limit}",
                "ja 5f",
                "mov qword ptr [{count}], {left}",
                end!("mov {page}, -1", "6f"),
                area = in(reg) self.area,
                cpu = in(reg) cpu,
                count = in(reg) stack.count.as_ptr(),
                pages = in(reg) stack.pages.as_ptr(),
                more = in(reg) more,
                limit = in(reg) limit,
                left = out(reg) _,
                page = out(reg) page,
                rest = out(reg) _,
                options(nostack)
            );
        }
        (page != NO_PAGE).then_some(page)
    }

    #[inline]
    fn push(&self, cpu: usize, stack: &Stack, page: u64) -> bool {
        // SAFETY: as in `pop`. The store before the last one is to a place above the count, where nobody reads: a
        // sequence that is interrupted after it has done nothing.
        unsafe {
            asm!(
                begin!(),
                "mov {rest}, qword ptr [{count}]",
                "cmp {rest}, {capacity}",
                "jae 5f",
                "mov qword ptr [{pages} + 8 * {rest}], {page}",
                "add {rest}, 1",
                "mov qword ptr [{count}], {rest}",
                end!("", "{given_up}"),
                area = in(reg) self.area,
                cpu = in(reg) cpu,
                count = in(reg) stack.count.as_ptr(),
                pages = in(reg) stack.pages.as_ptr(),
                capacity = in(reg) stack.pages.len(),
                page = in(reg) page,
                rest = out(reg) _,
                given_up = label { return false },
                options(nostack)
            );
        }
        true
    }

    fn close(&self, cpu: usize, stack: &Stack) -> Option<u64> {
        let count: u64;
        // SAFETY: as in `take_top`.
        unsafe {
            asm!(
                begin!(),
                "mov {count}, qword ptr [{count_at}]",
                "mov qword ptr [{count_at}], -2",
                end!("mov {count}, -2", "6f"),
                area = in(reg) self.area,
                cpu = in(reg) cpu,
                count_at = in(reg) stack.count.as_ptr(),
                count = out(reg) count,
                rest = out(reg) _,
                options(nostack)
            );
        }
        // It is open: who closes it holds its lock.
        (count != CLOSED).then_some(count)
    }

    fn fence(&self, cpu: usize) {
        // The kernel interrupts the sequences of that CPU; should it refuse to single one out, those of all.
        // SAFETY: any number is sound; the kernel takes one that it has no such CPU for as nothing to do.
        let cpu = unsafe { Cpuid::from_raw(cpu as u32) };
        if membarrier_cpu(MembarrierCommand::PrivateExpeditedRseq, cpu).is_err() {
            let all = membarrier(MembarrierCommand::PrivateExpeditedRseq);
            assert!(all.is_ok(), "the kernel took back membarrier, which it had registered: {all:?}");
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
    /// Numbers that a thread has at first.
    const HELD: u64 = 8;
    const MOVES: usize = 2_000;
    const COLLECTIONS: usize = 60_000;

    /// Takes a number from the stack of its CPU or puts one there, wherever it is, and returns those it has at the end.
    fn work(cpus: &Rseq, stacks: &[Stack], mut held: Vec<u64>, done: &AtomicBool) -> Vec<u64> {
        for turn in 0_u64.. {
            let cpu = cpus.current();
            let stack = &stacks[cpu];
            match (turn % 4, held.last()) {
                (0, _) => held.extend(cpus.take_top(cpu, stack, 0, u64::MAX)),
                (1, _) => held.extend(cpus.pop(cpu, stack, 0, u64::MAX)),
                (2, Some(last)) if cpus.put_top(cpu, stack, *last) => drop(held.pop()),
                (3, Some(last)) if cpus.push(cpu, stack, *last) => drop(held.pop()),
                _ if done.load(Ordering::Relaxed) => break,
                _ => {}
            }
        }
        held
    }

    /// Puts threads on one CPU after the other.
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
    fn a_step_of_a_thread_that_is_moved_is_done_wholly_or_not_at_all() {
        let Some(cpus) = Rseq::new() else { return };
        let stacks: Vec<Stack> = (0..cpus.count()).map(|_| Stack::new(64)).collect();
        let done = AtomicBool::new(false);
        let (sender, threads) = mpsc::channel();
        let mut all: Vec<u64> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (sender, cpus, stacks, done) = (sender.clone(), &cpus, &stacks, &done);
                    scope.spawn(move || {
                        sender.send(gettid()).unwrap();
                        work(cpus, stacks, (thread * HELD..(thread + 1) * HELD).collect(), done)
                    })
                })
                .collect();
            move_all(&threads.iter().take(THREADS as usize).collect::<Vec<_>>());
            done.store(true, Ordering::Relaxed);
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
        });
        for stack in &stacks {
            let count = |word: &AtomicU64| word.load(Ordering::Relaxed);
            all.extend(stack.closed(count(&stack.count)).take(usize::MAX));
            all.extend(Some(count(&stack.top)).filter(|top| *top != NO_PAGE));
        }
        all.sort_unstable();
        assert_eq!(all, (0..THREADS * HELD).collect::<Vec<_>>());
    }
    /// Collected as often as a CPU has anything, while a thread there takes and puts without end.
    #[test]
    fn what_is_taken_from_a_cpu_in_the_midst_of_its_steps_is_taken_once() {
        let Some(cpus) = Rseq::new() else { return };
        let space = Space::new(1, 1 << 16);
        let allocator = Percpu::new(&space, 0, cpus).unwrap();
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
