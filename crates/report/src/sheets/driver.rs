//! Workloads grouped by driver, then by machine and kernel; those to which DMA paths add most come first.

use super::platform::{Platform, SheetLine, platforms};
use escape::terminal::plain;
use std::collections::BTreeMap;
use toll::TollSheet;

/// The workloads of a driver.
pub(crate) struct Driver<'s> {
    name: String,
    /// One group for each machine and kernel.
    pub(crate) groups: Vec<Group<'s>>,
}

/// The workloads of a driver on one machine and kernel.
pub(crate) struct Group<'s> {
    /// The machine and kernel, in words.
    pub(crate) platform: String,
    /// The workloads to which DMA paths add most come first.
    pub(crate) charts: Vec<Chart<'s>>,
}

/// One workload on one machine and kernel.
pub(crate) struct Chart<'s> {
    /// Its number in the page, from 1.
    pub(crate) number: usize,
    /// The workload's name.
    pub(crate) workload: String,
    /// A bar for each DMA path, the one with the fewest instructions first.
    pub(crate) lines: Vec<SheetLine<'s>>,
}

/// A workload on all machines and kernels.
struct Workload<'s> {
    name: &'s str,
    driver: &'s str,
    platforms: Vec<Platform<'s>>,
}

impl Workload<'_> {
    /// The largest share that any DMA path adds for certain.
    fn added_share_max(&self) -> f64 {
        let lines = self.platforms.iter().flat_map(|platform| &platform.lines);
        lines.filter_map(SheetLine::certainly_added_share).fold(0.0, f64::max)
    }
}

impl<'s> Driver<'s> {
    /// `driver nvme`, for a heading.
    pub(crate) fn title(&self) -> String {
        match self.name.as_str() {
            "none" => "without an adapter".to_owned(),
            driver => format!("driver {}", plain(driver)),
        }
    }

    /// The bars of all charts.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &SheetLine<'s>> + Clone {
        self.groups.iter().flat_map(|group| &group.charts).flat_map(|chart| &chart.lines)
    }
}

/// The drivers of all workloads. Drivers and workloads to which DMA paths add most come first.
pub(crate) fn drivers(sheets: &[TollSheet]) -> Vec<Driver<'_>> {
    let mut by_driver: Vec<(&str, Vec<Workload>)> = Vec::new();
    for workload in workloads(sheets) {
        match by_driver.iter_mut().find(|(driver, _)| *driver == workload.driver) {
            Some((_, known)) => known.push(workload),
            None => by_driver.push((workload.driver, vec![workload])),
        }
    }
    let mut numbers = 1..;
    by_driver.into_iter().map(|(name, workloads)| driver(name, workloads, &mut numbers)).collect()
}

/// All workloads, with the sheets that have them.
fn workloads(sheets: &[TollSheet]) -> Vec<Workload<'_>> {
    let mut workloads: Vec<Workload> = Vec::new();
    for toll in sheets.iter().flat_map(|sheet| &sheet.tolls) {
        if workloads.iter().all(|known| known.name != toll.workload) {
            let platforms = platforms(sheets, &toll.workload);
            workloads.push(Workload { name: &toll.workload, driver: &toll.driver, platforms });
        }
    }
    workloads.sort_by(|one, other| other.added_share_max().total_cmp(&one.added_share_max()));
    workloads
}

/// Groups a driver's workloads by machine and kernel, and numbers their charts.
fn driver<'s>(
    name: &str,
    workloads: Vec<Workload<'s>>,
    numbers: &mut impl Iterator<Item = usize>,
) -> Driver<'s> {
    let mut groups: BTreeMap<String, Vec<Chart>> = BTreeMap::new();
    for workload in workloads {
        for (platform, number) in workload.platforms.into_iter().zip(numbers.by_ref()) {
            let mut lines = platform.lines;
            lines.sort_by(|one, other| one.instructions().total_cmp(&other.instructions()));
            let chart = Chart { number, workload: plain(workload.name), lines };
            groups.entry(platform.name).or_default().push(chart);
        }
    }
    let group = |(platform, charts)| Group { platform, charts };
    Driver { name: name.to_owned(), groups: groups.into_iter().map(group).collect() }
}
