//! A text in place of a capture: the kernel log or the output of lspci that somebody saved or pasted.

use super::memory::Memory;
use crate::Text;
use crate::kernel::{Log, message};
use crate::pci::lspci;

/// Where a text of each kind lies in a capture.
const LOG: &str = "var/log/dmesg";
const LISTING: &str = "lspci";

/// Lines looked at to tell what a text is.
const LINES_MAX: usize = 100_000;

/// A host of which there is this text and nothing else; `None` if no line of it is of a kernel log or of lspci.
pub(super) fn host(bytes: Vec<u8>) -> Option<Memory> {
    let file = path_for_text(&String::from_utf8_lossy(&bytes))?;
    let mut memory = Memory::default();
    memory.file(file, bytes);
    Some(memory)
}

/// The path of the host under which a pasted text belongs: the kernel log's or lspci's. `None` if it is neither.
fn path_for_text(text: &str) -> Option<&'static str> {
    let start: String = text.split_inclusive('\n').take(LINES_MAX).collect();
    let text = Text::new(LOG, start);
    let is_listing = || lspci::first_lines(text.body()).next().is_some();
    // A log may quote lspci, a listing quotes no log.
    if has_log_prefix(&text) {
        Some(LOG)
    } else if is_listing() {
        Some(LISTING)
    } else {
        is_bare_log(&text).then_some(LOG)
    }
}

/// Whether any line begins as lines of a log do: with a time, a level, or `HOST kernel:`.
fn has_log_prefix(text: &Text) -> bool {
    let log = Log::parse(text);
    let mut records = log.records().peekable();
    text.lines().any(|(number, line)| {
        let record = records.next_if(|record| record.line == number);
        record.is_some_and(|record| record.message.len() < line.trim_end().len())
    })
}

/// Whether there is a message that is understood; `dmesg -t` and people leave times out.
fn is_bare_log(text: &Text) -> bool {
    let log = Log::parse(text);
    log.records().any(|record| {
        message::read(record.message).is_some()
            || record.message.starts_with("Linux version ")
            || record.message.starts_with("Command line: ")
            || record.message.starts_with("Kernel command line: ")
    })
}
