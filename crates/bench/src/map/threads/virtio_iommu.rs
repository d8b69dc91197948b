//! virtio-iommu: a guest's driver, and the device in a host's thread, with a queue of requests in shared memory between them.
//!
//! The driver does what Linux's does (`drivers/iommu/virtio-iommu.c`, 6.12). It keeps its mappings in a tree under a lock. A map
//! or unmap adds a request to the queue under `request_lock`. Then `viommu_sync_req` takes that lock again, kicks the device and
//! polls until all requests are done, the lock held: at each map (`iotlb_sync_map`), and in strict mode at each unmap
//! (`iotlb_sync`). A full queue is synchronised as well. As in Linux, nobody reads the status of such a request. Here the device
//! counts what it refused.
//!
//! Requests have the bytes of VIRTIO 1.2, section 5.13.6. The queue is simpler than a split virtqueue: request `n` is in place
//! `n` modulo their number, and two numbers count the requests added and used.

use super::host::{start, wait_for};
use super::tables::Tables;
use dma::{
    Access, BusAddress, ByteOrder, DmaCounters, MapError, MemoryAddress, NoMemory, Ram, Translation,
    UnmapError, Window,
};
use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Requests that the queue holds.
const PLACES: u64 = 64;
/// Bytes of a place: the longest request is 40.
const PLACE_BYTES: u64 = 64;
/// Offsets in the queue's memory. Each number has a cache line of its own.
const ADDED: u64 = 0;
const USED: u64 = 128;
const REQUESTS: u64 = 256;
/// Memory of the queue.
pub(super) const QUEUE_BYTES: u64 = REQUESTS + PLACES * PLACE_BYTES;

/// The only domain.
const DOMAIN: u32 = 1;
/// `VIRTIO_IOMMU_T_MAP` and `VIRTIO_IOMMU_T_UNMAP`.
const MAP: u8 = 3;
const UNMAP: u8 = 4;
/// `VIRTIO_IOMMU_MAP_F_READ` and `VIRTIO_IOMMU_MAP_F_WRITE`.
const READ: u32 = 1;
const WRITE: u32 = 2;
/// `VIRTIO_IOMMU_S_*`
const OK: u8 = 0;
const INVALID: u8 = 4;
const RANGE: u8 = 5;
const NO_ENTRY: u8 = 6;

/// A request without its tail, whose only field is the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    /// `struct virtio_iommu_req_map`: 36 bytes and the tail.
    Map { domain: u32, first: u64, last: u64, memory: u64, flags: u32 },
    /// `struct virtio_iommu_req_unmap`: 28 bytes and the tail.
    Unmap { domain: u32, first: u64, last: u64 },
}

impl Request {
    /// Its bytes, and how many of them it has.
    fn encode(self) -> ([u8; 36], usize) {
        let mut bytes = [0; 36];
        let (kind, domain, first, last) = match self {
            Self::Map { domain, first, last, .. } => (MAP, domain, first, last),
            Self::Unmap { domain, first, last } => (UNMAP, domain, first, last),
        };
        bytes[0] = kind;
        bytes[4..8].copy_from_slice(&domain.to_le_bytes());
        bytes[8..16].copy_from_slice(&first.to_le_bytes());
        bytes[16..24].copy_from_slice(&last.to_le_bytes());
        let Self::Map { memory, flags, .. } = self else { return (bytes, 28) };
        bytes[24..32].copy_from_slice(&memory.to_le_bytes());
        bytes[32..36].copy_from_slice(&flags.to_le_bytes());
        (bytes, 36)
    }

    /// The device's reading of a place; `None` for a request of another type.
    fn decode(bytes: &[u8; 36]) -> Option<Self> {
        let number = |from: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[from + byte]));
        let short = |from: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[from + byte]));
        let (domain, first, last) = (short(4), number(8), number(16));
        match bytes[0] {
            MAP => Some(Self::Map { domain, first, last, memory: number(24), flags: short(32) }),
            UNMAP => Some(Self::Unmap { domain, first, last }),
            _ => None,
        }
    }

    /// Bytes before the tail, for the device.
    fn bytes(self) -> u64 {
        match self {
            Self::Map { .. } => 36,
            Self::Unmap { .. } => 28,
        }
    }
}

/// The queue in memory that guest and host share.
#[derive(Clone)]
struct Queue {
    ram: Arc<Ram>,
    at: MemoryAddress,
}

impl Queue {
    /// The place of a request.
    fn place(&self, number: u64) -> MemoryAddress {
        MemoryAddress(self.at.0 + REQUESTS + number % PLACES * PLACE_BYTES)
    }

    /// One of the two numbers.
    fn number(&self, offset: u64) -> Result<u64, NoMemory> {
        self.ram.read_u64(MemoryAddress(self.at.0 + offset), ByteOrder::Little)
    }

    /// Writes one of the two numbers, after all before it.
    fn set_number(&self, offset: u64, number: u64) -> Result<(), NoMemory> {
        self.ram.write_u64(MemoryAddress(self.at.0 + offset), ByteOrder::Little, number)
    }
}

/// What the device did.
#[derive(Debug, Default)]
struct Served {
    counters: DmaCounters,
    /// Requests with another status than success.
    refused: u64,
}

/// The guest's driver.
pub(super) struct VirtioIommu {
    window: Window,
    queue: Queue,
    /// `request_lock`, with the number of requests added.
    requests: Mutex<u64>,
    doorbell: Sender<()>,
    /// The last address and the memory of each mapping, by its first address.
    mappings: Mutex<BTreeMap<u64, (u64, MemoryAddress)>>,
    served: Arc<Mutex<Served>>,
}

impl VirtioIommu {
    /// A driver, and a device in a thread of its own that writes `tables`. The queue is at `queue` in the memory.
    pub(super) fn start(ram: &Arc<Ram>, queue: MemoryAddress, tables: Arc<Tables>) -> io::Result<Self> {
        let queue = Queue { ram: Arc::clone(ram), at: queue };
        let window = tables.window().clone();
        let served = Arc::new(Mutex::new(Served::default()));
        let device = Device { queue: queue.clone(), tables, served: Arc::clone(&served) };
        let doorbell = start("virtio-iommu", move |()| device.serve_all())?;
        let (requests, mappings) = (Mutex::new(0), Mutex::default());
        Ok(Self { window, queue, requests, doorbell, mappings, served })
    }

    /// What the device did so far, and how many requests it refused.
    pub(super) fn served(&self) -> (DmaCounters, u64) {
        let served = lock(&self.served);
        (served.counters, served.refused)
    }

    /// Adds a request to the queue (`viommu_add_req`).
    fn add(&self, request: Request, counters: &mut DmaCounters) -> Result<(), NoMemory> {
        let mut added = lock(&self.requests);
        if *added - self.queue.number(USED)? == PLACES {
            self.wait(*added, counters)?;
        }
        let (bytes, length) = request.encode();
        self.queue.ram.write(self.queue.place(*added), &bytes[..length])?;
        *added += 1;
        Ok(())
    }

    /// Waits until the device has used all requests (`viommu_sync_req`).
    fn sync(&self, counters: &mut DmaCounters) -> Result<(), NoMemory> {
        self.wait(*lock(&self.requests), counters)
    }

    /// Kicks the device and polls, while the caller holds `request_lock`. It kicks even if another thread's wait included these
    /// requests, as Linux does.
    fn wait(&self, added: u64, counters: &mut DmaCounters) -> Result<(), NoMemory> {
        self.queue.set_number(ADDED, added)?;
        counters.hypercalls += 1;
        if self.doorbell.send(()).is_err() {
            return Err(NoMemory { at: self.queue.at, bytes: QUEUE_BYTES });
        }
        wait_for(|| match self.queue.number(USED) {
            Ok(used) => (used == added).then_some(Ok(())),
            Err(none) => Some(Err(none)),
        })
    }
}

impl Translation for VirtioIommu {
    fn window(&self) -> &Window {
        &self.window
    }

    fn map(
        &self,
        at: BusAddress,
        memory: MemoryAddress,
        bytes: u64,
        access: Access,
        counters: &mut DmaCounters,
    ) -> Result<(), MapError> {
        self.window.check(at, memory, bytes)?;
        let (first, last) = (at.0, at.0 + (bytes - 1));
        if lock(&self.mappings).insert(first, (last, memory)).is_some() {
            return Err(MapError::Mapped { at });
        }
        let flags = if access.reads() { READ } else { 0 } | if access.writes() { WRITE } else { 0 };
        let request = Request::Map { domain: DOMAIN, first, last, memory: memory.0, flags };
        let done = self.add(request, counters).and_then(|()| self.sync(counters));
        done.map_err(|why| MapError::Refused { what: "MAP", why: why.to_string() })
    }

    fn unmap(&self, at: BusAddress, bytes: u64, counters: &mut DmaCounters) -> Result<(), UnmapError> {
        let last = lock(&self.mappings).remove(&at.0).map(|(last, _)| last);
        let last = last.filter(|last| *last - at.0 == bytes - 1).ok_or(UnmapError::NotMapped { at })?;
        let request = Request::Unmap { domain: DOMAIN, first: at.0, last };
        let refused = |why: NoMemory| UnmapError::Refused { what: "UNMAP", why: why.to_string() };
        self.add(request, counters).map_err(refused)
    }

    fn invalidate(&self, _at: BusAddress, _bytes: u64, counters: &mut DmaCounters) {
        self.invalidate_all(counters);
    }

    fn invalidate_all(&self, counters: &mut DmaCounters) {
        // The queue is in this process's memory: a failure would be one of `Queue`, which `map` reports.
        let _ = self.sync(counters);
    }

    fn find(&self, at: BusAddress) -> Option<MemoryAddress> {
        let mappings = lock(&self.mappings);
        let (first, (last, memory)) = mappings.range(..=at.0).next_back()?;
        (at.0 <= *last).then_some(MemoryAddress(memory.0 + (at.0 - first)))
    }
}

/// The device.
struct Device {
    queue: Queue,
    tables: Arc<Tables>,
    served: Arc<Mutex<Served>>,
}

impl Device {
    /// Serves all requests in the queue. Without its memory it serves none.
    fn serve_all(&self) {
        let _ = self.try_serve_all();
    }

    fn try_serve_all(&self) -> Result<(), NoMemory> {
        let mut used = self.queue.number(USED)?;
        while used != self.queue.number(ADDED)? {
            let place = self.queue.place(used);
            let mut bytes = [0; 36];
            self.queue.ram.read(place, &mut bytes)?;
            let request = Request::decode(&bytes);
            let status = request.map_or(INVALID, |request| self.serve(request));
            let tail = MemoryAddress(place.0 + request.map_or(0, Request::bytes));
            self.queue.ram.write(tail, &[status, 0, 0, 0])?;
            used += 1;
            self.queue.set_number(USED, used)?;
        }
        Ok(())
    }

    /// Serves a request and returns its status.
    fn serve(&self, request: Request) -> u8 {
        let mut served = lock(&self.served);
        let counters = &mut served.counters;
        let status = match request {
            Request::Map { domain, first, last, memory, flags } => {
                self.map(domain, (first, last), memory, flags, counters)
            }
            Request::Unmap { domain, first, last } => self.unmap(domain, (first, last), counters),
        };
        served.refused += u64::from(status != OK);
        status
    }

    fn map(&self, domain: u32, range: (u64, u64), memory: u64, flags: u32, counters: &mut DmaCounters) -> u8 {
        let access = Access::of(flags & READ != 0, flags & WRITE != 0);
        let (true, Some(bytes), Some(access)) = (domain == DOMAIN, length(range), access) else {
            return INVALID;
        };
        let mapped = self.tables.map(BusAddress(range.0), MemoryAddress(memory), bytes, access, counters);
        match mapped {
            Ok(()) => OK,
            Err(MapError::Mapped { .. }) => INVALID,
            Err(_) => RANGE,
        }
    }

    fn unmap(&self, domain: u32, range: (u64, u64), counters: &mut DmaCounters) -> u8 {
        let (true, Some(bytes)) = (domain == DOMAIN, length(range)) else { return NO_ENTRY };
        let at = BusAddress(range.0);
        if self.tables.unmap(at, bytes, counters).is_err() {
            return RANGE;
        }
        self.tables.invalidate(at, bytes, counters);
        OK
    }
}

/// The bytes from the first to the last address.
fn length((first, last): (u64, u64)) -> Option<u64> {
    last.checked_sub(first)?.checked_add(1)
}

/// Locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes by hand, from the structures in VIRTIO 1.2, section 5.13.6.
    #[test]
    fn requests_have_the_bytes_of_the_specification() {
        let map = Request::Map { domain: 1, first: 0x1000, last: 0x1fff, memory: 0x12_3000, flags: 3 };
        let (bytes, length) = map.encode();
        let mut expected = [0; 36];
        (expected[0], expected[4]) = (3, 1);
        expected[9] = 0x10;
        (expected[16], expected[17]) = (0xff, 0x1f);
        (expected[25], expected[26]) = (0x30, 0x12);
        expected[32] = 3;
        assert_eq!((bytes, length), (expected, 36));
        assert_eq!(Request::decode(&bytes), Some(map));

        let unmap = Request::Unmap { domain: 1, first: 0x1000, last: 0x1fff };
        let (bytes, length) = unmap.encode();
        (expected[0], expected[25], expected[26], expected[32]) = (4, 0, 0, 0);
        assert_eq!((bytes, length), (expected, 28));
        assert_eq!(Request::decode(&bytes), Some(unmap));
        assert_eq!(Request::decode(&[0; 36]), None);
    }
}
