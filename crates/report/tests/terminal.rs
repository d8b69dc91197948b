//! What a terminal shows.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use report::{Length, Style};
use support::{CAPTURES, capture, crowd};
use unicode_width::UnicodeWidthStr;

const HOSTILE: &str = "<script>\u{1b}[31m\u{202e}網路";

#[test]
fn captures_at_100_columns() {
    for name in CAPTURES {
        insta::assert_snapshot!(
            name,
            report::inspection(&capture(name), 100, Style::Plain, Length::Folded, true)
        );
    }
}

#[test]
fn one_adapter() {
    let shown =
        report::adapter(&capture("ppc-noddw"), "00:03.0".parse().unwrap(), 100, Style::Plain, Length::Folded);
    insta::assert_snapshot!(shown.unwrap());
    let none =
        report::adapter(&capture("ppc-noddw"), "00:1f.0".parse().unwrap(), 100, Style::Plain, Length::Folded);
    assert_eq!(none, None);
}

#[test]
fn a_crowd_is_shown_together_and_its_findings_once() {
    insta::assert_snapshot!(report::inspection(&crowd(60, "nvme"), 80, Style::Plain, Length::Folded, true));
}

#[test]
fn no_line_exceeds_the_width() {
    let mut hosts: Vec<_> = CAPTURES.iter().map(|name| capture(name)).collect();
    hosts.extend([crowd(0, "x"), crowd(3, HOSTILE), crowd(40, HOSTILE)]);
    for host in &hosts {
        for width in 60..=200 {
            check_width(&report::inspection(host, width, Style::Plain, Length::Folded, true), width);
            for adapter in host.host.adapters.iter().take(1) {
                let shown =
                    report::adapter(host, adapter.function.address, width, Style::Plain, Length::Folded);
                check_width(&shown.unwrap(), width);
            }
        }
    }
}

fn check_width(text: &str, width: usize) {
    // Commands are pasted: they stay in one line.
    let is_command = |line: &&str| {
        let mark = line.trim_start().strip_prefix('[').and_then(|line| line.split_once("]  "));
        mark.is_some_and(|(number, _)| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    for line in text.lines().filter(|line| !is_command(line)) {
        assert!(line.width() <= width, "{} columns, asked for {width}: {line}", line.width());
    }
}

#[test]
fn colours_change_no_word() {
    for name in CAPTURES {
        let host = capture(name);
        let coloured = report::inspection(&host, 100, Style::Colour, Length::Folded, true);
        assert!(coloured.contains('\u{1b}'));
        // The table pads painted cells inside the paint: blanks at line ends may differ.
        let trimmed =
            |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n");
        let plain = trimmed(&report::inspection(&host, 100, Style::Plain, Length::Folded, true));
        assert_eq!(trimmed(&without_escapes(&coloured)), plain, "{name}");
    }
}

fn without_escapes(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |shown, part| shown + part.split_once('m').unwrap().1)
}

#[test]
fn nothing_of_the_host_steers_the_terminal() {
    let host = crowd(3, HOSTILE);
    let shown = report::inspection(&host, 100, Style::Plain, Length::Folded, true)
        + &report::adapter(&host, host.host.adapters[0].function.address, 100, Style::Plain, Length::Folded)
            .unwrap();
    let steers = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
    assert!(shown.contains("script") && !shown.contains(steers), "{shown}");
}
