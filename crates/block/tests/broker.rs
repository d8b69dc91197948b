//! Processes that share a controller through a broker: virtual LUNs, clones, and processes that are killed while they write.

#![allow(unsafe_code, reason = "fork, and memory that children share")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../../nvme/tests/support/serving.rs"]
#[allow(dead_code, reason = "other tests stop it")]
mod serving;
mod support;

use block::c_types::CBLK_OPN_VIRT_LUN;
use block::interface::chunk::{cblk_clone_after_fork, cblk_close};
use nvme::broker::{Broker, Limits, Share};
use nvme::chunk::DiskPath;
use nvme::emulated::{Emulated, Fault, Machine};
use serving::Serving;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{slice, thread};
use support::process::{fork, kill, status};
use support::{BLOCK, Chunk, error_text, pattern};

/// Held by each test: the children of one would keep connections of another open.
static ALONE: Mutex<()> = Mutex::new(());

const BLOCKS: u64 = 4096;

/// A broker in this process, whose emulated controllers it knows. Children are its clients, and this process may be one.
struct Served {
    folder: tempfile::TempDir,
    /// The controller of each path.
    emulated: Vec<Arc<Emulated>>,
    serving: Serving,
    _alone: MutexGuard<'static, ()>,
}

impl Served {
    fn new(timeout: Duration) -> Self {
        Self::by_paths(vec![Machine::builder(BLOCKS, 12).memory_bytes(32 << 20).open().unwrap()], timeout)
    }

    /// Threads of the broker sleep until an interrupt.
    fn by_paths(machines: Vec<Machine>, timeout: Duration) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        let share = |name: &str, first, is_writable| {
            let socket = folder.path().join(name);
            Share { socket, first, blocks: BLOCKS / 2, is_writable }
        };
        let shares = vec![share("disk", 0, true), share("to-read", BLOCKS / 2, false)];
        let mut limits = Limits::default();
        limits.retry_policy.timeout = timeout;
        let path = |machine: Machine| {
            let (namespace, interrupts) =
                (machine.namespace().unwrap(), Some(machine.queue_interrupts(1).unwrap()));
            let controller = Arc::new(Mutex::new(machine.controller));
            (machine.emulated, DiskPath { controller, namespace, interrupts })
        };
        let (emulated, paths) = machines.into_iter().map(path).unzip();
        let broker = Broker::new(paths, shares, limits).unwrap();
        let serving = Serving::start(broker, Arc::new(|_| {}));
        Self { folder, emulated, serving, _alone: alone }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn open(&self, flags: i32) -> Chunk {
        Chunk::open(&self.path("disk"), 0, libc::O_RDWR, flags).unwrap()
    }
}

/// Long enough for any machine.
const LONG: Duration = Duration::from_secs(30);

/// Tries until it succeeds.
fn wait_for(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LONG);
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_socket_is_opened_as_a_file_is() {
    let served = Served::new(LONG);
    let chunk = served.open(0);
    assert_eq!(chunk.write(7, &[pattern(7), pattern(8)].concat()), Ok(2));
    assert_eq!(chunk.read(8, 1), Ok(pattern(8)));
    assert_eq!(chunk.unmap(8, 1), Ok(1));
    assert_eq!(chunk.read(8, 1), Ok(vec![0; BLOCK]));
    assert_eq!(chunk.read(BLOCKS as i64 / 2, 1), Err(libc::EINVAL));
    assert_eq!(chunk.close(), Ok(0));
    let to_read = served.path("to-read");
    assert_eq!(Chunk::open(&to_read, 0, libc::O_RDWR, 0).unwrap_err(), libc::EROFS);
    let chunk = Chunk::open(&to_read, 0, libc::O_RDONLY, 0).unwrap();
    assert_eq!(chunk.read(7, 1), Ok(vec![0; BLOCK]));
    drop(chunk);
    let nobody = served.path("nobody");
    drop(std::os::unix::net::UnixListener::bind(&nobody).unwrap());
    assert!(Chunk::open(&nobody, 0, libc::O_RDWR, 0).is_err());
    let text = error_text();
    assert!(text.contains(&nobody), "{text}");
}

#[test]
fn commands_fail_when_the_broker_has_ended() {
    let mut served = Served::new(LONG);
    let chunk = served.open(0);
    assert_eq!(chunk.read(7, 1), Ok(vec![0; BLOCK]));
    assert!(matches!(served.serving.stop(), Some(Ok(()))));
    for _ in 0..2 {
        assert_eq!(chunk.read(7, 1), Err(libc::EIO));
        let text = error_text();
        assert!(text.starts_with("the read: ") && text.ends_with(": the broker has ended"), "{text}");
    }
    assert_eq!(chunk.close(), Ok(0));
}

/// A child goes on with its parent's virtual LUN, which a controller of the parent's own does not allow.
#[test]
fn a_child_goes_on_with_a_clone() {
    let served = Served::new(LONG);
    let chunk = served.open(CBLK_OPN_VIRT_LUN);
    chunk.set_size(10).unwrap();
    chunk.write(3, &pattern(3)).unwrap();
    let id = chunk.0;
    let shared = SharedWords::new(2);
    let [closed, go] = [0, 1].map(|word| &shared.words()[word]);
    for round in 1..20 {
        let child = fork(|| {
            if cblk_clone_after_fork(id, libc::O_RDWR, 0) != 0 {
                return 1;
            }
            let chunk = std::mem::ManuallyDrop::new(Chunk(id));
            if chunk.read(3, 1) != Ok(pattern(3)) || chunk.write(4, &pattern(round)) != Ok(1) {
                return 2;
            }
            let result = cblk_close(id, 0);
            closed.store(round, Ordering::Release);
            while go.load(Ordering::Acquire) != round {
                std::hint::spin_loop();
            }
            if result == 0 { 0 } else { 3 }
        });
        while closed.load(Ordering::Acquire) != round {
            std::hint::spin_loop();
        }
        // The clone was closed, so the parent may shrink at once, although the child lives.
        let shrunk = chunk.set_size(9);
        go.store(round, Ordering::Release);
        assert_eq!((status(child), shrunk), (0, Ok(0)));
        assert_eq!(chunk.read(4, 1), Ok(pattern(round)));
        chunk.set_size(10).unwrap();
    }
}

/// A process is killed while a write of its is in flight: nobody gets its blocks before that has ended.
#[test]
fn blocks_of_a_killed_process_are_kept_until_its_writes_have_ended() {
    let served = Served::new(Duration::from_millis(500));
    let all = (BLOCKS / 2) as usize;
    // The next command is the child's write.
    served.emulated[0].inject(served.emulated[0].commands(), Fault::Stuck);
    let shared = SharedWords::new(1);
    let path = served.path("disk");
    let child = fork(|| {
        let chunk = Chunk::open(&path, 0, libc::O_RDWR, CBLK_OPN_VIRT_LUN).unwrap();
        chunk.set_size(all).unwrap();
        chunk.awrite(&pattern(666), 5, 0, std::ptr::null_mut(), 0).unwrap();
        shared.words()[0].store(1, Ordering::Release);
        thread::sleep(LONG);
        0
    });
    wait_for(|| shared.words()[0].load(Ordering::Acquire) == 1);
    wait_for(|| served.emulated[0].commands() > 0);
    kill(child);
    let chunk = served.open(CBLK_OPN_VIRT_LUN);
    // The emulated controller does not execute the write until it is aborted.
    assert_eq!(chunk.set_size(all), Err(libc::ENOSPC), "the write may still arrive");
    wait_for(|| chunk.set_size(all).is_ok());
    for block in 0..16 {
        chunk.write(block, &pattern(block as u64)).unwrap();
    }
    thread::sleep(Duration::from_millis(100));
    for block in 0..16 {
        assert_eq!(chunk.read(block, 1), Ok(pattern(block as u64)), "block {block}");
    }
}

/// Words that this process shares with its children.
struct SharedWords {
    at: *mut libc::c_void,
    number: usize,
}

// SAFETY: the words are atomic.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    fn new(number: usize) -> Self {
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: without a fixed address nothing is mapped over other mappings.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), number * 8, rights, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        Self { at, number }
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: so many zeroed words are mapped there until `self` is dropped.
        unsafe { slice::from_raw_parts(self.at.cast(), self.number) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: no borrow of the words is left.
        unsafe { libc::munmap(self.at, self.number * 8) };
    }
}

const PROCESSES: usize = 4;
const THREADS: usize = 3;
const THREAD_BLOCKS: usize = 40;
const LUN_BLOCKS: usize = THREADS * THREAD_BLOCKS;
/// Processes killed, each of which another follows.
const KILLS: usize = 12;

/// A block's data: whose it is, its place, and how often it was written.
fn marked(process: u64, block: u64, version: u64) -> Vec<u8> {
    [process, block, version].into_iter().cycle().take(BLOCK / 8).flat_map(u64::to_le_bytes).collect()
}

/// Whose a block's data is, its place and version; `None` if words of it differ.
fn mark(data: &[u8]) -> Option<[u64; 3]> {
    let words: Vec<u64> = data.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    let mark = [words[0], words[1], words[2]];
    (data == marked(mark[0], mark[1], mark[2])).then_some(mark)
}

/// Writes blocks of a virtual LUN again and again from several threads until `stop`; checks each before it writes it again.
fn write_and_check(path: &str, process: u64, stop: &AtomicU64, writes: &AtomicU64) -> u8 {
    let Ok(chunk) = Chunk::open(path, 0, libc::O_RDWR, CBLK_OPN_VIRT_LUN) else { return 10 };
    if chunk.set_size(LUN_BLOCKS).is_err() {
        return 11;
    }
    let failed = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (chunk, failed) = (&chunk, &failed);
            scope.spawn(move || {
                for version in 0.. {
                    for block in
                        (thread * THREAD_BLOCKS..(thread + 1) * THREAD_BLOCKS).map(|block| block as u64)
                    {
                        if stop.load(Ordering::Relaxed) != 0 || failed.load(Ordering::Relaxed) != 0 {
                            return;
                        }
                        // What was acknowledged last is there, whole, and nobody else's.
                        if version > 0 {
                            match chunk.read(block as i64, 1) {
                                Ok(data) if mark(&data) == Some([process, block, version - 1]) => {}
                                Ok(_) => failed.store(20, Ordering::Relaxed),
                                Err(_) => failed.store(21, Ordering::Relaxed),
                            }
                        }
                        if chunk.write(block as i64, &marked(process, block, version)) != Ok(1) {
                            failed.store(22, Ordering::Relaxed);
                        }
                        writes.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    failed.load(Ordering::Relaxed) as u8
}

/// Several processes with several threads write, while the controller fails, commands are lost, it is reset, and processes are killed. No
/// acknowledged write is lost, and nobody's block is touched by another.
#[test]
fn processes_with_faults_lose_nothing() {
    run_processes_with_faults(&Served::new(Duration::from_millis(300)));
}

/// The same with two controllers that fail in turn, one of which is pulled for good in the midst of that.
#[test]
fn processes_with_a_pulled_path_lose_nothing() {
    let machines = Machine::builder(BLOCKS, 12).memory_bytes(32 << 20).open_paths(2).unwrap();
    run_processes_with_faults(&Served::by_paths(machines, Duration::from_millis(300)));
}

fn run_processes_with_faults(served: &Served) {
    let path = served.path("disk");
    let shared = SharedWords::new(2 + PROCESSES + KILLS);
    let (stop, writes) = (&shared.words()[0], &shared.words()[2..]);
    let start = |process: usize| fork(|| write_and_check(&path, process as u64, stop, &writes[process]));
    let mut running: Vec<(usize, libc::pid_t)> =
        (0..PROCESSES).map(|process| (process, start(process))).collect();
    let kinds = [
        Fault::Status(nvme::spec::status::Status(0x0022)),
        Fault::LostCompletion,
        Fault::Stuck,
        Fault::LinkReset,
        Fault::Fatal,
    ];
    for round in 0..KILLS {
        let failing = &served.emulated[round % served.emulated.len()];
        for (number, kind) in kinds.iter().enumerate() {
            failing.inject(failing.commands() + 20 + 30 * number as u64, *kind);
        }
        if let Some(pulled) = served.emulated.get(1).filter(|_| round == KILLS / 2) {
            pulled.inject(pulled.commands() + 5, Fault::Gone);
        }
        let (victim, pid) = running.remove(round % 2);
        let before = writes[victim].load(Ordering::Relaxed);
        wait_for(|| writes[victim].load(Ordering::Relaxed) > before + 20);
        kill(pid);
        running.push((PROCESSES + round, start(PROCESSES + round)));
    }
    wait_for(|| running.iter().all(|(process, _)| writes[*process].load(Ordering::Relaxed) > 200));
    stop.store(1, Ordering::Relaxed);
    let ended: Vec<i32> = running.iter().map(|(_, pid)| status(*pid)).collect();
    assert_eq!(ended, [0; PROCESSES]);
    let all: u64 = writes.iter().map(|writes| writes.load(Ordering::Relaxed)).sum();
    println!(
        "{PROCESSES} processes of {THREADS} threads at a time on {} paths, {KILLS} killed, {} faults: {all} writes",
        served.emulated.len(),
        kinds.len() * KILLS
    );
    // Nothing but what these processes wrote is on the disk, and nothing at all in the other share.
    let disk = served.emulated[0].disk();
    let (one, other) = disk.split_at(disk.len() / 2);
    assert!(other.iter().all(|byte| *byte == 0));
    for data in one.chunks(BLOCK).filter(|data| data.iter().any(|byte| *byte != 0)) {
        let [process, block, _] = mark(data).expect("a block of one write");
        assert!(process < (PROCESSES + KILLS) as u64 && block < LUN_BLOCKS as u64);
    }
}
