//! What a server of `iotoll bench net` says on standard error: a line when a session begins, one when it ends, and between them its progress.

use crate::progress::LINE_INTERVAL;
use bench::net::{FrameError, NetTest, ServerEvent};
use std::error::Error;
use std::iter::successors;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The lines of a server. A session has a test for each cell and round, often several in a second.
pub(super) struct ServerLog(Mutex<Option<Session>>);

/// The session that is running.
struct Session {
    begun: Instant,
    tests: u64,
    /// The earliest time of the next line.
    next: Instant,
}

impl ServerLog {
    pub(super) fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// The line of an event, if it has one.
    pub(super) fn line(&self, event: &ServerEvent, now: Instant) -> Option<String> {
        let mut session = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            ServerEvent::Listening { address } => Some(format!(
                "listening on TCP {address}{}, and on UDP ports of it during tests; end with Ctrl-C",
                if address.ip().is_unspecified() { ", which is every address of this host" } else { "" }
            )),
            ServerEvent::Began { peer } => {
                *session = Some(Session { begun: now, tests: 0, next: now });
                Some(format!("{peer}: session began"))
            }
            ServerEvent::Test { peer, test, bytes, instances } => {
                let progress = session.as_mut()?.count(now)?;
                Some(format!("{peer}: {progress}, now {}", test_words(*test, *bytes, *instances)))
            }
            ServerEvent::Ended { peer, error } => {
                let done = session.take().map(|session| session.done(now)).unwrap_or_default();
                let error = error.as_ref().map(|error| format!(": {}", chain(error))).unwrap_or_default();
                Some(format!("{peer}: session ended{done}{error}"))
            }
            ServerEvent::Refused { peer, error: Some(error) } => {
                Some(format!("{peer}: refused: {}", chain(error)))
            }
            ServerEvent::Refused { peer, error: None } => {
                Some(format!("{peer}: refused: another session is running"))
            }
            _ => None,
        }
    }
}

impl Session {
    /// Counts a test that begins. Returns the progress, unless the last line was too recent.
    fn count(&mut self, now: Instant) -> Option<String> {
        self.tests += 1;
        if now < self.next {
            return None;
        }
        self.next = now + LINE_INTERVAL;
        Some(format!("test {} after {:.0} s", self.tests, (now - self.begun).as_secs_f64()))
    }

    /// What it did, for its last line.
    fn done(&self, now: Instant) -> String {
        let tests = if self.tests == 1 { "test" } else { "tests" };
        format!(" after {} {tests} in {:.1} s", self.tests, (now - self.begun).as_secs_f64())
    }
}

fn test_words(test: NetTest, bytes: u64, instances: u16) -> String {
    format!("{test}, {bytes} bytes, instances: {instances}")
}

/// An error with its causes.
fn chain(error: &FrameError) -> String {
    let causes = successors(error.source(), |&error| error.source());
    causes.fold(error.to_string(), |words, cause| format!("{words}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_session_of_many_tests_has_few_lines() {
        let peer = ([192, 0, 2, 1], 1234).into();
        let (log, begun) = (ServerLog::new(), Instant::now());
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let test = ServerEvent::Test { peer, test: NetTest::UdpRr, bytes: 64, instances: 4 };
        let mut lines = vec![log.line(&ServerEvent::Began { peer }, begun)];
        // 20 seconds, with a test in each half of a second.
        lines.extend((0..40).map(|half| log.line(&test, at(half * 500))));
        lines.push(log.line(&ServerEvent::Ended { peer, error: None }, at(20_000)));
        let lines: Vec<String> = lines.into_iter().flatten().collect();
        assert_eq!(
            lines,
            [
                "192.0.2.1:1234: session began",
                "192.0.2.1:1234: test 1 after 0 s, now udp-rr, 64 bytes, instances: 4",
                "192.0.2.1:1234: test 11 after 5 s, now udp-rr, 64 bytes, instances: 4",
                "192.0.2.1:1234: test 21 after 10 s, now udp-rr, 64 bytes, instances: 4",
                "192.0.2.1:1234: test 31 after 15 s, now udp-rr, 64 bytes, instances: 4",
                "192.0.2.1:1234: session ended after 40 tests in 20.0 s",
            ]
        );
    }

    #[test]
    fn another_session_counts_anew() {
        let peer = ([192, 0, 2, 1], 1234).into();
        let (log, now) = (ServerLog::new(), Instant::now());
        for _ in 0..2 {
            log.line(&ServerEvent::Began { peer }, now);
            log.line(&ServerEvent::Test { peer, test: NetTest::UdpRr, bytes: 64, instances: 4 }, now);
            let ended = log.line(&ServerEvent::Ended { peer, error: None }, now);
            assert_eq!(ended.as_deref(), Some("192.0.2.1:1234: session ended after 1 test in 0.0 s"));
        }
    }
}
