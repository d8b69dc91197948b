//! The document as a whole.

use crate::citation::Citations;
use crate::{
    Adapter, BounceBuffers, CitedFact, DmaEndpoint, DmaWindow, Estimate, Finding, Function, HostFacts, Iommu,
    IommuGroup, KernelLog, KernelOption, LogFact, MemmapArea, MemoryResource, MemoryTypes, MtrrRegister,
    NumaNode, PartitionSetting, PatMapping, PowerPlatform, RdmaDevice, UnjudgedProblem, Unseen,
};
use host::{Bdf, Inspection};
use serde::Serialize;

/// The name and version of the document's layout.
pub const SCHEMA: &str = "iotoll.inspect/2";

/// What `iotoll inspect --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Document {
    /// `iotoll.inspect/2`
    pub schema: &'static str,
    /// Name and version of the program.
    pub made_by: String,
    /// The source that was read.
    pub source: Source,
    /// Whether every existing file that DMA paths and findings depend on was read.
    pub complete: bool,
    /// Why DMA paths and findings may be wrong; empty if `complete`.
    pub doubts: Vec<String>,
    /// The machine and its kernel.
    pub host: HostFacts,
    /// NUMA nodes.
    pub numa_nodes: Vec<NumaNode>,
    /// Options on the kernel's command line, one row for each part with its own effect.
    pub kernel_options: Vec<KernelOption>,
    /// IOMMUs that the kernel uses.
    pub iommus: Vec<Iommu>,
    /// IOMMU groups: sets of functions that an IOMMU can't tell apart.
    pub iommu_groups: Vec<IommuGroup>,
    /// The swiotlb.
    pub bounce_buffers: BounceBuffers,
    /// Memory types; null if the architecture has no MTRRs.
    pub memory_types: Option<MemoryTypes>,
    /// Variable MTRRs in use (`/proc/mtrr`).
    pub mtrr_registers: Vec<MtrrRegister>,
    /// Physical address ranges and who owns them (`/proc/iomem`); none if the kernel hides addresses.
    pub memory_resources: Vec<MemoryResource>,
    /// Mappings whose memory type the kernel tracks (debugfs).
    pub pat_mappings: Vec<PatMapping>,
    /// Arguments `memmap=`, with their effect on this kernel.
    pub memmap_areas: Vec<MemmapArea>,
    /// POWER's partition; null on other machines.
    pub power: Option<PowerPlatform>,
    /// `/proc/powerpc/lparcfg`.
    pub partition_settings: Vec<PartitionSetting>,
    /// Nodes of POWER's device tree that own DMA windows.
    pub dma_endpoints: Vec<DmaEndpoint>,
    /// Their windows.
    pub dma_windows: Vec<DmaWindow>,
    /// The kernel's log.
    pub kernel_log: KernelLog,
    /// What the log says about DMA.
    pub log_facts: Vec<LogFact>,
    /// PCI functions that are neither bridges nor IOMMUs, as far as their class is known, by address.
    pub adapters: Vec<Adapter>,
    /// RDMA devices, by name.
    pub rdma_devices: Vec<RdmaDevice>,
    /// PCI bridges, by address.
    pub bridges: Vec<Function>,
    /// Findings, worst first.
    pub findings: Vec<Finding>,
    /// Problems in the kernel's log that no finding is about.
    pub unjudged_problems: Vec<UnjudgedProblem>,
    /// The cost of an I/O today and after the fixes, if both can be predicted.
    pub estimates: Vec<Estimate>,
    /// Facts that could not be read.
    pub unseen: Vec<Unseen>,
    /// The lines that facts were read from.
    pub citations: Vec<CitedFact>,
}

/// The source that was read.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Source {
    /// The running system, or a copy of its files.
    pub reach: host::tree::Reach,
    /// The path, as it was given to the program.
    pub path: String,
}

impl Document {
    /// The document of an inspection; `only` limits adapters, findings and estimates to one adapter.
    pub fn new(inspection: &Inspection, made_by: &str, path: &str, only: Option<Bdf>) -> Self {
        let host = &inspection.host;
        let wanted = |address: Bdf| only.is_none_or(|only| only == address);
        let mut citations = Citations::default();
        let adapters = inspection.adapters().filter(|(adapter, _)| wanted(adapter.function.address));
        let findings = inspection.findings.iter().filter(|finding| finding.address.is_none_or(wanted));
        let unjudged = inspection.unjudged.iter().filter(|problem| problem.address.is_none_or(wanted));
        let estimates = inspection.outlooks.iter().filter(|outlook| wanted(outlook.address));
        let memory = host.memory.as_ref();
        let power = host.power.as_ref();
        Self {
            schema: SCHEMA,
            made_by: made_by.to_owned(),
            source: Source { reach: host.reach, path: path.to_owned() },
            complete: host.doubts().next().is_none(),
            doubts: host.doubts().collect(),
            host: HostFacts::new(host, &mut citations),
            numa_nodes: host.platform.nodes.iter().map(NumaNode::new).collect(),
            kernel_options: host.options.iter().map(KernelOption::new).collect(),
            iommus: host.iommus.instances.iter().map(Iommu::new).collect(),
            iommu_groups: IommuGroup::all(host, &mut citations),
            bounce_buffers: BounceBuffers::new(&host.bounce, &mut citations),
            memory_types: memory.map(MemoryTypes::new),
            mtrr_registers: memory.map(MtrrRegister::all).unwrap_or_default(),
            memory_resources: memory.map(MemoryResource::all).unwrap_or_default(),
            pat_mappings: memory.map(PatMapping::all).unwrap_or_default(),
            memmap_areas: memory.map(MemmapArea::all).unwrap_or_default(),
            power: power.map(|power| PowerPlatform::new(power, &mut citations)),
            partition_settings: power.map(PartitionSetting::all).unwrap_or_default(),
            dma_endpoints: power.map(DmaEndpoint::all).unwrap_or_default(),
            dma_windows: power.map(DmaWindow::all).unwrap_or_default(),
            kernel_log: KernelLog::new(&host.log),
            log_facts: LogFact::all(&host.log),
            adapters: adapters
                .enumerate()
                .map(|(row, (adapter, verdict))| Adapter::new(row, adapter, verdict, &mut citations))
                .collect(),
            rdma_devices: RdmaDevice::all(host, wanted, &mut citations),
            bridges: host
                .bridges
                .values()
                .enumerate()
                .map(|(row, bridge)| Function::new(&format!("/bridges/{row}"), bridge, &mut citations))
                .collect(),
            findings: findings.map(Finding::new).collect(),
            unjudged_problems: unjudged.map(UnjudgedProblem::new).collect(),
            estimates: estimates.map(Estimate::new).collect(),
            unseen: host.unseen.iter().map(Unseen::new).collect(),
            citations: citations.0,
        }
    }
}
