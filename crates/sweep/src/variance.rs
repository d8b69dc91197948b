//! What share of a figure's variance each axis has.
//!
//! The variance over a grid is the sum of what each axis has alone, each two beyond that, each three and so on: "Sensitivity Estimates for
//! Nonlinear Mathematical Models" (Sobol', 1993). Over a whole grid the parts are exact; nothing is estimated by samples.

use std::collections::{BTreeMap, HashMap};

/// The share of one axis, or of two beyond what each has alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Share {
    /// The axis, and the other one of two.
    pub(crate) axes: (usize, Option<usize>),
    /// From 0 to 1.
    pub(crate) share: f64,
}

/// A point's places on the axes, and its figure.
pub(crate) type GridPoint<'g> = (&'g [u32], f64);

/// Shares of all axes with several values, and of all pairs of them, greatest first. None unless each combination is there once and
/// figures differ. `sizes` has the number of values on each axis.
pub(crate) fn shares(points: &[GridPoint<'_>], sizes: &[usize]) -> Vec<Share> {
    let combinations = sizes.iter().try_fold(1_usize, |product, size| product.checked_mul(*size));
    let mean = mean(points);
    let total = spread(points.iter().map(|(_, figure)| *figure), mean);
    if combinations != Some(points.len()) || total <= (mean * mean) * f64::EPSILON * points.len() as f64 {
        return Vec::new();
    }
    let varied: Vec<usize> = (0..sizes.len()).filter(|axis| sizes[*axis] > 1).collect();
    let explained = |place: &dyn Fn(&[u32]) -> u64| between(points, mean, place) / total;
    let alone: HashMap<usize, f64> =
        varied.iter().map(|axis| (*axis, explained(&|places| places[*axis].into()))).collect();
    let mut shares: Vec<Share> =
        varied.iter().map(|axis| Share { axes: (*axis, None), share: alone[axis] }).collect();
    for (at, one) in varied.iter().enumerate() {
        for other in &varied[at + 1..] {
            let together = explained(&|places| u64::from(places[*one]) << 32 | u64::from(places[*other]));
            // Rounding may make it less than nothing.
            let share = (together - alone[one] - alone[other]).max(0.0);
            shares.push(Share { axes: (*one, Some(*other)), share });
        }
    }
    // Of equal ones, the first: the sort is stable.
    shares.sort_by(|one, other| other.share.total_cmp(&one.share));
    shares
}

fn mean(points: &[GridPoint<'_>]) -> f64 {
    points.iter().map(|(_, figure)| figure).sum::<f64>() / points.len().max(1) as f64
}

/// The sum of squared distances from the mean.
fn spread(figures: impl Iterator<Item = f64>, mean: f64) -> f64 {
    figures.map(|figure| (figure - mean).powi(2)).sum()
}

/// The sum of squared distances from the mean that remains if each point has the mean of those in its place.
fn between(points: &[GridPoint<'_>], mean: f64, place: &dyn Fn(&[u32]) -> u64) -> f64 {
    // In an order, since sums of rounded numbers depend on it.
    let mut places: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for (of_axes, figure) in points {
        let (sum, number) = places.entry(place(of_axes)).or_default();
        *sum += figure;
        *number += 1.0;
    }
    places.into_values().map(|(sum, number)| number * (sum / number - mean).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A grid of so many values on three axes, with a figure from places between 0 and 1.
    fn grid(size: u32, figure: impl Fn([f64; 3]) -> f64) -> Vec<([u32; 3], f64)> {
        let at = |place: u32| (f64::from(place) + 0.5) / f64::from(size);
        let places = (0..size.pow(3)).map(|point| [point / size.pow(2), point / size % size, point % size]);
        places.map(|places| (places, figure(places.map(at)))).collect()
    }

    fn shares_of(points: &[([u32; 3], f64)], size: usize) -> Vec<Share> {
        let points: Vec<GridPoint<'_>> =
            points.iter().map(|(places, figure)| (places.as_slice(), *figure)).collect();
        shares(&points, &[size; 3])
    }

    /// The function by which methods for such shares are compared, and its shares: "An Importance Quantification Technique in
    /// Uncertainty Analysis for Computer Models" (Ishigami and Homma, 1990). A grid of 64 differs from the continuum by less than 0.001.
    #[test]
    fn shares_are_those_of_ishigami_and_homma() {
        let (a, b, pi) = (7.0, 0.1, std::f64::consts::PI);
        let points = grid(64, |x| {
            let [x, y, z] = x.map(|x| (2.0 * x - 1.0) * pi);
            x.sin() + a * y.sin().powi(2) + b * z.powi(4) * x.sin()
        });
        let one = 0.5 * (1.0 + b * pi.powi(4) / 5.0).powi(2);
        let two = a * a / 8.0;
        let one_and_three = b * b * pi.powi(8) * (1.0 / 18.0 - 1.0 / 50.0);
        let total = one + two + one_and_three;
        let expected = [((1, None), two), ((0, None), one), ((0, Some(2)), one_and_three)]
            .map(|(axes, part)| (axes, part / total));
        let shares = shares_of(&points, 64);
        for (share, (axes, expected)) in shares.iter().zip(expected) {
            assert_eq!(share.axes, axes);
            assert!((share.share - expected).abs() < 1e-3, "{axes:?}: {} and not {expected}", share.share);
        }
        assert!(shares[3..].iter().all(|share| share.share < 1e-9), "{shares:?}");
        assert_eq!(shares_of(&points, 64), shares, "to the last digit");
    }

    #[test]
    fn a_product_has_a_share_of_all_three_together() {
        let points = grid(2, |[x, y, z]| (x - 0.5) * (y - 0.5) * (z - 0.5));
        assert!(shares_of(&points, 2).iter().all(|share| share.share < 1e-9));
    }

    #[test]
    fn there_are_no_shares_of_a_part_of_a_grid_or_of_one_figure() {
        let whole = grid(3, |[x, y, _]| x * y);
        assert_eq!(shares_of(&whole, 3).len(), 6);
        assert_eq!(shares_of(&whole[1..], 3), []);
        assert_eq!(shares_of(&grid(3, |_| 0.1), 3), []);
        assert_eq!(shares(&[], &[]), []);
        // An axis with one value has no share.
        assert_eq!(
            shares(&[(&[0, 0], 1.0), (&[1, 0], 2.0)], &[2, 1]),
            [Share { axes: (0, None), share: 1.0 }]
        );
    }
}
