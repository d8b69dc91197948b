//! Benchmark of transfers: an NVMe controller moves data to and from memory of each kind, and the CPU checks every byte.
//!
//! Nothing is written to the disk. For the way to memory, the CPU stores the complement of the expected data, the controller reads
//! its disk into the buffer, and the CPU compares each word: a line that its cache kept shows as the complement. For the way from
//! memory, the CPU stores the expected data over the complement, and the controller compares the buffer with its disk: data that
//! are still in a cache show as a Compare Failure. Write-combining buffers are drained before, as a driver has to.
//!
//! It is the card test of "RHEL6.4 Apparent reduced PCIe performance in comparison to RHEL5.9" (Red Hat, 2013), with a disk in place
//! of the card.

mod buffer;
mod device;
mod result;

pub use buffer::TransferMemory;
pub use result::{
    ControllerReads, ControllerWrites, ExpectedFrom, Miscompare, TRANSFER_SCHEMA, TransferBenchmark,
    TransferRound, TransferRow, TransferSettings,
};

use crate::blk::BlkError;
use crate::head::{Head, Origin};
use crate::summary::Summary;
use crate::{HostSummary, warning};
use buffer::Expected;
use device::{Device, check_sizes};
use nvme::{Controller, Namespace, QueuePair};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// PCI vendor of controllers that QEMU emulates (Red Hat).
const VENDOR_QEMU: u16 = 0x1b36;

/// The blocks to transfer, and their data if the kernel's driver has read them.
#[derive(Debug, Clone)]
pub struct TransferSource {
    /// PCI address of the controller.
    pub adapter: String,
    /// The namespace that is read.
    pub namespace: Namespace,
    /// The data of its blocks, if the kernel's driver has read them.
    pub expected: Option<Vec<u8>>,
    /// Whether the IOMMU makes all accesses snoop.
    pub forces_snooping: Option<bool>,
}

/// Transfers to and from ordinary DMA memory, and each of `memories`, in turn, round by round. `progress` gets the number
/// of steps done and of all steps.
///
/// # Errors
/// [`BlkError`]; then the queue and the buffer stay with the controller until it is shut down.
pub fn run_transfer(
    settings: TransferSettings,
    origin: Origin,
    controller: &Arc<Mutex<Controller>>,
    source: TransferSource,
    memories: &[TransferMemory],
    progress: &mut dyn FnMut(u64, u64),
) -> Result<TransferBenchmark, BlkError> {
    check_sizes(&source.namespace, &settings)?;
    let mut head = Head::new(TRANSFER_SCHEMA, origin, HostSummary::here());
    let mut guard = Controller::lock(controller);
    let identity = guard.identity().clone();
    head.warnings = warnings(&head.machine, identity.vendor);
    let queue = guard.queue_pair(settings.depth.saturating_add(1))?;
    let own = guard.allocate(settings.bytes)?;
    let coherent = TransferMemory::of_buffer(&own, guard.ram()).map_err(nvme::QueueError::from)?;
    drop(guard);
    let mut device = Device::new(queue, source.namespace, &settings);
    let expected_from = match source.expected {
        Some(_) => ExpectedFrom::Kernel,
        None => ExpectedFrom::ThisProgram,
    };
    let data = match source.expected {
        Some(data) => data,
        None => {
            device.transfer(coherent.piece, QueuePair::read)?;
            coherent.bytes()?
        }
    };
    let expected = Expected::new(&data, settings.bytes)?;
    let all: Vec<&TransferMemory> = std::iter::once(&coherent).chain(memories).collect();
    let mut measurements: Vec<Measurement<'_>> =
        all.into_iter().map(|memory| Measurement::new(memory, identity.can_compare)).collect();
    let steps = (settings.rounds as u64 + 1) * measurements.len() as u64;
    let mut done = 0;
    for round in 0..=settings.rounds {
        for measurement in &mut measurements {
            progress(done, steps);
            let measured = measurement.measure_round(&mut device, &expected, settings.round_ms)?;
            // The first round only warms up, but what it finds counts.
            measurement.rounds.extend((round > 0).then(|| measured.rates(settings.bytes)));
            done += 1;
        }
    }
    let rows: Vec<TransferRow> = measurements.into_iter().map(Measurement::into_row).collect();
    head.warnings.extend(warning_of_equal_pages(&data));
    head.warnings.splice(0..0, rows.iter().filter_map(warning_of_differences));
    let mut guard = Controller::lock(controller);
    guard.delete(device.into_queue())?;
    guard.free(own)?;
    Ok(TransferBenchmark {
        head,
        settings,
        adapter: source.adapter,
        model: identity.model,
        expected_from,
        forces_snooping: source.forces_snooping,
        memories: rows,
    })
}

/// A warning about data that can't show a page at a wrong place.
fn warning_of_equal_pages(data: &[u8]) -> Option<String> {
    let mut pages = data.chunks_exact(nvme::PAGE_BYTES as usize);
    let first = pages.next()?;
    pages.all(|page| page == first).then(|| {
        "all pages on the disk are alike, so data at a wrong place would not show; --first chooses other blocks".to_owned()
    })
}

/// A warning about a memory in which data differed.
fn warning_of_differences(row: &TransferRow) -> Option<String> {
    let kind = row.memory_type.as_ref().map(|kind| format!(" ({kind})")).unwrap_or_default();
    row.has_miscompares()
        .then(|| format!("data differed in {}{kind}: its rates are those of transfers that failed", row.name))
}

/// Reasons to doubt the results.
fn warnings(machine: &HostSummary, vendor: u16) -> Vec<String> {
    let virtual_machine = match (vendor, machine.is_virtual) {
        (VENDOR_QEMU, _) => Some(
            "QEMU emulates this controller: it copies by a CPU, through that CPU's caches. Rates and miscompares say nothing of a \
             real device; that the test ran proves that it works",
        ),
        (_, Some(true)) => Some(
            "this is a virtual machine: its hypervisor may ignore the guest's memory types, and may emulate the controller. Rates and \
             miscompares hold for this machine only",
        ),
        _ => None,
    };
    virtual_machine.map(str::to_owned).into_iter().chain(warning::of_machine(machine)).collect()
}

/// The times of a round, each for `passes` times the buffer.
#[derive(Debug, Clone, Copy, Default)]
struct RoundTimes {
    passes: u64,
    stores: Duration,
    loads: Duration,
    controller_writes: Duration,
    controller_reads: Duration,
}

impl RoundTimes {
    /// The rates, with buffers of `bytes`.
    fn rates(&self, bytes: u64) -> TransferRound {
        // At least a nanosecond, so that nothing is divided by zero.
        let rate =
            |time: Duration| (bytes * self.passes) as f64 / time.max(Duration::from_nanos(1)).as_secs_f64();
        TransferRound {
            controller_writes: rate(self.controller_writes),
            controller_reads: (!self.controller_reads.is_zero()).then(|| rate(self.controller_reads)),
            cpu_stores: rate(self.stores),
            cpu_loads: rate(self.loads),
        }
    }
}

/// The measurement of one memory.
struct Measurement<'m> {
    memory: &'m TransferMemory,
    can_compare: bool,
    rounds: Vec<TransferRound>,
    words: u64,
    miscompares: u64,
    first_miscompare: Option<Miscompare>,
    commands: u64,
    compare_failures: u64,
}

impl<'m> Measurement<'m> {
    fn new(memory: &'m TransferMemory, can_compare: bool) -> Self {
        Self {
            memory,
            can_compare,
            rounds: Vec::new(),
            words: 0,
            miscompares: 0,
            first_miscompare: None,
            commands: 0,
            compare_failures: 0,
        }
    }

    /// Transfers the buffer both ways, again and again for `round_ms` milliseconds.
    fn measure_round(
        &mut self,
        device: &mut Device,
        expected: &Expected,
        round_ms: u64,
    ) -> Result<RoundTimes, BlkError> {
        let (start, length) = (Instant::now(), Duration::from_millis(round_ms));
        let mut times = RoundTimes::default();
        while times.passes == 0 || start.elapsed() < length {
            self.transfer_to_memory(device, expected, &mut times)?;
            if self.can_compare {
                self.transfer_from_memory(device, expected, &mut times)?;
            }
            times.passes += 1;
        }
        Ok(times)
    }

    /// The controller writes the buffer, and the CPU compares it.
    fn transfer_to_memory(
        &mut self,
        device: &mut Device,
        expected: &Expected,
        times: &mut RoundTimes,
    ) -> Result<(), BlkError> {
        let begin = Instant::now();
        self.memory.store_complement(expected)?;
        times.stores += begin.elapsed();
        let begin = Instant::now();
        // Reads that fail end the run, so none is counted.
        device.transfer(self.memory.piece, QueuePair::read)?;
        times.controller_writes += begin.elapsed();
        let begin = Instant::now();
        let (miscompares, first) = self.memory.compare(expected)?;
        times.loads += begin.elapsed();
        self.words += expected.words();
        self.miscompares += miscompares;
        self.first_miscompare = self.first_miscompare.or(first);
        Ok(())
    }

    /// The CPU stores the buffer, and the controller compares it.
    fn transfer_from_memory(
        &mut self,
        device: &mut Device,
        expected: &Expected,
        times: &mut RoundTimes,
    ) -> Result<(), BlkError> {
        self.memory.store_complement(expected)?;
        self.memory.flush()?;
        self.memory.store(expected)?;
        let begin = Instant::now();
        let compared = device.transfer(self.memory.piece, QueuePair::compare)?;
        times.controller_reads += begin.elapsed();
        self.commands += compared.commands;
        self.compare_failures += compared.miscompares;
        Ok(())
    }

    /// The results.
    fn into_row(self) -> TransferRow {
        let TransferMemory { name, mapping, memory_type, .. } = self.memory;
        let summary =
            |rate: fn(&TransferRound) -> Option<f64>| Summary::of(self.rounds.iter().filter_map(rate));
        TransferRow {
            name: name.clone(),
            mapping: mapping.clone(),
            memory_type: memory_type.clone(),
            controller_writes: ControllerWrites {
                bytes_per_second: summary(|round| Some(round.controller_writes)),
                words: self.words,
                miscompares: self.miscompares,
                first_miscompare: self.first_miscompare,
            },
            controller_reads: self.can_compare.then(|| ControllerReads {
                bytes_per_second: summary(|round| round.controller_reads),
                commands: self.commands,
                miscompares: self.compare_failures,
            }),
            cpu_store_bytes_per_second: summary(|round| Some(round.cpu_stores)),
            cpu_load_bytes_per_second: summary(|round| Some(round.cpu_loads)),
            rounds: self.rounds,
        }
    }
}
