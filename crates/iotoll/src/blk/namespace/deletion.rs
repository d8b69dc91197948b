//! The deletion of a namespace. What is on it is looked at first, through the kernel's block device and again through this process's driver.

use super::super::data_loss::{BlockRange, DataLoss};
use crate::cli::BlkNamespaceDelete;
use crate::output::Lines;
use anyhow::Context;
use nvme::Controller;
use nvme::takeover::Candidate;
use std::sync::{Arc, Mutex};

/// The reasons against the deletion that the kernel's block device of the namespace shows. One that the kernel has not is looked at later.
pub(super) fn kernel_refusals(
    candidate: &Candidate,
    args: &BlkNamespaceDelete,
) -> anyhow::Result<Vec<Lines>> {
    let disk = candidate.disks.iter().find(|disk| disk.namespace == Some(args.namespace));
    let Some(disk) = disk else { return Ok(Vec::new()) };
    let loss = DataLoss::of_kernel_disk(candidate, disk, BlockRange::ALL)?;
    Ok(args.overwrite.deletion_refusal(args.namespace, &loss).into_iter().collect())
}

/// Deletes a namespace, if what is on it may be lost. Returns what was done.
pub(super) fn delete(args: &BlkNamespaceDelete, shared: &Arc<Mutex<Controller>>) -> anyhow::Result<String> {
    let number = args.namespace;
    let failed = || format!("namespace {number} was not deleted");
    if let Some(refusal) = args.overwrite.deletion_refusal(number, &loss(args, shared).with_context(failed)?)
    {
        return Err(refusal.into());
    }
    Controller::lock(shared).delete_namespace(number).with_context(failed)?;
    Ok(format!("namespace {number} was deleted with its data"))
}

/// What is on the namespace: its signatures, or that they can't be read where it is not attached to this controller.
fn loss(args: &BlkNamespaceDelete, shared: &Arc<Mutex<Controller>>) -> anyhow::Result<DataLoss> {
    let (number, address) = (args.namespace, args.controller.address.as_str());
    let mut controller = Controller::lock(shared);
    let identity = controller.identity().clone();
    controller.check_deletion(number)?;
    let attached = controller.namespaces().iter().find(|one| one.number == number).copied();
    let Some(namespace) = attached else {
        let format = controller.allocated_namespace(number)?;
        return Ok(DataLoss::of_detached(address, &identity, number, format));
    };
    drop(controller);
    DataLoss::of_namespace(address, shared, namespace)
}
