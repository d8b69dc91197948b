//! Health, self-tests and firmware of an emulated controller, and of one whose log pages are made up.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "support/mod.rs"]
mod support;

use nvme::emulated::{Emulated, firmware_image};
use nvme::spec::command::admin;
use nvme::spec::firmware::Activation;
use nvme::spec::health::CriticalWarning;
use nvme::spec::identify::{self, FirmwareUpdates};
use nvme::spec::self_test::{RunningTest, SelfTest, SelfTestOutcome, SelfTestResult};
use nvme::spec::status::Status;
use nvme::{Committed, FirmwareError, NvmeError};
use proptest::prelude::*;
use support::{BLOCKS, Bench, bench, bench_prepared};

/// The granularity of the emulated controller's firmware.
const UNIT: usize = 8192;

fn bench_of(change: impl FnOnce(&mut identify::Controller)) -> Bench {
    bench_prepared(BLOCKS, 9, |emulated| emulated.change_controller(change))
}

fn updates_of(change: impl FnOnce(&mut FirmwareUpdates)) -> Bench {
    bench_of(|controller| change(&mut controller.firmware_updates))
}

#[test]
fn health_is_read_with_all_its_digits() {
    let mut bench = bench();
    assert_eq!(bench.controller.health().unwrap().warnings().count(), 0);
    bench.emulated.change_health(|health| {
        health.critical_warnings = 1 | 1 << 3;
        health.units_written = u128::MAX - 1;
    });
    let health = bench.controller.health().unwrap();
    assert_eq!(health.warnings().collect::<Vec<_>>(), [CriticalWarning::Spare, CriticalWarning::ReadOnly]);
    assert_eq!(health.units_written, u128::MAX - 1);
}

#[test]
fn a_self_test_advances_and_ends_with_its_result() {
    let mut bench = bench();
    let failed = SelfTestResult {
        code: 0,
        outcome: SelfTestOutcome::FailedSegment,
        segment: 7,
        hours: 5,
        namespace: Some(1),
        block: Some(77),
        status: Some(Status::UNRECOVERED_READ),
    };
    bench.emulated.plan_self_test(40, failed);
    bench.controller.start_self_test(SelfTest::Extended).unwrap();
    let error = bench.controller.start_self_test(SelfTest::Short).unwrap_err();
    assert!(error.to_string().contains("device self-test in progress"), "{error}");
    for percent in [0, 40, 80] {
        let running = bench.controller.self_tests().unwrap().running;
        assert_eq!(running, Some(RunningTest { code: 2, percent }));
    }
    let log = bench.controller.self_tests().unwrap();
    assert_eq!((log.running, log.results), (None, vec![SelfTestResult { code: 2, ..failed }]));
}

/// A reset aborts a short test, and leaves an extended one (Base, "Device Self-test Operations").
#[test]
fn a_self_test_is_aborted_by_a_command_or_a_reset() {
    let mut bench = bench();
    let newest = |bench: &mut Bench| bench.controller.self_tests().unwrap().results[0].outcome;
    bench.controller.start_self_test(SelfTest::Extended).unwrap();
    bench.controller.reset().unwrap();
    assert!(bench.controller.self_tests().unwrap().running.is_some());
    bench.controller.abort_self_test().unwrap();
    assert_eq!(newest(&mut bench), SelfTestOutcome::AbortedByCommand);
    bench.controller.start_self_test(SelfTest::Short).unwrap();
    bench.controller.reset().unwrap();
    assert_eq!(newest(&mut bench), SelfTestOutcome::AbortedByReset);
}

#[test]
fn a_controller_without_self_tests_is_sent_none() {
    let mut bench = bench_of(|controller| controller.can_self_test = false);
    let error = bench.controller.start_self_test(SelfTest::Short).unwrap_err();
    assert_eq!(error.to_string(), "the controller has no self-test (OACS bit 4 is clear)");
    assert!(!bench.emulated.admin_opcodes().contains(&admin::SELF_TEST));
}

#[test]
fn firmware_is_activated_now_or_at_the_reset() {
    let mut bench = bench();
    let image = firmware_image("2.0", Status::SUCCESS, 5 * UNIT);
    let mut parts = Vec::new();
    let update = bench.controller.update_firmware(&image, 2, Activation::Now, |done| parts.push(done));
    assert_eq!(update.unwrap(), Committed::AsRequested);
    assert_eq!(parts, [1, 2, 3, 4, 5].map(|number| number * UNIT));
    let slots = bench.controller.firmware_slots().unwrap();
    assert_eq!((slots.active, slots.next, slots.revision(2)), (2, None, Some("2.0")));
    let image = firmware_image("3.0", Status::SUCCESS, UNIT);
    bench.controller.update_firmware(&image, 3, Activation::AtReset, |_| {}).unwrap();
    let slots = bench.controller.firmware_slots().unwrap();
    assert_eq!((slots.active, slots.next, slots.revision(3)), (2, Some(3), Some("3.0")));
    bench.controller.reset().unwrap();
    let slots = bench.controller.firmware_slots().unwrap();
    assert_eq!((slots.active, slots.next), (3, None));
    assert_eq!(slots.revision(1), Some("1"), "slot 1 is read-only");
}

#[test]
fn an_image_that_needs_another_reset_is_committed() {
    let check = |status: Status, expected: Committed| {
        let mut bench = bench();
        let image = firmware_image("2.0", status, UNIT);
        let update = bench.controller.update_firmware(&image, 2, Activation::Now, |_| {});
        assert_eq!(update.unwrap(), expected);
        let slots = bench.controller.firmware_slots().unwrap();
        assert_eq!((slots.active, slots.next), (1, Some(2)));
    };
    check(Status::NEEDS_CONTROLLER_RESET, Committed::NeedsControllerReset);
    check(Status::NEEDS_SUBSYSTEM_RESET, Committed::NeedsSubsystemReset);
    check(Status::NEEDS_CONVENTIONAL_RESET, Committed::NeedsConventionalReset);
}

/// What the controller says that it can't do is not sent.
#[test]
fn impossible_updates_are_refused_before_anything_is_sent() {
    let check = |mut bench: Bench, bytes: usize, slot: u8, words: &str| {
        let image = vec![0; bytes];
        let update = bench.controller.update_firmware(&image, slot, Activation::Now, |_| {});
        assert!(update.as_ref().unwrap_err().to_string().contains(words), "{update:?}: {words}");
        let sent = bench.emulated.admin_opcodes();
        assert!(!sent.contains(&admin::FIRMWARE_DOWNLOAD) && !sent.contains(&admin::FIRMWARE_COMMIT));
    };
    check(bench_of(|one| one.can_update_firmware = false), UNIT, 2, "can't update firmware");
    check(bench(), UNIT, 1, "slot 1 is read-only");
    check(bench(), UNIT, 0, "no firmware slot 0; the controller has 3");
    check(bench(), UNIT, 4, "no firmware slot 4; the controller has 3");
    check(bench(), UNIT + 4096, 2, "12288 bytes; expected a multiple of 8192, and at least one (the");
    check(bench(), 0, 2, "an image of 0 bytes");
    check(updates_of(|one| one.granularity = 0), 7, 2, "an image of 7 bytes; expected a multiple of 4, and");
    check(updates_of(|one| one.activates_without_reset = false), UNIT, 2, "without a reset (FRMW bit 4");
    check(updates_of(|one| one.slots = 0), UNIT, 1, "no firmware slot 1; the controller has 0");
    check(updates_of(|one| one.granularity = 0xfe), 254 << 12, 2, "at most 524288 (MDTS)");
}

#[test]
fn a_rejected_image_changes_no_slot() {
    let mut bench = bench();
    let before = bench.controller.firmware_slots().unwrap();
    let update = bench.controller.update_firmware(&[7; UNIT], 2, Activation::Now, |_| {});
    let Err(FirmwareError::Nvme(NvmeError::Refused { status, .. })) = update else { panic!("{update:?}") };
    assert!(status.has_code_of(Status::INVALID_FIRMWARE_IMAGE));
    assert_eq!(bench.controller.firmware_slots().unwrap(), before);
}

/// Parts of two pages or more need a PRP list. Parts of 4 KiB end with a shorter one.
#[test]
fn an_image_arrives_whole_in_parts_of_any_size() {
    for (granularity, bytes) in [(1, 3 << 12), (3, 6 << 12), (100, 200 << 12), (0, 10_004), (255, 4100)] {
        let mut bench = updates_of(|updates| updates.granularity = granularity);
        let image = firmware_image("2.0", Status::SUCCESS, bytes);
        bench.controller.update_firmware(&image, 2, Activation::Now, |_| {}).unwrap();
        assert_eq!(bench.emulated.downloads(), [image]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Log pages of any content and length are read, and none of them makes the driver fail.
    #[test]
    fn made_up_log_pages_are_read(bytes in prop::collection::vec(any::<u8>(), 0..700)) {
        let make_up = |emulated: &Emulated| [2, 3, 6].map(|page| emulated.make_up_log_page(page, bytes.clone()));
        let mut bench = bench_prepared(BLOCKS, 9, |emulated| { make_up(emulated); });
        bench.controller.health().unwrap();
        prop_assert!(bench.controller.firmware_slots().unwrap().active <= 7);
        prop_assert!(bench.controller.self_tests().unwrap().results.len() <= 20);
    }
}
