//! `iotoll blk read`: copies blocks of a disk to a file or to standard output.

use super::target::Target;
use crate::cli::BlkRead;
use crate::output::{self, Outcome};
use crate::whole_file::{WholeFile, is_same_file};
use anyhow::{bail, ensure};
use nvme::chunk::Chunk;
use std::io::Write;
use std::path::Path;

/// Bytes read at a time.
const PIECE_BYTES: usize = 4 << 20;

/// Copies blocks of a disk to the output.
pub(super) fn run(args: &BlkRead) -> anyhow::Result<Outcome> {
    if args.target.disk.is_file()
        && args
            .output
            .as_deref()
            .is_some_and(|output| is_same_file(output, Path::new(&args.target.disk.target)))
    {
        bail!("{}: the output is also the input; expected another output", args.target.disk.target);
    }
    // Fails before the adapter is unbound if the output can't be written.
    let mut file = args.output.as_deref().map(WholeFile::create).transpose()?;
    if file.is_none() {
        drop(output::stdout_for_binary()?);
    }
    let mut target = Target::open(&args.target)?;
    let read = match &mut file {
        Some(file) => read_blocks(args, &mut target, file),
        None => {
            output::stdout_for_binary().and_then(|mut stdout| read_blocks(args, &mut target, &mut stdout))
        }
    };
    let closed = target.close();
    // A failed read is reported instead of a failed close; but a closed output pipe is no failure, so then the close counts.
    if read.as_ref().err().is_none_or(output::is_broken_pipe) {
        closed?;
    }
    let blocks = read?;
    file.map_or(Ok(()), WholeFile::save)?;
    output::print_note(&format!("{blocks} blocks read"));
    args.output.iter().for_each(|path| output::print_written(path));
    Ok(Outcome::Fine)
}

/// Copies the blocks that were asked for and returns their number.
fn read_blocks(args: &BlkRead, target: &mut Target, to: &mut impl Write) -> anyhow::Result<u64> {
    let chunk = &mut target.chunk;
    let (first, all) = (args.first, chunk.blocks());
    ensure!(first < all, "--first {first} is beyond the end; the disk has {all} blocks");
    let blocks = args.blocks.unwrap_or(all - first);
    ensure!(
        blocks <= all - first,
        "{blocks} blocks from block {first} exceed the disk, which has {all} blocks"
    );
    copy(chunk, first, blocks, to)?;
    Ok(blocks)
}

/// Copies `blocks` blocks from block `first` on.
fn copy(chunk: &mut Chunk, first: u64, blocks: u64, to: &mut impl Write) -> anyhow::Result<()> {
    let block_bytes = chunk.block_bytes();
    let per_piece = PIECE_BYTES / block_bytes;
    let mut piece = vec![0; PIECE_BYTES];
    for done in (0..blocks).step_by(per_piece) {
        let bytes = (blocks - done).min(per_piece as u64) as usize * block_bytes;
        chunk.read(first.saturating_add(done), &mut piece[..bytes])?;
        to.write_all(&piece[..bytes])?;
    }
    Ok(to.flush()?)
}
