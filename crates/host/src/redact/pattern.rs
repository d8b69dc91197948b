//! A pattern that is seldom needed: built at little cost, and anew for speed where there is much to search.
//!
//! `regex` takes up to seven million instructions to build a pattern of ours, more than it takes to read a short log. For ASCII alone, and
//! without what is built for speed, it is a quarter of that. Text of ASCII reads the same to both.

use regex_automata::meta;
use regex_automata::util::syntax;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// So much text is searched by what is built at little cost.
const SMALL_BYTES_MAX: usize = 8 << 10;

/// A pattern, built when it is first needed.
pub(super) struct Pattern {
    /// Writes the pattern.
    text: fn() -> String,
    small: OnceLock<Option<meta::Regex>>,
    fast: OnceLock<Option<regex::Regex>>,
    searched_bytes: AtomicUsize,
}

impl Pattern {
    /// The pattern that this function writes.
    pub(super) const fn new(text: fn() -> String) -> Self {
        Self { text, small: OnceLock::new(), fast: OnceLock::new(), searched_bytes: AtomicUsize::new(0) }
    }

    /// Where the first match is, and its groups: as many as are asked for.
    pub(super) fn groups<const N: usize>(&self, text: &str) -> Option<[Option<Range<usize>>; N]> {
        let searched = self.searched_bytes.fetch_add(text.len(), Ordering::Relaxed);
        match searched <= SMALL_BYTES_MAX && text.is_ascii() {
            true => self.groups_by_small(text),
            false => self.groups_by_fast(text),
        }
    }

    fn groups_by_small<const N: usize>(&self, text: &str) -> Option<[Option<Range<usize>>; N]> {
        let small = self.small.get_or_init(|| for_ascii(&(self.text)())).as_ref()?;
        let mut captures = small.create_captures();
        small.captures(text, &mut captures);
        captures.is_match().then(|| std::array::from_fn(|group| captures.get_group(group).map(Into::into)))
    }

    fn groups_by_fast<const N: usize>(&self, text: &str) -> Option<[Option<Range<usize>>; N]> {
        let fast = self.fast.get_or_init(|| regex::Regex::new(&(self.text)()).ok());
        let captures = fast.as_ref()?.captures(text)?;
        Some(std::array::from_fn(|group| captures.get(group).map(|group| group.range())))
    }

    /// Both readings of a text, for tests.
    #[cfg(test)]
    pub(super) fn both<const N: usize>(&self, text: &str) -> [Option<[Option<Range<usize>>; N]>; 2] {
        [self.groups_by_small(text), self.groups_by_fast(text)]
    }
}

/// A pattern for text of ASCII.
fn for_ascii(pattern: &str) -> Option<meta::Regex> {
    let bytes = syntax::Config::new().unicode(false).utf8(false);
    let plain = meta::Config::new().hybrid(false).onepass(false).auto_prefilter(false).utf8_empty(false);
    meta::Builder::new().syntax(bytes).configure(plain).build(pattern).ok()
}
