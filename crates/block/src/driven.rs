//! A namespace of controllers that this process drives: one, or several that are paths to it.

use crate::BLOCK_BYTES;
use crate::errno::{explain, say};
use dma::vfio::Interface;
use nvme::chunk::{Chunk, ChunkError, DiskPath, RetryPolicy};
use nvme::emulated::{DiskName, DiskNameError, Machine};
use nvme::{Adapter, Controller, Interrupts, Namespace};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The environment says how threads wait.
const WAIT: &str = "IOTOLL_BLOCK_WAIT";
/// Most bytes of one request. Longer commands consist of several.
const REQUEST_BYTES: u64 = 32 << 10;
/// Memory for the queues and buffers of a controller.
const CONTROLLER_BYTES: u64 = 64 << 20;
/// A queue has at most so many requests at once.
const REQUESTS_MAX: u16 = 128;
/// Queues with an interrupt. Threads with further ones poll.
const INTERRUPTS_MAX: u32 = 64;

/// A namespace, and the controllers that lead to it.
#[derive(Debug)]
pub(crate) struct Driven {
    /// Its path as the caller gave it.
    name: String,
    /// One or more.
    paths: Vec<DiskPath>,
    /// Those of this host; none for controllers that are emulated.
    adapters: Vec<Adapter>,
    /// Has no content: its locks say which parts of the disk virtual LUNs have.
    locks: File,
}

/// A controller that was opened.
struct Opened {
    /// `None` if it is emulated.
    adapter: Option<Adapter>,
    controller: Arc<Mutex<Controller>>,
    interrupts: Option<Arc<Interrupts>>,
}

/// Whether threads that wait for a controller sleep until its interrupt. Without that they poll.
fn wants_interrupts() -> Result<bool, Errno> {
    match std::env::var_os(WAIT) {
        None => Ok(false),
        Some(how) if how == "poll" => Ok(false),
        Some(how) if how == "interrupt" => Ok(true),
        Some(how) => {
            let text = format!("{WAIT}={}; expected poll or interrupt", how.to_string_lossy());
            Err(say(text, Errno::INVAL))
        }
    }
}

/// What a path names that is no file.
enum Name<'a> {
    /// PCI addresses, and the number of a namespace.
    Adapters(Vec<&'a str>, Option<u32>),
    Emulated(Result<DiskName, DiskNameError>),
}

impl Name<'_> {
    /// `None` for a file's path.
    fn of(path: &Path) -> Option<Name<'_>> {
        let text = path.to_str()?;
        match DiskName::parse(text).transpose() {
            Some(name) => Some(Name::Emulated(name)),
            None => pci_addresses(text).map(|(addresses, number)| Name::Adapters(addresses, number)),
        }
    }
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
                let opened = addresses.into_iter().map(open_adapter).collect::<Result<Vec<_>, _>>();
                opened.and_then(|opened| Self::new(name, opened, number))
            }
            Name::Emulated(disk) => emulate(disk).and_then(|opened| Self::new(name, opened, None)),
        })
    }

    /// The namespace with this number, or else the first one, of the first controller, and the same of the others.
    fn new(name: String, opened: Vec<Opened>, mut number: Option<u32>) -> Result<Self, Errno> {
        let locks = File::from(memfd_create("iotoll-block", MemfdFlags::CLOEXEC)?);
        let mut driven = Self { name, paths: Vec::new(), adapters: Vec::new(), locks };
        for Opened { adapter, controller, interrupts } in opened {
            driven.adapters.extend(adapter);
            let namespaces = Controller::lock(&controller).namespaces().to_vec();
            let is_it = |namespace: &Namespace| number.is_none_or(|number| namespace.number == number);
            let namespace = namespaces.into_iter().find(is_it).ok_or_else(|| {
                let which = number.map_or("with blocks".to_owned(), |number| number.to_string());
                say(format!("{}: no namespace {which}", driven.name), Errno::NODEV)
            })?;
            check_block_shift(namespace.format.block_shift)?;
            if namespace.zones.is_some() {
                let why = "has zones, each of which is written from its first block on";
                return Err(say(
                    format!("{}: namespace {} {why}", driven.name, namespace.number),
                    Errno::OPNOTSUPP,
                ));
            }
            number = Some(namespace.number);
            driven.paths.push(DiskPath { controller, namespace, interrupts });
        }
        if driven.paths.len() > 1 {
            // Looked at now, not at the first command.
            driven.queue(1)?.close().map_err(|error| driven.no_queue(&error))?;
        }
        Ok(driven)
    }

    /// The first controller and its namespace.
    pub(crate) fn controller(&self) -> Option<(Arc<Mutex<Controller>>, Namespace)> {
        self.paths.first().map(|path| (Arc::clone(&path.controller), path.namespace))
    }

    /// Whether its blocks are this process's memory.
    pub(crate) fn is_emulated(&self) -> bool {
        self.adapters.is_empty()
    }

    /// The number of controllers.
    pub(crate) fn paths(&self) -> u32 {
        self.paths.len() as u32
    }

    /// Size of the disk's blocks, as a power of two.
    pub(crate) fn block_shift(&self) -> u8 {
        self.paths.first().map_or(0, |path| path.namespace.format.block_shift)
    }

    /// Size in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.paths.first().map_or(0, |path| path.namespace.format.bytes())
    }

    pub(crate) fn locks(&self) -> &File {
        &self.locks
    }

    /// A queue for a thread, with at most this many requests at once.
    pub(crate) fn queue(&self, requests: u16) -> Result<Chunk, Errno> {
        let requests = requests.min(REQUESTS_MAX);
        let chunk = Chunk::open(&self.paths, requests, REQUEST_BYTES, RetryPolicy::default());
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
        self.paths.clear();
        for adapter in self.adapters.drain(..) {
            // Nobody is left who could be told of an error.
            let _ = adapter.shut_down();
        }
    }
}

/// Fails for a disk whose blocks are larger than the interface's.
pub(crate) fn check_block_shift(shift: u8) -> Result<(), Errno> {
    (u32::from(shift) <= BLOCK_BYTES.trailing_zeros()).then_some(()).ok_or(Errno::OPNOTSUPP)
}

fn open_adapter(address: &str) -> Result<Opened, Errno> {
    let has_interrupts = wants_interrupts()?;
    let opened =
        Adapter::open(address, Interface::of_this_host(address), CONTROLLER_BYTES).and_then(|adapter| {
            let interrupts = has_interrupts.then(|| adapter.queue_interrupts(INTERRUPTS_MAX)).transpose()?;
            Ok(Opened { controller: adapter.controller(), interrupts, adapter: Some(adapter) })
        });
    let what = || format!("{address} can't be driven; it must be bound to vfio-pci");
    opened.map_err(|error| explain(&what(), &error, Errno::NODEV))
}

/// Controllers in this process behind IOMMUs in software.
fn emulate(disk: Result<DiskName, DiskNameError>) -> Result<Vec<Opened>, Errno> {
    let has_interrupts = wants_interrupts()?;
    let disk = disk.map_err(|error| say(error.to_string(), Errno::INVAL))?;
    let machines = disk.open(|builder| builder.memory_bytes(CONTROLLER_BYTES));
    let opened = |machine: Machine| {
        let interrupts = has_interrupts.then(|| machine.queue_interrupts(INTERRUPTS_MAX as u16));
        let interrupts = interrupts.transpose().map_err(|_| Errno::MFILE)?;
        Ok(Opened { adapter: None, controller: Arc::new(Mutex::new(machine.controller)), interrupts })
    };
    machines.map_err(|_| Errno::NOMEM)?.into_iter().map(opened).collect()
}
