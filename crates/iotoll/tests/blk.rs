//! `iotoll blk` on files, and what it refuses.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../../../tests/skip.rs"]
mod skip;

use assert_cmd::Command;
use skip::skip;
use std::fs;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

fn iotoll(arguments: &[&str]) -> (String, String, i32) {
    let output = Command::cargo_bin("iotoll").unwrap().args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(output.stdout), text(output.stderr), output.status.code().unwrap())
}

fn word(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_file_is_read_and_written_like_a_disk() {
    let folder = tempfile::tempdir().unwrap();
    let [disk, two, out] = ["disk", "two", "out"].map(|name| folder.path().join(name));
    // 100 blocks of 4 KiB, and a bit that is none.
    fs::write(&disk, vec![7; 100 * 4096 + 5]).unwrap();
    fs::write(&two, vec![9; 2 * 4096]).unwrap();
    let (_, told, status) =
        iotoll(&["blk", "write", word(&disk), "--overwrite", word(&disk), "--first", "50", "-i", word(&two)]);
    assert_eq!(
        (told.as_str(), status),
        ("2 blocks written, flushed, and read again as they were written\n", 0)
    );
    let (_, told, status) = iotoll(&["blk", "read", word(&disk), "--first", "49", "-o", word(&out)]);
    assert_eq!((told, status), (format!("51 blocks read\n{} written\n", out.display()), 0));
    let bytes = fs::read(&out).unwrap();
    assert_eq!(bytes.len(), 51 * 4096);
    assert!(bytes[4096..3 * 4096].iter().all(|byte| *byte == 9) && bytes[0] == 7 && bytes[3 * 4096] == 7);
    let (data, _, _) = iotoll(&["blk", "read", word(&disk), "--first", "50", "--blocks", "1"]);
    assert_eq!(data.len(), 4096);
}

#[test]
fn impossible_writes_are_errors_and_write_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let [disk, odd, two] = ["disk", "odd", "two"].map(|name| folder.path().join(name));
    fs::write(&disk, vec![7; 4 * 4096]).unwrap();
    fs::write(&odd, [1; 100]).unwrap();
    fs::write(&two, [1; 2 * 4096]).unwrap();
    let check = |arguments: &[&str], words: &str| {
        let (data, told, status) = iotoll(arguments);
        assert!(told.contains(words), "{told}");
        assert_eq!((data.as_str(), status), ("", 2), "{told}");
        assert!(fs::read(&disk).unwrap().iter().all(|byte| *byte == 7));
    };
    check(
        &["blk", "write", word(&disk), "--first", "0", "-i", word(&odd)],
        "odd has 100 bytes; expected a multiple of 4096",
    );
    check(
        &["blk", "write", word(&disk), "--first", "3", "-i", word(&two)],
        "2 blocks from block 3 exceed the disk, which has 4 blocks",
    );
    check(
        &["blk", "write", word(&disk), "--first", "18446744073709551615", "-i", word(&two)],
        "the disk, which has 4 blocks",
    );
    check(
        &["blk", "read", word(&disk), "--first", "4"],
        "--first 4 is beyond the end; the disk has 4 blocks",
    );
    check(
        &["blk", "read", word(&disk), "--first", "3", "--blocks", "2"],
        "2 blocks from block 3 exceed the disk, which has 4 blocks",
    );
    check(&["blk", "read", "/no/such/disk"], "/no/such/disk");
    check(&["blk", "read", "nosuch"], "nosuch: no such file, and not a PCI address");
    check(&["blk", "read", word(&odd)], "is shorter than one block of 4096 bytes");
    check(&["blk", "read", word(&disk), "--unbind"], "is a file; expected no --unbind");
    check(&["blk", "read", word(&disk), "-o", word(&disk)], "the output is also the input");
    check(&["blk", "read", word(&disk), "-o", word(folder.path())], "it is a folder");
    check(&["blk", "list", "--root", "/no/such/tree"], "no folder /no/such/tree");
    check(&["blk", "read", word(&disk), "-o", "/no/such/folder/file"], "can't write /no/such/folder/file");
    let none = "0000:77:00.0 is not an NVMe controller of this host; `iotoll blk list` lists them";
    check(&["blk", "read", "0000:77:00.0", "--unbind"], none);
    check(&["blk", "log", "0000:77:00.0"], none);
    check(&["bench", "blk", "0000:77:00.0", "--unbind"], none);
    // Not a way out of the folder of adapters.
    check(&["blk", "log", "../../../etc"], "is not an NVMe controller");
}

#[test]
fn controllers_of_a_tree_are_listed_with_reasons_against_driving_them() {
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("sys/bus/pci/devices/0000:03:00.0");
    fs::create_dir_all(device.join("nvme/nvme0/nvme0n1")).unwrap();
    fs::write(device.join("class"), "0x010802\n").unwrap();
    fs::write(device.join("nvme/nvme0/model"), "A \u{1b}[31mred\u{1b}[0m disk\n").unwrap();
    let (data, _, status) = iotoll(&["blk", "list", "--root", word(folder.path())]);
    assert_eq!(status, 0);
    assert!(data.contains("0000:03:00.0 A ") && !data.contains('\u{1b}'), "{data}");
    assert!(data.contains("not driven: 0000:03:00.0 is in no IOMMU group"), "{data}");
    let (data, _, _) = iotoll(&["blk", "list", "--root", word(folder.path()), "--json"]);
    let document: serde_json::Value = serde_json::from_str(&data).unwrap();
    assert_eq!(document["schema"], "iotoll.blk-list/1");
    assert_eq!(document["adapters"][0]["disks"][0]["name"], "nvme0n1");
    assert_eq!(document["adapters"][0]["refusals"].as_array().unwrap().len(), 1);
}

#[test]
fn pipes_in_place_of_files_of_a_tree_are_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("sys/bus/pci/devices/0000:03:00.0")).unwrap();
    fs::create_dir_all(folder.path().join("proc")).unwrap();
    let class = folder.path().join("sys/bus/pci/devices/0000:03:00.0/class");
    assert!(std::process::Command::new("mkfifo").arg(&class).status().unwrap().success());
    let (_, said, status) = iotoll(&["blk", "list", "--root", word(folder.path())]);
    assert!(status == 2 && said.contains("no regular file"), "{said}");
    fs::remove_file(&class).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &class).unwrap();
    let (_, said, status) = iotoll(&["blk", "list", "--root", word(folder.path())]);
    assert!(status == 2 && said.contains("no regular file"), "{said}");
}

const BLOCK: usize = 4096;

/// A disk's image of 2 MiB without a signature, and one block to write.
struct Disk {
    folder: tempfile::TempDir,
    path: String,
    block: String,
}

impl Disk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let [path, block] = ["disk", "block"].map(|name| word(&folder.path().join(name)).to_owned());
        fs::write(&path, vec![7; 512 * BLOCK]).unwrap();
        fs::write(&block, [9; BLOCK]).unwrap();
        Self { folder, path, block }
    }

    /// Puts bytes there before it is written.
    fn put(&self, at: u64, bytes: &[u8]) {
        fs::File::options().write(true).open(&self.path).unwrap().write_all_at(bytes, at).unwrap();
    }

    /// With the consent that a disk without a signature wants, and these words.
    fn write(&self, words: &[&str]) -> (String, i32) {
        self.write_without_consent(&[&["--overwrite", self.path.as_str()], words].concat())
    }

    fn write_without_consent(&self, words: &[&str]) -> (String, i32) {
        let arguments = ["blk", "write", &self.path, "--first", "9", "-i", &self.block];
        let (data, told, status) = iotoll(&[&arguments, words].concat());
        assert_eq!(data, "");
        (told, status)
    }

    /// Refused with these words, with the disk as it was.
    fn expect_refusal(&self, (told, status): (String, i32), words: &[&str]) {
        for word in words {
            assert!(told.contains(word), "{word:?} is not in {told}");
        }
        assert_eq!(status, 2, "{told}");
        assert!(!self.is_written(), "{told}");
    }

    fn is_written(&self) -> bool {
        fs::read(&self.path).unwrap()[9 * BLOCK..10 * BLOCK].iter().all(|byte| *byte == 9)
    }
}

#[test]
fn only_named_disks_are_written() {
    let disk = Disk::new();
    let refused = disk.write_without_consent(&[]);
    let typed = format!("add: --overwrite {}", disk.path);
    let there = "no known signature, but it is not empty: byte 0 is not zero";
    disk.expect_refusal(refused, &["--overwrite does not name it", "2.00 MiB", there, &typed]);
    // Another file of this host, and one that is none.
    for name in [disk.block.as_str(), "S4EVNX0R123456", ""] {
        let refused = disk.write_without_consent(&["--overwrite", name]);
        disk.expect_refusal(refused, &[&format!("--overwrite {name:?} is not its name"), &typed]);
    }
    // By another name of the same file.
    let link = disk.folder.path().join("link");
    std::os::unix::fs::symlink(&disk.path, &link).unwrap();
    let (told, status) = disk.write_without_consent(&["--overwrite", word(&link)]);
    assert!(status == 0 && disk.is_written(), "{told}");
}

#[test]
fn signatures_on_a_disk_must_be_named() {
    let check = |at: u64, bytes: &[u8], name: &str, words: &str| {
        let disk = Disk::new();
        disk.put(at, bytes);
        let typed = format!("--overwrite {} --wipe {name}", disk.path);
        let missing = format!("--wipe does not name what is on it ({name})");
        disk.expect_refusal(disk.write(&[]), &[&missing, words, &typed]);
        disk.expect_refusal(disk.write(&["--wipe", "xfs"]), &[&missing, "names what is not on it (xfs)"]);
        let (told, status) = disk.write(&["--wipe", name]);
        assert!(status == 0 && disk.is_written(), "{told}");
    };
    let luks = [&b"LUKS\xba\xbe"[..], &[0; 18], b"secrets\x1b]0;x\x07", &[0; 200]].concat();
    // A label is shown, and nothing of it is carried out.
    check(0, &luks, "crypto_LUKS", r#"encrypted volume at byte 0, label "secrets\u{1b}]0;x\u{7}""#);
    let md = [&[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0][..], &[0; 300]].concat();
    check((2 << 20) - 8192, &md, "linux_raid_member", "RAID or pool member at byte 2088960");
    check(131_072, &0x00ba_b10c_u64.to_le_bytes(), "zfs_member", "zfs_member: RAID or pool member");
    check(512, b"LABELONE\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0LVM2 001", "LVM2_member", "LVM2_member: volume");
    check(4096 - 10, b"SWAPSPACE2", "swap", "swap: swap area");
    check((2 << 20) - 512, b"EFI PART", "gpt", "gpt: partition table");
    check(0, b"QFI\xfb", "qcow2", "qcow2: disk image");
}

/// All that is found has to be named, and nothing that is not.
#[test]
fn a_disk_other_than_the_named_one_is_not_overwritten() {
    let disk = Disk::new();
    disk.put(0, b"LUKS\xba\xbe");
    disk.put((2 << 20) - 512, b"EFI PART");
    disk.expect_refusal(disk.write(&["--wipe", "gpt"]), &["(crypto_LUKS)", "--wipe crypto_LUKS,gpt"]);
    let refused = disk.write(&["--wipe", "gpt,crypto_LUKS,ext4"]);
    disk.expect_refusal(refused, &["--wipe names what is not on it (ext4)"]);
    assert_eq!(disk.write(&["--wipe", "gpt,crypto_LUKS"]).1, 0);
}

#[test]
fn files_that_are_locked_or_open_for_writing_are_not_written() {
    let disk = Disk::new();
    let file = fs::File::options().read(true).write(true).open(&disk.path).unwrap();
    // This test has it open for writing.
    disk.expect_refusal(disk.write(&[]), &["process ", "has ", " open"]);
    drop(file);
    // Whoever only reads it may lock it, as with util-linux's flock(1).
    let file = fs::File::open(&disk.path).unwrap();
    assert_eq!(disk.write(&[]).1, 0);
    disk.put(9 * BLOCK as u64, &[7; BLOCK]);
    file.lock_shared().unwrap();
    disk.expect_refusal(disk.write(&[]), &["another program has locked it"]);
    drop(file);
    assert_eq!(disk.write(&[]).1, 0);
}

/// An image that QEMU writes, and one that it only reads: the second is kept by QEMU's locks alone.
#[test]
fn the_image_of_a_running_machine_is_not_written() {
    let check = |options: &str| {
        let disk = Disk::new();
        let drive = format!("format=raw,if=virtio,file={}{options}", disk.path);
        let machine = "-machine q35 -accel tcg -m 64 -display none -monitor none -serial none -nodefaults -S";
        let mut qemu = std::process::Command::new("qemu-system-x86_64");
        let qemu = qemu.args(machine.split(' ')).args(["-qmp", "stdio", "-drive", &drive]);
        let piped = std::process::Stdio::piped;
        let Ok(mut qemu) = qemu.stdin(piped()).stdout(piped()).spawn() else {
            return skip("no QEMU, whose locks are not looked at");
        };
        // It greets when its disks are open.
        let mut greeting = [0; 8];
        qemu.stdout.as_mut().unwrap().read_exact(&mut greeting).unwrap();
        let refused = disk.write(&[]);
        qemu.kill().unwrap();
        qemu.wait().unwrap();
        disk.expect_refusal(refused, &["in use: "]);
        assert_eq!(disk.write(&[]).1, 0);
    };
    check("");
    check(",readonly=on");
}

#[test]
fn failed_writes_are_reported() {
    let disk = Disk::new();
    let arguments = |target: &str, input: &str| {
        let words = ["blk", "write", target, "--overwrite", target, "--first", "0", "-i", input];
        words.map(str::to_owned)
    };
    let check = |target: &str, input: &str, words: &str| {
        let arguments = arguments(target, input);
        let (_, told, status) = iotoll(&arguments.each_ref().map(String::as_str));
        assert!(told.contains(words) && status == 2, "{told}");
    };
    check("/dev/null", &disk.block, "neither a file nor a block device");
    check(word(disk.folder.path()), &disk.block, "neither a file nor a block device");
    check(&disk.path, &disk.path, "the input is the target or a part of it");
    // By another name.
    let link = disk.folder.path().join("hard");
    fs::hard_link(&disk.path, &link).unwrap();
    check(&disk.path, word(&link), "the input is the target or a part of it");
    check(&disk.path, word(disk.folder.path()), "it is a folder");
    assert!(!disk.is_written());
}

fn piped(disk: &Disk, words: &[&str], bytes: Vec<u8>) -> (String, i32) {
    let arguments = ["blk", "write", &disk.path, "--overwrite", &disk.path, "--first", "9", "-i", "-"];
    let mut command = Command::cargo_bin("iotoll").unwrap();
    let output = command.args(arguments).args(words).write_stdin(bytes).output().unwrap();
    (String::from_utf8_lossy(&output.stderr).into_owned(), output.status.code().unwrap())
}

#[test]
fn a_pipe_is_written_until_it_ends() {
    let disk = Disk::new();
    let (told, status) = piped(&disk, &[], vec![9; 3 * BLOCK]);
    assert_eq!(
        (told.as_str(), status),
        ("3 blocks written, flushed, and read again as they were written\n", 0)
    );
    let bytes = fs::read(&disk.path).unwrap();
    assert!(bytes[9 * BLOCK..12 * BLOCK].iter().all(|byte| *byte == 9));
    assert!(bytes[..9 * BLOCK].iter().chain(&bytes[12 * BLOCK..]).all(|byte| *byte == 7));
    let check = |words: &[&str], bytes: usize, expected: &str| {
        let disk = Disk::new();
        disk.expect_refusal(piped(&disk, words, vec![9; bytes]), &[expected]);
    };
    check(&[], 0, "standard input has 0 bytes; expected 1 block of 4096 or more");
    check(
        &[],
        BLOCK + 5,
        "standard input ends after 4101 bytes, in blocks of 4096; expected a multiple of that",
    );
    check(
        &["--blocks", "2"],
        BLOCK,
        "standard input ends after 4096 bytes, in blocks of 4096; expected 2 of them",
    );
    check(&["--blocks", "600"], BLOCK, "600 blocks from block 9 exceed the disk, which has 512 blocks");
    check(&[], 504 * BLOCK, "standard input has more than 503 blocks; expected at most that many");
    // Of more than is wanted, the rest is left alone.
    let disk = Disk::new();
    assert_eq!(piped(&disk, &["--blocks", "1"], vec![9; 2 * BLOCK]).1, 0);
    assert_eq!(fs::read(&disk.path).unwrap()[10 * BLOCK], 7);
}

/// An input larger than the memory that this may have: only a few MiB of it are held at a time.
#[test]
fn a_large_input_takes_little_memory() {
    const MIB: u64 = 1 << 20;
    let folder = tempfile::tempdir().unwrap();
    let [disk, input] = ["disk", "input"].map(|name| folder.path().join(name));
    for path in [&disk, &input] {
        fs::File::create(path).unwrap().set_len(448 * MIB).unwrap();
    }
    let script = r#"ulimit -v 300000; exec "$0" blk write "$1" --overwrite "$1" --first 0 -i "$2""#;
    let program = env!("CARGO_BIN_EXE_iotoll");
    let output =
        std::process::Command::new("sh").args(["-c", script, program]).args([&disk, &input]).output();
    let output = output.unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && told.contains("114688 blocks written"), "{told}");
}

/// The helper process rebinds an adapter only if it was unbound, and only when its parent has closed it or has exited.
#[test]
fn only_an_unbound_adapter_is_rebound() {
    let rebind = |said: &'static str, parent: u32| {
        let words = ["blk", "rebind", "0000:77:00.0", "nvme", "-", &parent.to_string()].map(str::to_owned);
        let output = Command::cargo_bin("iotoll").unwrap().args(words).write_stdin(said).output().unwrap();
        (String::from_utf8_lossy(&output.stderr).into_owned(), output.status.code())
    };
    let here = std::process::id();
    for said in ["", "closed\n"] {
        assert_eq!(rebind(said, here), (String::new(), Some(0)));
    }
    // No adapter has this address, so rebinding fails. The parent 1 << 22 does not exist, so it counts as exited.
    for (said, parent) in [("unbound\nclosed\n", here), ("unbound\n", 1 << 22)] {
        let (told, status) = rebind(said, parent);
        assert!(told.contains("0000:77:00.0 was not rebound to its driver") && status == Some(2), "{told}");
    }
}

/// What these commands refuse before they open anything.
#[test]
fn maintenance_of_no_disk_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [empty, image] = ["empty", "image"].map(|name| folder.path().join(name));
    fs::write(&empty, []).unwrap();
    fs::write(&image, [7; 4096]).unwrap();
    let check = |arguments: &[&str], words: &str| {
        let (data, told, status) = iotoll(&[&["blk"], arguments].concat());
        assert!(told.contains(words), "{words:?} is not in {told}");
        assert_eq!((data.as_str(), status), ("", 2), "{told}");
    };
    let none = "0000:77:00.0";
    for command in ["health", "test", "firmware", "log"] {
        check(&[command, none, "--unbind"], none);
    }
    let update = ["firmware", none, "--unbind", "--image", word(&image)];
    check(&update, "--activate <WHEN>");
    check(&[&update[..], &["--activate", "later"]].concat(), "[possible values: now, at-reset]");
    check(&[&update[..], &["--activate", "now", "--slot", "8"]].concat(), "8 is not in 1..=7");
    check(&[&update[..], &["--activate", "now"]].concat(), none);
    check(&["firmware", none, "--replace", "S4EVNX0R123456"], "--image <FILE>");
    check(
        &["firmware", none, "--image", word(&empty), "--activate", "now"],
        "empty; expected a firmware image",
    );
    check(&["test", none, "--abort", "--extended"], "cannot be used with");
}

/// `iotoll blk serve` with an emulated disk.
struct Serving(std::process::Child);

impl Serving {
    fn start(arguments: &[&str], socket: &Path) -> Self {
        Self::of("emulated:64", arguments, socket)
    }

    fn of(disk: &str, arguments: &[&str], socket: &Path) -> Self {
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("iotoll"));
        command.args(["blk", "serve", disk]).args(arguments);
        let serving = Self(command.stderr(std::process::Stdio::piped()).spawn().unwrap());
        let begun = std::time::Instant::now();
        while nvme::broker::ServedDisk::connect(socket).is_err() {
            assert!(begun.elapsed().as_secs() < 60);
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        serving
    }

    /// Ends it by a signal. Returns its status and what it told.
    fn end(mut self, signal: rustix::process::Signal) -> (Option<i32>, String) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.0), signal).unwrap();
        let mut told = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        (self.0.wait().unwrap().code(), told)
    }
}

/// A test that fails leaves none behind.
impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_disk_is_served_until_a_signal() {
    use nvme::broker::{BrokerError, ServedDisk};
    use nvme::chunk::Chunk;
    use rustix::process::Signal;

    let folder = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
    let shares = [format!("--share={}=0+10", one.display()), format!("--share={}=10+54", other.display())];
    let shares = [shares[0].as_str(), shares[1].as_str()];
    let serving = Serving::start(&shares, &other);
    let mut chunk = Chunk::from(ServedDisk::connect(&one).unwrap().queue(1, &[]).unwrap());
    chunk.write(9, &[7; 4096]).unwrap();
    let (_, told, status) =
        iotoll(&["blk", "read", word(&one), "--first", "8", "-o", word(&folder.path().join("out"))]);
    assert_eq!(status, 0, "{told}");
    let out = fs::read(folder.path().join("out")).unwrap();
    assert!(out[..4096].iter().all(|byte| *byte == 0) && out[4096..].iter().all(|byte| *byte == 7));
    let (_, told, status) =
        iotoll(&["blk", "write", word(&one), "--first", "0", "-i", word(&folder.path().join("out"))]);
    assert!(told.contains("is neither a file nor a block device") && status == 2, "{told}");
    let (_, told, status) = iotoll(&["blk", "serve", "emulated:64", shares[0]]);
    assert!(told.contains("another process serves there") && status == 2, "{told}");
    let (status, told) = serving.end(Signal::TERM);
    assert_eq!(status, Some(0), "{told}");
    for words in
        ["40.00 KiB from block 0 of namespace 1, read and write", "has a queue of", "has left a queue"]
    {
        assert!(told.contains(words), "{told}");
    }
    assert!(!one.exists() && !other.exists());
    // One that is killed leaves its sockets behind; the next replaces them.
    assert_eq!(Serving::start(&shares, &other).end(Signal::KILL).0, None);
    assert!(one.exists() && matches!(ServedDisk::connect(&one), Err(BrokerError::Socket { .. })));
    assert_eq!(Serving::start(&shares, &other).end(Signal::TERM).0, Some(0));
}

#[test]
fn a_disk_is_served_by_several_controllers() {
    use nvme::broker::ServedDisk;
    use nvme::chunk::Chunk;
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("disk");
    let share = format!("--share={}", socket.display());
    let serving = Serving::of("emulated:64x3", &[&share, "--wait", "interrupt", "--threads", "2"], &socket);
    let disk = ServedDisk::connect(&socket).unwrap();
    let mut chunks: Vec<Chunk> = (0..3).map(|_| disk.queue(4, &[]).unwrap().into()).collect();
    for block in 0..64 {
        chunks[block as usize % 3].write(block, &[block as u8; 4096]).unwrap();
    }
    let mut read = vec![0; 64 * 4096];
    chunks[0].read(0, &mut read).unwrap();
    assert!(read.chunks(4096).zip(0..).all(|(data, block)| data.iter().all(|byte| *byte == block)));
    chunks[1].flush().unwrap();
    assert_eq!(serving.end(rustix::process::Signal::TERM).0, Some(0));
}

#[test]
fn what_can_t_be_served_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let socket = word(&socket);
    let check = |arguments: &[&str], words: &str| {
        let arguments: Vec<&str> = ["blk", "serve"].iter().chain(arguments).copied().collect();
        let (data, told, status) = iotoll(&arguments);
        assert!(told.contains(words) && data.is_empty() && status == 2, "{told}");
        assert!(!Path::new(socket).exists());
    };
    check(&["emulated:0"], "expected emulated:BLOCKS or");
    check(&["emulated:99999999999"], "expected emulated:BLOCKS or");
    check(&["emulated:64x5"], "1 to 4 paths");
    check(&["emulated:64", "--wait", "never"], "invalid value 'never'");
    check(&["0000:ff:1f.7+0000:ff:1f.6", "--unbind"], "0000:ff:1f.7 is not an NVMe controller of this host");
    check(&["emulated:64", "--share", &format!("{socket}=1")], "expected SOCKET or SOCKET=FIRST+BLOCKS");
    check(&["emulated:64", "--share", "=0+1"], "expected a socket's path");
    check(&["emulated:64", "--share", &format!("{socket}=60+5")], "expected 1 or more of the namespace's 64");
    check(&["emulated:64", "--share", "/no/such/folder/socket"], "/no/such/folder/socket: No such file");
    check(
        &["emulated:64", "--share", &format!("{socket}=0+5"), "--share", &format!("{socket}2=4+1")],
        "have blocks in common",
    );
    check(&["emulated:64", "--threads", "0"], "expected 1 to 64");
    check(&["0000:ff:1f.7", "--unbind"], "0000:ff:1f.7 is not an NVMe controller of this host");
}

/// Each command has an emulated controller of its own, with one namespace.
#[test]
fn namespaces_of_an_emulated_controller_are_changed() {
    let run = |arguments: &[&str]| {
        let mut all = vec!["blk", "namespace", arguments[0], "emulated:64"];
        all.extend(&arguments[1..]);
        iotoll(&all)
    };
    let (data, told, status) = run(&["list", "--json"]);
    assert_eq!((told.as_str(), status), ("", 0));
    let document: serde_json::Value = serde_json::from_str(&data).unwrap();
    assert_eq!(document["schema"], "iotoll.blk-namespaces/1");
    assert_eq!(document["namespaces"][0]["bytes"], 64 * 4096);
    assert_eq!(document["unallocated_bytes"], "262144");
    let done = |arguments: &[&str], words: &str| {
        let (data, told, status) = run(arguments);
        let one_line = data.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(one_line.contains(words), "{data}{told}");
        assert_eq!((told.as_str(), status), ("", 0));
    };
    done(&["list"], "attached to this controller (0) alone");
    done(
        &["create", "--blocks", "64", "--attach"],
        "namespace 2 was created and attached to this controller (0)",
    );
    done(&["create", "--blocks", "512", "--block-bytes", "512", "--shared"], "allocated, attached to no");
    done(&["detach", "--namespace", "1"], "namespace 1 was detached from controller 0; its data stay");
    done(&["delete", "--namespace", "1", "--overwrite", "emulated"], "namespace 1 was deleted with its data");
    let refused = |arguments: &[&str], words: &str| {
        let (data, told, status) = run(arguments);
        assert!(told.contains(words), "{told}");
        assert_eq!((data.as_str(), status), ("", 2), "{told}");
    };
    refused(&["create", "--blocks", "65"], "needs 266240 bytes, and 262144 are unallocated");
    refused(&["create", "--blocks", "1", "--block-bytes", "3"], "is not a power of two");
    refused(&["create", "--blocks", "1", "--block-bytes", "1024"], "the controller has 2^12, 2^9");
    refused(&["create", "--blocks", "0"], "expected 1 or more");
    refused(&["attach", "--namespace", "1"], "is attached to controller 0 already");
    refused(&["attach", "--namespace", "2"], "no namespace 2 is allocated");
    refused(&["detach", "--namespace", "1", "--controller", "1"], "no controller 1 (CNTLID)");
    let detach = ["blk", "namespace", "detach", "emulated:64x2", "--namespace", "1", "--controller", "1"];
    let (_, told, status) = iotoll(&detach);
    assert!(told.contains("add: --accept-shared") && status == 2, "{told}");
    refused(&["delete", "--namespace", "1"], "if that may be lost, add: --overwrite emulated");
    refused(&["delete", "--namespace", "1", "--overwrite", "1"], "--overwrite \"1\" is not its name");
    let (_, told, status) = iotoll(&["blk", "namespace", "list", "emulated:0"]);
    assert!(told.contains("expected emulated:BLOCKS or") && status == 2, "{told}");
    let none = "0000:77:00.0 is not an NVMe controller of this host; `iotoll blk list` lists them";
    let (_, told, status) = iotoll(&["blk", "namespace", "list", "0000:77:00.0", "--unbind"]);
    assert!(told.contains(none) && status == 2, "{told}");
}
