//! The cost of concurrent DMA mappings: Cascardo's talk of 2013 and later publications.

mod hosts;
mod threads;

use super::about::{About, StudyResults};
use super::power7::Power7;
use super::{Changes, StudyError};
use crate::Reproduction;
use serde::Deserialize;

pub(super) const NAME: &str = "dma-contention";
const FILE: &str = "dma-contention.toml";
const TEXT: &str = include_str!("../../../../experiments/dma-contention.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: About,
    hosts: Vec<hosts::Figure>,
    threads: threads::Threads,
}

pub(super) fn reproduce(changes: &Changes) -> Result<Reproduction, StudyError> {
    let file: File = changes.read(FILE, TEXT, &["threads", "parameters"])?;
    let power7 = Power7::read(changes)?;
    let results = hosts::reproduce(file.hosts, &power7)?.append(file.threads.reproduce(&power7)?);
    Ok(file.about.into_reproduction(NAME, results))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reproduce() -> Result<Reproduction, StudyError> {
        super::reproduce(&Changes::default())
    }

    /// Finds a line of a chart by its name.
    fn line<'r>(one: &'r Reproduction, chart: usize, name: &str) -> &'r crate::Line {
        one.charts[chart].lines.iter().find(|line| line.name == name).unwrap()
    }

    #[test]
    fn schemes_that_share_more_between_threads_take_longer() {
        let one = reproduce().unwrap();
        let names = ["direct", "magazine", "pool", "bitmap", "bitmap before 3.6"];
        // With a thread for each hardware thread.
        let at = |name: &str| line(&one, 0, name).points.iter().find(|point| point.0 == 64.0).unwrap().1;
        let seconds = names.map(at);
        assert!(seconds.is_sorted(), "{seconds:?}");
    }

    #[test]
    fn more_threads_never_finish_sooner() {
        for line in reproduce().unwrap().charts.iter().flat_map(|chart| &chart.lines) {
            for two in line.points.windows(2) {
                assert!(two[1].1 > 0.97 * two[0].1, "{}: {two:?}", line.name);
            }
        }
    }

    #[test]
    fn calibrated_figures_are_met() {
        let one = reproduce().unwrap();
        let points = one.curves.iter().flat_map(|curve| &curve.points);
        for point in points.filter(|point| point.role == crate::Role::Calibrated) {
            assert!(point.error().abs() < 0.03, "{point:?}");
        }
    }
}
