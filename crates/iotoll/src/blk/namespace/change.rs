//! Changes of namespaces that destroy no data: creation, attachment and detachment.

use super::super::driven_adapter::comma_separated;
use crate::cli::{BlkNamespaceAttach, BlkNamespaceCreate, BlkNamespaceDetach};
use anyhow::{Context, ensure};
use nvme::emulated::DiskName;
use nvme::{Controller, NamespaceError, NewNamespace};

/// Creates a namespace. Returns what was done.
pub(super) fn create(
    args: &BlkNamespaceCreate,
    address: &str,
    controller: &mut Controller,
) -> anyhow::Result<String> {
    let BlkNamespaceCreate { blocks, block_bytes, shared, attach, .. } = *args;
    ensure!(
        block_bytes.is_power_of_two(),
        "--block-bytes {block_bytes} is not a power of two; expected 512 or 4096, for example"
    );
    let shift = block_bytes.trailing_zeros() as u8;
    let new = if shared { NewNamespace::shared(blocks, shift) } else { NewNamespace::private(blocks, shift) };
    let number = controller.create_namespace(&new).context("no namespace was created")?;
    if !attach {
        let done = format!("namespace {number} was created, and is attached to no controller");
        return Ok(match DiskName::parse(address)? {
            // It is gone when this command ends.
            Some(_) => done,
            None => format!("{done}. Attach it: iotoll blk namespace attach {address} --namespace {number}"),
        });
    }
    let this = controller.identity().controller;
    let attached = controller.attach_namespace(number, &[this]);
    attached.with_context(|| format!("namespace {number} was created, but not attached"))?;
    Ok(format!("namespace {number} was created and attached to this controller ({this})"))
}

/// Attaches a namespace. Returns what was done.
pub(super) fn attach(args: &BlkNamespaceAttach, controller: &mut Controller) -> anyhow::Result<String> {
    let controllers = named(&args.controllers, controller);
    let number = args.namespace;
    let attached = controller.attach_namespace(number, &controllers);
    attached.with_context(|| format!("namespace {number} was not attached"))?;
    Ok(format!("namespace {number} was attached to controller {}", comma_separated(&controllers)))
}

/// Detaches a namespace. Returns what was done.
pub(super) fn detach(args: &BlkNamespaceDetach, controller: &mut Controller) -> anyhow::Result<String> {
    let controllers = named(&args.controllers, controller);
    let number = args.namespace;
    let this = controller.identity().controller;
    let others: Vec<u16> = controllers.iter().copied().filter(|one| *one != this).collect();
    let failed = || format!("namespace {number} was not detached");
    let exist = controller.subsystem_controllers()?;
    if let Some(none) = others.iter().find(|other| !exist.contains(other)) {
        // Before consent is asked for.
        return Err(NamespaceError::NoController { controller: *none }).with_context(failed);
    }
    ensure!(
        others.is_empty() || args.accept_shared,
        "namespace {number} was not detached: another host, or this one, may use it through controller {}; if that may fail, add: --accept-shared",
        comma_separated(&others)
    );
    controller.detach_namespace(number, &controllers).with_context(failed)?;
    let from = comma_separated(&controllers);
    Ok(format!("namespace {number} was detached from controller {from}; its data stay"))
}

/// The controllers that were named, or this one.
fn named(controllers: &[u16], controller: &Controller) -> Vec<u16> {
    if controllers.is_empty() { vec![controller.identity().controller] } else { controllers.to_vec() }
}
