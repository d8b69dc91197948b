//! Chunks and groups by their identifiers, for the whole process.
//!
//! A thread keeps the chunk that it used last, so that commands take no lock and change no count that threads share. Each change of the
//! table ends that.
//!
//! In a child process the parent's chunks can't be used before they are cloned: its threads do not exist there, and its rings and queues
//! belong to the parent.

#![allow(unsafe_code, reason = "functions for fork are given to the C library")]

use crate::disk::{Disk, Disks};
use crate::open_chunk::OpenChunk;
use rustix::io::Errno;
use std::cell::RefCell;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Chunks at an index that is their identifier. One that was closed leaves its place empty: identifiers are not used again.
#[derive(Debug, Default)]
struct Table {
    chunks: Vec<Option<Entry>>,
    groups: Vec<Option<Arc<Group>>>,
}

#[derive(Debug, Clone)]
struct Entry {
    chunk: Arc<OpenChunk>,
    /// How often this process's ancestors had forked when it was opened or cloned.
    forks: u64,
}

/// Chunks that are used together.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) chunks: Vec<i32>,
    /// Block n is block n / chunks of chunk n % chunks.
    pub(crate) is_striped: bool,
    next: AtomicU64,
}

impl Group {
    pub(crate) fn new(chunks: Vec<i32>, is_striped: bool) -> Self {
        Self { chunks, is_striped, next: AtomicU64::new(0) }
    }

    /// The chunk whose turn it is.
    pub(crate) fn next_chunk(&self) -> Result<i32, Errno> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) as usize;
        self.chunks.get(turn % self.chunks.len().max(1)).copied().ok_or(Errno::INVAL)
    }
}

static TABLE: RwLock<Table> = RwLock::new(Table { chunks: Vec::new(), groups: Vec::new() });
static DISKS: Mutex<Disks> = Mutex::new(Disks::new());
/// Increases with each change of the table, and by fork.
static CHANGES: AtomicU64 = AtomicU64::new(0);
static FORKS: AtomicU64 = AtomicU64::new(0);

/// The chunk that a thread used last.
struct Last {
    id: i32,
    changes: u64,
    chunk: Arc<OpenChunk>,
}

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
    /// The locks of a thread that forks.
    static HELD: RefCell<Option<(RwLockWriteGuard<'static, Table>, std::sync::MutexGuard<'static, Disks>)>> =
        const { RefCell::new(None) };
}

fn read() -> RwLockReadGuard<'static, Table> {
    TABLE.read().unwrap_or_else(PoisonError::into_inner)
}

fn write() -> RwLockWriteGuard<'static, Table> {
    TABLE.write().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `use_chunk` with an open chunk.
///
/// # Errors
/// `EINVAL` if there is none, or if it is the parent process's.
#[inline]
pub(crate) fn with<T>(id: i32, use_chunk: impl FnOnce(&OpenChunk) -> Result<T, Errno>) -> Result<T, Errno> {
    let mut use_chunk = Some(use_chunk);
    // None for a thread that ends: its variables are gone.
    let used = LAST.try_with(|place| {
        let last = place.try_borrow().ok()?;
        let last =
            last.as_ref().filter(|last| last.id == id && last.changes == CHANGES.load(Ordering::Acquire))?;
        use_chunk.take().map(|use_chunk| use_chunk(&last.chunk))
    });
    match (used, use_chunk) {
        (Ok(Some(result)), _) => result,
        (_, Some(use_chunk)) => use_chunk(find_and_keep(id)?.as_ref()),
        _ => Err(Errno::INVAL),
    }
}

/// A chunk, which this thread keeps as the one that it used last.
#[cold]
fn find_and_keep(id: i32) -> Result<Arc<OpenChunk>, Errno> {
    let changes = CHANGES.load(Ordering::Acquire);
    let chunk = find(id)?;
    let last = Last { id, changes, chunk: Arc::clone(&chunk) };
    // Not in a signal handler within a call that uses another one.
    let _ = LAST.try_with(|place| place.try_borrow_mut().map(|mut place| *place = Some(last)));
    Ok(chunk)
}

fn find(id: i32) -> Result<Arc<OpenChunk>, Errno> {
    let table = read();
    let entry = usize::try_from(id).ok().and_then(|id| table.chunks.get(id)?.as_ref());
    let entry = entry.filter(|entry| entry.forks == FORKS.load(Ordering::Relaxed)).ok_or(Errno::INVAL)?;
    Ok(Arc::clone(&entry.chunk))
}

fn changed() {
    CHANGES.fetch_add(1, Ordering::Release);
}

/// The disk that a path names.
pub(crate) fn disk(path: &Path, is_read_only: bool) -> Result<Arc<Disk>, Errno> {
    watch_forks();
    // A broker may be slow to answer: nobody waits for it who opens another disk.
    if let Some(served) = Disk::connect_if_socket(path, is_read_only) {
        return served.map(Arc::new);
    }
    DISKS.lock().unwrap_or_else(PoisonError::into_inner).open(path, is_read_only)
}

/// Adds a chunk, and returns its identifier.
pub(crate) fn add(chunk: OpenChunk) -> Result<i32, Errno> {
    let mut table = write();
    let id = i32::try_from(table.chunks.len()).map_err(|_| Errno::NOSPC)?;
    table.chunks.push(Some(Entry { chunk: Arc::new(chunk), forks: FORKS.load(Ordering::Relaxed) }));
    changed();
    Ok(id)
}

/// Closes a chunk.
pub(crate) fn close(id: i32) -> Result<(), Errno> {
    close_chunks(&[(id, find(id)?)])
}

/// Closes chunks: all of them, or none where commands of one do not end. Those that were closed before are left out.
fn close_all(ids: &[i32]) -> Result<(), Errno> {
    let is_there = |id: &&i32| read().chunks.get(**id as usize).is_some_and(Option::is_some);
    let chunks = ids.iter().filter(is_there).map(|id| Ok((*id, find(*id)?)));
    close_chunks(&chunks.collect::<Result<Vec<_>, Errno>>()?)
}

fn close_chunks(chunks: &[(i32, Arc<OpenChunk>)]) -> Result<(), Errno> {
    let mut stopped = 0;
    let ended = chunks.iter().try_for_each(|(_, chunk)| {
        chunk.stop()?;
        stopped += 1;
        Ok(())
    });
    let ended = ended.and_then(|()| chunks.iter().try_for_each(|(_, chunk)| chunk.wait_for_commands()));
    if ended.is_err() {
        chunks[..stopped].iter().for_each(|(_, chunk)| chunk.resume());
        return ended;
    }
    // One whose blocks can't be zeroed stays, and may be closed again.
    let mut result = Ok(());
    for (id, chunk) in chunks {
        match chunk.finish() {
            Ok(()) => remove(*id),
            Err(error) => {
                chunk.resume();
                result = Err(error);
            }
        }
    }
    result
}

/// Removes a chunk that was closed.
fn remove(id: i32) {
    if let Some(entry) = write().chunks.get_mut(id as usize) {
        *entry = None;
    }
    changed();
    let _ = LAST.try_with(|last| last.try_borrow_mut().map(|mut last| *last = None));
}

/// Makes a parent's chunk usable in this process, or changes the access of this process's own.
pub(crate) fn clone_after_fork(id: i32, mode: i32) -> Result<(), Errno> {
    let mut table = write();
    let entry = usize::try_from(id).ok().and_then(|id| table.chunks.get_mut(id)?.as_mut());
    let entry = entry.ok_or(Errno::INVAL)?;
    if entry.forks == FORKS.load(Ordering::Relaxed) {
        return entry.chunk.change_access(mode);
    }
    let chunk = Arc::new(entry.chunk.clone_after_fork(mode)?);
    // The parent's rings and queues must not be closed here.
    std::mem::forget(std::mem::replace(&mut entry.chunk, chunk));
    entry.forks = FORKS.load(Ordering::Relaxed);
    changed();
    Ok(())
}

/// Adds a group, and returns its identifier.
pub(crate) fn add_group(group: Group) -> Result<i32, Errno> {
    let mut table = write();
    let id = i32::try_from(table.groups.len()).map_err(|_| Errno::NOSPC)?;
    table.groups.push(Some(Arc::new(group)));
    Ok(id)
}

/// A group.
///
/// # Errors
/// `EINVAL` if there is none.
pub(crate) fn group(id: i32) -> Result<Arc<Group>, Errno> {
    let table = read();
    let group = usize::try_from(id).ok().and_then(|id| table.groups.get(id)?.as_ref());
    group.map(Arc::clone).ok_or(Errno::INVAL)
}

/// Closes a group and its chunks: all of them, or none where commands do not end.
pub(crate) fn close_group(id: i32) -> Result<(), Errno> {
    close_all(&group(id)?.chunks)?;
    let removed = write().groups.get_mut(id as usize).and_then(Option::take);
    removed.map(drop).ok_or(Errno::INVAL)
}

/// Has the C library call functions around `fork`.
fn watch_forks() {
    static WATCHES: Once = Once::new();
    WATCHES.call_once(|| {
        // SAFETY: the functions live as long as the process, and take locks only that no function called within them takes.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
    });
}

/// Takes the locks, so that no other thread has them in the child.
unsafe extern "C" fn before_fork() {
    let held = (write(), DISKS.lock().unwrap_or_else(PoisonError::into_inner));
    // A thread that ends has no place for them, and forks without them.
    let _ = HELD.try_with(|place| *place.borrow_mut() = Some(held));
}

unsafe extern "C" fn in_parent() {
    let _ = HELD.try_with(|place| drop(place.take()));
}

unsafe extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    changed();
    // What the thread used last is the parent's: it must not be closed here.
    let _ = LAST.try_with(|last| last.try_borrow_mut().map(|mut last| std::mem::forget(last.take())));
    let _ = HELD.try_with(|place| {
        if let Some((table, mut disks)) = place.take() {
            disks.forget_controllers();
            table.chunks.iter().flatten().for_each(|entry| entry.chunk.forget_use());
            drop((table, disks));
        }
    });
}
