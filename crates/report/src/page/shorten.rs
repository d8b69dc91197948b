//! Texts cut to a display width, and sentences with a capital letter.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Shortens a text to `width` columns, showing that it was.
pub(crate) fn shorten(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used + 1 > width {
            break;
        }
        short.push(c);
    }
    short.truncate(short.trim_end().len());
    short.push('…');
    short
}

/// The sentence with a capital first letter.
pub(crate) fn capitalised(sentence: &str) -> String {
    let mut chars = sentence.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_text_ends_with_an_ellipsis() {
        assert_eq!(shorten("網路介面卡", 6), "網路…");
        assert_eq!(shorten("ConnectX-6 Dx", 10), "ConnectX-…");
        assert_eq!(shorten("nvme0", 10), "nvme0");
    }
}
