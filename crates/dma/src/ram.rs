//! Memory shared by adapters and processors: a model's, or this process's own.

use crate::{FRAME_BYTES, Memory, MemoryAddress};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a word.
const WORD: u64 = 8;
/// The same, as a length.
const WORD_BYTES: usize = WORD as usize;

/// The words of a table page, little-endian.
pub(crate) type TablePage = [AtomicU64; (FRAME_BYTES / WORD) as usize];

/// A contiguous memory that any thread or adapter may read and write. Words are read and written atomically; longer
/// accesses may be seen half done, as in a real machine.
pub struct Ram {
    base: MemoryAddress,
    words: Words,
    /// Keeps the memory pinned. Declared last, so that it is dropped after the memory.
    #[cfg(target_os = "linux")]
    pin: Option<crate::pinned::Pin>,
    /// Where reserved memory is physically.
    #[cfg(target_os = "linux")]
    physical: Option<u64>,
}

/// Shows the address range, not the content.
impl fmt::Debug for Ram {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Ram").field("base", &self.base).field("bytes", &self.bytes()).finish()
    }
}

/// Both variants are just a pointer and a length, so finding a word needs no branch on the variant. A third field in
/// one of them cost an NVMe command 12 instructions while each looked for its ring's words.
enum Words {
    /// A model's memory, at addresses that the model chooses.
    Modelled(Box<[AtomicU64]>),
    /// This process's pages: at their virtual addresses for VFIO, or at their physical ones if pinned.
    #[cfg(target_os = "linux")]
    Process(crate::pages::Pages),
}

impl std::ops::Deref for Words {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        match self {
            Self::Modelled(words) => words,
            #[cfg(target_os = "linux")]
            Self::Process(pages) => pages,
        }
    }
}

/// An access outside the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes at {at} are outside the memory")]
pub struct NoMemory {
    /// First address of the access.
    pub at: MemoryAddress,
    /// Length of the access.
    pub bytes: u64,
}

/// Byte order of a number in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteOrder {
    /// Least significant byte first: x86, Arm.
    Little,
    /// Most significant byte first: POWER's TCEs.
    Big,
}

impl Ram {
    /// Zeroed memory from `base`, a multiple of eight. `bytes` is rounded up to a multiple of eight.
    pub fn new(base: MemoryAddress, bytes: u64) -> Self {
        debug_assert!(base.0 % WORD == 0);
        let words = (0..bytes.div_ceil(WORD)).map(|_| AtomicU64::new(0)).collect();
        Self::of(base, Words::Modelled(words))
    }

    /// Memory of these words, from address `base` on.
    fn of(base: MemoryAddress, words: Words) -> Self {
        Self {
            base,
            words,
            #[cfg(target_os = "linux")]
            pin: None,
            #[cfg(target_os = "linux")]
            physical: None,
        }
    }

    /// At least `bytes` of zeroed pages of this process, at their virtual addresses, for real adapters. They are
    /// outside any allocator and never move.
    ///
    /// # Errors
    /// If the operating system has no memory.
    #[cfg(target_os = "linux")]
    pub fn of_this_process(bytes: u64) -> std::io::Result<Self> {
        Ok(Self::of_pages(crate::pages::Pages::new(bytes)?))
    }

    /// All of a memory file (`memfd_create(2)`), which other processes may map too, at its virtual addresses in this process. The file must be
    /// sealed against shrinking.
    ///
    /// # Errors
    /// [`InvalidInput`](std::io::ErrorKind::InvalidInput) for a file that is not sealed or has not whole pages; if the system does not map it.
    #[cfg(target_os = "linux")]
    pub fn of_file(file: std::os::fd::BorrowedFd<'_>) -> std::io::Result<Self> {
        Ok(Self::of_pages(crate::pages::Pages::of_file(file)?))
    }

    /// Pages at their virtual addresses.
    #[cfg(target_os = "linux")]
    fn of_pages(pages: crate::pages::Pages) -> Self {
        Self::of(MemoryAddress(pages.as_ptr().expose_provenance() as u64), Words::Process(pages))
    }

    /// At least `bytes` of zeroed, contiguous, pinned huge pages, at their physical addresses, for adapters without
    /// an IOMMU. x86-64 only; needs CAP_SYS_ADMIN to see physical addresses.
    ///
    /// # Errors
    /// [`PinError`](crate::PinError)
    #[cfg(target_os = "linux")]
    pub fn pinned(bytes: u64) -> Result<Self, crate::PinError> {
        let (pages, base, pin) = crate::pinned::pinned(bytes)?;
        Ok(Self { pin: Some(pin), ..Self::of(base, Words::Process(pages)) })
    }

    /// Physical memory that the kernel leaves alone, such as an area of `memmap=`, through `/dev/mem`, at its virtual addresses in
    /// this process. Both numbers are whole pages. Its content stays as it is. Needs root, and a kernel that is not locked down.
    ///
    /// # Errors
    /// If the kernel does not map it, as RAM that it uses itself (`CONFIG_STRICT_DEVMEM`).
    ///
    /// # Safety
    /// All of the range is RAM, and no register of a device. While this exists, nothing but it and adapters uses that memory: neither the
    /// kernel, nor firmware, nor another mapping. Without an IOMMU an adapter may still write after this is dropped, until it is reset:
    /// nobody uses the memory before that.
    #[cfg(target_os = "linux")]
    #[allow(unsafe_code, reason = "only the caller knows that nothing else uses the memory")]
    pub unsafe fn reserved(physical: u64, bytes: u64, caching: crate::PageCaching) -> std::io::Result<Self> {
        // SAFETY: the caller's promise.
        let pages = unsafe { crate::reserved::map(physical, bytes, caching) }?;
        Ok(Self { physical: Some(physical), ..Self::of_pages(pages) })
    }

    /// The physical address of [reserved](Self::reserved) memory.
    #[cfg(target_os = "linux")]
    pub fn physical(&self) -> Option<u64> {
        self.physical
    }

    /// The files that keep pinned memory allocated and in place while any process has them open; `None` if it is not
    /// pinned. When a process dies, its memory is freed before its adapters are reset, so another process should hold
    /// these.
    #[cfg(target_os = "linux")]
    pub fn pins(&self) -> Option<[std::os::fd::BorrowedFd<'_>; 2]> {
        self.pin.as_ref().map(crate::pinned::Pin::files)
    }

    /// Whether addresses in it are virtual addresses of this process: neither a model's, nor physical ones.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_at_virtual_addresses(&self) -> bool {
        matches!(self.words, Words::Process(_)) && self.pin.is_none()
    }

    /// Lowest address.
    pub fn base(&self) -> MemoryAddress {
        self.base
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.words.len() as u64 * WORD
    }

    /// Whether all of `bytes` from `at` are within the memory.
    pub fn holds(&self, at: MemoryAddress, bytes: u64) -> bool {
        let offset = at.0.checked_sub(self.base.0);
        offset.and_then(|offset| offset.checked_add(bytes)).is_some_and(|end| end <= self.bytes())
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// If a part is outside the memory; then `into` is unchanged.
    pub fn read(&self, at: MemoryAddress, into: &mut [u8]) -> Result<(), NoMemory> {
        let Access { first, whole, last } = self.access(at, into.len())?;
        let (into_first, into) = into.split_at_mut(first.as_ref().map_or(0, Part::bytes));
        let (into_whole, into_last) = into.split_at_mut(whole.len() * WORD_BYTES);
        if let Some(part) = first {
            part.read(into_first);
        }
        for (word, into) in whole.iter().zip(into_whole.chunks_exact_mut(WORD_BYTES)) {
            into.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        if let Some(part) = last {
            part.read(into_last);
        }
        Ok(())
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// If a part is outside the memory; then nothing is written.
    pub fn write(&self, at: MemoryAddress, from: &[u8]) -> Result<(), NoMemory> {
        let Access { first, whole, last } = self.access(at, from.len())?;
        let (from_first, from) = from.split_at(first.as_ref().map_or(0, Part::bytes));
        let (from_whole, from_last) = from.split_at(whole.len() * WORD_BYTES);
        if let Some(part) = first {
            part.write(from_first);
        }
        for (word, from) in whole.iter().zip(from_whole.chunks_exact(WORD_BYTES)) {
            let mut bytes = [0; WORD_BYTES];
            bytes.copy_from_slice(from);
            word.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        }
        if let Some(part) = last {
            part.write(from_last);
        }
        Ok(())
    }

    /// The `N` words from a multiple of eight, in the host's byte order (use `to_le`). For data accessed so often
    /// that each access must be a single load or store.
    ///
    /// # Errors
    /// If a part is outside the memory, or `at` is not a multiple of eight.
    #[inline]
    pub fn words_at<const N: usize>(&self, at: MemoryAddress) -> Result<&[AtomicU64; N], NoMemory> {
        let none = NoMemory { at, bytes: N as u64 * WORD };
        self.words_beginning(at).and_then(<[AtomicU64]>::first_chunk).ok_or(none)
    }

    /// `count` words from a multiple of eight.
    pub(crate) fn words_from(&self, at: MemoryAddress, count: usize) -> Result<&[AtomicU64], NoMemory> {
        let none = NoMemory { at, bytes: (count as u64).saturating_mul(WORD) };
        self.words_beginning(at).and_then(|words| words.get(..count)).ok_or(none)
    }

    /// All words from a multiple of eight on; `None` if it is none or outside the memory.
    #[inline]
    fn words_beginning(&self, at: MemoryAddress) -> Option<&[AtomicU64]> {
        // Below the base the subtraction wraps to an offset beyond the end.
        let offset = at.0.wrapping_sub(self.base.0);
        let first = usize::try_from(offset / WORD).ok().filter(|_| offset % WORD == 0)?;
        self.words.get(first..)
    }

    /// Reads a 64-bit number at a multiple of eight.
    ///
    /// # Errors
    /// If it is outside the memory, or `at` is not a multiple of eight.
    pub fn read_u64(&self, at: MemoryAddress, order: ByteOrder) -> Result<u64, NoMemory> {
        let value = self.word(at)?.load(Ordering::Acquire);
        Ok(ordered(value, order))
    }

    /// Writes a 64-bit number atomically, after everything written before.
    ///
    /// # Errors
    /// As for [`read_u64`](Self::read_u64).
    pub fn write_u64(&self, at: MemoryAddress, order: ByteOrder, value: u64) -> Result<(), NoMemory> {
        self.word(at)?.store(ordered(value, order), Ordering::Release);
        Ok(())
    }

    /// The words of a table page, which begins at a multiple of its size.
    pub(crate) fn table_page(&self, at: MemoryAddress) -> Result<&TablePage, NoMemory> {
        if at.0 % FRAME_BYTES != 0 {
            return Err(NoMemory { at, bytes: FRAME_BYTES });
        }
        self.words_at(at)
    }

    /// The 64-bit word at an address.
    #[inline]
    fn word(&self, at: MemoryAddress) -> Result<&AtomicU64, NoMemory> {
        self.words_at::<1>(at).map(|[word]| word)
    }

    /// `bytes` as a length, if it is at most the memory's size.
    fn length(&self, at: MemoryAddress, bytes: u64) -> Result<usize, NoMemory> {
        if bytes <= self.bytes() { Ok(bytes as usize) } else { Err(NoMemory { at, bytes }) }
    }

    /// The words that an access touches.
    fn words(&self, at: MemoryAddress, bytes: usize) -> Result<&[AtomicU64], NoMemory> {
        let none = NoMemory { at, bytes: bytes as u64 };
        let offset = at.0.checked_sub(self.base.0).ok_or(none)?;
        let end = offset.checked_add(bytes as u64).filter(|end| *end <= self.bytes()).ok_or(none)?;
        Ok(&self.words[(offset / WORD) as usize..end.div_ceil(WORD).max(offset / WORD) as usize])
    }

    /// An access of so many bytes, in words.
    #[inline]
    fn access(&self, at: MemoryAddress, bytes: usize) -> Result<Access<'_>, NoMemory> {
        let words = self.words(at, bytes)?;
        let within = (at.0.wrapping_sub(self.base.0) % WORD) as usize;
        let in_first = if within == 0 { 0 } else { bytes.min(WORD_BYTES - within) };
        let (first, words) = words.split_at(usize::from(in_first > 0));
        let (in_whole, in_last) = ((bytes - in_first) / WORD_BYTES, (bytes - in_first) % WORD_BYTES);
        let (whole, last) = words.split_at(in_whole);
        let first = first.first().map(|word| Part { word, bytes: within..within + in_first });
        let last = last.first().map(|word| Part { word, bytes: 0..in_last });
        Ok(Access { first, whole, last })
    }
}

/// An access: a part of a word, whole words, and a part of a word. Whole words have a loop of their own, which takes 3 instructions
/// a word.
struct Access<'a> {
    first: Option<Part<'a>>,
    whole: &'a [AtomicU64],
    last: Option<Part<'a>>,
}

/// The bytes of a word that an access touches.
struct Part<'a> {
    word: &'a AtomicU64,
    bytes: std::ops::Range<usize>,
}

impl Part<'_> {
    /// How many bytes it has.
    fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Reads it into as many bytes.
    fn read(self, into: &mut [u8]) {
        into.copy_from_slice(&self.word.load(Ordering::Relaxed).to_le_bytes()[self.bytes]);
    }

    /// Writes it from as many bytes.
    fn write(self, from: &[u8]) {
        let change = |old: u64| {
            let mut value = old.to_le_bytes();
            value[self.bytes.clone()].copy_from_slice(from);
            Some(u64::from_le_bytes(value))
        };
        // Other bytes of the word may belong to another thread, so exchange atomically.
        let _ = self.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
    }
}

impl Memory for Ram {
    fn copy(&self, from: MemoryAddress, to: MemoryAddress, bytes: u64) -> Result<(), NoMemory> {
        let length = self.length(from, bytes)?;
        if (from.0 | to.0 | bytes) % WORD == 0 {
            // Check both ranges before anything is written.
            let (from, to) = (self.words(from, length)?, self.words(to, length)?);
            for (from, to) in from.iter().zip(to) {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            return Ok(());
        }
        let mut between = vec![0; length];
        self.read(from, &mut between)?;
        self.write(to, &between)
    }

    fn zero(&self, at: MemoryAddress, bytes: u64) -> Result<(), NoMemory> {
        self.write(at, &vec![0; self.length(at, bytes)?])
    }
}

/// The value as stored, given that words are kept little-endian.
fn ordered(value: u64, order: ByteOrder) -> u64 {
    match order {
        ByteOrder::Little => value,
        ByteOrder::Big => value.swap_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BASE: MemoryAddress = MemoryAddress(0x1000);

    proptest! {
        #[test]
        fn bytes_come_back(writes in prop::collection::vec((0_u64..80, prop::collection::vec(any::<u8>(), 0..24)), 0..20)) {
            let (ram, mut model) = (Ram::new(BASE, 64), [0_u8; 64]);
            for (offset, bytes) in writes {
                let end = offset as usize + bytes.len();
                let written = ram.write(MemoryAddress(BASE.0 + offset), &bytes);
                prop_assert_eq!(written.is_ok(), end <= 64);
                if end <= 64 {
                    model[offset as usize..end].copy_from_slice(&bytes);
                }
                for (from, to) in [(0, 64), (offset.min(63) as usize, 64), (3, 4), (7, 9)] {
                    let mut seen = vec![0; to - from];
                    ram.read(MemoryAddress(BASE.0 + from as u64), &mut seen).unwrap();
                    prop_assert_eq!(&seen, &model[from..to]);
                }
            }
        }
    }

    #[test]
    fn numbers_lie_in_their_order() {
        let ram = Ram::new(BASE, 16);
        ram.write_u64(BASE, ByteOrder::Big, 0x0102).unwrap();
        ram.write_u64(MemoryAddress(0x1008), ByteOrder::Little, 0x0102).unwrap();
        let mut bytes = [0; 16];
        ram.read(BASE, &mut bytes).unwrap();
        assert_eq!(bytes, [0, 0, 0, 0, 0, 0, 1, 2, 2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(ram.read_u64(BASE, ByteOrder::Big), Ok(0x0102));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn processes_share_a_sealed_file() {
        use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
        use rustix::param::page_size;
        use std::os::fd::AsFd;

        let file = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        let refused = |bytes: usize| {
            ftruncate(&file, bytes as u64).unwrap();
            Ram::of_file(file.as_fd()).unwrap_err().kind() == std::io::ErrorKind::InvalidInput
        };
        assert!(refused(2 * page_size()), "it could be cut off");
        fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
        assert!(refused(2 * page_size() + 8));
        let [one, other] = {
            ftruncate(&file, 3 * page_size() as u64).unwrap();
            [(); 2].map(|()| Ram::of_file(file.as_fd()).unwrap())
        };
        assert_eq!(one.bytes(), 3 * page_size() as u64);
        one.write_u64(MemoryAddress(one.base().0 + 4096), ByteOrder::Little, 7).unwrap();
        assert_eq!(other.read_u64(MemoryAddress(other.base().0 + 4096), ByteOrder::Little), Ok(7));
        let empty = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        fcntl_add_seals(&empty, SealFlags::SHRINK).unwrap();
        assert!(Ram::of_file(empty.as_fd()).is_err());
        let pipe = std::io::pipe().unwrap().0;
        assert!(Ram::of_file(pipe.as_fd()).is_err());
    }

    #[test]
    fn nothing_is_beyond() {
        let ram = Ram::new(BASE, 16);
        let none = |at: u64| Err(NoMemory { at: MemoryAddress(at), bytes: 8 });
        for at in [0, 0xff8, 0x1010, 0x1004, u64::MAX - 7] {
            assert_eq!(ram.read_u64(MemoryAddress(at), ByteOrder::Little), none(at));
        }
        assert!(ram.read(MemoryAddress(0xfff), &mut [0; 2]).is_err());
        assert!(ram.read(MemoryAddress(u64::MAX), &mut [0; 2]).is_err());
        assert!(ram.read(MemoryAddress(0x1010), &mut []).is_ok());
    }
}
