//! What a folder's tables say of a fleet, whatever was written to them how often.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use fleet::{Inputs, Inspected, Rows, Summary, Tables, TablesFolder};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const CAPTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../host/tests/captures");
const MADE_BY: &str = "test 1.0";

/// A file with a capture of the repository.
fn copy(capture: &str, to: &Path) {
    fs::copy(Path::new(CAPTURES).join(capture), to).unwrap();
}

/// Says that a file was changed on a day since 1970.
fn touch(file: &Path, day: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(day * 86_400);
    File::options().write(true).open(file).unwrap().set_modified(time).unwrap();
}

/// A folder of tables, and one of captures.
struct Fleet {
    tables: TablesFolder,
    folder: tempfile::TempDir,
}

impl Fleet {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("captures")).unwrap();
        let write = |path: &Path, bytes: &[u8]| fs::write(path, bytes);
        let tables = TablesFolder::new(&folder.path().join("out"), "0-of-1", MADE_BY, write);
        drop(tables.prepare().unwrap());
        Self { tables, folder }
    }

    /// The path of a capture.
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("captures").join(name)
    }

    /// Writes a part with the rows of some captures.
    fn add(&self, names: &[&str]) {
        let mut rows = Rows::default();
        let paths: Vec<PathBuf> = names.iter().map(|name| self.path(name)).collect();
        for input in Inputs::find(paths.iter().map(PathBuf::as_path)).found {
            rows.add(Inspected::read(input, MADE_BY));
        }
        assert_eq!(rows.inputs(), names.len());
        self.tables.add(&rows).unwrap();
    }

    fn summary(&self) -> Summary {
        Summary::of(&Tables::read(&self.folder.path().join("out")).unwrap(), MADE_BY)
    }
}

/// Copies of a capture have its rows again, and so has an input that was read twice.
#[test]
fn each_capture_counts_once_however_often_it_was_read() {
    let fleet = Fleet::new();
    for (name, capture) in
        [("a", "x86-vtd-lazy.tar.gz"), ("b", "x86-vtd-lazy.tar.gz"), ("other", "ppc-ddw.tar.gz")]
    {
        copy(capture, &fleet.path(name));
    }
    fleet.add(&["a", "other"]);
    let once = fleet.summary();
    assert_eq!(once.captures, 2);
    assert!(!once.paths.is_empty() && !once.findings.is_empty());
    // A copy in the same part and in another, the same input in other parts, and after it was touched.
    fleet.add(&["a", "b"]);
    fleet.add(&["b"]);
    touch(&fleet.path("a"), 2);
    fleet.add(&["a"]);
    assert_eq!(fleet.summary(), once);
}

/// A capture may be gone when its turn comes.
#[test]
fn what_can_t_be_looked_at_is_a_row_of_errors() {
    let fleet = Fleet::new();
    let mut rows = Rows::default();
    Inputs::find([fleet.path("gone").as_path()]).unlisted.into_iter().map(Inspected::unlisted).for_each(
        |one| {
            assert_eq!(one.error().unwrap().word(), "unreadable");
            rows.add(one);
        },
    );
    fleet.tables.add(&rows).unwrap();
    let tables = Tables::read(&fleet.folder.path().join("out")).unwrap();
    let [error] = &tables.errors[..] else { panic!("{:?}", tables.errors) };
    assert_eq!(
        (error.input.as_str(), error.kind.as_str()),
        (fleet.path("gone").to_str().unwrap(), "unreadable")
    );
    assert!(error.what.contains("No such file"), "{}", error.what);
}

/// The folder of the tables may be among the captures.
#[test]
fn a_folder_s_own_files_are_no_captures() {
    let fleet = Fleet::new();
    copy("ppc-ddw.tar.gz", &fleet.path("one"));
    fleet.add(&["one"]);
    copy("ppc-ddw.tar.gz", &fleet.folder.path().join("out/other"));
    let found = || Inputs::find([fleet.folder.path()]).found;
    fleet.tables.keep_inputs(&found()).unwrap();
    let paths: Vec<_> = found().into_iter().map(|input| input.path).collect();
    assert_eq!(paths, [fleet.path("one"), fleet.folder.path().join("out/other")]);
    assert_eq!(fleet.summary().unread, [fleet.folder.path().join("out/other").to_str().unwrap()]);
}
