//! What people see of a hostile host.

use crate::whole_host::host_of;
use host::diagnose::Basis;
use host::{Digest, Host, Inspection, Tree};
use report::Style;

/// Columns of terminals that reports are laid out for.
const WIDTHS: [usize; 3] = [40, 100, 250];

/// Words that break out of a page if they get into it as they are. [`rendered`]'s inputs hold them.
const BREAKS_PAGE: [&str; 3] = ["<hostile", "<script>hostile", "\" onhostile="];

/// A host by files as those of `whole_host`, in words and as a page: a terminal gets text, line ends and colours, and nothing that
/// moves its cursor or turns its writing round; a page shows what it was given.
pub fn rendered(data: &[u8]) {
    let host = Host::read(&Tree::of_memory(host_of(data)));
    let inspection =
        Inspection::with_basis(host, Basis { tolls: Some(Digest::builtin()), prices: None, areas: &[] });
    for width in WIDTHS {
        check_terminal(
            &report::inspection(&inspection, width, Style::Plain, report::Length::Full, true),
            Style::Plain,
        );
        check_terminal(
            &report::inspection(&inspection, width, Style::Colour, report::Length::Full, true),
            Style::Colour,
        );
    }
    for (adapter, _) in inspection.adapters().take(4) {
        let sheet = report::adapter(
            &inspection,
            adapter.function.address,
            WIDTHS[0],
            Style::Colour,
            report::Length::Full,
        );
        check_terminal(&sheet.unwrap_or_default(), Style::Colour);
    }
    let page = report::inspection_page(&inspection, "iotoll");
    for word in BREAKS_PAGE {
        assert!(!page.contains(word), "{word:?} stands in the page");
    }
}

/// Panics at a character that a terminal would not show but obey.
fn check_terminal(text: &str, style: Style) {
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        if character == '\u{1b}' && style == Style::Colour {
            rest = behind_colour(rest).expect("an escape sequence that is no colour");
            continue;
        }
        assert!(character == '\n' || !obeyed(character), "{character:?} before {:?}", head(rest));
    }
}

/// What is behind `[1;31m` without the escape before it.
fn behind_colour(rest: &str) -> Option<&str> {
    let numbers = rest.strip_prefix('[')?;
    let behind = numbers.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
    behind.strip_prefix('m')
}

/// Control characters of both sets (ECMA-48), and those that change the direction of text (UAX #9).
fn obeyed(character: char) -> bool {
    let turns = matches!(character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_control() || turns || matches!(character, '\u{2028}' | '\u{2029}')
}

fn head(text: &str) -> String {
    text.chars().take(40).collect()
}
