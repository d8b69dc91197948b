//! A record's second reading: the call stacks of a few of its windows.
//!
//! Which window is typical is known only when the last has ended, and one window can be millions of instructions.
//! Reading the record twice keeps neither all windows nor a candidate's sequence in memory, only the blocks, which
//! the first reading holds too.

use crate::record::{Record, RecordError, Step};
use crate::stack::{Arrival, Folded, Landmarks, Piece, Walker};
use crate::symbols::Symbols;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

/// The stacks of the windows with some numbers ([`crate::window::Window::number`]).
///
/// # Errors
/// [`RecordError`] if the record is not whole or makes no sense.
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
    while let Some(step) = record.step()? {
        replay.step(step);
    }
    Ok(replay.ended)
}

struct Replay<'a> {
    symbols: &'a Symbols,
    landmarks: &'a Landmarks,
    windows: &'a BTreeSet<u64>,
    /// The pieces of each, whole.
    blocks: Vec<Vec<Stretch>>,
    /// Windows begun so far.
    begun: u64,
    vcpu: u32,
    /// By virtual CPU.
    open: BTreeMap<u32, Open<'a>>,
    ended: BTreeMap<u64, Folded>,
}

struct Open<'a> {
    /// The window's.
    number: u64,
    walker: Walker<'a>,
    pauses: bool,
}

/// A piece of a block, and where its instructions are.
struct Stretch {
    whole: Piece,
    addresses: Vec<u64>,
}

impl Stretch {
    /// Its first instructions; none of none.
    fn first(&self, instructions: usize) -> Option<Piece> {
        let last = *self.addresses[..instructions.min(self.addresses.len())].last()?;
        Some(Piece { last, instructions: instructions.min(self.addresses.len()) as u64, ..self.whole })
    }
}

impl Replay<'_> {
    fn step(&mut self, step: Step) {
        match step {
            Step::Block { addresses } => self.blocks.push(self.block(&addresses)),
            Step::Vcpu(vcpu) => self.vcpu = vcpu,
            Step::Begin => self.begin(),
            Step::End => {
                let ended = self.open.remove(&self.vcpu);
                self.ended.extend(ended.map(|open| (open.number, open.walker.finish())));
            }
            Step::Pause => self.pause(true),
            Step::GoOn => self.pause(false),
            Step::Ran { block, begun } => self.ran(block, begun),
            Step::Phase(_)
            | Step::Units(_)
            | Step::GaveUp(_)
            | Step::Look
            | Step::Repeated(_)
            | Step::Device(_)
            | Step::Store => {}
        }
    }

    fn begin(&mut self) {
        self.open.remove(&self.vcpu);
        if self.windows.contains(&self.begun) {
            let walker = Walker::new(self.landmarks);
            self.open.insert(self.vcpu, Open { number: self.begun, walker, pauses: false });
        }
        self.begun += 1;
    }

    fn pause(&mut self, pauses: bool) {
        if let Some(open) = self.open.get_mut(&self.vcpu) {
            open.pauses = pauses;
        }
    }

    fn ran(&mut self, block: u32, begun: u32) {
        let Some(open) = self.open.get_mut(&self.vcpu).filter(|open| !open.pauses) else { return };
        let mut left = begun as usize;
        for stretch in &self.blocks[block as usize] {
            let Some(piece) = stretch.first(left) else { break };
            left -= piece.instructions as usize;
            open.walker.ran(piece);
        }
    }

    fn block(&self, addresses: &[u64]) -> Vec<Stretch> {
        let codes: Vec<_> = addresses.iter().map(|address| (self.symbols.code(*address), *address)).collect();
        codes.chunk_by(|a, b| a.0 == b.0).filter_map(|run| self.stretch(run)).collect()
    }

    fn stretch(&self, run: &[(crate::symbols::Code, u64)]) -> Option<Stretch> {
        let (&(code, first), &(_, last)) = (run.first()?, run.last()?);
        let is_entry = self.landmarks.is_entry(self.symbols, first);
        let arrival = if is_entry { Arrival::Entry } else { Arrival::Middle };
        let whole = Piece { code, arrival, first, last, instructions: run.len() as u64 };
        Some(Stretch { whole, addresses: run.iter().map(|(_, address)| *address).collect() })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use crate::Arch;
    use crate::stage::StageTable;
    use crate::window::{Folder, Layout, Window};
    use proptest::prelude::*;

    const TEXT: &str = "\
ffffffff81000000 vfs_read
ffffffff81000008 nvme_queue_rq
ffffffff81000100 __domain_mapping
";
    /// Blocks 0: vfs_read and on into nvme_queue_rq; 1: __domain_mapping; 2: user.
    const BLOCKS: [&[u32]; 3] = [
        &[2 << 28, 0x8100_0000, 0xffff_ffff, 3, 0, 4, 8],
        &[2 << 28 | 1, 0x8100_0100, 0xffff_ffff, 2, 0, 4],
        &[2 << 28 | 2, 0x7000_0010, 0, 1, 0],
    ];
    const END: [u32; 2] = [15 << 28, 3];

    /// What both readings say of the windows of a record.
    fn both(ran: &[u32]) -> (Vec<Window>, BTreeMap<u64, Folded>) {
        let words = [&BLOCKS.concat(), ran, &END].concat();
        let bytes: Vec<u8> =
            b"IOTOLLR2".iter().copied().chain(words.iter().flat_map(|word| word.to_le_bytes())).collect();
        let symbols = Symbols::read(TEXT).unwrap();
        let stages = StageTable::built_in().stages(&symbols);
        let record = || Record::new(bytes.as_slice()).unwrap();
        let windows = Folder::new(&symbols, &stages, Layout::of(Arch::X86)).fold(&mut record()).unwrap();
        let numbers = windows.iter().map(|window| window.number).collect();
        let landmarks = Landmarks::new(&symbols, Arch::X86);
        let stacks = stacks(&mut record(), &symbols, &landmarks, &numbers).unwrap();
        (windows, stacks)
    }

    #[test]
    fn a_block_falls_from_one_function_into_the_next() {
        let (_, stacks) = both(&[4 << 28, 2, 0, 1 << 28, 2, 4 << 28 | 1]);
        let lengths: Vec<_> = stacks[&0].iter().map(|(stack, n)| (stack.len(), *n)).collect();
        assert_eq!(lengths, [(1, 1), (1, 2), (1, 1), (2, 2)]);
    }

    #[test]
    fn what_runs_while_a_window_pauses_is_on_no_stack() {
        let (windows, stacks) =
            both(&[4 << 28, 2, 4 << 28 | 2, 0, 1, 4 << 28 | 4, 4 << 28 | 3, 1, 4 << 28 | 1]);
        assert_eq!((windows[0].instructions, stacks[&0].values().sum::<u64>()), (3, 3));
    }

    #[test]
    fn only_the_windows_asked_for_are_kept() {
        let symbols = Symbols::read(TEXT).unwrap();
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
        fn both_readings_count_the_same(steps in proptest::collection::vec(0_usize..12, 0..200)) {
            let words: [&[u32]; 12] = [
                &[0], &[1], &[2], &[1 << 28, 2], &[1 << 28, 0], &[1 << 28 | 1, 1],
                &[4 << 28], &[4 << 28 | 1], &[4 << 28 | 2], &[4 << 28 | 3], &[3 << 28], &[3 << 28 | 1],
            ];
            let ran: Vec<u32> = steps.iter().flat_map(|step| words[*step].iter().copied()).collect();
            let (windows, stacks) = both(&ran);
            for window in &windows {
                prop_assert_eq!(stacks[&window.number].values().sum::<u64>(), window.instructions);
            }
        }
    }
}
