//! Guests that run iotoll itself.

#[path = "../../../lab/tests/support/mod.rs"]
#[allow(dead_code, unreachable_pub, reason = "other tests use more of it")]
pub(crate) mod support;

use lab::{
    Arch,
    kernel::{Cache, Kernel, Series},
};
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{GuestKernel, cache};

/// Shell commands that scripts begin with: all of busybox's tools, a function that begins a [`case`], and one that prints a command's
/// document, or what it said if it failed. A status of 1 is no failure, but something found.
pub(crate) const SHELL: &str = "export PATH=/bin:/sbin NO_COLOR=1\nbusybox mkdir -p /sbin /tmp\n\
    for tool in $(busybox --list); do [ -e /bin/$tool ] || busybox ln -s busybox /bin/$tool; done\n\
    about() { echo \"case: $1\"; }\n\
    document() { \"$@\" 2> /tmp/said || [ $? -eq 1 ] || cat /tmp/said; }\n";

/// A tool of the host, which is in different folders of distributions.
#[allow(dead_code, reason = "not every test program needs one")]
pub(crate) fn tool(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"];
    folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists())
}

/// A copy of the program without debugging symbols, because the guest unpacks it into memory.
#[allow(dead_code, reason = "the static program is named")]
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
    let kernel = GuestKernel::Debian(Series::V6_1).find(&cache, Arch::X86)?;
    Some((cache, kernel))
}

/// The console's output between a case's name, `case: NAME`, and the next case.
pub(crate) fn case<'c>(console: &'c str, name: &str) -> &'c str {
    let parts = console.split_once(&format!("case: {name}\n"));
    let (_, rest) = parts.unwrap_or_else(|| panic!("{name} is not in {console}"));
    rest.split("case: ").next().unwrap_or(rest)
}
