//! IOMMUs and their groups.

use crate::citation::Citations;
use host::facts::iommu::{DomainType, Instance, Kind};
use host::{Bdf, Citation, Host};
use serde::Serialize;

/// An IOMMU that the kernel uses.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Iommu {
    /// Its name below `/sys/class/iommu`.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// The file or folder that shows it.
    pub evidence: Citation,
}

impl Iommu {
    /// Converts an IOMMU.
    pub(crate) fn new(instance: &Instance) -> Self {
        Self { name: instance.name.clone(), kind: instance.kind, evidence: instance.at.clone() }
    }
}

/// An IOMMU group: a set of functions that an IOMMU can't tell apart.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IommuGroup {
    /// Its number.
    pub number: u32,
    /// Its name, if the platform gives one.
    pub name: Option<String>,
    /// How its DMA is translated.
    pub domain_type: Option<DomainType>,
    /// PCI functions in it.
    pub members: Vec<Bdf>,
    /// Devices in it that are not PCI functions.
    pub other_members: Vec<String>,
    /// Address ranges that firmware reserves; the DMA API allocates none of them.
    pub direct_regions: u32,
}

impl IommuGroup {
    /// All IOMMU groups of a host; records the citations of their types.
    pub(crate) fn all(host: &Host, citations: &mut Citations) -> Vec<Self> {
        let group = |(row, group): (usize, &host::facts::iommu::Group)| Self {
            number: group.number,
            name: group.name.clone(),
            domain_type: citations
                .cite_value(format!("/iommu_groups/{row}/domain_type"), group.domain_type.as_ref()),
            members: group.members.clone(),
            other_members: group.other_members.clone(),
            direct_regions: group.direct_regions,
        };
        host.iommus.groups.values().enumerate().map(group).collect()
    }
}
