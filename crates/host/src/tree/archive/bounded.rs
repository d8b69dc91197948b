//! Bytes in and bytes out of a decompressor, counted, told, and bounded by amount and by ratio.

use crate::tree::progress::{Progress, Watcher};
use std::{
    cell::Cell,
    io::{self, BufRead, Read},
    rc::Rc,
};

/// Bytes that may come out of an archive: sosreports of large hosts have some GB.
pub(super) const UNPACKED_BYTES_MAX: u64 = 8 << 30;
/// Bytes that may come out of any archive, however small it is.
const UNPACKED_BYTES_FREE: u64 = 256 << 20;
/// Beyond that: bytes out for each byte in. Logs come to 10 to 50, a capture of thousands of devices that
/// are alike to about 100; a run of zeros comes to 1000 (gzip) or 7000 (xz).
const RATIO_MAX: u64 = 200;

/// The counts that both sides of a decompressor share.
#[derive(Clone)]
pub(super) struct Meter {
    amounts: Rc<Cell<Progress>>,
    watcher: Watcher,
}

impl Meter {
    pub(super) fn new(watcher: Watcher) -> Self {
        Self { amounts: Rc::default(), watcher }
    }

    pub(super) fn add(&self, change: impl FnOnce(&mut Progress)) {
        let mut amounts = self.amounts.get();
        change(&mut amounts);
        self.amounts.set(amounts);
        (self.watcher)(amounts);
    }

    /// What is wrong with the amounts so far.
    fn excess(&self) -> Option<Excess> {
        let Progress { bytes_in, bytes_unpacked, .. } = self.amounts.get();
        let allowed = UNPACKED_BYTES_FREE.saturating_add(bytes_in.saturating_mul(RATIO_MAX));
        match bytes_unpacked {
            out if out > UNPACKED_BYTES_MAX => Some(Excess::Amount),
            out if out > allowed => Some(Excess::Ratio { bytes_in, bytes_unpacked }),
            _ => None,
        }
    }
}

/// Too much came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Excess {
    #[error("unpacks to more than {UNPACKED_BYTES_MAX} bytes")]
    Amount,
    #[error(
        "unpacks to more than {RATIO_MAX} times its size: {bytes_unpacked} bytes from the first {bytes_in}"
    )]
    Ratio { bytes_in: u64, bytes_unpacked: u64 },
}

/// The compressed side: counts what is taken.
pub(super) struct Counted<R> {
    pub(super) reader: R,
    pub(super) meter: Meter,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(buffer)?;
        self.meter.add(|amounts| amounts.bytes_in += length as u64);
        Ok(length)
    }
}

/// The plain side: counts what comes out, and ends in an error when it is too much.
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

/// A reader with its first bytes looked at: nothing is lost, so that pipes can be told apart, too.
pub(super) fn peek<R: Read>(reader: R) -> io::Result<(Vec<u8>, impl BufRead)> {
    const START_BYTES: u64 = 512;
    let mut reader = reader;
    let mut start = Vec::new();
    reader.by_ref().take(START_BYTES).read_to_end(&mut start)?;
    let whole = io::Cursor::new(start.clone()).chain(reader);
    Ok((start, io::BufReader::with_capacity(1 << 16, whole)))
}
