//! A file or block device that this process may overwrite: no other program uses it.

use anyhow::{Context, ensure};
use nvme::takeover::{Claim, DiskNames, Identity, Root};
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// A regular file is read and written in blocks of 4 KiB.
const FILE_BLOCK_SHIFT: u8 = 12;

/// A file or block device, [claimed](Claim) until the file is closed.
#[derive(Debug)]
pub(crate) struct ClaimedFile {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(super) identity: Identity,
    pub(super) names: DiskNames,
    pub(super) block_shift: u8,
    bytes: u64,
}

impl ClaimedFile {
    /// Claims a file or block device of at least one block.
    pub(crate) fn of(root: &Root, path: &Path) -> anyhow::Result<Self> {
        let unreadable = || format!("can't read {}", path.display());
        let block_shift = block_shift(path).with_context(unreadable)?;
        let claim = Claim::of(root, path)?;
        let (identity, names) = (claim.identity(), claim.disk_names(root)?);
        let (path, mut file) = claim.into_parts();
        let bytes = file.seek(SeekFrom::End(0)).with_context(unreadable)?;
        let claimed = Self { file, path, identity, names, block_shift, bytes };
        expect_blocks(claimed.blocks(), claimed.block_bytes(), &claimed.path)?;
        Ok(claimed)
    }

    /// Size of a block.
    pub(super) fn block_bytes(&self) -> u64 {
        1 << self.block_shift
    }

    /// Its whole blocks.
    pub(super) fn blocks(&self) -> u64 {
        self.bytes >> self.block_shift
    }
}

/// Log2 of the block size: a block device's logical block size, or 4 KiB for a regular file.
pub(super) fn block_shift(path: &Path) -> io::Result<u8> {
    if !path.metadata()?.file_type().is_block_device() {
        return Ok(FILE_BLOCK_SHIFT);
    }
    let bytes = rustix::fs::ioctl_blksszget(File::open(path)?)?;
    Ok(bytes.trailing_zeros() as u8)
}

/// Fails if a file has not even one block.
pub(super) fn expect_blocks(blocks: u64, block_bytes: u64, path: &Path) -> anyhow::Result<()> {
    ensure!(blocks > 0, "{} is shorter than one block of {block_bytes} bytes", path.display());
    Ok(())
}
