//! Marks: calls of empty functions that tell the QEMU plugin where an I/O begins and ends.
//!
//! The plugin recognises a mark by its address: mark i is at 0x70000000 + 16 i. The agent in crate `lab`
//! (`agent/mark.h`) defines the numbers and their meaning.

#![allow(
    unsafe_code,
    reason = "marks are written in assembly, so that the compiler adds no instructions to them"
)]

/// The instructions of a mark.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! body {
    () => {
        "nop\nret\n"
    };
}
#[cfg(target_arch = "powerpc64")]
macro_rules! body {
    () => {
        "nop\nblr\n"
    };
}

/// The table of marks, in order of their numbers. The linker places its section (`build.rs`).
macro_rules! marks {
    ($($name:literal),* $(,)?) => {
        std::arch::global_asm!(
            ".pushsection .marks, \"ax\", %progbits",
            $(concat!(".balign 16\n.globl ", $name, "\n", $name, ":\n", body!())),*,
            ".popsection",
        );
    };
}

marks![
    "mark_arm",
    "mark_begin",
    "mark_end",
    "mark_zero",
    "mark_one",
    "mark_phase",
    "mark_idle",
    "mark_disarm",
    "mark_units",
    "mark_pause",
    "mark_resume",
    "mark_polled",
    "mark_poll",
];

// SAFETY: each is one of the functions above, which only return.
unsafe extern "C" {
    #[link_name = "mark_begin"]
    pub(crate) safe fn begin();
    #[link_name = "mark_end"]
    pub(crate) safe fn end();
    #[link_name = "mark_pause"]
    pub(crate) safe fn pause();
    #[link_name = "mark_resume"]
    pub(crate) safe fn resume();
    #[link_name = "mark_polled"]
    pub(crate) safe fn polled();
    safe fn mark_zero();
    safe fn mark_one();
    safe fn mark_phase();
    safe fn mark_units();
}

/// Announces a workload to the plugin. Call it after the warm-up, so that only measured I/Os belong to it.
pub(crate) fn announce_workload(number: u64, ios_per_window: u64) {
    send_value(number);
    mark_phase();
    send_value(ios_per_window);
    mark_units();
}

/// Sends a value to the plugin, one mark per bit, most significant bit first.
fn send_value(value: u64) {
    for bit in (0..u64::BITS - value.leading_zeros()).rev() {
        if value >> bit & 1 == 1 { mark_one() } else { mark_zero() }
    }
}
