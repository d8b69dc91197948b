//! A kernel command line, argument by argument, with its quotes and blanks as they are.

use crate::kernel::command_line::{is_blank, next_argument};

/// Gives a new value for the argument `name=value`; a bare argument is a value with an empty name. All that follows `--` is one
/// value with that name.
pub(super) type EachValue<'f> = dyn FnMut(&str, &str) -> String + 'f;

/// What ends the kernel's own arguments; those that follow are for the first program.
pub(super) const AFTER: &str = "--";

/// Rewrites the values of a command line. Everything else stays byte by byte.
pub(super) fn rewrite(words: &str, each: &mut EachValue<'_>) -> String {
    let mut out = String::with_capacity(words.len());
    let mut copied = 0;
    let mut rest = words;
    while let Some((at, argument)) = next_argument(words, &mut rest) {
        out.push_str(&words[copied..at]);
        copied = at + argument.len();
        rewrite_one(argument, &mut out, each);
        if unquoted(argument).1 == AFTER {
            let start = copied + rest.len() - rest.trim_start_matches(is_blank).len();
            let end = words.trim_end_matches(is_blank).len();
            if let Some(for_init) = words.get(start..end).filter(|words| !words.is_empty()) {
                out.extend([&words[copied..start], &each(AFTER, for_init)]);
                copied = end;
            }
            break;
        }
    }
    out.push_str(&words[copied..]);
    out
}

/// Quotes stand round the whole argument or round its value (lib/cmdline.c `next_arg`); the last one may be missing.
fn rewrite_one(argument: &str, out: &mut String, each: &mut EachValue<'_>) {
    let (open, inner, close) = unquoted(argument);
    let (name, value) = inner.split_once('=').unwrap_or(("", inner));
    let (value_open, value, value_close) = if inner == value { ("", value, "") } else { unquoted(value) };
    let new = each(name, value);
    out.push_str(open);
    out.push_str(&inner[..inner.len() - value_open.len() - value.len() - value_close.len()]);
    out.extend([value_open, &new, value_close]);
    // A quote less would enclose the arguments that follow.
    if count_quotes(&new) % 2 != count_quotes(value) % 2 {
        out.push('"');
    }
    out.push_str(close);
}

/// How many double quotes a text has.
fn count_quotes(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'"').count()
}

/// The opening quote, what it encloses, and the closing quote; either may be missing.
fn unquoted(text: &str) -> (&str, &str, &str) {
    let (open, inner) = text.split_at(usize::from(text.starts_with('"')));
    let (inner, close) = inner.split_at(inner.len() - usize::from(inner.ends_with('"')));
    (open, inner, close)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_change_and_the_rest_stays() {
        let mut each = |name: &str, value: &str| match name {
            "pw" => "x".to_owned(),
            AFTER => "y".to_owned(),
            _ => value.to_owned(),
        };
        for (words, expect) in [
            ("a  pw=1 b=2\n", "a  pw=x b=2\n"),
            ("pw=\"a b\" c", "pw=\"x\" c"),
            ("\"pw=a b\" c", "\"x\" c".replace("x", "pw=x").as_str()),
            ("a -- pw=1 --x y\n", "a -- y\n"),
            ("a --\n", "a --\n"),
            ("a \"--\" pw=1", "a \"--\" y"),
            ("pw=\"open a b", "pw=\"x"),
            ("pw=a\"b c\"d e", "pw=x e"),
            ("x\"pw=1 2\" b", "x\"pw=1 2\" b"),
            ("pw=\"a\"b c", "pw=\"x\" c"),
            ("a\"pw=b\" pw=1", "a\"pw=b\" pw=x"),
        ] {
            assert_eq!(rewrite(words, &mut each), expect, "{words}");
        }
    }

    proptest! {
        #[test]
        fn unchanged_values_leave_the_text_unchanged(words in "[a=\"\\- \n\u{e9}]{0,40}") {
            prop_assert_eq!(rewrite(&words, &mut |_, value| value.to_owned()), words);
        }
    }
}
