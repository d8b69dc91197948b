//! The sequences for x86-64.
//!
//! The architecture keeps loads in order, and stores, and a load before later stores. So each load is an Acquire and each store a
//! Release.

use super::CLOSED;
use core::arch::asm;
use core::sync::atomic::AtomicU64;

/// Offset of the `struct rseq` from the thread pointer, where the pointer itself is.
pub(crate) use core::num::NonZeroIsize as Area;

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
            "shl {rest}, {shift}\n",
            "add {stack}, {rest}"
        )
    };
}

/// The end of a sequence, behind its last store. An abandoned sequence executes `$given_up`.
///
/// The kernel requires a signature before the address where an interrupted sequence continues. The C library defines it.
/// With the bytes before it, disassemblers decode it as an instruction, which is never executed.
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

/// The address of a variable of the C library; null if it has none of that name.
macro_rules! weak_symbol {
    ($name:literal) => {{
        let address;
        // SAFETY: reads only the address of a weak symbol, which the linker resolves or sets to 0.
        unsafe {
            asm!(concat!(".weak ", $name), concat!("mov {address}, [rip + ", $name, "@GOTPCREL]"), address = out(reg) address,
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
        asm!("mov {cpu:e}, fs:[{area} + {field}]", cpu = out(reg) cpu, area = in(reg) area.get(), field = const FIELD,
            options(nostack, preserves_flags, readonly));
    }
    cpu
}

/// Says that this thread runs on CPU 0.
///
/// # Safety
/// As for [`cpu_field`]. The kernel must not use the area.
pub(crate) unsafe fn pretend_cpu_0(area: Area) {
    // SAFETY: as the caller guarantees.
    unsafe {
        asm!("mov dword ptr fs:[{area}], 0", "mov dword ptr fs:[{area} + 4], 0", area = in(reg) area.get(),
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
    // atomics on this architecture: aligned 8-byte loads and stores, visible in program order.
    unsafe {
        asm!(
            begin!(),
            find_stack!(),
            "mov {rest}, qword ptr [{stack}]",
            "sub {rest}, 1",
            "js 5f",
            "mov {value}, qword ptr [{stack} + 8 * {rest} + 16]",
            "add {more}, {value}",
            "cmp {more}, {limit}",
            "ja 5f",
            "mov qword ptr [{stack}], {rest}",
            end!("mov {value}, -1"),
            area = in(reg) area.get(),
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
            "mov {rest}, qword ptr [{stack}]",
            "cmp {rest}, {capacity}",
            "jae 5f",
            "mov qword ptr [{stack} + 8 * {rest} + 16], {value}",
            "add {rest}, 1",
            "mov qword ptr [{stack}], {rest}",
            end!("xor {rest:e}, {rest:e}"),
            area = in(reg) area.get(),
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
            "cmp fs:[{area} + 4], {cpu:e}",
            "jne 5f",
            "mov {count}, qword ptr [{count_at}]",
            "mov qword ptr [{count_at}], -2",
            end!("mov {count}, -2"),
            area = in(reg) area.get(),
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
            "mov qword ptr [{begun}], {number}",
            "8:",
            "cmp qword ptr [{end}], {number}",
            "jne 8b",
            "mov {rest:e}, 1",
            end!("xor {rest:e}, {rest:e}"),
            area = in(reg) area.get(),
            begun = in(reg) begun.as_ptr(),
            end = in(reg) end.as_ptr(),
            number = in(reg) number,
            rest = out(reg) is_done,
            options(nostack)
        );
    }
    is_done
}
