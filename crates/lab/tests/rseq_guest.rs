//! Restartable sequences on real kernels of each architecture: `crates/rseq/examples/stress`, in guests with several CPUs.
//!
//! A guest's CPUs are threads of QEMU, which run at the same time where the host has as many. QEMU orders a guest's accesses to
//! memory at least as its architecture demands, and an x86 host orders most accesses anyway. So these tests show that steps are
//! interrupted and fenced as they must be, but would miss a barrier that lacks.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../../../tests/skip.rs"]
mod skip;

#[path = "support/guest_program.rs"]
mod guest_program;
#[path = "support/machine.rs"]
mod machine;

use guest_program::guest_program;
use lab::{
    Arch,
    guest::{Initramfs, PlacedFile},
    kernel::{Cache, Kernel, KernelChoice, Series, busybox},
};
use machine::{boot, machine};
use skip::skip;
use std::{collections::BTreeMap, env, fs, time::Duration};

const CPUS: usize = 3;
/// An emulated guest needs a minute or two; a busy host takes several times as long.
const BOOT_TIME_MAX: Duration = Duration::from_secs(600);
const PARTS: [&str; 4] = ["steps", "fence", "allocator", "hotplug"];

/// Boots a guest that runs the program, and returns its console's output; `None` without QEMU.
fn run(cache: &Cache, kernel: &Kernel, program: &[u8]) -> Option<String> {
    let busybox = fs::read(busybox(cache, kernel.arch).unwrap()).unwrap();
    // Each part by itself, so that a failed one does not hide the others. POWER's firmware does not end its last line.
    let mut init =
        "#!/bin/sh\nbusybox mount -t proc proc /proc\nbusybox mount -t sysfs sysfs /sys\necho\n".to_owned();
    PARTS.iter().for_each(|part| init += &format!("/lab/stress {part}\n"));
    init += "busybox poweroff -f\n";
    let program = PlacedFile { path: "/lab/stress", permissions: 0o755, bytes: program };
    let initramfs = Initramfs {
        release: &kernel.release,
        busybox: &busybox,
        modules: &[],
        init: &init,
        files: &[program],
    };
    let (machine, processor, terminal) = machine(kernel.arch);
    let machine = format!("-machine {machine} -cpu {processor} -smp {CPUS} -accel tcg,thread=multi");
    boot(kernel, &initramfs.build().unwrap(), &machine, &format!("console={terminal}"), BOOT_TIME_MAX)
}

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
    if env::var("IOTOLL_KERNEL_TESTS").is_ok_and(|value| value == "off") {
        return skip("IOTOLL_KERNEL_TESTS=off, no guest was booted");
    }
    let cache = Cache::from_environment().unwrap();
    let kernel = match Kernel::newest(&cache, KernelChoice { arch, series: Series::V6_1 }) {
        Ok(kernel) => kernel,
        Err(why) => return skip(&why.to_string()),
    };
    let Some(program) = guest_program(arch, "iotoll-rseq", "stress") else { return };
    let Some(console) = run(&cache, &kernel, &fs::read(program).unwrap()) else {
        return skip(&format!("no {} here, {} was not booted", arch.qemu(), kernel.release));
    };
    let lines: Vec<&str> =
        console.lines().filter(|line| PARTS.iter().any(|part| line.starts_with(part))).collect();
    println!("{} on {CPUS} CPUs:\n{}", kernel.release, lines.join("\n"));
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
