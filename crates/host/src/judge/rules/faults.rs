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
        let address = fault.address.or_else(|| of_stream(case, fault.stream?));
        by_adapter.entry(address).or_default().push(fault);
    }
    by_adapter.into_iter().map(|(address, faults)| finding(address, &faults)).collect()
}

/// Firmware usually makes a function's requester ID its stream's low 16 bits (IORT, identity mapping of
/// a root complex). Taken only where one adapter alone fits.
fn of_stream(case: &Case<'_>, stream: u32) -> Option<Bdf> {
    let requester = |at: Bdf| u32::from(at.bus) << 8 | u32::from(at.device) << 3 | u32::from(at.function);
    let mut fitting = case.adapters().map(|(adapter, _)| adapter.function.address);
    let mut fitting = fitting.by_ref().filter(|at| requester(*at) == stream & 0xffff);
    let first = fitting.next()?;
    fitting.next().is_none().then_some(first)
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
