//! What a folder's tables say of a fleet, whatever was written to them how often.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use columns::{Cells, Column, hash, parquet_bytes, with_causes};
use fleet::{Inputs, Inspected, Rows, Summary, Table, Tables, TablesFolder};
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

    /// The folder of the tables.
    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    /// A table's only file.
    fn part(&self, table: Table) -> PathBuf {
        let [part] = &fs::read_dir(self.out().join(table.name())).unwrap().collect::<Vec<_>>()[..] else {
            panic!("{table:?} has not one file");
        };
        part.as_ref().unwrap().path()
    }

    fn summary(&self) -> Summary {
        Summary::of(&Tables::read(&self.out()).unwrap(), MADE_BY)
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

/// Whether the report and a run that goes on refuse the tables, with these words.
fn are_refused(fleet: &Fleet, words: &str) -> [bool; 2] {
    let said = [
        Tables::read(&fleet.out()).map(drop).map_err(|error| with_causes(&error)),
        fleet.tables.finished_inputs().map(drop).map_err(|error| with_causes(&error)),
    ];
    said.map(|said| {
        said.is_err_and(|said| said.contains(words) && said.contains("remove the files of this name"))
    })
}

#[test]
fn no_byte_of_a_table_changes_unseen() {
    let fleet = Fleet::new();
    copy("x86-vtd-lazy.tar.gz", &fleet.path("one"));
    fs::write(fleet.path("bad"), b"nothing that tells of a host\n").unwrap();
    fleet.add(&["bad", "one"]);
    let whole = fleet.summary();
    for table in Table::ALL {
        let part = fleet.part(table);
        let bytes = fs::read(&part).unwrap();
        let all = "its name has the hash of other bytes";
        for at in (0..bytes.len()).step_by(97) {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            fs::write(&part, changed).unwrap();
            assert_eq!(are_refused(&fleet, all), [true, true], "{table:?}, byte {at}");
        }
        for shorter in [0, 4, bytes.len() / 2] {
            fs::write(&part, &bytes[..shorter]).unwrap();
            assert_eq!(are_refused(&fleet, all), [true, true], "{table:?}, {shorter} bytes");
        }
        fs::remove_file(&part).unwrap();
        match table {
            // The other files are then what a killed run has left, and do not count.
            Table::Hosts => assert_eq!(are_refused(&fleet, ""), [false, false]),
            // Removed, so that its inputs are read again.
            Table::Errors => assert_eq!(are_refused(&fleet, ""), [false, false]),
            _ => assert_eq!(are_refused(&fleet, "No such file"), [true, true]),
        }
        fs::write(&part, &bytes).unwrap();
    }
    assert_eq!(fleet.summary(), whole);
    fs::copy(fleet.part(Table::Hosts), fleet.out().join("hosts/part-0-of-1-of-elsewhere.parquet")).unwrap();
    assert_eq!(are_refused(&fleet, "no run has written it"), [true, true]);
}

/// Names can be made for any bytes: what they say that they are counts, and no decoder's panic ends the program.
#[test]
fn tables_of_another_version_or_of_no_run_are_refused() {
    let hosts = [Column::of("input", Cells::Text(vec![Some("a".to_owned())]))];
    let of_schema =
        |schema: &str| parquet_bytes("hosts", &hosts, "test", &[("iotoll.schema", schema)]).unwrap();
    for (bytes, words) in [
        (of_schema("iotoll.fleet/0"), "those of iotoll.fleet/0; expected iotoll.fleet/1"),
        (parquet_bytes("hosts", &hosts, "test", &[]).unwrap(), "those of no run"),
        (b"PAR1".to_vec(), ""),
    ] {
        let fleet = Fleet::new();
        let hash = &hash(&[&bytes])[..12];
        let name = format!("part-0-of-1-{}.parquet", [hash; 5].join("-"));
        for table in Table::ALL {
            fs::write(fleet.out().join(table.name()).join(&name), &bytes).unwrap();
        }
        assert_eq!(are_refused(&fleet, words), [true, true], "{words}");
    }
    // No bit of a file makes a panic of an error.
    let fleet = Fleet::new();
    copy("ppc-ddw.tar.gz", &fleet.path("one"));
    fleet.add(&["one"]);
    let files = Table::ALL.map(|table| fs::read(fleet.part(table)).unwrap());
    for (table, place) in [(Table::Hosts, 0), (Table::Findings, 2)] {
        let bytes = &files[place];
        for at in (4..bytes.len()).step_by(61) {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            let crafted = Fleet::new();
            let hash_of = |one: usize| hash(&[if one == place { &changed } else { &files[one] }]);
            let hashes: Vec<String> = (0..5).map(|one| hash_of(one)[..12].to_owned()).collect();
            let name = format!("part-0-of-1-{}.parquet", hashes.join("-"));
            for (one, each) in Table::ALL.into_iter().enumerate() {
                let bytes = if each == table { &changed } else { &files[one] };
                fs::write(crafted.out().join(each.name()).join(&name), bytes).unwrap();
            }
            drop(Tables::read(&crafted.out()).map(|tables| Summary::of(&tables, MADE_BY)));
        }
    }
}

/// A run with other shards removes them, but for those of a shard that runs.
#[test]
fn remains_of_another_division_are_removed() {
    let fleet = Fleet::new();
    copy("ppc-ddw.tar.gz", &fleet.path("one"));
    fleet.add(&["one"]);
    let others = |shard: &str| {
        TablesFolder::new(&fleet.out(), shard, MADE_BY, |path: &Path, bytes: &[u8]| fs::write(path, bytes))
    };
    let remains = |shard: &str| {
        let path = fleet.out().join(format!("adapters/part-{shard}-remains.parquet"));
        fs::write(&path, b"").unwrap();
        path
    };
    let (own, divided, running, sibling) =
        (remains("0-of-1"), remains("0-of-2"), remains("1-of-2"), remains("1-of-1"));
    let lock = others("1-of-2").prepare().unwrap();
    let running_again = remains("1-of-2");
    assert_eq!(running, running_again);
    assert!(!own.exists() && !sibling.exists(), "the other division ran");
    let (own, sibling) = (remains("0-of-1"), remains("1-of-1"));
    drop(fleet.tables.prepare().unwrap());
    assert_eq!([own, divided, running, sibling].map(|path| path.exists()), [false, false, true, true]);
    drop(lock);
    drop(fleet.tables.prepare().unwrap());
    assert!(!running_again.exists());
    // A number is written in one way, which is what is locked.
    let odd = remains("007-of-9");
    assert!(with_causes(&fleet.tables.prepare().unwrap_err()).contains("no run has written it"));
    fs::remove_file(odd).unwrap();
    assert!(!fleet.summary().paths.is_empty(), "what is complete stays");
}
