//! `iotoll watch` of a disk of a guest in strict mode says what lazy mode would cost. Then the guest changes to lazy mode, and it is
//! measured. Time goes on by a nanosecond for each instruction, so that both are exact.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod guest;

use guest::support::{Guest, takes_too_long};
use guest::{SHELL, case, kernel, stripped};
use serde_json::Value;

const DEVICES: &str = "-smp 1 -icount shift=0,sleep=off -device intel-iommu,intremap=on \
                       -drive driver=null-co,size=1G,read-zeroes=on,if=none,id=disk -device nvme,serial=iotoll,drive=disk,addr=5";
const ADAPTER: &str = "0000:00:05.0";
/// Reads in a burst, which takes some 20 ms. 0.4 seconds without reads follow, which take QEMU little time.
const BURST: u64 = 100;
/// Bursts where all are counted.
const FEW: u64 = 20;
/// Bursts where a part is counted: for some six windows.
const MANY: u64 = 55;

#[test]
fn lazy_mode_costs_what_was_predicted_in_strict_mode() {
    if takes_too_long() {
        return;
    }
    let Some((cache, kernel)) = kernel() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = stripped(folder.path());
    let iotoll = program.display();
    let script = format!(
        "{SHELL}for second in $(seq 60); do [ -e /dev/nvme0n1 ] || sleep 1; done\n\
         echo 'for burst in $(seq $1); do\n\
         dd if=/dev/nvme0n1 of=/dev/null bs=4096 iflag=direct count={BURST} 2> /dev/null\n\
         sleep 0.4\n\
         done' > /tmp/read\n\
         watched() {{ bursts=$1; shift; {iotoll} watch $* --interval 0.5 --json -- sh /tmp/read $bursts; }}\n\
         # The first reads of all fill the caches.\n\
         sh /tmp/read 10\n\
         about strict\nwatched {FEW}\n\
         about part\nwatched {MANY} --max-cores 0.25\n\
         echo DMA-FQ > /sys/bus/pci/devices/{ADAPTER}/iommu_group/type\n\
         about lazy\nwatched {FEW}\nabout end\n"
    );
    let guest = Guest {
        modules: &["nvme"],
        programs: &[&program],
        before: String::new(),
        modes: &[],
        after: &script,
        devices: DEVICES,
        command_line: "intel_iommu=on iommu.strict=1 no_timer_check",
    };
    let Some(console) = guest.run(&cache, &kernel) else { return };
    let console = console.replace('\r', "");
    let [strict, part, lazy] = ["strict", "part", "lazy"].map(|mode| {
        let text = case(&console, mode);
        serde_json::from_str::<Value>(text).unwrap_or_else(|error| panic!("{error}: {text}"))
    });
    let [strict_ns, lazy_ns] = [&strict, &lazy].map(ns_per_read);
    assert_part(&part, strict_ns);
    let gain = &strict["gains"][0];
    let number = |name: &str| gain[name].as_f64().unwrap_or_else(|| panic!("{name}: {gain}"));
    println!("strict {strict_ns}, lazy {lazy_ns}, {gain}");
    assert!((number("now_ns") / strict_ns - 1.0).abs() < 0.02, "{strict_ns}: {gain}");
    assert!((number("then_ns") / lazy_ns - 1.0).abs() < 0.1, "{lazy_ns}: {gain}");
}

/// However much of the time was counted, the kernel's counters hold all reads, and a read costs about the same. Two things differ: a timer's interrupt
/// that comes within a call adds some 16 microseconds, which is 1 % of some hundred reads where it comes once too often; and the tracepoint of
/// cleared entries, which runs until the first pause, adds 83 ns (3 %) that are not taken off.
fn assert_part(part: &Value, strict_ns: f64) {
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value} in {part}"));
    let part_time = &part["part_time"];
    assert_eq!(part_time["max_cores"], 0.25, "{part}");
    let [counted_s, elapsed_s] = ["counted_s", "elapsed_s"].map(|name| part_time[name].as_f64().unwrap());
    assert!(counted_s < 0.7 * elapsed_s, "{part}");
    let disk = part["adapters"].as_array().unwrap().iter().find(|one| one["adapter"] == ADAPTER).unwrap();
    let reads = number(&disk["completed"]["block_requests"]);
    assert!((MANY * BURST..MANY * BURST + 10).contains(&reads), "{reads}: {part}");
    let counted = number(&disk["completed_while_counted"]["block_requests"]);
    let windows = part["intervals"].as_array().unwrap().len();
    let ns = ns_per_read(part);
    println!(
        "{windows} windows with {counted} of {reads} reads in {counted_s} of {elapsed_s} s, {ns} ns per read"
    );
    assert!(windows >= 3 && (250..reads * 7 / 10).contains(&counted), "{windows} {counted}: {part}");
    assert!((ns / strict_ns - 1.0).abs() < 0.1, "{ns} {strict_ns}: {part}");
}

/// Nanoseconds of DMA mapping per read, without what watching added.
fn ns_per_read(document: &Value) -> f64 {
    let costs = document["costs_per_io"].as_array().unwrap();
    let cost = costs.iter().find(|cost| cost["adapter"] == ADAPTER).unwrap_or_else(|| panic!("{document}"));
    assert_eq!((&cost["io"], &cost["is_net"]), (&Value::from("request"), &Value::from(true)), "{cost}");
    cost["ns"].as_f64().unwrap()
}
