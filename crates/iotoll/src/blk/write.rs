//! `iotoll blk write`: a file's bytes to blocks, flushed and read again.

use super::target::Target;
use crate::cli::BlkWrite;
use crate::output::{self, Outcome};
use anyhow::{Context, ensure};

/// Written at a time.
const STRETCH_BYTES: usize = 4 << 20;

pub(super) fn run(args: &BlkWrite) -> anyhow::Result<Outcome> {
    let bytes = std::fs::read(&args.input).with_context(|| format!("can't read {}", args.input.display()))?;
    let mut target = Target::open(&args.target)?;
    let written = write(args, &mut target, &bytes);
    let closed = target.close();
    // Why it failed says more than what follows from that.
    let blocks = written?;
    closed?;
    output::say(&format!("{blocks} blocks written, flushed, and read again as they were written"));
    Ok(Outcome::Fine)
}

fn write(args: &BlkWrite, target: &mut Target, bytes: &[u8]) -> anyhow::Result<u64> {
    let chunk = &mut target.chunk;
    let block_bytes = chunk.block_bytes();
    ensure!(
        !bytes.is_empty() && bytes.len().is_multiple_of(block_bytes),
        "{} has {} bytes; expected a multiple of {block_bytes}, the disk's blocks",
        args.input.display(),
        bytes.len()
    );
    let blocks = (bytes.len() / block_bytes) as u64;
    // Before a part of it is written.
    ensure!(
        args.first.checked_add(blocks).is_some_and(|end| end <= chunk.blocks()),
        "{blocks} blocks from {}; the disk has {}",
        args.first,
        chunk.blocks()
    );
    let firsts = (args.first..).step_by(STRETCH_BYTES / block_bytes);
    for (first, stretch) in firsts.clone().zip(bytes.chunks(STRETCH_BYTES)) {
        chunk.write(first, stretch).with_context(|| format!("writing from block {first}"))?;
    }
    chunk.flush().context("flushing")?;
    let mut read = vec![0; STRETCH_BYTES];
    for (first, stretch) in firsts.zip(bytes.chunks(STRETCH_BYTES)) {
        let read = &mut read[..stretch.len()];
        chunk.read(first, read).with_context(|| format!("reading from block {first}"))?;
        ensure!(read == stretch, "blocks from {first} are not what was written");
    }
    Ok(blocks)
}
