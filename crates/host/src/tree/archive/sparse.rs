//! Sparse members of tar archives: files with holes, of which only the rest is stored.
//!
//! GNU tar -S writes four forms: an old one of its own (type `S`), and in pax archives the versions 0.0,
//! 0.1 and 1.0 (GNU tar manual, section "Storing Sparse Files"). Logs that were preallocated and
//! sysfs files that were read short are stored so.

use std::io::{self, Read};
use tar::{GnuExtSparseHeader, GnuHeader, GnuSparseHeader};

/// Size of a tar block: headers and data are padded to a multiple of it.
pub(super) const BLOCK_BYTES: usize = 512;
/// Segments of one member: a file of 64 MiB whose every second page is a hole has 8192.
const SEGMENTS_MAX: usize = 1 << 16;

/// What is wrong with a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum MapError {
    #[error("its sparse map has more than {SEGMENTS_MAX} segments")]
    TooManySegments,
    #[error("its sparse map holds something that is no number")]
    NotANumber,
    #[error("its sparse map names bytes that overlap, or lie beyond its end")]
    OutOfPlace,
    #[error("its sparse map and its data differ in length")]
    OtherLength,
}

/// Bytes that are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    offset: u64,
    bytes: u64,
}

/// Where the stored bytes of a sparse file belong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SparseMap {
    /// Size of the file with its holes.
    pub(super) real_bytes: u64,
    segments: Vec<Segment>,
}

impl SparseMap {
    pub(super) fn new(real_bytes: u64) -> Self {
        Self { real_bytes, segments: Vec::new() }
    }

    /// Appends a segment.
    fn push(&mut self, offset: u64, bytes: u64) -> Result<(), MapError> {
        if self.segments.len() >= SEGMENTS_MAX {
            return Err(MapError::TooManySegments);
        }
        self.segments.push(Segment { offset, bytes });
        Ok(())
    }

    /// The map of a member of type `S`; `next_block` gives the blocks that follow the header. They are all
    /// taken, whatever they say: the data begins behind them.
    pub(super) fn of_gnu(
        header: &GnuHeader,
        mut next_block: impl FnMut() -> io::Result<[u8; BLOCK_BYTES]>,
    ) -> io::Result<Result<Self, MapError>> {
        let number = |number: io::Result<u64>| number.map_err(|_| MapError::NotANumber);
        let mut map = number(header.real_size()).map(Self::new);
        let take = |map: &mut Result<Self, MapError>, entries: &[GnuSparseHeader]| {
            for entry in entries.iter().filter(|entry| !entry.is_empty()) {
                let Ok(known) = map else { return };
                let pushed =
                    number(entry.offset()).and_then(|offset| known.push(offset, number(entry.length())?));
                if let Err(error) = pushed {
                    *map = Err(error);
                }
            }
        };
        take(&mut map, &header.sparse);
        let mut is_extended = header.is_extended();
        while is_extended {
            let mut block = GnuExtSparseHeader::new();
            block.as_mut_bytes().copy_from_slice(&next_block()?);
            take(&mut map, block.sparse());
            is_extended = block.is_extended();
        }
        Ok(map)
    }

    /// The map that stands before the data (pax 1.0): numbers on lines, the first says how many segments.
    /// Whole blocks are taken for it.
    pub(super) fn of_body(real_bytes: u64, body: &mut impl Read) -> io::Result<Result<Self, MapError>> {
        Lines { body, block: [0; BLOCK_BYTES], at: BLOCK_BYTES }.read_map(real_bytes)
    }

    /// The map of pax 0.0 and 0.1: offsets and lengths in turns.
    pub(super) fn of_numbers(real_bytes: u64, numbers: &[u64]) -> Result<Self, MapError> {
        let mut map = Self::new(real_bytes);
        let (pairs, rest) = numbers.as_chunks::<2>();
        for [offset, bytes] in pairs {
            map.push(*offset, *bytes)?;
        }
        if rest.is_empty() { Ok(map) } else { Err(MapError::OtherLength) }
    }

    /// Checks it against the number of bytes that are stored.
    pub(super) fn check(&self, stored_bytes: u64) -> Result<(), MapError> {
        let mut end = 0;
        let mut sum = 0_u64;
        for segment in &self.segments {
            let next = segment.offset.checked_add(segment.bytes).ok_or(MapError::OutOfPlace)?;
            if segment.offset < end || next > self.real_bytes {
                return Err(MapError::OutOfPlace);
            }
            (end, sum) = (next, sum.saturating_add(segment.bytes));
        }
        if sum == stored_bytes { Ok(()) } else { Err(MapError::OtherLength) }
    }

    /// The file with its holes filled with zeros. The map must have been checked, and `real_bytes` be what
    /// may be held in memory.
    pub(super) fn expand(&self, mut body: impl Read) -> io::Result<Vec<u8>> {
        let size = |bytes: u64| usize::try_from(bytes).map_err(io::Error::other);
        let mut file = vec![0; size(self.real_bytes)?];
        for segment in &self.segments {
            let (from, length) = (size(segment.offset)?, size(segment.bytes)?);
            let place = file.get_mut(from..from.saturating_add(length));
            body.read_exact(place.ok_or_else(|| io::Error::other(MapError::OutOfPlace))?)?;
        }
        Ok(file)
    }
}

/// Lines with a decimal number each, read in blocks.
struct Lines<'b, R> {
    body: &'b mut R,
    block: [u8; BLOCK_BYTES],
    at: usize,
}

impl<R: Read> Lines<'_, R> {
    /// Reads a map: the number of segments, then offset and size of each.
    fn read_map(&mut self, real_bytes: u64) -> io::Result<Result<SparseMap, MapError>> {
        let mut map = SparseMap::new(real_bytes);
        let Some(count) = self.read_number()? else { return Ok(Err(MapError::NotANumber)) };
        for _ in 0..count {
            let (Some(offset), Some(bytes)) = (self.read_number()?, self.read_number()?) else {
                return Ok(Err(MapError::NotANumber));
            };
            if let Err(error) = map.push(offset, bytes) {
                return Ok(Err(error));
            }
        }
        Ok(Ok(map))
    }

    /// Reads a line with a decimal number; `None` if it holds none.
    fn read_number(&mut self) -> io::Result<Option<u64>> {
        let mut number: Option<u64> = None;
        loop {
            match self.read_byte()? {
                digit @ b'0'..=b'9' => {
                    let value = number.unwrap_or(0).checked_mul(10);
                    let Some(value) = value.and_then(|value| value.checked_add(u64::from(digit - b'0')))
                    else {
                        return Ok(None);
                    };
                    number = Some(value);
                }
                b'\n' => return Ok(number),
                _ => return Ok(None),
            }
        }
    }

    /// Reads a byte, block by block.
    fn read_byte(&mut self) -> io::Result<u8> {
        if self.at == BLOCK_BYTES {
            self.body.read_exact(&mut self.block)?;
            self.at = 0;
        }
        let byte = self.block.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        Ok(byte)
    }
}
