//! Examples of packages, built for guests of each architecture.

use super::skip::skip;
use lab::Arch;
use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// The program of a package's example; `None` if nothing can build it, which is reported.
pub(crate) fn guest_program(arch: Arch, package: &str, example: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let mut script = Command::new(root.join("tests/guest_program.sh"));
    script.arg(arch.gnu().replace("-linux-gnu", "")).arg(&target).args([package, example]);
    let output = script.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.code() {
        Some(0) => Some(PathBuf::from(text(&output.stdout))),
        Some(3) => {
            skip(&text(&output.stderr));
            None
        }
        _ => panic!("{}", text(&output.stderr)),
    }
}
