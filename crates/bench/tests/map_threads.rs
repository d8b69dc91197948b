//! Tests of mapping by many threads, with every contestant and one from a shared library.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use bench::{
    Bytes, MapThreads, MapThreadsError, MapThreadsSettings, Origin, PerPair, built_in_contestants,
    map_contestants, run_map_threads, select_map,
};

fn measure(names: &[&str], settings: MapThreadsSettings) -> Result<MapThreads, MapThreadsError> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let origin = Origin {
        made_by: "test".to_owned(),
        command: vec!["test".to_owned()],
        date: "2000-01-01".to_owned(),
    };
    // An allocator that the built-in contestants leave out stands for a peer.
    let peers: Vec<_> = built_in_contestants().into_iter().filter(|one| one.name == "gap-tree").collect();
    run_map_threads(&select_map(&map_contestants(&peers), &names)?, settings, origin, &mut |_, _| ())
}

/// Settings for a run of milliseconds.
fn tiny(threads: Vec<usize>) -> MapThreadsSettings {
    MapThreadsSettings { threads, rounds: 2, pairs: Some(400), ..MapThreadsSettings::default() }
}

/// What a pair of a contestant counted with the most threads.
fn per_pair(run: &MapThreads, name: &str) -> PerPair {
    let entry = run.cases.last().unwrap().entries.iter().find(|entry| entry.contestant == name).unwrap();
    entry.measured.as_ref().unwrap().per_pair
}

#[test]
fn every_contestant_maps_in_many_threads() {
    let run = measure(&[], tiny(vec![1, 2, 40])).unwrap();
    assert_eq!(run.baseline, "direct");
    assert_eq!(run.cases.len(), 3);
    for case in &run.cases {
        assert_eq!(case.entries.len(), 1 + 2 * 6 + 6);
        for entry in &case.entries {
            let measured = entry.measured.as_ref().unwrap_or_else(|| panic!("{:?}", entry.absent));
            assert_eq!(measured.rounds.len(), 2, "{}", entry.contestant);
            assert!(measured.rounds.iter().all(|round| round.pairs == 400), "{}", entry.contestant);
            assert!(measured.over_baseline.is_some(), "{}", entry.contestant);
        }
    }
    // The run itself fails if counters contradict the pairs; here is what stands in the document.
    for name in ["direct", "map-once"] {
        assert_eq!(per_pair(&run, name), PerPair::default(), "{name}");
    }
    for name in ["bitmap", "pool", "rbtree", "magazine", "percpu", "gap-tree"] {
        assert_eq!(per_pair(&run, name), PerPair { allocations: 1.0, ..PerPair::default() }, "{name}");
        let with = per_pair(&run, &format!("{name}+tables"));
        assert!(with.table_entries >= 2.0 && with.hypercalls == 0.0, "{name}: {with:?}");
    }
    assert_eq!(per_pair(&run, "percpu+strict").invalidations, 1.0);
    for name in ["tce", "tce+host", "virtio-iommu"] {
        let per_pair = per_pair(&run, name);
        assert!(per_pair.hypercalls == 2.0 && per_pair.table_entries >= 2.0, "{name}: {per_pair:?}");
    }
}

#[test]
fn larger_mappings_have_an_entry_for_each_page() {
    let names = ["tables", "tce", "tce+host", "virtio-iommu", "percpu+strict"];
    let settings = MapThreadsSettings { bytes: Bytes(64 << 10), ..tiny(vec![3]) };
    let run = measure(&names, settings).unwrap();
    assert_eq!(run.baseline, "tables", "the first, without `direct`");
    for name in names {
        let per_pair = per_pair(&run, name);
        assert!((32.0..33.0).contains(&per_pair.table_entries), "{name}: {per_pair:?}");
        assert!(per_pair.hypercalls <= 2.0, "a list is one hypercall: {name}: {per_pair:?}");
    }
}

#[test]
fn a_round_has_as_many_pairs_as_fill_its_time() {
    let settings = MapThreadsSettings { pairs: None, round_ms: 1, ..tiny(vec![2]) };
    let run = measure(&["direct"], settings).unwrap();
    assert!(run.cases[0].entries[0].measured.as_ref().unwrap().pairs_per_thread > 100);
}

#[test]
fn impossible_runs_say_what_was_expected() {
    let error = measure(&["nobody"], tiny(vec![1])).unwrap_err().to_string();
    assert!(
        error.starts_with(r#"unknown contestant "nobody"; expected one of direct, bitmap, bitmap+tables"#),
        "{error}"
    );
    for bytes in [0, (1 << 20) + 1] {
        let settings = MapThreadsSettings { bytes: Bytes(bytes), ..tiny(vec![1]) };
        assert!(matches!(measure(&["direct"], settings), Err(MapThreadsError::Size(_))));
    }
}

#[test]
fn more_threads_than_cpus_cause_a_warning() {
    let run = measure(&["direct"], tiny(vec![1, 1024])).unwrap();
    let warned = |word: &str| run.head.warnings.iter().any(|warning| warning.contains(word));
    assert!(warned("more threads than CPUs") && warned("from 1024 threads on"), "{:?}", run.head.warnings);
}
