//! Words that announce a secret without a separator: `password x`, `password is x`, `--token x`, `Bearer x`, `-u name:x`, `-p x`.

use regex::Regex;
use std::sync::LazyLock;

/// Parts of names before a secret. `api key` is one too, in two words.
const NAMES: [&str; 8] =
    ["passw", "passphrase", "secret", "token", "credential", "apikey", "api_key", "api-key"];

/// Such words, and the first character of the value that follows.
static ANNOUNCED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let names = "[A-Za-z0-9_.-]*(?:passw|passphrase|secret|token|credential|api[ _-]?key)[A-Za-z0-9_.-]*";
    Regex::new(&format!(
        r#"(?i)(?:\b{names}\s+(?:is\s+)?|(?:^|\s)--?{names}\s+|\bbearer\s+|\s-u\s*[^\s:]+:|\s-u\s*[^\s%]+%|\s-p\s*|\bsshpass\s+-[a-z]\s*)["'`]?\S"#
    ))
    .ok()
});

/// The byte at which the first value begins that words announce.
pub(super) fn value_start(words: &str) -> Option<usize> {
    if words.is_ascii() { value_start_in_ascii(words) } else { value_start_by_pattern(words) }
}

/// The same by the pattern, which is slow to build, and knows letters and blanks beyond ASCII.
fn value_start_by_pattern(words: &str) -> Option<usize> {
    let found = ANNOUNCED.as_ref()?.find(words)?;
    let first_of_value = found.as_str().chars().next_back()?;
    Some(found.end() - first_of_value.len_utf8())
}

/// The same by hand. No text is looked at more than a few times, however long it is.
fn value_start_in_ascii(words: &str) -> Option<usize> {
    let mut name = Name::default();
    let value = (0..words.len()).find_map(|at| {
        if name.end <= at {
            name = Name::at(words, at, value_after_is);
        }
        let rest = &words[at..];
        let word = || name.value(at).or_else(|| after_word(rest));
        let flag = || after_flag(rest, at == 0);
        at_boundary(words, at).then(word).flatten().or_else(flag)
    })?;
    Some(words.len() - value.len())
}

/// A run of characters of names, which may announce a value.
#[derive(Default)]
struct Name<'w> {
    /// The byte behind it.
    end: usize,
    /// Where its last parts begin that announce a value, and the value: of two words, and of one.
    announced: [Option<(usize, &'w str)>; 2],
}

impl<'w> Name<'w> {
    /// The run that begins at a byte, with the value that `value_after` finds behind it. A character that is in no name is a run too.
    fn at(words: &'w str, start: usize, value_after: fn(&str) -> Option<&str>) -> Self {
        let (run, rest) = split_run(&words[start..]);
        let begins = |at: &usize, name: &str| after(&run[*at..], name).is_some();
        let last = || (0..run.len()).rev().find(|at| NAMES.iter().any(|name| begins(at, name)));
        let in_two_words = || {
            let (_, behind) =
                after(rest, " ").filter(|behind| after(behind, "key").is_some()).map(split_run)?;
            let first = run.len().checked_sub("api".len()).filter(|at| begins(at, "api"))?;
            Some((start + first, value_after(behind)?))
        };
        let in_one_word = || Some((start + last()?, value_after(rest)?));
        Self { end: start + run.len().max(1), announced: [in_two_words(), in_one_word()] }
    }

    /// The value that the part of the run from a byte on announces.
    fn value(&self, from: usize) -> Option<&'w str> {
        self.announced.iter().flatten().find_map(|(start, value)| (from <= *start).then_some(*value))
    }
}

/// The value after `password ` or `password is `: what follows the name.
fn value_after_is(behind: &str) -> Option<&str> {
    let words = after_blanks(behind)?;
    after(words, "is").and_then(after_blanks).and_then(value).or_else(|| value(words))
}

/// The value after `bearer x` or `sshpass -p x`.
fn after_word(text: &str) -> Option<&str> {
    if let Some(behind) = after(text, "bearer") {
        return value(after_blanks(behind)?);
    }
    let flag = after(text, "sshpass").and_then(after_blanks)?.strip_prefix('-')?;
    value(flag.strip_prefix(|c: char| c.is_ascii_alphabetic())?.trim_start())
}

/// The value after a blank and `--token x`, `-u name:x`, `-u name%x` or `-p x`; the first of these needs no blank at the start of the text.
fn after_flag(text: &str, is_start: bool) -> Option<&str> {
    let behind_blank = text.strip_prefix(char::is_whitespace);
    let flag = behind_blank.or(is_start.then_some(text))?.strip_prefix('-')?;
    let named = || Name::at(flag, 0, |behind| after_blanks(behind).and_then(value)).value(0);
    let user = |separator: char| {
        let user = after(flag, "u")?.trim_start();
        let (name, password) = user.split_at(user.find(|c: char| c.is_whitespace() || c == separator)?);
        value(password.strip_prefix(separator).filter(|_| !name.is_empty())?)
    };
    let password = || value(after(flag, "p")?.trim_start());
    let after_short_flag = || user(':').or_else(|| user('%')).or_else(password);
    named().or_else(|| behind_blank.and_then(|_| after_short_flag()))
}

/// What a text is after this prefix, in any case of letters.
fn after<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// What follows blanks, of which there is one at least.
fn after_blanks(text: &str) -> Option<&str> {
    let rest = text.trim_start();
    (rest.len() < text.len()).then_some(rest)
}

/// The value that a text begins with, without a quote before it.
fn value(text: &str) -> Option<&str> {
    let begins = |text: &&str| text.starts_with(|c: char| !c.is_whitespace());
    text.strip_prefix(['"', '\'', '`']).filter(begins).or(Some(text).filter(begins))
}

/// The characters of a name that a text begins with, and the rest.
fn split_run(text: &str) -> (&str, &str) {
    let is_in_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    text.split_at(text.find(|c| !is_in_name(c)).unwrap_or(text.len()))
}

/// Whether a word begins or ends at a byte.
fn at_boundary(words: &str, at: usize) -> bool {
    let is_in_word =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let bytes = words.as_bytes();
    is_in_word(at.checked_sub(1).and_then(|before| bytes.get(before))) != is_in_word(bytes.get(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn read_by_hand_as_by_the_pattern(
            line in "(passw|[Tt]oken|api|key|API[ _-]?key|secret|bearer|Sshpass|-?-[upP]|-|is|x|[.:%\"'`a-z0-9_ \t\u{b}-]| ){0,14}"
        ) {
            proptest::prop_assert_eq!(value_start_in_ascii(&line), value_start_by_pattern(&line));
        }
    }
}
