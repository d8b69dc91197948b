//! Guests that run iotoll itself.

#[path = "../../../lab/tests/support/mod.rs"]
#[allow(dead_code, unreachable_pub, reason = "other tests use more of it")]
pub(crate) mod support;

use lab::kernel::{Cache, Kernel, Series};
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{cache, debian_kernel};

/// A copy of the program without debugging symbols, because the guest unpacks it into memory.
pub(crate) fn stripped(folder: &Path) -> PathBuf {
    let program = folder.join("iotoll");
    let mut strip = Command::new("strip");
    strip.args(["--strip-debug", "-o"]).arg(&program).arg(env!("CARGO_BIN_EXE_iotoll"));
    assert!(strip.status().unwrap().success());
    program
}

/// The cache and its newest Debian kernel; `None` if no guest can boot, which is reported.
pub(crate) fn kernel() -> Option<(Cache, Kernel)> {
    let cache = cache()?;
    let kernel = debian_kernel(&cache, Series::V6_1)?;
    Some((cache, kernel))
}

/// The console's output between a case's name, `case: NAME`, and the next case.
pub(crate) fn case<'c>(console: &'c str, name: &str) -> &'c str {
    let parts = console.split_once(&format!("case: {name}\n"));
    let (_, rest) = parts.unwrap_or_else(|| panic!("{name} is not in {console}"));
    rest.split("case: ").next().unwrap_or(rest)
}
