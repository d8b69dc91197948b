//! The measured disk: it holds nothing, and answers when it is told to.
//!
//! A disk that answers in its own time makes a guest's path depend on the machine that QEMU runs on: the answer
//! comes before the guest idles, or after. This one is served to QEMU over the NBD protocol (`proto.md` of
//! NetworkBlockDevice/nbd: fixed newstyle negotiation, holes as structured replies) and keeps requests until the plugin, holding
//! the idle guest, asks for the answers. Until recording begins, and after it ended, it answers at once.
//!
//! Reads give zeros and writes are forgotten: the data do not matter to who counts instructions.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread::JoinHandle;

/// Size of the disk.
const DISK_BYTES: u64 = 1 << 30;
/// A guest that waits for an answer without idling gets it after this: longer than a busy machine keeps one from idling.
const HELD_MAX: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };
/// No request of QEMU's NVMe controller is longer.
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
/// Has flags, and takes flush.
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

/// What the plugin says, a byte each.
mod word {
    /// Keep requests from now on.
    pub(super) const HOLD: u8 = b'H';
    /// Answer the oldest that is kept, or the next that comes, and those after it until as many bytes are answered as
    /// the four bytes after this one say: QEMU may make several requests of one of the guest's.
    pub(super) const ANSWER: u8 = b'A';
    /// Answer at once from now on.
    pub(super) const FREE: u8 = b'F';
}

/// A disk that is being served, until QEMU lets it go.
pub struct Disk {
    folder: tempfile::TempDir,
    server: Option<JoinHandle<io::Result<()>>>,
}

impl Disk {
    /// Serves a disk.
    ///
    /// # Errors
    /// If its sockets can't be made.
    pub fn serve() -> io::Result<Self> {
        // Apart from the run's other files: a socket's name must be short.
        let folder = tempfile::Builder::new().prefix("iotoll-disk-").tempdir()?;
        let listener = UnixListener::bind(folder.path().join("disk"))?;
        let control = UnixDatagram::bind(folder.path().join("control"))?;
        let server = std::thread::spawn(move || accept(&listener, &control));
        Ok(Self { folder, server: Some(server) })
    }

    /// The socket that QEMU connects to.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    /// The socket that the plugin talks to.
    pub fn control(&self) -> PathBuf {
        self.folder.path().join("control")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // QEMU is gone by now; if it never came, a caller that leaves at once ends the waiting.
        let woken = UnixStream::connect(self.socket()).is_ok();
        // Whoever tidies temporary folders may have taken the socket: then nothing wakes it but the program's end.
        if let Some(server) = self.server.take().filter(|_| woken) {
            let _ = server.join();
        }
    }
}

fn accept(listener: &UnixListener, control: &UnixDatagram) -> io::Result<()> {
    let (stream, _) = listener.accept()?;
    let mut session =
        Session { stream, held: VecDeque::new(), holds: false, owed_bytes: 0, tells_holes: false };
    session.negotiate()?;
    session.serve(control)
}

/// A request that waits for its answer.
struct Request {
    cookie: u64,
    offset: u64,
    bytes: u32,
    /// Of these, bytes to answer with.
    data_bytes: u32,
}

/// What comes next on a connection.
enum Next {
    More,
    Over,
}

struct Session {
    stream: UnixStream,
    held: VecDeque<Request>,
    holds: bool,
    /// Bytes whose answer was asked for and that are not answered; a request without any counts as one.
    owed_bytes: u64,
    /// The other side understands that what it reads is all zeros, without being sent them. QEMU does; from one that
    /// is being sent more than a socket takes at a time, the answer may come only with the next one.
    tells_holes: bool,
}

impl Session {
    fn negotiate(&mut self) -> io::Result<()> {
        self.stream.write_all(NEGOTIATION)?;
        self.stream.write_all(&HANDSHAKE_FLAGS.to_be_bytes())?;
        let _client_flags = self.u32()?;
        while let Next::More = self.option()? {}
        Ok(())
    }

    fn option(&mut self) -> io::Result<Next> {
        let mut magic = [0; OPTION_MAGIC.len()];
        self.stream.read_exact(&mut magic)?;
        let (option, bytes) = (self.u32()?, self.u32()?);
        if &magic != OPTION_MAGIC || bytes > OPTION_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no NBD option"));
        }
        io::copy(&mut (&self.stream).take(bytes.into()), &mut io::sink())?;
        match option {
            OPTION_EXPORT_NAME => {
                self.stream.write_all(&DISK_BYTES.to_be_bytes())?;
                self.stream.write_all(&EXPORT_FLAGS.to_be_bytes())?;
                Ok(Next::Over)
            }
            OPTION_INFO | OPTION_GO => {
                let mut info = vec![0, 0];
                info.extend(DISK_BYTES.to_be_bytes());
                info.extend(EXPORT_FLAGS.to_be_bytes());
                self.option_reply(option, REPLY_INFO, &info)?;
                self.option_reply(option, REPLY_ACK, &[])?;
                Ok(if option == OPTION_GO { Next::Over } else { Next::More })
            }
            OPTION_STRUCTURED_REPLY => {
                self.tells_holes = true;
                self.option_reply(option, REPLY_ACK, &[])?;
                Ok(Next::More)
            }
            OPTION_ABORT => {
                self.option_reply(option, REPLY_ACK, &[])?;
                Err(io::ErrorKind::ConnectionAborted.into())
            }
            _ => {
                self.option_reply(option, REPLY_UNSUPPORTED, &[])?;
                Ok(Next::More)
            }
        }
    }

    fn option_reply(&mut self, option: u32, reply: u32, data: &[u8]) -> io::Result<()> {
        let mut bytes = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
        bytes.extend(option.to_be_bytes());
        bytes.extend(reply.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        self.stream.write_all(&bytes)
    }

    fn serve(&mut self, control: &UnixDatagram) -> io::Result<()> {
        loop {
            let (asked, told) = self.wait(control)?;
            if !asked && !told {
                self.answer_all()?;
            }
            if told {
                self.obey(control)?;
            }
            if asked && let Next::Over = self.request()? {
                return Ok(());
            }
        }
    }

    /// Whether QEMU asks for something, and whether the plugin says something. Neither: it took too long.
    fn wait(&self, control: &UnixDatagram) -> io::Result<(bool, bool)> {
        let mut both = [PollFd::new(&self.stream, PollFlags::IN), PollFd::new(control, PollFlags::IN)];
        let limit = (!self.held.is_empty()).then_some(&HELD_MAX);
        match poll(&mut both, limit) {
            Err(rustix::io::Errno::INTR) => Ok((false, true)),
            Err(why) => Err(why.into()),
            Ok(_) => Ok((!both[0].revents().is_empty(), !both[1].revents().is_empty())),
        }
    }

    fn obey(&mut self, control: &UnixDatagram) -> io::Result<()> {
        control.set_nonblocking(true)?;
        loop {
            let mut said = [0; 5];
            let Ok(1..) = control.recv(&mut said) else { break };
            let [word, bytes @ ..] = said;
            match word {
                word::HOLD => self.holds = true,
                word::ANSWER => self.owed_bytes = u64::from(u32::from_le_bytes(bytes)).max(1),
                word::FREE => self.holds = false,
                _ => {}
            }
        }
        self.pay()
    }

    /// Answers what is due.
    fn pay(&mut self) -> io::Result<()> {
        if !self.holds {
            self.owed_bytes = 0;
            return self.answer_all();
        }
        let mut due = Vec::new();
        while self.owed_bytes > 0
            && let Some(request) = self.held.pop_front()
        {
            self.owed_bytes = self.owed_bytes.saturating_sub(u64::from(request.bytes).max(1));
            due.push(request);
        }
        self.answer(&due)
    }

    fn request(&mut self) -> io::Result<Next> {
        let mut header = [0; 28];
        match self.stream.read_exact(&mut header) {
            Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => return Ok(Next::Over),
            other => other?,
        }
        let field =
            |from: usize, to: usize| header[from..to].iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
        let (magic, command, bytes) = (field(0, 4) as u32, field(6, 8) as u16, field(24, 28) as u32);
        let (cookie, offset) = (field(8, 16), field(16, 24));
        if magic != REQUEST_MAGIC || bytes > REQUEST_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no NBD request"));
        }
        match command {
            COMMAND_DISCONNECT => return Ok(Next::Over),
            COMMAND_READ => self.held.push_back(Request { cookie, offset, bytes, data_bytes: bytes }),
            COMMAND_WRITE => {
                io::copy(&mut (&self.stream).take(bytes.into()), &mut io::sink())?;
                self.held.push_back(Request { cookie, offset, bytes, data_bytes: 0 });
            }
            _ => self.held.push_back(Request { cookie, offset, bytes: 0, data_bytes: 0 }),
        }
        self.pay()?;
        Ok(Next::More)
    }

    fn answer_all(&mut self) -> io::Result<()> {
        let held: Vec<Request> = std::mem::take(&mut self.held).into();
        self.answer(&held)
    }

    /// In one piece, so that what comes together is seen together.
    fn answer(&mut self, requests: &[Request]) -> io::Result<()> {
        let replies: Vec<u8> = requests.iter().flat_map(|request| self.reply(request)).collect();
        self.stream.write_all(&replies)
    }

    fn reply(&self, &Request { cookie, offset, data_bytes, .. }: &Request) -> Vec<u8> {
        let mut reply = Vec::new();
        if self.tells_holes && data_bytes > 0 {
            reply.extend(CHUNK_MAGIC.to_be_bytes());
            // In two chunks: of one that says that it is the last, QEMU 7.2 may tell the guest only when the answer to
            // another request comes.
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

    fn u32(&mut self) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.stream.read_exact(&mut bytes)?;
        Ok(u32::from_be_bytes(bytes))
    }
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

    fn ask(stream: &mut UnixStream, cookie: u64, bytes: u32) {
        let mut request = REQUEST_MAGIC.to_be_bytes().to_vec();
        request.extend([0, 0, 0, 0]);
        request.extend(cookie.to_be_bytes());
        request.extend(0_u64.to_be_bytes());
        request.extend(bytes.to_be_bytes());
        stream.write_all(&request).unwrap();
    }

    fn answered(stream: &mut UnixStream, bytes: usize) -> Option<u64> {
        let mut reply = vec![0; 16 + bytes];
        stream.read_exact(&mut reply).ok()?;
        Some(u64::from_be_bytes(reply[8..16].try_into().unwrap()))
    }

    #[test]
    fn answers_at_once_until_told_to_hold_and_then_when_told() {
        let disk = Disk::serve().unwrap();
        let plugin = UnixDatagram::unbound().unwrap();
        let mut stream = client(&disk);
        ask(&mut stream, 7, 512);
        assert_eq!(answered(&mut stream, 512), Some(7));
        plugin.send_to(&[word::HOLD], disk.control()).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        ask(&mut stream, 8, 512);
        ask(&mut stream, 9, 512);
        assert_eq!(answered(&mut stream, 512), None, "held");
        plugin.send_to(&[word::ANSWER], disk.control()).unwrap();
        assert_eq!(answered(&mut stream, 512), Some(8));
        assert_eq!(answered(&mut stream, 512), None, "one at a time");
        plugin.send_to(&[word::ANSWER], disk.control()).unwrap();
        assert_eq!(answered(&mut stream, 512), Some(9));
        plugin.send_to(&[word::ANSWER], disk.control()).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        ask(&mut stream, 10, 512);
        assert_eq!(answered(&mut stream, 512), Some(10), "asked for before it came");
        ask(&mut stream, 11, 512);
        plugin.send_to(&[word::ANSWER, 0, 4, 0, 0], disk.control()).unwrap();
        assert_eq!(answered(&mut stream, 512), Some(11));
        ask(&mut stream, 12, 512);
        ask(&mut stream, 13, 512);
        assert_eq!(answered(&mut stream, 512), Some(12), "the rest of 1,024 bytes");
        assert_eq!(answered(&mut stream, 512), None);
    }

    #[test]
    fn what_is_held_too_long_is_answered() {
        let disk = Disk::serve().unwrap();
        let mut stream = client(&disk);
        UnixDatagram::unbound().unwrap().send_to(&[word::HOLD], disk.control()).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        ask(&mut stream, 8, 0);
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        assert_eq!(answered(&mut stream, 0), Some(8));
    }

    #[test]
    fn nobody_connecting_is_no_hang_and_nonsense_ends_it() {
        drop(Disk::serve().unwrap());
        let disk = Disk::serve().unwrap();
        let mut stream = UnixStream::connect(disk.socket()).unwrap();
        stream.write_all(&[0xff; 200]).unwrap();
        drop(stream);
    }
}
