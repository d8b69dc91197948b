//! What SECURITY.md promises of every command that only looks, seen from outside, by strace: nothing is changed, no program is
//! started, and nothing goes over a network.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../../../tests/skip.rs"]
mod skip;

use skip::skip;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Calls by path, by network, and by file that change something.
const TRACED: &str = "trace=%file,%network,fchmod,fchown,ftruncate,fallocate,fsetxattr,mount,umount2,bpf,perf_event_open,\
                      init_module,finit_module,delete_module,ioperm,iopl,ptrace,setns,unshare,sethostname,reboot";

/// Of a host with RDMA devices, counts are asked of the kernel: calls that open or name such a socket.
const KERNEL_SOCKET: &[&str] = &["NETLINK_RDMA", "<NETLINK:["];

/// Calls of those that change nothing, whatever they are called with.
const HARMLESS: &[&str] = &[
    "access",
    "faccessat",
    "faccessat2",
    "getcwd",
    "lstat",
    "newfstatat",
    "readlink",
    "readlinkat",
    "stat",
    "statfs",
    "statx",
];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs the program under strace in an empty folder; what it called, one call a line. `None` without strace.
fn trace(arguments: &[&str], folder: &Path) -> Option<String> {
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut strace = Command::new("strace");
    strace.args(["-f", "-yy", "-qq", "-s", "300", "-e", TRACED, "-e", "signal=none", "-o"]).arg(log.path());
    strace.arg(env!("CARGO_BIN_EXE_iotoll")).args(arguments).current_dir(folder).env("HOME", folder);
    let ran = strace.stdin(Stdio::null()).output().ok()?;
    let status = ran.status.code();
    assert!(
        status.is_some_and(|status| status < 2),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&ran.stderr)
    );
    let log = fs::read_to_string(log.path()).unwrap();
    assert!(log.contains("openat("), "{arguments:?}: nothing was traced");
    Some(log)
}

/// The call of a line such as `123 openat(AT_FDCWD, "/etc", O_RDONLY) = 3`.
fn call(line: &str) -> &str {
    line.split_once(' ').map_or(line, |(_, call)| call.trim_start())
}

fn changes_something(call: &str) -> bool {
    let Some((name, arguments)) = call.split_once('(') else { return false };
    match name {
        "open" | "openat" | "openat2" => {
            ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"].iter().any(|flag| arguments.contains(flag))
        }
        // The program itself, by strace.
        "execve" => !arguments.contains("iotoll"),
        name => !HARMLESS.contains(&name),
    }
}

/// Calls that break the promise, other than those with one of the words of `but`.
fn broken<'l>(log: &'l str, but: &[&str]) -> Vec<&'l str> {
    let calls = log.lines().map(call).filter(|call| !call.starts_with("<..."));
    let others = calls.filter(|call| !but.iter().any(|word| call.contains(word)));
    others.filter(|call| changes_something(call)).collect()
}

#[test]
fn reading_commands_change_nothing_and_use_no_network() {
    let root = repository();
    let path = |path: &str| root.join(path).to_str().unwrap().to_owned();
    let capture = path("crates/host/tests/captures/ppc-noddw.tar.gz");
    let (engine, sheet) = (path("experiments/engine.toml"), path("data/tolls/ppc-tce-window.json"));
    let commands: [&[&str]; 11] = [
        &["inspect"],
        &["inspect", "--json"],
        &["inspect", "--from", &capture],
        // Without identifiers a first capture writes one file more: the key of pseudonyms (docs/reference/capture.md).
        &["capture", "--with-identifiers", "-o", "-"],
        &[
            "mtrr",
            "plan",
            "--from",
            &path("crates/host/tests/captures/x86-vtd-lazy.tar.gz"),
            "--want",
            "0x80000000:0x1000000:uc",
        ],
        &["lab", "list"],
        &["lab", "show", &sheet],
        &["model", "run", &engine],
        &["reproduce", "premapped"],
        &["blk", "list"],
        &["bench", "map"],
    ];
    for arguments in commands {
        let folder = tempfile::tempdir().unwrap();
        let Some(log) = trace(arguments, folder.path()) else { return skip("strace is not installed") };
        let broken = broken(&log, KERNEL_SOCKET);
        assert!(broken.is_empty(), "{arguments:?}: {broken:#?}");
        let has_rdma =
            fs::read_dir("/sys/class/infiniband").is_ok_and(|mut devices| devices.next().is_some());
        assert!(has_rdma || !log.contains("NETLINK"), "{arguments:?}: the socket could load a kernel module");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{arguments:?}");
    }
}

#[test]
fn a_command_writes_to_the_named_file() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("host.tar.gz");
    let key = folder.path().join("capture.key");
    let arguments = ["capture", "--key", key.to_str().unwrap(), "-o", output.to_str().unwrap()];
    let Some(log) = trace(&arguments, folder.path()) else { return skip("strace is not installed") };
    let inside = folder.path().to_str().unwrap();
    let broken = broken(&log, &[KERNEL_SOCKET, &[inside]].concat());
    assert!(broken.is_empty(), "{broken:#?}");
    // That the test would see it.
    assert!(self::broken(&log, &[]).iter().any(|call| call.contains(inside)), "{log}");
}
