//! Writes the record: little-endian 32-bit words after the magic `IOTOLLR2`.
//!
//! A word's top four bits are its kind, the rest its value. Some kinds are followed by more words:
//!
//! | kind | value | more words | meaning |
//! |---|---|---|---|
//! | 0 | block | | all instructions of a block were begun |
//! | 1 | block | n | only a block's first n instructions were begun |
//! | 2 | block | address (2), n, n offsets | a translated block with its instructions' addresses |
//! | 3 | virtual CPU | | the following events happened on this virtual CPU |
//! | 4 | 0 to 4 | | a window begins, ends, pauses, resumes; a poll for completions |
//! | 5 | | number (2) | a workload begins |
//! | 6 | | number (2) | I/Os per window of the workload |
//! | 7 | region, size shift, write | address (2) | access to a device's registers, at a physical address |
//! | 8 | region | n, n words of text | a region's name, padded with zeros |
//! | 9 | | n | the last string instruction repeated n times more |
//! | 10 | | | store of 8 bytes to the kernel's linear map |
//! | 11 | | milliseconds | the plugin stopped waiting for devices |
//! | 15 | | blocks | the end; a record without it is truncated |
//!
//! Two-word numbers have their low half first. Of kind 7, bits 0 to 15 are the region, 16 to 19 the base-2
//! logarithm of the size in bytes, bit 20 is set for a write.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

const MAGIC: &[u8; 8] = b"IOTOLLR2";
const BUFFER_BYTES: usize = 1 << 20;

/// An event of a window, with its value in the record.
#[derive(Clone, Copy)]
pub(crate) enum WindowEvent {
    Begin,
    End,
    Pause,
    Resume,
    /// The program polls once for completions.
    Poll,
}

/// Writes a record. Errors are kept until [`Record::finish`].
pub(crate) struct Record {
    file: BufWriter<File>,
    /// The first error; nothing is written after it.
    error: Option<io::Error>,
}

impl Record {
    /// Creates the file and writes the magic.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let mut file = BufWriter::with_capacity(BUFFER_BYTES, File::create(path)?);
        file.write_all(MAGIC)?;
        Ok(Self { file, error: None })
    }

    /// Records that the first `begun` of a block's `length` instructions were begun.
    pub(crate) fn write_execution(&mut self, block: u32, length: u32, begun: u32) {
        if begun == length { self.word(0, block) } else { self.words(1, block, &[begun]) }
    }

    /// Records a translated block: its first address and each instruction's offset from it.
    pub(crate) fn write_block(&mut self, block: u32, address: u64, offsets: &[u32]) {
        let [low, high] = halves(address);
        self.words(2, block, &[low, high, offsets.len() as u32]);
        self.write(offsets);
    }

    /// Records that the following events happened on a virtual CPU.
    pub(crate) fn write_vcpu(&mut self, vcpu: u32) {
        self.word(3, vcpu);
    }

    pub(crate) fn write_window_event(&mut self, event: WindowEvent) {
        self.word(4, event as u32);
    }

    /// Records that the workload of a number begins.
    pub(crate) fn write_phase(&mut self, number: u64) {
        self.words(5, 0, &halves(number));
    }

    /// Records the number of I/Os in each window of the workload.
    pub(crate) fn write_ios_per_window(&mut self, ios: u64) {
        self.words(6, 0, &halves(ios));
    }

    /// Records an access to a device's register at a physical address; `write` is 1 for a write and 0 for a read.
    pub(crate) fn write_device_access(&mut self, region: u32, size_shift: u32, write: u32, address: u64) {
        self.words(7, region & 0xffff | size_shift << 16 | write << 20, &halves(address));
    }

    /// Records the name of a memory region.
    pub(crate) fn write_region(&mut self, region: u32, name: &[u8]) {
        let words: Vec<u32> = name.chunks(4).map(padded).collect();
        self.words(8, region, &[words.len() as u32]);
        self.write(&words);
    }

    /// Records that the last string instruction repeated some more times.
    pub(crate) fn write_repeats(&mut self, times: u32) {
        self.words(9, 0, &[times]);
    }

    /// Records a store of 8 bytes to the kernel's linear map.
    pub(crate) fn write_store(&mut self) {
        self.word(10, 0);
    }

    /// Records that the plugin stopped waiting for devices.
    pub(crate) fn write_gave_up(&mut self, milliseconds: u32) {
        self.words(11, 0, &[milliseconds]);
    }

    /// Writes the end word with the number of blocks. Returns the first error of the whole record.
    pub(crate) fn finish(&mut self, blocks: u32) -> io::Result<()> {
        self.words(15, 0, &[blocks]);
        match self.error.take() {
            Some(error) => Err(error),
            None => self.file.flush(),
        }
    }

    /// Writes a word that no others follow.
    fn word(&mut self, kind: u32, value: u32) {
        self.words(kind, value, &[]);
    }

    /// Writes a word and those that follow it.
    fn words(&mut self, kind: u32, value: u32, more: &[u32]) {
        self.write(&[kind << 28 | value & 0x0fff_ffff]);
        self.write(more);
    }

    /// Writes words as they are, unless there was an error before.
    fn write(&mut self, words: &[u32]) {
        for word in words {
            if self.error.is_none() {
                self.error = self.file.write_all(&word.to_le_bytes()).err();
            }
        }
    }
}

/// The low and the high half of a number.
fn halves(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

/// Up to 4 bytes as a word, padded with zeros.
fn padded(bytes: &[u8]) -> u32 {
    let mut word = [0; 4];
    word[..bytes.len()].copy_from_slice(bytes);
    u32::from_le_bytes(word)
}
