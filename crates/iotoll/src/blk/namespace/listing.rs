//! The namespaces of a subsystem, as one of its controllers reports them.

use super::super::data_loss::{hexadecimal, names_in_words};
use super::super::driven_adapter::comma_separated;
use crate::inspect::program_version;
use indicatif::BinaryBytes;
use nvme::spec::identify;
use nvme::{Controller, NvmeError};
use report::{ControllerUpkeep, UpkeepSection};
use serde::Serialize;
use std::collections::BTreeSet;

/// The version of the document's layout.
pub(crate) const SCHEMA: &str = "iotoll.blk-namespaces/1";

/// What `iotoll blk namespace list --json` prints. Bytes of the controller have 128 bits, and are strings of decimal digits.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Document<'a> {
    /// `iotoll.blk-namespaces/1`
    schema: &'static str,
    /// Name and version of the program.
    made_by: &'static str,
    /// The controller's address, as it was given.
    address: &'a str,
    /// Its model.
    model: &'a str,
    /// Its serial number.
    serial: &'a str,
    /// NVMe Qualified Name of its subsystem; null if it says none.
    subsystem: Option<&'a str>,
    /// Its identifier in the subsystem (CNTLID).
    controller: u16,
    /// All controllers of the subsystem; null if the controller does not say.
    controllers: Option<&'a [u16]>,
    /// Whether it creates, deletes, attaches and detaches namespaces.
    can_manage_namespaces: bool,
    /// Most namespaces that can be allocated.
    namespaces_max: u32,
    /// Bytes of its media (TNVMCAP); null if it does not say.
    capacity_bytes: Option<String>,
    /// Bytes that no namespace has (UNVMCAP); null if it does not say.
    unallocated_bytes: Option<String>,
    /// Block sizes without metadata that namespaces can be created with.
    block_sizes_bytes: &'a [u64],
    /// Its namespaces: allocated ones, attached or not.
    namespaces: Vec<NamespaceRow>,
}

/// A namespace.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct NamespaceRow {
    /// NSID.
    namespace: u32,
    /// Size in blocks; null if its format is unknown.
    blocks: Option<u64>,
    /// Bytes of a block; null if its format is unknown.
    block_bytes: Option<u64>,
    /// Size in bytes; null if its format is unknown.
    bytes: Option<u64>,
    /// Whether several controllers may attach it at once; null if its format is unknown.
    is_shared: Option<bool>,
    /// NGUID, 32 hexadecimal digits; null if it has none.
    nguid: Option<String>,
    /// EUI64, 16 hexadecimal digits; null if it has none.
    eui64: Option<String>,
    /// Whether it is attached to this controller.
    is_attached: bool,
    /// The controllers that it is attached to; null if the controller does not say.
    attached_controllers: Option<Vec<u16>>,
}

/// What a controller reports of its subsystem.
#[derive(Debug)]
pub(super) struct Listing {
    identity: identify::Controller,
    controllers: Option<Vec<u16>>,
    block_sizes: Vec<u64>,
    namespaces: Vec<Listed>,
}

/// A namespace, attached or not.
#[derive(Debug)]
struct Listed {
    number: u32,
    format: Option<identify::Namespace>,
    /// Attached to this controller.
    is_attached: bool,
    /// `None` if the controller does not say.
    attached: Option<Vec<u16>>,
}

/// What a controller says; `None` if it refuses to.
fn said<T>(answer: Result<T, NvmeError>) -> Result<Option<T>, NvmeError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(NvmeError::Refused { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Listing {
    /// Reads all namespaces. Of a controller that does not manage namespaces, those that are attached to it.
    pub(super) fn read(controller: &mut Controller) -> anyhow::Result<Self> {
        controller.refresh_namespaces()?;
        let identity = controller.identity().clone();
        let active = controller.namespaces().to_vec();
        let can_manage = identity.can_manage_namespaces;
        let mut numbers: BTreeSet<u32> = active.iter().map(|one| one.number).collect();
        let (mut controllers, mut block_sizes) = (None, Vec::new());
        if can_manage {
            numbers.extend(said(controller.allocated_namespaces())?.into_iter().flatten());
            controllers = said(controller.subsystem_controllers())?;
            let formats = said(controller.namespace_formats())?.unwrap_or_default();
            let usable =
                formats.iter().filter(|format| format.metadata_bytes == 0 && format.block_shift < 64);
            block_sizes = usable.map(|format| 1 << format.block_shift).collect();
        }
        let mut namespaces = Vec::new();
        for number in numbers {
            let known = active.iter().find(|one| one.number == number).map(|one| one.format);
            let attached = if can_manage { said(controller.attached_controllers(number))? } else { None };
            let of_all = match known {
                None if can_manage => said(controller.allocated_namespace(number))?.flatten(),
                known => known,
            };
            let is_here = attached.as_ref().is_some_and(|all| all.contains(&identity.controller));
            let is_attached = known.is_some() || is_here;
            namespaces.push(Listed { number, format: of_all, is_attached, attached });
        }
        Ok(Self { identity, controllers, block_sizes, namespaces })
    }

    /// What was done, if anything, then the namespaces, then what they are made of.
    pub(super) fn upkeep(&self, done: Option<String>) -> ControllerUpkeep {
        let identity = &self.identity;
        let section =
            |heading: &str, sentences, facts| UpkeepSection { heading: heading.to_owned(), sentences, facts };
        let rows = self.namespaces.iter().map(|one| self.row_in_words(one)).collect();
        let none = self.namespaces.is_empty().then(|| "none".to_owned()).into_iter().collect();
        let mut sections = vec![
            section("Namespaces", none, rows),
            section("Subsystem", self.limits_in_words(), self.facts()),
        ];
        if let Some(done) = done {
            sections.insert(0, section("Done", vec![done], vec![]));
        }
        ControllerUpkeep {
            model: identity.model.clone(),
            serial: identity.serial.clone(),
            firmware: identity.firmware.clone(),
            sections,
        }
    }

    /// A namespace: its size, its name, and where it is attached.
    fn row_in_words(&self, one: &Listed) -> (String, String) {
        let mut words = Vec::new();
        match one.format {
            Some(format) => {
                let (size, block_bytes) = (BinaryBytes(format.bytes()), format.block_bytes());
                words.push(format!("{size}, {} blocks of {block_bytes} bytes", format.blocks));
                words.push(names_in_words(&format.names));
                words.push(if format.is_shared { "may be shared" } else { "private" }.to_owned());
            }
            None => words.push("of a format that iotoll does not know".to_owned()),
        }
        let this = self.identity.controller;
        words.push(match &one.attached {
            Some(attached) if attached.is_empty() => "allocated, attached to no controller".to_owned(),
            Some(attached) if attached[..] == [this] => format!("attached to this controller ({this}) alone"),
            Some(attached) if one.is_attached => {
                let others: Vec<u16> = attached.iter().copied().filter(|other| *other != this).collect();
                format!("attached to this controller ({this}) and to {}", comma_separated(&others))
            }
            Some(attached) => {
                format!("attached to controller {}, not to this one", comma_separated(attached))
            }
            None if one.is_attached => "attached to this controller".to_owned(),
            None => "allocated, not attached to this controller".to_owned(),
        });
        (format!("namespace {}", one.number), words.join("; "))
    }

    /// What can't be changed or is not known.
    fn limits_in_words(&self) -> Vec<String> {
        let can_manage = self.identity.can_manage_namespaces;
        let words = "the controller can't create, delete, attach or detach namespaces (OACS bit 3 is clear); those that other controllers have are not shown";
        (!can_manage).then(|| words.to_owned()).into_iter().collect()
    }

    /// Controllers, capacity and block sizes.
    fn facts(&self) -> Vec<(String, String)> {
        let identity = &self.identity;
        let mut facts = vec![("this controller".to_owned(), identity.controller.to_string())];
        if let Some(controllers) = &self.controllers {
            facts.push(("all controllers".to_owned(), comma_separated(controllers)));
        }
        let most = format!("{}, at most {}", self.namespaces.len(), identity.allocatable_max());
        facts.push(("namespaces".to_owned(), most));
        if identity.can_manage_namespaces {
            for (name, bytes) in
                [("capacity", identity.capacity_bytes), ("unallocated", identity.unallocated_bytes)]
            {
                let is_said = identity.capacity_bytes != 0;
                let words = if is_said { bytes_in_words(bytes) } else { "not reported".to_owned() };
                facts.push((name.to_owned(), words));
            }
            let sizes: Vec<String> = self.block_sizes.iter().map(u64::to_string).collect();
            let sizes = if sizes.is_empty() {
                "not reported".to_owned()
            } else {
                format!("{} bytes", sizes.join(", "))
            };
            facts.push(("blocks of new ones".to_owned(), sizes));
        }
        facts
    }
}

fn bytes_in_words(bytes: u128) -> String {
    match u64::try_from(bytes) {
        Ok(small) => format!("{}, {bytes} bytes", BinaryBytes(small)),
        Err(_) => format!("{bytes} bytes"),
    }
}

impl<'a> Document<'a> {
    pub(super) fn new(address: &'a str, listing: &'a Listing) -> Self {
        let Listing { identity, controllers, block_sizes, namespaces } = listing;
        let bytes = |bytes: u128| (identity.capacity_bytes != 0).then(|| bytes.to_string());
        Self {
            schema: SCHEMA,
            made_by: program_version(),
            address,
            model: &identity.model,
            serial: &identity.serial,
            subsystem: Some(identity.subsystem.as_str()).filter(|name| !name.is_empty()),
            controller: identity.controller,
            controllers: controllers.as_deref(),
            can_manage_namespaces: identity.can_manage_namespaces,
            namespaces_max: identity.allocatable_max(),
            capacity_bytes: bytes(identity.capacity_bytes),
            unallocated_bytes: bytes(identity.unallocated_bytes),
            block_sizes_bytes: block_sizes,
            namespaces: namespaces.iter().map(NamespaceRow::new).collect(),
        }
    }
}

impl NamespaceRow {
    fn new(one: &Listed) -> Self {
        let format = one.format;
        Self {
            namespace: one.number,
            blocks: format.map(|format| format.blocks),
            block_bytes: format.map(|format| format.block_bytes()),
            bytes: format.map(|format| format.bytes()),
            is_shared: format.map(|format| format.is_shared),
            nguid: format.and_then(|format| hexadecimal(&format.names.nguid)),
            eui64: format.and_then(|format| hexadecimal(&format.names.eui64)),
            is_attached: one.is_attached,
            attached_controllers: one.attached.clone(),
        }
    }
}
