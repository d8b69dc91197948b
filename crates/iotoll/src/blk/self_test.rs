//! `iotoll blk test`: has a controller test itself, shows how far it has come, and says where it failed.

use super::driven_adapter::DrivenAdapter;
use super::target::MEMORY_BYTES;
use crate::cli::{BlkTest, NvmeController};
use crate::interrupt::stop_flag;
use crate::output::{self, Outcome};
use anyhow::{Context, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use nvme::Controller;
use nvme::spec::self_test::{RESULTS_MAX, SelfTest, SelfTestLog, SelfTestOutcome, SelfTestResult};
use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Time between two reads of the self-test log.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Longest wait for a short test, which should end within two minutes (Base, "Device Self-test Operations").
const SHORT_LIMIT: Duration = Duration::from_secs(10 * 60);
/// Longest wait for an extended test of a controller that does not say how long it takes.
const EXTENDED_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);
/// Percent between two lines of progress where standard error is no terminal.
const LINE_PERCENT: u8 = 10;

/// Runs, follows or aborts a self-test. A test that did not pass counts as a finding.
pub(super) fn run(args: &BlkTest) -> anyhow::Result<Outcome> {
    let stop = stop_flag().context("can't handle signals")?;
    let test = if args.extended { SelfTest::Extended } else { SelfTest::Short };
    let NvmeController { address, consent } = &args.controller;
    let adapter = DrivenAdapter::open(address, consent.accepted(), MEMORY_BYTES)?;
    let (outcome, words) = adapter.use_and_close(|controller| {
        let mut progress = Progress::new()?;
        let tested = match args.abort {
            true => abort(controller).map(|words| (Outcome::Fine, words)),
            false => Run { test, poll_interval: POLL_INTERVAL, stop: &stop }
                .execute(controller, |percent| progress.show(percent))
                .map(|result| (outcome(&result), words(&result))),
        };
        progress.bar.finish_and_clear();
        tested
    })?;
    output::print_text(&words)?;
    Ok(outcome)
}

/// The name of a self-test by its code.
fn name(code: u8) -> &'static str {
    match code {
        1 => "short self-test",
        2 => "extended self-test",
        _ => "self-test of the vendor's own",
    }
}

/// Aborts the test that is running. Returns what was done.
fn abort(controller: &mut Controller) -> anyhow::Result<String> {
    ensure_supported(controller)?;
    let Some(running) = controller.self_tests()?.running else {
        return Ok("no self-test is running".to_owned());
    };
    controller.abort_self_test()?;
    Ok(format!("the {} was aborted at {} %", name(running.code), running.percent))
}

/// Fails if the controller has no self-test. Nothing is sent.
fn ensure_supported(controller: &Controller) -> anyhow::Result<()> {
    ensure!(controller.identity().can_self_test, "the controller has no self-test (OACS bit 4 is clear)");
    Ok(())
}

/// A self-test to run.
struct Run<'a> {
    test: SelfTest,
    poll_interval: Duration,
    /// Set by a signal.
    stop: &'a AtomicBool,
}

impl Run<'_> {
    /// Starts the test, or follows an extended one that is running, until it has ended. Calls `show` with the percent that are done.
    fn execute(&self, controller: &mut Controller, show: impl FnMut(u8)) -> anyhow::Result<SelfTestResult> {
        ensure_supported(controller)?;
        let before = controller.self_tests()?;
        match before.running {
            Some(running) if self.test == SelfTest::Extended && running.code == self.test.code() => {
                output::print_note("an extended self-test is running; this follows it");
            }
            Some(running) => bail!(
                "{} {} is running, {} % done; wait for its end, follow an extended one by --extended, or end it by --abort",
                if running.code == SelfTest::Extended.code() { "an" } else { "a" },
                name(running.code),
                running.percent
            ),
            None => {
                controller.start_self_test(self.test)?;
                output::print_note(&self.announcement(controller));
            }
        }
        let after = self.wait(controller, show)?;
        self.result(&before, &after)
    }

    /// What was started, and how long it takes.
    fn announcement(&self, controller: &Controller) -> String {
        let time = match (self.test, controller.identity().extended_test_minutes) {
            (SelfTest::Short, _) => "two minutes at most".to_owned(),
            (SelfTest::Extended, 0) => "the controller does not say how long it takes".to_owned(),
            (SelfTest::Extended, minutes) => format!("about {minutes} minutes, more with other I/O"),
        };
        format!("{} started: {time}", name(self.test.code()))
    }

    /// The longest wait: three times the nominal time, and ten minutes.
    fn limit(&self, controller: &Controller) -> Duration {
        match (self.test, controller.identity().extended_test_minutes) {
            (SelfTest::Short, _) => SHORT_LIMIT,
            (SelfTest::Extended, 0) => EXTENDED_LIMIT,
            (SelfTest::Extended, minutes) => Duration::from_secs(60 * (3 * u64::from(minutes) + 10)),
        }
    }

    /// Polls until no test is running. Returns the log then.
    fn wait(&self, controller: &mut Controller, mut show: impl FnMut(u8)) -> anyhow::Result<SelfTestLog> {
        let (begin, limit) = (Instant::now(), self.limit(controller));
        loop {
            let log = controller.self_tests()?;
            let Some(running) = log.running else { return Ok(log) };
            show(running.percent);
            if self.stop.load(Ordering::Relaxed) {
                match self.test {
                    SelfTest::Short => {
                        bail!(
                            "interrupted at {} %: the short self-test ends with this command",
                            running.percent
                        )
                    }
                    SelfTest::Extended => bail!(
                        "interrupted at {} %: the extended self-test continues; follow it by the same command, or end it by --abort",
                        running.percent
                    ),
                }
            }
            ensure!(
                begin.elapsed() < limit,
                "the {} has not ended within {} min, and is {} % done; end it by --abort",
                name(running.code),
                limit.as_secs() / 60,
                running.percent
            );
            thread::sleep(self.poll_interval);
        }
    }

    /// The result of this test in the log. Fails if the controller added none.
    fn result(&self, before: &SelfTestLog, after: &SelfTestLog) -> anyhow::Result<SelfTestResult> {
        // A full log has the same length afterwards.
        let is_longer = after.results.len() > before.results.len() || after.results.len() == RESULTS_MAX;
        let newest = after.results.first().filter(|result| is_longer && result.code == self.test.code());
        newest.copied().with_context(|| {
            format!(
                "the {} is no longer running, and the controller logged no result of it",
                name(self.test.code())
            )
        })
    }
}

/// Whether a test passed.
fn outcome(result: &SelfTestResult) -> Outcome {
    if result.outcome == SelfTestOutcome::Passed { Outcome::Fine } else { Outcome::Findings }
}

/// A test's result, and what to do.
fn words(result: &SelfTestResult) -> String {
    let ended = match result.outcome {
        SelfTestOutcome::Passed => "passed".to_owned(),
        SelfTestOutcome::AbortedByCommand => "aborted by a command".to_owned(),
        SelfTestOutcome::AbortedByReset => "aborted by a reset of the controller".to_owned(),
        SelfTestOutcome::AbortedByRemoval => "aborted because a namespace was removed".to_owned(),
        SelfTestOutcome::AbortedByFormat => "aborted because a namespace was formatted".to_owned(),
        SelfTestOutcome::AbortedBySanitize => "aborted because the disk was sanitized".to_owned(),
        SelfTestOutcome::Aborted => "aborted; the controller does not say why".to_owned(),
        SelfTestOutcome::Fatal => "FAILED: a fatal or unknown error ended it".to_owned(),
        SelfTestOutcome::FailedSomewhere => "FAILED: the controller does not say in which segment".to_owned(),
        SelfTestOutcome::FailedSegment => format!("FAILED in segment {}", result.segment),
        SelfTestOutcome::Reserved(code) => {
            format!("ended with result {code}, which the specification reserves")
        }
        _ => "ended with a result that this program does not know".to_owned(),
    };
    let mut words = format!("{}: {ended}", name(result.code));
    let namespace = result.namespace.filter(|number| *number != u32::MAX);
    let place = [
        result.block.map(|block| format!("at block {block}")),
        namespace.map(|number| format!("of namespace {number}")),
    ];
    for part in place.into_iter().flatten() {
        let _ = write!(words, " {part}");
    }
    if let Some(status) = result.status.filter(|status| !status.is_success()) {
        let _ = write!(words, ", with {status}");
    }
    let is_failure = matches!(
        result.outcome,
        SelfTestOutcome::Fatal | SelfTestOutcome::FailedSomewhere | SelfTestOutcome::FailedSegment
    );
    if is_failure {
        words += "\n  Copy what the disk holds, and replace it. What a segment tests is the vendor's to say.";
    }
    words
}

/// Progress on standard error: on a terminal a bar, elsewhere a line each [`LINE_PERCENT`].
struct Progress {
    bar: ProgressBar,
    /// Percent of the last line.
    last_line: u8,
}

impl Progress {
    /// A bar that is not drawn before the first percent is known.
    fn new() -> anyhow::Result<Self> {
        let bar =
            ProgressBar::new(100).with_style(ProgressStyle::with_template("{bar:30} {pos} %, {elapsed}")?);
        Ok(Self { bar, last_line: 0 })
    }

    /// Shows how much is done.
    fn show(&mut self, percent: u8) {
        if io::stderr().is_terminal() {
            self.bar.set_position(percent.into());
        } else if percent >= self.last_line.saturating_add(LINE_PERCENT) {
            self.last_line = percent;
            output::print_note(&format!("{percent} % done"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::emulated_disk::EmulatedDisk;
    use super::*;
    use nvme::spec::command::admin;
    use nvme::spec::status::Status;

    const RESULT: SelfTestResult = SelfTestResult {
        code: 0,
        outcome: SelfTestOutcome::Passed,
        segment: 0,
        hours: 1,
        namespace: None,
        block: None,
        status: None,
    };

    fn disk() -> EmulatedDisk {
        EmulatedDisk::new(|_| {})
    }

    fn run_test(disk: &mut EmulatedDisk, test: SelfTest) -> (anyhow::Result<SelfTestResult>, Vec<u8>) {
        let mut shown = Vec::new();
        let run = Run { test, poll_interval: Duration::ZERO, stop: &AtomicBool::new(false) };
        let result = run.execute(&mut disk.controller, |percent| shown.push(percent));
        (result, shown)
    }

    #[test]
    fn a_test_that_passes_shows_its_progress() {
        let mut disk = disk();
        disk.emulated.plan_self_test(25, RESULT);
        let (result, shown) = run_test(&mut disk, SelfTest::Short);
        assert_eq!(shown, [0, 25, 50, 75]);
        let result = result.unwrap();
        assert_eq!((outcome(&result), words(&result).as_str()), (Outcome::Fine, "short self-test: passed"));
    }

    #[test]
    fn a_segment_that_fails_is_named_with_its_block() {
        let mut disk = disk();
        let failed = SelfTestResult {
            outcome: SelfTestOutcome::FailedSegment,
            segment: 7,
            namespace: Some(1),
            block: Some(2000),
            status: Some(Status::UNRECOVERED_READ),
            ..RESULT
        };
        disk.emulated.plan_self_test(100, failed);
        let result = run_test(&mut disk, SelfTest::Extended).0.unwrap();
        assert_eq!(outcome(&result), Outcome::Findings);
        let expected = "extended self-test: FAILED in segment 7 at block 2000 of namespace 1, with unrecovered read error (type 0x2, code 0x81)\n  Copy";
        assert!(words(&result).starts_with(expected), "{}", words(&result));
    }

    #[test]
    fn an_aborted_test_is_neither_passed_nor_failed() {
        let result = SelfTestResult { code: 2, outcome: SelfTestOutcome::AbortedByReset, ..RESULT };
        assert_eq!(outcome(&result), Outcome::Findings);
        assert_eq!(words(&result), "extended self-test: aborted by a reset of the controller");
    }

    #[test]
    fn a_controller_without_self_tests_is_refused_before_anything_is_sent() {
        let mut disk = EmulatedDisk::new(|identity| identity.can_self_test = false);
        let before = disk.emulated.admin_opcodes();
        let error = run_test(&mut disk, SelfTest::Short).0.unwrap_err();
        assert_eq!(error.to_string(), "the controller has no self-test (OACS bit 4 is clear)");
        assert!(abort(&mut disk.controller).is_err());
        assert_eq!(disk.emulated.admin_opcodes(), before);
    }

    #[test]
    fn a_running_extended_test_is_followed_and_no_other_is_started() {
        let mut disk = disk();
        disk.emulated.plan_self_test(20, RESULT);
        disk.controller.start_self_test(SelfTest::Extended).unwrap();
        let error = run_test(&mut disk, SelfTest::Short).0.unwrap_err().to_string();
        assert!(error.starts_with("an extended self-test is running, 0 % done"), "{error}");
        let (result, shown) = run_test(&mut disk, SelfTest::Extended);
        assert_eq!((result.unwrap().outcome, shown), (SelfTestOutcome::Passed, vec![40, 60, 80]));
        let starts = disk.emulated.admin_opcodes().into_iter().filter(|code| *code == admin::SELF_TEST);
        assert_eq!(starts.count(), 1);
    }

    #[test]
    fn a_test_is_aborted() {
        let mut disk = disk();
        assert_eq!(abort(&mut disk.controller).unwrap(), "no self-test is running");
        assert!(!disk.emulated.admin_opcodes().contains(&admin::SELF_TEST));
        disk.controller.start_self_test(SelfTest::Extended).unwrap();
        disk.controller.self_tests().unwrap();
        assert_eq!(abort(&mut disk.controller).unwrap(), "the extended self-test was aborted at 50 %");
        assert_eq!(disk.controller.self_tests().unwrap().running, None);
    }

    #[test]
    fn an_interrupted_test_says_whether_it_continues() {
        for (test, words) in [(SelfTest::Short, "ends with"), (SelfTest::Extended, "continues")] {
            let run = Run { test, poll_interval: Duration::ZERO, stop: &AtomicBool::new(true) };
            let error = run.execute(&mut disk().controller, |_| {}).unwrap_err().to_string();
            assert!(error.starts_with("interrupted at 0 %") && error.contains(words), "{error}");
        }
    }

    /// A full log, and a controller that loses the result.
    #[test]
    fn a_result_must_be_new() {
        let mut disk = disk();
        for _ in 0..=RESULTS_MAX {
            assert_eq!(run_test(&mut disk, SelfTest::Short).0.unwrap().code, 1);
        }
        let old = SelfTestLog { running: None, results: vec![SelfTestResult { code: 1, ..RESULT }] };
        disk.emulated.make_up_log_page(6, old.write().to_vec());
        let error = run_test(&mut disk, SelfTest::Short).0.unwrap_err().to_string();
        assert_eq!(
            error,
            "the short self-test is no longer running, and the controller logged no result of it"
        );
    }
}
