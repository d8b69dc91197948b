//! Text of a host, made safe to print.

/// Takes out what could steer a terminal or turn the direction of writing: a device name or a log line
/// is whatever its maker put there. Blanks of all kinds become spaces.
pub(crate) fn plain(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\t' | '\n' | '\r' => ' ',
            c if c.is_control() || is_invisible(c) => char::REPLACEMENT_CHARACTER,
            c => c,
        })
        .collect()
}

/// Zero-width characters, directional marks, overrides and isolates.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(plain("eth0\x1b[2J\x07"), "eth0\u{fffd}[2J\u{fffd}");
        assert_eq!(plain("a\tb\nc"), "a b c");
        assert_eq!(plain("safe\u{202e}gpj.exe"), "safe\u{fffd}gpj.exe");
        assert_eq!(plain("Größe µs 網路"), "Größe µs 網路");
    }
}
