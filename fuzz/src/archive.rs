//! Archives.

use host::{Host, Inspection, Tree};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// An archive as it is; and, if it starts as a tar, with the checksums of its members set right, since
/// no change to a header survives them otherwise.
pub fn archive(data: &[u8]) {
    open(data);
    if data.get(257..262) == Some(b"ustar") {
        open(&with_checksums(data));
    }
}

fn open(data: &[u8]) {
    let Ok(file) = memory_file(data) else { return };
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    if let Ok(tree) = Tree::open(&path) {
        let _ = Inspection::of(Host::read(&tree));
    }
}

/// A file that has a path, and that is on no disk.
fn memory_file(data: &[u8]) -> std::io::Result<File> {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::memfd_create("archive", flags)?);
    file.write_all(data)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file)
}

/// Corrects the checksum of every header that the members' sizes lead to.
fn with_checksums(data: &[u8]) -> Vec<u8> {
    const BLOCK: usize = 512;
    let mut fixed = data.to_vec();
    let mut at = 0_usize;
    while let Some(header) = fixed.get_mut(at..at.saturating_add(BLOCK)) {
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let size = header[124..136].iter().take_while(|byte| (b'0'..=b'7').contains(byte));
        let size = size.fold(0_usize, |size, digit| size.saturating_mul(8) + usize::from(digit - b'0'));
        at = at.saturating_add(BLOCK).saturating_add(size.div_ceil(BLOCK).saturating_mul(BLOCK));
    }
    fixed
}
