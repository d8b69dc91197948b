//! DMA paths that memory is mapped by.

use super::{BYTES_MAX, MapError};
use dma::tce::{Endpoint, EndpointAddress, Hypervisor, MemoryRange, Partition, Slot};
use dma::{
    Amd, Bounce, Bouncing, Domain, FlushQueue, Frames, Invalidation, Iotlb, Limits, Mapper, Memory,
    MemoryAddress, Ram, Smmu, SoftwareDomain, Translation, Unit, Vtd, Walked,
};
use iova::{Allocator, Cpus, Host, Percpu, Space, SpaceError};
use std::any::Any;
use std::error::Error;
use std::sync::Arc;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// Of the memory of the DMA paths in this process: tables, bounce buffers, and what is mapped.
const TABLES: MemoryAddress = MemoryAddress(0);
const TABLES_BYTES: u64 = 16 * MIB;
const BOUNCE: MemoryAddress = MemoryAddress(TABLES.0 + TABLES_BYTES);
const BOUNCE_BYTES: u64 = 8 * MIB;
const MAPPED: MemoryAddress = MemoryAddress(BOUNCE.0 + BOUNCE_BYTES);
const MEMORY_BYTES: u64 = MAPPED.0 + BYTES_MAX.0;
/// The IOTLB of the software's IOMMU: nothing is looked up in it here, but invalidations look for what they are to take out.
const IOTLB_ENTRIES: usize = 64;
const IOTLB_WAYS: usize = 4;
/// Levels of tables: 48 bits.
const LEVELS: u32 = 4;
/// Where 64-bit windows begin on POWER8 and later.
const WINDOW: u64 = 1 << 59;
/// Pages for lists of entries, which the hypervisor reads.
const LISTS_BYTES: u64 = 16 * 4096;

/// A DMA path that is measured in this process.
pub(super) struct DmaPath {
    pub(super) name: &'static str,
    what: &'static str,
    bytes_max: u64,
    make: fn(&Arc<Ram>) -> Made<Mapper>,
}

type Made<T> = Result<T, Box<dyn Error>>;

/// A DMA path that is ready.
pub(super) struct Stand {
    pub(super) name: String,
    pub(super) what: String,
    pub(super) bytes_max: u64,
    pub(super) mapper: Mapper,
    pub(super) memory: MemoryAddress,
    /// What must not be closed meanwhile.
    _kept: Option<Box<dyn Any>>,
}

pub(super) const DMA_PATHS: &[DmaPath] = &[
    DmaPath {
        name: "no-iommu",
        what: "nothing translates: the mask is looked at",
        bytes_max: BYTES_MAX.0,
        make: |_| Ok(Mapper::direct(Limits::of_bits(64), 0)),
    },
    DmaPath {
        name: "direct-window",
        what: "POWER: all memory is mapped at an offset",
        bytes_max: BYTES_MAX.0,
        make: |_| Ok(Mapper::direct(Limits::of_bits(64), WINDOW)),
    },
    DmaPath {
        name: "bounce",
        what: "copied to a bounce buffer and back (swiotlb=force)",
        bytes_max: Bounce::BYTES_MAX,
        make: bounce,
    },
    DmaPath {
        name: "translated-lazy",
        what: "VT-d's table; invalidated when 255 unmappings wait",
        bytes_max: BYTES_MAX.0,
        make: |ram| translated::<Vtd>(ram, Invalidation::Lazy(flush_queue())),
    },
    DmaPath {
        name: "translated-strict",
        what: "VT-d's table, an invalidation each, which costs next to nothing in software",
        bytes_max: BYTES_MAX.0,
        make: |ram| translated::<Vtd>(ram, Invalidation::Strict),
    },
    DmaPath {
        name: "translated-strict-amd",
        what: "the same with AMD's table",
        bytes_max: BYTES_MAX.0,
        make: |ram| translated::<Amd>(ram, Invalidation::Strict),
    },
    DmaPath {
        name: "translated-strict-smmu",
        what: "the same with SMMUv3's table",
        bytes_max: BYTES_MAX.0,
        make: |ram| translated::<Smmu>(ram, Invalidation::Strict),
    },
    DmaPath {
        name: "tce-window",
        what: "POWER: entries of 4 KiB by hypercalls of 512, here calls of a function",
        bytes_max: BYTES_MAX.0,
        make: tce_window,
    },
];

/// Those DMA paths, and each adapter that the host's own IOMMU can be measured with; and why others can't.
pub(super) fn stands(names: &[String]) -> Result<(Vec<Stand>, Vec<String>), MapError> {
    let find = |name: &String| {
        let known = DMA_PATHS.iter().find(|dma_path| dma_path.name == name);
        known.ok_or_else(|| MapError::UnknownDmaPath { name: name.clone() })
    };
    let dma_paths = names.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    let ready = |dma_path: &DmaPath| {
        let not = |why: Box<dyn Error>| MapError::NotReady {
            dma_path: dma_path.name.to_owned(),
            why: why.to_string(),
        };
        ready(dma_path).map_err(not)
    };
    let mut stands = dma_paths.into_iter().map(ready).collect::<Result<Vec<_>, _>>()?;
    let (own, absent) = real::stands();
    stands.extend(own);
    Ok((stands, absent))
}

fn ready(dma_path: &DmaPath) -> Made<Stand> {
    let ram = Arc::new(Ram::new(TABLES, MEMORY_BYTES));
    let mapper = (dma_path.make)(&ram)?.with_debug(false);
    let (name, what) = (dma_path.name.to_owned(), dma_path.what.to_owned());
    Ok(Stand { name, what, bytes_max: dma_path.bytes_max, mapper, memory: MAPPED, _kept: None })
}

fn bounce(ram: &Arc<Ram>) -> Made<Mapper> {
    let memory = Arc::clone(ram) as Arc<dyn Memory>;
    let bounce = Bounce::new(memory, BOUNCE, BOUNCE_BYTES, 1, || 0);
    Ok(Mapper::direct(Limits::of_bits(64), 0).with_bounce(Arc::new(bounce), Bouncing::Always))
}

fn translated<F: Walked + 'static>(ram: &Arc<Ram>, when: Invalidation) -> Made<Mapper> {
    let unit = Arc::new(Unit::new(Arc::clone(ram), Iotlb::new(IOTLB_ENTRIES, IOTLB_WAYS)));
    let frames = Arc::new(Frames::new(TABLES, TABLES_BYTES));
    let domain: SoftwareDomain<F> = SoftwareDomain::new(unit, frames, LEVELS)?;
    let domain = Domain::new(Arc::new(domain), percpu, when)?;
    Ok(Mapper::translated(Limits::of_bits(64), Arc::new(domain)))
}

fn tce_window(ram: &Arc<Ram>) -> Made<Mapper> {
    // The partition's: the tables are the hypervisor's.
    let memory = MemoryRange { start: BOUNCE, bytes: MEMORY_BYTES - BOUNCE.0 };
    let hypervisor = Arc::new(Hypervisor::new(Arc::clone(ram), [memory]));
    let address = EndpointAddress { config: 0x10000, buid: 1 };
    let tables = MemoryRange { start: TABLES, bytes: TABLES_BYTES };
    hypervisor.add(Endpoint { address, liobn: 1, default_bytes: 2 * GIB, tables, offer: None })?;
    let lists = Frames::new(BOUNCE, LISTS_BYTES);
    let partition = Partition::new(hypervisor, Arc::clone(ram), lists, vec![memory], "", || 0);
    let slot = Slot::new(Arc::new(partition), address)?.ok_or("no endpoint")?;
    Ok(slot.default_mapper(Limits::of_bits(32)))
}

/// The default allocator of this project.
fn percpu(space: &Space) -> Result<Box<dyn Allocator + Send + Sync>, SpaceError> {
    Ok(Box::new(Percpu::new(space, (4 * GIB) >> 12, Host::new())?))
}

fn flush_queue() -> FlushQueue {
    let host = Host::new();
    FlushQueue::new(host.count(), move || host.current())
}

/// The host's own IOMMU, by iommufd or else VFIO.
#[cfg(target_os = "linux")]
mod real {
    use super::{
        Arc, BYTES_MAX, Domain, Error, Invalidation, Limits, Made, Mapper, Ram, Stand, Translation, percpu,
    };
    use dma::vfio::{Device, Iommufd, Type1};

    /// Adapters that are bound to it, by their addresses.
    const DRIVER: &str = "/sys/bus/pci/drivers/vfio-pci";

    pub(super) fn stands() -> (Vec<Stand>, Vec<String>) {
        let adapters = adapters();
        if adapters.is_empty() {
            return (Vec::new(), vec!["the host's own IOMMU: no adapter is bound to vfio-pci".to_owned()]);
        }
        let (mut stands, mut absent) = (Vec::new(), Vec::new());
        for adapter in adapters {
            match open(&adapter) {
                Ok(stand) => stands.push(stand),
                Err(why) => absent.push(format!("{adapter}: {}", words(why.as_ref()))),
            }
        }
        (stands, absent)
    }

    fn adapters() -> Vec<String> {
        let entries = std::fs::read_dir(DRIVER).into_iter().flatten().filter_map(Result::ok);
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut adapters: Vec<String> = names.filter(|name| name.matches(':').count() == 2).collect();
        adapters.sort();
        adapters
    }

    fn open(adapter: &str) -> Made<Stand> {
        let memory = Arc::new(Ram::of_this_process(BYTES_MAX.0)?);
        if let Ok((translation, devices)) = Iommufd::open(&[adapter], Arc::clone(&memory)) {
            return stand(format!("iommufd {adapter}"), translation, devices, &memory);
        }
        let (translation, devices) = Type1::open(&[adapter], Arc::clone(&memory))?;
        stand(format!("vfio {adapter}"), translation, devices, &memory)
    }

    fn stand(
        name: String,
        translation: impl Translation + 'static,
        devices: Vec<Device>,
        memory: &Ram,
    ) -> Made<Stand> {
        let domain = Domain::new(Arc::new(translation), percpu, Invalidation::Elsewhere)?;
        let mapper = Mapper::translated(Limits::of_bits(64), Arc::new(domain)).with_debug(false);
        let what = "the host's own IOMMU, two system calls a pair".to_owned();
        Ok(Stand {
            name,
            what,
            bytes_max: BYTES_MAX.0,
            mapper,
            memory: memory.base(),
            // A device that is closed takes its table along.
            _kept: Some(Box::new(devices)),
        })
    }

    fn words(error: &dyn Error) -> String {
        let source = error.source().map(|source| format!(": {source}"));
        format!("{error}{}", source.unwrap_or_default())
    }
}

#[cfg(not(target_os = "linux"))]
mod real {
    use super::Stand;

    pub(super) fn stands() -> (Vec<Stand>, Vec<String>) {
        (Vec::new(), vec!["the host's own IOMMU: only Linux has VFIO".to_owned()])
    }
}
