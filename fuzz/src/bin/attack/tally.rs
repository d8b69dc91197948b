//! What came of the inputs of one target, kept in a file so that it outlives the process that counts.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Counts of one target.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// The number of the input that runs, or of the one behind the last.
    pub at: u64,
    pub inputs: u64,
    pub panics: u64,
    pub slow: u64,
    pub greedy: u64,
    pub hung: u64,
    pub died: u64,
    /// Of the slowest input.
    pub longest_ms: u64,
    /// Of the greediest input, beyond what was in use before.
    pub peak_bytes: u64,
}

const NUMBERS: usize = 9;

impl Tally {
    /// Whether anything failed.
    pub fn failed(&self) -> bool {
        self.panics + self.slow + self.greedy + self.hung + self.died > 0
    }

    fn numbers(&mut self) -> [&mut u64; NUMBERS] {
        let Self { at, inputs, panics, slow, greedy, hung, died, longest_ms, peak_bytes } = self;
        [at, inputs, panics, slow, greedy, hung, died, longest_ms, peak_bytes]
    }

    /// Writes it over what the file has.
    pub fn keep(mut self, file: &File) -> io::Result<()> {
        let mut bytes = [0; NUMBERS * 8];
        for (place, number) in bytes.chunks_exact_mut(8).zip(self.numbers()) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        file.write_all_at(&bytes, 0)
    }

    /// Reads what [`Tally::keep`] wrote.
    pub fn read(path: &Path) -> io::Result<Self> {
        let bytes = std::fs::read(path)?;
        let mut tally = Self::default();
        for (number, place) in tally.numbers().into_iter().zip(bytes.as_chunks::<8>().0) {
            *number = u64::from_le_bytes(*place);
        }
        Ok(tally)
    }

    /// Adds what another process counted.
    pub fn add(&mut self, mut other: Self) {
        let longest_ms = self.longest_ms.max(other.longest_ms);
        let peak_bytes = self.peak_bytes.max(other.peak_bytes);
        for (sum, number) in self.numbers().into_iter().zip(other.numbers()) {
            *sum += *number;
        }
        (self.at, self.longest_ms, self.peak_bytes) = (other.at, longest_ms, peak_bytes);
    }
}
