//! A client's side: a disk that a broker serves, and queues of it.

use super::area::{ClientArea, Layout};
use super::wire::{About, Hello, MESSAGE_BYTES, Outcome, Request, Said};
use super::{BrokerError, socket};
use crate::chunk::{ChunkError, Operation, Wait};
use dma::Ram;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The longest wait for the broker's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest wait for the broker when a queue is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Polls before a thread that waits sleeps: some 20 us.
const POLLS: u32 = 2000;
/// Time between two looks whether the broker is there, and the longest sleep.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// A disk, or a part of one, that a broker serves.
#[derive(Debug)]
pub struct ServedDisk {
    socket: PathBuf,
    about: About,
    locks: File,
}

/// A queue of a served disk, for a [`Chunk`](crate::chunk::Chunk).
#[derive(Debug)]
pub struct ServedQueue {
    /// Wakes the broker.
    requested: OwnedFd,
    /// Wakes this process. Its end is the broker's.
    completed: OwnedFd,
    area: ClientArea,
    about: About,
    /// By slot: whether its request is in flight.
    in_flight: Vec<bool>,
    number_in_flight: usize,
    /// Slots whose results tell of losses and were not fetched.
    untold: Vec<u16>,
    /// The broker is to be told that such results were fetched.
    is_told: bool,
    /// Why nothing more is begun.
    lost: Option<&'static str>,
    last_check: Instant,
}

/// Asks the broker at a socket, and waits up to `limit` for each step. Returns the answer with its files.
fn ask(
    socket: &Path,
    limit: Duration,
    hello: Hello,
    files: &[BorrowedFd<'_>],
) -> Result<(About, Vec<OwnedFd>), BrokerError> {
    let failed = |error: Errno| {
        let error = if error == Errno::AGAIN { Errno::TIMEDOUT } else { error };
        BrokerError::of_socket(socket, error)
    };
    let connection = socket::connect(socket, limit).map_err(failed)?;
    socket::send(&connection, &hello.encode(), files).map_err(failed)?;
    let mut bytes = [0; MESSAGE_BYTES];
    let (length, files) = match socket::receive(&connection, &mut bytes) {
        Err(Errno::MSGSIZE | Errno::CONNRESET) => (0, Vec::new()),
        received => received.map_err(failed)?,
    };
    let about = About::decode(&bytes[..length]);
    let about = about.ok_or_else(|| BrokerError::Protocol { socket: socket.to_owned() })?;
    Ok((about, files))
}

impl ServedDisk {
    /// Asks the broker at a socket what it serves there.
    ///
    /// # Errors
    /// [`BrokerError::Socket`], [`BrokerError::NotASocket`], [`BrokerError::NoAnswer`], [`BrokerError::Protocol`]
    pub fn connect(socket: &Path) -> Result<Self, BrokerError> {
        let (about, files) = ask(socket, ANSWER_TIMEOUT, Hello { slots: 0 }, &[])?;
        let locks = files.into_iter().next();
        let locks = locks.ok_or_else(|| BrokerError::Protocol { socket: socket.to_owned() })?;
        Ok(Self { socket: socket.to_owned(), about, locks: locks.into() })
    }

    /// Size in blocks.
    pub fn blocks(&self) -> u64 {
        self.about.blocks
    }

    /// Size of a block in bytes, as a power of two.
    pub fn block_shift(&self) -> u8 {
        self.about.block_shift
    }

    /// Whether blocks may be written.
    pub fn is_writable(&self) -> bool {
        self.about.is_writable
    }

    /// An empty file for locks among the clients of this share. Descriptions of it are opened anew through `/proc/self/fd`.
    pub fn locks(&self) -> &File {
        &self.locks
    }

    /// A queue for one thread, with at most this many requests at once. The broker keeps `holds` open, at most three descriptions of the
    /// [lock file](Self::locks), until all of the queue's requests have ended, even if this process is killed: nobody else gets the blocks that
    /// those may write. When the queue is dropped, this waits until the broker has closed them.
    ///
    /// # Errors
    /// [`BrokerError`]
    pub fn queue(&self, requests: u16, holds: &[BorrowedFd<'_>]) -> Result<ServedQueue, BrokerError> {
        let own = || self.socket.clone();
        let (about, files) = ask(&self.socket, ANSWER_TIMEOUT, Hello { slots: requests.max(1) }, holds)?;
        if about.instance != self.about.instance {
            return Err(BrokerError::Restarted { socket: own() });
        }
        if about.slots == 0 {
            return Err(BrokerError::Full { socket: own() });
        }
        let [memory, requested, completed]: [OwnedFd; 3] =
            files.try_into().map_err(|_| BrokerError::Protocol { socket: own() })?;
        let ram = Ram::of_file(memory.as_fd()).map_err(BrokerError::Resource)?;
        let layout = Layout { slots: about.slots, request_bytes: about.request_bytes };
        let area = ClientArea::of_client(ram, layout);
        let area = area.map_err(|error| BrokerError::Resource(io::Error::other(error)))?;
        Ok(ServedQueue {
            requested,
            completed,
            area,
            about,
            in_flight: vec![false; about.slots.into()],
            number_in_flight: 0,
            untold: Vec::new(),
            is_told: false,
            lost: None,
            last_check: Instant::now(),
        })
    }
}

impl ServedQueue {
    /// Size in blocks.
    pub(crate) fn blocks(&self) -> u64 {
        self.about.blocks
    }

    /// Log2 of the block size.
    pub(crate) fn block_shift(&self) -> u8 {
        self.about.block_shift
    }

    /// The number of slots.
    pub(crate) fn requests(&self) -> u16 {
        self.about.slots
    }

    /// The most bytes of a request.
    pub(crate) fn request_bytes(&self) -> usize {
        self.area.layout().request_bytes as usize
    }

    /// Writes a request. The broker sees it after the next [`ring_doorbell`](Self::ring_doorbell).
    pub(crate) fn begin(&mut self, slot: u16, operation: Operation, from: &[u8]) -> Result<(), ChunkError> {
        if let Some(why) = self.lost {
            return Err(ChunkError::Abandoned { why: why.to_owned() });
        }
        if !from.is_empty() {
            self.area.write(slot, from)?;
        }
        self.say(Said::Request(Request { slot, operation }));
        self.in_flight[usize::from(slot)] = true;
        self.number_in_flight += 1;
        Ok(())
    }

    /// Notes that the results of these slots were fetched: those that tell of losses have told somebody.
    pub(crate) fn note_fetched(&mut self, is_fetched: impl Fn(u16) -> bool) {
        let before = self.untold.len();
        self.untold.retain(|slot| !is_fetched(*slot));
        self.is_told |= self.untold.len() < before;
    }

    fn say(&mut self, said: Said) {
        let is_told = std::mem::take(&mut self.is_told);
        self.area.requests.push(said.encode(is_told));
    }

    /// Shows the broker what was begun, and wakes it if it sleeps.
    pub(crate) fn ring_doorbell(&mut self) {
        if self.area.requests.publish() {
            let _ = rustix::io::write(&self.requested, &1_u64.to_ne_bytes());
        }
    }

    /// Processes results. With [`Wait::Yes`] it returns when a request has ended, or when none is in flight.
    pub(crate) fn process_completions(
        &mut self,
        wait: Wait,
        ended: &mut impl FnMut(u16, Result<(), ChunkError>),
    ) {
        self.ring_doorbell();
        loop {
            let taken = self.take_results(ended);
            if taken == 0 {
                self.look_for_end();
            }
            if let Some(why) = self.lost {
                // What had ended before counts.
                self.take_results(ended);
                return self.fail_all(why, ended);
            }
            if taken > 0 || wait == Wait::No || self.number_in_flight == 0 {
                return;
            }
            self.wait_for_result();
        }
    }

    /// Returns how many requests have ended.
    fn take_results(&mut self, ended: &mut impl FnMut(u16, Result<(), ChunkError>)) -> usize {
        let mut taken = 0;
        loop {
            let result = match self.area.results.pop() {
                Ok(None) => return taken,
                Ok(Some(words)) => Outcome::decode(words),
                Err(_) => None,
            };
            let slot_in_flight = result.and_then(|(slot, outcome)| {
                let is_in_flight = self.in_flight.get_mut(usize::from(slot))?;
                std::mem::replace(is_in_flight, false).then_some((slot, outcome))
            });
            let Some((slot, outcome)) = slot_in_flight else {
                self.lost = Some("the broker's results can't be");
                return taken;
            };
            self.number_in_flight -= 1;
            taken += 1;
            if outcome == Outcome::WritesLost {
                self.untold.push(slot);
            }
            ended(slot, outcome.result());
        }
    }

    /// Notes that the broker is gone, if it is.
    fn look_for_end(&mut self) {
        if self.lost.is_none() && self.last_check.elapsed() >= CHECK_INTERVAL {
            self.last_check = Instant::now();
            if socket::has_ended(&self.completed) {
                self.lost = Some("the broker has ended");
            }
        }
    }

    fn fail_all(&mut self, why: &str, ended: &mut impl FnMut(u16, Result<(), ChunkError>)) {
        for (slot, is_in_flight) in (0..).zip(&mut self.in_flight) {
            if std::mem::replace(is_in_flight, false) {
                ended(slot, Err(ChunkError::Abandoned { why: why.to_owned() }));
            }
        }
        self.number_in_flight = 0;
    }

    /// Polls for a while, then sleeps until a request has ended, for at most one check interval.
    fn wait_for_result(&mut self) {
        for _ in 0..POLLS {
            if self.area.results.has_entry() {
                return;
            }
            std::hint::spin_loop();
        }
        if self.announce_sleep() {
            let timeout = Timespec { tv_sec: 0, tv_nsec: CHECK_INTERVAL.subsec_nanos().into() };
            // Interrupted or not: what follows looks at the results.
            let _ = poll(&mut [PollFd::new(&self.completed, PollFlags::IN)], Some(&timeout));
        }
    }

    /// Has the next result wake this process through [`as_fd`](Self::as_fd). Returns false if there is one.
    pub(crate) fn announce_sleep(&mut self) -> bool {
        socket::clear(&self.completed);
        self.area.results.announce_sleep()
    }

    /// Can be read when requests have ended since [`announce_sleep`](Self::announce_sleep).
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.completed.as_fd()
    }

    /// Copies the data that a slot has read.
    pub(crate) fn copy_out(&self, slot: u16, into: &mut [u8]) -> Result<(), ChunkError> {
        Ok(self.area.read(slot, into)?)
    }
}

impl Drop for ServedQueue {
    /// Tells the broker, and waits until the broker has closed what it held for this queue.
    fn drop(&mut self) {
        if self.lost.is_none() {
            self.say(Said::Close);
            self.ring_doorbell();
            let begun = Instant::now();
            while begun.elapsed() < CLOSE_TIMEOUT && !socket::has_ended(&self.completed) {
                socket::clear(&self.completed);
                let timeout = Timespec { tv_sec: 0, tv_nsec: CHECK_INTERVAL.subsec_nanos().into() };
                let _ = poll(&mut [PollFd::new(&self.completed, PollFlags::IN)], Some(&timeout));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    #[test]
    fn a_broker_that_is_stopped_gives_no_answer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = socket::Listener::new(&path).unwrap();
        let error = ask(&path, Duration::from_millis(20), Hello { slots: 0 }, &[]).unwrap_err();
        assert_eq!(error.to_string(), format!("{}: no answer", path.display()));
        drop(listener);
    }
}
