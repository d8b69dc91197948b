//! Path lengths in experiments/power7.toml and protection-mode.toml are those of the toll sheets, by the rule that is told there.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::collections::BTreeMap;
use std::path::Path;
use toll::{Estimate, Event, Given, PriceList, Stage, Toll, TollSheet};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Against speculation, since 2018.
const FLUSHES: [&str; 3] = ["do_uaccess_flush", "entry_flush_fallback", "rfi_flush_fallback"];
/// Frames of a message of 16 KiB by UDP, and bytes of one by TCP.
const UDP_FRAMES: f64 = 12.0;
const TCP_PAYLOAD: f64 = 1448.0;

fn sheet(name: &str) -> TollSheet {
    let path = Path::new(ROOT).join(format!("data/tolls/{name}.json"));
    TollSheet::read(&std::fs::read_to_string(path).unwrap(), name).unwrap()
}

/// The parameters that a study's file has a value of its own for.
fn own_parameters(file: &toml::Table) -> BTreeMap<String, Given> {
    let all = file["parameters"].as_table().unwrap().iter();
    let own = all.filter(|(_, parameter)| parameter.get("value").is_some());
    own.map(|(name, parameter)| (name.clone(), parameter.clone().try_into().unwrap())).collect()
}

fn stages(toll: &Toll, stages: &[Stage]) -> f64 {
    toll.per_io(stages.iter().filter_map(|stage| toll.stages.get(stage)).sum())
}

/// Without the mapping layer, interrupts and flushes: the mean of all boots, since a network workload's median moves from boot to boot.
fn path(sheet: &TollSheet, workload: &str) -> f64 {
    let toll = sheet.toll(workload).unwrap();
    let flushes = FLUSHES.iter().filter_map(|name| toll.functions.get(*name)).sum();
    mean(&toll.means_by_boot(|stage| !stage.is_dma() && stage != Stage::Interrupt)) - toll.per_io(flushes)
}

/// Instructions of an interrupt, by the means of all boots.
fn interrupt(toll: &Toll) -> f64 {
    mean(&toll.means_by_boot(|stage| stage == Stage::Interrupt))
        / mean(&toll.events_by_boot(Event::Interrupts))
}

fn mean(boots: &[f64]) -> f64 {
    Estimate::of(boots).unwrap().mean
}

#[test]
fn paths_are_those_of_the_sheets() {
    let text = std::fs::read_to_string(Path::new(ROOT).join("experiments/power7.toml")).unwrap();
    let given: BTreeMap<String, Given> = toml::from_str(&text).unwrap();
    let check = |name: &str, counted: f64| {
        let value = given[name].value;
        assert!((value - counted).abs() <= 1.0, "{name} is {value}, the sheets say {counted:.1}");
    };
    let (direct, window) = (sheet("ppc-direct-window"), sheet("ppc-tce-window"));

    let frame =
        (path(&direct, "e1000e-udp-16k") - path(&direct, "e1000e-udp-1k")) / (2.0 * (UDP_FRAMES - 1.0));
    let message = path(&direct, "e1000e-udp-64") / 2.0 - frame;
    check("udp_write_instructions", 0.35 * message);
    check("udp_read_instructions", 0.65 * message);
    check("udp_send_instructions", 0.4 * frame);
    check("udp_receive_instructions", 0.6 * frame);

    let (short, long) = (path(&direct, "e1000e-tcp-64"), path(&direct, "e1000e-tcp-64k"));
    let frame = (long - short) / ((65_536.0 - 64.0) / TCP_PAYLOAD);
    let message = short - frame * 64.0 / TCP_PAYLOAD;
    check("tcp_write_instructions", message / 2.0);
    check("tcp_read_instructions", message / 2.0);
    check("tcp_send_instructions", frame / 4.0);
    check("tcp_receive_instructions", frame * 3.0 / 4.0);

    check("interrupt_instructions", interrupt(direct.toll("e1000e-udp-64").unwrap()));

    // Each mapping is unmapped too.
    let calls = |toll: &Toll| 2.0 * toll.per_io(toll.events[&Event::Mappings].all.median);
    let mapped = direct.toll("e1000e-udp-16k").unwrap();
    check("direct_map_instructions", stages(mapped, &[Stage::DmaMap, Stage::DmaUnmap]) / calls(mapped));
    let mapped = window.toll("e1000e-udp-16k").unwrap();
    let outside = [Stage::DmaMap, Stage::DmaUnmap, Stage::TableWrite];
    check("window_map_instructions", stages(mapped, &outside) / calls(mapped));
    check("window_locked_instructions", stages(mapped, &[Stage::Iova]) / calls(mapped));
}

/// The same rule; this kernel writes the tables itself, and waits for its IOMMU.
#[test]
fn paths_of_an_amd_machine_are_those_of_its_sheet() {
    let text = std::fs::read_to_string(Path::new(ROOT).join("experiments/protection-mode.toml")).unwrap();
    let all: toml::Table = toml::from_str(&text).unwrap();
    let given = own_parameters(&all);
    let check = |name: &str, counted: f64| {
        let value = given[name].value;
        assert!((value - counted).abs() <= 1.0, "{name} is {value}, the sheet says {counted:.1}");
    };
    let strict = sheet("x86-amdvi-strict");
    let (short, long) = (path(&strict, "e1000e-tcp-64"), path(&strict, "e1000e-tcp-64k"));
    let frame = (long - short) / ((65_536.0 - 64.0) / TCP_PAYLOAD);
    let message = short - frame * 64.0 / TCP_PAYLOAD;
    check("write_instructions", message / 2.0);
    check("read_instructions", message / 2.0);
    check("send_instructions", frame / 4.0);
    check("receive_instructions", frame * 3.0 / 4.0);
    check("interrupt_instructions", interrupt(strict.toll("e1000e-udp-64").unwrap()));
    let toll = strict.toll("e1000e-tcp-64k").unwrap();
    let counted = |event: Event| toll.per_io(toll.events[&event].all.median);
    let calls = stages(toll, &[Stage::DmaMap, Stage::DmaUnmap, Stage::Iova]);
    check("call_instructions", calls / (2.0 * counted(Event::Mappings)));
    check("submit_instructions", stages(toll, &[Stage::Invalidation]) / counted(Event::Invalidations));
}

/// What inspections price by, and what the experiments do.
#[test]
fn price_lists_say_the_same() {
    let text = std::fs::read_to_string(Path::new(ROOT).join("experiments/power7.toml")).unwrap();
    let given: BTreeMap<String, Given> = toml::from_str(&text).unwrap();
    let prices = PriceList::builtin().iter().find(|prices| prices.arch == "ppc").unwrap();
    assert_eq!(prices.instruction_ns, given["instruction_ns"]);
    let hypercall = &prices.event_ns[&Event::Hypercalls];
    assert_eq!(hypercall.value, given["hypercall_us"].value * 1e3);
}
