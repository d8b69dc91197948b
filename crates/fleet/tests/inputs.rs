//! Which files and folders are inputs.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use fleet::{Input, Inputs, Inspected};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

fn found(folder: &Path, paths: &[&str]) -> Vec<String> {
    let paths: Vec<_> = paths.iter().map(|path| folder.join(path)).collect();
    let inputs = Inputs::find(paths.iter().map(AsRef::as_ref));
    assert!(inputs.unlisted.is_empty(), "{:?}", inputs.unlisted);
    let name = |path: &Path| path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
    inputs.found.iter().map(|input| name(&input.path)).collect()
}

#[test]
fn a_host_s_folder_is_one_input_and_other_folders_are_looked_into() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for name in
        ["all/host/proc", "all/host/etc", "all/rack/sosreport/sos_commands", "all/rack/live/sys", "all/empty"]
    {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    let captures = ["all/host/etc/hostname", "all/one.tar.gz", "all/rack/two.json", "all/rack/proc"];
    let beside = [
        "all/one.tar.gz.sha256",
        "all/rack/two.json.asc",
        "all/part-0.parquet",
        "all/SHA256SUMS",
        "all/a.MD5",
    ];
    for name in captures.into_iter().chain(beside) {
        fs::write(root.join(name), "x").unwrap();
    }
    symlink("one.tar.gz", root.join("all/link")).unwrap();
    symlink("/", root.join("all/root")).unwrap();
    symlink("all", root.join("given")).unwrap();
    // A file named proc is no host's folder.
    let all = ["host", "one.tar.gz", "rack/live", "rack/proc", "rack/sosreport", "rack/two.json"];
    let under = |top: &str| all.map(|name| format!("{top}/{name}")).to_vec();
    assert_eq!(found(root, &["all"]), under("all"));
    assert_eq!(found(root, &["given"]), under("given"), "what is given is followed");
    assert_eq!(found(root, &["all/host", "all", "all/one.tar.gz"]), under("all"), "each once");
    assert_eq!(found(root, &["all/empty"]), [""; 0]);
    assert_eq!(
        found(root, &["all/one.tar.gz.sha256"]),
        ["all/one.tar.gz.sha256"],
        "a path of the command line is an input, whatever its name"
    );
}

#[test]
fn paths_that_are_no_utf_8_have_a_name_each() {
    let folder = tempfile::tempdir().unwrap();
    for byte in [0xe2, 0xf4] {
        let name = [b"h".as_slice(), &[byte], b"te.tar"].concat();
        fs::write(folder.path().join(OsStr::from_bytes(&name)), "x").unwrap();
    }
    let inputs = Inputs::find([folder.path()]).found;
    let names: Vec<_> = inputs.iter().map(Input::name).collect();
    let [first, second] = names.as_slice() else { panic!("{names:?}") };
    assert!(first.ends_with("/h\\xe2te.tar") && second.ends_with("/h\\xf4te.tar"), "{names:?}");
    for (input, name) in inputs.into_iter().zip(&names) {
        let error = Inspected::read(input, "test").error().unwrap().to_string();
        assert!(error.starts_with(name), "{error}");
    }
}

/// The file that it was made of is not there: it is no signature.
#[test]
fn an_encrypted_report_is_an_input_with_an_error_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["secured.tar.xz.gpg", "signed.tar.xz", "signed.tar.xz.asc"] {
        fs::write(folder.path().join(name), b"\x8c\x0d\x04\x09\x03\x02 and so on").unwrap();
    }
    assert_eq!(found(folder.path(), &["."]), ["secured.tar.xz.gpg", "signed.tar.xz"]);
    let read = Inputs::find([folder.path()]).found.into_iter().map(|input| Inspected::read(input, "test"));
    let errors: Vec<_> =
        read.map(|one| (one.error().unwrap().word(), one.error().unwrap().to_string())).collect();
    assert_eq!((errors[0].0, errors[1].0), ("encrypted", "no-capture"));
    assert!(
        errors[0].1.ends_with("secured.tar.xz.gpg: encrypted, as its name says; decrypt it first"),
        "{errors:?}"
    );
}

#[test]
fn the_folder_above_a_link_is_that_of_its_target() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("far/away")).unwrap();
    fs::create_dir(root.join("here")).unwrap();
    for name in ["far/host.tar", "here/host.tar"] {
        fs::write(root.join(name), "x").unwrap();
    }
    symlink("../far/away", root.join("here/link")).unwrap();
    assert_eq!(found(&root, &["here/link/../host.tar"]), ["far/host.tar"]);
    assert_eq!(found(&root, &["far/away/../../here/./host.tar"]), ["here/host.tar"]);
}

#[test]
fn a_document_larger_than_any_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.json");
    fs::write(&path, "{").unwrap();
    fs::File::options().append(true).open(&path).unwrap().set_len((256 << 20) + 1).unwrap();
    let read = Inspected::read(Inputs::find([path.as_path()]).found.remove(0), "test");
    let error = read.error().unwrap();
    assert_eq!(error.word(), "too-large");
    assert!(error.to_string().contains("large.json: larger than 256 MiB; expected what `iotoll"), "{error}");
}

#[test]
fn what_can_t_be_looked_at_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let deep = (0..20).fold(folder.path().to_owned(), |path, _| path.join("d"));
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("host.tar"), "x").unwrap();
    let gone = folder.path().join("gone");
    let inputs = Inputs::find([folder.path(), gone.as_path()]);
    assert!(inputs.found.is_empty());
    let said: Vec<String> = inputs.unlisted.iter().map(|one| one.error.to_string()).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said.iter().any(|text| text == "more than 16 folders deep"), "{said:?}");
}

/// Whoever is given the same files calls them the same, from whatever folder.
#[test]
fn names_are_absolute() {
    let here = std::env::current_dir().unwrap();
    let named = |given: &str| -> Vec<String> {
        let inputs = Inputs::find([Path::new(given)]);
        let unlisted = inputs.unlisted.iter().map(|one| one.path.to_str().unwrap().to_owned());
        inputs.found.iter().map(fleet::Input::name).chain(unlisted).collect()
    };
    let file = here.join("Cargo.toml").to_str().unwrap().to_owned();
    for given in ["Cargo.toml", "./Cargo.toml", "././/Cargo.toml", &file] {
        assert_eq!(named(given), std::slice::from_ref(&file), "{given}");
    }
    let sources = named("src");
    assert!(sources.contains(&here.join("src/lib.rs").to_str().unwrap().to_owned()), "{sources:?}");
    assert_eq!(named("src/"), sources);
    assert_eq!(named("gone"), [here.join("gone").to_str().unwrap()]);
    assert_eq!(named("src/../Cargo.toml"), [file]);
    assert_eq!(named("/.."), named("/"));
    assert_eq!(named(""), [""]);
}
