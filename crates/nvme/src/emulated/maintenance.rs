//! The emulated controller's log pages, self-test and firmware.

use crate::spec::command::Command;
use crate::spec::firmware::{FirmwareSlots, SLOTS_MAX};
use crate::spec::health::Health;
use crate::spec::identify;
use crate::spec::log_page::LogPage;
use crate::spec::self_test::{RESULTS_MAX, RunningTest, SelfTestLog, SelfTestOutcome, SelfTestResult};
use crate::spec::status::Status;
use std::collections::BTreeMap;

/// What the emulated controller accepts as firmware begins so; the revision follows, and a byte for what it needs.
const MAGIC: &[u8; 8] = b"firmware";
/// Place of the byte that says which reset an image needs.
const NEED: usize = 16;

/// Firmware for the emulated controller: `bytes` long, at least 20, with this revision. A commit of it completes with `status`, which is
/// success, or demands a reset.
pub fn firmware_image(revision: &str, status: Status, bytes: usize) -> Vec<u8> {
    let mut image = MAGIC.to_vec();
    image.extend(revision.bytes().chain([b' '; 8]).take(8));
    image.push(status.code());
    image.resize(bytes.max(20), 0x5a);
    image
}

/// Log pages, the self-test, and firmware slots.
#[derive(Debug)]
pub(super) struct Maintenance {
    pub(super) health: Health,
    pub(super) self_tests: SelfTestLog,
    /// Percent by which a running test advances at each read of its log.
    pub(super) test_step: u8,
    /// How the next test ends.
    pub(super) test_result: SelfTestResult,
    pub(super) slots: FirmwareSlots,
    /// Parts of an image by their first byte.
    downloaded: BTreeMap<usize, Vec<u8>>,
    /// Images that were committed.
    pub(super) downloads: Vec<Vec<u8>>,
    /// Pages that replace those of the controller, by their identifier.
    pub(super) made_up: BTreeMap<u8, Vec<u8>>,
    /// Opcodes of the admin commands so far.
    pub(super) opcodes: Vec<u8>,
}

impl Maintenance {
    /// A healthy controller with one firmware.
    pub(super) fn new(firmware: &str) -> Self {
        let mut revisions = [const { String::new() }; SLOTS_MAX];
        firmware.clone_into(&mut revisions[0]);
        let passed = SelfTestResult {
            code: 0,
            outcome: SelfTestOutcome::Passed,
            segment: 0,
            hours: 1,
            namespace: None,
            block: None,
            status: None,
        };
        Self {
            health: Health {
                temperature_k: 300,
                spare_percent: 100,
                spare_threshold_percent: 10,
                power_cycles: 1,
                power_on_hours: 1,
                ..Health::default()
            },
            self_tests: SelfTestLog::default(),
            test_step: 50,
            test_result: passed,
            slots: FirmwareSlots { active: 1, next: None, revisions },
            downloaded: BTreeMap::new(),
            downloads: Vec::new(),
            made_up: BTreeMap::new(),
            opcodes: Vec::new(),
        }
    }

    /// A log page; `None` if there is none of this identifier. Reading the self-test log advances the test.
    pub(super) fn log_page(&mut self, identifier: u8) -> Option<Vec<u8>> {
        if let Some(made_up) = self.made_up.get(&identifier) {
            return Some(made_up.clone());
        }
        if identifier == LogPage::Health.identifier() {
            Some(self.health.write().to_vec())
        } else if identifier == LogPage::FirmwareSlots.identifier() {
            Some(self.slots.write().to_vec())
        } else if identifier == LogPage::SelfTest.identifier() {
            let page = self.self_tests.write().to_vec();
            self.advance_test();
            Some(page)
        } else {
            None
        }
    }

    /// Advances the running test by a step; at 100 % it ends with the planned result.
    fn advance_test(&mut self) {
        let Some(running) = &mut self.self_tests.running else { return };
        running.percent = running.percent.saturating_add(self.test_step);
        if running.percent >= 100 {
            self.end_test(self.test_result.outcome);
        }
    }

    /// Ends the running test and logs its result.
    fn end_test(&mut self, outcome: SelfTestOutcome) {
        let Some(RunningTest { code, .. }) = self.self_tests.running.take() else { return };
        self.self_tests.results.insert(0, SelfTestResult { code, outcome, ..self.test_result });
        self.self_tests.results.truncate(RESULTS_MAX);
    }

    /// Executes Device Self-test.
    pub(super) fn self_test(&mut self, identity: &identify::Controller, command: &Command) -> Status {
        match command.word(10) & 0xf {
            _ if !identity.can_self_test => Status::INVALID_OPCODE.with_do_not_retry(),
            0xf => {
                self.end_test(SelfTestOutcome::AbortedByCommand);
                Status::SUCCESS
            }
            1 | 2 if self.self_tests.running.is_some() => Status::SELF_TEST_IN_PROGRESS,
            code @ (1 | 2) => {
                self.self_tests.running = Some(RunningTest { code: code as u8, percent: 0 });
                Status::SUCCESS
            }
            _ => Status::INVALID_FIELD.with_do_not_retry(),
        }
    }

    /// Bytes of a Firmware Image Download's data; the status of its first invalid field.
    pub(super) fn download_bytes(
        identity: &identify::Controller,
        command: &Command,
    ) -> Result<usize, Status> {
        let bytes = (command.word(10) as usize + 1) * 4;
        let unit = identity.firmware_updates.granularity_bytes().unwrap_or(4);
        match bytes {
            _ if !identity.can_update_firmware => Err(Status::INVALID_OPCODE.with_do_not_retry()),
            _ if bytes % unit != 0 || command.word(11) as usize * 4 % unit != 0 => {
                Err(Status::INVALID_FIELD.with_do_not_retry())
            }
            _ => Ok(bytes),
        }
    }

    /// Keeps a part of an image.
    pub(super) fn download(&mut self, command: &Command, part: Vec<u8>) -> Status {
        let first = command.word(11) as usize * 4;
        let before = self.downloaded.range(..first + part.len()).next_back();
        if before.is_some_and(|(at, bytes)| at + bytes.len() > first) {
            return Status::OVERLAPPING_RANGE;
        }
        self.downloaded.insert(first, part);
        Status::SUCCESS
    }

    /// Executes Firmware Commit.
    pub(super) fn commit(&mut self, identity: &identify::Controller, command: &Command) -> Status {
        let (slot, action) = ((command.word(10) & 7) as u8, command.word(10) >> 3 & 7);
        let updates = &identity.firmware_updates;
        let image: Vec<u8> = std::mem::take(&mut self.downloaded).into_values().flatten().collect();
        match action {
            _ if !identity.can_update_firmware => return Status::INVALID_OPCODE.with_do_not_retry(),
            1 => {}
            3 if updates.activates_without_reset => {}
            _ => return Status::INVALID_FIELD.with_do_not_retry(),
        }
        if !updates.can_write_slot(slot) {
            return Status::INVALID_FIRMWARE_SLOT.with_do_not_retry();
        }
        let (Some(need), true) = (image.get(NEED), image.starts_with(MAGIC)) else {
            return Status::INVALID_FIRMWARE_IMAGE.with_do_not_retry();
        };
        let status = if *need == 0 { Status::SUCCESS } else { Status::of(1, *need) };
        self.slots.revisions[usize::from(slot) - 1] = identify::text(&image[8..16]);
        self.downloads.push(image);
        match action {
            3 if status.is_success() => self.slots.active = slot,
            _ => self.slots.next = Some(slot),
        }
        status
    }

    /// A reset of the controller: it activates firmware, discards a download, and aborts a short test.
    pub(super) fn reset(&mut self) {
        self.downloaded.clear();
        if let Some(next) = self.slots.next.take() {
            self.slots.active = next;
        }
        if self.self_tests.running.is_some_and(|running| running.code == 1) {
            self.end_test(SelfTestOutcome::AbortedByReset);
        }
    }
}
