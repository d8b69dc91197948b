//! Tests of disk reads through each kernel interface, with a file instead of a disk.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../../../tests/skip.rs"]
mod skip;

use bench::{BlkError, BlkSettings, measure_kernel_interfaces};
use skip::skip;
use std::path::PathBuf;

fn settings() -> BlkSettings {
    BlkSettings { depths: vec![1, 3, 8], bytes: 4096, rounds: 2, round_ms: 5 }
}

/// A file in the test program's folder. Temporary folders are often on tmpfs, which may not support direct I/O.
fn file(bytes: usize) -> (tempfile::TempDir, PathBuf) {
    let beside = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let folder = tempfile::tempdir_in(beside).unwrap();
    let file = folder.path().join("disk");
    std::fs::write(&file, vec![7; bytes]).unwrap();
    (folder, file)
}

#[test]
fn each_interface_is_measured_or_has_a_reason_why_not() {
    let (_folder, file) = file(1 << 20);
    let rows = match measure_kernel_interfaces(&settings(), &file, &mut |_, _| {}) {
        Ok(rows) => rows,
        Err(BlkError::Disk { source, .. }) => return skip(&format!("no direct I/O here: {source}")),
        Err(error) => panic!("{error}"),
    };
    assert_eq!(rows.len(), 4);
    for row in &rows {
        assert_eq!(row.cells.iter().map(|cell| cell.depth).collect::<Vec<_>>(), [1, 3, 8]);
        for cell in &row.cells {
            let is_measured = cell.absent.is_none();
            assert_eq!(is_measured, cell.reads_per_second.is_some_and(|rate| rate.min > 0.0), "{row:?}");
            assert_eq!(is_measured, cell.latency.as_ref().is_some_and(|latency| latency.samples > 0));
        }
    }
    assert!(rows[0].cells[0].absent.is_none(), "pread is always available");
}

#[test]
fn reads_of_an_invalid_size_are_refused() {
    let (_folder, file) = file(8192);
    for bytes in [0, 100, 16_384] {
        let error = measure_kernel_interfaces(&BlkSettings { bytes, ..settings() }, &file, &mut |_, _| {})
            .unwrap_err();
        assert!(
            error.to_string().contains("expected a multiple of 512")
                || matches!(error, BlkError::Disk { .. })
        );
    }
}
