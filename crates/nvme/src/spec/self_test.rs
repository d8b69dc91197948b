//! Device Self-test: the command (Base, "Device Self-test command") and its log page (Base, 5.16.1.7).

use super::command::{Command, admin};
use super::field::{number, write_number};
use super::status::Status;

/// Results that the log page has.
pub const RESULTS_MAX: usize = 20;
/// Bytes of a result.
const RESULT_BYTES: usize = 28;
/// Bytes before the results.
const HEAD_BYTES: usize = 4;
/// Bytes of the log page.
pub const LOG_BYTES: usize = HEAD_BYTES + RESULTS_MAX * RESULT_BYTES;
/// Self-test code that aborts a test.
const ABORT: u8 = 0xf;
/// Result of an unused entry.
const UNUSED: u8 = 0xf;

/// A self-test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelfTest {
    /// Two minutes at most.
    Short,
    /// As long as Identify Controller says (EDSTT).
    Extended,
}

impl SelfTest {
    /// Self-test code (STC).
    pub fn code(self) -> u8 {
        match self {
            Self::Short => 1,
            Self::Extended => 2,
        }
    }
}

impl Command {
    /// Starts a self-test of the controller and all namespaces; without a test, aborts the one that is running.
    pub fn self_test(test: Option<SelfTest>) -> Self {
        let code = test.map_or(ABORT, SelfTest::code);
        Self::new(admin::SELF_TEST, u32::MAX, [0; 2]).with([code.into(), 0, 0])
    }
}

/// How a self-test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SelfTestOutcome {
    /// No error.
    Passed,
    /// Aborted by a Device Self-test command.
    AbortedByCommand,
    /// Aborted by a reset of the controller.
    AbortedByReset,
    /// Aborted because a namespace was removed.
    AbortedByRemoval,
    /// Aborted by Format NVM.
    AbortedByFormat,
    /// A fatal or unknown error; the test did not complete.
    Fatal,
    /// Completed; a segment failed, and it is unknown which.
    FailedSomewhere,
    /// Completed; the result has the first segment that failed.
    FailedSegment,
    /// Aborted for an unknown reason.
    Aborted,
    /// Aborted by a sanitize operation.
    AbortedBySanitize,
    /// A value that the specification reserves.
    Reserved(u8),
}

impl SelfTestOutcome {
    /// Values 0 to 9, in their order.
    const KNOWN: [Self; 10] = [
        Self::Passed,
        Self::AbortedByCommand,
        Self::AbortedByReset,
        Self::AbortedByRemoval,
        Self::AbortedByFormat,
        Self::Fatal,
        Self::FailedSomewhere,
        Self::FailedSegment,
        Self::Aborted,
        Self::AbortedBySanitize,
    ];

    /// Decodes the result.
    fn of_code(code: u8) -> Self {
        Self::KNOWN.get(usize::from(code)).copied().unwrap_or(Self::Reserved(code))
    }

    /// Encodes the result.
    fn code(self) -> u8 {
        let known = Self::KNOWN.iter().position(|known| *known == self);
        match (self, known) {
            (Self::Reserved(code), _) => code,
            (_, place) => place.map_or(UNUSED, |place| place as u8),
        }
    }
}

/// The result of a self-test that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SelfTestResult {
    /// Self-test code (STC): 1 short, 2 extended, 14 the vendor's own.
    pub code: u8,
    /// How it ended.
    pub outcome: SelfTestOutcome,
    /// The first segment that failed, with [`SelfTestOutcome::FailedSegment`].
    pub segment: u8,
    /// Power-on hours at its end.
    pub hours: u64,
    /// The namespace that failed.
    pub namespace: Option<u32>,
    /// LBA of the block that made it fail.
    pub block: Option<u64>,
    /// Status with which it failed.
    pub status: Option<Status>,
}

impl SelfTestResult {
    /// Decodes a result; `None` if the entry is unused.
    fn read(bytes: &[u8]) -> Option<Self> {
        let byte = |at: usize| number::<1>(bytes, at) as u8;
        let (code, outcome) = (byte(0) >> 4, byte(0) & 0xf);
        let is_valid = |bit: u8| byte(2) >> bit & 1 == 1;
        let status = Status::of(byte(24), byte(25));
        let result = Self {
            code,
            outcome: SelfTestOutcome::of_code(outcome),
            segment: byte(1),
            hours: number::<8>(bytes, 4) as u64,
            namespace: is_valid(0).then_some(number::<4>(bytes, 12) as u32),
            block: is_valid(1).then_some(number::<8>(bytes, 16) as u64),
            status: (is_valid(2) && is_valid(3)).then_some(status),
        };
        (outcome != UNUSED && code != 0).then_some(result)
    }

    /// Encodes a result, for emulated controllers.
    fn write(&self) -> [u8; RESULT_BYTES] {
        let mut bytes = [0; RESULT_BYTES];
        bytes[0] = self.code << 4 | self.outcome.code() & 0xf;
        bytes[1] = self.segment;
        let status = u8::from(self.status.is_some());
        bytes[2] = u8::from(self.namespace.is_some())
            | u8::from(self.block.is_some()) << 1
            | status << 2
            | status << 3;
        write_number(&mut bytes, 4, 8, self.hours.into());
        write_number(&mut bytes, 12, 4, self.namespace.unwrap_or_default().into());
        write_number(&mut bytes, 16, 8, self.block.unwrap_or_default().into());
        let status = self.status.unwrap_or_default();
        (bytes[24], bytes[25]) = (status.kind(), status.code());
        bytes
    }
}

/// A self-test that is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunningTest {
    /// Self-test code, as in [`SelfTestResult::code`].
    pub code: u8,
    /// How much of it is done, up to 100.
    pub percent: u8,
}

/// The self-test that is running, and the results of earlier ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SelfTestLog {
    /// The test that is running.
    pub running: Option<RunningTest>,
    /// At most [`RESULTS_MAX`], the newest first.
    pub results: Vec<SelfTestResult>,
}

impl SelfTestLog {
    /// Decodes the page. Bytes that are missing count as zero.
    pub fn read(bytes: &[u8]) -> Self {
        let code = number::<1>(bytes, 0) as u8 & 0xf;
        let percent = (number::<1>(bytes, 1) as u8 & 0x7f).min(100);
        let results = bytes.get(HEAD_BYTES..).unwrap_or_default().chunks_exact(RESULT_BYTES);
        Self {
            running: (code != 0).then_some(RunningTest { code, percent }),
            results: results.take(RESULTS_MAX).map_while(SelfTestResult::read).collect(),
        }
    }

    /// Encodes the page, for emulated controllers.
    pub fn write(&self) -> [u8; LOG_BYTES] {
        let mut bytes = [0; LOG_BYTES];
        if let Some(running) = self.running {
            (bytes[0], bytes[1]) = (running.code, running.percent);
        }
        for (place, into) in bytes[HEAD_BYTES..].chunks_exact_mut(RESULT_BYTES).enumerate() {
            match self.results.get(place) {
                Some(result) => into.copy_from_slice(&result.write()),
                None => into[0] = UNUSED,
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever a controller says is read, and what was understood is written and read again.
        #[test]
        fn any_page_is_read(bytes in prop::collection::vec(any::<u8>(), 0..LOG_BYTES + 9)) {
            let log = SelfTestLog::read(&bytes);
            prop_assert!(log.running.is_none_or(|running| running.percent <= 100));
            prop_assert_eq!(SelfTestLog::read(&log.write()), log);
        }
    }

    #[test]
    fn fields_are_where_the_specification_has_them() {
        let mut bytes = [0; LOG_BYTES];
        // An extended test is running, 40 % done. The newest result: extended, segment 7 failed.
        (bytes[0], bytes[1], bytes[4], bytes[5], bytes[6]) = (2, 40, 2 << 4 | 7, 7, 0b1111);
        (bytes[8], bytes[16], bytes[20], bytes[28], bytes[29]) = (99, 1, 0x10, 2, 0x81);
        // Then a short one without an error, then none.
        (bytes[32], bytes[60]) = (1 << 4, 0xf);
        let log = SelfTestLog::read(&bytes);
        assert_eq!(log.running, Some(RunningTest { code: 2, percent: 40 }));
        let failed = SelfTestResult {
            code: 2,
            outcome: SelfTestOutcome::FailedSegment,
            segment: 7,
            hours: 99,
            namespace: Some(1),
            block: Some(0x10),
            status: Some(Status::UNRECOVERED_READ),
        };
        let [first, second] = log.results[..] else { panic!("{log:?}") };
        assert_eq!(first, failed);
        assert_eq!((second.outcome, second.block, second.status), (SelfTestOutcome::Passed, None, None));
        // Each field has its own bit that says whether it is valid, but a status needs both of its bits.
        let valid = [0b0001, 0b0010, 0b0100, 0b1000, 0b1100].map(|bits| {
            bytes[6] = bits;
            let result = SelfTestLog::read(&bytes).results[0];
            [result.namespace.is_some(), result.block.is_some(), result.status.is_some()]
        });
        let none = [false; 3];
        assert_eq!(valid, [[true, false, false], [false, true, false], none, none, [false, false, true]]);
        assert_eq!(Command::self_test(Some(SelfTest::Extended)).word(10), 2);
        let abort = Command::self_test(None);
        assert_eq!((abort.opcode(), abort.word(10), abort.namespace()), (0x14, 0xf, u32::MAX));
    }
}
