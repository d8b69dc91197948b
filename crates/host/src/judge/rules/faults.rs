//! DMA faults and frozen slots in the kernel's log.

use crate::Bdf;
use crate::facts::log::Fault;
use crate::judge::{Case, Finding, Id, Severity};
use std::collections::BTreeMap;

/// Lines quoted for one adapter: the first ones tell the cause, thousands tell nothing more.
const LINES_QUOTED_MAX: usize = 4;

pub(super) fn find(case: &Case<'_>) -> Vec<Finding> {
    let mut by_adapter: BTreeMap<Option<Bdf>, Vec<&Fault>> = BTreeMap::new();
    for fault in &case.host.log.faults {
        by_adapter.entry(fault.address).or_default().push(fault);
    }
    by_adapter.into_iter().map(|(address, faults)| finding(address, &faults)).collect()
}

fn finding(address: Option<Bdf>, faults: &[&Fault]) -> Finding {
    let first = faults.first().map_or("", |fault| fault.what.as_str());
    let more = match faults.len() {
        0 | 1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    let whose = address.map_or_else(|| "an unnamed function".to_owned(), |address| address.to_string());
    Finding {
        id: Id::DmaFaults,
        severity: Severity::Critical,
        address,
        what: format!("DMA of {whose} was refused: {first}{more}"),
        evidence: faults.iter().take(LINES_QUOTED_MAX).map(|fault| fault.at.clone()).collect(),
        fix: "find who used an address that was not mapped: update the adapter's firmware and driver first; a \
              driver under development shows the mapping with CONFIG_DMA_API_DEBUG and dma_debug_driver=<driver>. \
              If firmware owns the address (RMRR, IVMD), a BIOS update must list it"
            .to_owned(),
        risk: "passthrough (iommu=pt) silences the fault by giving up the protection that caught it: the stray \
               access then reaches memory"
            .to_owned(),
        verify: "no new fault lines in `dmesg` under the load that showed them".to_owned(),
        gain: None,
    }
}
