//! `iotoll blk list`: NVMe controllers of this host, and the reasons against driving each.

use crate::cli::BlkList;
use crate::inspect::program_version;
use crate::output::{self, Outcome};
use anyhow::bail;
use nvme::takeover::{Accepted, Candidate, Root};
use report::{BlockAdapter, BlockDisk};
use serde::Serialize;

/// The version of the document's layout.
pub(crate) const SCHEMA: &str = "iotoll.blk-list/1";

/// What `iotoll blk list --json` prints.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Document<'a> {
    /// `iotoll.blk-list/1`
    schema: &'static str,
    /// Name and version of the program.
    made_by: &'static str,
    /// NVMe controllers of this host.
    adapters: Vec<AdapterRow<'a>>,
}

/// An NVMe controller.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct AdapterRow<'a> {
    /// Its PCI address.
    address: &'a str,
    /// Its model.
    model: Option<&'a str>,
    /// The driver that it is bound to.
    driver: Option<&'a str>,
    /// Its IOMMU group.
    iommu_group: Option<u32>,
    /// Block devices of its namespaces.
    disks: Vec<DiskRow<'a>>,
    /// Why it can't be driven from user mode; empty if it can.
    refusals: &'a [String],
}

/// A block device of the kernel.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DiskRow<'a> {
    /// Its name in `/dev`.
    name: &'a str,
    /// Its size in bytes.
    bytes: u64,
}

/// Prints the NVMe controllers of this host.
pub(super) fn run(args: &BlkList) -> anyhow::Result<Outcome> {
    if let Some(root) = args.root.as_deref().filter(|root| !root.is_dir()) {
        bail!("no folder {}", root.display());
    }
    let root = args.root.clone().map_or_else(Root::default, Root::at);
    let adapters: Vec<BlockAdapter> =
        Candidate::all(&root)?.iter().map(|one| block_adapter(&root, one)).collect();
    match args.json {
        true => output::print_json(&Document::new(&adapters))?,
        false => output::print_page(&report::block_adapters(&adapters))?,
    }
    Ok(Outcome::Fine)
}

/// A controller with its disks, and the reasons against driving it even with `--unbind`.
fn block_adapter(root: &Root, candidate: &Candidate) -> BlockAdapter {
    let accepted = Accepted { unbind: true, no_iommu: false };
    let disk = |disk: &nvme::takeover::KernelDisk| BlockDisk { name: disk.name.clone(), bytes: disk.bytes };
    BlockAdapter {
        address: candidate.address.clone(),
        model: candidate.model.clone(),
        driver: candidate.driver.clone(),
        group: candidate.group,
        disks: candidate.disks.iter().map(disk).collect(),
        refusals: candidate.refusals(root, accepted).iter().map(ToString::to_string).collect(),
    }
}

impl<'a> Document<'a> {
    fn new(adapters: &'a [BlockAdapter]) -> Self {
        Self {
            schema: SCHEMA,
            made_by: program_version(),
            adapters: adapters.iter().map(AdapterRow::new).collect(),
        }
    }
}

impl<'a> AdapterRow<'a> {
    fn new(adapter: &'a BlockAdapter) -> Self {
        Self {
            address: &adapter.address,
            model: adapter.model.as_deref(),
            driver: adapter.driver.as_deref(),
            iommu_group: adapter.group,
            disks: adapter.disks.iter().map(|disk| DiskRow { name: &disk.name, bytes: disk.bytes }).collect(),
            refusals: &adapter.refusals,
        }
    }
}
