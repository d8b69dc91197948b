//! Bytes in and bytes out of a decompressor, counted, told, and bounded by amount and by ratio.

use crate::tree::progress::{Progress, Watcher};
use std::{
    cell::Cell,
    io::{self, BufRead, Read},
    rc::Rc,
};

/// Bytes that may come out of an archive: sosreports of large hosts have some GB.
pub(super) const UNPACKED_BYTES_MAX: u64 = 8 << 30;
/// Bytes that any archive may unpack to, however small it is.
const UNPACKED_BYTES_FREE: u64 = 256 << 20;
/// Beyond that, the limit of unpacked bytes per compressed byte. Logs reach 10 to 50, captures of thousands of
/// similar devices about 100; a run of zeros reaches 1000 (gzip) or 7000 (xz).
const RATIO_MAX: u64 = 200;

/// Bytes read before and after a decompressor, shared by the readers on both sides.
#[derive(Clone)]
pub(super) struct Meter {
    amounts: Rc<Cell<Progress>>,
    watcher: Watcher,
}

impl Meter {
    pub(super) fn new(watcher: Watcher) -> Self {
        Self { amounts: Rc::default(), watcher }
    }

    /// Changes the amounts and reports them to the watcher.
    pub(super) fn add(&self, change: impl FnOnce(&mut Progress)) {
        let mut amounts = self.amounts.get();
        change(&mut amounts);
        self.amounts.set(amounts);
        (self.watcher)(amounts);
    }

    /// The limit that the amounts exceed, if any.
    fn excess(&self) -> Option<LimitExceeded> {
        let Progress { bytes_in, bytes_unpacked, .. } = self.amounts.get();
        let allowed = UNPACKED_BYTES_FREE.saturating_add(bytes_in.saturating_mul(RATIO_MAX));
        match bytes_unpacked {
            out if out > UNPACKED_BYTES_MAX => Some(LimitExceeded::Amount),
            out if out > allowed => Some(LimitExceeded::Ratio { bytes_in, bytes_unpacked }),
            _ => None,
        }
    }
}

/// A limit that unpacking exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum LimitExceeded {
    #[error("unpacks to more than {UNPACKED_BYTES_MAX} bytes")]
    Amount,
    #[error(
        "unpacks to more than {RATIO_MAX} times its size: {bytes_unpacked} bytes from the first {bytes_in}"
    )]
    Ratio { bytes_in: u64, bytes_unpacked: u64 },
}

/// Reads compressed bytes and counts them.
pub(super) struct CountingReader<R> {
    pub(super) reader: R,
    pub(super) meter: Meter,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(buffer)?;
        self.meter.add(|amounts| amounts.bytes_in += length as u64);
        Ok(length)
    }
}

/// Reads unpacked bytes and counts them; fails when a limit is exceeded.
pub(super) struct Bounded<R> {
    pub(super) reader: R,
    pub(super) meter: Meter,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(buffer)?;
        self.meter.add(|amounts| amounts.bytes_unpacked += length as u64);
        match self.meter.excess() {
            Some(excess) => Err(io::Error::other(excess)),
            None => Ok(length),
        }
    }
}

/// The first bytes of a reader, and a reader that still returns all bytes. Pipes can't seek back.
pub(super) fn peek<R: Read>(reader: R) -> io::Result<(Vec<u8>, impl BufRead)> {
    const START_BYTES: u64 = 512;
    let mut reader = reader;
    let mut start = Vec::new();
    reader.by_ref().take(START_BYTES).read_to_end(&mut start)?;
    let whole = io::Cursor::new(start.clone()).chain(reader);
    Ok((start, io::BufReader::with_capacity(1 << 16, whole)))
}
