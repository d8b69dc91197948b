//! Steps on a CPU by Linux's restartable sequences: no atomic instruction, no lock.
//!
//! A thread writes the address of a descriptor into the area that the C library registered for it (`struct rseq`, Linux's
//! `include/uapi/linux/rseq.h`; glibc since 2.35). If the kernel preempts it, migrates it or delivers it a signal between
//! the two addresses in the descriptor, it goes on at a third, where the step gives up. The last instruction of a
//! sequence is its only store: a step is done wholly or not at all.

#![allow(unsafe_code, reason = "restartable sequences are addresses of instructions")]

use super::cpus::{Cpus, Exchange};
use crate::sync::{AtomicU64, Ordering};
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

/// Goes to 5 unless `guard` is `guard_is`.
macro_rules! guarded {
    () => {
        "cmp qword ptr [{guard}], {guard_is}\njne 5f"
    };
}

/// Ends a sequence, behind its last store. One that gives up goes on behind this, after it did what is given.
///
/// The kernel wants a signature before the address where an interrupted sequence goes on. The C library chose it, and
/// disassemblers take it with the bytes before it for an instruction that never executes.
macro_rules! end {
    ($given_up:literal) => {
        concat!(
            "4:\n",
            ".pushsection __rseq_failure, \"ax\", @progbits\n",
            ".byte 0x0f, 0xb9, 0x3d\n",
            ".long 0x53053053\n",
            "7:\n",
            "5:\n",
            $given_up,
            "\njmp 6f\n",
            ".popsection\n",
            "6:"
        )
    };
}

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
    let (offset, size): (*const isize, *const u32);
    // SAFETY: weak symbols, whose addresses the linker resolves or leaves 0. Nothing is read but those addresses.
    unsafe {
        asm!(
            ".weak __rseq_offset",
            ".weak __rseq_size",
            "mov {offset}, [rip + __rseq_offset@GOTPCREL]",
            "mov {size}, [rip + __rseq_size@GOTPCREL]",
            offset = out(reg) offset,
            size = out(reg) size,
            options(nostack, preserves_flags, readonly)
        );
    }
    if offset.is_null() || size.is_null() {
        return None;
    }
    // SAFETY: they are there, and glibc (manual, "Restartable Sequences") declares them so: constants of the process.
    let (offset, size) = unsafe { (*offset, *size) };
    (size > 0).then_some(offset)
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
        let cpu: u32;
        // SAFETY: as in `cpu_id`. This field, `cpu_id_start`, is always the number of a CPU, or 0.
        unsafe {
            asm!("mov {cpu:e}, fs:[{area}]", cpu = out(reg) cpu, area = in(reg) self.area,
                options(nostack, preserves_flags, readonly));
        }
        cpu as usize
    }

    #[inline(always)]
    fn take(&self, cpu: usize, guard: &AtomicU64, guard_is: u64, word: &AtomicU64) -> u64 {
        let old;
        // SAFETY: the sequence from 3 to 4 reads this thread's `struct rseq` and two atomics and stores to one of them as
        // its last instruction, all valid as they are borrowed. It neither calls nor touches the stack. Interrupted, it
        // goes on at 7, which the signature precedes, with the same registers, of which only `old` and `rest` are
        // written; both are outputs. The descriptor has the program's lifetime. Another CPU's concurrent access is that
        // of relaxed atomics on this architecture: aligned 8-byte loads and stores.
        unsafe {
            asm!(
                begin!(),
                guarded!(),
                "mov {old}, qword ptr [{word}]",
                "lea {rest}, [{old} - 1]",
                "and {rest}, {old}",
                "mov qword ptr [{word}], {rest}",
                end!("xor {old:e}, {old:e}"),
                area = in(reg) self.area,
                cpu = in(reg) cpu,
                guard = in(reg) guard.as_ptr(),
                guard_is = in(reg) guard_is,
                word = in(reg) word.as_ptr(),
                old = out(reg) old,
                rest = out(reg) _,
                options(nostack)
            );
        }
        old
    }

    #[inline(always)]
    fn put(&self, cpu: usize, guard: &AtomicU64, guard_is: u64, word: &AtomicU64, bits: u64) -> u64 {
        let old;
        // SAFETY: as in `take`.
        unsafe {
            asm!(
                begin!(),
                guarded!(),
                "mov {old}, qword ptr [{word}]",
                "mov {rest}, {old}",
                "or {rest}, {bits}",
                "mov qword ptr [{word}], {rest}",
                end!("mov {old}, -1"),
                area = in(reg) self.area,
                cpu = in(reg) cpu,
                guard = in(reg) guard.as_ptr(),
                guard_is = in(reg) guard_is,
                word = in(reg) word.as_ptr(),
                bits = in(reg) bits,
                old = out(reg) old,
                rest = out(reg) _,
                options(nostack)
            );
        }
        old
    }

    fn exchange(&self, cpu: usize, word: &AtomicU64, old: u64, new: u64) -> Exchange {
        let (mut state, found): (u32, u64);
        // SAFETY: as in `take`; the last instruction is an atomic exchange.
        unsafe {
            asm!(
                "mov {state:e}, 1",
                begin!(),
                "lock cmpxchg qword ptr [{word}], {new}",
                end!("xor {state:e}, {state:e}"),
                area = in(reg) self.area,
                cpu = in(reg) cpu,
                word = in(reg) word.as_ptr(),
                new = in(reg) new,
                state = out(reg) state,
                rest = out(reg) _,
                inout("rax") old => found,
                options(nostack)
            );
        }
        state += u32::from(state == 1 && found != old);
        match state {
            0 => Exchange::Elsewhere,
            1 => Exchange::Done,
            _ => Exchange::Changed,
        }
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
