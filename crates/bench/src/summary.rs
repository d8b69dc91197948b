//! Summary statistics: quartiles and extremes.

use serde::{Deserialize, Serialize};

/// Quartiles and extremes of a figure over all rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summary {
    /// The smallest value.
    pub min: f64,
    /// A quarter of the values is below.
    pub lower_quartile: f64,
    /// Half of the values are below.
    pub median: f64,
    /// Three quarters of the values are below.
    pub upper_quartile: f64,
    /// The largest value.
    pub max: f64,
}

impl Summary {
    /// Summarises values; `None` if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let at = |share| quantile(&sorted, share);
        Some(Self { min, lower_quartile: at(0.25), median: at(0.5), upper_quartile: at(0.75), max })
    }

    /// The distance of the quartiles divided by the median.
    pub fn spread(&self) -> f64 {
        (self.upper_quartile - self.lower_quartile) / self.median
    }
}

/// The quantile of a share from 0 to 1, interpolated linearly between sorted values.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    low + (high - low) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_interpolated() {
        let summary = Summary::of([5.0, 1.0, 3.0, 2.0, 4.0]).unwrap();
        assert_eq!((summary.min, summary.median, summary.max), (1.0, 3.0, 5.0));
        assert_eq!((summary.lower_quartile, summary.upper_quartile), (2.0, 4.0));
        assert_eq!(Summary::of([1.0, 2.0]).unwrap().median, 1.5);
        assert_eq!(Summary::of([]), None);
    }
}
