//! Translates a profile of uperf into a load.

use super::flow::{Pattern, Protocol, Work};
use crate::uperf::{self, Flowop, Operation, Profile, Size, Strands};

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
#[error("profile {profile}: {what}; two hosts are modelled with {MODELLED}")]
pub struct NotModelled {
    /// Name of the profile.
    profile: String,
    /// The property.
    what: &'static str,
}

/// Limits of any experiment.
pub(super) const INSTANCES_MAX: u32 = 4096;
pub(super) const MESSAGE_BYTES_MAX: u64 = 1 << 24;
/// Most bytes of a UDP datagram, without its 28 bytes of headers.
pub(super) const DATAGRAM_BYTES_MAX: u64 = 65_507;

const MODELLED: &str =
    "one group, whose threads write and read messages of one size over UDP or TCP, or write alone over TCP";

impl Load {
    /// Translates a profile. Its duration is ignored: virtual time runs until the rates are known.
    ///
    /// # Errors
    /// [`NotModelled`]
    pub fn of(profile: &Profile, connection: Connection) -> Result<Self, NotModelled> {
        load_of(profile, connection).map_err(|what| NotModelled { profile: profile.name.clone(), what })
    }
}

/// The load that a profile describes, or why none is modelled.
fn load_of(profile: &Profile, connection: Connection) -> Result<Load, &'static str> {
    let [group] = &profile.groups[..] else { return Err("it must have one group") };
    let (Strands::Threads(instances) | Strands::Processes(instances)) = group.strands;
    let flowops = || group.transactions.iter().flat_map(|transaction| &transaction.flowops);
    let opened =
        flowops().find(|flowop| flowop.operation == Operation::Connect).ok_or("it has no connect")?;
    let protocol = match opened.protocol {
        Some(uperf::Protocol::Udp) => Protocol::Udp,
        Some(uperf::Protocol::Tcp) | None => {
            Protocol::Tcp { segment_bytes_max: connection.segment_bytes_max }
        }
        Some(_) => return Err("its protocol is neither TCP nor UDP"),
    };
    let is_opening = |flowop: &&Flowop| {
        matches!(
            flowop.operation,
            Operation::Connect | Operation::Accept | Operation::Disconnect | Operation::Nop
        )
    };
    let busy: Vec<&Flowop> = flowops().filter(|flowop| !is_opening(flowop)).collect();
    let pattern = match &busy[..] {
        [write] if writes(write) => {
            let window_bytes = opened.window_bytes.map_or(connection.window_bytes, u64::from);
            Pattern::Stream { window_bytes }
        }
        [write, read] if writes(write) && reads(read) && write.size == read.size => {
            if [write, read].iter().any(|flowop| flowop.count * flowop.repeat != 1) {
                return Err("it writes or reads several messages in a row");
            }
            Pattern::Exchange
        }
        _ => return Err("its transactions are neither a write, nor a write and a read of the same size"),
    };
    if protocol == Protocol::Udp && pattern != Pattern::Exchange {
        return Err("it writes over UDP without waiting for an answer, so nothing limits its rate");
    }
    if !(1..=INSTANCES_MAX).contains(&instances) {
        return Err("it must have 1 to 4,096 threads");
    }
    let message_bytes = match busy[0].size {
        Some(Size::Bytes(bytes)) if bytes > 0 && u64::from(bytes) <= MESSAGE_BYTES_MAX => u64::from(bytes),
        _ => return Err("its messages must have one size, up to 16 MiB"),
    };
    if protocol == Protocol::Udp && message_bytes > DATAGRAM_BYTES_MAX {
        return Err("its messages are longer than a datagram, 65,507 bytes");
    }
    Ok(Load { work: Work { pattern, protocol, message_bytes }, instances })
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

    fn group(connect: &str, flowops: &str) -> String {
        format!(
            "<group nthreads=\"4\"><transaction><flowop type=\"connect\" options=\"remotehost=h {connect}\"/></transaction>\
             <transaction duration=\"9s\">{flowops}</transaction></group>"
        )
    }

    const WRITE: &str = "<flowop type=\"write\" options=\"size=32k\"/>";
    const READ: &str = "<flowop type=\"read\" options=\"size=32k\"/>";

    #[test]
    fn exchanges_and_streams() {
        let tcp = Protocol::Tcp { segment_bytes_max: 64 << 10 };
        let expected = |pattern, protocol| {
            Ok(Load { work: Work { pattern, protocol, message_bytes: 32 << 10 }, instances: 4 })
        };
        let both = format!("{WRITE}{READ}");
        assert_eq!(load(&group("protocol=udp", &both)), expected(Pattern::Exchange, Protocol::Udp));
        assert_eq!(load(&group("protocol=tcp", &both)), expected(Pattern::Exchange, tcp));
        let stream = |window_bytes| Pattern::Stream { window_bytes };
        assert_eq!(load(&group("protocol=tcp", WRITE)), expected(stream(1 << 20), tcp));
        assert_eq!(load(&group("protocol=tcp wndsz=128k", WRITE)), expected(stream(128 << 10), tcp));
    }

    #[test]
    fn unmodelled_options_are_named() {
        let check = |body: &str, words: &str| {
            let told = load(body).unwrap_err();
            assert!(told.starts_with("profile p: ") && told.contains(words), "{told}");
        };
        let one = group("protocol=tcp", WRITE);
        check(&format!("{one}{one}"), "it must have one group");
        check(&group("protocol=udp", WRITE), "nothing limits its rate");
        check(&group("protocol=sctp", WRITE), "neither TCP nor UDP");
        check(&group("protocol=tcp", READ), "neither a write, nor");
        let both = format!("{WRITE}{READ}").replace("32k", "65508");
        check(&group("protocol=udp", &both), "longer than a datagram");
        let random = "<flowop type=\"write\" options=\"size=rand(1,9)\"/>";
        check(&group("protocol=tcp", random), "must have one size");
        let three = "<flowop type=\"write\" options=\"size=32k count=3\"/>";
        check(&group("protocol=tcp", &format!("{three}{READ}")), "several messages in a row");
    }
}
