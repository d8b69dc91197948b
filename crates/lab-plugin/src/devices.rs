//! Waits, while the guest is idle, until the devices have completed all requests.
//!
//! QEMU's devices work in another thread and in real time. The guest's clock counts instructions and jumps to the next
//! timer as soon as all virtual CPUs are idle. Without help, the host's speed would decide whether a completion or a
//! timer interrupt comes first. While the plugin holds a virtual CPU before its idle instruction, the CPU is not idle and
//! the clock does not jump, so the completion always comes first. The disk replies only when the plugin tells it to, so
//! no completion comes before the guest is idle. For commands that the controller completes without the disk, the plugin
//! waits right after the doorbell write.

use crate::argument::{Arguments, Events};
use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::net::UnixDatagram;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time between two reads of the log.
const POLL_INTERVAL: Duration = Duration::from_micros(100);
/// After this time the plugin stops waiting: the device will not complete the request. A busy host takes seconds, and one on
/// which the disk's process is stopped takes as long as that lasts.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The same after everything was counted: a driver that shuts down may ring a doorbell that nobody answers.
const RELEASED_WAIT_MAX: Duration = Duration::from_secs(10);
/// A reply that has not completed a request of the guest by then needs another reply to complete it.
const REPLY_MAX: Duration = Duration::from_millis(500);
/// If no interrupt is raised by then, interrupts are disabled.
const INTERRUPT_MAX: Duration = Duration::from_millis(200);
const CHUNK_BYTES: usize = 64 << 10;
/// Bytes that a Linux socket buffers (`net.core.wmem_default`). While QEMU 7.2 sends more than that to the disk, it
/// processes a reply only when the next one arrives.
const SOCKET_BUFFER_BYTES: u32 = 212_992;

/// A message to the disk: this byte, and for `Reply` four more with a number of bytes.
#[derive(Clone, Copy)]
pub(crate) enum DiskMessage {
    /// Hold requests from now on.
    Hold = b'H' as isize,
    /// Reply to the oldest held request, or to the next that arrives, and to the following ones that belong to the same
    /// request of the guest.
    Reply = b'A' as isize,
    /// Reply to every request at once from now on.
    Release = b'F' as isize,
}

/// Reads in QEMU's log which requests are in flight, and tells the disk when to reply.
pub(crate) struct Devices {
    log: File,
    /// The log's last line, while it is incomplete.
    partial: Vec<u8>,
    events: Events,
    disk: Option<UnixDatagram>,
    /// Doorbell writes whose requests have not started.
    rung: i64,
    /// Requests that have started and not completed.
    in_flight: i64,
    /// Of these, requests that the controller completes without the disk.
    prompt: i64,
    /// Requests that the disk was not yet told to reply to, oldest first.
    held: VecDeque<HeldRequest>,
    /// Completion queues with a completion whose interrupt was not raised yet.
    unraised: BTreeSet<u32>,
    settle: Duration,
    /// How long the plugin waits for a request at most.
    wait_max: Duration,
}

/// A request that the disk holds.
#[derive(Clone, Copy, Default)]
struct HeldRequest {
    bytes: u32,
    is_write: bool,
}

/// The last message that told the disk to reply.
struct ReplyRequest {
    /// Requests in flight when it was sent.
    in_flight: i64,
    sent: Instant,
}

impl ReplyRequest {
    /// Whether a request completed since, or will not without another reply: QEMU may split the guest's request into
    /// several to the disk.
    fn is_over(&self, in_flight: i64) -> bool {
        in_flight < self.in_flight || self.sent.elapsed() > REPLY_MAX
    }
}

impl Devices {
    /// Opens the log, which QEMU creates before it loads plugins, and connects to the disk's control socket.
    pub(crate) fn new(arguments: Arguments) -> io::Result<Self> {
        let Arguments { log, events, disk, settle, .. } = arguments;
        let disk = disk.map(|path| {
            let socket = UnixDatagram::unbound()?;
            socket.connect(path)?;
            Ok::<_, io::Error>(socket)
        });
        Ok(Self {
            log: File::options().create(true).append(true).read(true).open(log)?,
            partial: Vec::new(),
            events,
            disk: disk.transpose()?,
            rung: 0,
            in_flight: 0,
            prompt: 0,
            held: VecDeque::new(),
            unraised: BTreeSet::new(),
            settle,
            wait_max: WAIT_MAX,
        })
    }

    /// Nothing is counted any more: the disk replies at once.
    pub(crate) fn release(&mut self) {
        self.send(DiskMessage::Release);
        self.wait_max = RELEASED_WAIT_MAX;
    }

    /// Sends `Hold` or `Release` to the disk.
    pub(crate) fn send(&self, message: DiskMessage) {
        if let Some(disk) = &self.disk {
            // If the disk has ended, QEMU reports its I/O errors.
            let _ = disk.send(&[message as u8]);
        }
    }

    /// Tells the disk to reply to requests of `bytes` in all.
    fn request_reply(&self, bytes: u32) {
        if let Some(disk) = &self.disk {
            let [a, b, c, d] = bytes.to_le_bytes();
            let _ = disk.send(&[DiskMessage::Reply as u8, a, b, c, d]);
        }
    }

    /// After a register write: if it was a doorbell, waits until its request has started, and until the requests that need
    /// no disk have completed. The error is the time waited in vain.
    pub(crate) fn wait_after_register_write(&mut self) -> Result<(), Duration> {
        self.read_log();
        if self.rung <= 0 {
            return Ok(());
        }
        let since = Instant::now();
        while self.rung > 0 || self.prompt > 0 {
            if since.elapsed() > self.wait_max {
                (self.rung, self.prompt) = (0, 0);
                return Err(since.elapsed());
            }
            sleep(POLL_INTERVAL);
            self.read_log();
        }
        self.wait_for_interrupt();
        Ok(())
    }

    /// Waits until no request is in flight. The error is the time waited in vain.
    pub(crate) fn wait_for_completions(&mut self) -> Result<(), Duration> {
        let since = Instant::now();
        let mut last = None;
        sleep(self.settle);
        loop {
            self.read_log();
            if self.rung <= 0 && self.in_flight <= 0 {
                self.wait_for_interrupt();
                return Ok(());
            }
            if since.elapsed() > self.wait_max {
                (self.rung, self.in_flight, self.prompt) = (0, 0, 0);
                return Err(since.elapsed());
            }
            if self.rung <= 0 {
                self.request_next_reply(&mut last);
            }
            sleep(POLL_INTERVAL);
        }
    }

    /// Tells the disk to reply, if the `last` reply is over. One request at a time, because two replies together might or
    /// might not share an interrupt. All writes at once if they exceed a socket's buffer, see [`SOCKET_BUFFER_BYTES`].
    fn request_next_reply(&mut self, last: &mut Option<ReplyRequest>) {
        let is_due = last.as_ref().is_none_or(|last| last.is_over(self.in_flight));
        if is_due {
            self.wait_for_interrupt();
        }
        if is_due && self.in_flight > self.prompt {
            let writes = self.held.iter().filter(|request| request.is_write).map(|request| request.bytes);
            let written_bytes = writes.fold(0, u32::saturating_add);
            // If none is held, the last reply completed no request: ask for another, of unknown size.
            let first = self.held.pop_front().unwrap_or_default();
            if first.is_write && written_bytes > SOCKET_BUFFER_BYTES {
                self.held.clear();
                self.request_reply(written_bytes);
            } else {
                self.request_reply(first.bytes);
            }
            *last = Some(ReplyRequest { in_flight: self.in_flight, sent: Instant::now() });
        }
    }

    /// Waits for the interrupts of the last completions, which are raised shortly after them, or never if interrupts are
    /// disabled.
    fn wait_for_interrupt(&mut self) {
        let since = Instant::now();
        while !self.unraised.is_empty() && since.elapsed() < INTERRUPT_MAX {
            sleep(POLL_INTERVAL);
            self.read_log();
        }
        self.unraised.clear();
        sleep(POLL_INTERVAL);
    }

    /// Processes the lines that were added to the log.
    fn read_log(&mut self) {
        let mut chunk = vec![0; CHUNK_BYTES];
        // If the log can't be read, no request appears in flight, and only the settling time is waited.
        while let Ok(bytes) = self.log.read(&mut chunk) {
            if bytes == 0 {
                break;
            }
            self.partial.extend_from_slice(&chunk[..bytes]);
            self.process_lines();
        }
    }

    /// Processes the complete lines in `partial` and removes them.
    fn process_lines(&mut self) {
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else { return };
        let lines: Vec<u8> = self.partial.drain(..=end).collect();
        for line in lines.split(|byte| *byte == b'\n') {
            self.process_line(line);
        }
    }

    /// Counts a started request.
    fn start_request(&mut self) {
        // One doorbell write may start several requests.
        self.rung = (self.rung - 1).max(0);
        self.in_flight += 1;
    }

    /// Updates the counts by one trace event.
    fn process_line(&mut self, line: &[u8]) {
        let event = line.split(|byte| *byte == b' ').next().unwrap_or(line);
        let is = |names: &[String]| names.iter().any(|name| name.as_bytes() == event);
        if is(&self.events.rung) {
            self.rung += 1;
        } else if is(&self.events.started) {
            self.start_request();
            self.held.push_back(HeldRequest::default());
        } else if is(&self.events.sized) || is(&self.events.sent) {
            let bytes = number_after(line, b" count ").unwrap_or_default();
            let is_write = is(&self.events.sent);
            self.held.pop_back();
            self.held.push_back(HeldRequest { bytes, is_write });
        } else if is(&self.events.prompt) {
            self.start_request();
            let lasts = self.events.lasting.iter().any(|word| contains(line, word.as_bytes()));
            self.in_flight -= i64::from(lasts);
            self.prompt += i64::from(!lasts);
        } else if is(&self.events.finished) {
            self.in_flight -= 1;
            self.prompt = (self.prompt - 1).max(0);
            if self.in_flight <= self.prompt {
                self.held.clear();
            }
            self.unraised.insert(number_after(line, b" cqid ").unwrap_or_default());
        } else if is(&self.events.raised) {
            self.note_interrupt(number_after(line, b" vector "));
        }
    }

    /// Processes a raised interrupt. A driver gives each queue its own vector with the queue's number, or all queues one.
    fn note_interrupt(&mut self, vector: Option<u32>) {
        if !vector.is_some_and(|vector| self.unraised.remove(&vector)) {
            self.unraised.clear();
        }
    }
}

/// The decimal number directly behind a label.
fn number_after(line: &[u8], label: &[u8]) -> Option<u32> {
    let at = line.windows(label.len()).position(|part| part == label)? + label.len();
    let mut digits = line[at..].iter().take_while(|byte| byte.is_ascii_digit());
    digits.try_fold(0_u32, |number, digit| number.checked_mul(10)?.checked_add(u32::from(digit - b'0')))
}

/// Whether a line contains a non-empty text.
fn contains(line: &[u8], word: &[u8]) -> bool {
    !word.is_empty() && line.windows(word.len()).any(|part| part == word)
}
