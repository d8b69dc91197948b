//! The workloads of one driver, ordered by what DMA paths add to them for certain.

use crate::platform::{Line, Platform, platforms};
use escape::terminal::plain;
use std::collections::BTreeMap;
use toll::TollSheet;

/// The workloads of a driver.
pub(super) struct Family<'s> {
    driver: String,
    /// One for each machine and kernel.
    pub(super) groups: Vec<Group<'s>>,
}

/// The workloads of a driver on one machine and kernel.
pub(super) struct Group<'s> {
    /// The machine and kernel, in words.
    pub(super) platform: String,
    /// What DMA paths add most to comes first.
    pub(super) charts: Vec<Chart<'s>>,
}

/// One workload on one machine and kernel.
pub(super) struct Chart<'s> {
    /// Its number in the page, from 1.
    pub(super) number: usize,
    /// The workload's name.
    pub(super) workload: String,
    /// The DMA paths, cheapest I/O first.
    pub(super) lines: Vec<Line<'s>>,
}

/// A workload on all machines.
struct Workload<'s> {
    name: &'s str,
    driver: &'s str,
    platforms: Vec<Platform<'s>>,
}

impl Workload<'_> {
    /// The most that a DMA path adds to it for certain.
    fn added(&self) -> f64 {
        let lines = self.platforms.iter().flat_map(|platform| &platform.lines);
        lines.filter_map(Line::surely_added).fold(0.0, f64::max)
    }
}

impl<'s> Family<'s> {
    /// Its name.
    pub(super) fn title(&self) -> String {
        match self.driver.as_str() {
            "none" => "without an adapter".to_owned(),
            driver => format!("driver {}", plain(driver)),
        }
    }

    /// All its bars.
    pub(super) fn lines(&self) -> impl Iterator<Item = &Line<'s>> + Clone {
        self.groups.iter().flat_map(|group| &group.charts).flat_map(|chart| &chart.lines)
    }
}

/// All workloads of the sheets by driver. What DMA paths add most to comes first, drivers and workloads alike.
pub(super) fn families(sheets: &[TollSheet]) -> Vec<Family<'_>> {
    let mut by_driver: Vec<(&str, Vec<Workload>)> = Vec::new();
    for workload in workloads(sheets) {
        match by_driver.iter_mut().find(|(driver, _)| *driver == workload.driver) {
            Some((_, known)) => known.push(workload),
            None => by_driver.push((workload.driver, vec![workload])),
        }
    }
    let mut numbers = 1..;
    by_driver.into_iter().map(|(driver, workloads)| family(driver, workloads, &mut numbers)).collect()
}

fn workloads(sheets: &[TollSheet]) -> Vec<Workload<'_>> {
    let mut workloads: Vec<Workload> = Vec::new();
    for toll in sheets.iter().flat_map(|sheet| &sheet.tolls) {
        if workloads.iter().all(|known| known.name != toll.workload) {
            let platforms = platforms(sheets, &toll.workload);
            workloads.push(Workload { name: &toll.workload, driver: &toll.driver, platforms });
        }
    }
    workloads.sort_by(|one, other| other.added().total_cmp(&one.added()));
    workloads
}

fn family<'s>(
    driver: &str,
    workloads: Vec<Workload<'s>>,
    numbers: &mut impl Iterator<Item = usize>,
) -> Family<'s> {
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
    Family { driver: driver.to_owned(), groups: groups.into_iter().map(group).collect() }
}
