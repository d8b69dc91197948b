//! What is found on disks, held against util-linux: of images that real programs have made, `wipefs` and this crate find the same types.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../../../tests/skip.rs"]
mod skip;

use nvme::signature::{Contents, Kind};
use proptest::prelude::*;
use skip::skip_part;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

const MIB: u64 = 1 << 20;

fn contents(path: &Path) -> Contents {
    let file = File::open(path).unwrap();
    let bytes = file.metadata().unwrap().len();
    Contents::read(bytes, 512, 0..0, &mut |at, into| file.read_exact_at(into, at))
}

fn of_bytes(bytes: &[u8]) -> Contents {
    let mut read = |at: u64, into: &mut [u8]| {
        into.copy_from_slice(&bytes[at as usize..at as usize + into.len()]);
        Ok(())
    };
    Contents::read(bytes.len() as u64, 512, 0..0, &mut read)
}

/// A signature of the whole disk: type, UUID and label without what separates their parts.
type Told = (String, String, String);

fn plain(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

/// What `wipefs` would wipe; nothing without it.
fn wipefs(path: &Path) -> Option<BTreeSet<Told>> {
    let output = shell("wipefs --no-act --parsable \"$1\"").arg(path).output().unwrap();
    if output.status.code() == Some(127) {
        return None;
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = |line: &str| {
        let [_, uuid, label, name] = line.split(',').collect::<Vec<_>>()[..] else { panic!("{line}") };
        (name.to_owned(), plain(uuid), plain(label))
    };
    Some(text.lines().filter(|line| !line.starts_with('#')).map(told).collect())
}

fn ours(path: &Path) -> BTreeSet<Told> {
    let found = contents(path).signatures.into_iter().filter(|one| one.partition.is_none());
    let told = |text: Option<String>| plain(&text.unwrap_or_default());
    found.map(|one| (one.name.to_owned(), told(one.uuid), told(one.label))).collect()
}

/// A program of this machine, also of those for root.
fn shell(script: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("PATH=$PATH:/usr/sbin:/sbin; {script}"), "sh"]);
    shell
}

/// What makes an image of so many MiB, and the types that are in it then.
struct Case {
    command: &'static str,
    mib: u64,
    types: &'static [&'static str],
}

const fn case(command: &'static str, mib: u64, types: &'static [&'static str]) -> Case {
    Case { command, mib, types }
}

/// `$1` is the image.
const CASES: &[Case] = &[
    case("mke2fs -q -F -t ext2 -L two $1", 16, &["ext2"]),
    case("mke2fs -q -F -t ext3 -L three $1", 16, &["ext3"]),
    case("mke2fs -q -F -t ext4 -L four $1", 16, &["ext4"]),
    case("mke2fs -q -F -O journal_dev $1", 16, &["jbd"]),
    case("mkfs.xfs -q -L exes $1", 320, &["xfs"]),
    case("mkfs.btrfs -q -L bees $1", 128, &["btrfs"]),
    case("mkfs.vfat -F 12 -n TWELVE $1", 4, &["vfat"]),
    case("mkfs.vfat -F 16 -n SIXTEEN $1", 32, &["vfat"]),
    case("mkfs.vfat -F 32 -n MORE $1", 64, &["vfat"]),
    case("mkfs.exfat $1", 16, &["exfat"]),
    case("mkntfs -Q -F -L wins $1", 16, &["ntfs"]),
    case("mkswap -L swaps $1", 16, &["swap"]),
    case("mkswap --pagesize 65536 $1", 16, &["swap"]),
    case("mkfs.f2fs -q -l effs $1", 64, &["f2fs"]),
    case("mkfs.jfs -q -L jays $1", 32, &["jfs"]),
    case("mkfs.reiserfs -q -f -l ris $1", 64, &["reiserfs"]),
    case("mkfs.nilfs2 -q -f -L nils $1", 160, &["nilfs2"]),
    case("mkudffs --utf8 --label=discs $1", 16, &["udf"]),
    case("mkfs.minix $1", 8, &["minix"]),
    case("mkfs.minix -2 $1", 8, &["minix"]),
    case("mkfs.minix -3 $1", 8, &["minix"]),
    case("mkfs.cramfs -n crams . $1", 0, &["cramfs"]),
    case("mksquashfs Cargo.toml $1 -quiet -no-progress -noappend", 0, &["squashfs"]),
    case("mkfs.erofs $1 src/spec", 0, &["erofs"]),
    case("genisoimage -quiet -V ISOS -o $1 Cargo.toml", 0, &["iso9660"]),
    case("make-bcache -B $1", 16, &["bcache"]),
    case(
        "echo secret | cryptsetup luksFormat -q --type luks1 --pbkdf-force-iterations 1000 $1 -",
        16,
        &["crypto_LUKS"],
    ),
    case(
        "echo secret | cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 $1 -",
        32,
        &["crypto_LUKS"],
    ),
    // The second header is what is left.
    case(
        "echo secret | cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 $1 - && \
         dd if=/dev/zero of=$1 bs=4096 count=1 conv=notrunc status=none",
        32,
        &["crypto_LUKS"],
    ),
    case("sgdisk -n 1:2048:0 -c 1:data $1", 16, &["gpt"]),
    // The backup at the end is what is left.
    case(
        "sgdisk -n 1:2048:0 $1 && dd if=/dev/zero of=$1 bs=1M count=1 conv=notrunc status=none",
        16,
        &["gpt"],
    ),
    case("echo 'start=2048' | sfdisk -q $1", 16, &["dos"]),
    case("parted -s $1 mklabel sun", 64, &["sun"]),
    case("parted -s $1 mklabel dvh", 16, &["sgi"]),
    case("parted -s $1 mklabel mac", 16, &["mac"]),
    case("parted -s $1 mklabel bsd", 16, &["bsd"]),
    // Two of them: the label was written over a file system without wiping it, which blkid alone calls ambivalent.
    case("mkfs.btrfs -q $1 && sgdisk -n 1:2048:0 $1", 128, &["btrfs", "gpt"]),
];

#[test]
fn signatures_that_wipefs_finds_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let mut held = 0;
    for (position, case) in CASES.iter().enumerate() {
        let path = folder.path().join(format!("image{position}"));
        if case.mib > 0 {
            File::create(&path).unwrap().set_len(case.mib * MIB).unwrap();
        }
        let made = shell(case.command)
            .arg(&path)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        if !made.status.success() {
            let said = String::from_utf8_lossy(&made.stderr).into_owned();
            skip_part(&format!("{}: {}", case.command, said.lines().last().unwrap_or_default()));
            continue;
        }
        let found = ours(&path);
        let names: BTreeSet<&str> = found.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, case.types.iter().copied().collect(), "{}", case.command);
        let Some(mut theirs) = wipefs(&path) else {
            skip_part("no wipefs to hold it against");
            return;
        };
        // The MBR that keeps others from a disk with GPT is a part of that here.
        theirs.retain(|(name, ..)| name != "PMBR");
        // So is the boot sector of a file system, which older releases of libblkid take for an MBR too.
        if names.contains("exfat") || names.contains("ntfs") || names.contains("vfat") {
            theirs.retain(|(name, ..)| name != "dos");
        }
        // It may be less: a BSD label without an MBR is none for it.
        assert!(without_details(&theirs).is_subset(&names), "{}: {theirs:?}", case.command);
        held += usize::from(!theirs.is_empty());
        for (name, uuid, label) in &theirs {
            let is_told = |(our_name, our_uuid, our_label): &Told| {
                our_name == name && (label.is_empty() || our_label == label) && is_same_uuid(our_uuid, uuid)
            };
            // These have their labels elsewhere, or none at a place of its own.
            assert!(
                ["bcache", "udf", "gpt", "dos", "jfs", "ntfs", "exfat"].contains(&name.as_str())
                    || found.iter().any(is_told),
                "{}: {name} {uuid} {label} is not in {found:?}",
                case.command
            );
        }
        std::fs::remove_file(&path).unwrap();
    }
    println!("{held} of {} images held against wipefs", CASES.len());
    assert!(held >= 4, "e2fsprogs and util-linux are everywhere");
}

fn without_details(told: &BTreeSet<Told>) -> BTreeSet<&str> {
    told.iter().map(|(name, ..)| name.as_str()).collect()
}

/// A serial number may have a date instead.
fn is_same_uuid(ours: &str, theirs: &str) -> bool {
    theirs.is_empty() || ours.is_empty() || ours == theirs
}

/// Members whose programs want real devices (the guest tests of `iotoll` run those), laid out by hand and held against `wipefs`.
#[test]
fn members_of_arrays_and_pools_are_found_at_either_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let check = |name: &str, pieces: &[(u64, &[u8])]| {
        let file = File::create(&path).unwrap();
        file.set_len(64 * MIB).unwrap();
        for (at, bytes) in pieces {
            file.write_all_at(bytes, *at).unwrap();
        }
        assert_eq!(contents(&path).names(), [name]);
        match wipefs(&path) {
            Some(theirs) => assert_eq!(without_details(&theirs), BTreeSet::from([name]), "{name}"),
            None => skip_part("no wipefs to hold it against"),
        }
    };
    const MD: [u8; 4] = [0xfc, 0x4e, 0x2b, 0xa9];
    // Version 0.90, in either byte order.
    let [major, minor] = [0_u32, 90];
    let words = |words: [u32; 3], big: bool| -> Vec<u8> {
        words.iter().flat_map(|word| if big { word.to_be_bytes() } else { word.to_le_bytes() }).collect()
    };
    for big in [false, true] {
        let superblock = words([0xa92b_4efc, major, minor], big);
        check("linux_raid_member", &[(64 * MIB - 65536, &superblock)]);
    }
    // Versions 1.0, 1.1 and 1.2, which tell their own place in sectors.
    for at in [64 * MIB - 8192, 0, 4096] {
        let version = 1_u32.to_le_bytes();
        let place = (at / 512).to_le_bytes();
        check("linux_raid_member", &[(at, &MD), (at + 4, &version), (at + 144, &place)]);
    }
    // The pools' labels, as zpool-features(7) and "ZFS On-Disk Specification" (Sun, 2006) have them: 128 uberblocks of 1 KiB each.
    for magic in [0x00ba_b10c_u64.to_le_bytes(), 0x00ba_b10c_u64.to_be_bytes()] {
        for label in [0, 256 << 10, 64 * MIB - (512 << 10), 64 * MIB - (256 << 10)] {
            let blocks: Vec<(u64, &[u8])> =
                (0..8).map(|block| (label + (128 << 10) + block * 1024, &magic[..])).collect();
            // libblkid wants four at least at one end.
            check("zfs_member", &blocks);
        }
    }
    let mut lvm = b"LABELONE\x01\0\0\0\0\0\0\0".to_vec();
    lvm.extend([0; 4]);
    lvm.extend(32_u32.to_le_bytes());
    lvm.extend(b"LVM2 001abcdefghijklmnopqrstuvwxyz012345");
    check("LVM2_member", &[(512, &lvm)]);
    check("ceph_bluestore", &[(0, b"bluestore block device")]);
    check("isw_raid_member", &[(64 * MIB - 1024, b"Intel Raid ISM Cfg Sig. 1.0.00")]);
    check("VMFS_volume_member", &[(MIB, &0xc001_d00d_u32.to_le_bytes())]);
}

/// A partition is probed like a disk, also one that a table's backup lists, and a logical one.
#[test]
fn partitions_are_looked_into() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let check = |table: &str, at: u64, number: u32, types: &[&str]| {
        File::create(&path).unwrap().set_len(64 * MIB).unwrap();
        let made = shell(table).arg(&path).output().unwrap();
        if !made.status.success() {
            return skip_part(table);
        }
        let ext = folder.path().join("ext");
        File::create(&ext).unwrap().set_len(8 * MIB).unwrap();
        let made = shell("mke2fs -q -F -t ext4 -L inside \"$1\"").arg(&ext).status().unwrap();
        if !made.success() {
            return skip_part("mke2fs");
        }
        let disk = File::options().write(true).open(&path).unwrap();
        disk.write_all_at(&std::fs::read(&ext).unwrap(), at).unwrap();
        let found = contents(&path);
        assert_eq!(found.names(), types, "{table}");
        let inside = found.signatures.iter().find(|one| one.name == "ext4").unwrap();
        assert_eq!(inside.partition.as_ref().unwrap().number, number);
        assert_eq!((inside.label.as_deref(), inside.at), (Some("inside"), at + 1080));
    };
    check("sgdisk -n 1:4096:+8M -n 2:32768:+8M -c 2:data $1", 16 * MIB, 2, &["ext4", "gpt"]);
    let wipe = "dd if=/dev/zero of=$1 bs=17408 count=1 conv=notrunc status=none";
    check(&format!("sgdisk -n 2:32768:+8M $1 && {wipe}"), 16 * MIB, 2, &["ext4", "gpt"]);
    let logical = "printf 'start=2048,size=4096\\nstart=8192,type=5\\nstart=10240,size=8192\\nstart=32768,size=16384\\n' | sfdisk -q $1";
    check(logical, 16 * MIB, 6, &["dos", "ext4"]);
}

#[test]
fn data_without_a_signature_is_distinguished() {
    let zeros = of_bytes(&vec![0; 8 << 20]);
    assert_eq!(zeros, Contents::default());
    let mut bytes = vec![0xee; 8 << 20];
    assert_eq!((of_bytes(&bytes).names(), of_bytes(&bytes).not_zero), (vec![], Some(0)));
    bytes.fill(0);
    // One byte in the last MiB, and one in the middle that only those find who look there.
    *bytes.last_mut().unwrap() = 1;
    assert_eq!(of_bytes(&bytes).not_zero, Some((8 << 20) - 1));
    bytes[4 << 20] = 1;
    let mut read = |at: u64, into: &mut [u8]| {
        into.copy_from_slice(&bytes[at as usize..at as usize + into.len()]);
        Ok(())
    };
    assert_eq!(Contents::read(8 << 20, 512, 4 << 20..5 << 20, &mut read).not_zero, Some(4 << 20));
    // An image that is not raw.
    let mut bytes = vec![0; 65536];
    bytes[..4].copy_from_slice(b"QFI\xfb");
    let found = of_bytes(&bytes).signatures;
    assert_eq!((found[0].name, found[0].kind), ("qcow2", Kind::DiskImage));
}

/// What can't be read is told, and hides nothing beside it.
#[test]
fn a_bad_block_hides_no_other() {
    let mut disk = vec![0; 4 << 20];
    disk[..6].copy_from_slice(b"LUKS\xba\xbe");
    let mut read = |at: u64, into: &mut [u8]| {
        let range = at as usize..at as usize + into.len();
        if range.contains(&9000) {
            return Err(io::Error::other("unreadable"));
        }
        into.copy_from_slice(&disk[range]);
        Ok(())
    };
    let found = Contents::read(4 << 20, 512, 0..0, &mut read);
    assert_eq!((found.names(), found.unreadable), (vec!["crypto_LUKS"], vec![8192]));
}

proptest! {
    /// Whatever is on a disk, of whatever size, looking at it ends and finds no place beyond it.
    #[test]
    fn any_bytes_are_looked_at(
        bytes in prop::collection::vec(any::<u8>(), 0..70_000),
        magics in prop::collection::vec((0_usize..70_000, 0_usize..6), 0..12),
    ) {
        let mut bytes = bytes;
        let words: [&[u8]; 6] = [b"EFI PART", &[0x55, 0xaa], b"LABELONE", b"SKUL\xba\xbe", &[0x53, 0xef], &[0xee, 0xff, 0xff, 0xff]];
        for (at, which) in magics {
            // At places where tables are as well as anywhere.
            for at in [at, at / 512 * 512, at / 512 * 512 + 510] {
                if let Some(place) = bytes.get_mut(at..at + words[which].len()) {
                    place.copy_from_slice(words[which]);
                }
            }
        }
        let found = of_bytes(&bytes);
        for one in &found.signatures {
            prop_assert!(one.at < bytes.len() as u64);
        }
    }
}
