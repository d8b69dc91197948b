//! The machine: a CPU with cache and write-combining buffers, memory, and a device. Each access moves real bytes and
//! takes time.
//!
//! | type | load | store |
//! |---|---|---|
//! | UC, UC- | drains all buffers, goes to memory | the same |
//! | WC | drains the line's buffer, goes to memory | gathered in a buffer |
//! | WT | through the cache | to memory, and to the line if it is cached |
//! | WP | through the cache | to memory; the line leaves the cache |
//! | WB | through the cache | to the line in the cache, which is brought in |
//!
//! An uncached access first checks the CPU's own cache: a line left there by another mapping is written back
//! (self-snooping, Intel SDM vol. 3, section 11.12.4 "Programming the PAT"). So a CPU always sees its own stores, but
//! may miss those of a device that did not snoop. Every byte read is compared with the last write in program order.

use super::cache::{Cache, Cached};
use super::combining::{Buffers, CombiningBuffer};
use super::line::{LINE_BYTES, Line, Piece, Version, pieces};
use super::price::Prices;
use super::ram::{LineRecord, Ram};
use super::stale::{Cause, OverwriteCause, Party, Stale, Write};
use crate::link::Link;
use des::{Span, Time};
use host::memory::MemoryType;
use serde::{Deserialize, Serialize};
use std::num::NonZeroUsize;

/// Parameters of the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// Size of the last-level cache.
    pub cache_bytes: u64,
    /// Ways of the cache.
    pub ways: NonZeroUsize,
    /// Number of write-combining buffers.
    pub combining_buffers: usize,
}

/// Whether a device's access snoops the CPU's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Snoop {
    /// It snoops: the device is cache-coherent.
    Snooped,
    /// It does not: the request has the No Snoop attribute.
    Unsnooped,
}

/// The machine.
#[derive(Debug, Clone)]
pub struct MemorySystem {
    cache: Cache,
    buffers: Buffers,
    ram: Ram,
    prices: Prices,
    link: Link,
    writes: Vec<Write>,
    /// Accesses so far.
    access: u64,
    filled: Option<u64>,
    cpu_busy: Span,
    link_busy: Span,
}

impl MemorySystem {
    /// A machine with zeroed memory and an empty cache.
    pub fn new(cpu: Cpu, prices: Prices, link: Link) -> Self {
        let lines = usize::try_from(cpu.cache_bytes / LINE_BYTES).unwrap_or(usize::MAX);
        let sets = NonZeroUsize::new(lines / cpu.ways).unwrap_or(NonZeroUsize::MIN);
        Self {
            cache: Cache::new(sets, cpu.ways),
            buffers: Buffers::new(cpu.combining_buffers),
            ram: Ram::default(),
            prices,
            link,
            writes: vec![Write::NONE],
            access: 0,
            filled: None,
            cpu_busy: Span::ZERO,
            link_busy: Span::ZERO,
        }
    }

    /// Time of the next access. Accesses run one after the other.
    pub fn now(&self) -> Time {
        Time::ZERO + self.cpu_busy + self.link_busy
    }

    /// Total time of the CPU's accesses.
    pub fn cpu_busy(&self) -> Span {
        self.cpu_busy
    }

    /// Total link time of the device's accesses.
    pub fn link_busy(&self) -> Span {
        self.link_busy
    }

    /// Number of accesses so far.
    pub fn accesses(&self) -> u64 {
        self.access
    }

    /// A CPU load from memory mapped as `kind`. Returns which of the bytes read are stale.
    pub fn load(&mut self, address: u64, into: &mut [u8], kind: MemoryType) -> Vec<Stale> {
        self.access += 1;
        let mut reading = self.begin_read(Party::Cpu, into);
        for piece in pieces(address, reading.into.len()) {
            if kind.is_cacheable() {
                self.fill_if_missing(piece);
            } else {
                self.prepare_uncached_load(piece, kind);
            }
            self.read(piece, &mut reading);
        }
        reading.stale
    }

    /// A CPU store to memory mapped as `kind`.
    pub fn store(&mut self, address: u64, bytes: &[u8], kind: MemoryType) {
        let version = self.begin_write(Party::Cpu);
        for piece in pieces(address, bytes.len()) {
            let new = &bytes[piece.at..piece.at + piece.bytes];
            match kind {
                MemoryType::WriteBack => self.store_write_back(piece, new, version),
                MemoryType::WriteThrough => self.store_write_through(piece, new, version),
                MemoryType::WriteProtect => {
                    self.drain_line(piece.line);
                    self.evict_line(piece.line, OverwriteCause::SelfSnoop);
                    self.store_to_memory(piece, new, version);
                }
                MemoryType::WriteCombining => self.store_combined(piece, new, version),
                MemoryType::Uncacheable | MemoryType::UncachedMinus => {
                    self.evict_line(piece.line, OverwriteCause::SelfSnoop);
                    self.drain_all();
                    self.store_to_memory(piece, new, version);
                }
            }
            self.ram.slot(piece.line).record_write(version, piece.offset, piece.bytes);
        }
    }

    /// `CLFLUSH`: writes a dirty line back and removes it from the cache.
    pub fn flush(&mut self, address: u64) {
        self.access += 1;
        self.cpu_busy += self.prices.hits(1);
        self.evict_line(address - address % LINE_BYTES, OverwriteCause::Flush);
    }

    /// `SFENCE`, or an uncached access such as a doorbell write: drains all write-combining buffers.
    pub fn fence(&mut self) {
        self.access += 1;
        self.drain_all();
    }

    /// A DMA write.
    pub fn device_write(&mut self, address: u64, bytes: &[u8], snoop: Snoop) {
        let version = self.begin_write(Party::Device);
        for piece in pieces(address, bytes.len()) {
            if snoop == Snoop::Snooped {
                self.evict_line(piece.line, OverwriteCause::Snoop);
            }
            let slot = self.ram.slot(piece.line);
            slot.line.put(piece.offset, &bytes[piece.at..piece.at + piece.bytes], version);
            slot.record_write(version, piece.offset, piece.bytes);
        }
        self.link_busy += self.link.time_of(self.link.write_bytes(address, bytes.len() as u64));
    }

    /// A DMA read. Returns which of the bytes read are stale.
    pub fn device_read(&mut self, address: u64, into: &mut [u8], snoop: Snoop) -> Vec<Stale> {
        self.access += 1;
        let mut reading = self.begin_read(Party::Device, into);
        let bytes = reading.into.len();
        for piece in pieces(address, bytes) {
            if snoop == Snoop::Snooped {
                self.write_back_on_snoop(piece.line);
            }
            self.read(piece, &mut reading);
        }
        let bytes = bytes as u64;
        let wire =
            self.link.completion_bytes(address, bytes).max(self.link.read_request_bytes(address, bytes));
        self.link_busy += self.link.time_of(wire);
        reading.stale
    }

    /// Counts a write and returns its version number.
    fn begin_write(&mut self, by: Party) -> Version {
        self.access += 1;
        self.writes.push(Write { access: self.access, by: Some(by), at: self.now() });
        // A run has far fewer than 2^32 accesses.
        Version::try_from(self.writes.len() - 1).unwrap_or(Version::MAX)
    }

    /// Writes back the CPU's cached and write-combined data of a line before an uncached load, and counts the load's time.
    fn prepare_uncached_load(&mut self, piece: Piece, kind: MemoryType) {
        self.evict_line(piece.line, OverwriteCause::SelfSnoop);
        match kind {
            MemoryType::WriteCombining => self.drain_line(piece.line),
            _ => self.drain_all(),
        }
        self.cpu_busy += self.prices.uncached_loads(piece.bytes);
    }

    /// Fills a line into the cache, if it is missing.
    fn fill_if_missing(&mut self, piece: Piece) {
        self.drain_line(piece.line);
        self.cpu_busy += self.prices.hits(piece.bytes);
        if self.cache.touch(piece.line).is_none() {
            self.fill_line(piece.line);
        }
    }

    /// Fetches a line from memory into the cache, evicting another if the set is full.
    fn fill_line(&mut self, address: u64) {
        if let Some(evicted) = self.cache.make_room(address)
            && evicted.is_dirty
        {
            self.write_back(&evicted, OverwriteCause::Eviction);
        }
        self.cpu_busy += self.prices.fill(address, self.filled.replace(address));
        let line = self.ram.peek(address).line;
        self.cache.put(Cached { address, line, is_dirty: false, filled_at: self.access });
    }

    /// Stores to a cached line and marks it dirty.
    fn store_write_back(&mut self, piece: Piece, new: &[u8], version: Version) {
        self.fill_if_missing(piece);
        if let Some(cached) = self.cache.peek_mut(piece.line) {
            cached.line.put(piece.offset, new, version);
            cached.is_dirty = true;
        }
    }

    /// Stores to memory, and to the line if it is cached.
    fn store_write_through(&mut self, piece: Piece, new: &[u8], version: Version) {
        self.drain_line(piece.line);
        if let Some(cached) = self.cache.touch(piece.line) {
            cached.line.put(piece.offset, new, version);
        }
        self.store_to_memory(piece, new, version);
    }

    /// Stores to a write-combining buffer, draining a buffer that is full.
    fn store_combined(&mut self, piece: Piece, new: &[u8], version: Version) {
        self.evict_line(piece.line, OverwriteCause::SelfSnoop);
        if let Some(gathered) = self.buffers.make_room(piece.line) {
            self.drain_buffer(&gathered);
        }
        self.cpu_busy += self.prices.hits(piece.bytes);
        if let Some(gathered) = self.buffers.put(piece, new, version) {
            self.drain_buffer(&gathered);
        }
    }

    /// Stores to memory, bypassing cache and buffers.
    fn store_to_memory(&mut self, piece: Piece, new: &[u8], version: Version) {
        self.cpu_busy += self.prices.uncached_stores(piece.bytes);
        self.ram.slot(piece.line).line.put(piece.offset, new, version);
    }

    /// Removes a line from the cache, after writing it back if dirty.
    fn evict_line(&mut self, line: u64, by: OverwriteCause) {
        if let Some(cached) = self.cache.remove(line)
            && cached.is_dirty
        {
            self.write_back(&cached, by);
        }
    }

    /// A snooped read: writes a dirty line back and keeps it.
    fn write_back_on_snoop(&mut self, line: u64) {
        let Some(cached) = self.cache.peek_mut(line) else { return };
        if std::mem::take(&mut cached.is_dirty) {
            let cached = cached.clone();
            self.write_back(&cached, OverwriteCause::Snoop);
        }
    }

    /// Writes a dirty line to memory. A device's snoop costs no CPU time.
    fn write_back(&mut self, cached: &Cached, by: OverwriteCause) {
        if matches!(by, OverwriteCause::Eviction | OverwriteCause::Flush | OverwriteCause::SelfSnoop) {
            self.cpu_busy += self.prices.write_back();
        }
        self.ram.slot(cached.address).overwrite(&cached.line, |_| true, by, self.access);
    }

    /// Drains the line's write-combining buffer, if any.
    fn drain_line(&mut self, line: u64) {
        if let Some(gathered) = self.buffers.take(line) {
            self.drain_buffer(&gathered);
        }
    }

    /// Drains all write-combining buffers, oldest first.
    fn drain_all(&mut self) {
        while let Some(gathered) = self.buffers.take_first() {
            self.drain_buffer(&gathered);
        }
    }

    /// Writes a write-combining buffer's stored bytes to memory.
    fn drain_buffer(&mut self, gathered: &CombiningBuffer) {
        self.cpu_busy += self.prices.drain(gathered.stored);
        let slot = self.ram.slot(gathered.address);
        slot.overwrite(&gathered.line, |byte| gathered.has(byte), OverwriteCause::Drain, self.access);
    }

    /// Starts collecting the data and stale bytes of a read.
    fn begin_read<'a>(&self, reader: Party, into: &'a mut [u8]) -> Reading<'a> {
        Reading { reader, at: self.now(), into, stale: Vec::new() }
    }

    /// Reads a piece, the CPU from its cache if possible, the device from memory. Compares it with the last writes.
    fn read(&self, piece: Piece, reading: &mut Reading<'_>) {
        let slot = self.ram.peek(piece.line);
        let cached = self.cache.peek(piece.line).filter(|_| reading.reader == Party::Cpu);
        let line = cached.map_or(&slot.line, |cached| &cached.line);
        let places = piece.offset..piece.offset + piece.bytes;
        reading.into[piece.at..piece.at + piece.bytes].copy_from_slice(&line.bytes[places.clone()]);
        if line.versions[places.clone()] == slot.last[places.clone()] {
            return;
        }
        let copy =
            cached.map_or_else(|| self.pending_copy(piece.line), |cached| CpuCopy::Cached(cached.filled_at));
        for byte in places.filter(|byte| line.versions[*byte] != slot.last[*byte]) {
            let (seen, last) = (line.versions[byte], slot.last[byte]);
            reading.record_stale(Stale {
                address: piece.line + byte as u64,
                bytes: 1,
                reader: reading.reader,
                access: self.access,
                at: reading.at,
                seen: self.write_of(seen),
                missed: self.write_of(slot.next_after(seen, byte).unwrap_or(last)),
                cause: copy.stale_cause(slot, byte),
            });
        }
    }

    /// Finds the CPU's copy of a line that memory lacks: a dirty cache line, or else a write-combining buffer.
    fn pending_copy(&self, line: u64) -> CpuCopy<'_> {
        match self.cache.peek(line).filter(|cached| cached.is_dirty) {
            Some(dirty) => CpuCopy::Dirty(&dirty.line),
            None => CpuCopy::CombiningBuffer,
        }
    }

    /// Looks up the write with this version number.
    fn write_of(&self, version: Version) -> Write {
        self.writes.get(version as usize).copied().unwrap_or(Write::NONE)
    }
}

/// Where the CPU holds a newer or older copy of a line.
enum CpuCopy<'a> {
    /// In the cache, filled by this access; the CPU reads it there.
    Cached(u64),
    /// In the cache, dirty.
    Dirty(&'a Line),
    /// In a write-combining buffer.
    CombiningBuffer,
}

impl CpuCopy<'_> {
    /// Explains why a byte is stale.
    fn stale_cause(&self, slot: &LineRecord, byte: usize) -> Cause {
        match (slot.loss(byte), self) {
            (Some(loss), _) => Cause::WrittenOver { by: loss.by, access: loss.access },
            (None, Self::Cached(filled_at)) => Cause::CachedBefore { filled_at: *filled_at },
            (None, Self::Dirty(line)) if line.versions[byte] == slot.last[byte] => Cause::NotWrittenBack,
            (None, Self::Dirty(_) | Self::CombiningBuffer) => Cause::NotDrained,
        }
    }
}

/// A read in flight.
struct Reading<'a> {
    reader: Party,
    at: Time,
    into: &'a mut [u8],
    stale: Vec<Stale>,
}

impl Reading<'_> {
    /// Appends a stale byte, merging it with its neighbour if both have the same cause.
    fn record_stale(&mut self, one: Stale) {
        match self.stale.last_mut() {
            Some(known) if known.is_extended_by(&one) => known.bytes += 1,
            _ => self.stale.push(one),
        }
    }
}
