//! Get Log Page for the pages that this driver reads (Base, 5.16).

use super::command::{Command, admin};

/// A log page with one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogPage {
    /// SMART / Health Information (Base, 5.16.1.3).
    Health,
    /// Firmware Slot Information (Base, 5.16.1.4).
    FirmwareSlots,
    /// Device Self-test (Base, 5.16.1.7).
    SelfTest,
}

impl LogPage {
    /// Log page identifier (LID).
    pub fn identifier(self) -> u8 {
        match self {
            Self::Health => 0x02,
            Self::FirmwareSlots => 0x03,
            Self::SelfTest => 0x06,
        }
    }

    /// Bytes of the page.
    pub fn bytes(self) -> usize {
        match self {
            Self::Health | Self::FirmwareSlots => 512,
            Self::SelfTest => super::self_test::LOG_BYTES,
        }
    }
}

impl Command {
    /// Reads a log page of the whole controller.
    pub fn log_page(page: LogPage, data: [u64; 2]) -> Self {
        let words_less_one = page.bytes() as u64 / 4 - 1;
        let word = u64::from(page.identifier()) | words_less_one << 16;
        Self::new(admin::GET_LOG_PAGE, u32::MAX, data).with([word, 0, 0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_requested_by_their_identifier_and_size() {
        let word = |page| Command::log_page(page, [0; 2]).word(10);
        assert_eq!(word(LogPage::Health), 127 << 16 | 2);
        assert_eq!(word(LogPage::FirmwareSlots), 127 << 16 | 3);
        assert_eq!(word(LogPage::SelfTest), 140 << 16 | 6);
        assert_eq!(Command::log_page(LogPage::Health, [0; 2]).namespace(), u32::MAX);
    }
}
