//! Traces of message passing in plain text: what processes do, in order.
//!
//! ```text
//! iotoll-trace 1          # the form's version
//! processes 4
//! rounds 10               # how often all of it is repeated and measured; 1 where it is not said
//! 0 compute 1500.5        # a process, and nanoseconds
//! 0 send 2 4096           # to whom, and bytes; goes on once its memory is its own again
//! 2 receive 0             # waits for the next message of 0
//! 1 begin-send 3 64       # goes on at once
//! 3 begin-receive 1
//! 1 wait                  # for all that it began
//! 3 wait
//! ```
//!
//! Words are apart by blanks, `#` begins a comment, empty lines say nothing. Lines of a process are in its order; lines of different
//! processes may come in any.

use super::mpi::{Op, Program, ProgramError};
use des::Span;

/// More processes than this are a mistake.
pub const PROCESSES_MAX: u16 = 256;
/// Operations of all rounds together, at most.
pub const OPERATIONS_MAX: u64 = 20_000_000;
const ROUNDS_MAX: u32 = 100_000;
const BYTES_MAX: u64 = 1 << 30;
/// A quarter of an hour.
const COMPUTE_NS_MAX: f64 = 1e12;

/// What is wrong with a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct TraceError {
    /// The file.
    pub file: String,
    /// Counted from 1; behind the last for what is missing.
    pub line: u64,
    /// What is wrong, and what was expected.
    pub what: String,
}

/// What a trace says.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// The file.
    pub file: String,
    /// What its processes do.
    pub program: Program,
    /// The lines that say so, by process and operation.
    lines: Vec<Vec<u64>>,
}

impl Trace {
    /// Reads a trace; `file` is its name, for errors.
    ///
    /// # Errors
    /// [`TraceError`]
    pub fn read(text: &str, file: &str) -> Result<Self, TraceError> {
        let mut reader = Reader::default();
        let mut number = 0;
        let error = |line, what| TraceError { file: file.to_owned(), line, what };
        for line in text.lines() {
            number += 1;
            let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
            if !words.is_empty() {
                reader.read_line(number, &words).map_err(|what| error(number, what))?;
            }
        }
        let (program, lines) = reader.finish().map_err(|what| error(number + 1, what))?;
        Ok(Self { file: file.to_owned(), program, lines })
    }

    /// Where it says what a run failed at, as far as that is one of its lines.
    pub(super) fn place(&self, error: &ProgramError) -> Option<TraceError> {
        let (process, operation) = error.operation()?;
        let line =
            *self.lines.get(usize::from(process))?.get(usize::try_from(operation).ok()?.checked_sub(1)?)?;
        Some(TraceError { file: self.file.clone(), line, what: error.to_string() })
    }
}

#[derive(Debug, Default)]
struct Reader {
    has_version: bool,
    ops: Option<Vec<Vec<Op>>>,
    lines: Vec<Vec<u64>>,
    rounds: Option<u32>,
    operations: u64,
}

impl Reader {
    /// Reads a line of the trace.
    fn read_line(&mut self, number: u64, words: &[&str]) -> Result<(), String> {
        if !self.has_version {
            self.has_version = words == ["iotoll-trace", "1"];
            return if self.has_version { Ok(()) } else { Err(invalid_field(words, "iotoll-trace 1")) };
        }
        let Some(ops) = &mut self.ops else {
            let ["processes", processes] = words else {
                return Err(invalid_field(words, "processes NUMBER"));
            };
            let processes = parse_whole(processes, 1, PROCESSES_MAX.into())? as usize;
            (self.ops, self.lines) = (Some(vec![Vec::new(); processes]), vec![Vec::new(); processes]);
            return Ok(());
        };
        if let ["rounds", rounds] = words {
            if self.rounds.is_some() || self.operations > 0 {
                return Err("rounds comes once, and before what processes do".to_owned());
            }
            self.rounds = Some(parse_whole(rounds, 1, ROUNDS_MAX.into())? as u32);
            return Ok(());
        }
        let last = ops.len() as u64 - 1;
        let (process, op) = parse_op(words, last)?;
        self.operations += 1;
        let all = self.operations * u64::from(self.rounds.unwrap_or(1));
        if all > OPERATIONS_MAX {
            return Err(format!("more than {OPERATIONS_MAX} operations in all rounds"));
        }
        ops[usize::from(process)].push(op);
        self.lines[usize::from(process)].push(number);
        Ok(())
    }

    /// The program, with the line of each operation; an error if anything is missing.
    fn finish(self) -> Result<(Program, Vec<Vec<u64>>), String> {
        match self.ops {
            Some(ops) if self.operations > 0 => {
                Ok((Program { ops, rounds: self.rounds.unwrap_or(1) }, self.lines))
            }
            Some(_) => Err("no process does anything".to_owned()),
            None if self.has_version => Err("expected processes NUMBER".to_owned()),
            None => Err("expected iotoll-trace 1".to_owned()),
        }
    }
}

/// Parses a line of the program: a process and its operation.
fn parse_op(words: &[&str], last: u64) -> Result<(u16, Op), String> {
    let [process, verb, arguments @ ..] = words else {
        return Err(invalid_field(words, "a process and what it does"));
    };
    let process = parse_whole(process, 0, last)? as u16;
    let other = |word: &str| match parse_whole(word, 0, last)? as u16 {
        other if other == process => Err(format!(
            "process {process} sends to itself or receives from itself; expected another process"
        )),
        other => Ok(other),
    };
    let op = match (*verb, arguments) {
        ("compute", [ns]) => Op::Compute(parse_ns(ns)?),
        ("send", [to, bytes]) => Op::Send { to: other(to)?, bytes: parse_whole(bytes, 0, BYTES_MAX)? },
        ("receive", [from]) => Op::Receive { from: other(from)? },
        ("begin-send", [to, bytes]) => {
            Op::BeginSend { to: other(to)?, bytes: parse_whole(bytes, 0, BYTES_MAX)? }
        }
        ("begin-receive", [from]) => Op::BeginReceive { from: other(from)? },
        ("wait", []) => Op::WaitAll,
        _ => {
            let known =
                "compute NS, send TO BYTES, receive FROM, begin-send TO BYTES, begin-receive FROM, or wait";
            return Err(invalid_field(&words[1..], known));
        }
    };
    Ok((process, op))
}

fn invalid_field(words: &[&str], expected: &str) -> String {
    let said: String = words.join(" ").chars().take(80).collect();
    format!("{said:?}; expected {expected}")
}

/// Parses a whole number from `low` to `high`.
fn parse_whole(word: &str, low: u64, high: u64) -> Result<u64, String> {
    let number = word.parse().ok().filter(|number| (low..=high).contains(number));
    number.ok_or_else(|| invalid_field(&[word], &format!("a whole number from {low} to {high}")))
}

/// Parses a time in nanoseconds.
fn parse_ns(word: &str) -> Result<Span, String> {
    let ns: Option<f64> = word.parse().ok().filter(|ns| (0.0..=COMPUTE_NS_MAX).contains(ns));
    let ns = ns.ok_or_else(|| invalid_field(&[word], "nanoseconds from 0 to 1e12"))?;
    Ok(Span::from_ps_f64(ns * 1e3))
}

/// A program in this form.
pub fn write(program: &Program) -> String {
    let mut text = format!("iotoll-trace 1\nprocesses {}\nrounds {}\n", program.ops.len(), program.rounds);
    for (process, ops) in program.ops.iter().enumerate() {
        for op in ops {
            let words = match op {
                Op::Compute(span) => format!("compute {}", span.as_ns_f64()),
                Op::Send { to, bytes } => format!("send {to} {bytes}"),
                Op::Receive { from } => format!("receive {from}"),
                Op::BeginSend { to, bytes } => format!("begin-send {to} {bytes}"),
                Op::BeginReceive { from } => format!("begin-receive {from}"),
                Op::WaitAll => "wait".to_owned(),
            };
            text.push_str(&format!("{process} {words}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str, file: &str) -> Result<Program, TraceError> {
        Trace::read(text, file).map(|trace| trace.program)
    }

    const HEAD: &str = "iotoll-trace 1\nprocesses 3\n";

    #[test]
    fn describes_the_processes() {
        let text = "# a trace\n\niotoll-trace 1\nprocesses 2 # of them\nrounds 4\n1 receive 0\n0 compute 1.5\n 0\tsend 1 64\n1 wait";
        let program = read(text, "t").unwrap();
        assert_eq!(program.rounds, 4);
        assert_eq!(
            program.ops,
            [
                vec![Op::Compute(Span::from_ps(1500)), Op::Send { to: 1, bytes: 64 }],
                vec![Op::Receive { from: 0 }, Op::WaitAll]
            ]
        );
    }

    #[test]
    fn invalid_traces_are_errors_with_their_line() {
        let check = |text: &str, expected: &str| {
            let error = read(text, "t.trace").unwrap_err().to_string();
            assert_eq!(error, format!("t.trace:{expected}"));
        };
        check("", "1: expected iotoll-trace 1");
        check("iotoll-trace 2", r#"1: "iotoll-trace 2"; expected iotoll-trace 1"#);
        check("iotoll-trace 1\n", "2: expected processes NUMBER");
        check("iotoll-trace 1\nprocesses 0", r#"2: "0"; expected a whole number from 1 to 256"#);
        check(HEAD, "3: no process does anything");
        let line = |line: &str, expected: &str| check(&format!("{HEAD}{line}"), &format!("3: {expected}"));
        line("3 wait", r#""3"; expected a whole number from 0 to 2"#);
        line("0 send 0 8", "process 0 sends to itself or receives from itself; expected another process");
        line("0 send 1 -1", r#""-1"; expected a whole number from 0 to 1073741824"#);
        line("0 compute nan", r#""nan"; expected nanoseconds from 0 to 1e12"#);
        line(
            "0 sleep 5",
            r#""sleep 5"; expected compute NS, send TO BYTES, receive FROM, begin-send TO BYTES, begin-receive FROM, or wait"#,
        );
        check(&format!("{HEAD}0 wait\nrounds 2"), "4: rounds comes once, and before what processes do");
    }

    proptest! {
        /// No text is taken for another, and none brings it down.
        #[test]
        fn any_text_is_read_or_refused(text in "[ -~\n]{0,200}", head in any::<bool>()) {
            let text = if head { format!("{HEAD}{text}") } else { text };
            let lines = text.lines().count() as u64;
            match read(&text, "t") {
                Ok(program) => prop_assert_eq!(read(&write(&program), "t").unwrap(), program),
                Err(error) => prop_assert!((1..=lines + 1).contains(&error.line)),
            }
        }

        /// What was written is read.
        #[test]
        fn written_values_are_read_back(
            lines in prop::collection::vec((0_u16..4, 1_u16..4, 0_u64..1 << 30, 0_u8..6), 1..60),
            rounds in 1_u32..9,
        ) {
            let mut ops = vec![Vec::new(); 4];
            for (process, far, number, kind) in lines {
                let other = (process + far) % 4;
                ops[usize::from(process)].push(match kind {
                    0 => Op::Compute(Span::from_ps(number)),
                    1 => Op::Send { to: other, bytes: number },
                    2 => Op::Receive { from: other },
                    3 => Op::BeginSend { to: other, bytes: number },
                    4 => Op::BeginReceive { from: other },
                    _ => Op::WaitAll,
                });
            }
            let program = Program { ops, rounds };
            prop_assert_eq!(read(&write(&program), "t").unwrap(), program);
        }
    }
}
