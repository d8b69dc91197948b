//! Tests of all scenarios with few pairs, with the built-in allocators and one from a shared library.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use bench::{
    Benchmark, Contestant, Origin, Peer, PeerError, RunError, Scenario, Settings, built_in_contestants, run,
    select,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A peer that finds a free page in a bitmap under a lock.
const BITMAP: &str = include_str!("peers/bitmap.c");
/// A peer that returns the same page for every request.
const CARELESS: &str = include_str!("peers/careless.c");

/// Compiles a peer's C source to a shared library.
fn library(folder: &TempDir, name: &str, source: &str) -> PathBuf {
    let (file, library) =
        (folder.path().join(format!("{name}.c")), folder.path().join(format!("lib{name}.so")));
    std::fs::write(&file, source).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let built = Command::new("cc")
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-pthread", "-I"])
        .args([&include, Path::new("-o"), &library, &file])
        .status()
        .unwrap();
    assert!(built.success());
    library
}

fn peer(folder: &TempDir, name: &str, source: &str) -> Contestant {
    Contestant::peer(name, &Peer::load(&library(folder, name, source)).unwrap())
}

/// Settings for a run of milliseconds.
fn tiny() -> Settings {
    Settings {
        threads: vec![1, 2, 4],
        rounds: 2,
        round_ms: 1,
        pairs: Some(400),
        held: 8,
        burst: 8,
        full_bits: 24,
        ..Settings::default()
    }
}

fn measure(contestants: &[Contestant], settings: Settings) -> Result<Benchmark, RunError> {
    let origin = Origin {
        made_by: "test".to_owned(),
        command: vec!["test".to_owned()],
        date: "2000-01-01".to_owned(),
    };
    run(contestants, None, settings, origin, &mut |_| ())
}

#[test]
fn every_contestant_is_measured_in_every_scenario() {
    let folder = tempfile::tempdir().unwrap();
    let mut contestants = built_in_contestants();
    contestants.push(peer(&folder, "bitmap-in-c", BITMAP));
    let benchmark = measure(&contestants, tiny()).unwrap();
    // The scenarios with a queue need two threads.
    assert_eq!(benchmark.cases.len(), 7 * 3 + 2 * 2);
    for case in &benchmark.cases {
        let at = format!("{} with {} threads", case.scenario, case.threads);
        assert_eq!(case.entries.len(), contestants.len(), "{at}");
        let hands_over = [Scenario::Handoff, Scenario::Drift].contains(&case.scenario);
        assert_eq!(case.queue_ns_per_pair.is_some(), hands_over, "{at}");
        for entry in &case.entries {
            let at = format!("{at}: {}", entry.contestant);
            let measured = entry.measured.as_ref().unwrap_or_else(|| panic!("{at}: {:?}", entry.absent));
            let rounds = if case.scenario == Scenario::Drift { 16 } else { 2 };
            assert_eq!(measured.rounds.len(), rounds, "{at}");
            assert_eq!((measured.failed, measured.refused), (0, 0), "{at}");
            assert!(measured.rounds.iter().all(|round| round.pairs >= 190), "{at}: {:?}", measured.rounds);
            assert!(measured.over_baseline.is_some(), "{at}");
        }
    }
    let c = benchmark.cases[0].entries.iter().find(|entry| entry.contestant == "bitmap-in-c").unwrap();
    let measured = c.measured.as_ref().unwrap();
    assert_eq!(measured.memory_bytes, Some((1 << 20) / 8), "the library reports it");
    assert_eq!(measured.cached_pages, None, "a library can't report it");
    assert!(measured.allocate.samples > 0);
}

#[test]
fn the_document_has_every_round_and_its_origin() {
    let settings = Settings { scenarios: vec![Scenario::Pairs], threads: vec![2], pin: true, ..tiny() };
    let benchmark = measure(&built_in_contestants(), settings).unwrap();
    let document = serde_json::to_value(&benchmark).unwrap();
    assert_eq!(document["schema"], "iotoll.bench/1");
    assert_eq!(document["evidence"]["kind"], "measured");
    assert_eq!(document["cases"][0]["scenario"], "pairs");
    assert_eq!(document["cases"][0]["entries"][0]["measured"]["rounds"].as_array().unwrap().len(), 2);
    assert!(document["machine"]["cpus"].as_u64().unwrap() > 0);
    assert!(document["clock"]["overhead_ns"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_round_has_as_many_pairs_as_fill_its_time() {
    let settings = Settings { scenarios: vec![Scenario::Pairs], threads: vec![1], pairs: None, ..tiny() };
    let benchmark = measure(&built_in_contestants(), settings).unwrap();
    let measured = benchmark.cases[0].entries[0].measured.as_ref().unwrap();
    // Any machine does thousands in a millisecond.
    assert!(measured.pairs_per_thread > 1000, "{}", measured.pairs_per_thread);
}

#[test]
fn failed_allocations_cause_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    // Rounding every request up to 64 pages wastes the space that the scenario fills.
    let source = BITMAP.replace("#define WASTE 1", "#define WASTE 64");
    let contestants = [peer(&folder, "wasteful", &source)];
    let settings = Settings { scenarios: vec![Scenario::Full], threads: vec![1], ..tiny() };
    let benchmark = measure(&contestants, settings).unwrap();
    assert!(benchmark.cases[0].entries[0].measured.as_ref().unwrap().failed > 0);
    assert!(
        benchmark.head.warnings[0].contains("FAILED although pages were free"),
        "{:?}",
        benchmark.head.warnings
    );
}

#[test]
fn an_allocator_that_returns_a_page_twice_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = measure(&[peer(&folder, "careless", CARELESS)], tiny()).unwrap_err();
    let text = "careless is faulty; expected an allocator that passes the check before the measurement";
    assert_eq!(error.to_string(), text);
    let cause = std::error::Error::source(&error).unwrap();
    assert_eq!(cause.to_string(), "0x40-0x41 was returned while 0x40-0x40 was allocated");
}

#[test]
fn a_library_has_a_description_or_the_error_names_missing_functions() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(peer(&folder, "one", BITMAP).what, "a bitmap under a lock");
    let lacking = library(&folder, "lacking", "void iotoll_iova_destroy(void *a) { (void)a; }");
    let error = Peer::load(&lacking).unwrap_err();
    let PeerError::Missing { missing, .. } = &error else { panic!("{error}") };
    assert_eq!(*missing, ["iotoll_iova_create", "iotoll_iova_allocate", "iotoll_iova_free"]);
    let error = Peer::load(Path::new("/nowhere/libnone.so")).unwrap_err();
    assert_eq!(error.to_string(), "can't load the peer /nowhere/libnone.so");
    let PeerError::Load { source, .. } = &error else { panic!("{error}") };
    assert!(std::error::Error::source(source).unwrap().to_string().contains("/nowhere/libnone.so"));
}

#[test]
fn unknown_contestants_and_baselines_are_errors() {
    let error = select(&built_in_contestants(), &["nobody".to_owned()]).unwrap_err();
    assert!(
        error.to_string().starts_with(r#"unknown contestant "nobody"; expected one of direct"#),
        "{error}"
    );
    let origin = Origin { made_by: String::new(), command: Vec::new(), date: String::new() };
    let error = run(&built_in_contestants(), Some("nobody"), tiny(), origin, &mut |_| ()).unwrap_err();
    assert!(matches!(error, RunError::Baseline(_)));
    assert!(
        "naps".parse::<Scenario>().unwrap_err().to_string().contains("expected one of pairs, held, handoff")
    );
}

#[test]
fn a_burst_fits_into_its_thread_s_part_of_the_space() {
    let settings =
        Settings { scenarios: vec![Scenario::Bursts], burst: u64::MAX, bits: 28, pairs: None, ..tiny() };
    let percpu: Vec<Contestant> =
        built_in_contestants().into_iter().filter(|one| one.name == "percpu").collect();
    let benchmark = measure(&percpu, settings).unwrap();
    let what: Vec<&str> = benchmark.cases.iter().map(|case| case.what.as_str()).collect();
    // Page 0 is not in the space.
    let pages = ((1 << 16) - 1) / 4;
    for (what, threads) in what.iter().zip([1, 2, 4]) {
        assert_eq!(*what, format!("allocate {} pages one by one, free them all", pages / threads));
    }
    for case in &benchmark.cases {
        assert_eq!(case.entries[0].measured.as_ref().unwrap().failed, 0);
    }
}
