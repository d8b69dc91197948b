//! Simulated memory, with the history of writes to each byte.

use super::line::{LINE, LINE_BYTES, Line, Version};
use super::stale::{Loss, OverwriteCause};
use std::collections::BTreeMap;

const PAGE_BYTES: u64 = 4096;
const LINES_OF_A_PAGE: usize = (PAGE_BYTES / LINE_BYTES) as usize;

/// A line of memory.
#[derive(Debug, Clone)]
pub(super) struct LineRecord {
    pub(super) line: Line,
    /// The last write to each byte, wherever its data is.
    pub(super) last: [Version; LINE],
    /// All writes to the line, in order: which, from which byte, to before which.
    pub(super) writes: Vec<(Version, u8, u8)>,
    /// The last loss of each byte that had one.
    lost: Vec<Loss>,
}

impl LineRecord {
    const BLANK: Self = Self { line: Line::BLANK, last: [0; LINE], writes: Vec::new(), lost: Vec::new() };

    /// Records a write to these bytes, even if its data is still in the CPU's cache or a buffer.
    pub(super) fn record_write(&mut self, version: Version, offset: usize, bytes: usize) {
        self.last[offset..offset + bytes].fill(version);
        // A line has 64 bytes.
        self.writes.push((version, offset as u8, (offset + bytes) as u8));
    }

    /// Writes the selected bytes to memory. Newer bytes that are overwritten are recorded as lost.
    pub(super) fn overwrite(
        &mut self,
        line: &Line,
        is_brought: impl Fn(usize) -> bool,
        by: OverwriteCause,
        access: u64,
    ) {
        for byte in (0..LINE).filter(|byte| is_brought(*byte)) {
            let (old, new) = (self.line.versions[byte], line.versions[byte]);
            if old > new {
                self.lost.retain(|loss| loss.byte != byte);
                self.lost.push(Loss { byte, version: old, by, access });
            }
            (self.line.bytes[byte], self.line.versions[byte]) = (line.bytes[byte], new);
        }
    }

    /// How the last write to a byte was lost, if it was.
    pub(super) fn loss(&self, byte: usize) -> Option<Loss> {
        self.lost.iter().find(|loss| loss.byte == byte && loss.version == self.last[byte]).copied()
    }

    /// The first write to a byte after that one.
    pub(super) fn next_after(&self, version: Version, byte: usize) -> Option<Version> {
        let from = self.writes.partition_point(|(one, ..)| *one <= version);
        let holds =
            |(_, first, end): &&(Version, u8, u8)| (usize::from(*first)..usize::from(*end)).contains(&byte);
        self.writes[from..].iter().find(holds).map(|(one, ..)| *one)
    }
}

/// Memory of so many bytes as are touched; it begins as zeros.
#[derive(Debug, Clone, Default)]
pub(super) struct Ram(BTreeMap<u64, Vec<LineRecord>>);

/// Memory that nothing was written to.
static UNTOUCHED: LineRecord = LineRecord::BLANK;

impl Ram {
    /// The line that begins here, as it is.
    pub(super) fn peek(&self, address: u64) -> &LineRecord {
        self.0.get(&(address / PAGE_BYTES)).map_or(&UNTOUCHED, |page| &page[line_of_page(address)])
    }

    /// The line that begins here.
    pub(super) fn slot(&mut self, address: u64) -> &mut LineRecord {
        let page =
            self.0.entry(address / PAGE_BYTES).or_insert_with(|| vec![LineRecord::BLANK; LINES_OF_A_PAGE]);
        &mut page[line_of_page(address)]
    }
}

fn line_of_page(address: u64) -> usize {
    // A page has as many as its vector.
    (address % PAGE_BYTES / LINE_BYTES) as usize
}
