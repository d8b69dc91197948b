//! The machine, its kernel, its nodes and its bounce buffers.

use crate::citation::Citations;
use crate::hex;
use host::facts::bounce::Bounce;
use host::facts::hypervisor::Hypervisor;
use host::facts::numa::Node;
use host::kernel::version::Family;
use host::kernel::{CpuVendor, KernelVersion};
use host::{Cited, Host};
use serde::Serialize;

/// The machine and its kernel.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostFacts {
    /// The architecture, as `uname -m` names it: `x86_64`, `aarch64`, `ppc64le`.
    pub architecture: Option<String>,
    /// `intel`, `amd`, `hygon`, `arm`, `ibm`, or the vendor's own word.
    pub cpu_vendor: Option<String>,
    /// Arm's number of the core's implementer: `0x41`.
    pub cpu_implementer: Option<String>,
    /// The hypervisor that runs this kernel as a guest; null if none is seen.
    pub hypervisor: Option<Hypervisor>,
    /// The machine's model.
    pub machine: Option<String>,
    /// The distribution's name and version.
    pub distribution: Option<String>,
    /// The kernel's release, as `uname -r` prints it.
    pub kernel_release: Option<String>,
    /// The three numbers of the kernel's version: `5.14.0`.
    pub kernel_version: Option<String>,
    /// The distribution that built the kernel: `rhel`, `debian`, `ubuntu`, `suse`, `other`.
    pub kernel_builder: Option<String>,
    /// The kernel's command line.
    pub command_line: Option<String>,
    /// Memory that the kernel uses.
    pub memory_bytes: Option<u64>,
    /// The first address after the last byte of memory.
    pub memory_end: Option<String>,
    /// Physical address bits of the processor.
    pub address_bits: Option<u32>,
}

impl HostFacts {
    /// Converts the facts about the host and records their citations.
    pub(crate) fn new(host: &Host, citations: &mut Citations) -> Self {
        let platform = &host.platform;
        let mut text = |name: &str, cited: Option<&Cited<String>>| citations.cite_value(pointer(name), cited);
        let machine = text("machine", platform.machine.as_ref());
        let distribution = text("distribution", platform.distribution.as_ref());
        let command_line = text("command_line", host.command_line.as_ref());
        let kernel: Option<KernelVersion> =
            citations.cite_value(pointer("kernel_release"), platform.kernel.as_ref());
        let vendor = citations.cite_value(pointer("cpu_vendor"), platform.cpu_vendor.as_ref());
        let hypervisor = citations.cite_value(pointer("hypervisor"), platform.hypervisor.as_ref());
        let (cpu_vendor, cpu_implementer) = vendor.map(vendor_words).unzip();
        Self {
            architecture: platform.architecture.as_ref().map(ToString::to_string),
            cpu_vendor,
            cpu_implementer: cpu_implementer.flatten(),
            hypervisor,
            machine,
            distribution,
            kernel_version: kernel.as_ref().map(|kernel| {
                let (major, minor, patch) = kernel.numbers();
                format!("{major}.{minor}.{patch}")
            }),
            kernel_builder: kernel.as_ref().map(|kernel| builder(&kernel.family).to_owned()),
            kernel_release: kernel.map(|kernel| kernel.release),
            command_line,
            memory_bytes: citations
                .cite_value(pointer("memory_bytes"), platform.memory_kib.as_ref())
                .map(|kib| kib.saturating_mul(1024)),
            memory_end: citations
                .cite_value(pointer("memory_end"), platform.memory_end.as_ref())
                .map(hex::address),
            address_bits: citations.cite_value(pointer("address_bits"), platform.address_bits.as_ref()),
        }
    }
}

/// The JSON pointer of a field of `host`.
fn pointer(name: &str) -> String {
    format!("/host/{name}")
}

/// The distribution that built a kernel, as a stable word.
fn builder(family: &Family) -> &'static str {
    match family {
        Family::Rhel(_) => "rhel",
        Family::Debian => "debian",
        Family::Ubuntu => "ubuntu",
        Family::Suse => "suse",
        Family::Other => "other",
    }
}

/// The vendor as a stable word and, for Arm, the implementer's number.
fn vendor_words(vendor: CpuVendor) -> (String, Option<String>) {
    let word = match vendor {
        CpuVendor::Intel => "intel",
        CpuVendor::Amd => "amd",
        CpuVendor::Hygon => "hygon",
        CpuVendor::Ibm => "ibm",
        CpuVendor::ArmImplementer(number) => return ("arm".to_owned(), Some(format!("{number:#04x}"))),
        CpuVendor::Other(name) => return (name, None),
    };
    (word.to_owned(), None)
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NumaNode {
    /// Its number.
    pub number: u32,
    /// Its CPUs, as sysfs lists them: `0-3,8`.
    pub cpus: String,
    /// Its memory.
    pub memory_bytes: Option<u64>,
    /// Distances to all nodes, by number.
    pub distances: Vec<u32>,
}

impl NumaNode {
    /// Converts a NUMA node.
    pub(crate) fn new(node: &Node) -> Self {
        Self {
            number: node.number,
            cpus: node.cpus.to_string(),
            memory_bytes: node.memory_kib.map(|kib| kib.saturating_mul(1024)),
            distances: node.distances.clone(),
        }
    }
}

/// The swiotlb, the pool of bounce buffers.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BounceBuffers {
    /// Its size.
    pub pool_bytes: Option<u64>,
    /// Slots of 2 KiB in use when it was read.
    pub used_slots: Option<u64>,
    /// Highest number of slots in use.
    pub used_slots_max: Option<u64>,
    /// All streaming DMA is copied, by option or for encrypted memory.
    pub forced: bool,
    /// Nothing is ever copied, so mappings fail if an adapter can't reach a buffer.
    pub disabled: bool,
}

impl BounceBuffers {
    /// Converts the facts about the swiotlb and records their citations.
    pub(crate) fn new(bounce: &Bounce, citations: &mut Citations) -> Self {
        let bounce_pointer = |name: &str| format!("/bounce_buffers/{name}");
        for (name, at) in [("forced", &bounce.forced), ("disabled", &bounce.never)] {
            if let Some(at) = at {
                citations.record(bounce_pointer(name), at);
            }
        }
        Self {
            pool_bytes: citations.cite_value(bounce_pointer("pool_bytes"), bounce.pool_bytes.as_ref()),
            used_slots: citations.cite_value(bounce_pointer("used_slots"), bounce.used_slots.as_ref()),
            used_slots_max: citations
                .cite_value(bounce_pointer("used_slots_max"), bounce.used_slots_max.as_ref()),
            forced: bounce.forced.is_some(),
            disabled: bounce.never.is_some(),
        }
    }
}
