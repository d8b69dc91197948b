//! Which bridges lie between the root and a function, from the bus numbers that bridges hold.

use super::header::BridgeBuses;
use crate::Bdf;

/// The PCI-to-PCI bridges of a host.
#[derive(Debug, Clone, Default)]
pub struct BusTree {
    bridges: Vec<(Bdf, BridgeBuses)>,
}

impl BusTree {
    /// Collects bridges. Those that lead nowhere (not configured, or back to their own bus) are left out.
    pub fn new(bridges: impl IntoIterator<Item = (Bdf, BridgeBuses)>) -> Self {
        let leads_on = |(at, buses): &(Bdf, BridgeBuses)| {
            buses.secondary > at.bus && buses.subordinate >= buses.secondary
        };
        Self { bridges: bridges.into_iter().filter(leads_on).collect() }
    }

    /// The bridge directly above a function.
    ///
    /// Virtual functions can sit on bus numbers that no bridge has as its secondary: then it is the bridge
    /// with the smallest range around the number.
    pub fn bridge_above(&self, function: Bdf) -> Option<Bdf> {
        let around = |&&(at, buses): &&(Bdf, BridgeBuses)| {
            at.domain == function.domain && (buses.secondary..=buses.subordinate).contains(&function.bus)
        };
        let closest = |&&(at, buses): &&(Bdf, BridgeBuses)| (buses.subordinate - buses.secondary, at);
        self.bridges.iter().filter(around).min_by_key(closest).map(|&(at, _)| at)
    }

    /// All bridges between the root and a function, root first.
    pub fn bridges_above(&self, function: Bdf) -> Vec<Bdf> {
        // A bridge's own bus is below its secondary, so each step goes to a lower bus and the walk ends.
        let mut above: Vec<Bdf> =
            std::iter::successors(self.bridge_above(function), |&bridge| self.bridge_above(bridge)).collect();
        above.reverse();
        above
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn buses(primary: u8, secondary: u8, subordinate: u8) -> BridgeBuses {
        BridgeBuses { primary, secondary, subordinate }
    }

    fn tree() -> BusTree {
        BusTree::new([
            ("0000:00:01.0".parse().unwrap(), buses(0, 1, 5)),
            ("0000:01:00.0".parse().unwrap(), buses(1, 2, 5)),
            ("0000:02:03.0".parse().unwrap(), buses(2, 3, 5)),
            ("0000:00:1c.0".parse().unwrap(), buses(0, 0, 0)),
            ("0001:00:00.0".parse().unwrap(), buses(0, 1, 0xff)),
        ])
    }

    fn check(function: &str, expect: &[&str]) {
        let above: Vec<String> =
            tree().bridges_above(function.parse().unwrap()).iter().map(Bdf::to_string).collect();
        assert_eq!(above, expect, "{function}");
    }

    #[test]
    fn ways() {
        check("0000:03:00.0", &["0000:00:01.0", "0000:01:00.0", "0000:02:03.0"]);
        // A virtual function on a bus that exists only as a number.
        check("0000:04:01.2", &["0000:00:01.0", "0000:01:00.0", "0000:02:03.0"]);
        check("0000:00:02.0", &[]);
        check("0000:80:00.0", &[]);
        check("0001:80:00.0", &["0001:00:00.0"]);
        check("0000:02:03.0", &["0000:00:01.0", "0000:01:00.0"]);
    }

    proptest! {
        #[test]
        fn any_numbers_end(
            numbers in proptest::collection::vec((any::<u8>(), any::<u8>(), any::<u8>()), 0..40),
            bus: u8,
        ) {
            let at = |bus| Bdf { domain: 0, bus, device: 0, function: 0 };
            let tree = BusTree::new(numbers.iter().map(|&(own, low, high)| (at(own), buses(own, low, high))));
            prop_assert!(tree.bridges_above(at(bus)).len() <= 256);
        }
    }
}
