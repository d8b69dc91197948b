//! `iotoll blk write`: writes an input to a disk, flushes it, reads it back and compares.
//!
//! ```text
//!   Input --4 MiB--> Chunk::write ... Chunk::flush --> Chunk::read --> compare
//!     |                                                                 ^
//!     +-- hash of each piece, 8 bytes ----------------------------------+
//! ```
//!
//! A pipe can't be read a second time, so a hash of each piece is kept in memory: 2 MiB per TiB written.

use super::data_loss::{BlockRange, blocks_to_write};
use super::input::Input;
use super::target::Target;
use crate::cli::BlkWrite;
use crate::output::{self, Outcome};
use anyhow::{Context, bail, ensure};
use indicatif::{BinaryBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use nvme::chunk::Chunk;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// Bytes read, written and compared at a time.
const PIECE_BYTES: usize = 4 << 20;
/// A shorter write shows no progress bar.
const BAR_AFTER: Duration = Duration::from_secs(1);
/// Time between two lines of progress if standard error is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Writes the input to a disk and verifies it.
pub(super) fn run(args: &BlkWrite) -> anyhow::Result<Outcome> {
    let mut input = Input::open(&args.input)?;
    let mut target = Target::open_to_write(args, &input)?;
    let written = write_and_verify(args, &mut target.chunk, &mut input);
    let closed = target.close();
    // If both failed, the write's error is reported: closing may have failed because of it.
    let blocks = written?;
    closed?;
    output::print_note(&format!("{blocks} blocks written, flushed, and read again as they were written"));
    Ok(Outcome::Fine)
}

/// Writes the input and compares it with what the disk then has. Returns the number of blocks written.
fn write_and_verify(args: &BlkWrite, chunk: &mut Chunk, input: &mut Input) -> anyhow::Result<u64> {
    let BlockRange { first, count } = blocks_to_write(args, input, chunk.block_bytes() as u64)?;
    let mut copy = Copy { first, done: 0, hashes: Vec::new(), piece: vec![0; PIECE_BYTES] };
    let mut progress = Progress::new(count.map(|count| count.saturating_mul(chunk.block_bytes() as u64)))?;
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

/// A write in progress.
struct Copy {
    /// The first block to write.
    first: u64,
    /// Number of blocks written so far.
    done: u64,
    /// Hash of each piece written.
    hashes: Vec<u64>,
    piece: Vec<u8>,
}

impl Copy {
    /// Writes `count` blocks of the input, or all of it, and flushes the disk.
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
            let per_piece = (PIECE_BYTES / block_bytes) as u64;
            let wanted = count.map_or(per_piece, |count| (count - self.done).min(per_piece)) as usize;
            let piece = &mut self.piece[..wanted * block_bytes];
            let filled = input.fill(piece)?;
            let (blocks, rest) = ((filled / block_bytes) as u64, filled % block_bytes);
            let bytes = self.done * block_bytes as u64 + filled as u64;
            if rest != 0 || count.is_some_and(|_| filled < piece.len()) {
                let expected =
                    count.map_or("a multiple of that".to_owned(), |count| format!("{count} of them"));
                bail!(
                    "{} ends after {bytes} bytes, in blocks of {block_bytes}; expected {expected}",
                    input.name()
                );
            }
            ensure!(
                self.done + blocks <= room,
                "{} has more than {room} blocks; expected at most that many, from block {} to the disk's end",
                input.name(),
                self.first
            );
            if blocks > 0 {
                let (first, piece) = (self.first + self.done, &piece[..filled]);
                // Counted before the write: a failed one may have changed blocks.
                self.done += blocks;
                chunk.write(first, piece).with_context(|| format!("writing from block {first}"))?;
                self.hashes.push(hash(piece));
                progress.advance("written", filled);
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

    /// Reads the written blocks back and compares their hashes.
    fn verify(&mut self, chunk: &mut Chunk, progress: &mut Progress) -> anyhow::Result<()> {
        progress.restart(self.done * chunk.block_bytes() as u64);
        let per_piece = (PIECE_BYTES / chunk.block_bytes()) as u64;
        for (done, expected) in (0..self.done).step_by(per_piece as usize).zip(&self.hashes) {
            let blocks = (self.done - done).min(per_piece) as usize;
            let piece = &mut self.piece[..blocks * chunk.block_bytes()];
            let first = self.first + done;
            chunk.read(first, piece).with_context(|| format!("reading from block {first}"))?;
            ensure!(hash(piece) == *expected, "blocks from {first} differ from what was written");
            progress.advance("read again", piece.len());
        }
        Ok(())
    }
}

/// A hash to compare pieces within this run; it is not stored.
fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Progress on standard error: on a terminal a bar, after [`BAR_AFTER`]; elsewhere a line every [`LINE_INTERVAL`].
struct Progress {
    bar: ProgressBar,
    start: Instant,
    bytes_total: Option<u64>,
    bytes_done: u64,
    last_line: Instant,
}

impl Progress {
    /// A hidden bar; `bytes` is the total, if it is known.
    fn new(bytes: Option<u64>) -> anyhow::Result<Self> {
        let (bar, style) = match bytes {
            Some(bytes) => {
                (ProgressBar::new(bytes), "{bar:30} {bytes}/{total_bytes} {msg} {bytes_per_sec}, {eta} left")
            }
            None => (ProgressBar::no_length(), "{spinner} {bytes} {msg} {bytes_per_sec}"),
        };
        bar.set_style(ProgressStyle::with_template(style)?);
        bar.set_draw_target(ProgressDrawTarget::hidden());
        Ok(Self { bar, start: Instant::now(), bytes_total: bytes, bytes_done: 0, last_line: Instant::now() })
    }

    /// Starts again from zero, for the second pass over `bytes` bytes.
    fn restart(&mut self, bytes: u64) {
        (self.bytes_total, self.bytes_done) = (Some(bytes), 0);
        self.bar.set_length(bytes);
        self.bar.reset();
    }

    /// Adds `bytes` bytes and shows the progress. `done_word` says what was done with them: "written" or "read again".
    fn advance(&mut self, done_word: &'static str, bytes: usize) {
        self.bytes_done += bytes as u64;
        if self.bar.is_hidden() && io::stderr().is_terminal() && self.start.elapsed() >= BAR_AFTER {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        output::set_bar_message(&self.bar, done_word);
        self.bar.set_position(self.bytes_done);
        if !io::stderr().is_terminal() && self.last_line.elapsed() >= LINE_INTERVAL {
            self.last_line = Instant::now();
            let all = self.bytes_total.map_or(String::new(), |all| format!(" of {}", BinaryBytes(all)));
            output::print_note(&format!("{}{all} {done_word}", BinaryBytes(self.bytes_done)));
        }
    }
}
