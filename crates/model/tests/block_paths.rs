//! Path lengths in experiments/nvme.toml are those of the toll sheets, by the rules that are told there, and its prices those of the
//! price list.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::collections::BTreeMap;
use std::path::Path;
use toll::{Event, Given, PriceList, Stage, Toll, TollSheet};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const SHORT: &str = "nvme-read-4k";
const LONG: &str = "nvme-read-128k";
/// Pages that the long read has more, and entries of the IOMMU's tables, written and cleared.
const FURTHER_PAGES: f64 = 31.0;
const FURTHER_ENTRIES: f64 = 62.0;
const PATH: [Stage; 6] =
    [Stage::User, Stage::SystemCall, Stage::BlockLayer, Stage::Driver, Stage::Memory, Stage::Other];
const MAPPING: [Stage; 5] =
    [Stage::DmaMap, Stage::DmaUnmap, Stage::Iova, Stage::TableWrite, Stage::Invalidation];
/// What completes a command. Pages are let go of by the thread where it waited, and by who completes where it did not.
const COMPLETION: [&str; 26] = [
    "__bio_release_pages",
    "__nvme_end_req",
    "__rq_qos_done",
    "__rq_qos_done_bio",
    "bio_endio",
    "bio_uninit",
    "blk_account_io_completion.part.0",
    "blk_account_io_done",
    "blk_mq_complete_request_remote",
    "blk_mq_end_request_batch",
    "blk_mq_finish_request",
    "blk_mq_put_tags",
    "blk_stat_add",
    "blk_status_to_errno",
    "folio_mark_dirty",
    "gup_put_folio",
    "nvme_complete_batch_req",
    "nvme_irq",
    "nvme_pci_complete_batch",
    "nvme_poll_cq",
    "nvme_unmap_data",
    "sbitmap_queue_clear_batch",
    "sbitmap_queue_wake_up",
    "submit_bio_wait_endio",
    "unpin_user_folio",
    "wbt_done",
];
/// With the queue's lock held.
const QUEUE: [&str; 1] = ["nvme_submit_cmds.part.0"];
/// With that of the invalidation queue.
const SUBMIT: [&str; 1] = ["qi_submit_sync"];

fn text(path: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(path)).unwrap()
}

fn sheet(name: &str) -> TollSheet {
    TollSheet::read(&text(&format!("data/tolls/{name}.json")), name).unwrap()
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

fn functions(toll: &Toll, names: &[&str]) -> f64 {
    toll.per_io(names.iter().filter_map(|name| toll.functions.get(*name)).sum())
}

/// Of the short read, and what the long one has more.
fn short_and_more(sheet: &TollSheet, count: impl Fn(&Toll) -> f64) -> [f64; 2] {
    let [short, long] = [SHORT, LONG].map(|workload| count(sheet.toll(workload).unwrap()));
    [short, long - short]
}

#[test]
fn paths_are_those_of_the_sheets() {
    let file: toml::Table = toml::from_str(&text("experiments/nvme.toml")).unwrap();
    let check = |table: &str, name: &str, counted: f64| {
        let value = &file[table][name];
        let value = value.as_float().or(value.as_integer().map(|value| value as f64)).unwrap();
        assert!((value - counted).abs() <= 0.5, "{table}.{name} is {value}, the sheets say {counted:.1}");
    };
    let strict = sheet("x86-6.12-vtd-strict");
    let complete = |toll: &Toll| functions(toll, &COMPLETION);
    let queue = |toll: &Toll| functions(toll, &QUEUE);
    let submit = |toll: &Toll| stages(toll, &PATH) - complete(toll) - queue(toll);
    let [short, more] = short_and_more(&strict, submit);
    check("paths", "submit_instructions", short);
    check("paths", "submit_page_instructions", more / FURTHER_PAGES);
    check("paths", "queue_instructions", short_and_more(&strict, queue)[0]);
    let [short, more] = short_and_more(&strict, complete);
    check("paths", "complete_instructions", short);
    check("paths", "complete_page_instructions", more / FURTHER_PAGES);
    let read = strict.toll(SHORT).unwrap();
    check("paths", "interrupt_instructions", stages(read, &[Stage::Interrupt]));
    for name in ["sleep_instructions", "wake_instructions"] {
        check("paths", name, stages(read, &[Stage::Schedule]) / 2.0);
    }
    let [mapping, more] = short_and_more(&strict, |toll| stages(toll, &MAPPING));
    check("paths", "mapping_entry_instructions", more / FURTHER_ENTRIES);
    let submitted = functions(read, &SUBMIT);
    check("mapping", "submit_instructions", submitted);
    check("mapping", "translated_instructions", (mapping - submitted) / 2.0);
    let untranslated = sheet("x86-6.12-no-iommu");
    let [mapping, _] = short_and_more(&untranslated, |toll| stages(toll, &MAPPING));
    check("mapping", "direct_instructions", mapping / 2.0);

    let prices = PriceList::builtin().iter().find(|prices| prices.arch == "x86").unwrap();
    let price = |event| prices.event_ns[&event].value;
    assert_eq!(file["cpus"]["instruction_ns"].as_float(), Some(prices.instruction_ns.value));
    check("mapping", "invalidation_ns", price(Event::Invalidations));
}

#[test]
fn paths_of_premapped_buffers_are_those_of_the_sheet() {
    let file: toml::Table = toml::from_str(&text("experiments/premapped.toml")).unwrap();
    let given = own_parameters(&file);
    let sheet = sheet("x86-no-iommu");
    let check = |name: &str, workload: &str, of: &[Stage]| {
        let (value, counted) = (given[name].value, stages(sheet.toll(workload).unwrap(), of));
        assert!((value - counted).abs() <= 0.5, "{name} is {value}, the sheet says {counted:.1}");
    };
    let call = [Stage::User, Stage::SystemCall, Stage::Memory, Stage::Other];
    check("system_call_instructions", "nvme-uring-read-4k-registered", &call);
    check("block_instructions", SHORT, &[Stage::BlockLayer]);
    check("driver_instructions", SHORT, &[Stage::Driver]);
    check("map_and_unmap_instructions", SHORT, &[Stage::DmaMap, Stage::DmaUnmap]);
}

#[test]
fn paths_to_an_array_are_those_of_the_sheet() {
    let file: toml::Table = toml::from_str(&text("experiments/capi-flash.toml")).unwrap();
    let given = own_parameters(&file);
    let power7: BTreeMap<String, Given> = toml::from_str(&text("experiments/power7.toml")).unwrap();
    let sheet = sheet("ppc-direct-window");
    let read = sheet.toll(SHORT).unwrap();
    let check = |name: &str, counted: f64| {
        let value = given[name].value;
        assert!((value - counted).abs() <= 0.5, "{name} is {value}, the sheet says {counted:.1}");
    };
    let call = stages(read, &[Stage::User, Stage::SystemCall, Stage::Memory, Stage::Other]);
    let [disk, interrupt, schedule] =
        [Stage::BlockLayer, Stage::Interrupt, Stage::Schedule].map(|stage| stages(read, &[stage]));
    check("system_call_instructions", call);
    check("disk_instructions", disk);
    check("disk_interrupt_instructions", interrupt);
    for name in ["sleep_instructions", "wake_instructions"] {
        check(name, schedule / 2.0);
    }
    // Of 19,000 in all, what these and a page's mapping and unmapping leave.
    let mapping =
        2.0 * (power7["window_map_instructions"].value + power7["window_locked_instructions"].value);
    check("fc_module_instructions", 19_000.0 - call - disk - interrupt - schedule - mapping);
}
