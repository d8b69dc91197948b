//! What keeps a file from being written in a disk's place, on trees that look like hosts.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![cfg(target_os = "linux")]

use nvme::takeover::{Claim, ClaimError, Identity, Root};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A host with one image of 1 MiB, `/images/disk`.
struct Tree {
    folder: TempDir,
}

impl Tree {
    fn new() -> Self {
        let tree = Self { folder: tempfile::tempdir().unwrap() };
        tree.file("images/disk", "");
        tree.file("images/other", "");
        File::options().write(true).open(tree.image()).unwrap().set_len(1 << 20).unwrap();
        tree
    }

    fn path(&self, inside: &str) -> PathBuf {
        self.folder.path().join(inside)
    }

    fn image(&self) -> PathBuf {
        self.path("images/disk")
    }

    fn file(&self, inside: &str, text: &str) {
        let path = self.path(inside);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Process 77 has it open with such flags.
    fn process(&self, path: &Path, flags: &str) {
        self.file("proc/77/comm", "qemu-system-x86\n");
        self.file("proc/77/fdinfo/5", &format!("pos:\t0\nflags:\t{flags}\nmnt_id:\t25\n"));
        fs::create_dir_all(self.path("proc/77/fd")).unwrap();
        symlink(path, self.path("proc/77/fd/5")).unwrap();
    }

    fn loop_device(&self, backing_file: &str, sectors: u64) {
        self.file("sys/block/loop3/loop/backing_file", &format!("{backing_file}\n"));
        self.file("sys/block/loop3/loop/offset", "4096\n");
        self.file("sys/block/loop3/size", &format!("{sectors}\n"));
    }

    fn claim(&self) -> Result<Claim, ClaimError> {
        Claim::of(&Root::at(self.folder.path()), &self.image())
    }
}

#[test]
fn unused_disks_are_claimed() {
    let tree = Tree::new();
    let claim = tree.claim().unwrap();
    assert_eq!(claim.identity(), Identity::of_path(&tree.image()).unwrap());
    assert_eq!(claim.disk_names(&Root::at(tree.folder.path())).unwrap(), Default::default());
    // Another claim, as long as there is this one.
    assert!(matches!(tree.claim(), Err(ClaimError::Locked { .. })));
    let parts = claim.into_parts();
    assert!(matches!(tree.claim(), Err(ClaimError::Locked { .. })));
    drop(parts);
    tree.claim().unwrap();
}

/// By whatever name the image is used: its own, or a hard link.
#[test]
fn images_in_use_are_not_claimed() {
    let check = |change: &dyn Fn(&Tree, &str), words: &str| {
        for name in ["/images/disk", "/images/link"] {
            let tree = Tree::new();
            fs::hard_link(tree.image(), tree.path("images/link")).unwrap();
            change(&tree, name);
            let error = tree.claim().unwrap_err();
            let expected = format!("in use: {words}").replace("DISK", tree.image().to_str().unwrap());
            assert!(matches!(error, ClaimError::InUse { .. }), "{error}");
            assert_eq!(error.to_string(), expected, "{name}");
        }
    };
    check(&|tree, name| tree.loop_device(name, 64), "/dev/loop3 has DISK open");
    check(
        &|tree, name| tree.file("proc/swaps", &format!("Filename\n{name} file 1 0 -2\n")),
        "the kernel swaps to DISK",
    );
    check(
        &|tree, name| tree.file("sys/kernel/config/nvmet/subsystems/nqn.a/namespaces/1/device_path", name),
        "the NVMe target nqn.a has DISK open",
    );
    check(
        &|tree, name| tree.file("sys/kernel/config/target/core/fileio_0/archive/udev_path", name),
        "the SCSI target fileio_0/archive has DISK open",
    );
    check(
        &|tree, name| tree.process(&tree.path(&name[1..]), "0100002"),
        "process 77 (qemu-system-x86) has DISK open",
    );
}

#[test]
fn images_are_claimed_while_others_use_other_files() {
    let check = |change: &dyn Fn(&Tree)| {
        let tree = Tree::new();
        change(&tree);
        tree.claim().unwrap();
    };
    check(&|tree| tree.loop_device("/images/other", 64));
    check(&|tree| tree.file("proc/swaps", "Filename\n/images/other file 1 0 -2\n"));
    check(&|tree| tree.process(&tree.path("images/other"), "0100002"));
    // Who only reads it goes on reading.
    check(&|tree| tree.process(&tree.image(), "0100000"));
    // A loop device that was set up and not used any more has no file.
    check(&|tree| tree.file("sys/block/loop3/size", "0\n"));
}

/// A file whose name leads nowhere, of a size that this one could have: 1 MiB, of which the device has all but the first 4 KiB.
#[test]
fn a_loop_device_whose_file_is_not_seen_may_have_this_one() {
    let check = |sectors: u64, is_refused: bool| {
        let tree = Tree::new();
        tree.loop_device("/images/gone (deleted)", sectors);
        match tree.claim() {
            Ok(_) => assert!(!is_refused, "{sectors}"),
            Err(error) => {
                let told = error.to_string();
                let words = r#"/dev/loop3 has "/images/gone (deleted)" open, which may be "#;
                assert!(is_refused && told.contains(words), "{told}");
            }
        }
    };
    check(2048 - 8, true);
    check(64, true);
    check(2048 - 7, false);
}

#[test]
fn devices_without_blocks_are_not_claimed() {
    let tree = Tree::new();
    for path in [tree.path("images"), PathBuf::from("/dev/null")] {
        let error = Claim::of(&Root::at(tree.folder.path()), &path).unwrap_err();
        assert!(matches!(error, ClaimError::OtherKind { .. }), "{error}");
    }
    let error = Claim::of(&Root::default(), &tree.path("images/none")).unwrap_err();
    assert!(matches!(error, ClaimError::Open { .. }), "{error}");
}

/// Locks of either kind, as another program takes them.
#[test]
fn locked_files_are_not_claimed() {
    let tree = Tree::new();
    let file = File::open(tree.image()).unwrap();
    file.lock_shared().unwrap();
    assert!(matches!(tree.claim(), Err(ClaimError::Locked { .. })));
    file.unlock().unwrap();
    tree.claim().unwrap();
}
