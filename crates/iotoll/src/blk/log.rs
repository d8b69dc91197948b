//! `iotoll blk log`: a controller's identity, namespaces and error log.

use super::driven_adapter::DrivenAdapter;
use super::target::MEMORY_BYTES;
use crate::cli::BlkLog;
use crate::inspect::program_version;
use crate::output::{self, Outcome};
use nvme::Controller;
use report::{ControllerLog, LogEntry};
use serde::Serialize;

/// The version of the document's layout.
pub(crate) const SCHEMA: &str = "iotoll.blk-log/1";

/// What `iotoll blk log --json` prints.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Document<'a> {
    /// `iotoll.blk-log/1`
    schema: &'static str,
    /// Name and version of the program.
    made_by: &'static str,
    /// The controller's model.
    model: &'a str,
    /// Its serial number.
    serial: &'a str,
    /// Revision of its firmware.
    firmware: &'a str,
    /// Its namespaces.
    namespaces: Vec<NamespaceRow>,
    /// Its error log, the newest entry first.
    entries: Vec<EntryRow<'a>>,
}

/// A namespace.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct NamespaceRow {
    /// Its number.
    number: u32,
    /// Its size in logical blocks.
    blocks: u64,
    /// Bytes of a logical block.
    block_bytes: u64,
}

/// An entry of the error log.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct EntryRow<'a> {
    /// Error count: number of errors over the controller's life, including this one (NVMe Base Specification, Error Information log).
    count: u64,
    /// The command's submission queue.
    queue: u16,
    /// The command's identifier.
    command: u16,
    /// The completion status, in words.
    status: &'a str,
    /// Its namespace.
    namespace: u32,
    /// Its first logical block.
    block: u64,
}

/// Prints a controller's identity and error log. Log entries count as findings.
pub(super) fn run(args: &BlkLog) -> anyhow::Result<Outcome> {
    let adapter = DrivenAdapter::open(&args.address, args.consent.accepted(), MEMORY_BYTES)?;
    let log = read_log(&adapter);
    let closed = adapter.close();
    let log = log?;
    closed?;
    match args.json {
        true => output::print_json(&Document::new(&log))?,
        false => output::print_page(&report::controller_log(&log))?,
    }
    Ok(Outcome::of_findings(log.entries.len()))
}

/// Reads the identity, the namespaces and the error log of a controller.
fn read_log(adapter: &DrivenAdapter) -> anyhow::Result<ControllerLog> {
    let controller = adapter.adapter.controller();
    let mut controller = Controller::lock(&controller);
    let entry = |entry: nvme::spec::error_log::ErrorEntry| LogEntry {
        count: entry.count,
        queue: entry.queue,
        command: entry.identifier,
        status: entry.status.to_string(),
        namespace: entry.namespace,
        block: entry.block,
    };
    let entries = controller.error_log()?.into_iter().map(entry).collect();
    let identity = controller.identity();
    let namespaces = controller.namespaces().iter();
    Ok(ControllerLog {
        model: identity.model.clone(),
        serial: identity.serial.clone(),
        firmware: identity.firmware.clone(),
        namespaces: namespaces.map(|one| (one.number, one.format.blocks, one.format.block_bytes())).collect(),
        entries,
    })
}

impl<'a> Document<'a> {
    fn new(log: &'a ControllerLog) -> Self {
        let namespace =
            |&(number, blocks, block_bytes): &(u32, u64, u64)| NamespaceRow { number, blocks, block_bytes };
        Self {
            schema: SCHEMA,
            made_by: program_version(),
            model: &log.model,
            serial: &log.serial,
            firmware: &log.firmware,
            namespaces: log.namespaces.iter().map(namespace).collect(),
            entries: log.entries.iter().map(EntryRow::new).collect(),
        }
    }
}

impl<'a> EntryRow<'a> {
    fn new(entry: &'a LogEntry) -> Self {
        let LogEntry { count, queue, command, status, namespace, block } = entry;
        Self { count: *count, queue: *queue, command: *command, status, namespace: *namespace, block: *block }
    }
}
