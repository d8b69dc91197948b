//! Maintenance of a controller: its health, self-tests, and firmware.

use crate::controller::{Controller, PAGE_BYTES};
use crate::controller_error::NvmeError;
use crate::prp::{self, PrpError};
use crate::queue_pair::LIST_BYTES;
use crate::spec::command::Command;
use crate::spec::firmware::{Activation, FirmwareSlots};
use crate::spec::health::Health;
use crate::spec::identify;
use crate::spec::log_page::LogPage;
use crate::spec::self_test::{SelfTest, SelfTestLog};
use crate::spec::status::Status;
use dma::MemoryAddress;
use std::time::Duration;

/// Parts of an image where the controller does not say which size they must have.
const PART_BYTES: usize = 4096;
/// Unit of the longest pause during an activation (MTFA).
const ACTIVATION_UNIT: Duration = Duration::from_millis(100);

/// Why firmware can't be updated. All but [`Nvme`](Self::Nvme) and [`Prp`](Self::Prp) are found before anything is sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FirmwareError {
    /// OACS bit 2 is clear.
    #[error("the controller can't update firmware (OACS bit 2 is clear)")]
    Unsupported,
    /// The slot does not exist.
    #[error("no firmware slot {slot}; the controller has {slots} (FRMW)")]
    NoSlot {
        /// The slot.
        slot: u8,
        /// The number of slots.
        slots: u8,
    },
    /// Slot 1 is read-only.
    #[error("firmware slot 1 is read-only (FRMW bit 0)")]
    ReadOnly,
    /// The image can be activated only by a reset.
    #[error("the controller can't activate firmware without a reset (FRMW bit 4 is clear)")]
    NeedsReset,
    /// The length of the image.
    #[error("an image of {bytes} bytes; expected a multiple of {unit}, and at least one{}", reason(*unit))]
    Length {
        /// Bytes of the image.
        bytes: usize,
        /// Bytes of which it must be a multiple.
        unit: usize,
    },
    /// The controller's granularity (FWUG) contradicts its largest transfer (MDTS).
    #[error(
        "the controller wants an image in parts of {unit} bytes (FWUG), and transfers at most {transfer_max} (MDTS)"
    )]
    Granularity {
        /// Bytes of a part.
        unit: usize,
        /// Most bytes of a transfer.
        transfer_max: u64,
    },
    /// A part of the image can't be described.
    #[error(transparent)]
    Prp(#[from] PrpError),
    /// A command failed.
    #[error(transparent)]
    Nvme(#[from] NvmeError),
}

/// Why an image must be a multiple of so many bytes.
fn reason(unit: usize) -> &'static str {
    if unit == WORD_BYTES { "" } else { " (the controller's granularity, FWUG)" }
}

/// Downloads are in units of four bytes.
const WORD_BYTES: usize = 4;

/// How a committed image becomes active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Committed {
    /// As requested.
    AsRequested,
    /// At a reset of the controller.
    NeedsControllerReset,
    /// At a reset of the NVM subsystem.
    NeedsSubsystemReset,
    /// At a conventional reset of the adapter, such as a power cycle.
    NeedsConventionalReset,
}

/// Checks that an image of so many bytes can be written to a slot and activated so.
///
/// # Errors
/// [`FirmwareError`]
pub fn check_firmware(
    identity: &identify::Controller,
    bytes: usize,
    slot: u8,
    activation: Activation,
) -> Result<(), FirmwareError> {
    let updates = &identity.firmware_updates;
    let unit = updates.granularity_bytes().unwrap_or(WORD_BYTES);
    match slot {
        _ if !identity.can_update_firmware => Err(FirmwareError::Unsupported),
        _ if !(1..=updates.slots).contains(&slot) => {
            Err(FirmwareError::NoSlot { slot, slots: updates.slots })
        }
        _ if !updates.can_write_slot(slot) => Err(FirmwareError::ReadOnly),
        _ if activation == Activation::Now && !updates.activates_without_reset => {
            Err(FirmwareError::NeedsReset)
        }
        _ if bytes == 0 || bytes % unit != 0 => Err(FirmwareError::Length { bytes, unit }),
        _ => Ok(()),
    }
}

impl Controller {
    /// Reads a log page.
    fn log_page(&mut self, what: &'static str, page: LogPage) -> Result<Vec<u8>, NvmeError> {
        let structure = self.read_page(what, |data| Command::log_page(page, data))?;
        Ok(structure[..page.bytes()].to_vec())
    }

    /// Reads the health of the controller and its media.
    ///
    /// # Errors
    /// [`NvmeError`]
    pub fn health(&mut self) -> Result<Health, NvmeError> {
        Ok(Health::read(&self.log_page("reading the health log", LogPage::Health)?))
    }

    /// Reads which firmware is in each slot.
    ///
    /// # Errors
    /// [`NvmeError`]
    pub fn firmware_slots(&mut self) -> Result<FirmwareSlots, NvmeError> {
        Ok(FirmwareSlots::read(&self.log_page("reading the firmware slots", LogPage::FirmwareSlots)?))
    }

    /// Reads the self-test that is running, and the results of earlier ones.
    ///
    /// # Errors
    /// [`NvmeError`]
    pub fn self_tests(&mut self) -> Result<SelfTestLog, NvmeError> {
        Ok(SelfTestLog::read(&self.log_page("reading the self-test log", LogPage::SelfTest)?))
    }

    /// Starts a self-test of the controller and all namespaces. I/O goes on meanwhile. A reset aborts a short test, and an extended
    /// one continues after it (Base, "Device Self-test Operations").
    ///
    /// # Errors
    /// [`NvmeError`]; [`NvmeError::Unsupported`] before anything is sent.
    pub fn start_self_test(&mut self, test: SelfTest) -> Result<(), NvmeError> {
        self.self_test("starting a self-test", Some(test))
    }

    /// Aborts the self-test that is running, if one is.
    ///
    /// # Errors
    /// As for [`start_self_test`](Self::start_self_test).
    pub fn abort_self_test(&mut self) -> Result<(), NvmeError> {
        self.self_test("aborting the self-test", None)
    }

    fn self_test(&mut self, what: &'static str, test: Option<SelfTest>) -> Result<(), NvmeError> {
        if !self.identity().can_self_test {
            return Err(NvmeError::Unsupported("self-test (OACS bit 4 is clear)"));
        }
        self.execute_admin(what, Command::self_test(test)).map(|_| ())
    }

    /// Downloads an image, writes it to a slot, and has it activated. `progress` gets the number of bytes that were downloaded.
    ///
    /// After an error in the middle nothing is changed but the downloaded parts, which a reset discards.
    ///
    /// # Errors
    /// [`FirmwareError`]
    pub fn update_firmware(
        &mut self,
        image: &[u8],
        slot: u8,
        activation: Activation,
        progress: impl FnMut(usize),
    ) -> Result<Committed, FirmwareError> {
        check_firmware(self.identity(), image.len(), slot, activation)?;
        self.download_firmware(image, progress)?;
        self.commit_firmware(slot, activation)
    }

    /// Downloads an image in parts of the controller's granularity.
    fn download_firmware(
        &mut self,
        image: &[u8],
        mut progress: impl FnMut(usize),
    ) -> Result<(), FirmwareError> {
        let part_bytes = self.identity().firmware_updates.granularity_bytes().unwrap_or(PART_BYTES);
        let transfer_max = self.transfer_bytes_max(self.identity().transfer_pages_shift);
        if part_bytes as u64 > transfer_max {
            return Err(FirmwareError::Granularity { unit: part_bytes, transfer_max });
        }
        // The PRP list is in the first page, so both stay with the controller if a command fails.
        let buffer = self.allocate(LIST_BYTES + part_bytes as u64)?;
        let mut done = 0;
        for part in image.chunks(part_bytes) {
            let piece = buffer.piece(LIST_BYTES, part.len() as u64).map_err(NvmeError::from)?;
            let list_at = buffer.piece(0, LIST_BYTES).map_err(NvmeError::from)?.at;
            let mut list = [0_u64; (LIST_BYTES / prp::ENTRY_BYTES) as usize];
            let (data, entries) = prp::encode(&[piece], PAGE_BYTES, list_at, &mut list)?;
            let list: Vec<u8> = list[..entries].iter().flat_map(|entry| entry.to_le_bytes()).collect();
            let memory = buffer.memory().0;
            self.ram.write(MemoryAddress(memory), &list).map_err(NvmeError::from)?;
            self.ram.write(MemoryAddress(memory + LIST_BYTES), part).map_err(NvmeError::from)?;
            let [first, dwords] = [done, part.len()].map(|bytes| (bytes / WORD_BYTES) as u32);
            let command = Command::firmware_download(first, dwords, data);
            match self.execute_admin("downloading firmware", command) {
                Ok(_) => {}
                Err(error @ NvmeError::Refused { .. }) => {
                    self.free(buffer)?;
                    return Err(error.into());
                }
                Err(error) => {
                    // The command may still be executing and read the memory.
                    self.abandoned.0.push(buffer);
                    return Err(error.into());
                }
            }
            done += part.len();
            progress(done);
        }
        Ok(self.free(buffer)?)
    }

    /// Writes the downloaded image to a slot. A status that demands another reset means that the image is committed.
    fn commit_firmware(&mut self, slot: u8, activation: Activation) -> Result<Committed, FirmwareError> {
        let pause = ACTIVATION_UNIT * u32::from(self.identity().firmware_updates.activation_time_max);
        let limit = self.admin_timeout + pause;
        let command = Command::firmware_commit(slot, activation);
        match self.execute_admin_within(limit, "committing firmware", command) {
            Ok(_) => Ok(Committed::AsRequested),
            Err(NvmeError::Refused { status, what }) => {
                let needs = [
                    (Status::NEEDS_CONTROLLER_RESET, Committed::NeedsControllerReset),
                    (Status::NEEDS_SUBSYSTEM_RESET, Committed::NeedsSubsystemReset),
                    (Status::NEEDS_CONVENTIONAL_RESET, Committed::NeedsConventionalReset),
                ];
                let found = needs.into_iter().find(|(needed, _)| status.has_code_of(*needed));
                found.map(|(_, committed)| committed).ok_or(NvmeError::Refused { what, status }.into())
            }
            Err(error) => Err(error.into()),
        }
    }
}
