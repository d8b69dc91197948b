//! What DMA mappings cost where many ask for them at once: Cascardo's talk of 2013, and what others published since.

mod hosts;
mod threads;

use super::about::{About, Told};
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
    let told = hosts::told(file.hosts, &power7)?.and(file.threads.told(&power7)?);
    Ok(file.about.with(NAME, told))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reproduce() -> Result<Reproduction, StudyError> {
        super::reproduce(&Changes::default())
    }

    fn line<'r>(one: &'r Reproduction, chart: usize, name: &str) -> &'r crate::Line {
        one.charts[chart].lines.iter().find(|line| line.name == name).unwrap()
    }

    #[test]
    fn schemes_come_in_the_order_of_what_their_threads_share() {
        let one = reproduce().unwrap();
        let names = ["direct", "magazine", "pool", "bitmap", "bitmap before 3.6"];
        // With a thread for each hardware thread.
        let at = |name: &str| line(&one, 0, name).points.iter().find(|point| point.0 == 64.0).unwrap().1;
        let seconds = names.map(at);
        assert!(seconds.is_sorted(), "{seconds:?}");
    }

    #[test]
    fn a_thread_more_is_never_done_sooner() {
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
