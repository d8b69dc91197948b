//! The DMA paths that are measured: models in this process, and the host's IOMMU through VFIO or iommufd.

use super::{BYTES_MAX, MapError};
use dma::tce::{Endpoint, EndpointAddress, Hypervisor, MemoryRange, Partition, PciSlot};
use dma::{
    Amd, Bounce, Bouncing, Domain, DomainBuilder, Frames, Iotlb, Limits, Mapper, Memory, MemoryAddress, Ram,
    Smmu, SoftwareDomain, Unit, Vtd, Walked,
};
use iova::{Allocator, Space, SpaceError, Trusting, host_percpu};
use std::any::Any;
use std::error::Error;
use std::sync::Arc;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
// The memory of a model: translation tables, bounce buffers, and the memory that is mapped.
const TABLES: MemoryAddress = MemoryAddress(0);
const TABLES_BYTES: u64 = 16 * MIB;
const BOUNCE: MemoryAddress = MemoryAddress(TABLES.0 + TABLES_BYTES);
const BOUNCE_BYTES: u64 = 8 * MIB;
const MAPPED: MemoryAddress = MemoryAddress(BOUNCE.0 + BOUNCE_BYTES);
const MEMORY_BYTES: u64 = MAPPED.0 + BYTES_MAX.0;
/// The modelled IOTLB. No access looks addresses up in it here, but invalidations search it for entries to remove.
const IOTLB_ENTRIES: usize = 64;
const IOTLB_WAYS: usize = 4;
/// Levels of the translation table, for addresses of 48 bits.
const LEVELS: u32 = 4;
/// Bus address of 64-bit DMA windows on POWER8 and later.
const WINDOW: u64 = 1 << 59;
/// Memory for lists of entries, which the partition passes to the hypervisor.
const LISTS_BYTES: u64 = 16 * 4096;

/// The model of a DMA path in this process.
pub(super) struct DmaPath {
    pub(super) name: &'static str,
    /// A one-line description.
    what: &'static str,
    /// The largest mapping.
    bytes_max: u64,
    make: fn(&Arc<Ram>) -> Created<Mapper>,
}

type Created<T> = Result<T, Box<dyn Error>>;

/// A DMA path that can map memory.
pub(super) struct ReadyPath {
    pub(super) name: String,
    pub(super) what: String,
    pub(super) bytes_max: u64,
    pub(super) mapper: Mapper,
    pub(super) memory: MemoryAddress,
    /// Devices that must stay open during the measurement.
    _device: Option<Box<dyn Any>>,
}

pub(super) const DMA_PATHS: &[DmaPath] = &[
    DmaPath {
        name: "no-iommu",
        what: "no translation; only the DMA mask is checked",
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
        what: "VT-d's table; one invalidation for 255 unmappings",
        bytes_max: BYTES_MAX.0,
        make: |ram| translated::<Vtd>(ram, DomainBuilder::lazy),
    },
    DmaPath {
        name: "translated-strict",
        what: "VT-d's table, one invalidation per unmapping, which costs almost nothing in software",
        bytes_max: BYTES_MAX.0,
        make: |ram| translated::<Vtd>(ram, |builder| builder),
    },
    DmaPath {
        name: "translated-strict-amd",
        what: "the same with AMD's table",
        bytes_max: BYTES_MAX.0,
        make: |ram| translated::<Amd>(ram, |builder| builder),
    },
    DmaPath {
        name: "translated-strict-smmu",
        what: "the same with SMMUv3's table",
        bytes_max: BYTES_MAX.0,
        make: |ram| translated::<Smmu>(ram, |builder| builder),
    },
    DmaPath {
        name: "tce-window",
        what: "POWER: entries of 4 KiB, 512 per hypercall, which is a function call here",
        bytes_max: BYTES_MAX.0,
        make: tce_window,
    },
];

/// Opens the DMA paths of these names, and the host's IOMMU with each usable adapter. Also returns why other adapters
/// can't be used.
pub(super) fn open_paths(names: &[String]) -> Result<(Vec<ReadyPath>, Vec<String>), MapError> {
    let dma_paths = names.iter().map(|name| find(name)).collect::<Result<Vec<_>, _>>()?;
    let mut open_paths = dma_paths.into_iter().map(create).collect::<Result<Vec<_>, _>>()?;
    let (own, absent) = host::open_paths();
    open_paths.extend(own);
    Ok((open_paths, absent))
}

/// Opens the model of one DMA path.
pub(super) fn open_model(name: &str) -> Result<ReadyPath, MapError> {
    find(name).and_then(create)
}

/// The DMA path of this name.
fn find(name: &str) -> Result<&'static DmaPath, MapError> {
    let known = DMA_PATHS.iter().find(|dma_path| dma_path.name == name);
    known.ok_or_else(|| MapError::UnknownDmaPath { name: name.to_owned() })
}

/// Creates a DMA path's model, or says why it can't.
fn create(dma_path: &DmaPath) -> Result<ReadyPath, MapError> {
    let not =
        |why: Box<dyn Error>| MapError::NotReady { dma_path: dma_path.name.to_owned(), why: why.to_string() };
    create_model(dma_path).map_err(not)
}

/// Creates a DMA path's model with its memory.
fn create_model(dma_path: &DmaPath) -> Created<ReadyPath> {
    let ram = Arc::new(Ram::new(TABLES, MEMORY_BYTES));
    let mapper = (dma_path.make)(&ram)?.with_debug(false);
    let (name, what) = (dma_path.name.to_owned(), dma_path.what.to_owned());
    Ok(ReadyPath { name, what, bytes_max: dma_path.bytes_max, mapper, memory: MAPPED, _device: None })
}

/// A mapper that copies through bounce buffers.
fn bounce(ram: &Arc<Ram>) -> Created<Mapper> {
    let memory = Arc::clone(ram) as Arc<dyn Memory>;
    let bounce = Bounce::new(memory, BOUNCE, BOUNCE_BYTES, 1, || 0);
    Ok(Mapper::direct(Limits::of_bits(64), 0).with_bounce(Arc::new(bounce), Bouncing::Always))
}

/// A mapper with an IOMMU domain whose table has the format `F`.
fn translated<F: Walked + 'static>(
    ram: &Arc<Ram>,
    choose: fn(DomainBuilder) -> DomainBuilder,
) -> Created<Mapper> {
    let unit = Arc::new(Unit::new(Arc::clone(ram), Iotlb::new(IOTLB_ENTRIES, IOTLB_WAYS)));
    let frames = Arc::new(Frames::new(TABLES, TABLES_BYTES));
    let domain: SoftwareDomain<F> = SoftwareDomain::new(unit, frames, LEVELS)?;
    let domain = choose(Domain::builder(Arc::new(domain)).allocator(percpu)).build()?;
    Ok(Mapper::translated(Limits::of_bits(64), domain))
}

/// A mapper with the default DMA window of a POWER partition.
fn tce_window(ram: &Arc<Ram>) -> Created<Mapper> {
    // The partition's memory; the hypervisor owns the tables.
    let memory = MemoryRange { start: BOUNCE, bytes: MEMORY_BYTES - BOUNCE.0 };
    let hypervisor = Arc::new(Hypervisor::new(Arc::clone(ram), [memory]));
    let address = EndpointAddress { config: 0x10000, buid: 1 };
    let tables = MemoryRange { start: TABLES, bytes: TABLES_BYTES };
    hypervisor.add(Endpoint { address, liobn: 1, default_bytes: 2 * GIB, tables, offer: None })?;
    let lists = Frames::new(BOUNCE, LISTS_BYTES);
    let partition = Partition::new(hypervisor, Arc::clone(ram), lists, vec![memory], "", || 0);
    let slot = PciSlot::new(Arc::new(partition), address)?.ok_or("no endpoint")?;
    Ok(slot.default_mapper(Limits::of_bits(32)))
}

/// This project's default IOVA allocator.
fn percpu(space: &Space) -> Result<Box<dyn Allocator + Send + Sync>, SpaceError> {
    host_percpu::<Trusting>(space, (4 * GIB) >> 12)
}

/// The host's own IOMMU, by iommufd or else VFIO.
#[cfg(target_os = "linux")]
mod host {
    use super::{Arc, BYTES_MAX, Created, Domain, Error, Limits, Mapper, Ram, ReadyPath, percpu};
    use dma::vfio::{self, Interface};

    /// Folder with a link for each adapter that is bound to vfio-pci.
    const DRIVER: &str = "/sys/bus/pci/drivers/vfio-pci";

    /// Opens each adapter that is bound to vfio-pci. Also returns why others can't be opened.
    pub(super) fn open_paths() -> (Vec<ReadyPath>, Vec<String>) {
        let adapters = adapters();
        if adapters.is_empty() {
            return (Vec::new(), vec!["the host's own IOMMU: no adapter is bound to vfio-pci".to_owned()]);
        }
        let (mut open_paths, mut absent) = (Vec::new(), Vec::new());
        for adapter in adapters {
            match open(&adapter) {
                Ok(path) => open_paths.push(path),
                Err(why) => absent.push(format!("{adapter}: {}", error_text(why.as_ref()))),
            }
        }
        (open_paths, absent)
    }

    /// PCI addresses of the adapters that are bound to vfio-pci.
    fn adapters() -> Vec<String> {
        let entries = std::fs::read_dir(DRIVER).into_iter().flatten().filter_map(Result::ok);
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut adapters: Vec<String> = names.filter(|name| name.matches(':').count() == 2).collect();
        adapters.sort();
        adapters
    }

    /// Opens an adapter's IOMMU domain through the interface that this host has for it.
    fn open(adapter: &str) -> Created<ReadyPath> {
        let memory = Arc::new(Ram::of_this_process(BYTES_MAX.0)?);
        let interface = Interface::of_this_host(adapter);
        let (translation, device) = vfio::open(adapter, interface, &[Arc::clone(&memory)])?;
        let domain = Domain::builder(translation).allocator(percpu).build()?;
        Ok(ReadyPath {
            name: format!("{interface} {adapter}"),
            what: "the host's own IOMMU, two system calls per pair".to_owned(),
            bytes_max: BYTES_MAX.0,
            mapper: Mapper::translated(Limits::of_bits(64), domain).with_debug(false),
            memory: memory.base(),
            // Closing the device would remove its translation table.
            _device: Some(Box::new(device)),
        })
    }

    /// An error with its cause.
    fn error_text(error: &dyn Error) -> String {
        let source = error.source().map(|source| format!(": {source}"));
        format!("{error}{}", source.unwrap_or_default())
    }
}

#[cfg(not(target_os = "linux"))]
mod host {
    use super::ReadyPath;

    pub(super) fn open_paths() -> (Vec<ReadyPath>, Vec<String>) {
        (Vec::new(), vec!["the host's own IOMMU: only Linux has VFIO".to_owned()])
    }
}
