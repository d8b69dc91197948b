//! What goes wrong when a preset runs: each is an error that says what to do or what the guest said last, and leaves
//! neither a process nor a file behind.
//!
//! QEMU is a script (`fake/qemu-system-x86_64`) that does what a test wants of it; everything else is real.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use toll::TollSheet;

/// Where the fake QEMU is.
const FAKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fake");
const RELEASE: &str = "6.1.0-fake";

/// A machine room: a kernel, a busybox and a plugin that are nothing but there.
struct Room(tempfile::TempDir);

impl Room {
    fn new() -> Self {
        let room = Self(tempfile::tempdir().unwrap());
        for folder in ["tmp", "sheets", "cache"] {
            fs::create_dir(room.path(folder)).unwrap();
        }
        room.write("vmlinuz", &[&[0; 0x1fe][..], b"\x55\xaa\0\0HdrS"].concat());
        room.write(&format!("{RELEASE}/modules.builtin"), b"kernel/drivers/nvme/host/nvme.ko\n");
        room.write("cache/packages/x86/busybox-static_1/bin/busybox", b"a busybox");
        room.write("record", &record());
        room.compile_plugin();
        room
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// A library that says of itself to be a plugin for QEMU 7.2.
    fn compile_plugin(&self) {
        self.write("plugin.c", b"int qemu_plugin_version = 1;\n");
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-o"]).args([self.path("plugin.so"), self.path("plugin.c")]);
        assert!(cc.status().unwrap().success());
    }

    /// `lab run` with a guest that does as told.
    fn run(&self, guest: &str) -> Command {
        // Who runs the tests may have signals ignored, as a shell's background jobs have.
        let mut command = Command::new("/usr/bin/env");
        command.arg("--default-signal=INT,TERM,HUP").arg(assert_cmd::cargo::cargo_bin("iotoll"));
        self.set_up(&mut command, guest);
        command
    }

    fn set_up(&self, command: &mut Command, guest: &str) {
        let path = format!("{FAKE}:{}", std::env::var("PATH").unwrap());
        command.env("PATH", path).env("FAKE_GUEST", guest).env("FAKE_FOLDER", self.0.path());
        command.env("TMPDIR", self.path("tmp")).env("IOTOLL_CACHE", self.path("cache")).env("NO_COLOR", "1");
        command
            .args(["lab", "run", "x86-no-iommu", "--boots", "1", "--workload", "loop", "-o"])
            .arg(self.path("sheets"));
        command.arg("--plugin").arg(self.path("plugin.so"));
    }

    /// The same, with a kernel.
    fn boot(&self, guest: &str) -> Command {
        let mut command = self.run(guest);
        command.arg("--kernel").arg(self.path("vmlinuz")).arg("--modules").arg(self.path(RELEASE));
        command
    }

    /// What a command says that must fail, and leave nothing behind.
    fn refused(&self, command: &mut Command) -> String {
        self.failed(&command.output().unwrap())
    }

    fn failed(&self, output: &Output) -> String {
        let said = String::from_utf8(output.stderr.clone()).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(output.stdout.is_empty(), "no data beside an error");
        assert!(said.contains("iotoll: "), "{said}");
        self.check_tidy();
        assert_eq!(names(&self.path("sheets")), Vec::<String>::new(), "no sheet, whole or half");
        said
    }

    /// QEMU is gone, and the run's files are.
    fn check_tidy(&self) {
        if let Ok(pid) = fs::read_to_string(self.path("pid")) {
            assert!(!Path::new("/proc").join(pid.trim()).exists(), "QEMU is left behind as {pid}");
        }
        assert_eq!(names(&self.path("tmp")), Vec::<String>::new(), "files are left behind");
    }

    /// Starts a guest that never ends, and gives the command when QEMU runs.
    fn hanging(&self, guest: &str) -> std::process::Child {
        let mut command = self.boot(guest);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap();
        while !self.path("pid").exists() {
            assert!(child.try_wait().unwrap().is_none(), "it ended before QEMU ran");
            std::thread::sleep(Duration::from_millis(10));
        }
        child
    }
}

fn names(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// A record of one window of two instructions in user mode (the layout: `crates/lab-plugin/src/record.rs`).
fn record() -> Vec<u8> {
    let block = [2 << 28, 0x7002_0000, 0, 2, 0, 4];
    let phase_and_units = [5 << 28, 1, 0, 6 << 28, 1, 0];
    let window = [4 << 28, 0, 4 << 28 | 1];
    let end = [15 << 28, 1_u32];
    let words = block.iter().chain(&phase_and_units).chain(&window).chain(&end);
    b"IOTOLLR2".iter().copied().chain(words.flat_map(|word| word.to_le_bytes())).collect()
}

/// What a guest does that comes to a good end, after it ended its workloads.
fn good_end(ended: &str) -> String {
    format!(
        r#"cp "$FAKE_FOLDER/record" "$record"
        printf 'iotoll begin 0\niotoll end 0\n' >"$log"
        echo 'ffffffff81000000 T _text' >"$symbols"
        printf '{ended}lab: done\n' >"$console""#
    )
}

fn check_words(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "expected `{word}`: {said}");
    }
}

#[test]
fn a_good_end_is_a_sheet_and_nothing_else() {
    let room = Room::new();
    let output = room.boot(&good_end("lab: ended loop 0\\n")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    room.check_tidy();
    assert_eq!(names(&room.path("sheets")), ["x86-no-iommu.json"]);
    let sheet = fs::read_to_string(room.path("sheets/x86-no-iommu.json")).unwrap();
    let sheet = TollSheet::read(&sheet, "sheet").unwrap();
    assert_eq!(sheet.toll("loop").unwrap().instructions.median, 2);
}

#[test]
fn a_file_that_is_no_kernel_is_refused_before_it_is_booted() {
    let room = Room::new();
    room.write("vmlinuz", b"a kernel, it says");
    let said = room.refused(&mut room.boot("echo booted >\"$FAKE_FOLDER/booted\""));
    check_words(&said, &["vmlinuz is not a kernel for x86; expected a bzImage"]);
    assert!(!room.path("booted").exists());
}

#[test]
fn without_qemu_its_package_is_named() {
    let room = Room::new();
    let said = room.refused(room.boot("").env("PATH", room.path("tmp")));
    check_words(&said, &["not installed: qemu-system-x86_64", "apt install qemu-system-x86"]);
}

#[test]
fn without_a_kernel_or_a_busybox_the_command_that_fetches_is_named() {
    let room = Room::new();
    let said = room.refused(&mut room.run(""));
    check_words(&said, &["no kernel", "iotoll lab fetch", "--kernel"]);
    fs::remove_dir_all(room.path("cache/packages")).unwrap();
    let said = room.refused(&mut room.boot(""));
    check_words(&said, &["no busybox for x86", "iotoll lab fetch"]);
}

#[test]
fn a_kernel_without_a_driver_is_not_booted() {
    let room = Room::new();
    room.write(&format!("{RELEASE}/modules.builtin"), b"kernel/drivers/net/dummy.ko\n");
    let said = room.refused(&mut room.boot("echo booted >\"$FAKE_FOLDER/booted\""));
    check_words(&said, &["module nvme is not in kernel 6.1.0-fake"]);
    assert!(!room.path("booted").exists());
}

#[test]
fn a_driver_that_fails_in_the_guest_is_named() {
    let room = Room::new();
    let guest = "echo 'lab: failed: nvme does not take 0000:00:04.0' >$console; echo 'of no use' >&2";
    let said = room.refused(&mut room.boot(guest));
    check_words(
        &said,
        &["in the guest: nvme does not take 0000:00:04.0", "QEMU's output ends with: of no use"],
    );
}

#[test]
fn a_panic_is_shown_from_its_first_line() {
    let room = Room::new();
    let guest = r#"{
        seq 1 50
        echo '[    1.2] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)'
        seq 51 100 | sed 's/^/[    1.3] trace /'
    } >$console"#;
    let said = room.refused(&mut room.boot(guest));
    check_words(
        &said,
        &["the guest ended before its last workload", "Kernel panic - not syncing: VFS", "trace 61"],
    );
    assert!(!said.contains("trace 62") && !said.contains("    50"), "{said}");
}

#[test]
fn a_guest_that_hangs_is_ended_and_its_last_lines_are_shown() {
    let room = Room::new();
    let guest = "echo 'waiting for a disk' >$console; exec sleep 60";
    let said = room.refused(room.boot(guest).args(["--timeout", "1"]));
    check_words(&said, &["printed nothing for 1 s", "waiting for a disk"]);
}

#[test]
fn qemu_that_is_killed_or_refuses_is_quoted() {
    let room = Room::new();
    check_words(&room.refused(&mut room.boot("kill -KILL $$")), &["qemu-system-x86_64 ended with signal: 9"]);
    let said = room.refused(&mut room.boot("echo 'unsupported machine type' >&2; exit 1"));
    check_words(&said, &["ended with exit status: 1", "unsupported machine type"]);
}

#[test]
fn a_record_that_was_cut_short_is_no_measurement() {
    let room = Room::new();
    let cut = "head -c 40 \"$FAKE_FOLDER/record\" >\"$record\"; echo 'No space left on device' >&2";
    let guest = format!("{}\n{cut}", good_end("lab: ended loop 0\\n"));
    let said = room.refused(&mut room.boot(&guest));
    check_words(&said, &["the record is truncated after 8 words", "No space left on device"]);
}

#[test]
fn without_room_for_the_run_s_files_the_file_is_named() {
    let room = Room::new();
    let mut shell = Command::new("sh");
    // Without the trap a process is killed where the limit would be an error, as a full disk is.
    shell.args(["-c", "trap '' XFSZ; ulimit -f 4096; exec \"$0\" \"$@\""]);
    shell.arg(assert_cmd::cargo::cargo_bin("iotoll"));
    room.set_up(&mut shell, "");
    shell.arg("--kernel").arg(room.path("vmlinuz")).arg("--modules").arg(room.path(RELEASE));
    let said = room.refused(&mut shell);
    check_words(&said, &["symbols", "File too large"]);
}

#[test]
fn a_sheet_that_can_not_be_written_leaves_no_half_of_it() {
    let room = Room::new();
    // No file can take a folder's place.
    fs::create_dir(room.path("sheets/x86-no-iommu.json")).unwrap();
    let output = room.boot(&good_end("lab: ended loop 0\\n")).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    check_words(&said, &["can't write", "x86-no-iommu.json"]);
    room.check_tidy();
    assert_eq!(names(&room.path("sheets")), ["x86-no-iommu.json"]);
    assert!(names(&room.path("sheets/x86-no-iommu.json")).is_empty());
}

#[test]
fn a_workload_that_does_not_run_is_reported_with_its_own_message() {
    let room = Room::new();
    let failing = "agent: open /dev/nvme0n1: errno 6\\nlab: ended nvme-read-4k 1\\n";
    let mut command = room.boot(&good_end(&format!("lab: ended loop 0\\n{failing}")));
    let output = command.args(["--workload", "nvme-read-4k"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    check_words(&said, &["no nvme-read-4k: exit status 1: agent: open /dev/nvme0n1: errno 6"]);
    // And if no workload ran, there is nothing to write.
    fs::remove_file(room.path("sheets/x86-no-iommu.json")).unwrap();
    let said = room.refused(&mut room.boot(&good_end("absent loop 38\\nlab: ended loop 3\\n")));
    check_words(&said, &["none of its workloads ran: loop (exit status 3: absent loop 38)"]);
}

fn signal(name: &str, whom: &str) {
    let script = format!("kill -{name} {whom}");
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
}

#[test]
fn an_interrupted_run_takes_qemu_along() {
    for name in ["INT", "TERM"] {
        let room = Room::new();
        let child = room.hanging("exec sleep 60");
        signal(name, &child.id().to_string());
        let said = room.failed(&child.wait_with_output().unwrap());
        check_words(&said, &["preset x86-no-iommu: interrupted"]);
    }
}

#[test]
fn an_interrupt_is_heard_when_the_run_s_files_are_gone() {
    let room = Room::new();
    let child = room.hanging("exec sleep 60");
    for name in names(&room.path("tmp")) {
        fs::remove_dir_all(room.path("tmp").join(name)).unwrap();
    }
    signal("INT", &child.id().to_string());
    let said = room.failed(&child.wait_with_output().unwrap());
    check_words(&said, &["preset x86-no-iommu: interrupted"]);
}

#[test]
fn a_terminal_s_interrupt_is_reported_as_one() {
    let room = Room::new();
    // A terminal signals the whole process group. QEMU, which would end with success, is in another.
    let child = room.hanging("trap 'exit 0' INT; for i in $(seq 600); do sleep 0.1; done");
    signal("INT", &format!("-{}", child.id()));
    let said = room.failed(&child.wait_with_output().unwrap());
    check_words(&said, &["preset x86-no-iommu: interrupted"]);
}
