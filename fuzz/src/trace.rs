//! Traces of message passing.

use model::infiniband::trace::{read, write};

/// A trace: refused with its file and a line of it, or read again from how it is written.
pub fn trace(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match read(&text, "mine.trace") {
        Ok(program) => {
            // As far as times are told to the picosecond.
            let again = read(&write(&program), "mine.trace");
            let count = |program: &model::infiniband::mpi::Program| program.ops.iter().map(Vec::len).sum::<usize>();
            assert_eq!(again.as_ref().map(count), Ok(count(&program)));
        }
        Err(error) => {
            assert!(error.line >= 1 && error.line as usize <= text.lines().count() + 1, "{error}");
            assert!(error.to_string().starts_with("mine.trace, line "), "{error}");
        }
    }
}
