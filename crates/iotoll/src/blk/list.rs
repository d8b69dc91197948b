//! `iotoll blk list`: NVMe controllers of this host, and what speaks against driving each.

use crate::cli::BlkList;
use crate::output::{self, Outcome};
use anyhow::bail;
use nvme::takeover::{Accepted, Candidate, Root};
use report::{BlockAdapter, BlockDisk};
use serde_json::{Value, json};

pub(super) fn run(args: &BlkList) -> anyhow::Result<Outcome> {
    if let Some(root) = args.root.as_deref().filter(|root| !root.is_dir()) {
        bail!("no folder {}", root.display());
    }
    let root = args.root.clone().map_or_else(Root::default, Root::at);
    let adapters: Vec<BlockAdapter> = Candidate::all(&root)?.iter().map(|one| row(&root, one)).collect();
    match args.json {
        true => output::json(&document(&adapters))?,
        false => output::report(report::block_adapters(&adapters, output::width(), output::style()))?,
    }
    Ok(Outcome::Fine)
}

fn row(root: &Root, candidate: &Candidate) -> BlockAdapter {
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

fn document(adapters: &[BlockAdapter]) -> Value {
    let disk = |disk: &BlockDisk| json!({ "name": disk.name, "bytes": disk.bytes });
    let adapter = |adapter: &BlockAdapter| {
        json!({
            "address": adapter.address, "model": adapter.model, "driver": adapter.driver, "iommu_group": adapter.group,
            "disks": adapter.disks.iter().map(disk).collect::<Vec<_>>(), "refusals": adapter.refusals,
        })
    };
    json!({ "schema": "iotoll.blk-list/1", "adapters": adapters.iter().map(adapter).collect::<Vec<_>>() })
}
