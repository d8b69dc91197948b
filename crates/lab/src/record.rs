//! The plugin's record, read.
//!
//! The layout is described where it is written, in the crate `lab-plugin` (`src/record.rs`). The two crates
//! share no code because of their licences.

use std::io::Read;

const MAGIC: &[u8; 8] = b"IOTOLLR2";
/// No block that QEMU translates is longer.
const INSTRUCTIONS_MAX: u32 = 1 << 16;
/// No region's name is longer.
const NAME_WORDS_MAX: u32 = 1 << 10;
/// More virtual CPUs than any machine has.
pub const VCPUS_MAX: u32 = 1 << 10;

/// What is wrong with a record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// It can't be read.
    #[error("can't read the record")]
    Io(#[from] std::io::Error),
    /// It is something else.
    #[error("no record: it begins with {0:02x?}, expected {MAGIC:02x?}")]
    Magic([u8; 8]),
    /// It ends before its end: QEMU was killed, or the disk is full.
    #[error("the record ends after {0} words, without its end")]
    Short(u64),
    /// A word that makes no sense where it is.
    #[error("word {at} of the record is {word:#010x}: {expected}")]
    Word {
        /// Counted from the magic.
        at: u64,
        /// The word.
        word: u32,
        /// What would have made sense.
        expected: &'static str,
    },
}

/// One step of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A translated block gets a number: the next one, from 0.
    Block {
        /// Where each of its instructions is.
        addresses: Vec<u64>,
    },
    /// The first instructions of a block were begun.
    Ran {
        /// The block's number.
        block: u32,
        /// How many instructions.
        begun: u32,
    },
    /// The last string instruction repeated so many times more.
    Repeated(u32),
    /// What follows was on this virtual CPU.
    Vcpu(u32),
    /// A window begins on the current virtual CPU.
    Begin,
    /// It ends.
    End,
    /// It pauses: what runs until it goes on is waiting, and not counted.
    Pause,
    /// It goes on.
    GoOn,
    /// Somebody looks whether devices have answered.
    Look,
    /// A workload begins, by its number.
    Phase(u64),
    /// The I/Os in each window of this workload.
    Units(u64),
    /// A device's registers were written or read, in the block that comes next.
    Device(DeviceAccess),
    /// The kernel stored a number of 8 bytes in its linear map, in the block that comes next.
    Store,
    /// The plugin gave up waiting for devices, after so many milliseconds.
    GaveUp(u32),
}

/// One access to a device's registers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceAccess {
    /// QEMU's name of the region.
    pub region: String,
    /// The physical address.
    pub address: u64,
    /// Whether it was written.
    pub write: bool,
}

/// Reads a record step by step.
pub struct Record<R> {
    input: R,
    words: u64,
    blocks: Vec<u32>,
    regions: Vec<String>,
    ended: bool,
}

impl<R: Read> Record<R> {
    /// Begins to read. The input should be buffered.
    ///
    /// # Errors
    /// [`RecordError`] if it is no record.
    pub fn new(mut input: R) -> Result<Self, RecordError> {
        let mut magic = [0; MAGIC.len()];
        input.read_exact(&mut magic)?;
        if &magic != MAGIC {
            return Err(RecordError::Magic(magic));
        }
        Ok(Self { input, words: 0, blocks: Vec::new(), regions: Vec::new(), ended: false })
    }

    /// The next step; none after the end.
    ///
    /// # Errors
    /// [`RecordError`] if it can't be read, makes no sense, or ends too early.
    pub fn step(&mut self) -> Result<Option<Step>, RecordError> {
        while !self.ended {
            let word = self.word()?;
            if let Some(step) = self.step_of(word)? {
                return Ok(Some(step));
            }
        }
        Ok(None)
    }

    fn step_of(&mut self, word: u32) -> Result<Option<Step>, RecordError> {
        let value = word & 0x0fff_ffff;
        Ok(Some(match word >> 28 {
            0 => Step::Ran { block: value, begun: self.instructions(value, word)? },
            1 => self.partly(value, word)?,
            2 => self.block(value, word)?,
            3 if value < VCPUS_MAX => Step::Vcpu(value),
            3 => return Err(self.wrong(word, "expected a virtual CPU's number")),
            4 => self.moment(value, word)?,
            5 => Step::Phase(self.double()?),
            6 => Step::Units(self.double()?),
            7 => Step::Device(self.device_access(value, word)?),
            8 => {
                self.region(value, word)?;
                return Ok(None);
            }
            9 => Step::Repeated(self.word()?),
            10 => Step::Store,
            11 => Step::GaveUp(self.word()?),
            15 => {
                self.end(word)?;
                return Ok(None);
            }
            _ => return Err(self.wrong(word, "expected one of the kinds 0 to 11 and 15")),
        }))
    }

    fn instructions(&self, block: u32, word: u32) -> Result<u32, RecordError> {
        let found = usize::try_from(block).ok().and_then(|block| self.blocks.get(block));
        found.copied().ok_or_else(|| self.wrong(word, "expected a block that was described before"))
    }

    fn partly(&mut self, block: u32, word: u32) -> Result<Step, RecordError> {
        let whole = self.instructions(block, word)?;
        let begun = self.word()?;
        if begun > whole {
            return Err(self.wrong(begun, "expected no more instructions than the block has"));
        }
        Ok(Step::Ran { block, begun })
    }

    fn block(&mut self, block: u32, word: u32) -> Result<Step, RecordError> {
        if block as usize != self.blocks.len() {
            return Err(self.wrong(word, "expected the next block's number"));
        }
        let start = self.double()?;
        let number = self.word()?;
        if number > INSTRUCTIONS_MAX {
            return Err(self.wrong(number, "expected a block's number of instructions"));
        }
        self.blocks.push(number);
        let mut addresses = Vec::with_capacity(number as usize);
        for _ in 0..number {
            addresses.push(start.wrapping_add(u64::from(self.word()?)));
        }
        Ok(Step::Block { addresses })
    }

    fn moment(&self, value: u32, word: u32) -> Result<Step, RecordError> {
        match value {
            0 => Ok(Step::Begin),
            1 => Ok(Step::End),
            2 => Ok(Step::Pause),
            3 => Ok(Step::GoOn),
            4 => Ok(Step::Look),
            _ => Err(self.wrong(word, "expected a moment of a window, 0 to 4")),
        }
    }

    fn device_access(&mut self, value: u32, word: u32) -> Result<DeviceAccess, RecordError> {
        let region = self.regions.get((value & 0xffff) as usize).cloned();
        let region = region.ok_or_else(|| self.wrong(word, "expected a region that was named before"))?;
        Ok(DeviceAccess { region, address: self.double()?, write: value >> 20 & 1 == 1 })
    }

    fn region(&mut self, region: u32, word: u32) -> Result<(), RecordError> {
        if region as usize != self.regions.len() {
            return Err(self.wrong(word, "expected the next region's number"));
        }
        let words = self.word()?;
        if words > NAME_WORDS_MAX {
            return Err(self.wrong(words, "expected a name's length"));
        }
        let mut name = Vec::new();
        for _ in 0..words {
            name.extend(self.word()?.to_le_bytes());
        }
        let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        self.regions.push(String::from_utf8_lossy(&name[..length]).into_owned());
        Ok(())
    }

    fn end(&mut self, word: u32) -> Result<(), RecordError> {
        let blocks = self.word()?;
        if blocks as usize != self.blocks.len() {
            return Err(self.wrong(word, "expected as many blocks at the end as before it"));
        }
        self.ended = true;
        Ok(())
    }

    fn double(&mut self) -> Result<u64, RecordError> {
        Ok(u64::from(self.word()?) | u64::from(self.word()?) << 32)
    }

    fn word(&mut self) -> Result<u32, RecordError> {
        let mut bytes = [0; 4];
        self.input.read_exact(&mut bytes).map_err(|why| match why.kind() {
            std::io::ErrorKind::UnexpectedEof => RecordError::Short(self.words),
            _ => RecordError::Io(why),
        })?;
        self.words += 1;
        Ok(u32::from_le_bytes(bytes))
    }

    fn wrong(&self, word: u32, expected: &'static str) -> RecordError {
        RecordError::Word { at: self.words, word, expected }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use proptest::prelude::*;

    fn record(words: &[u32]) -> Vec<u8> {
        MAGIC.iter().copied().chain(words.iter().flat_map(|word| word.to_le_bytes())).collect()
    }

    fn steps(bytes: &[u8]) -> Result<Vec<Step>, RecordError> {
        let mut record = Record::new(bytes)?;
        let mut steps = Vec::new();
        while let Some(step) = record.step()? {
            steps.push(step);
        }
        Ok(steps)
    }

    const BLOCK: [u32; 6] = [2 << 28, 0x8100_0000, 0xffff_ffff, 2, 0, 4];
    const END: [u32; 2] = [15 << 28, 1];

    fn with_block(words: &[u32]) -> Vec<u8> {
        record(&[&BLOCK, words, &END].concat())
    }

    #[test]
    fn a_window() {
        let words = [4 << 28, 0, 1 << 28, 1, 4 << 28 | 2, 4 << 28 | 4, 4 << 28 | 3, 4 << 28 | 1];
        let read = steps(&with_block(&words)).unwrap();
        let expected = [
            Step::Block { addresses: vec![0xffff_ffff_8100_0000, 0xffff_ffff_8100_0004] },
            Step::Begin,
            Step::Ran { block: 0, begun: 2 },
            Step::Ran { block: 0, begun: 1 },
            Step::Pause,
            Step::Look,
            Step::GoOn,
            Step::End,
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn a_device_has_its_region_s_name() {
        let name = u32::from_le_bytes(*b"nvme");
        let words = [8 << 28, 1, name, 7 << 28 | 2 << 16 | 1 << 20, 0x1008, 0x1];
        let read = steps(&with_block(&words)).unwrap();
        let access = DeviceAccess { region: "nvme".to_owned(), address: 0x1_0000_1008, write: true };
        assert_eq!(read[1], Step::Device(access));
    }

    #[test]
    fn no_end_is_an_error() {
        let whole = with_block(&[4 << 28]);
        for length in 8..whole.len() {
            assert!(matches!(steps(&whole[..length]), Err(RecordError::Short(_))), "{length} bytes");
        }
        assert!(steps(&whole).is_ok());
    }

    #[test]
    fn what_was_not_described_is_an_error() {
        for words in [
            &[1_u32][..],
            &[1 << 28, 3],
            &[2 << 28 | 5],
            &[7 << 28, 0, 0],
            &[13 << 28],
            &[4 << 28 | 5],
            &[3 << 28 | VCPUS_MAX],
        ] {
            let read = steps(&with_block(words));
            assert!(matches!(read, Err(RecordError::Word { .. })), "{words:x?}: {read:?}");
        }
        assert!(matches!(steps(b"something else"), Err(RecordError::Magic(_))));
    }

    proptest! {
        #[test]
        fn anything_ends(words in proptest::collection::vec(any::<u32>(), 0..200)) {
            let _ = steps(&record(&words));
        }

        #[test]
        fn anything_likely_ends(kinds in proptest::collection::vec((0_u32..16, 0_u32..4), 0..200)) {
            let words: Vec<u32> = kinds.iter().map(|(kind, value)| kind << 28 | value).collect();
            let _ = steps(&with_block(&words));
        }
    }
}
