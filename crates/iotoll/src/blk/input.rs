//! The input of `blk write`: a file, a block device or a pipe, read once and in pieces.

use anyhow::{Context, bail};
use nvme::takeover::Identity;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// An open input.
pub(super) struct Input {
    file: File,
    name: String,
    /// Bytes from the current position to the end; `None` for a pipe.
    bytes: Option<u64>,
    identity: Identity,
}

impl Input {
    /// Opens a file, or standard input for a hyphen.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let is_stdin = path == Path::new("-");
        let name = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
        let opened = if is_stdin {
            io::stdin().as_fd().try_clone_to_owned().map(File::from)
        } else {
            File::open(path)
        };
        let unreadable = || format!("can't read {name}");
        let mut file = opened.with_context(unreadable)?;
        let kind = file.metadata().with_context(unreadable)?.file_type();
        if kind.is_dir() {
            bail!("can't read {name}: it is a folder; expected a file");
        }
        let bytes = match kind.is_file() || kind.is_block_device() {
            true => Some(bytes_left(&mut file).with_context(unreadable)?),
            false => None,
        };
        let identity = Identity::of_file(&file).with_context(unreadable)?;
        Ok(Self { file, name, bytes, identity })
    }

    /// The path, or "standard input", for messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Bytes that are left to read; `None` for a pipe.
    pub(super) fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    /// Device and inode, to detect that the input is the disk to be written.
    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    /// Fills a buffer, or as much of it as the input still has. Returns the number of bytes read.
    pub(super) fn fill(&mut self, into: &mut [u8]) -> anyhow::Result<usize> {
        let mut filled = 0;
        while filled < into.len() {
            match self.file.read(&mut into[filled..]) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).with_context(|| format!("can't read {}", self.name)),
            }
        }
        Ok(filled)
    }
}

/// Bytes from the current position to the end. Standard input may be a file that was read in part before.
fn bytes_left(file: &mut File) -> io::Result<u64> {
    let here = file.stream_position()?;
    let end = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(here))?;
    Ok(end.saturating_sub(here))
}
