//! `cblk_cg_*`: groups of chunks.

use super::chunk::{self, begin};
use super::{Transfer, open, path_of};
use crate::c_types::{
    ArwStatus, CBLK_ARESULT_BLOCKING, CBLK_ARESULT_NEXT_TAG, CBLK_GROUP_MASK, CBLK_GROUP_RAID0,
    CBLK_OPN_VIRT_LUN, CFLSH_ATTR_UNMAP, ChunkAttrs, ChunkStats, GroupTag,
};
use crate::driven::Driven;
use crate::errno::returned;
use crate::open_chunk::OpenChunk;
use crate::queue::Kind;
use crate::table::{self, Group};
use rustix::io::Errno;
use std::ffi::{OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Chunks of a group at most.
const CHUNKS_MAX: usize = 512;
/// The longest wait for the next command of a group.
const WAIT_MAX: Duration = Duration::from_secs(50);

/// Opens a group of chunks on one path, or of stripes on several, with `:` between them.
///
/// # Safety
/// `path` ends with a zero byte, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cblk_cg_open(
    path: *const c_char,
    max_num_requests: c_int,
    mode: c_int,
    num_chunks: c_int,
    _ext: u64,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let path = unsafe { path_of(path) };
    let open = || {
        let chunks = usize::try_from(num_chunks).ok().filter(|chunks| (1..=CHUNKS_MAX).contains(chunks));
        let chunks = chunks.ok_or(Errno::INVAL)?;
        let is_striped = flags & CBLK_GROUP_RAID0 != 0;
        if !is_striped && flags & CBLK_OPN_VIRT_LUN != 0 {
            return Err(Errno::INVAL);
        }
        let path = path?;
        let paths = if is_striped { stripes(&path) } else { vec![path; chunks] };
        open_all(&paths, max_num_requests, mode, flags & !CBLK_GROUP_MASK, is_striped)
    };
    returned(open)
}

/// The paths of a group of stripes: with commas between them, since PCI addresses have colons of their own, or with colons.
fn stripes(path: &Path) -> Vec<PathBuf> {
    let all = path.as_os_str().as_bytes();
    let separator = if all.contains(&b',') { b',' } else { b':' };
    if path.exists() || Driven::is_named(path) {
        return vec![path.to_owned()];
    }
    all.split(|byte| *byte == separator).map(|part| PathBuf::from(OsStr::from_bytes(part))).collect()
}

fn open_all(
    paths: &[PathBuf],
    commands: c_int,
    mode: c_int,
    flags: c_int,
    is_striped: bool,
) -> Result<c_int, Errno> {
    let mut chunks = Vec::new();
    let opened = paths.iter().try_for_each(|path| {
        chunks.push(open(path, commands, mode, flags)?);
        Ok(())
    });
    let added = opened.and_then(|()| table::add_group(Group::new(chunks.clone(), is_striped)));
    if added.is_err() {
        // The first error is the one that the caller gets.
        for chunk in chunks {
            let _ = table::close(chunk);
        }
    }
    added
}

/// Closes a group and its chunks.
#[unsafe(no_mangle)]
pub extern "C" fn cblk_cg_close(cgid: c_int, _flags: c_int) -> c_int {
    returned(|| table::close_group(cgid).map(|()| 0))
}

/// How many chunks a group has.
#[unsafe(no_mangle)]
pub extern "C" fn cblk_cg_get_num_chunks(cgid: c_int, _flags: c_int) -> c_int {
    returned(|| table::group(cgid).map(|group| group.chunks.len() as c_int))
}

/// The sum of a group's statistics.
///
/// # Safety
/// `stats` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cblk_cg_get_stats(cgid: c_int, stats: *mut ChunkStats, _flags: c_int) -> c_int {
    let read = || {
        // SAFETY: the caller's promise.
        let sum = unsafe { stats.as_mut() }.ok_or(Errno::INVAL)?;
        *sum = ChunkStats::default();
        for chunk in &table::group(cgid)?.chunks {
            table::with(*chunk, |chunk| {
                chunk.add_to(sum);
                Ok(())
            })?;
        }
        Ok(0)
    };
    returned(read)
}

/// The least that a group's chunks have in common.
///
/// # Safety
/// `attr` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cblk_cg_get_attrs(cgid: c_int, attr: *mut ChunkAttrs, _flags: c_int) -> c_int {
    let read = || {
        // SAFETY: the caller's promise.
        let attr = unsafe { attr.as_mut() }.ok_or(Errno::INVAL)?;
        let group = table::group(cgid)?;
        let all =
            group.chunks.iter().map(|chunk| table::with(*chunk, |it| Ok((it.stats(), it.attributes()))));
        let all = all.collect::<Result<Vec<_>, _>>()?;
        *attr = ChunkAttrs {
            flags1: all.iter().fold(CFLSH_ATTR_UNMAP, |flags, one| flags & one.1),
            flags2: 0,
            block_size: all.iter().map(|one| one.0.block_size).min().unwrap_or(0),
            num_paths: all.iter().map(|one| one.0.num_paths).min().unwrap_or(0),
            max_transfer_size: all.iter().map(|one| one.0.max_transfer_size).min().unwrap_or(0),
            data: [0; 64],
        };
        Ok(0)
    };
    returned(read)
}

/// A size of each of a group's chunks.
fn sizes(group: &Group, size: fn(&OpenChunk) -> u64) -> Result<Vec<u64>, Errno> {
    group.chunks.iter().map(|chunk| table::with(*chunk, |it| Ok(size(it)))).collect()
}

/// The size of a group's disks.
///
/// # Safety
/// `nblocks` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cblk_cg_get_lun_size(cgid: c_int, nblocks: *mut usize, _flags: c_int) -> c_int {
    let read = || {
        // SAFETY: the caller's promise.
        let nblocks = unsafe { nblocks.as_mut() }.ok_or(Errno::INVAL)?;
        let group = table::group(cgid).map_err(|_| Errno::NODEV)?;
        let sizes = sizes(&group, OpenChunk::disk_blocks)?;
        *nblocks =
            if group.is_striped { sizes.iter().sum::<u64>() } else { sizes.first().copied().unwrap_or(0) }
                as usize;
        Ok(0)
    };
    returned(read)
}

/// A group's size.
///
/// # Safety
/// `nblocks` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cblk_cg_get_size(cgid: c_int, nblocks: *mut usize, _flags: c_int) -> c_int {
    let read = || {
        // SAFETY: the caller's promise.
        let nblocks = unsafe { nblocks.as_mut() }.ok_or(Errno::INVAL)?;
        let group = table::group(cgid)?;
        let sizes = sizes(&group, OpenChunk::blocks)?;
        let least = sizes.iter().min().copied().unwrap_or(0);
        let all =
            if group.is_striped { least * sizes.len() as u64 } else { sizes.first().copied().unwrap_or(0) };
        *nblocks = all as usize;
        Ok(0)
    };
    returned(read)
}

/// Changes the size of a group of stripes on virtual LUNs.
#[unsafe(no_mangle)]
pub extern "C" fn cblk_cg_set_size(cgid: c_int, nblocks: usize, flags: c_int) -> c_int {
    let set = || {
        if flags & CBLK_GROUP_RAID0 == 0 || nblocks == 0 {
            return Err(Errno::INVAL);
        }
        let group = table::group(cgid)?;
        let each = nblocks.div_ceil(group.chunks.len().max(1)) as u64;
        group.chunks.iter().try_for_each(|chunk| table::with(*chunk, |it| it.set_size(each)))?;
        Ok(0)
    };
    returned(set)
}

/// The chunk for a block of a group, with the block's number there.
fn place(cgid: c_int, block: i64, blocks: usize) -> Result<(c_int, i64), Errno> {
    let group = table::group(cgid)?;
    if !group.is_striped {
        return Ok((group.next_chunk()?, block));
    }
    let chunks = group.chunks.len() as i64;
    // More blocks would be on several chunks.
    if chunks > 1 && blocks > 1 || block < 0 {
        return Err(Errno::INVAL);
    }
    Ok((group.chunks[(block % chunks) as usize], block / chunks))
}

/// # Safety
/// As for `cblk_read`.
unsafe fn execute(cgid: c_int, kind: Kind, buffer: *mut c_void, first: i64, blocks: usize) -> c_int {
    match place(cgid, first, blocks) {
        // SAFETY: the caller's promise.
        Ok((chunk, first)) => unsafe {
            match kind {
                Kind::Read => chunk::cblk_read(chunk, buffer, first, blocks, 0),
                Kind::Write => chunk::cblk_write(chunk, buffer, first, blocks, 0),
                Kind::Unmap => chunk::cblk_unmap(chunk, buffer, first, blocks, 0),
            }
        },
        Err(error) => returned(|| Err(error)),
    }
}

/// Reads from a group, and waits.
///
/// # Safety
/// As for `cblk_read`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cblk_cg_read(
    cgid: c_int,
    pbuf: *mut c_void,
    lba: i64,
    nblocks: usize,
    _flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { execute(cgid, Kind::Read, pbuf, lba, nblocks) }
}

/// Writes to a group, and waits.
///
/// # Safety
/// As for `cblk_read`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cblk_cg_write(
    cgid: c_int,
    pbuf: *mut c_void,
    lba: i64,
    nblocks: usize,
    _flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { execute(cgid, Kind::Write, pbuf, lba, nblocks) }
}

/// Zeroes blocks of a group, and waits.
///
/// # Safety
/// As for `cblk_unmap`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cblk_cg_unmap(
    cgid: c_int,
    pbuf: *mut c_void,
    lba: i64,
    nblocks: usize,
    _flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { execute(cgid, Kind::Unmap, pbuf, lba, nblocks) }
}

/// # Safety
/// As for `cblk_aread`, with the group's tag.
unsafe fn begin_in(
    cgid: c_int,
    mut transfer: Transfer,
    tag: *mut GroupTag,
    status: *mut ArwStatus,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let Some(tag) = (unsafe { tag.as_mut() }) else { return returned(|| Err(Errno::INVAL)) };
    match place(cgid, transfer.first, transfer.blocks) {
        Ok((chunk, first)) => {
            (tag.id, transfer.first) = (chunk, first);
            // SAFETY: the caller's promise.
            let begun = unsafe { begin(chunk, transfer, &raw mut tag.tag, status, flags & !CBLK_GROUP_MASK) };
            if begun < 0 {
                tag.tag = -1;
            }
            begun
        }
        Err(error) => returned(|| Err(error)),
    }
}

/// Begins to read from a group.
///
/// # Safety
/// As for `cblk_aread`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cblk_cg_aread(
    cgid: c_int,
    pbuf: *mut c_void,
    lba: i64,
    nblocks: usize,
    ptag: *mut GroupTag,
    p_arwstatus: *mut ArwStatus,
    flags: c_int,
) -> c_int {
    let transfer = Transfer { kind: Kind::Read, buffer: pbuf, first: lba, blocks: nblocks };
    // SAFETY: the caller's promise.
    unsafe { begin_in(cgid, transfer, ptag, p_arwstatus, flags) }
}

/// Begins to write to a group.
///
/// # Safety
/// As for `cblk_aread`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cblk_cg_awrite(
    cgid: c_int,
    pbuf: *mut c_void,
    lba: i64,
    nblocks: usize,
    ptag: *mut GroupTag,
    p_arwstatus: *mut ArwStatus,
    flags: c_int,
) -> c_int {
    let transfer = Transfer { kind: Kind::Write, buffer: pbuf, first: lba, blocks: nblocks };
    // SAFETY: the caller's promise.
    unsafe { begin_in(cgid, transfer, ptag, p_arwstatus, flags) }
}

/// Begins to zero blocks of a group.
///
/// # Safety
/// As for `cblk_aunmap`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cblk_cg_aunmap(
    cgid: c_int,
    pbuf: *mut c_void,
    lba: i64,
    nblocks: usize,
    ptag: *mut GroupTag,
    p_arwstatus: *mut ArwStatus,
    flags: c_int,
) -> c_int {
    let transfer = Transfer { kind: Kind::Unmap, buffer: pbuf, first: lba, blocks: nblocks };
    // SAFETY: the caller's promise.
    unsafe { begin_in(cgid, transfer, ptag, p_arwstatus, flags) }
}

/// Fetches the result of a group's command.
///
/// # Safety
/// As for `cblk_aresult`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cblk_cg_aresult(
    cgid: c_int,
    ptag: *mut GroupTag,
    p_arwstatus: *mut u64,
    flags: c_int,
) -> c_int {
    let fetch = || {
        let group = table::group(cgid)?;
        // SAFETY: the caller's promise.
        let (tag, status) = unsafe { (ptag.as_mut(), p_arwstatus.as_mut()) };
        let (tag, status) = (tag.ok_or(Errno::INVAL)?, status.ok_or(Errno::INVAL)?);
        *status = 0;
        let flags = flags & !CBLK_GROUP_MASK;
        if flags & CBLK_ARESULT_NEXT_TAG == 0 {
            return table::with(tag.id, |it| chunk::result(it, &mut tag.tag, flags));
        }
        let begun = Instant::now();
        loop {
            for _ in &group.chunks {
                tag.id = group.next_chunk()?;
                let each = flags & !CBLK_ARESULT_BLOCKING;
                match table::with(tag.id, |it| chunk::result(it, &mut tag.tag, each)) {
                    Ok(0) | Err(Errno::NOENT) => {}
                    ended => return ended,
                }
            }
            if flags & CBLK_ARESULT_BLOCKING == 0 {
                return Ok(0);
            }
            if begun.elapsed() >= WAIT_MAX {
                return Err(Errno::TIME);
            }
            std::thread::yield_now();
        }
    };
    returned(fetch)
}

/// Makes a parent's group usable in its child.
#[unsafe(no_mangle)]
pub extern "C" fn cblk_cg_clone_after_fork(cgid: c_int, mode: c_int, _flags: c_int) -> c_int {
    let clone = || {
        let group = table::group(cgid)?;
        group.chunks.iter().try_for_each(|chunk| table::clone_after_fork(*chunk, mode))?;
        Ok(0)
    };
    returned(clone)
}
