//! A test program of transfers: how fast a buffer goes to the card and from it, and whether what comes back is what was sent.

use super::line::LINE_BYTES;
use super::mapping_source::{Card, Obtained};
use super::memory_system::{Cpu, MemorySystem, Snoop};
use super::price::Prices;
use super::stale::{Party, Stale};
use crate::link::Link;
use des::Span;
use host::memory::{MemoryType, PhysRange};
use serde::{Deserialize, Serialize};

/// Which way the data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// The CPU stores it, and the card reads it.
    ToCard,
    /// The card writes it, and the CPU loads it.
    FromCard,
}

/// What ends the rate of transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The CPU's accesses.
    Cpu,
    /// The link.
    Link,
}

/// How fast data goes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Throughput {
    /// Payload in a second, where CPU and card work on two buffers in turns.
    pub bytes_per_second: f64,
    /// The same as a share of what the link carries after its line code.
    pub of_link: f64,
    /// What the CPU alone could do.
    pub cpu_bytes_per_second: f64,
    /// What the link alone could carry.
    pub link_bytes_per_second: f64,
    /// Which of both ends it.
    pub limit: Limit,
}

/// Stale bytes for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StaleBytes {
    /// Who read them.
    pub reader: Party,
    /// Why they were stale.
    pub why: &'static str,
    /// How many.
    pub bytes: u64,
    /// The first of them.
    pub first: Stale,
}

/// What comparing the data found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// Words of 8 bytes that were compared.
    pub words: u64,
    /// Those that were not what had been sent.
    pub miscompares: u64,
    /// Why, by reader.
    pub stale: Vec<StaleBytes>,
}

impl Comparison {
    /// Of the words, those that were wrong.
    pub fn share(&self) -> f64 {
        if self.words == 0 { 0.0 } else { self.miscompares as f64 / self.words as f64 }
    }

    /// Adds stale bytes to the totals, grouped by reader and cause.
    fn count_stale(&mut self, stale: Vec<Stale>) {
        for one in stale {
            let why = one.cause.words();
            match self.stale.iter_mut().find(|known| known.reader == one.reader && known.why == why) {
                Some(known) => known.bytes += one.bytes,
                None => {
                    self.stale.push(StaleBytes { reader: one.reader, why, bytes: one.bytes, first: one });
                }
            }
        }
    }
}

/// The test: a machine and a buffer in memory that the driver has obtained.
#[derive(Debug, Clone, Copy)]
pub struct Transfer<'a> {
    /// The CPU.
    pub cpu: Cpu,
    /// What its accesses take.
    pub prices: Prices,
    /// The card's link.
    pub link: Link,
    /// The card.
    pub card: Card,
    /// The memory.
    pub obtained: &'a Obtained,
    /// Where the buffer is in it; whole lines.
    pub buffer: PhysRange,
}

const WORD: u64 = 8;

impl Transfer<'_> {
    /// How fast the buffer goes, with nothing of it in the cache before and no data compared.
    pub fn throughput(&self, direction: Direction) -> Throughput {
        let mut machine = self.machine();
        match direction {
            Direction::ToCard => {
                self.fill(&mut machine, self.buffer, |_| [0; LINE_BYTES as usize]);
                self.card_reads(&mut machine, self.buffer, |_, _| ());
            }
            Direction::FromCard => {
                self.card_writes(&mut machine, self.buffer, |_| 0);
                self.each_line(self.buffer, |address, kind| {
                    machine.load(address, &mut [0; LINE_BYTES as usize], kind);
                });
            }
        }
        let bytes = self.buffer.size_bytes() as f64;
        let rate = |busy: Span| bytes * 1e12 / busy.as_ps_f64();
        let (cpu, link) = (rate(machine.cpu_busy()), rate(machine.link_busy()));
        Throughput {
            bytes_per_second: cpu.min(link),
            of_link: cpu.min(link) * 8.0 / self.link.raw_bits_per_second(),
            cpu_bytes_per_second: cpu,
            link_bytes_per_second: link,
            limit: if cpu < link { Limit::Cpu } else { Limit::Link },
        }
    }

    /// Sends a pattern from one half of the buffer, lets the card write what it got into the other half, and compares; each pass
    /// with a pattern of its own.
    pub fn compare(&self, passes: u32) -> Comparison {
        let mut machine = self.machine();
        let mut found = Comparison::default();
        let Some((send, receive)) = halves(self.buffer) else { return found };
        for pass in 0..passes {
            let word = |address: u64, half: PhysRange| pattern(pass, address - half.base());
            self.fill(&mut machine, send, |line| words(|place| word(line + place, send)));
            let mut got = Vec::new();
            self.card_reads(&mut machine, send, |bytes, stale| {
                got.extend_from_slice(bytes);
                found.count_stale(stale);
            });
            let byte = |address: u64| {
                let place = usize::try_from(address - receive.base()).ok();
                place.and_then(|place| got.get(place)).copied().unwrap_or(0)
            };
            self.card_writes(&mut machine, receive, byte);
            self.each_line(receive, |address, kind| {
                let mut into = [0; LINE_BYTES as usize];
                found.count_stale(machine.load(address, &mut into, kind));
                let sent = words(|place| word(address + place, receive));
                let pairs = into.chunks(WORD as usize).zip(sent.chunks(WORD as usize));
                found.words += LINE_BYTES / WORD;
                found.miscompares += pairs.filter(|(read, sent)| read != sent).count() as u64;
            });
        }
        found
    }

    fn machine(&self) -> MemorySystem {
        MemorySystem::new(self.cpu, self.prices, self.link)
    }

    fn snoop(&self) -> Snoop {
        self.card.snoop(self.obtained.memory)
    }

    /// Calls `act` with the address and memory type of each line.
    fn each_line(&self, range: PhysRange, mut act: impl FnMut(u64, MemoryType)) {
        let lines = range.size_bytes() as u64 / LINE_BYTES;
        for address in (0..lines).map(|line| range.base() + line * LINE_BYTES) {
            if let Some(kind) = self.obtained.kind_at(address) {
                act(address, kind);
            }
        }
    }

    /// The CPU stores, and rings the card's doorbell: an uncached store, before which all buffers are drained.
    fn fill(
        &self,
        machine: &mut MemorySystem,
        range: PhysRange,
        bytes: impl Fn(u64) -> [u8; LINE_BYTES as usize],
    ) {
        self.each_line(range, |address, kind| machine.store(address, &bytes(address), kind));
        machine.fence();
    }

    /// The card reads, a request at a time.
    fn card_reads(
        &self,
        machine: &mut MemorySystem,
        range: PhysRange,
        mut take: impl FnMut(&[u8], Vec<Stale>),
    ) {
        let mut into = Vec::new();
        for (address, bytes) in requests(range, self.link.read_request_bytes_max) {
            into.resize(bytes, 0);
            let stale = machine.device_read(address, &mut into, self.snoop());
            take(&into, stale);
        }
    }

    /// The card writes, a packet at a time.
    fn card_writes(&self, machine: &mut MemorySystem, range: PhysRange, byte: impl Fn(u64) -> u8) {
        for (address, bytes) in requests(range, self.link.payload_bytes_max) {
            let data: Vec<u8> = (address..).take(bytes).map(&byte).collect();
            machine.device_write(address, &data, self.snoop());
        }
    }
}

/// Splits a range into requests of at most `bytes_max`; yields address and size.
fn requests(range: PhysRange, bytes_max: u64) -> impl Iterator<Item = (u64, usize)> {
    let step = bytes_max.max(1);
    let pieces = (range.size_bytes() as u64).div_ceil(step);
    (0..pieces).map(move |piece| {
        let address = range.base() + piece * step;
        // A piece is as large as a packet at most.
        (address, (range.last() - address + 1).min(step) as usize)
    })
}

/// Both halves of a buffer, in whole lines.
fn halves(buffer: PhysRange) -> Option<(PhysRange, PhysRange)> {
    let half = (buffer.size_bytes() / 2) as u64 / LINE_BYTES * LINE_BYTES;
    let first = PhysRange::from_base_and_size(buffer.base(), half)?;
    Some((first, PhysRange::from_base_and_size(buffer.base() + half, half)?))
}

/// A line of words.
fn words(word: impl Fn(u64) -> u64) -> [u8; LINE_BYTES as usize] {
    let mut line = [0; LINE_BYTES as usize];
    for (place, bytes) in (0..).step_by(WORD as usize).zip(line.chunks_mut(WORD as usize)) {
        bytes.copy_from_slice(&word(place).to_le_bytes());
    }
    line
}

/// A word unique to this pass and offset, by a bijective hash (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014).
fn pattern(pass: u32, offset: u64) -> u64 {
    let mut word = u64::from(pass + 1) << 40 ^ offset;
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}
