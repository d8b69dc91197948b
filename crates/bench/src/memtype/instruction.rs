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
    use std::arch::x86_64::{
        __m128i, _mm_clflush, _mm_mfence, _mm_setzero_si128, _mm_stream_load_si128, _mm_stream_si64,
        _mm_xor_si128,
    };
    use std::hint::black_box;

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

    pub(in super::super) fn load_non_temporal(lines: &[Line]) {
        if without_non_temporal_load().is_none() {
            // SAFETY: the CPU has SSE4.1.
            unsafe { load_sse4(lines) }
        }
    }

    #[target_feature(enable = "sse4.1")]
    fn load_sse4(lines: &[Line]) {
        let mut sum = _mm_setzero_si128();
        for line in lines {
            let quarters: *const __m128i = std::ptr::from_ref(line).cast();
            for place in 0..4 {
                // SAFETY: a line has four quarters and is aligned. Words that somebody else changes meanwhile are allowed to be torn:
                // nobody looks at them.
                let quarter = unsafe { _mm_stream_load_si128(quarters.add(place)) };
                sum = _mm_xor_si128(sum, quarter);
            }
        }
        black_box(sum);
    }

    /// Fills a line past the caches (MOVNTI).
    #[inline]
    pub(in super::super) fn store_non_temporal(line: &Line) {
        let words: *mut i64 = std::ptr::from_ref(line).cast_mut().cast();
        for place in 0..8 {
            // SAFETY: a line has eight words, which are atomic and may be changed by whom they are shared with.
            unsafe { _mm_stream_si64(words.add(place), place as i64) }
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
