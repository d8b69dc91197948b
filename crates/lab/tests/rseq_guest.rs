//! Restartable sequences on real kernels of each architecture: `crates/rseq/examples/stress`, in guests with several CPUs.
//!
//! A guest's CPUs are threads of QEMU, which run at the same time where the host has as many. QEMU orders a guest's accesses to
//! memory at least as its architecture demands, and an x86 host orders most accesses anyway. So these tests show that steps are
//! interrupted and fenced as they must be, but would miss a barrier that lacks.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../../../tests/skip.rs"]
mod skip;

#[path = "support/guest_kernel.rs"]
mod guest_kernel;
#[path = "support/guest_program.rs"]
mod guest_program;
#[path = "support/machine.rs"]
mod machine;

use guest_kernel::GuestKernel;
use guest_program::GuestProgram;
use lab::{Arch, kernel::Series};
use std::collections::BTreeMap;

const CPUS: usize = 3;
const PARTS: [&str; 4] = ["steps", "fence", "allocator", "hotplug"];

/// The numbers of a part's line, by their names: `fence: Some(Counts { fenced: 200, ... })`.
fn counts<'a>(console: &'a str, part: &str) -> BTreeMap<&'a str, u64> {
    let line = console.lines().find_map(|line| line.trim().strip_prefix(part)?.strip_prefix(": "));
    let words: Vec<&str> = line
        .unwrap_or_default()
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .collect();
    words.windows(2).filter_map(|pair| Some((pair[0], pair[1].parse().ok()?))).collect()
}

/// Runs all parts on a kernel. What must have happened for a part to show anything must not be zero.
fn check(arch: Arch) {
    let guest = GuestProgram {
        arch,
        kernel: GuestKernel::Debian(Series::V6_1),
        package: "iotoll-rseq",
        example: "stress",
        modules: &[],
        // Each part by itself, so that a failed one does not hide the others.
        script: PARTS.map(|part| format!("/lab/stress {part}\n")).concat(),
        options: "",
        arguments: format!("-smp {CPUS} -accel tcg,thread=multi"),
        command_line: "",
    };
    let Some(console) = guest.run() else { return };
    let lines: Vec<&str> =
        console.lines().filter(|line| PARTS.iter().any(|part| line.starts_with(part))).collect();
    println!("on {CPUS} CPUs:\n{}", lines.join("\n"));
    for (part, names) in [
        ("steps", &["pushed", "interrupted", "migrations"][..]),
        ("fence", &["fenced", "done_without_fence"]),
        ("allocator", &["allocated", "collections", "whole"]),
        ("hotplug", &["offline", "interrupted", "cached_pages", "allocated", "steps"]),
    ] {
        let counts = counts(&console, part);
        for name in names {
            assert!(counts.get(name).is_some_and(|count| *count > 0), "{part}: {name}: {console}");
        }
    }
}

#[test]
fn sequences_work_on_x86() {
    check(Arch::X86);
}

#[test]
fn sequences_work_on_arm() {
    check(Arch::Arm);
}

#[test]
fn sequences_work_on_power() {
    check(Arch::Ppc);
}
