//! The house's rules on who may depend on whom, read from the manifests.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::{collections::BTreeMap, fs, path::Path};

/// The crates, lowest first, each with those of ours that it may use. A crate missing here fails the
/// test: a new room needs its place on the map.
const MAY_USE: &[(&str, &[&str])] = &[
    ("escape", &[]),
    ("cited", &[]),
    ("pci", &["cited"]),
    ("memtype", &["escape", "cited"]),
    ("toll", &[]),
    ("rseq", &[]),
    ("iova", &["rseq"]),
    ("des", &[]),
    ("uperf", &["des"]),
    ("ddw", &[]),
    ("dma", &["iova", "ddw"]),
    ("nvme", &["escape", "dma"]),
    ("block", &["dma", "nvme"]),
    ("host", &["escape", "cited", "pci", "memtype", "toll", "ddw"]),
    ("inspection", &["toll", "ddw", "host"]),
    ("columns", &[]),
    ("fleet", &["host", "inspection", "model", "columns"]),
    ("bench", &["toll", "iova", "dma", "nvme", "uperf"]),
    ("model", &["toll", "iova", "ddw", "dma", "des", "host", "uperf"]),
    ("sweep", &["toll", "model", "columns"]),
    ("watch", &["pci", "toll"]),
    ("compare", &["toll", "bench", "watch"]),
    ("report", &["escape", "toll", "host", "bench", "model", "watch", "compare", "fleet", "sweep"]),
    ("lab-plugin", &[]),
    ("lab-guest", &["dma", "nvme", "block"]),
    ("lab", &["toll"]),
    (
        "iotoll",
        &[
            "escape",
            "toll",
            "host",
            "dma",
            "nvme",
            "bench",
            "watch",
            "model",
            "compare",
            "report",
            "lab",
            "inspection",
            "fleet",
            "sweep",
        ],
    ),
    ("python", &["toll", "host", "model", "columns", "fleet", "sweep", "bench"]),
];

/// Libraries that only some crates may know.
const KNOWN_TO: &[(&str, &[&str])] = &[
    ("clap", &["iotoll"]),
    ("clap_complete", &["iotoll"]),
    ("clap_mangen", &["iotoll"]),
    ("anyhow", &["iotoll"]),
    ("parquet", &["fleet", "columns"]),
    ("rayon", &["iotoll"]),
    ("maud", &["report"]),
    ("comfy-table", &["report"]),
    ("io-uring", &["bench", "nvme"]),
    ("hdrhistogram", &["bench", "des"]),
    ("libloading", &["bench"]),
    ("pyo3", &["python"]),
    ("mimalloc", &["iotoll"]),
];

fn manifests() -> BTreeMap<String, toml::Table> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let read = |folder: fs::DirEntry| {
        let text = fs::read_to_string(folder.path().join("Cargo.toml")).unwrap();
        (folder.file_name().into_string().unwrap(), text.parse().unwrap())
    };
    fs::read_dir(crates).unwrap().map(|folder| read(folder.unwrap())).collect()
}

fn uses(manifest: &toml::Table) -> Vec<&str> {
    manifest
        .get("dependencies")
        .and_then(toml::Value::as_table)
        .map(|table| table.keys().map(String::as_str).collect())
        .unwrap_or_default()
}

#[test]
fn dependencies_point_down() {
    let manifests = manifests();
    let ours: Vec<&str> = MAY_USE.iter().map(|(name, _)| *name).collect();
    let mut wrong = Vec::new();
    for (name, manifest) in &manifests {
        let Some((_, allowed)) = MAY_USE.iter().find(|(known, _)| known == name) else {
            wrong.push(format!("{name} is not on the map"));
            continue;
        };
        let edges = uses(manifest).into_iter().filter(|used| ours.contains(used) && !allowed.contains(used));
        wrong.extend(edges.map(|used| format!("{name} -> {used}")));
    }
    assert!(wrong.is_empty(), "edges that the house does not allow: {wrong:#?}");
}

/// The registry has other people's packages of some names; those of ours have `iotoll-` before them.
#[test]
fn folders_are_named_for_their_crates() {
    for (folder, manifest) in manifests() {
        let package = manifest["package"]["name"].as_str().unwrap();
        if package == folder {
            continue;
        }
        assert_eq!(package, format!("iotoll-{folder}"));
        assert_eq!(
            manifest["lib"]["name"].as_str(),
            Some(folder.as_str()),
            "{package}: the code's name for it"
        );
    }
}

/// What the registry's pages show of a package, and the files that go with it.
#[test]
fn published_packages_are_complete() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut wrong = Vec::new();
    let (unpublished, published): (Vec<_>, Vec<_>) = manifests().into_iter().partition(|(_, manifest)| {
        manifest["package"].get("publish").is_some_and(|publish| publish.as_bool() == Some(false))
    });
    for (folder, manifest) in published {
        let package = &manifest["package"];
        for other in unpublished.iter().map(|(folder, _)| folder.as_str()) {
            if ["dependencies", "dev-dependencies"]
                .iter()
                .any(|&list| manifest.get(list).is_some_and(|list| list.get(other).is_some()))
            {
                wrong.push(format!("{folder}: uses {other}, which is not published"));
            }
        }
        for file in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            if !crates.join(&folder).join(file).exists() {
                wrong.push(format!("{folder}: no {file}"));
            }
        }
        for (list, max) in [("keywords", 5), ("categories", 5)] {
            let number = package.get(list).and_then(toml::Value::as_array).map_or(0, Vec::len);
            if !(1..=max).contains(&number) {
                wrong.push(format!("{folder}: {number} {list}; expected 1 to {max}"));
            }
        }
        let root = fs::read_to_string(crates.join(&folder).join("src/lib.rs")).unwrap_or_default();
        if folder != "iotoll" && !root.contains("include_str!(\"../README.md\")") {
            wrong.push(format!("{folder}: the example in README.md is not tested"));
        }
        if package.get("include").is_none() {
            wrong.push(format!("{folder}: no list of files to package (include)"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Sources of crates with their paths.
fn sources(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            found.extend(sources(&entry));
        } else if entry.extension().is_some_and(|end| end == "rs") {
            found.push((entry.display().to_string(), fs::read_to_string(&entry).unwrap()));
        }
    }
    found
}

/// What is written past `output` is written past the sanitizer.
#[test]
fn only_output_writes_to_a_terminal() {
    let ways = [
        "io::stdout()",
        "io::stderr()",
        "println!",
        "print!",
        "eprint",
        "set_message(",
        ".exit()",
        "Cli::parse()",
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    for (path, text) in sources(&folder).iter().filter(|(path, _)| !path.ends_with("src/output.rs")) {
        // Asking what it is writes nothing.
        let text = text.replace("io::stderr().is_terminal()", "");
        wrong.extend(ways.iter().filter(|way| text.contains(**way)).map(|way| format!("{path}: {way}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A cause that an error's own words hold is printed twice, since causes are printed after it.
#[test]
fn errors_do_not_say_their_sources() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut wrong = Vec::new();
    for (path, text) in manifests().keys().flat_map(|name| sources(&crates.join(name).join("src"))) {
        for (at, _) in text.match_indices("#[error(") {
            let (words, rest) = text[at..].split_once(")]").unwrap_or_default();
            // Until the next variant's words.
            let variant = rest.split("#[error(").next().unwrap_or_default();
            let first_field = variant
                .split_once('{')
                .map_or("", |(_, fields)| fields)
                .split('}')
                .next()
                .unwrap_or_default();
            let is_tuple = variant.trim_start().split('\n').next().is_some_and(|line| line.contains("(#["));
            let says_field = words.contains("{source}")
                && (first_field.contains("source:") || first_field.contains("#[source]"));
            let says_tuple = is_tuple && words.contains("{0}");
            if says_field || says_tuple {
                wrong.push(format!("{path}: {words}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn only_these_crates_know_each_of_these() {
    let mut wrong = Vec::new();
    for (name, manifest) in manifests() {
        for (library, knowing) in KNOWN_TO {
            if !knowing.contains(&name.as_str()) && uses(&manifest).contains(library) {
                wrong.push(format!("{name} -> {library}, known to {knowing:?} alone"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn tests_that_hold_a_promise_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let promises = fs::read_to_string(root.join("SECURITY.md")).unwrap();
    let mut named = 0;
    for command in promises.split('`').filter_map(|code| code.strip_prefix("cargo test -p ")) {
        let (name, tests) = command.split_once(' ').unwrap_or((command, ""));
        let folder = root.join("crates").join(name.strip_prefix("iotoll-").unwrap_or(name));
        assert!(folder.join("Cargo.toml").exists(), "{command}: no crate {name}");
        for test in tests.split_whitespace().filter(|word| *word != "--test") {
            let path = folder.join("tests").join(test);
            let is_there = path.with_extension("rs").exists() || path.join("main.rs").exists();
            assert!(is_there, "{command}: no test {test} of {name}");
            named += 1;
        }
    }
    assert!(named >= 10, "SECURITY.md names {named} tests");
}

/// Names that the field has other words for, each with that word.
const REPLACED: &[(&str, &str)] = &[
    ("Road", "DmaPath"),
    ("road", "dma_path"),
    ("roads", "dma_paths"),
    ("Bill", "DmaCounters"),
    ("Ledger", "ReadLog"),
    ("Moments", "RunningStats"),
    ("crew", "threads"),
    ("calm", "settle"),
    ("Ground", "MappingSource"),
    ("Wrong", "InvalidField"),
    ("judge", "diagnose"),
    ("FamilyError", "StudyError"),
    ("StorageExperiment", "FlashArrayExperiment"),
    ("Patience", "RetryPolicy"),
    ("Tag", "CommandId"),
    ("begin_again", "resubmit_in_flight"),
    ("under_way", "in_flight"),
    ("look_up", "lookup"),
];

#[test]
fn the_field_s_words_are_used() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for folder in ["crates", "fuzz/src", "experiments", "data"] {
        for path in files_below(&root.join(folder)) {
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let is_this = ["iotoll/tests/house.rs", "toll/src/sheet.rs", "toll/tests/sheet.rs"]
                .iter()
                .any(|this| path.ends_with(this));
            let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let old = words.filter(|word| REPLACED.iter().any(|(old, _)| old == word)).filter(|_| !is_this);
            found.extend(old.map(|old| format!("{}: {old}", path.display())));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// Source and data files; not what is recorded, captured or built.
fn files_below(folder: &Path) -> Vec<std::path::PathBuf> {
    let is_text = |path: &Path| {
        path.extension().is_some_and(|end| ["rs", "toml", "json", "css"].iter().any(|text| end == *text))
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            // A link into the repository's data is read at its target.
            _ if path.is_symlink() => {}
            true => files.extend(files_below(&path)),
            false if is_text(&path) => files.push(path),
            false => {}
        }
    }
    files
}
