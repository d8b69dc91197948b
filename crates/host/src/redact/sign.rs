//! Signs that a line may contain a secret: a quick look, which passes over most lines of a log.

use super::log::COMMAND_LINE_MARKS;
use super::secrets::{
    ANYWHERE, HASH_MARKS, LAST_WORDS, SCHEMES, SERVICE_PREFIXES, TABLES, WORD_ENDS, has_long_word,
    starts_with_hex,
};
use std::ops::Range;
use std::sync::LazyLock;

/// What a piece of text announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// A secret, whatever follows.
    Sure,
    /// A secret, if a separator and a value follow: `key` is in many a message.
    Name,
    /// A flag, if a blank stands before it.
    Flag,
    /// A name with encoded letters, if two hexadecimal digits follow.
    Encoded,
}

/// Pieces of text, and what each announces.
static SIGNS: LazyLock<Vec<(&str, Sign)>> = LazyLock::new(|| {
    let sure = ["sshpass", "api key", "api-key", "api_key", "://", "`"];
    let sure = ANYWHERE
        .iter()
        .chain(&HASH_MARKS)
        .chain(&SERVICE_PREFIXES)
        .chain(&SCHEMES)
        .chain(&COMMAND_LINE_MARKS)
        .chain(&sure);
    let names = WORD_ENDS.iter().chain(&LAST_WORDS).chain(&TABLES);
    let others = [("-u", Sign::Flag), ("-p", Sign::Flag), ("%", Sign::Encoded)];
    sure.map(|text| (*text, Sign::Sure)).chain(names.map(|text| (*text, Sign::Name))).chain(others).collect()
});

/// The pieces of text, by the first two characters of each.
///
/// An automaton of a library for as many pieces took 0.7 million instructions to build, and some thirty-five for each byte of a log (callgrind).
/// Here each byte takes about twenty.
struct SignFinder {
    /// For each two characters, whatever the case of letters: a number of `groups`.
    group_of_pair: Box<[u16; BYTE_VALUES * BYTE_VALUES]>,
    /// Pieces that begin alike. The first group is empty.
    groups: Vec<Vec<(&'static [u8], Sign)>>,
}

static SIGN_FINDER: LazyLock<SignFinder> = LazyLock::new(|| SignFinder::new(&SIGNS));

/// How many values of a byte are told apart in a pair.
const BYTE_VALUES: usize = 1 << 7;

/// A byte of ASCII, the same for both cases of a letter.
fn fold(byte: u8) -> u8 {
    byte | 0x20
}

/// The number of a pair of bytes of ASCII, whatever the case of letters.
fn pair(first: u8, second: u8) -> usize {
    let value = |byte: u8| usize::from(fold(byte)) % BYTE_VALUES;
    value(first) * BYTE_VALUES + value(second)
}

impl SignFinder {
    fn new(signs: &[(&'static str, Sign)]) -> Self {
        let mut finder =
            Self { group_of_pair: Box::new([0; BYTE_VALUES * BYTE_VALUES]), groups: vec![Vec::new()] };
        for (text, sign) in signs {
            let (first, seconds) = match text.as_bytes() {
                [] => continue,
                // Anything may follow it.
                [only] => (*only, 0..=u8::MAX >> 1),
                [first, second, ..] => (*first, fold(*second)..=fold(*second)),
            };
            for second in seconds.filter(|second| fold(*second) == *second) {
                finder.add(pair(first, second), text.as_bytes(), *sign);
            }
        }
        finder
    }

    /// Adds a piece to those that begin with this pair.
    #[expect(clippy::unwrap_used, reason = "the pieces are constants, and a test builds their groups")]
    fn add(&mut self, pair: usize, text: &'static [u8], sign: Sign) {
        let group = usize::from(self.group_of_pair[pair]);
        match group {
            0 => {
                self.group_of_pair[pair] = u16::try_from(self.groups.len()).unwrap();
                self.groups.push(vec![(text, sign)]);
            }
            group => self.groups[group].push((text, sign)),
        }
    }

    /// Whether a line has a piece for which `counts` holds, given where it stands.
    fn any_in(&self, line: &str, mut counts: impl FnMut(Range<usize>, Sign) -> bool) -> bool {
        let bytes = line.as_bytes();
        let mut is_any_at = |start: usize, group: u16| {
            self.groups[usize::from(group)].iter().any(|(text, sign)| {
                let place = start..start + text.len();
                let is_here = bytes.get(place.clone()).is_some_and(|found| found.eq_ignore_ascii_case(text));
                is_here && counts(place, *sign)
            })
        };
        let has_pair = bytes.array_windows().enumerate().any(|(start, [first, second])| {
            let group = self.group_of_pair[pair(*first, *second)];
            group > 0 && is_any_at(start, group)
        });
        let last = |last: &u8| is_any_at(bytes.len() - 1, self.group_of_pair[pair(*last, 0)]);
        has_pair || bytes.last().is_some_and(last)
    }
}

/// Whether a line may contain a secret, a command line or a URL: a quick look that passes over most lines.
pub(super) fn may_be_in(line: &str) -> bool {
    let mut name_end = 0;
    // Some letters beyond ASCII count as those of names when case is ignored.
    !line.is_ascii()
        || has_long_word(line)
        || SIGN_FINDER.any_in(line, |found, sign| {
            let rest = &line[found.end..];
            match sign {
                Sign::Sure => true,
                Sign::Flag => line[..found.start].ends_with(|c: char| c.is_whitespace()),
                Sign::Encoded => starts_with_hex(rest),
                // What follows a name is looked at once, however many signs are in it.
                Sign::Name if found.end <= name_end => false,
                Sign::Name => {
                    let behind = rest.trim_start_matches(is_name_char);
                    name_end = line.len() - behind.len();
                    after_separator(behind).is_some()
                }
            }
        })
}

/// Whether a text has any of these pieces, whatever is beside them.
pub(super) fn has_piece(text: &str) -> bool {
    SIGN_FINDER.any_in(text, |_, _| true)
}

/// Whether a character may be inside a name.
pub(super) fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '%' | '-')
}

/// The value that follows a name and a separator, without the quote that it begins with: ` = x`, `"]: "x`.
pub(super) fn after_separator(behind: &str) -> Option<&str> {
    let behind = behind.strip_prefix(['"', '\'', ']']).unwrap_or(behind).trim_start();
    let pair = behind.strip_prefix(":=").or_else(|| behind.strip_prefix("=>"));
    let value = pair.or_else(|| behind.strip_prefix(['=', ':', '>']))?.trim_start();
    Some(value.strip_prefix(['"', '\'', '`']).unwrap_or(value))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    #[test]
    fn groups_are_few_enough_to_be_numbered() {
        assert!(SIGN_FINDER.groups.len() <= usize::from(u16::MAX));
    }

    proptest::proptest! {
        #[test]
        fn pieces_are_found_as_by_looking_at_each_place(line in "[ -~]{0,8}", at in 0_usize..200, upper: bool) {
            let (text, _) = SIGNS[at % SIGNS.len()];
            let text = if upper { text.to_ascii_uppercase() } else { text.to_owned() };
            let line = format!("{}{text}{}", &line[..line.len() / 2], &line[line.len() / 2..]);
            let lower = line.to_ascii_lowercase();
            let mut expect: Vec<_> = SIGNS
                .iter()
                .flat_map(|(text, sign)| {
                    let text = text.to_ascii_lowercase();
                    let starts: Vec<_> = (0..lower.len()).filter(|at| lower[*at..].starts_with(&text)).collect();
                    starts.into_iter().map(move |at| (at, at + text.len(), *sign as u8))
                })
                .collect();
            let mut got = Vec::new();
            SIGN_FINDER.any_in(&line, |found, sign| {
                got.push((found.start, found.end, sign as u8));
                false
            });
            expect.sort_unstable();
            got.sort_unstable();
            proptest::prop_assert_eq!(got, expect);
        }
    }
}
