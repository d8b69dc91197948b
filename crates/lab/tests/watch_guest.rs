//! `watch` on real kernels of each architecture: it counts reads of an NVMe disk, whose number and cost are known
//! (`crates/watch/examples/count_reads`).

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
use toll::Stage;
use watch::Action;

const READS: u64 = 1000;
/// Reads of scatter lists, which need several pages each.
const LISTS: u64 = 100;
const LIST_BYTES: u64 = 128 << 10;

/// What is read in a guest: how often, in how many bytes, by how many threads.
const PARTS: [(&str, u64, u64, u64); 3] =
    [("single", READS, 4096, 1), ("threads", READS, 4096, 4), ("lists", LISTS, LIST_BYTES, 1)];

const V6_1: GuestKernel = GuestKernel::Debian(Series::V6_1);
const V6_12: GuestKernel = GuestKernel::Debian(Series::V6_12);

/// A guest that reads its disk.
struct Machine {
    arch: Arch,
    kernel: GuestKernel,
    /// What QEMU's machine has more.
    options: &'static str,
    devices: &'static str,
    /// Further words of the kernel's command line.
    command_line: &'static str,
    /// QEMU's arguments for its CPUs and their time.
    processors: &'static str,
    /// Whether watching is killed at last.
    is_killed: bool,
}

const TWO_CPUS: &str = "-smp 2 -accel tcg";
/// CPUs take turns in one thread of QEMU's. With a thread for each, some run what the kernel had written into its code for a moment, long after
/// it wrote something else there, and the guest panics.
const TWO_CPUS_IN_TURN: &str = "-smp 2 -accel tcg,thread=single";
/// Time goes on by a nanosecond for each instruction.
const TIME_OF_INSTRUCTIONS: &str = "-smp 1 -accel tcg -icount shift=0,sleep=off";

/// A PC; the IOMMU is a device.
fn pc(kernel: GuestKernel, iommu: &'static str, command_line: &'static str) -> Machine {
    let options = ",kernel-irqchip=split";
    Machine {
        arch: Arch::X86,
        kernel,
        options,
        devices: iommu,
        command_line,
        processors: TWO_CPUS,
        is_killed: false,
    }
}

/// A partition of a POWER machine.
fn partition(command_line: &'static str) -> Machine {
    let (arch, kernel) = (Arch::Ppc, V6_1);
    Machine { arch, kernel, options: "", devices: "", command_line, processors: TWO_CPUS, is_killed: false }
}

/// The numbers that the guest printed, by part, device and name.
struct Counts {
    console: String,
    numbers: BTreeMap<String, u64>,
}

impl Machine {
    /// What was counted; `None` where the guest can't be run, which is reported.
    fn counts(&self) -> Option<Counts> {
        self.run("count_reads", &self.script())
    }

    /// What an example of the package printed that ran in the script, after the disk had appeared.
    fn run(&self, example: &str, script: &str) -> Option<Counts> {
        let guest = GuestProgram {
            arch: self.arch,
            kernel: self.kernel,
            package: "iotoll-watch",
            example,
            modules: &["nvme"],
            script: format!("{DISK_APPEARS}{script}"),
            options: self.options,
            arguments: format!("{} {} {DISK}", self.processors, self.devices),
            command_line: self.command_line,
        };
        guest.run().map(Counts::of)
    }

    fn script(&self) -> String {
        let mut script = String::new();
        for (part, reads, bytes, threads) in PARTS {
            let reading = format!("/lab/count_reads /dev/nvme0n1 {ADAPTER} {reads} {bytes} {threads}");
            script += &format!("{reading} 2>&1 | while read line; do echo \"{part} $line\"; done\n");
        }
        if self.is_killed { script + &killed() } else { script }
    }
}

/// Commands that count the kernel's functions with programs, while watching goes on and after it was killed. The kernel takes some
/// seconds to remove all.
fn killed() -> String {
    let count =
        "busybox cat /sys/kernel/tracing/enabled_functions /sys/kernel/debug/kprobes/list | busybox wc -l";
    format!(
        "busybox mount -t tracefs tracefs /sys/kernel/tracing\nbusybox mount -t debugfs debugfs /sys/kernel/debug\n\
             echo \"kill at first $({count})\"\n\
             /lab/count_reads /dev/nvme0n1 {ADAPTER} 100000 4096 1 & watching=$!\nbusybox sleep 5\n\
             echo \"kill meanwhile $({count})\"\nkill -9 $watching\n\
             for second in $(busybox seq 60); do [ $({count}) -gt 0 ] && busybox sleep 1; done\necho \"kill afterwards $({count})\"\n"
    )
}

impl Counts {
    fn of(console: String) -> Self {
        let numbers = disk::numbers(&console);
        Self { console, numbers }
    }

    fn get(&self, name: &str) -> u64 {
        self.numbers.get(name).copied().unwrap_or_default()
    }

    /// Asserts that watching that is killed leaves nothing in the kernel.
    fn assert_nothing_is_left(&self) {
        let [first, meanwhile, afterwards] =
            ["at first", "meanwhile", "afterwards"].map(|when| self.get(&format!("kill {when}")));
        assert!(
            meanwhile >= first + 10 && afterwards == first,
            "{first} {meanwhile} {afterwards}\n{}",
            self.console
        );
    }

    /// Asserts that all reads were seen, and no call was lost.
    fn assert_complete(&self) {
        for (part, reads, ..) in PARTS {
            assert_eq!(self.get(&format!("{part} disk requests")), reads, "{part}\n{}", self.console);
            assert_eq!(self.numbers.get(&format!("{part} all lost")), Some(&0), "{part}\n{}", self.console);
        }
    }

    /// Asserts how often each was done for a read of 4 KiB.
    fn assert_calls(&self, expected: &[(Action, u64)]) {
        self.assert_complete();
        self.assert_calls_of("single", expected);
        self.assert_calls_of("threads", expected);
    }

    fn assert_calls_of(&self, part: &str, expected: &[(Action, u64)]) {
        for (action, per_read) in expected {
            let calls = self.get(&format!("{part} disk {action:?}"));
            assert_eq!(calls, per_read * READS, "{part} {action:?}\n{}", self.console);
        }
    }

    /// Asserts that reads by several threads cleared entries so often, with those that probes missed because they interrupted a probe: at
    /// most one in ten. `are_known` says whether the kernel shows how many those are.
    fn assert_clears_of_threads(&self, are_known: bool) {
        let cleared = self.get("threads disk ClearTable");
        let unseen = self.get("threads all unseen");
        assert!((READS * 9 / 10..=READS).contains(&cleared), "{}", self.console);
        assert!(!are_known || cleared + unseen == READS, "{cleared} and {unseen}\n{}", self.console);
    }

    /// Asserts the bytes of all reads of 4 KiB.
    fn assert_bytes(&self, actions: &[Action]) {
        for action in actions {
            let bytes = self.get(&format!("single disk {action:?}-bytes"));
            assert_eq!(bytes, READS * 4096, "{action:?}\n{}", self.console);
        }
    }

    /// Asserts that it was measured what watching adds to a call, in one part at least: on a busy host it is not always.
    fn assert_costs_are_measured(&self) {
        let measured = self.numbers.iter().filter(|(name, _)| name.ends_with("-is-measured"));
        let measured: Vec<u64> = measured.map(|(_, is_measured)| *is_measured).collect();
        // Some kernels need probes beside trampolines.
        assert!(measured.len() >= PARTS.len() && measured.contains(&1), "{measured:?}\n{}", self.console);
    }

    /// Asserts that stages took time.
    fn assert_stages(&self, stages: &[Stage]) {
        for stage in stages {
            assert!(self.get(&format!("single disk {stage:?}-ns")) > 0, "{stage:?}\n{}", self.console);
        }
    }
}

/// What is done once for each read that is translated.
const ONCE: [(Action, u64); 5] = [
    (Action::Map, 1),
    (Action::Unmap, 1),
    (Action::AllocateIova, 1),
    (Action::WriteTable, 1),
    (Action::ClearTable, 1),
];

/// What the lab counts for a read in strict mode, too: one mapping, one unmapping, one invalidation.
fn check_strict(machine: &Machine) {
    let Some(counts) = machine.counts() else { return };
    counts.assert_calls(&ONCE);
    counts.assert_calls(&[(Action::Invalidate, 1), (Action::TakeBounce, 0)]);
    check_bytes_and_stages(&counts);
    if machine.is_killed {
        counts.assert_nothing_is_left();
    }
}

/// Reads of scatter lists write and clear as many bytes of the table as they read.
fn check_bytes_and_stages(counts: &Counts) {
    counts.assert_bytes(&[Action::Map, Action::Unmap, Action::WriteTable, Action::ClearTable]);
    counts.assert_costs_are_measured();
    counts.assert_stages(&STAGES);
    // A driver allocates memory for its own lists now and then.
    let coherent = counts.get("lists disk AllocateCoherent-bytes");
    for (action, more) in [(Action::WriteTable, coherent), (Action::ClearTable, 0)] {
        let bytes = counts.get(&format!("lists disk {action:?}-bytes"));
        assert_eq!(bytes, LISTS * LIST_BYTES + more, "{action:?}\n{}", counts.console);
    }
}

#[test]
fn reads_are_counted_in_strict_mode_of_linux_6_1() {
    check_strict(&pc(V6_1, "-device intel-iommu,intremap=on", "intel_iommu=on iommu.strict=1"));
}

#[test]
fn reads_are_counted_in_strict_mode_of_linux_6_12() {
    if takes_too_long() {
        return;
    }
    let machine = pc(V6_12, "-device intel-iommu,intremap=on", "intel_iommu=on iommu.strict=1");
    check_strict(&Machine { is_killed: true, ..machine });
}

/// Ubuntu 22.04 (Linux 5.15) and 24.04 (6.8).
#[test]
fn reads_are_counted_in_strict_mode_of_ubuntu_s_kernels() {
    if takes_too_long() {
        return;
    }
    for folder in ["ubuntu-jammy", "ubuntu"] {
        let kernel = GuestKernel::Ubuntu(folder);
        check_strict(&pc(kernel, "-device intel-iommu,intremap=on", "intel_iommu=on iommu.strict=1"));
    }
}

/// Ubuntu 26.04: drivers link memory into an IOVA range piece by piece (Linux 6.16). This kernel preempts programs too, and leaves out one
/// that another task of the CPU is in: some calls of threads are lost, and said to be.
#[test]
fn reads_are_counted_in_strict_mode_of_linux_7_0() {
    let kernel = GuestKernel::Ubuntu("ubuntu-resolute");
    let machine = pc(kernel, "-device intel-iommu,intremap=on", "intel_iommu=on iommu.strict=1");
    let Some(counts) = machine.counts() else { return };
    let once = ONCE.into_iter().chain([(Action::Invalidate, 1), (Action::TakeBounce, 0)]);
    counts.assert_calls_of("single", &once.collect::<Vec<_>>());
    let lost = counts.get("threads all lost");
    for (action, per_read) in ONCE {
        let calls = counts.get(&format!("threads disk {action:?}"));
        let expected = per_read * READS;
        assert!(
            (expected.saturating_sub(lost)..=expected).contains(&calls),
            "{action:?}\n{}",
            counts.console
        );
    }
    check_bytes_and_stages(&counts);
    // A list is unmapped with its bytes.
    let unmapped = counts.get("lists disk Unmap-bytes");
    assert_eq!(unmapped, LISTS * LIST_BYTES, "{}", counts.console);
}

/// Drivers first try to allocate an IOVA range, which fails without an IOMMU and is no mapping. They leave out what need not be unmapped.
#[test]
fn a_range_that_could_not_be_allocated_is_no_mapping() {
    if takes_too_long() {
        return;
    }
    let Some(counts) = pc(GuestKernel::Ubuntu("ubuntu-resolute"), "", "intel_iommu=off").counts() else {
        return;
    };
    counts.assert_calls_of("single", &[(Action::Map, 1), (Action::WriteTable, 0), (Action::AllocateIova, 0)]);
    counts.assert_bytes(&[Action::Map]);
    assert_eq!(counts.get("lists disk Map-bytes"), LISTS * LIST_BYTES, "{}", counts.console);
}

#[test]
fn reads_are_counted_behind_amd_s_iommu() {
    if takes_too_long() {
        return;
    }
    check_strict(&pc(V6_1, "-device amd-iommu", "iommu.strict=1"));
}

/// The kernel has no trampolines on this architecture: probes count.
#[test]
fn reads_are_counted_behind_arm_s_smmu() {
    let machine = Machine {
        arch: Arch::Arm,
        kernel: V6_1,
        options: ",gic-version=3,iommu=smmuv3",
        devices: "",
        command_line: "iommu.strict=1",
        processors: TWO_CPUS,
        is_killed: true,
    };
    let Some(counts) = machine.counts() else { return };
    counts.assert_calls_of("single", &ONCE);
    counts.assert_calls_of("single", &[(Action::Invalidate, 1), (Action::TakeBounce, 0)]);
    counts.assert_clears_of_threads(true);
    check_bytes_and_stages(&counts);
    counts.assert_nothing_is_left();
}

/// Ubuntu 26.04 for Arm with pages of 64 KiB, which its stacks are aligned by, too. Programs run from trampolines.
#[test]
fn reads_are_counted_with_pages_of_64_kib() {
    if takes_too_long() {
        return;
    }
    let machine = Machine {
        arch: Arch::Arm,
        kernel: GuestKernel::Ubuntu("ubuntu-resolute-arm64-64k"),
        options: ",gic-version=3,iommu=smmuv3",
        devices: "",
        command_line: "iommu.strict=1",
        processors: TWO_CPUS_IN_TURN,
        is_killed: false,
    };
    let Some(counts) = machine.counts() else { return };
    counts.assert_calls_of("single", &ONCE);
    counts.assert_calls_of("single", &[(Action::Invalidate, 1), (Action::TakeBounce, 0)]);
    counts.assert_bytes(&[Action::Map, Action::Unmap]);
    counts.assert_costs_are_measured();
    // Whatever a read moves, a whole page of the table is written.
    for action in [Action::WriteTable, Action::ClearTable] {
        let bytes = counts.get(&format!("single disk {action:?}-bytes"));
        assert_eq!(bytes, READS << 16, "{action:?}\n{}", counts.console);
    }
}

/// In the default window of a POWER partition an entry is written, and later cleared, by a hypercall each. Probes count.
#[test]
fn hypercalls_are_counted_in_a_window_of_power() {
    let Some(counts) = partition("disable_ddw").counts() else { return };
    counts.assert_calls_of("single", &ONCE);
    counts.assert_calls_of("single", &[(Action::CallHypervisor, 2), (Action::Invalidate, 0)]);
    counts.assert_clears_of_threads(false);
    counts.assert_bytes(&[Action::Map, Action::Unmap]);
}

/// With a direct window nothing is allocated, written or called.
#[test]
fn a_direct_window_of_power_costs_no_hypercall() {
    if takes_too_long() {
        return;
    }
    let Some(counts) = partition("").counts() else { return };
    counts.assert_calls_of("single", &[(Action::Map, 1), (Action::Unmap, 1)]);
    counts.assert_calls_of(
        "single",
        &[Action::AllocateIova, Action::WriteTable, Action::ClearTable, Action::CallHypervisor]
            .map(|action| (action, 0)),
    );
}

/// Invalidations are few, and those of the timer belong to no device.
#[test]
fn invalidations_of_lazy_mode_belong_to_no_device() {
    for kernel in [V6_1, V6_12] {
        let machine = pc(kernel, "-device intel-iommu,intremap=on", "intel_iommu=on iommu.strict=0");
        let Some(counts) = machine.counts() else { return };
        counts.assert_calls(&[Action::Map, Action::Unmap, Action::WriteTable].map(|action| (action, 1)));
        let of_disk = counts.get("single disk Invalidate");
        let of_none = counts.get("single none Invalidate");
        assert!(
            of_disk == 0 && of_none > 0 && of_none < READS / 2,
            "{of_disk}, {of_none}\n{}",
            counts.console
        );
    }
}

/// A read takes a bounce buffer, and returns it with a copy.
#[test]
fn bounce_buffers_are_counted() {
    for kernel in [V6_1, V6_12] {
        let Some(counts) = pc(kernel, "", "intel_iommu=off swiotlb=force").counts() else { return };
        let once = [Action::Map, Action::Unmap, Action::TakeBounce, Action::ReturnBounce];
        counts.assert_calls(&once.map(|action| (action, 1)));
        counts.assert_calls(&[(Action::WriteTable, 0)]);
        counts.assert_bytes(&[Action::TakeBounce, Action::ReturnBounce]);
    }
}

/// Programs are detached and attached again, so that watching takes no more than a share of a core. In pauses no function has one.
#[test]
fn a_part_of_the_reads_is_counted() {
    if takes_too_long() {
        return;
    }
    let (seconds, max_cores) = (100, 0.15);
    let count = "busybox wc -l < /sys/kernel/tracing/enabled_functions";
    let script = format!(
        "busybox mount -t tracefs tracefs /sys/kernel/tracing\n\
         while :; do echo \"hooked functions: $({count})\"; busybox sleep 1; done & looking=$!\n\
         /lab/part_time_reads /dev/nvme0n1 {ADAPTER} {seconds} {max_cores} 2>&1\nkill $looking\n"
    );
    let machine = pc(V6_12, "-device intel-iommu,intremap=on", "intel_iommu=on iommu.strict=1");
    let machine = Machine { processors: TWO_CPUS_IN_TURN, ..machine };
    let Some(counts) = machine.run("part_time_reads", &script) else { return };
    let console = &counts.console;
    let (windows, requests) = (counts.get("windows"), counts.get("requests"));
    assert!(windows >= 2 && counts.get("requests in windows") > 100 * windows, "{console}");
    let [counted, elapsed, stood_for] =
        ["counted", "elapsed", "stood for"].map(|what| counts.get(&format!("milliseconds {what}")));
    assert!(counted < elapsed / 2 && stood_for.abs_diff(elapsed) < elapsed / 50, "{console}");
    // The kernel counts reads in pauses, too. Some are made before the first reading or after the last.
    let reads = counts.get("reads while watched");
    assert!(requests.abs_diff(reads) < reads / 50, "{console}");
    for action in [Action::Map, Action::Unmap, Action::AllocateIova, Action::Invalidate] {
        // A read is in flight at the begin and the end of each window.
        let calls = counts.get(&format!("{action:?}"));
        assert!(calls.abs_diff(requests) <= requests / 100, "{action:?}\n{console}");
    }
    let cores = counts.get("millionths of a core") as f64 / 1e6;
    // The share is that of whole periods, and watching may end in the midst of one.
    assert!(cores > 0.0 && cores <= 1.5 * max_cores, "{console}");
    let hooked: Vec<usize> = console
        .lines()
        .filter_map(|line| line.trim().strip_prefix("hooked functions: ")?.parse().ok())
        .collect();
    let changes = hooked.windows(2).filter(|pair| (pair[0] == 0) != (pair[1] == 0)).count();
    assert!(changes >= 2, "{hooked:?}\n{console}");
}

/// Of a read of 4 KiB the lab counts each instruction of each stage in the same kernel (`data/tolls`). Here the time goes on by a nanosecond
/// for each instruction, so the times are held against those counts. Programs and jumps to them add three times as much, by what is measured.
#[test]
fn times_without_what_watching_added_are_those_of_the_lab() {
    let machine = pc(V6_12, "-device intel-iommu,intremap=on", "intel_iommu=on iommu.strict=1");
    let machine = Machine { processors: TIME_OF_INSTRUCTIONS, ..machine };
    let script = format!("/lab/count_reads /dev/nvme0n1 {ADAPTER} 10000 4096 1 2>&1\n");
    let Some(counts) = machine.run("count_reads", &script) else { return };
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/tolls/x86-6.12-vtd-strict.json");
    let sheet = toll::TollSheet::read(&std::fs::read_to_string(path).unwrap(), path).unwrap();
    let counted = sheet.toll("nvme-read-4k").unwrap();
    let per_read = |stage| counted.stages[&stage] as f64 / f64::from(counted.ios_per_window.get());
    let of = |stage: Stage, name: &str| counts.get(&format!("disk {stage:?}-{name}")) as f64 / 10_000.0;
    let pairs = STAGES.map(|stage| (of(stage, "ns") - of(stage, "watching-ns"), per_read(stage)));
    let (ours, labs) = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    println!("{pairs:?} {ours} {labs}");
    assert!((0.9..1.1).contains(&(ours / labs)), "{ours} {labs}\n{}", counts.console);
    for (stage, (our, lab)) in STAGES.iter().zip(pairs) {
        let (our, lab) = (our / ours, lab / labs);
        assert!((our - lab).abs() < 0.05, "{stage:?} {our} {lab}\n{}", counts.console);
    }
}
