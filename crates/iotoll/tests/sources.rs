//! Sources that can't be read, or are no archive: what the program says and how it ends.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn program() -> PathBuf {
    assert_cmd::cargo::cargo_bin("iotoll")
}

fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env("COLUMNS", "100").env("NO_COLOR", "1").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn iotoll(args: &[&str]) -> Output {
    command(program()).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// On one line, as wrapping may fall anywhere.
fn flat(bytes: &[u8]) -> String {
    text(bytes).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn capture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../host/tests/captures/{name}.tar.gz"))
}

/// A capture unpacked, whose files anyone may read.
fn unpacked(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let bytes = fs::read(capture(name)).unwrap();
    tar::Archive::new(flate2::read::GzDecoder::new(&bytes[..])).unpack(folder.path().join("host")).unwrap();
    folder
}

/// A copy of the program that anyone may run: the folder of the build may be closed to others. Removed in the end.
struct OrdinaryUser {
    folder: tempfile::TempDir,
}

impl OrdinaryUser {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::copy(program(), folder.path().join("iotoll")).unwrap();
        for path in [folder.path().to_owned(), folder.path().join("iotoll")] {
            mode(&path, 0o755);
        }
        Self { folder }
    }

    /// The command as a user without privileges runs it.
    fn command(&self) -> Command {
        if !rustix::process::geteuid().is_root() {
            return command(program());
        }
        let mut command = command("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(self.folder.path().join("iotoll"));
        command
    }
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_file_that_may_not_be_read_is_a_doubt_and_no_exit_0() {
    let user = OrdinaryUser::new();
    for (path, fact) in [
        ("proc/cmdline", "the kernel's options"),
        ("proc/cpuinfo", "architecture and maker"),
        ("proc/iomem", "reserved areas"),
        ("proc/mtrr", "MTRRs"),
        ("var/log/dmesg", "what the kernel said"),
        ("sys/class", "which IOMMUs are in use"),
        ("sys/kernel/iommu_groups", "IOMMU groups"),
    ] {
        let folder = unpacked("x86-vtd-lazy");
        let host = folder.path().join("host");
        let before = user.command().args(["inspect", "--from"]).arg(&host).output().unwrap();
        assert_eq!(before.status.code(), Some(0), "{}{}", text(&before.stdout), text(&before.stderr));
        mode(&host.join(path), 0o000);
        let told = user.command().args(["inspect", "--from"]).arg(&host).output().unwrap();
        let listed = user.command().args(["inspect", "--json", "--from"]).arg(&host).output().unwrap();
        let page = folder.path().join("page.html");
        fs::write(&page, "").unwrap();
        mode(folder.path(), 0o777);
        let html =
            user.command().args(["inspect", "--html"]).arg(&page).arg("--from").arg(&host).output().unwrap();
        mode(&host.join(path), 0o755);
        let (told_words, document) = (flat(&told.stdout), json(&listed));
        assert_eq!((told.status.code(), html.status.code()), (Some(1), Some(1)), "{path}: {told_words}");
        let headline = told_words.split("Adapters by DMA path").next().unwrap();
        assert!(headline.contains("may be wrong: "), "{path}: {headline}");
        assert!(headline.contains("could not be read (permission denied)"), "{path}: {headline}");
        let unseen = told_words.split("Not seen").last().unwrap();
        assert!(unseen.contains(fact), "{path}: {unseen}");
        assert_eq!(document["complete"], false, "{path}");
        assert!(!document["doubts"].as_array().unwrap().is_empty(), "{path}");
        let unseen = document["unseen"].as_array().unwrap();
        let one = unseen.iter().find(|one| one["state"] == "unreadable" && one["decisive"] == true).unwrap();
        assert!(one["file"].as_str().unwrap().starts_with(path), "{path}: {one}");
        assert_eq!(one["reason_kind"], "no-permission", "{path}");
        let page = fs::read_to_string(page).unwrap();
        assert!(page.contains("may be wrong: ") && page.contains(fact), "{path}");
    }
}

#[test]
fn a_capture_lists_files_that_its_maker_could_not_read() {
    let user = OrdinaryUser::new();
    let adapter = "sys/devices/pci0000:00/0000:00:01.0";
    let [mask, config] = ["dma_mask_bits", "config"].map(|file| format!("{adapter}/{file}"));
    for path in ["proc/cmdline", "var/log/dmesg", "sys/kernel/iommu_groups", &mask, &config] {
        let folder = unpacked("x86-vtd-lazy");
        let host = folder.path().join("host");
        mode(&host.join(path), 0o000);
        let made =
            user.command().args(["capture", "--with-identifiers", "-o", "-", "--from"]).arg(&host).output();
        mode(&host.join(path), 0o755);
        let archive = made.unwrap().stdout;
        let file = folder.path().join("capture.tar.gz");
        fs::write(&file, &archive).unwrap();
        let read = iotoll(&["inspect", "--json", "--from", file.to_str().unwrap()]);
        assert_eq!(read.status.code(), Some(1), "{path}: {}", text(&read.stderr));
        let document = json(&read);
        let doubts = document["doubts"].to_string();
        let name = path.rsplit('/').next().unwrap();
        assert!(doubts.contains(name) && doubts.contains("permission denied"), "{path}: {doubts}");
        let again = iotoll(&["capture", "--with-identifiers", "-o", "-", "--from", file.to_str().unwrap()]);
        assert_eq!(again.stdout, archive, "{path}: a capture of a capture");
    }
}

#[test]
fn reports_of_one_adapter_and_of_a_range_list_unread_sources() {
    let folder = unpacked("x86-vtd-lazy");
    let host = folder.path().join("host");
    fs::remove_file(host.join("proc/cmdline")).unwrap();
    fs::create_dir(host.join("proc/cmdline")).unwrap();
    let from = host.to_str().unwrap();
    let one = iotoll(&["inspect", "--from", from, "00:01.0"]);
    assert_eq!(one.status.code(), Some(1));
    assert!(flat(&one.stdout).contains("proc/cmdline could not be read (not a regular file)"));
    let range = iotoll(&["inspect", "--from", from, "--range", "0x0-0xfff"]);
    assert_eq!(range.status.code(), Some(1));
    assert!(text(&range.stderr).contains("may be wrong: proc/cmdline"), "{}", text(&range.stderr));
}

#[test]
fn a_kernel_log_that_is_not_read_is_not_an_absent_one() {
    let refused = |replace: &dyn Fn(&Path), reason: &str| {
        let folder = unpacked("x86-vtd-lazy");
        let log = folder.path().join("host/var/log/dmesg");
        fs::remove_file(&log).unwrap();
        replace(&log);
        let output = iotoll(&["inspect", "--from", folder.path().join("host").to_str().unwrap()]);
        let words = flat(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{words}");
        assert!(words.contains(&format!("var/log/dmesg could not be read ({reason})")), "{words}");
        assert!(!words.contains("holds no kernel log"), "{words}");
    };
    refused(
        &|log| fs::File::create(log).unwrap().set_len((64 << 20) + 1).unwrap(),
        "larger than the 67108864 bytes that are read of one file",
    );
    refused(&|log| fifo(log), "not a regular file");
    refused(&|log| symlink("dmesg", log).unwrap(), "too many symbolic links");
}

fn fifo(path: &Path) {
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

/// Waits for a program that should have ended by itself.
fn ended(mut child: Child) -> Output {
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

#[test]
fn a_fifo_in_place_of_a_capture_is_an_error_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    fifo(&path);
    for name in ["inspect", "capture"] {
        let mut one = command(program());
        one.args([name, "--from"]).arg(&path);
        if name == "capture" {
            one.arg("-o").arg(folder.path().join("out.tar.gz"));
        }
        let output = ended(one.spawn().unwrap());
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains("a named pipe; expected"), "{}", text(&output.stderr));
    }
}

/// Runs with these bytes on standard input, through a pipe.
fn piped(args: &[&str], bytes: &[u8]) -> Output {
    let mut child = command(program()).args(args).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let bytes = bytes.to_vec();
    // A program that has seen enough closes its end.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&bytes)));
    let output = ended(child);
    writer.join().unwrap();
    output
}

#[test]
fn an_archive_on_standard_input_reads_as_the_file() {
    for name in ["x86-vtd-lazy", "ppc-ddw"] {
        let path = capture(name);
        let bytes = fs::read(&path).unwrap();
        let of_file = iotoll(&["inspect", "--from", path.to_str().unwrap()]);
        for stdin in ["-", "/dev/stdin", "/proc/self/fd/0"] {
            let of_pipe = piped(&["inspect", "--from", stdin], &bytes);
            assert_eq!(of_pipe.status.code(), of_file.status.code(), "{stdin}: {}", text(&of_pipe.stderr));
            assert_eq!(text(&of_pipe.stdout), text(&of_file.stdout), "{stdin}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("again.tar.gz");
    let bytes = fs::read(capture("ppc-ddw")).unwrap();
    let saved = piped(&["capture", "--from", "-", "-o", out.to_str().unwrap()], &bytes);
    assert_eq!(saved.status.code(), Some(0), "{}", text(&saved.stderr));
    assert_eq!(iotoll(&["inspect", "--from", out.to_str().unwrap()]).status.code(), Some(1));
}

#[test]
fn a_log_or_a_listing_on_standard_input_lists_unseen_sources() {
    let log = "[    0.000000] Linux version 6.1.0 (a@b) #1 SMP x86_64\n\
               [    9.000000] DMAR: [DMA Read] Request device [03:00.0] fault addr ffff0000 [fault reason 06] PTE \
               Read access is not set\n";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("saved");
    fs::write(&file, log).unwrap();
    for output in [
        piped(&["inspect", "--from", "-"], log.as_bytes()),
        iotoll(&["inspect", "--from", file.to_str().unwrap()]),
    ] {
        let words = flat(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "a DMA fault is a finding: {words}");
        assert!(words.starts_with("IOMMU lazy mode, on a condition, on the only adapter"), "{words}");
        for fact in ["which driver owns which adapter", "the kernel's options", "which IOMMUs are in use"] {
            assert!(words.split("Not seen").last().unwrap().contains(fact), "{fact}: {words}");
        }
    }
    let listing = "00:1f.2 SATA controller [0106]: Intel Corporation 82801IR [8086:2922] (rev 02)\n\
                   \tKernel driver in use: ahci\n";
    let output = piped(&["inspect", "--json", "--from", "-"], listing.as_bytes());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document = json(&output);
    assert_eq!(document["adapters"][0]["address"], "0000:00:1f.2");
    assert_eq!(document["adapters"][0]["dma_path"], "unknown");
    assert_eq!(document["source"]["path"], "-");

    let other = piped(&["inspect", "--from", "-"], b"hello\n");
    assert_eq!(other.status.code(), Some(2));
    assert!(
        text(&other.stderr).contains("or the text of a kernel log or of lspci"),
        "{}",
        text(&other.stderr)
    );
}

/// A tar archive whose members have names of 4000 bytes, each of 2000 folders that no other has.
fn deep_names() -> Vec<u8> {
    let mut builder =
        tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best()));
    for number in 0..800 {
        let mut header = tar::Header::new_gnu();
        header.set_size(0);
        let name = format!("sys/{number}{}", "/a".repeat(2000));
        builder.append_data(&mut header, name, std::io::empty()).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

#[test]
fn deep_names_take_memory_by_their_length() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep.tar.gz");
    fs::write(&path, deep_names()).unwrap();
    assert!(fs::metadata(&path).unwrap().len() < 200 << 10);
    // Kept by every folder on the way they would take 3 GiB.
    let mut limited = command("sh");
    limited
        .args(["-c", "ulimit -v 600000; exec \"$0\" \"$@\""])
        .arg(program())
        .args(["inspect", "--from"])
        .arg(&path);
    let output = ended(limited.spawn().unwrap());
    let words = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(words.contains("neither a kernel version, nor kernel options, nor a PCI function"), "{words}");
}

#[test]
fn progress_is_shown_for_long_reads() {
    let mut child =
        command(program()).args(["inspect", "--from", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(1500) {
        stdin.write_all(b"[    1.000000] usb 1-1: new device\n").unwrap();
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(stdin);
    let words = text(&ended(child).stderr);
    assert!(words.contains("iotoll: reading standard input: 0 MiB read"), "{words}");
    assert_eq!(words.lines().count(), 1, "{words}");
}

/// A host of these files, under limits that an honest one is far from.
fn limited(files: &[(&str, String)], args: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let script = "ulimit -v 1500000; ulimit -t 20; exec \"$@\"";
    let mut shell = command("bash");
    shell.args(["-c", script, "bash"]).arg(program()).args(args).arg("--from").arg(folder.path());
    let output = shell.output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{:?}: {}", output.status, text(&output.stderr));
    output
}

#[test]
fn long_command_lines_and_log_lines_are_read_in_their_stride() {
    let version = ("proc/version", "Linux version 6.1.0\n".to_owned());
    for line in [
        format!("ro x={}", "a=".repeat(30_000)),
        format!("ro {}", "a ".repeat(30_000)),
        format!("ro x={}", "password=b,".repeat(5_000)),
    ] {
        limited(&[version.clone(), ("proc/cmdline", line)], &["inspect", "--json"]);
    }
    for line in [
        format!("Kernel command line: x={}", "a=".repeat(500_000)),
        format!("Unknown kernel command line parameters \"{}\"", "a ".repeat(4_000_000)),
        format!("Unknown kernel command line parameters \"ks={}\"", " a".repeat(400_000)),
        format!("Unknown kernel command line parameters \"{}\"", "://a ".repeat(1_000_000)),
    ] {
        limited(&[version.clone(), ("var/log/dmesg", format!("[    0.0] {line}\n"))], &["inspect", "--json"]);
    }
    let secrets: String =
        (0..20_000).map(|n| format!("[    0.0] Kernel command line: password=secret{n}\n")).collect();
    limited(&[version, ("var/log/dmesg", secrets)], &["inspect", "--json"]);
}

#[test]
fn a_link_to_nothing_is_not_an_absent_file() {
    let folder = unpacked("x86-vtd-lazy");
    let host = folder.path().join("host");
    let log = host.join("var/log/dmesg");
    fs::remove_file(&log).unwrap();
    symlink("/no/such", &log).unwrap();
    let output = iotoll(&["inspect", "--json", "--from", host.to_str().unwrap()]);
    let document = json(&output);
    assert_eq!((output.status.code(), &document["complete"]), (Some(1), &false.into()));
    assert!(
        document["doubts"].to_string().contains("a symbolic link to what is not there"),
        "{}",
        document["doubts"]
    );
}
