//! C programs with the built library: one of ours, and with a checkout of Open POWER's capiflash the suites of the library that this one
//! follows.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// The library as others install it.
fn library(folder: &Path) -> PathBuf {
    succeed(Command::new("sh").arg(here().join("build_library.sh")).arg(folder).arg("dev"));
    folder.join("lib")
}

#[test]
fn the_example_copies() {
    let folder = tempfile::tempdir().unwrap();
    let lib = library(folder.path());
    let [from, to, program] = ["from", "to", "copy"].map(|name| folder.path().join(name));
    let data: Vec<u8> = (0..100 * 4096_u32).map(|at| (at / 7) as u8).collect();
    fs::write(&from, &data).unwrap();
    let flags = succeed(
        Command::new("sed").args(["-n", "s/^Libs.private: //p"]).arg(lib.join("pkgconfig/iotoll_block.pc")),
    );
    let private = String::from_utf8(flags.stdout).unwrap();
    for is_static in [false, true] {
        fs::write(&to, vec![0; 101 * 4096]).unwrap();
        let mut compile = Command::new("cc");
        compile
            .args(["-Wall", "-Wextra", "-Werror", "-std=c11", "-o"])
            .arg(&program)
            .arg("-I")
            .arg(folder.path().join("include"));
        compile.arg(here().join("examples/copy.c"));
        if is_static {
            compile.arg(lib.join("libiotoll_block.a")).args(private.split_ascii_whitespace());
        } else {
            compile.arg("-L").arg(&lib).arg("-liotoll_block");
        }
        succeed(&mut compile);
        let run = |arguments: [&Path; 2]| {
            Command::new(&program).args(arguments).env("LD_LIBRARY_PATH", &lib).output().unwrap()
        };
        let copied = run([&from, &to]);
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
        assert_eq!(fs::read(&to).unwrap()[..data.len()], data);
        let refused = run([&from, Path::new("/nowhere")]);
        assert_eq!(String::from_utf8_lossy(&refused.stderr), "copy: /nowhere: No such file or directory\n");
    }
}

#[test]
fn chunks_are_used_when_threads_and_processes_end() {
    let folder = tempfile::tempdir().unwrap();
    let lib = library(folder.path());
    let [disk, program] = ["disk", "at_exit"].map(|name| folder.path().join(name));
    fs::write(&disk, vec![0; 4 * 4096]).unwrap();
    let mut compile = Command::new("cc");
    compile.args(["-Wall", "-Werror", "-o"]).arg(&program).arg("-I").arg(folder.path().join("include"));
    compile.arg(here().join("tests/at_exit.c")).arg("-L").arg(&lib).args(["-liotoll_block", "-lpthread"]);
    succeed(&mut compile);
    for path in [disk.to_str().unwrap(), "emulated:64"] {
        let output = succeed(Command::new(&program).arg(path).env("LD_LIBRARY_PATH", &lib));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "before: used\nthread: used\nprocess: used\n");
    }
}

/// Only what the headers have is exported, under a version.
#[test]
fn symbols_are_the_interface_s() {
    let folder = tempfile::tempdir().unwrap();
    let lib = library(folder.path());
    let read = |option: &str| {
        let output =
            succeed(Command::new("readelf").args(["-W", option]).arg(lib.join("libiotoll_block.so")));
        String::from_utf8(output.stdout).unwrap()
    };
    let dynamic = read("-d");
    assert!(dynamic.contains("Library soname: [libiotoll_block.so.0]"), "{dynamic}");
    let symbols = read("--dyn-syms");
    let defined = symbols.lines().filter(|line| line.contains(" FUNC ") && !line.contains(" UND "));
    let mut exported: Vec<&str> = defined.filter_map(|line| line.split_ascii_whitespace().last()).collect();
    exported.sort_unstable();
    let headers = ["capiblock.h", "iotoll_block.h"]
        .map(|name| fs::read_to_string(here().join("include").join(name)).unwrap());
    let mut declared: Vec<String> = headers
        .iter()
        .flat_map(|header| header.split(['*', ' ', '\n']))
        .filter_map(|word| word.split_once('(').map(|(name, _)| name))
        .filter(|name| {
            ["cblk_", "iotoll_block_", "iotoll_queue_"].iter().any(|prefix| name.starts_with(prefix))
        })
        .map(|name| format!("{name}@@IOTOLL_BLOCK_0"))
        .collect();
    declared.sort();
    declared.dedup();
    assert_eq!(exported, declared);
}

/// The checkout that `CAPIFLASH` names.
fn checkout(test: &str) -> Option<PathBuf> {
    let checkout = env::var_os("CAPIFLASH").map(PathBuf::from);
    if checkout.is_none() {
        eprintln!("SKIPPED {test}: CAPIFLASH names no checkout of Open POWER's capiflash");
    }
    checkout
}

/// Runs a suite on files, or on another disk, and expects the results that are kept.
fn check(checkout: &Path, suite: &str, disks: &[(Option<&str>, &str)]) {
    let folder = tempfile::tempdir().unwrap();
    let scripts = here().join("tests/capiflash");
    succeed(Command::new("sh").arg(scripts.join("build.sh")).arg(checkout).arg(folder.path()));
    let lib = library(&folder.path().join("library"));
    for (disk, results) in disks {
        let mut run = Command::new("sh");
        run.arg(scripts.join("run.sh")).arg(folder.path()).arg(&lib).arg(suite).args(*disk);
        let output = succeed(&mut run);
        let found = String::from_utf8(output.stdout).unwrap();
        let expected = fs::read_to_string(scripts.join(results)).unwrap();
        assert!(found == expected, "{disk:?}\n{found}\n{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn block_tests_have_the_original_library_s_results() {
    let Some(checkout) = checkout("block_tests_have_the_original_library_s_results") else { return };
    let disks = [(None, "results-block.txt"), (Some("emulated:262144"), "results-block-controller.txt")];
    check(&checkout, "block", &disks);
}

#[test]
#[ignore = "six minutes"]
fn the_key_value_store_has_the_original_library_s_results() {
    let Some(checkout) = checkout("the_key_value_store_has_the_original_library_s_results") else { return };
    check(&checkout, "kv", &[(None, "results-kv.txt")]);
}
