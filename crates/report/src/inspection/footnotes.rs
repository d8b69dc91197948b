//! What stands below the table of adapters: conditions of DMA paths, and reasons for unknown ones.

use super::row::Row;
use crate::page::quantity;
use host::diagnose::DmaPath;
use std::collections::BTreeMap;

/// The mark behind a DMA path that holds on a condition.
pub(crate) const MARK: &str = "*";
/// Addresses named in one note.
const ADDRESSES_MAX: usize = 3;

/// One note for each condition and each reason, with the adapters that it is about.
pub(crate) fn footnotes(rows: &[Row]) -> Vec<String> {
    let mut conditions: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    let mut reasons: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        if !row.condition.is_empty() {
            conditions.entry(&row.condition).or_default().push(row);
        }
        if row.dma_path == DmaPath::Unknown && !row.reason.is_empty() {
            reasons.entry(&row.reason).or_default().push(row);
        }
    }
    let conditions =
        conditions.iter().map(|(condition, rows)| format!("{MARK} if {condition}: {}", addresses(rows)));
    let reasons = reasons.iter().map(|(reason, rows)| format!("unknown: {reason}: {}", addresses(rows)));
    conditions.chain(reasons).collect()
}

/// Few addresses, or how many adapters there are.
fn addresses(rows: &[&Row]) -> String {
    match rows.len() {
        count if count > ADDRESSES_MAX => quantity::count(count, "adapter"),
        _ => rows.iter().map(|row| row.address.to_string()).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::{Host, Inspection, Tree, tree::Memory};

    #[test]
    fn conditions_and_reasons_stand_once_with_their_adapters() {
        let rows = |log: &str| {
            let mut files = Memory::default();
            files.file("var/log/dmesg", log);
            super::super::row::rows(&Inspection::of(Host::read(&Tree::of_memory(files))))
        };
        let translated = "iommu: Default domain type: Passthrough (set via kernel command line)\n\
            pci 0000:01:00.0: Adding to iommu group 1\npci 0000:02:00.0: Adding to iommu group 2\n";
        let expect = "* if a driver of the kernel uses it: 0000:01:00.0, 0000:02:00.0";
        assert_eq!(footnotes(&rows(translated)), [expect]);
        let unknown = footnotes(&rows("igb 0000:01:00.0: added PHC on eth0\n"));
        assert!(
            unknown.len() == 1 && unknown[0].starts_with("unknown: neither /sys/class/iommu"),
            "{unknown:?}"
        );
    }
}
