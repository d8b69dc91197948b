//! Traces of message passing.

use model::infiniband::mpi::Program;
use model::infiniband::trace::{Trace, write};

/// A trace: refused with its file and a line of it, or read again from how it is written.
pub fn trace(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Trace::read(&text, "mine.trace") {
        Ok(trace) => {
            // As far as times are told to the picosecond.
            let again = Trace::read(&write(&trace.program), "mine.trace").map(|trace| trace.program);
            let count = |program: &Program| program.ops.iter().map(Vec::len).sum::<usize>();
            assert_eq!(again.as_ref().map(count), Ok(count(&trace.program)));
        }
        Err(error) => {
            assert!(error.line >= 1 && error.line as usize <= text.lines().count() + 1, "{error}");
            assert!(error.to_string().starts_with(&format!("mine.trace:{}: ", error.line)), "{error}");
        }
    }
}
