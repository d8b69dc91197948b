//! Chunks for tests, through the C interface.

#![allow(unsafe_code, dead_code, reason = "C functions; each test file uses a part of this")]

pub(crate) mod process;

use block::c_types::{ArwStatus, CBLK_ARESULT_BLOCKING, ChunkStats};
use block::interface::chunk::{
    cblk_aread, cblk_aresult, cblk_awrite, cblk_close, cblk_get_stats, cblk_open, cblk_read, cblk_set_size,
    cblk_unmap, cblk_write,
};
use block::interface::own::iotoll_block_error;
use std::ffi::{CString, c_int};

pub(crate) const BLOCK: usize = 4096;

/// Error number of a failure.
pub(crate) type Errno = c_int;

/// Calls a function, which must leave `errno` alone if it succeeds.
fn checked(call: impl FnOnce() -> c_int) -> Result<c_int, Errno> {
    const BEFORE: c_int = 77;
    // SAFETY: the thread's own `errno`.
    let errno = unsafe { &mut *libc::__errno_location() };
    *errno = BEFORE;
    match call() {
        -1 => Err(*errno),
        other => {
            assert_eq!(*errno, BEFORE);
            Ok(other)
        }
    }
}

/// An open chunk, closed when it is dropped.
#[derive(Debug)]
pub(crate) struct Chunk(pub(crate) c_int);

impl Drop for Chunk {
    fn drop(&mut self) {
        cblk_close(self.0, 0);
    }
}

impl Chunk {
    pub(crate) fn open(path: &str, commands: c_int, mode: c_int, flags: c_int) -> Result<Self, Errno> {
        let path = CString::new(path).unwrap();
        // SAFETY: the path ends with a zero byte.
        checked(|| unsafe { cblk_open(path.as_ptr(), commands, mode, 0, flags) }).map(Self)
    }

    pub(crate) fn close(self) -> Result<c_int, Errno> {
        let closed = checked(|| cblk_close(self.0, 0));
        if closed.is_ok() {
            std::mem::forget(self);
        }
        closed
    }

    pub(crate) fn set_size(&self, blocks: usize) -> Result<c_int, Errno> {
        checked(|| cblk_set_size(self.0, blocks, 0))
    }

    pub(crate) fn read(&self, first: i64, blocks: usize) -> Result<Vec<u8>, Errno> {
        let mut data = vec![0xee; blocks * BLOCK];
        // SAFETY: the buffer has as many bytes.
        let read = checked(|| unsafe { cblk_read(self.0, data.as_mut_ptr().cast(), first, blocks, 0) })?;
        assert_eq!(read as usize, blocks);
        Ok(data)
    }

    pub(crate) fn write(&self, first: i64, data: &[u8]) -> Result<c_int, Errno> {
        // SAFETY: the buffer has as many bytes, which are only read.
        checked(|| unsafe {
            cblk_write(self.0, data.as_ptr().cast_mut().cast(), first, data.len() / BLOCK, 0)
        })
    }

    pub(crate) fn unmap(&self, first: i64, blocks: usize) -> Result<c_int, Errno> {
        let mut unused = [0_u8; BLOCK];
        // SAFETY: the buffer is not used.
        checked(|| unsafe { cblk_unmap(self.0, unused.as_mut_ptr().cast(), first, blocks, 0) })
    }

    /// Begins to read into memory that lives until the result is fetched.
    pub(crate) fn aread(
        &self,
        data: &mut [u8],
        first: i64,
        mut tag: c_int,
        flags: c_int,
    ) -> Result<c_int, Errno> {
        let (into, blocks) = (data.as_mut_ptr().cast(), data.len() / BLOCK);
        // SAFETY: the tests fetch results before they drop their data.
        checked(|| unsafe {
            cblk_aread(self.0, into, first, blocks, &raw mut tag, std::ptr::null_mut(), flags)
        })?;
        Ok(tag)
    }

    pub(crate) fn awrite(
        &self,
        data: &[u8],
        first: i64,
        mut tag: c_int,
        status: *mut ArwStatus,
        flags: c_int,
    ) -> Result<c_int, Errno> {
        let (from, blocks) = (data.as_ptr().cast_mut().cast(), data.len() / BLOCK);
        // SAFETY: as for `aread`; the data is only read.
        checked(|| unsafe { cblk_awrite(self.0, from, first, blocks, &raw mut tag, status, flags) })?;
        Ok(tag)
    }

    /// Fetches a result: the tag and the number of blocks.
    pub(crate) fn aresult(&self, mut tag: c_int, flags: c_int) -> Result<(c_int, c_int), Errno> {
        let mut status = 0;
        // SAFETY: both can be written.
        let blocks = checked(|| unsafe { cblk_aresult(self.0, &raw mut tag, &raw mut status, flags) })?;
        Ok((tag, blocks))
    }

    pub(crate) fn wait(&self, tag: c_int) -> Result<c_int, Errno> {
        self.aresult(tag, CBLK_ARESULT_BLOCKING).map(|(_, blocks)| blocks)
    }

    pub(crate) fn stats(&self) -> ChunkStats {
        let mut stats = ChunkStats::default();
        // SAFETY: it can be written.
        checked(|| unsafe { cblk_get_stats(self.0, &raw mut stats, 0) }).unwrap();
        stats
    }
}

/// A file, and the path of an emulated controller, with as many blocks.
pub(crate) struct Disks {
    _file: tempfile::NamedTempFile,
    pub(crate) paths: [String; 2],
}

impl Disks {
    /// Each test has a number of blocks of its own: emulated controllers of one size are the same disk.
    pub(crate) fn new(blocks: u64) -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(blocks * BLOCK as u64).unwrap();
        let path = file.path().to_str().unwrap().to_owned();
        Self { _file: file, paths: [path, format!("emulated:{blocks}")] }
    }
}

/// A block whose bytes tell its number.
pub(crate) fn pattern(number: u64) -> Vec<u8> {
    (0..BLOCK as u64 / 8)
        .flat_map(|word| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ word).to_le_bytes())
        .collect()
}

/// Why this thread's last call failed.
pub(crate) fn error_text() -> String {
    let mut text = [0; 256];
    // SAFETY: the memory has as many bytes.
    let length = unsafe { iotoll_block_error(text.as_mut_ptr().cast(), text.len()) };
    String::from_utf8_lossy(&text[..length.min(255)]).into_owned()
}
