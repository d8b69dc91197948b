//! The server's part of a session: it does what an authenticated client asks for, within its limits.

use super::cpu_time;
use super::frame::{Channel, FrameError};
use super::handshake::Keys;
use super::message::{Preparation, Reply, Request, Welcome};
use super::path::NetPath;
use super::responder::{Responder, Sockets};
use super::result::{NetTest, Usage};
use super::server::{ServeLimits, ServerEvent};
use super::timed::Limit;
use super::{REPLY_MAX, SECONDS_MAX, warning};
use crate::host_summary::HostSummary;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// How long a client may ask for nothing while no test runs.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// A data connection, with its instance.
pub(super) type Attached = (u16, TcpStream);

/// A client that was authenticated.
pub(super) struct Session<'s> {
    pub(super) channel: Channel,
    pub(super) keys: Keys,
    pub(super) peer: SocketAddr,
    /// Data connections that were authenticated.
    pub(super) attached: Receiver<Attached>,
    pub(super) limits: &'s ServeLimits,
    pub(super) stop: &'s AtomicBool,
    pub(super) event: &'s (dyn Fn(ServerEvent) + Sync),
}

/// A test of the session.
struct Cell {
    preparation: Preparation,
    deadline: Instant,
    state: State,
}

enum State {
    /// Sockets of UDP.
    Bound(Vec<(UdpSocket, u64)>),
    /// The client is to connect.
    Listening,
    Running(Responder),
}

impl Session<'_> {
    /// Serves until the client ends, or fails.
    pub(super) fn run(mut self, made_by: &str) -> Result<(), FrameError> {
        let local = self.channel.stream().local_addr()?;
        let path = NetPath::between(local, self.peer.ip());
        let machine = HostSummary::here();
        let welcome = Welcome {
            made_by: made_by.to_owned(),
            warnings: warning::of_side(&machine),
            machine,
            host_cpus: cpu_time::cpus_of_host(),
            path,
            boot: boot(),
            seconds_max: self.limits.seconds_max,
        };
        self.reply(&Reply::Welcome(Box::new(welcome)))?;
        let begun = Instant::now();
        let (mut cell, mut cells) = (None::<Cell>, 0);
        loop {
            // Whatever a test does, it ends here when its time is over: its threads end when it is dropped.
            let deadline = cell.as_ref().map_or_else(|| Instant::now() + IDLE_MAX, |cell| cell.deadline);
            let request = match self.channel.receive(Limit { deadline, stop: self.stop }) {
                Err(FrameError::Closed) if cell.is_none() => return Ok(()),
                request => request?,
            };
            let reply = match request {
                Request::Prepare(preparation) => {
                    // The sockets of the last test are closed first.
                    cell = None;
                    cells += 1;
                    self.prepare(preparation, cells, &mut cell)?
                }
                Request::Begin => self.begin(&mut cell),
                Request::Sample => Reply::Sampled(sample(begun, cell.as_ref())),
                Request::End => {
                    cell = None;
                    Reply::Ended
                }
            };
            self.reply(&reply)?;
        }
    }

    fn reply(&mut self, reply: &Reply) -> Result<(), FrameError> {
        self.channel.send(reply, Limit::after(REPLY_MAX, self.stop))
    }

    /// Makes the sockets of a test.
    fn prepare(
        &self,
        preparation: Preparation,
        number: u64,
        cell: &mut Option<Cell>,
    ) -> Result<Reply, FrameError> {
        if let Err(reason) = check(&preparation, self.limits) {
            return Ok(Reply::Failed(reason));
        }
        // Connections of an earlier test that came too late.
        self.attached.try_iter().for_each(drop);
        let (mut ports, mut state) = (Vec::new(), State::Listening);
        if preparation.test == NetTest::UdpRr {
            let local = self.channel.stream().local_addr()?;
            let sockets = match bind_datagrams(local, self.peer, &preparation) {
                Ok(sockets) => sockets,
                Err(error) => {
                    return Ok(Reply::Failed(format!("the server can't open its sockets: {error}")));
                }
            };
            for socket in &sockets {
                ports.push(socket.local_addr()?.port());
            }
            let tokens = (0..).map(|instance| self.keys.token(number, instance));
            state = State::Bound(sockets.into_iter().zip(tokens).collect());
        }
        (self.event)(ServerEvent::Test {
            peer: self.peer,
            test: preparation.test,
            bytes: preparation.bytes,
            instances: preparation.instances,
        });
        let seconds = Duration::try_from_secs_f64(self.limits.seconds_max.clamp(0.0, SECONDS_MAX));
        let deadline = Instant::now() + seconds.unwrap_or_default() + 3 * REPLY_MAX;
        *cell = Some(Cell { preparation, deadline, state });
        Ok(Reply::Prepared { cell: number, ports })
    }

    /// Starts the threads of a test.
    fn begin(&self, cell: &mut Option<Cell>) -> Reply {
        let Some(Cell { preparation, deadline, state }) = cell.take() else {
            return Reply::Failed("no test was prepared".to_owned());
        };
        let sockets = match state {
            State::Bound(sockets) => Some(Sockets::Udp(sockets)),
            State::Listening => self.data_connections(preparation.instances).map(Sockets::Tcp),
            State::Running(_) => None,
        };
        let Some(sockets) = sockets else {
            return Reply::Failed("not all connections of the test arrived".to_owned());
        };
        match Responder::start(sockets, &preparation) {
            Ok(responder) => {
                *cell = Some(Cell { preparation, deadline, state: State::Running(responder) });
                Reply::Begun
            }
            Err(_) => Reply::Failed("the server can't start its threads".to_owned()),
        }
    }

    /// The data connections of all instances, each once; `None` if some don't come.
    fn data_connections(&self, instances: u16) -> Option<Vec<TcpStream>> {
        let mut streams: Vec<Option<TcpStream>> = (0..instances).map(|_| None).collect();
        let deadline = Instant::now() + REPLY_MAX / 2;
        for _ in 0..instances {
            let left = deadline.saturating_duration_since(Instant::now());
            let (instance, stream) = self.attached.recv_timeout(left).ok()?;
            let place = streams.get_mut(usize::from(instance))?;
            if place.replace(stream).is_some() {
                return None;
            }
        }
        streams.into_iter().collect()
    }
}

/// Fails with a reason if a test is beyond the limits.
fn check(preparation: &Preparation, limits: &ServeLimits) -> Result<(), String> {
    let Preparation { test, bytes, instances, seconds, options: _, ports } = preparation;
    let (min, max) = warning::size_limits(*test);
    if !(min..=max).contains(bytes) {
        return Err(format!("messages of {bytes} bytes; the server allows {min} to {max} in {test}"));
    }
    if !(1..=limits.instances_max).contains(instances) {
        return Err(format!(
            "{instances} instances; the server allows {} (--instances-max)",
            limits.instances_max
        ));
    }
    if !(0.0..=limits.seconds_max).contains(seconds) {
        return Err(format!(
            "{seconds} s for a round; the server allows {} (--seconds-max)",
            limits.seconds_max
        ));
    }
    let wanted = if *test == NetTest::UdpRr { usize::from(*instances) } else { 0 };
    if ports.len() != wanted || ports.contains(&0) {
        return Err(format!("{} ports of the client; expected {wanted}", ports.len()));
    }
    Ok(())
}

/// A socket for each port of the client, connected: the kernel drops what others send.
fn bind_datagrams(
    local: SocketAddr,
    peer: SocketAddr,
    preparation: &Preparation,
) -> std::io::Result<Vec<UdpSocket>> {
    let with_port = |mut address: SocketAddr, port| {
        address.set_port(port);
        address
    };
    let open = |port: &u16| {
        let socket = UdpSocket::bind(with_port(local, 0))?;
        preparation.options.set_on_datagrams(&socket)?;
        socket.connect(with_port(peer, *port))?;
        Ok(socket)
    };
    preparation.ports.iter().map(open).collect()
}

/// Counts and CPU times until now.
fn sample(begun: Instant, cell: Option<&Cell>) -> Usage {
    let received = match cell {
        Some(Cell { state: State::Running(responder), .. }) => responder.received_bytes(),
        _ => 0,
    };
    usage(begun, received)
}

/// The counts of this process and host.
pub(super) fn usage(begun: Instant, received_bytes: u64) -> Usage {
    Usage {
        wall_ns: u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX),
        received_bytes,
        process_ns: Some(cpu_time::of_process()),
        host: cpu_time::of_host(),
    }
}

/// The number of this boot, the same in all containers of a kernel.
pub(super) fn boot() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned())
}
