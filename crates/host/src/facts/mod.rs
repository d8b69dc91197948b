//! What is the case on a host: read once, judged later.
//!
//! One file per noun; each `read` takes the [`Tree`] and gives facts that carry the file
//! and line they came from.

pub mod adapter;
pub mod bounce;
mod call_trace;
pub mod configured;
pub mod device_memory;
pub mod fault;
pub mod function;
pub mod host_encryption;
mod host_name;
pub mod hypervisor;
pub mod interrupts;
pub mod invalidation_error;
pub mod iommu;
pub mod log;
pub mod log_problem;
pub mod memory;
pub mod named_function;
mod no_facts;
pub mod numa;
pub mod platform;
pub mod power;
pub mod rdma;
pub mod refused_allocation;
mod source;
pub mod traced_mapping;
pub mod unseen;

pub use adapter::Adapter;
pub use function::Function;
pub use host_encryption::HostEncryption;
pub use log_problem::LogProblem;
pub use no_facts::NoFacts;
pub use rdma::RdmaDevice;
pub use unseen::Unseen;

use crate::kernel::verdict::{self, TokenVerdict};
use crate::kernel::{CommandLine, CpuVendor, KernelVersion, Requests};
use crate::pci::lspci;
use crate::tree::{Reach, Refusal};
use crate::{Bdf, Citation, Cited, Tree};
use std::collections::BTreeMap;

/// Everything that was read of a host.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    /// Live or captured.
    pub reach: Reach,
    /// The machine.
    pub platform: platform::Platform,
    /// The kernel's command line, as one line.
    pub command_line: Option<Cited<String>>,
    /// Its options, judged.
    pub options: Vec<TokenVerdict>,
    /// Options that stand elsewhere: in the boot loader's configuration, or in a text's sentences.
    pub configured: configured::ConfiguredOptions,
    /// What the understood ones ask for.
    pub requests: Requests,
    /// What the kernel's log says.
    pub log: log::LogFacts,
    /// IOMMUs and groups.
    pub iommus: iommu::Iommus,
    /// Bounce buffers.
    pub bounce: bounce::Bounce,
    /// The host encrypts its memory (AMD SME).
    pub host_encryption: Option<HostEncryption>,
    /// Memory types, on x86.
    pub memory: Option<memory::MemoryTypes>,
    /// The partition, on POWER.
    pub power: Option<power::Partition>,
    /// Bridges by address.
    pub bridges: BTreeMap<Bdf, Function>,
    /// Adapters by address.
    pub adapters: Vec<Adapter>,
    /// Memory of PCI functions, where the log or lspci shows it.
    pub device_memory: Vec<device_memory::DeviceMemory>,
    /// RDMA devices by name.
    pub rdma: Vec<RdmaDevice>,
    /// Whether the source shows drivers: where it does not, a missing one means nothing.
    pub shows_drivers: bool,
    /// Files that were there and were not read, by path, with the reason.
    pub unread: BTreeMap<String, Refusal>,
    /// What could not be seen, and which privilege or file would show it.
    pub unseen: Vec<Unseen>,
}

/// How invalidations are run where the group does not tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalidation {
    /// One per unmap.
    pub strict: bool,
    /// Set if it rests on a default rather than on a line.
    pub reason: Option<String>,
    /// The lines.
    pub evidence: Vec<Citation>,
}

impl Host {
    /// Reads a host.
    pub fn read(tree: &Tree) -> Self {
        let log_text = tree.kernel_log();
        let mut log = log_text.as_ref().map(log::LogFacts::read).unwrap_or_default();
        let iomem = memory::read_iomem(tree);
        let mut platform =
            platform::read(tree, iomem.as_ref().map(|(iomem, _)| iomem), log_text.as_ref(), &log);
        let mut iommus = iommu::read(tree);
        platform.architecture = platform.architecture.or_else(|| iommus.architecture());
        let command_line = command_line(tree, log_text.as_ref(), &log);
        platform.kernel = platform.kernel.or_else(|| command_line.as_ref().and_then(booted_image));
        let parsed =
            command_line.as_ref().map(|(text, line)| CommandLine::parse_quoted(text, line.0, &line.1));
        let machine = verdict::BootedKernel {
            version: platform.kernel.as_ref().map(|cited| &cited.value),
            architecture: platform.architecture.as_ref(),
            vendor: vendor(&platform, &iommus, &log),
        };
        let options = parsed.map(|parsed| verdict::check_command_line(&parsed, &machine));
        let options = options.unwrap_or_default();
        let configured = configured::read(tree, &machine);
        let requests = Requests::collect(&options);
        if host_encryption::is_of_guest(&log, &platform, requests.swiotlb_slots.is_some()) {
            log.memory_encryption = log.memory_encryption.take().or_else(|| log.encrypted_bounce.clone());
        }
        let listing = lspci::joined(lspci_texts(tree).iter().flat_map(lspci::parse).collect());
        let mut device_memory = std::mem::take(&mut log.device_memory);
        device_memory.extend(device_memory::of_listing(&listing));
        let mut functions = function::read(tree, &listing);
        let has_sysfs = tree.exists("sys/bus/pci/devices");
        // lspci -v names the driver in use of every function that has one.
        let shows_drivers = has_sysfs
            || listing.iter().any(|record| record.bus_master.is_some())
            || functions.iter().any(|function| function.driver.is_some());
        if !has_sysfs {
            function::complete_from_log(&mut functions, &log.functions);
            function::complete_from_groups(&mut functions, &iommus.groups);
        }
        let listed = functions
            .iter()
            .filter_map(|function| Some((function.address, function.iommu_group.as_ref()?.value)));
        let logged = log.groups.iter().map(|(address, group)| (*address, group.value));
        iommus.complete_from_members(listed.chain(logged));
        let around = adapter::AdapterTables::read(tree, listing, &functions);
        let (bridges, others): (Vec<_>, Vec<_>) = functions.into_iter().partition(Function::is_bridge);
        let mut adapters: Vec<Adapter> =
            others.into_iter().map(|function| adapter::complete(tree, function, &around)).collect();
        adapter::complete_masks(&mut adapters, &log.dma_masks);
        fault::resolve_streams(&mut log.faults, &adapters);
        let words = command_line.as_ref().map_or("", |(_, line)| line.1.as_str());
        let is_power = platform.architecture.as_ref().is_some_and(crate::kernel::Architecture::is_power);
        let nodes = adapters.iter().filter_map(|adapter| adapter.device_tree_node.as_deref());
        let kernel = platform.kernel.as_ref().map(|cited| &cited.value);
        let mut host = Self {
            reach: tree.reach(),
            power: is_power.then(|| power::read(tree, kernel, words, nodes)),
            memory: memory::read(tree, &platform, iomem, log_text.as_ref(), &requests),
            bounce: bounce::read(tree, &log, &requests),
            host_encryption: host_encryption::read(&log, &platform, &options),
            iommus,
            command_line: command_line
                .map(|(text, (line, words))| Cited::new(words.clone(), text.cite(line, &words))),
            platform,
            options,
            configured,
            requests,
            log,
            bridges: bridges.into_iter().map(|bridge| (bridge.address, bridge)).collect(),
            adapters,
            device_memory,
            rdma: rdma::read(tree),
            shows_drivers,
            unread: BTreeMap::new(),
            unseen: Vec::new(),
        };
        // Last, when all has been asked for.
        host.unread = tree.unread();
        host.unseen = unseen::list(tree, &host);
        host
    }

    /// Why verdicts and findings may be wrong: sources that decide were there and were not read. None if all
    /// was read that was there.
    pub fn doubts(&self) -> impl Iterator<Item = String> {
        self.unseen.iter().filter_map(Unseen::doubt)
    }

    /// Whether the running kernel was started with this option, or with this word of one: `intel_iommu=igfx_off`.
    pub fn has_option(&self, part: &str) -> bool {
        self.options.iter().any(|judged| judged.part == part)
    }

    /// Options of the boot loader's configuration that the running kernel was not started with; none if its line was not read.
    pub fn options_not_booted(&self) -> impl Iterator<Item = &verdict::TokenVerdict> {
        let line = self.command_line.iter();
        line.flat_map(|_| self.configured.missing_on(&self.options))
    }

    /// The kernel's version.
    pub fn kernel(&self) -> Option<&KernelVersion> {
        self.platform.kernel.as_ref().map(|cited| &cited.value)
    }

    /// The adapter at an address.
    pub fn adapter(&self, address: Bdf) -> Option<&Adapter> {
        let at = self.adapters.binary_search_by_key(&address, |adapter| adapter.function.address).ok()?;
        self.adapters.get(at)
    }

    /// Whether it is a POWER machine.
    pub fn is_power(&self) -> bool {
        self.platform.architecture.as_ref().is_some_and(crate::kernel::Architecture::is_power)
    }

    /// Whether sysfs shows any IOMMU group.
    pub fn has_groups(&self) -> bool {
        self.iommus.visible && !self.iommus.groups.is_empty()
    }

    /// Whether a group's type tells lazy from strict: then one of type `DMA` is strict.
    pub fn tells_lazy_groups(&self) -> bool {
        let shows = |group: &iommu::Group| {
            group.domain_type.as_ref().is_some_and(|cited| cited.value == iommu::DomainType::DmaFq)
        };
        self.kernel().and_then(KernelVersion::tells_lazy_groups).unwrap_or(false)
            || self.iommus.groups.values().any(shows)
    }

    /// What shows that this is a crash kernel (kdump): the kernel that crashed left its devices running.
    pub fn crash_kernel(&self) -> Option<&Citation> {
        let line = self.command_line.as_ref();
        let asked =
            line.filter(|line| line.value.split_whitespace().any(|word| word.starts_with("elfcorehdr=")));
        self.log.inherited_tables.as_ref().or_else(|| asked.map(|line| &line.at))
    }

    /// How invalidations are run, by the kernel's own words first, then by what it was told, then by
    /// its default.
    pub fn invalidation(&self) -> Option<Invalidation> {
        let said =
            |strict: bool, at: &Citation| Invalidation { strict, reason: None, evidence: vec![at.clone()] };
        if let Some(at) = &self.log.batching_disallowed {
            return Some(said(true, at));
        }
        let lines = [&self.log.strict, &self.log.amd_strict, &self.requests.strict];
        if let Some(cited) = lines.into_iter().find_map(Option::as_ref) {
            return Some(said(cited.value, &cited.at));
        }
        let architecture = self.platform.architecture.as_ref()?;
        if !architecture.is_x86() && !architecture.is_arm() {
            return None;
        }
        let strict = architecture.is_arm();
        let how = if strict { "strict" } else { "lazy" };
        let reason =
            format!("no line read says how invalidations are run; {how} is this architecture's default");
        Some(Invalidation { strict, reason: Some(reason), evidence: Vec::new() })
    }

    /// The path of links from the root port down to an adapter: port and what hangs below it.
    pub fn hops<'h>(&'h self, adapter: &'h Adapter) -> Vec<(&'h Function, &'h Function)> {
        let bridges = adapter.function.upstream.iter().filter_map(|address| self.bridges.get(address));
        let path: Vec<&Function> = bridges.chain(std::iter::once(&adapter.function)).collect();
        path.windows(2)
            .filter_map(|pair| match pair {
                [upper, lower] => Some((*upper, *lower)),
                _ => None,
            })
            .filter(|(upper, _)| upper.leads_down())
            .collect()
    }
}

/// Whose IOMMU the options are for: virtual machines pair processors of one maker with the IOMMU of
/// another, and then the IOMMU decides. Where neither sysfs nor a log could show one, nobody knows.
fn vendor<'p>(
    platform: &'p platform::Platform,
    iommus: &iommu::Iommus,
    log: &log::LogFacts,
) -> Option<&'p CpuVendor> {
    let vendor = &platform.cpu_vendor.as_ref()?.value;
    let foreign = |kind: iommu::Kind| match kind {
        iommu::Kind::VtD => !vendor.has_vt_d(),
        iommu::Kind::AmdVi => !vendor.has_amd_vi(),
        _ => false,
    };
    let mut kinds = iommus.instances.iter().map(|instance| instance.kind).chain(log.translates);
    let is_shown = iommus.visible || log.covers_boot;
    (is_shown && !kinds.any(foreign)).then_some(vendor)
}

/// The command line from its file, or from the log's copy of it.
fn command_line(
    tree: &Tree,
    log: Option<&crate::Text>,
    said: &log::LogFacts,
) -> Option<(crate::Text, (u32, String))> {
    if let Some(text) = tree.text("proc/cmdline") {
        let words = text.body().lines().next().unwrap_or_default().to_owned();
        return Some((text, (1, words)));
    }
    let log = log?;
    // x86 prints it a second time, earlier and before its own additions.
    let of_mark = |mark: &str| {
        let (line, words) = said.lines_of_last_boot(log).find(|(_, words)| words.contains(mark))?;
        Some((line, words.split(mark).nth(1)?.to_owned()))
    };
    Some((log.clone(), of_mark("Kernel command line: ").or_else(|| of_mark("Command line: "))?))
}

/// The kernel by the name of its image, `BOOT_IMAGE=/boot/vmlinuz-6.8.8-2-pve`, where nothing else tells it.
fn booted_image((text, (line, words)): &(crate::Text, (u32, String))) -> Option<Cited<KernelVersion>> {
    let image = words.split_whitespace().find_map(|word| word.strip_prefix("BOOT_IMAGE="))?;
    let (_, release) = image.rsplit('/').next()?.split_once('-')?;
    Some(Cited::new(KernelVersion::parse(release)?, text.cite(*line, words)))
}

/// lspci's outputs, the most verbose first; read where sysfs is missing, and for what sysfs does not say.
fn lspci_texts(tree: &Tree) -> Vec<crate::Text> {
    let texts = lspci_paths(tree).into_iter().filter_map(|path| tree.text(&path));
    let is_read =
        |text: &crate::Text| function::is_within_limit(tree, text.file(), lspci::addresses(text.body()));
    texts.filter(is_read).collect()
}

/// Files with lspci's output in a capture. sosreports name them after the command with its options.
fn lspci_paths(tree: &Tree) -> Vec<String> {
    if tree.reach() == Reach::Live {
        return Vec::new();
    }
    let mut paths = Vec::new();
    for folder in ["sos_commands/pci", "sos_commands/hardware"] {
        let names = tree.names(folder).into_iter().filter(|name| name.starts_with("lspci"));
        paths.extend(names.map(|name| format!("{folder}/{name}")));
    }
    let verbosity = |path: &String| path.bytes().filter(|byte| *byte == b'v').count();
    paths.sort_by_key(|path| std::cmp::Reverse(verbosity(path)));
    // What was given beside a capture comes first.
    let given = ["lspci", "lspci.txt", "lspci_-mm", "lspci_-tv"].map(str::to_owned);
    given.into_iter().chain(paths).collect()
}
