//! `watch` on real kernels: it counts reads of an NVMe disk, whose number and cost are known.
//!
//! As in `real_iommu`, this test program itself is copied into the guest.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "support/mod.rs"]
mod support;

use lab::kernel::Series;
use rustix::fs::{Mode, OFlags};
use std::{collections::BTreeMap, env, fs::File, os::unix::fs::FileExt, thread};
use support::{Guest, MODE, cache, debian_kernel};
use toll::Stage;
use watch::{Action, AdapterSummary, Record, Session};

const READS: u64 = 1000;
const THREADS: u64 = 4;
const READ_BYTES: usize = 4096;
/// PCI address of the disk's controller.
const ADAPTER: &str = "0000:00:05.0";

/// A buffer aligned as direct reads need it.
#[repr(align(4096))]
struct Buffer([u8; READ_BYTES]);

/// Reads the disk past the page cache: `READS` times, each thread in a part of its own.
fn read_disk(threads: u64) {
    let disk = rustix::fs::open("/dev/nvme0n1", OFlags::RDONLY | OFlags::DIRECT, Mode::empty()).unwrap();
    let disk = File::from(disk);
    thread::scope(|scope| {
        for thread in 0..threads {
            let disk = &disk;
            scope.spawn(move || {
                let mut buffer = Box::new(Buffer([0; READ_BYTES]));
                let reads = READS / threads;
                for read in 0..reads {
                    let at = (thread * reads + read) * READ_BYTES as u64;
                    disk.read_exact_at(&mut buffer.0, at).unwrap();
                }
            });
        }
    });
}

/// Prints what was counted, for the test on the host.
fn print(mode: &str, record: &Record) {
    assert_eq!(record.uncounted, None);
    for adapter in &record.adapters {
        print_adapter(mode, adapter);
    }
    println!("{mode} lost {}", record.losses.total());
    println!("{mode} program-ns {}", record.program_ns.unwrap_or_default());
    for one in &record.unwatched {
        println!("not watched: {}: {}", one.function, one.why);
    }
}

fn print_adapter(mode: &str, adapter: &AdapterSummary) {
    let name = match adapter.adapter.as_str() {
        "" => "none",
        ADAPTER => "disk",
        _ => return,
    };
    println!("{mode} {name} requests {}", adapter.completed.block_requests);
    for one in &adapter.actions {
        println!("{mode} {name} {:?} {}", one.action, one.tally.calls);
        println!("{mode} {name} {:?}-bytes {}", one.action, one.tally.bytes);
    }
    for one in &adapter.stages {
        println!("{mode} {name} {:?}-ns {}", one.stage, one.ns);
    }
}

#[test]
#[ignore = "only in a guest that has the disk"]
fn in_the_guest() {
    let mode = env::var(MODE).unwrap();
    let mut session = Session::start(Vec::new()).unwrap();
    read_disk(if mode == "threads" { THREADS } else { 1 });
    session.interval().unwrap();
    print(&mode, &session.finish());
}

/// The numbers that the guest printed, by mode, device and name.
struct Counts(BTreeMap<String, u64>);

impl Counts {
    fn of(console: &str) -> Self {
        let line = |line: &str| {
            let (name, number) = line.trim().rsplit_once(' ')?;
            Some((name.to_owned(), number.split('.').next()?.parse().ok()?))
        };
        Self(console.lines().filter_map(line).collect())
    }

    fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Asserts that calls for the disk are these in each mode, and that none was lost.
    fn assert_calls(&self, console: &str, expected: &[(Action, u64)]) {
        for mode in ["single", "threads"] {
            assert_eq!(self.get(&format!("{mode} disk requests")), READS, "{console}");
            assert_eq!(self.0.get(&format!("{mode} lost")), Some(&0), "{console}");
            for (action, calls) in expected {
                assert_eq!(
                    self.get(&format!("{mode} disk {action:?}")),
                    *calls,
                    "{mode} {action:?}\n{console}"
                );
            }
        }
    }
}

/// Boots Debian's kernel of a series with an NVMe disk behind VT-d.
fn console(series: Series, command_line: &str) -> Option<String> {
    let cache = cache()?;
    let kernel = debian_kernel(&cache, series)?;
    let guest = Guest {
        modules: &["nvme"],
        programs: &[],
        before: "busybox sleep 2\n".to_owned(),
        modes: &["single", "threads"],
        after: "",
        devices: "-smp 2 -device intel-iommu,intremap=on -drive driver=null-co,size=1G,read-zeroes=on,if=none,id=disk \
                  -device nvme,serial=iotoll,drive=disk,addr=5",
        command_line,
    };
    guest.run(&cache, &kernel)
}

/// What the lab counts for a read in strict mode, too: one mapping, one unmapping, one invalidation.
fn check_strict(series: Series) {
    let Some(console) = console(series, "intel_iommu=on iommu.strict=1") else { return };
    let counts = Counts::of(&console);
    let expected = [Action::Map, Action::Unmap, Action::AllocateIova, Action::WriteTable, Action::Invalidate];
    counts.assert_calls(&console, &expected.map(|action| (action, READS)));
    for (action, bytes) in
        [(Action::Map, 4096), (Action::Unmap, 4096), (Action::WriteTable, 4096), (Action::TakeBounce, 0)]
    {
        assert_eq!(counts.get(&format!("single disk {action:?}-bytes")), READS * bytes, "{console}");
    }
    for stage in [Stage::DmaMap, Stage::Iova, Stage::TableWrite, Stage::Invalidation, Stage::DmaUnmap] {
        assert!(counts.get(&format!("single disk {stage:?}-ns")) > 0, "{stage:?}\n{console}");
    }
}

#[test]
fn reads_are_counted_in_strict_mode_of_linux_6_1() {
    check_strict(Series::V6_1);
}

#[test]
fn reads_are_counted_in_strict_mode_of_linux_6_12() {
    check_strict(Series::V6_12);
}

/// Invalidations are few, and those of the timer belong to no device.
#[test]
fn invalidations_of_lazy_mode_belong_to_no_device() {
    for series in [Series::V6_1, Series::V6_12] {
        let Some(console) = console(series, "intel_iommu=on iommu.strict=0") else { return };
        let counts = Counts::of(&console);
        let expected = [Action::Map, Action::Unmap, Action::WriteTable];
        counts.assert_calls(&console, &expected.map(|action| (action, READS)));
        let of_disk = counts.get("single disk Invalidate");
        let of_none = counts.get("single none Invalidate");
        assert!(of_disk == 0 && of_none > 0 && of_none < READS / 2, "{of_disk}, {of_none}\n{console}");
    }
}

/// A read takes a bounce buffer, and returns it with a copy.
#[test]
fn bounce_buffers_are_counted() {
    for series in [Series::V6_1, Series::V6_12] {
        let Some(console) = console(series, "intel_iommu=off swiotlb=force") else { return };
        let counts = Counts::of(&console);
        counts.assert_calls(
            &console,
            &[Action::Map, Action::Unmap, Action::TakeBounce, Action::ReturnBounce]
                .map(|action| (action, READS)),
        );
        for action in [Action::TakeBounce, Action::ReturnBounce] {
            let bytes = counts.get(&format!("single disk {action:?}-bytes"));
            assert_eq!(bytes, READS * READ_BYTES as u64, "{action:?}\n{console}");
        }
        assert_eq!(counts.get("single disk WriteTable"), 0, "{console}");
    }
}
