//! Waiting at the guest's idle instruction until the devices have done what was asked of them.
//!
//! QEMU's devices work in another thread and in real time, while the guest's clock counts instructions and
//! leaps to the next timer as soon as all virtual CPUs are idle. Whether a disk's answer or a timer comes
//! first would depend on the machine QEMU runs on. Held before its idle instruction, a virtual CPU is not
//! idle: nothing leaps, and the answer comes first, always.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

const LOOK_AGAIN: Duration = Duration::from_micros(100);
/// A device that has not answered by then never will, or the machine is hopelessly busy.
const WAIT_MAX: Duration = Duration::from_secs(5);
const CHUNK_BYTES: usize = 64 << 10;

/// Follows QEMU's log for the events that begin and end requests.
pub(crate) struct Quiet {
    log: File,
    /// The begun last line, until its end is written.
    partial: Vec<u8>,
    started: Vec<String>,
    finished: Vec<String>,
    /// Requests begun and not ended.
    in_flight: i64,
    settle: Duration,
}

impl Quiet {
    /// Follows the log from here on. QEMU makes the file before it loads plugins.
    pub(crate) fn follow(
        log: &Path,
        started: Vec<String>,
        finished: Vec<String>,
        settle: Duration,
    ) -> std::io::Result<Self> {
        let log = File::options().create(true).append(true).read(true).open(log)?;
        Ok(Self { log, partial: Vec::new(), started, finished, in_flight: 0, settle })
    }

    /// Waits until no request is in flight. If that never comes, says how long it waited.
    pub(crate) fn wait(&mut self) -> Result<(), Duration> {
        let since = Instant::now();
        sleep(self.settle);
        loop {
            self.read_on();
            if self.in_flight <= 0 {
                // The last answer's interrupt is raised a moment after its trace event.
                sleep(LOOK_AGAIN);
                return Ok(());
            }
            if since.elapsed() > WAIT_MAX {
                self.in_flight = 0;
                return Err(since.elapsed());
            }
            sleep(LOOK_AGAIN);
        }
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
            let event = line.split(|byte| *byte == b' ').next().unwrap_or(line);
            let is = |names: &[String]| names.iter().any(|name| name.as_bytes() == event);
            self.in_flight += i64::from(is(&self.started)) - i64::from(is(&self.finished));
        }
    }
}
