//! Contiguous pinned huge pages, for adapters without an IOMMU.
//!
//! `mlock` is not enough: the kernel may still move locked pages to compact memory. Pages pinned for long stay where
//! they are (`Documentation/core-api/pin_user_pages.rst`), and io_uring pins the buffers registered with it.

#![allow(unsafe_code, reason = "memory is asked of the operating system, and adapters write to it")]

use crate::MemoryAddress;
use crate::pages::Pages;
use io_uring::IoUring;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::fs::{File, read_to_string};
use std::io;
use std::os::unix::fs::FileExt;
use std::ptr::null_mut;

const HUGE_BYTES: usize = 2 << 20;
const PAGE_BYTES: u64 = 4096;
/// Free huge pages need not be contiguous, so allocate more than needed, in these multiples.
const TRIES: [usize; 5] = [1, 2, 4, 8, 16];
/// Largest buffer that io_uring registers (`io_uring/rsrc.c`).
const BYTES_MAX: u64 = 1 << 30;

/// Why contiguous pinned memory can't be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PinError {
    /// Only x86-64 is supported: elsewhere bus addresses may have an offset.
    #[error(
        "adapters without an IOMMU are supported only on x86-64, where bus addresses equal physical addresses"
    )]
    OtherArchitecture,
    /// Memory is encrypted, so the adapter would see ciphertext.
    #[error("memory is encrypted ({0}), so an adapter without an IOMMU can't read or write it")]
    Encrypted(&'static str),
    /// The size is 0 or more than can be pinned at once.
    #[error("{bytes} bytes of pinned memory; expected 1 to {BYTES_MAX}")]
    Size {
        /// Bytes requested.
        bytes: u64,
    },
    /// Too few huge pages are free.
    #[error(
        "{pages} huge pages of 2 MiB are needed, and fewer are free; `sysctl vm.nr_hugepages=N` allocates more"
    )]
    TooFew {
        /// Pages needed.
        pages: usize,
    },
    /// Enough huge pages are free, but not contiguous ones.
    #[error(
        "{pages} contiguous huge pages of 2 MiB are needed; allocate them at boot (hugepages=N on the kernel command line)"
    )]
    Scattered {
        /// Pages needed.
        pages: usize,
    },
    /// The kernel hides physical addresses.
    #[error("this process can't see the physical addresses of its pages; it needs CAP_SYS_ADMIN")]
    AddressesHidden,
    /// io_uring can't pin the memory.
    #[error("io_uring can't pin the memory (see kernel.io_uring_disabled)")]
    Unpinned(#[source] io::Error),
    /// Another system call failed.
    #[error("{what} failed")]
    System {
        /// What was tried.
        what: &'static str,
        /// The error.
        source: io::Error,
    },
}

/// Turns an error of the operating system into a [`PinError`]; `what` is the failed operation.
fn system_error<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> PinError {
    move |source| PinError::System { what, source: source.into() }
}

/// Keeps pages pinned while it exists.
#[derive(Debug)]
pub(crate) struct Pin {
    /// The file of the pages, and the ring that pins them.
    files: [OwnedFd; 2],
}

impl Pin {
    /// The open files that keep the pages pinned.
    pub(crate) fn files(&self) -> [BorrowedFd<'_>; 2] {
        self.files.each_ref().map(AsFd::as_fd)
    }
}

/// Allocates and pins at least `bytes`. Returns the pages, their physical address, and what pins them.
pub(crate) fn pinned(bytes: u64) -> Result<(Pages, MemoryAddress, Pin), PinError> {
    if !cfg!(target_arch = "x86_64") {
        return Err(PinError::OtherArchitecture);
    }
    let words = |file: &str| read_to_string(file).map_err(system_error("reading the type of machine"));
    if let Some(how) = encryption(&words("/proc/cpuinfo")?, encryption_bits(), &words("/proc/cmdline")?) {
        return Err(PinError::Encrypted(how));
    }
    if !(1..=BYTES_MAX).contains(&bytes) {
        return Err(PinError::Size { bytes });
    }
    let wanted = (bytes as usize).div_ceil(HUGE_BYTES);
    for times in TRIES {
        match Huge::new(wanted * times) {
            Ok(huge) => {
                if let Some(run) = find_contiguous(&huge.physical_addresses()?, wanted) {
                    return huge.pin_pages(&run);
                }
            }
            Err(Errno::NOMEM) if times == 1 => return Err(PinError::TooFew { pages: wanted }),
            Err(Errno::NOMEM) => break,
            Err(error) => return Err(system_error("taking huge pages")(error)),
        }
    }
    Err(PinError::Scattered { pages: wanted })
}

/// Huge pages of an anonymous file, mapped.
struct Huge {
    file: OwnedFd,
    mapping: Pages,
}

impl Huge {
    /// Allocates `pages` huge pages of 2 MiB.
    fn new(pages: usize) -> Result<Self, Errno> {
        let file = memfd_create("pinned", MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB)?;
        let bytes = pages * HUGE_BYTES;
        ftruncate(&file, bytes as u64)?;
        // SAFETY: the kernel chooses a place where nothing is.
        let first = unsafe { mmap(null_mut(), bytes, RIGHTS, SHARED, &file, 0) }?;
        let mapping = Pages::at(first, bytes).ok_or(Errno::NOMEM)?;
        Ok(Self { file, mapping })
    }

    /// Physical addresses of the pages.
    fn physical_addresses(&self) -> Result<Vec<u64>, PinError> {
        physical_addresses(&self.mapping)
    }

    /// Maps the chosen pages contiguously, pins them, and frees the others.
    fn pin_pages(self, run: &[usize]) -> Result<(Pages, MemoryAddress, Pin), PinError> {
        let pages = self.mapping.len() * size_of::<u64>() / HUGE_BYTES;
        for page in (0..pages).filter(|page| !run.contains(page)) {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(&self.file, hole, (page * HUGE_BYTES) as u64, HUGE_BYTES as u64)
                .map_err(system_error("freeing huge pages"))?;
        }
        let kept = map_contiguously(&self.file, run).map_err(system_error("mapping huge pages"))?;
        drop(self.mapping);
        let ring = pin(&kept).map_err(PinError::Unpinned)?;
        // Check the addresses again: pinning may have moved a page.
        let places = physical_addresses(&kept)?;
        let follow = |pair: &[u64]| pair[0] + HUGE_BYTES as u64 == pair[1];
        let first = places.first().filter(|_| places.windows(2).all(follow));
        let first = MemoryAddress(*first.ok_or(PinError::Scattered { pages: run.len() })?);
        Ok((kept, first, Pin { files: [self.file, ring] }))
    }
}

const RIGHTS: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);
// MAP_POPULATE: a page that can't be allocated shows as missing now, instead of as SIGBUS at its first access.
const SHARED: MapFlags = MapFlags::SHARED.union(MapFlags::POPULATE);

/// Maps these pages of the file contiguously.
fn map_contiguously(file: &OwnedFd, run: &[usize]) -> Result<Pages, Errno> {
    let bytes = run.len() * HUGE_BYTES;
    // A larger mapping, within which an aligned range is found.
    // SAFETY: the kernel chooses a place where nothing is.
    let room =
        unsafe { mmap_anonymous(null_mut(), bytes + HUGE_BYTES, ProtFlags::empty(), MapFlags::PRIVATE) }?;
    let before = room.align_offset(HUGE_BYTES);
    let first = room.wrapping_byte_add(before);
    let (end, behind) = (first.wrapping_byte_add(bytes), HUGE_BYTES - before);
    for (from, bytes) in [(room, before), (end, behind)].into_iter().filter(|(_, bytes)| *bytes > 0) {
        // SAFETY: unmaps parts of the mapping just made, which nothing uses.
        unsafe { munmap(from, bytes) }?;
    }
    let pages = Pages::at(first, bytes).ok_or(Errno::NOMEM)?;
    for (place, page) in run.iter().enumerate() {
        let at = first.wrapping_byte_add(place * HUGE_BYTES);
        let offset = (page * HUGE_BYTES) as u64;
        // SAFETY: replaces a part of that mapping, which nothing uses.
        unsafe { mmap(at, HUGE_BYTES, RIGHTS, SHARED | MapFlags::FIXED, file, offset) }?;
    }
    Ok(pages)
}

/// Pins pages through io_uring. They stay pinned while the returned file, or a duplicate of it, is open.
fn pin(pages: &Pages) -> io::Result<OwnedFd> {
    let ring = IoUring::new(1)?;
    let buffer =
        libc::iovec { iov_base: pages.as_ptr().cast_mut().cast::<c_void>(), iov_len: size_of_val(&**pages) };
    // SAFETY: no request uses the registered buffer, and the pages stay mapped until they are pinned.
    unsafe { ring.submitter().register_buffers(&[buffer]) }?;
    // SAFETY: the ring's own file, which is open.
    let file = unsafe { BorrowedFd::borrow_raw(ring.as_raw_fd()) };
    Ok(fcntl_dupfd_cloexec(file, 0)?)
}

/// Physical addresses of a mapping's huge pages (`Documentation/admin-guide/mm/pagemap.rst`).
fn physical_addresses(mapping: &Pages) -> Result<Vec<u64>, PinError> {
    let pagemap = File::open("/proc/self/pagemap").map_err(system_error("opening /proc/self/pagemap"))?;
    let first = mapping.as_ptr().expose_provenance() as u64;
    let pages = size_of_val(&**mapping) / HUGE_BYTES;
    let place = |page: usize| {
        let mut entry = [0; 8];
        let at = (first + (page * HUGE_BYTES) as u64) / PAGE_BYTES * 8;
        pagemap.read_exact_at(&mut entry, at).map_err(system_error("reading /proc/self/pagemap"))?;
        physical_address(u64::from_ne_bytes(entry), pages)
    };
    (0..pages).map(place).collect()
}

/// The physical address in a pagemap entry.
fn physical_address(entry: u64, pages: usize) -> Result<u64, PinError> {
    let (is_there, number) = (entry >> 63 == 1, entry & ((1 << 55) - 1));
    match (is_there, number) {
        // A page not present: a cgroup's hugetlb limit shows like this.
        (false, _) => Err(PinError::TooFew { pages }),
        (true, 0) => Err(PinError::AddressesHidden),
        (true, number) => Ok(number * PAGE_BYTES),
    }
}

/// Indices of `wanted` physically contiguous pages, if there are so many.
fn find_contiguous(places: &[u64], wanted: usize) -> Option<Vec<usize>> {
    let mut sorted: Vec<(u64, usize)> = places.iter().copied().zip(0..).collect();
    sorted.sort_unstable();
    let follow = |pair: &[(u64, usize)]| pair[0].0.checked_add(HUGE_BYTES as u64) == Some(pair[1].0);
    let run = sorted.windows(wanted).find(|run| run.windows(2).all(follow))?;
    Some(run.iter().map(|(_, page)| *page).collect())
}

/// How memory is encrypted, from the CPU flags, CPUID 8000001Fh EAX, and the kernel command line.
fn encryption(cpuinfo: &str, secure: u32, command_line: &str) -> Option<&'static str> {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    let has = |flag: &str| flags.split_whitespace().any(|word| word == flag);
    let said = |setting: &str| command_line.split_whitespace().any(|word| word == setting);
    if has("tdx_guest") {
        return Some("TDX");
    }
    // The CPUID bits are also set on hosts of such guests. The flags in /proc/cpuinfo may be cleared by a guest's
    // kernel, so check both.
    if has("hypervisor") && secure & SEV != 0 {
        return Some("SEV");
    }
    // Since 5.18 Linux shows the flag only while it encrypts; before, on every CPU that could.
    (said("mem_encrypt=on") || has("sme") && !said("mem_encrypt=off"))
        .then_some("SME; mem_encrypt=off on the kernel command line turns it off")
}

/// SEV, SEV-ES and SEV-SNP (AMD64 Architecture Programmer's Manual 3, appendix E.4.17).
const SEV: u32 = 1 << 1 | 1 << 3 | 1 << 4;

/// CPUID leaf 0x8000001f, EAX: support for memory encryption; 0 if the CPU does not have the leaf.
#[cfg(target_arch = "x86_64")]
#[allow(unused_unsafe, reason = "in older releases of Rust `__cpuid` is an unsafe function")]
fn encryption_bits() -> u32 {
    use std::arch::x86_64::__cpuid;
    const LEAVES: u32 = 0x8000_0000;
    const ENCRYPTED_MEMORY: u32 = 0x8000_001f;
    // SAFETY: every CPU of this architecture has the instruction.
    let leaf = |number| unsafe { __cpuid(number) }.eax;
    if leaf(LEAVES) < ENCRYPTED_MEMORY { 0 } else { leaf(ENCRYPTED_MEMORY) }
}

/// Other architectures have no such CPUID leaf.
#[cfg(not(target_arch = "x86_64"))]
fn encryption_bits() -> u32 {
    0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const HUGE: u64 = HUGE_BYTES as u64;

    #[test]
    fn pages_side_by_side_are_found_in_any_order() {
        let places = [9, 3, 7, 8, 1, 2].map(|place| place * HUGE);
        assert_eq!(find_contiguous(&places, 1), Some(vec![4]));
        assert_eq!(find_contiguous(&places, 3), Some(vec![4, 5, 1]));
        assert_eq!(find_contiguous(&places, 4), None);
        assert_eq!(find_contiguous(&places, 7), None);
    }

    proptest! {
        #[test]
        fn a_run_follows_itself(places in prop::collection::btree_set(0_u64..30, 1..20), wanted in 1_usize..6) {
            let places: Vec<u64> = places.into_iter().map(|place| place * HUGE).rev().collect();
            let all: BTreeSet<u64> = places.iter().copied().collect();
            let is_there = all.iter().any(|first| (0..wanted as u64).all(|page| all.contains(&(first + page * HUGE))));
            let found = find_contiguous(&places, wanted);
            prop_assert_eq!(found.is_some(), is_there);
            for pair in found.unwrap_or_default().windows(2) {
                prop_assert_eq!(places[pair[0]] + HUGE, places[pair[1]]);
            }
        }
    }

    #[test]
    fn entries_say_where_a_page_is_or_that_they_may_not() {
        assert_eq!(physical_address(1 << 63 | 1 << 61 | 0x12_3456, 1).unwrap(), 0x1_2345_6000);
        assert!(matches!(physical_address(1 << 63, 1), Err(PinError::AddressesHidden)));
        assert!(matches!(physical_address(0x12_3456, 3), Err(PinError::TooFew { pages: 3 })));
    }

    #[test]
    fn encrypted_memory_is_known_by_its_signs() {
        let check = |flags: &str, secure: u32, command_line: &str, expected: Option<&str>| {
            let cpuinfo = format!("processor\t: 0\nflags\t\t: fpu {flags}\nbugs\t\t: tdx_guest\n");
            let found = encryption(&cpuinfo, secure, command_line);
            assert_eq!(found.map(|how| how.split(';').next().unwrap()), expected, "{flags} {command_line}");
        };
        check("sev sev_es", 0x1f, "quiet", None);
        check("hypervisor", 0, "", None);
        check("hypervisor", 1 << 1, "", Some("SEV"));
        check("hypervisor", 1 << 4, "", Some("SEV"));
        check("hypervisor tdx_guest", 0, "", Some("TDX"));
        check("sme", 1, "quiet", Some("SME"));
        check("sme", 1, "quiet mem_encrypt=off", None);
        check("", 1, "mem_encrypt=on", Some("SME"));
    }

    #[test]
    fn memory_that_can_not_be_pinned_is_refused() {
        for bytes in [0, BYTES_MAX + 1, u64::MAX] {
            assert!(matches!(
                pinned(bytes),
                Err(PinError::Size { .. }) | Err(PinError::OtherArchitecture | PinError::Encrypted(_))
            ));
        }
    }
}
