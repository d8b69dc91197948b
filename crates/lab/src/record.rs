//! Decodes the plugin's record of executed instructions.
//!
//! The crate `lab-plugin` (`src/record.rs`) describes the format. The two crates share no code because their
//! licences differ.

use std::io::Read;

const MAGIC: &[u8; 8] = b"IOTOLLR2";
/// Instructions in a translated block; more than QEMU translates at once.
const INSTRUCTIONS_MAX: u32 = 1 << 16;
/// Words in the name of a memory region; more than any QEMU device uses.
const NAME_WORDS_MAX: u32 = 1 << 10;
/// Virtual CPUs; more than any machine has.
pub const VCPUS_MAX: u32 = 1 << 10;

/// Why a record can't be decoded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file can't be read.
    #[error("can't read the record")]
    Io(#[from] std::io::Error),
    /// The file is not a record.
    #[error("not a record: it begins with {0:02x?}; expected {MAGIC:02x?}")]
    Magic([u8; 8]),
    /// The record is truncated: QEMU was killed, or the disk is full.
    #[error("the record is truncated after {0} words; expected an end word")]
    Short(u64),
    /// A word is invalid where it is.
    #[error("word {at} of the record is {word:#010x}; {expected}")]
    Word {
        /// The word's number, counted from the magic.
        at: u64,
        /// The word.
        word: u32,
        /// What was expected instead.
        expected: &'static str,
    },
}

/// One event of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// QEMU translated a block. Blocks are numbered in this order, from 0.
    Block {
        /// The address of each instruction.
        addresses: Vec<u64>,
    },
    /// A block was executed, up to and including instruction `begun`.
    Ran {
        /// The block's number.
        block: u32,
        /// Number of its instructions that were begun.
        begun: u32,
    },
    /// The last string instruction repeated this many more times.
    Repeated(u32),
    /// The following events happened on this virtual CPU.
    Vcpu(u32),
    /// A window begins on the current virtual CPU.
    Begin,
    /// The window ends.
    End,
    /// The window pauses: instructions until it resumes are waiting and are not counted.
    Pause,
    /// The window resumes.
    Resume,
    /// The program polls for a completion.
    Poll,
    /// The workload of this number begins.
    Phase(u64),
    /// The number of I/Os in each window of the current workload.
    IosPerWindow(u64),
    /// The next block reads or writes a device's register.
    Device(DeviceAccess),
    /// The next block stores 8 bytes to the kernel's linear map.
    Store,
    /// The plugin stopped waiting for devices after this many milliseconds.
    GaveUp(u32),
}

/// One access to a device's registers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceAccess {
    /// QEMU's name of the memory region.
    pub region: String,
    /// The physical address.
    pub address: u64,
    /// True for a write, false for a read.
    pub write: bool,
}

/// Decodes a record event by event.
pub struct Record<R> {
    input: R,
    words: u64,
    blocks: Vec<u32>,
    regions: Vec<String>,
    ended: bool,
}

impl<R: Read> Record<R> {
    /// Checks the magic. The input should be buffered.
    ///
    /// # Errors
    /// [`RecordError`] if it is not a record.
    pub fn new(mut input: R) -> Result<Self, RecordError> {
        let mut magic = [0; MAGIC.len()];
        input.read_exact(&mut magic)?;
        if &magic != MAGIC {
            return Err(RecordError::Magic(magic));
        }
        Ok(Self { input, words: 0, blocks: Vec::new(), regions: Vec::new(), ended: false })
    }

    /// The next event; `None` after the end word.
    ///
    /// # Errors
    /// [`RecordError`] if it can't be read, is invalid or truncated.
    pub fn next_step(&mut self) -> Result<Option<Step>, RecordError> {
        while !self.ended {
            let word = self.read_u32()?;
            if let Some(step) = self.decode(word)? {
                return Ok(Some(step));
            }
        }
        Ok(None)
    }

    /// Decodes the event that begins with `word`: its upper 4 bits are the kind, the others a value. `None` for the name
    /// of a memory region and for the end, which are not events.
    fn decode(&mut self, word: u32) -> Result<Option<Step>, RecordError> {
        let value = word & 0x0fff_ffff;
        Ok(Some(match word >> 28 {
            0 => Step::Ran { block: value, begun: self.block_length(value, word)? },
            1 => self.decode_partial_block(value, word)?,
            2 => self.decode_block(value, word)?,
            3 if value < VCPUS_MAX => Step::Vcpu(value),
            3 => return Err(self.invalid_word(word, "expected a virtual CPU's number")),
            4 => self.decode_window_event(value, word)?,
            5 => Step::Phase(self.read_u64()?),
            6 => Step::IosPerWindow(self.read_u64()?),
            7 => Step::Device(self.decode_device_access(value, word)?),
            8 => {
                self.decode_region_name(value, word)?;
                return Ok(None);
            }
            9 => Step::Repeated(self.read_u32()?),
            10 => Step::Store,
            11 => Step::GaveUp(self.read_u32()?),
            15 => {
                self.check_end(word)?;
                return Ok(None);
            }
            _ => return Err(self.invalid_word(word, "expected one of the kinds 0 to 11 and 15")),
        }))
    }

    /// The number of instructions in a block that was described earlier.
    fn block_length(&self, block: u32, word: u32) -> Result<u32, RecordError> {
        let found = usize::try_from(block).ok().and_then(|block| self.blocks.get(block));
        found.copied().ok_or_else(|| self.invalid_word(word, "expected a block that was described before"))
    }

    /// A block that was left before its last instruction.
    fn decode_partial_block(&mut self, block: u32, word: u32) -> Result<Step, RecordError> {
        let whole = self.block_length(block, word)?;
        let begun = self.read_u32()?;
        if begun > whole {
            return Err(self.invalid_word(begun, "expected no more instructions than the block has"));
        }
        Ok(Step::Ran { block, begun })
    }

    /// The description of a translated block.
    fn decode_block(&mut self, block: u32, word: u32) -> Result<Step, RecordError> {
        if block as usize != self.blocks.len() {
            return Err(self.invalid_word(word, "expected the next block's number"));
        }
        let start = self.read_u64()?;
        let number = self.read_u32()?;
        if number > INSTRUCTIONS_MAX {
            return Err(self.invalid_word(number, "expected a block's number of instructions"));
        }
        self.blocks.push(number);
        let mut addresses = Vec::with_capacity(number as usize);
        for _ in 0..number {
            addresses.push(start.wrapping_add(u64::from(self.read_u32()?)));
        }
        Ok(Step::Block { addresses })
    }

    /// The begin, end, pause or resumption of a window, or a poll in it.
    fn decode_window_event(&self, value: u32, word: u32) -> Result<Step, RecordError> {
        match value {
            0 => Ok(Step::Begin),
            1 => Ok(Step::End),
            2 => Ok(Step::Pause),
            3 => Ok(Step::Resume),
            4 => Ok(Step::Poll),
            _ => Err(self.invalid_word(word, "expected an event of a window, 0 to 4")),
        }
    }

    /// An access to a device's register.
    fn decode_device_access(&mut self, value: u32, word: u32) -> Result<DeviceAccess, RecordError> {
        let region = self.regions.get((value & 0xffff) as usize).cloned();
        let region =
            region.ok_or_else(|| self.invalid_word(word, "expected a region that was named before"))?;
        Ok(DeviceAccess { region, address: self.read_u64()?, write: value >> 20 & 1 == 1 })
    }

    /// Stores the name of a memory region, which later device accesses refer to by its number.
    fn decode_region_name(&mut self, region: u32, word: u32) -> Result<(), RecordError> {
        if region as usize != self.regions.len() {
            return Err(self.invalid_word(word, "expected the next region's number"));
        }
        let words = self.read_u32()?;
        if words > NAME_WORDS_MAX {
            return Err(self.invalid_word(words, "expected a name's length"));
        }
        let mut name = Vec::new();
        for _ in 0..words {
            name.extend(self.read_u32()?.to_le_bytes());
        }
        let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        self.regions.push(String::from_utf8_lossy(&name[..length]).into_owned());
        Ok(())
    }

    /// Checks the number of blocks in the end word.
    fn check_end(&mut self, word: u32) -> Result<(), RecordError> {
        let blocks = self.read_u32()?;
        if blocks as usize != self.blocks.len() {
            return Err(self.invalid_word(word, "expected as many blocks at the end as before it"));
        }
        self.ended = true;
        Ok(())
    }

    fn read_u64(&mut self) -> Result<u64, RecordError> {
        Ok(u64::from(self.read_u32()?) | u64::from(self.read_u32()?) << 32)
    }

    fn read_u32(&mut self) -> Result<u32, RecordError> {
        let mut bytes = [0; 4];
        self.input.read_exact(&mut bytes).map_err(|why| match why.kind() {
            std::io::ErrorKind::UnexpectedEof => RecordError::Short(self.words),
            _ => RecordError::Io(why),
        })?;
        self.words += 1;
        Ok(u32::from_le_bytes(bytes))
    }

    /// The error for a word that was read last.
    fn invalid_word(&self, word: u32, expected: &'static str) -> RecordError {
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
        while let Some(step) = record.next_step()? {
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
    fn the_events_of_a_window_are_decoded() {
        let words = [4 << 28, 0, 1 << 28, 1, 4 << 28 | 2, 4 << 28 | 4, 4 << 28 | 3, 4 << 28 | 1];
        let read = steps(&with_block(&words)).unwrap();
        let expected = [
            Step::Block { addresses: vec![0xffff_ffff_8100_0000, 0xffff_ffff_8100_0004] },
            Step::Begin,
            Step::Ran { block: 0, begun: 2 },
            Step::Ran { block: 0, begun: 1 },
            Step::Pause,
            Step::Poll,
            Step::Resume,
            Step::End,
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn a_device_access_has_the_name_of_its_region() {
        let name = u32::from_le_bytes(*b"nvme");
        let words = [8 << 28, 1, name, 7 << 28 | 2 << 16 | 1 << 20, 0x1008, 0x1];
        let read = steps(&with_block(&words)).unwrap();
        let access = DeviceAccess { region: "nvme".to_owned(), address: 0x1_0000_1008, write: true };
        assert_eq!(read[1], Step::Device(access));
    }

    #[test]
    fn a_truncated_record_is_an_error() {
        let whole = with_block(&[4 << 28]);
        for length in 8..whole.len() {
            assert!(matches!(steps(&whole[..length]), Err(RecordError::Short(_))), "{length} bytes");
        }
        assert!(steps(&whole).is_ok());
    }

    #[test]
    fn invalid_words_are_errors() {
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
        fn any_words_are_decoded_or_refused(words in proptest::collection::vec(any::<u32>(), 0..200)) {
            let _ = steps(&record(&words));
        }

        #[test]
        fn any_words_of_known_kinds_are_decoded_or_refused(kinds in proptest::collection::vec((0_u32..16, 0_u32..4), 0..200)) {
            let words: Vec<u32> = kinds.iter().map(|(kind, value)| kind << 28 | value).collect();
            let _ = steps(&with_block(&words));
        }
    }
}
