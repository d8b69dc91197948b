//! Loads an allocator from a shared library with the C interface of `include/iotoll_iova_peer.h`.

#![allow(
    unsafe_code,
    reason = "calls foreign functions, whose correctness the user vouches for by naming the library"
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

/// The result of `allocate` if there is no free range.
const NONE: u64 = u64::MAX;
/// The page size.
const GRANULE_BYTES: u64 = 4096;

/// Why a library can't be used.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// The library can't be loaded.
    #[error("can't load the peer {file}")]
    Load {
        /// The library.
        file: PathBuf,
        /// The dynamic loader's error.
        source: libloading::Error,
    },
    /// The library lacks functions of the interface.
    #[error("{file} has no function {}; expected the functions of iotoll_iova_peer.h", missing.join(", "))]
    Missing {
        /// The library.
        file: PathBuf,
        /// The missing functions.
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
    /// Keeps the code loaded that the pointers refer to.
    _library: Library,
}

impl Peer {
    /// Loads a library. Its initialisers run, and its functions are trusted to have the header's types.
    ///
    /// # Errors
    /// [`PeerError`]
    pub fn load(file: &Path) -> Result<Arc<Self>, PeerError> {
        // The loader searches the system's folders for a name without a slash; the user means a file.
        let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        // SAFETY: can't be proved for foreign code; the user asked to run this file.
        let library = unsafe { Library::new(&path) }
            .map_err(|source| PeerError::Load { file: file.to_owned(), source })?;
        // SAFETY: the types are those of the header, which the library must implement.
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
        let description = description.and_then(read_description);
        Ok(Arc::new(Self { create, allocate, free, destroy, memory_bytes, description, _library: library }))
    }

    /// The library's description of itself.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// Whether it reports its memory use.
    pub(crate) fn reports_memory(&self) -> bool {
        self.memory_bytes.is_some()
    }

    /// Creates an allocator for a space; `None` if the library does not support it, or the space has reserved pages, which
    /// the interface can't express.
    pub(crate) fn allocator(self: &Arc<Self>, space: &Space) -> Option<PeerAllocator> {
        if !space.reserved.is_empty() || space.last > PAGE_MAX || space.first > space.last {
            return None;
        }
        // SAFETY: the library's function is called as the header requires.
        let handle = unsafe { (self.create)(GRANULE_BYTES, space.first, space.last) };
        let (allocate, free) = (self.allocate, self.free);
        (!handle.is_null()).then(|| PeerAllocator { allocate, free, handle, peer: Arc::clone(self) })
    }
}

/// Looks up a function by its name.
///
/// # Safety
/// `T` must be the type of the function.
unsafe fn symbol<T: Copy>(library: &Library, name: &str) -> Option<T> {
    // SAFETY: the caller guarantees the type.
    unsafe { library.get::<T>(name) }.ok().map(|symbol| *symbol)
}

/// Copies the library's description.
fn read_description(description: Description) -> Option<String> {
    // SAFETY: the header requires a static string or NULL.
    let text = unsafe { description() };
    // SAFETY: it is a static string, since it is not NULL.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// An allocator that a peer created.
pub(crate) struct PeerAllocator {
    // Copies of the peer's pointers, which save an indirection in each call.
    allocate: Allocate,
    free: Free,
    handle: *mut c_void,
    peer: Arc<Peer>,
}

// SAFETY: the header requires that several threads may call allocate and free at once.
unsafe impl Sync for PeerAllocator {}

// SAFETY: any thread may call the library's functions, so the handle belongs to none.
unsafe impl Send for PeerAllocator {}

impl Allocator for PeerAllocator {
    #[inline]
    fn allocate(&self, request: &Request) -> Result<u64, AllocateError> {
        let Request { pages, limit, .. } = *request;
        // SAFETY: the library created the handle, which is valid until `self` is dropped.
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

    /// The memory use, if the library reports it; the interface has no other figures.
    fn usage(&self) -> Usage {
        // SAFETY: as above; no other thread uses the allocator while its usage is read.
        let memory_bytes =
            self.peer.memory_bytes.map_or(0, |memory_bytes| unsafe { memory_bytes(self.handle) });
        let mut usage = Usage::default();
        usage.memory_bytes = memory_bytes;
        usage
    }
}

impl Drop for PeerAllocator {
    fn drop(&mut self) {
        // SAFETY: as above, and the handle is not used afterwards.
        unsafe { (self.peer.destroy)(self.handle) };
    }
}
