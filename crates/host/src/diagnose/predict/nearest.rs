//! The choice of the sheets nearest to an adapter.

use super::change::Change;
use super::place::{Environment, Workload};
use super::releases;
use crate::Digest;
use crate::diagnose::prediction::Distance;
use crate::digest::{SheetDigest, TollDigest};
use crate::facts::iommu::Kind;

/// Drivers by which others of their class are judged, the likest to a card first.
const STAND_INS: [&str; 4] = ["nvme", "e1000e", "e1000", "virtio_net"];

/// One workload on two DMA paths of one machine and kernel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair<'d> {
    pub(super) now: Side<'d>,
    pub(super) then: Side<'d>,
    pub(super) distance: Distance,
}

/// A toll with the sheet it is on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Side<'d> {
    pub(super) sheet: &'d SheetDigest,
    pub(super) toll: &'d TollDigest,
}

impl Pair<'_> {
    /// What translates on either DMA path.
    pub(super) fn iommu(&self) -> Option<Kind> {
        self.now.sheet.iommu.or(self.then.sheet.iommu)
    }
}

/// The pair of sheets nearest to a place that has the workload on both DMA paths of a change.
pub(super) fn pair<'d>(
    digest: &'d Digest,
    place: &Environment<'_>,
    change: Change,
    workload: Workload,
) -> Option<Pair<'d>> {
    let architecture = place.architecture?;
    let of = |dma_path| digest.sheets.iter().filter(move |s| s.dma_path == dma_path && s.is_of(architecture));
    let pairs = of(change.from).flat_map(|now| {
        let same = of(change.to).filter(|then| same_machine(now, then));
        same.flat_map(move |then| tolls(now, then, workload))
    });
    let measured = pairs.map(|(now, then)| Pair { now, then, distance: distance(place, now, then) });
    measured.min_by_key(|pair| {
        let driver = pair.now.toll.driver.as_str();
        let stand_in = STAND_INS.iter().position(|known| *known == driver).unwrap_or(STAND_INS.len());
        (pair.distance.rank(), stand_in, &pair.now.sheet.preset, &pair.then.sheet.preset)
    })
}

/// Whether two sheets are of the same machine, apart from the DMA path. Two IOMMUs are two machines.
fn same_machine(now: &SheetDigest, then: &SheetDigest) -> bool {
    let iommus_agree = now.iommu.is_none() || then.iommu.is_none() || now.iommu == then.iommu;
    iommus_agree && now.cpu == then.cpu && now.kernel.release == then.kernel.release
}

/// The same I/O of the same driver on both.
fn tolls<'d>(
    now: &'d SheetDigest,
    then: &'d SheetDigest,
    workload: Workload,
) -> impl Iterator<Item = (Side<'d>, Side<'d>)> {
    let wanted = now.tolls.iter().filter(move |toll| toll.workload.ends_with(workload.suffix()));
    wanted.filter_map(move |toll| {
        let other = then.toll(&toll.workload, &toll.driver)?;
        Some((Side { sheet: now, toll }, Side { sheet: then, toll: other }))
    })
}

/// In what the host differs from the machines of two toll sheets.
fn distance(place: &Environment<'_>, now: Side<'_>, then: Side<'_>) -> Distance {
    Distance {
        other_iommu: now.sheet.iommu.or(then.sheet.iommu) != place.iommu,
        other_tce_calls: now.sheet.tce_calls() != place.tce_calls,
        other_driver: place.driver != Some(&now.toll.driver),
        kernel_releases: releases::to_sheet(place.kernel, now.sheet),
    }
}
