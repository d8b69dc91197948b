//! What DMA mappings cost where many ask for them at once: Cascardo's talk of 2013, and what others published since.

mod hosts;
mod threads;

use super::about::{About, Told};
use super::{Changes, FamilyError};
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

pub(super) fn reproduce(changes: &Changes) -> Result<Reproduction, FamilyError> {
    let table = changes.read(FILE, TEXT, &["threads", "parameters"])?;
    let file: File = table.try_into().map_err(|source| FamilyError::File { file: FILE, source })?;
    let told = hosts::told(file.hosts, changes)?.and(file.threads.told()?);
    Ok(file.about.with(NAME, told))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reproduce() -> Result<Reproduction, FamilyError> {
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
    fn both_models_have_the_same_machines() {
        let given = |name: &str| {
            let parameters = reproduce().unwrap().parameters;
            parameters.into_iter().find(|one| one.name == name).unwrap().value
        };
        assert_eq!(given("power_ns_per_instruction"), given("instruction_ns"));
        assert_eq!(given("power_hypercalls_ns"), 2.0 * given("hypercall_us") * 1e3);
        assert_eq!(given("power_smt4_gain"), given("core_capacity_4_threads"));
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
