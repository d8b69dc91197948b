//! The error log (Base, 5.16.1.2).

use super::status::Status;

/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 64;
/// Most entries read at a time: one page.
pub const ENTRIES_MAX: u16 = (4096 / ENTRY_BYTES) as u16;

/// An entry of the error log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorEntry {
    /// Error count over the controller's lifetime.
    pub count: u64,
    /// Submission queue identifier (SQID).
    pub queue: u16,
    /// Command identifier (CID).
    pub identifier: u16,
    /// Status of the command.
    pub status: Status,
    /// First LBA with the error.
    pub block: u64,
    /// Namespace identifier (NSID).
    pub namespace: u32,
}

impl ErrorEntry {
    /// Decodes an entry; `None` if it is unused.
    pub fn read(bytes: &[u8; ENTRY_BYTES]) -> Option<Self> {
        let number = |at: usize, width: usize| {
            bytes[at..at + width].iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
        };
        let entry = Self {
            count: number(0, 8),
            queue: number(8, 2) as u16,
            identifier: number(10, 2) as u16,
            // Bit 0 is the phase tag.
            status: Status((number(12, 2) >> 1) as u16),
            block: number(16, 8),
            namespace: number(24, 4) as u32,
        };
        (entry.count > 0).then_some(entry)
    }

    /// Encodes an entry, for emulated controllers.
    pub fn write(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&self.count.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.queue.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.identifier.to_le_bytes());
        bytes[12..14].copy_from_slice(&(self.status.0 << 1).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.block.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.namespace.to_le_bytes());
        bytes
    }
}

/// Decodes the entries of a log page.
pub fn entries(page: &[u8]) -> impl Iterator<Item = ErrorEntry> {
    page.chunks_exact(ENTRY_BYTES).map_while(|entry| ErrorEntry::read(entry.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_log_entries_are_read_back() {
        let entry = ErrorEntry {
            count: 7,
            queue: 3,
            identifier: 0xbeef,
            status: Status::LBA_OUT_OF_RANGE.with_do_not_retry(),
            block: 1 << 40,
            namespace: 1,
        };
        let bytes = entry.write();
        assert_eq!((bytes[0], bytes[8], bytes[10], bytes[21], bytes[24]), (7, 3, 0xef, 1, 1));
        let page: Vec<u8> = bytes.into_iter().chain([0; 2 * ENTRY_BYTES]).collect();
        assert_eq!(entries(&page).collect::<Vec<_>>(), [entry]);
    }
}
