//! PCI Express links in a few words.

use host::pci::link::{Caveat, HopJudgement, LimitingEnd};
use host::pci::{Link, LinkEnd, LinkSpeed, LinkWidth};

/// A link as one end reports it: `16 GT/s x4 of x16`. Empty if it reports nothing.
pub(crate) fn one_end(end: &LinkEnd) -> String {
    current_of_best((end.speed, end.width), (end.speed_max, end.width_max))
}

/// A link as both ends report it: current speed and width, and the best that both support.
pub(crate) fn both_ends(hop: &HopJudgement) -> String {
    current_of_best(parts(hop.current), parts(hop.possible))
}

/// The current speed and width of a link, and the best that both ends support. The second is empty if the link is at its best.
pub(crate) fn current_and_best(hop: &HopJudgement) -> (String, String) {
    let words = |link: Option<Link>| link.map(|link| link.to_string()).unwrap_or_default();
    let most = hop.possible.filter(|most| hop.current != Some(*most));
    (words(hop.current), words(most))
}

/// A link as its parts, both unknown for `None`.
fn parts(link: Option<Link>) -> Parts {
    (link.map(|link| link.speed), link.map(|link| link.width))
}

/// A speed and a width, as far as they are known.
type Parts = (Option<LinkSpeed>, Option<LinkWidth>);

/// Current and best speed and width, in which equal parts are written once: `16 GT/s x4 of x16`, `8 of 16 GT/s x4`.
fn current_of_best(now: Parts, most: Parts) -> String {
    let full = |(speed, width): Parts| {
        let parts = [speed.map(|speed| speed.to_string()), width.map(|width| width.to_string())];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    };
    match (now, most) {
        (now, (None, None)) => full(now),
        ((None, None), most) => format!("? of {}", full(most)),
        (now, most) if now == most => full(now),
        (now, (None, Some(width))) => match now.1 == Some(width) {
            true => full(now),
            false => format!("{} of {width}", full(now)),
        },
        ((Some(speed), width), (Some(speed_max), width_max)) if speed == speed_max => {
            format!("{} of {}", full((Some(speed), width)), full((None, width_max)))
        }
        ((Some(speed), width), (Some(speed_max), width_max)) if width == width_max => {
            let speed = speed.to_string();
            format!("{} of {}", speed.trim_end_matches(" GT/s"), full((Some(speed_max), width)))
        }
        (now, most) => format!("{} of {}", full(now), full(most)),
    }
}

/// Which end limits the link, and why the values read may be temporary.
pub(crate) fn remarks(hop: &HopJudgement) -> Vec<String> {
    let limit = |what: &str, end: LimitingEnd| match end {
        LimitingEnd::Upper => Some(format!("{what} limited by {} above", hop.upper)),
        LimitingEnd::Lower => Some(format!("{what} limited by {} below", hop.lower)),
        LimitingEnd::Equal | LimitingEnd::Unknown => None,
    };
    let limits = match (hop.speed_limit, hop.width_limit) {
        (speed, width) if speed == width => vec![limit("speed and width", speed)],
        (speed, width) => vec![limit("speed", speed), limit("width", width)],
    };
    let caveats = hop.caveats.iter().map(|caveat| match caveat {
        Caveat::MaySavePower => "2.5 GT/s may be power saving: read it again under load".to_owned(),
        Caveat::SpeedCapped(speed) => format!("the port's target speed is set to {speed}"),
        Caveat::EndsDisagree => "the ends report different states".to_owned(),
        Caveat::Training => "was being trained when read".to_owned(),
    });
    limits.into_iter().flatten().chain(caveats).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the words for a current and a best link, each as `16 GT/s x4`.
    fn check(now: &str, most: &str, expect: &str) {
        let parts = |text: &str| match text.rsplit_once(' ') {
            Some((speed, width)) => (LinkSpeed::parse(speed), LinkWidth::parse(width)),
            None => (None, LinkWidth::parse(text)),
        };
        assert_eq!(current_of_best(parts(now), parts(most)), expect);
    }

    #[test]
    fn equal_parts_are_written_once() {
        check("16 GT/s x4", "16 GT/s x4", "16 GT/s x4");
        check("16 GT/s x4", "16 GT/s x16", "16 GT/s x4 of x16");
        check("8 GT/s x4", "16 GT/s x4", "8 of 16 GT/s x4");
        check("8 GT/s x4", "16 GT/s x16", "8 GT/s x4 of 16 GT/s x16");
        check("8 GT/s x4", "", "8 GT/s x4");
        check("", "16 GT/s x16", "? of 16 GT/s x16");
        check("", "", "");
        check("8 GT/s x4", "x8", "8 GT/s x4 of x8");
        check("x4", "x8", "x4 of x8");
        check("x4", "16 GT/s x8", "x4 of 16 GT/s x8");
    }
}
