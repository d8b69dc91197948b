//! The sequences for 64-bit Arm.
//!
//! Of a sequence's accesses only the load of the count in [`pop`] has an order, Acquire (`ldar`). [The crate](crate#memory-order)
//! says why no other needs one.

use super::CLOSED;
use core::arch::asm;
use core::sync::atomic::AtomicU64;

/// Offset of the `struct rseq` from the thread pointer.
pub(crate) use core::num::NonZeroIsize as Area;

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
            "mrs {rseq}, tpidr_el0\n",
            "add {rseq}, {rseq}, {area}\n",
            "adrp {rest}, 9b\n",
            "add {rest}, {rest}, :lo12:9b\n",
            "str {rest}, [{rseq}, #8]\n",
            "3:"
        )
    };
}

/// Computes the address of a stack of the current CPU, in a sequence: `{stack}` is its address for CPU 0 before. Abandons
/// the sequence at 5 if the thread is not registered, whose CPU is a large number.
macro_rules! find_stack {
    () => {
        concat!(
            "ldr {rest:w}, [{rseq}, #4]\n",
            "cmp {rest:w}, {cpus:w}\n",
            "b.hs 5f\n",
            "add {stack}, {stack}, {rest}, lsl #{shift}"
        )
    };
}

/// The end of a sequence, behind its last store. An abandoned sequence executes `$given_up`.
///
/// The kernel requires a signature before the address where an interrupted sequence continues. The C library defines it: a
/// breakpoint, which is never executed. It stands in a subsection behind the function, where conditional branches reach it.
macro_rules! end {
    ($given_up:literal) => {
        concat!(
            "4:\n",
            ".subsection 1\n",
            ".inst 0xd428bc00\n",
            "7:\n",
            "5:\n",
            $given_up,
            "\nb 6f\n",
            ".previous\n",
            "6:"
        )
    };
}

/// The address of a variable of the C library; null if it has none of that name.
macro_rules! weak_symbol {
    ($name:literal) => {{
        let address;
        // SAFETY: reads only the address of a weak symbol, which the linker resolves or sets to 0.
        unsafe {
            asm!(concat!(".weak ", $name), concat!("adrp {address}, :got:", $name),
                concat!("ldr {address}, [{address}, :got_lo12:", $name, "]"), address = out(reg) address,
                options(nostack, preserves_flags, readonly));
        }
        address
    }};
}
pub(crate) use weak_symbol;

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
        asm!("mrs {cpu}, tpidr_el0", "add {cpu}, {cpu}, {area}", "ldr {cpu:w}, [{cpu}, #{field}]", cpu = out(reg) cpu,
            area = in(reg) area.get(), field = const FIELD, options(nostack, preserves_flags, readonly));
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
        asm!("mrs {rseq}, tpidr_el0", "str xzr, [{rseq}, {area}]", rseq = out(reg) _, area = in(reg) area.get(),
            options(nostack, preserves_flags));
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
            "ldar {rest}, [{stack}]",
            "subs {rest}, {rest}, #1",
            "b.mi 5f",
            "add {value}, {stack}, {rest}, lsl #3",
            "ldr {value}, [{value}, #16]",
            "add {more}, {more}, {value}",
            "cmp {more}, {limit}",
            "b.hi 5f",
            "str {rest}, [{stack}]",
            end!("mov {value}, #-1"),
            area = in(reg) area.get(),
            rseq = out(reg) _,
            cpus = in(reg) cpus,
            stack = inout(reg) stack => _,
            more = inout(reg) more => _,
            limit = in(reg) limit,
            value = out(reg) value,
            rest = out(reg) _,
            shift = const SHIFT,
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
            "ldr {rest}, [{stack}]",
            "cmp {rest}, {capacity}",
            "b.hs 5f",
            "add {rseq}, {stack}, {rest}, lsl #3",
            "str {value}, [{rseq}, #16]",
            "add {rest}, {rest}, #1",
            "str {rest}, [{stack}]",
            end!("mov {rest}, #0"),
            area = in(reg) area.get(),
            rseq = out(reg) _,
            cpus = in(reg) cpus,
            stack = inout(reg) stack => _,
            capacity = in(reg) capacity,
            value = in(reg) value,
            rest = out(reg) count,
            shift = const SHIFT,
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
            "ldr {rest:w}, [{rseq}, #4]",
            "cmp {rest:w}, {cpu:w}",
            "b.ne 5f",
            "mov {rest}, #-2",
            "ldr {count}, [{count_at}]",
            "str {rest}, [{count_at}]",
            end!("mov {count}, #-2"),
            area = in(reg) area.get(),
            rseq = out(reg) _,
            cpu = in(reg) cpu,
            count_at = in(reg) count_at,
            count = out(reg) count,
            rest = out(reg) _,
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
            "str {number}, [{begun}]",
            "8:",
            "ldr {rest}, [{end}]",
            "cmp {rest}, {number}",
            "b.ne 8b",
            "mov {rest}, #1",
            end!("mov {rest}, #0"),
            area = in(reg) area.get(),
            rseq = out(reg) _,
            begun = in(reg) begun.as_ptr(),
            end = in(reg) end.as_ptr(),
            number = in(reg) number,
            rest = out(reg) is_done,
            options(nostack)
        );
    }
    is_done
}
