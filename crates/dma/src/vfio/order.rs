//! Barriers between register accesses and memory accesses.
//!
//! A doorbell write must not overtake the command that it announces. Memory that the device wrote must not be read
//! before the register that announces it. Rust's fences order memory only: on RISC-V `fence(SeqCst)` is `fence
//! rw,rw`, which does not cover device accesses. So each architecture needs its own instructions, those of Linux's
//! `readl` and `writel` (`Documentation/memory-barriers.txt`, "Kernel I/O barrier effects"):
//!
//! | | before a read | after a read | before a write | Linux's source |
//! |---|---|---|---|---|
//! | x86 | | | | `arch/x86/include/asm/io.h`: uncached accesses stay in order, only the compiler is held back |
//! | arm64 | | `dmb oshld`, a branch on the value | `dmb oshld`, `dmb oshst` | `arch/arm64/include/asm/io.h`: `__io_ar`, `__io_bw` |
//! | riscv64 | | `fence i,irw` | `fence rw,o` | `arch/riscv/include/asm/mmio.h`: `__io_ar`, `__io_bw` |
//! | powerpc64 | `sync` | `twi` on the value, `isync` | `sync` | `arch/powerpc/include/asm/io.h`: `DEF_MMIO_IN_D`, `DEF_MMIO_OUT_D` |
//!
//! Before a write, earlier loads are ordered too; Linux's `writel` of arm64 and riscv64 orders stores only. A
//! completion must be read before the doorbell allows the controller to overwrite it.
//!
//! The test `register_order` compiles this file for each of these architectures.

#![allow(unsafe_code, reason = "no safe function orders registers and memory")]

use core::arch::asm;

/// Whether the barriers of this architecture are known. If not, registers can't be mapped.
pub(super) const IS_KNOWN: bool = cfg!(any(
    target_arch = "x86",
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64",
    target_arch = "powerpc64"
));

/// Call before a register read.
#[inline(always)]
pub(super) fn before_read() {
    // SAFETY: a barrier has no other effect.
    #[cfg(target_arch = "powerpc64")]
    unsafe {
        asm!("sync", options(nostack, preserves_flags));
    }
}

/// Call after a register read, with its value: later memory accesses come after it.
#[inline(always)]
pub(super) fn after_read(value: u64) {
    // SAFETY: no instruction; only the compiler moves no access across it.
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    unsafe {
        let _ = value;
        asm!("", options(nostack, preserves_flags));
    }
    // SAFETY: a barrier; the branch goes to the next instruction in both cases.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("dmb oshld", "cbnz {value}, 2f", "2:", value = in(reg) value, options(nostack, preserves_flags));
    }
    // SAFETY: a barrier has no other effect.
    #[cfg(target_arch = "riscv64")]
    unsafe {
        let _ = value;
        asm!("fence i, irw", options(nostack, preserves_flags));
    }
    // SAFETY: the trap's condition is never true. It waits for the value, and `isync` waits for it.
    #[cfg(target_arch = "powerpc64")]
    unsafe {
        asm!("twi 0, {value}, 0", "isync", value = in(reg) value, options(nostack, preserves_flags));
    }
}

/// Call before a register write: earlier memory accesses come before it.
#[inline(always)]
pub(super) fn before_write() {
    // SAFETY: no instruction; only the compiler moves no access across it.
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    unsafe {
        asm!("", options(nostack, preserves_flags));
    }
    // SAFETY: barriers have no other effect. These two are cheaper than `dmb osh`, which also orders loads after
    // earlier stores.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("dmb oshld", "dmb oshst", options(nostack, preserves_flags));
    }
    // SAFETY: a barrier has no other effect.
    #[cfg(target_arch = "riscv64")]
    unsafe {
        asm!("fence rw, o", options(nostack, preserves_flags));
    }
    // SAFETY: a barrier has no other effect.
    #[cfg(target_arch = "powerpc64")]
    unsafe {
        asm!("sync", options(nostack, preserves_flags));
    }
}
