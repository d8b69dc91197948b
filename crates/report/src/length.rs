//! How much of a report is shown: a host with 400,000 faults is some pages, and not a day's reading.

use crate::quantity;

/// How much of a report is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// The first of what there is too much of, and how much more there is.
    Folded,
    /// All of it.
    Full,
}

/// Lines of a report that is [`Length::Folded`]: some forty screens.
pub const LINES_MAX: usize = 1_900;

impl Length {
    /// How many of `count` things are shown, of which `folded_max` are if folded.
    pub(crate) fn shown(self, count: usize, folded_max: usize) -> usize {
        match self {
            Self::Folded => count.min(folded_max),
            Self::Full => count,
        }
    }

    /// A whole report, cut off behind [`LINES_MAX`] lines if folded: whatever is in it, it ends.
    pub fn of_report(self, text: String) -> String {
        let end = text.match_indices('\n').nth(LINES_MAX - 1).map(|(at, _)| at + 1);
        match (self, end) {
            (Self::Folded, Some(end)) if end < text.len() => {
                let (shown, rest) = text.split_at(end);
                format!("{shown}\n{}: {MORE}\n", quantity::count(rest.lines().count(), "more line"))
            }
            _ => text,
        }
    }
}

/// What shows the rest.
pub(crate) const MORE: &str = "the same command with --full shows all, with --json as data";
/// The same in a page, which no command shows in full.
pub(crate) const MORE_IN_JSON: &str = "iotoll inspect --json has all of them";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_report_ends_with_what_shows_the_rest() {
        let long = "line\n".repeat(LINES_MAX + 5);
        let folded = Length::Folded.of_report(long.clone());
        assert_eq!(folded.lines().count(), LINES_MAX + 2);
        assert!(
            folded.ends_with("\n5 more lines: the same command with --full shows all, with --json as data\n")
        );
        assert_eq!(Length::Full.of_report(long.clone()), long);
        let fits = "line\n".repeat(LINES_MAX);
        assert_eq!(Length::Folded.of_report(fits.clone()), fits);
    }
}
