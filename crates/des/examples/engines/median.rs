//! The median, which the other programs of a busy machine disturb least.

/// Of an odd number of figures, the middle one; of an even number, the upper of both.
pub(crate) fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = figures.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
