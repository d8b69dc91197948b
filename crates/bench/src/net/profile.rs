//! Which profiles of uperf are run, and as what.

use super::INSTANCES_MAX;
use super::result::{NetSettings, NetTest};
use super::warning::size_limits;
use crate::bytes::Bytes;
use uperf::shape::{Refusal, Shape, only_group, opening, refuse_unless, shape, transfers};
use uperf::{Flowop, Profile, Protocol, Repeat, Strands};

/// What is run of profiles.
const RUN: &str = "one group, whose threads have one connection each and write and read messages of one size over UDP or TCP, or write alone \
                   over TCP, for a time";

/// Something in a profile that is not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}; bench net runs {RUN}")]
pub struct NotRun {
    /// The file of the profile.
    file: String,
    /// The line, from 1.
    line: u32,
    /// What is there.
    what: String,
}

impl NetSettings {
    /// The settings that run a profile. uperf runs a profile once; here it is measured in several rounds, each of its duration.
    ///
    /// # Errors
    /// [`NotRun`]
    pub fn of_profile(profile: &Profile, rounds: usize) -> Result<Self, NotRun> {
        check_settings(profile)?;
        let refused =
            |Refusal { line, what }| NotRun { file: profile.file.clone(), line, what: what.to_owned() };
        settings_of(profile, rounds).map_err(refused)
    }
}

/// Refuses options that would have to be set on the sockets, by name.
fn check_settings(profile: &Profile) -> Result<(), NotRun> {
    let transactions = profile.groups.iter().flat_map(|group| &group.transactions);
    let mut flowops = transactions.flat_map(|transaction| &transaction.flowops);
    match flowops.find_map(|flowop| Some((flowop.line, flowop.settings.first()?))) {
        None => Ok(()),
        Some((line, setting)) => {
            Err(NotRun { file: profile.file.clone(), line, what: format!("the option {}", setting.name) })
        }
    }
}

fn settings_of(profile: &Profile, rounds: usize) -> Result<NetSettings, Refusal> {
    let group = only_group(profile)?;
    let (Strands::Threads(instances) | Strands::Processes(instances)) = group.strands;
    let allowed = u16::try_from(instances).ok().filter(|number| (1..=INSTANCES_MAX).contains(number));
    let instances = allowed.ok_or(Refusal { line: group.line, what: "not 1 to 1,024 threads" })?;
    let opening = opening(group)?;
    let transfers = transfers(group, opening)?;
    let is_udp = match opening.protocol {
        Some(Protocol::Udp) => true,
        Some(Protocol::Tcp) | None => false,
        Some(_) => {
            return Err(Refusal { line: opening.line, what: "a protocol that is neither TCP nor UDP" });
        }
    };
    let (shape, bytes) = shape(&transfers.flowops)?;
    let line = transfers.flowops.first().map_or(group.line, |flowop| flowop.line);
    let test = match (shape, is_udp) {
        (Shape::Exchange, true) => NetTest::UdpRr,
        (Shape::Exchange, false) => NetTest::TcpRr,
        (Shape::Stream, false) => NetTest::TcpStream,
        (Shape::Stream, true) => {
            return Err(Refusal {
                line,
                what: "writes over UDP that wait for no answer, so nothing limits their rate",
            });
        }
    };
    let (min, max) = size_limits(test);
    let fits = (min..=max).contains(&bytes);
    refuse_unless(fits, line, "a size that is not 16 to 65,507 bytes over UDP, 1 MiB at most over TCP")?;
    let differs = |flowop: &&&Flowop| flowop.is_busy || flowop.timeout.is_some();
    if let Some(flowop) = transfers.flowops.iter().find(differs) {
        return Err(Refusal { line: flowop.line, what: "busy or timeout=" });
    }
    let Repeat::For { span, .. } = transfers.transaction.repeat else {
        return Err(Refusal {
            line: transfers.transaction.line,
            what: "transfers by iterations, without a duration",
        });
    };
    Ok(NetSettings {
        tests: vec![test],
        bytes: vec![Bytes(bytes)],
        instances: vec![instances],
        rounds,
        seconds: span.as_ns_f64() / 1e9,
        profile: Some(profile.name.clone()),
        are_processes: matches!(group.strands, Strands::Processes(_)),
        is_nodelay: Some(opening.is_nodelay),
        window_bytes: opening.window_bytes,
        ..NetSettings::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use uperf::Variables;

    fn settings(options: &str, repeat: &str, transfers: &str) -> Result<NetSettings, String> {
        let text = format!(
            "<profile name=\"p\"><group nthreads=\"4\">\n<transaction><flowop type=\"connect\" options=\"remotehost=h {options}\"/></transaction>\n\
             <transaction {repeat}>{transfers}</transaction></group></profile>"
        );
        let profile = Profile::read(&text, "p.xml", &Variables::default()).unwrap();
        NetSettings::of_profile(&profile, 3).map_err(|error| error.to_string())
    }

    const WRITE: &str = "<flowop type=\"write\" options=\"size=90\"/>";
    const READ: &str = "<flowop type=\"read\" options=\"size=90\"/>";

    #[test]
    fn requests_and_streams_are_run_with_their_options() {
        let both = format!("{WRITE}{READ}");
        let tcp = settings("protocol=tcp wndsz=50k tcp_nodelay", "duration=\"2s\"", &both).unwrap();
        assert_eq!((tcp.tests, tcp.instances, tcp.seconds), (vec![NetTest::TcpRr], vec![4], 2.0));
        assert_eq!((tcp.is_nodelay, tcp.window_bytes, tcp.rounds), (Some(true), Some(51_200), 3));
        let udp = settings("protocol=udp", "duration=\"500ms\"", &both).unwrap();
        assert_eq!((udp.tests, udp.bytes, udp.seconds), (vec![NetTest::UdpRr], vec![Bytes(90)], 0.5));
        let stream = settings("protocol=tcp", "duration=\"2s\"", WRITE).unwrap();
        assert_eq!((stream.tests, stream.is_nodelay), (vec![NetTest::TcpStream], Some(false)));
    }

    #[test]
    fn what_is_not_run_is_refused_with_its_line() {
        let both = format!("{WRITE}{READ}");
        let check = |settings: Result<NetSettings, String>, words: &str| {
            let told = settings.unwrap_err();
            assert!(told.starts_with(words) && told.contains("; bench net runs one group"), "{told}");
        };
        let time = "duration=\"2s\"";
        check(settings("protocol=tcp cc=cubic", time, &both), "p.xml:2: the option cc");
        check(settings("protocol=sctp", time, &both), "p.xml:2: a protocol that is neither");
        check(settings("protocol=udp", time, WRITE), "p.xml:3: writes over UDP");
        check(settings("protocol=tcp", "iterations=\"5\"", &both), "p.xml:3: transfers by iterations");
        check(settings("protocol=udp", time, &both.replace("90", "8")), "p.xml:3: a size");
        check(settings("protocol=tcp", time, READ), "p.xml:3: a read first");
        check(settings("protocol=tcp", "duration=\"2s\" rate=\"5\"", &both), "p.xml:3: a rate");
    }
}
