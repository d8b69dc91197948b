//! Marks: signals to the QEMU plugin that an I/O begins or ends.
//!
//! A mark is a call of an empty function at an address known to both sides: mark i is at 0x70000000 + 16 i. The
//! numbers are those of the agent in crate `lab` (`agent/mark.h`), which defines their meaning.

#![allow(unsafe_code, reason = "the marks are assembly, since nothing may be in them")]

/// The body of a mark.
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
    "mark_go_on",
    "mark_look",
    "mark_poll",
];

// SAFETY: each is the function above, which only returns.
unsafe extern "C" {
    #[link_name = "mark_begin"]
    pub(crate) safe fn begin();
    #[link_name = "mark_end"]
    pub(crate) safe fn end();
    #[link_name = "mark_pause"]
    pub(crate) safe fn pause();
    #[link_name = "mark_go_on"]
    pub(crate) safe fn go_on();
    #[link_name = "mark_look"]
    pub(crate) safe fn look();
    safe fn mark_zero();
    safe fn mark_one();
    safe fn mark_phase();
    safe fn mark_units();
}

/// Announces a workload. Call it after the warm-up, so that only measured I/Os belong to it.
pub(crate) fn phase(number: u64, ios_per_window: u64) {
    bits(number);
    mark_phase();
    bits(ios_per_window);
    mark_units();
}

/// Sends a value bit by bit, most significant bit first.
fn bits(value: u64) {
    for bit in (0..u64::BITS - value.leading_zeros()).rev() {
        if value >> bit & 1 == 1 { mark_one() } else { mark_zero() }
    }
}
