//! What mutation begins with: kept inputs, and real files of this repository.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Larger files would only be refused more slowly.
const BYTES_MAX: u64 = 128 << 10;
/// A binary target's file of many kinds of bytes is no better for having more of them.
const FILES_MAX: usize = 400;

/// Files and folders of the repository that are inputs of a target as they are.
fn real(target: &str) -> &'static [&'static str] {
    match target {
        "archive" => &["crates/host/tests/captures"],
        "comparison" => &["crates/compare/tests/documents"],
        "digest" => &["data/tolls/digest.toml", "data/power/slots.toml"],
        "experiment" => &["experiments"],
        "fio_jobs" => &["experiments/fio"],
        "kernel_log" => &["crates/host/tests/logs"],
        "lab_presets" => &["data/lab"],
        "lspci_text" => &["crates/pci/tests/functions/lspci-switched.txt"],
        "price_list" => &["data/prices", "crates/host/tests/prices"],
        "sweep_plan" => &["experiments/sweep.toml"],
        "toll_sheet" => &["data/tolls"],
        "trace" => &["experiments/traces"],
        "uperf_profile" => &["experiments/uperf"],
        "rendered" | "whole_host" => &["crates/host/tests/field", "crates/host/tests/rules"],
        _ => &[],
    }
}

/// Whose kept inputs a target begins with, too: one that takes the same form.
fn kept_by(target: &str) -> &str {
    if target == "rendered" { "whole_host" } else { target }
}

/// All inputs to begin with; at least the empty one.
pub fn of(target: &str) -> io::Result<Vec<Vec<u8>>> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut paths = Vec::new();
    for name in [target, kept_by(target)] {
        files_below(&repository.join("fuzz/corpus").join(name), &mut paths)?;
    }
    for path in real(target) {
        files_below(&repository.join(path), &mut paths)?;
    }
    paths.sort();
    paths.dedup();
    paths.truncate(FILES_MAX);
    let mut seeds = paths.iter().map(fs::read).collect::<io::Result<Vec<_>>>()?;
    if seeds.is_empty() {
        seeds.push(Vec::new());
    }
    Ok(seeds)
}

fn files_below(path: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            files_below(&entry?.path(), found)?;
        }
    } else if fs::metadata(path).is_ok_and(|about| about.len() <= BYTES_MAX) {
        found.push(path.to_owned());
    }
    Ok(())
}

/// The words of the target's dictionary in libFuzzer's form: `"text"`, with `\x41` for a byte.
pub fn dictionary(target: &str) -> io::Result<Vec<Vec<u8>>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("dictionaries");
    let name = folder.join(kept_by(target)).with_extension("dict");
    match fs::read(name) {
        Ok(text) => Ok(text.split(|byte| *byte == b'\n').filter_map(word).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn word(line: &[u8]) -> Option<Vec<u8>> {
    let first = line.iter().position(|byte| *byte == b'"')?;
    let last = line.iter().rposition(|byte| *byte == b'"')?;
    let mut quoted = line.get(first + 1..last)?;
    let mut bytes = Vec::new();
    while let [byte, rest @ ..] = quoted {
        quoted = match (byte, rest) {
            (b'\\', [b'x', high, low, rest @ ..]) => {
                let digits = [*high, *low];
                bytes.push(u8::from_str_radix(str::from_utf8(&digits).ok()?, 16).ok()?);
                rest
            }
            (b'\\', [escaped, rest @ ..]) => {
                bytes.push(*escaped);
                rest
            }
            _ => {
                bytes.push(*byte);
                rest
            }
        };
    }
    (!bytes.is_empty()).then_some(bytes)
}
