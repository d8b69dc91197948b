//! Huge pages side by side that stay where they are, for adapters that nothing translates for.
//!
//! Locked memory (`mlock`) does not: the kernel moves it when it makes room for larger pages. Pages that a driver of the kernel has
//! pinned for long stay (`Documentation/core-api/pin_user_pages.rst`), and io_uring pins the buffers that are registered with it.

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
/// How many pages are taken for a start, as multiples of what is wanted: free ones need not lie side by side.
const TRIES: [usize; 5] = [1, 2, 4, 8, 16];
/// io_uring takes no larger buffer (`io_uring/rsrc.c`).
const BYTES_MAX: u64 = 1 << 30;

/// Why there is no memory for an adapter that nothing translates for.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// Another architecture may have its memory elsewhere for adapters.
    #[error("only on x86-64 are an adapter's addresses known to be those of memory")]
    OtherArchitecture,
    /// What the adapter reads and writes is not what the CPU does.
    #[error("memory is encrypted here ({0}), which an adapter that nothing translates for knows nothing of")]
    Encrypted(&'static str),
    /// More than can be pinned at once, or nothing.
    #[error("{bytes} bytes of pinned memory; expected 1 to {BYTES_MAX}")]
    Size {
        /// That were asked for.
        bytes: u64,
    },
    /// There are too few huge pages.
    #[error("no {pages} huge pages of 2 MiB are free; `sysctl vm.nr_hugepages=N` makes more")]
    TooFew {
        /// That are needed.
        pages: usize,
    },
    /// There are enough, but here and there.
    #[error(
        "no {pages} free huge pages of 2 MiB lie side by side; pages made at boot do (hugepages=N on the kernel's command line)"
    )]
    Scattered {
        /// That are needed.
        pages: usize,
    },
    /// The kernel does not say where a page lies.
    #[error("this process is not told where its pages lie, for which it needs CAP_SYS_ADMIN")]
    NotTold,
    /// The kernel does not pin.
    #[error("the memory can't be pinned by io_uring (see kernel.io_uring_disabled)")]
    Unpinned(#[source] io::Error),
    /// Something else of the operating system's.
    #[error("{what} failed")]
    System {
        /// What.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> PinError {
    move |source| PinError::System { what, source: source.into() }
}

/// What keeps pages in their place, as long as somebody has it.
#[derive(Debug)]
pub(crate) struct Pin {
    /// The pages' own file, and the ring that has pinned them.
    files: [OwnedFd; 2],
}

impl Pin {
    pub(crate) fn files(&self) -> [BorrowedFd<'_>; 2] {
        self.files.each_ref().map(AsFd::as_fd)
    }
}

/// At least `bytes`, where they begin in memory, and what keeps them there.
pub(crate) fn pinned(bytes: u64) -> Result<(Pages, MemoryAddress, Pin), PinError> {
    if !cfg!(target_arch = "x86_64") {
        return Err(PinError::OtherArchitecture);
    }
    let words = |file: &str| read_to_string(file).map_err(system("reading what the machine is"));
    if let Some(how) = encryption(&words("/proc/cpuinfo")?, secure(), &words("/proc/cmdline")?) {
        return Err(PinError::Encrypted(how));
    }
    if !(1..=BYTES_MAX).contains(&bytes) {
        return Err(PinError::Size { bytes });
    }
    let wanted = (bytes as usize).div_ceil(HUGE_BYTES);
    for times in TRIES {
        match Huge::new(wanted * times) {
            Ok(huge) => {
                if let Some(run) = run(&huge.places()?, wanted) {
                    return huge.keep(&run);
                }
            }
            Err(Errno::NOMEM) if times == 1 => return Err(PinError::TooFew { pages: wanted }),
            Err(Errno::NOMEM) => break,
            Err(error) => return Err(system("taking huge pages")(error)),
        }
    }
    Err(PinError::Scattered { pages: wanted })
}

/// Huge pages in a file of their own, all mapped.
struct Huge {
    file: OwnedFd,
    mapping: Pages,
}

impl Huge {
    fn new(pages: usize) -> Result<Self, Errno> {
        let file = memfd_create("pinned", MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB)?;
        let bytes = pages * HUGE_BYTES;
        ftruncate(&file, bytes as u64)?;
        // SAFETY: the kernel chooses a place where nothing is.
        let first = unsafe { mmap(null_mut(), bytes, RIGHTS, SHARED, &file, 0) }?;
        let mapping = Pages::at(first, bytes).ok_or(Errno::NOMEM)?;
        Ok(Self { file, mapping })
    }

    /// Where each of the pages lies in memory.
    fn places(&self) -> Result<Vec<u64>, PinError> {
        places(&self.mapping)
    }

    /// Maps some of the pages one after the other, pins them, and frees the others.
    fn keep(self, run: &[usize]) -> Result<(Pages, MemoryAddress, Pin), PinError> {
        let pages = self.mapping.len() * size_of::<u64>() / HUGE_BYTES;
        for page in (0..pages).filter(|page| !run.contains(page)) {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(&self.file, hole, (page * HUGE_BYTES) as u64, HUGE_BYTES as u64)
                .map_err(system("freeing huge pages"))?;
        }
        let kept = in_order(&self.file, run).map_err(system("mapping huge pages"))?;
        drop(self.mapping);
        let ring = pin(&kept).map_err(PinError::Unpinned)?;
        // Only from now on do they stay: to be pinned, a page may have been moved.
        let places = places(&kept)?;
        let follow = |pair: &[u64]| pair[0] + HUGE_BYTES as u64 == pair[1];
        let first = places.first().filter(|_| places.windows(2).all(follow));
        let first = MemoryAddress(*first.ok_or(PinError::Scattered { pages: run.len() })?);
        Ok((kept, first, Pin { files: [self.file, ring] }))
    }
}

const RIGHTS: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);
/// A page that can't be had is then missing, and not an error at its first access.
const SHARED: MapFlags = MapFlags::SHARED.union(MapFlags::POPULATE);

/// The file's pages of these numbers, side by side.
fn in_order(file: &OwnedFd, run: &[usize]) -> Result<Pages, Errno> {
    let bytes = run.len() * HUGE_BYTES;
    // Room in which a multiple of their size is found.
    // SAFETY: the kernel chooses a place where nothing is.
    let room =
        unsafe { mmap_anonymous(null_mut(), bytes + HUGE_BYTES, ProtFlags::empty(), MapFlags::PRIVATE) }?;
    let before = room.align_offset(HUGE_BYTES);
    let first = room.wrapping_byte_add(before);
    let (end, behind) = (first.wrapping_byte_add(bytes), HUGE_BYTES - before);
    for (from, bytes) in [(room, before), (end, behind)].into_iter().filter(|(_, bytes)| *bytes > 0) {
        // SAFETY: parts of what was just mapped, which nobody uses.
        unsafe { munmap(from, bytes) }?;
    }
    let pages = Pages::at(first, bytes).ok_or(Errno::NOMEM)?;
    for (place, page) in run.iter().enumerate() {
        let at = first.wrapping_byte_add(place * HUGE_BYTES);
        let offset = (page * HUGE_BYTES) as u64;
        // SAFETY: that part of the room, which nobody uses, is given back for it.
        unsafe { mmap(at, HUGE_BYTES, RIGHTS, SHARED | MapFlags::FIXED, file, offset) }?;
    }
    Ok(pages)
}

/// Has the kernel pin pages. They stay pinned as long as anybody has what is returned.
fn pin(pages: &Pages) -> io::Result<OwnedFd> {
    let ring = IoUring::new(1)?;
    let buffer =
        libc::iovec { iov_base: pages.as_ptr().cast_mut().cast::<c_void>(), iov_len: size_of_val(&**pages) };
    // SAFETY: no request ever names the buffer. The pages are mapped until after the ring has taken hold of them.
    unsafe { ring.submitter().register_buffers(&[buffer]) }?;
    // SAFETY: the ring's own file, which is open.
    let file = unsafe { BorrowedFd::borrow_raw(ring.as_raw_fd()) };
    Ok(fcntl_dupfd_cloexec(file, 0)?)
}

/// Where each huge page of a mapping lies in memory (`Documentation/admin-guide/mm/pagemap.rst`).
fn places(mapping: &Pages) -> Result<Vec<u64>, PinError> {
    let pagemap = File::open("/proc/self/pagemap").map_err(system("opening /proc/self/pagemap"))?;
    let first = mapping.as_ptr().expose_provenance() as u64;
    let pages = size_of_val(&**mapping) / HUGE_BYTES;
    let place = |page: usize| {
        let mut entry = [0; 8];
        let at = (first + (page * HUGE_BYTES) as u64) / PAGE_BYTES * 8;
        pagemap.read_exact_at(&mut entry, at).map_err(system("reading /proc/self/pagemap"))?;
        frame(u64::from_ne_bytes(entry), pages)
    };
    (0..pages).map(place).collect()
}

/// The address in an entry.
fn frame(entry: u64, pages: usize) -> Result<u64, PinError> {
    let (is_there, number) = (entry >> 63 == 1, entry & ((1 << 55) - 1));
    match (is_there, number) {
        // A limit of a control group is told so.
        (false, _) => Err(PinError::TooFew { pages }),
        (true, 0) => Err(PinError::NotTold),
        (true, number) => Ok(number * PAGE_BYTES),
    }
}

/// Numbers of pages of which each lies behind the one before, as many as are wanted.
fn run(places: &[u64], wanted: usize) -> Option<Vec<usize>> {
    let mut sorted: Vec<(u64, usize)> = places.iter().copied().zip(0..).collect();
    sorted.sort_unstable();
    let follow = |pair: &[(u64, usize)]| pair[0].0.checked_add(HUGE_BYTES as u64) == Some(pair[1].0);
    let run = sorted.windows(wanted).find(|run| run.windows(2).all(follow))?;
    Some(run.iter().map(|(_, page)| *page).collect())
}

/// How memory is encrypted, by the CPU's flags, what it says of encryption (`CPUID` 8000001Fh, EAX), and the kernel's command line.
fn encryption(cpuinfo: &str, secure: u32, command_line: &str) -> Option<&'static str> {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    let has = |flag: &str| flags.split_whitespace().any(|word| word == flag);
    let said = |setting: &str| command_line.split_whitespace().any(|word| word == setting);
    if has("tdx_guest") {
        return Some("TDX");
    }
    // Hosts of such guests have these too. The kernel's own flags a guest's kernel may have cleared.
    if has("hypervisor") && secure & SEV != 0 {
        return Some("SEV");
    }
    // Linux has the flag since 5.18 only while it encrypts; before, on all that could.
    (said("mem_encrypt=on") || has("sme") && !said("mem_encrypt=off"))
        .then_some("SME; mem_encrypt=off on the kernel's command line says that it is not")
}

/// SEV, SEV-ES and SEV-SNP (AMD64 Architecture Programmer's Manual 3, appendix E.4.17).
const SEV: u32 = 1 << 1 | 1 << 3 | 1 << 4;

#[cfg(target_arch = "x86_64")]
fn secure() -> u32 {
    use std::arch::x86_64::__cpuid;
    const LEAVES: u32 = 0x8000_0000;
    const ENCRYPTED_MEMORY: u32 = 0x8000_001f;
    if __cpuid(LEAVES).eax < ENCRYPTED_MEMORY { 0 } else { __cpuid(ENCRYPTED_MEMORY).eax }
}

#[cfg(not(target_arch = "x86_64"))]
fn secure() -> u32 {
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
        assert_eq!(run(&places, 1), Some(vec![4]));
        assert_eq!(run(&places, 3), Some(vec![4, 5, 1]));
        assert_eq!(run(&places, 4), None);
        assert_eq!(run(&places, 7), None);
    }

    proptest! {
        #[test]
        fn a_run_follows_itself(places in prop::collection::btree_set(0_u64..30, 1..20), wanted in 1_usize..6) {
            let places: Vec<u64> = places.into_iter().map(|place| place * HUGE).rev().collect();
            let all: BTreeSet<u64> = places.iter().copied().collect();
            let is_there = all.iter().any(|first| (0..wanted as u64).all(|page| all.contains(&(first + page * HUGE))));
            let found = run(&places, wanted);
            prop_assert_eq!(found.is_some(), is_there);
            for pair in found.unwrap_or_default().windows(2) {
                prop_assert_eq!(places[pair[0]] + HUGE, places[pair[1]]);
            }
        }
    }

    #[test]
    fn entries_say_where_a_page_is_or_that_they_may_not() {
        assert_eq!(frame(1 << 63 | 1 << 61 | 0x12_3456, 1).unwrap(), 0x1_2345_6000);
        assert!(matches!(frame(1 << 63, 1), Err(PinError::NotTold)));
        assert!(matches!(frame(0x12_3456, 3), Err(PinError::TooFew { pages: 3 })));
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
    fn what_can_not_be_pinned_is_refused() {
        for bytes in [0, BYTES_MAX + 1, u64::MAX] {
            assert!(matches!(
                pinned(bytes),
                Err(PinError::Size { .. }) | Err(PinError::OtherArchitecture | PinError::Encrypted(_))
            ));
        }
    }
}
