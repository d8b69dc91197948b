//! Instructions that bypass the caches, flush a line, or copy a string.

use super::line::Line;

#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{copy_string, fence, flush, without_fast_strings};

#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::{
    load_non_temporal, store_non_temporal, without_flush, without_non_temporal_load,
    without_non_temporal_store,
};

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use none::{fence, flush};
#[cfg(not(target_arch = "x86_64"))]
pub(super) use none::{
    load_non_temporal, store_non_temporal, without_flush, without_non_temporal_load,
    without_non_temporal_store,
};

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "no safe function executes these instructions")]
mod x86_64 {
    use super::super::line::LINE_BYTES;
    use super::Line;
    use std::arch::asm;
    use std::arch::x86_64::{_mm_clflush, _mm_mfence};
    use std::sync::atomic::AtomicU64;

    const SSE4: &str = "this CPU has no SSE4.1";

    /// Why cache lines can't be flushed.
    pub(in super::super) fn without_flush() -> Option<&'static str> {
        None
    }

    /// Why non-temporal loads are not possible.
    pub(in super::super) fn without_non_temporal_load() -> Option<&'static str> {
        (!is_x86_feature_detected!("sse4.1")).then_some(SSE4)
    }

    /// Why non-temporal stores are not possible.
    pub(in super::super) fn without_non_temporal_store() -> Option<&'static str> {
        None
    }

    /// Why the kernel copies by ordinary instructions on this CPU, and not by one string instruction.
    pub(crate) fn without_fast_strings() -> Option<&'static str> {
        (!is_x86_feature_detected!("ermsb")).then_some("this CPU has no fast string instructions (ERMS)")
    }

    /// Copies the bytes that both slices have with one string instruction (REP MOVSB), a byte a repetition.
    #[inline]
    pub(crate) fn copy_string(from: &[u8], to: &mut [u8]) {
        let bytes = from.len().min(to.len());
        // SAFETY: both slices have so many bytes and do not overlap. The direction flag is clear, as the ABI says.
        unsafe {
            asm!(
                "rep movsb",
                inout("rcx") bytes => _,
                inout("rsi") from.as_ptr() => _,
                inout("rdi") to.as_mut_ptr() => _,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Writes a line back and removes it from all caches (CLFLUSH).
    #[inline]
    pub(crate) fn flush(line: &[AtomicU64; LINE_BYTES / 8]) {
        // SAFETY: every x86-64 CPU has the instruction; it does not change the line's content, and the line is mapped.
        unsafe { _mm_clflush(std::ptr::from_ref(line).cast()) }
    }

    /// Waits for earlier stores and flushes (MFENCE).
    #[inline]
    pub(crate) fn fence() {
        // SAFETY: every x86-64 CPU has the instruction.
        unsafe { _mm_mfence() }
    }

    /// Loads lines sixteen bytes at a time (MOVNTDQA).
    pub(in super::super) fn load_non_temporal(lines: &[Line]) {
        if without_non_temporal_load().is_none() {
            lines.iter().for_each(load_line);
        }
    }

    /// Loads a line, on a CPU with SSE4.1. In assembly, because the compiler treats the intrinsic as an ordinary load, and
    /// another agent may change the line.
    #[inline]
    fn load_line(line: &Line) {
        let at = std::ptr::from_ref(line);
        // SAFETY: the line is aligned and has four times 16 bytes. The loaded values are not used, so they may be torn.
        unsafe {
            asm!(
                "movntdqa {first}, [{at}]",
                "movntdqa {second}, [{at} + 16]",
                "movntdqa {third}, [{at} + 32]",
                "movntdqa {fourth}, [{at} + 48]",
                at = in(reg) at,
                first = out(xmm_reg) _,
                second = out(xmm_reg) _,
                third = out(xmm_reg) _,
                fourth = out(xmm_reg) _,
                options(nostack, preserves_flags, readonly),
            );
        }
    }

    /// Fills a line without caching it (MOVNTI). In assembly, because the compiler treats the intrinsic as an ordinary
    /// store, and another agent may read the line.
    #[inline]
    pub(in super::super) fn store_non_temporal(line: &Line) {
        let words = std::ptr::from_ref(line).cast::<u64>();
        for place in 0..8 {
            // SAFETY: a line has eight atomic words, and each store writes one of them.
            unsafe {
                asm!(
                    "movnti [{at}], {word}",
                    at = in(reg) words.add(place),
                    word = in(reg) place as u64,
                    options(nostack, preserves_flags),
                );
            }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod none {
    use super::super::line::LINE_BYTES;
    use super::Line;
    use std::sync::atomic::AtomicU64;

    const WHY: &str = "implemented only for x86-64";

    /// Why cache lines can't be flushed.
    pub(in super::super) fn without_flush() -> Option<&'static str> {
        Some(WHY)
    }

    /// Why non-temporal loads are not possible.
    pub(in super::super) fn without_non_temporal_load() -> Option<&'static str> {
        Some(WHY)
    }

    /// Why non-temporal stores are not possible.
    pub(in super::super) fn without_non_temporal_store() -> Option<&'static str> {
        Some(WHY)
    }

    /// Does nothing: [`without_flush`] has a reason.
    pub(crate) fn flush(_: &[AtomicU64; LINE_BYTES / 8]) {}

    /// Orders earlier stores before what follows.
    pub(crate) fn fence() {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }

    /// Never called: [`without_non_temporal_load`] has a reason.
    pub(in super::super) fn load_non_temporal(_: &[Line]) {}

    /// Never called: [`without_non_temporal_store`] has a reason.
    pub(in super::super) fn store_non_temporal(_: &Line) {}
}
