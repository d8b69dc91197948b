//! Links: speed, width, what a link could do, and which end keeps it from doing more.
//!
//! A link has two ends, and each knows only its own limits: an x16 adapter in an x8 slot looks degraded
//! when judged alone. So links are judged by [`Hop`], both ends together, and an adapter by all hops
//! between it and the root.

use super::express::{Express, PortType};
use crate::Bdf;
use serde::{Serialize, Serializer};
use std::cmp::Ordering;
use std::fmt;

/// Signalling rate of one lane (Link Capabilities, Max Link Speed).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkSpeed {
    /// 2.5 GT/s, PCIe 1.0.
    Gt2_5,
    /// 5 GT/s, PCIe 2.0.
    Gt5,
    /// 8 GT/s, PCIe 3.0.
    Gt8,
    /// 16 GT/s, PCIe 4.0.
    Gt16,
    /// 32 GT/s, PCIe 5.0.
    Gt32,
    /// 64 GT/s, PCIe 6.0.
    Gt64,
}

impl LinkSpeed {
    const ALL: [Self; 6] = [Self::Gt2_5, Self::Gt5, Self::Gt8, Self::Gt16, Self::Gt32, Self::Gt64];

    /// The speed with this code in the link registers, where 1 is 2.5 GT/s.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(code.checked_sub(1)?).ok()?).copied()
    }

    /// The highest speed of a Supported Link Speeds Vector, whose bit 0 is 2.5 GT/s.
    pub fn highest_of(vector: u32) -> Option<Self> {
        (vector & 0x3f).checked_ilog2().and_then(|bit| Self::from_code(bit + 1))
    }

    /// Reads `8 GT/s`, `8.0 GT/s PCIe` (sysfs, before and since Linux 5.x) and `8GT/s` (lspci).
    /// `Unknown` and `Unknown speed` are no speed.
    pub fn parse(text: &str) -> Option<Self> {
        let (number, _) = text.trim().split_once("GT/s")?;
        Self::ALL.into_iter().find(|speed| {
            let number = number.trim_end();
            number.strip_suffix(".0").unwrap_or(number) == speed.gigatransfers().to_string()
        })
    }

    fn gigatransfers(self) -> f64 {
        match self {
            Self::Gt2_5 => 2.5,
            Self::Gt5 => 5.0,
            Self::Gt8 => 8.0,
            Self::Gt16 => 16.0,
            Self::Gt32 => 32.0,
            Self::Gt64 => 64.0,
        }
    }

    /// What a lane carries after line encoding, in Mb/s as numerator and denominator: 8b/10b up to 5 GT/s,
    /// 128b/130b up to 32 GT/s, and at 64 GT/s flits whose 256 bytes hold 242 of packets and link layer.
    fn lane_megabits(self) -> (u32, u32) {
        match self {
            Self::Gt2_5 => (2_500 * 8, 10),
            Self::Gt5 => (5_000 * 8, 10),
            Self::Gt8 => (8_000 * 128, 130),
            Self::Gt16 => (16_000 * 128, 130),
            Self::Gt32 => (32_000 * 128, 130),
            Self::Gt64 => (64_000 * 242, 256),
        }
    }
}

impl fmt::Display for LinkSpeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} GT/s", self.gigatransfers())
    }
}

impl Serialize for LinkSpeed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.gigatransfers())
    }
}

/// Number of lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkWidth(u8);

impl LinkWidth {
    /// A width that a link can have. 0 (no link trained) and 255 (sysfs, where there is no link) are none.
    pub fn new(lanes: u8) -> Option<Self> {
        matches!(lanes, 1 | 2 | 4 | 8 | 12 | 16 | 32).then_some(Self(lanes))
    }

    /// Reads `8` (sysfs) and `x8` (lspci).
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        text.strip_prefix('x').unwrap_or(text).parse().ok().and_then(Self::new)
    }

    /// Number of lanes.
    pub fn lanes(self) -> u8 {
        self.0
    }
}

impl fmt::Display for LinkWidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "x{}", self.0)
    }
}

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
        u32::from(self.width.0) * numerator / denominator
    }

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
    /// An end of which nothing is known.
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

    /// The end that these registers describe. Virtual functions have none: ask their physical function.
    pub fn of(at: Bdf, express: &Express) -> Self {
        let link = &express.link;
        Self {
            at,
            speed_max: link.speed_possible(),
            width_max: link.width_max,
            speed: link.speed,
            width: link.width,
            speed_target: link.speed_target,
            training: link.training,
        }
    }

    /// This witness, completed by a second one about the same end.
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

/// A link: the port above and what is plugged in below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// Root port or switch downstream port.
    pub upper: LinkEnd,
    /// Adapter, bridge or switch upstream port.
    pub lower: LinkEnd,
}

/// Which end keeps a link from being faster or wider by design.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitingEnd {
    /// The port above.
    Upper,
    /// What is below.
    Lower,
    /// Both can do the same.
    Equal,
    /// One end was not readable.
    Unknown,
}

/// How what a link does compares with what it could do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    /// All of it.
    Full,
    /// Less.
    Below,
    /// More than the weaker end claims: some virtual ports, and parts with wrong registers.
    Above,
    /// Not readable.
    Unknown,
}

/// A reason not to take a judgement at its word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caveat {
    /// 2.5 GT/s where more is possible: devices that save power train down when idle. Look again under load.
    MaySavePower,
    /// Software or firmware set this ceiling at the upper end.
    SpeedCapped(LinkSpeed),
    /// The ends report different states: read at different moments, or no ends of the same link.
    EndsDisagree,
    /// The link was being trained when it was read.
    Training,
}

/// What is to be said of one hop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HopJudgement {
    /// The port above.
    pub upper: Bdf,
    /// What is below.
    pub lower: Bdf,
    /// What both ends could do together.
    pub possible: Option<Link>,
    /// What they do.
    pub current: Option<Link>,
    /// Which end limits the speed that is possible.
    pub speed_limit: LimitingEnd,
    /// Which end limits the width that is possible.
    pub width_limit: LimitingEnd,
    /// Whether the possible speed is reached.
    pub speed: Reached,
    /// Whether the possible width is reached.
    pub width: Reached,
    /// What speaks against taking this as final.
    pub caveats: Vec<Caveat>,
}

impl HopJudgement {
    /// Whether the link does less than both its ends could.
    pub fn is_degraded(&self) -> bool {
        self.speed == Reached::Below || self.width == Reached::Below
    }
}

impl Hop {
    /// Compares what the link does with what its ends could do together.
    pub fn diagnose(&self) -> HopJudgement {
        let (upper, lower) = (&self.upper, &self.lower);
        let speed_possible = lesser(upper.speed_max, lower.speed_max);
        let width_possible = lesser(upper.width_max, lower.width_max);
        // The adapter's own word comes first: it is what the question is about.
        let (speed, width) = (lower.speed.or(upper.speed), lower.width.or(upper.width));
        HopJudgement {
            upper: upper.at,
            lower: lower.at,
            possible: Link::join(speed_possible, width_possible),
            current: Link::join(speed, width),
            speed_limit: limiting(upper.speed_max, lower.speed_max),
            width_limit: limiting(upper.width_max, lower.width_max),
            speed: reached(speed, speed_possible),
            width: reached(width, width_possible),
            caveats: self.caveats(speed, speed_possible),
        }
    }

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

fn differ<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
    a.zip(b).is_some_and(|(a, b)| a != b)
}

fn limiting<T: Ord>(upper: Option<T>, lower: Option<T>) -> LimitingEnd {
    match upper.zip(lower).map(|(upper, lower)| upper.cmp(&lower)) {
        Some(Ordering::Less) => LimitingEnd::Upper,
        Some(Ordering::Greater) => LimitingEnd::Lower,
        Some(Ordering::Equal) => LimitingEnd::Equal,
        None => LimitingEnd::Unknown,
    }
}

fn reached<T: Ord>(current: Option<T>, possible: Option<T>) -> Reached {
    match current.zip(possible).map(|(current, possible)| current.cmp(&possible)) {
        Some(Ordering::Less) => Reached::Below,
        Some(Ordering::Greater) => Reached::Above,
        Some(Ordering::Equal) => Reached::Full,
        None => Reached::Unknown,
    }
}

/// What is to be said of the way from the root to an adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathJudgement {
    /// Each hop, root first.
    pub hops: Vec<HopJudgement>,
    /// Index of the hop with the least bandwidth now, of those that were readable.
    pub narrowest: Option<usize>,
    /// Index of the hop with the least bandwidth possible, of those that were readable.
    pub narrowest_possible: Option<usize>,
}

impl PathJudgement {
    /// The link that bounds the adapter's bandwidth now; `None` unless every hop was readable.
    pub fn current(&self) -> Option<Link> {
        self.all(|hop| hop.current)
    }

    /// The link that would bound it if every hop did what it could.
    pub fn possible(&self) -> Option<Link> {
        self.all(|hop| hop.possible)
    }

    /// Whether degraded hops cost this adapter bandwidth. A hop that lost lanes but is still wider than
    /// the narrowest one costs nothing, as long as the adapter does not share it.
    pub fn costs_bandwidth(&self) -> Option<bool> {
        Some(self.current()? < self.possible()?)
    }

    fn all(&self, link: impl Fn(&HopJudgement) -> Option<Link>) -> Option<Link> {
        let links: Option<Vec<Link>> = self.hops.iter().map(link).collect();
        links?.into_iter().min()
    }
}

/// Judges the hops from the root to an adapter, in this order.
pub fn judge_path(hops: &[Hop]) -> PathJudgement {
    let hops: Vec<HopJudgement> = hops.iter().map(Hop::diagnose).collect();
    PathJudgement {
        narrowest: narrowest(&hops, |hop| hop.current),
        narrowest_possible: narrowest(&hops, |hop| hop.possible),
        hops,
    }
}

fn narrowest(hops: &[HopJudgement], link: impl Fn(&HopJudgement) -> Option<Link>) -> Option<usize> {
    let known = hops.iter().enumerate().filter_map(|(index, hop)| Some((link(hop)?, index)));
    known.min().map(|(_, index)| index)
}

/// The links on a way from the root to an adapter: each step from a port that leads down to something
/// that does not. The step inside a switch, from its upstream to a downstream port, is none.
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

    fn check_speed(text: &str, expect: Option<LinkSpeed>) {
        assert_eq!(LinkSpeed::parse(text), expect, "{text}");
    }

    #[test]
    fn speeds() {
        check_speed("2.5 GT/s", Some(LinkSpeed::Gt2_5));
        check_speed("2.5 GT/s PCIe", Some(LinkSpeed::Gt2_5));
        check_speed("5 GT/s", Some(LinkSpeed::Gt5));
        check_speed("5.0 GT/s PCIe", Some(LinkSpeed::Gt5));
        check_speed("8 GT/s", Some(LinkSpeed::Gt8));
        check_speed("8.0 GT/s PCIe\n", Some(LinkSpeed::Gt8));
        check_speed("8GT/s", Some(LinkSpeed::Gt8));
        check_speed("16.0 GT/s PCIe", Some(LinkSpeed::Gt16));
        check_speed("32GT/s", Some(LinkSpeed::Gt32));
        check_speed("64.0 GT/s PCIe", Some(LinkSpeed::Gt64));
        check_speed("Unknown", None);
        check_speed("Unknown speed", None);
        check_speed("unknown", None);
        check_speed("7 GT/s", None);
        check_speed("", None);
    }

    #[test]
    fn widths() {
        for (text, expect) in [("16", 16), ("x8", 8), ("4\n", 4), ("x32", 32)] {
            assert_eq!(LinkWidth::parse(text).map(LinkWidth::lanes), Some(expect), "{text}");
        }
        for text in ["0", "x0", "255", "3", "Unknown", "", "x"] {
            assert_eq!(LinkWidth::parse(text), None, "{text}");
        }
    }

    #[test]
    fn codes() {
        assert_eq!(LinkSpeed::from_code(0), None);
        assert_eq!(LinkSpeed::from_code(1), Some(LinkSpeed::Gt2_5));
        assert_eq!(LinkSpeed::from_code(6), Some(LinkSpeed::Gt64));
        assert_eq!(LinkSpeed::from_code(7), None);
        assert_eq!(LinkSpeed::highest_of(0), None);
        assert_eq!(LinkSpeed::highest_of(0b111), Some(LinkSpeed::Gt8));
    }

    fn link(text: &str) -> Link {
        let (speed, width) = text.rsplit_once(' ').unwrap();
        Link { speed: LinkSpeed::parse(speed).unwrap(), width: LinkWidth::parse(width).unwrap() }
    }

    fn check_bandwidth(text: &str, megabits_per_second: u32) {
        assert_eq!(link(text).megabits_per_second(), megabits_per_second, "{text}");
        assert_eq!(link(text).to_string(), text);
    }

    #[test]
    fn bandwidth() {
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
        reached: (Reached, Reached),
        caveats: &[Caveat],
    ) {
        let judgement = hop.diagnose();
        assert_eq!(judgement.possible, Some(link(possible)));
        assert_eq!((judgement.speed_limit, judgement.width_limit), limits);
        assert_eq!((judgement.speed, judgement.width), reached);
        assert_eq!(judgement.caveats, caveats);
    }

    #[test]
    fn hops() {
        use LimitingEnd::{Equal, Lower, Upper};
        use Reached::{Above, Below, Full};
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
    fn caveats() {
        let mut capped = hop("16 GT/s x16", "16 GT/s x16", "8 GT/s x16");
        capped.upper.speed_target = Some(LinkSpeed::Gt8);
        capped.upper.training = Some(true);
        capped.upper.width = LinkWidth::new(4);
        let caveats = capped.diagnose().caveats;
        assert_eq!(caveats, [Caveat::SpeedCapped(LinkSpeed::Gt8), Caveat::EndsDisagree, Caveat::Training]);
    }

    #[test]
    fn an_unreadable_end_decides_nothing() {
        let mut half = hop("16 GT/s x16", "16 GT/s x16", "8 GT/s x8");
        half.upper = LinkEnd::unknown(half.upper.at);
        let judgement = half.diagnose();
        assert_eq!(judgement.possible, None);
        assert_eq!(judgement.current, Some(link("8 GT/s x8")));
        assert_eq!(judgement.speed_limit, LimitingEnd::Unknown);
        assert!(!judgement.is_degraded());
        assert!(judgement.caveats.is_empty());
    }

    #[test]
    fn narrowest_hop_of_a_path() {
        let switch = hop("8 GT/s x16", "8 GT/s x16", "8 GT/s x8");
        let adapter = hop("8 GT/s x16", "8 GT/s x4", "8 GT/s x4");
        let path = judge_path(&[switch, adapter]);
        assert!(path.hops[0].is_degraded() && !path.hops[1].is_degraded());
        assert_eq!((path.narrowest, path.narrowest_possible), (Some(1), Some(1)));
        assert_eq!(path.costs_bandwidth(), Some(false));

        let wide = hop("8 GT/s x16", "8 GT/s x16", "8 GT/s x16");
        let path = judge_path(&[switch, wide]);
        assert_eq!((path.narrowest, path.narrowest_possible), (Some(0), Some(0)));
        assert_eq!(path.costs_bandwidth(), Some(true));
        assert_eq!(path.current(), Some(link("8 GT/s x8")));

        let unread = Hop { upper: LinkEnd::unknown(wide.upper.at), lower: LinkEnd::unknown(wide.lower.at) };
        let path = judge_path(&[unread, adapter]);
        assert_eq!((path.narrowest, path.current(), path.costs_bandwidth()), (Some(1), None, None));
        assert_eq!(judge_path(&[]).current(), None);
    }

    #[test]
    fn a_switch_inside_is_no_link() {
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
