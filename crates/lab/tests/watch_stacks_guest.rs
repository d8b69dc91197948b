//! Sampled call stacks on real kernels, under reads of an NVMe disk (`crates/watch/examples/count_reads`).
//!
//! QEMU emulates the counters of an Arm CPU, and an Arm kernel can have their interrupts as pseudo-NMIs. So what a source that is not
//! maskable sees is held against what the kernel's timer sees, against the times of programs in the same guest, and against the instructions that
//! the lab counted.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../../../tests/skip.rs"]
mod skip;

#[path = "support/disk.rs"]
mod disk;
#[path = "support/guest_kernel.rs"]
mod guest_kernel;
#[path = "support/guest_program.rs"]
mod guest_program;
#[path = "support/machine.rs"]
mod machine;

use disk::{ADAPTER, DISK, DISK_APPEARS, STAGES};
use guest_kernel::GuestKernel;
use guest_program::GuestProgram;
use lab::{Arch, kernel::Series};
use skip::takes_too_long;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use toll::{Stage, TollSheet};

const READS: u64 = 20_000;
/// What the tests need of the kernel's command line.
const PSEUDO_NMI: &str = "iommu.strict=1 irqchip.gicv3_pseudo_nmi=1";

/// What each way of watching printed, the numbers by their names.
struct Ways {
    console: String,
    numbers: BTreeMap<String, f64>,
}

/// A guest that reads its disk so often, once for each way; `None` where it can't be run, which is reported.
fn run(arch: Arch, kernel: GuestKernel, command_line: &str, reads: u64, ways: &[&str]) -> Option<Ways> {
    // In an emulated guest a sample takes so long that the kernel would take fewer, and may have decided so while it booted, by its own watchdog.
    // The rate comes first: without the limit of time the kernel takes no other.
    let mut script = format!(
        "{DISK_APPEARS}echo 100000 > /proc/sys/kernel/perf_event_max_sample_rate\n\
         echo 0 > /proc/sys/kernel/perf_cpu_time_max_percent\n"
    );
    for way in ways {
        let argument = if *way == "programs" { "" } else { way };
        script += &format!(
            "/lab/count_reads /dev/nvme0n1 {ADAPTER} {reads} 4096 1 {argument} 2>&1 | while read line; do echo \"{way} $line\"; done\n"
        );
    }
    let (options, devices) = match arch {
        Arch::X86 => (",kernel-irqchip=split", "-device intel-iommu,intremap=on"),
        Arch::Arm => (",gic-version=3,iommu=smmuv3", ""),
        Arch::Ppc => ("", ""),
    };
    let guest = GuestProgram {
        arch,
        kernel,
        package: "iotoll-watch",
        example: "count_reads",
        modules: &["nvme"],
        script,
        options,
        arguments: format!("-smp 2 -accel tcg {devices} {DISK}"),
        command_line,
    };
    let console = guest.run()?;
    let numbers = disk::numbers(&console);
    Some(Ways { console, numbers })
}

impl Ways {
    fn get(&self, name: &str) -> f64 {
        self.numbers.get(name).copied().unwrap_or_default()
    }

    fn samples(&self, way: &str, stage: Stage) -> f64 {
        self.get(&format!("{way} disk {stage:?}-samples"))
    }

    /// Shares of the stages in DMA mapping, by a number of each.
    fn shares(&self, of: impl Fn(Stage) -> f64) -> [f64; 5] {
        let all: f64 = STAGES.iter().map(|stage| of(*stage)).sum();
        STAGES.map(|stage| of(stage) / all)
    }
}

/// The shares of the instructions that the lab counted of a 4 KiB read, of the same architecture, IOMMU and mode, on Linux 6.1.
fn shares_of_the_lab() -> [f64; 5] {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/tolls/arm-smmu-strict.json");
    let sheet = TollSheet::read(&fs::read_to_string(&path).unwrap(), "the lab's sheet").unwrap();
    let read = sheet.toll("nvme-read-4k").unwrap();
    let all: u64 = STAGES.iter().map(|stage| read.stages[stage]).sum();
    STAGES.map(|stage| read.stages[&stage] as f64 / all as f64)
}

#[test]
fn pseudo_nmis_reach_unmapping_and_invalidations() {
    if takes_too_long() {
        return;
    }
    let kernel = GuestKernel::Ubuntu("ubuntu-resolute-arm64");
    let Some(ways) = run(Arch::Arm, kernel, PSEUDO_NMI, READS, &["stacks", "timer", "programs"]) else {
        return;
    };
    let console = &ways.console;
    for loss in ["lost", "malformed", "throttled"] {
        assert_eq!(ways.numbers.get(&format!("stacks all {loss}")), Some(&0.0), "{loss}\n{console}");
    }
    // The counters see what runs with interrupts off, and the timer does not.
    let [off, kernel] = ["interrupts-off", "kernel"].map(|name| ways.get(&format!("stacks all {name}")));
    assert!(off > 100.0 && off < kernel, "{console}");
    assert_eq!(ways.get("timer all interrupts-off"), 0.0, "{console}");
    assert!(ways.get("timer all kernel") > 1000.0, "{console}");
    let blind = [Stage::Invalidation, Stage::DmaUnmap];
    for stage in blind {
        assert!(ways.samples("stacks", stage) > 10.0, "{stage}\n{console}");
        assert_eq!(ways.samples("timer", stage), 0.0, "{stage}\n{console}");
    }
    assert!(ways.samples("timer", Stage::DmaMap) > 10.0, "it sees mapping\n{console}");
    let path = "__iommu_dma_unmap;arm_smmu_iotlb_sync;";
    assert!(console.contains(path) && console.contains(";arm_smmu_cmdq_issue_cmdlist"), "{console}");

    // Where time went, by samples, by the lab's instructions and by programs at the functions' entries and ends.
    let sampled = ways.shares(|stage| ways.samples("stacks", stage));
    let programs = ways.shares(|stage| ways.get(&format!("programs disk {stage:?}-ns")));
    let counted = shares_of_the_lab();
    let distance = |shares: [f64; 5]| -> f64 {
        shares.iter().zip(counted).map(|(share, counted)| (share / counted).ln().abs()).sum()
    };
    println!("{STAGES:?}\nsampled {sampled:.3?}\ncounted {counted:.3?}\nprograms {programs:.3?}");
    for way in ["stacks", "timer"] {
        let samples = STAGES.map(|stage| ways.samples(way, stage));
        let [off, kernel] = ["interrupts-off", "kernel"].map(|name| ways.get(&format!("{way} all {name}")));
        println!("{way}: {samples:?} of {kernel}, {off} with interrupts off");
    }
    for ((stage, sampled), counted) in STAGES.iter().zip(sampled).zip(counted) {
        let ratio = sampled / counted;
        assert!((1.0 / 4.0..4.0).contains(&ratio), "{stage}: {sampled} {counted}\n{console}");
    }
    assert!(distance(sampled) < distance(programs), "samples are nearer to the instructions\n{console}");
    let per_read: f64 =
        STAGES.iter().map(|stage| ways.get(&format!("stacks disk {stage:?}-ns-per-read"))).sum();
    let by_programs: f64 =
        STAGES.iter().map(|stage| ways.get(&format!("programs disk {stage:?}-ns"))).sum::<f64>()
            / READS as f64;
    println!("ns per read: sampled {per_read:.0}, by programs {by_programs:.0}");
    // Times in an emulated guest depend on what else its host does; shares less so.
    assert!(
        (by_programs / 10.0..by_programs * 3.0).contains(&per_read),
        "{per_read} {by_programs}\n{console}"
    );
}

/// A kernel without the option takes the word and has no pseudo-NMIs: no sample falls where interrupts are off, and nothing is claimed.
#[test]
fn a_source_that_is_maskable_after_all_is_found_out() {
    let kernel = GuestKernel::Debian(Series::V6_1);
    let Some(ways) = run(Arch::Arm, kernel, PSEUDO_NMI, READS / 4, &["stacks"]) else { return };
    let console = &ways.console;
    assert!(ways.get("stacks all kernel") > 300.0, "{console}");
    assert_eq!(ways.get("stacks all interrupts-off"), 0.0, "{console}");
    assert!(console.contains("stacks unknown: none of"), "{console}");
    assert_eq!(ways.samples("stacks", Stage::DmaMap), 0.0, "{console}");
}

#[test]
fn without_pseudo_nmis_nothing_is_sampled() {
    let kernel = GuestKernel::Debian(Series::V6_1);
    let Some(ways) = run(Arch::Arm, kernel, "iommu.strict=1", 100, &["stacks"]) else { return };
    assert!(ways.console.contains("irqchip.gicv3_pseudo_nmi=1, which is not in"), "{}", ways.console);
    assert_eq!(ways.numbers.get("stacks all samples"), Some(&0.0), "{}", ways.console);
}

/// TCG's counters of a POWER CPU count and never interrupt (QEMU 7.2).
#[test]
fn counters_that_never_interrupt_are_told() {
    let kernel = GuestKernel::Debian(Series::V6_1);
    let Some(ways) = run(Arch::Ppc, kernel, "disable_ddw", 100, &["stacks"]) else { return };
    let console = &ways.console;
    let samples = ways.get("stacks all samples");
    assert!(console.contains("stacks unknown: no sample of the kernel came") || samples > 0.0, "{console}");
    assert!(ways.get("stacks all cycle-ps") > 0.0, "{console}");
}

/// TCG emulates no counters of an x86 CPU.
#[test]
fn without_counters_nothing_is_sampled() {
    let command_line = "intel_iommu=on iommu.strict=1";
    let Some(ways) = run(Arch::X86, GuestKernel::Debian(Series::V6_1), command_line, 100, &["stacks"]) else {
        return;
    };
    assert!(ways.console.contains("stacks unknown: the kernel has no counters"), "{}", ways.console);
    assert_eq!(ways.numbers.get("stacks all samples"), Some(&0.0), "{}", ways.console);
}
