//! All scenarios in small, with an allocator of ours and one in a shared library.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use bench::{
    Benchmark, Contestant, Origin, Peer, PeerError, RunError, Scenario, Settings, ours, run, select,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A peer that finds a free page in a bitmap under a lock.
const BITMAP: &str = include_str!("peers/bitmap.c");
/// One that gives everybody the same page.
const CARELESS: &str = include_str!("peers/careless.c");

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
fn all_scenarios_with_all_contestants() {
    let folder = tempfile::tempdir().unwrap();
    let mut contestants = ours();
    contestants.push(peer(&folder, "bitmap-in-c", BITMAP));
    let benchmark = measure(&contestants, tiny()).unwrap();
    // Handing over takes two threads.
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
    assert_eq!(measured.memory_bytes, Some((1 << 20) / 8), "what the library says");
    assert_eq!(measured.cached_pages, None, "a library does not say");
    assert!(measured.allocate.samples > 0);
}

#[test]
fn the_document_holds_every_round_and_where_it_comes_from() {
    let settings = Settings { scenarios: vec![Scenario::Pairs], threads: vec![2], pin: true, ..tiny() };
    let benchmark = measure(&ours(), settings).unwrap();
    let document = serde_json::to_value(&benchmark).unwrap();
    assert_eq!(document["schema"], "iotoll.bench/1");
    assert_eq!(document["evidence"]["kind"], "measured");
    assert_eq!(document["cases"][0]["scenario"], "pairs");
    assert_eq!(document["cases"][0]["entries"][0]["measured"]["rounds"].as_array().unwrap().len(), 2);
    assert!(document["machine"]["cpus"].as_u64().unwrap() > 0);
    assert!(document["clock"]["overhead_ns"].as_f64().unwrap() > 0.0);
}

#[test]
fn rounds_take_as_many_pairs_as_fill_their_time() {
    let settings = Settings { scenarios: vec![Scenario::Pairs], threads: vec![1], pairs: None, ..tiny() };
    let benchmark = measure(&ours(), settings).unwrap();
    let measured = benchmark.cases[0].entries[0].measured.as_ref().unwrap();
    // A millisecond has room for thousands, on any machine.
    assert!(measured.pairs_per_thread > 1000, "{}", measured.pairs_per_thread);
}

#[test]
fn an_allocator_that_runs_out_of_room_is_loudly_at_fault() {
    let folder = tempfile::tempdir().unwrap();
    // With pages of 64 it wastes what the scenario fills.
    let source = BITMAP.replace("#define WASTE 1", "#define WASTE 64");
    let contestants = [peer(&folder, "wasteful", &source)];
    let settings = Settings { scenarios: vec![Scenario::Full], threads: vec![1], ..tiny() };
    let benchmark = measure(&contestants, settings).unwrap();
    assert!(benchmark.cases[0].entries[0].measured.as_ref().unwrap().failed > 0);
    assert!(
        benchmark.head.warnings[0].contains("FAILED although there was room"),
        "{:?}",
        benchmark.head.warnings
    );
}

#[test]
fn who_gives_a_page_twice_does_not_take_part() {
    let folder = tempfile::tempdir().unwrap();
    let error = measure(&[peer(&folder, "careless", CARELESS)], tiny()).unwrap_err();
    assert_eq!(error.to_string(), "careless is no allocator");
    let cause = std::error::Error::source(&error).unwrap();
    assert_eq!(cause.to_string(), "0x40-0x41 was returned while 0x40-0x40 was allocated");
}

#[test]
fn a_library_says_what_it_is_or_what_it_lacks() {
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
    let error = select(&ours(), &["nobody".to_owned()]).unwrap_err();
    assert!(error.to_string().starts_with(r#"there is no contestant "nobody"; there are direct"#), "{error}");
    let origin = Origin { made_by: String::new(), command: Vec::new(), date: String::new() };
    let error = run(&ours(), Some("nobody"), tiny(), origin, &mut |_| ()).unwrap_err();
    assert!(matches!(error, RunError::Baseline(_)));
    assert!(
        "naps".parse::<Scenario>().unwrap_err().to_string().contains("expected one of pairs, held, handoff")
    );
}

#[test]
fn a_burst_fits_into_its_thread_s_part_of_the_window() {
    let settings =
        Settings { scenarios: vec![Scenario::Bursts], burst: u64::MAX, bits: 28, pairs: None, ..tiny() };
    let ours: Vec<Contestant> = ours().into_iter().filter(|one| one.name == "percpu").collect();
    let benchmark = measure(&ours, settings).unwrap();
    let what: Vec<&str> = benchmark.cases.iter().map(|case| case.what.as_str()).collect();
    // The first page is nobody's.
    let pages = ((1 << 16) - 1) / 4;
    for (what, threads) in what.iter().zip([1, 2, 4]) {
        assert_eq!(*what, format!("allocate {} pages one by one, free them all", pages / threads));
    }
    for case in &benchmark.cases {
        assert_eq!(case.entries[0].measured.as_ref().unwrap().failed, 0);
    }
}
