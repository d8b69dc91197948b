//! The memory type of a physical range, as text.

use crate::quantity;
use crate::wrap::wrap;
use escape::terminal::plain;
use host::memory::effective::{Answer, Effective, Mapping, Reason};
use std::fmt::Write;

/// What a range is by MTRRs and owners, and what each kind of mapping of it would be.
pub fn memory_range(effective: &Effective, width: usize) -> String {
    let mut text = format!("{}, {}\n", effective.range, quantity::bytes(size(effective)));
    for part in &effective.parts {
        let _ = writeln!(text, "\n{}  {} by MTRR", part.range, part.mtrr);
        reasons(&mut text, &part.reasons, width);
    }
    text.push_str("\nWhat a mapping of the whole range would be:\n");
    for mapping in &effective.mappings {
        let _ = writeln!(text, "\n  {}: {}", mapping.call.words(), answer(mapping));
        reasons(&mut text, &mapping.reasons, width);
    }
    if !effective.doubts.is_empty() {
        text.push_str("\nNot certain:\n");
        effective.doubts.iter().for_each(|doubt| indented(&mut text, doubt, width));
    }
    text
}

fn size(effective: &Effective) -> u64 {
    u64::try_from(effective.range.size_bytes()).unwrap_or(u64::MAX)
}

fn answer(mapping: &Mapping) -> String {
    match mapping.answer {
        Answer::Absent => "this kernel has no such call".to_owned(),
        Answer::Refused => "refused".to_owned(),
        Answer::Granted { page } => {
            let kinds: Vec<String> = match mapping.parts.as_slice() {
                [one] => vec![one.kind.to_string()],
                parts => parts.iter().map(|part| format!("{} {}", part.range, part.kind)).collect(),
            };
            format!("{} (page table: {page})", kinds.join(", "))
        }
    }
}

fn reasons(text: &mut String, reasons: &[Reason], width: usize) {
    for reason in reasons {
        let words = match &reason.at {
            Some(at) => format!("{} [{at}]", reason.what),
            None => reason.what.clone(),
        };
        indented(text, &words, width);
    }
}

fn indented(text: &mut String, words: &str, width: usize) {
    const INDENT: &str = "      ";
    for line in wrap(&plain(words), width.saturating_sub(INDENT.len())) {
        let _ = writeln!(text, "{INDENT}{line}");
    }
}
