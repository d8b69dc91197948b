//! Tests that the program's marks are at their fixed addresses, in the agent's order, and empty.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use object::{Object, ObjectKind, ObjectSection, ObjectSymbol};
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_lab-guest");

/// The names of the marks in the agent's header, in the order of their numbers and in lower case.
fn marks_of_agent() -> Vec<String> {
    let header = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/agent/mark.h");
    let text = std::fs::read_to_string(header).unwrap();
    let (_, list) = text.split_once("enum mark {").unwrap();
    let names = list.split_once("MARKS,").unwrap().0.lines().filter_map(|line| line.trim().split_once(','));
    names.map(|(name, _)| name.to_lowercase()).filter(|name| name.starts_with("mark_")).collect()
}

#[test]
fn the_marks_are_those_of_the_agent() {
    let bytes = std::fs::read(PROGRAM).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    assert_eq!(object.kind(), ObjectKind::Executable, "not position independent");
    let marks = object.section_by_name(".marks").unwrap();
    assert_eq!(marks.address(), 0x7000_0000);
    let named = |symbol: object::Symbol<'_, '_>| Some((symbol.address(), symbol.name().ok()?.to_owned()));
    let mut found: Vec<(u64, String)> =
        object.symbols().filter_map(named).filter(|(_, name)| name.starts_with("mark_")).collect();
    found.sort();
    let expected: Vec<(u64, String)> = (0x7000_0000..).step_by(16).zip(marks_of_agent()).collect();
    assert_eq!(found, expected);
    let table = marks.data().unwrap();
    let body = if cfg!(target_arch = "x86_64") { 2 } else { 8 };
    assert!(table.chunks(16).all(|mark| mark[..body] == table[..body]));
}

#[test]
fn the_program_says_how_it_was_compiled() {
    let bytes = std::fs::read(PROGRAM).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    let flags = object.section_by_name(".compiler_flags").unwrap();
    assert_eq!(flags.address(), 0, "not loaded");
    let flags: Vec<&str> =
        std::str::from_utf8(flags.data().unwrap()).unwrap().split_terminator('\0').collect();
    assert!(flags.contains(&"-Copt-level=3"), "{flags:?}");
    assert!(flags.iter().any(|flag| flag.starts_with("--target=") && flag.contains(std::env::consts::ARCH)));
}

#[test]
fn invalid_arguments_and_a_missing_adapter_are_errors() {
    let run = |words: &[&str]| {
        let output = Command::new(PROGRAM).args(words).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(
        run(&[]),
        (Some(1), "lab-guest: expected: [+N] read|queue-read PHASE ADDRESS SIZE WINDOWS DEPTH\n".to_owned())
    );
    let (status, words) = run(&["read", "1", "0000:ff:1f.7", "4096", "30", "0"]);
    assert_eq!((status, words.as_str()), (Some(1), "lab-guest: DEPTH: expected 1 to 1023\n"));
    let (status, words) = run(&["+some", "read", "1", "0000:ff:1f.7", "4096", "30", "1"]);
    assert_eq!(status, Some(1));
    assert!(words.starts_with("lab-guest: windows of warm-up: "), "{words}");
    let (status, words) = run(&["read", "1", "0000:ff:1f.7", "4096", "30", "32"]);
    // The host has no VFIO, or no such adapter.
    assert!(status == Some(1) && words.starts_with("lab-guest: "), "{words}");
}
