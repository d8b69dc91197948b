//! Two documents that are compared.

use crate::parts;
use compare::{Compared, Row, compare};

/// Columns of the terminal that comparisons are laid out for.
const WIDTH: usize = 80;

/// Documents before and after: all figures of a comparison are numbers, and it can be shown. Without a second document, the first is compared
/// with itself, which finds no sign.
pub fn comparison(data: &[u8]) {
    let [before, after] = parts(data);
    let (Ok(before), Ok(after)) = (str::from_utf8(before), str::from_utf8(after)) else { return };
    let is_same = after.is_empty();
    let after = if is_same { before } else { after };
    let compared = compare((before, "before.json"), (after, "after.json"));
    let Ok(Compared::Figures(comparison)) = compared else { return };
    for row in comparison.groups.iter().flat_map(|group| &group.rows) {
        let Row { before, after, ratio, ratio_low, ratio_high, sign, .. } = row;
        let numbers = [before, after, ratio, ratio_low, ratio_high];
        assert!(numbers.into_iter().flatten().all(|number| number.is_finite()), "{row:?}");
        assert!(!is_same || sign.is_none(), "{row:?}");
    }
    let page = report::comparison(&comparison);
    let _ = report::text(&page, WIDTH, report::Style::Plain, report::Length::Full);
}
