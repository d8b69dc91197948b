//! A namespace of controllers that this process drives: one, or several that are paths to it.

use crate::BLOCK_BYTES;
use crate::errno::explain;
use dma::vfio::Interface;
use nvme::chunk::{Chunk, ChunkError, Drive, Paths, RetryPolicy, Waiting};
use nvme::emulated::Machine;
use nvme::{Adapter, Controller, Namespace};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Begins the path of an emulated controller: `emulated:BLOCKS`, or `emulated:BLOCKSxPATHS` for several to one disk.
const EMULATED: &str = "emulated:";
/// Most emulated controllers of a disk.
const EMULATED_PATHS_MAX: usize = 4;
/// Most bytes of one request. Longer commands consist of several.
const REQUEST_BYTES: u64 = 32 << 10;
/// Memory for the queues and buffers of a controller.
const CONTROLLER_BYTES: u64 = 64 << 20;
/// A queue has at most so many requests at once.
const REQUESTS_MAX: u16 = 128;

/// A namespace, and the controllers that lead to it.
#[derive(Debug)]
pub(crate) struct Driven {
    /// Its path as the caller gave it.
    name: String,
    /// One or more.
    paths: Vec<(Driver, Namespace)>,
    /// Has no content: its locks say which parts of the disk virtual LUNs have.
    locks: File,
}

#[derive(Debug)]
enum Driver {
    Adapter(Adapter),
    Emulated(Arc<Mutex<Controller>>),
}

impl Driver {
    fn controller(&self) -> Arc<Mutex<Controller>> {
        match self {
            Self::Adapter(adapter) => adapter.controller(),
            Self::Emulated(controller) => Arc::clone(controller),
        }
    }
}

/// What a path names that is no file.
enum Name<'a> {
    /// PCI addresses, and the number of a namespace.
    Adapters(Vec<&'a str>, Option<u32>),
    /// Blocks and paths; `None` for numbers that can't be.
    Emulated(Option<(u64, usize)>),
}

impl Name<'_> {
    /// `None` for a file's path.
    fn of(path: &Path) -> Option<Name<'_>> {
        let text = path.to_str()?;
        match text.strip_prefix(EMULATED) {
            Some(numbers) => Some(Name::Emulated(emulated_numbers(numbers))),
            None => pci_addresses(text).map(|(addresses, number)| Name::Adapters(addresses, number)),
        }
    }
}

/// The blocks and paths of `BLOCKS` or `BLOCKSxPATHS`.
fn emulated_numbers(text: &str) -> Option<(u64, usize)> {
    let (blocks, paths) = text.split_once('x').unwrap_or((text, "1"));
    let blocks = blocks.parse().ok().filter(|blocks| (1..=1 << 20).contains(blocks));
    let paths = paths.parse().ok().filter(|paths| (1..=EMULATED_PATHS_MAX).contains(paths));
    blocks.zip(paths)
}

/// The PCI addresses that a path is, such as `0000:3b:00.0` or `0000:3b:00.0+0000:5e:00.0`, and the namespace after them, as in
/// `0000:3b:00.0/2`.
fn pci_addresses(text: &str) -> Option<(Vec<&str>, Option<u32>)> {
    let (addresses, number) = match text.split_once('/') {
        Some((addresses, number)) => (addresses, Some(number.parse().ok()?)),
        None => (text, None),
    };
    let is_address = |address: &&str| {
        !address.is_empty()
            && address.bytes().all(|byte| byte.is_ascii_hexdigit() || b":.".contains(&byte))
            && Path::new("/sys/bus/pci/devices").join(address).exists()
    };
    let addresses: Vec<&str> = addresses.split('+').collect();
    addresses.iter().all(is_address).then_some((addresses, number))
}

impl Driven {
    /// Whether a path names controllers, not a file.
    pub(crate) fn is_named(path: &Path) -> bool {
        Name::of(path).is_some()
    }

    /// Opens the controllers that a path names, which are bound to `vfio-pci`; `None` if it names a file. Nothing is unbound from the kernel's
    /// driver here.
    pub(crate) fn open(path: &Path) -> Option<Result<Self, Errno>> {
        let name = path.display().to_string();
        Some(match Name::of(path)? {
            Name::Adapters(addresses, number) => {
                let drivers = addresses.into_iter().map(open_adapter).collect::<Result<Vec<_>, _>>();
                drivers.and_then(|drivers| Self::new(name, drivers, number))
            }
            Name::Emulated(numbers) => emulate(numbers).and_then(|drivers| Self::new(name, drivers, None)),
        })
    }

    /// The namespace with this number, or else the first one, of the first controller, and the same of the others.
    fn new(name: String, drivers: Vec<Driver>, mut number: Option<u32>) -> Result<Self, Errno> {
        let mut paths = Vec::new();
        for driver in drivers {
            let namespaces = Controller::lock(&driver.controller()).namespaces().to_vec();
            let is_it = |namespace: &Namespace| number.is_none_or(|number| namespace.number == number);
            let namespace = namespaces.into_iter().find(is_it).ok_or(Errno::NODEV)?;
            check_block_shift(namespace.format.block_shift)?;
            number = Some(namespace.number);
            paths.push((driver, namespace));
        }
        let locks = File::from(memfd_create("iotoll-block", MemfdFlags::CLOEXEC)?);
        let driven = Self { name, paths, locks };
        if driven.paths.len() > 1 {
            // Looked at now, not at the first command.
            driven.queue(1)?.close().map_err(|error| driven.no_queue(&error))?;
        }
        Ok(driven)
    }

    /// The first controller and its namespace.
    pub(crate) fn controller(&self) -> Option<(Arc<Mutex<Controller>>, Namespace)> {
        self.paths.first().map(|(driver, namespace)| (driver.controller(), *namespace))
    }

    /// Whether its blocks are this process's memory.
    pub(crate) fn is_emulated(&self) -> bool {
        self.paths.iter().any(|(driver, _)| matches!(driver, Driver::Emulated(_)))
    }

    /// The number of controllers.
    pub(crate) fn paths(&self) -> u32 {
        self.paths.len() as u32
    }

    /// Size of the disk's blocks, as a power of two.
    pub(crate) fn block_shift(&self) -> u8 {
        self.paths.first().map_or(0, |(_, namespace)| namespace.format.block_shift)
    }

    /// Size in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.paths.first().map_or(0, |(_, namespace)| namespace.format.bytes())
    }

    pub(crate) fn locks(&self) -> &File {
        &self.locks
    }

    /// A queue for a thread, with at most this many requests at once.
    pub(crate) fn queue(&self, requests: u16) -> Result<Chunk, Errno> {
        let requests = requests.min(REQUESTS_MAX);
        let drive = |(driver, namespace): &(Driver, Namespace)| {
            let (waiting, policy) = (Waiting::Polling, RetryPolicy::default());
            Drive::open(driver.controller(), *namespace, requests, REQUEST_BYTES, waiting, policy)
        };
        let drives = self.paths.iter().map(drive).collect::<Result<Vec<_>, _>>();
        let chunk = drives.and_then(|mut drives| match (drives.len(), drives.pop()) {
            (1, Some(only)) => Ok(Chunk::from(only)),
            (_, last) => Paths::new(drives.into_iter().chain(last).collect()).map(Chunk::from),
        });
        chunk.map_err(|error| self.no_queue(&error))
    }

    fn no_queue(&self, error: &ChunkError) -> Errno {
        let errno = match error {
            ChunkError::NotOneDisk { .. } => Errno::INVAL,
            _ => Errno::AGAIN,
        };
        explain(&format!("no queue of {}", self.name), error, errno)
    }
}

impl Drop for Driven {
    /// Shuts the controllers down, which empties their write caches.
    fn drop(&mut self) {
        for (driver, _) in self.paths.drain(..) {
            if let Driver::Adapter(adapter) = driver {
                // Nobody is left who could be told of an error.
                let _ = adapter.shut_down();
            }
        }
    }
}

/// Fails for a disk whose blocks are larger than the interface's.
pub(crate) fn check_block_shift(shift: u8) -> Result<(), Errno> {
    (u32::from(shift) <= BLOCK_BYTES.trailing_zeros()).then_some(()).ok_or(Errno::OPNOTSUPP)
}

fn open_adapter(address: &str) -> Result<Driver, Errno> {
    let opened = Adapter::open(address, Interface::of_this_host(address), CONTROLLER_BYTES);
    let what = || format!("{address} can't be driven; it must be bound to vfio-pci");
    opened.map(Driver::Adapter).map_err(|error| explain(&what(), &error, Errno::NODEV))
}

/// Controllers in this process behind IOMMUs in software.
fn emulate(numbers: Option<(u64, usize)>) -> Result<Vec<Driver>, Errno> {
    let (blocks, paths) = numbers.ok_or(Errno::INVAL)?;
    let builder = Machine::builder(blocks, BLOCK_BYTES.trailing_zeros() as u8).memory_bytes(CONTROLLER_BYTES);
    let machines = match paths {
        1 => builder.open().map(|only| vec![only]),
        _ => builder.open_paths(paths),
    };
    let driver = |machine: Machine| Driver::Emulated(Arc::new(Mutex::new(machine.controller)));
    Ok(machines.map_err(|_| Errno::NOMEM)?.into_iter().map(driver).collect())
}
