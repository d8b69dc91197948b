//! `iotoll blk read`: blocks to a file or to standard output.

use super::target::Target;
use crate::cli::BlkRead;
use crate::output::{self, Outcome};
use crate::whole_file::WholeFile;
use anyhow::{bail, ensure};
use nvme::chunk::Chunk;
use std::io::Write;
use std::path::Path;

/// Read at a time, 32 requests' worth.
const STRETCH_BYTES: usize = 4 << 20;

pub(super) fn run(args: &BlkRead) -> anyhow::Result<Outcome> {
    if args.target.is_file()
        && args.output.as_deref().is_some_and(|output| is_same(output, Path::new(&args.target.target)))
    {
        bail!("{} is what is read from", args.target.target);
    }
    // Whether it can be written is better known before anything is taken.
    let mut file = args.output.as_deref().map(WholeFile::create).transpose()?;
    if file.is_none() {
        drop(output::bytes()?);
    }
    let mut target = Target::open(&args.target)?;
    let read = match &mut file {
        Some(file) => read(args, &mut target, file),
        None => output::bytes().and_then(|mut stdout| read(args, &mut target, &mut stdout)),
    };
    let closed = target.close();
    // Why it failed says more than what follows from that; that nobody reads any more says less.
    if read.as_ref().err().is_none_or(output::is_broken_pipe) {
        closed?;
    }
    let blocks = read?;
    file.map_or(Ok(()), WholeFile::keep)?;
    output::say(&format!("{blocks} blocks read"));
    Ok(Outcome::Fine)
}

fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(one).is_some_and(|path| real(other) == Some(path))
}

fn read(args: &BlkRead, target: &mut Target, to: &mut impl Write) -> anyhow::Result<u64> {
    let chunk = &mut target.chunk;
    let (first, all) = (args.first, chunk.blocks());
    ensure!(first < all, "block {first}; the disk has {all}");
    let blocks = args.blocks.unwrap_or(all - first);
    ensure!(blocks <= all - first, "{blocks} blocks from {first}; the disk has {all}");
    copy(chunk, first, blocks, to)?;
    Ok(blocks)
}

fn copy(chunk: &mut Chunk, first: u64, blocks: u64, to: &mut impl Write) -> anyhow::Result<()> {
    let block_bytes = chunk.block_bytes();
    let per_stretch = STRETCH_BYTES / block_bytes;
    let mut stretch = vec![0; STRETCH_BYTES];
    for done in (0..blocks).step_by(per_stretch) {
        let bytes = (blocks - done).min(per_stretch as u64) as usize * block_bytes;
        chunk.read(first.saturating_add(done), &mut stretch[..bytes])?;
        to.write_all(&stretch[..bytes])?;
    }
    Ok(to.flush()?)
}
