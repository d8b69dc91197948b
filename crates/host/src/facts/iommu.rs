//! IOMMU instances and groups, as sysfs shows them.
//!
//! Sources: Documentation/ABI/testing/sysfs-kernel-iommu_groups, drivers/iommu/iommu.c
//! (`iommu_group_show_type`), drivers/iommu/iommu-sysfs.c.

use crate::kernel::Architecture;
use crate::tree::Reach;
use crate::{Bdf, Cited, Tree};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::numa::numbered;

/// What hardware or hypervisor translates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "IommuKind"))]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Intel VT-d (`dmar<n>`).
    VtD,
    /// AMD-Vi (`ivhd<n>`).
    AmdVi,
    /// Arm SMMU version 3 (`smmu3.<address>`).
    SmmuV3,
    /// Arm SMMU version 1 or 2 (`smmu.<address>`).
    Smmu,
    /// A paravirtual IOMMU.
    VirtioIommu,
    /// POWER host bridge with translation control entries (`iommu-phb<nnnn>`).
    Tce,
    /// Another driver's.
    Other,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::VtD => "VT-d",
            Self::AmdVi => "AMD-Vi",
            Self::SmmuV3 => "SMMUv3",
            Self::Smmu => "an SMMU before version 3",
            Self::VirtioIommu => "virtio-iommu",
            Self::Tce => "POWER's tables",
            Self::Other => "an IOMMU of another kind",
        })
    }
}

/// One IOMMU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Its name below `/sys/class/iommu`.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Where it was seen.
    pub at: crate::Citation,
}

/// The translation mode of a group's domain, as its `type` file names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DomainType {
    /// No DMA gets through.
    Blocked,
    /// Bus address = physical address.
    Identity,
    /// Mappings belong to whoever attached the domain: VFIO.
    Unmanaged,
    /// Mapped by the DMA API. Strict since 5.15; before, the type does not tell.
    Dma,
    /// Mapped by the DMA API with a flush queue: lazy (since 5.15).
    DmaFq,
    /// The kernel itself says `unknown`: on POWER the platform's domain is not in its list.
    Unknown,
}

impl DomainType {
    /// Parses the text of `/sys/kernel/iommu_groups/N/type`.
    fn parse(name: &str) -> Option<Self> {
        match name {
            "blocked" => Some(Self::Blocked),
            "identity" => Some(Self::Identity),
            "unmanaged" => Some(Self::Unmanaged),
            "DMA" => Some(Self::Dma),
            "DMA-FQ" => Some(Self::DmaFq),
            "unknown" => Some(Self::Unknown),
            _ => None,
        }
    }
}

/// A set of functions that can't be told apart by their IOMMU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its number.
    pub number: u32,
    /// Its name, where a platform gives one (`domain<d>-pe<x>` on POWER).
    pub name: Option<String>,
    /// Translation mode; `None` if the file is absent (before 4.x) or not readable.
    pub domain_type: Option<Cited<DomainType>>,
    /// The PCI functions in it.
    pub members: Vec<Bdf>,
    /// Members that are no PCI functions.
    pub other_members: Vec<String>,
    /// Ranges kept out of the DMA API's address space by firmware (type `direct`).
    pub direct_regions: u32,
}

impl Group {
    /// Whether it has one member, of any kind.
    pub fn is_single(&self) -> bool {
        self.members.len() + self.other_members.len() == 1
    }
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Iommus {
    /// What translates; empty means that no IOMMU driver is active, if `visible`.
    pub instances: Vec<Instance>,
    /// Groups by number.
    pub groups: BTreeMap<u32, Group>,
    /// Whether sysfs was there and could be read to show IOMMUs at all: an empty list means nothing otherwise.
    pub visible: bool,
}

impl Iommus {
    /// The architecture that alone has such an IOMMU.
    pub(super) fn architecture(&self) -> Option<Architecture> {
        self.instances.iter().find_map(|instance| match instance.kind {
            Kind::VtD | Kind::AmdVi => Some(Architecture::X86_64),
            Kind::SmmuV3 | Kind::Smmu => Some(Architecture::Aarch64),
            Kind::Tce => Some(Architecture::Ppc64le),
            Kind::VirtioIommu | Kind::Other => None,
        })
    }

    /// Takes the groups that the kernel's log or lspci names, where sysfs shows none. They do not tell their types.
    pub(super) fn complete_from_members(&mut self, members: impl Iterator<Item = (Bdf, u32)>) {
        if self.visible || !self.groups.is_empty() {
            return;
        }
        for (address, number) in members.collect::<BTreeMap<_, _>>() {
            let entry = self.groups.entry(number).or_insert_with(|| Group {
                number,
                name: None,
                domain_type: None,
                members: Vec::new(),
                other_members: Vec::new(),
                direct_regions: 0,
            });
            entry.members.push(address);
        }
    }
}

/// Reads `/sys/class/iommu` and `/sys/kernel/iommu_groups`.
pub fn read(tree: &Tree) -> Iommus {
    let folder = "sys/kernel/iommu_groups";
    let has_groups = tree.exists(folder);
    let groups = match has_groups {
        true => {
            numbered(tree, folder, "").map(|n| (n, read_group(tree, &format!("{folder}/{n}"), n))).collect()
        }
        false => BTreeMap::new(),
    };
    let instances = match tree.exists("sys/class/iommu") {
        true => tree.names("sys/class/iommu").iter().map(|name| instance(name)).collect(),
        false => Vec::new(),
    };
    // The kernel makes iommu_groups whenever it has IOMMU support; captures may leave it out, and a
    // kernel without any IOMMU too. What other folders a capture holds tells which.
    let shows = has_groups
        || tree.exists("sys/class/iommu")
        || (tree.exists("sys/bus/pci/devices") && (tree.reach() == Reach::Live || shows_classes(tree)));
    let visible = shows && !tree.is_unread(folder) && !tree.is_unread("sys/class/iommu");
    Iommus { instances, groups, visible }
}

/// Whether a capture holds the folder of device classes, and so would hold that of IOMMUs.
fn shows_classes(tree: &Tree) -> bool {
    !tree.names("sys/class").is_empty()
}

/// An IOMMU by its name below `/sys/class/iommu`, which tells its kind.
fn instance(name: &str) -> Instance {
    let digits_after = |prefix: &str| {
        name.strip_prefix(prefix).is_some_and(|rest| rest.bytes().next().is_some_and(|b| b.is_ascii_digit()))
    };
    let kind = match name {
        _ if digits_after("dmar") => Kind::VtD,
        _ if digits_after("ivhd") => Kind::AmdVi,
        _ if name.starts_with("smmu3.") => Kind::SmmuV3,
        _ if name.starts_with("smmu.") => Kind::Smmu,
        _ if name.starts_with("virtio") => Kind::VirtioIommu,
        _ if name.starts_with("iommu-phb") => Kind::Tce,
        _ => Kind::Other,
    };
    let at = crate::Citation::of_file(&format!("sys/class/iommu/{name}"), "present");
    Instance { name: name.to_owned(), kind, at }
}

/// Reads an IOMMU group: its members and the type of its domain.
fn read_group(tree: &Tree, folder: &str, number: u32) -> Group {
    let (mut members, mut other_members) = (Vec::new(), Vec::new());
    for name in tree.names(&format!("{folder}/devices")) {
        match name.parse() {
            Ok(address) => members.push(address),
            Err(_) => other_members.push(name),
        }
    }
    let domain_type = tree
        .exists(&format!("{folder}/type"))
        .then(|| tree.value(&format!("{folder}/type")))
        .flatten()
        .and_then(|cited| Some(Cited::new(DomainType::parse(&cited.value)?, cited.at)));
    let direct_regions = tree
        .text(&format!("{folder}/reserved_regions"))
        .map_or(0, |text| text.body().lines().filter(|line| line.trim_end().ends_with(" direct")).count());
    Group {
        number,
        name: tree.text(&format!("{folder}/name")).map(|text| text.body().trim().to_owned()),
        domain_type,
        members,
        other_members,
        direct_regions: u32::try_from(direct_regions).unwrap_or(u32::MAX),
    }
}
