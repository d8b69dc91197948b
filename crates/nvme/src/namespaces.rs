//! Management of namespaces: which a subsystem has, and their creation, attachment, detachment and deletion.
//!
//! ```text
//!   unallocated capacity --create--> allocated --attach--> active: in Controller::namespaces() of each controller that it is attached to
//!                        <--delete--           <--detach--
//! ```
//!
//! Another controller of the subsystem may change namespaces at any time, so what a change needs is read afresh before it is sent.

use crate::controller::Controller;
use crate::controller_error::NvmeError;
use crate::queue_pair::Done;
use crate::spec::command::{Command, Identify};
use crate::spec::identify::{self, Structure};
use crate::spec::namespace::{self, ALL_NAMESPACES, CONTROLLERS_MAX, CreateFields, LbaFormat};
use dma::NoMemory;
use std::collections::BTreeSet;

/// Most pages of a list that are read: 65,536 namespaces, and all controllers.
const LIST_PAGES_MAX: usize = 64;
/// NSIDs of a page.
const PAGE_NAMESPACES: usize = identify::STRUCTURE_BYTES / 4;
/// Creation and deletion may take longer than other admin commands. nvme-cli waits twice as long as Linux does for those.
const TIMEOUT_FACTOR: u32 = 2;

/// What a namespace is created with. Its capacity is its size: there is no thin provisioning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewNamespace {
    /// Size in logical blocks.
    pub blocks: u64,
    /// Log2 of the bytes of a logical block.
    pub block_shift: u8,
    /// Several controllers may attach it at once.
    pub is_shared: bool,
}

impl NewNamespace {
    /// A namespace that one controller at a time may attach.
    pub fn private(blocks: u64, block_shift: u8) -> Self {
        Self { blocks, block_shift, is_shared: false }
    }

    /// A namespace that several controllers may attach at once.
    pub fn shared(blocks: u64, block_shift: u8) -> Self {
        Self { blocks, block_shift, is_shared: true }
    }
}

/// Why namespaces can't be changed. All but [`Nvme`](Self::Nvme) and [`Unread`](Self::Unread) are found before anything is changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NamespaceError {
    /// OACS bit 3 is clear.
    #[error("the controller can't manage namespaces (OACS bit 3 is clear)")]
    Unsupported,
    /// A size that no namespace can have.
    #[error("{blocks} blocks; expected one at least, and less than 2^64 bytes")]
    Size {
        /// Blocks of the namespace.
        blocks: u64,
    },
    /// No LBA format has this block size.
    #[error(
        "no format has blocks of 2^{block_shift} bytes without metadata; the controller has {}",
        sizes(shifts)
    )]
    Format {
        /// The block size, as a power of two.
        block_shift: u8,
        /// Those that there are.
        shifts: Vec<u8>,
    },
    /// Less is unallocated than the namespace needs.
    #[error("the namespace needs {bytes} bytes, and {unallocated_bytes} are unallocated (UNVMCAP)")]
    Capacity {
        /// Bytes of the namespace.
        bytes: u64,
        /// Bytes that no namespace has.
        unallocated_bytes: u128,
    },
    /// As many namespaces are allocated as the controller allows.
    #[error("{allocated} namespaces are allocated, and the controller allows no more (NN, MNAN)")]
    Count {
        /// Namespaces that are allocated.
        allocated: usize,
    },
    /// The namespace is not allocated.
    #[error("no namespace {namespace} is allocated")]
    NoNamespace {
        /// NSID.
        namespace: u32,
    },
    /// No controller was named, or too many.
    #[error("{count} controllers; expected 1 to {CONTROLLERS_MAX}")]
    ControllerCount {
        /// Controllers named.
        count: usize,
    },
    /// The subsystem has no such controller.
    #[error("the subsystem has no controller {controller} (CNTLID)")]
    NoController {
        /// CNTLID.
        controller: u16,
    },
    /// The namespace is attached to the controller already.
    #[error("namespace {namespace} is attached to controller {controller} already")]
    Attached {
        /// NSID.
        namespace: u32,
        /// CNTLID.
        controller: u16,
    },
    /// The namespace is not attached to the controller.
    #[error("namespace {namespace} is not attached to controller {controller}")]
    NotAttached {
        /// NSID.
        namespace: u32,
        /// CNTLID.
        controller: u16,
    },
    /// One controller at a time may attach the namespace.
    #[error(
        "namespace {namespace} is private (NMIC bit 0 is clear), so one controller at a time may attach it{}",
        elsewhere(attached)
    )]
    Private {
        /// NSID.
        namespace: u32,
        /// The controllers that it is attached to.
        attached: Vec<u16>,
    },
    /// The namespace is attached to other controllers, whose users would lose it.
    #[error(
        "namespace {namespace} is attached to other controllers ({}); detach it there first",
        numbers(controllers)
    )]
    AttachedElsewhere {
        /// NSID.
        namespace: u32,
        /// Those controllers.
        controllers: Vec<u16>,
    },
    /// This process has queues that may be used for the namespace.
    #[error(
        "namespace {namespace} is in use: {queues} I/O queues of this process may be used for it; close them first"
    )]
    InUse {
        /// NSID.
        namespace: u32,
        /// Those queues.
        queues: usize,
    },
    /// The change was made, and what the controller has now can't be read. A reset of the controller would fail.
    #[error("namespace {namespace} was {done}, but the controller's namespaces can't be read")]
    Unread {
        /// NSID.
        namespace: u32,
        /// What was done with it.
        done: &'static str,
        /// Why.
        source: NvmeError,
    },
    /// A command failed. After a timeout it is not known whether the change was made.
    #[error(transparent)]
    Nvme(#[from] NvmeError),
}

impl From<NoMemory> for NamespaceError {
    fn from(none: NoMemory) -> Self {
        Self::Nvme(none.into())
    }
}

/// Block sizes in words.
fn sizes(shifts: &[u8]) -> String {
    let sizes: Vec<String> = shifts.iter().map(|shift| format!("2^{shift}")).collect();
    if sizes.is_empty() { "none".to_owned() } else { sizes.join(", ") }
}

/// Controllers in words.
fn numbers(controllers: &[u16]) -> String {
    controllers.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
}

/// Where a private namespace is attached, in words.
fn elsewhere(attached: &[u16]) -> String {
    if attached.is_empty() { String::new() } else { format!("; it is attached to {}", numbers(attached)) }
}

impl Controller {
    /// A list of NSIDs, page by page. What is not in increasing order ends it, because the next page begins after the last NSID.
    pub(crate) fn namespace_list(
        &mut self,
        page_after: impl Fn(u32) -> Identify,
    ) -> Result<Vec<u32>, NvmeError> {
        let (mut found, mut last) = (Vec::new(), 0);
        for _ in 0..LIST_PAGES_MAX {
            let page = self.identify(page_after(last))?;
            let before = found.len();
            for number in identify::active_namespaces(&page) {
                // All ones is no namespace, but stands for all.
                if number <= last || number == u32::MAX {
                    return Ok(found);
                }
                last = number;
                found.push(number);
            }
            // Identify takes no NSID beyond this one (Base, 5.17.2.2).
            if found.len() - before < PAGE_NAMESPACES || last >= u32::MAX - 2 {
                break;
            }
        }
        Ok(found)
    }

    /// A list of controllers, page by page.
    fn controller_list(&mut self, page_from: impl Fn(u16) -> Identify) -> Result<Vec<u16>, NvmeError> {
        let (mut found, mut from) = (Vec::new(), 0);
        for _ in 0..LIST_PAGES_MAX {
            let page = self.identify(page_from(from))?;
            let before = found.len();
            for controller in namespace::controllers(&page) {
                if found.last().is_some_and(|last| controller <= *last) {
                    // What is not told may be deleted for others.
                    return Err(NvmeError::Disordered { what: "controllers" });
                }
                found.push(controller);
            }
            let next = found.last().and_then(|last| last.checked_add(1));
            match next.filter(|_| found.len() - before == CONTROLLERS_MAX) {
                Some(next) => from = next,
                None => break,
            }
        }
        Ok(found)
    }

    /// NSIDs of all namespaces of the subsystem, attached to a controller or not. Reads them from the controller.
    ///
    /// # Errors
    /// [`NvmeError`]
    pub fn allocated_namespaces(&mut self) -> Result<Vec<u32>, NvmeError> {
        self.namespace_list(Identify::AllocatedAfter)
    }

    /// The Identify data of a namespace, attached to a controller or not; `None` if it is not allocated, or its LBA format is unsupported.
    ///
    /// # Errors
    /// [`NvmeError`]
    pub fn allocated_namespace(&mut self, namespace: u32) -> Result<Option<identify::Namespace>, NvmeError> {
        Ok(identify::Namespace::read(&self.identify(Identify::Allocated(namespace))?))
    }

    /// The controllers (CNTLID) that a namespace is attached to.
    ///
    /// # Errors
    /// [`NvmeError`]
    pub fn attached_controllers(&mut self, namespace: u32) -> Result<Vec<u16>, NvmeError> {
        self.controller_list(|from| Identify::AttachedControllers { namespace, from })
    }

    /// All controllers (CNTLID) of the subsystem. This one's is in its [identity](Self::identity).
    ///
    /// # Errors
    /// [`NvmeError`]
    pub fn subsystem_controllers(&mut self) -> Result<Vec<u16>, NvmeError> {
        self.controller_list(Identify::ControllersFrom)
    }

    /// The LBA formats that namespaces can be created with. Where the controller does not say what all namespaces have in common, those of the
    /// first one.
    ///
    /// # Errors
    /// [`NvmeError`]
    pub fn namespace_formats(&mut self) -> Result<Vec<LbaFormat>, NvmeError> {
        let page = match self.identify(Identify::Namespace(ALL_NAMESPACES)) {
            Err(error @ NvmeError::Refused { .. }) => match self.allocated_namespaces()?.first() {
                Some(first) => self.identify(Identify::Allocated(*first))?,
                None => return Err(error),
            },
            page => page?,
        };
        Ok(namespace::lba_formats(&page).filter(|format| format.block_shift != 0).collect())
    }

    /// Creates a namespace, and returns its NSID. No controller has it before it is [attached](Self::attach_namespace).
    ///
    /// # Errors
    /// [`NamespaceError`]
    pub fn create_namespace(&mut self, new: &NewNamespace) -> Result<u32, NamespaceError> {
        let fields = self.check_creation(new)?;
        let done = self.send("creating a namespace", &fields.write(), Command::create_namespace)?;
        let namespace = done.result as u32;
        self.refresh_after(namespace, "created")?;
        Ok(namespace)
    }

    /// Checks that a namespace can be created.
    fn check_creation(&mut self, new: &NewNamespace) -> Result<CreateFields, NamespaceError> {
        let NewNamespace { blocks, block_shift, is_shared } = *new;
        self.check_managed()?;
        let bytes = 1_u64.checked_shl(block_shift.into()).and_then(|block| blocks.checked_mul(block));
        let bytes = bytes.filter(|bytes| *bytes > 0).ok_or(NamespaceError::Size { blocks })?;
        let mut formats = self.namespace_formats()?;
        formats.retain(|format| format.metadata_bytes == 0);
        let format = formats.iter().find(|format| format.block_shift == block_shift).ok_or_else(|| {
            NamespaceError::Format {
                block_shift,
                shifts: formats.iter().map(|one| one.block_shift).collect(),
            }
        })?;
        let allocated = self.allocated_namespaces()?.len();
        self.refresh_namespaces()?;
        let identity = self.identity();
        if allocated >= identity.allocatable_max() as usize {
            return Err(NamespaceError::Count { allocated });
        }
        // A controller that does not say its capacity decides alone.
        let unallocated_bytes = identity.unallocated_bytes;
        if identity.capacity_bytes != 0 && u128::from(bytes) > unallocated_bytes {
            return Err(NamespaceError::Capacity { bytes, unallocated_bytes });
        }
        Ok(CreateFields { blocks, capacity_blocks: blocks, format: format.number, protection: 0, is_shared })
    }

    /// Checks that a namespace can be deleted: it must not be attached to another controller, and no queue of this one may be for it.
    ///
    /// # Errors
    /// [`NamespaceError`]
    pub fn check_deletion(&mut self, namespace: u32) -> Result<(), NamespaceError> {
        let mut attached = self.check_allocated(namespace)?;
        let this = self.identity().controller;
        // Another host may have detached it from under a queue, which would find another namespace of this number.
        self.check_unused(namespace, attached.contains(&this))?;
        attached.retain(|controller| *controller != this);
        match attached.is_empty() {
            true => Ok(()),
            false => Err(NamespaceError::AttachedElsewhere { namespace, controllers: attached }),
        }
    }

    /// Deletes a namespace with its data, if it [can be](Self::check_deletion).
    ///
    /// # Errors
    /// [`NamespaceError`]
    pub fn delete_namespace(&mut self, namespace: u32) -> Result<(), NamespaceError> {
        self.check_deletion(namespace)?;
        let limit = self.admin_timeout * TIMEOUT_FACTOR;
        let command = Command::delete_namespace(namespace);
        self.execute_admin_within(limit, "deleting a namespace", command)?;
        self.refresh_after(namespace, "deleted")
    }

    /// Attaches a namespace to controllers of the subsystem (CNTLID). No queue of this controller may be left from when it had a namespace of this
    /// number: its commands would reach the new one.
    ///
    /// # Errors
    /// [`NamespaceError`]
    pub fn attach_namespace(&mut self, namespace: u32, controllers: &[u16]) -> Result<(), NamespaceError> {
        let attached = self.check_allocated(namespace)?;
        let controllers = self.check_controllers(controllers)?;
        if let Some(controller) = controllers.iter().copied().find(|one| attached.contains(one)) {
            return Err(NamespaceError::Attached { namespace, controller });
        }
        let is_private = self.allocated_namespace(namespace)?.is_some_and(|format| !format.is_shared);
        if is_private && attached.len() + controllers.len() > 1 {
            return Err(NamespaceError::Private { namespace, attached });
        }
        if controllers.contains(&self.identity().controller) {
            self.check_unused(namespace, false)?;
        }
        let list = namespace::write_controllers(&controllers);
        self.send("attaching a namespace", &list, |data| Command::attach_namespace(namespace, data))?;
        self.refresh_after(namespace, "attached")
    }

    /// Detaches a namespace from controllers of the subsystem (CNTLID). Its data stay. No queue of this controller may be for it. What uses it
    /// through other controllers is not known here: their I/O fails from now on.
    ///
    /// # Errors
    /// [`NamespaceError`]
    pub fn detach_namespace(&mut self, namespace: u32, controllers: &[u16]) -> Result<(), NamespaceError> {
        let attached = self.check_allocated(namespace)?;
        let controllers = self.check_controllers(controllers)?;
        if let Some(controller) = controllers.iter().copied().find(|one| !attached.contains(one)) {
            return Err(NamespaceError::NotAttached { namespace, controller });
        }
        if controllers.contains(&self.identity().controller) {
            self.check_unused(namespace, true)?;
        }
        let list = namespace::write_controllers(&controllers);
        self.send("detaching a namespace", &list, |data| Command::detach_namespace(namespace, data))?;
        self.refresh_after(namespace, "detached")
    }

    /// Checks that the controller manages namespaces.
    fn check_managed(&self) -> Result<(), NamespaceError> {
        if self.identity().can_manage_namespaces { Ok(()) } else { Err(NamespaceError::Unsupported) }
    }

    /// Checks that a namespace is allocated. Returns the controllers that it is attached to.
    fn check_allocated(&mut self, namespace: u32) -> Result<Vec<u16>, NamespaceError> {
        self.check_managed()?;
        if !self.allocated_namespaces()?.contains(&namespace) {
            return Err(NamespaceError::NoNamespace { namespace });
        }
        Ok(self.attached_controllers(namespace)?)
    }

    /// Checks that these controllers exist. Returns them in increasing order, each once.
    fn check_controllers(&mut self, controllers: &[u16]) -> Result<Vec<u16>, NamespaceError> {
        let controllers: BTreeSet<u16> = controllers.iter().copied().collect();
        let count = controllers.len();
        if !(1..=CONTROLLERS_MAX).contains(&count) {
            return Err(NamespaceError::ControllerCount { count });
        }
        let existing = self.subsystem_controllers()?;
        match controllers.iter().find(|controller| !existing.contains(controller)) {
            Some(controller) => Err(NamespaceError::NoController { controller: *controller }),
            None => Ok(controllers.into_iter().collect()),
        }
    }

    /// Checks that no queue of this controller is for a namespace, which is attached to it or not.
    fn check_unused(&self, namespace: u32, is_attached: bool) -> Result<(), NamespaceError> {
        match self.queues_of(namespace, is_attached) {
            0 => Ok(()),
            queues => Err(NamespaceError::InUse { namespace, queues }),
        }
    }

    /// Reads what the controller has after a change.
    fn refresh_after(&mut self, namespace: u32, done: &'static str) -> Result<(), NamespaceError> {
        self.refresh_namespaces().map_err(|source| NamespaceError::Unread { namespace, done, source })
    }

    /// Executes a command with one page of data.
    fn send(
        &mut self,
        what: &'static str,
        data: &Structure,
        command: impl FnOnce([u64; 2]) -> Command,
    ) -> Result<Done, NamespaceError> {
        let buffer = self.allocate(data.len() as u64)?;
        let at = buffer.piece(0, data.len() as u64)?.at;
        self.ram.write(buffer.memory(), data)?;
        let limit = self.admin_timeout * TIMEOUT_FACTOR;
        let done = self.execute_admin_within(limit, what, command([at.0, 0]));
        if matches!(done, Ok(_) | Err(NvmeError::Refused { .. })) {
            self.free(buffer)?;
        } else {
            // The command may still be executing and read the page.
            self.abandoned.0.push(buffer);
        }
        Ok(done?)
    }
}
