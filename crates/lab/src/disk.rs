//! The measured disk: an NBD server that stores nothing and completes requests when the QEMU plugin tells it to.
//!
//! With an ordinary disk, the host's speed decides whether a completion arrives before or after the guest idles, and the
//! guest executes different code in the two cases. This server speaks the NBD protocol to QEMU (`proto.md` of
//! NetworkBlockDevice/nbd: fixed newstyle negotiation, holes as structured replies). While the plugin records, the server
//! holds each request until the guest is idle and the plugin asks for the reply. Before and after, it replies at once.
//!
//! Reads return zeros and writes are discarded, because only instructions are counted.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread::JoinHandle;

/// Size of the disk.
const DISK_BYTES: u64 = 1 << 30;
/// Held requests are completed after this time, for a guest that polls instead of idling. It is longer than a busy host
/// keeps a guest from becoming idle.
const HELD_MAX: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };
/// The longest request that QEMU's NVMe controller makes.
const REQUEST_BYTES_MAX: u32 = 32 << 20;

const NEGOTIATION: &[u8] = b"NBDMAGICIHAVEOPT";
const OPTION_MAGIC: &[u8; 8] = b"IHAVEOPT";
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const CHUNK_MAGIC: u32 = 0x668e_33ef;
const CHUNK_DONE: u16 = 1;
const CHUNK_NOTHING: u16 = 0;
const CHUNK_HOLE: u16 = 2;
const REPLY_MAGIC: u32 = 0x6744_6698;
/// Fixed newstyle, and no padding.
const HANDSHAKE_FLAGS: u16 = 0b11;
/// `NBD_FLAG_HAS_FLAGS` and `NBD_FLAG_SEND_FLUSH`.
const EXPORT_FLAGS: u16 = 0b101;

const OPTION_EXPORT_NAME: u32 = 1;
const OPTION_ABORT: u32 = 2;
const OPTION_INFO: u32 = 6;
const OPTION_GO: u32 = 7;
const OPTION_STRUCTURED_REPLY: u32 = 8;
const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const REPLY_UNSUPPORTED: u32 = 1 << 31 | 1;
const OPTION_BYTES_MAX: u32 = 4096;

const COMMAND_READ: u16 = 0;
const COMMAND_WRITE: u16 = 1;
const COMMAND_DISCONNECT: u16 = 2;

/// The plugin's messages: the first byte of each datagram on the control socket.
mod message {
    /// Hold requests from now on.
    pub(super) const HOLD: u8 = b'H';
    /// Reply to the oldest held requests, or to the next that arrive, until as many bytes are transferred as the four
    /// bytes after this one say (little endian). QEMU may split one request of the guest into several.
    pub(super) const REPLY: u8 = b'A';
    /// Reply to every request at once from now on.
    pub(super) const RELEASE: u8 = b'F';
}

/// A disk that a thread serves until QEMU disconnects.
pub struct Disk {
    folder: tempfile::TempDir,
    server: Option<JoinHandle<io::Result<()>>>,
}

impl Disk {
    /// Creates the sockets and starts the thread that serves them.
    ///
    /// # Errors
    /// If the sockets can't be created.
    pub fn serve() -> io::Result<Self> {
        // Not in the run's own folder: the path of a socket has at most 107 bytes.
        let folder = tempfile::Builder::new().prefix("iotoll-disk-").tempdir()?;
        let listener = UnixListener::bind(folder.path().join("disk"))?;
        let control = UnixDatagram::bind(folder.path().join("control"))?;
        let server = std::thread::spawn(move || serve_one_client(&listener, &control));
        Ok(Self { folder, server: Some(server) })
    }

    /// The path of the NBD socket that QEMU connects to.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    /// The path of the datagram socket that the plugin sends its messages to.
    pub fn control(&self) -> PathBuf {
        self.folder.path().join("control")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // QEMU has ended. If it never connected, this connection makes the server's accept() return.
        let woken = UnixStream::connect(self.socket()).is_ok();
        // A cleaner of temporary folders may have deleted the socket. Then joining the thread would block for ever.
        if let Some(server) = self.server.take().filter(|_| woken) {
            let _ = server.join();
        }
    }
}

/// Accepts one connection and serves it until the client disconnects.
fn serve_one_client(listener: &UnixListener, control: &UnixDatagram) -> io::Result<()> {
    let (stream, _) = listener.accept()?;
    let mut session =
        Session { stream, held: VecDeque::new(), holds: false, due_bytes: 0, structured_replies: false };
    session.negotiate()?;
    session.serve(control)
}

/// A request that has no reply yet.
struct Request {
    cookie: u64,
    offset: u64,
    bytes: u32,
    /// Bytes of data in the reply: those of a read, none for a write.
    data_bytes: u32,
}

/// Whether the current phase of a connection, negotiation or transmission, goes on.
enum Phase {
    Continues,
    Ended,
}

/// One client's connection and the requests held on it.
struct Session {
    stream: UnixStream,
    held: VecDeque<Request>,
    holds: bool,
    /// Bytes that the plugin asked to complete and that are not completed yet; a request without data counts as one.
    due_bytes: u64,
    /// The client negotiated structured replies, so a read is reply_cookie by a hole instead of zeros. QEMU does. Without
    /// them, data beyond a socket's buffer may reach QEMU only with the next reply.
    structured_replies: bool,
}

impl Session {
    /// Runs the fixed newstyle negotiation up to the transmission phase.
    fn negotiate(&mut self) -> io::Result<()> {
        self.stream.write_all(NEGOTIATION)?;
        self.stream.write_all(&HANDSHAKE_FLAGS.to_be_bytes())?;
        let _client_flags = self.read_u32()?;
        while let Phase::Continues = self.negotiate_option()? {}
        Ok(())
    }

    /// Reads one option from the client and replies to it.
    fn negotiate_option(&mut self) -> io::Result<Phase> {
        let mut magic = [0; OPTION_MAGIC.len()];
        self.stream.read_exact(&mut magic)?;
        let (option, bytes) = (self.read_u32()?, self.read_u32()?);
        if &magic != OPTION_MAGIC || bytes > OPTION_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not an NBD option"));
        }
        io::copy(&mut (&self.stream).take(bytes.into()), &mut io::sink())?;
        match option {
            OPTION_EXPORT_NAME => {
                self.stream.write_all(&DISK_BYTES.to_be_bytes())?;
                self.stream.write_all(&EXPORT_FLAGS.to_be_bytes())?;
                Ok(Phase::Ended)
            }
            OPTION_INFO | OPTION_GO => {
                let mut info = vec![0, 0];
                info.extend(DISK_BYTES.to_be_bytes());
                info.extend(EXPORT_FLAGS.to_be_bytes());
                self.reply_to_option(option, REPLY_INFO, &info)?;
                self.reply_to_option(option, REPLY_ACK, &[])?;
                Ok(if option == OPTION_GO { Phase::Ended } else { Phase::Continues })
            }
            OPTION_STRUCTURED_REPLY => {
                self.structured_replies = true;
                self.reply_to_option(option, REPLY_ACK, &[])?;
                Ok(Phase::Continues)
            }
            OPTION_ABORT => {
                self.reply_to_option(option, REPLY_ACK, &[])?;
                Err(io::ErrorKind::ConnectionAborted.into())
            }
            _ => {
                self.reply_to_option(option, REPLY_UNSUPPORTED, &[])?;
                Ok(Phase::Continues)
            }
        }
    }

    /// Sends one option reply; `reply` is its type, as `REPLY_ACK`.
    fn reply_to_option(&mut self, option: u32, reply: u32, data: &[u8]) -> io::Result<()> {
        let mut bytes = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
        bytes.extend(option.to_be_bytes());
        bytes.extend(reply.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        self.stream.write_all(&bytes)
    }

    /// Serves requests and the plugin's messages until the client disconnects.
    fn serve(&mut self, control: &UnixDatagram) -> io::Result<()> {
        loop {
            let ready = self.wait(control)?;
            if !ready.request && !ready.message {
                self.reply_to_all_held()?;
            }
            if ready.message {
                self.process_messages(control)?;
            }
            if ready.request
                && let Phase::Ended = self.read_request()?
            {
                return Ok(());
            }
        }
    }

    /// Waits for a request or a message. Neither is ready if requests were held for [`HELD_MAX`].
    fn wait(&self, control: &UnixDatagram) -> io::Result<Ready> {
        let mut both = [PollFd::new(&self.stream, PollFlags::IN), PollFd::new(control, PollFlags::IN)];
        let limit = (!self.held.is_empty()).then_some(&HELD_MAX);
        match poll(&mut both, limit) {
            // Reading messages does not block, so an interrupted wait counts as one.
            Err(rustix::io::Errno::INTR) => Ok(Ready { request: false, message: true }),
            Err(why) => Err(why.into()),
            Ok(_) => {
                Ok(Ready { request: !both[0].revents().is_empty(), message: !both[1].revents().is_empty() })
            }
        }
    }

    /// Reads and carries out all messages of the plugin that have arrived.
    fn process_messages(&mut self, control: &UnixDatagram) -> io::Result<()> {
        control.set_nonblocking(true)?;
        loop {
            let mut datagram = [0; 5];
            let Ok(1..) = control.recv(&mut datagram) else { break };
            let [kind, bytes @ ..] = datagram;
            match kind {
                message::HOLD => self.holds = true,
                message::REPLY => self.due_bytes = u64::from(u32::from_le_bytes(bytes)).max(1),
                message::RELEASE => self.holds = false,
                _ => {}
            }
        }
        self.reply_to_due()
    }

    /// Replies to the oldest held requests up to the bytes that are due; to all of them if none are to be held.
    fn reply_to_due(&mut self) -> io::Result<()> {
        if !self.holds {
            self.due_bytes = 0;
            return self.reply_to_all_held();
        }
        let mut due = Vec::new();
        while self.due_bytes > 0
            && let Some(request) = self.held.pop_front()
        {
            self.due_bytes = self.due_bytes.saturating_sub(u64::from(request.bytes).max(1));
            due.push(request);
        }
        self.send_replies(&due)
    }

    /// Reads one request, queues it and sends the replies that are due.
    fn read_request(&mut self) -> io::Result<Phase> {
        let mut header = [0; 28];
        match self.stream.read_exact(&mut header) {
            Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => return Ok(Phase::Ended),
            other => other?,
        }
        let field =
            |from: usize, to: usize| header[from..to].iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
        let (magic, command, bytes) = (field(0, 4) as u32, field(6, 8) as u16, field(24, 28) as u32);
        let (cookie, offset) = (field(8, 16), field(16, 24));
        if magic != REQUEST_MAGIC || bytes > REQUEST_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not an NBD request"));
        }
        match command {
            COMMAND_DISCONNECT => return Ok(Phase::Ended),
            COMMAND_READ => self.held.push_back(Request { cookie, offset, bytes, data_bytes: bytes }),
            COMMAND_WRITE => {
                io::copy(&mut (&self.stream).take(bytes.into()), &mut io::sink())?;
                self.held.push_back(Request { cookie, offset, bytes, data_bytes: 0 });
            }
            _ => self.held.push_back(Request { cookie, offset, bytes: 0, data_bytes: 0 }),
        }
        self.reply_to_due()?;
        Ok(Phase::Continues)
    }

    fn reply_to_all_held(&mut self) -> io::Result<()> {
        let held: Vec<Request> = std::mem::take(&mut self.held).into();
        self.send_replies(&held)
    }

    /// Sends the replies in one write, so that QEMU processes them together.
    fn send_replies(&mut self, requests: &[Request]) -> io::Result<()> {
        let replies: Vec<u8> = requests.iter().flat_map(|request| self.reply(request)).collect();
        self.stream.write_all(&replies)
    }

    /// Encodes a request's reply: zeros, as a hole if the client negotiated structured replies.
    fn reply(&self, &Request { cookie, offset, data_bytes, .. }: &Request) -> Vec<u8> {
        let mut reply = Vec::new();
        if self.structured_replies && data_bytes > 0 {
            reply.extend(CHUNK_MAGIC.to_be_bytes());
            // In two chunks: QEMU 7.2 may report a hole that is marked as the last chunk only when the reply to another
            // request arrives.
            reply.extend(0_u16.to_be_bytes());
            reply.extend(CHUNK_HOLE.to_be_bytes());
            reply.extend(cookie.to_be_bytes());
            reply.extend(12_u32.to_be_bytes());
            reply.extend(offset.to_be_bytes());
            reply.extend(data_bytes.to_be_bytes());
            reply.extend(CHUNK_MAGIC.to_be_bytes());
            reply.extend(CHUNK_DONE.to_be_bytes());
            reply.extend(CHUNK_NOTHING.to_be_bytes());
            reply.extend(cookie.to_be_bytes());
            reply.extend(0_u32.to_be_bytes());
        } else {
            reply.extend(REPLY_MAGIC.to_be_bytes());
            reply.extend(0_u32.to_be_bytes());
            reply.extend(cookie.to_be_bytes());
            reply.resize(reply.len() + data_bytes as usize, 0);
        }
        reply
    }

    /// Reads a big-endian number from the client.
    fn read_u32(&mut self) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.stream.read_exact(&mut bytes)?;
        Ok(u32::from_be_bytes(bytes))
    }
}

/// What poll(2) reports as readable.
struct Ready {
    /// The NBD socket.
    request: bool,
    /// The plugin's control socket.
    message: bool,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use std::time::Duration;

    /// Connects as a client that asks for the export and gets its size.
    fn client(disk: &Disk) -> UnixStream {
        let mut stream = UnixStream::connect(disk.socket()).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting[..16], NEGOTIATION);
        stream.write_all(&3_u32.to_be_bytes()).unwrap();
        stream.write_all(OPTION_MAGIC).unwrap();
        stream.write_all(&[0, 0, 0, 1, 0, 0, 0, 0]).unwrap();
        let mut export = [0; 10];
        stream.read_exact(&mut export).unwrap();
        assert_eq!(export[..8], DISK_BYTES.to_be_bytes());
        stream
    }

    /// Sends a read request at offset 0.
    fn send_read(stream: &mut UnixStream, cookie: u64, bytes: u32) {
        let mut request = REQUEST_MAGIC.to_be_bytes().to_vec();
        request.extend([0, 0, 0, 0]);
        request.extend(cookie.to_be_bytes());
        request.extend(0_u64.to_be_bytes());
        request.extend(bytes.to_be_bytes());
        stream.write_all(&request).unwrap();
    }

    /// The cookie of the next reply; `None` if none arrives within the socket's timeout.
    fn reply_cookie(stream: &mut UnixStream, bytes: usize) -> Option<u64> {
        let mut reply = vec![0; 16 + bytes];
        stream.read_exact(&mut reply).ok()?;
        Some(u64::from_be_bytes(reply[8..16].try_into().unwrap()))
    }

    #[test]
    fn replies_at_once_until_requests_are_held_and_then_on_the_plugin_s_message() {
        let disk = Disk::serve().unwrap();
        let plugin = UnixDatagram::unbound().unwrap();
        let mut stream = client(&disk);
        send_read(&mut stream, 7, 512);
        assert_eq!(reply_cookie(&mut stream, 512), Some(7));
        plugin.send_to(&[message::HOLD], disk.control()).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        send_read(&mut stream, 8, 512);
        send_read(&mut stream, 9, 512);
        assert_eq!(reply_cookie(&mut stream, 512), None, "held");
        plugin.send_to(&[message::REPLY], disk.control()).unwrap();
        assert_eq!(reply_cookie(&mut stream, 512), Some(8));
        assert_eq!(reply_cookie(&mut stream, 512), None, "one at a time");
        plugin.send_to(&[message::REPLY], disk.control()).unwrap();
        assert_eq!(reply_cookie(&mut stream, 512), Some(9));
        plugin.send_to(&[message::REPLY], disk.control()).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        send_read(&mut stream, 10, 512);
        assert_eq!(reply_cookie(&mut stream, 512), Some(10), "the message arrived before the request");
        send_read(&mut stream, 11, 512);
        plugin.send_to(&[message::REPLY, 0, 4, 0, 0], disk.control()).unwrap();
        assert_eq!(reply_cookie(&mut stream, 512), Some(11));
        send_read(&mut stream, 12, 512);
        send_read(&mut stream, 13, 512);
        assert_eq!(reply_cookie(&mut stream, 512), Some(12), "the rest of 1,024 bytes");
        assert_eq!(reply_cookie(&mut stream, 512), None);
    }

    #[test]
    fn requests_held_too_long_are_completed() {
        let disk = Disk::serve().unwrap();
        let mut stream = client(&disk);
        UnixDatagram::unbound().unwrap().send_to(&[message::HOLD], disk.control()).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        send_read(&mut stream, 8, 0);
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        assert_eq!(reply_cookie(&mut stream, 0), Some(8));
    }

    #[test]
    fn a_disk_without_a_client_does_not_hang_and_invalid_options_end_the_connection() {
        drop(Disk::serve().unwrap());
        let disk = Disk::serve().unwrap();
        let mut stream = UnixStream::connect(disk.socket()).unwrap();
        stream.write_all(&[0xff; 200]).unwrap();
        drop(stream);
    }
}
