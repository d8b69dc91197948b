//! One machine, one value: what two studies take of the same machine is written down once, in one file.
//!
//! That examples have the values of their studies is tested beside `FileEvidence`.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::collections::BTreeMap;
use std::path::Path;
use toml::{Table, Value};

const EXPERIMENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
/// Each study's file, and the table that has its parameters.
const FILES: [(&str, &[&str]); 8] = [
    ("power7", &[]),
    ("dma-contention", &["threads", "parameters"]),
    ("iotlb", &["parameters"]),
    ("protection-mode", &["parameters"]),
    ("premapped", &["parameters"]),
    ("memmap", &["parameters"]),
    ("memfree-hca", &["parameters"]),
    ("capi-flash", &["parameters"]),
];
/// Names that mean a quantity of another machine or program in each file.
const OF_OTHER_MACHINES: [&str; 8] = [
    // POWER7 at 3.55 GHz, Ryzen 9 3950X
    "instruction_ns",
    "core_capacity_2_threads",
    // an mlx4 behind POWER7, an E810 behind a Ryzen
    "interrupt_instructions",
    "receive_ring_entries",
    "send_ring_entries",
    // two programs that read a disk: by pread, by io_uring
    "system_call_instructions",
    // a Power S824, a Ryzen 9 3950X
    "cores",
    // an NFP-6000, a CPU
    "copy_ps_per_byte",
];

/// The parameters of each file.
fn parameters() -> BTreeMap<&'static str, Table> {
    let read = |(file, path): (&'static str, &[&str])| {
        let text = std::fs::read_to_string(Path::new(EXPERIMENTS).join(format!("{file}.toml"))).unwrap();
        let all: Table = toml::from_str(&text).unwrap();
        let parameters = path.iter().fold(&all, |table, key| table[*key].as_table().unwrap());
        (file, parameters.clone())
    };
    FILES.into_iter().map(read).collect()
}

/// The parameters that a file has a value of its own for.
fn own(parameters: &Table) -> impl Iterator<Item = (&String, &Value)> {
    parameters.iter().filter(|(_, parameter)| parameter.get("value").is_some())
}

#[test]
fn no_two_files_have_a_value_for_the_same_parameter() {
    let all = parameters();
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    for (file, parameters) in &all {
        for (name, _) in own(parameters) {
            let other = seen.insert(name, file);
            let is_other_machine = OF_OTHER_MACHINES.contains(&name.as_str());
            assert!(
                other.is_none() || is_other_machine,
                "{name} is in {file} and in {other:?}; use `from` in one"
            );
        }
    }
}

/// What is POWER7's is taken from power7.toml, and what is of another machine says so.
#[test]
fn prices_of_power7_are_in_its_file_alone() {
    for (file, parameters) in parameters().iter().filter(|(file, _)| **file != "power7") {
        for (name, parameter) in own(parameters) {
            let evidence = parameter["evidence"].to_string();
            assert!(
                !name.starts_with("power7") && !evidence.contains("POWER7's"),
                "{file}: {name}: {evidence}"
            );
        }
    }
}

/// A POWER7 line takes as long between threads as between hosts and, for want of a better one, on POWER8.
#[test]
fn all_studies_of_power_have_one_transfer_time_of_a_line() {
    let changed = |study: &str, line_ns: f64| {
        let changes = model::Changes::new([("line_same_chip_ns".to_owned(), line_ns)]).unwrap();
        model::reproduce_with(study, &changes, 1).unwrap()
    };
    // The window's study takes long to run: it says before it runs that it has the parameter.
    let too_long = model::Changes::new([("line_same_chip_ns".to_owned(), 1e9)]).unwrap();
    let refused = model::reproduce_with("power-window", &too_long, 1).unwrap_err().to_string();
    assert!(refused.contains("line_same_chip_ns is 1000000000; expected"), "{refused}");
    let flash = changed("capi-flash", 90.0);
    assert!(flash.tally(|kind| kind == model::FigureKind::Changed).rows > 0, "{}", flash.study);
    let bitmap = |one: &model::Reproduction| {
        let line = one.charts[0].lines.iter().find(|line| line.name == "bitmap").unwrap();
        line.points.last().unwrap().1
    };
    let as_given = model::reproduce_with("dma-contention", &model::Changes::default(), 1).unwrap();
    let (as_given, slow) = (bitmap(&as_given), bitmap(&changed("dma-contention", 110.0)));
    assert!(slow > 1.1 * as_given, "threads of POWER take the line of power7.toml: {slow}, {as_given}");
}
