//! Reads a record for the second time, to reconstruct the call stacks of a few windows.
//!
//! Only after the last window is it known which one is typical, and one window can have millions of instructions.
//! Reading the record twice avoids keeping the sequence of instructions in memory; it keeps only the translated
//! blocks, like the first reading.

use crate::record::{Record, RecordError, Step};
use crate::stack::{Arrival, Folded, Landmarks, Piece, Walker};
use crate::symbols::Symbols;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

/// The instructions by call stack of each window in `windows`, a set of [`crate::window::Window::number`].
///
/// # Errors
/// [`RecordError`] if the record is truncated or invalid.
pub fn stacks(
    record: &mut Record<impl Read>,
    symbols: &Symbols,
    landmarks: &Landmarks,
    windows: &BTreeSet<u64>,
) -> Result<BTreeMap<u64, Folded>, RecordError> {
    let mut replay = Replay {
        symbols,
        landmarks,
        windows,
        blocks: Vec::new(),
        begun: 0,
        vcpu: 0,
        open: BTreeMap::new(),
        ended: BTreeMap::new(),
    };
    while let Some(step) = record.next_step()? {
        replay.process(step);
    }
    Ok(replay.ended)
}

/// The state of the second reading.
struct Replay<'a> {
    symbols: &'a Symbols,
    landmarks: &'a Landmarks,
    windows: &'a BTreeSet<u64>,
    /// The translated blocks by number, each split where the function changes.
    blocks: Vec<Vec<BlockPiece>>,
    /// Windows begun so far.
    begun: u64,
    vcpu: u32,
    /// The current window of each virtual CPU, if its stacks are wanted.
    open: BTreeMap<u32, OpenWindow<'a>>,
    ended: BTreeMap<u64, Folded>,
}

/// A window that has begun and not ended.
struct OpenWindow<'a> {
    number: u64,
    walker: Walker<'a>,
    paused: bool,
}

/// The part of a block that belongs to one function, with the address of each instruction.
struct BlockPiece {
    whole: Piece,
    addresses: Vec<u64>,
}

impl BlockPiece {
    /// The first `instructions` of the piece, or all if it has fewer; `None` for 0.
    fn first(&self, instructions: usize) -> Option<Piece> {
        let last = *self.addresses[..instructions.min(self.addresses.len())].last()?;
        Some(Piece { last, instructions: instructions.min(self.addresses.len()) as u64, ..self.whole })
    }
}

impl Replay<'_> {
    /// Processes one event of the record.
    fn process(&mut self, step: Step) {
        match step {
            Step::Block { addresses } => self.blocks.push(self.split_block(&addresses)),
            Step::Vcpu(vcpu) => self.vcpu = vcpu,
            Step::Begin => self.begin(),
            Step::End => {
                let ended = self.open.remove(&self.vcpu);
                self.ended.extend(ended.map(|open| (open.number, open.walker.finish())));
            }
            Step::Pause => self.set_paused(true),
            Step::Resume => self.set_paused(false),
            Step::Ran { block, begun } => self.execute(block, begun),
            Step::Phase(_)
            | Step::IosPerWindow(_)
            | Step::GaveUp(_)
            | Step::Poll
            | Step::Repeated(_)
            | Step::Device(_)
            | Step::Store => {}
        }
    }

    /// Begins a window on the current virtual CPU.
    fn begin(&mut self) {
        self.open.remove(&self.vcpu);
        if self.windows.contains(&self.begun) {
            let walker = Walker::new(self.landmarks);
            self.open.insert(self.vcpu, OpenWindow { number: self.begun, walker, paused: false });
        }
        self.begun += 1;
    }

    fn set_paused(&mut self, paused: bool) {
        if let Some(open) = self.open.get_mut(&self.vcpu) {
            open.paused = paused;
        }
    }

    /// Passes the first `begun` instructions of a block to the current window's walker.
    fn execute(&mut self, block: u32, begun: u32) {
        let Some(open) = self.open.get_mut(&self.vcpu).filter(|open| !open.paused) else { return };
        let mut left = begun as usize;
        for block_piece in &self.blocks[block as usize] {
            let Some(piece) = block_piece.first(left) else { break };
            left -= piece.instructions as usize;
            open.walker.execute(piece);
        }
    }

    /// Splits a block, given by its instructions' addresses, where the function changes.
    fn split_block(&self, addresses: &[u64]) -> Vec<BlockPiece> {
        let codes: Vec<_> = addresses.iter().map(|address| (self.symbols.code(*address), *address)).collect();
        codes.chunk_by(|a, b| a.0 == b.0).filter_map(|run| self.block_piece(run)).collect()
    }

    /// The piece of consecutive instructions of one function; `None` if there are none.
    fn block_piece(&self, run: &[(crate::symbols::Code, u64)]) -> Option<BlockPiece> {
        let (&(code, first), &(_, last)) = (run.first()?, run.last()?);
        let is_entry = self.landmarks.is_entry(self.symbols, first);
        let arrival = if is_entry { Arrival::Entry } else { Arrival::Middle };
        let whole = Piece { code, arrival, first, last, instructions: run.len() as u64 };
        Some(BlockPiece { whole, addresses: run.iter().map(|(_, address)| *address).collect() })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use crate::Arch;
    use crate::stage::StageTable;
    use crate::window::{Layout, Window, WindowCounter};
    use proptest::prelude::*;

    const TEXT: &str = "\
ffffffff81000000 vfs_read
ffffffff81000008 nvme_queue_rq
ffffffff81000100 __domain_mapping
";
    /// Block 0 is in vfs_read and continues in nvme_queue_rq, block 1 in __domain_mapping, block 2 in user mode.
    const BLOCKS: [&[u32]; 3] = [
        &[2 << 28, 0x8100_0000, 0xffff_ffff, 3, 0, 4, 8],
        &[2 << 28 | 1, 0x8100_0100, 0xffff_ffff, 2, 0, 4],
        &[2 << 28 | 2, 0x7000_0010, 0, 1, 0],
    ];
    const END: [u32; 2] = [15 << 28, 3];

    /// The windows of a record by the first reading, and their stacks by the second.
    fn read_twice(ran: &[u32]) -> (Vec<Window>, BTreeMap<u64, Folded>) {
        let words = [&BLOCKS.concat(), ran, &END].concat();
        let bytes: Vec<u8> =
            b"IOTOLLR2".iter().copied().chain(words.iter().flat_map(|word| word.to_le_bytes())).collect();
        let symbols = Symbols::parse(TEXT).unwrap();
        let stages = StageTable::built_in().stages(&symbols);
        let record = || Record::new(bytes.as_slice()).unwrap();
        let windows =
            WindowCounter::new(&symbols, &stages, Layout::of(Arch::X86)).count(&mut record()).unwrap();
        let numbers = windows.iter().map(|window| window.number).collect();
        let landmarks = Landmarks::new(&symbols, Arch::X86);
        let stacks = stacks(&mut record(), &symbols, &landmarks, &numbers).unwrap();
        (windows, stacks)
    }

    #[test]
    fn a_block_that_continues_in_the_next_function_is_split() {
        let (_, stacks) = read_twice(&[4 << 28, 2, 0, 1 << 28, 2, 4 << 28 | 1]);
        let lengths: Vec<_> = stacks[&0].iter().map(|(stack, n)| (stack.len(), *n)).collect();
        assert_eq!(lengths, [(1, 1), (1, 2), (1, 1), (2, 2)]);
    }

    #[test]
    fn instructions_of_a_paused_window_are_on_no_stack() {
        let (windows, stacks) =
            read_twice(&[4 << 28, 2, 4 << 28 | 2, 0, 1, 4 << 28 | 4, 4 << 28 | 3, 1, 4 << 28 | 1]);
        assert_eq!((windows[0].instructions, stacks[&0].values().sum::<u64>()), (3, 3));
    }

    #[test]
    fn only_the_requested_windows_have_stacks() {
        let symbols = Symbols::parse(TEXT).unwrap();
        let landmarks = Landmarks::new(&symbols, Arch::X86);
        let ran = [4 << 28, 0, 4 << 28 | 1, 4 << 28, 1, 4 << 28 | 1];
        let words = [&BLOCKS.concat(), &ran[..], &END].concat();
        let bytes: Vec<u8> =
            b"IOTOLLR2".iter().copied().chain(words.iter().flat_map(|word| word.to_le_bytes())).collect();
        let record = &mut Record::new(bytes.as_slice()).unwrap();
        let stacks = stacks(record, &symbols, &landmarks, &BTreeSet::from([1])).unwrap();
        assert_eq!(stacks.keys().collect::<Vec<_>>(), [&1]);
        assert_eq!(stacks[&1].values().sum::<u64>(), 2);
    }

    proptest! {
        #[test]
        fn both_readings_count_the_same_instructions(steps in proptest::collection::vec(0_usize..12, 0..200)) {
            let words: [&[u32]; 12] = [
                &[0], &[1], &[2], &[1 << 28, 2], &[1 << 28, 0], &[1 << 28 | 1, 1],
                &[4 << 28], &[4 << 28 | 1], &[4 << 28 | 2], &[4 << 28 | 3], &[3 << 28], &[3 << 28 | 1],
            ];
            let ran: Vec<u32> = steps.iter().flat_map(|step| words[*step].iter().copied()).collect();
            let (windows, stacks) = read_twice(&ran);
            for window in &windows {
                prop_assert_eq!(stacks[&window.number].values().sum::<u64>(), window.instructions);
            }
        }
    }
}
