//! The rooted reader against honest and hostile captures.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]
use host::Tree;
use host::redact::Redactor;
use host::tree::{Memory, OpenError, Refusal};
use std::io::Write;
use std::path::{Path, PathBuf};

fn host() -> Memory {
    let mut memory = Memory::default();
    memory.file("proc/cmdline", "quiet\n");
    memory.link("sys/bus/pci/devices/0000:00:03.0", "../../../devices/pci0000:00/0000:00:03.0");
    memory.file("sys/devices/pci0000:00/0000:00:03.0/vendor", "0x1b36\n");
    memory.link("sys/devices/pci0000:00/0000:00:03.0/driver", "../../../bus/pci/drivers/nvme");
    memory.link("proc/device-tree", "/sys/firmware/devicetree/base");
    memory.file("sys/firmware/devicetree/base/model", "IBM\0");
    memory
}

#[test]
fn links_resolve_inside_the_root() {
    let tree = Tree::of_memory(host());
    let value = tree.value("sys/bus/pci/devices/0000:00:03.0/vendor").unwrap();
    assert_eq!(value.value, "0x1b36");
    assert_eq!(tree.bytes("proc/device-tree/model").unwrap(), b"IBM\0", "absolute target, from the root");
    assert_eq!(tree.link_name("sys/bus/pci/devices/0000:00:03.0/driver").unwrap().value, "nvme");
    assert_eq!(tree.names("sys/bus/pci/devices"), ["0000:00:03.0"]);
    assert_eq!(
        tree.real_path("sys/bus/pci/devices/0000:00:03.0").unwrap(),
        "sys/devices/pci0000:00/0000:00:03.0"
    );
}

#[test]
fn links_out_of_the_root_or_in_loops_are_refused() {
    let mut memory = host();
    memory.link("proc/version", "../../../../../../etc/passwd");
    memory.link("a", "b");
    memory.link("b", "a");
    memory.link("l0", "proc");
    for depth in 1..60 {
        memory.link(&format!("l{depth}"), &format!("l{}/../l{}", depth - 1, depth - 1));
    }
    let tree = Tree::of_memory(memory);
    assert!(tree.text("proc/version").is_none(), "the root has no etc/passwd");
    assert!(tree.text("a").is_none());
    assert!(tree.text("l59/cmdline").is_none(), "doubling links end by the allowance, not by time");
    assert_eq!(tree.read_log().why_missed("a"), Some(&Refusal::LinkLoop));
    assert_eq!(tree.read_log().why_missed("proc/version"), Some(&Refusal::DanglingLink));
}

fn tar(build: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    build(&mut builder);
    builder.into_inner().unwrap()
}

fn header(name: &str, kind: tar::EntryType, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    // Written by hand because the library refuses hostile names.
    header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o644);
    header.set_cksum();
    header
}

fn member(builder: &mut tar::Builder<Vec<u8>>, name: &str, body: &[u8]) {
    builder.append(&header(name, tar::EntryType::Regular, body.len() as u64), body).unwrap();
}

fn saved(dir: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn every_archive_format_reads_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let plain = tar(|b| {
        member(b, "sosreport-x/proc/cmdline", b"iommu=pt\n");
        member(b, "sosreport-x/sos_commands/kernel/dmesg", b"[    0.000000] Linux version 6.1.0\n");
        let mut link = header("sosreport-x/proc/device-tree", tar::EntryType::Symlink, 0);
        link.set_link_name("/sys/firmware/devicetree/base").unwrap();
        link.set_cksum();
        b.append(&link, &[][..]).unwrap();
        member(b, "sosreport-x/sys/firmware/devicetree/base/model", b"IBM\0");
    });
    let archives = [
        ("a.tar", plain.clone()),
        ("a.tar.gz", gzip(&plain)),
        ("a.tar.xz", xz(&plain)),
        ("a.tar.zst", zstd::encode_all(&plain[..], 1).unwrap()),
    ];
    for (name, bytes) in archives {
        let tree = Tree::open(&saved(dir.path(), name, &bytes)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(tree.value("proc/cmdline").unwrap().value, "iommu=pt", "{name}");
        assert_eq!(tree.kernel_log().unwrap().file(), "sos_commands/kernel/dmesg", "{name}");
        assert_eq!(tree.bytes("proc/device-tree/model").unwrap(), b"IBM\0", "{name}");
    }
}

/// Opens the bytes as an archive and gives the error's words, without the path before them.
fn refusal(bytes: &[u8]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = saved(dir.path(), "hostile", bytes);
    let Err(error) = Tree::open(&path) else { panic!("accepted") };
    // Its own words, and those of its causes.
    let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
    let words = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
    words.replace(&format!("{}: ", path.display()), "")
}

#[test]
fn hostile_archives_are_refused_with_a_reason() {
    let climbing = tar(|b| member(b, "proc/../../etc/passwd", b"x"));
    assert_eq!(
        refusal(&climbing),
        "member 1 is named `proc/../../etc/passwd`, which leads out of the archive"
    );

    let mut huge = header("proc/cmdline", tar::EntryType::Regular, 4 << 30).as_bytes().to_vec();
    huge.extend([0; 4096]);
    assert!(refusal(&huge).starts_with("damaged after 0 members"), "too large to keep, and cut off");

    let whole = gzip(&tar(|b| member(b, "proc/cmdline", &[b'x'; 100_000])));
    assert!(refusal(&whole[..whole.len() / 2]).starts_with("damaged after "));
    assert!(refusal(b"").contains("it is empty"));
    assert!(refusal(b"BZh91AY").contains("it is bzip2"));
    assert!(
        refusal(&[7; 2000])
            .contains("it is no tar, and no line of it was understood as a message of the kernel")
    );
    assert!(refusal(&tar(|b| member(b, "readme", b"x"))).starts_with("neither `proc` nor `sys`"));
    // As `sos collect` makes it of many hosts.
    let bundle = tar(|b| member(b, "sos-collector-2026/sosreport-node1.tar.xz", &[0xfd; 40]));
    assert!(
        refusal(&bundle)
            .starts_with("holds archives, `sos-collector-2026/sosreport-node1.tar.xz` among them")
    );
}

#[test]
fn a_large_member_is_a_miss_not_an_error() {
    let bytes = gzip(&tar(|b| {
        member(b, "proc/cmdline", b"quiet\n");
        member(b, "proc/version", &vec![b'x'; (64 << 20) + 1]);
    }));
    let dir = tempfile::tempdir().unwrap();
    let tree = Tree::open(&saved(dir.path(), "a.tar.gz", &bytes)).unwrap();
    assert!(tree.text("proc/version").is_none());
    assert_eq!(tree.read_log().unreadable().len(), 1);
}

#[test]
fn a_long_name_that_never_ends_does_not_fill_the_memory() {
    // A GNU long-name member of 4 GiB of zeros, a few MiB when compressed.
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(header("././@LongLink", tar::EntryType::GNULongName, 4 << 30).as_bytes()).unwrap();
    let zeros = vec![0; 1 << 20];
    for _ in 0..64 {
        encoder.write_all(&zeros).unwrap();
    }
    assert!(!refusal(&encoder.finish().unwrap()).is_empty());
}

#[test]
fn long_names_are_read() {
    let bytes = tar(|b| {
        let name = format!("sys/{}/vendor", "a".repeat(180));
        b.append_data(&mut header("", tar::EntryType::Regular, 2), name, &b"1\n"[..]).unwrap();
        b.append_pax_extensions([("path", &b"proc/cmdline"[..])]).unwrap();
        member(b, "short", b"quiet\n");
    });
    let dir = tempfile::tempdir().unwrap();
    let tree = Tree::open(&saved(dir.path(), "a.tar", &bytes)).unwrap();
    assert_eq!(tree.value(&format!("sys/{}/vendor", "a".repeat(180))).unwrap().value, "1");
    assert_eq!(tree.value("proc/cmdline").unwrap().value, "quiet");
}

#[test]
fn devices_and_pipes_are_never_opened() {
    let bytes = tar(|b| {
        member(b, "sys/x", b"1");
        b.append(&header("proc/cmdline", tar::EntryType::Fifo, 0), &[][..]).unwrap();
        b.append(&header("proc/version", tar::EntryType::Char, 0), &[][..]).unwrap();
    });
    let dir = tempfile::tempdir().unwrap();
    let tree = Tree::open(&saved(dir.path(), "a.tar", &bytes)).unwrap();
    assert!(tree.text("proc/cmdline").is_none() && tree.text("proc/version").is_none());
    assert_eq!(tree.read_log().why_missed("proc/version"), Some(&Refusal::NotAFile));

    std::fs::create_dir(dir.path().join("proc")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        dir.path().join("proc/cmdline"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let tree = Tree::open(dir.path()).unwrap();
    assert!(tree.text("proc/cmdline").is_none());
    assert_eq!(tree.read_log().why_missed("proc/cmdline"), Some(&Refusal::NotAFile));
}

#[test]
fn a_missing_capture_names_itself() {
    let Err(error) = Tree::open(Path::new("/nowhere/capture.tar")) else { panic!("opened") };
    assert!(matches!(error, OpenError::Io { .. }));
    assert!(error.to_string() == "/nowhere/capture.tar" && std::error::Error::source(&error).is_some());
}

#[test]
fn a_link_without_a_target_does_not_stop_a_capture() {
    let mut memory = host();
    for (name, target) in
        [("a", ""), ("b", "/"), ("c", "."), ("d", "//"), ("e", "x\0y"), ("f", "../.."), ("g\0h", "f")]
    {
        memory.link(&format!("sys/bus/pci/devices/{name}"), target);
    }
    let tree = Tree::of_memory(memory);
    assert_eq!(tree.names("sys/bus/pci/devices").len(), 8);
    assert!(tree.text("proc/cmdline").is_some());
    let mut archive = Vec::new();
    let report = tree.save(&mut archive, &mut Redactor::of_secrets()).unwrap();
    let left_out: Vec<&str> = report.left_out.iter().map(|path| path.rsplit('/').next().unwrap()).collect();
    assert_eq!(left_out, ["a", "e", "g\0h"]);
    let dir = tempfile::tempdir().unwrap();
    let again = Tree::open(&saved(dir.path(), "a.tar.gz", &archive)).unwrap();
    assert_eq!(again.value("proc/cmdline").unwrap().value, "quiet");
    assert_eq!(again.names("sys/bus/pci/devices").len(), 5);
}
