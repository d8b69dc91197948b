//! PCI Express links: current and possible bandwidth, and which end limits it.
//!
//! A link has two ends, and each knows only its own limits: an x16 adapter in an x8 slot looks degraded
//! if only the adapter is read. A [`Hop`] therefore compares both ends, and an adapter is diagnosed by
//! all hops between it and the root port.

use super::express::{Express, PortType};
use super::link_speed::{LinkSpeed, LinkWidth};
use crate::Bdf;
use serde::Serialize;
use std::cmp::Ordering;
use std::fmt;

/// A speed and a width. Ordered by bandwidth; of two with the same, the one with more lanes is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Link {
    /// Rate of each lane.
    pub speed: LinkSpeed,
    /// Number of lanes.
    pub width: LinkWidth,
}

impl Link {
    /// Bandwidth in one direction after line encoding, in Mb/s, rounded down; packet headers still count in.
    pub fn megabits_per_second(self) -> u32 {
        let (numerator, denominator) = self.speed.lane_megabits();
        u32::from(self.width.lanes()) * numerator / denominator
    }

    /// Speed and width together, if both are known.
    fn join(speed: Option<LinkSpeed>, width: Option<LinkWidth>) -> Option<Self> {
        Some(Self { speed: speed?, width: width? })
    }
}

impl Ord for Link {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |link: &Self| (link.megabits_per_second(), link.width);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Link {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.speed, self.width)
    }
}

/// One end of a link, as its own registers or sysfs describe it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkEnd {
    /// The function that has this end.
    pub at: Bdf,
    /// The highest speed it can do.
    #[serde(rename = "speed_max_gt_per_s")]
    pub speed_max: Option<LinkSpeed>,
    /// The most lanes it can use.
    #[serde(rename = "lanes_max")]
    pub width_max: Option<LinkWidth>,
    /// Speed now.
    #[serde(rename = "speed_gt_per_s")]
    pub speed: Option<LinkSpeed>,
    /// Width now.
    #[serde(rename = "lanes")]
    pub width: Option<LinkWidth>,
    /// Ceiling that software or firmware set (Target Link Speed); counts at the upper end only.
    #[serde(rename = "speed_target_gt_per_s")]
    pub speed_target: Option<LinkSpeed>,
    /// It was being trained when it was read.
    pub training: Option<bool>,
}

impl LinkEnd {
    /// An end whose registers were not read.
    pub fn unknown(at: Bdf) -> Self {
        Self {
            at,
            speed_max: None,
            width_max: None,
            speed: None,
            width: None,
            speed_target: None,
            training: None,
        }
    }

    /// The end that these registers describe. A virtual function has no link registers: use its physical function.
    pub fn from_registers(at: Bdf, express: &Express) -> Self {
        let link = &express.link;
        Self {
            at,
            speed_max: link.speed_possible(),
            width_max: link.width_max,
            speed: link.speed,
            width: link.width,
            speed_target: link.speed_target.filter(|_| controls_link(at, express.port)),
            training: link.training,
        }
    }

    /// These values, with those that are unknown taken from `other`, a second source about the same end.
    pub fn or(self, other: Self) -> Self {
        Self {
            at: self.at,
            speed_max: self.speed_max.or(other.speed_max),
            width_max: self.width_max.or(other.width_max),
            speed: self.speed.or(other.speed),
            width: self.width.or(other.width),
            speed_target: self.speed_target.or(other.speed_target),
            training: self.training.or(other.training),
        }
    }
}

/// Whether a function has the link's controls. Those of a device's other functions are reserved, and read 0 (Base Specification,
/// "Link Control 2 Register").
fn controls_link(at: Bdf, port: Option<PortType>) -> bool {
    let is_first = at.device == 0 && at.function == 0;
    is_first || !port.is_some_and(PortType::is_endpoint)
}

/// One link: the downstream-facing port above it and the function below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// Root port or switch downstream port.
    pub upper: LinkEnd,
    /// Adapter, bridge or switch upstream port.
    pub lower: LinkEnd,
}

/// Which end limits the speed or width that a link can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitingEnd {
    /// The port above.
    Upper,
    /// The function below.
    Lower,
    /// Both ends have the same limit.
    Equal,
    /// One end was not readable.
    Unknown,
}

/// How the current speed or width of a link compares with the possible one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkComparison {
    /// Equal.
    Full,
    /// Lower.
    Below,
    /// Higher than the weaker end claims: some virtual ports and devices with wrong registers report that.
    Above,
    /// Not readable.
    Unknown,
}

/// A reason to doubt a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caveat {
    /// 2.5 GT/s where more is possible: idle devices lower the speed to save power. Read again under load.
    MaySavePower,
    /// Target Link Speed of the upper port, set by software or firmware, limits the link to this speed.
    SpeedCapped(LinkSpeed),
    /// The ends report different speeds or widths: they were read at different times or belong to different links.
    EndsDisagree,
    /// The link was being trained when it was read.
    Training,
}

/// Current and possible bandwidth of one hop.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HopJudgement {
    /// The port above.
    pub upper: Bdf,
    /// The function below.
    pub lower: Bdf,
    /// The speed and width that both ends support.
    pub possible: Option<Link>,
    /// The current speed and width.
    pub current: Option<Link>,
    /// Which end limits the speed that is possible.
    pub speed_limit: LimitingEnd,
    /// Which end limits the width that is possible.
    pub width_limit: LimitingEnd,
    /// Whether the possible speed is reached.
    pub speed: LinkComparison,
    /// Whether the possible width is reached.
    pub width: LinkComparison,
    /// Reasons to doubt the comparison.
    pub caveats: Vec<Caveat>,
}

impl HopJudgement {
    /// Whether the current speed or width is lower than both ends support.
    pub fn is_degraded(&self) -> bool {
        self.speed == LinkComparison::Below || self.width == LinkComparison::Below
    }
}

impl Hop {
    /// Compares the current speed and width with those that both ends support.
    pub fn diagnose(&self) -> HopJudgement {
        let (upper, lower) = (&self.upper, &self.lower);
        let speed_possible = lesser(upper.speed_max, lower.speed_max);
        let width_possible = lesser(upper.width_max, lower.width_max);
        // The lower end's registers come first: users ask about the adapter.
        let (speed, width) = (lower.speed.or(upper.speed), lower.width.or(upper.width));
        HopJudgement {
            upper: upper.at,
            lower: lower.at,
            possible: Link::join(speed_possible, width_possible),
            current: Link::join(speed, width),
            speed_limit: limiting_end(upper.speed_max, lower.speed_max),
            width_limit: limiting_end(upper.width_max, lower.width_max),
            speed: compare_with_possible(speed, speed_possible),
            width: compare_with_possible(width, width_possible),
            caveats: self.caveats(speed, speed_possible),
        }
    }

    /// Reasons to doubt this hop's comparison.
    fn caveats(&self, speed: Option<LinkSpeed>, possible: Option<LinkSpeed>) -> Vec<Caveat> {
        let (upper, lower) = (&self.upper, &self.lower);
        let mut caveats = Vec::new();
        if speed == Some(LinkSpeed::Gt2_5) && speed < possible {
            caveats.push(Caveat::MaySavePower);
        }
        if let Some(target) = upper.speed_target.filter(|&target| Some(target) < possible) {
            caveats.push(Caveat::SpeedCapped(target));
        }
        if differ(upper.speed, lower.speed) || differ(upper.width, lower.width) {
            caveats.push(Caveat::EndsDisagree);
        }
        if upper.training == Some(true) {
            caveats.push(Caveat::Training);
        }
        caveats
    }
}

/// The lesser of two limits, if both are known.
fn lesser<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    Some(a?.min(b?))
}

/// Whether both are known and differ.
fn differ<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
    a.zip(b).is_some_and(|(a, b)| a != b)
}

/// The end with the lower limit.
fn limiting_end<T: Ord>(upper: Option<T>, lower: Option<T>) -> LimitingEnd {
    match upper.zip(lower).map(|(upper, lower)| upper.cmp(&lower)) {
        Some(Ordering::Less) => LimitingEnd::Upper,
        Some(Ordering::Greater) => LimitingEnd::Lower,
        Some(Ordering::Equal) => LimitingEnd::Equal,
        None => LimitingEnd::Unknown,
    }
}

/// Compares a current value with the possible one.
fn compare_with_possible<T: Ord>(current: Option<T>, possible: Option<T>) -> LinkComparison {
    match current.zip(possible).map(|(current, possible)| current.cmp(&possible)) {
        Some(Ordering::Less) => LinkComparison::Below,
        Some(Ordering::Greater) => LinkComparison::Above,
        Some(Ordering::Equal) => LinkComparison::Full,
        None => LinkComparison::Unknown,
    }
}

/// Current and possible bandwidth of all hops from the root port to an adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathJudgement {
    /// Each hop, root first.
    pub hops: Vec<HopJudgement>,
    /// Index of the hop with the least bandwidth now, among those that were read.
    pub narrowest: Option<usize>,
    /// Index of the hop with the least bandwidth possible, among those that were read.
    pub narrowest_possible: Option<usize>,
}

impl PathJudgement {
    /// The link that limits the adapter's bandwidth now; `None` unless every hop was read.
    pub fn current(&self) -> Option<Link> {
        self.slowest(|hop| hop.current)
    }

    /// The link that would limit the bandwidth if every hop reached its possible speed and width.
    pub fn possible(&self) -> Option<Link> {
        self.slowest(|hop| hop.possible)
    }

    /// Whether degraded hops cost this adapter bandwidth. A hop that lost lanes but is still wider than
    /// the narrowest one costs nothing, as long as the adapter does not share it.
    pub fn costs_bandwidth(&self) -> Option<bool> {
        Some(self.current()? < self.possible()?)
    }

    /// The link with the least bandwidth; `None` if one is unknown.
    fn slowest(&self, link: impl Fn(&HopJudgement) -> Option<Link>) -> Option<Link> {
        let links: Option<Vec<Link>> = self.hops.iter().map(link).collect();
        links?.into_iter().min()
    }
}

/// Diagnoses the hops from the root port to an adapter, in this order.
pub fn diagnose_path(hops: &[Hop]) -> PathJudgement {
    let hops: Vec<HopJudgement> = hops.iter().map(Hop::diagnose).collect();
    PathJudgement {
        narrowest: narrowest(&hops, |hop| hop.current),
        narrowest_possible: narrowest(&hops, |hop| hop.possible),
        hops,
    }
}

/// Index of the hop with the least bandwidth, among those for which it is known.
fn narrowest(hops: &[HopJudgement], link: impl Fn(&HopJudgement) -> Option<Link>) -> Option<usize> {
    let known = hops.iter().enumerate().filter_map(|(index, hop)| Some((link(hop)?, index)));
    known.min().map(|(_, index)| index)
}

/// The links on the path from a root port to an adapter. A link connects a downstream-facing port to a
/// function that is not one. The connection inside a switch, from its upstream to a downstream port, is no link.
pub fn hops_on(path: &[(LinkEnd, PortType)]) -> Vec<Hop> {
    path.windows(2)
        .filter_map(|pair| match pair {
            [(upper, above), (lower, below)] if above.leads_down() && !below.leads_down() => {
                Some(Hop { upper: *upper, lower: *lower })
            }
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(text: &str) -> Link {
        let (speed, width) = text.rsplit_once(' ').unwrap();
        Link { speed: LinkSpeed::parse(speed).unwrap(), width: LinkWidth::parse(width).unwrap() }
    }

    fn check_bandwidth(text: &str, megabits_per_second: u32) {
        assert_eq!(link(text).megabits_per_second(), megabits_per_second, "{text}");
        assert_eq!(link(text).to_string(), text);
    }

    #[test]
    fn bandwidth_counts_the_line_encoding() {
        check_bandwidth("2.5 GT/s x1", 2_000);
        check_bandwidth("5 GT/s x8", 32_000);
        check_bandwidth("8 GT/s x1", 7_876);
        check_bandwidth("8 GT/s x16", 126_030);
        check_bandwidth("16 GT/s x4", 63_015);
        check_bandwidth("32 GT/s x16", 504_123);
        check_bandwidth("64 GT/s x16", 968_000);
        assert!(link("8 GT/s x8") > link("16 GT/s x2"));
        assert!(link("8 GT/s x16") > link("16 GT/s x8"));
    }

    fn end(at: &str, max: &str, now: &str) -> LinkEnd {
        let (max, now) = (link(max), link(now));
        LinkEnd {
            speed_max: Some(max.speed),
            width_max: Some(max.width),
            speed: Some(now.speed),
            width: Some(now.width),
            ..LinkEnd::unknown(at.parse().unwrap())
        }
    }

    fn hop(upper_max: &str, lower_max: &str, now: &str) -> Hop {
        Hop { upper: end("00:01.0", upper_max, now), lower: end("01:00.0", lower_max, now) }
    }

    fn check(
        hop: Hop,
        possible: &str,
        limits: (LimitingEnd, LimitingEnd),
        reached: (LinkComparison, LinkComparison),
        caveats: &[Caveat],
    ) {
        let diagnosis = hop.diagnose();
        assert_eq!(diagnosis.possible, Some(link(possible)));
        assert_eq!((diagnosis.speed_limit, diagnosis.width_limit), limits);
        assert_eq!((diagnosis.speed, diagnosis.width), reached);
        assert_eq!(diagnosis.caveats, caveats);
    }

    #[test]
    fn a_hop_is_compared_with_the_capabilities_of_both_ends() {
        use LimitingEnd::{Equal, Lower, Upper};
        use LinkComparison::{Above, Below, Full};
        let (new, old) = ("16 GT/s x16", "8 GT/s x16");
        check(hop(new, new, new), new, (Equal, Equal), (Full, Full), &[]);
        // An adapter better than its slot is not degraded.
        check(hop("8 GT/s x8", new, "8 GT/s x8"), "8 GT/s x8", (Upper, Upper), (Full, Full), &[]);
        check(hop(new, "8 GT/s x8", "8 GT/s x8"), "8 GT/s x8", (Lower, Lower), (Full, Full), &[]);
        check(hop("16 GT/s x8", old, "8 GT/s x8"), "8 GT/s x8", (Lower, Upper), (Full, Full), &[]);
        check(hop(new, new, "16 GT/s x8"), new, (Equal, Equal), (Full, Below), &[]);
        check(hop(new, new, "8 GT/s x16"), new, (Equal, Equal), (Below, Full), &[]);
        check(hop(new, new, "2.5 GT/s x16"), new, (Equal, Equal), (Below, Full), &[Caveat::MaySavePower]);
        check(
            hop("2.5 GT/s x1", "2.5 GT/s x1", "16 GT/s x1"),
            "2.5 GT/s x1",
            (Equal, Equal),
            (Above, Full),
            &[],
        );
    }

    #[test]
    fn doubts_about_a_comparison_are_reported() {
        let mut capped = hop("16 GT/s x16", "16 GT/s x16", "8 GT/s x16");
        capped.upper.speed_target = Some(LinkSpeed::Gt8);
        capped.upper.training = Some(true);
        capped.upper.width = LinkWidth::new(4);
        let caveats = capped.diagnose().caveats;
        assert_eq!(caveats, [Caveat::SpeedCapped(LinkSpeed::Gt8), Caveat::EndsDisagree, Caveat::Training]);
    }

    #[test]
    fn an_end_that_was_not_read_makes_no_link_degraded() {
        let mut half = hop("16 GT/s x16", "16 GT/s x16", "8 GT/s x8");
        half.upper = LinkEnd::unknown(half.upper.at);
        let diagnosis = half.diagnose();
        assert_eq!(diagnosis.possible, None);
        assert_eq!(diagnosis.current, Some(link("8 GT/s x8")));
        assert_eq!(diagnosis.speed_limit, LimitingEnd::Unknown);
        assert!(!diagnosis.is_degraded());
        assert!(diagnosis.caveats.is_empty());
    }

    #[test]
    fn finds_the_narrowest_hop_of_a_path() {
        let switch = hop("8 GT/s x16", "8 GT/s x16", "8 GT/s x8");
        let adapter = hop("8 GT/s x16", "8 GT/s x4", "8 GT/s x4");
        let path = diagnose_path(&[switch, adapter]);
        assert!(path.hops[0].is_degraded() && !path.hops[1].is_degraded());
        assert_eq!((path.narrowest, path.narrowest_possible), (Some(1), Some(1)));
        assert_eq!(path.costs_bandwidth(), Some(false));

        let wide = hop("8 GT/s x16", "8 GT/s x16", "8 GT/s x16");
        let path = diagnose_path(&[switch, wide]);
        assert_eq!((path.narrowest, path.narrowest_possible), (Some(0), Some(0)));
        assert_eq!(path.costs_bandwidth(), Some(true));
        assert_eq!(path.current(), Some(link("8 GT/s x8")));

        let unread = Hop { upper: LinkEnd::unknown(wide.upper.at), lower: LinkEnd::unknown(wide.lower.at) };
        let path = diagnose_path(&[unread, adapter]);
        assert_eq!((path.narrowest, path.current(), path.costs_bandwidth()), (Some(1), None, None));
        assert_eq!(diagnose_path(&[]).current(), None);
    }

    #[test]
    fn the_connection_inside_a_switch_is_no_link() {
        let end = |at: &str| LinkEnd::unknown(at.parse().unwrap());
        let hops = hops_on(&[
            (end("00:01.0"), PortType::RootPort),
            (end("01:00.0"), PortType::UpstreamPort),
            (end("02:03.0"), PortType::DownstreamPort),
            (end("05:00.0"), PortType::Endpoint),
        ]);
        let pairs: Vec<_> = hops.iter().map(|hop| (hop.upper.at.bus, hop.lower.at.bus)).collect();
        assert_eq!(pairs, [(0, 1), (2, 5)]);
        assert!(hops_on(&[]).is_empty());
        assert!(hops_on(&[(end("00:01.0"), PortType::RootComplexIntegratedEndpoint)]).is_empty());
    }
}
