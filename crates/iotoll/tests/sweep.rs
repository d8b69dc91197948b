//! `iotoll sweep` on the command line: what is in the parts, whoever wrote them and whatever ended that run.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use parquet::file::reader::{FileReader, SerializedFileReader};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const TEN_THOUSAND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/sweep.toml");

fn sweep(plan: &Path, out: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotoll"));
    command.arg("sweep").arg(plan).arg("--out").arg(out).args(more);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn document(output: &Output) -> serde_json::Value {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Points of the shard, skipped, done, and parts written.
fn counts(plan: &Path, out: &Path, more: &[&str]) -> [u64; 4] {
    let document = document(&sweep(plan, out, more).arg("--json").output().unwrap());
    assert_eq!((&document["schema"], &document["errors"]), (&"iotoll.sweep/1".into(), &0.into()));
    ["points_of_shard", "skipped", "done", "parts_written"].map(|name| document[name].as_u64().unwrap())
}

fn parts(out: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(out).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|end| end == "parquet")).collect()
}

/// All rows by key. Fails if a key is there twice.
fn rows(out: &Path) -> BTreeMap<String, String> {
    let mut rows = BTreeMap::new();
    for part in parts(out) {
        for (key, row) in rows_of(&part) {
            assert_eq!(rows.insert(key, row), None);
        }
    }
    rows
}

/// The rows of a file by key. Fails if a key is there twice.
fn rows_of(file: &Path) -> BTreeMap<String, String> {
    let mut rows = BTreeMap::new();
    for row in SerializedFileReader::new(File::open(file).unwrap()).unwrap() {
        let row = row.unwrap();
        let key = row.get_column_iter().next().unwrap().1.to_string();
        assert_eq!(rows.insert(key, row.to_string()), None);
    }
    rows
}

/// The plan of 10,000 with fewer values on its axes: 2 x 2 x 2 x 1 points, of 100 transfers each.
fn small(folder: &Path) -> PathBuf {
    let text = fs::read_to_string(TEN_THOUSAND).unwrap();
    let (base, _) = text.split_once("[axes]").unwrap();
    let axes = "[axes]\n\"engine.window_bytes\" = [65536, 131072]\n\"engine.in_flight_max\" = [1, 2]\n\
                \"iommu.entries\" = [8, 16]\n\"iommu.walk_ns\" = [60]\n\"engine.operation\" = [\"read\", \"write\"]\n";
    let base = base.replace("transfers = 2000", "transfers = 100").replace("operation = \"read\"", "");
    let plan = folder.join("small.toml");
    fs::write(&plan, base + axes).unwrap();
    plan
}

/// Starts a run and kills it, without any warning, as soon as there are so many parts.
fn kill_at_parts(command: &mut Command, out: &Path, enough: usize) {
    let mut child: Child = command.env("RAYON_NUM_THREADS", "1").stdout(Stdio::null()).spawn().unwrap();
    while !out.exists() || parts(out).len() < enough {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before it could be killed");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
}

#[test]
fn a_killed_run_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, killed) = (folder.path().join("whole"), folder.path().join("killed"));
    let plan = Path::new(TEN_THOUSAND);
    kill_at_parts(&mut sweep(plan, &killed, &[]), &killed, 1);
    let first = rows(&killed).len();
    assert!(0 < first && first < 10_000, "{first}");
    // A second time, in the middle of a part.
    kill_at_parts(&mut sweep(plan, &killed, &[]), &killed, 2);
    let kept = rows(&killed).len() as u64;
    assert!(kept > first as u64 && kept < 10_000, "{kept}");
    let [of_shard, skipped, done, _] = counts(plan, &killed, &[]);
    assert_eq!([of_shard, skipped, done], [10_000, kept, 10_000 - kept]);
    assert_eq!(counts(plan, &whole, &[])[..3], [10_000, 0, 10_000]);
    let rows = rows(&killed);
    assert_eq!(rows.len(), 10_000);
    assert!(rows == self::rows(&whole), "values differ from those of a run that nobody killed");
    assert_eq!(counts(plan, &killed, &[]), [10_000, 10_000, 0, 0]);
}

#[test]
fn shards_at_once_share_a_folder_and_have_every_point_once() {
    let folder = tempfile::tempdir().unwrap();
    let (plan, out, alone) = (small(folder.path()), folder.path().join("out"), folder.path().join("alone"));
    let shards = ["0/3", "1/3", "2/3"];
    let start = |shard: &&str| {
        sweep(&plan, &out, &["--shard", shard, "--json"]).stdout(Stdio::piped()).spawn().unwrap()
    };
    let running: Vec<Child> = shards.iter().map(start).collect();
    let counted = running.into_iter().map(|child| document(&child.wait_with_output().unwrap()));
    let points: Vec<_> = counted.map(|document| document["points_of_shard"].as_u64().unwrap()).collect();
    assert_eq!(points, [6, 5, 5]);
    assert_eq!(counts(&plan, &alone, &[]), [16, 0, 16, 1]);
    assert_eq!(rows(&out), rows(&alone));
    // Another division of the same points finds them all.
    assert_eq!(counts(&plan, &out, &["--shard", "1/2"]), [8, 8, 0, 0]);
}

#[test]
fn a_shard_is_run_by_one_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    let lock = File::create(out.join("shard-0-of-1.lock")).unwrap();
    lock.lock().unwrap();
    let output = sweep(&small(folder.path()), &out, &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("shard-0-of-1.lock: another run works on this shard"));
}

#[test]
fn columns_have_types_and_units_and_parts_say_where_they_come_from() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let plan = small(folder.path());
    assert_eq!(counts(&plan, &out, &[]), [16, 0, 16, 1]);
    let reader = SerializedFileReader::new(File::open(&parts(&out)[0]).unwrap()).unwrap();
    let metadata = reader.metadata().file_metadata();
    let columns: Vec<_> = metadata
        .schema_descr()
        .columns()
        .iter()
        .map(|c| format!("{} {}", c.name(), c.physical_type()))
        .collect();
    let expected = [
        "key BYTE_ARRAY",
        "engine_in_flight_max INT64",
        "engine_operation BYTE_ARRAY",
        "engine_window_bytes INT64",
        "iommu_entries INT64",
        "iommu_walk_ns INT64",
        "error BYTE_ARRAY",
    ];
    assert_eq!(columns[..7], expected);
    for figure in ["latency_mean_ns", "transfers_per_second", "miss_share", "limit"] {
        let kind = if figure == "limit" { "BYTE_ARRAY" } else { "DOUBLE" };
        assert!(columns.contains(&format!("{figure} {kind}")), "{figure} is not in {columns:?}");
    }
    let said: BTreeMap<_, _> = metadata
        .key_value_metadata()
        .unwrap()
        .iter()
        .map(|pair| (pair.key.as_str(), pair.value.clone().unwrap()))
        .collect();
    assert_eq!(said["iotoll.model"], "engine/3");
    assert!(said["iotoll.plan"].starts_with("reads of 64 bytes behind an IOTLB"));
    assert_eq!(said["iotoll.base"].len(), 32);
    let operations: BTreeSet<_> =
        reader.into_iter().map(|row| row.unwrap().get_column_iter().nth(2).unwrap().1.to_string()).collect();
    assert_eq!(operations, BTreeSet::from(["\"read\"".to_owned(), "\"write\"".to_owned()]));
}

#[test]
fn a_part_that_is_none_of_ours_is_exit_two_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let (plan, out) = (small(folder.path()), folder.path().join("out"));
    counts(&plan, &out, &[]);
    let part = parts(&out).remove(0);
    let bytes = fs::read(&part).unwrap();
    let check = |plan: &Path, expected: &str| {
        let output = sweep(plan, &out, &[]).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part.to_str().unwrap()) && said.contains(expected), "{said}");
        assert_eq!(parts(&out).len(), 1);
    };
    for at in [0, bytes.len() / 2, bytes.len() - 1] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        fs::write(&part, damaged).unwrap();
        check(&plan, "damaged");
    }
    fs::write(&part, &bytes[..bytes.len() - 1]).unwrap();
    check(&plan, "damaged");
    fs::write(&part, b"").unwrap();
    check(&plan, "damaged");
    fs::write(&part, &bytes).unwrap();
    let written = fs::read_to_string(&plan).unwrap();
    for (from, to) in
        [("lanes = 8", "lanes = 4"), ("\"iommu.walk_ns\" = [60]", "\"iommu.walk_ns\" = [60]\nseed = [1]")]
    {
        assert!(written.contains(from));
        let other = folder.path().join("other.toml");
        fs::write(&other, written.replace(from, to)).unwrap();
        check(&other, "results of another plan");
    }
    // More values on the same axes are the same plan, grown.
    fs::write(&plan, written.replace("[65536, 131072]", "[65536, 131072, 262144]")).unwrap();
    assert_eq!(counts(&plan, &out, &[]), [24, 16, 8, 1]);
}

#[test]
fn a_plan_that_is_none_is_exit_two_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let (plan, out) = (small(folder.path()), folder.path().join("out"));
    let written = fs::read_to_string(&plan).unwrap();
    let check = |from: &str, to: &str, expected: &str| {
        assert!(written.contains(from), "{from}");
        fs::write(&plan, written.replace(from, to)).unwrap();
        let output = sweep(&plan, &out, &[]).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("small.toml") && said.contains(expected), "{said}");
        assert!(!out.exists() && output.stdout.is_empty());
    };
    check("[8, 16]", "[8, 16, 4]", "iommu.ways is 8; expected 1 to as many as entries");
    check("[8, 16]", "[]", "axes.\"iommu.entries\" is empty");
    check("\"iommu.entries\"", "\"iommu.entrys\"", "unknown field `entrys`");
    check("\"write\"", "\"erase\"", "unknown variant `erase`");
    check("what =", "what", "small.toml:4: key with no value, expected `=`");
    let bad_shard = sweep(&plan, &out, &["--shard", "3/3"]).output().unwrap();
    assert_eq!(bad_shard.status.code(), Some(2));
    assert!(text(&bad_shard.stderr).contains("I from 0 to N - 1"));
}

#[test]
fn a_folder_that_cannot_be_made_is_exit_two() {
    let folder = tempfile::tempdir().unwrap();
    let output = sweep(&small(folder.path()), Path::new("/dev/null/out"), &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("can't create /dev/null/out"));
}

#[test]
fn a_report_shows_a_figure_by_each_axis_and_merges_parts() {
    let folder = tempfile::tempdir().unwrap();
    let (plan, out) = (small(folder.path()), folder.path().join("out"));
    let report = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_iotoll"));
        command.arg("sweep").arg("report").arg(&out).args(more).output().unwrap()
    };
    let none = report(&[]);
    assert_eq!((none.status.code(), none.stdout.len()), (Some(2), 0));
    for shard in ["0/2", "1/2"] {
        counts(&plan, &out, &["--shard", shard]);
    }
    let (html, merged) = (folder.path().join("page.html"), folder.path().join("merged.parquet"));
    let more = [
        "--figure",
        "latency_mean_ns",
        "--html",
        html.to_str().unwrap(),
        "--merge",
        merged.to_str().unwrap(),
    ];
    let shown = report(&more);
    assert_eq!(shown.status.code(), Some(0), "{}", text(&shown.stderr));
    let said = text(&shown.stdout);
    for expected in ["16, all with a result", "latency_mean_ns by engine.in_flight_max", "What limits"] {
        assert!(said.contains(expected), "{expected} is not in {said}");
    }
    assert!(fs::read_to_string(&html).unwrap().contains("latency_mean_ns by iommu.entries"));
    let written = document(&report(&["--json"]));
    assert_eq!((&written["schema"], &written["points"]), (&"iotoll.sweep-report/1".into(), &16.into()));
    let shares = written["figure"]["shares"].as_array().unwrap().iter();
    let sum: f64 = shares.map(|share| share["share"].as_f64().unwrap()).sum();
    assert!(sum > 0.5 && sum < 1.0 + 1e-9, "{sum}");
    assert_eq!(rows_of(&merged).len(), 16);
    assert_eq!(rows_of(&merged).into_keys().collect::<Vec<_>>(), rows(&out).into_keys().collect::<Vec<_>>());
    let part = parts(&out).pop().unwrap();
    for (path, expected) in [(&part, "that is the name of a part"), (&html, "both write")] {
        let path = path.to_str().unwrap();
        let refused = report(&["--merge", path, "--html", html.to_str().unwrap()]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains(expected), "{}", text(&refused.stderr));
    }
    assert_eq!(rows(&out).len(), 16);
    let wrong = report(&["--figure", "speed"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("no figure speed; expected one of "));
    // One other bit in the middle of a part: its numbers would be shown as the model's.
    let mut bytes = fs::read(&part).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&part, bytes).unwrap();
    let damaged = report(&[]);
    assert_eq!((damaged.status.code(), damaged.stdout.len()), (Some(2), 0));
    assert!(text(&damaged.stderr).contains(part.to_str().unwrap()), "{}", text(&damaged.stderr));
}

#[test]
fn a_point_without_an_answer_is_exit_one() {
    let folder = tempfile::tempdir().unwrap();
    let (plan, out) = (folder.path().join("plan.toml"), folder.path().join("out"));
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/flash-array.toml");
    let mut base: toml::Table = fs::read_to_string(example).unwrap().parse().unwrap();
    base.remove("what");
    base.insert("seeds".to_owned(), 1.into());
    // Threads of the user's way need a queue each, and those of the kernel's share its own.
    base["adapter"].as_table_mut().unwrap().insert("queues_max".to_owned(), 20.into());
    let ways = "what = \"ways\"\n[axes]\n\"loads.0.way\" = [\"kernel\", \"user\"]";
    let mut file: toml::Table = ways.parse().unwrap();
    file.insert("base".to_owned(), base.into());
    fs::write(&plan, file.to_string()).unwrap();
    let output = sweep(&plan, &out, &["--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&document["done"], &document["errors"]), (&2.into(), &1.into()));
    // Nothing is left to do, and still a point has no result.
    let again = sweep(&plan, &out, &["--json"]).output().unwrap();
    assert_eq!(again.status.code(), Some(1), "{}", text(&again.stderr));
    let document: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(
        (&document["done"], &document["errors"], &document["errors_before"]),
        (&0.into(), &0.into(), &1.into())
    );
}
