//! Maps an adapter's BAR through sysfs.

#![allow(unsafe_code, reason = "mmap and munmap of an adapter's memory")]

use super::line::{LINE_BYTES, Line};
use super::result::AreaKind;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::ptr::{NonNull, null_mut};

/// Bytes of a BAR that are mapped at most. Uncached accesses take a microsecond each, and their time does not depend on
/// the size.
pub(super) const BYTES_MAX: u64 = 64 << 10;
/// Flag of a resource that is memory (`include/linux/ioport.h`).
const IORESOURCE_MEM: u64 = 0x200;
/// Offset of the command register in configuration space, and its bit Memory Space Enable.
const COMMAND: usize = 4;
const COMMAND_MEMORY: u8 = 1 << 1;

/// Why a BAR can't be measured.
#[derive(Debug, thiserror::Error)]
pub enum BarError {
    /// The file is not a BAR.
    #[error(
        "{path} is not a BAR; expected resourceN or resourceN_wc of an adapter, as /sys/bus/pci/devices/0000:3b:00.0/resource0"
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
        /// A known reason for this kind of error.
        hint: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
    /// The adapter's file `resource` has no valid line for the BAR.
    #[error("{path}: no line for BAR {bar}; expected first address, last address and flags")]
    Resource {
        /// The file that describes all BARs.
        path: PathBuf,
        /// The BAR's number.
        bar: usize,
    },
    /// The BAR is not memory, too small or not aligned to a page.
    #[error("{path}: {what}; expected memory of {LINE_BYTES} bytes or more")]
    NoMemory {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The adapter does not respond to memory accesses.
    #[error("{path}: {why}; every load would return all ones")]
    Asleep {
        /// The adapter.
        path: PathBuf,
        /// The reason.
        why: &'static str,
    },
    /// A driver is bound to the adapter.
    #[error("{path} is bound to the driver {driver}; {advice}")]
    InUse {
        /// The adapter.
        path: PathBuf,
        /// The driver.
        driver: String,
        /// What to do.
        advice: &'static str,
    },
}

/// The mapped lines of a BAR, which are unmapped when it is dropped.
#[derive(Debug)]
pub(super) struct Bar {
    first: NonNull<Line>,
    lines: usize,
    pub(super) kind: AreaKind,
}

/// What the user allows.
#[derive(Debug, Clone, Copy)]
pub(super) struct BarOptions {
    /// Stores to the BAR.
    pub(super) stores: bool,
    /// Loads although a driver is bound.
    pub(super) in_use: bool,
}

impl Bar {
    /// Maps the BAR of a file `resourceN` or `resourceN_wc`, if the adapter responds and is not in use.
    pub(super) fn open(path: &Path, options: BarOptions) -> Result<Self, BarError> {
        let (bar, kind) = parse_file_name(path).ok_or_else(|| BarError::Name { path: path.to_owned() })?;
        let adapter = path.parent().unwrap_or(Path::new("."));
        let bytes = bar_bytes(adapter, path, bar)?;
        check_responds(adapter)?;
        if let Some(driver) = bound_driver(adapter) {
            let advice = if options.stores {
                "unbind it: stores would overwrite the driver's data"
            } else {
                "unbind it, or add --in-use: a load may change a register"
            };
            if options.stores || !options.in_use {
                return Err(BarError::InUse { path: adapter.to_owned(), driver, advice });
            }
        }
        Self::map(path, bytes.min(BYTES_MAX), kind, options.stores)
    }

    /// Maps `bytes` of the file, writable if `stores`.
    fn map(path: &Path, bytes: u64, kind: AreaKind, stores: bool) -> Result<Self, BarError> {
        let failed = |source| BarError::Io { path: path.to_owned(), hint: hint(&source), source };
        let lines = bytes as usize / LINE_BYTES;
        let file: File = OpenOptions::new().read(true).write(stores).open(path).map_err(failed)?;
        let rights = if stores { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: the kernel chooses an unused address.
        let first = unsafe { mmap(null_mut(), lines * LINE_BYTES, rights, MapFlags::SHARED, &file, 0) };
        let first = first.map_err(|source| failed(source.into()))?;
        let first = NonNull::new(first.cast()).ok_or_else(|| failed(io::ErrorKind::OutOfMemory.into()))?;
        Ok(Self { first, lines, kind })
    }
}

impl Deref for Bar {
    type Target = [Line];

    fn deref(&self) -> &[Line] {
        // SAFETY: this many lines are mapped there, aligned to a page, until `self` is dropped. The adapter may change them
        // at any time, so they are atomic. Stores are made only if the mapping is writable.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.lines) }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        // SAFETY: no borrow of the lines is left.
        let _ = unsafe { munmap(self.first.as_ptr().cast(), self.lines * LINE_BYTES) };
    }
}

/// The number of the BAR that a file name stands for, and how the kernel maps it.
fn parse_file_name(path: &Path) -> Option<(usize, AreaKind)> {
    let name = path.file_name().and_then(OsStr::to_str)?.strip_prefix("resource")?;
    let (digits, kind) = match name.strip_suffix("_wc") {
        Some(digits) => (digits, AreaKind::WriteCombining),
        None => (name, AreaKind::Uncached),
    };
    let is_bar = matches!(digits, "0" | "1" | "2" | "3" | "4" | "5");
    is_bar.then(|| digits.parse().ok())?.map(|bar| (bar, kind))
}

/// The size of a memory BAR, from its line in the adapter's file `resource`: first address, last address, flags.
fn bar_bytes(adapter: &Path, path: &Path, bar: usize) -> Result<u64, BarError> {
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
    // The kernel maps from the begin of the page that the BAR begins in.
    if !first.is_multiple_of(rustix::param::page_size() as u64) {
        return nothing("it does not begin at a page, so other registers in its page would be mapped");
    }
    match last.checked_sub(first).and_then(|bytes| bytes.checked_add(1)) {
        Some(bytes) if bytes >= LINE_BYTES as u64 => Ok(bytes),
        _ => nothing("it is smaller than a cache line"),
    }
}

/// Checks that the adapter is powered on and decodes accesses to its memory.
fn check_responds(adapter: &Path) -> Result<(), BarError> {
    let asleep = |why| Err(BarError::Asleep { path: adapter.to_owned(), why });
    let config = adapter.join("config");
    let bytes = fs::read(&config);
    let bytes = bytes.map_err(|source| BarError::Io { path: config, hint: hint(&source), source })?;
    if bytes.get(COMMAND).is_none_or(|command| command & COMMAND_MEMORY == 0) {
        return asleep("it does not decode memory addresses (root can write 1 to its file enable)");
    }
    // Kernels before 5.9 have no file power_state.
    match fs::read_to_string(adapter.join("power_state")) {
        Ok(state) if state.trim() != "D0" => asleep("it is in a low-power state (file power_state)"),
        _ => Ok(()),
    }
}

/// The name of the driver that is bound to an adapter.
fn bound_driver(adapter: &Path) -> Option<String> {
    let driver = fs::read_link(adapter.join("driver")).ok()?;
    Some(driver.file_name()?.to_string_lossy().into_owned())
}

/// A known reason for an I/O error, or nothing.
fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => " (root may, unless the kernel is locked down)",
        io::ErrorKind::InvalidInput => " (the kernel does not map memory that a driver has claimed)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOADS: BarOptions = BarOptions { stores: false, in_use: false };
    const STORES: BarOptions = BarOptions { stores: true, in_use: false };

    /// A made-up sysfs folder of an adapter: BAR 0 is memory, 1 is absent, 2 is I/O ports, 3 is too small, 4 is not
    /// aligned to a page and 5 has an invalid line.
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

    fn error(folder: &tempfile::TempDir, name: &str, options: BarOptions) -> String {
        Bar::open(&folder.path().join(name), options).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn a_memory_bar_is_mapped() {
        let folder = adapter(2);
        for (name, kind) in [("resource0", AreaKind::Uncached), ("resource0_wc", AreaKind::WriteCombining)] {
            let bar = Bar::open(&folder.path().join(name), STORES).unwrap();
            assert_eq!((bar.len() * LINE_BYTES, bar.kind), (0x2000, kind));
        }
    }

    #[test]
    fn bars_that_are_not_memory_or_do_not_respond_are_refused() {
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
            let error = error(&folder, name, LOADS);
            assert!(error.contains(words), "{name}: {error}");
        }
        assert!(error(&adapter(1), "resource0", LOADS).contains("does not decode"));
        fs::write(folder.path().join("power_state"), "D3hot\n").unwrap();
        assert!(error(&folder, "resource0", LOADS).contains("low-power state"));
    }

    #[test]
    fn the_bar_of_a_bound_adapter_is_refused() {
        let folder = adapter(2);
        std::os::unix::fs::symlink("../../drivers/e1000e", folder.path().join("driver")).unwrap();
        assert!(error(&folder, "resource0", LOADS).contains("bound to the driver e1000e; unbind it, or add"));
        assert!(error(&folder, "resource0", BarOptions { in_use: true, ..STORES }).contains("overwrite"));
        assert!(Bar::open(&folder.path().join("resource0"), BarOptions { in_use: true, ..LOADS }).is_ok());
    }
}
