//! Waiting at the guest's idle instruction until the devices have done what was asked of them.
//!
//! QEMU's devices work in another thread and in real time, while the guest's clock counts instructions and
//! leaps to the next timer as soon as all virtual CPUs are idle. Whether a disk's answer or a timer comes
//! first would depend on the machine QEMU runs on. Held before its idle instruction, a virtual CPU is not
//! idle: nothing leaps, and the answer comes first, always. The disk, for its part, answers only when it is
//! told to, so that no answer comes before the guest idles. What the device answers by itself is awaited where its
//! doorbell is rung.

use crate::argument::{Arguments, Events};
use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::net::UnixDatagram;
use std::thread::sleep;
use std::time::{Duration, Instant};

const LOOK_AGAIN: Duration = Duration::from_micros(100);
/// A device that has not begun or answered by then never will, or the machine is hopelessly busy.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// An answer that did not reach the guest by then never will without the next.
const ANSWER_MAX: Duration = Duration::from_millis(500);
/// Interrupts that are not raised by then are off.
const RAISE_MAX: Duration = Duration::from_millis(200);
const CHUNK_BYTES: usize = 64 << 10;
/// What a socket of Linux's takes at once (`net.core.wmem_default`). While QEMU 7.2 sends a disk more than that, it keeps
/// the answers that come, until the next one does.
const SENT_AT_ONCE_BYTES: u32 = 212_992;

/// What is said to the disk: a byte, for answers followed by four of how many bytes.
#[derive(Clone, Copy)]
pub(crate) enum Word {
    /// Keep requests from now on.
    Hold = b'H' as isize,
    /// Answer the oldest that is kept, or the next that comes, and those after it that belong to the same request of the
    /// guest's.
    Answer = b'A' as isize,
    /// Answer at once from now on.
    Free = b'F' as isize,
}

/// Follows QEMU's log for the events that begin and end requests, and tells the disk when to answer.
pub(crate) struct Quiet {
    log: File,
    /// The begun last line, until its end is written.
    partial: Vec<u8>,
    events: Events,
    disk: Option<UnixDatagram>,
    /// Doorbells rung whose requests have not begun.
    rung: i64,
    /// Requests begun and not ended.
    in_flight: i64,
    /// Of these, requests that the device answers by itself, and soon.
    prompt: i64,
    /// Requests that the disk was not yet asked to answer, oldest first.
    unanswered: VecDeque<Unanswered>,
    /// Queues in which a request has ended since their last interrupt was raised.
    unraised: BTreeSet<u32>,
    settle: Duration,
}

/// A request that the disk has.
#[derive(Clone, Copy, Default)]
struct Unanswered {
    bytes: u32,
    /// The disk gets these bytes, rather than giving them.
    is_sent: bool,
}

/// When the disk was last asked for an answer.
struct Asked {
    /// Requests in flight then.
    in_flight: i64,
    when: Instant,
}

impl Asked {
    /// Whether the answer came, or never will: a request of the guest's may be several to the disk.
    fn is_over(&self, in_flight: i64) -> bool {
        in_flight < self.in_flight || self.when.elapsed() > ANSWER_MAX
    }
}

impl Quiet {
    /// Follows the log from here on. QEMU makes the file before it loads plugins.
    pub(crate) fn follow(arguments: Arguments) -> io::Result<Self> {
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
            unanswered: VecDeque::new(),
            unraised: BTreeSet::new(),
            settle,
        })
    }

    /// Says something to the disk.
    pub(crate) fn tell(&self, word: Word) {
        if let Some(disk) = &self.disk {
            // A disk that is gone is QEMU's to complain of.
            let _ = disk.send(&[word as u8]);
        }
    }

    fn ask_for(&self, bytes: u32) {
        if let Some(disk) = &self.disk {
            let [a, b, c, d] = bytes.to_le_bytes();
            let _ = disk.send(&[Word::Answer as u8, a, b, c, d]);
        }
    }

    /// After a device's register was written: waits until what a doorbell announced has begun, and is answered if it is
    /// not the disk that answers. If that never comes, says how long it waited.
    pub(crate) fn wait_for_prompt(&mut self) -> Result<(), Duration> {
        self.read_on();
        if self.rung <= 0 {
            return Ok(());
        }
        let since = Instant::now();
        while self.rung > 0 || self.prompt > 0 {
            if since.elapsed() > WAIT_MAX {
                (self.rung, self.prompt) = (0, 0);
                return Err(since.elapsed());
            }
            sleep(LOOK_AGAIN);
            self.read_on();
        }
        self.wait_for_interrupt();
        Ok(())
    }

    /// Waits until no request is in flight. If that never comes, says how long it waited.
    pub(crate) fn wait(&mut self) -> Result<(), Duration> {
        let since = Instant::now();
        let mut asked = None;
        sleep(self.settle);
        loop {
            self.read_on();
            if self.rung <= 0 && self.in_flight <= 0 {
                self.wait_for_interrupt();
                return Ok(());
            }
            if since.elapsed() > WAIT_MAX {
                (self.rung, self.in_flight, self.prompt) = (0, 0, 0);
                return Err(since.elapsed());
            }
            if self.rung <= 0 {
                self.ask(&mut asked);
            }
            sleep(LOOK_AGAIN);
        }
    }

    /// Asks the disk for an answer, one at a time: whether two answers share an interrupt would be chance. Of requests that
    /// together are long to send, for all, for the same reason.
    fn ask(&mut self, asked: &mut Option<Asked>) {
        let is_due = asked.as_ref().is_none_or(|asked| asked.is_over(self.in_flight));
        if is_due {
            self.wait_for_interrupt();
        }
        if is_due && self.in_flight > self.prompt {
            let sent = self.unanswered.iter().filter(|request| request.is_sent).map(|request| request.bytes);
            let sent_bytes = sent.fold(0, u32::saturating_add);
            // None is left of a request that was asked for and got no answer: that is asked for again, of whatever size.
            let first = self.unanswered.pop_front().unwrap_or_default();
            if first.is_sent && sent_bytes > SENT_AT_ONCE_BYTES {
                self.unanswered.clear();
                self.ask_for(sent_bytes);
            } else {
                self.ask_for(first.bytes);
            }
            *asked = Some(Asked { in_flight: self.in_flight, when: Instant::now() });
        }
    }

    /// The interrupt of the last answer is raised a moment after it, or never if interrupts are off.
    fn wait_for_interrupt(&mut self) {
        let since = Instant::now();
        while !self.unraised.is_empty() && since.elapsed() < RAISE_MAX {
            sleep(LOOK_AGAIN);
            self.read_on();
        }
        self.unraised.clear();
        sleep(LOOK_AGAIN);
    }

    fn read_on(&mut self) {
        let mut chunk = vec![0; CHUNK_BYTES];
        // A log that can't be read shows nothing in flight: the settling time is then all the waiting.
        while let Ok(bytes) = self.log.read(&mut chunk) {
            if bytes == 0 {
                break;
            }
            self.partial.extend_from_slice(&chunk[..bytes]);
            self.take_lines();
        }
    }

    fn take_lines(&mut self) {
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else { return };
        let lines: Vec<u8> = self.partial.drain(..=end).collect();
        for line in lines.split(|byte| *byte == b'\n') {
            self.take_line(line);
        }
    }

    fn begin(&mut self) {
        // One doorbell may begin several requests.
        self.rung = (self.rung - 1).max(0);
        self.in_flight += 1;
    }

    fn take_line(&mut self, line: &[u8]) {
        let event = line.split(|byte| *byte == b' ').next().unwrap_or(line);
        let is = |names: &[String]| names.iter().any(|name| name.as_bytes() == event);
        if is(&self.events.rung) {
            self.rung += 1;
        } else if is(&self.events.started) {
            self.begin();
            self.unanswered.push_back(Unanswered::default());
        } else if is(&self.events.sized) || is(&self.events.sent) {
            let bytes = number_after(line, b" count ").unwrap_or_default();
            let is_sent = is(&self.events.sent);
            self.unanswered.pop_back();
            self.unanswered.push_back(Unanswered { bytes, is_sent });
        } else if is(&self.events.prompt) {
            self.begin();
            let lasts = self.events.lasting.iter().any(|word| contains(line, word.as_bytes()));
            self.in_flight -= i64::from(lasts);
            self.prompt += i64::from(!lasts);
        } else if is(&self.events.finished) {
            self.in_flight -= 1;
            self.prompt = (self.prompt - 1).max(0);
            if self.in_flight <= self.prompt {
                self.unanswered.clear();
            }
            self.unraised.insert(number_after(line, b" cqid ").unwrap_or_default());
        } else if is(&self.events.raised) {
            self.raise(number_after(line, b" vector "));
        }
    }

    /// An interrupt was raised. Drivers give each queue its own vector, of the same number, or all of them one.
    fn raise(&mut self, vector: Option<u32>) {
        if !vector.is_some_and(|vector| self.unraised.remove(&vector)) {
            self.unraised.clear();
        }
    }
}

fn number_after(line: &[u8], label: &[u8]) -> Option<u32> {
    let at = line.windows(label.len()).position(|part| part == label)? + label.len();
    let mut digits = line[at..].iter().take_while(|byte| byte.is_ascii_digit());
    digits.try_fold(0_u32, |number, digit| number.checked_mul(10)?.checked_add(u32::from(digit - b'0')))
}

fn contains(line: &[u8], word: &[u8]) -> bool {
    !word.is_empty() && line.windows(word.len()).any(|part| part == word)
}
