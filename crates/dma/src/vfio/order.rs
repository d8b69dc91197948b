//! Order between an adapter's registers and memory.
//!
//! A doorbell must not reach the adapter before the command that it announces, and what the adapter wrote must not be read before
//! the register that says so. Rust's fences order memory with memory only: on RISC-V `fence(SeqCst)` is `fence rw,rw`, which says
//! nothing about device accesses. So each architecture has its own instructions, those of Linux's `readl` and `writel`
//! (`Documentation/memory-barriers.txt`, "Kernel I/O barrier effects"):
//!
//! | | before a read | after a read | before a write | Linux's source |
//! |---|---|---|---|---|
//! | x86 | | | | `arch/x86/include/asm/io.h`: uncached accesses stay in order, only the compiler is held back |
//! | arm64 | | `dmb oshld`, a branch on the value | `dmb oshld`, `dmb oshst` | `arch/arm64/include/asm/io.h`: `__io_ar`, `__io_bw` |
//! | riscv64 | | `fence i,irw` | `fence rw,o` | `arch/riscv/include/asm/mmio.h`: `__io_ar`, `__io_bw` |
//! | powerpc64 | `sync` | `twi` on the value, `isync` | `sync` | `arch/powerpc/include/asm/io.h`: `DEF_MMIO_IN_D`, `DEF_MMIO_OUT_D` |
//!
//! Before a write, earlier loads are held back too, where Linux's `writel` of arm64 and riscv64 orders stores only: a completion has to be
//! read before its queue's doorbell lets the controller write over it.
//!
//! The test `register_order` compiles this file for each of these architectures, with a few lines in place of the core library.

#![allow(unsafe_code, reason = "no safe function orders registers and memory")]

use core::arch::asm;

/// Whether this architecture's instructions are known. Elsewhere registers are not mapped.
pub(super) const IS_KNOWN: bool = cfg!(any(
    target_arch = "x86",
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64",
    target_arch = "powerpc64"
));

/// Before a register is read.
#[inline(always)]
pub(super) fn before_read() {
    // SAFETY: it waits, and changes nothing.
    #[cfg(target_arch = "powerpc64")]
    unsafe {
        asm!("sync", options(nostack, preserves_flags));
    }
}

/// After a register is read, with its value: later accesses to memory are done after that.
#[inline(always)]
pub(super) fn after_read(value: u64) {
    // SAFETY: no instruction, but the compiler moves no access across it.
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    unsafe {
        let _ = value;
        asm!("", options(nostack, preserves_flags));
    }
    // SAFETY: it waits; the branch leads to the next instruction either way.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("dmb oshld", "cbnz {value}, 2f", "2:", value = in(reg) value, options(nostack, preserves_flags));
    }
    // SAFETY: it waits, and changes nothing.
    #[cfg(target_arch = "riscv64")]
    unsafe {
        let _ = value;
        asm!("fence i, irw", options(nostack, preserves_flags));
    }
    // SAFETY: the trap is for no condition, so it is never taken; but it waits for the value, and `isync` for the trap.
    #[cfg(target_arch = "powerpc64")]
    unsafe {
        asm!("twi 0, {value}, 0", "isync", value = in(reg) value, options(nostack, preserves_flags));
    }
}

/// Before a register is written: earlier accesses to memory are done before that.
#[inline(always)]
pub(super) fn before_write() {
    // SAFETY: no instruction, but the compiler moves no access across it.
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    unsafe {
        asm!("", options(nostack, preserves_flags));
    }
    // SAFETY: it waits, and changes nothing. Together cheaper than `dmb osh`, which keeps loads behind earlier stores as well.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("dmb oshld", "dmb oshst", options(nostack, preserves_flags));
    }
    // SAFETY: it waits, and changes nothing.
    #[cfg(target_arch = "riscv64")]
    unsafe {
        asm!("fence rw, o", options(nostack, preserves_flags));
    }
    // SAFETY: it waits, and changes nothing.
    #[cfg(target_arch = "powerpc64")]
    unsafe {
        asm!("sync", options(nostack, preserves_flags));
    }
}
