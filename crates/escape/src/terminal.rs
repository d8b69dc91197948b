//! Makes text safe to print on a terminal: no control characters, no escape sequences but our colours.

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// Replaces an unsafe character.
const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;
/// First character of every escape sequence.
const ESCAPE: char = '\u{1b}';

/// Parameters of the SGR sequences (ECMA-48, 8.3.117) that iotoll prints: weights, the foreground colours, their
/// bright variants, and resets. None of them hides text (8) or moves the cursor.
const COLOURS: &[&str] = &[
    "", "0", "1", "2", "3", "4", "22", "23", "24", "30", "31", "32", "33", "34", "35", "36", "37", "39",
    "90", "91", "92", "93", "94", "95", "96", "97",
];
/// Start of the parameters by which crossterm selects the first sixteen colours in tables.
const TABLE_COLOUR: &str = "38;5;";

/// Whether a character controls a terminal, is invisible, or changes the direction of writing. These are the C0 and
/// C1 controls, DEL, format characters (zero-width, bidirectional, tags), line and paragraph separators, and letters
/// that are drawn as nothing.
pub fn is_unsafe(c: char) -> bool {
    match c {
        ' '..='~' => false,
        // Fillers and variation selectors: Default_Ignorable_Code_Point of the Unicode database, beside its format
        // characters.
        '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{2065}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fff8}'
        | '\u{e0000}'..='\u{e0fff}' => true,
        c => matches!(
            c.general_category(),
            GeneralCategory::Control
                | GeneralCategory::Format
                | GeneralCategory::LineSeparator
                | GeneralCategory::ParagraphSeparator
        ),
    }
}

/// Untrusted text for one line: characters that are [unsafe](is_unsafe) become U+FFFD, and all blanks become spaces.
pub fn plain(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\t' | '\n' | '\r' => ' ',
            c if is_unsafe(c) => REPLACEMENT,
            // Blanks that don't wrap could form lines that look like iotoll's.
            c if c.is_whitespace() => ' ',
            c => c,
        })
        .collect()
}

/// Untrusted text of several lines: line feeds and tabs stay, other [unsafe](is_unsafe) characters become U+FFFD.
pub fn lines(text: &str) -> String {
    text.chars().map(replace_unsafe).collect()
}

/// The character, or U+FFFD if it is unsafe and neither a line feed nor a tab.
fn replace_unsafe(c: char) -> char {
    if is_unsafe(c) && !matches!(c, '\n' | '\t') { REPLACEMENT } else { c }
}

/// As [`lines`], but keeps iotoll's colours: the last filter before standard output. Untrusted text in a report was
/// passed through [`plain`] before it was coloured.
pub fn screen(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let colour = if c == ESCAPE { colour(rest) } else { None };
        let taken = match colour {
            Some(colour) => {
                shown.push_str(colour);
                colour.len()
            }
            None => {
                shown.push(replace_unsafe(c));
                c.len_utf8()
            }
        };
        rest = rest.get(taken..).unwrap_or_default();
    }
    shown
}

/// The sequence that a text begins with, if it is one of our colours.
fn colour(text: &str) -> Option<&str> {
    let parameters = text.strip_prefix("\u{1b}[")?;
    let end = parameters.find(|c: char| !(c.is_ascii_digit() || c == ';'))?;
    let (parameters, rest) = parameters.split_at(end);
    let is_table_colour = || {
        let number = parameters.strip_prefix(TABLE_COLOUR).and_then(|number| number.parse::<u8>().ok());
        number.is_some_and(|number| number < 16)
    };
    let ours = rest.starts_with('m') && (COLOURS.contains(&parameters) || is_table_colour());
    ours.then(|| text.get(..end + "\u{1b}[m".len())).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(plain("eth0\x1b[2J\x07"), "eth0\u{fffd}[2J\u{fffd}");
        assert_eq!(plain("a\tb\nc"), "a b c");
        assert_eq!(plain("safe\u{202e}gpj.exe"), "safe\u{fffd}gpj.exe");
        assert_eq!(plain("Größe µs 網路 · … ≥"), "Größe µs 網路 · … ≥");
        assert_eq!(lines("a\n\tb\r\x1b[1mc"), "a\n\tb\u{fffd}\u{fffd}[1mc");
    }

    #[test]
    fn only_our_colours_reach_the_screen() {
        for ours in
            ["\x1b[1m\x1b[31mcritical\x1b[0m", "\x1b[38;5;9mcell\x1b[39m\n\tnext", "\x1b[2mdim\x1b[0m"]
        {
            assert_eq!(screen(ours), ours);
        }
        let theirs = [
            "\x1b[2J",
            "\x1b[8mhidden",
            "\x1b]0;x\x07",
            "\x1b[38;5;200mx",
            "\x1b[1",
            "\x1b",
            "\x1b[1;31Hx",
            "\u{9b}1m",
        ];
        for theirs in theirs {
            assert!(!screen(theirs).contains(['\x1b', '\u{9b}']), "{theirs:?}");
        }
    }

    /// The characters of Table 1 of "Trojan Source" (2021), and what its section on homoglyphs calls invisible.
    #[test]
    fn the_characters_of_trojan_source_are_unsafe() {
        let table = [
            '\u{202a}', '\u{202b}', '\u{202d}', '\u{202e}', '\u{2066}', '\u{2067}', '\u{2068}', '\u{202c}',
            '\u{2069}',
        ];
        let invisible = [
            '\u{200b}',
            '\u{200c}',
            '\u{200d}',
            '\u{2060}',
            '\u{feff}',
            '\u{ad}',
            '\u{3164}',
            '\u{e0041}',
            '\u{2028}',
        ];
        assert!(table.into_iter().chain(invisible).all(is_unsafe));
    }

    #[test]
    fn every_control_character_is_unsafe() {
        assert!((0..0x20).chain(0x7f..0xa0).filter_map(char::from_u32).all(is_unsafe));
        assert!(!(' '..='~').any(is_unsafe));
    }
}
