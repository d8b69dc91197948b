//! One setup under several seeds: the mean of each figure, with an interval.
//!
//! Each run draws its own random numbers, so the runs are independent, and Student's distribution gives the interval.
//! The batches of one run are not: they share its assignment of flows to rings, for example.

use crate::part::Part;
use toll::Estimate;

/// Runs of a file that says no other number: as many as `iotoll lab run` boots a machine. Fewer have wide intervals
/// (Student's quantile is 4.3 with three runs, 2.8 with five), and more narrow them slowly (2.3 with ten).
pub(crate) const SEEDS: u32 = 5;
/// Most seeds of a file.
pub(crate) const SEEDS_MAX: u32 = 100;

/// The default of `seeds` in files.
pub(crate) fn default_seeds() -> u32 {
    SEEDS
}

/// Outcomes of one setup, at least one.
#[derive(Debug)]
pub(crate) struct Replications<Outcome> {
    outcomes: Vec<Outcome>,
    /// Another seed would give the same outcome, so the interval of the only run has no width.
    is_exact: bool,
}

impl<Outcome> Replications<Outcome> {
    /// Runs once for each of `seeds` consecutive seeds.
    ///
    /// # Errors
    /// That of the first run that has one.
    pub(crate) fn run<Failure>(
        first_seed: u64,
        seeds: u32,
        mut run: impl FnMut(u64) -> Result<Outcome, Failure>,
    ) -> Result<Self, Failure> {
        let seeds = (0..u64::from(seeds.max(1))).map(|number| first_seed.wrapping_add(number));
        let outcomes = seeds.map(&mut run).collect::<Result<_, _>>()?;
        Ok(Self { outcomes, is_exact: false })
    }

    /// Runs once, for a setup in which nothing depends on the seed.
    ///
    /// # Errors
    /// That of the run.
    pub(crate) fn run_once<Failure>(run: impl FnOnce() -> Result<Outcome, Failure>) -> Result<Self, Failure> {
        Ok(Self { outcomes: vec![run()?], is_exact: true })
    }

    /// Number of runs.
    pub(crate) fn count(&self) -> u32 {
        self.outcomes.len() as u32
    }

    /// The mean busy share of each part.
    pub(crate) fn parts(&self, of: impl Fn(&Outcome) -> Vec<Part>) -> Vec<Part> {
        let all: Vec<Vec<Part>> = self.outcomes.iter().map(of).collect();
        let names = all.first().map_or(&[][..], Vec::as_slice).iter().map(|part| part.name.clone());
        let mean =
            |place: usize| all.iter().map(|parts| parts[place].busy_share).sum::<f64>() / all.len() as f64;
        names.enumerate().map(|(place, name)| Part::new(name, mean(place))).collect()
    }

    /// The outcome of the first seed.
    pub(crate) fn first(&self) -> &Outcome {
        &self.outcomes[0]
    }

    /// All outcomes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter()
    }

    /// The mean of a figure, with its interval.
    pub(crate) fn estimate(&self, of: impl Fn(&Outcome) -> f64) -> Estimate {
        self.estimate_known(|outcome| Some(of(outcome))).unwrap_or_default()
    }

    /// The same of a figure that some runs may not have. `None` if none has it.
    pub(crate) fn estimate_known(&self, of: impl Fn(&Outcome) -> Option<f64>) -> Option<Estimate> {
        let values: Vec<f64> = self.outcomes.iter().filter_map(of).collect();
        let estimate = Estimate::of(&values)?;
        let exact = Estimate { low: Some(estimate.mean), high: Some(estimate.mean), ..estimate };
        Some(if self.is_exact { exact } else { estimate })
    }

    /// The mean of a figure.
    pub(crate) fn mean(&self, of: impl Fn(&Outcome) -> f64) -> f64 {
        self.outcomes.iter().map(of).sum::<f64>() / self.outcomes.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_follow_one_another_and_equal_outcomes_have_no_width() {
        let seeds = Replications::run(u64::MAX, 3, Ok::<u64, ()>).unwrap();
        assert_eq!(seeds.iter().copied().collect::<Vec<_>>(), [u64::MAX, 0, 1]);
        let same = Replications::run(0, 5, |_| Ok::<f64, ()>(2.0)).unwrap();
        let two = Estimate { mean: 2.0, low: Some(2.0), high: Some(2.0) };
        assert_eq!((same.estimate(|value| *value), same.mean(|value| *value)), (two, 2.0));
        let one = Replications::run(7, 1, Ok::<u64, ()>).unwrap();
        assert_eq!(one.estimate(|seed| *seed as f64), Estimate { mean: 7.0, low: None, high: None });
        assert_eq!(one.estimate_known(|_| None), None);
        let exact = Replications::run_once(|| Ok::<f64, ()>(2.0)).unwrap();
        assert_eq!(exact.estimate(|value| *value), two);
        assert_eq!(Replications::run(0, 2, Err::<u64, u64>).unwrap_err(), 0);
    }
}
