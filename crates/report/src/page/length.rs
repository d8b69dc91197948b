//! How much of a report is shown. A host with 400,000 faults gets a report of some pages.

use crate::page::quantity;

/// How much of a report is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// The first entries of long lists, and how many more there are.
    Folded,
    /// All of it.
    Full,
}

/// The most lines of a report that is [`Length::Folded`]: about forty screens.
pub const LINES_MAX: usize = 1_900;

impl Length {
    /// How many of `count` entries are shown: at most `folded_max` if folded, else all.
    pub(crate) fn shown(self, count: usize, folded_max: usize) -> usize {
        match self {
            Self::Folded => count.min(folded_max),
            Self::Full => count,
        }
    }

    /// Cuts a report after [`LINES_MAX`] lines if it is folded; otherwise returns all of it.
    pub fn cut_report(self, text: String) -> String {
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

/// What shows the rest of a terminal's report.
pub(crate) const MORE: &str = "the same command with --full shows all, with --json as data";
/// What shows the rest of a page.
pub(crate) const MORE_IN_JSON: &str = "iotoll inspect --json has all of them";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_report_ends_with_the_command_that_shows_the_rest() {
        let long = "line\n".repeat(LINES_MAX + 5);
        let folded = Length::Folded.cut_report(long.clone());
        assert_eq!(folded.lines().count(), LINES_MAX + 2);
        assert!(
            folded.ends_with("\n5 more lines: the same command with --full shows all, with --json as data\n")
        );
        assert_eq!(Length::Full.cut_report(long.clone()), long);
        let fits = "line\n".repeat(LINES_MAX);
        assert_eq!(Length::Folded.cut_report(fits.clone()), fits);
    }
}
