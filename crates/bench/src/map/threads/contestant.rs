//! What is compared: each allocator with and without tables, tables alone, mapping once, and mapping by a host.

use super::host::hypercall_host;
use super::tables::Tables;
use super::untranslated::Untranslated;
use super::virtio_iommu::{QUEUE_BYTES, VirtioIommu};
use crate::contestant::{Contestant, DIRECT, built_in_contestants, current_cpu};
use dma::tce::{Endpoint, EndpointAddress, Hypervisor, MemoryRange, Partition, PciSlot, TceWalk};
use dma::{
    BusAddress, DmaCounters, Domain, FRAME_BYTES, Frames, Iotlb, Limits, Mapper, MemoryAddress, Ram,
    SoftwareDomain, Translation, Unit, Vtd, Walk, Walked, Window,
};
use iova::{Allocator, Direct, Space};
use std::error::Error;
use std::sync::Arc;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// Memory of the model: tables, lists of entries, and the queue of requests. What is mapped lies beyond, and nobody accesses it.
const TABLES: MemoryAddress = MemoryAddress(0);
const TABLES_BYTES: u64 = 16 * MIB;
const LISTS: MemoryAddress = MemoryAddress(TABLES_BYTES);
const LISTS_BYTES: u64 = 1024 * FRAME_BYTES;
const QUEUE: MemoryAddress = MemoryAddress(LISTS.0 + LISTS_BYTES);
const RAM_BYTES: u64 = QUEUE.0 + QUEUE_BYTES;
/// The memory that threads map: each has its own part.
const MAPPED: MemoryAddress = MemoryAddress(GIB);
const MAPPED_BYTES: u64 = 2 * GIB;
/// Bus addresses that are allocated from.
const WINDOW_LAST: u64 = 4 * GIB - 1;
/// The default window of a POWER partition.
const TCE_WINDOW_BYTES: u64 = 2 * GIB;
const LIOBN: u32 = 1;
const LEVELS: u32 = 4;
/// The modelled IOTLB, which invalidations search.
const IOTLB_ENTRIES: usize = 64;
const IOTLB_WAYS: usize = 4;

/// The allocators that are measured with and without tables. Peers join them.
const ALLOCATORS: [&str; 5] = ["bitmap", "pool", "rbtree", "magazine", "percpu"];

/// One way of mapping memory from many threads.
#[derive(Debug, Clone)]
pub struct MapContestant {
    /// Its name.
    pub name: String,
    /// Its one-line description.
    pub what: String,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    /// No allocation and no table.
    Direct,
    /// An allocation without a table.
    Allocator(Contestant),
    /// An allocation, and entries of a table.
    Tables(Contestant),
    /// Entries of a table at fixed addresses.
    FixedTables,
    /// As `Tables`, and an invalidation at each unmapping.
    Strict,
    /// Mapped before the measurement; a pair of handovers is measured.
    Once,
    /// POWER's hypercalls, as function calls or to a host's thread.
    Tce { has_host: bool },
    /// virtio-iommu's requests to a host's thread.
    Virtio,
}

/// The built-in contestants, and two of each further allocator.
pub fn map_contestants(peers: &[Contestant]) -> Vec<MapContestant> {
    let built_in = built_in_contestants();
    let mut all = vec![made(
        DIRECT,
        "direct mapping: an offset is added, nothing is allocated or written",
        Kind::Direct,
    )];
    let allocators = ALLOCATORS.iter().filter_map(|name| built_in.iter().find(|one| one.name == *name));
    for allocator in allocators.chain(peers) {
        let Contestant { name, what, .. } = allocator;
        all.push(made(name, what, Kind::Allocator(allocator.clone())));
        let with = format!("{name}, and entries of VT-d's table; no invalidation");
        all.push(made(&format!("{name}+tables"), &with, Kind::Tables(allocator.clone())));
    }
    all.extend([
        made("tables", "entries of VT-d's table at an address that each thread keeps: nothing is allocated", Kind::FixedTables),
        made("percpu+strict", "percpu with VT-d's table, and an invalidation command under a lock at each unmapping; without the hardware's time", Kind::Strict),
        made("map-once", "memory stays mapped: a pair is sync_for_cpu and sync_for_device", Kind::Once),
        made("tce", "POWER: pool, and hypercalls that are function calls under the hypervisor's lock", Kind::Tce { has_host: false }),
        made("tce+host", "the same hypercalls, sent to a thread that stands in for the hypervisor; without the time of a trap", Kind::Tce { has_host: true }),
        made("virtio-iommu", "percpu with MAP and UNMAP requests to a thread that stands in for the device; each waits under one lock, as in Linux; without the time of a trap", Kind::Virtio),
    ]);
    all
}

fn made(name: &str, what: &str, kind: Kind) -> MapContestant {
    MapContestant { name: name.to_owned(), what: what.to_owned(), kind }
}

type Created<T> = Result<T, Box<dyn Error>>;

/// A contestant that can map.
pub(super) struct Ready {
    pub(super) mapper: Mapper,
    /// Whether memory stays mapped during a round.
    pub(super) is_once: bool,
    pub(super) per_pair: Expected,
    ram: Arc<Ram>,
    walk: Option<Arc<dyn Walk>>,
    virtio: Option<Arc<VirtioIommu>>,
}

/// What each pair must count; `None` for what is not counted exactly.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Expected {
    pub(super) allocations: u64,
    /// Entries written and cleared, besides one for each new table page.
    pub(super) table_entries: u64,
    pub(super) hypercalls: u64,
    pub(super) invalidations: u64,
}

impl Ready {
    /// The memory that a thread maps.
    pub(super) fn memory(thread: usize, bytes: u64) -> MemoryAddress {
        let each = bytes.next_power_of_two().max(FRAME_BYTES);
        MemoryAddress(MAPPED.0 + thread as u64 * each % MAPPED_BYTES)
    }

    /// The memory behind a bus address, as the IOMMU reads its table. `None` if nothing is mapped there, or it has no table.
    pub(super) fn walk(&self, at: BusAddress) -> Option<MemoryAddress> {
        let leaf = self.walk.as_ref()?.walk(&self.ram, at, &mut 0).ok()?;
        Some(leaf.lead(at))
    }

    /// Whether there is a table.
    pub(super) fn has_table(&self) -> bool {
        self.walk.is_some()
    }

    /// What a host counted by itself so far, and how many requests it refused.
    pub(super) fn served(&self) -> (DmaCounters, u64) {
        self.virtio.as_ref().map(|virtio| virtio.served()).unwrap_or_default()
    }
}

impl MapContestant {
    /// Builds the mapper, its table and the counts that each pair must show.
    pub(super) fn prepare(&self, bytes: u64) -> Created<Ready> {
        let ram = Arc::new(Ram::new(MemoryAddress(0), RAM_BYTES));
        let pages = bytes.div_ceil(FRAME_BYTES);
        let entries = 2 * pages;
        let ready = |mapper: Mapper, walk: Option<Arc<dyn Walk>>, per_pair| Ready {
            mapper: mapper.with_debug(false),
            is_once: false,
            per_pair,
            ram: Arc::clone(&ram),
            walk,
            virtio: None,
        };
        let counted =
            |allocations, table_entries| Expected { allocations, table_entries, ..Expected::default() };
        Ok(match &self.kind {
            Kind::Direct => ready(Mapper::direct(Limits::of_bits(64), 0), None, Expected::default()),
            Kind::Allocator(allocator) => {
                let mapper = translated(Arc::new(Untranslated(window())), allocator.allocator(&space())?)?;
                ready(mapper, None, counted(1, 0))
            }
            Kind::Tables(allocator) => {
                let (mapper, walk) = with_tables(&ram, allocator.allocator(&space())?)?;
                ready(mapper, Some(walk), counted(1, entries))
            }
            Kind::FixedTables => {
                let (mapper, walk) = with_tables(&ram, Box::new(Direct::new(0)))?;
                ready(mapper, Some(walk), counted(1, entries))
            }
            Kind::Strict => {
                let unit = Arc::new(Unit::new(Arc::clone(&ram), Iotlb::new(IOTLB_ENTRIES, IOTLB_WAYS)));
                let frames = Arc::new(Frames::new(TABLES, TABLES_BYTES));
                let domain = SoftwareDomain::<Vtd>::new(unit, frames, LEVELS)?;
                let walk = Vtd::walker(domain.table());
                let mapper = translated(Arc::new(domain), percpu()?)?;
                ready(mapper, Some(walk), Expected { invalidations: 1, ..counted(1, entries) })
            }
            Kind::Once => {
                let (mapper, walk) = with_tables(&ram, percpu()?)?;
                Ready { is_once: true, ..ready(mapper, Some(walk), Expected::default()) }
            }
            Kind::Tce { has_host } => {
                let (mapper, walk) = tce(&ram, *has_host)?;
                ready(mapper, Some(walk), Expected { hypercalls: 2, ..counted(1, entries) })
            }
            Kind::Virtio => {
                let tables = Arc::new(Tables::new(&ram, Frames::new(TABLES, TABLES_BYTES), window())?);
                let walk = tables.walk();
                let virtio = Arc::new(VirtioIommu::start(&ram, QUEUE, tables)?);
                let mapper = translated(Arc::clone(&virtio) as Arc<dyn Translation>, percpu()?)?;
                let expected = Expected { hypercalls: 2, ..counted(1, entries) };
                Ready { virtio: Some(virtio), ..ready(mapper, Some(walk), expected) }
            }
        })
    }
}

/// The bus addresses that are allocated from.
fn window() -> Window {
    let (first, last) = (BusAddress(0), BusAddress(WINDOW_LAST));
    Window { first, last, granule_bytes: FRAME_BYTES, reserved: Vec::new() }
}

/// The same in pages.
fn space() -> Space {
    Space::new(1, WINDOW_LAST / FRAME_BYTES)
}

/// This project's default allocator.
fn percpu() -> Created<Box<dyn Allocator + Send + Sync>> {
    Ok(iova::host_percpu::<iova::Trusting>(&space(), 4 * GIB / FRAME_BYTES)?)
}

/// A mapper of a translation with an allocator.
fn translated(
    translation: Arc<dyn Translation>,
    allocator: Box<dyn Allocator + Send + Sync>,
) -> Created<Mapper> {
    let domain = Domain::builder(translation).allocator(|_| Ok(allocator)).any_addresses().build()?;
    // Of 32 bits, so that a table of 48 bits is allocated from as the others are.
    Ok(Mapper::translated(Limits::of_bits(32), domain))
}

/// A mapper that writes tables, and the IOMMU's side of them.
fn with_tables(
    ram: &Arc<Ram>,
    allocator: Box<dyn Allocator + Send + Sync>,
) -> Created<(Mapper, Arc<dyn Walk>)> {
    let tables = Tables::new(ram, Frames::new(TABLES, TABLES_BYTES), window())?;
    let walk = tables.walk();
    Ok((translated(Arc::new(tables), allocator)?, walk))
}

/// A mapper with the default window of a POWER partition, and the host bridge's side of its table.
fn tce(ram: &Arc<Ram>, has_host: bool) -> Created<(Mapper, Arc<dyn Walk>)> {
    let memory = MemoryRange { start: LISTS, bytes: MAPPED.0 + MAPPED_BYTES - LISTS.0 };
    let hypervisor = Arc::new(Hypervisor::new(Arc::clone(ram), [memory]));
    let address = EndpointAddress { config: 0x10000, buid: 1 };
    let tables = MemoryRange { start: TABLES, bytes: TABLES_BYTES };
    hypervisor.add(Endpoint {
        address,
        liobn: LIOBN,
        default_bytes: TCE_WINDOW_BYTES,
        tables,
        offer: None,
    })?;
    let walk = TceWalk::new(hypervisor.table(LIOBN).ok_or("no window")?);
    let lists = Frames::new(LISTS, LISTS_BYTES);
    let partition =
        Partition::new(Arc::clone(&hypervisor), Arc::clone(ram), lists, vec![memory], "", current_cpu);
    let partition = if has_host { partition.with_trap(hypercall_host(hypervisor)?) } else { partition };
    let slot = PciSlot::new(Arc::new(partition), address)?.ok_or("no endpoint")?;
    Ok((slot.default_mapper(Limits::of_bits(32)), Arc::new(walk)))
}
