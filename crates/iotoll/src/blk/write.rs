//! `iotoll blk write`: an input's bytes to blocks, flushed and read again.
//!
//! ```text
//!   Input --4 MiB--> Chunk::write ... Chunk::flush --> Chunk::read --> the same?
//!     |                                                                 ^
//!     +-- a hash of each stretch, 8 bytes ------------------------------+
//! ```
//!
//! A pipe can't be read a second time, so that a hash of each stretch is kept instead: 2 MiB for each TiB that is written.

use super::input::Input;
use super::loss::Blocks;
use super::target::Target;
use crate::cli::BlkWrite;
use crate::output::{self, Outcome};
use anyhow::{Context, bail, ensure};
use indicatif::{BinaryBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use nvme::chunk::Chunk;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// Read, written and compared at a time.
const STRETCH_BYTES: usize = 4 << 20;
const BAR_AFTER: Duration = Duration::from_secs(1);
/// Between two lines about how far it is, where no terminal shows a bar.
const LINE_EVERY: Duration = Duration::from_secs(10);

pub(super) fn run(args: &BlkWrite) -> anyhow::Result<Outcome> {
    let mut input = Input::open(&args.input)?;
    let mut target = Target::open_to_write(args, &input)?;
    let written = write(args, &mut target.chunk, &mut input);
    let closed = target.close();
    // Why it failed says more than what follows from that.
    let blocks = written?;
    closed?;
    output::say(&format!("{blocks} blocks written, flushed, and read again as they were written"));
    Ok(Outcome::Fine)
}

/// The blocks that will be written, as far as that is known before the input is read.
pub(super) fn blocks(args: &BlkWrite, input: &Input, block_bytes: usize) -> anyhow::Result<Blocks> {
    let block_bytes = block_bytes as u64;
    let count = match (args.blocks, input.bytes()) {
        (Some(blocks), Some(bytes)) => {
            ensure!(
                blocks <= bytes / block_bytes,
                "{} has {bytes} bytes; expected {blocks} blocks of {block_bytes}",
                input.name()
            );
            Some(blocks)
        }
        (None, Some(bytes)) => {
            ensure!(
                bytes > 0 && bytes.is_multiple_of(block_bytes),
                "{} has {bytes} bytes; expected a multiple of {block_bytes}, the disk's blocks",
                input.name()
            );
            Some(bytes / block_bytes)
        }
        (blocks, None) => blocks,
    };
    Ok(Blocks { first: args.first, count })
}

fn write(args: &BlkWrite, chunk: &mut Chunk, input: &mut Input) -> anyhow::Result<u64> {
    let Blocks { first, count } = blocks(args, input, chunk.block_bytes())?;
    let mut copy = Copy { first, done: 0, hashes: Vec::new(), stretch: vec![0; STRETCH_BYTES] };
    let mut progress = Progress::of(count.map(|count| count.saturating_mul(chunk.block_bytes() as u64)))?;
    let copied = copy.write(chunk, input, count, &mut progress);
    let copied = copied.and_then(|()| copy.verify(chunk, &mut progress));
    progress.bar.finish_and_clear();
    match copied {
        Ok(()) => Ok(copy.done),
        Err(error) if copy.done == 0 => Err(error),
        Err(error) => {
            let last = first + copy.done - 1;
            Err(error.context(format!("blocks {first} to {last} may be overwritten")))
        }
    }
}

/// What was written so far.
struct Copy {
    first: u64,
    done: u64,
    /// Of each stretch.
    hashes: Vec<u64>,
    stretch: Vec<u8>,
}

impl Copy {
    /// Writes so many blocks, or all that there are.
    fn write(
        &mut self,
        chunk: &mut Chunk,
        input: &mut Input,
        count: Option<u64>,
        progress: &mut Progress,
    ) -> anyhow::Result<()> {
        let block_bytes = chunk.block_bytes();
        let room = chunk.blocks().saturating_sub(self.first);
        loop {
            let per_stretch = (STRETCH_BYTES / block_bytes) as u64;
            let wanted = count.map_or(per_stretch, |count| (count - self.done).min(per_stretch)) as usize;
            let stretch = &mut self.stretch[..wanted * block_bytes];
            let filled = input.fill(stretch)?;
            let (blocks, rest) = ((filled / block_bytes) as u64, filled % block_bytes);
            let bytes = self.done * block_bytes as u64 + filled as u64;
            if rest != 0 || count.is_some_and(|_| filled < stretch.len()) {
                let expected =
                    count.map_or("a multiple of that".to_owned(), |count| format!("{count} of them"));
                bail!(
                    "{} ends after {bytes} bytes, in blocks of {block_bytes}; expected {expected}",
                    input.name()
                );
            }
            ensure!(
                self.done + blocks <= room,
                "{} has more than {room} blocks, which is what the disk has from {}",
                input.name(),
                self.first
            );
            if blocks > 0 {
                let (first, stretch) = (self.first + self.done, &stretch[..filled]);
                // What fails in the middle may have been written.
                self.done += blocks;
                chunk.write(first, stretch).with_context(|| format!("writing from block {first}"))?;
                self.hashes.push(hash(stretch));
                progress.show("written", filled);
            }
            if filled < wanted * block_bytes || count == Some(self.done) {
                ensure!(
                    self.done > 0,
                    "{} has 0 bytes; expected 1 block of {block_bytes} or more",
                    input.name()
                );
                return chunk.flush().context("flushing");
            }
        }
    }

    /// Reads what was written again.
    fn verify(&mut self, chunk: &mut Chunk, progress: &mut Progress) -> anyhow::Result<()> {
        progress.restart(self.done * chunk.block_bytes() as u64);
        let per_stretch = (STRETCH_BYTES / chunk.block_bytes()) as u64;
        for (done, expected) in (0..self.done).step_by(per_stretch as usize).zip(&self.hashes) {
            let blocks = (self.done - done).min(per_stretch) as usize;
            let stretch = &mut self.stretch[..blocks * chunk.block_bytes()];
            let first = self.first + done;
            chunk.read(first, stretch).with_context(|| format!("reading from block {first}"))?;
            ensure!(hash(stretch) == *expected, "blocks from {first} are not what was written");
            progress.show("read again", stretch.len());
        }
        Ok(())
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// A bar on a terminal once it takes longer than a second, else a line now and then.
struct Progress {
    bar: ProgressBar,
    begun: Instant,
    bytes: Option<u64>,
    done: u64,
    said: Instant,
}

impl Progress {
    fn of(bytes: Option<u64>) -> anyhow::Result<Self> {
        let (bar, style) = match bytes {
            Some(bytes) => {
                (ProgressBar::new(bytes), "{bar:30} {bytes}/{total_bytes} {msg} {bytes_per_sec}, {eta} left")
            }
            None => (ProgressBar::no_length(), "{spinner} {bytes} {msg} {bytes_per_sec}"),
        };
        bar.set_style(ProgressStyle::with_template(style)?);
        bar.set_draw_target(ProgressDrawTarget::hidden());
        Ok(Self { bar, begun: Instant::now(), bytes, done: 0, said: Instant::now() })
    }

    fn restart(&mut self, bytes: u64) {
        (self.bytes, self.done) = (Some(bytes), 0);
        self.bar.set_length(bytes);
        self.bar.reset();
    }

    fn show(&mut self, what: &'static str, bytes: usize) {
        self.done += bytes as u64;
        if self.bar.is_hidden() && io::stderr().is_terminal() && self.begun.elapsed() >= BAR_AFTER {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        output::show_progress(&self.bar, what);
        self.bar.set_position(self.done);
        if !io::stderr().is_terminal() && self.said.elapsed() >= LINE_EVERY {
            self.said = Instant::now();
            let all = self.bytes.map_or(String::new(), |all| format!(" of {}", BinaryBytes(all)));
            output::say(&format!("{}{all} {what}", BinaryBytes(self.done)));
        }
    }
}
