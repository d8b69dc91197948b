//! Translates a profile of uperf into a load.

use super::flow::{Pattern, Protocol, Work};
use std::fmt;
use uperf::shape::{Refusal, Shape, only_group, opening, refuse_unless, shape, transfers};
use uperf::{Profile, Strands};

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
    let group = only_group(profile)?;
    let (Strands::Threads(instances) | Strands::Processes(instances)) = group.strands;
    refuse_unless((1..=INSTANCES_MAX).contains(&instances), group.line, "not 1 to 4,096 threads")?;
    let opening = opening(group)?;
    let transfers = transfers(group, opening)?.flowops;
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
    let (shape, message_bytes) = shape(&transfers)?;
    let pattern = match shape {
        Shape::Exchange => Pattern::Exchange,
        Shape::Stream => Pattern::Stream { window_bytes },
    };
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

#[cfg(test)]
mod tests {
    use super::*;
    use uperf::Variables;

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
