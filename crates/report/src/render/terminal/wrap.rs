//! Paragraphs broken into lines of a display width.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The least width of lines, whatever was asked for: narrower ones can't be read.
const WIDTH_MIN: usize = 8;

/// Breaks a text into lines of at most `width` columns. A word that is longer than a line is broken, if possible after a
/// character that separates parts of paths and options.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(WIDTH_MIN);
    let mut lines = Vec::new();
    let mut line = String::new();
    // A number stays with its percent sign: `21 %` is one word.
    let text = text.replace(" %", "\u{a0}%");
    for word in text.split([' ', '\t', '\n']).filter(|word| !word.is_empty()) {
        let mut rest = word;
        let gap = usize::from(!line.is_empty());
        if line.width() + gap + rest.width() > width && !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        while rest.width() > width {
            let (head, tail) = rest.split_at(break_at(rest, width));
            lines.push(head.to_owned());
            rest = tail;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(rest);
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines.into_iter().map(|line| line.replace('\u{a0}', " ")).collect()
}

/// The byte index at which a word that is too long is broken.
fn break_at(word: &str, width: usize) -> usize {
    let (mut used, mut last_fit, mut last_good) = (0, 0, None);
    for (at, c) in word.char_indices() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        last_fit = at + c.len_utf8();
        if matches!(c, '/' | ',' | ';' | '-' | '=' | '_') && used * 2 > width {
            last_good = Some(last_fit);
        }
    }
    // A character wider than the line still has to go somewhere.
    let first = word.chars().next().map_or(0, char::len_utf8);
    last_good.unwrap_or(last_fit).max(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_whole_where_they_can() {
        assert_eq!(wrap("one two three four", 9), ["one two", "three", "four"]);
        assert_eq!(wrap("", 20), [""]);
        assert_eq!(wrap("a  b", 20), ["a b"]);
    }

    #[test]
    fn long_words_break_where_a_path_can() {
        let lines = wrap("echo > /sys/kernel/iommu_groups/12/type", 20);
        assert_eq!(lines, ["echo >", "/sys/kernel/iommu_", "groups/12/type"]);
        assert!(wrap(&"x".repeat(100), 30).iter().all(|line| line.width() <= 30));
    }

    #[test]
    fn wide_characters_count_double() {
        assert!(wrap(&"網".repeat(40), 21).iter().all(|line| line.width() <= 21));
    }
}
