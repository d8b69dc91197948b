//! Disks that a broker serves to other processes: blocks and memory of each stay its own, whatever a client does.

#![cfg(all(target_os = "linux", not(loom)))]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "support/serving.rs"]
mod serving;
mod support;

use nvme::broker::{Broker, BrokerError, BrokerEvent, Limits, ServedDisk, Share};
use nvme::chunk::{Chunk, ChunkError, DiskPath, Wait};
use nvme::emulated::{Emulated, Fault};
use serving::Serving;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;
/// Two shares of 256 blocks, the second of which can't be written.
const SHARE_BLOCKS: u64 = 256;

/// A broker in a thread of this process, with an emulated controller.
struct Served {
    folder: tempfile::TempDir,
    emulated: Arc<Emulated>,
    events: Arc<Mutex<Vec<BrokerEvent>>>,
    serving: Serving,
}

impl Served {
    fn new(limits: Limits) -> Self {
        let bench = support::bench_with(2 * SHARE_BLOCKS, 12);
        let folder = tempfile::tempdir().unwrap();
        let share = |name: &str, first, is_writable| Share {
            socket: folder.path().join(name),
            first,
            blocks: SHARE_BLOCKS,
            is_writable,
        };
        let shares = vec![share("one", 0, true), share("other", SHARE_BLOCKS, false)];
        let namespace = bench.controller.namespaces()[0];
        let controller = Arc::new(Mutex::new(bench.controller));
        let broker = Broker::new(vec![DiskPath::polled(controller, namespace)], shares, limits).unwrap();
        let events = Arc::new(Mutex::new(Vec::new()));
        let its_events = Arc::clone(&events);
        let serving = Serving::start(broker, Arc::new(move |event| its_events.lock().unwrap().push(event)));
        Self { folder, emulated: bench.emulated, events, serving }
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn chunk(&self, name: &str) -> Chunk {
        ServedDisk::connect(&self.socket(name)).unwrap().queue(16, &[]).unwrap().into()
    }

    /// Waits until as many events are there as `wanted` accepts.
    fn wait_for(&self, wanted: impl Fn(&[BrokerEvent]) -> bool) {
        let begun = Instant::now();
        while !wanted(&self.events.lock().unwrap()) {
            assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", self.events.lock().unwrap());
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn wait_for_departures(&self, number: usize) {
        self.wait_for(|events| {
            events.iter().filter(|event| matches!(event, BrokerEvent::Left { .. })).count() == number
        });
    }
}

fn data(seed: u64, blocks: usize) -> Vec<u8> {
    (0..blocks * BLOCK / 8).flat_map(|word| (seed << 32 | word as u64).to_le_bytes()).collect()
}

#[test]
fn blocks_come_back_through_a_broker() {
    let served = Served::new(Limits::default());
    let disk = ServedDisk::connect(&served.socket("one")).unwrap();
    assert_eq!((disk.blocks(), disk.block_shift(), disk.is_writable()), (SHARE_BLOCKS, 12, true));
    let mut chunk: Chunk = disk.queue(16, &[]).unwrap().into();
    assert_eq!((chunk.blocks(), chunk.requests()), (SHARE_BLOCKS, 16));
    // Longer than a request, and more of them than there are slots.
    let (long, mut read) = (data(1, 200), vec![0; 200 * BLOCK]);
    chunk.write(7, &long).unwrap();
    chunk.flush().unwrap();
    chunk.read(7, &mut read).unwrap();
    assert!(read == long);
    chunk.write_zeroes(8, 2).unwrap();
    chunk.deallocate(20, 3).unwrap();
    chunk.read(7, &mut read[..4 * BLOCK]).unwrap();
    assert!(read[..BLOCK] == long[..BLOCK] && read[3 * BLOCK..4 * BLOCK] == long[3 * BLOCK..4 * BLOCK]);
    assert!(read[BLOCK..3 * BLOCK].iter().all(|byte| *byte == 0));
    assert!(matches!(chunk.read(250, &mut read[..7 * BLOCK]), Err(ChunkError::OutOfRange { .. })));
    chunk.close().unwrap();
    served.wait_for_departures(1);
}

/// The second share is other blocks of the namespace, and may only be read.
#[test]
fn shares_are_parts_of_the_namespace() {
    let mut served = Served::new(Limits::default());
    let (mut one, mut other) = (served.chunk("one"), served.chunk("other"));
    let mut read = vec![1; BLOCK];
    one.write(SHARE_BLOCKS - 1, &data(1, 1)).unwrap();
    other.read(0, &mut read).unwrap();
    assert!(read.iter().all(|byte| *byte == 0));
    assert!(matches!(other.write(0, &data(2, 1)), Err(ChunkError::Refused)));
    assert!(matches!(other.write_zeroes(0, 1), Err(ChunkError::Refused)));
    assert!(matches!(other.deallocate(0, 1), Err(ChunkError::Refused)));
    other.read(0, &mut read).unwrap();
    assert!(!ServedDisk::connect(&served.socket("other")).unwrap().is_writable());
    // The broker itself has all of the namespace: its last block of the first share is there.
    served.serving.stop().unwrap().unwrap();
    assert!(matches!(one.read(0, &mut read), Err(ChunkError::Abandoned { .. })));
    assert!(!served.socket("one").exists() && !served.socket("other").exists());
    assert!(matches!(ServedDisk::connect(&served.socket("one")), Err(BrokerError::Socket { .. })));
}

#[test]
fn a_socket_is_its_owner_s_and_one_broker_s() {
    use std::os::unix::fs::PermissionsExt;
    let served = Served::new(Limits::default());
    let socket = served.socket("one");
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let open = |socket: &Path, first, blocks| {
        let bench = support::bench_with(64, 12);
        let namespace = bench.controller.namespaces()[0];
        let share = Share { socket: socket.to_owned(), first, blocks, is_writable: false };
        let controller = Arc::new(Mutex::new(bench.controller));
        Broker::new(vec![DiskPath::polled(controller, namespace)], vec![share], Limits::default())
    };
    assert!(matches!(open(&socket, 0, 64), Err(BrokerError::InUse { .. })));
    // A file that is no socket is left alone; one of a killed broker is replaced.
    let file = served.socket("file");
    std::fs::write(&file, "data").unwrap();
    let is_there = format!("{}: a file that is not a socket is there", file.display());
    assert_eq!(open(&file, 0, 64).unwrap_err().to_string(), is_there);
    assert_eq!(ServedDisk::connect(&file).unwrap_err().to_string(), is_there);
    assert_eq!(std::fs::read(&file).unwrap(), b"data");
    let left = served.socket("left");
    drop(std::os::unix::net::UnixListener::bind(&left).unwrap());
    assert!(left.exists());
    assert!(matches!(ServedDisk::connect(&left), Err(BrokerError::Socket { .. })));
    assert!(open(&left, 0, 64).is_ok());
    for (first, blocks) in [(0, 0), (0, 65), (64, 1), (u64::MAX, 2)] {
        let error = open(&served.socket("new"), first, blocks).unwrap_err();
        assert!(matches!(error, BrokerError::NoBlocks { .. }), "{error}");
    }
    // What was put in a socket's place is not removed.
    let replaced = served.socket("replaced");
    let broker = open(&replaced, 0, 64).unwrap();
    std::fs::remove_file(&replaced).unwrap();
    std::fs::write(&replaced, "data").unwrap();
    drop(broker);
    assert_eq!(std::fs::read(&replaced).unwrap(), b"data");
    let swapped = served.socket("swapped");
    let broker = open(&swapped, 0, 64).unwrap();
    std::fs::remove_file(&swapped).unwrap();
    let _other = std::os::unix::net::UnixListener::bind(&swapped).unwrap();
    drop(broker);
    assert!(swapped.exists());
    // Somebody who listens there, but is no broker.
    let stream = served.socket("stream");
    let _listener = std::os::unix::net::UnixListener::bind(&stream).unwrap();
    assert!(matches!(ServedDisk::connect(&stream), Err(BrokerError::Protocol { .. })));
}

#[test]
fn queues_are_limited_and_given_again() {
    let mut limits = Limits::default();
    limits.queues = 2;
    limits.requests = 4;
    let served = Served::new(limits);
    let disk = ServedDisk::connect(&served.socket("one")).unwrap();
    let (first, second) = (disk.queue(100, &[]).unwrap(), disk.queue(1, &[]).unwrap());
    assert_eq!(Chunk::from(first).requests(), 4);
    assert!(served.events.lock().unwrap().iter().all(|event| !matches!(event, BrokerEvent::Refused { .. })));
    let third = disk.queue(1, &[]);
    // The first was dropped just now, and its place may be free already.
    assert!(third.is_ok() || matches!(third, Err(BrokerError::Full { .. })));
    drop((second, third));
    served.wait_for(|events| {
        let count = |is: fn(&BrokerEvent) -> bool| events.iter().filter(|event| is(event)).count();
        count(|event| matches!(event, BrokerEvent::Came { .. }))
            == count(|event| matches!(event, BrokerEvent::Left { .. }))
    });
    let kept = [disk.queue(1, &[]).unwrap(), disk.queue(1, &[]).unwrap()];
    assert!(matches!(disk.queue(1, &[]), Err(BrokerError::Full { .. })));
    // Those of another share are its own.
    assert!(ServedDisk::connect(&served.socket("other")).unwrap().queue(1, &[]).is_ok());
    drop(kept);
}

#[test]
fn errors_of_the_disk_reach_the_client() {
    let mut served = Served::new(Limits::default());
    let mut chunk = served.chunk("one");
    let status = nvme::spec::status::Status(0x281);
    served.emulated.inject_at_block(9, Fault::Status(status));
    let error = chunk.read(9, &mut vec![0; BLOCK]).unwrap_err();
    assert!(matches!(error, ChunkError::Status(found) if found == status), "{error}");
    chunk.read(10, &mut vec![0; BLOCK]).unwrap();
    served.emulated.inject_at_block(11, Fault::Gone);
    assert!(chunk.write(11, &data(1, 1)).is_err());
    assert!(matches!(chunk.read(10, &mut vec![0; BLOCK]), Err(ChunkError::Abandoned { .. })));
    assert!(served.serving.stop().unwrap().is_err(), "the controller's queue can't be deleted");
}

/// Several clients with several requests each, on two threads of the broker, with time to fall asleep in between.
#[test]
fn clients_do_not_disturb_each_other() {
    let mut limits = Limits::default();
    (limits.threads, limits.requests) = (2, 8);
    let served = Served::new(limits);
    thread::scope(|scope| {
        for client in 0..6_u64 {
            let mut chunk = served.chunk("one");
            scope.spawn(move || {
                for round in 0..40_u64 {
                    let blocks = |slot: u64| client * 40 + slot;
                    let writes: Vec<_> = (0..8)
                        .map(|slot| chunk.awrite(blocks(slot), &data(client << 16 | round << 8 | slot, 1)))
                        .collect();
                    for write in writes {
                        chunk.aresult(write.unwrap(), &mut [], Wait::Yes).unwrap();
                    }
                    let reads: Vec<_> = (0..8).map(|slot| chunk.aread(blocks(slot), 1).unwrap()).collect();
                    for (slot, read) in (0..).zip(reads) {
                        let mut found = vec![0; BLOCK];
                        chunk.aresult(read, &mut found, Wait::Yes).unwrap();
                        assert!(
                            found == data(client << 16 | round << 8 | slot, 1),
                            "{client} {round} {slot}"
                        );
                    }
                    if round % 10 == 0 {
                        thread::sleep(Duration::from_millis(2));
                    }
                }
            });
        }
    });
    served.wait_for_departures(6);
}

/// A client that goes while its requests are in flight: they end, then what it holds is closed.
#[test]
fn what_a_client_holds_is_kept_until_its_requests_have_ended() {
    use rustix::fs::{FlockOperation, flock};
    let mut limits = Limits::default();
    limits.retry_policy.timeout = Duration::from_millis(200);
    let served = Served::new(limits);
    let disk = ServedDisk::connect(&served.socket("one")).unwrap();
    let open =
        || std::fs::File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(disk.locks())));
    let held = open().unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    let other = open().unwrap();
    let is_locked = || {
        let locked = flock(&other, FlockOperation::NonBlockingLockExclusive);
        flock(&other, FlockOperation::Unlock).unwrap();
        locked.is_err()
    };
    let mut chunk = Chunk::from(disk.queue(4, &[held.as_fd()]).unwrap());
    served.emulated.inject_at_block(3, Fault::Stuck);
    let stuck = chunk.awrite(3, &data(1, 1)).unwrap();
    let before = served.emulated.commands();
    chunk.awrite(4, &data(2, 1)).unwrap();
    while served.emulated.commands() == before {
        thread::yield_now();
    }
    let _ = stuck;
    drop((chunk, held));
    thread::sleep(Duration::from_millis(50));
    assert!(is_locked(), "a request is in flight that may still write");
    served.wait_for_departures(1);
    assert!(!is_locked());
    // The lock file is for locks alone, and the client's description of it is its own.
    let mut file = disk.locks();
    assert!(std::io::Write::write_all(&mut file, b"data").is_err());
    flock(disk.locks(), FlockOperation::NonBlockingLockExclusive).unwrap();
    assert!(is_locked());
    drop(disk);
    assert!(!is_locked());
    // A file that is not the share's is not taken: closing it could block the broker.
    let served = Served::new(Limits::default());
    let disk = ServedDisk::connect(&served.socket("one")).unwrap();
    let foreign = std::fs::File::open("/dev/null").unwrap();
    assert!(matches!(disk.queue(1, &[foreign.as_fd()]), Err(BrokerError::Protocol { .. })));
    assert!(disk.queue(1, &[]).is_ok());
}

#[test]
fn a_broker_that_was_started_anew_is_another() {
    let mut served = Served::new(Limits::default());
    let socket = served.socket("one");
    let disk = ServedDisk::connect(&socket).unwrap();
    served.serving.stop().unwrap().unwrap();
    let bench = support::bench_with(64, 12);
    let namespace = bench.controller.namespaces()[0];
    let share = Share { socket: socket.clone(), first: 0, blocks: 64, is_writable: false };
    let controller = Arc::new(Mutex::new(bench.controller));
    let broker =
        Broker::new(vec![DiskPath::polled(controller, namespace)], vec![share], Limits::default()).unwrap();
    let serving = Serving::start(broker, Arc::new(|_| {}));
    assert!(matches!(disk.queue(1, &[]), Err(BrokerError::Restarted { .. })));
    assert!(ServedDisk::connect(&socket).unwrap().queue(1, &[]).is_ok());
    drop(serving);
}
