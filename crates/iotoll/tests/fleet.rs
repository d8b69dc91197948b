//! `iotoll fleet` on the command line: what the tables hold, whoever wrote them and whatever ended that run.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use parquet::file::reader::SerializedFileReader;
use parquet::record::Field;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const CAPTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../host/tests/captures");
const TABLES: [&str; 5] = ["hosts", "adapters", "findings", "unseen", "errors"];

/// A row's columns as text.
type Row = BTreeMap<String, String>;

fn iotoll() -> Command {
    Command::new(env!("CARGO_BIN_EXE_iotoll"))
}

fn fleet(paths: &[&Path], out: &Path, more: &[&str]) -> Command {
    let mut command = iotoll();
    command.arg("fleet").args(paths).arg("--out").arg(out).args(more);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn document(output: &Output, status: i32) -> Value {
    assert_eq!(output.status.code(), Some(status), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Inputs of the shard, read before, inspected now, and with errors now.
fn counts(paths: &[&Path], out: &Path, more: &[&str], status: i32) -> [u64; 4] {
    let document = document(&fleet(paths, out, more).arg("--json").output().unwrap(), status);
    assert_eq!(document["schema"], "iotoll.fleet-run/1");
    let number = |name: &str| document[name].as_u64().unwrap();
    let before = number("inspected_before") + number("errors_before");
    let (inspected, errors) = (number("inspected"), number("errors"));
    // How many there are depends on how long it took.
    assert_eq!(number("parts_written") > 0, inspected + errors > 0);
    [number("inputs_of_shard"), before, inspected, errors]
}

fn parts(out: &Path, table: &str) -> Vec<PathBuf> {
    let Ok(folder) = fs::read_dir(out.join(table)) else { return Vec::new() };
    let paths = folder.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|end| end == "parquet")).collect()
}

/// All rows of a table.
fn rows(out: &Path, table: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for part in parts(out, table) {
        for row in SerializedFileReader::new(File::open(part).unwrap()).unwrap() {
            let row = row.unwrap();
            let cell = |(name, field): (&String, &Field)| match field {
                Field::Str(text) => (name.clone(), text.clone()),
                other => (name.clone(), other.to_string()),
            };
            rows.push(row.get_column_iter().map(cell).collect());
        }
    }
    rows.sort();
    rows
}

fn all_rows(out: &Path) -> Vec<Vec<Row>> {
    TABLES.iter().map(|table| rows(out, table)).collect()
}

/// Copies of the captures, so many of each, in folders.
fn copies(folder: &Path, number: usize) -> PathBuf {
    let fleet = folder.join("captures");
    for capture in fs::read_dir(CAPTURES).unwrap() {
        let capture = capture.unwrap();
        for copy in 0..number {
            let rack = fleet.join(format!("rack-{copy}"));
            fs::create_dir_all(&rack).unwrap();
            fs::copy(capture.path(), rack.join(capture.file_name())).unwrap();
        }
    }
    fleet
}

/// The tables hold what `iotoll inspect --json` prints, and its documents are inputs, too.
#[test]
fn rows_are_those_of_each_inspection() {
    let folder = tempfile::tempdir().unwrap();
    let documents = folder.path().join("documents");
    fs::create_dir(&documents).unwrap();
    let (mut adapters, mut findings, mut unseen) = (Vec::new(), Vec::new(), Vec::new());
    for capture in fs::read_dir(CAPTURES).unwrap() {
        let capture = capture.unwrap();
        let output = iotoll().args(["inspect", "--json", "--from"]).arg(capture.path()).output().unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        fs::write(documents.join(capture.file_name()).with_extension("json"), &output.stdout).unwrap();
        let texts = |list: &str, names: &[&str]| -> Vec<Vec<String>> {
            let cell = |value: &Value| value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
            let row = |row: &Value| names.iter().map(|name| cell(&row[*name])).collect();
            document[list].as_array().unwrap().iter().map(row).collect()
        };
        adapters.extend(texts("adapters", &["address", "dma_path", "vendor_id", "driver"]));
        findings.extend(texts("findings", &["id", "severity", "what", "fix", "address"]));
        unseen.extend(texts("unseen", &["what", "why", "decisive"]));
    }
    let of = |out: &Path, table: &str, names: &[&str]| -> Vec<Vec<String>> {
        let row = |row: Row| names.iter().map(|name| row[*name].clone()).collect();
        let mut rows: Vec<Vec<String>> = rows(out, table).into_iter().map(row).collect();
        rows.sort();
        rows
    };
    for list in [&mut adapters, &mut findings, &mut unseen] {
        list.sort();
        assert!(!list.is_empty());
    }
    let out = [folder.path().join("of-captures"), folder.path().join("of-documents")];
    assert_eq!(counts(&[Path::new(CAPTURES)], &out[0], &[], 0), [5, 0, 5, 0]);
    assert_eq!(counts(&[&documents], &out[1], &[], 0), [5, 0, 5, 0]);
    for out in &out {
        assert_eq!(of(out, "adapters", &["address", "dma_path", "vendor_id", "driver"]), adapters);
        assert_eq!(of(out, "findings", &["id", "severity", "what", "fix", "address"]), findings);
        assert_eq!(of(out, "unseen", &["what", "why", "decisive"]), unseen);
        // Each row is of a host in the table.
        let hosts: BTreeSet<String> =
            rows(out, "hosts").into_iter().map(|row| row["capture"].clone()).collect();
        assert_eq!(hosts.len(), 5);
        assert!(rows(out, "adapters").iter().all(|row| hosts.contains(&row["capture"])));
    }
    let source = |out: &Path| rows(out, "hosts")[0]["source"].clone();
    assert_eq!(out.each_ref().map(|out| source(out)), ["files", "document"]);
}

/// The digest is of what was read, not of the archive.
#[test]
fn a_capture_has_one_digest_however_it_is_packed() {
    let folder = tempfile::tempdir().unwrap();
    let unpacked = folder.path().join("host");
    let archive = File::open(Path::new(CAPTURES).join("x86-vtd-lazy.tar.gz")).unwrap();
    tar::Archive::new(flate2::read::GzDecoder::new(archive)).unpack(&unpacked).unwrap();
    // As sosreports have them.
    for (file, text) in
        [("sos_commands/host/hostname", "web02\n"), ("etc/default/grub", "GRUB_CMDLINE_LINUX=\"quiet\"\n")]
    {
        fs::create_dir_all(unpacked.join(file).parent().unwrap()).unwrap();
        fs::write(unpacked.join(file), text).unwrap();
    }
    std::os::unix::fs::symlink("sos_commands/host/hostname", unpacked.join("hostname")).unwrap();
    let packed = |name: &str, top: &str| {
        let path = folder.path().join(name);
        let mut archive = tar::Builder::new(File::create(&path).unwrap());
        archive.follow_symlinks(false);
        archive.append_dir_all(top, &unpacked).unwrap();
        archive.finish().unwrap();
        path
    };
    let paths = [packed("top.tar", ""), packed("below.tar", "sosreport-web02"), unpacked.clone()];
    let out = folder.path().join("out");
    assert_eq!(counts(&paths.each_ref().map(PathBuf::as_path), &out, &[], 0)[2], 3);
    let hosts = rows(&out, "hosts");
    let inputs: BTreeSet<&String> = hosts.iter().map(|host| &host["input"]).collect();
    assert_eq!((hosts.len(), inputs.len()), (3, 3));
    for host in &hosts {
        assert_eq!(
            (&host["capture"], host["host_name"].as_str()),
            (&hosts[0]["capture"], "web02"),
            "{}",
            host["input"]
        );
    }
}

/// `lspci` without `-nn` prints none.
#[test]
fn ids_that_were_not_read_are_null() {
    let folder = tempfile::tempdir().unwrap();
    let listing = folder.path().join("lspci.txt");
    fs::write(&listing, "00:1f.6 Ethernet controller: Intel Corporation Ethernet Connection (2) I219-V\n")
        .unwrap();
    let output = iotoll().args(["inspect", "--json", "--from"]).arg(&listing).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let adapter = &document["adapters"][0];
    assert_eq!((&adapter["vendor_id"], &adapter["device_id"]), (&Value::Null, &Value::Null));
    assert_eq!((&adapter["vendor_name"], &adapter["class"]), (&Value::Null, &"0200".into()));
    let page = iotoll().args(["inspect", "0000:00:1f.6", "--from"]).arg(&listing).output().unwrap();
    let page = text(&page.stdout);
    assert!(page.contains("the IDs were not read") && page.contains("class 0200"), "{page}");
    let out = folder.path().join("out");
    assert_eq!(counts(&[&listing], &out, &[], 0), [1, 0, 1, 0]);
    let row = &rows(&out, "adapters")[0];
    assert_eq!((row["vendor_id"].as_str(), row["device_id"].as_str()), ("null", "null"));
}

#[test]
fn a_bad_input_is_a_row_of_errors_and_stops_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let fleet_folder = copies(folder.path(), 1);
    let whole = fs::read(Path::new(CAPTURES).join("ppc-ddw.tar.gz")).unwrap();
    // A document whose author wants a text among the kinds of findings.
    let inspected = iotoll()
        .args(["inspect", "--json", "--from"])
        .arg(Path::new(CAPTURES).join("ppc-noddw.tar.gz"))
        .output();
    let hostile =
        text(&inspected.unwrap().stdout).replacen("\"id\": \"power", "\"id\": \"run `rm` as root", 1);
    assert!(hostile.contains("run `rm`"));
    let large = vec![b'\n'; (64 << 20) + 1];
    let bad = [
        ("hostile.json", hostile.as_bytes(), "no-document"),
        ("cut.tar.gz", &whole[..whole.len() / 2], "damaged"),
        ("empty", b"", "no-capture"),
        ("large.log", &large, "too-large"),
        ("other.json", b" {\"schema\": \"other/1\"}", "no-document"),
        ("half.json", b"{\"schema\": \"iotoll.inspect/2\", \"host\": ", "no-document"),
        ("lacks.json", b"{\"schema\": \"iotoll.inspect/2\"}", "no-document"),
        ("marked.json", b"\xef\xbb\xbf{\"schema\": \"iotoll.inspect/2\"}", "no-document"),
        ("\x1b[31m\n.txt", b"nothing that tells of a host\n", "no-capture"),
    ];
    for (name, bytes, _) in bad {
        fs::write(fleet_folder.join(name), bytes).unwrap();
    }
    std::os::unix::fs::symlink("/", fleet_folder.join("link")).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(fleet_folder.join("socket")).unwrap();
    let out = folder.path().join("out");
    let output = fleet(&[&fleet_folder, &folder.path().join("gone")], &out, &["--json"]).output().unwrap();
    let document = document(&output, 1);
    drop(socket);
    assert_eq!((&document["inspected"], &document["errors"]), (&5.into(), &(bad.len() + 1).into()));
    let stderr = text(&output.stderr);
    assert!(document["unlisted"] == 1 && stderr.contains("gone: No such file or directory"), "{stderr}");
    let errors = rows(&out, "errors");
    for (name, _, kind) in bad {
        let row = errors.iter().find(|row| row["input"].ends_with(name)).unwrap();
        assert_eq!(row["kind"], kind, "{row:?}");
        assert!(row["what"].len() > row["input"].len(), "{row:?}");
    }
    let of_author = errors.iter().find(|row| row["input"].ends_with("hostile.json")).unwrap();
    assert!(
        of_author["what"].contains("findings[0].id is another text; expected a word of small letters")
            && !of_author["what"].contains("rm"),
        "{of_author:?}"
    );
    // They are not read again, until their rows are removed.
    assert_eq!(counts(&[&fleet_folder], &out, &[], 1), [15, 15, 0, 0]);
    fs::remove_dir_all(out.join("errors")).unwrap();
    assert_eq!(counts(&[&fleet_folder], &out, &[], 1), [15, 5, 0, 10]);
    assert_eq!(rows(&out, "errors").len(), errors.len());
}

/// What it has left is not counted twice.
#[test]
fn a_killed_run_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (captures, killed, whole) =
        (copies(folder.path(), 80), folder.path().join("killed"), folder.path().join("whole"));
    let mut run = fleet(&[&captures], &killed, &[]);
    let mut child = run.env("RAYON_NUM_THREADS", "1").stdout(Stdio::null()).spawn().unwrap();
    // On a machine that is fast enough it ends first.
    while parts(&killed, "hosts").is_empty() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let kept = rows(&killed, "hosts").len() as u64;
    assert!(kept > 0);
    // As from a run that was killed before it wrote the part of `hosts`.
    let part = parts(&killed, "adapters").pop().unwrap();
    fs::copy(&part, killed.join("adapters/part-0-of-1-remains.parquet")).unwrap();
    assert_eq!(counts(&[&captures], &killed, &[], 0), [400, kept, 400 - kept, 0]);
    assert!(!killed.join("adapters/part-0-of-1-remains.parquet").exists());
    assert_eq!(counts(&[&captures], &whole, &[], 0), [400, 0, 400, 0]);
    assert!(all_rows(&killed) == all_rows(&whole), "rows differ from those of a run that nobody killed");
    assert_eq!(counts(&[&captures], &killed, &[], 0), [400, 400, 0, 0]);
    // An input that was changed is read again, and its old rows stay: they are of another capture.
    fs::copy(captures.join("rack-1/ppc-ddw.tar.gz"), captures.join("rack-0/x86-vtd-lazy.tar.gz")).unwrap();
    assert_eq!(counts(&[&captures], &killed, &[], 0), [400, 399, 1, 0]);
}

#[test]
fn shards_at_once_share_a_folder_and_have_every_input_once() {
    let folder = tempfile::tempdir().unwrap();
    let (captures, out, alone) =
        (copies(folder.path(), 4), folder.path().join("out"), folder.path().join("alone"));
    let start = |shard: &str| {
        fleet(&[&captures], &out, &["--shard", shard, "--json"]).stdout(Stdio::piped()).spawn().unwrap()
    };
    let running = ["0/3", "1/3", "2/3"].map(start);
    let of_shard = running.map(|child| {
        let document = document(&child.wait_with_output().unwrap(), 0);
        document["inputs_of_shard"].as_u64().unwrap()
    });
    assert_eq!(of_shard.iter().sum::<u64>(), 20);
    assert_eq!(counts(&[&captures], &alone, &[], 0), [20, 0, 20, 0]);
    assert!(all_rows(&out) == all_rows(&alone));
    // Another division of the same inputs finds them all.
    assert_eq!(counts(&[&captures], &out, &["--shard", "0/1"], 0), [20, 20, 0, 0]);
}

#[test]
fn damaged_tables_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    assert_eq!(counts(&[Path::new(CAPTURES)], &out, &[], 0)[2], 5);
    let part = parts(&out, "hosts").pop().unwrap();
    let over = iotoll().args(["fleet", "report"]).arg(&out).arg("--html").arg(&part).output().unwrap();
    assert!(
        over.status.code() == Some(2) && text(&over.stderr).contains("name of a part"),
        "{}",
        text(&over.stderr)
    );
    fs::write(&part, b"PAR1").unwrap();
    let output = fleet(&[Path::new(CAPTURES)], &out, &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("damaged, or no run has written it")
            && stderr.contains("; remove the files of this name")
            && stderr.lines().count() == 1,
        "{stderr}"
    );
}

/// A query of all files of a table's folder would count its rows.
#[test]
fn a_table_that_no_run_has_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    assert_eq!(counts(&[Path::new(CAPTURES)], &out, &[], 0)[2], 5);
    let part = parts(&out, "hosts").pop().unwrap();
    fs::copy(part, out.join("hosts/all.parquet")).unwrap();
    for output in [
        fleet(&[Path::new(CAPTURES)], &out, &[]).output().unwrap(),
        iotoll().args(["fleet", "report"]).arg(&out).output().unwrap(),
    ] {
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains("hosts/all.parquet") && stderr.contains("no run has written it"), "{stderr}");
    }
}

#[test]
fn the_last_lines_say_what_is_next() {
    let folder = tempfile::tempdir().unwrap();
    let (empty, captures, out) =
        (folder.path().join("empty"), copies(folder.path(), 1), folder.path().join("of all"));
    fs::create_dir(&empty).unwrap();
    fs::write(captures.join("notes"), "nothing that tells of a host\n").unwrap();
    let run = |paths: &[&Path]| {
        let output = fleet(paths, &out, &[]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    // As if the file system that it is on were not mounted.
    assert!(run(&[&empty]).contains("no file to inspect"));
    run(&[&captures]);
    let again = run(&[&captures]);
    assert!(again.starts_with("6 inputs: 5 inspected before, 0 inspected in "), "{again}");
    assert!(again.contains(" s, 1 with errors\n0 parts written to "), "{again}");
    assert!(again.contains(&format!("iotoll fleet report '{}'\n", out.display())), "{again}");
    assert!(again.contains("once the folder `errors` is removed"), "{again}");
    let report = iotoll().args(["fleet", "report"]).arg(&captures).output().unwrap();
    assert_eq!(report.status.code(), Some(2));
    let stderr = text(&report.stderr);
    assert!(
        stderr.contains("no tables; expected a folder that `iotoll fleet --out` has written"),
        "{stderr}"
    );
}

/// A capture with a host's name in it.
fn named(capture: &str, host: &str) -> Vec<u8> {
    let archive = File::open(Path::new(CAPTURES).join(capture)).unwrap();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(archive));
    let mut named = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let (mut header, path) = (entry.header().clone(), entry.path().unwrap().into_owned());
        match entry.link_name().unwrap().map(std::borrow::Cow::into_owned) {
            Some(target) => named.append_link(&mut header, path, target).unwrap(),
            None => named.append_data(&mut header, path, &mut entry).unwrap(),
        }
    }
    let mut header = tar::Header::new_gnu();
    header.set_size(host.len() as u64);
    header.set_mode(0o644);
    named.append_data(&mut header, "etc/hostname", host.as_bytes()).unwrap();
    named.into_inner().unwrap().finish().unwrap()
}

#[test]
fn the_report_names_the_odd_host_and_what_changed() {
    let folder = tempfile::tempdir().unwrap();
    let (captures, out) = (folder.path().join("captures"), folder.path().join("out"));
    fs::create_dir(&captures).unwrap();
    let add =
        |file: &str, capture: &str, host: &str| fs::write(captures.join(file), named(capture, host)).unwrap();
    for host in 0..9 {
        add(&format!("node{host}.tar.gz"), "x86-no-iommu.tar.gz", &format!("node{host}"));
    }
    add("node9.tar.gz", "x86-vtd-lazy.tar.gz", "node9");
    add("power.tar.gz", "ppc-noddw.tar.gz", "power");
    // Its capture before, as the time of its change says.
    add("older.tar.gz", "x86-no-iommu.tar.gz", "node9");
    let earlier = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    File::options().write(true).open(captures.join("older.tar.gz")).unwrap().set_modified(earlier).unwrap();
    fs::write(captures.join("bad"), b"nothing that tells of a host\n").unwrap();
    assert_eq!(counts(&[&captures], &out, &[], 1), [13, 0, 12, 1]);
    let page = folder.path().join("fleet.html");
    let mut report = iotoll();
    let output = report
        .args(["fleet", "report"])
        .arg(&out)
        .arg("--html")
        .arg(&page)
        .env("COLUMNS", "160")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let (said, html) = (text(&output.stdout), fs::read_to_string(&page).unwrap());
    let odd = format!("node9; capture {}", captures.join("node9.tar.gz").display());
    let compared = "Adapters and findings of 10 of 11 hosts were compared";
    for words in ["Fleet of 11 hosts", "1 no-capture", "9 of 10", "translated-lazy", compared, &odd] {
        assert!(said.contains(words) && html.contains(words), "{words}: {said}");
    }
    let report = document(&iotoll().args(["fleet", "report", "--json"]).arg(&out).output().unwrap(), 1);
    assert_eq!(report["schema"], "iotoll.fleet-report/1");
    let all = |list: &str| report[list].as_array().unwrap().clone();
    for list in ["odd", "changes"] {
        assert!(!all(list).is_empty() && all(list).iter().all(|one| one["host"] == "node9"), "{report}");
    }
    assert_eq!((all("errors").len(), &all("errors")[0]["kind"]), (1, &"no-capture".into()));
    // What the page says of a fix, and of its hosts, is what the inspection of one says.
    let inspection =
        iotoll().args(["inspect", "--json", "--from"]).arg(captures.join("power.tar.gz")).output();
    let inspection: Value = serde_json::from_slice(&inspection.unwrap().stdout).unwrap();
    let finding = &inspection["findings"][0];
    let of_fleet = all("findings").into_iter().find(|one| one["id"] == finding["id"]).unwrap();
    let fixes = of_fleet["fixes"].as_array().unwrap();
    let fix = fixes.iter().find(|fix| fix["commands"] == finding["commands"]).unwrap();
    assert_eq!((&fix["fix"], &fix["risk"]), (&finding["fix"], &finding["risk"]));
    assert!(fix["hosts"].as_array().unwrap().contains(&"power".into()), "{fix}");
    // Without a run's list of inputs, nothing tells whether it came to its end.
    fs::remove_file(out.join("all.inputs")).unwrap();
    let output = iotoll().args(["fleet", "report"]).arg(&out).output().unwrap();
    assert!(text(&output.stdout).contains("all.inputs, is missing or damaged"), "{}", text(&output.stdout));
    let page = folder.path().join("absent/fleet.html");
    let refused = iotoll().args(["fleet", "report"]).arg(&out).arg("--html").arg(&page).output().unwrap();
    let said = format!("iotoll: can't write {}: No such file or directory (os error 2)\n", page.display());
    assert_eq!((refused.status.code(), text(&refused.stderr)), (Some(2), said));
    let gone = iotoll().args(["fleet", "report"]).arg(folder.path().join("gone")).output().unwrap();
    assert_eq!(gone.status.code(), Some(2));
}

/// A redacted capture has a pseudonym in place of the name, by which a host is known in later captures with the same key.
#[test]
fn captures_of_a_host_are_known_by_its_pseudonym() {
    let folder = tempfile::tempdir().unwrap();
    let (captures, out) = (folder.path().join("captures"), folder.path().join("out"));
    fs::create_dir(&captures).unwrap();
    for (number, capture) in ["x86-no-iommu.tar.gz", "x86-vtd-lazy.tar.gz"].into_iter().enumerate() {
        let original = folder.path().join(capture);
        fs::write(&original, named(capture, "vineyard7\n")).unwrap();
        let mut redact = iotoll();
        redact.arg("capture").arg("--from").arg(&original);
        redact
            .arg("-o")
            .arg(captures.join(format!("{number}.tar.gz")))
            .arg("--key")
            .arg(folder.path().join("key"));
        let output = redact.output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    assert_eq!(counts(&[&captures], &out, &[], 0), [2, 0, 2, 0]);
    let names: Vec<String> = rows(&out, "hosts").iter().map(|row| row["host_name"].clone()).collect();
    assert!(names[0].starts_with("host-") && names[0] == names[1], "{names:?}");
    let report = iotoll().args(["fleet", "report"]).arg(&out).env("COLUMNS", "160").output().unwrap();
    assert!(text(&report.stdout).contains("Fleet of 1 host"), "{}", text(&report.stdout));
}

/// Only what has the name of a part is no capture there.
#[test]
fn captures_in_a_folder_named_as_a_table_are_inputs() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("hosts")).unwrap();
    let capture = Path::new(CAPTURES).join("x86-no-iommu.tar.gz");
    fs::copy(capture, folder.path().join("hosts/one.tar.gz")).unwrap();
    assert_eq!(counts(&[folder.path()], folder.path(), &[], 0), [1, 0, 1, 0]);
    assert_eq!(counts(&[folder.path()], folder.path(), &[], 0), [1, 1, 0, 0]);
}
