//! What the library reads from lspci's machine-readable formats and from its tree must be what it reads from the bytes and from
//! lspci's text for people: of all dumps of pciutils' own tests, and of a made-up `/sys` with drivers and IOMMU groups.
//!
//! `pciutils/fetch.sh` gets dumps and lspci; without them the tests say that they did not run.

#[path = "pciutils/mod.rs"]
mod pciutils;
#[path = "../../../tests/skip.rs"]
mod skip;

use pci::Text;
use pci::lspci::{self, Record};
use pci::{BusTree, ConfigSpace, Header};
use pciutils::{Dump, Pciutils};
use skip::skip;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// The records in a text, by address.
fn records(text: &str) -> BTreeMap<String, Record> {
    let records = lspci::parse(&Text::new("lspci", text));
    let count = records.len();
    assert_eq!(lspci::addresses(text).count(), count, "{text}");
    let found: BTreeMap<String, Record> =
        records.into_iter().map(|record| (record.bdf.to_string(), record)).collect();
    assert_eq!(found.len(), count, "{text}");
    found
}

/// pciutils, if it is there.
fn pciutils() -> Option<Pciutils> {
    let found = Pciutils::find();
    if found.is_none() {
        skip("no sources of pciutils; crates/pci/tests/pciutils/fetch.sh gets them");
    }
    found
}

/// The bridge directly above each function.
fn bridges_above(records: &BTreeMap<String, Record>) -> Vec<String> {
    let buses = records.values().filter_map(|record| Some((record.bdf, record.buses?)));
    let tree = BusTree::new(buses);
    let line = |record: &Record| format!("{} below {:?}", record.bdf, tree.bridge_above(record.bdf));
    records.values().map(line).collect()
}

/// Compares the functions of two texts by what `view` makes of each.
fn compare<T: PartialEq + std::fmt::Debug>(
    what: &str,
    one: &BTreeMap<String, Record>,
    other: &BTreeMap<String, Record>,
    view: impl Fn(&Record) -> T,
) {
    let all = |records: &BTreeMap<String, Record>| -> Vec<(String, T)> {
        records.iter().map(|(address, record)| (address.clone(), view(record))).collect()
    };
    assert_eq!(all(one), all(other), "{what}");
}

/// Names in the three forms that lspci has for them.
fn names(record: &Record) -> [Option<String>; 3] {
    [record.class_name.clone(), record.name.clone(), record.subsystem_name.clone()]
}

/// Class, IDs and revision; no revision is 0.
fn numbers(record: &Record) -> impl PartialEq + std::fmt::Debug + use<> {
    let ids = (record.vendor, record.device, record.subsystem);
    (record.class, ids, record.revision.unwrap_or(0))
}

#[test]
fn the_machine_readable_formats_tell_what_the_listing_does() {
    let Some(pciutils) = pciutils() else { return };
    let mut functions = 0;
    for dump in pciutils.dumps() {
        let print = |options: &[&str]| records(&pciutils.print(&dump, options));
        let (named, both) = (print(&["-v"]), print(&["-nnv"]));
        for options in [&["-m"][..], &["-mm"], &["-vm"], &["-vmm"], &["-vmmk"]] {
            compare(&format!("{} {options:?}", dump.name), &print(options), &named, names);
        }
        for options in [&["-mnn"][..], &["-mmnn"], &["-vmnn"], &["-vmmnn"], &["-vmmnnk"], &["-vmmnnD"]] {
            let found = print(options);
            compare(&format!("{} {options:?}", dump.name), &found, &both, names);
            compare(&format!("{} {options:?}", dump.name), &found, &both, numbers);
        }
        for options in [&["-mn"][..], &["-mmn"], &["-vmn"], &["-vmmn"], &["-vmmxxx"], &["-mxxx"]] {
            compare(&format!("{} {options:?}", dump.name), &print(options), &both, numbers);
        }
        functions += named.len();
    }
    println!("{}: {functions} functions", pciutils.version());
}

#[test]
fn the_tree_tells_what_the_bus_numbers_of_bridges_do() {
    let Some(pciutils) = pciutils() else { return };
    for dump in pciutils.dumps() {
        check_tree(&pciutils, &dump);
    }
}

fn check_tree(pciutils: &Pciutils, dump: &Dump) {
    let print = |options: &[&str]| records(&pciutils.print(dump, options));
    let bytes = print(&["-xxx"]);
    for record in bytes.values() {
        assert_eq!(record.buses, Header::decode(ConfigSpace::new(&record.config)).buses);
    }
    let (named, both) = (print(&["-v"]), print(&["-nnv"]));
    for options in ["-t", "-tv", "-tvn", "-tvnn"] {
        let what = format!("{} {options}", dump.name);
        let tree = print(&[options]);
        assert_eq!(bridges_above(&tree), bridges_above(&bytes), "{what}");
        // The tree names no bridges.
        let told = |records: &BTreeMap<String, Record>| -> BTreeMap<String, Record> {
            let leaves = records.iter().filter(|(address, _)| tree[*address].buses.is_none());
            leaves.map(|(address, record)| (address.clone(), record.clone())).collect()
        };
        if matches!(options, "-tv" | "-tvnn") {
            let listing = if options == "-tv" { &named } else { &both };
            compare(&what, &told(&tree), &told(listing), |record| record.name.clone());
        }
        if matches!(options, "-tvn" | "-tvnn") {
            compare(&what, &told(&tree), &told(&both), |record| (record.vendor, record.device));
        }
    }
}

/// A made-up `/sys/bus/pci` with the functions of a dump; every other has a driver, every third a NUMA node.
fn make_sysfs(folder: &Path, functions: &BTreeMap<String, Record>) {
    for (number, (address, record)) in functions.iter().enumerate() {
        let own = folder.join("devices").join(address);
        fs::create_dir_all(&own).expect("a folder");
        let group = folder.join("groups").join(number.to_string());
        fs::create_dir_all(&group).expect("a group");
        symlink(format!("../../groups/{number}"), own.join("iommu_group")).expect("a link");
        if number % 2 == 0 {
            let driver = folder.join("drivers").join(format!("driver_{number}"));
            fs::create_dir_all(&driver).expect("a driver");
            symlink(format!("../../drivers/driver_{number}"), own.join("driver")).expect("a link");
        }
        let hex = |value: Option<u16>| format!("0x{:04x}\n", value.unwrap_or(0xffff));
        let class = record.class.map_or(0, |class| u32::from_be_bytes([0, class.base, class.sub, 0]));
        let files = [
            ("vendor", hex(record.vendor)),
            ("device", hex(record.device)),
            ("class", format!("{class:#08x}\n")),
            ("irq", "0\n".to_owned()),
            ("numa_node", if number % 3 == 0 { "1\n".to_owned() } else { "-1\n".to_owned() }),
            ("resource", "0x0000000000000000 0x0000000000000000 0x0000000000000000\n".repeat(7)),
        ];
        for (name, body) in files {
            fs::write(own.join(name), body).expect("a file");
        }
        fs::write(own.join("config"), &record.config).expect("configuration space");
    }
}

#[test]
fn drivers_groups_and_nodes() {
    let Some(pciutils) = pciutils() else { return };
    for dump in pciutils.dumps() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let functions = records(&pciutils.print(&dump, &["-xxx"]));
        make_sysfs(folder.path(), &functions);
        let print = |options: &[&str]| records(&pciutils.print_host(folder.path(), options));
        let listing = print(&["-nnkv"]);
        let drivers = listing.values().filter(|record| record.driver.is_some()).count();
        assert_eq!(drivers, functions.len().div_ceil(2), "{}", dump.name);
        let found = print(&["-vmmnnk"]);
        compare(&dump.name, &found, &listing, |record| {
            let driver = record.driver.as_ref().map(|driver| driver.value.clone());
            let group = record.iommu_group.as_ref().map(|group| group.value);
            let node = record.numa_node.as_ref().map(|node| node.value);
            (driver, group, node, record.shows_driver)
        });
        assert_eq!(bridges_above(&print(&["-tv"])), bridges_above(&functions), "{}", dump.name);
    }
}
