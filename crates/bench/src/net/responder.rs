//! The server's threads of a test: each answers or receives on one socket.

use super::STACK_BYTES;
use super::message::Preparation;
use super::result::NetTest;
use super::timed::{is_unfinished, poll_stream};
use super::{NetError, POLL};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};

/// The sockets of a test, one for each instance.
pub(super) enum Sockets {
    /// Connected, each with the token of its datagrams.
    Udp(Vec<(UdpSocket, u64)>),
    Tcp(Vec<TcpStream>),
}

/// Bytes that a thread received, in cache lines of their own.
#[derive(Default)]
#[repr(align(128))]
struct Count(AtomicU64);

/// Threads that answer until this is dropped.
pub(super) struct Responder {
    quit: Arc<AtomicBool>,
    counts: Arc<Vec<Count>>,
    threads: Vec<JoinHandle<()>>,
}

impl Responder {
    /// Starts a thread for each socket.
    pub(super) fn start(sockets: Sockets, preparation: &Preparation) -> Result<Self, NetError> {
        let quit = Arc::new(AtomicBool::new(false));
        let number = usize::from(preparation.instances);
        let counts: Arc<Vec<Count>> = Arc::new((0..number).map(|_| Count::default()).collect());
        let mut responder = Self { quit, counts, threads: Vec::new() };
        let bytes = preparation.bytes as usize;
        let Preparation { test, options, .. } = *preparation;
        match sockets {
            Sockets::Udp(sockets) => {
                sockets.into_iter().enumerate().try_for_each(|(index, (socket, token))| {
                    responder
                        .spawn(index, move |quit, count| answer_datagrams(&socket, token, bytes, quit, count))
                })
            }
            Sockets::Tcp(streams) => streams.into_iter().enumerate().try_for_each(|(index, stream)| {
                responder.spawn(index, move |quit, count| match (options.set_on_stream(&stream), test) {
                    // The client sees that the connection ends.
                    (Err(_), _) => {}
                    (Ok(()), NetTest::TcpStream) => receive_stream(&stream, bytes, quit, count),
                    (Ok(()), _) => answer_requests(&stream, bytes, quit, count),
                })
            }),
        }?;
        Ok(responder)
    }

    fn spawn(
        &mut self,
        index: usize,
        work: impl FnOnce(&AtomicBool, &AtomicU64) + Send + 'static,
    ) -> Result<(), NetError> {
        let (quit, counts) = (Arc::clone(&self.quit), Arc::clone(&self.counts));
        let body = move || {
            if let Some(Count(count)) = counts.get(index) {
                work(&quit, count);
            }
        };
        let thread = Builder::new().name("net".to_owned()).stack_size(STACK_BYTES).spawn(body);
        self.threads.push(thread.map_err(NetError::Thread)?);
        Ok(())
    }

    /// Bytes that all threads received until now.
    pub(super) fn received_bytes(&self) -> u64 {
        self.counts.iter().map(|Count(count)| count.load(Ordering::Relaxed)).sum()
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.quit.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Sends each datagram of this length and token back. Others get no answer, so no answer is longer than what it answers.
fn answer_datagrams(socket: &UdpSocket, token: u64, bytes: usize, quit: &AtomicBool, count: &AtomicU64) {
    if socket.set_read_timeout(Some(POLL)).is_err() {
        return;
    }
    // One byte more shows datagrams that are too long.
    let mut buffer = vec![0; bytes + 1];
    while !quit.load(Ordering::Relaxed) {
        match socket.recv(&mut buffer) {
            Ok(length) if length == bytes && buffer.starts_with(&token.to_le_bytes()) => {
                count.fetch_add(length as u64, Ordering::Relaxed);
                // What can't be sent is lost, and the client counts it.
                let _ = socket.send(&buffer[..length]);
            }
            Ok(_) => {}
            // The client has closed its socket, or not opened it yet.
            Err(error) if is_unfinished(&error) || error.kind() == ErrorKind::ConnectionRefused => {}
            Err(_) => return,
        }
    }
}

/// Sends each request of so many bytes back.
fn answer_requests(mut stream: &TcpStream, bytes: usize, quit: &AtomicBool, count: &AtomicU64) {
    if poll_stream(stream).is_err() {
        return;
    }
    let mut buffer = vec![0; bytes];
    loop {
        let is_read = move_all(&mut buffer, quit, |part| stream.read(part));
        if !is_read || !move_all(&mut buffer, quit, |part| stream.write(part)) {
            return;
        }
        count.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Reads or writes a whole buffer; false if that ends before.
pub(super) fn move_all(
    buffer: &mut [u8],
    quit: &AtomicBool,
    mut call: impl FnMut(&mut [u8]) -> std::io::Result<usize>,
) -> bool {
    let mut moved = 0;
    while moved < buffer.len() {
        match call(&mut buffer[moved..]) {
            Ok(0) => return false,
            Ok(bytes) => moved += bytes,
            Err(error) if is_unfinished(&error) && !quit.load(Ordering::Relaxed) => {}
            Err(_) => return false,
        }
    }
    !quit.load(Ordering::Relaxed)
}

/// Receives a stream, as much at a time as the client sends.
fn receive_stream(mut stream: &TcpStream, bytes: usize, quit: &AtomicBool, count: &AtomicU64) {
    if poll_stream(stream).is_err() {
        return;
    }
    let mut buffer = vec![0; bytes];
    while !quit.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => {
                count.fetch_add(length as u64, Ordering::Relaxed);
            }
            Err(error) if is_unfinished(&error) => {}
            Err(_) => return,
        }
    }
}
