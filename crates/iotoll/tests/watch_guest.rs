//! `iotoll watch` of a disk of a guest in strict mode says what lazy mode would cost. Then the guest changes to lazy mode, and it is
//! measured. Time goes on by a nanosecond for each instruction, so that both are exact.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod guest;

use guest::support::Guest;
use guest::{SHELL, case, kernel, stripped};
use serde_json::Value;

const DEVICES: &str = "-smp 1 -icount shift=0,sleep=off -device intel-iommu,intremap=on \
                       -drive driver=null-co,size=1G,read-zeroes=on,if=none,id=disk -device nvme,serial=iotoll,drive=disk,addr=5";
const ADAPTER: &str = "0000:00:05.0";

#[test]
fn lazy_mode_costs_what_was_predicted_in_strict_mode() {
    let Some((cache, kernel)) = kernel() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = stripped(folder.path());
    let iotoll = program.display();
    let script = format!(
        "{SHELL}for second in $(seq 60); do [ -e /dev/nvme0n1 ] || sleep 1; done\n\
         watched() {{ {iotoll} watch $* --interval 0.5 --json -- dd if=/dev/nvme0n1 of=/dev/null bs=4096 iflag=direct count=5000 2> /dev/null; }}\n\
         about strict\nwatched\n\
         about part\nwatched --max-cores 0.5\n\
         echo DMA-FQ > /sys/bus/pci/devices/{ADAPTER}/iommu_group/type\n\
         about lazy\nwatched\nabout end\n"
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
    // However much of the time was counted, a read costs the same.
    assert_eq!(part["part_time"]["max_cores"], 0.5, "{part}");
    assert!((ns_per_read(&part) / strict_ns - 1.0).abs() < 0.02, "{strict_ns}: {part}");
    let gain = &strict["gains"][0];
    let number = |name: &str| gain[name].as_f64().unwrap_or_else(|| panic!("{name}: {gain}"));
    println!("strict {strict_ns}, lazy {lazy_ns}, {gain}");
    assert!((number("now_ns") / strict_ns - 1.0).abs() < 0.02, "{strict_ns}: {gain}");
    assert!((number("then_ns") / lazy_ns - 1.0).abs() < 0.1, "{lazy_ns}: {gain}");
}

/// Nanoseconds of DMA mapping per read, without what watching added.
fn ns_per_read(document: &Value) -> f64 {
    let costs = document["costs_per_io"].as_array().unwrap();
    let cost = costs.iter().find(|cost| cost["adapter"] == ADAPTER).unwrap_or_else(|| panic!("{document}"));
    assert_eq!((&cost["io"], &cost["is_net"]), (&Value::from("request"), &Value::from(true)), "{cost}");
    cost["ns"].as_f64().unwrap()
}
