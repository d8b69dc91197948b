//! Timeouts at instants that the test chooses, and counts of events, on an emulated controller.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use super::*;
use crate::emulated::{Emulated, Fault, Machine};

const BLOCK_BYTES: usize = 512;
/// No test takes this long, so that only the instants that it passes to `check_timeouts` make a command overdue.
const TIMEOUT: Duration = Duration::from_secs(8 * 3600);
const TICK: Duration = Duration::from_secs(3600);

/// A drive with `requests` slots of 4 KiB each, on an emulated controller behind a software IOMMU.
fn drive(requests: u16, waiting: Waiting, timeout: Duration) -> (Drive, Arc<Emulated>) {
    let Machine { controller, emulated, .. } = Machine::open(512, 9).unwrap();
    let namespace = controller.namespaces()[0];
    let retry_policy = RetryPolicy { timeout, retries: 2, resets: 2 };
    let controller = Arc::new(Mutex::new(controller));
    let drive = Drive::open(controller, namespace, requests, 4096, waiting, retry_policy).unwrap();
    (drive, emulated)
}

fn polling_drive() -> (Drive, Arc<Emulated>) {
    drive(4, Waiting::Polling, TIMEOUT)
}

/// Submits a write of one block and rings the doorbell.
fn write(drive: &mut Drive, slot: u16, block: u64) {
    drive.begin(slot, Operation::Write { first: block, blocks: 1 }, &[1; BLOCK_BYTES]).unwrap();
    drive.ring_doorbell();
}

/// The requests that end in one call of `process_completions`: the slot, and the error if there is one.
fn process_completions(drive: &mut Drive, wait: Wait) -> Vec<(u16, Option<String>)> {
    let mut ended = Vec::new();
    drive.process_completions(wait, &mut |slot, result| {
        ended.push((slot, result.err().map(|error| error.to_string())));
    });
    ended
}

/// Calls `check_timeouts` one tick after the last time, `count` times, and returns the last instant.
fn pass_ticks(drive: &mut Drive, mut now: Instant, count: u32) -> Instant {
    for _ in 0..count {
        now += TICK;
        drive.check_timeouts(now).unwrap();
    }
    now
}

#[test]
fn a_drive_has_no_more_requests_than_the_controller_allows() {
    let (drive, _) = drive(u16::MAX, Waiting::Polling, TIMEOUT);
    assert_eq!(drive.requests(), 1023);
    drive.close().unwrap();
}

#[test]
fn a_command_is_aborted_after_the_timeout() {
    let (mut drive, emulated) = polling_drive();
    emulated.inject(0, Fault::Stuck);
    write(&mut drive, 0, 0);
    let opened = drive.last_check;
    // The first tick is over one tick after the drive was opened.
    drive.check_timeouts(opened).unwrap();
    let now = pass_ticks(&mut drive, opened, TICKS - 1);
    for part in 1..8 {
        drive.check_timeouts(now + TICK / 8 * part).unwrap();
    }
    assert_eq!(drive.events, Events::default(), "the timeout is not over");
    pass_ticks(&mut drive, now, 1);
    assert_eq!(drive.events, Events { aborts: 1, ..Events::default() });
    // The aborted command is retried, and now succeeds.
    assert_eq!(process_completions(&mut drive, Wait::Yes), [(0, None)]);
    assert_eq!(drive.events, Events { aborts: 1, retries: 1, ..Events::default() });
}

#[test]
fn the_controller_is_reset_after_twice_the_timeout() {
    let (mut drive, emulated) = polling_drive();
    // Nothing is left to abort: the command was executed, and only its completion is lost.
    emulated.inject(0, Fault::LostCompletion);
    emulated.inject(1, Fault::Stuck);
    write(&mut drive, 0, 0);
    let opened = drive.last_check;
    let now = pass_ticks(&mut drive, opened, 2 * TICKS - 1);
    assert_eq!(drive.events, Events { aborts: 1, ..Events::default() }, "a command is aborted once");
    let now = pass_ticks(&mut drive, now, 1);
    assert_eq!(drive.events, Events { aborts: 1, resets: 1, resubmitted: 1, retries: 0, moved: 0 });
    // Once resubmitted it is stuck, and has the whole timeout again.
    pass_ticks(&mut drive, now, TICKS);
    assert_eq!(process_completions(&mut drive, Wait::No), []);
    assert_eq!(process_completions(&mut drive, Wait::No), [(0, None)]);
    assert_eq!(drive.events, Events { aborts: 2, resets: 1, resubmitted: 1, retries: 1, moved: 0 });
}

#[test]
fn only_the_overdue_command_is_aborted() {
    let (mut drive, emulated) = polling_drive();
    emulated.inject(0, Fault::Stuck);
    emulated.inject(1, Fault::Stuck);
    write(&mut drive, 0, 0);
    let opened = drive.last_check;
    let now = pass_ticks(&mut drive, opened, 4);
    write(&mut drive, 1, 1);
    let now = pass_ticks(&mut drive, now, 4);
    assert_eq!((process_completions(&mut drive, Wait::No), drive.events.aborts), (Vec::new(), 1));
    assert_eq!(process_completions(&mut drive, Wait::No), [(0, None)]);
    pass_ticks(&mut drive, now, 4);
    assert_eq!(drive.events.aborts, 2);
    assert_eq!(process_completions(&mut drive, Wait::Yes), [(1, None)]);
    assert_eq!(drive.events, Events { aborts: 2, retries: 2, ..Events::default() });
}

#[test]
fn a_retried_command_can_be_aborted_again() {
    let (mut drive, emulated) = polling_drive();
    emulated.inject(0, Fault::Stuck);
    emulated.inject(1, Fault::Stuck);
    write(&mut drive, 0, 0);
    let opened = drive.last_check;
    let now = pass_ticks(&mut drive, opened, TICKS);
    assert_eq!(process_completions(&mut drive, Wait::No), [], "retried");
    pass_ticks(&mut drive, now, TICKS);
    assert_eq!(drive.events, Events { aborts: 2, retries: 1, ..Events::default() });
    assert_eq!(process_completions(&mut drive, Wait::Yes), [(0, None)]);
}

#[test]
fn a_failed_controller_is_noticed_once_per_interval() {
    let (mut drive, emulated) = polling_drive();
    emulated.inject(0, Fault::Fatal);
    write(&mut drive, 0, 0);
    let opened = drive.last_check;
    drive.check_timeouts(opened + CHECK_INTERVAL / 2).unwrap();
    assert_eq!(drive.events.resets, 0);
    drive.check_timeouts(opened + CHECK_INTERVAL).unwrap();
    assert_eq!(drive.events, Events { resets: 1, resubmitted: 1, ..Events::default() });
    assert_eq!(process_completions(&mut drive, Wait::Yes), [(0, None)]);
}

#[test]
fn the_check_interval_is_a_tick_of_a_short_timeout() {
    assert_eq!(polling_drive().0.check_interval, CHECK_INTERVAL);
    let (drive, _) = drive(1, Waiting::Polling, Duration::from_millis(16));
    assert_eq!((drive.tick, drive.check_interval), (Duration::from_millis(2), Duration::from_millis(2)));
}

#[test]
fn processing_without_waiting_returns_at_once() {
    let (mut drive, emulated) = polling_drive();
    emulated.inject(0, Fault::Stuck);
    write(&mut drive, 0, 0);
    assert_eq!(process_completions(&mut drive, Wait::No), []);
    assert_eq!(drive.queue.in_flight(), 1);
}

#[test]
fn waiting_ends_when_a_request_has_ended() {
    let (mut drive, emulated) = drive(4, Waiting::Polling, Duration::from_millis(80));
    emulated.inject(0, Fault::Stuck);
    emulated.inject(2, Fault::Stuck);
    write(&mut drive, 0, 0);
    // Waits through the abort and the retry, and for nothing else.
    assert_eq!(process_completions(&mut drive, Wait::Yes), [(0, None)]);
    assert_eq!(drive.events.aborts, 1);
    write(&mut drive, 0, 0);
    write(&mut drive, 1, 1);
    assert_eq!(process_completions(&mut drive, Wait::Yes), [(1, None)]);
    assert_eq!(drive.events.aborts, 1, "the stuck request is still in flight");
}

#[test]
fn waiting_for_nothing_returns_at_once() {
    let (mut drive, _) = polling_drive();
    assert_eq!(process_completions(&mut drive, Wait::Yes), []);
}

/// The other command completes between two resets, so it is not the controller that is given up.
#[test]
fn a_command_that_crashes_the_controller_ends_after_its_resets() {
    let (mut drive, emulated) = polling_drive();
    emulated.inject_at_block(77, Fault::Fatal);
    let mut now = drive.last_check;
    write(&mut drive, 0, 0);
    write(&mut drive, 1, 77);
    assert_eq!(process_completions(&mut drive, Wait::No), [(0, None)]);
    for resets in 1..=2 {
        write(&mut drive, 0, 0);
        now += CHECK_INTERVAL;
        drive.check_timeouts(now).unwrap();
        assert_eq!((drive.events.resets, drive.events.resubmitted), (resets, 2 * resets));
        assert_eq!(process_completions(&mut drive, Wait::No), [(0, None)]);
    }
    write(&mut drive, 0, 0);
    drive.check_timeouts(now + CHECK_INTERVAL).unwrap();
    let error = "the command did not complete after 2 controller resets".to_owned();
    assert_eq!(process_completions(&mut drive, Wait::No), [(1, Some(error)), (0, None)]);
    assert_eq!(drive.events, Events { resets: 3, resubmitted: 5, ..Events::default() });
    write(&mut drive, 0, 0);
    assert_eq!(process_completions(&mut drive, Wait::Yes), [(0, None)]);
}

#[test]
fn a_controller_that_completes_nothing_between_resets_is_given_up() {
    let (mut drive, emulated) = polling_drive();
    emulated.inject_at_block(77, Fault::Fatal);
    let mut now = drive.last_check;
    write(&mut drive, 0, 77);
    for resets in 1..=2 {
        now += CHECK_INTERVAL;
        drive.check_timeouts(now).unwrap();
        assert_eq!(drive.events.resets, resets);
    }
    let error = drive.check_timeouts(now + CHECK_INTERVAL).unwrap_err();
    assert!(matches!(error, ChunkError::TooManyResets { resets: 2 }), "{error}");
    assert_eq!(drive.events.resets, 2);
}

#[cfg(target_os = "linux")]
#[test]
fn waiting_for_an_interrupt_sleeps() {
    let interrupt = Arc::new(dma::vfio::Interrupt::new().unwrap());
    let waiting = Waiting::Interrupt { vector: 1, interrupt: Arc::clone(&interrupt) };
    let (mut drive, emulated) = drive(4, waiting, TIMEOUT);
    let begin = Instant::now();
    drive.wait_for_completion();
    assert!(begin.elapsed() >= CHECK_INTERVAL, "{:?}", begin.elapsed());
    let signaled = Arc::clone(&interrupt);
    emulated.on_interrupt(move |_| signaled.signal().unwrap());
    write(&mut drive, 0, 0);
    // The wait consumes the signal.
    drive.wait_for_completion();
    assert!(!interrupt.wait(Duration::ZERO).unwrap());
    assert_eq!(process_completions(&mut drive, Wait::Yes), [(0, None)]);
}

/// The emulated controller completes at the doorbell, so that the first poll finds each completion. Each has signalled its interrupt too.
#[cfg(target_os = "linux")]
#[test]
fn adaptive_waiting_polls_and_sleeps_when_nothing_comes() {
    use crate::adaptive::Adaptive;
    let interrupt = Arc::new(dma::vfio::Interrupt::new().unwrap());
    let adaptive = Adaptive::new(Duration::ZERO);
    let counts = adaptive.counts();
    let waiting = Waiting::Adaptive { vector: 1, interrupt: Arc::clone(&interrupt), adaptive };
    let (mut drive, emulated) = drive(4, waiting, TIMEOUT);
    let signaled = Arc::clone(&interrupt);
    emulated.on_interrupt(move |vector| {
        assert_eq!(vector, 1);
        signaled.signal().unwrap();
    });
    for block in 0..3 {
        write(&mut drive, 0, block);
        drive.wait_for_completion();
        assert_eq!(process_completions(&mut drive, Wait::Yes), [(0, None)]);
    }
    assert_eq!((counts.polled(), counts.slept()), (3, 0));
    // Nothing is in flight: it sleeps, though three signals are left, until the limit.
    let begin = Instant::now();
    drive.wait_for_completion();
    assert!(begin.elapsed() >= CHECK_INTERVAL, "{:?}", begin.elapsed());
    assert_eq!((counts.polled(), counts.slept()), (3, 0));
    assert!(!interrupt.wait(Duration::ZERO).unwrap(), "the signals are taken");
}

/// A thread that waits for several files sleeps only when there is nothing to process, and what comes after that wakes it.
#[cfg(target_os = "linux")]
#[test]
fn a_sleep_that_was_announced_ends_with_the_next_completion() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let interrupt = Arc::new(dma::vfio::Interrupt::new().unwrap());
    let adaptive = crate::adaptive::Adaptive::default();
    let waiting = Waiting::Adaptive { vector: 1, interrupt: Arc::clone(&interrupt), adaptive };
    let (mut drive, emulated) = drive(4, waiting, TIMEOUT);
    let signaled = Arc::clone(&interrupt);
    emulated.on_interrupt(move |_| signaled.signal().unwrap());
    let is_woken = |drive: &Drive| {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&drive.as_fd().unwrap(), PollFlags::IN)], Some(&now)).unwrap() == 1
    };
    assert!(drive.announce_sleep() && !is_woken(&drive));
    write(&mut drive, 0, 0);
    assert!(is_woken(&drive) && !drive.announce_sleep(), "it has completed");
    assert!(!is_woken(&drive), "the signal is taken");
    assert_eq!(process_completions(&mut drive, Wait::Yes), [(0, None)]);
    assert!(drive.announce_sleep());
    // What was submitted without its doorbell is sent before the thread sleeps.
    drive.begin(1, Operation::Flush, &[]).unwrap();
    assert!(!drive.announce_sleep());
    assert_eq!(process_completions(&mut drive, Wait::Yes), [(1, None)]);
}
