//! `iotoll bench` on the command line: documents, pages, and how it ends.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../../../tests/skip.rs"]
mod skip;

use assert_cmd::Command;
use skip::skip;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Output;

fn bench(args: &[&str]) -> Output {
    let mut command = Command::cargo_bin("iotoll").unwrap();
    command.env("COLUMNS", "100").env("NO_COLOR", "1").args(["bench", "iova"]).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const TINY: [&str; 6] = ["--rounds", "2", "--pairs", "200", "--threads", "1,2"];

#[test]
fn a_document_and_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("bench.html");
    let own =
        ["--scenario", "pairs,handoff", "--contestant", "direct", "--json", "--html", page.to_str().unwrap()];
    let output = bench(&[&TINY[..], &own].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let written = format!("{} written\n", page.display());
    assert_eq!(text(&output.stderr), written, "no progress where nobody watches");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], "iotoll.bench/1");
    assert_eq!(document["baseline"], "direct");
    assert_eq!(document["settings"]["pairs"], 200);
    let cases: Vec<String> = document["cases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|case| format!("{} {}", case["scenario"].as_str().unwrap(), case["threads"]))
        .collect();
    assert_eq!(cases, ["pairs 1", "pairs 2", "handoff 2"]);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>"));
    assert_eq!(page.matches("<svg class=\"plot\"").count(), 2);
    for outside in ["<script", "src=", "http://", "https://", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn tables_say_where_figures_come_from() {
    let output = bench(&[&TINY[..], &["--scenario", "held"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for words in [
        "machine",
        "clock",
        "held: each thread holds 256 ranges",
        "1 thread",
        "2 threads",
        "alloc p50",
        "seed 1",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}

#[test]
fn measurements_that_are_impossible_are_exit_two() {
    let check = |args: &[&str], expected: &str| {
        let output = bench(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
        assert!(output.stdout.is_empty(), "{args:?}");
    };
    check(&["--contestant", "nobody"], r#"unknown contestant "nobody"; expected one of direct"#);
    check(&["--baseline", "nobody"], r#"unknown contestant "nobody""#);
    check(&["--scenario", "naps"], "expected one of pairs, held, handoff");
    check(&["--threads", "0"], "expected 1 to 1024");
    check(&["--rounds", "0"], "expected 1 or more");
    check(&["--peer", "lib.so"], "expected NAME=LIB.so");
    check(
        &["--peer", "mine=/nowhere/lib.so"],
        "can't load the peer /nowhere/lib.so: dlopen failed: /nowhere/lib.so: ",
    );
    check(&["--html", "/nowhere/page.html"], "can't write /nowhere/page.html");
    check(&["--peer", "direct=/nowhere/lib.so"], r#"a contestant named "direct" exists"#);
}

fn bench_map(args: &[&str]) -> Output {
    let mut command = Command::cargo_bin("iotoll").unwrap();
    command.env("COLUMNS", "100").env("NO_COLOR", "1").args([
        "bench",
        "map",
        "--rounds",
        "2",
        "--round-ms",
        "1",
    ]);
    command.args(args).output().unwrap()
}

#[test]
fn mappings_are_measured_by_each_dma_path() {
    let output = bench_map(&["--size", "4K,2M", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], "iotoll.bench-map/2");
    let done = |dma_path: &str, cell: usize, what: &str| {
        let rows = document["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["dma_path"] == dma_path).unwrap();
        row["cells"][cell]["per_pair"][what].as_f64().unwrap()
    };
    for (dma_path, cell, what, expected) in [
        ("no-iommu", 0, "table_entries", 0.0),
        ("direct-window", 1, "allocations", 0.0),
        ("translated-strict", 0, "invalidations", 1.0),
        ("translated-strict", 0, "table_entries", 2.0),
        // One entry of 2 MiB.
        ("translated-strict-smmu", 1, "table_entries", 2.0),
        ("tce-window", 0, "hypercalls", 2.0),
        // 512 entries by one call, cleared by another.
        ("tce-window", 1, "hypercalls", 2.0),
        ("tce-window", 1, "table_entries", 1024.0),
        ("bounce", 0, "bounce_bytes", 8192.0),
    ] {
        // Of the first mapping, tables above the entry were written too.
        let done = done(dma_path, cell, what);
        assert!((done - expected).abs() <= expected * 0.01 + 0.01, "{dma_path} {cell} {what}: {done}");
    }
    assert!(done("translated-lazy", 0, "invalidations") < 0.01);
    let bounced = &document["rows"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["dma_path"] == "bounce")
        .unwrap()["cells"][1];
    assert_eq!(bounced["absent"], "at most 256 KiB per mapping");
    let shown = text(&bench_map(&["--size", "64K", "--dma-path", "bounce,no-iommu"]).stdout);
    assert!(
        shown.contains("Mapping and unmapping memory, by 2 DMA paths") && shown.contains("64 KiB"),
        "{shown}"
    );
}

#[test]
fn mappings_by_many_threads_are_a_document_a_page_and_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    let (page, picture) = (folder.path().join("threads.html"), folder.path().join("threads.svg"));
    let output = bench_map_threads(&[
        "--pairs",
        "200",
        "--contestant",
        "direct,percpu,percpu+tables,virtio-iommu",
        "--json",
        "--html",
        page.to_str().unwrap(),
        "--svg",
        picture.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], "iotoll.bench-map-threads/1");
    assert_eq!((&document["baseline"], &document["settings"]["pairs"]), (&"direct".into(), &200.into()));
    let threads: Vec<u64> =
        document["cases"].as_array().unwrap().iter().map(|case| case["threads"].as_u64().unwrap()).collect();
    assert_eq!(threads, [1, 3]);
    let page = std::fs::read_to_string(page).unwrap();
    let picture = std::fs::read_to_string(picture).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && picture.starts_with("<svg"));
    for drawn in [&page, &picture] {
        assert_eq!(drawn.matches("<path class=\"line line").count(), 4, "a line for each contestant");
        assert!(!drawn.contains("<script"));
    }
    let shown = text(&bench_map_threads(&["--pairs", "200", "--contestant", "direct,tables"]).stdout);
    for words in
        ["2 contestants, against direct", "Seconds for a million pairs by each thread", "table entries"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}

fn bench_map_threads(args: &[&str]) -> Output {
    let mut command = Command::cargo_bin("iotoll").unwrap();
    command.env("COLUMNS", "100").env("NO_COLOR", "1");
    command.args(["bench", "map", "--threads", "1,3", "--rounds", "2"]).args(args).output().unwrap()
}

#[test]
fn threads_that_can_not_be_measured_are_exit_two() {
    for (args, expected) in [
        (["--contestant", "nobody"], r#"unknown contestant "nobody"; expected one of direct, bitmap"#),
        (["--size", "4K,8K"], "--size has 2 sizes; expected one with --threads"),
        (["--size", "2M"], "mappings of 2 MiB; expected 1 byte to 1 MiB"),
        (["--peer", "direct=/nowhere/lib.so"], r#"a contestant named "direct" exists"#),
        (["--html", "/nowhere/page.html"], "can't write /nowhere/page.html"),
        (["--svg", "/nowhere/plot.svg"], "can't write /nowhere/plot.svg"),
    ] {
        let output = bench_map_threads(&args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}

#[test]
fn mappings_that_can_not_be_measured_are_exit_two() {
    for (args, expected) in [
        (["--dma-path", "path"], r#"unknown DMA path "path"; expected one of no-iommu"#),
        (["--size", "3M"], "3 MiB are too much for one mapping; expected 2 MiB or less"),
    ] {
        let output = bench_map(&args);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
}

#[test]
fn the_help_of_bench_map_names_every_modelled_dma_path() {
    let help = text(&bench_map(&["--help"]).stdout);
    let (_, list) = help.split_once("DMA paths modelled in this process: ").unwrap();
    let (list, _) = list.split_once('.').unwrap();
    let names: Vec<&str> = list.split(',').map(str::trim).collect();
    assert_eq!(names, bench::dma_paths());
}

fn bench_memtype(args: &[&str]) -> Output {
    let mut command = Command::cargo_bin("iotoll").unwrap();
    command.env("COLUMNS", "100").env("NO_COLOR", "1").args(["bench", "memtype", "--rounds", "2"]);
    command.args(["--round-ms", "1"]).args(args).output().unwrap()
}

#[test]
fn accesses_are_measured_with_their_evidence() {
    let output = bench_memtype(&["--size", "4K,64K", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], "iotoll.bench-memtype/1");
    assert_eq!(document["evidence"]["kind"], "measured");
    assert_eq!(document["areas"][0]["kind"], "write-back");
    let cells = document["areas"][0]["rows"][0]["cells"].as_array().unwrap();
    assert!(
        cells.len() == 2 && cells.iter().all(|cell| cell["ns_per_access"]["median"].as_f64() > Some(0.0))
    );
    let shown = text(&bench_memtype(&["--size", "4K"]).stdout);
    assert!(shown.contains("memory: ordinary memory of this process: write-back"), "{shown}");
}

#[test]
fn memory_that_can_not_be_measured_is_exit_two() {
    for (args, expected) in [
        (&["--size", "100"][..], "100 B are not whole cache lines"),
        (&["--size", "2048M"], "invalid number of bytes; expected 1 to 1024M"),
        (&["--bar", "/sys/nowhere/resource0"], "/sys/nowhere/resource: No such file"),
        (&["--bar", "/etc/passwd"], "expected resourceN or resourceN_wc"),
        (&["--bar-stores"], "--bar <FILE>"),
    ] {
        let output = bench_memtype(args);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
}

#[test]
fn bench_map_writes_a_price_list_that_says_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    let path = file.to_str().unwrap();
    let run = |more: &[&str]| bench_map(&[&["--size", "4K", "--dma-path", "no-iommu"], more].concat());
    let output = run(&["--prices", path, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    // Standard output is the document's alone.
    serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap();
    let said = text(&output.stderr);
    if !file.exists() {
        assert!(said.contains("not written: no price was measured"), "{said}");
        return;
    }
    assert!(said.contains(&format!("{path} written")), "{said}");
    let written = std::fs::read_to_string(&file).unwrap();
    let list = toll::PriceList::read(&written, path).unwrap();
    let builtin = toll::PriceList::builtin().iter().find(|one| one.arch == list.arch).unwrap();
    let mut measured = 0;
    for (priced, given) in list.prices() {
        let before = builtin.prices().find(|(one, _)| *one == priced).map(|(_, given)| given);
        match &given.evidence {
            toll::Evidence::Measured { how, on } => {
                measured += 1;
                assert!(how.starts_with("iotoll bench map: ") && how.contains("2 rounds"), "{how}");
                assert_eq!(*on, list.platform);
                assert!(given.value > 0.0, "{priced}");
            }
            _ => assert_eq!(Some(given), before, "{priced} is the built-in one"),
        }
    }
    assert!(measured > 0, "{written}");
    // What was not measured is named with its reason, in the file and on standard error.
    let not_measured = |line: &&str| line.starts_with("# Not measured: ");
    assert!(written.lines().any(|line| not_measured(&line) && line.contains("event_ns.invalidations")));
    let is_counted = written.lines().any(|line| not_measured(&line) && line.contains("instruction_ns: "));
    let assumed = !matches!(list.instruction_ns.evidence, toll::Evidence::Measured { .. });
    assert_eq!((is_counted, said.contains("Not measured: instruction_ns: ")), (assumed, assumed), "{said}");
    // A list is never overwritten, and not with threads.
    let again = run(&["--prices", path]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("mine.toml exists; expected the name of a new file"));
    assert!(again.stdout.is_empty(), "refused before anything was measured");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), written);
    assert_eq!(bench_map(&["--threads", "1", "--prices", "other.toml"]).status.code(), Some(2));
    let nowhere = run(&["--prices", "/nowhere/mine.toml"]);
    assert!(nowhere.status.code() == Some(2) && nowhere.stdout.is_empty(), "{}", text(&nowhere.stderr));
}

fn bench_blk(args: &[&str]) -> Output {
    let mut command = Command::cargo_bin("iotoll").unwrap();
    command.env("COLUMNS", "100").env("NO_COLOR", "1").args(["bench", "blk"]).args(args).output().unwrap()
}

/// A file of sevens, 1 MiB, beside this program: temporary folders are often on tmpfs, which may not support direct I/O.
fn disk_image() -> (tempfile::TempDir, PathBuf) {
    let beside = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let folder = tempfile::tempdir_in(beside).unwrap();
    let path = folder.path().join("disk.img");
    fs::write(&path, vec![7; 1 << 20]).unwrap();
    (folder, path)
}

const SHORT: [&str; 6] = ["--rounds", "2", "--round-ms", "5", "--depth", "1,2"];

#[test]
fn a_file_is_measured_by_reads_and_by_writes_if_they_are_asked_for() {
    let (_folder, path) = disk_image();
    let file = path.to_str().unwrap();
    let is_untouched = || fs::read(&path).unwrap().iter().all(|byte| *byte == 7);
    let measure = |more: &[&str]| bench_blk(&[&[file], &SHORT[..], more].concat());
    let operations = |output: &Output| -> Vec<String> {
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["schema"], "iotoll.bench-blk/1");
        let rows = document["rows"].as_array().unwrap();
        rows[..2].iter().map(|row| row["operation"].as_str().unwrap().to_owned()).collect()
    };
    let output = measure(&["--json"]);
    let said = text(&output.stderr);
    if said.contains("Invalid argument") {
        return skip(&format!("no direct I/O here: {said}"));
    }
    assert_eq!((output.status.code(), said.as_str()), (Some(0), ""));
    assert_eq!(operations(&output), ["read", "read"]);
    assert!(is_untouched());
    let written = ["--write", "--overwrite", file];
    let output = measure(&[&written[..], &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(operations(&output), ["read", "write"]);
    assert!(!is_untouched() && fs::metadata(&path).unwrap().len() == 1 << 20);
    // At once: nothing has the file any more.
    let output = measure(&written);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let page = text(&output.stdout);
    for words in
        ["Random reads and writes of 4096 bytes", "pread, read", "pwrite, write", "Completed in a second"]
    {
        assert!(page.contains(words), "{words}: {page}");
    }
}

#[test]
fn what_may_not_be_lost_is_not_measured_by_writes() {
    let (folder, path) = disk_image();
    let file = path.to_str().unwrap();
    fs::File::options().write(true).open(&path).unwrap().write_all_at(b"SWAPSPACE2", 4096 - 10).unwrap();
    let before = fs::read(&path).unwrap();
    let refused = |args: &[&str], words: &str| {
        let output = bench_blk(&[&SHORT[..], args].concat());
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
        assert!(fs::read(&path).unwrap() == before, "{args:?}: {said}");
    };
    refused(&[file, "--write"], "is not written: --overwrite does not name it");
    refused(&[file, "--write", "--overwrite", "another"], "is not its name");
    refused(&[file, "--write", "--overwrite", file], "--wipe does not name what is on it (swap)");
    let named = [file, "--write", "--overwrite", file, "--wipe", "swap"];
    for loss in [&["--overwrite", file][..], &["--wipe", "swap"], &["--accept-shared"]] {
        refused(&[&[file], loss].concat(), "--write");
    }
    refused(&[&named[..], &["--unbind"]].concat(), "is a file; expected no --unbind");
    let other = fs::File::options().write(true).open(&path).unwrap();
    refused(&named, " open");
    drop(other);
    let locked = fs::File::open(&path).unwrap();
    locked.lock_shared().unwrap();
    refused(&named, "another program has locked it");
    drop(locked);
    // A pipe is not waited for.
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    refused(&[pipe.to_str().unwrap()], "is neither a file nor a block device");
    refused(&[pipe.to_str().unwrap(), "--write"], "is neither a file nor a block device");
    refused(&["/no/such/disk"], "/no/such/disk");
    refused(&["nonsense"], "no such file, and not a PCI address");
}
