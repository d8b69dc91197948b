//! The address ranges of an IOMMU, as the kernel reports them.

use crate::{BusAddress, Window};

/// A window of these ranges (first and last address). Gaps between them become reserved ranges. `None` without a
/// range.
pub(super) fn window(mut ranges: Vec<(u64, u64)>, granule_bytes: u64) -> Option<Window> {
    ranges.retain(|(first, last)| first <= last);
    ranges.sort_unstable();
    let (first, last) = (ranges.first()?.0, ranges.iter().map(|(_, last)| *last).max()?);
    let gaps = ranges.windows(2).filter_map(|pair| {
        let (before, after) = (pair[0].1.checked_add(1)?, pair[1].0.checked_sub(1)?);
        (before <= after).then_some((BusAddress(before), BusAddress(after)))
    });
    Some(Window { first: BusAddress(first), last: BusAddress(last), granule_bytes, reserved: gaps.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_between_ranges_are_reserved() {
        let seen = window(vec![(0xfef0_0000, u64::MAX >> 25), (0, 0xfedf_ffff)], 4096).unwrap();
        assert_eq!((seen.first, seen.last), (BusAddress(0), BusAddress(u64::MAX >> 25)));
        assert_eq!(seen.reserved, [(BusAddress(0xfee0_0000), BusAddress(0xfeef_ffff))]);
        assert!(window(vec![(5, 4)], 4096).is_none());
        assert!(window(vec![(0, 9), (10, 19)], 1).unwrap().reserved.is_empty());
        assert!(window(vec![(0, u64::MAX), (10, 19)], 1).unwrap().reserved.is_empty());
    }
}
