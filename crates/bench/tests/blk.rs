//! Reads of a file by the kernel's ways, and of an emulated controller past it.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../../../tests/skip.rs"]
mod skip;

use bench::{BlkError, BlkSettings, through_the_kernel};
use skip::skip;
use std::path::PathBuf;

fn settings() -> BlkSettings {
    BlkSettings { depths: vec![1, 3, 8], bytes: 4096, rounds: 2, round_ms: 5 }
}

/// Beside this program: temporary folders are in memory, where direct I/O may be refused.
fn file(bytes: usize) -> (tempfile::TempDir, PathBuf) {
    let beside = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let folder = tempfile::tempdir_in(beside).unwrap();
    let file = folder.path().join("disk");
    std::fs::write(&file, vec![7; bytes]).unwrap();
    (folder, file)
}

#[test]
fn each_way_is_measured_or_says_why_not() {
    let (_folder, file) = file(1 << 20);
    let rows = match through_the_kernel(&settings(), &file, &mut |_, _| {}) {
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
    assert!(rows[0].cells[0].absent.is_none(), "one system call for each read is always there");
}

#[test]
fn reads_that_the_disk_has_not_are_refused() {
    let (_folder, file) = file(8192);
    for bytes in [0, 100, 16_384] {
        let error =
            through_the_kernel(&BlkSettings { bytes, ..settings() }, &file, &mut |_, _| {}).unwrap_err();
        assert!(
            error.to_string().contains("expected a multiple of 512")
                || matches!(error, BlkError::Disk { .. })
        );
    }
}
