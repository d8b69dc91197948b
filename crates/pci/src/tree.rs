//! Which bridges lie between the root and a function, from the bus numbers that bridges hold.

use super::header::BridgeBuses;
use crate::Bdf;
use std::collections::BTreeMap;

/// The PCI-to-PCI bridges of a host.
#[derive(Debug, Clone, Default)]
pub struct BusTree {
    /// By domain, the bridge right above each run of buses, in the order of buses.
    above: BTreeMap<u32, Vec<Run>>,
}

/// Consecutive buses below one bridge, its other bridges' buses left out.
#[derive(Debug, Clone, Copy)]
struct Run {
    first: u8,
    last: u8,
    bridge: Bdf,
}

impl BusTree {
    /// Collects bridges. Those that lead nowhere (not configured, or back to their own bus) are left out.
    ///
    /// Virtual functions can sit on bus numbers that no bridge has as its secondary: above them is the
    /// bridge with the smallest range around the number.
    pub fn new(bridges: impl IntoIterator<Item = (Bdf, BridgeBuses)>) -> Self {
        let mut domains: BTreeMap<u32, Vec<(Bdf, BridgeBuses)>> = BTreeMap::new();
        for (at, buses) in bridges {
            if buses.secondary > at.bus && buses.subordinate >= buses.secondary {
                domains.entry(at.domain).or_default().push((at, buses));
            }
        }
        Self { above: domains.into_iter().map(|(domain, bridges)| (domain, runs(&bridges))).collect() }
    }

    /// The bridge directly above a function.
    pub fn bridge_above(&self, function: Bdf) -> Option<Bdf> {
        let runs = self.above.get(&function.domain)?;
        let run = runs.get(runs.partition_point(|run| run.last < function.bus))?;
        (run.first <= function.bus).then_some(run.bridge)
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

/// The closest bridge above each bus of a domain. A listing can name the same few addresses a hundred
/// thousand times, so what is kept goes by buses, of which there are 256.
fn runs(bridges: &[(Bdf, BridgeBuses)]) -> Vec<Run> {
    let mut closest: [Option<(u8, Bdf)>; 256] = [None; 256];
    for &(at, buses) in bridges {
        let candidate = (buses.subordinate - buses.secondary, at);
        for held in &mut closest[usize::from(buses.secondary)..=usize::from(buses.subordinate)] {
            *held = Some(held.map_or(candidate, |held| held.min(candidate)));
        }
    }
    let mut runs: Vec<Run> = Vec::new();
    for (bus, held) in (0..=u8::MAX).zip(closest) {
        let Some((_, bridge)) = held else { continue };
        match runs.last_mut() {
            Some(run) if run.bridge == bridge && run.last + 1 == bus => run.last = bus,
            _ => runs.push(Run { first: bus, last: bus, bridge }),
        }
    }
    runs
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

    #[test]
    fn repeated_addresses_cost_nothing() {
        let bridge = |number: u32| {
            let bus = (number % 255) as u8;
            (Bdf { domain: 0, bus, device: 0, function: 0 }, buses(bus, bus + 1, 0xff))
        };
        let tree = BusTree::new((0..20_000).map(bridge));
        let deepest = Bdf { domain: 0, bus: 0xff, device: 0, function: 0 };
        for _ in 0..1_000 {
            assert_eq!(tree.bridges_above(deepest).len(), 255);
        }
    }

    proptest! {
        #[test]
        fn the_smallest_range_around_a_bus_decides(
            numbers in proptest::collection::vec((0_u8..8, 0_u8..16, 0_u8..16), 0..12),
            bus in 0_u8..16,
        ) {
            let at = |bus| Bdf { domain: 0, bus, device: 0, function: 0 };
            let bridges: Vec<_> =
                numbers.iter().map(|&(own, low, high)| (at(own), buses(own, low, high))).collect();
            let around = bridges.iter().filter(|(at, buses)| {
                buses.secondary > at.bus && (buses.secondary..=buses.subordinate).contains(&bus)
            });
            let closest = around.min_by_key(|(at, buses)| (buses.subordinate - buses.secondary, *at));
            let tree = BusTree::new(bridges.iter().copied());
            prop_assert_eq!(tree.bridge_above(at(bus)), closest.map(|(at, _)| *at));
        }

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
