//! Tests of `iotoll blk` in guests with a real kernel: which disks it refuses, that it rebinds every disk however it ends,
//! and how it handles errors.
//!
//! A boot takes minutes, so the tests of a module share one guest and its console.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../guest/mod.rs"]
mod guest;

mod driven;
mod no_iommu;
mod overwrite;
mod transfer;

use guest::{SHELL, case, kernel, stripped, support};
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Once, OnceLock};
use std::{env, fs, thread};

const DISK_BYTES: usize = 16 << 20;
const UNTOUCHED: u8 = 0xee;
/// The first block that is written.
const FIRST: usize = 64;
const WRITTEN_BYTES: usize = 8 << 20;

/// Kernel command line without the check of the timer interrupt, which measures real time and may fail on a busy host.
const UNTIMED: &str = "no_timer_check";
/// The same with the IOMMU.
const REMAPPED: &str = "intel_iommu=on no_timer_check";

/// An NVMe disk of the guest.
struct Disk<'a> {
    /// Its device number on PCI bus 0.
    slot: u32,
    file: PathBuf,
    /// Further options of QEMU's drive, or a blkdebug driver that injects errors.
    options: &'a str,
}

impl Disk<'_> {
    /// QEMU's arguments for the disk.
    fn device(&self) -> String {
        let Self { slot, file, options } = self;
        let file = file.display();
        let backend = if options.starts_with("driver=blkdebug") {
            // blkdebug injects errors between the device and the file.
            format!(
                "-blockdev {options},node-name=disk{slot},image.driver=file,image.cache.no-flush=on,image.filename={file}"
            )
        } else {
            format!("-drive file={file},if=none,format=raw,cache=unsafe,id=disk{slot}{options}")
        };
        format!("{backend} -device nvme,serial=disk{slot},drive=disk{slot},addr={slot}")
    }
}

/// Creates a disk whose bytes are all [`UNTOUCHED`].
fn disk_file(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, vec![UNTOUCHED; DISK_BYTES]).unwrap();
    path
}

/// Asserts that the output of a case contains all `words`.
fn expect(console: &str, name: &str, words: &[&str]) {
    let output = case(console, name);
    for word in words {
        assert!(output.contains(word), "{name}: {word:?} is not in\n{output}");
    }
}

/// Shell functions that the scripts use.
fn shell_functions(program: &Path) -> String {
    format!(
        "{SHELL}mkdir -p /mnt /etc\necho 'nobody:x:65534:65534::/:/bin/sh' > /etc/passwd\n\
         iotoll() {{ {program} \"$@\"; echo \"status $?\"; }}\n\
         driver() {{ basename $(readlink /sys/bus/pci/devices/$1/driver || echo none); }}\n\
         disk() {{ echo /dev/$(ls /sys/bus/pci/devices/$1/nvme/nvme*/ | grep -x 'nvme[0-9]*n1'); }}\n\
         wait_for_vfio() {{ while [ \"$(driver $1)\" != vfio-pci ]; do usleep 20000; done; }}\n\
         killed() {{ slot=$1; delay=$2; shift 2; {program} blk write $slot \"$@\" --first {FIRST} -i /tmp/data & writer=$!; wait_for_vfio $slot; sleep $delay; \
         kill -9 $writer; wait $writer; echo \"killed $?\"; }}\n\
         same() {{ dd if=$(disk $1) bs=512 skip={FIRST} count={blocks} 2>/dev/null | cmp - /tmp/data && echo the kernel reads the same; }}\n\
         rebind_process() {{ (cd /proc; for process in [0-9]*; do grep -q rebind $process/cmdline 2>/dev/null && echo $process; done); }}\n\
         back() {{ while [ \"$(driver $1)\" != nvme ] || [ ! -e \"$(disk $1)\" ]; do usleep 20000; done; echo \"back with $(driver $1)\"; }}\n",
        program = program.display(),
        blocks = WRITTEN_BYTES / 512,
    )
}

/// An ordinary disk.
const A: &str = "0000:00:05.0";
/// A disk with 50 I/Os per second.
const SLOW: &str = "0000:00:07.0";

/// The boot of a guest that several tests share failed.
struct BootFailed;

type SharedGuest<T> = OnceLock<Result<Option<T>, BootFailed>>;

/// If no test is named, boots guests beside the one that tests wait for: the harness takes tests in the order of their names, and those of
/// a module all wait for one guest.
fn boot_side_by_side() {
    static BEGUN: Once = Once::new();
    let is_named = env::args().skip(1).any(|argument| !argument.starts_with('-'));
    if is_named {
        return;
    }
    BEGUN.call_once(|| {
        thread::spawn(|| {
            overwrite::guest();
            transfer::guest();
        });
    });
}

/// Boots a guest for the first test that needs it, and returns its results to all of them. `None` if it can't boot here,
/// which every test reports as skipped.
fn shared<T>(guest: &'static SharedGuest<T>, boot: fn() -> Option<T>) -> Option<&'static T> {
    let mut is_first = false;
    boot_side_by_side();
    let booted = guest.get_or_init(|| {
        is_first = true;
        catch_unwind(boot).map_err(|_| BootFailed)
    });
    match booted {
        Ok(Some(results)) => Some(results),
        Ok(None) if is_first => None,
        Ok(None) => {
            support::skip("the guest that it shares with another test was not booted");
            None
        }
        Err(BootFailed) => panic!("the guest failed; the first test that needed it shows why"),
    }
}

fn is_untouched(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == UNTOUCHED)
}

/// Whether a disk is unchanged outside the [`WRITTEN_BYTES`] from block [`FIRST`] on.
fn is_untouched_around(disk: &Disk<'_>) -> bool {
    let bytes = fs::read(&disk.file).unwrap();
    is_untouched(&bytes[..FIRST * 512]) && is_untouched(&bytes[FIRST * 512 + WRITTEN_BYTES..])
}
