//! The machine: architecture, kernel, distribution, memory, NUMA nodes.

use super::host_name;
use super::hypervisor::{self, Hypervisor};
use super::log::LogFacts;
use super::numa;
use crate::kernel::{Architecture, CpuVendor, KernelVersion};
use crate::memory::iomem::Iomem;
use crate::{Cited, Text, Tree};

/// The machine under the adapters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Platform {
    /// Architecture, from the kernel's own words or the CPU's.
    pub architecture: Option<Architecture>,
    /// Who made an x86 CPU.
    pub cpu_vendor: Option<Cited<CpuVendor>>,
    /// The running kernel.
    pub kernel: Option<Cited<KernelVersion>>,
    /// The distribution's own name and version.
    pub distribution: Option<Cited<String>>,
    /// The host's name, unless it is one that many have.
    pub host_name: Option<Cited<String>>,
    /// Maker and model.
    pub machine: Option<Cited<String>>,
    /// The hypervisor that runs this kernel as a guest, if any is seen; POWER's partitions are facts of their own.
    pub hypervisor: Option<Cited<Hypervisor>>,
    /// Memory as the kernel counts it.
    pub memory_kib: Option<Cited<u64>>,
    /// The end of the highest memory: what a DMA mask must reach.
    pub memory_end: Option<Cited<u64>>,
    /// Width of a physical address, of x86 CPUs.
    pub address_bits: Option<Cited<u32>>,
    /// NUMA nodes.
    pub nodes: Vec<numa::Node>,
}

impl Platform {
    /// Whether it is a guest. Xen's dom0 has the machine's own devices and firmware.
    pub fn is_guest(&self) -> bool {
        self.hypervisor.as_ref().is_some_and(|hypervisor| hypervisor.value != Hypervisor::XenDom0)
    }
}

/// Reads the machine's facts. The log's first lines serve where `/proc/version` is missing.
pub fn read(tree: &Tree, iomem: Option<&Iomem>, log: Option<&Text>, said: &LogFacts) -> Platform {
    let kernel = kernel_version(tree, log, said).or_else(|| said.traced_kernel.clone());
    let cpuinfo = tree.text("proc/cpuinfo");
    let architecture = kernel
        .as_ref()
        .and_then(|kernel| kernel.value.architecture.clone())
        .or_else(|| cpuinfo.as_ref().and_then(Architecture::from_cpuinfo).map(|cited| cited.value))
        .or_else(|| said.architecture.clone())
        .or_else(|| architecture_from_files(tree));
    let memory_kib = memory_kib(tree);
    Platform {
        architecture,
        cpu_vendor: cpuinfo.as_ref().and_then(CpuVendor::from_cpuinfo),
        hypervisor: hypervisor::read(tree, said, cpuinfo.as_ref(), kernel.as_ref().map(|cited| &cited.at)),
        address_bits: cpuinfo.as_ref().and_then(address_bits),
        kernel,
        distribution: distribution(tree),
        host_name: host_name::read(tree),
        machine: machine(tree).or_else(|| said.machine.clone()),
        memory_end: memory_end(tree, iomem, said, memory_kib.as_ref()),
        memory_kib,
        nodes: numa::read(tree),
    }
}

/// `address sizes : 46 bits physical, 48 bits virtual`.
fn address_bits(cpuinfo: &Text) -> Option<Cited<u32>> {
    let (line, words) = cpuinfo.lines().find(|(_, words)| words.starts_with("address sizes"))?;
    let bits = words.split(':').nth(1)?.split_whitespace().next()?.parse().ok()?;
    Some(Cited::new(bits, cpuinfo.cite(line, words)))
}

/// The architecture, by the presence of a file that only this one has.
fn architecture_from_files(tree: &Tree) -> Option<Architecture> {
    const FILES: [(&str, Architecture); 5] = [
        ("proc/mtrr", Architecture::X86_64),
        ("sys/firmware/devicetree/base/rtas", Architecture::Ppc64),
        ("proc/device-tree/rtas", Architecture::Ppc64),
        ("proc/ppc64", Architecture::Ppc64),
        ("proc/powerpc", Architecture::Ppc64),
    ];
    FILES.into_iter().find(|(path, _)| tree.exists(path)).map(|(_, architecture)| architecture)
}

/// The kernel's version, from the first of its sources that has it.
fn kernel_version(tree: &Tree, log: Option<&Text>, said: &LogFacts) -> Option<Cited<KernelVersion>> {
    ["proc/version", "sos_commands/kernel/uname_-a", "uname"]
        .iter()
        .filter_map(|path| tree.text(path))
        .find_map(|text| KernelVersion::from_text(&text))
        .or_else(|| kernel_version_in_log(log?, said))
}

/// The kernel's version, from the first line of its log.
fn kernel_version_in_log(log: &Text, said: &LogFacts) -> Option<Cited<KernelVersion>> {
    let (line, words) = said.lines_of_last_boot(log).find(|(_, words)| words.contains("Linux version "))?;
    let start = words.find("Linux version ")?;
    Some(Cited::new(KernelVersion::parse(&words[start..])?, log.cite(line, words)))
}

/// The distribution's name and version, from the files in `/etc`.
fn distribution(tree: &Tree) -> Option<Cited<String>> {
    let pretty = tree.text("etc/os-release").and_then(|text| {
        let (line, words) = text.lines().find(|(_, words)| words.starts_with("PRETTY_NAME="))?;
        let name = words.trim_start_matches("PRETTY_NAME=").trim_matches('"').to_owned();
        Some(Cited::new(name, text.cite(line, words)))
    });
    pretty.or_else(|| {
        ["etc/redhat-release", "etc/SuSE-release", "etc/debian_version"]
            .iter()
            .filter_map(|path| tree.text(path))
            .map(|text| {
                let name = text.body().lines().next().unwrap_or_default().trim();
                Cited::new(format!("{name}{}", service_pack(&text)), text.cite_value())
            })
            .find(|cited| !cited.value.is_empty())
    })
}

/// SLES 10 to 12 name their service pack on a line of its own: `PATCHLEVEL = 3`.
fn service_pack(release: &Text) -> String {
    let line = release.body().lines().find_map(|line| line.strip_prefix("PATCHLEVEL"));
    let pack = line.map(|rest| rest.trim_start_matches([' ', '=']).trim());
    pack.filter(|pack| !pack.is_empty() && *pack != "0").map_or_else(String::new, |pack| format!(" SP{pack}"))
}

/// Vendor and model of the machine, from SMBIOS or the device tree.
fn machine(tree: &Tree) -> Option<Cited<String>> {
    let dmi = |name: &str| {
        let path = format!("sys/class/dmi/id/{name}");
        tree.text(&path).map(|text| {
            let value = text.body().lines().next().unwrap_or_default().trim().to_owned();
            Cited::new(value, text.cite_value())
        })
    };
    if let Some(product) = dmi("product_name").filter(|product| !product.value.is_empty()) {
        let vendor = dmi("sys_vendor").map_or_else(String::new, |vendor| format!("{} ", vendor.value));
        return Some(Cited::new(format!("{vendor}{}", product.value), product.at));
    }
    let model =
        tree.text("proc/device-tree/model").or_else(|| tree.text("sys/firmware/devicetree/base/model"))?;
    let name = model.body().trim_end_matches('\0').trim().to_owned();
    let at = crate::Citation::of_file(model.file(), &name);
    (!name.is_empty()).then(|| Cited::new(name, at))
}

/// The memory that the kernel manages (`MemTotal`), in KiB.
fn memory_kib(tree: &Tree) -> Option<Cited<u64>> {
    let text = tree.text("proc/meminfo")?;
    let (line, words) = text.lines().find(|(_, words)| words.starts_with("MemTotal:"))?;
    let kib = words.split_whitespace().nth(1)?.parse().ok()?;
    Some(Cited::new(kib, text.cite(line, words)))
}

/// Where memory ends, best source first: the memory blocks of sysfs need no privilege, `/proc/iomem`
/// hides its addresses without one, x86 logs it at boot, and the amount of memory is at least a lower bound.
fn memory_end(
    tree: &Tree,
    iomem: Option<&Iomem>,
    said: &LogFacts,
    memory_kib: Option<&Cited<u64>>,
) -> Option<Cited<u64>> {
    // Of a log that was cut, the only line may be that on memory below 4 GiB.
    let is_whole = |end: &&Cited<u64>| end.value > 1 << 32 || said.covers_boot;
    let of_log = || said.memory_end.as_ref().filter(is_whole).cloned();
    let of_iomem = || {
        let last = iomem?.ram().into_iter().max_by_key(|ram| ram.value.last())?;
        Some(Cited::new(last.value.last().checked_add(1)?, last.at))
    };
    let of_amount = || memory_kib.map(|kib| Cited::new(kib.value.saturating_mul(1024), kib.at.clone()));
    end_of_memory_blocks(tree).or_else(of_iomem).or_else(of_log).or_else(of_amount)
}

/// The end of the highest memory block that sysfs lists.
fn end_of_memory_blocks(tree: &Tree) -> Option<Cited<u64>> {
    let folder = "sys/devices/system/memory";
    if !tree.exists(folder) {
        return None;
    }
    let size = tree.value(&format!("{folder}/block_size_bytes"))?;
    let block_bytes = u64::from_str_radix(&size.value, 16).ok()?;
    let last = numa::numbered(tree, folder, "memory").max()?;
    let end = (u64::from(last) + 1).checked_mul(block_bytes)?;
    let said = format!("memory{last} is the last block of 0x{} bytes", size.value);
    Some(Cited::new(end, crate::Citation::of_file(folder, &said)))
}
