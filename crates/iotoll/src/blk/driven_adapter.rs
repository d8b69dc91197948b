//! An NVMe adapter that this process drives: unbound from the kernel's driver, opened, and rebound when it is closed.

use super::rebind_helper::RebindHelper;
use crate::output::{self, Lines};
use anyhow::{Context, bail};
use dma::Ram;
use dma::vfio::Interface;
use nvme::takeover::{Accepted, Candidate, KernelDisk, Refusal, Root, Takeover, TakeoverError};
use nvme::{Adapter, AdapterError, Controller, Namespace};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An adapter driven by this process until it is closed or the process ends. Then it is bound to its previous driver again.
pub(crate) struct DrivenAdapter {
    address: String,
    pub(crate) adapter: Adapter,
    rebind_helper: Option<RebindHelper>,
}

impl DrivenAdapter {
    /// Fails with all reasons against driving the NVMe controller at `address`. Changes nothing.
    pub(crate) fn check(address: &str, accepted: Accepted) -> anyhow::Result<Candidate> {
        let root = Root::default();
        let candidate = find_candidate(&root, address)?;
        fail_if_refused(refusal_lines(&candidate.refusals(&root, accepted)))?;
        Ok(candidate)
    }

    /// Unbinds the NVMe controller at `address` from the kernel's driver and opens it, with `memory_bytes` of DMA memory for queues and
    /// buffers. Fails, and changes nothing, if anything uses the controller's disks.
    pub(crate) fn open(address: &str, accepted: Accepted, memory_bytes: u64) -> anyhow::Result<Self> {
        Self::open_with_reserved(address, accepted, memory_bytes, Vec::new())
    }

    /// The same, with reserved memory that the adapter reaches too.
    pub(crate) fn open_with_reserved(
        address: &str,
        accepted: Accepted,
        memory_bytes: u64,
        reserved: Vec<Arc<Ram>>,
    ) -> anyhow::Result<Self> {
        let candidate = Self::check(address, accepted)?;
        Self::open_candidate(&Root::default(), &candidate, memory_bytes, reserved)
    }

    /// Unbinds and opens a controller whose refusals were checked before: without an IOMMU the user accepted the risk.
    pub(super) fn open_candidate(
        root: &Root,
        candidate: &Candidate,
        memory_bytes: u64,
        reserved: Vec<Arc<Ram>>,
    ) -> anyhow::Result<Self> {
        let address = candidate.address.as_str();
        // Allocated before the adapter is unbound, because there may not be enough memory.
        let pinned =
            candidate.group.is_none().then(|| pin_memory_without_iommu(address, memory_bytes)).transpose()?;
        let pins: Vec<BorrowedFd<'_>> = pinned.iter().filter_map(|memory| memory.pins()).flatten().collect();
        let mut rebind_helper = match candidate.was_bound_to_vfio() && pins.is_empty() {
            true => None,
            false => Some(RebindHelper::start(Takeover::of(candidate), &pins)?),
        };
        let mut announce = || rebind_helper.as_mut().map_or(Ok(()), RebindHelper::announce_unbind);
        if candidate.was_bound_to_vfio() {
            announce().map_err(TakeoverError::Notify)?;
        } else {
            Takeover::unbind_from_kernel(root, candidate, || {
                Takeover::steps(root, candidate)
                    .iter()
                    .for_each(|step| output::print_note(&step.to_string()));
                print_rebind_steps(root, candidate);
                announce()
            })?;
        }
        let adapter = match pinned {
            Some(memory) => open_without_iommu(address, memory, reserved),
            None => {
                // iommufd maps no reserved memory.
                let interface =
                    if reserved.is_empty() { Interface::of_this_host(address) } else { Interface::Type1 };
                Adapter::open_with_reserved(address, interface, memory_bytes, reserved)
            }
        };
        let adapter = adapter.with_context(|| format!("can't drive {address}"))?;
        Ok(Self { address: address.to_owned(), adapter, rebind_helper })
    }

    /// The namespace `number`, or the only one if `number` is `None`.
    pub(crate) fn namespace(&self, number: Option<u32>) -> anyhow::Result<Namespace> {
        let controller = self.adapter.controller();
        let controller = Controller::lock(&controller);
        let namespaces = controller.namespaces();
        let numbers: Vec<u32> = namespaces.iter().map(|namespace| namespace.number).collect();
        let chosen = choose_namespace(number, &numbers)?;
        let found = namespaces.iter().find(|namespace| namespace.number == chosen);
        found.copied().with_context(|| no_such_namespace(chosen, &numbers))
    }

    /// Its address.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Whether the system wants it back, and no queue is left on it.
    pub(super) fn can_be_given_back(&self) -> bool {
        let is_wanted_back = Controller::lock(&self.adapter.controller()).is_wanted_back();
        is_wanted_back && !self.adapter.is_in_use()
    }

    /// Uses the controller, then closes the adapter, also where that use failed.
    pub(crate) fn use_and_close<T>(
        self,
        use_controller: impl FnOnce(&mut Controller) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let used = use_controller(&mut Controller::lock(&self.adapter.controller()));
        let closed = self.close();
        let used = used?;
        closed?;
        Ok(used)
    }

    /// Shuts the controller down and rebinds the adapter to its previous driver.
    pub(crate) fn close(self) -> anyhow::Result<()> {
        let Self { adapter, rebind_helper, .. } = self;
        let shut_down = adapter.shut_down().context("the controller was not shut down");
        let rebound = rebind_helper.map_or(Ok(()), |mut helper| helper.rebind());
        shut_down.and(rebound)
    }
}

/// Prints the commands that rebind the adapter by hand, for the case that both processes are killed.
fn print_rebind_steps(root: &Root, candidate: &Candidate) {
    output::print_note(&format!(
        "{} is rebound to its driver when this program ends, even if it is killed. If the helper process (`iotoll blk rebind`) is killed too, type as root:",
        candidate.address
    ));
    let steps = Takeover::rebind_steps(root, candidate);
    steps.iter().for_each(|step| output::print_note(&format!("  {step}")));
}

/// Allocates pinned memory for an adapter without an IOMMU, after printing the risk.
fn pin_memory_without_iommu(address: &str, bytes: u64) -> anyhow::Result<Arc<Ram>> {
    output::print_note(&format!(
        "{address} has no IOMMU: until it is rebound, one wrong address in a command overwrites any memory of this host"
    ));
    let memory = Ram::pinned(bytes);
    Ok(Arc::new(memory.with_context(|| format!("no memory for {address}, which was left alone"))?))
}

/// Opens an adapter without an IOMMU, which the user accepted (`--accept-no-iommu`).
#[allow(unsafe_code, reason = "nothing stops an adapter without an IOMMU from writing anywhere")]
fn open_without_iommu(
    address: &str,
    memory: Arc<Ram>,
    reserved: Vec<Arc<Ram>>,
) -> Result<Adapter, AdapterError> {
    // SAFETY: this program gives queues only pieces of `reserved`, and of buffers that the controller allocated from `memory`. The
    // kernel knows the adapter as an NVMe controller, and the user who wants it driven without an IOMMU trusts it.
    unsafe { Adapter::open_without_iommu(address, memory, reserved) }
}

/// The NVMe controller at `address`, with what the kernel knows about it.
pub(crate) fn find_candidate(root: &Root, address: &str) -> anyhow::Result<Candidate> {
    let none = || Refusal::NoController { address: address.to_owned() };
    Ok(Candidate::at(root, address)?.ok_or_else(none)?)
}

/// The kernel's block device of a namespace, or of the only one; `None` if the kernel has none of this adapter.
pub(crate) fn kernel_disk(
    candidate: &Candidate,
    namespace: Option<u32>,
) -> anyhow::Result<Option<&KernelDisk>> {
    let numbers: Vec<u32> = candidate.disks.iter().filter_map(|disk| disk.namespace).collect();
    if numbers.is_empty() {
        return Ok(None);
    }
    let chosen = choose_namespace(namespace, &numbers)?;
    Ok(candidate.disks.iter().find(|disk| disk.namespace == Some(chosen)))
}

/// Its file in `/dev`.
pub(crate) fn device_path(disk: &KernelDisk) -> PathBuf {
    Path::new("/dev").join(&disk.name)
}

/// The namespace `number` of those that exist, or the only one if `number` is `None`.
pub(crate) fn choose_namespace(number: Option<u32>, existing: &[u32]) -> anyhow::Result<u32> {
    match (number, existing) {
        (Some(number), _) if existing.contains(&number) => Ok(number),
        (Some(number), _) => bail!(no_such_namespace(number, existing)),
        (None, [only]) => Ok(*only),
        (None, []) => bail!("the controller has no namespace that can be read"),
        (None, _) => bail!(
            "the controller has {} namespaces: {}; `--namespace N` chooses one",
            existing.len(),
            comma_separated(existing)
        ),
    }
}

fn no_such_namespace(number: u32, existing: &[u32]) -> String {
    format!("the controller has no namespace {number}; it has {}", comma_separated(existing))
}

/// Numbers in words.
pub(super) fn comma_separated<T: ToString>(numbers: &[T]) -> String {
    numbers.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

/// Adds further refusals. Fails if those could not be found, unless there is one already, which explains the failure better.
pub(crate) fn with_further(
    mut refusals: Vec<Lines>,
    further: anyhow::Result<Vec<Lines>>,
) -> anyhow::Result<Vec<Lines>> {
    match further {
        Ok(further) => refusals.extend(further),
        Err(error) if refusals.is_empty() => return Err(error),
        Err(_) => {}
    }
    Ok(refusals)
}

/// Refusals as error lines, one each.
pub(crate) fn refusal_lines(refusals: &[Refusal]) -> Vec<Lines> {
    refusals.iter().map(Lines::one).collect()
}

/// Fails with all refusals as one error of several lines; the second and later ones begin with "also:".
pub(crate) fn fail_if_refused(refusals: Vec<Lines>) -> anyhow::Result<()> {
    let mut all = Vec::new();
    for Lines(mut lines) in refusals {
        if let Some(first) = lines.first_mut().filter(|_| !all.is_empty()) {
            first.insert_str(0, "also: ");
        }
        all.append(&mut lines);
    }
    if all.is_empty() { Ok(()) } else { Err(Lines(all).into()) }
}
