//! The client's threads of a test: each sends on one socket, with one message in flight.

use super::responder::move_all;
use super::timed::{is_unfinished, poll_stream};
use super::{LOST_AFTER, STALLED_AFTER};
use crate::latency::Latencies;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Instant;

/// The part of a round that all threads are in.
#[derive(Default)]
pub(super) struct Phase {
    number: AtomicU8,
    /// A thread has failed.
    pub(super) has_failed: AtomicBool,
}

const MEASURED: u8 = 1;
const COOLING: u8 = 2;

impl Phase {
    /// What ends from now on is counted.
    pub(super) fn measure(&self) {
        self.number.store(MEASURED, Ordering::Relaxed);
    }

    /// What ends from now on is no longer counted, but the load goes on.
    pub(super) fn cool(&self) {
        self.number.store(COOLING, Ordering::Relaxed);
    }

    fn is_measured(&self) -> bool {
        self.number.load(Ordering::Relaxed) == MEASURED
    }
}

/// What a thread counted.
pub(super) struct Tally {
    pub(super) round_trips: Latencies,
    pub(super) transactions: u64,
    pub(super) lost: u64,
    /// Bytes of streams, in all phases.
    pub(super) sent_bytes: u64,
}

impl Tally {
    pub(super) fn new() -> Self {
        Self { round_trips: Latencies::new(), transactions: 0, lost: 0, sent_bytes: 0 }
    }

    /// Adds what another thread counted.
    pub(super) fn merge(&mut self, other: &Self) {
        self.round_trips.merge(&other.round_trips);
        self.transactions += other.transactions;
        self.lost += other.lost;
        self.sent_bytes += other.sent_bytes;
    }

    fn count(&mut self, started: Instant) {
        self.transactions += 1;
        self.round_trips.record_ns(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
}

/// Why a thread gave up.
pub(super) enum LoadError {
    /// A call failed.
    Io(&'static str, io::Error),
    /// Nothing came back.
    Stalled,
}

/// Bytes of a token, and of a token with the datagram's number.
const TOKEN_BYTES: usize = 8;
const HEADER_BYTES: usize = 16;

/// Sends datagrams of so many bytes, each after the answer to the last, until `quit`.
pub(super) fn exchange_datagrams(
    socket: &UdpSocket,
    token: u64,
    bytes: usize,
    phase: &Phase,
    quit: &AtomicBool,
) -> Result<Tally, LoadError> {
    socket.set_read_timeout(Some(LOST_AFTER)).map_err(|error| LoadError::Io("setsockopt", error))?;
    let mut tally = Tally::new();
    let mut request = vec![0; bytes];
    let mut answer = vec![0; bytes + 1];
    request[..TOKEN_BYTES].copy_from_slice(&token.to_le_bytes());
    let (mut number, mut answered) = (0_u64, Instant::now());
    while !quit.load(Ordering::Relaxed) {
        number += 1;
        request[TOKEN_BYTES..HEADER_BYTES].copy_from_slice(&number.to_le_bytes());
        let started = Instant::now();
        let is_answered =
            send_datagram(socket, &request)? && await_answer(socket, &request, &mut answer, started)?;
        match is_answered {
            true if phase.is_measured() => tally.count(started),
            true => {}
            false if phase.is_measured() => tally.lost += 1,
            false => {}
        }
        if is_answered {
            answered = started;
        } else if answered.elapsed() > STALLED_AFTER {
            return Err(LoadError::Stalled);
        }
    }
    Ok(tally)
}

/// Sends a datagram; false if it was lost on this host.
fn send_datagram(socket: &UdpSocket, request: &[u8]) -> Result<bool, LoadError> {
    match socket.send(request) {
        Ok(_) => Ok(true),
        Err(error) if is_lost(&error) => {
            std::thread::sleep(LOST_AFTER);
            Ok(false)
        }
        Err(error) => Err(LoadError::Io("send", error)),
    }
}

/// Waits for the answer to a datagram; false if it is lost. Answers to earlier ones that were given up are dropped.
fn await_answer(
    socket: &UdpSocket,
    request: &[u8],
    answer: &mut [u8],
    started: Instant,
) -> Result<bool, LoadError> {
    loop {
        match socket.recv(answer) {
            Ok(length) if length == request.len() && answer.starts_with(&request[..HEADER_BYTES]) => {
                return Ok(true);
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_unfinished(&error) => return Ok(false),
            Err(error) if is_lost(&error) => {
                std::thread::sleep(LOST_AFTER);
                return Ok(false);
            }
            Err(error) => return Err(LoadError::Io("recv", error)),
        }
        if started.elapsed() > LOST_AFTER {
            return Ok(false);
        }
    }
}

/// Whether an error says that one datagram was lost: no buffers, or a port that is closed, as one is when a server was killed.
fn is_lost(error: &io::Error) -> bool {
    error.kind() == ErrorKind::ConnectionRefused
        || error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error())
}

/// Sends requests of so many bytes, each after the answer to the last, until `quit`.
pub(super) fn exchange_requests(
    mut stream: &TcpStream,
    bytes: usize,
    phase: &Phase,
    quit: &AtomicBool,
) -> Result<Tally, LoadError> {
    poll_stream(stream).map_err(|error| LoadError::Io("setsockopt", error))?;
    let mut tally = Tally::new();
    let mut buffer = vec![0; bytes];
    while !quit.load(Ordering::Relaxed) {
        let started = Instant::now();
        let is_sent = move_all(&mut buffer, quit, |part| stream.write(part));
        if !is_sent || !move_all(&mut buffer, quit, |part| stream.read(part)) {
            break;
        }
        if phase.is_measured() {
            tally.count(started);
        }
    }
    ended(tally, quit)
}

/// Sends a stream, so many bytes at a time, until `quit`.
pub(super) fn send_stream(
    mut stream: &TcpStream,
    bytes: usize,
    quit: &AtomicBool,
) -> Result<Tally, LoadError> {
    poll_stream(stream).map_err(|error| LoadError::Io("setsockopt", error))?;
    let mut buffer = vec![0; bytes];
    let mut tally = Tally::new();
    let mut send = |part: &mut [u8]| {
        let sent = stream.write(part)?;
        tally.sent_bytes += sent as u64;
        Ok(sent)
    };
    while !quit.load(Ordering::Relaxed) {
        if !move_all(&mut buffer, quit, &mut send) {
            break;
        }
    }
    ended(tally, quit)
}

/// A connection that ends before it was asked to has failed.
fn ended(tally: Tally, quit: &AtomicBool) -> Result<Tally, LoadError> {
    match quit.load(Ordering::Relaxed) {
        true => Ok(tally),
        false => Err(LoadError::Io("the connection ended", ErrorKind::ConnectionAborted.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    /// A pair of sockets that are connected to each other.
    fn pair() -> (UdpSocket, UdpSocket) {
        let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        sockets[0].connect(sockets[1].local_addr().unwrap()).unwrap();
        sockets[1].connect(sockets[0].local_addr().unwrap()).unwrap();
        sockets.into()
    }

    /// The other side leaves out each thousandth answer, and sends an old one and one of another session before each.
    #[test]
    fn lost_datagrams_are_counted_and_are_in_no_latency() {
        let (client, server) = pair();
        let (phase, quit, dropped) = (Phase::default(), AtomicBool::new(false), AtomicU64::new(0));
        phase.measure();
        let tally = std::thread::scope(|scope| {
            let load = scope.spawn(|| exchange_datagrams(&client, 7, 64, &phase, &quit).ok().unwrap());
            scope.spawn(|| {
                server.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
                let (mut buffer, mut old) = ([0; 64], [0; 64]);
                let mut number = 0;
                while !quit.load(Ordering::Relaxed) {
                    let Ok(64) = server.recv(&mut buffer) else { continue };
                    number += 1;
                    let mut other = buffer;
                    other[0] ^= 1;
                    // The client may be gone already.
                    let _ = server.send(&old).and_then(|_| server.send(&other));
                    if number % 1000 == 0 {
                        dropped.fetch_add(1, Ordering::Relaxed);
                    } else {
                        let _ = server.send(&buffer);
                    }
                    old = buffer;
                }
            });
            while dropped.load(Ordering::Relaxed) < 3 {
                std::thread::sleep(Duration::from_millis(5));
            }
            quit.store(true, Ordering::Relaxed);
            load.join().unwrap()
        });
        assert_eq!(tally.lost, dropped.load(Ordering::Relaxed));
        let round_trips = tally.round_trips.percentiles();
        assert_eq!(round_trips.samples, tally.transactions);
        assert!(tally.transactions >= 2 * 999, "{}", tally.transactions);
        assert!(round_trips.p50_ns.unwrap() < LOST_AFTER.as_nanos() as u64);
    }

    #[test]
    fn without_answers_an_instance_gives_up() {
        let (client, _server) = pair();
        let stalled = exchange_datagrams(&client, 7, 64, &Phase::default(), &AtomicBool::new(false));
        assert!(matches!(stalled, Err(LoadError::Stalled)));
    }
}
