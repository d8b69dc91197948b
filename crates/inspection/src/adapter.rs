//! PCI functions: adapters and bridges.

use crate::capability::Capabilities;
use crate::citation::Citations;
use crate::hex;
use host::diagnose::{DmaPath, Verdict};
use host::facts::{Adapter as AdapterFacts, Function as FunctionFacts};
use host::pci::Reach;
use host::pci::link::LinkEnd;
use host::{Bdf, Citation};
use serde::Serialize;

/// A PCI function.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Function {
    /// Its address: `0000:3b:00.0`.
    pub address: Bdf,
    /// Bridges between it and the root, root first.
    pub upstream: Vec<Bdf>,
    /// Vendor: `0x8086`; null if it was not read.
    pub vendor_id: Option<String>,
    /// Device: `0x1521`; null if it was not read.
    pub device_id: Option<String>,
    /// Vendor of the board.
    pub subsystem_vendor_id: Option<String>,
    /// The board.
    pub subsystem_device_id: Option<String>,
    /// Class, subclass and programming interface: `020000`; without the interface if only a text names the class: `0200`.
    pub class: Option<String>,
    /// The driver that is bound to it.
    pub driver: Option<String>,
    /// The IOMMU group's number.
    pub iommu_group: Option<u32>,
    /// The NUMA node's number.
    pub numa_node: Option<u32>,
    /// How much of its configuration space could be read.
    pub config_reach: Option<Reach>,
    /// Its capabilities.
    pub capabilities: Capabilities,
    /// Its end of the link towards the root.
    pub link: LinkEnd,
    /// The file or folder that it was read from.
    pub source: String,
}

impl Function {
    /// Converts a function and records its citations. `fact` is the JSON pointer of its row.
    pub(crate) fn new(fact: &str, facts: &FunctionFacts, citations: &mut Citations) -> Self {
        let ids = &facts.ids;
        let subsystem = ids.subsystem;
        citations.record(format!("{fact}/link"), &facts.link.at);
        if let Some(at) = &facts.config_at {
            citations.record(format!("{fact}/capabilities"), at);
        }
        Self {
            address: facts.address,
            upstream: facts.upstream.clone(),
            vendor_id: ids.vendor.map(hex::id),
            device_id: ids.device.map(hex::id),
            subsystem_vendor_id: subsystem.map(|ids| hex::id(ids.vendor)),
            subsystem_device_id: subsystem.map(|ids| hex::id(ids.device)),
            class: ids.class.map(|class| class.to_string()),
            driver: citations.cite_value(format!("{fact}/driver"), facts.driver.as_ref()),
            iommu_group: citations.cite_value(format!("{fact}/iommu_group"), facts.iommu_group.as_ref()),
            numa_node: citations.cite_value(format!("{fact}/numa_node"), facts.numa_node.as_ref()),
            config_reach: facts.config_reach,
            capabilities: (&facts.capabilities).into(),
            link: facts.link.value,
            source: facts.source.clone(),
        }
    }
}

/// A PCI function that is neither a bridge nor an IOMMU, as far as its class is known. One without a driver has the path `unbound`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Adapter {
    /// The way in which its DMA reaches memory.
    pub dma_path: DmaPath,
    /// What must be the case for the DMA path, where nothing read tells; null if it holds in any case.
    pub condition: Option<String>,
    /// Why the DMA path is unknown, or what the verdict depends on besides the evidence.
    pub reason: Option<String>,
    /// The lines that the DMA path is based on.
    pub evidence: Vec<Citation>,
    /// The fields that all PCI functions have.
    #[serde(flatten)]
    pub function: Function,
    /// The vendor's name.
    pub vendor_name: Option<String>,
    /// The device's name.
    pub device_name: Option<String>,
    /// The board's name.
    pub subsystem_name: Option<String>,
    /// The class's name.
    pub class_name: Option<String>,
    /// Its interfaces, such as `eth0`.
    pub interfaces: Vec<Interface>,
    /// Bits of the driver's mask for streaming DMA.
    pub dma_mask_bits: Option<u32>,
    /// Bits of the driver's mask for coherent memory.
    pub coherent_mask_bits: Option<u32>,
    /// CPUs near it, as sysfs lists them.
    pub local_cpus: Option<String>,
    /// Its interrupts.
    pub interrupts: Vec<Vector>,
    /// The physical function, if it is a virtual one.
    pub physical_function: Option<Bdf>,
    /// Its virtual functions.
    pub virtual_functions: Vec<Bdf>,
    /// virtio: whether it goes through the IOMMU (`VIRTIO_F_ACCESS_PLATFORM`); null for other devices.
    pub virtio_access_platform: Option<bool>,
    /// Whether users can remove it: `fixed`, `removable`, `unknown`.
    pub removable: Option<String>,
    /// The slot, or POWER's location code.
    pub slot: Option<String>,
    /// Its node in the device tree.
    pub device_tree_node: Option<String>,
}

/// An interface of an adapter, such as a network interface.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interface {
    /// The folder below `/sys/class`: `net`, `nvme`, `infiniband`.
    pub class: String,
    /// Its name there: `eth0`.
    pub name: String,
}

/// An interrupt.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Vector {
    /// Its number in `/proc/interrupts`.
    pub number: u32,
    /// How often it was raised, on all CPUs.
    pub count: u64,
    /// Its name there.
    pub name: String,
    /// CPUs that may handle it.
    pub affinity: Option<String>,
}

impl Adapter {
    /// Converts an adapter with its verdict and records its citations. `row` is its index in `adapters`.
    pub(crate) fn new(
        row: usize,
        facts: &AdapterFacts,
        verdict: &Verdict,
        citations: &mut Citations,
    ) -> Self {
        let at = |name: &str| format!("/adapters/{row}/{name}");
        let function = Function::new(&format!("/adapters/{row}"), &facts.function, citations);
        let access = facts.virtio.as_ref().map(|virtio| &virtio.access_platform);
        Self {
            dma_path: verdict.dma_path,
            condition: verdict.condition.clone(),
            reason: verdict.reason.clone(),
            evidence: verdict.evidence.clone(),
            function,
            vendor_name: facts.names.vendor.clone(),
            device_name: facts.names.device.clone(),
            subsystem_name: facts.names.subsystem.clone(),
            class_name: facts.names.class.clone(),
            interfaces: facts
                .interfaces
                .iter()
                .map(|interface| Interface { class: interface.class.clone(), name: interface.name.clone() })
                .collect(),
            dma_mask_bits: citations.cite_value(at("dma_mask_bits"), facts.dma_mask_bits.as_ref()),
            coherent_mask_bits: citations
                .cite_value(at("coherent_mask_bits"), facts.coherent_mask_bits.as_ref()),
            local_cpus: facts.local_cpus.as_ref().map(ToString::to_string),
            interrupts: facts.vectors.iter().map(Vector::new).collect(),
            physical_function: facts.virtualisation.physical,
            virtual_functions: facts.virtualisation.virtual_functions.clone(),
            virtio_access_platform: citations.cite_value(at("virtio_access_platform"), access),
            removable: citations.cite_value(at("removable"), facts.removable.as_ref()),
            slot: citations.cite_value(at("slot"), facts.slot.as_ref()),
            device_tree_node: facts.device_tree_node.clone(),
        }
    }
}

impl Vector {
    /// Converts an interrupt vector.
    fn new(vector: &host::facts::interrupts::Vector) -> Self {
        Self {
            number: vector.number,
            count: vector.count,
            name: vector.name.clone(),
            affinity: vector.affinity.as_ref().map(ToString::to_string),
        }
    }
}
