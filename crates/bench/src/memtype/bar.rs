//! An adapter's memory, mapped through sysfs.

#![allow(unsafe_code, reason = "memory of an adapter is mapped, and unmapped")]

use super::access::{LINE_BYTES, Line};
use super::result::AreaKind;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::ptr::{NonNull, null_mut};

/// More is not mapped: uncached accesses take a microsecond each, and how many there are changes nothing.
pub(super) const BYTES_MAX: u64 = 64 << 10;
/// Of a resource's flags (`include/linux/ioport.h`): it is memory.
const IORESOURCE_MEM: u64 = 0x200;
/// The command register in configuration space, and its bit by which the adapter answers to accesses of its memory.
const COMMAND: usize = 4;
const COMMAND_MEMORY: u8 = 1 << 1;

/// Why a BAR is not measured.
#[derive(Debug, thiserror::Error)]
pub enum BarError {
    /// It is not one.
    #[error(
        "{path}: expected resourceN or resourceN_wc of an adapter, as /sys/bus/pci/devices/0000:3b:00.0/resource0"
    )]
    Name {
        /// The file.
        path: PathBuf,
    },
    /// A file of the adapter can't be read or mapped.
    #[error("{path}{hint}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What would help.
        hint: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The adapter says of it what can't be.
    #[error("{path}: no line for BAR {bar}; expected first address, last address and flags")]
    Resource {
        /// The file that describes all BARs.
        path: PathBuf,
        /// Which.
        bar: usize,
    },
    /// It is not memory, or too little.
    #[error("{path}: {what}; expected memory of {LINE_BYTES} bytes or more")]
    NoMemory {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// The adapter does not answer.
    #[error("{path}: {why}: every load would give ones")]
    Asleep {
        /// The adapter.
        path: PathBuf,
        /// Why.
        why: &'static str,
    },
    /// A driver works with it.
    #[error("{path}: {driver} works with it; {advice}")]
    InUse {
        /// The adapter.
        path: PathBuf,
        /// The driver.
        driver: String,
        /// What to do.
        advice: &'static str,
    },
}

/// Lines of an adapter's memory, until it is dropped.
#[derive(Debug)]
pub(super) struct Bar {
    first: NonNull<Line>,
    lines: usize,
    pub(super) kind: AreaKind,
}

/// What is to be done with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    pub(super) stores: bool,
    pub(super) in_use: bool,
}

impl Bar {
    /// Maps it, if nothing speaks against that.
    pub(super) fn open(path: &Path, wish: Wish) -> Result<Self, BarError> {
        let (bar, kind) = named(path).ok_or_else(|| BarError::Name { path: path.to_owned() })?;
        let adapter = path.parent().unwrap_or(Path::new("."));
        let bytes = size(adapter, path, bar)?;
        answers(adapter)?;
        if let Some(driver) = driver(adapter) {
            let advice = if wish.stores {
                "unbind it: stores would write over what it keeps there"
            } else {
                "unbind it, or say --in-use: a load may change a register"
            };
            if wish.stores || !wish.in_use {
                return Err(BarError::InUse { path: adapter.to_owned(), driver, advice });
            }
        }
        Self::map(path, bytes.min(BYTES_MAX), kind, wish.stores)
    }

    fn map(path: &Path, bytes: u64, kind: AreaKind, stores: bool) -> Result<Self, BarError> {
        let failed = |source| BarError::Io { path: path.to_owned(), hint: hint(&source), source };
        let lines = bytes as usize / LINE_BYTES;
        let file: File = OpenOptions::new().read(true).write(stores).open(path).map_err(failed)?;
        let rights = if stores { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: the kernel chooses a place where nothing is.
        let first = unsafe { mmap(null_mut(), lines * LINE_BYTES, rights, MapFlags::SHARED, &file, 0) };
        let first = first.map_err(|source| failed(source.into()))?;
        let first = NonNull::new(first.cast()).ok_or_else(|| failed(io::ErrorKind::OutOfMemory.into()))?;
        Ok(Self { first, lines, kind })
    }
}

impl Deref for Bar {
    type Target = [Line];

    fn deref(&self) -> &[Line] {
        // SAFETY: so many lines were mapped there, aligned to a page, and stay until this is dropped. The adapter may change them at
        // any time, which atomic words allow for. Who stores to them has mapped them for that.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.lines) }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        // SAFETY: nobody borrows the lines any more.
        let _ = unsafe { munmap(self.first.as_ptr().cast(), self.lines * LINE_BYTES) };
    }
}

/// Which BAR a file is, and how it is mapped.
fn named(path: &Path) -> Option<(usize, AreaKind)> {
    let name = path.file_name().and_then(OsStr::to_str)?.strip_prefix("resource")?;
    let (digits, kind) = match name.strip_suffix("_wc") {
        Some(digits) => (digits, AreaKind::WriteCombining),
        None => (name, AreaKind::Uncached),
    };
    let is_bar = matches!(digits, "0" | "1" | "2" | "3" | "4" | "5");
    is_bar.then(|| digits.parse().ok())?.map(|bar| (bar, kind))
}

/// Of memory, by the line of the BAR in the adapter's file `resource`: first address, last address, flags.
fn size(adapter: &Path, path: &Path, bar: usize) -> Result<u64, BarError> {
    let table = adapter.join("resource");
    let text = fs::read_to_string(&table);
    let text = text.map_err(|source| BarError::Io { path: table.clone(), hint: hint(&source), source })?;
    let number = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    let line = text.lines().nth(bar).and_then(|line| line.split(' ').map(number).collect::<Option<Vec<_>>>());
    let Some(&[first, last, flags]) = line.as_deref() else {
        return Err(BarError::Resource { path: table, bar });
    };
    let nothing = |what| Err(BarError::NoMemory { path: path.to_owned(), what });
    if flags & IORESOURCE_MEM == 0 {
        return nothing(if flags == 0 { "there is no such BAR" } else { "it has I/O ports" });
    }
    // A mapping begins with the page that the BAR begins in, and with whatever else is there.
    if !first.is_multiple_of(rustix::param::page_size() as u64) {
        return nothing("it does not begin at a page, and what else is in its page would be reached");
    }
    match last.checked_sub(first).and_then(|bytes| bytes.checked_add(1)) {
        Some(bytes) if bytes >= LINE_BYTES as u64 => Ok(bytes),
        _ => nothing("it is smaller than a cache line"),
    }
}

/// Whether the adapter is awake and answers to its memory's addresses.
fn answers(adapter: &Path) -> Result<(), BarError> {
    let asleep = |why| Err(BarError::Asleep { path: adapter.to_owned(), why });
    let config = adapter.join("config");
    let bytes = fs::read(&config);
    let bytes = bytes.map_err(|source| BarError::Io { path: config, hint: hint(&source), source })?;
    if bytes.get(COMMAND).is_none_or(|command| command & COMMAND_MEMORY == 0) {
        return asleep("it does not decode memory addresses (root can write 1 to its file enable)");
    }
    // Kernels before 5.9 have no such file.
    match fs::read_to_string(adapter.join("power_state")) {
        Ok(state) if state.trim() != "D0" => asleep("it is asleep (its file power_state)"),
        _ => Ok(()),
    }
}

fn driver(adapter: &Path) -> Option<String> {
    let driver = fs::read_link(adapter.join("driver")).ok()?;
    Some(driver.file_name()?.to_string_lossy().into_owned())
}

fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => " (root may, unless the kernel is locked down)",
        io::ErrorKind::InvalidInput => " (the kernel keeps memory for itself that a driver has claimed)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOADS: Wish = Wish { stores: false, in_use: false };
    const STORES: Wish = Wish { stores: true, in_use: false };

    /// An adapter's folder: a BAR of memory, none, ports, a small one.
    fn adapter(command: u8) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
        write("config", &[0x86, 0x80, 0, 0, command, 0]);
        let resource = "0x00000000fe000000 0x00000000fe001fff 0x0000000000040200\n\
                        0x0000000000000000 0x0000000000000000 0x0000000000000000\n\
                        0x000000000000c000 0x000000000000c03f 0x0000000000040101\n\
                        0x00000000fe010000 0x00000000fe01000f 0x0000000000040200\n\
                        0x00000000fe011400 0x00000000fe0117ff 0x0000000000040200\nbad\n";
        write("resource", resource.as_bytes());
        for name in ["resource0", "resource0_wc", "resource1", "resource2", "resource3", "resource4"] {
            write(name, &[7; 0x2000]);
        }
        folder
    }

    fn error(folder: &tempfile::TempDir, name: &str, wish: Wish) -> String {
        Bar::open(&folder.path().join(name), wish).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn memory_is_mapped() {
        let folder = adapter(2);
        for (name, kind) in [("resource0", AreaKind::Uncached), ("resource0_wc", AreaKind::WriteCombining)] {
            let bar = Bar::open(&folder.path().join(name), STORES).unwrap();
            assert_eq!((bar.len() * LINE_BYTES, bar.kind), (0x2000, kind));
        }
    }

    #[test]
    fn what_is_no_memory_or_does_not_answer_is_refused() {
        let folder = adapter(2);
        for (name, words) in [
            ("resource", "expected resourceN"),
            ("resource6", "expected resourceN"),
            ("resource00", "expected resourceN"),
            ("config", "expected resourceN"),
            ("resource1", "there is no such BAR"),
            ("resource2", "it has I/O ports"),
            ("resource3", "smaller than a cache line"),
            ("resource4", "it does not begin at a page"),
            ("resource5", "no line for BAR 5"),
        ] {
            let said = error(&folder, name, LOADS);
            assert!(said.contains(words), "{name}: {said}");
        }
        assert!(error(&adapter(1), "resource0", LOADS).contains("does not decode"));
        fs::write(folder.path().join("power_state"), "D3hot\n").unwrap();
        assert!(error(&folder, "resource0", LOADS).contains("asleep"));
    }

    #[test]
    fn what_a_driver_works_with_is_refused() {
        let folder = adapter(2);
        std::os::unix::fs::symlink("../../drivers/e1000e", folder.path().join("driver")).unwrap();
        assert!(error(&folder, "resource0", LOADS).contains("e1000e works with it; unbind it, or say"));
        assert!(error(&folder, "resource0", Wish { in_use: true, ..STORES }).contains("write over"));
        assert!(Bar::open(&folder.path().join("resource0"), Wish { in_use: true, ..LOADS }).is_ok());
    }
}
