//! Links in a few words.

use host::pci::link::{Caveat, HopJudgement, LimitingEnd};
use host::pci::{Link, LinkEnd, LinkSpeed, LinkWidth};

/// A link as one of its ends sees it: what it does, and of what it could do; empty if it does not tell.
pub(crate) fn of_end(end: &LinkEnd) -> String {
    short((end.speed, end.width), (end.speed_max, end.width_max))
}

/// A link as both ends see it.
pub(crate) fn of_hop(hop: &HopJudgement) -> String {
    short(parts(hop.current), parts(hop.possible))
}

/// The same in two: what it does; and what both ends could do, if that is something else.
pub(crate) fn now_and_most(hop: &HopJudgement) -> (String, String) {
    let words = |link: Option<Link>| link.map(|link| link.to_string()).unwrap_or_default();
    let most = hop.possible.filter(|most| hop.current != Some(*most));
    (words(hop.current), words(most))
}

fn parts(link: Option<Link>) -> Parts {
    (link.map(|link| link.speed), link.map(|link| link.width))
}

type Parts = (Option<LinkSpeed>, Option<LinkWidth>);

/// Says only once what both have in common: `16 GT/s x4 of x16`, `8 of 16 GT/s x4`.
fn short(now: Parts, most: Parts) -> String {
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

/// Which end keeps the link from more, and what speaks against taking it as final.
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
        Caveat::MaySavePower => "2.5 GT/s may be power saving: look again under load".to_owned(),
        Caveat::SpeedCapped(speed) => format!("the port's target speed is set to {speed}"),
        Caveat::EndsDisagree => "the ends report different states".to_owned(),
        Caveat::Training => "was being trained when read".to_owned(),
    });
    limits.into_iter().flatten().chain(caveats).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(now: &str, most: &str, expect: &str) {
        let parts = |text: &str| match text.rsplit_once(' ') {
            Some((speed, width)) => (LinkSpeed::parse(speed), LinkWidth::parse(width)),
            None => (None, LinkWidth::parse(text)),
        };
        assert_eq!(short(parts(now), parts(most)), expect);
    }

    #[test]
    fn nothing_is_said_twice() {
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
