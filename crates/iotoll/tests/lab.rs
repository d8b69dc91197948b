//! Toll sheets on the command line: what is shown, what is told apart, and how it ends.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use assert_cmd::Command;
use std::fs;
use std::path::Path;
use std::process::Output;

fn sheet(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../toll/tests/sheets/{name}.json"));
    file.to_str().unwrap().to_owned()
}

fn lab(args: &[&str]) -> Output {
    let mut command = Command::cargo_bin("iotoll").unwrap();
    command.env("COLUMNS", "100").env("NO_COLOR", "1").arg("lab").args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What a command prints that ends with this exit code and complains of nothing.
fn printed(args: &[&str], exit: i32) -> String {
    let output = lab(args);
    assert_eq!(output.status.code(), Some(exit), "{args:?}: {}", text(&output.stderr));
    assert!(output.stderr.is_empty(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn json(args: &[&str], exit: i32) -> serde_json::Value {
    serde_json::from_str(&printed(args, exit)).unwrap()
}

#[test]
fn growth_is_exit_one_and_its_reasons() {
    let (lazy, strict) = (sheet("x86-vtd-lazy"), sheet("x86-vtd-strict"));
    let shown = printed(&["diff", &lazy, &strict], 1);
    let grown = "nvme-read-4k grew: instructions +719, invalidations +1\n";
    let told = "only B's kernel has the options iommu.strict=1";
    for words in ["5 counts grew beyond the limit, in 2 of 2 workloads", grown, told, "qi_submit_sync"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(printed(&["diff", &strict, &lazy], 0).starts_with("No count grew"));
    assert_eq!(printed(&["diff", &lazy, &lazy], 0).lines().next(), Some("No count differs in 2 workloads"));
}

#[test]
fn limits_decide_the_exit_code_alone() {
    let (lazy, strict) = (sheet("x86-vtd-lazy"), sheet("x86-vtd-strict"));
    let check = |limit: &[&str], exit: i32| {
        let document = json(&[&["diff", "--json", &lazy, &strict], limit].concat(), exit);
        assert_eq!(document["grew"], exit == 1, "{limit:?}");
        // Nothing is hidden by a limit.
        assert_eq!(document["changes"].as_array().unwrap().len(), 12, "{limit:?}");
    };
    check(&[], 1);
    check(&["--more-than", "718.5", "--more-events-than", "1"], 1);
    check(&["--more-than", "719", "--more-events-than", "1"], 0);
    check(&["--more-than-percent", "4", "--more-events-than", "1"], 0);
    // No tolerance of instructions hides an event.
    check(&["--more-than", "719", "--more-than-percent", "100"], 1);
    check(&["--more-than", "719", "--more-events-than", "0.5"], 1);
}

#[test]
fn the_document_of_a_difference() {
    let document = json(&["diff", "--json", &sheet("x86-vtd-lazy"), &sheet("x86-vtd-strict")], 1);
    assert_eq!(document["schema"], "iotoll.toll-diff/3");
    assert_eq!(
        (&document["a"]["dma_path"], &document["b"]["dma_path"]),
        (&"translated-lazy".into(), &"translated-strict".into())
    );
    assert!(document["a"]["file"].as_str().unwrap().ends_with("x86-vtd-lazy.json"));
    let expect = serde_json::json!({
        "workload": "nvme-read-4k", "change": "instructions", "only_in": null, "stage": null, "function": null, "event": null,
        "event_name": null, "average": "median", "a": 20894.0, "b": 21613.0, "grew": true, "may_be_chance": false
    });
    assert_eq!(document["changes"][0], expect);
    let expect = serde_json::json!({
        "workload": "nvme-read-4k", "change": "stage", "only_in": null, "stage": "iova", "function": null, "event": null,
        "event_name": null, "average": null, "a": 400.0, "b": 385.0, "grew": false, "may_be_chance": false
    });
    assert!(document["changes"].as_array().unwrap().contains(&expect));
}

#[test]
fn one_sheet_is_a_table_and_several_are_compared_by_dma_path() {
    let (none, strict) = (sheet("x86-no-iommu"), sheet("x86-vtd-strict"));
    let one = printed(&["show", &strict], 0);
    assert!(one.starts_with("x86-vtd-strict · translated-strict\n") && one.contains("21,613"), "{one}");
    assert!(!one.contains("what each DMA path adds"), "{one}");
    let both = printed(&["show", &none, &strict], 0);
    for words in [
        "nvme-read-4k: 18,904 on x86-no-iommu",
        "udp-send-64: 7,745 on x86-no-iommu",
        "+2,709",
        "+14.3 %",
        "+1.60 µs",
    ] {
        assert!(both.contains(words), "{words}: {both}");
    }
}

#[test]
fn the_document_of_sheets_has_whole_sheets_and_costs_of_dma_paths() {
    let files = [sheet("x86-no-iommu"), sheet("x86-vtd-strict")];
    let document = json(&["show", "--json", &files[0], &files[1]], 0);
    assert_eq!(document["schema"], "iotoll.toll-sheets/4");
    for (index, file) in files.iter().enumerate() {
        let sheet: serde_json::Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        assert_eq!(document["sheets"][index], sheet);
    }
    let over = document["over_untranslated"].as_array().unwrap();
    assert_eq!(over.len(), 2, "each workload of the translated DMA path");
    assert_eq!(over[0]["untranslated_preset"], "x86-no-iommu");
    let certain = |mean: f64| serde_json::json!({"mean": mean, "low": mean, "high": mean});
    assert_eq!(over[0]["difference"]["dma"], certain(2709.0));
    let row = |table: &str, row: serde_json::Value| {
        assert!(over[0]["difference"][table].as_array().unwrap().contains(&row), "{row}");
    };
    row("stages", serde_json::json!({"stage": "invalidation", "instructions": certain(734.0)}));
    row("events", serde_json::json!({"event": "invalidations", "median": 1.0, "mean": certain(1.0)}));
}

/// The words of a command that must fail.
fn refused(args: &[&str]) -> String {
    let output = lab(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stdout));
    assert!(output.stdout.is_empty(), "{args:?}: no data beside an error");
    text(&output.stderr)
}

#[test]
fn sheets_without_a_common_workload_are_no_comparison() {
    let folder = tempfile::tempdir().unwrap();
    let good = sheet("x86-vtd-strict");
    let text = fs::read_to_string(&good).unwrap();
    let other = folder.path().join("other.json");
    fs::write(&other, text.replace("nvme-read-4k", "nvme-read-8k").replace("udp-send-64", "udp-send-65"))
        .unwrap();
    let error = refused(&["diff", &good, other.to_str().unwrap()]);
    assert!(error.contains("no workload in common") && error.contains("other.json"), "{error}");
}

#[test]
fn a_flame_of_no_known_form_is_refused_before_anything_runs() {
    let error = refused(&["run", "x86-no-iommu", "--flame", "read.png"]);
    for words in ["read.png", ".svg", ".folded"] {
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[test]
fn broken_sheets_are_errors_that_name_the_file_and_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let good = sheet("x86-vtd-strict");
    let whole = fs::read_to_string(&good).unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let check = |name: &str, bytes: &[u8], words: &str| {
        let path = file(name, bytes);
        for args in [
            &["show", &path][..],
            &["show", "--json", &good, &path],
            &["diff", &good, &path],
            &["diff", &path, &good],
        ] {
            let error = refused(args);
            assert!(
                error.starts_with("iotoll: ") && error.contains(&path) && error.contains(words),
                "{error}"
            );
        }
    };
    check("cut.json", &whole.as_bytes()[..300], "EOF while parsing");
    check("noise.json", &[0xa5; 300], "valid UTF-8");
    check(
        "other.json",
        b"{\"schema\": \"iotoll.inspect/2\"}",
        "schema is `iotoll.inspect/2`; expected `iotoll.toll-sheet/4`",
    );
    check(
        "sum.json",
        whole.replacen("\"instructions\": 410\n", "\"instructions\": 411\n", 1).as_bytes(),
        "preset x86-vtd-strict, workload nvme-read-4k: `functions` add up to 21614 instructions; expected the median window's 21613",
    );
    check(
        "field.json",
        whole.replacen("\"kernel\": 21589", "\"kernels\": 21589", 1).as_bytes(),
        "unknown field `kernels`",
    );
    let missing = folder.path().join("none.json").to_str().unwrap().to_owned();
    assert!(refused(&["show", &missing]).contains("none.json: No such file"));
    assert!(refused(&["show", folder.path().to_str().unwrap()]).contains("Is a directory"));
}

#[test]
fn hostile_sheets_are_errors_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let good = sheet("x86-vtd-strict");
    let whole = fs::read_to_string(&good).unwrap();
    let path = folder.path().join("hostile.json");
    let path = path.to_str().unwrap();
    let check = |text: &str, words: &str| {
        fs::write(path, text).unwrap();
        for args in [&["show", path][..], &["diff", &good, path], &["diff", path, &good]] {
            let error = refused(args);
            assert!(error.contains(path) && error.contains(words), "{words}: {error}");
        }
    };
    let changed = |from: &str, to: &str| {
        assert!(whole.contains(from), "{from}");
        whole.replacen(from, to, 1)
    };
    check("", ":1:0: not a toll sheet: EOF while parsing");
    check("null", ":1:");
    check(&format!("{{\"schema\": {}", "[".repeat(100_000)), ":1:");
    check(&format!("{{\"x\": {}", "[".repeat(100_000)), "EOF while parsing a list");
    check(&format!("\u{feff}{whole}"), ":1:1:");
    check(&changed("\"kernel\": 21589", "\"kernel\": 18446744073709551616"), "expected u64");
    check(
        &changed("\"kernel\": 21589", "\"kernel\": 18446744073709551615"),
        "add up to 18446744073709551639",
    );
    check(&changed("\"kernel\": 21589", "\"kernel\": -1"), "expected u64");
    check(&changed("\"kernel\": 21589", "\"kernel\": 21589, \"kernel\": 21589"), "duplicate field `kernel`");
    check(&changed("\"windows\": ", "\"windows\": 0, \"window\": "), "expected a nonzero u32");
    check(&changed("udp-send-64", "nvme-read-4k"), "nvme-read-4k");
    // What never ends is not read to its end.
    let error = refused(&["show", "/dev/zero"]);
    assert!(error.contains("/dev/zero: larger than 64 MiB"), "{error}");
}

#[test]
fn limits_are_amounts() {
    let good = sheet("x86-vtd-strict");
    for (flag, amount) in
        [("--more-than", "-1"), ("--more-events-than", "many"), ("--more-than-percent", "nan")]
    {
        let error = refused(&["diff", &good, &good, flag, amount]);
        assert!(
            error.contains(&format!("`{amount}` is not a tolerance; expected a number, zero or more")),
            "{error}"
        );
    }
    assert!(refused(&["show"]).contains("SHEET.json"));
    assert!(refused(&["diff", &good]).contains("B.json"));
}

#[test]
fn a_page_to_look_at_is_written_beside_the_tables() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tolls.html");
    let (strict, base) = (sheet("x86-vtd-strict"), sheet("x86-no-iommu"));
    let output = lab(&["show", &base, &strict, "--html", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), format!("{} written\n", file.display()));
    assert_eq!(text(&output.stdout), printed(&["show", &base, &strict], 0));
    let page = fs::read_to_string(&file).unwrap();
    assert!(page.contains("<h1>Translated-strict adds 14.3 % to an I/O's instructions"), "{page}");
    assert!(page.contains(concat!("Made by iotoll ", env!("CARGO_PKG_VERSION"))));
    let nowhere = folder.path().join("none/tolls.html");
    let failed = lab(&["show", &base, "--html", nowhere.to_str().unwrap()]);
    assert_eq!(failed.status.code(), Some(2));
    assert!(text(&failed.stderr).contains("can't write"), "{}", text(&failed.stderr));
}
