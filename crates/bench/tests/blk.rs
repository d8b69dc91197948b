//! Reads and writes of a disk through each kernel interface, with a file instead of a disk, and by the user-space driver on an emulated controller.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../../../tests/skip.rs"]
mod skip;

use bench::{
    BlkError, BlkOperation, BlkRow, BlkSettings, measure_kernel_interfaces, measure_user_space_driver,
};
use nvme::emulated::Machine;
use skip::skip;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

const BLOCK: usize = 4096;

fn settings() -> BlkSettings {
    let operations = vec![BlkOperation::Read];
    BlkSettings { operations, depths: vec![1, 3, 8], bytes: BLOCK as u64, rounds: 2, round_ms: 5 }
}

fn settings_with_writes() -> BlkSettings {
    BlkSettings { operations: vec![BlkOperation::Read, BlkOperation::Write], ..settings() }
}

/// A file of sevens in the test program's folder. Temporary folders are often on tmpfs, which may not support direct I/O.
fn file(bytes: usize) -> (tempfile::TempDir, PathBuf) {
    let beside = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let folder = tempfile::tempdir_in(beside).unwrap();
    let file = folder.path().join("disk");
    fs::write(&file, vec![7; bytes]).unwrap();
    (folder, file)
}

/// Measures a file; `None` if this is not possible here, which is reported.
fn measure(settings: &BlkSettings, path: &PathBuf, steps: &mut Vec<String>) -> Option<Vec<BlkRow>> {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut progress = |done, all, what: &str| steps.push(format!("{done} of {all}: {what}"));
    match measure_kernel_interfaces(settings, &file, path, &mut progress) {
        Ok(rows) => Some(rows),
        Err(BlkError::Disk { source, .. }) => {
            skip(&format!("no direct I/O here: {source}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Checks that each cell has what belongs to its row's operation, or a reason why it has nothing.
fn check_cells(rows: &[BlkRow]) {
    for row in rows {
        assert_eq!(row.cells.iter().map(|cell| cell.depth).collect::<Vec<_>>(), [1, 3, 8]);
        for cell in &row.cells {
            let is_measured = cell.absent.is_none();
            let rates = [cell.reads_per_second, cell.writes_per_second];
            let is_of = |operation| is_measured && row.operation == operation;
            assert_eq!(
                rates.map(|rate| rate.is_some_and(|rate| rate.min > 0.0)),
                [is_of(BlkOperation::Read), is_of(BlkOperation::Write)],
                "{row:?}"
            );
            assert_eq!(cell.per_second().is_some(), is_measured);
            assert_eq!(is_measured, cell.latency.as_ref().is_some_and(|latency| latency.samples > 0));
        }
    }
}

/// Checks that some blocks of sevens were overwritten, with bytes of all kinds.
fn check_written(disk: &[u8], bytes: usize) {
    assert_eq!(disk.len(), bytes);
    let written: Vec<&[u8]> = disk.chunks(BLOCK).filter(|block| *block != [7; BLOCK]).collect();
    assert!(!written.is_empty());
    for block in written {
        assert!(block.iter().collect::<BTreeSet<_>>().len() > 100, "data that are not random");
    }
}

#[test]
fn each_interface_is_measured_or_has_a_reason_why_not() {
    let (_folder, path) = file(1 << 20);
    let mut steps = Vec::new();
    let Some(rows) = measure(&settings(), &path, &mut steps) else { return };
    assert_eq!(rows.len(), 4);
    check_cells(&rows);
    assert!(rows[0].cells[0].absent.is_none(), "pread is always available");
    assert!(fs::read(&path).unwrap().iter().all(|byte| *byte == 7), "nothing is written");
    assert_eq!(steps[..2], ["0 of 12: pread, read, depth 1", "1 of 12: pread, read, depth 3"]);
}

#[test]
fn each_interface_writes_after_it_has_read() {
    let (_folder, path) = file(1 << 20);
    let mut steps = Vec::new();
    let Some(rows) = measure(&settings_with_writes(), &path, &mut steps) else { return };
    let ways: Vec<String> = rows.iter().map(|row| format!("{} {}", row.way, row.operation)).collect();
    assert_eq!(ways[..4], ["pread read", "pwrite write", "io_uring read", "io_uring write"]);
    assert_eq!(ways.len(), 8);
    check_cells(&rows);
    assert!(rows[1].cells[0].absent.is_none(), "pwrite is always available");
    check_written(&fs::read(&path).unwrap(), 1 << 20);
    assert_eq!(steps[3], "3 of 24: pwrite, write, depth 1");
}

/// Sevens are put back before an interface is measured, so that what is there afterwards is its own.
#[test]
fn each_interface_that_is_measured_by_writes_writes() {
    for (place, way) in ["pwrite", "io_uring", "io_uring registered"].into_iter().enumerate() {
        let (_folder, path) = file(1 << 20);
        let disk = File::options().read(true).write(true).open(&path).unwrap();
        let settings = BlkSettings { operations: vec![BlkOperation::Write], depths: vec![1], ..settings() };
        let mut written = None;
        let mut progress = |done, _, what: &str| {
            assert!(what.ends_with(", write, depth 1"), "{what}");
            if done == place as u64 {
                fs::write(&path, vec![7; 1 << 20]).unwrap();
            } else if done == place as u64 + 1 {
                written = Some(fs::read(&path).unwrap());
            }
        };
        match measure_kernel_interfaces(&settings, &disk, &path, &mut progress) {
            Err(BlkError::Disk { source, .. }) => return skip(&format!("no direct I/O here: {source}")),
            rows if rows.as_ref().unwrap()[place].cells[0].absent.is_some() => {}
            rows => {
                assert_eq!(rows.unwrap()[place].way, way);
                check_written(&written.unwrap(), 1 << 20);
            }
        }
    }
}

#[test]
fn the_user_space_driver_writes_after_it_has_read() {
    let machine = Machine::open(256, 12).unwrap();
    let namespace = machine.namespace().unwrap();
    let controller = Arc::new(Mutex::new(machine.controller));
    let mut steps = Vec::new();
    let mut progress = |done, all, what: &str| steps.push(format!("{done} of {all}: {what}"));
    let rows = measure_user_space_driver(&settings(), &controller, namespace, &mut progress).unwrap();
    check_cells(&rows);
    assert!(machine.emulated.disk().iter().all(|byte| *byte == 0), "nothing is written");
    let rows = measure_user_space_driver(&settings_with_writes(), &controller, namespace, &mut |_, _, _| {});
    let rows = rows.unwrap();
    assert_eq!(rows.iter().map(|row| row.operation).collect::<Vec<_>>(), settings_with_writes().operations);
    check_cells(&rows);
    let disk: Vec<u8> =
        machine.emulated.disk().iter().map(|byte| if *byte == 0 { 7 } else { *byte }).collect();
    check_written(&disk, 256 * BLOCK);
    assert_eq!(
        steps,
        ["0 of 3: nvme, read, depth 1", "1 of 3: nvme, read, depth 3", "2 of 3: nvme, read, depth 8"]
    );
}

#[test]
fn requests_of_an_invalid_size_are_refused() {
    let (_folder, path) = file(8192);
    let file = File::open(&path).unwrap();
    for bytes in [0, 100, 16_384] {
        let settings = BlkSettings { bytes, ..settings() };
        let error = measure_kernel_interfaces(&settings, &file, &path, &mut |_, _, _| {}).unwrap_err();
        assert!(
            error.to_string().contains("expected a multiple of 512")
                || matches!(error, BlkError::Disk { .. })
        );
    }
}
