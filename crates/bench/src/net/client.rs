//! The client: asks a server for tests, and measures them round by round.

use super::address::HostPort;
use super::frame::{Channel, FrameError};
use super::handshake::{self, Keys};
use super::load::{self, LoadError, Phase, Tally};
use super::message::{Preparation, Reply, Request, Welcome};
use super::path::NetPath;
use super::plausibility::{self, Implausible, ServerCpus};
use super::result::{
    NET_SCHEMA, NetBenchmark, NetCell, NetHost, NetRound, NetSettings, NetTest, Usage, cell_name,
};
use super::secret::Secret;
use super::session::{boot, usage};
use super::socket_options::SocketOptions;
use super::timed::Limit;
use super::warning::{self, size_limits};
use super::{NetError, POLL, REPLY_MAX, SECONDS_MAX, STACK_BYTES};
use crate::bytes::Bytes;
use crate::head::{Head, Origin};
use crate::host_summary::HostSummary;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a host may take to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long both hosts are watched before the first round.
const QUIET: Duration = Duration::from_secs(1);

/// A test with a size and a number of instances.
type Combination = (NetTest, Bytes, u16);

/// Measures all tests with all sizes and numbers of instances in turn, round by round. `progress` gets the number of steps done and of all steps.
///
/// # Errors
/// [`NetError`]
pub fn run_net(
    server: &HostPort,
    secret: &Secret,
    settings: NetSettings,
    origin: Origin,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<NetBenchmark, NetError> {
    let measured = measure(server, secret, settings, origin, stop, progress);
    // Whatever a signal interrupted fails in a way of its own.
    measured.map_err(|error| if stop.load(Ordering::Relaxed) { NetError::Stopped } else { error })
}

fn measure(
    server: &HostPort,
    secret: &Secret,
    settings: NetSettings,
    origin: Origin,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<NetBenchmark, NetError> {
    let combinations = combinations(&settings)?;
    super::raise_file_limit();
    let mut client = Client::connect(server, secret, stop)?;
    let seconds = settings.seconds + settings.warm_up_seconds;
    let is_time = settings.seconds > 0.0 && settings.warm_up_seconds >= 0.0;
    let max = client.welcome.seconds_max.min(SECONDS_MAX);
    if !is_time || seconds > max {
        return Err(NetError::Seconds { seconds, max });
    }
    let machine = HostSummary::here();
    let before = client.watch_quiet_hosts()?;
    let mut measured: Vec<(Vec<NetRound>, Tally)> =
        combinations.iter().map(|_| (Vec::new(), Tally::new())).collect();
    let (mut done, steps) = (0, (settings.rounds * combinations.len()) as u64);
    for round in 0..settings.rounds {
        for place in 0..combinations.len() {
            progress(done, steps);
            done += 1;
            // The order rotates, so that no cell always comes first.
            let index = (round + place) % combinations.len();
            let (round, tally) = client.round(combinations[index], &settings)?;
            measured[index].0.push(round);
            measured[index].1.merge(&tally);
        }
    }
    let cell = |(combination, (rounds, tally)): (&Combination, (Vec<NetRound>, Tally))| {
        let round_trip = combination.0.has_answers().then(|| tally.round_trips.percentiles());
        NetCell::of(*combination, rounds, round_trip)
    };
    let cells = combinations.iter().zip(measured).map(cell).collect();
    Ok(client.benchmark(machine, before, settings, origin, cells))
}

/// All combinations, if each is possible.
fn combinations(settings: &NetSettings) -> Result<Vec<Combination>, NetError> {
    let mut all = Vec::new();
    for test in &settings.tests {
        let (min, max) = size_limits(*test);
        for bytes in &settings.bytes {
            if !(min..=max).contains(&bytes.0) {
                return Err(NetError::Size { test: *test, bytes: bytes.0, min, max });
            }
            all.extend(settings.instances.iter().map(|instances| (*test, *bytes, *instances)));
        }
    }
    Ok(all)
}

/// A session with a server.
struct Client<'s> {
    channel: Channel,
    keys: Keys,
    welcome: Welcome,
    local: SocketAddr,
    peer: SocketAddr,
    begun: Instant,
    stop: &'s AtomicBool,
    /// What of the server's counts was left out.
    implausible: Implausible,
}

/// The sockets of a test.
enum Sockets {
    Udp(Vec<(UdpSocket, u64)>),
    Tcp(Vec<TcpStream>),
}

impl Sockets {
    /// What the thread of an instance does.
    fn exchange(
        &self,
        instance: usize,
        (test, bytes): (NetTest, usize),
        phase: &Phase,
        quit: &AtomicBool,
    ) -> Result<Tally, LoadError> {
        match self {
            Self::Udp(sockets) => {
                let (socket, token) = &sockets[instance];
                load::exchange_datagrams(socket, *token, bytes, phase, quit)
            }
            Self::Tcp(streams) if test == NetTest::TcpStream => {
                load::send_stream(&streams[instance], bytes, quit)
            }
            Self::Tcp(streams) => load::exchange_requests(&streams[instance], bytes, phase, quit),
        }
    }
}

/// A reading of the server's counters, with the times between which it read them.
struct Sample {
    usage: Usage,
    asked: Instant,
    answered: Instant,
}

/// What was read at both ends of the time that is counted.
struct Window {
    seconds: f64,
    client: Usage,
    server: Usage,
}

impl<'s> Client<'s> {
    /// Connects and proves that it knows the secret.
    fn connect(server: &HostPort, secret: &Secret, stop: &'s AtomicBool) -> Result<Self, NetError> {
        let (stream, peer) = connect_to(server)?;
        let fail = |source| NetError::Handshake { address: peer, source };
        let local = stream.local_addr().map_err(|error| fail(error.into()))?;
        stream.set_nodelay(true).map_err(|error| fail(error.into()))?;
        let limit = Limit::after(REPLY_MAX, stop);
        let (mut channel, keys) = handshake::open(stream, secret, limit).map_err(fail)?;
        let mut welcome = match channel.receive(limit).map_err(fail)? {
            Reply::Welcome(welcome) => *welcome,
            Reply::Busy => {
                let reason = "another client is being served; expected it to end first".to_owned();
                return Err(NetError::Refused { address: peer, reason });
            }
            _ => return Err(fail(FrameError::Unexpected)),
        };
        let cut = plausibility::bound(&mut welcome);
        welcome.warnings.extend(cut);
        let implausible = Implausible::default();
        Ok(Self { channel, keys, welcome, local, peer, begun: Instant::now(), stop, implausible })
    }

    /// Asks the server, and waits for its reply.
    fn ask(&mut self, request: &Request) -> Result<Reply, NetError> {
        let limit = Limit::after(REPLY_MAX, self.stop);
        let sent = self.channel.send(request, limit);
        let reply = sent.and_then(|()| self.channel.receive(limit));
        match reply {
            Ok(Reply::Failed(reason)) => {
                Err(NetError::Refused { address: self.peer, reason: plausibility::bounded(&reason) })
            }
            Ok(reply) => Ok(reply),
            Err(source) => Err(NetError::Session { address: self.peer, source }),
        }
    }

    fn unexpected(&self) -> NetError {
        NetError::Session { address: self.peer, source: FrameError::Unexpected }
    }

    /// The server's counts and CPU times until now.
    fn sample(&mut self) -> Result<Sample, NetError> {
        let asked = Instant::now();
        match self.ask(&Request::Sample)? {
            Reply::Sampled(usage) => Ok(Sample { usage, asked, answered: Instant::now() }),
            _ => Err(self.unexpected()),
        }
    }

    /// What the server took since a sample, as far as it can be.
    fn since(&mut self, before: &Sample) -> Result<Usage, NetError> {
        let after = self.sample()?;
        let ns = |from: Instant, to: Instant| u64::try_from((to - from).as_nanos()).unwrap_or(u64::MAX);
        // The server read its clock at some time between question and answer.
        let span = ns(before.answered, after.asked)..=ns(before.asked, after.answered);
        let cpus = ServerCpus::of(&self.welcome);
        Ok(self.implausible.between(&before.usage, &after.usage, &span, cpus))
    }

    /// How many CPUs other programs keep busy on both hosts, while no test runs.
    fn watch_quiet_hosts(&mut self) -> Result<[Option<f64>; 2], NetError> {
        let before = (usage(self.begun, 0), self.sample()?);
        self.wait(QUIET, &AtomicBool::new(false))?;
        let client = usage(self.begun, 0).since(&before.0);
        let server = self.since(&before.1)?;
        Ok([client.busy_cpus(), server.busy_cpus()])
    }

    /// Waits, and fails if it is to stop. Returns early if `is_over`.
    fn wait(&self, time: Duration, is_over: &AtomicBool) -> Result<(), NetError> {
        let deadline = Instant::now() + time;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.stop.load(Ordering::Relaxed) {
                return Err(NetError::Stopped);
            }
            if left.is_zero() || is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            thread::sleep(left.min(POLL));
        }
    }

    /// Measures one round of a cell, with sockets of its own.
    fn round(
        &mut self,
        (test, bytes, instances): Combination,
        settings: &NetSettings,
    ) -> Result<(NetRound, Tally), NetError> {
        let cell = cell_name(test, bytes, instances);
        let fail = |what: &'static str, source| NetError::Socket { cell: cell.clone(), what, source };
        let sockets = self.open((test, bytes, instances), settings, &fail)?;
        let (phase, quit) = (Phase::default(), AtomicBool::new(false));
        let size = bytes.0 as usize;
        let (window, tallies) = thread::scope(|scope| {
            let (sockets, phase, quit) = (&sockets, &phase, &quit);
            let mut threads = Vec::new();
            let started = (0..usize::from(instances)).try_for_each(|instance| {
                let work = move || {
                    let tally = sockets.exchange(instance, (test, size), phase, quit);
                    tally.inspect_err(|_| phase.has_failed.store(true, Ordering::Relaxed))
                };
                let builder = thread::Builder::new().name("net".to_owned()).stack_size(STACK_BYTES);
                builder.spawn_scoped(scope, work).map(|thread| threads.push(thread))
            });
            let window = started.map_err(NetError::Thread).and_then(|()| self.window(phase, settings));
            // Whatever happened, all threads end here.
            quit.store(true, Ordering::Relaxed);
            let tallies: Result<Vec<_>, _> =
                threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
            (window, tallies)
        });
        let window = window?;
        let tallies = tallies.map_err(|_| NetError::Thread(io::Error::other("it panicked")))?;
        let mut sum = Tally::new();
        for tally in tallies {
            sum.merge(&tally.map_err(|error| match error {
                LoadError::Io(what, source) => fail(what, source),
                LoadError::Stalled => NetError::Stalled { cell: cell.clone() },
            })?);
        }
        let Reply::Ended = self.ask(&Request::End)? else { return Err(self.unexpected()) };
        let (received, sent) = (window.server.received_bytes, sum.sent_bytes);
        if !test.has_answers() && received > sent {
            return Err(NetError::Received { cell, address: self.peer, received, sent });
        }
        Ok((counted(test, bytes, &sum, window), sum))
    }

    /// The sockets of a test, connected to the server's.
    fn open(
        &mut self,
        (test, bytes, instances): Combination,
        settings: &NetSettings,
        fail: &dyn Fn(&'static str, io::Error) -> NetError,
    ) -> Result<Sockets, NetError> {
        let is_udp = test == NetTest::UdpRr;
        let bound = if is_udp { usize::from(instances) } else { 0 };
        let any_port = |mut address: SocketAddr| {
            address.set_port(0);
            address
        };
        let datagrams: io::Result<Vec<UdpSocket>> =
            (0..bound).map(|_| UdpSocket::bind(any_port(self.local))).collect();
        let datagrams = datagrams.map_err(|error| fail("bind", error))?;
        let options = SocketOptions::of(test, settings);
        let set = datagrams.iter().try_for_each(|socket| options.set_on_datagrams(socket));
        set.map_err(|error| fail("setsockopt", error))?;
        let ports: io::Result<Vec<u16>> =
            datagrams.iter().map(|socket| Ok(socket.local_addr()?.port())).collect();
        let reply = self.ask(&Request::Prepare(Preparation {
            test,
            bytes: bytes.0,
            instances,
            seconds: settings.seconds + settings.warm_up_seconds,
            options,
            ports: ports.map_err(|error| fail("getsockname", error))?,
        }))?;
        let Reply::Prepared { cell, ports } = reply else { return Err(self.unexpected()) };
        if ports.len() != bound {
            return Err(self.unexpected());
        }
        for (socket, port) in datagrams.iter().zip(&ports) {
            let mut address = self.peer;
            address.set_port(*port);
            socket.connect(address).map_err(|error| fail("connect", error))?;
        }
        let sockets = if is_udp {
            let tokens = (0..).map(|instance| self.keys.token(cell, instance));
            Sockets::Udp(datagrams.into_iter().zip(tokens).collect())
        } else {
            let attach = |instance| {
                let stream = self.attach(instance, fail)?;
                options.set_on_stream(&stream).map_err(|error| fail("setsockopt", error))?;
                Ok(stream)
            };
            Sockets::Tcp((0..instances).map(attach).collect::<Result<_, _>>()?)
        };
        let Reply::Begun = self.ask(&Request::Begin)? else { return Err(self.unexpected()) };
        Ok(sockets)
    }

    /// A data connection of an instance.
    fn attach(
        &self,
        instance: u16,
        fail: &dyn Fn(&'static str, io::Error) -> NetError,
    ) -> Result<TcpStream, NetError> {
        let stream =
            TcpStream::connect_timeout(&self.peer, CONNECT_MAX).map_err(|error| fail("connect", error))?;
        let attached = handshake::attach(&stream, &self.keys, instance, Limit::after(REPLY_MAX, self.stop));
        attached.map_err(|source| NetError::Session { address: self.peer, source })?;
        Ok(stream)
    }

    /// Lets the threads warm up, then count. The load goes on until both sides were read at both ends.
    fn window(&mut self, phase: &Phase, settings: &NetSettings) -> Result<Window, NetError> {
        let wait = |client: &Self, seconds| client.wait(Duration::from_secs_f64(seconds), &phase.has_failed);
        wait(self, settings.warm_up_seconds)?;
        let server = self.sample()?;
        let (client, start) = (usage(self.begun, 0), Instant::now());
        phase.measure();
        wait(self, settings.seconds)?;
        phase.cool();
        let (seconds, client) = (start.elapsed().as_secs_f64(), usage(self.begun, 0).since(&client));
        let server = self.since(&server)?;
        Ok(Window { seconds, client, server })
    }

    /// The document.
    fn benchmark(
        self,
        machine: HostSummary,
        [client_before, server_before]: [Option<f64>; 2],
        settings: NetSettings,
        origin: Origin,
        cells: Vec<NetCell>,
    ) -> NetBenchmark {
        let client = NetHost {
            made_by: origin.made_by.clone(),
            machine: machine.clone(),
            path: NetPath::between(self.local, self.peer.ip()),
            busy_cpus_before: client_before,
        };
        let Welcome { made_by, machine: server, path, boot: server_boot, mut warnings, .. } = self.welcome;
        warnings.extend(self.implausible.warnings());
        let server = NetHost { made_by, machine: server, path, busy_cpus_before: server_before };
        let is_same_kernel = boot().zip(server_boot).map(|(ours, theirs)| ours == theirs);
        let head = Head::new(NET_SCHEMA, origin, machine);
        let mut benchmark =
            NetBenchmark { head, settings, client, server, is_same_kernel, cells, model: None };
        benchmark.head.warnings = warning::of_benchmark(&benchmark, &warnings);
        benchmark
    }
}

/// Connects to the first address of a host that accepts.
fn connect_to(server: &HostPort) -> Result<(TcpStream, SocketAddr), NetError> {
    let no_address = |source| NetError::NoAddress { host: server.host.clone(), source };
    let addresses = (server.host.as_str(), server.port).to_socket_addrs().map_err(no_address)?;
    let mut failed = no_address(io::ErrorKind::NotFound.into());
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_MAX) {
            Ok(stream) => return Ok((stream, address)),
            Err(source) => failed = NetError::Connect { address, source },
        }
    }
    Err(failed)
}

/// A round from what was counted. Requests are counted by the client, a stream by the server, which receives it.
fn counted(test: NetTest, bytes: Bytes, sum: &Tally, window: Window) -> NetRound {
    let Window { seconds, client, server } = window;
    let (seconds, transactions, moved) = if test.has_answers() {
        (seconds, sum.transactions, sum.transactions * bytes.0)
    } else {
        let moved = server.received_bytes;
        (server.wall_ns.max(1) as f64 / 1e9, moved / bytes.0.max(1), moved)
    };
    NetRound {
        seconds,
        transactions,
        bytes: moved,
        lost: sum.lost,
        round_trip_p50_ns: sum.round_trips.percentiles().p50_ns,
        client,
        server,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::super::message::Welcome;
    use super::super::result::HostCpu;
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;
    use std::os::unix::fs::PermissionsExt;

    fn secret() -> Secret {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "a secret of the tests").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        Secret::read(&path).unwrap()
    }

    /// A server that knows the secret, and says what can't be: the n-th sample has n hours of everything.
    fn lie(listener: &TcpListener, stop: &AtomicBool) {
        let limit = Limit::after(REPLY_MAX, stop);
        let stream = listener.accept().unwrap().0;
        let greeted = handshake::greet(&stream, limit).unwrap();
        let (mut channel, _) = handshake::accept(stream, &secret(), &greeted, limit).unwrap();
        let local = "127.0.0.1:1".parse().unwrap();
        let welcome = Welcome {
            made_by: "x".repeat(10_000),
            machine: HostSummary { cpus: 2, ..HostSummary::here() },
            host_cpus: Some(2),
            path: NetPath::between(local, local.ip()),
            boot: None,
            warnings: Vec::new(),
            seconds_max: 10.0,
        };
        channel.send(&Reply::Welcome(Box::new(welcome)), limit).unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (mut is_udp, mut samples) = (true, 0);
        let mut streams = Vec::new();
        while let Ok(request) = channel.receive(limit) {
            let reply = match request {
                Request::Prepare(preparation) => {
                    is_udp = preparation.test == NetTest::UdpRr;
                    let ports = is_udp.then(|| udp.local_addr().unwrap().port()).into_iter().collect();
                    Reply::Prepared { cell: 1, ports }
                }
                Request::Begin => Reply::Begun,
                Request::Sample => {
                    samples += 1;
                    let ns = samples * 3_600_000_000_000;
                    let host = HostCpu { busy_ns: ns, interrupts_ns: 0, steal_ns: 0 };
                    let usage =
                        Usage { wall_ns: ns, received_bytes: ns, process_ns: Some(ns), host: Some(host) };
                    Reply::Sampled(usage)
                }
                Request::End => Reply::Ended,
            };
            let is_prepared = matches!(reply, Reply::Prepared { .. });
            channel.send(&reply, limit).unwrap();
            if is_prepared && !is_udp {
                let mut stream = listener.accept().unwrap().0;
                handshake::greet(&stream, limit).unwrap();
                streams.push(thread::spawn(move || while matches!(stream.read(&mut [0; 4096]), Ok(1..)) {}));
            }
        }
        streams.into_iter().for_each(|stream| stream.join().unwrap());
    }

    /// What comes of a short measurement against [`lie`].
    fn measured(test: NetTest) -> Result<NetBenchmark, NetError> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stop = AtomicBool::new(false);
        let settings = NetSettings {
            tests: vec![test],
            bytes: vec![Bytes(64)],
            instances: vec![1],
            rounds: 2,
            seconds: 0.05,
            warm_up_seconds: 0.01,
            ..NetSettings::default()
        };
        let origin = Origin { made_by: String::new(), command: Vec::new(), date: String::new() };
        let host = HostPort { host: address.ip().to_string(), port: address.port() };
        thread::scope(|scope| {
            let server = scope.spawn(|| lie(&listener, &stop));
            let measured =
                run_net(&host, &secret(), settings, origin, &AtomicBool::new(false), &mut |_, _| ());
            server.join().unwrap();
            measured
        })
    }

    #[test]
    fn counts_that_can_t_be_are_warnings_and_no_figures() {
        let found = measured(NetTest::UdpRr).unwrap();
        let warnings = &found.head.warnings;
        for start in [
            "server: what it says of itself was not plausible, and was cut or left out: its version",
            "server: its clock counted 3600.000 s in ",
            "server: its CPU time of iotoll is not plausible (3600.000 s in ",
            "server: its CPU time of the whole host is not plausible (3600.000 s in ",
        ] {
            assert!(warnings.iter().any(|words| words.starts_with(start)), "{start}: {warnings:#?}");
        }
        assert!(found.server.made_by.len() <= 200);
        assert_eq!(found.server.busy_cpus_before, None);
        let server = found.cells[0].cpu.server;
        assert_eq!((server.process_ns, server.host_ns), (None, None));
        assert!(found.cells[0].rounds.iter().all(|round| round.server.wall_ns < 1_000_000_000));
    }

    #[test]
    fn more_bytes_than_were_sent_are_an_error() {
        let error = measured(NetTest::TcpStream).unwrap_err();
        assert!(matches!(error, NetError::Received { received: 3_600_000_000_000, .. }), "{error:?}");
    }
}
