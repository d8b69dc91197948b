//! IOMMUs and their groups.

use crate::citation::Citations;
use host::facts::iommu::{DomainType, Instance, Kind};
use host::{Bdf, Citation, Host};
use serde::Serialize;

/// An IOMMU that the kernel uses.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Iommu {
    /// Its name below `/sys/class/iommu`.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Where it was seen.
    pub evidence: Citation,
}

impl Iommu {
    pub(crate) fn new(instance: &Instance) -> Self {
        Self { name: instance.name.clone(), kind: instance.kind, evidence: instance.at.clone() }
    }
}

/// A set of functions that an IOMMU can't tell apart.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct IommuGroup {
    /// Its number.
    pub number: u32,
    /// Its name, where the platform gives one.
    pub name: Option<String>,
    /// How its DMA is translated.
    pub domain_type: Option<DomainType>,
    /// PCI functions in it.
    pub members: Vec<Bdf>,
    /// What else is in it.
    pub other_members: Vec<String>,
    /// Ranges that firmware keeps out of the DMA API's address space.
    pub direct_regions: u32,
}

impl IommuGroup {
    pub(crate) fn all(host: &Host, citations: &mut Citations) -> Vec<Self> {
        let group = |(row, group): (usize, &host::facts::iommu::Group)| Self {
            number: group.number,
            name: group.name.clone(),
            domain_type: citations
                .value(format!("/iommu_groups/{row}/domain_type"), group.domain_type.as_ref()),
            members: group.members.clone(),
            other_members: group.other_members.clone(),
            direct_regions: group.direct_regions,
        };
        host.iommus.groups.values().enumerate().map(group).collect()
    }
}
