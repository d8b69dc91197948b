//! Files that commands write: whole or not at all, never another file's place unasked, nothing left behind.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use assert_cmd::cargo::CommandCargoExt;
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

fn iotoll() -> Command {
    Command::cargo_bin("iotoll").unwrap()
}

fn capture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/tests/captures/ppc-ddw.tar.gz")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_capture_is_its_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("host.tar.gz");
    let status =
        iotoll().arg("capture").arg("--from").arg(capture()).arg("-o").arg(&output).status().unwrap();
    assert!(status.success());
    assert_eq!(fs::metadata(&output).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(names(folder.path()), ["host.tar.gz"]);
}

/// The old name of a temporary file was known before the file was there: a link of that name had its target overwritten.
#[test]
fn a_link_that_waits_for_a_temporary_file_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let victim = folder.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let page = folder.path().join("page.html");
    // The shell's number is the program's too.
    let script = "ln -s victim page.html.part$$; exec \"$0\" inspect --from \"$1\" --html page.html";
    let program = iotoll().get_program().to_owned();
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(program).arg(capture()).current_dir(folder.path()).stdout(Stdio::null());
    assert!(shell.status().unwrap().code().unwrap() < 2);
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert!(fs::read_to_string(&page).unwrap().contains("</html>"));
}

/// A copy of a disk that takes long, on its way to `folder`/out.
fn long_copy(folder: &Path) -> Child {
    let disk = folder.join("disk");
    File::create(&disk).unwrap().set_len(16 << 30).unwrap();
    // Who runs the tests may have signals ignored, as `nohup` does.
    let mut command = Command::new("env");
    command
        .arg("--default-signal=INT,TERM,HUP")
        .arg(iotoll().get_program())
        .args(["blk", "read"])
        .arg(&disk)
        .arg("-o")
        .arg(folder.join("out"))
        .stderr(Stdio::null());
    let child = command.spawn().unwrap();
    let written = || {
        let io = fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap_or_default();
        let written = io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap_or("0").to_owned();
        written.parse::<u64>().unwrap()
    };
    let begin = Instant::now();
    while written() < 1 << 20 {
        assert!(begin.elapsed() < Duration::from_secs(60), "nothing was written");
        sleep(Duration::from_millis(5));
    }
    child
}

#[test]
fn whatever_ends_a_command_leaves_no_part_of_a_file() {
    for signal in ["INT", "TERM", "HUP", "KILL"] {
        let folder = tempfile::tempdir().unwrap();
        let mut copy = long_copy(folder.path());
        let killed =
            Command::new("kill").args([format!("-{signal}"), copy.id().to_string()]).status().unwrap();
        assert!(killed.success());
        assert_eq!(copy.wait().unwrap().code(), None, "ended by SIG{signal}");
        assert_eq!(names(folder.path()), ["disk"], "after SIG{signal}");
    }
}

#[test]
fn a_link_of_ones_own_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("link");
    symlink("page", &link).unwrap();
    fs::write(folder.path().join("page"), "old").unwrap();
    let mut command = iotoll();
    command.arg("inspect").arg("--from").arg(capture()).arg("--html").arg(&link).stdout(Stdio::null());
    assert!(command.status().unwrap().code().unwrap() < 2);
    assert_eq!(names(folder.path()), ["link", "page"]);
    assert!(fs::read_to_string(folder.path().join("page")).unwrap().contains("</html>"));
}

#[test]
fn an_existing_page_is_not_replaced_without_consent() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("report.html"), "somebody's").unwrap();
    let output = iotoll().current_dir(folder.path()).output().unwrap();
    assert!(output.status.code().unwrap() < 2);
    assert_eq!(names(folder.path()), ["report-2.html", "report.html"]);
    assert_eq!(fs::read_to_string(folder.path().join("report.html")).unwrap(), "somebody's");
    assert!(String::from_utf8(output.stderr).unwrap().contains("report-2.html"));
}
