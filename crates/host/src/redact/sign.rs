//! Signs that a line may contain a secret: a quick look, which passes over most lines of a log.

use super::log::COMMAND_LINE_MARKS;
use super::secrets::{
    ANYWHERE, HASH_MARKS, LAST_WORDS, SERVICE_PREFIXES, TABLES, WORD_ENDS, has_long_word, starts_with_hex,
};
use aho_corasick::{AhoCorasick, AhoCorasickKind};
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
    let sure =
        ANYWHERE.iter().chain(&HASH_MARKS).chain(&SERVICE_PREFIXES).chain(&COMMAND_LINE_MARKS).chain(&sure);
    let names = WORD_ENDS.iter().chain(&LAST_WORDS).chain(&TABLES);
    let others = [("-u", Sign::Flag), ("-p", Sign::Flag), ("%", Sign::Encoded)];
    sure.map(|text| (*text, Sign::Sure)).chain(names.map(|text| (*text, Sign::Name))).chain(others).collect()
});

/// Finds these pieces. Of the kinds of automata, this one is built soonest, which counts more for a log of some hundred lines.
static SIGN_FINDER: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let kind = Some(AhoCorasickKind::NoncontiguousNFA);
    let texts = SIGNS.iter().map(|(text, _)| text);
    AhoCorasick::builder().kind(kind).ascii_case_insensitive(true).build(texts).ok()
});

/// Whether a line may contain a secret, a command line or a URL: a quick look that passes over most lines.
pub(super) fn may_be_in(line: &str) -> bool {
    // Some letters beyond ASCII count as those of names when case is ignored.
    let Some(finder) = SIGN_FINDER.as_ref().filter(|_| line.is_ascii()) else { return true };
    let mut name_end = 0;
    has_long_word(line)
        || finder.find_overlapping_iter(line).any(|found| {
            let rest = &line[found.end()..];
            match SIGNS.get(found.pattern().as_usize()) {
                Some((_, Sign::Sure)) | None => true,
                Some((_, Sign::Flag)) => line[..found.start()].ends_with(|c: char| c.is_whitespace()),
                Some((_, Sign::Encoded)) => starts_with_hex(rest),
                // What follows a name is looked at once, however many signs are in it.
                Some((_, Sign::Name)) if found.end() <= name_end => false,
                Some((_, Sign::Name)) => {
                    let behind = rest.trim_start_matches(is_name_char);
                    name_end = line.len() - behind.len();
                    after_separator(behind).is_some()
                }
            }
        })
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
