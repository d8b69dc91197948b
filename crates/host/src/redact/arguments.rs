//! A kernel command line, argument by argument, with its quotes and blanks as they are.

use crate::kernel::command_line::next_argument;

/// Gives a new value for the argument `name=value`; a bare argument is a value with an empty name.
pub(super) type EachValue<'f> = dyn FnMut(&str, &str) -> String + 'f;

/// Rewrites the values of a command line, also those after `--`. Everything else stays byte by byte.
pub(super) fn rewrite(words: &str, each: &mut EachValue<'_>) -> String {
    let mut out = String::with_capacity(words.len());
    let mut copied = 0;
    let mut rest = words;
    while let Some((at, argument)) = next_argument(words, &mut rest) {
        out.push_str(&words[copied..at]);
        copied = at + argument.len();
        rewrite_one(argument, &mut out, each);
    }
    out.push_str(&words[copied..]);
    out
}

/// Quotes stand round the whole argument or round its value (lib/cmdline.c `next_arg`); the last one may be missing.
fn rewrite_one(argument: &str, out: &mut String, each: &mut EachValue<'_>) {
    let (open, inner, close) = unquoted(argument);
    out.push_str(open);
    match inner.split_once('=') {
        None => out.push_str(&each("", inner)),
        Some((name, value)) => {
            let (value_open, value, value_close) = unquoted(value);
            out.extend([name, "=", value_open, &each(name, value), value_close]);
        }
    }
    out.push_str(close);
}

/// The opening quote, what it encloses, and the closing quote.
fn unquoted(text: &str) -> (&str, &str, &str) {
    let Some(inner) = text.strip_prefix('"') else { return ("", text, "") };
    match inner.strip_suffix('"') {
        Some(inner) => ("\"", inner, "\""),
        None => ("\"", inner, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_change_and_the_rest_stays() {
        let mut each = |name: &str, value: &str| if name == "pw" { "x".to_owned() } else { value.to_owned() };
        for (words, expect) in [
            ("a  pw=1 b=2\n", "a  pw=x b=2\n"),
            ("pw=\"a b\" c", "pw=\"x\" c"),
            ("\"pw=a b\" c", "\"x\" c".replace("x", "pw=x").as_str()),
            ("a -- pw=1", "a -- pw=x"),
            ("pw=\"open a b", "pw=\"x"),
            ("pw=a\"b c\"d e", "pw=x e"),
        ] {
            assert_eq!(rewrite(words, &mut each), expect, "{words}");
        }
    }

    proptest! {
        #[test]
        fn what_is_given_back_as_it_is_stays(words in "[a=\"\\- \n\u{e9}]{0,40}") {
            prop_assert_eq!(rewrite(&words, &mut |_, value| value.to_owned()), words);
        }
    }
}
