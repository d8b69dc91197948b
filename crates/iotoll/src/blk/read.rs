//! `iotoll blk read`: blocks to a file or to standard output.

use super::target::Target;
use crate::cli::BlkRead;
use crate::output::{self, Outcome};
use anyhow::{Context, ensure};
use nvme::chunk::Chunk;
use std::io::{self, Write};
use std::path::Path;

/// Read at a time, 32 requests' worth.
const STRETCH_BYTES: usize = 4 << 20;

pub(super) fn run(args: &BlkRead) -> anyhow::Result<Outcome> {
    // Whether the file can be made is better known before anything is taken.
    args.output.as_deref().map_or(Ok(()), output::can_make)?;
    let mut target = Target::open(&args.target)?;
    let read = read(args, &mut target);
    let closed = target.close();
    // Why it failed says more than what follows from that.
    let blocks = read?;
    closed?;
    output::say(&format!("{blocks} blocks read"));
    Ok(Outcome::Fine)
}

fn read(args: &BlkRead, target: &mut Target) -> anyhow::Result<u64> {
    let chunk = &mut target.chunk;
    ensure!(args.first < chunk.blocks(), "block {}; the disk has {}", args.first, chunk.blocks());
    let blocks = args.blocks.unwrap_or(chunk.blocks() - args.first);
    match &args.output {
        Some(path) => {
            // A neighbour, which takes the file's place when it is whole.
            let folder =
                path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let mut neighbour = tempfile::NamedTempFile::new_in(folder)
                .with_context(|| format!("can't write {}", path.display()))?;
            copy(chunk, args.first, blocks, &mut neighbour)?;
            neighbour.persist(path).with_context(|| format!("can't write {}", path.display()))?;
        }
        None => copy(chunk, args.first, blocks, &mut io::stdout().lock())?,
    }
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
