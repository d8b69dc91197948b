//! Commands as futures on QEMU's NVMe controller through VFIO, in a guest: a thread polls, sleeps until the controller's MSI-X interrupt, or
//! does both. No wake-up may be lost.
//!
//! As in `real_iommu`, this test program itself is copied into the guest.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "support/driver.rs"]
mod driver;
#[path = "support/mod.rs"]
mod support;

use driver::bind_to;
use lab::{Arch, kernel::Series};
use nvme::chunk::Waiting;
use nvme::{Adapter, Adaptive, AsyncQueue, Controller, WaitCounts};
use std::fs;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use support::{Guest, GuestKernel, MODE, cache};

const ADAPTER: &str = "0000:00:05.0";
const BLOCK: usize = 4096;
const BLOCKS: u64 = 1024;
const READS: usize = 4_000;
/// Reads that are in flight at once in the second half; one is in the first.
const TOGETHER: usize = 8;
const REQUESTS: u16 = 16;
/// The vector of the queue. The admin queue has the first.
const VECTOR: u16 = 1;
/// A wait without an interrupt is given up after this, and the test has failed.
const PATIENCE: Duration = Duration::from_secs(30);
/// A wait of `block_on` ends after 10 ms whatever happens. A busy host's disk takes as long now and then: for one read in a hundred it may.
const EXPIRED_MAX: u64 = READS as u64 / 100;
/// Each way of waiting is used at least as often: it depends on the disk, and so on the host.
const USED_MIN: u64 = 20;

/// The content of a block: its number and the place, in each word.
fn pattern(block: u64) -> Vec<u8> {
    (0..BLOCK as u64 / 8).flat_map(|word| (block << 32 | word).to_le_bytes()).collect()
}

/// Polls futures until all are ready.
async fn all(mut futures: Vec<Pin<Box<dyn Future<Output = ()> + '_>>>) {
    poll_fn(|context| {
        futures.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if futures.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Reads a block, and checks its data.
async fn read(queue: &AsyncQueue, block: u64) {
    let mut data = vec![0; BLOCK];
    queue.read(block, &mut data).await.unwrap();
    assert!(data == pattern(block), "block {block}");
}

/// Groups of blocks to read, which look random: first one at a time, then several.
fn groups() -> Vec<Vec<u64>> {
    let blocks: Vec<u64> = (0..READS as u64).map(|read| (read * 389 + read / 7) % BLOCKS).collect();
    let (alone, together) = blocks.split_at(READS / 2);
    alone.chunks(1).chain(together.chunks(TOGETHER)).map(<[u64]>::to_vec).collect()
}

/// Runs a group's reads at once.
async fn read_group(queue: &AsyncQueue, group: &[u64]) {
    all(group
        .iter()
        .map(|block| Box::pin(read(queue, *block)) as Pin<Box<dyn Future<Output = ()>>>)
        .collect())
    .await;
}

/// Reads by an event loop that does nothing but wait for interrupts: a lost one would end it. Returns how often it waited.
fn read_by_interrupts_alone(queue: &AsyncQueue) -> usize {
    let (interrupt, mut waits) = (queue.interrupt().unwrap(), 0);
    for group in groups() {
        let mut reads = pin!(read_group(queue, &group));
        while reads.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            assert!(interrupt.wait(PATIENCE).unwrap(), "no interrupt after {waits} waits");
            queue.step().unwrap();
            waits += 1;
        }
    }
    waits
}

#[test]
#[ignore = "only in a guest that has the controller"]
fn in_the_guest() {
    let mode = std::env::var(MODE).unwrap();
    let adapter = Adapter::open(ADAPTER, "vfio".parse().unwrap(), 8 << 20).unwrap();
    let interrupt = || Arc::new(adapter.interrupts(u32::from(VECTOR) + 1).unwrap().pop().unwrap());
    let mut counts: Option<Arc<WaitCounts>> = None;
    let mut adaptive = |adaptive: Adaptive| {
        counts = Some(adaptive.counts());
        Waiting::Adaptive { vector: VECTOR, interrupt: interrupt(), adaptive }
    };
    let waiting = match mode.as_str() {
        "polling" => Waiting::Polling,
        "interrupt" | "interrupts-alone" => Waiting::Interrupt { vector: VECTOR, interrupt: interrupt() },
        // QEMU's disk takes longer than this mostly, and less than the other.
        "adaptive-short" => adaptive(Adaptive::default()),
        "adaptive-long" => adaptive(Adaptive::new(Duration::from_millis(5))),
        other => panic!("{other}"),
    };
    let shared = adapter.controller();
    let mut controller = Controller::lock(&shared);
    let disk = controller.namespaces()[0];
    let queue = AsyncQueue::open(&mut controller, disk, REQUESTS, BLOCK as u64, waiting).unwrap();
    drop(controller);
    let begin = Instant::now();
    let waits = if mode == "interrupts-alone" {
        read_by_interrupts_alone(&queue)
    } else {
        groups().iter().for_each(|group| queue.block_on(read_group(&queue, group)));
        0
    };
    let counted = counts.map(|counts| [counts.polled(), counts.slept(), counts.expired()]);
    println!(
        "{mode}: {READS} reads in {} ms; waits of the event loop: {waits}; polled, slept, expired: {counted:?}",
        begin.elapsed().as_millis()
    );
    if mode == "interrupts-alone" {
        assert!(waits >= groups().len(), "{waits}");
    }
    if let Some([polled, slept, expired]) = counted {
        assert!(expired <= EXPIRED_MAX, "{expired}");
        let used = if mode == "adaptive-long" { polled } else { slept };
        assert!(used >= USED_MIN, "{polled} {slept}");
    }
    queue.close(&mut Controller::lock(&shared)).unwrap();
    drop(shared);
    adapter.shut_down().unwrap();
    println!("{mode}: all as expected");
}

#[test]
fn no_wake_up_is_lost() {
    let Some(cache) = cache() else { return };
    let Some(kernel) = GuestKernel::Debian(Series::V6_1).find(&cache, Arch::X86) else { return };
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    fs::write(&disk, (0..BLOCKS).flat_map(pattern).collect::<Vec<u8>>()).unwrap();
    let devices = format!(
        "-device intel-iommu,intremap=on -drive file={},if=none,format=raw,cache=unsafe,id=disk \
         -device nvme,serial=iotoll,drive=disk,addr=5,logical_block_size=4096,physical_block_size=4096",
        disk.display()
    );
    let modes = ["polling", "interrupt", "interrupts-alone", "adaptive-short", "adaptive-long"];
    let guest = Guest {
        modules: &["vfio_pci", "vfio_iommu_type1", "nvme"],
        programs: &[],
        before: format!("busybox sleep 1\n{}", bind_to(ADAPTER, "vfio-pci")),
        modes: &modes,
        after: "busybox dmesg | busybox grep DMAR:\n",
        devices: &devices,
        command_line: "intel_iommu=on no_timer_check",
    };
    let Some(console) = guest.run(&cache, &kernel) else { return };
    console.lines().filter(|line| line.contains(" reads in ")).for_each(|line| println!("{line}"));
    for mode in modes {
        assert!(console.contains(&format!("{mode}: all as expected")), "{mode}: {console}");
    }
    assert!(!console.contains("[DMA Read") && !console.contains("[DMA Write"), "{console}");
}
