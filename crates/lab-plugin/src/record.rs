//! The record: little-endian 32-bit words after the magic `IOTOLLR2`.
//!
//! A word's top four bits are its kind, the rest its value; some kinds are followed by more words:
//!
//! | kind | value | then | |
//! |---|---|---|---|
//! | 0 | block | | all instructions of a block were begun |
//! | 1 | block | n | its first n only |
//! | 2 | block | address (2), n, n offsets | a block and where its instructions are |
//! | 3 | virtual CPU | | what follows was on this one |
//! | 4 | 0 to 4 | | a window begins, ends, pauses, goes on; a look at whether devices have answered |
//! | 5 | | number (2) | a workload begins |
//! | 6 | | number (2) | I/Os per window, until the next workload |
//! | 7 | region, size shift, write | address (2) | access to a device's registers, at a physical address |
//! | 8 | region | n, n words of text | a region's name, padded with zeros |
//! | 9 | | n | the last string instruction repeated n times more |
//! | 10 | | | store of 8 bytes to the kernel's linear map |
//! | 11 | | milliseconds | gave up waiting for devices |
//! | 15 | | blocks | the end: a record without it is not whole |
//!
//! Two-word numbers have their low half first. Of kind 7, bits 0 to 15 are the region, 16 to 19 the base-2
//! logarithm of the size in bytes, bit 20 is set for a write.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

const MAGIC: &[u8; 8] = b"IOTOLLR2";
const BUFFER_BYTES: usize = 1 << 20;

/// A moment of a window.
#[derive(Clone, Copy)]
pub(crate) enum Moment {
    Begin,
    End,
    Pause,
    GoOn,
    /// Somebody looks whether devices have answered.
    Look,
}

/// Writes a record.
pub(crate) struct Record {
    file: BufWriter<File>,
    /// The first error: later ones follow from it.
    error: Option<io::Error>,
}

impl Record {
    /// Begins a record in a new file.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let mut file = BufWriter::with_capacity(BUFFER_BYTES, File::create(path)?);
        file.write_all(MAGIC)?;
        Ok(Self { file, error: None })
    }

    pub(crate) fn block_begun(&mut self, block: u32, whole: u32, begun: u32) {
        if begun == whole { self.word(0, block) } else { self.words(1, block, &[begun]) }
    }

    pub(crate) fn block(&mut self, block: u32, address: u64, offsets: &[u32]) {
        let [low, high] = halves(address);
        self.words(2, block, &[low, high, offsets.len() as u32]);
        self.all(offsets);
    }

    pub(crate) fn vcpu(&mut self, vcpu: u32) {
        self.word(3, vcpu);
    }

    pub(crate) fn window(&mut self, moment: Moment) {
        self.word(4, moment as u32);
    }

    pub(crate) fn phase(&mut self, number: u64) {
        self.words(5, 0, &halves(number));
    }

    pub(crate) fn units(&mut self, number: u64) {
        self.words(6, 0, &halves(number));
    }

    pub(crate) fn device_access(&mut self, region: u32, size_shift: u32, write: u32, address: u64) {
        self.words(7, region & 0xffff | size_shift << 16 | write << 20, &halves(address));
    }

    pub(crate) fn region(&mut self, region: u32, name: &[u8]) {
        let words: Vec<u32> = name.chunks(4).map(padded).collect();
        self.words(8, region, &[words.len() as u32]);
        self.all(&words);
    }

    pub(crate) fn repeated(&mut self, times: u32) {
        self.words(9, 0, &[times]);
    }

    pub(crate) fn store(&mut self) {
        self.word(10, 0);
    }

    pub(crate) fn gave_up(&mut self, milliseconds: u32) {
        self.words(11, 0, &[milliseconds]);
    }

    /// Ends the record.
    pub(crate) fn finish(&mut self, blocks: u32) -> io::Result<()> {
        self.words(15, 0, &[blocks]);
        match self.error.take() {
            Some(error) => Err(error),
            None => self.file.flush(),
        }
    }

    fn word(&mut self, kind: u32, value: u32) {
        self.words(kind, value, &[]);
    }

    fn words(&mut self, kind: u32, value: u32, more: &[u32]) {
        self.all(&[kind << 28 | value & 0x0fff_ffff]);
        self.all(more);
    }

    fn all(&mut self, words: &[u32]) {
        for word in words {
            if self.error.is_none() {
                self.error = self.file.write_all(&word.to_le_bytes()).err();
            }
        }
    }
}

fn halves(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

fn padded(bytes: &[u8]) -> u32 {
    let mut word = [0; 4];
    word[..bytes.len()].copy_from_slice(bytes);
    u32::from_le_bytes(word)
}
