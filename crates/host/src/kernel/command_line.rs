//! The kernel's command line, split into options as the kernel splits it.

use crate::{Citation, Text};

/// No architecture takes more (COMMAND_LINE_SIZE is 4 KiB at most, a boot configuration 32 KiB).
const LINE_BYTES_MAX: usize = 64 << 10;

/// One option of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Position of its first byte in the command line.
    pub offset: usize,
    /// Name, as written.
    pub name: String,
    /// What stands after the first `=`, quotes removed; `None` without a `=`.
    pub value: Option<String>,
    /// Whether it stands after `--`: then it is for init and the kernel ignores it.
    pub for_init: bool,
    /// Where, with the option's own words.
    pub at: Citation,
}

impl Token {
    /// Whether this is the option `name`: the kernel takes `-` and `_` for the same (`parameq`).
    pub fn is(&self, name: &str) -> bool {
        same_name(&self.name, name)
    }

    /// The option as it would be typed.
    pub fn words(&self) -> String {
        match &self.value {
            Some(value) => format!("{}={value}", self.name),
            None => self.name.clone(),
        }
    }
}

/// A split command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandLine {
    /// Options in order.
    pub tokens: Vec<Token>,
}

impl CommandLine {
    /// Splits /proc/cmdline. A file of several lines is one command line: a newline is a space.
    pub fn parse(text: &Text) -> Self {
        Self::split(text, 1, text.body())
    }

    /// Splits the command line that line `line` of `text` quotes, as boot messages do.
    pub fn parse_quoted(text: &Text, line: u32, words: &str) -> Self {
        Self::split(text, line, words)
    }

    /// Splits `words`, which start on line `first_line` of `text`.
    fn split(text: &Text, first_line: u32, words: &str) -> Self {
        let words = without_excess(words);
        let mut tokens = Vec::new();
        let mut for_init = false;
        let mut line = first_line;
        let mut counted = 0;
        let mut rest = words;
        while let Some((offset, argument)) = next_argument(words, &mut rest) {
            let skipped = words.get(counted..offset).unwrap_or_default();
            line = line.saturating_add(count_newlines(skipped));
            counted = offset;
            if argument == "--" && !for_init {
                for_init = true;
                continue;
            }
            let (name, value) = name_and_value(argument);
            tokens.push(Token { offset, name, value, for_init, at: text.cite(line, argument) });
        }
        Self { tokens }
    }

    /// The options that the kernel itself reads.
    pub fn of_kernel(&self) -> impl Iterator<Item = &Token> {
        self.tokens.iter().filter(|token| !token.for_init)
    }

    /// The last option of this name, which for most options is the one that counts.
    pub fn last(&self, name: &str) -> Option<&Token> {
        self.of_kernel().filter(|token| token.is(name)).last()
    }
}

/// Whether two option names are the same to the kernel.
pub fn same_name(one: &str, other: &str) -> bool {
    let fold = |byte: u8| if byte == b'-' { b'_' } else { byte };
    one.len() == other.len() && one.bytes().map(fold).eq(other.bytes().map(fold))
}

/// What separates arguments.
pub(crate) fn is_blank(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\0'
}

/// The next argument and its offset, as lib/cmdline.c `next_arg` cuts it: at a space outside quotes.
pub(crate) fn next_argument<'t>(words: &'t str, rest: &mut &'t str) -> Option<(usize, &'t str)> {
    let start = rest.trim_start_matches(is_blank);
    if start.is_empty() {
        return None;
    }
    let mut quoted = false;
    let end = start
        .bytes()
        .position(|byte| {
            if byte == b'"' {
                quoted = !quoted;
            }
            !quoted && (byte.is_ascii_whitespace() || byte == 0)
        })
        .unwrap_or(start.len());
    let (argument, after) = start.split_at(end);
    *rest = after;
    Some((words.len() - start.len(), argument))
}

/// Splits at the first `=` and drops quotes around the whole or around the value.
fn name_and_value(argument: &str) -> (String, Option<String>) {
    let whole = argument.strip_prefix('"');
    let argument = whole.map_or(argument, |inner| inner.strip_suffix('"').unwrap_or(inner));
    match argument.split_once('=') {
        None => (argument.to_owned(), None),
        Some((name, value)) => {
            let inner = value.strip_prefix('"').map(|v| v.strip_suffix('"').unwrap_or(v));
            (name.to_owned(), Some(inner.unwrap_or(value).to_owned()))
        }
    }
}

/// The number of line ends in `text`.
fn count_newlines(text: &str) -> u32 {
    u32::try_from(text.bytes().filter(|byte| *byte == b'\n').count()).unwrap_or(u32::MAX)
}

/// The start of the command line, as long as a kernel may take.
fn without_excess(words: &str) -> &str {
    let end = (0..=words.len().min(LINE_BYTES_MAX)).rev().find(|end| words.is_char_boundary(*end));
    words.get(..end.unwrap_or(0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(body: &str, expect: &[(usize, &str, Option<&str>, bool)]) {
        let text = Text::new("proc/cmdline", body);
        let line = CommandLine::parse(&text);
        let got: Vec<_> =
            line.tokens.iter().map(|t| (t.offset, t.name.as_str(), t.value.as_deref(), t.for_init)).collect();
        assert_eq!(got, expect, "{body}");
    }

    #[test]
    fn splits_like_the_kernel() {
        check("root=/dev/vda1 quiet\n", &[(0, "root", Some("/dev/vda1"), false), (15, "quiet", None, false)]);
        check("a=b=c", &[(0, "a", Some("b=c"), false)]);
        check("dyndbg=\"file x +p\" b", &[(0, "dyndbg", Some("file x +p"), false), (19, "b", None, false)]);
        check("\"dyndbg=x y\" b", &[(0, "dyndbg", Some("x y"), false), (13, "b", None, false)]);
        check(
            "ro -- --single iommu=pt",
            &[(0, "ro", None, false), (6, "--single", None, true), (15, "iommu", Some("pt"), true)],
        );
        check("x=\"open", &[(0, "x", Some("open"), false)]);
        check("  ", &[]);
        check("swiotlb=", &[(0, "swiotlb", Some(""), false)]);
    }

    #[test]
    fn dashes_are_underscores_and_the_last_counts() {
        let text = Text::new("proc/cmdline", "intel-iommu=off intel_iommu=on");
        let line = CommandLine::parse(&text);
        let last = line.last("intel_iommu").unwrap();
        assert_eq!(last.value.as_deref(), Some("on"));
        assert_eq!(last.at.to_string(), "proc/cmdline:1: intel_iommu=on");
    }

    proptest! {
        #[test]
        fn offsets_point_at_the_arguments(body in "[a=\"\\- \n\u{e9}]{0,40}") {
            let text = Text::new("proc/cmdline", body.clone());
            for token in CommandLine::parse(&text).tokens {
                prop_assert!(body.is_char_boundary(token.offset));
                prop_assert!(body[token.offset..].starts_with(token.at.text.trim()));
            }
        }
    }
}
