//! Controller properties (Base, 3.1.3) and doorbells (PCIe, 3.1.2).

/// CAP: Controller Capabilities, 64 bits.
pub const CAPABILITIES: u64 = 0x00;
/// VS: Version.
pub const VERSION: u64 = 0x08;
/// INTMS: Interrupt Mask Set; unused with MSI-X.
pub const INTERRUPT_MASK: u64 = 0x0c;
/// CC: Controller Configuration.
pub const CONFIGURATION: u64 = 0x14;
/// CSTS: Controller Status.
pub const STATUS: u64 = 0x1c;
/// AQA: Admin Queue Attributes.
pub const ADMIN_QUEUES: u64 = 0x24;
/// ASQ: Admin Submission Queue Base Address, 64 bits.
pub const ADMIN_SUBMISSION_QUEUE: u64 = 0x28;
/// ACQ: Admin Completion Queue Base Address, 64 bits.
pub const ADMIN_COMPLETION_QUEUE: u64 = 0x30;
/// First doorbell.
pub const DOORBELLS: u64 = 0x1000;

/// Controller Capabilities (CAP).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// Most entries of an I/O queue (MQES + 1).
    pub fn queue_entries_max(self) -> u32 {
        (self.0 & 0xffff) as u32 + 1
    }

    /// Whether queues must be physically contiguous (CQR).
    pub fn wants_contiguous_queues(self) -> bool {
        self.0 >> 16 & 1 == 1
    }

    /// Longest time until CSTS.RDY changes, in milliseconds (TO).
    pub fn timeout_ms(self) -> u64 {
        (self.0 >> 24 & 0xff) * 500
    }

    /// Bytes from one doorbell to the next (DSTRD).
    pub fn doorbell_stride(self) -> u64 {
        4 << (self.0 >> 32 & 0xf)
    }

    /// Whether the NVM command set is supported (CSS).
    pub fn has_nvm_commands(self) -> bool {
        self.0 >> 37 & 1 == 1
    }

    /// Whether other command sets may be enabled besides the NVM command set (CSS).
    pub fn has_further_command_sets(self) -> bool {
        self.0 >> 43 & 1 == 1
    }

    /// Smallest and largest memory page size (MPSMIN, MPSMAX).
    pub fn page_bytes(self) -> [u64; 2] {
        [48, 52].map(|bit| 4096 << (self.0 >> bit & 0xf))
    }

    /// Offset of a submission queue's tail doorbell.
    pub fn submission_doorbell(self, queue: u16) -> u64 {
        DOORBELLS + 2 * u64::from(queue) * self.doorbell_stride()
    }

    /// Offset of a completion queue's head doorbell.
    pub fn completion_doorbell(self, queue: u16) -> u64 {
        self.submission_doorbell(queue) + self.doorbell_stride()
    }
}

/// Controller Configuration (CC).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Configuration(pub u32);

impl Configuration {
    /// Log2 of the bytes of a submission queue entry (IOSQES).
    const SUBMISSION_ENTRY_SHIFT: u32 = 6;
    /// Log2 of the bytes of a completion queue entry (IOCQES).
    const COMPLETION_ENTRY_SHIFT: u32 = 4;

    /// Enabled, with the NVM command set, pages of `page_bytes` (a power of two from 4,096), and entries of 64 and 16 bytes.
    pub fn enabled(page_bytes: u64) -> Self {
        let page = page_bytes.max(4096).ilog2() - 12;
        Self(1 | page << 7 | Self::SUBMISSION_ENTRY_SHIFT << 16 | Self::COMPLETION_ENTRY_SHIFT << 20)
    }

    /// With all command sets that the controller supports (CSS).
    #[must_use]
    pub fn with_all_command_sets(self) -> Self {
        Self(self.0 | 6 << 4)
    }

    /// Requests a normal shutdown (SHN).
    pub fn shutting_down(self) -> Self {
        Self(self.0 & !(3 << 14) | 1 << 14)
    }

    /// Whether the controller is enabled (EN).
    pub fn is_enabled(self) -> bool {
        self.0 & 1 == 1
    }

    /// Whether a shutdown is requested (SHN).
    pub fn is_shutting_down(self) -> bool {
        self.0 >> 14 & 3 != 0
    }

    /// Memory page size (MPS).
    pub fn page_bytes(self) -> u64 {
        4096 << (self.0 >> 7 & 0xf)
    }
}

/// Controller Status (CSTS).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status(pub u32);

impl Status {
    /// The value read from an adapter that was removed.
    pub const GONE: Self = Self(u32::MAX);

    /// The controller processes commands (RDY).
    pub fn is_ready(self) -> bool {
        self.0 & 1 == 1
    }

    /// Fatal error: the controller needs a reset (CFS).
    pub fn is_fatal(self) -> bool {
        self.0 >> 1 & 1 == 1
    }

    /// The shutdown is complete (SHST).
    pub fn is_shut_down(self) -> bool {
        self.0 >> 2 & 3 == 2
    }
}

/// Encodes the admin queues' sizes (AQA).
pub fn admin_queues(submission_entries: u16, completion_entries: u16) -> u32 {
    let less_one = |entries: u16| u32::from(entries.saturating_sub(1)) & 0xfff;
    less_one(submission_entries) | less_one(completion_entries) << 16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What QEMU's controller has: 2,048 entries, contiguous, 7.5 s, stride 4, NVM, pages of 4 KiB to 64 KiB.
    #[test]
    fn capabilities_are_read_bit_by_bit() {
        let capabilities = Capabilities(2047 | 1 << 16 | 0xf << 24 | 1 << 37 | 4 << 52);
        assert_eq!((capabilities.queue_entries_max(), capabilities.timeout_ms()), (2048, 7_500));
        assert!(capabilities.wants_contiguous_queues() && capabilities.has_nvm_commands());
        assert_eq!((capabilities.page_bytes(), capabilities.doorbell_stride()), ([4096, 65_536], 4));
        let doorbells = [capabilities.submission_doorbell(3), capabilities.completion_doorbell(3)];
        assert_eq!(doorbells, [0x1018, 0x101c]);
        assert_eq!(Capabilities(2 << 32).completion_doorbell(1), 0x1030);
        assert!(!capabilities.has_further_command_sets() && Capabilities(1 << 43).has_further_command_sets());
    }

    #[test]
    fn configurations_list_their_parts() {
        let configuration = Configuration::enabled(4096);
        assert_eq!(configuration.0, 0x0046_0001);
        assert_eq!(configuration.with_all_command_sets().0, 0x0046_0061);
        assert!(configuration.is_enabled() && !configuration.is_shutting_down());
        assert!(configuration.shutting_down().is_shutting_down());
        assert_eq!(Configuration::enabled(16_384).page_bytes(), 16_384);
        assert_eq!(admin_queues(32, 64), 63 << 16 | 31);
        assert!(Status(9).is_ready() && Status(9).is_shut_down() && !Status(9).is_fatal());
    }
}
