//! `iotoll blk` on files, and what it refuses.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use assert_cmd::Command;
use std::fs;
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
    let (_, told, status) = iotoll(&["blk", "write", word(&disk), "--first", "50", "-i", word(&two)]);
    assert_eq!(
        (told.as_str(), status),
        ("2 blocks written, flushed, and read again as they were written\n", 0)
    );
    let (_, told, status) = iotoll(&["blk", "read", word(&disk), "--first", "49", "-o", word(&out)]);
    assert_eq!((told.as_str(), status), ("51 blocks read\n", 0));
    let bytes = fs::read(&out).unwrap();
    assert_eq!(bytes.len(), 51 * 4096);
    assert!(bytes[4096..3 * 4096].iter().all(|byte| *byte == 9) && bytes[0] == 7 && bytes[3 * 4096] == 7);
    let (data, _, _) = iotoll(&["blk", "read", word(&disk), "--first", "50", "--blocks", "1"]);
    assert_eq!(data.len(), 4096);
}

#[test]
fn what_can_not_be_is_told_and_nothing_is_written() {
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
        "2 blocks from 3; the disk has 4",
    );
    check(
        &["blk", "write", word(&disk), "--first", "18446744073709551615", "-i", word(&two)],
        "the disk has 4",
    );
    check(&["blk", "read", word(&disk), "--first", "4"], "block 4; the disk has 4");
    check(&["blk", "read", word(&disk), "--first", "3", "--blocks", "2"], "2 blocks from 3; the disk has 4");
    check(&["blk", "read", "/no/such/disk"], "/no/such/disk");
    check(&["blk", "read", "nosuch"], "no file nosuch, and it is no address");
    check(&["blk", "read", word(&odd)], "is shorter than one block of 4096 bytes");
    check(&["blk", "read", word(&disk), "--take"], "is a file: only an adapter is taken");
    check(&["blk", "read", word(&disk), "-o", word(&disk)], "is what is read from");
    check(&["blk", "read", word(&disk), "-o", word(folder.path())], "it is a folder");
    check(&["blk", "list", "--root", "/no/such/tree"], "no folder /no/such/tree");
    check(&["blk", "read", word(&disk), "-o", "/no/such/folder/file"], "can't write /no/such/folder/file");
    let none = "0000:77:00.0 is no NVMe controller of this host; `iotoll blk list` names them";
    check(&["blk", "read", "0000:77:00.0", "--take"], none);
    check(&["blk", "log", "0000:77:00.0"], none);
    check(&["bench", "blk", "0000:77:00.0", "--take"], none);
    // Not a way out of the folder of adapters.
    check(&["blk", "log", "../../../etc"], "is no NVMe controller");
}

#[test]
fn controllers_of_a_tree_are_listed_with_what_speaks_against_them() {
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

/// What waits to give an adapter back acts only on what was taken, and when who has it has let it go or is dead.
#[test]
fn only_what_was_taken_is_given_back() {
    let give_back = |said: &'static str, parent: u32| {
        let words = ["blk", "give-back", "0000:77:00.0", "nvme", "-", &parent.to_string()].map(str::to_owned);
        let output = Command::cargo_bin("iotoll").unwrap().args(words).write_stdin(said).output().unwrap();
        (String::from_utf8_lossy(&output.stderr).into_owned(), output.status.code())
    };
    let here = std::process::id();
    for said in ["", "let go\n"] {
        assert_eq!(give_back(said, here), (String::new(), Some(0)));
    }
    // There is no such adapter, so that it can't succeed. A parent that is another process by now has died.
    for (said, parent) in [("taken\nlet go\n", here), ("taken\n", 1 << 22)] {
        let (told, status) = give_back(said, parent);
        assert!(told.contains("0000:77:00.0 was not given back") && status == Some(2), "{told}");
    }
}
