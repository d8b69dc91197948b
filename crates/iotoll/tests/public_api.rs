//! The public API of the libraries that others use, against the one that is kept: what is removed or changed breaks their programs.
//!
//!     IOTOLL_UPDATE=1 cargo test -p iotoll --test public_api   # keeps today's, in crates/*/public-api.txt
//!
//! rustdoc describes an API as JSON of a form that changes with the compiler, and the library that reads it knows one form.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use public_api::{Builder, MINIMUM_NIGHTLY_RUST_VERSION, PublicApi};
use std::path::{Path, PathBuf};
use std::{env, fs, process::Command};

/// Libraries that other projects may depend on, by their folders.
fn libraries() -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folders = fs::read_dir(crates).unwrap().map(|folder| folder.unwrap().path());
    let is_for_others = |folder: &PathBuf| {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        manifest.lines().any(|line| line == "rust-version = \"1.85\"")
    };
    let mut libraries: Vec<PathBuf> = folders.filter(is_for_others).collect();
    libraries.sort();
    libraries
}

/// rustdoc's description of a library's API.
fn describe(library: &Path) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("public-api");
    let described = Command::new(env!("CARGO"))
        .args(["rustdoc", "--lib", "--locked", "--quiet", "--manifest-path"])
        .arg(library.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .args(["--", "-Z", "unstable-options", "--output-format", "json", "--cap-lints", "allow"])
        // The form has no promise to last, which is what this allows.
        .env("RUSTC_BOOTSTRAP", "1")
        .env_remove("RUSTDOCFLAGS")
        .output()
        .unwrap();
    assert!(described.status.success(), "{}", String::from_utf8_lossy(&described.stderr));
    let name = library.file_name().unwrap().to_str().unwrap();
    target.join("doc").join(format!("{}.json", name.replace('-', "_")))
}

/// The API, without what the compiler derives and what all types have.
fn public_api(json: &Path) -> Result<PublicApi, public_api::Error> {
    let builder = Builder::from_rustdoc_json(json);
    builder.omit_blanket_impls(true).omit_auto_trait_impls(true).omit_auto_derived_impls(true).build()
}

#[test]
fn the_public_api_is_the_one_that_is_kept() {
    let mut changed = Vec::new();
    for library in libraries() {
        let today = match public_api(&describe(&library)) {
            Ok(api) => api.to_string(),
            Err(why) => {
                eprintln!(
                    "SKIPPED the_public_api_is_the_one_that_is_kept: this compiler describes an API otherwise than \
                     {MINIMUM_NIGHTLY_RUST_VERSION}: {why}"
                );
                return;
            }
        };
        let kept = library.join("public-api.txt");
        if env::var_os("IOTOLL_UPDATE").is_some() {
            fs::write(&kept, &today).unwrap();
        }
        let before = fs::read_to_string(&kept).unwrap_or_default();
        changed.extend(
            difference(&before, &today).into_iter().map(|line| format!("{}: {line}", library.display())),
        );
    }
    assert!(
        changed.is_empty(),
        "public items that went (-) or came (+); if that is meant, keep them (IOTOLL_UPDATE=1) and say so in CHANGELOG.md:\n{}",
        changed.join("\n")
    );
}

/// Lines of one text that the other has not.
fn difference(before: &str, today: &str) -> Vec<String> {
    let without = |some: &str, others: &str, sign| {
        let others: Vec<&str> = others.lines().collect();
        let missing = some.lines().filter(|line| !others.contains(line));
        missing.map(|line| format!("{sign}{line}")).collect::<Vec<_>>()
    };
    [without(before, today, '-'), without(today, before, '+')].concat()
}

#[test]
fn what_went_and_what_came_is_told() {
    let difference = difference("pub fn a()\npub fn b()", "pub fn b()\npub fn c()");
    assert_eq!(difference, ["-pub fn a()", "+pub fn c()"]);
}
