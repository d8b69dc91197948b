//! The same machine, byte by byte and slowly: what each place holds is a table of single bytes, and why a byte is stale is
//! found by trying what would have helped.

use host::memory::MemoryType;
use model::memory_type::{Cause, OverwriteCause, Party, Snoop};
use std::collections::BTreeMap;

pub(crate) const LINE: u64 = 64;

/// A byte with the number of the write that it is of.
type Bytes = BTreeMap<u64, (u8, usize)>;

#[derive(Debug, Clone)]
struct Kept {
    line: u64,
    is_dirty: bool,
    since: u64,
    bytes: Bytes,
}

/// Bytes that were carried to memory.
#[derive(Debug, Clone)]
struct Carried {
    by: OverwriteCause,
    access: u64,
    /// Writes that were made before.
    after: usize,
    bytes: Bytes,
}

#[derive(Debug, Clone)]
pub(crate) struct Reference {
    sets: u64,
    ways: usize,
    buffers_max: usize,
    memory: Bytes,
    /// The line that was used last comes first.
    cache: Vec<Kept>,
    /// The buffer that was opened first comes first.
    buffers: Vec<(u64, Bytes)>,
    /// The last write to each byte.
    last: BTreeMap<u64, usize>,
    /// Each write: the access, by whom, to which bytes.
    writes: Vec<(u64, Party, u64, u64)>,
    carried: Vec<Carried>,
    access: u64,
}

/// A stale byte as the reference has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Old {
    pub(crate) address: u64,
    /// The accesses of the write that was read, and of the first one that was not.
    pub(crate) seen: u64,
    pub(crate) missed: (u64, Party),
    pub(crate) cause: Cause,
}

fn line_of(address: u64) -> u64 {
    address - address % LINE
}

impl Reference {
    pub(crate) fn new(sets: u64, ways: usize, buffers_max: usize) -> Self {
        Self {
            sets,
            ways,
            buffers_max,
            memory: Bytes::new(),
            cache: Vec::new(),
            buffers: Vec::new(),
            last: BTreeMap::new(),
            writes: vec![(0, Party::Cpu, 0, 0)],
            carried: Vec::new(),
            access: 0,
        }
    }

    fn in_memory(&self, address: u64) -> (u8, usize) {
        self.memory.get(&address).copied().unwrap_or((0, 0))
    }

    fn carry(&mut self, by: OverwriteCause, bytes: Bytes) {
        self.memory.extend(bytes.clone());
        self.carried.push(Carried { by, access: self.access, after: self.writes.len(), bytes });
    }

    /// A line goes from the cache, to memory if it is dirty.
    fn drop_line(&mut self, line: u64, by: OverwriteCause) {
        let Some(place) = self.cache.iter().position(|kept| kept.line == line) else { return };
        let kept = self.cache.remove(place);
        if kept.is_dirty {
            self.carry(by, kept.bytes);
        }
    }

    fn drain(&mut self, wanted: impl Fn(u64) -> bool) {
        while let Some(place) = self.buffers.iter().position(|(line, _)| wanted(*line)) {
            let (_, bytes) = self.buffers.remove(place);
            self.carry(OverwriteCause::Drain, bytes);
        }
    }

    /// The line comes first in the cache.
    fn use_line(&mut self, line: u64) {
        self.drain(|one| one == line);
        if let Some(place) = self.cache.iter().position(|kept| kept.line == line) {
            let kept = self.cache.remove(place);
            self.cache.insert(0, kept);
            return;
        }
        let set = |line: u64| line / LINE % self.sets;
        let rivals: Vec<u64> =
            self.cache.iter().map(|kept| kept.line).filter(|one| set(*one) == set(line)).collect();
        if rivals.len() >= self.ways {
            self.drop_line(*rivals.last().unwrap(), OverwriteCause::Eviction);
        }
        let bytes = (line..line + LINE).map(|address| (address, self.in_memory(address))).collect();
        self.cache.insert(0, Kept { line, is_dirty: false, since: self.access, bytes });
    }

    pub(crate) fn store(&mut self, address: u64, new: &[u8], kind: MemoryType) {
        self.access += 1;
        self.writes.push((self.access, Party::Cpu, address, address + new.len() as u64));
        let number = self.writes.len() - 1;
        let mut lines: Vec<u64> = (address..address + new.len() as u64).map(line_of).collect();
        lines.dedup();
        for line in lines {
            let bytes: Bytes = (address..)
                .zip(new)
                .filter(|(address, _)| line_of(*address) == line)
                .map(|(address, byte)| (address, (*byte, number)))
                .collect();
            self.store_in_line(line, &bytes, kind);
            self.last.extend(bytes.keys().map(|address| (*address, number)));
        }
    }

    fn store_in_line(&mut self, line: u64, bytes: &Bytes, kind: MemoryType) {
        match kind {
            MemoryType::WriteBack => {
                self.use_line(line);
                self.cache[0].is_dirty = true;
                self.cache[0].bytes.extend(bytes.clone());
            }
            MemoryType::WriteThrough => {
                self.drain(|one| one == line);
                if self.cache.iter().any(|kept| kept.line == line) {
                    self.use_line(line);
                    self.cache[0].bytes.extend(bytes.clone());
                }
                self.memory.extend(bytes.clone());
            }
            MemoryType::WriteProtect => {
                self.drain(|one| one == line);
                self.drop_line(line, OverwriteCause::SelfSnoop);
                self.memory.extend(bytes.clone());
            }
            MemoryType::WriteCombining => {
                self.drop_line(line, OverwriteCause::SelfSnoop);
                self.gather(line, bytes);
            }
            MemoryType::Uncacheable | MemoryType::UncachedMinus => {
                self.drop_line(line, OverwriteCause::SelfSnoop);
                self.drain(|_| true);
                self.memory.extend(bytes.clone());
            }
        }
    }

    fn gather(&mut self, line: u64, bytes: &Bytes) {
        if !self.buffers.iter().any(|(one, _)| *one == line) {
            if self.buffers.len() == self.buffers_max {
                let first = self.buffers[0].0;
                self.drain(|one| one == first);
            }
            self.buffers.push((line, Bytes::new()));
        }
        let buffer = self.buffers.iter_mut().find(|(one, _)| *one == line).unwrap();
        buffer.1.extend(bytes.clone());
        if buffer.1.len() as u64 == LINE {
            self.drain(|one| one == line);
        }
    }

    pub(crate) fn flush(&mut self, address: u64) {
        self.access += 1;
        self.drop_line(line_of(address), OverwriteCause::Flush);
    }

    pub(crate) fn fence(&mut self) {
        self.access += 1;
        self.drain(|_| true);
    }

    pub(crate) fn device_write(&mut self, address: u64, new: &[u8], snoop: Snoop) {
        self.access += 1;
        self.writes.push((self.access, Party::Device, address, address + new.len() as u64));
        let number = self.writes.len() - 1;
        for (address, byte) in (address..).zip(new) {
            if snoop == Snoop::Snooped {
                self.drop_line(line_of(address), OverwriteCause::Snoop);
            }
            self.memory.insert(address, (*byte, number));
            self.last.insert(address, number);
        }
    }

    pub(crate) fn load(&mut self, address: u64, bytes: usize, kind: MemoryType) -> (Vec<u8>, Vec<Old>) {
        self.access += 1;
        let read = |one: &mut Self, address: u64| one.load_byte(address, kind);
        self.read(address, bytes, read)
    }

    fn load_byte(&mut self, address: u64, kind: MemoryType) -> (u8, usize) {
        let line = line_of(address);
        if kind.is_cacheable() {
            self.use_line(line);
            return self.cache[0].bytes[&address];
        }
        self.drop_line(line, OverwriteCause::SelfSnoop);
        self.drain(|one| kind != MemoryType::WriteCombining || one == line);
        self.in_memory(address)
    }

    pub(crate) fn device_read(&mut self, address: u64, bytes: usize, snoop: Snoop) -> (Vec<u8>, Vec<Old>) {
        self.access += 1;
        let read = |one: &mut Self, address: u64| {
            let line = line_of(address);
            let kept = one.cache.iter_mut().find(|kept| snoop == Snoop::Snooped && kept.line == line);
            if let Some(kept) = kept.filter(|kept| kept.is_dirty) {
                kept.is_dirty = false;
                let bytes = kept.bytes.clone();
                one.carry(OverwriteCause::Snoop, bytes);
            }
            one.in_memory(address)
        };
        self.read(address, bytes, read)
    }

    fn read(
        &mut self,
        address: u64,
        bytes: usize,
        read: impl Fn(&mut Self, u64) -> (u8, usize),
    ) -> (Vec<u8>, Vec<Old>) {
        let (mut values, mut old) = (Vec::new(), Vec::new());
        for address in address..address + bytes as u64 {
            let (value, seen) = read(self, address);
            values.push(value);
            if seen != self.last.get(&address).copied().unwrap_or(0) {
                old.push(self.explain(address, seen, &read));
            }
        }
        (values, old)
    }

    /// Tries what helps when the same is read again: what the access itself has destroyed, nothing brings back.
    fn explain(&self, address: u64, seen: usize, read: &impl Fn(&mut Self, u64) -> (u8, usize)) -> Old {
        let last = self.last[&address];
        let helps = |act: &dyn Fn(&mut Self)| {
            let mut other = self.clone();
            act(&mut other);
            read(&mut other, address).1 == last
        };
        let line = line_of(address);
        let kept = self.cache.iter().find(|kept| kept.line == line);
        let forgetting = helps(&|one| one.cache.retain(|kept| kept.line != line));
        let flushing = helps(&|one| one.drop_line(line, OverwriteCause::Flush));
        let draining = helps(&|one| one.drain(|_| true));
        let cause = match (forgetting, flushing, draining) {
            // A clean line may be flushed too: nothing of it goes to memory.
            (true, _, false) => Cause::CachedBefore { filled_at: kept.unwrap().since },
            (false, true, false) => Cause::NotWrittenBack,
            (false, false, true) => Cause::NotDrained,
            (false, false, false) => self.lost(address, last),
            several => panic!("{several:?} help at {address}"),
        };
        let missed = self.writes.iter().enumerate().skip(seen + 1);
        let missed =
            missed.map(|(_, write)| write).find(|(_, _, from, end)| (*from..*end).contains(&address));
        let &(access, by, ..) = missed.unwrap();
        Old { address, seen: self.writes[seen].0, missed: (access, by), cause }
    }

    /// The first time that an older byte was carried over the last one.
    fn lost(&self, address: u64, last: usize) -> Cause {
        let is_it = |carried: &&Carried| {
            carried.after > last && carried.bytes.get(&address).is_some_and(|(_, of)| *of < last)
        };
        let carried = self.carried.iter().find(is_it).unwrap();
        Cause::WrittenOver { by: carried.by, access: carried.access }
    }
}
