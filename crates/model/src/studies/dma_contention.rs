//! The cost of concurrent DMA mappings: Cascardo's talk of 2013 and later publications.

mod hosts;
mod threads;

use super::about::{About, StudyResults};
use super::power7::Power7;
use super::replication::Replication;
use super::{Changes, StudyError};
use crate::{Parameter, Reproduction};
use hosts::Hosts;
use serde::Deserialize;

pub(super) const NAME: &str = "dma-contention";
const FILE: &str = "dma-contention.toml";
const TEXT: &str = include_str!("../../experiments/dma-contention.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: About,
    hosts: Vec<hosts::Figure>,
    threads: threads::Threads,
}

/// Runs the study.
pub(super) fn run(of: &Replication<'_>) -> Result<Reproduction, StudyError> {
    let (file, seed) = (read(of.changes)?, of.seed);
    let hosts = Hosts { power7: Power7::read(of.changes)?, seed };
    let mut curves = hosts::build_curves(file.hosts, &hosts)?;
    curves.extend(file.threads.build_curves(&hosts.power7, seed)?);
    let charts = if of.draws() { file.threads.build_charts(&hosts.power7, seed)? } else { Vec::new() };
    let parameters = parameters(of.changes)?;
    Ok(file.about.into_reproduction(NAME, StudyResults { parameters, curves, charts }))
}

/// The parameters of the two hosts, then those of threads.
pub(super) fn parameters(changes: &Changes) -> Result<Vec<Parameter>, StudyError> {
    let mut all = Power7::read(changes)?.parameters().parameter_list();
    all.extend(read(changes)?.threads.parameter_list()?);
    Ok(all)
}

/// Parses the study file with the changes applied.
fn read(changes: &Changes) -> Result<File, StudyError> {
    changes.read(FILE, TEXT, &["threads", "parameters"])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reproduce() -> Result<Reproduction, StudyError> {
        super::run(&Replication::first(&Changes::default()))
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
        for point in points.filter(|point| point.kind == crate::FigureKind::Calibrated) {
            assert!(point.error().abs() < 0.03, "{point:?}");
        }
    }
}
