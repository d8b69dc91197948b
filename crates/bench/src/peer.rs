//! An allocator in a shared library, behind the C interface of `include/iotoll_iova_peer.h`.

#![allow(
    unsafe_code,
    reason = "functions of other languages are called, on the word of whoever names the library"
)]

use iova::{AllocateError, Allocator, FreeError, PAGE_MAX, Range, Request, Space, Usage};
use libloading::Library;
use std::ffi::{CStr, c_char, c_void};
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Create = unsafe extern "C" fn(granule_bytes: u64, first_page: u64, last_page: u64) -> *mut c_void;
type Allocate =
    unsafe extern "C" fn(allocator: *mut c_void, pages: u64, alignment_pages: u64, limit_page: u64) -> u64;
type Free = unsafe extern "C" fn(allocator: *mut c_void, first_page: u64, pages: u64);
type Destroy = unsafe extern "C" fn(allocator: *mut c_void);
type MemoryBytes = unsafe extern "C" fn(allocator: *mut c_void) -> u64;
type Description = unsafe extern "C" fn() -> *const c_char;

const CREATE: &str = "iotoll_iova_create";
const ALLOCATE: &str = "iotoll_iova_allocate";
const FREE: &str = "iotoll_iova_free";
const DESTROY: &str = "iotoll_iova_destroy";
const MEMORY_BYTES: &str = "iotoll_iova_memory_bytes";
const DESCRIPTION: &str = "iotoll_iova_description";

/// What `allocate` returns where there is no room.
const NONE: u64 = u64::MAX;
/// Pages are numbered in these.
const GRANULE_BYTES: u64 = 4096;

/// Why a library can't join.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// It can't be loaded.
    #[error("can't load the peer {file}")]
    Load {
        /// The library.
        file: PathBuf,
        /// The loader's words are in its source.
        source: libloading::Error,
    },
    /// It is not one of ours.
    #[error("{file}: no function {}; a peer has those of iotoll_iova_peer.h", missing.join(", "))]
    Missing {
        /// The library.
        file: PathBuf,
        /// Functions that it lacks.
        missing: Vec<&'static str>,
    },
}

/// A library with an allocator.
#[derive(Debug)]
pub struct Peer {
    create: Create,
    allocate: Allocate,
    free: Free,
    destroy: Destroy,
    memory_bytes: Option<MemoryBytes>,
    description: Option<String>,
    /// Whose code the pointers point to: unloaded after the last of them is gone.
    _library: Library,
}

impl Peer {
    /// Loads a library: its initialisers run, and what it says of its functions is believed.
    ///
    /// # Errors
    /// [`PeerError`]
    pub fn load(file: &Path) -> Result<Arc<Self>, PeerError> {
        // The loader looks for a bare name in the system's folders: the user means a file.
        let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        // SAFETY: none can be given for foreign code; the user asks for this file to be run.
        let library = unsafe { Library::new(&path) }
            .map_err(|source| PeerError::Load { file: file.to_owned(), source })?;
        // SAFETY: the types are those of the header.
        let (create, allocate, free, destroy) = unsafe {
            (
                symbol::<Create>(&library, CREATE),
                symbol::<Allocate>(&library, ALLOCATE),
                symbol::<Free>(&library, FREE),
                symbol::<Destroy>(&library, DESTROY),
            )
        };
        let (Some(create), Some(allocate), Some(free), Some(destroy)) = (create, allocate, free, destroy)
        else {
            let there = [create.is_some(), allocate.is_some(), free.is_some(), destroy.is_some()];
            let names = [CREATE, ALLOCATE, FREE, DESTROY].into_iter().zip(there);
            let missing = names.filter(|(_, there)| !there).map(|(name, _)| name).collect();
            return Err(PeerError::Missing { file: file.to_owned(), missing });
        };
        // SAFETY: as above.
        let (memory_bytes, description) = unsafe {
            (symbol::<MemoryBytes>(&library, MEMORY_BYTES), symbol::<Description>(&library, DESCRIPTION))
        };
        let description = description.and_then(words);
        Ok(Arc::new(Self { create, allocate, free, destroy, memory_bytes, description, _library: library }))
    }

    /// What it says it is.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// Whether it says how much memory it takes.
    pub(crate) fn tells_memory(&self) -> bool {
        self.memory_bytes.is_some()
    }

    /// An allocator of a space; `None` if the library can't have such a one, or the space has reserved pages, of which the
    /// interface knows nothing.
    pub(crate) fn allocator(self: &Arc<Self>, space: &Space) -> Option<PeerAllocator> {
        if !space.reserved.is_empty() || space.last > PAGE_MAX || space.first > space.last {
            return None;
        }
        // SAFETY: the function is the library's, called as the header says.
        let handle = unsafe { (self.create)(GRANULE_BYTES, space.first, space.last) };
        let (allocate, free) = (self.allocate, self.free);
        (!handle.is_null()).then(|| PeerAllocator { allocate, free, handle, peer: Arc::clone(self) })
    }
}

/// SAFETY: `T` must be the type of the function of that name.
unsafe fn symbol<T: Copy>(library: &Library, name: &str) -> Option<T> {
    // SAFETY: the caller's.
    unsafe { library.get::<T>(name) }.ok().map(|symbol| *symbol)
}

fn words(description: Description) -> Option<String> {
    // SAFETY: the header asks for a string that stays.
    let text = unsafe { description() };
    // SAFETY: the same; NULL was looked for.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// A peer's allocator.
pub(crate) struct PeerAllocator {
    // Copies of the library's, so that a call follows one pointer less.
    allocate: Allocate,
    free: Free,
    handle: *mut c_void,
    peer: Arc<Peer>,
}

// SAFETY: the header asks that allocate and free may be called by many threads at once.
unsafe impl Sync for PeerAllocator {}

impl Allocator for PeerAllocator {
    #[inline]
    fn allocate(&self, request: &Request) -> Result<u64, AllocateError> {
        let Request { pages, limit, .. } = *request;
        // SAFETY: the handle is the library's, and alive until `self` is dropped.
        match unsafe { (self.allocate)(self.handle, pages, request.alignment_pages(), limit) } {
            NONE => Err(AllocateError::Full),
            first => Ok(first),
        }
    }

    #[inline]
    fn free(&self, range: Range) -> Result<(), FreeError> {
        // SAFETY: as above.
        unsafe { (self.free)(self.handle, range.first, range.pages) };
        Ok(())
    }

    /// Its memory, if it tells; nothing else is told.
    fn usage(&self) -> Usage {
        // SAFETY: as above; where usage is asked for, no thread is at work.
        let memory_bytes =
            self.peer.memory_bytes.map_or(0, |memory_bytes| unsafe { memory_bytes(self.handle) });
        Usage { memory_bytes, ..Usage::default() }
    }
}

impl Drop for PeerAllocator {
    fn drop(&mut self) {
        // SAFETY: as above, and nobody uses it hereafter.
        unsafe { (self.peer.destroy)(self.handle) };
    }
}
