//! `iotoll blk firmware`: what is in a controller's firmware slots, and the replacement of one by an image.
//!
//! ```text
//!   --replace SERIAL   checked against the kernel's serial number before the adapter is unbound,
//!                      and against the controller's own afterwards
//!   image              length, slot and activation are checked by Identify data
//!     |
//!     v
//!   Firmware Image Download ...  Firmware Commit  ->  slots before and after
//! ```

use super::driven_adapter::{DrivenAdapter, fail_if_refused, find_candidate, refusal_lines};
use super::target::MEMORY_BYTES;
use crate::cli::{ActivateWhen, BlkFirmware, NvmeController};
use crate::interrupt::stop_flag;
use crate::output::{self, Lines, Outcome};
use anyhow::{Context, bail, ensure};
use nvme::spec::firmware::{Activation, FirmwareSlots};
use nvme::spec::identify;
use nvme::takeover::Root;
use nvme::{Committed, Controller, check_firmware};
use report::{ControllerUpkeep, UpkeepSection};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Largest image. Those of vendors have some MiB.
const IMAGE_BYTES_MAX: u64 = 256 << 20;

/// An image to write, and where.
#[derive(Debug)]
struct Update {
    image: Vec<u8>,
    slot: Option<u8>,
    activation: Activation,
    /// The serial number that the user named.
    replace: Option<String>,
}

/// What was in the slots, and what an update did.
#[derive(Debug)]
struct Updated {
    identity: identify::Controller,
    before: FirmwareSlots,
    written: Option<Written>,
}

/// An image that was written.
#[derive(Debug)]
struct Written {
    slot: u8,
    activation: Activation,
    committed: Committed,
    /// The slots afterwards.
    after: FirmwareSlots,
}

/// Lists firmware slots, or replaces the firmware in one.
pub(super) fn run(args: &BlkFirmware) -> anyhow::Result<Outcome> {
    let update = args.image.as_deref().map(|image| Update::read(args, image)).transpose()?;
    let root = Root::default();
    let NvmeController { address, consent } = &args.controller;
    let candidate = find_candidate(&root, address)?;
    let mut refusals = refusal_lines(&candidate.refusals(&root, consent.accepted()));
    // Without the kernel's driver the serial number is not known before this process has opened the controller.
    if let (Some(update), Some(serial)) = (&update, &candidate.serial) {
        let model = candidate.model.as_deref().unwrap_or("model unknown");
        refusals.extend(update.refusal(address, model, serial));
    }
    fail_if_refused(refusals)?;
    if update.is_some() {
        // From here on signals only set a flag, because an update must not be cut off.
        stop_flag().context("can't handle signals")?;
    }
    let adapter = DrivenAdapter::open_candidate(&root, &candidate, MEMORY_BYTES, Vec::new())?;
    let updated = adapter.use_and_close(|controller| execute(address, controller, update.as_ref()))?;
    output::print_page(&report::controller_upkeep(&updated.upkeep()))?;
    Ok(updated.outcome())
}

/// Reads the slots, and writes the image to one if there is an update.
fn execute(address: &str, controller: &mut Controller, update: Option<&Update>) -> anyhow::Result<Updated> {
    let identity = controller.identity().clone();
    if let Some(refusal) = update.and_then(|one| one.refusal(address, &identity.model, &identity.serial)) {
        return Err(refusal.into());
    }
    let before = controller.firmware_slots()?;
    let Some(update) = update else { return Ok(Updated { identity, before, written: None }) };
    let slot = update.choose_slot(&identity, &before)?;
    check_firmware(&identity, update.image.len(), slot, update.activation)?;
    output::print_note(&format!(
        "writing {} bytes to firmware slot {slot}; do not cut the power until this has ended",
        update.image.len()
    ));
    let committed = controller
        .update_firmware(&update.image, slot, update.activation, |_| {})
        .with_context(|| format!("firmware slot {slot} of {address} was not updated"))?;
    let after = controller.firmware_slots().with_context(|| {
        format!("firmware slot {slot} of {address} was written, but the slots can't be read")
    })?;
    let written = Written { slot, activation: update.activation, committed, after };
    Ok(Updated { identity, before, written: Some(written) })
}

impl Update {
    /// Reads the image.
    fn read(args: &BlkFirmware, path: &Path) -> anyhow::Result<Self> {
        let mut image = Vec::new();
        let file = File::open(path).and_then(|file| file.take(IMAGE_BYTES_MAX + 1).read_to_end(&mut image));
        file.with_context(|| format!("can't read {}", path.display()))?;
        ensure!(!image.is_empty(), "{} is empty; expected a firmware image", path.display());
        ensure!(
            image.len() as u64 <= IMAGE_BYTES_MAX,
            "{} has more than {IMAGE_BYTES_MAX} bytes; expected a firmware image",
            path.display()
        );
        let activation = match args.activate {
            Some(ActivateWhen::Now) => Activation::Now,
            Some(ActivateWhen::AtReset) => Activation::AtReset,
            None => bail!("--activate is missing; expected now or at-reset"),
        };
        Ok(Self { image, slot: args.slot, activation, replace: args.replace.clone() })
    }

    /// The error that lists what would be replaced, unless `--replace` names the controller. One without a serial number is named by its
    /// address.
    fn refusal(&self, address: &str, model: &str, serial: &str) -> Option<Lines> {
        let name = if serial.is_empty() { address } else { serial };
        let missing = match &self.replace {
            Some(named) if named == name => return None,
            Some(named) => format!("--replace {named:?} is not its name"),
            None => "--replace does not name it".to_owned(),
        };
        let shown = escape::shell::quote(name).unwrap_or_else(|| "NAME".to_owned());
        Some(Lines(vec![
            format!("the firmware of {address} is not replaced: {missing}"),
            "  what would be replaced:".to_owned(),
            format!("    firmware of {address}, {model}, serial number {serial}"),
            format!("    by an image of {} bytes", self.image.len()),
            format!("  if that is what you want, add: --replace {shown}"),
        ]))
    }

    /// The slot that the user named, or the only one to be written, or the first empty one.
    fn choose_slot(&self, identity: &identify::Controller, slots: &FirmwareSlots) -> anyhow::Result<u8> {
        let updates = &identity.firmware_updates;
        let writable: Vec<u8> = (1..=updates.slots).filter(|slot| updates.can_write_slot(*slot)).collect();
        let is_free = |slot: &&u8| slots.revision(**slot).is_none() && **slot != slots.active;
        match (self.slot, &writable[..]) {
            (Some(slot), _) => Ok(slot),
            (None, []) => bail!("the controller has no firmware slot that can be written (FRMW)"),
            (None, [only]) => Ok(*only),
            (None, several) => several.iter().find(is_free).copied().with_context(|| {
                let numbers: Vec<String> = several.iter().map(u8::to_string).collect();
                format!(
                    "every firmware slot that can be written holds firmware; expected --slot, one of {}",
                    numbers.join(", ")
                )
            }),
        }
    }
}

impl Updated {
    /// Whether the image is active, or will be after the reset at this command's end.
    fn outcome(&self) -> Outcome {
        match &self.written {
            Some(written) if !written.is_active() && !written.waits_for_reset() => Outcome::Findings,
            _ => Outcome::Fine,
        }
    }

    /// What was done, then the slots.
    fn upkeep(&self) -> ControllerUpkeep {
        let identity = &self.identity;
        let section =
            |heading: &str, sentences, facts| UpkeepSection { heading: heading.to_owned(), sentences, facts };
        let slots = |slots: &FirmwareSlots| slot_facts(identity, slots);
        let sections = match &self.written {
            None => vec![
                section("Firmware slots", vec![], slots(&self.before)),
                section("Updates", vec![], update_facts(identity)),
            ],
            Some(written) => vec![
                section("Firmware update", vec![written.sentence()], vec![]),
                section("Firmware slots before", vec![], slots(&self.before)),
                section("Firmware slots after", vec![], slots(&written.after)),
            ],
        };
        ControllerUpkeep {
            model: identity.model.clone(),
            serial: identity.serial.clone(),
            firmware: self.before.revision(self.before.active).unwrap_or(&identity.firmware).to_owned(),
            sections,
        }
    }
}

impl Written {
    /// Whether the controller reports the image as active.
    fn is_active(&self) -> bool {
        self.after.active == self.slot
            && self.committed == Committed::AsRequested
            && self.activation == Activation::Now
    }

    /// Whether the controller activates the image at its next reset.
    fn waits_for_reset(&self) -> bool {
        // A controller need not report which slot is next.
        let is_next = self.after.next.is_none_or(|next| next == self.slot);
        match self.committed {
            Committed::AsRequested => self.activation == Activation::AtReset && is_next,
            Committed::NeedsControllerReset => is_next,
            _ => false,
        }
    }

    /// What the update did, and what is left to do.
    fn sentence(&self) -> String {
        let Self { slot, after, .. } = self;
        let revision = after.revision(*slot).unwrap_or("of unknown revision");
        let image = format!("firmware {revision} is in slot {slot}");
        match self.committed {
            _ if self.is_active() => format!("{image}, and active"),
            _ if self.waits_for_reset() => format!(
                "{image}; it becomes active by the controller's reset at the end of this command. Check it: iotoll blk firmware, without --image"
            ),
            Committed::NeedsSubsystemReset => format!(
                "{image}, but not active: the controller demands a reset of the NVM subsystem. Switch the host off and on"
            ),
            Committed::NeedsConventionalReset => format!(
                "{image}, but not active: the controller demands a conventional reset. Restart the host, or switch it off and on"
            ),
            _ => format!("{image}, but the controller reports slot {} as active", after.active),
        }
    }
}

/// What is in each slot.
fn slot_facts(identity: &identify::Controller, slots: &FirmwareSlots) -> Vec<(String, String)> {
    let updates = &identity.firmware_updates;
    let words = |slot: u8| {
        let mut words = vec![slots.revision(slot).unwrap_or("empty").to_owned()];
        let marks = [
            (slots.active == slot, "active"),
            (slots.next == Some(slot), "active after the next reset"),
            (slot == 1 && updates.is_first_read_only, "read-only"),
        ];
        words.extend(marks.into_iter().filter(|(holds, _)| *holds).map(|(_, mark)| mark.to_owned()));
        (format!("slot {slot}"), words.join(", "))
    };
    (1..=updates.slots).map(words).collect()
}

/// How the controller's firmware can be updated.
fn update_facts(identity: &identify::Controller) -> Vec<(String, String)> {
    let updates = &identity.firmware_updates;
    if !identity.can_update_firmware {
        return vec![("firmware updates".to_owned(), "not supported (OACS bit 2 is clear)".to_owned())];
    }
    let granularity = match (updates.granularity_bytes(), updates.granularity) {
        (Some(bytes), _) => format!("a multiple of {bytes} bytes"),
        (None, 0) => "a multiple of 4 bytes; the controller does not say more".to_owned(),
        (None, _) => "a multiple of 4 bytes".to_owned(),
    };
    let activation = match (updates.activates_without_reset, updates.activation_time_max) {
        (false, _) => "by a reset only".to_owned(),
        (true, 0) => "now, or by a reset".to_owned(),
        (true, units) => {
            let ms = 100 * u32::from(units);
            format!("now, with a pause of at most {ms} ms, or by a reset")
        }
    };
    vec![("length of an image".to_owned(), granularity), ("activation".to_owned(), activation)]
}

#[cfg(test)]
mod tests {
    use super::super::emulated_disk::EmulatedDisk;
    use super::*;
    use nvme::emulated::firmware_image;
    use nvme::spec::command::admin;
    use nvme::spec::status::Status;
    use report::{Length, Style};

    /// The granularity of the emulated controller.
    const UNIT: usize = 8192;
    const ADDRESS: &str = "0000:3b:00.0";

    fn update(image: Vec<u8>, slot: Option<u8>, activation: Activation) -> Update {
        Update { image, slot, activation, replace: Some("emulated".to_owned()) }
    }

    fn image(status: Status) -> Vec<u8> {
        firmware_image("2.0", status, 3 * UNIT)
    }

    fn text(updated: &Updated) -> String {
        report::text(&report::controller_upkeep(&updated.upkeep()), 200, Style::Plain, Length::Full)
    }

    fn executed(disk: &mut EmulatedDisk, update: &Update) -> anyhow::Result<Updated> {
        execute(ADDRESS, &mut disk.controller, Some(update))
    }

    /// Whether anything was sent that changes firmware.
    fn is_untouched(disk: &EmulatedDisk) -> bool {
        let sent = disk.emulated.admin_opcodes();
        !sent.contains(&admin::FIRMWARE_DOWNLOAD) && !sent.contains(&admin::FIRMWARE_COMMIT)
    }

    fn expect(text: &str, words: &[&str]) {
        for word in words {
            assert!(text.contains(word), "{word:?} is not in\n{text}");
        }
    }

    #[test]
    fn slots_are_listed_without_an_image() {
        let mut disk = EmulatedDisk::new(|_| {});
        let updated = execute(ADDRESS, &mut disk.controller, None).unwrap();
        assert_eq!(updated.outcome(), Outcome::Fine);
        let words =
            ["1, active, read-only", "empty", "a multiple of 8192 bytes", "a pause of at most 1000 ms"];
        expect(&text(&updated), &words);
        assert!(is_untouched(&disk));
        let mut disk = EmulatedDisk::new(|identity| identity.can_update_firmware = false);
        expect(&text(&execute(ADDRESS, &mut disk.controller, None).unwrap()), &["not supported"]);
    }

    #[test]
    fn an_update_now_is_active_and_shown_before_and_after() {
        let mut disk = EmulatedDisk::new(|_| {});
        let updated = executed(&mut disk, &update(image(Status::SUCCESS), None, Activation::Now)).unwrap();
        assert_eq!(updated.outcome(), Outcome::Fine);
        let text = text(&updated);
        expect(&text, &["firmware 2.0 is in slot 2, and active", "2.0, active", "1, active, read-only"]);
        assert!(text.find("Firmware slots before").unwrap() < text.find("Firmware slots after").unwrap());
    }

    #[test]
    fn an_update_at_the_reset_says_when_it_becomes_active() {
        let check = |status: Status, activation: Activation, expected: Outcome, words: &[&str]| {
            let mut disk = EmulatedDisk::new(|_| {});
            let updated = executed(&mut disk, &update(image(status), Some(3), activation)).unwrap();
            assert_eq!(updated.outcome(), expected);
            expect(&text(&updated), words);
        };
        let at_the_end =
            ["firmware 2.0 is in slot 3; it becomes active by the controller's reset", "2.0, active after"];
        check(Status::SUCCESS, Activation::AtReset, Outcome::Fine, &at_the_end);
        check(Status::NEEDS_CONTROLLER_RESET, Activation::Now, Outcome::Fine, &at_the_end);
        let off = ["but not active: the controller demands a reset of the NVM subsystem"];
        check(Status::NEEDS_SUBSYSTEM_RESET, Activation::Now, Outcome::Findings, &off);
        let conventional = ["but not active: the controller demands a conventional reset"];
        check(Status::NEEDS_CONVENTIONAL_RESET, Activation::AtReset, Outcome::Findings, &conventional);
    }

    #[test]
    fn nothing_is_sent_without_the_serial_number() {
        for (named, missing) in [
            (None, "--replace does not name it"),
            (Some("another"), "--replace \"another\" is not its name"),
            (Some(""), "--replace \"\" is not its name"),
            (Some("EMULATED"), "is not its name"),
        ] {
            let mut disk = EmulatedDisk::new(|_| {});
            let before = disk.emulated.admin_opcodes();
            let replace = named.map(str::to_owned);
            let update = Update { replace, ..update(image(Status::SUCCESS), None, Activation::Now) };
            let error = executed(&mut disk, &update).unwrap_err();
            let Some(Lines(lines)) = error.downcast_ref::<Lines>() else { panic!("{error:?}") };
            let words =
                [missing, "an image of 24576 bytes", "serial number emulated", "add: --replace emulated"];
            expect(&lines.join("\n"), &words);
            assert_eq!(disk.emulated.admin_opcodes(), before);
        }
    }

    #[test]
    fn a_controller_without_a_serial_number_is_named_by_its_address() {
        let mut disk = EmulatedDisk::new(|identity| identity.serial.clear());
        let named = |name: &str| Update {
            replace: Some(name.to_owned()),
            ..update(image(Status::SUCCESS), None, Activation::Now)
        };
        assert!(executed(&mut disk, &named("")).is_err() && is_untouched(&disk));
        executed(&mut disk, &named(ADDRESS)).unwrap();
    }

    #[test]
    fn what_the_controller_can_not_do_is_not_sent() {
        let check = |change: fn(&mut identify::Controller), update: Update, words: &str| {
            let mut disk = EmulatedDisk::new(change);
            let error = format!("{:#}", executed(&mut disk, &update).unwrap_err());
            assert!(error.contains(words) && is_untouched(&disk), "{error}");
        };
        let good = |slot| update(image(Status::SUCCESS), slot, Activation::Now);
        check(|_| {}, good(Some(1)), "firmware slot 1 is read-only");
        check(|_| {}, good(Some(4)), "no firmware slot 4; the controller has 3");
        check(|_| {}, update(vec![1; UNIT + 4], None, Activation::Now), "expected a multiple of 8192");
        check(|one| one.firmware_updates.activates_without_reset = false, good(None), "FRMW bit 4 is clear");
        check(|one| one.can_update_firmware = false, good(None), "OACS bit 2 is clear");
        check(|one| one.firmware_updates.slots = 1, good(None), "no firmware slot that can be written");
        check(|one| one.firmware_updates.slots = 0, good(None), "no firmware slot that can be written");
    }

    #[test]
    fn a_rejected_image_is_reported() {
        let mut disk = EmulatedDisk::new(|_| {});
        let error = executed(&mut disk, &update(vec![1; UNIT], None, Activation::Now)).unwrap_err();
        let expected =
            "firmware slot 2 of 0000:3b:00.0 was not updated: committing firmware: invalid firmware image";
        assert!(format!("{error:#}").starts_with(expected), "{error:#}");
    }

    /// The only slot, else the first empty one; never one that holds what the user may want back.
    #[test]
    fn a_slot_is_chosen_only_where_nothing_is_lost() {
        let mut disk = EmulatedDisk::new(|identity| identity.firmware_updates.is_first_read_only = false);
        let again = |disk: &mut EmulatedDisk| {
            executed(disk, &update(image(Status::SUCCESS), None, Activation::AtReset))
        };
        for expected in [2, 3] {
            assert_eq!(again(&mut disk).unwrap().written.unwrap().slot, expected);
        }
        let error = again(&mut disk).unwrap_err().to_string();
        assert!(error.ends_with("expected --slot, one of 1, 2, 3"), "{error}");
        let mut disk = EmulatedDisk::new(|identity| identity.firmware_updates.slots = 2);
        for _ in 0..2 {
            assert_eq!(again(&mut disk).unwrap().written.unwrap().slot, 2);
        }
    }

    /// A controller that says it did what its log does not show.
    #[test]
    fn an_activation_that_the_log_does_not_show_is_a_finding() {
        let mut disk = EmulatedDisk::new(|_| {});
        let old = FirmwareSlots { active: 1, ..FirmwareSlots::default() };
        disk.emulated.make_up_log_page(3, old.write().to_vec());
        let updated = executed(&mut disk, &update(image(Status::SUCCESS), None, Activation::Now)).unwrap();
        assert_eq!(updated.outcome(), Outcome::Findings);
        expect(&text(&updated), &["but the controller reports slot 1 as active"]);
    }

    /// Slots with any content are listed.
    #[test]
    fn a_hostile_log_is_shown() {
        let mut disk = EmulatedDisk::new(|identity| identity.firmware_updates.slots = 7);
        for bytes in [vec![], vec![0xff; 512], b"\x77\0\0\0\0\0\0\0\x1b]0;x\x07\n".to_vec()] {
            disk.emulated.make_up_log_page(3, bytes);
            let text = text(&execute(ADDRESS, &mut disk.controller, None).unwrap());
            assert!(text.contains("slot 7") && !text.contains('\u{1b}'), "{text}");
        }
    }
}
