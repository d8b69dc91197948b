//! Firmware: the download and commit commands (Base, "Firmware Image Download command" and "Firmware Commit command"), and the log page of
//! slots (Base, 5.16.1.4).

use super::command::{Command, admin};
use super::field::number;
use super::identify::{text, write_padded};

/// Most firmware slots of a controller.
pub const SLOTS_MAX: usize = 7;
/// Bytes of the log page.
pub const SLOTS_BYTES: usize = 512;
/// Bytes of a revision.
const REVISION_BYTES: usize = 8;

/// When a committed image is activated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// At the controller's next reset (commit action 1).
    AtReset,
    /// Now, without a reset (commit action 3).
    Now,
}

impl Command {
    /// Downloads a part of an image, at least one dword. `first` and `dwords` are in units of four bytes.
    pub fn firmware_download(first: u32, dwords: u32, data: [u64; 2]) -> Self {
        let less_one = u64::from(dwords.saturating_sub(1));
        Self::new(admin::FIRMWARE_DOWNLOAD, 0, data).with([less_one | u64::from(first) << 32, 0, 0])
    }

    /// Writes the downloaded image to a slot, and activates it.
    pub fn firmware_commit(slot: u8, activation: Activation) -> Self {
        let action = match activation {
            Activation::AtReset => 1,
            Activation::Now => 3,
        };
        Self::new(admin::FIRMWARE_COMMIT, 0, [0; 2]).with([u64::from(slot & 7) | action << 3, 0, 0])
    }
}

/// The controller's firmware slots.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FirmwareSlots {
    /// The slot whose image is active.
    pub active: u8,
    /// The slot that is activated at the next reset, if the controller says so.
    pub next: Option<u8>,
    /// Revisions of slots 1 to 7; empty where there is no image.
    pub revisions: [String; SLOTS_MAX],
}

impl FirmwareSlots {
    /// Decodes the page. Bytes that are missing count as zero.
    pub fn read(bytes: &[u8]) -> Self {
        let flags = number::<1>(bytes, 0) as u8;
        let next = flags >> 4 & 7;
        let revision = |place: usize| {
            let at = REVISION_BYTES * (place + 1);
            text(bytes.get(at..at + REVISION_BYTES).unwrap_or_default())
        };
        Self {
            active: flags & 7,
            next: (next != 0).then_some(next),
            revisions: std::array::from_fn(revision),
        }
    }

    /// Encodes the page, for emulated controllers.
    pub fn write(&self) -> [u8; SLOTS_BYTES] {
        let mut bytes = [0; SLOTS_BYTES];
        bytes[0] = self.active & 7 | (self.next.unwrap_or_default() & 7) << 4;
        for (place, revision) in self.revisions.iter().enumerate().filter(|(_, text)| !text.is_empty()) {
            let at = REVISION_BYTES * (place + 1);
            write_padded(&mut bytes[at..at + REVISION_BYTES], revision);
        }
        bytes
    }

    /// The revision in a slot, 1 to 7; `None` if it is empty or there is no such slot.
    pub fn revision(&self, slot: u8) -> Option<&str> {
        let revision = self.revisions.get(usize::from(slot).checked_sub(1)?)?;
        (!revision.is_empty()).then_some(revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever a controller says is read, without characters that a terminal would obey.
        #[test]
        fn any_page_is_read(bytes in prop::collection::vec(any::<u8>(), 0..SLOTS_BYTES + 9)) {
            let slots = FirmwareSlots::read(&bytes);
            prop_assert!(slots.revisions.iter().all(|text| text.chars().all(|c| (' '..='~').contains(&c))));
            prop_assert_eq!(FirmwareSlots::read(&slots.write()), slots);
        }
    }

    #[test]
    fn fields_are_where_the_specification_has_them() {
        let mut bytes = [0; SLOTS_BYTES];
        bytes[0] = 3 << 4 | 1;
        bytes[8..16].copy_from_slice(b"1.0     ");
        bytes[24..32].copy_from_slice(b"2.1\x1b[2Jx");
        let slots = FirmwareSlots::read(&bytes);
        assert_eq!((slots.active, slots.next), (1, Some(3)));
        let shown = [0, 1, 2, 3, 8].map(|slot| slots.revision(slot));
        assert_eq!(shown, [None, Some("1.0"), None, Some("2.1[2Jx"), None]);
        let download = Command::firmware_download(1024, 512, [1, 2]);
        assert_eq!((download.opcode(), download.word(10), download.word(11)), (0x11, 511, 1024));
        let commit = Command::firmware_commit(2, Activation::Now);
        assert_eq!((commit.opcode(), commit.word(10)), (0x10, 3 << 3 | 2));
        assert_eq!(Command::firmware_commit(7, Activation::AtReset).word(10), 1 << 3 | 7);
    }
}
