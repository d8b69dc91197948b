//! Clients that do not keep to the broker's protocol, written from its description: sockets, words in memory, and no more.

#![cfg(all(target_os = "linux", not(loom)))]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "support/serving.rs"]
mod serving;
mod support;

use dma::{ByteOrder, MemoryAddress, Ram};
use nvme::broker::{Broker, BrokerEvent, Limits, ServedDisk, Share};
use nvme::chunk::{Chunk, DiskPath};
use nvme::emulated::Emulated;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recvmsg, send, socket_with,
};
use serving::Serving;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 64;
/// The share's first block of the namespace, which has as many before and behind it.
const FIRST: u64 = 32;
const SLOTS: u64 = 4;
/// As `area.rs` describes it.
const REQUEST_COUNT: u64 = 0;
const RESULT_COUNT: u64 = 256;
const REQUESTS: u64 = 512;
const RESULTS: u64 = REQUESTS + SLOTS * 32;
const BUFFERS: u64 = 4096;
const MAGIC: u64 = u64::from_le_bytes(*b"iotoll\x00\x03");
const READ: u64 = 1;
const WRITE: u64 = 2;
const WRITE_ZEROES: u64 = 3;
const DEALLOCATE: u64 = 4;
const REFUSED: u64 = 2 << 32;

/// Runs a test against a broker whose namespace holds the byte 7 everywhere, and looks afterwards that nothing around the share has changed.
fn with_broker(test: impl FnOnce(&Path, &Emulated, &mpsc::Receiver<BrokerEvent>)) {
    let bench = support::bench_with(BLOCKS + 2 * FIRST, 12);
    let folder = tempfile::tempdir().unwrap();
    let socket: PathBuf = folder.path().join("socket");
    let namespace = bench.controller.namespaces()[0];
    let controller = Arc::new(Mutex::new(bench.controller));
    fill(&controller, namespace);
    let share = Share { socket: socket.clone(), first: FIRST, blocks: BLOCKS, is_writable: true };
    let broker =
        Broker::new(vec![DiskPath::polled(controller, namespace)], vec![share], Limits::default()).unwrap();
    let (sender, events) = mpsc::channel();
    let sender = Mutex::new(sender);
    let on_event = move |event| sender.lock().unwrap().send(event).unwrap_or(());
    let serving = Serving::start(broker, Arc::new(on_event));
    test(&socket, &bench.emulated, &events);
    // Others are served all the same.
    let mut chunk: Chunk = ServedDisk::connect(&socket).unwrap().queue(4, &[]).unwrap().into();
    chunk.write(1, &[9; BLOCK]).unwrap();
    let mut read = [0; BLOCK];
    chunk.read(1, &mut read).unwrap();
    assert_eq!(read, [9; BLOCK]);
    drop((chunk, serving));
    let disk = bench.emulated.disk();
    let end = ((FIRST + BLOCKS) as usize) * BLOCK;
    let around = disk[..FIRST as usize * BLOCK].iter().chain(&disk[end..]);
    assert!(around.copied().all(|byte| byte == 7), "a block that is not of the share has changed");
}

fn fill(controller: &Arc<Mutex<nvme::Controller>>, namespace: nvme::Namespace) {
    use nvme::chunk::{Drive, RetryPolicy, Waiting};
    let controller = Arc::clone(controller);
    let drive = Drive::open(controller, namespace, 4, 4096, Waiting::Polling, RetryPolicy::default());
    let mut chunk = Chunk::from(drive.unwrap());
    chunk.write(0, &vec![7; (namespace.format.blocks as usize) * BLOCK]).unwrap();
    chunk.close().unwrap();
}

/// A client in raw words.
struct Raw {
    ram: Ram,
    requested: OwnedFd,
    completed: OwnedFd,
    requests: u64,
    results: u64,
}

fn raw_socket(path: &Path) -> OwnedFd {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}

fn hello(slots: u64) -> Vec<u8> {
    [MAGIC, slots, 0, 0, 0, 0, 0, 0].into_iter().flat_map(u64::to_le_bytes).collect()
}

impl Raw {
    fn new(path: &Path) -> Self {
        let socket = raw_socket(path);
        send(&socket, &hello(SLOTS), SendFlags::empty()).unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut about = [0; 64];
        let received =
            recvmsg(&socket, &mut [IoSliceMut::new(&mut about)], &mut ancillary, RecvFlags::empty()).unwrap();
        assert_eq!(received.bytes, 64);
        let mut files = ancillary.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => files.collect::<Vec<OwnedFd>>(),
            _ => Vec::new(),
        });
        let ram = Ram::of_file(files.next().unwrap().as_fd()).unwrap();
        let (requested, completed) = (files.next().unwrap(), files.next().unwrap());
        Self { ram, requested, completed, requests: 0, results: 0 }
    }

    fn word(&self, at: u64) -> u64 {
        self.ram.read_u64(MemoryAddress(self.ram.base().0 + at), ByteOrder::Little).unwrap()
    }

    fn set_word(&self, at: u64, value: u64) {
        self.ram.write_u64(MemoryAddress(self.ram.base().0 + at), ByteOrder::Little, value).unwrap();
    }

    /// Writes a request, and wakes the broker.
    fn request(&mut self, slot: u64, kind: u64, first: u64, blocks: u64) {
        let at = REQUESTS + self.requests % SLOTS * 32;
        for (word, value) in (0..).zip([slot | kind << 16, first, blocks, 0]) {
            self.set_word(at + word * 8, value);
        }
        self.requests += 1;
        self.show(self.requests);
    }

    fn show(&self, count: u64) {
        self.set_word(REQUEST_COUNT, count);
        rustix::io::write(&self.requested, &1_u64.to_ne_bytes()).unwrap();
    }

    /// The next result: slot and outcome.
    fn result(&mut self) -> (u64, u64) {
        let begun = Instant::now();
        while self.word(RESULT_COUNT) == self.results {
            assert!(begun.elapsed() < Duration::from_secs(20), "no result");
            thread::yield_now();
        }
        let at = RESULTS + self.results % SLOTS * 16;
        self.results += 1;
        (self.word(at), self.word(at + 8))
    }

    /// Waits until the broker has closed its side.
    fn is_dropped(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let timeout = Timespec { tv_sec: 20, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.completed, PollFlags::empty())], Some(&timeout)).unwrap() == 1
    }
}

/// Waits until so many clients have left.
fn wait_for_departures(events: &mpsc::Receiver<BrokerEvent>, number: usize) {
    let mut left = 0;
    while left < number {
        let event = events.recv_timeout(Duration::from_secs(20)).unwrap();
        left += usize::from(matches!(event, BrokerEvent::Left { .. }));
    }
}

/// A client makes the files that it shares with the broker block, and fills them: the broker waits for none of them.
#[test]
fn files_that_block_hold_nobody_up() {
    use rustix::fs::{OFlags, fcntl_setfl};
    with_broker(|socket, _, events| {
        let mut raw = Raw::new(socket);
        for file in [&raw.requested, &raw.completed] {
            fcntl_setfl(file, OFlags::empty()).unwrap();
        }
        // It sleeps, and is to be woken each time, but never looks.
        for _ in 0..2000 {
            raw.set_word(RESULT_COUNT + 128, 1);
            raw.request(0, READ, 0, 1);
            raw.result();
        }
        rustix::io::read(&raw.requested, &mut [0; 8]).unwrap();
        raw.request(0, READ, 0, 1);
        raw.result();
        drop(raw);
        wait_for_departures(events, 1);
    });
}

#[test]
fn the_description_is_true() {
    with_broker(|socket, emulated, _| {
        let mut raw = Raw::new(socket);
        let at = MemoryAddress(raw.ram.base().0 + BUFFERS + 2 * (32 << 10));
        raw.ram.write(at, &[5; BLOCK]).unwrap();
        raw.request(2, WRITE, 3, 1);
        assert_eq!(raw.result(), (2, 0));
        assert!(emulated.disk()[(FIRST as usize + 3) * BLOCK..][..BLOCK].iter().all(|byte| *byte == 5));
        raw.request(1, READ, 2, 2);
        assert_eq!(raw.result(), (1, 0));
        let mut read = vec![0; 2 * BLOCK];
        raw.ram.read(MemoryAddress(raw.ram.base().0 + BUFFERS + (32 << 10)), &mut read).unwrap();
        assert!(read[..BLOCK].iter().all(|byte| *byte == 7) && read[BLOCK..].iter().all(|byte| *byte == 5));
    });
}

#[test]
fn blocks_outside_the_share_are_refused() {
    with_broker(|socket, _, _| {
        let mut raw = Raw::new(socket);
        for kind in [READ, WRITE, WRITE_ZEROES, DEALLOCATE] {
            for (first, blocks) in [
                (BLOCKS, 1),
                (BLOCKS - 1, 2),
                (0, BLOCKS + 1),
                (0, 0),
                (u64::MAX, 1),
                (u64::MAX - FIRST + 1, 1),
                (0, u64::MAX),
                (1, u64::MAX),
            ] {
                raw.request(3, kind, first, blocks);
                assert_eq!(raw.result(), (3, REFUSED), "{kind} {first} {blocks}");
            }
        }
        // Longer than a buffer: the data would be the next slot's.
        for kind in [READ, WRITE] {
            raw.request(0, kind, 0, 9);
            assert_eq!(raw.result(), (0, REFUSED));
            raw.request(0, kind, 0, 8);
            assert_eq!(raw.result(), (0, 0));
        }
    });
}

#[test]
fn a_client_that_sends_what_can_t_be_is_dropped() {
    with_broker(|socket, _, events| {
        let wrong: [fn(&mut Raw); 6] = [
            |raw| raw.request(SLOTS, READ, 0, 1),
            |raw| raw.request(0xffff, READ, 0, 1),
            |raw| raw.request(0, 0, 0, 1),
            |raw| raw.request(0, 7, 0, 1),
            |raw| raw.show(SLOTS + 1),
            |raw| raw.show(u64::MAX),
        ];
        for (number, wrong) in wrong.iter().enumerate() {
            let mut raw = Raw::new(socket);
            wrong(&mut raw);
            assert!(raw.is_dropped(), "{number}");
        }
        // One slot for two requests at once: the second must not get the first one's buffer. Both are written before the broker looks.
        let mut raw = Raw::new(socket);
        let [first, second] = [REQUESTS, REQUESTS + 32];
        for at in [first, second] {
            (0..).zip([WRITE << 16, 0, 1, 0]).for_each(|(word, value)| raw.set_word(at + word * 8, value));
        }
        raw.requests = 2;
        raw.show(2);
        assert!(raw.is_dropped());
        // Requests without end, each of which is refused at once, so that its slot is free again.
        let raw = Raw::new(socket);
        for slot in 0..SLOTS {
            let at = REQUESTS + slot * 32;
            (0..)
                .zip([READ << 16 | slot, 0, 0, 0])
                .for_each(|(word, value)| raw.set_word(at + word * 8, value));
        }
        raw.show(u64::MAX);
        assert!(raw.is_dropped());
        // Nothing can be left in the broker's sockets for it to close.
        let raw = Raw::new(socket);
        assert_eq!(send(&raw.completed, &hello(1), SendFlags::NOSIGNAL), Err(rustix::io::Errno::PIPE));
        drop(raw);
        wait_for_departures(events, 9);
    });
}

/// Connections that say nothing, or nonsense, are closed and keep nobody else out.
#[test]
fn strangers_keep_nobody_out() {
    with_broker(|socket, _, events| {
        let silent: Vec<OwnedFd> = (0..100).map(|_| raw_socket(socket)).collect();
        let nonsense = raw_socket(socket);
        send(&nonsense, b"GET / HTTP/1.1", SendFlags::empty()).unwrap();
        let mut other_version = hello(1);
        other_version[7] = 1;
        let other = raw_socket(socket);
        send(&other, &other_version, SendFlags::empty()).unwrap();
        let mut answer = [0; 64];
        for socket in [&nonsense, &other] {
            assert_eq!(rustix::io::read(socket, &mut answer), Ok(0));
        }
        ServedDisk::connect(socket).unwrap().queue(1, &[]).unwrap();
        let refused =
            || matches!(events.recv_timeout(Duration::from_secs(20)), Ok(BrokerEvent::Refused { .. }));
        assert!((0..102).filter(|_| refused()).count() > 64);
        drop(silent);
    });
}

/// `test -S` does not connect, but other tools look so whether somebody listens.
#[test]
fn who_only_connects_is_not_refused() {
    with_broker(|socket, _, events| {
        drop(raw_socket(socket));
        // Connections are answered in their order.
        let nonsense = raw_socket(socket);
        send(&nonsense, b"GET / HTTP/1.1", SendFlags::empty()).unwrap();
        assert_eq!(rustix::io::read(&nonsense, &mut [0; 64][..]), Ok(0));
        drop(Raw::new(socket));
        let event = || events.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(matches!(event(), BrokerEvent::Refused { why } if why.ends_with("another protocol")));
        assert!(matches!(event(), BrokerEvent::Came { .. }), "no more was refused");
    });
}

/// Whatever words a client writes, nothing outside its share and its memory changes, and the broker goes on.
#[test]
fn random_words_harm_nobody_else() {
    with_broker(|socket, _, _| {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        for _ in 0..30 {
            let mut raw = Raw::new(socket);
            for _ in 0..40 {
                let first = [next(BLOCKS + 4), u64::MAX - next(200)][next(8) as usize / 7];
                let slots = SLOTS + next(40) / 39;
                let (slot, kind) = (next(slots), 1 + next(5) + next(40) / 39);
                let blocks = next(12);
                raw.request(slot, kind, first, blocks);
                let at = next(4096) / 8 * 8;
                if next(4) == 0 {
                    raw.set_word(at, next(u64::MAX));
                }
                if next(3) == 0 {
                    thread::yield_now();
                }
            }
        }
    });
}
