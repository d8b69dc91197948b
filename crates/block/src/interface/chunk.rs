//! `cblk_*`: chunks.

use super::{Transfer, group, open, path_of, which};
use crate::c_types::{
    ArwStatus, CBLK_ARESULT_BLOCKING, CBLK_ARESULT_NEXT_TAG, CBLK_ARESULT_NO_HARVEST, CBLK_GROUP_ID,
    CBLK_GROUP_MASK, CBLK_OPN_GROUP, ChunkAttrs, ChunkStats,
};
use crate::errno::returned;
use crate::open_chunk::OpenChunk;
use crate::queue::Kind;
use crate::table;
use rustix::io::Errno;
use std::ffi::{c_char, c_int, c_void};

/// Nothing to do: the library initialises itself.
#[unsafe(no_mangle)]
pub extern "C" fn cblk_init(_argument: *mut c_void, _flags: u64) -> c_int {
    0
}

/// Nothing to do: chunks are closed one by one.
#[unsafe(no_mangle)]
pub extern "C" fn cblk_term(_argument: *mut c_void, _flags: u64) -> c_int {
    0
}

/// Opens a chunk.
///
/// # Safety
/// `path` ends with a zero byte, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cblk_open(
    path: *const c_char,
    max_num_requests: c_int,
    mode: c_int,
    ext: u64,
    flags: c_int,
) -> c_int {
    if flags & CBLK_OPN_GROUP != 0 {
        let flags = flags & !CBLK_OPN_GROUP;
        // SAFETY: the caller's promise.
        return unsafe { group::cblk_cg_open(path, max_num_requests, mode, ext as c_int, ext, flags) };
    }
    // SAFETY: the caller's promise.
    let path = unsafe { path_of(path) };
    returned(|| path.and_then(|path| open(&path, max_num_requests, mode, flags)))
}

/// Closes a chunk.
#[unsafe(no_mangle)]
pub extern "C" fn cblk_close(chunk_id: c_int, flags: c_int) -> c_int {
    if flags & CBLK_GROUP_MASK != 0 {
        return group::cblk_cg_close(chunk_id, flags & !CBLK_GROUP_ID);
    }
    returned(|| table::close(chunk_id).map(|()| 0))
}

/// The size of the disk that a chunk is on.
///
/// # Safety
/// `nblocks` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cblk_get_lun_size(chunk_id: c_int, nblocks: *mut usize, flags: c_int) -> c_int {
    if flags & CBLK_GROUP_MASK != 0 {
        // SAFETY: the caller's promise.
        return unsafe { group::cblk_cg_get_lun_size(chunk_id, nblocks, flags & !CBLK_GROUP_ID) };
    }
    // SAFETY: the caller's promise.
    returned(|| unsafe { size(chunk_id, nblocks, OpenChunk::disk_blocks) })
}

/// A chunk's size.
///
/// # Safety
/// `nblocks` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cblk_get_size(chunk_id: c_int, nblocks: *mut usize, flags: c_int) -> c_int {
    if flags & CBLK_GROUP_MASK != 0 {
        // SAFETY: the caller's promise.
        return unsafe { group::cblk_cg_get_size(chunk_id, nblocks, flags & !CBLK_GROUP_ID) };
    }
    // SAFETY: the caller's promise.
    returned(|| unsafe { size(chunk_id, nblocks, OpenChunk::blocks) })
}

/// # Safety
/// `into` is null or can be written.
unsafe fn size(chunk_id: c_int, into: *mut usize, blocks: fn(&OpenChunk) -> u64) -> Result<c_int, Errno> {
    if into.is_null() {
        return Err(Errno::INVAL);
    }
    let blocks = table::with(chunk_id, |chunk| Ok(blocks(chunk)))?;
    // SAFETY: the caller's promise.
    unsafe { into.write(blocks as usize) };
    Ok(0)
}

/// Changes a virtual LUN's size.
#[unsafe(no_mangle)]
pub extern "C" fn cblk_set_size(chunk_id: c_int, nblocks: usize, flags: c_int) -> c_int {
    if flags & CBLK_GROUP_MASK != 0 {
        return group::cblk_cg_set_size(chunk_id, nblocks, flags & !CBLK_GROUP_ID);
    }
    returned(|| table::with(chunk_id, |chunk| chunk.set_size(nblocks as u64)).map(|()| 0))
}

/// A chunk's statistics.
///
/// # Safety
/// `stats` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cblk_get_stats(chunk_id: c_int, stats: *mut ChunkStats, flags: c_int) -> c_int {
    if flags & CBLK_GROUP_MASK != 0 {
        // SAFETY: the caller's promise.
        return unsafe { group::cblk_cg_get_stats(chunk_id, stats, flags & !CBLK_GROUP_ID) };
    }
    let read = || {
        let all = table::with(chunk_id, |chunk| Ok(chunk.stats()))?;
        if stats.is_null() {
            return Err(Errno::INVAL);
        }
        // SAFETY: the caller's promise.
        unsafe { stats.write(all) };
        Ok(0)
    };
    returned(read)
}

/// A chunk's attributes. The flags that it has are added to those that `attr` has.
///
/// # Safety
/// `attr` is null or can be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cblk_get_attrs(chunk_id: c_int, attr: *mut ChunkAttrs, flags: c_int) -> c_int {
    if flags & CBLK_GROUP_MASK != 0 {
        // SAFETY: the caller's promise.
        return unsafe { group::cblk_cg_get_attrs(chunk_id, attr, flags & !CBLK_GROUP_ID) };
    }
    let read = || {
        let (stats, flags) = table::with(chunk_id, |chunk| Ok((chunk.stats(), chunk.attributes())))?;
        // SAFETY: the caller's promise.
        let attr = unsafe { attr.as_mut() }.ok_or(Errno::INVAL)?;
        *attr = ChunkAttrs {
            flags1: flags,
            flags2: 0,
            block_size: stats.block_size,
            num_paths: stats.num_paths,
            max_transfer_size: stats.max_transfer_size,
            data: [0; 64],
        };
        Ok(0)
    };
    returned(read)
}

/// # Safety
/// As for `Transfer::blocking`.
unsafe fn execute(chunk_id: c_int, transfer: Transfer) -> c_int {
    // SAFETY: the caller's promise.
    let issue = unsafe { transfer.blocking() };
    let execute = |chunk: &OpenChunk| issue.and_then(|issue| chunk.execute(&issue));
    returned(|| table::with(chunk_id, execute).map(|blocks| blocks as c_int))
}

/// Reads, and waits for the data.
///
/// # Safety
/// `buf` is null or has 4096 bytes for each block, which nothing else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cblk_read(
    chunk_id: c_int,
    buf: *mut c_void,
    lba: i64,
    nblocks: usize,
    flags: c_int,
) -> c_int {
    if flags & CBLK_GROUP_MASK != 0 {
        // SAFETY: the caller's promise.
        return unsafe { group::cblk_cg_read(chunk_id, buf, lba, nblocks, flags & !CBLK_GROUP_ID) };
    }
    // SAFETY: the caller's promise.
    unsafe { execute(chunk_id, Transfer { kind: Kind::Read, buffer: buf, first: lba, blocks: nblocks }) }
}

/// Writes, and waits until the disk has the data.
///
/// # Safety
/// As for [`cblk_read`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cblk_write(
    chunk_id: c_int,
    buf: *mut c_void,
    lba: i64,
    nblocks: usize,
    flags: c_int,
) -> c_int {
    if flags & CBLK_GROUP_MASK != 0 {
        // SAFETY: the caller's promise.
        return unsafe { group::cblk_cg_write(chunk_id, buf, lba, nblocks, flags & !CBLK_GROUP_ID) };
    }
    // SAFETY: the caller's promise.
    unsafe { execute(chunk_id, Transfer { kind: Kind::Write, buffer: buf, first: lba, blocks: nblocks }) }
}

/// Zeroes blocks, and frees their space where the disk can.
///
/// # Safety
/// None: the buffer is not used, but must not be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cblk_unmap(
    chunk_id: c_int,
    buf: *mut c_void,
    lba: i64,
    nblocks: usize,
    flags: c_int,
) -> c_int {
    if flags & CBLK_GROUP_MASK != 0 {
        // SAFETY: the caller's promise.
        return unsafe { group::cblk_cg_unmap(chunk_id, buf, lba, nblocks, flags & !CBLK_GROUP_ID) };
    }
    // SAFETY: an unmap reads and writes nothing through its buffer.
    unsafe { execute(chunk_id, Transfer { kind: Kind::Unmap, buffer: buf, first: lba, blocks: nblocks }) }
}

/// # Safety
/// As for `Transfer::asynchronous`, and `tag` is null or can be read and written.
pub(super) unsafe fn begin(
    chunk_id: c_int,
    transfer: Transfer,
    tag: *mut c_int,
    status: *mut ArwStatus,
    flags: c_int,
) -> c_int {
    let begin = || {
        if flags & CBLK_GROUP_MASK != 0 {
            return Err(Errno::INVAL);
        }
        // SAFETY: the caller's promise.
        let tag = unsafe { tag.as_mut() };
        let user_tag = tag.as_ref().map_or(0, |tag| **tag);
        if tag.is_none() && flags & crate::c_types::CBLK_ARW_USER_STATUS_FLAG == 0 {
            return Err(Errno::INVAL);
        }
        // SAFETY: the caller's promise.
        let issue = unsafe { transfer.asynchronous(user_tag, status, flags, true) }?;
        let begun = table::with(chunk_id, |chunk| chunk.begin(&issue))?;
        if let Some(tag) = tag.filter(|_| issue.command.user_tag.is_none()) {
            *tag = begun as c_int;
        }
        Ok(0)
    };
    returned(begin)
}

/// Begins to read.
///
/// # Safety
/// `buf` has 4096 bytes for each block, which nothing else uses until the command has ended. `tag` can be read and written. `status` is null,
/// or lives until the command has ended and is only read until then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cblk_aread(
    chunk_id: c_int,
    buf: *mut c_void,
    lba: i64,
    nblocks: usize,
    tag: *mut c_int,
    status: *mut ArwStatus,
    flags: c_int,
) -> c_int {
    let transfer = Transfer { kind: Kind::Read, buffer: buf, first: lba, blocks: nblocks };
    // SAFETY: the caller's promise.
    unsafe { begin(chunk_id, transfer, tag, status, flags) }
}

/// Begins to write.
///
/// # Safety
/// As for [`cblk_aread`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cblk_awrite(
    chunk_id: c_int,
    buf: *mut c_void,
    lba: i64,
    nblocks: usize,
    tag: *mut c_int,
    status: *mut ArwStatus,
    flags: c_int,
) -> c_int {
    let transfer = Transfer { kind: Kind::Write, buffer: buf, first: lba, blocks: nblocks };
    // SAFETY: the caller's promise.
    unsafe { begin(chunk_id, transfer, tag, status, flags) }
}

/// Begins to zero blocks.
///
/// # Safety
/// As for [`cblk_aread`]; the buffer is not used, but must not be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cblk_aunmap(
    chunk_id: c_int,
    buf: *mut c_void,
    lba: i64,
    nblocks: usize,
    tag: *mut c_int,
    status: *mut ArwStatus,
    flags: c_int,
) -> c_int {
    let transfer = Transfer { kind: Kind::Unmap, buffer: buf, first: lba, blocks: nblocks };
    // SAFETY: the caller's promise.
    unsafe { begin(chunk_id, transfer, tag, status, flags) }
}

/// Fetches the result of an asynchronous command: the number of blocks, or 0 if it has not ended.
///
/// # Safety
/// `tag` and `status` are null or can be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cblk_aresult(
    chunk_id: c_int,
    tag: *mut c_int,
    status: *mut u64,
    flags: c_int,
) -> c_int {
    let fetch = || {
        if flags & CBLK_GROUP_MASK != 0 {
            return Err(Errno::INVAL);
        }
        // SAFETY: the caller's promise.
        let (tag, status) = unsafe { (tag.as_mut(), status.as_mut()) };
        let (tag, status) = (tag.ok_or(Errno::INVAL)?, status.ok_or(Errno::INVAL)?);
        *status = 0;
        table::with(chunk_id, |chunk| result(chunk, tag, flags))
    };
    returned(fetch)
}

/// The same for a chunk.
pub(super) fn result(chunk: &OpenChunk, tag: &mut c_int, flags: c_int) -> Result<c_int, Errno> {
    let (waits, harvests) = (flags & CBLK_ARESULT_BLOCKING != 0, flags & CBLK_ARESULT_NO_HARVEST == 0);
    let (ended, result) = chunk.result(which(*tag, flags), waits, harvests);
    match ended {
        Some(ended) => *tag = ended,
        None if flags & CBLK_ARESULT_NEXT_TAG != 0 => *tag = -1,
        None => {}
    }
    result.map(|blocks| blocks as c_int)
}

/// Makes a chunk of the parent process usable in its child.
#[unsafe(no_mangle)]
pub extern "C" fn cblk_clone_after_fork(chunk_id: c_int, mode: c_int, flags: c_int) -> c_int {
    if flags & CBLK_GROUP_MASK != 0 {
        return group::cblk_cg_clone_after_fork(chunk_id, mode, flags & !CBLK_GROUP_ID);
    }
    returned(|| table::clone_after_fork(chunk_id, mode).map(|()| 0))
}
