//! The kernel's messages in a journal, which has those of programs between them.

use crate::Text;
use crate::kernel::Log;
use std::sync::Arc;

/// The kernel's lines of a journal; `None` if it has none. They keep their numbers.
pub(super) fn kernel_lines(journal: &Text) -> Option<Text> {
    let lines = journal.lines().filter(|(_, line)| Log::host_of(line).is_some());
    let (mut numbers, mut body) = (Vec::new(), String::new());
    for (number, line) in lines {
        numbers.push(number);
        body.push_str(line);
        body.push('\n');
    }
    let file = Arc::from(journal.file());
    (!numbers.is_empty()).then(|| Text::cut_out(file, body, Arc::from(numbers)))
}
