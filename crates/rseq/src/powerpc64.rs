//! The sequences for 64-bit POWER, little endian (ELFv2).
//!
//! Of a sequence's accesses only the load of the count in [`pop`] has an order, Acquire: a branch that depends on it, and `isync`
//! (Power ISA, book II, "Import and Export Barriers"). [The crate](crate#memory-order) says why no other needs one.

use super::CLOSED;
use core::arch::asm;
use core::sync::atomic::AtomicU64;

/// Offset of the `struct rseq` from the thread pointer, r13.
pub(crate) use core::num::NonZeroIsize as Area;

/// The address of label 9, in `{rest}`. It is relative to the next instruction, whose address `bcl` stores in the link register:
/// the register of the table of contents (r2) is valid only in functions that the compiler has use it. Processors know this form
/// of `bcl` as no call, so that returns are still predicted.
macro_rules! address_of_9 {
    () => {
        concat!(
            "mflr {rseq}\n",
            "bcl 20, 31, 8f\n",
            "8:\n",
            "mflr {rest}\n",
            "mtlr {rseq}\n",
            "addis {rest}, {rest}, (9b - 8b)@ha\n",
            "addi {rest}, {rest}, (9b - 8b)@l\n",
        )
    };
}

/// The begin of a sequence: `{rseq}` becomes the address of the thread's `struct rseq`. The descriptor (`struct rseq_cs`) is at
/// label 9, and the store activates it. The sequence starts at label 3, and is abandoned at 7 if interrupted.
macro_rules! begin {
    () => {
        concat!(
            ".pushsection __rseq_cs, \"aw\", @progbits\n",
            ".balign 32\n",
            "9:\n",
            ".long 0, 0\n",
            ".quad 3f, 4f - 3f, 7f\n",
            ".popsection\n",
            address_of_9!(),
            "add {rseq}, 13, {area}\n",
            "std {rest}, 8({rseq})\n",
            "3:"
        )
    };
}

/// Computes the address of a stack of the current CPU, in a sequence: `{stack}` is its address for CPU 0 before. Abandons
/// the sequence at 5 if the thread is not registered, whose CPU is a large number.
macro_rules! find_stack {
    () => {
        concat!(
            "lwz {rest}, 4({rseq})\n",
            "cmplw {rest}, {cpus}\n",
            "bge 5f\n",
            "sldi {rest}, {rest}, {shift}\n",
            "add {stack}, {stack}, {rest}"
        )
    };
}

/// The end of a sequence, behind its last store. An abandoned sequence executes `$given_up`.
///
/// The kernel requires a signature before the address where an interrupted sequence continues. The C library defines it: a
/// trap, which is never executed. It stands between the instructions, because a conditional branch reaches 32 KiB only.
macro_rules! end {
    ($given_up:literal) => {
        concat!("4:\n", "b 6f\n", ".long 0x0fe5000b\n", "7:\n", "5:\n", $given_up, "\n6:")
    };
}

/// The address of a variable of the C library; null if it has none of that name.
macro_rules! weak_symbol {
    ($name:literal) => {{
        let address;
        // SAFETY: reads a word that the linker or the dynamic linker sets to the address of a weak symbol, or to 0.
        unsafe {
            asm!(
                concat!(".weak ", $name),
                ".pushsection .data.rel.ro, \"aw\", @progbits",
                ".balign 8",
                "9:",
                concat!(".quad ", $name),
                ".popsection",
                $crate::arch::address_of_9!(),
                "ld {rest}, 0({rest})",
                rest = out(reg_nonzero) address,
                rseq = out(reg) _,
                options(nostack, preserves_flags, readonly)
            );
        }
        address
    }};
}
pub(crate) use {address_of_9, weak_symbol};

/// The fields `cpu_id_start` (`FIELD` 0) and `cpu_id` (`FIELD` 4) of this thread.
///
/// # Safety
/// `area` must be the offset of the `struct rseq` of each thread.
#[inline(always)]
pub(crate) unsafe fn cpu_field<const FIELD: usize>(area: Area) -> usize {
    // Reading 32 bits clears the upper half of the register.
    let cpu;
    // SAFETY: reads one of the area's fields, as the caller guarantees.
    unsafe {
        asm!("add {cpu}, 13, {area}", "lwz {cpu}, {field}({cpu})", cpu = out(reg_nonzero) cpu, area = in(reg) area.get(),
            field = const FIELD, options(nostack, preserves_flags, readonly));
    }
    cpu
}

/// Says that this thread runs on CPU 0.
///
/// # Safety
/// As for [`cpu_field`]. The kernel must not use the area.
pub(crate) unsafe fn pretend_cpu_0(area: Area) {
    // SAFETY: as the caller guarantees. The fields are neighbours.
    unsafe {
        asm!("stdx {zero}, 13, {area}", zero = in(reg) 0_u64, area = in(reg) area.get(), options(nostack, preserves_flags));
    }
}

/// See [`crate::Rseq::try_pop`].
///
/// # Safety
/// As there, and for [`cpu_field`].
#[inline(always)]
pub(crate) unsafe fn pop<const SHIFT: u32>(
    area: Area,
    stack: *mut AtomicU64,
    cpus: usize,
    more: u64,
    limit: u64,
) -> u64 {
    let value: u64;
    // SAFETY: the caller guarantees that the stacks of all CPUs below `cpus` are at these addresses, and that their counts are not
    // too large. The stores are to the thread's own area and, last, to the count. To other CPUs the accesses are like those of
    // atomics: aligned 8-byte loads and stores.
    unsafe {
        asm!(
            begin!(),
            find_stack!(),
            "ld {rest}, 0({stack})",
            "cmpdi {rest}, 0",
            "ble 5f",
            "isync",
            "addi {rest}, {rest}, -1",
            "sldi {value}, {rest}, 3",
            "add {value}, {value}, {stack}",
            "ld {value}, 16({value})",
            "add {more}, {more}, {value}",
            "cmpld {more}, {limit}",
            "bgt 5f",
            "std {rest}, 0({stack})",
            end!("li {value}, -1"),
            area = in(reg) area.get(),
            rseq = out(reg_nonzero) _,
            cpus = in(reg) cpus,
            stack = inout(reg_nonzero) stack => _,
            more = inout(reg) more => _,
            limit = in(reg) limit,
            value = out(reg_nonzero) value,
            rest = out(reg_nonzero) _,
            shift = const SHIFT,
            out("cr0") _,
            options(nostack)
        );
    }
    value
}

/// See [`crate::Rseq::try_push`]. Returns the new count, or 0 if the step was not done.
///
/// # Safety
/// As there, and for [`cpu_field`].
#[inline(always)]
pub(crate) unsafe fn push<const SHIFT: u32>(
    area: Area,
    stack: *mut AtomicU64,
    cpus: usize,
    capacity: u64,
    value: u64,
) -> u64 {
    let count: u64;
    // SAFETY: as in `pop`. The store before the last one is to a word above the count, whose value no thread relies on, so
    // an interruption after it has no effect.
    unsafe {
        asm!(
            begin!(),
            find_stack!(),
            "ld {rest}, 0({stack})",
            "cmpld {rest}, {capacity}",
            "bge 5f",
            "sldi {rseq}, {rest}, 3",
            "add {rseq}, {rseq}, {stack}",
            "std {value}, 16({rseq})",
            "addi {rest}, {rest}, 1",
            "std {rest}, 0({stack})",
            end!("li {rest}, 0"),
            area = in(reg) area.get(),
            rseq = out(reg_nonzero) _,
            cpus = in(reg) cpus,
            stack = inout(reg_nonzero) stack => _,
            capacity = in(reg) capacity,
            value = in(reg) value,
            rest = out(reg_nonzero) count,
            shift = const SHIFT,
            out("cr0") _,
            options(nostack)
        );
    }
    count
}

/// See [`crate::Rseq::try_close`]. Returns `CLOSED` if the step was not done.
///
/// # Safety
/// As there, and for [`cpu_field`].
pub(crate) unsafe fn close(area: Area, cpu: usize, count_at: *mut AtomicU64) -> u64 {
    const _: () = assert!(CLOSED == -2_i64 as u64);
    let count: u64;
    // SAFETY: as in `pop`, with a word that the caller says is a count.
    unsafe {
        asm!(
            begin!(),
            "lwz {rest}, 4({rseq})",
            "cmplw {rest}, {cpu}",
            "bne 5f",
            "li {rest}, -2",
            "ld {count}, 0({count_at})",
            "std {rest}, 0({count_at})",
            end!("li {count}, -2"),
            area = in(reg) area.get(),
            rseq = out(reg_nonzero) _,
            cpu = in(reg) cpu,
            count_at = in(reg_nonzero) count_at,
            count = out(reg) count,
            rest = out(reg_nonzero) _,
            out("cr0") _,
            options(nostack)
        );
    }
    count
}

/// See [`crate::Rseq::wait_in_step`].
///
/// # Safety
/// As for [`cpu_field`].
pub(crate) unsafe fn wait(area: Area, begun: &AtomicU64, end: &AtomicU64, number: u64) -> u64 {
    let is_done: u64;
    // SAFETY: as in `pop`, with borrowed atomics. The store to `begun` has its effect whether or not the step is done.
    unsafe {
        asm!(
            begin!(),
            "std {number}, 0({begun})",
            "2:",
            "ld {rest}, 0({end})",
            "cmpld {rest}, {number}",
            "bne 2b",
            "li {rest}, 1",
            end!("li {rest}, 0"),
            area = in(reg) area.get(),
            rseq = out(reg_nonzero) _,
            begun = in(reg_nonzero) begun.as_ptr(),
            end = in(reg_nonzero) end.as_ptr(),
            number = in(reg) number,
            rest = out(reg_nonzero) is_done,
            out("cr0") _,
            options(nostack)
        );
    }
    is_done
}
