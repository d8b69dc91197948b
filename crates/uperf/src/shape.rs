//! Which profiles are one simple load: threads that do the same over and over on one connection each.
//!
//! The functions are called in this order, each with what the last one found, and refuse with the line of the first thing that is more.

use crate::{Flowop, Group, Operation, Profile, Repeat, Size, Transaction};

/// The longest message.
const MESSAGE_BYTES_MAX: u64 = 1 << 24;

/// What is not simple, and its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// The line in the file, from 1.
    pub line: u32,
    /// What is there.
    pub what: &'static str,
}

/// What threads do over and over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A write and a read of the same size.
    Exchange,
    /// A write.
    Stream,
}

/// The steps that transfer data, and their transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfers<'a> {
    /// The transaction.
    pub transaction: &'a Transaction,
    /// Its steps.
    pub flowops: Vec<&'a Flowop>,
}

/// The only group of a profile.
///
/// # Errors
/// If there is a second one.
pub fn only_group(profile: &Profile) -> Result<&Group, Refusal> {
    only(&profile.groups, |group| group.line, "a second group, with connections of its own")
}

/// The only element of a list, of which a second one is refused.
fn only<'a, Element>(
    all: &'a [Element],
    line: fn(&Element) -> u32,
    what: &'static str,
) -> Result<&'a Element, Refusal> {
    match all {
        [only] => Ok(only),
        [_, second, ..] => Err(Refusal { line: line(second), what }),
        // The reader refuses an empty list.
        [] => Err(Refusal { line: 1, what: "nothing" }),
    }
}

/// Fails with a refusal unless this holds.
///
/// # Errors
/// The refusal.
pub fn refuse_unless(holds: bool, line: u32, what: &'static str) -> Result<(), Refusal> {
    if holds { Ok(()) } else { Err(Refusal { line, what }) }
}

/// The step that opens the connection of each thread. Which side does makes no difference once it is open.
///
/// # Errors
/// If there is none, or a second one.
pub fn opening(group: &Group) -> Result<&Flowop, Refusal> {
    let opens = |flowop: &&Flowop| matches!(flowop.operation, Operation::Connect | Operation::Accept);
    let flowops = group.transactions.iter().flat_map(|transaction| &transaction.flowops);
    let all: Vec<&Flowop> = flowops.filter(opens).collect();
    refuse_unless(!all.is_empty(), group.line, "no connect and no accept")?;
    only(&all, |flowop| flowop.line, "a second connection of each thread").copied()
}

/// The steps that transfer data, again and again: those of one transaction, on the connection that `opening` opens.
///
/// # Errors
/// If there is more than that.
pub fn transfers<'a>(group: &'a Group, opening: &Flowop) -> Result<Transfers<'a>, Refusal> {
    let opens_or_closes = |flowop: &Flowop| {
        matches!(flowop.operation, Operation::Connect | Operation::Accept | Operation::Disconnect)
    };
    let is_transfer = |flowop: &&Flowop| !opens_or_closes(flowop) && flowop.operation != Operation::Nop;
    let is_busy = |transaction: &&Transaction| transaction.flowops.iter().any(|flowop| is_transfer(&flowop));
    let busy: Vec<&Transaction> = group.transactions.iter().filter(is_busy).collect();
    refuse_unless(!busy.is_empty(), group.line, "no transfer of data")?;
    let busy = only(&busy, |transaction| transaction.line, "a second transaction that transfers data")?;
    let has_rate = matches!(busy.repeat, Repeat::For { rate_per_second: Some(_), .. });
    refuse_unless(!has_rate, busy.line, "a rate")?;
    if let Some(flowop) = busy.flowops.iter().find(|flowop| opens_or_closes(flowop)) {
        return Err(Refusal { line: flowop.line, what: "a connection opened or closed between transfers" });
    }
    let flowops: Vec<&Flowop> = busy.flowops.iter().filter(is_transfer).collect();
    for flowop in flowops.iter().filter(|flowop| writes(flowop) || reads(flowop)) {
        check_options(flowop, opening)?;
    }
    Ok(Transfers { transaction: busy, flowops })
}

/// Refuses options that change what is transferred, and how.
fn check_options(flowop: &Flowop, opening: &Flowop) -> Result<(), Refusal> {
    let is_same = flowop.connection.is_none() || flowop.connection == opening.connection;
    let other_size = flowop.other_size_bytes.map(Size::Bytes);
    let checks = [
        (is_same, "another connection than the one that is opened"),
        (other_size.is_none() || other_size == flowop.size, "rsize that is not size"),
        (flowop.batch_size == 1, "batch_size, several messages in a call"),
        (!flowop.is_nonblocking, "non_blocking"),
        (flowop.duration.is_none(), "a duration of its own"),
    ];
    checks.into_iter().try_for_each(|(holds, what)| refuse_unless(holds, flowop.line, what))
}

/// The shape of the transfers, and the size of their messages.
///
/// # Errors
/// If they have another shape, or several sizes.
pub fn shape(transfers: &[&Flowop]) -> Result<(Shape, u64), Refusal> {
    let refusal = |flowop: &Flowop, what| Err(Refusal { line: flowop.line, what });
    let shape = match transfers {
        [write] if writes(write) => Shape::Stream,
        [write, read] if writes(write) && reads(read) => {
            if write.size != read.size {
                return refusal(read, "an answer of another size than the request");
            }
            if let Some(several) = [write, read].into_iter().find(|flowop| flowop.count * flowop.repeat != 1)
            {
                return refusal(several, "several messages in a row before an answer");
            }
            Shape::Exchange
        }
        [read, ..] if reads(read) => return refusal(read, "a read first: the other host begins"),
        [first, rest @ ..] => {
            let other = [first].into_iter().chain(rest).find(|flowop| !writes(flowop) && !reads(flowop));
            let what = "steps that are neither one write, nor a write and a read";
            return refusal(other.unwrap_or(first), what);
        }
        // The caller has found some.
        [] => return Err(Refusal { line: 1, what: "no transfer of data" }),
    };
    match transfers[0].size {
        Some(Size::Bytes(bytes)) if bytes > 0 && u64::from(bytes) <= MESSAGE_BYTES_MAX => {
            Ok((shape, u64::from(bytes)))
        }
        _ => refusal(transfers[0], "messages that have not one size, up to 16 MiB"),
    }
}

/// Whether an operation writes to the connection.
fn writes(flowop: &Flowop) -> bool {
    matches!(flowop.operation, Operation::Write | Operation::Send)
}

/// Whether an operation reads from the connection.
fn reads(flowop: &Flowop) -> bool {
    matches!(flowop.operation, Operation::Read | Operation::Receive)
}
