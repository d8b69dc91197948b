//! Real kernels in QEMU, one preset of each architecture: what is counted agrees with arithmetic.
//!
//! Needs QEMU, cross compilers, the plugin and the program in guests (`cargo build -p lab-plugin -p lab-guest`) and the kernels (`iotoll lab fetch`), all of
//! which `./check` brings. Without them the tests fail and say what is missing, unless IOTOLL_KERNEL_TESTS is off. Some run only if it is `all`.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../../../tests/skip.rs"]
mod skip;

use assert_cmd::Command;
use skip::{skip, takes_too_long};
use std::path::Path;
use toll::{Boot, DmaPath, Event, Stage, Toll, TollSheet};

fn iotoll() -> Command {
    Command::cargo_bin("iotoll").unwrap()
}

fn is_off() -> bool {
    let off = std::env::var("IOTOLL_KERNEL_TESTS").is_ok_and(|value| value == "off");
    if off {
        skip("IOTOLL_KERNEL_TESTS=off, no guest was booted");
    }
    off
}

fn run(preset: &str, workloads: &[&str], folder: &Path) -> TollSheet {
    run_with(&["--boots", "1"], preset, workloads, folder)
}

fn run_with(arguments: &[&str], preset: &str, workloads: &[&str], folder: &Path) -> TollSheet {
    let mut command = iotoll();
    command.args(["lab", "run", preset, "-o"]).arg(folder).args(arguments);
    for workload in workloads {
        command.args(["--workload", workload]);
    }
    command.assert().success();
    let path = folder.join(format!("{preset}.json"));
    TollSheet::read(&std::fs::read_to_string(&path).unwrap(), preset).unwrap()
}

/// Checks that the 4 KiB read's median is that of a boot of the committed sheet, to the instruction. A sheet's own boots may differ in
/// a few, as where a search begins is random.
fn check_committed(sheet: &TollSheet) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../data/tolls/{}.json", sheet.preset));
    let committed = TollSheet::read(&std::fs::read_to_string(file).unwrap(), &sheet.preset).unwrap();
    if committed.kernel.release != sheet.kernel.release {
        let (theirs, ours) = (&committed.kernel.release, &sheet.kernel.release);
        return skip(&format!("{}: the sheet is of Linux {theirs}, and {ours} was fetched", sheet.preset));
    }
    let medians = |sheet: &TollSheet| sheet.toll("nvme-read-4k").unwrap().medians_by_boot();
    let (committed, now) = (medians(&committed), medians(sheet));
    assert!(
        now.iter().all(|median| committed.contains(median)),
        "{}: {now:?}, not in {committed:?}",
        sheet.preset
    );
}

/// What `crates/lab/agent/loop.c` documents: 2 n + 3 instructions for n turns.
const LOOP: u64 = 2 * 1000 + 3;

fn check_loop(sheet: &TollSheet) {
    let toll = sheet.toll("loop").unwrap();
    assert_eq!((toll.instructions.median, toll.user, toll.kernel), (LOOP, LOOP, 0));
    assert_eq!((toll.instructions.min, toll.instructions.max), (LOOP, LOOP));
}

fn times(toll: &Toll, event: Event) -> u64 {
    toll.events[&event].all.median
}

/// More than a read of the library's takes, if it takes no detour. In tests `dma` checks for overflow, which the sheets' build does
/// not: some 95 instructions.
const USER_INSTRUCTIONS_MAX: f64 = 600.0;

#[test]
fn x86_strict_pays_an_invalidation_and_two_entries() {
    if is_off() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let sheet = run("x86-vtd-strict", &["loop", "nvme-read-4k"], folder.path());
    check_loop(&sheet);
    check_committed(&sheet);
    let read = sheet.toll("nvme-read-4k").unwrap();
    assert_eq!((times(read, Event::Invalidations), times(read, Event::TableEntries)), (1, 2));
    assert_eq!(times(read, Event::Mappings), 1, "one I/O, one mapping");
    // One for the command, one for its completion, one for the invalidation.
    assert_eq!((times(read, Event::Doorbells), times(read, Event::Interrupts)), (3, 1));
    assert!(read.stages[&Stage::Invalidation] > 0);
    assert!(!read.stages.contains_key(&Stage::Unattributed), "{:?}", read.stages);
}

#[test]
fn a_program_with_the_disk_pays_neither_kernel_nor_iommu() {
    if is_off() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let flames = folder.path().join("flame.folded");
    let workloads = ["loop", "nvme-read-4k-user", "nvme-read-4k-user-32"];
    let sheet = run_with(
        &["--boots", "1", "--flame", flames.to_str().unwrap()],
        "x86-vtd-user",
        &workloads,
        folder.path(),
    );
    assert_eq!(sheet.dma_path, DmaPath::User);
    check_loop(&sheet);
    for (workload, reads) in [("nvme-read-4k-user", 1), ("nvme-read-4k-user-32", 32)] {
        let read = sheet.toll(workload).unwrap();
        assert_eq!((read.ios_per_window.get(), read.driver.as_str(), read.kernel), (reads, "vfio-pci", 0));
        assert!(read.per_io(read.user) <= USER_INSTRUCTIONS_MAX, "{workload}: {}", read.per_io(read.user));
        for event in
            [Event::Hypercalls, Event::Invalidations, Event::TableEntries, Event::Mappings, Event::Interrupts]
        {
            assert_eq!(read.events[&event].all.total, 0, "{workload}: {event}");
        }
        // One for all commands, one for all completions; and one look, since the window pauses until they are there.
        assert_eq!((times(read, Event::Doorbells), times(read, Event::Polls)), (2, 1));
        // What the program does for a read is in one function, into which the compiler puts the driver's.
        let main = "lab_guest::read::read_batch";
        assert!(read.functions.keys().any(|name| name.contains(main)), "{:?}", read.functions);
        let flame = folder.path().join(format!("flame-x86-vtd-user-{workload}.folded"));
        let flame = std::fs::read_to_string(flame).unwrap();
        assert!(flame.contains(&format!(";{main}")), "{flame}");
    }
}

/// Most instructions that the C interface adds to a read in a batch, and to one alone. In the build of tests, in which `dma` checks for
/// overflow and less is inlined, it took 160 and 214 when this was written; in a release build 82 and 125.
const C_ADDS_MAX: [f64; 2] = [180.0, 240.0];

#[test]
fn the_c_interface_adds_few_instructions() {
    if takes_too_long() {
        return;
    }
    if is_off() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let workloads =
        ["nvme-read-4k-user-32", "nvme-read-4k-queue-32", "nvme-read-4k-user", "nvme-read-4k-queue"];
    let sheet = run("x86-vtd-user", &workloads, folder.path());
    for (pair, most) in workloads.chunks(2).zip(C_ADDS_MAX) {
        let [rust, c] = [pair[0], pair[1]].map(|workload| sheet.toll(workload).unwrap());
        let added = c.per_io(c.instructions.median) - rust.per_io(rust.instructions.median);
        println!("{}: {added:.1} more than {}", pair[1], pair[0]);
        assert!(added > 0.0 && added <= most, "{}: {added}", pair[1]);
        assert_eq!((c.ios_per_window, c.kernel), (rust.ios_per_window, 0));
        assert_eq!((times(c, Event::Doorbells), times(c, Event::Polls)), (2, 1));
        for function in ["iotoll_queue_read", "iotoll_queue_submit", "iotoll_queue_poll"] {
            assert!(c.functions.contains_key(function), "{function} is called: {:?}", c.functions);
        }
    }
}

#[test]
fn a_kernel_that_polls_takes_no_interrupt() {
    if takes_too_long() {
        return;
    }
    if is_off() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let workload = "nvme-uring-scattered-read-4k-polled";
    let sheet = run("x86-vtd-strict-ways", &[workload], folder.path());
    let read = sheet.toll(workload).unwrap();
    assert_eq!((times(read, Event::Interrupts), times(read, Event::Polls)), (0, 1));
    assert_eq!(times(read, Event::TableEntries), 2 * 32, "each read is a command");
}

#[test]
fn arm_strict_pays_an_invalidation_and_two_entries() {
    if is_off() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let sheet = run_with(&["--boots", "2"], "arm-smmu-strict", &["loop", "nvme-read-4k"], folder.path());
    check_loop(&sheet);
    check_committed(&sheet);
    let boots = [Boot { seed: 1, memory_mib: 1024 }, Boot { seed: 2, memory_mib: 1280 }];
    assert_eq!((sheet.boots.as_slice(), sheet.programs[0].name.as_str()), (&boots[..], "agent"));
    let read = sheet.toll("nvme-read-4k").unwrap();
    assert_eq!((times(read, Event::Invalidations), times(read, Event::TableEntries)), (1, 2));
}

#[test]
fn power_pays_two_hypercalls_in_the_default_window_and_none_in_the_direct_one() {
    if is_off() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let tce = run("ppc-tce-window", &["loop", "nvme-read-4k"], folder.path());
    check_loop(&tce);
    check_committed(&tce);
    let read = tce.toll("nvme-read-4k").unwrap();
    assert_eq!((times(read, Event::Hypercalls), times(read, Event::TableEntries)), (2, 2));
    let direct = run("ppc-direct-window", &["nvme-read-4k"], folder.path());
    assert_eq!(direct.dma_path, DmaPath::DirectWindow);
    assert_eq!(times(direct.toll("nvme-read-4k").unwrap(), Event::Hypercalls), 0);
    let sheet = |preset: &str| folder.path().join(format!("{preset}.json"));
    // The gate: a longer path is caught, the same one is not.
    let diff = |a: &str, b: &str| iotoll().args(["lab", "diff"]).arg(sheet(a)).arg(sheet(b)).assert();
    diff("ppc-direct-window", "ppc-tce-window").code(1);
    diff("ppc-direct-window", "ppc-direct-window").code(0);
}

/// DMA paths whose path a stock kernel's own options make longer: by less than ten instructions in one function (a
/// place below 4 GiB is looked for first), and by two hundred (each system call is audited).
const LENGTHENED: &str = r#"
[short]
arch = "arm"
dma_path = "translated-strict"
what = "the shortest"
series = "6.1"
append = "iommu.strict=1 iommu.forcedac=1"
machine = "iommu=smmuv3"
adapters = ["nvme"]

[below-4g-first]
arch = "arm"
dma_path = "translated-strict"
what = "the stock kernel's"
series = "6.1"
append = "iommu.strict=1"
machine = "iommu=smmuv3"
adapters = ["nvme"]

[audited]
arch = "arm"
dma_path = "translated-strict"
what = "with an audit of system calls"
series = "6.1"
append = "iommu.strict=1 iommu.forcedac=1 audit=1"
machine = "iommu=smmuv3"
adapters = ["nvme"]
"#;

#[test]
fn a_lengthened_path_is_caught_and_the_same_is_not() {
    if takes_too_long() {
        return;
    }
    if is_off() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let presets = folder.path().join("presets.toml");
    std::fs::write(&presets, LENGTHENED).unwrap();
    let of = |preset: &str, name: &str| {
        let folder = folder.path().join(name);
        run_with(
            &["--boots", "1", "--presets", presets.to_str().unwrap()],
            preset,
            &["nvme-read-4k"],
            &folder,
        );
        folder.join(format!("{preset}.json"))
    };
    let (short, again) = (of("short", "a"), of("short", "b"));
    let (longer, audited) = (of("below-4g-first", "a"), of("audited", "a"));
    let diff = |a: &Path, b: &Path, more_than: &str, exit: i32| {
        let mut command = iotoll();
        command.args(["lab", "diff", "--more-than", more_than]).arg(a).arg(b);
        let output = command.assert().code(exit).get_output().clone();
        String::from_utf8(output.stdout).unwrap()
    };
    diff(&short, &again, "0", 0);
    diff(&again, &short, "0", 0);
    // A handful of instructions in one function.
    let shown = diff(&short, &longer, "0", 1);
    for words in [
        "nvme-read-4k grew: instructions +",
        "iommu_dma_alloc_iova",
        "only A's kernel has the options iommu.forcedac=1",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    diff(&short, &longer, "30", 0);
    diff(&longer, &short, "0", 0);
    // More than 30, in functions that were not there before.
    let shown = diff(&short, &audited, "30", 1);
    for words in ["system-call", "__audit_syscall_entry", "__audit_syscall_exit"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    diff(&audited, &short, "0", 0);
}

/// Guests that come to no good end, and a machine whose adapter goes through another window than the preset says.
const FAILING: &str = r#"
[panics]
arch = "arm"
dma_path = "no-iommu"
what = "no first program"
series = "6.1"
append = "rdinit=/none"
adapters = ["nvme"]

[lacks-driver]
arch = "arm"
dma_path = "no-iommu"
what = "the driver is forbidden"
series = "6.1"
append = "module_blacklist=nvme"
adapters = ["nvme"]

[astray]
arch = "ppc"
dma_path = "direct-window"
what = "no direct window"
series = "6.1"
append = "disable_ddw"
adapters = ["nvme"]
"#;

#[test]
fn guests_that_fail_say_why() {
    if is_off() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let presets = folder.path().join("presets.toml");
    std::fs::write(&presets, FAILING).unwrap();
    let check = |preset: &str, words: &[&str]| {
        let mut command = iotoll();
        command
            .args(["lab", "run", preset, "--boots", "1", "--workload", "nvme-read-4k", "--presets"])
            .arg(&presets);
        let output = command.assert().code(2).get_output().clone();
        let said = String::from_utf8(output.stderr).unwrap();
        for word in words {
            assert!(said.contains(word), "{preset}, {word}: {said}");
        }
    };
    check("panics", &["ended before its last workload", "Kernel panic - not syncing"]);
    check("lacks-driver", &["in the guest: module nvme does not load"]);
    check("astray", &["on the DMA path direct-window, but in the guest 0000:00:04.0", "ibm,dma-window"]);
}

#[test]
fn a_queue_of_each_of_two_cpus_has_the_path_of_one() {
    if takes_too_long() {
        return;
    }
    if is_off() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let sheet = run("x86-no-iommu", &["nvme-read-4k-1cpu", "nvme-read-4k-2cpu"], folder.path());
    let [one, two] = ["nvme-read-4k-1cpu", "nvme-read-4k-2cpu"].map(|name| sheet.toll(name).unwrap());
    assert_eq!((one.windows.get(), two.windows.get()), (256, 512));
    let (one_path, two_path) = (one.instructions.median, two.instructions.median);
    assert!(two_path.abs_diff(one_path) * 100 < one_path, "{one_path} and {two_path} instructions");
    for event in [Event::Doorbells, Event::Interrupts, Event::DeviceReads] {
        assert_eq!(times(one, event), times(two, event), "{event:?}");
    }
}

#[test]
fn repeats_count_the_same() {
    if takes_too_long() {
        return;
    }
    if is_off() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = iotoll();
    command.args(["lab", "run", "arm-smmu-strict", "--boots", "1", "--repeat", "2", "-o"]).arg(folder.path());
    for workload in ["nvme-read-4k", "nvme-read-1m", "virtio-net-udp-64"] {
        command.args(["--workload", workload]);
    }
    command.assert().code(0);
}

#[test]
fn missing_files_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = iotoll();
    command.env("IOTOLL_CACHE", folder.path()).args(["lab", "run", "x86-no-iommu"]);
    command.args(["--plugin", env!("CARGO_MANIFEST_DIR")]);
    let output = command.assert().code(2).get_output().clone();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("cargo build --release -p lab-plugin"), "{said}");
}
