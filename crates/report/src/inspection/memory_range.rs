//! The page of a physical address range: its memory type, and the type that each kind of mapping would have.

use crate::page::Page;
use crate::page::quantity;
use escape::terminal::plain;
use host::memory::effective::{Answer, Effective, Mapping, Reason};

/// Columns before reasons.
const INDENT: usize = 6;

/// The type of a range by MTRRs and owners, and the type that each kind of mapping of it would have.
pub fn memory_range(effective: &Effective) -> Page {
    let mut page = Page::default();
    let bytes = u64::try_from(effective.range.size_bytes()).unwrap_or(u64::MAX);
    page.line(format!("{}, {}", effective.range, quantity::bytes(bytes)));
    for part in &effective.parts {
        page.blank();
        page.line(format!("{}  {} by MTRR", part.range, part.mtrr));
        add_reasons(&mut page, &part.reasons);
    }
    page.blank();
    page.line("What a mapping of the whole range would be:");
    for mapping in &effective.mappings {
        page.blank();
        page.line(format!("  {}: {}", mapping.call.words(), answer(mapping)));
        add_reasons(&mut page, &mapping.reasons);
    }
    if !effective.doubts.is_empty() {
        page.blank();
        page.line("Not certain:");
        effective.doubts.iter().for_each(|doubt| page.prose(doubt, INDENT));
    }
    page
}

/// The memory type of a mapping with its page table attributes, or why there is no mapping.
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

/// Adds reasons, each with the line that it was read from.
fn add_reasons(page: &mut Page, reasons: &[Reason]) {
    for reason in reasons {
        let words = match &reason.at {
            Some(at) => format!("{} [{at}]", reason.what),
            None => reason.what.clone(),
        };
        page.prose(plain(&words), INDENT);
    }
}
