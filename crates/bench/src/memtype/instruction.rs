//! Instructions that go round the caches, or empty them.

use super::access::Line;

#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::{
    fence, flush, load_non_temporal, store_non_temporal, without_flush, without_non_temporal_load,
    without_non_temporal_store,
};

#[cfg(not(target_arch = "x86_64"))]
pub(super) use none::{
    fence, flush, load_non_temporal, store_non_temporal, without_flush, without_non_temporal_load,
    without_non_temporal_store,
};

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "instructions of the CPU, which no safe function gives")]
mod x86_64 {
    use super::Line;
    use std::arch::asm;
    use std::arch::x86_64::{_mm_clflush, _mm_mfence};

    const SSE4: &str = "this CPU has no SSE4.1";

    pub(in super::super) fn without_flush() -> Option<&'static str> {
        None
    }

    pub(in super::super) fn without_non_temporal_load() -> Option<&'static str> {
        (!is_x86_feature_detected!("sse4.1")).then_some(SSE4)
    }

    pub(in super::super) fn without_non_temporal_store() -> Option<&'static str> {
        None
    }

    /// Writes a line back and takes it out of all caches (CLFLUSH).
    #[inline]
    pub(in super::super) fn flush(line: &Line) {
        // SAFETY: all of x86-64 has the instruction; it changes nothing that a program sees, and the line is there.
        unsafe { _mm_clflush(std::ptr::from_ref(line).cast()) }
    }

    /// Waits for what was stored and flushed (MFENCE).
    #[inline]
    pub(in super::super) fn fence() {
        // SAFETY: all of x86-64 has the instruction.
        unsafe { _mm_mfence() }
    }

    /// Loads lines sixteen bytes at a time (MOVNTDQA).
    pub(in super::super) fn load_non_temporal(lines: &[Line]) {
        if without_non_temporal_load().is_none() {
            lines.iter().for_each(load_line);
        }
    }

    /// Of a CPU with SSE4.1. Written out, since the intrinsic is a plain load to the compiler, and somebody else may change the line.
    #[inline]
    fn load_line(line: &Line) {
        let at = std::ptr::from_ref(line);
        // SAFETY: a line has four quarters and is aligned; what is loaded is looked at by nobody, and so may be torn.
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

    /// Fills a line past the caches (MOVNTI). Written out, since the intrinsic is a plain store to the compiler, and others may look.
    #[inline]
    pub(in super::super) fn store_non_temporal(line: &Line) {
        let words = std::ptr::from_ref(line).cast::<u64>();
        for place in 0..8 {
            // SAFETY: a line has eight words, which are atomic; each is stored at once.
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
    use super::Line;

    const WHY: &str = "this program has the instructions of x86-64 alone";

    pub(in super::super) fn without_flush() -> Option<&'static str> {
        Some(WHY)
    }

    pub(in super::super) fn without_non_temporal_load() -> Option<&'static str> {
        Some(WHY)
    }

    pub(in super::super) fn without_non_temporal_store() -> Option<&'static str> {
        Some(WHY)
    }

    pub(in super::super) fn flush(_: &Line) {}

    pub(in super::super) fn fence() {}

    pub(in super::super) fn load_non_temporal(_: &[Line]) {}

    pub(in super::super) fn store_non_temporal(_: &Line) {}
}
