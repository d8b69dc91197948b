//! Makes JSON safe to print on a terminal.

use crate::terminal::is_unsafe;
use std::fmt::Write;

/// Replaces [unsafe](is_unsafe) characters of a JSON document by escapes such as `\u009b`: serde_json writes C1 controls,
/// DEL and bidirectional characters unescaped. The meaning stays, because these characters occur only in strings.
pub fn ascii_controls(document: &str) -> String {
    let mut escaped = String::with_capacity(document.len());
    for c in document.chars() {
        match c {
            // Line feeds occur only between values.
            '\n' => escaped.push(c),
            c if is_unsafe(c) => {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                    // Writing to a String does not fail.
                    let _ = write!(escaped, "\\u{unit:04x}");
                });
            }
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::ascii_controls;

    #[test]
    fn a_control_character_becomes_an_escape() {
        assert_eq!(
            ascii_controls("{\n  \"a\": \"\u{9b}2J\u{7f}é\u{202e}\"\n}"),
            "{\n  \"a\": \"\\u009b2J\\u007fé\\u202e\"\n}"
        );
        assert_eq!(ascii_controls("\"\u{e0041}\""), "\"\\udb40\\udc41\"");
    }
}
