//! A POWER partition and the DMA windows of its host bridges, from the device tree.

use crate::kernel::KernelVersion;
use crate::power::device_tree::PropertyError;
use crate::power::firmware::FirmwareLevel;
use crate::power::lparcfg::Lparcfg;
use crate::power::memory::{self, MaximumMemory, MemoryFacts, MemoryRule};
use crate::power::partition::{self, MachineType};
use crate::power::window::{self, Ddw, DdwApplicable, DdwExtensions, DdwKind, DefaultWindow, DmaCells};
use crate::power::{device_tree, lparcfg};
use crate::{Citation, Cited, Tree};
use ddw::TceCalls;
use std::collections::BTreeMap;

/// Nodes between an adapter's and the root: bridges nest, but not like this.
const DEPTH_MAX: usize = 32;

/// The node that owns a set of windows: a host bridge, or a bridge of its own partition endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Path of the node.
    pub node: String,
    /// The default window; gone where a 64-bit window took its place.
    pub default_window: Option<Cited<DefaultWindow>>,
    /// 64-bit windows that the kernel has made.
    pub windows: Vec<Cited<Ddw>>,
    /// Firmware offers 64-bit windows here.
    pub applicable: Option<Cited<DdwApplicable>>,
    /// What else firmware offers with them.
    pub extensions: Option<Cited<DdwExtensions>>,
}

/// The partition.
#[derive(Debug, Clone, PartialEq)]
pub struct Partition {
    /// Hypervisor guest, or bare metal.
    pub platform: Option<Cited<partition::Platform>>,
    /// Machine type and model.
    pub machine_type: Option<Cited<MachineType>>,
    /// An emulated machine has neither slots nor firmware levels.
    pub is_qemu: bool,
    /// Firmware level.
    pub firmware: Option<Cited<FirmwareLevel>>,
    /// The most memory that the partition can have, by the kernel's own rule.
    pub memory_max: Option<MaximumMemory>,
    /// `/proc/powerpc/lparcfg`.
    pub lparcfg: Option<Lparcfg>,
    /// How translation entries are written.
    pub tce_calls: Option<TceCalls>,
    /// Persistent memory is present.
    pub persistent_memory: Option<Citation>,
    /// Windows by the node that owns them.
    pub endpoints: BTreeMap<String, Endpoint>,
    /// Properties that could not be understood.
    pub problems: Vec<String>,
}

/// Reads the facts of a POWER partition. `nodes` are the adapters' nodes in the device tree.
pub(super) fn read<'a>(
    tree: &Tree,
    kernel: Option<&KernelVersion>,
    command_line: &str,
    nodes: impl Iterator<Item = &'a str>,
) -> Partition {
    let mut reader = Reader { tree, base: base(tree), problems: Vec::new() };
    let model = reader.raw("model");
    let functions = reader.property("rtas/ibm,hypertas-functions", device_tree::strings);
    Partition {
        platform: tree.text("proc/cpuinfo").as_ref().and_then(partition::platform),
        is_qemu: model.as_ref().is_some_and(|(bytes, _)| partition::is_qemu(&String::from_utf8_lossy(bytes))),
        machine_type: model.and_then(|(bytes, file)| {
            cited(MachineType::from_property(&bytes).ok()?, &file, |machine| machine.as_str().to_owned())
        }),
        firmware: firmware(&reader),
        memory_max: kernel.and_then(|kernel| maximum_memory(&mut reader, kernel)),
        lparcfg: ["proc/powerpc/lparcfg", "proc/ppc64/lparcfg"]
            .iter()
            .find_map(|path| tree.text(path))
            .map(|text| lparcfg::lparcfg(&text)),
        tce_calls: functions.map(|functions| TceCalls::of(&functions.value, command_line)),
        persistent_memory: persistent_memory(&reader),
        endpoints: endpoints(&mut reader, nodes),
        problems: reader.problems,
    }
}

/// Kernels before 3.x keep the tree in `/proc/device-tree` itself; later ones link from there.
fn base(tree: &Tree) -> &'static str {
    match tree.exists("sys/firmware/devicetree/base") {
        true => "sys/firmware/devicetree/base",
        false => "proc/device-tree",
    }
}

struct Reader<'t> {
    tree: &'t Tree,
    base: &'static str,
    problems: Vec<String>,
}

impl Reader<'_> {
    /// A property's bytes and its file.
    fn raw(&self, property: &str) -> Option<(Vec<u8>, String)> {
        let file = format!("{}/{property}", self.base);
        Some((self.tree.bytes(&file)?, file))
    }

    /// Decodes a property; one that can't be decoded is a problem to tell, not to hide.
    fn property<T: std::fmt::Debug>(
        &mut self,
        path: &str,
        decode: impl FnOnce(&str, &[u8]) -> Result<T, PropertyError>,
    ) -> Option<Cited<T>> {
        let (bytes, file) = self.raw(path)?;
        let name = path.rsplit('/').next().unwrap_or(path);
        match decode(name, &bytes) {
            Ok(value) => cited(value, &file, |value| format!("{value:x?}")),
            Err(problem) => {
                self.problems.push(format!("{file}: {problem}"));
                None
            }
        }
    }
}

/// A value with a citation that shows it as `show` writes it.
fn cited<T, S: AsRef<str>>(value: T, file: &str, show: impl FnOnce(&T) -> S) -> Option<Cited<T>> {
    let at = Citation::of_file(file, show(&value).as_ref());
    Some(Cited::new(value, at))
}

/// The level of the system firmware.
fn firmware(reader: &Reader<'_>) -> Option<Cited<FirmwareLevel>> {
    let (bytes, file) = reader.raw("openprom/ibm,fw-vernum_encoded")?;
    let shown = String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned();
    cited(FirmwareLevel::from_property(&bytes).ok()?, &file, |_| shown)
}

/// The device tree's node of persistent memory, if there is one.
fn persistent_memory(reader: &Reader<'_>) -> Option<Citation> {
    let folder = format!("{}/ibm,persistent-memory", reader.base);
    let node = reader.tree.names(&folder).into_iter().find(|name| name.starts_with("ibm,pmemory"))?;
    Some(Citation::of_file(&format!("{folder}/{node}"), "present"))
}

fn maximum_memory(reader: &mut Reader<'_>, kernel: &KernelVersion) -> Option<MaximumMemory> {
    let node = "ibm,dynamic-reconfiguration-memory";
    let lrdr = reader.property("rtas/ibm,lrdr-capacity", |_, bytes| memory::lrdr_capacity(bytes));
    let lmbs = reader
        .property(&format!("{node}/ibm,dynamic-memory-v2"), |_, bytes| memory::dynamic_memory_v2(bytes))
        .or_else(|| {
            reader.property(&format!("{node}/ibm,dynamic-memory"), |_, bytes| memory::dynamic_memory(bytes))
        });
    let folders = reader.tree.names(reader.base);
    let nodes = folders.iter().filter(|name| *name == "memory" || name.starts_with("memory@"));
    let mut ranges = Vec::new();
    for name in nodes {
        if let Some(found) = reader.property(&format!("{name}/reg"), |_, bytes| memory::memory_reg(bytes)) {
            ranges.extend(found.value.into_iter().map(|range| Cited::new(range, found.at.clone())));
        }
    }
    let facts = MemoryFacts {
        lrdr_memory_max_bytes: lrdr.map(|cited| Cited::new(cited.value.memory_max_bytes, cited.at)),
        lmb_bytes: reader.property(&format!("{node}/ibm,lmb-size"), device_tree::number),
        lmbs,
        ranges,
    };
    memory::maximum_memory(MemoryRule::of(kernel.numbers(), kernel.rhel().map(u32::from)), &facts)
}

fn endpoints<'a>(
    reader: &mut Reader<'_>,
    nodes: impl Iterator<Item = &'a str>,
) -> BTreeMap<String, Endpoint> {
    let mut found = BTreeMap::new();
    for node in nodes {
        if let Some(owner) = owner(reader.tree, node)
            && !found.contains_key(&owner)
        {
            let endpoint = endpoint(reader, &owner);
            found.insert(owner, endpoint);
        }
    }
    found
}

/// The nearest node upwards that has windows.
pub(crate) fn owner(tree: &Tree, node: &str) -> Option<String> {
    const MARKS: [&str; 4] =
        ["ibm,dma-window", window::DIRECT_PROPERTY, window::DYNAMIC_PROPERTY, "ibm,ddw-applicable"];
    let mut at = node;
    for _ in 0..DEPTH_MAX {
        if MARKS.iter().any(|mark| tree.exists(&format!("{at}/{mark}"))) {
            return Some(at.to_owned());
        }
        at = at.rsplit_once('/')?.0;
    }
    None
}

fn endpoint(reader: &mut Reader<'_>, node: &str) -> Endpoint {
    let below = node.strip_prefix(reader.base).map_or(node, |rest| rest.trim_start_matches('/')).to_owned();
    let path = |property: &str| format!("{below}/{property}");
    let cells = |reader: &Reader<'_>, name: &str| reader.raw(&path(name)).map(|(bytes, _)| bytes);
    let (dma_address, dma_size) =
        (cells(reader, "ibm,#dma-address-cells"), cells(reader, "ibm,#dma-size-cells"));
    // A node's `#address-cells` speak of its children; its own addresses are laid out by its parent.
    let parent = below.rsplit_once('/').map_or("", |(parent, _)| parent);
    let inherited = |name: &str| reader.raw(&format!("{parent}/{name}")).map(|(bytes, _)| bytes);
    let (address, size) = (inherited("#address-cells"), inherited("#size-cells"));
    let layout = DmaCells::from_properties(
        dma_address.as_deref(),
        dma_size.as_deref(),
        address.as_deref(),
        size.as_deref(),
    );
    let shown = |at: Citation, value: &dyn std::fmt::Display| Citation { text: value.to_string(), ..at };
    let default_window = match layout {
        Ok(layout) => {
            let found =
                reader.property(&path("ibm,dma-window"), |_, bytes| window::default_window(bytes, layout));
            found.map(|cited| Cited::new(cited.value, shown(cited.at, &cited.value)))
        }
        Err(problem) => {
            reader.problems.push(format!("{node}: {problem}"));
            None
        }
    };
    let windows = [DdwKind::Direct, DdwKind::Dynamic]
        .into_iter()
        .filter_map(|kind| reader.property(&path(kind.property()), |_, bytes| window::ddw(kind, bytes)))
        .map(|cited| Cited::new(cited.value, shown(cited.at, &cited.value)))
        .collect();
    Endpoint {
        node: node.to_owned(),
        default_window,
        windows,
        applicable: reader.property(&path("ibm,ddw-applicable"), |_, bytes| window::ddw_applicable(bytes)),
        extensions: reader.property(&path("ibm,ddw-extensions"), |_, bytes| window::ddw_extensions(bytes)),
    }
}
