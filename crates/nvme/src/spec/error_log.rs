//! The error log (Base, 5.16.1.2).

use super::status::Status;

/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 64;
/// Entries that are read at a time at most: a page.
pub const ENTRIES_MAX: u16 = (4096 / ENTRY_BYTES) as u16;

/// Something that went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorEntry {
    /// Errors since the controller was made, with this one.
    pub count: u64,
    /// The command's submission queue.
    pub queue: u16,
    /// The command.
    pub identifier: u16,
    /// How it was completed.
    pub status: Status,
    /// The first block that it is about.
    pub block: u64,
    /// Its namespace.
    pub namespace: u32,
}

impl ErrorEntry {
    /// Reads an entry; nothing where there is none.
    pub fn read(bytes: &[u8; ENTRY_BYTES]) -> Option<Self> {
        let number = |at: usize, width: usize| {
            bytes[at..at + width].iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
        };
        let entry = Self {
            count: number(0, 8),
            queue: number(8, 2) as u16,
            identifier: number(10, 2) as u16,
            // The phase is in the lowest bit.
            status: Status((number(12, 2) >> 1) as u16),
            block: number(16, 8),
            namespace: number(24, 4) as u32,
        };
        (entry.count > 0).then_some(entry)
    }

    /// Writes an entry, as a controller does.
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

/// The entries of a log page.
pub fn entries(page: &[u8]) -> impl Iterator<Item = ErrorEntry> {
    page.as_chunks().0.iter().map_while(ErrorEntry::read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_read() {
        let entry = ErrorEntry {
            count: 7,
            queue: 3,
            identifier: 0xbeef,
            status: Status::LBA_OUT_OF_RANGE.for_good(),
            block: 1 << 40,
            namespace: 1,
        };
        let bytes = entry.write();
        assert_eq!((bytes[0], bytes[8], bytes[10], bytes[21], bytes[24]), (7, 3, 0xef, 1, 1));
        let page: Vec<u8> = bytes.into_iter().chain([0; 2 * ENTRY_BYTES]).collect();
        assert_eq!(entries(&page).collect::<Vec<_>>(), [entry]);
    }
}
