//! The stages that `watch` gives functions in sampled call stacks, against those that the lab's sheets have: functions that ran in guests.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use lab::{stage::StageTable, symbols::Symbols};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use toll::{Stage, TollSheet};
use watch::{FUNCTIONS, mapping_stage};

/// Of the instructions of a stage in a sheet, functions that `watch` knows by name have at least this share. The others are helpers
/// such as locks, which count for their callers.
const KNOWN_SHARE_MIN: f64 = 0.9;

/// Instructions by function, of all sheets.
fn counted() -> BTreeMap<String, u64> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/tolls");
    let mut counted = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "json") {
            let text = fs::read_to_string(&path).unwrap();
            let sheet = TollSheet::read(&text, &path.display().to_string()).unwrap();
            for (name, instructions) in sheet.tolls.into_iter().flat_map(|toll| toll.functions) {
                *counted.entry(name).or_default() += instructions;
            }
        }
    }
    counted
}

/// The same with the stage that the lab's table gives each by its name.
fn counted_by_stage() -> Vec<(String, Stage, u64)> {
    let counted: Vec<(String, u64)> =
        counted().into_iter().filter(|(name, _)| !name.starts_with('(')).collect();
    let address = |index: usize| 0xffff_ffff_8000_0000 + ((index as u64) << 8);
    let lines = counted.iter().enumerate().map(|(index, (name, _))| format!("{:x} {name}\n", address(index)));
    let symbols = Symbols::parse(&lines.collect::<String>()).unwrap();
    let stages = StageTable::built_in().stages(&symbols);
    let staged = counted.into_iter().enumerate().map(|(index, (name, instructions))| {
        let stage = stages.own(symbols.code(address(index)));
        (name, stage.unwrap_or(Stage::Other), instructions)
    });
    staged.collect()
}

#[test]
fn both_give_a_function_the_same_stage() {
    let mut different = Vec::new();
    let mut known = 0;
    for (name, stage, _) in counted_by_stage() {
        let Some(ours) = mapping_stage(&name) else { continue };
        known += 1;
        let plain = name.split('.').next().unwrap();
        let is_watched = FUNCTIONS.iter().any(|function| function.name == plain);
        if ours != stage && !is_watched {
            different.push(format!("{name}: {stage} in the lab, {ours} in watch"));
        }
    }
    assert!(different.is_empty() && known > 100, "{known}: {different:#?}");
}

#[test]
fn functions_that_cost_much_are_known() {
    let mut stages: BTreeMap<Stage, (u64, u64)> = BTreeMap::new();
    let mut unknown = Vec::new();
    for (name, stage, instructions) in counted_by_stage() {
        if stage.is_dma() {
            let (all, known) = stages.entry(stage).or_default();
            *all += instructions;
            match mapping_stage(&name) {
                Some(_) => *known += instructions,
                None => unknown.push((instructions, name, stage)),
            }
        }
    }
    unknown.sort();
    for (stage, (all, known)) in stages {
        let share = known as f64 / all as f64;
        let most: Vec<_> = unknown.iter().rev().filter(|one| one.2 == stage).take(12).collect();
        println!("{stage}: {share:.2} known; not: {most:?}");
        assert!(share >= KNOWN_SHARE_MIN, "{stage}: {share:.2}; {most:?}");
    }
}
