//! Reads and writes of a stream that end by a deadline, or when they are asked to.

use super::POLL;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// When to give up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit<'a> {
    pub(super) deadline: Instant,
    pub(super) stop: &'a AtomicBool,
}

impl<'a> Limit<'a> {
    /// A limit so long from now.
    pub(super) fn after(time: Duration, stop: &'a AtomicBool) -> Self {
        Self { deadline: Instant::now() + time, stop }
    }

    /// Fails if it is time to give up.
    pub(super) fn check(&self) -> io::Result<()> {
        match () {
            () if self.stop.load(Ordering::Relaxed) => Err(io::Error::other("stopped")),
            () if Instant::now() >= self.deadline => Err(ErrorKind::TimedOut.into()),
            () => Ok(()),
        }
    }
}

/// Whether a call failed since its time was over, or a signal came: it may be made again.
pub(super) fn is_unfinished(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Has reads and writes of a stream return after [`POLL`].
pub(super) fn poll_stream(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(POLL))?;
    stream.set_write_timeout(Some(POLL))
}

/// Fills a buffer. The stream must have been through [`poll_stream`].
pub(super) fn read_exact(mut stream: &TcpStream, buffer: &mut [u8], limit: Limit<'_>) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        match stream.read(&mut buffer[filled..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => filled += bytes,
            Err(error) if is_unfinished(&error) => {}
            Err(error) => return Err(error),
        }
        if filled < buffer.len() {
            limit.check()?;
        }
    }
    Ok(())
}

/// Writes all bytes. The stream must have been through [`poll_stream`].
pub(super) fn write_all(mut stream: &TcpStream, bytes: &[u8], limit: Limit<'_>) -> io::Result<()> {
    let mut written = 0;
    while written < bytes.len() {
        match stream.write(&bytes[written..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(more) => written += more,
            Err(error) if is_unfinished(&error) => limit.check()?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
