//! The program as a user runs it: exit codes, streams, captures of every kind, hostile input.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use assert_cmd::Command;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

const CAPTURES: [&str; 5] = ["arm-smmu-strict", "ppc-ddw", "ppc-noddw", "x86-no-iommu", "x86-vtd-lazy"];

fn capture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../host/tests/captures/{name}.tar.gz"))
}

fn iotoll(args: &[&str]) -> Output {
    let mut command = Command::cargo_bin("iotoll").unwrap();
    command.env("COLUMNS", "100").env("NO_COLOR", "1").args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(args: &[&str]) -> serde_json::Value {
    let output = iotoll(args);
    assert!(output.status.code().unwrap() < 2, "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// `ADDRESS PATH` of every adapter.
fn dma_paths(document: &serde_json::Value) -> Vec<String> {
    let adapters = document["adapters"].as_array().unwrap();
    adapters
        .iter()
        .map(|adapter| {
            format!("{} {}", adapter["address"].as_str().unwrap(), adapter["dma_path"].as_str().unwrap())
        })
        .collect()
}

#[test]
fn dma_paths_of_the_captured_kernels() {
    let check = |name: &str, expect: &[&str], exit: i32| {
        let path = capture(name);
        let output = iotoll(&["inspect", "--json", "--from", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(exit), "{name}");
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["schema"], "iotoll.inspect/2");
        assert_eq!(dma_paths(&document), expect, "{name}");
        let has_evidence = |adapter: &serde_json::Value| !adapter["evidence"].as_array().unwrap().is_empty();
        assert!(document["adapters"].as_array().unwrap().iter().all(has_evidence), "{name}");
    };
    check(
        "arm-smmu-strict",
        &[
            "0000:00:01.0 translated-strict",
            "0000:00:02.0 translated-strict",
            "0000:00:03.0 no-iommu",
            "0000:00:04.0 translated-strict",
            "0000:00:05.0 translated-strict",
        ],
        1,
    );
    check(
        "ppc-ddw",
        &[
            "0000:00:00.0 direct-window",
            "0000:00:01.0 direct-window",
            "0000:00:02.0 tce-window",
            "0000:00:03.0 direct-window",
            "0000:00:04.0 direct-window",
        ],
        1,
    );
    check(
        "ppc-noddw",
        &[
            "0000:00:00.0 tce-window",
            "0000:00:01.0 tce-window",
            "0000:00:02.0 tce-window",
            "0000:00:03.0 tce-window",
            "0000:00:04.0 tce-window",
        ],
        1,
    );
    check(
        "x86-no-iommu",
        &[
            "0000:00:01.0 no-iommu",
            "0000:00:02.0 no-iommu",
            "0000:00:03.0 no-iommu",
            "0000:00:04.0 no-iommu",
            "0000:00:1f.2 no-iommu",
            "0000:00:1f.3 unbound",
        ],
        0,
    );
    check(
        "x86-vtd-lazy",
        &[
            "0000:00:01.0 translated-lazy",
            "0000:00:02.0 translated-lazy",
            "0000:00:03.0 translated-lazy",
            "0000:00:04.0 translated-lazy",
            "0000:00:1f.2 translated-lazy",
            "0000:00:1f.3 unbound",
        ],
        0,
    );
}

#[test]
fn the_adapter_that_goes_around_the_smmu_is_named_with_its_reason() {
    let document = json(&["inspect", "--json", "--from", capture("arm-smmu-strict").to_str().unwrap()]);
    let adapter = &document["adapters"][2];
    assert_eq!(adapter["address"], "0000:00:03.0");
    assert!(adapter["reason"].as_str().unwrap().contains("VIRTIO_F_ACCESS_PLATFORM"));
    let disagrees = |finding: &&serde_json::Value| finding["id"] == "sources-disagree";
    let finding = document["findings"].as_array().unwrap().iter().find(disagrees).unwrap();
    assert_eq!(finding["address"], "0000:00:03.0");
}

#[test]
fn a_finding_names_disable_ddw_and_the_way_out() {
    let document = json(&["inspect", "--json", "--from", capture("ppc-noddw").to_str().unwrap()]);
    let finding = &document["findings"][0];
    assert_eq!(finding["id"], "power-default-window");
    for field in ["what", "fix"] {
        assert!(finding[field].as_str().unwrap().contains("disable_ddw"), "{field}");
    }
    for field in ["risk", "verify"] {
        assert!(!finding[field].as_str().unwrap().is_empty(), "{field}");
    }
    assert_eq!(finding["gain"]["evidence"]["kind"], "published");
    let of_disk = |finding: &&serde_json::Value| finding["address"] == "0000:00:03.0";
    let predicted = &document["findings"].as_array().unwrap().iter().find(of_disk).unwrap()["predicted"][0];
    assert_eq!(
        (&predicted["now"]["dma_path"], &predicted["then"]["dma_path"]),
        (&"tce-window".into(), &"direct-window".into())
    );
    assert_eq!(predicted["evidence"]["kind"], "measured");
    assert!(predicted["now"]["instructions"].as_f64().unwrap() > 0.0);
}

/// Made-up toll sheets of x86.
fn made_up_tolls() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../toll/tests/sheets");
    folder.to_str().unwrap().to_owned()
}

/// A host in `folder` with an NVMe disk behind VT-d in strict mode; its path.
fn strict_host(folder: &Path) -> String {
    let host = folder.join("host");
    let file = |name: &str, text: &str| {
        let path = host.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let link = |name: &str, target: &str| {
        fs::create_dir_all(host.join(name).parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, host.join(name)).unwrap();
    };
    file("proc/version", "Linux version 6.1.0-18-amd64 (x@y) #1 SMP\n");
    file("sys/class/iommu/dmar0/name", "dmar0\n");
    link("sys/bus/pci/devices/0000:00:01.0", "../../../devices/pci0000:00/0000:00:01.0");
    for (name, value) in [("vendor", "0x144d"), ("device", "0xa80a"), ("class", "0x010802")] {
        file(&format!("sys/devices/pci0000:00/0000:00:01.0/{name}"), value);
    }
    link("sys/devices/pci0000:00/0000:00:01.0/driver", "../../../bus/pci/drivers/nvme");
    link("sys/devices/pci0000:00/0000:00:01.0/iommu_group", "../../../kernel/iommu_groups/1");
    file("sys/kernel/iommu_groups/1/type", "DMA\n");
    host.to_str().unwrap().to_owned()
}

#[test]
fn predictions_are_made_from_the_users_own_sheets() {
    let folder = tempfile::tempdir().unwrap();
    let host = &strict_host(folder.path());
    let document = json(&["inspect", "--json", "--from", host, "--tolls", &made_up_tolls()]);
    let predicted = &document["findings"][0]["predicted"];
    // Other figures than those of the sheets that the program carries.
    assert_eq!(predicted[0]["now"]["instructions"], 21634.219, "{predicted}");
    assert_eq!(predicted.as_array().unwrap().len(), 1);
    // Other prices than those that the program carries: an instruction 0.5 ns, an invalidation 700.
    let prices = made_up_prices("x86");
    let args = ["inspect", "--json", "--from", host, "--tolls", &made_up_tolls(), "--prices", &prices];
    let document = json(&args);
    let time = &document["findings"][0]["predicted"][0]["time"];
    assert_eq!(time["now_ns"], 21_634.219 * 0.5 + 700.0, "{time}");
    assert_eq!(time["charges"][1]["price_ns"]["evidence"]["kind"], "published");
    assert_eq!(time["load_per_second"], 100_000);
    let estimate = &document["estimates"][0];
    assert_eq!((&estimate["address"], &estimate["after"]["ns"]), (&"0000:00:01.0".into(), &time["then_ns"]));
}

#[test]
fn where_a_host_s_own_price_exists_an_assumed_one_is_never_used() {
    let folder = tempfile::tempdir().unwrap();
    let host = strict_host(folder.path());
    let price = |value: f64, kind: &str| {
        let evidence = match kind {
            "measured" => r#"{ kind = "measured", how = "a test", on = "this host" }"#,
            _ => r#"{ kind = "assumed", why = "of another host" }"#,
        };
        format!("{{ value = {value:?}, evidence = {evidence} }}")
    };
    let list = |name: &str, instruction: &str, invalidation: &str| {
        let file = folder.path().join(name);
        let text = format!(
            "platform = \"{name}\"\narch = \"x86\"\napplies_to = \"tests\"\ninstruction_ns = {instruction}\n[event_ns]\n\
             invalidations = {invalidation}\n"
        );
        fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    // As `watch` and `bench map` write them: what each did not measure is assumed.
    let of_watch = list("watch.toml", &price(77.0, "assumed"), &price(900.0, "measured"));
    let of_bench = list("bench.toml", &price(0.21, "measured"), &price(7777.0, "assumed"));
    let tolls = made_up_tolls();
    let inspect = ["inspect", "--from", &host, "--tolls", &tolls];
    for lists in [[&of_watch, &of_bench], [&of_bench, &of_watch]] {
        let prices = ["--json", "--prices", lists[0], "--prices", lists[1]];
        let document = json(&[&inspect[..], &prices].concat());
        let time = &document["findings"][0]["predicted"][0]["time"];
        assert_eq!(time["now_ns"], 21_634.219 * 0.21 + 900.0, "{time}");
        let charges = time["charges"].as_array().unwrap();
        assert_eq!(charges.len(), 2);
        assert!(charges.iter().all(|charge| charge["price_ns"]["evidence"]["kind"] == "measured"), "{time}");
        assert!(!time["prices"].as_str().unwrap().contains("assumed"), "{time}");
    }
    // A list stands in for the built-in one as a whole: what it leaves out is named, and not taken from there.
    let text = fs::read_to_string(&of_bench).unwrap();
    fs::write(&of_bench, text.split("[event_ns]").next().unwrap()).unwrap();
    let document = json(&[&inspect[..], &["--json", "--prices", &of_bench]].concat());
    let time = &document["findings"][0]["predicted"][0]["time"];
    assert_eq!(time["now_ns"], 21_634.219 * 0.21, "{time}");
    assert!(time["what"].as_str().unwrap().contains("not priced: IOTLB invalidations"), "{time}");
    // Two measured prices of a kind are no answer.
    let other = list("other.toml", &price(77.0, "assumed"), &price(650.0, "measured"));
    let error = refused(&[&inspect[..], &["--prices", &of_watch, "--prices", &other]].concat());
    assert!(error.contains("other.toml: event_ns.invalidations is 650, and 900 in "), "{error}");
    assert!(error.contains("watch.toml with evidence that is as good"), "{error}");
}

fn made_up_prices(arch: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../host/tests/prices/{arch}.toml"));
    file.to_str().unwrap().to_owned()
}

#[test]
fn changed_dma_paths_show_today_and_after_the_fixes() {
    let shown = |name: &str| {
        let path = capture(name);
        text(&iotoll(&["inspect", "--explain", "--from", path.to_str().unwrap()]).stdout)
    };
    const TITLE: &str = "This host today and after the fixes";
    assert!(shown("ppc-noddw").contains(TITLE));
    assert!(!shown("x86-no-iommu").contains(TITLE) && !shown("x86-vtd-lazy").contains(TITLE));
    let path = capture("ppc-noddw");
    let document = json(&["inspect", "--json", "--from", path.to_str().unwrap(), "00:03.0"]);
    let estimates = document["estimates"].as_array().unwrap();
    assert!(!estimates.is_empty() && estimates.iter().all(|one| one["address"] == "0000:00:03.0"));
    let (today, after) = (&estimates[0]["today"], &estimates[0]["after"]);
    assert_eq!((&today["dma_path"], &after["dma_path"]), (&"tce-window".into(), &"direct-window".into()));
    assert!(today["ns"].as_f64().unwrap() > after["ns"].as_f64().unwrap());
}

#[test]
fn prices_that_no_finding_needs_are_said_to_be_unused() {
    let (folder, file) = (tempfile::tempdir().unwrap(), made_up_prices("x86"));
    let said = |host: &str| {
        let args = ["inspect", "--from", host, "--tolls", &made_up_tolls(), "--prices", &file];
        text(&iotoll(&args).stderr)
    };
    let unused = "the price lists were read and not used";
    let without = concat!(env!("CARGO_MANIFEST_DIR"), "/../host/tests/captures/x86-no-iommu.tar.gz");
    assert!(said(without).contains(unused), "{}", said(without));
    assert!(!said(&strict_host(folder.path())).contains(unused));
}

#[test]
fn prices_that_are_none_are_errors_that_name_the_file_and_the_field() {
    let path = capture("ppc-noddw").to_str().unwrap().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    let check = |bytes: &[u8], words: &str| {
        fs::write(&file, bytes).unwrap();
        let error = refused(&["inspect", "--from", &path, "--prices", file.to_str().unwrap()]);
        assert!(error.contains("mine.toml") && error.contains(words), "{error}");
    };
    let good = fs::read_to_string(made_up_prices("ppc")).unwrap();
    check(b"platform", ":1: ");
    check(&[0xa5; 300], "stream did not contain valid UTF-8");
    check(good.replace("0.25", "nan").as_bytes(), "instruction_ns.value is NaN; expected a number");
    check(good.replace("1000", "-1").as_bytes(), "event_ns.hypercalls.value is -1; expected a number");
    check(good.replace("hypercalls", "hypercall").as_bytes(), "unknown variant `hypercall`");
    check(good.replace("applies_to", "for").as_bytes(), "unknown field `for`");
    check(good.replace("\"ppc\"", "\"x86\"").as_bytes(), "arch is `x86`; expected `ppc`");
    fs::File::create(&file).unwrap().set_len((16 << 20) + 1).unwrap();
    let huge = refused(&["inspect", "--from", &path, "--prices", file.to_str().unwrap()]);
    assert!(huge.contains("larger than 16 MiB"), "{huge}");
    let none = refused(&["inspect", "--prices", "/nowhere.toml", "--from", &path]);
    assert!(none.contains("can't read price list /nowhere.toml"), "{none}");
}

#[test]
fn a_pipe_without_a_writer_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let path = capture("ppc-noddw").to_str().unwrap().to_owned();
    let pipe = pipe.to_str().unwrap();
    for args in [
        &["inspect", "--from", &path, "--prices", pipe][..],
        &["lab", "list", "--presets", pipe],
        &["model", "run", pipe],
    ] {
        let error = refused(args);
        assert!(error.contains("has no writer"), "{args:?}: {error}");
    }
}

#[test]
fn a_shell_s_process_substitution_is_read() {
    let script = r#""$0" inspect --from "$1" --prices <(sleep 0.2; cat "$2")"#;
    let mut bash = std::process::Command::new("bash");
    bash.args(["-c", script]).arg(assert_cmd::cargo::cargo_bin("iotoll"));
    bash.arg(capture("ppc-noddw")).arg(made_up_prices("ppc"));
    let output = bash.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn toll_sheets_that_are_none_are_errors_that_name_the_file() {
    let path = capture("ppc-noddw").to_str().unwrap().to_owned();
    let refused = |folder: &Path| refused(&["inspect", "--from", &path, "--tolls", folder.to_str().unwrap()]);
    let check = |name: &str, bytes: &[u8], words: &str| {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(name), bytes).unwrap();
        let error = refused(folder.path());
        assert!(error.contains(words), "{error}");
    };
    check("a.json", b"no sheet", "a.json:1:2: not a toll sheet: ");
    check("a.json", &[0xa5; 300], "a.json: stream did not contain valid UTF-8");
    check("a.json", b"{\"schema\": \"iotoll.inspect/2\"}", "a.json: schema is `iotoll.inspect/2`; expected");
    check("a.json", b"[]", "a.json");
    check("schema.json", b"{}", "no toll sheet that predictions can use; expected *.json");
    check("a.txt", b"{}", "no toll sheet that predictions can use; expected *.json");
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("a.json")).unwrap();
    assert!(refused(folder.path()).contains("a.json: not a regular file"));
    assert!(refused(&folder.path().join("none")).contains("can't list toll sheets of "));
    let huge = folder.path().join("huge");
    fs::create_dir(&huge).unwrap();
    fs::File::create(huge.join("a.json")).unwrap().set_len((64 << 20) + 1).unwrap();
    assert!(refused(&huge).contains("a.json: larger than 64 MiB"));
}

#[test]
fn a_capture_of_a_capture_reads_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for name in CAPTURES {
        let copy = folder.path().join(format!("{name}.tar.gz"));
        let original = capture(name);
        let [from, to] = [&original, &copy].map(|path| path.to_str().unwrap());
        // Redacted captures have a test of their own.
        let made = iotoll(&["capture", "--with-identifiers", "--from", from, "-o", to]);
        assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
        assert!(made.stdout.is_empty(), "talk goes to standard error");
        let read = |path: &Path| {
            let mut document = json(&["inspect", "--json", "--from", path.to_str().unwrap()]);
            document["source"]["path"] = "".into();
            document
        };
        assert_eq!(read(&copy), read(&capture(name)), "{name}");
    }
}

#[test]
fn a_live_host_is_inspected_without_complaint() {
    let output = iotoll(&["inspect", "--json"]);
    assert!(output.status.code().unwrap() < 2, "{}", text(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["source"]["reach"], "live");
}

#[test]
fn without_arguments_everything_and_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::cargo_bin("iotoll").unwrap();
    let output = command.current_dir(folder.path()).env("COLUMNS", "100").output().unwrap();
    assert!(output.status.code().unwrap() < 2, "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("Allocators of I/O addresses, measured on this machine"));
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"));
    assert!(page.contains("Allocators of I/O addresses"), "the bench is on the page too");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing half-written is left");
}

#[test]
fn one_adapter_in_full_by_short_address() {
    let path = capture("ppc-ddw");
    let output = iotoll(&["inspect", "--from", path.to_str().unwrap(), "00:02.0"]);
    assert_eq!(output.status.code(), Some(1), "it has a finding");
    let shown = text(&output.stdout);
    assert!(shown.contains("tce-window") && shown.contains("dma_mask_bits"), "{shown}");
    let other = iotoll(&["inspect", "--from", path.to_str().unwrap(), "00:03.0"]);
    assert_eq!(other.status.code(), Some(0), "findings of others don't count");
}

/// Runs a command that must fail, and gives its words.
fn refused(args: &[&str]) -> String {
    let output = iotoll(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stdout));
    assert!(output.stdout.is_empty(), "{args:?}: no data beside an error");
    let words = text(&output.stderr);
    assert!(!words.contains("panicked"), "{words}");
    words
}

#[test]
fn errors_name_file_place_and_expectation() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let missing = folder.path().join("no.tar").to_str().unwrap().to_owned();
    assert!(refused(&["inspect", "--from", &missing]).contains("no.tar: No such file"));

    let whole = fs::read(capture("ppc-ddw")).unwrap();
    let cut = file("cut.tar.gz", &whole[..whole.len() / 2]);
    assert!(refused(&["inspect", "--from", &cut]).contains("damaged after "));
    assert!(refused(&["inspect", "--from", &file("noise", &[0xa5; 5000])]).contains("expected .tar"));
    assert!(refused(&["inspect", "--from", folder.path().to_str().unwrap()]).contains("holds archives, `"));

    let path = capture("ppc-ddw").to_str().unwrap().to_owned();
    assert!(refused(&["inspect", "--from", &path, "77:00.0"]).contains("no adapter 0000:77:00.0"));
    assert!(refused(&["inspect", "--from", &path, "banana"]).contains("is not a PCI address"));
    assert!(refused(&["inspect", "--from", &path, "--range", "0x0-0xfff"]).contains("x86"));
    assert!(refused(&["mtrr", "plan", "--from", &path, "--want", "0x1000:4K:uc"]).contains("x86"));
    assert!(refused(&["mtrr", "plan", "--want", "0x1000:uc"]).contains("BASE:SIZE:TYPE"));
}

#[test]
fn garbage_in_every_file_is_unknown_and_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let unpacked = folder.path().join("host");
    let bytes = fs::read(capture("x86-vtd-lazy")).unwrap();
    tar::Archive::new(flate2::read::GzDecoder::new(&bytes[..])).unpack(&unpacked).unwrap();
    scribble(&unpacked);
    let output = iotoll(&["inspect", "--json", "--from", unpacked.to_str().unwrap()]);
    assert!(!text(&output.stderr).contains("panicked"), "{}", text(&output.stderr));
    assert!(matches!(output.status.code(), Some(0..=2)));
}

/// Overwrites every file below a folder with bytes that mean nothing.
fn scribble(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            scribble(&entry.path());
        } else if kind.is_file() {
            let noise: Vec<u8> = (0..300_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
            fs::write(entry.path(), noise).unwrap();
        }
    }
}

/// The table and the wish of "RHEL6.4 Apparent reduced PCIe performance in comparison to RHEL5.9" (Red Hat
/// Customer Portal, 2013): registers 4 to 6 taken out, 80 MiB made uncachable, the three put back.
#[test]
fn the_articles_table_comes_out() {
    const BEFORE: &str = "\
reg00: base=0x00000000 (   0MB), size=32768MB: write-back, count=1
reg01: base=0x800000000 (32768MB), size=8192MB: write-back, count=1
reg02: base=0xa00000000 (40960MB), size=1024MB: write-back, count=1
reg03: base=0xa40000000 (41984MB), size= 256MB: write-back, count=1
reg04: base=0xae000000 (2784MB), size=  32MB: uncachable, count=1
reg05: base=0xb0000000 (2816MB), size= 256MB: uncachable, count=1
reg06: base=0xc0000000 (3072MB), size=1024MB: uncachable, count=1
";
    const AFTER: [&str; 5] = [
        "reg04: base=0x10000000 ( 256MB), size=  64MB: uncachable, count=1",
        "reg05: base=0x14000000 ( 320MB), size=  16MB: uncachable, count=1",
        "reg06: base=0xae000000 (2784MB), size=  32MB: uncachable, count=1",
        "reg07: base=0xb0000000 (2816MB), size= 256MB: uncachable, count=1",
        "reg08: base=0xc0000000 (3072MB), size=1024MB: uncachable, count=1",
    ];
    let folder = tempfile::tempdir().unwrap();
    let proc = folder.path().join("proc");
    fs::create_dir(&proc).unwrap();
    fs::write(proc.join("mtrr"), BEFORE).unwrap();
    fs::write(proc.join("version"), "Linux version 2.6.18-348.el5 (builder@host) x86_64\n").unwrap();
    let from = folder.path().to_str().unwrap();
    let plan = |order: &str| {
        let want = "0x10000000:80M:uncachable";
        let output = iotoll(&["mtrr", "plan", "--from", from, "--want", want, "--order", order]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let tidy = plan("tidy");
    assert!(AFTER.iter().all(|line| tidy.contains(line)), "{tidy}");
    let fewest = plan("fewest-steps");
    assert_eq!(fewest.matches("> /proc/mtrr    #").count(), 2, "64 + 16 MiB: {fewest}");
    let script =
        text(&iotoll(&["mtrr", "plan", "--from", from, "--want", "0x10000000:80M:uc", "--script"]).stdout);
    assert!(script.starts_with("#!/bin/sh"));
}

/// A host with an area of 80 MiB that is set aside under a write-back register, and this kernel.
fn host_with_an_area(kernel: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("proc")).unwrap();
    for (file, body) in [
        ("version", format!("Linux version {kernel} (builder@host) #1 SMP x86_64\n")),
        ("cmdline", "ro memmap=80M$256M\n".to_owned()),
        ("meminfo", "MemTotal:       67108864 kB\n".to_owned()),
        (
            "cpuinfo",
            "processor\t: 0\nvendor_id\t: GenuineIntel\naddress sizes\t: 46 bits physical\n".to_owned(),
        ),
        ("mtrr", "reg00: base=0x00000000 (   0MB), size=32768MB: write-back, count=1\n".to_owned()),
        ("iomem", "00100000-0fffffff : System RAM\n10000000-14ffffff : reserved\n".to_owned()),
    ] {
        fs::write(folder.path().join("proc").join(file), body).unwrap();
    }
    folder
}

#[test]
fn a_finding_about_an_area_has_the_model_s_forecast() {
    for (kernel, id, words, rate) in [
        ("2.6.32-642.el6.x86_64", "memmap-uncached", "no data is corrupted, whether", 80e6..90e6),
        ("2.6.18-348.el5", "memmap-incoherent", "if they do not, 100 % of the words miscompare", 1e9..2e9),
    ] {
        let folder = host_with_an_area(kernel);
        let page = folder.path().join("page.html");
        let from = ["inspect", "--from", folder.path().to_str().unwrap()];
        let document = json(&[&from[..], &["--json", "--html", page.to_str().unwrap()]].concat());
        let findings = document["findings"].as_array().unwrap();
        let finding = findings.iter().find(|finding| finding["id"] == id).unwrap();
        let forecast = &finding["forecast"];
        assert_eq!(forecast["area"], "0x10000000-0x14ffffff");
        assert!(rate.contains(&forecast["to_card_bytes_per_second"].as_f64().unwrap()), "{forecast}");
        assert!(forecast["what"].as_str().unwrap().contains(words), "{forecast}");
        assert_eq!(forecast["rests_on"][0]["evidence"]["kind"], "calibrated", "{forecast}");
        let others = findings.iter().filter(|finding| finding["id"] != id);
        assert!(others.into_iter().all(|finding| finding.get("forecast").is_none()));
        let shown = text(&iotoll(&[&from[..], &["--explain"]].concat()).stdout)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert!(shown.contains(words) && shown.contains("model of `iotoll reproduce memmap`"), "{shown}");
        assert!(fs::read_to_string(page).unwrap().contains(words));
    }
}

#[test]
fn help_shows_examples_and_shells_complete() {
    for command in [
        &["--help"][..],
        &["inspect", "--help"],
        &["capture", "--help"],
        &["mtrr", "plan", "--help"],
        &["lab", "run", "--help"],
        &["lab", "show", "--help"],
        &["lab", "diff", "--help"],
        &["bench", "iova", "--help"],
        &["compare", "--help"],
    ] {
        let help = text(&iotoll(command).stdout);
        let examples = help.split("Examples:").nth(1).unwrap_or_else(|| panic!("{command:?}: no examples"));
        assert!(examples.matches("iotoll").count() >= 2, "{command:?}: {help}");
    }
    assert!(text(&iotoll(&["complete", "bash"]).stdout).contains("_iotoll"));
    let folder = tempfile::tempdir().unwrap();
    assert!(iotoll(&["man", folder.path().to_str().unwrap()]).status.success());
    assert!(folder.path().join("iotoll-inspect.1").exists());
}
