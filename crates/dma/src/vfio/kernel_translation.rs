//! Records of what the kernel was asked to map: the kernel can't be asked later.

use super::error::VfioError;
use crate::{Access, BusAddress, DmaCounters, MapError, MemoryAddress, Ram, Translation, UnmapError, Window};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A translation by the host's IOMMU, through one of the kernel's interfaces.
#[derive(Debug)]
pub struct KernelTranslation<C> {
    pub(super) calls: C,
    records: MappingRecords,
}

/// The map and unmap calls of an interface.
pub trait MapCalls: Send + Sync {
    /// Name of the map call, for errors.
    const MAP: &'static str;
    /// Name of the unmap call, for errors.
    const UNMAP: &'static str;

    /// Maps. Returns the call's result.
    fn map(&self, wanted: MapRequest) -> Result<i32, Errno>;

    /// Unmaps. Returns the call's result.
    fn unmap(&self, at: BusAddress, bytes: u64) -> Result<i32, Errno>;

    /// Whether all accesses of the devices snoop; `None` where the interface does not say.
    fn forces_snooping(&self) -> Option<bool> {
        None
    }
}

impl<C> KernelTranslation<C> {
    /// A translation by these calls, without mappings.
    pub(super) fn new(calls: C, memories: ProcessMemories, window: Window) -> Self {
        Self { calls, records: MappingRecords { memories, window, mapped: Mutex::default() } }
    }
}

impl<C: MapCalls> Translation for KernelTranslation<C> {
    fn window(&self) -> &Window {
        &self.records.window
    }

    fn map(
        &self,
        at: BusAddress,
        memory: MemoryAddress,
        bytes: u64,
        access: Access,
        counters: &mut DmaCounters,
    ) -> Result<(), MapError> {
        self.records.map(MapRequest { at, memory, bytes, access }, &self.calls, counters)
    }

    fn unmap(&self, at: BusAddress, bytes: u64, counters: &mut DmaCounters) -> Result<(), UnmapError> {
        self.records.unmap(at, bytes, &self.calls, counters)
    }

    /// Does nothing: the kernel invalidates when it unmaps.
    fn invalidate(&self, _at: BusAddress, _bytes: u64, _counters: &mut DmaCounters) {}

    /// Does nothing, likewise.
    fn invalidate_all(&self, _counters: &mut DmaCounters) {}

    fn unmap_invalidates(&self) -> bool {
        true
    }

    fn forces_snooping(&self) -> Option<bool> {
        self.calls.forces_snooping()
    }

    /// The memory that a bus address is mapped to.
    fn find(&self, at: BusAddress) -> Option<MemoryAddress> {
        self.records.find(at)
    }
}

/// Memories whose addresses are virtual addresses of this process. The kernel maps whatever is at a virtual address, so
/// an address of anything else would let the adapter write to memory that Rust owns.
#[derive(Debug)]
pub(super) struct ProcessMemories(Vec<Arc<Ram>>);

impl ProcessMemories {
    /// Fails unless each memory is from [`Ram::of_this_process`] or [`Ram::reserved`].
    pub(super) fn new(memories: &[Arc<Ram>]) -> Result<Self, VfioError> {
        match memories.iter().all(|memory| memory.is_at_virtual_addresses()) {
            true => Ok(Self(memories.to_vec())),
            false => Err(VfioError::NotOfThisProcess),
        }
    }

    /// All of them.
    pub(super) fn all(&self) -> &[Arc<Ram>] {
        &self.0
    }

    /// Whether all of `bytes` from `at` are in one of the memories.
    fn holds(&self, at: MemoryAddress, bytes: u64) -> bool {
        self.0.iter().any(|memory| memory.holds(at, bytes))
    }
}

/// The memory that may be mapped, and the current mappings.
#[derive(Debug)]
struct MappingRecords {
    memories: ProcessMemories,
    window: Window,
    mapped: Mutex<BTreeMap<u64, Mapped>>,
}

#[derive(Debug, Clone, Copy)]
struct Mapped {
    memory: MemoryAddress,
    bytes: u64,
}

/// Arguments of a map call.
#[derive(Debug, Clone, Copy)]
pub struct MapRequest {
    pub(super) at: BusAddress,
    pub(super) memory: MemoryAddress,
    pub(super) bytes: u64,
    pub(super) access: Access,
}

impl MappingRecords {
    /// Maps through the kernel, and records it.
    fn map<C: MapCalls>(
        &self,
        wanted: MapRequest,
        calls: &C,
        counters: &mut DmaCounters,
    ) -> Result<(), MapError> {
        self.window.check(wanted.at, wanted.memory, wanted.bytes)?;
        if !self.memories.holds(wanted.memory, wanted.bytes) {
            return Err(MapError::OtherMemory { memory: wanted.memory, bytes: wanted.bytes });
        }
        let mut mapped = self.mapped();
        if let Some((at, _)) = overlapping_mapping(&mapped, wanted.at.0, wanted.bytes) {
            return Err(MapError::Mapped { at: BusAddress(at) });
        }
        counters.hypercalls += 1;
        calls.map(wanted).map_err(|error| MapError::Refused { what: C::MAP, why: explain(error) })?;
        mapped.insert(wanted.at.0, Mapped { memory: wanted.memory, bytes: wanted.bytes });
        Ok(())
    }

    /// Unmaps whole mappings that follow each other without a gap.
    fn unmap<C: MapCalls>(
        &self,
        at: BusAddress,
        bytes: u64,
        calls: &C,
        counters: &mut DmaCounters,
    ) -> Result<(), UnmapError> {
        let granule_bytes = self.window.granule_bytes;
        // Compute with the last byte: the range may end with the last address there is.
        let last = bytes.checked_sub(1).and_then(|after_first| at.0.checked_add(after_first));
        let last = last.ok_or(UnmapError::Unaligned { at, bytes, granule_bytes })?;
        let mut mapped = self.mapped();
        let mut left = bytes;
        while left > 0 {
            let next = last - (left - 1);
            let whole = mapped.get(&next).ok_or_else(|| match mapping_at(&mapped, next) {
                Some((at, page)) => UnmapError::CutsPage { at: BusAddress(at), page_bytes: page.bytes },
                None => UnmapError::NotMapped { at: BusAddress(next) },
            })?;
            let cut = UnmapError::CutsPage { at: BusAddress(next), page_bytes: whole.bytes };
            left = left.checked_sub(whole.bytes).ok_or(cut)?;
        }
        counters.hypercalls += 1;
        calls
            .unmap(at, bytes)
            .map_err(|error| UnmapError::Refused { what: C::UNMAP, why: explain(error) })?;
        while let Some((start, _)) = mapped.range(at.0..=last).next().map(|(start, whole)| (*start, *whole)) {
            mapped.remove(&start);
        }
        Ok(())
    }

    fn find(&self, at: BusAddress) -> Option<MemoryAddress> {
        let mapped = self.mapped();
        let (start, whole) = mapping_at(&mapped, at.0)?;
        whole.memory.checked_add(at.0 - start)
    }

    /// All mappings by bus address, locked.
    fn mapped(&self) -> MutexGuard<'_, BTreeMap<u64, Mapped>> {
        self.mapped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The mapping that contains an address.
fn mapping_at(mapped: &BTreeMap<u64, Mapped>, at: u64) -> Option<(u64, Mapped)> {
    let (start, whole) = mapped.range(..=at).next_back()?;
    (at - start < whole.bytes).then_some((*start, *whole))
}

/// A mapping that overlaps a range.
fn overlapping_mapping(mapped: &BTreeMap<u64, Mapped>, at: u64, bytes: u64) -> Option<(u64, Mapped)> {
    let last = at.saturating_add(bytes.saturating_sub(1));
    let inside = || mapped.range(at..=last).next().map(|(start, whole)| (*start, *whole));
    mapping_at(mapped, at).or_else(inside)
}

/// The kernel's error and its usual meaning here (`drivers/vfio/vfio_iommu_type1.c`,
/// `drivers/iommu/iommufd/io_pagetable.c`).
fn explain(error: Errno) -> String {
    let meaning = match error {
        Errno::NOMEM => "; more memory would be locked than `ulimit -l` allows, or memory is short",
        Errno::NOSPC => "; more mappings than vfio_iommu_type1's parameter dma_entry_limit allows",
        Errno::EXIST | Errno::ADDRINUSE => "; mapped already by this process, or in a reserved range",
        Errno::FAULT => "; iommufd maps no memory of devices, and none of /dev/mem",
        Errno::INVAL => "; the IOMMU has no such address range, or these are not whole pages",
        _ => "",
    };
    format!("{error}{meaning}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfio::{Iommufd, Spapr, Type1};
    use std::sync::atomic::{AtomicU32, Ordering};

    const PAGE: u64 = 4096;

    /// A kernel that does what it is asked, or refuses.
    #[derive(Default)]
    struct Fake {
        refuses: Mutex<Option<Errno>>,
        calls: AtomicU32,
    }

    impl Fake {
        fn answer(&self) -> Result<i32, Errno> {
            self.calls.fetch_add(1, Ordering::Relaxed);
            self.refuses.lock().unwrap().map_or(Ok(0), Err)
        }

        fn refuse(&self, error: Option<Errno>) {
            *self.refuses.lock().unwrap() = error;
        }
    }

    impl MapCalls for Fake {
        const MAP: &'static str = "MAP";
        const UNMAP: &'static str = "UNMAP";

        fn map(&self, _wanted: MapRequest) -> Result<i32, Errno> {
            self.answer()
        }

        fn unmap(&self, _at: BusAddress, _bytes: u64) -> Result<i32, Errno> {
            self.answer()
        }
    }

    fn kernel() -> KernelTranslation<Fake> {
        kernel_with(&[16])
    }

    /// A kernel that may map memories of these numbers of pages.
    fn kernel_with(pages: &[u64]) -> KernelTranslation<Fake> {
        let memory = |pages: &u64| Arc::new(Ram::of_this_process(pages * PAGE).unwrap());
        let memories = ProcessMemories::new(&pages.iter().map(memory).collect::<Vec<_>>()).unwrap();
        let (first, last) = (BusAddress(PAGE), BusAddress(u64::MAX));
        let window = Window { first, last, granule_bytes: PAGE, reserved: Vec::new() };
        KernelTranslation::new(Fake::default(), memories, window)
    }

    /// The address at an offset from the memory's first byte.
    fn memory_at(kernel: &KernelTranslation<Fake>, offset: u64) -> MemoryAddress {
        MemoryAddress(kernel.records.memories.0[0].base().0.wrapping_add(offset))
    }

    fn map(kernel: &KernelTranslation<Fake>, at: u64, offset: u64, bytes: u64) -> Result<(), MapError> {
        let memory = memory_at(kernel, offset);
        kernel.map(BusAddress(at), memory, bytes, Access::Read, &mut DmaCounters::default())
    }

    fn unmap(kernel: &KernelTranslation<Fake>, at: u64, bytes: u64) -> Result<(), UnmapError> {
        kernel.unmap(BusAddress(at), bytes, &mut DmaCounters::default())
    }

    /// The kernel would take a model's or a physical address for a virtual one, of whatever is there in this process.
    #[test]
    fn memory_at_other_than_virtual_addresses_is_refused() {
        let own = Box::new([0_u64; 512]);
        let address = MemoryAddress(own.as_ptr().addr() as u64);
        let refused = |memory| matches!(ProcessMemories::new(&[memory]), Err(VfioError::NotOfThisProcess));
        assert!(refused(Arc::new(Ram::new(address, PAGE))));
        // Only root sees physical addresses, and huge pages must be free.
        if let Ok(pinned) = Ram::pinned(PAGE) {
            assert!(refused(Arc::new(pinned)));
        }
    }

    #[test]
    fn devices_are_not_opened_without_memory_of_this_process() {
        let memory = [Arc::new(Ram::new(MemoryAddress(PAGE), PAGE))];
        let nobody = ["0000:ff:1f.7"];
        let refused = |error: Option<VfioError>| matches!(error, Some(VfioError::NotOfThisProcess));
        assert!(refused(Type1::open(&nobody, &memory).err()));
        assert!(refused(Iommufd::open(&nobody, &memory).err()));
        assert!(refused(Spapr::open(&nobody, &memory).err()));
        assert!(refused(Spapr::open_in_new_window(&nobody, &memory, 16, 1 << 30).err()));
    }

    #[test]
    fn only_memory_that_was_given_is_mapped_and_nothing_twice() {
        let kernel = kernel();
        map(&kernel, 0x4000, PAGE, 2 * PAGE).unwrap();
        assert_eq!(kernel.find(BusAddress(0x5123)), Some(memory_at(&kernel, 0x2123)));
        for (offset, bytes) in [(PAGE.wrapping_neg(), PAGE), (16 * PAGE, PAGE), (15 * PAGE, 2 * PAGE)] {
            let memory = memory_at(&kernel, offset);
            assert_eq!(map(&kernel, 0x9000, offset, bytes), Err(MapError::OtherMemory { memory, bytes }));
        }
        for (at, bytes) in [(0x4000, PAGE), (0x5000, PAGE), (0x3000, 2 * PAGE), (0x3000, 8 * PAGE)] {
            assert_eq!(map(&kernel, at, 0, bytes), Err(MapError::Mapped { at: BusAddress(0x4000) }));
        }
        assert!(matches!(map(&kernel, 0, 0, PAGE), Err(MapError::Outside { .. })));
        assert!(matches!(map(&kernel, 0x9001, 0, PAGE), Err(MapError::Unaligned { .. })));
        assert_eq!(kernel.calls.calls.load(Ordering::Relaxed), 1, "the kernel is asked for none of these");
    }

    #[test]
    fn each_of_several_memories_is_mapped_and_nothing_across_their_ends() {
        let kernel = kernel_with(&[16, 4]);
        let [first, second] = &kernel.records.memories.0[..] else { panic!("two memories") };
        let map = |memory, bytes| {
            kernel.map(BusAddress(0x4000), memory, bytes, Access::Read, &mut DmaCounters::default())
        };
        for ram in [first, second] {
            let beyond = MemoryAddress(ram.base().0 + ram.bytes());
            let across = MemoryAddress(beyond.0 - PAGE);
            // The two may be side by side.
            let bytes = ram.bytes() + PAGE;
            assert_eq!(map(ram.base(), bytes), Err(MapError::OtherMemory { memory: ram.base(), bytes }));
            map(across, PAGE).unwrap();
            kernel.unmap(BusAddress(0x4000), PAGE, &mut DmaCounters::default()).unwrap();
        }
    }

    #[test]
    fn whole_mappings_are_unmapped_and_nothing_else() {
        let kernel = kernel();
        map(&kernel, 0x4000, 0, 2 * PAGE).unwrap();
        map(&kernel, 0x6000, 4 * PAGE, PAGE).unwrap();
        let cut = |at, page_bytes| Err(UnmapError::CutsPage { at: BusAddress(at), page_bytes });
        let hole = |at| Err(UnmapError::NotMapped { at: BusAddress(at) });
        assert_eq!(unmap(&kernel, 0x4000, PAGE), cut(0x4000, 2 * PAGE));
        assert_eq!(unmap(&kernel, 0x5000, 2 * PAGE), cut(0x4000, 2 * PAGE));
        assert_eq!(unmap(&kernel, 0x4000, 4 * PAGE), hole(0x7000));
        assert_eq!(unmap(&kernel, 0x3000, PAGE), hole(0x3000));
        assert!(matches!(unmap(&kernel, u64::MAX - 5, 100), Err(UnmapError::Unaligned { .. })));
        assert!(kernel.find(BusAddress(0x6000)).is_some(), "nothing of that changed anything");
        unmap(&kernel, 0x4000, 3 * PAGE).unwrap();
        assert_eq!(unmap(&kernel, 0x4000, 3 * PAGE), hole(0x4000));
    }

    /// The range ends at 2^64, which is no 64-bit number.
    #[test]
    fn the_last_pages_are_mapped_and_unmapped() {
        let kernel = kernel();
        let top = PAGE.wrapping_neg();
        map(&kernel, top, 0, PAGE).unwrap();
        map(&kernel, top - 2 * PAGE, PAGE, 2 * PAGE).unwrap();
        assert_eq!(map(&kernel, top, 0, PAGE), Err(MapError::Mapped { at: BusAddress(top) }));
        unmap(&kernel, top - 2 * PAGE, 3 * PAGE).unwrap();
        assert_eq!(kernel.find(BusAddress(top)), None);
        assert_eq!(unmap(&kernel, top, PAGE), Err(UnmapError::NotMapped { at: BusAddress(top) }));
        assert!(matches!(unmap(&kernel, top, PAGE + 1), Err(UnmapError::Unaligned { .. })));
    }

    #[test]
    fn refusals_of_the_kernel_are_explained() {
        let kernel = kernel();
        kernel.calls.refuse(Some(Errno::NOMEM));
        let error = map(&kernel, 0x4000, 0, PAGE).unwrap_err();
        assert!(error.to_string().starts_with("MAP was refused: "), "{error}");
        assert!(error.to_string().contains("ulimit -l"), "{error}");
        assert_eq!(kernel.find(BusAddress(0x4000)), None);
        kernel.calls.refuse(None);
        map(&kernel, 0x4000, 0, PAGE).unwrap();
        kernel.calls.refuse(Some(Errno::IO));
        assert!(matches!(unmap(&kernel, 0x4000, PAGE), Err(UnmapError::Refused { what: "UNMAP", .. })));
        assert!(kernel.find(BusAddress(0x4000)).is_some());
    }
}
