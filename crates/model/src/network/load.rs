//! Translates a profile of uperf into a load.

use super::flow::{Pattern, Protocol, Work};
use crate::uperf::{self, Flowop, Group, Operation, Profile, Repeat, Size, Strands, Transaction};
use std::fmt;

/// The load: what each instance does, and how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// What each instance does.
    pub work: Work,
    /// Number of instances.
    pub instances: u32,
}

/// Parameters of a connection that uperf does not specify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// Window, if the profile names none.
    pub window_bytes: u64,
    /// Largest segment that the adapter splits into frames (TSO).
    pub segment_bytes_max: u64,
}

/// A property of a profile that is not modelled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}; two hosts are modelled with {MODELLED}")]
pub struct NotModelled {
    /// File of the profile.
    file: String,
    /// Line of the property, from 1.
    line: u32,
    /// The property.
    what: &'static str,
}

/// Limits of any experiment.
pub(super) const INSTANCES_MAX: u32 = 4096;
pub(super) const MESSAGE_BYTES_MAX: u64 = 1 << 24;
/// Most bytes of a UDP datagram, without its 28 bytes of headers.
pub(super) const DATAGRAM_BYTES_MAX: u64 = 65_507;

const MODELLED: &str = "one group, whose threads have one connection each and write and read messages of one size over \
                        UDP or TCP, or write alone over TCP";

/// What is not modelled, and its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Refusal {
    line: u32,
    what: &'static str,
}

impl Load {
    /// Translates a profile. Its duration is ignored: virtual time runs until the rates are known.
    ///
    /// # Errors
    /// [`NotModelled`]
    pub fn of(profile: &Profile, connection: Connection) -> Result<Self, NotModelled> {
        let refused = |Refusal { line, what }| NotModelled { file: profile.file.clone(), line, what };
        load_of(profile, connection).map_err(refused)
    }
}

/// `TCP streams, writes of 65536 bytes, 8 instances`
impl fmt::Display for Load {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Work { pattern, protocol, message_bytes, .. } = self.work;
        let protocol = match protocol {
            Protocol::Udp => "UDP",
            Protocol::Tcp { .. } => "TCP",
        };
        let pattern = match pattern {
            Pattern::Exchange => "requests and responses",
            Pattern::Stream { .. } => "streams, writes",
        };
        let instances = if self.instances == 1 { "instance" } else { "instances" };
        write!(formatter, "{protocol} {pattern} of {message_bytes} bytes, {} {instances}", self.instances)
    }
}

/// The load that a profile describes, or why none is modelled.
fn load_of(profile: &Profile, connection: Connection) -> Result<Load, Refusal> {
    let group = only(&profile.groups, |group| group.line, "a second group, with connections of its own")?;
    let (Strands::Threads(instances) | Strands::Processes(instances)) = group.strands;
    refuse_unless((1..=INSTANCES_MAX).contains(&instances), group.line, "not 1 to 4,096 threads")?;
    let opening = opening(group)?;
    let transfers = transfers(group, opening)?;
    let protocol = match opening.protocol {
        Some(uperf::Protocol::Udp) => Protocol::Udp,
        Some(uperf::Protocol::Tcp) | None => {
            Protocol::Tcp { segment_bytes_max: connection.segment_bytes_max }
        }
        Some(_) => {
            return Err(Refusal { line: opening.line, what: "a protocol that is neither TCP nor UDP" });
        }
    };
    let window_bytes = opening.window_bytes.map_or(connection.window_bytes, u64::from);
    let (pattern, message_bytes) = pattern(&transfers, window_bytes)?;
    let line = transfers.first().map_or(group.line, |flowop| flowop.line);
    let is_bounded = protocol != Protocol::Udp || pattern == Pattern::Exchange;
    refuse_unless(is_bounded, line, "writes over UDP that wait for no answer, so nothing limits their rate")?;
    let is_datagram = protocol != Protocol::Udp || message_bytes <= DATAGRAM_BYTES_MAX;
    refuse_unless(is_datagram, line, "messages longer than a datagram, 65,507 bytes")?;
    let is_in_window =
        pattern != Pattern::Exchange || opening.window_bytes.is_none() || message_bytes <= window_bytes;
    refuse_unless(is_in_window, opening.line, "a socket's buffer shorter than a message")?;
    let work = Work { pattern, protocol, message_bytes, is_nodelay: opening.is_nodelay };
    Ok(Load { work, instances })
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

fn refuse_unless(holds: bool, line: u32, what: &'static str) -> Result<(), Refusal> {
    if holds { Ok(()) } else { Err(Refusal { line, what }) }
}

/// The step that opens the connection of each thread. Which side does makes no difference once it is open.
fn opening(group: &Group) -> Result<&Flowop, Refusal> {
    let opens = |flowop: &&Flowop| matches!(flowop.operation, Operation::Connect | Operation::Accept);
    let flowops = group.transactions.iter().flat_map(|transaction| &transaction.flowops);
    let all: Vec<&Flowop> = flowops.filter(opens).collect();
    refuse_unless(!all.is_empty(), group.line, "no connect and no accept")?;
    only(&all, |flowop| flowop.line, "a second connection of each thread").copied()
}

/// The steps that transfer data, again and again: those of one transaction, on the connection that `opening` opens.
fn transfers<'a>(group: &'a Group, opening: &Flowop) -> Result<Vec<&'a Flowop>, Refusal> {
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
    let transfers: Vec<&Flowop> = busy.flowops.iter().filter(is_transfer).collect();
    for flowop in transfers.iter().filter(|flowop| writes(flowop) || reads(flowop)) {
        check_options(flowop, opening)?;
    }
    Ok(transfers)
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

/// The pattern of the transfers, and the size of their messages.
fn pattern(transfers: &[&Flowop], window_bytes: u64) -> Result<(Pattern, u64), Refusal> {
    let refusal = |flowop: &Flowop, what| Err(Refusal { line: flowop.line, what });
    let pattern = match transfers {
        [write] if writes(write) => Pattern::Stream { window_bytes },
        [write, read] if writes(write) && reads(read) => {
            if write.size != read.size {
                return refusal(read, "an answer of another size than the request");
            }
            if let Some(several) = [write, read].into_iter().find(|flowop| flowop.count * flowop.repeat != 1)
            {
                return refusal(several, "several messages in a row before an answer");
            }
            Pattern::Exchange
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
            Ok((pattern, u64::from(bytes)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uperf::Variables;

    const CONNECTION: Connection = Connection { window_bytes: 1 << 20, segment_bytes_max: 64 << 10 };

    fn load(body: &str) -> Result<Load, String> {
        let text = format!("<profile name=\"p\">{body}</profile>");
        let profile = Profile::read(&text, "p.xml", &Variables::default()).unwrap();
        Load::of(&profile, CONNECTION).map_err(|error| error.to_string())
    }

    /// Line 1: the profile and its group. 2: the connection. 3: the transfers. 4: the end.
    fn group(connect: &str, flowops: &str) -> String {
        format!(
            "<group nthreads=\"4\">\n<transaction><flowop type=\"connect\" options=\"remotehost=h {connect}\"/></transaction>\n\
             <transaction duration=\"9s\">{flowops}</transaction>\n\
             <transaction><flowop type=\"disconnect\"/></transaction></group>"
        )
    }

    const WRITE: &str = "<flowop type=\"write\" options=\"size=32k\"/>";
    const READ: &str = "<flowop type=\"read\" options=\"size=32k\"/>";

    #[test]
    fn exchanges_and_streams() {
        let tcp = Protocol::Tcp { segment_bytes_max: 64 << 10 };
        let expected = |pattern, protocol| {
            let work = Work { pattern, protocol, message_bytes: 32 << 10, is_nodelay: false };
            Ok(Load { work, instances: 4 })
        };
        let both = format!("{WRITE}{READ}");
        assert_eq!(load(&group("protocol=udp", &both)), expected(Pattern::Exchange, Protocol::Udp));
        assert_eq!(load(&group("protocol=tcp", &both)), expected(Pattern::Exchange, tcp));
        let accepted = group("protocol=tcp", &both).replace("\"connect\"", "\"accept\"");
        assert_eq!(load(&accepted), expected(Pattern::Exchange, tcp));
        let stream = |window_bytes| Pattern::Stream { window_bytes };
        assert_eq!(load(&group("protocol=tcp", WRITE)), expected(stream(1 << 20), tcp));
        assert_eq!(load(&group("protocol=tcp wndsz=128k", WRITE)), expected(stream(128 << 10), tcp));
        assert!(load(&group("protocol=tcp tcp_nodelay", WRITE)).unwrap().work.is_nodelay);
    }

    #[test]
    fn what_is_not_modelled_is_refused_with_its_line() {
        let check = |body: &str, line: u32, words: &str| {
            let told = load(body).unwrap_err();
            assert!(told.starts_with(&format!("p.xml:{line}: {words}")), "{told}");
        };
        let one = group("protocol=tcp", WRITE);
        check(&format!("{one}\n{one}"), 5, "a second group, with connections of its own");
        check(&group("protocol=udp", WRITE), 3, "writes over UDP that wait for no answer, so nothing limits");
        check(&group("protocol=sctp", WRITE), 2, "a protocol that is neither TCP nor UDP");
        check(&group("protocol=tcp", READ), 3, "a read first: the other host begins");
        let both = format!("{WRITE}{READ}");
        check(&group("protocol=udp", &both.replace("32k", "65508")), 3, "messages longer than a datagram");
        let random = "<flowop type=\"write\" options=\"size=rand(1,9)\"/>";
        check(&group("protocol=tcp", random), 3, "messages that have not one size");
        let three = "<flowop type=\"write\" options=\"size=32k count=3\"/>";
        check(&group("protocol=tcp", &format!("{three}{READ}")), 3, "several messages in a row");
        check(&group("protocol=tcp", &both.replacen("32k", "1k", 1)), 3, "an answer of another size");
        check(&group("protocol=tcp wndsz=16k", &both), 2, "a socket's buffer shorter than a message");
        let think = "<flowop type=\"think\" options=\"duration=1s\"/>";
        check(&group("protocol=tcp", &format!("{both}\n{think}")), 4, "steps that are neither");
    }

    /// uperf's own two-hosts: two connections of each thread, one to write on and one to read from.
    #[test]
    fn several_connections_are_not_taken_for_one() {
        let told = |body: &str| load(body).unwrap_err();
        let both = format!("{WRITE}{READ}");
        let second =
            "\n<flowop type=\"connect\" options=\"conn=1 remotehost=h protocol=udp\"/></transaction>";
        let two = group("protocol=tcp", &both).replacen("</transaction>", second, 1);
        assert!(told(&two).starts_with("p.xml:3: a second connection of each thread"), "{}", told(&two));
        let other = group("protocol=tcp conn=1", &both.replace("size", "conn=2 size"));
        assert!(told(&other).starts_with("p.xml:3: another connection than the one"), "{}", told(&other));
        let again = group("protocol=tcp", &format!("{both}<flowop type=\"disconnect\"/>"));
        assert!(
            told(&again).starts_with("p.xml:3: a connection opened or closed between"),
            "{}",
            told(&again)
        );
        let later = format!("</transaction>\n<transaction>{READ}");
        let split = group("protocol=tcp", &format!("{WRITE}{later}"));
        assert!(told(&split).starts_with("p.xml:4: a second transaction that transfers"), "{}", told(&split));
        let slow = group("protocol=tcp", &both).replace("\"9s\"", "\"9s\" rate=\"100\"");
        assert!(told(&slow).starts_with("p.xml:3: a rate"), "{}", told(&slow));
        for option in ["rsize=1k", "batch_size=2", "non_blocking", "duration=1s"] {
            let told =
                told(&group("protocol=tcp", &WRITE.replace("size=32k", &format!("size=32k {option}"))));
            assert!(told.starts_with("p.xml:3: "), "{told}");
        }
    }
}
