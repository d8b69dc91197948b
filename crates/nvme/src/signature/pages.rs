//! A page cache of a disk: signatures lie close together, so each page is read once.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

/// Bytes of a page, the largest block size supported here.
const PAGE_BYTES: u64 = 64 << 10;
/// If a page can't be read, it is read again in parts of this size.
const PART_BYTES: u64 = 4 << 10;

type Read<'a> = &'a mut dyn FnMut(u64, &mut [u8]) -> io::Result<()>;

pub(super) struct Pages<'a> {
    bytes: u64,
    block_bytes: u64,
    read: Read<'a>,
    /// By page number.
    pages: BTreeMap<u64, Vec<u8>>,
    unreadable: Vec<u64>,
}

impl<'a> Pages<'a> {
    /// A disk of which no page was read.
    pub(super) fn new(bytes: u64, block_bytes: u64, read: Read<'a>) -> Self {
        Self { bytes, block_bytes, read, pages: BTreeMap::new(), unreadable: Vec::new() }
    }

    /// Reads the pages of a range, up to the end of the disk.
    pub(super) fn load(&mut self, range: Range<u64>) {
        if range.start < range.end.min(self.bytes) {
            (range.start / PAGE_BYTES..=(range.end.min(self.bytes) - 1) / PAGE_BYTES).for_each(|number| {
                self.page(number);
            });
        }
    }

    /// A page, read at the first use.
    fn page(&mut self, number: u64) -> &[u8] {
        if !self.pages.contains_key(&number) {
            let page = self.fetch(number * PAGE_BYTES);
            self.pages.insert(number, page);
        }
        self.pages.get(&number).map_or(&[], Vec::as_slice)
    }

    /// Reads a page. Unreadable parts are noted and read as zeros.
    fn fetch(&mut self, first: u64) -> Vec<u8> {
        let mut page = vec![0; PAGE_BYTES.min(self.bytes - first) as usize];
        if (self.read)(first, &mut page).is_ok() {
            return page;
        }
        let part_bytes = PART_BYTES.max(self.block_bytes) as usize;
        for (position, part) in page.chunks_mut(part_bytes).enumerate() {
            let at = first + (position * part_bytes) as u64;
            if (self.read)(at, part).is_err() {
                part.fill(0);
                self.unreadable.push(at);
            }
        }
        page
    }

    /// Bytes at an offset; `None` beyond the end of the disk.
    fn bytes_at(&mut self, at: u64, bytes: usize) -> Option<Vec<u8>> {
        let end = at.checked_add(bytes as u64).filter(|end| *end <= self.bytes)?;
        let mut found = Vec::with_capacity(bytes);
        let mut next = at;
        while next < end {
            let inside = (next % PAGE_BYTES) as usize;
            let wanted = (end - next) as usize;
            let page = self.page(next / PAGE_BYTES);
            let piece =
                page.get(inside..page.len().min(inside + wanted)).filter(|piece| !piece.is_empty())?;
            found.extend_from_slice(piece);
            next += piece.len() as u64;
        }
        Some(found)
    }

    /// Offsets of blocks that could not be read.
    pub(super) fn unreadable(&self) -> Vec<u64> {
        self.unreadable.clone()
    }

    /// Offset of the first byte that was read and is not zero.
    pub(super) fn not_zero(&self) -> Option<u64> {
        self.pages.iter().find_map(|(number, page)| {
            let inside = page.iter().position(|byte| *byte != 0)?;
            Some(number * PAGE_BYTES + inside as u64)
        })
    }
}

/// A part of a disk, with offsets from its beginning.
pub(super) struct View<'pages, 'read> {
    pages: &'pages mut Pages<'read>,
    first: u64,
    bytes: u64,
}

impl<'pages, 'read> View<'pages, 'read> {
    /// The part from `first`, cut at the end of the disk.
    pub(super) fn new(pages: &'pages mut Pages<'read>, first: u64, bytes: u64) -> Self {
        let bytes = bytes.min(pages.bytes.saturating_sub(first));
        Self { pages, first, bytes }
    }

    /// Its size in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its offset on the disk.
    pub(super) fn first_byte(&self) -> u64 {
        self.first
    }

    /// Bytes at an offset; `None` beyond the end.
    pub(super) fn read(&mut self, at: u64, bytes: usize) -> Option<Vec<u8>> {
        at.checked_add(bytes as u64).filter(|end| *end <= self.bytes)?;
        self.pages.bytes_at(self.first.checked_add(at)?, bytes)
    }

    /// Whether these bytes are at an offset.
    pub(super) fn is_at(&mut self, at: u64, magic: &[u8]) -> bool {
        self.read(at, magic.len()).is_some_and(|bytes| bytes == magic)
    }

    /// The byte at an offset; `None` beyond the end.
    pub(super) fn byte(&mut self, at: u64) -> Option<u8> {
        self.read(at, 1).map(|bytes| bytes[0])
    }

    /// The little-endian 16-bit number at an offset.
    pub(super) fn u16(&mut self, at: u64) -> Option<u16> {
        self.read(at, 2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    /// The little-endian 32-bit number at an offset.
    pub(super) fn u32(&mut self, at: u64) -> Option<u32> {
        self.read(at, 4).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// The little-endian 64-bit number at an offset.
    pub(super) fn u64(&mut self, at: u64) -> Option<u64> {
        let low = self.u32(at)?;
        Some(u64::from(low) | u64::from(self.u32(at.checked_add(4)?)?) << 32)
    }
}
