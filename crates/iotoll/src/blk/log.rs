//! `iotoll blk log`: a controller's identity, namespaces and error log, and what the errors mean.

use super::driven_adapter::DrivenAdapter;
use super::error_group::{ErrorGroup, groups};
use super::target::MEMORY_BYTES;
use crate::cli::{BlkLog, NvmeController};
use crate::inspect::program_version;
use crate::output::{self, Outcome};
use nvme::Controller;
use nvme::spec::error_log::ErrorEntry;
use report::{ControllerLog, LogEntry, LogGroup};
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
    /// Entries of the error log with the same queue and status, and blocks near each other; the largest group first.
    groups: Vec<GroupRow<'a>>,
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

/// Entries of the error log that belong together.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct GroupRow<'a> {
    /// Number of entries.
    count: usize,
    /// The commands' submission queue; 65,535 if the errors are of no command.
    queue: u16,
    /// Status code type.
    status_type: u8,
    /// Status code.
    status_code: u8,
    /// The namespace; null if the errors are of none.
    namespace: Option<u32>,
    /// The lowest logical block; null if the errors are not of blocks.
    first_block: Option<u64>,
    /// The highest logical block; null if the errors are not of blocks.
    last_block: Option<u64>,
    /// What happened, how often, and where.
    sentence: &'a str,
    /// What the status means, and what to do.
    advice: &'a str,
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
    let NvmeController { address, consent } = &args.controller;
    let adapter = DrivenAdapter::open(address, consent.accepted(), MEMORY_BYTES)?;
    let (log, groups) = adapter.use_and_close(read_log)?;
    match args.json {
        true => output::print_json(&Document::new(&log, &groups))?,
        false => output::print_page(&report::controller_log(&log))?,
    }
    Ok(Outcome::of_findings(log.entries.len()))
}

/// Reads the identity, the namespaces and the error log of a controller.
fn read_log(controller: &mut Controller) -> anyhow::Result<(ControllerLog, Vec<ErrorGroup>)> {
    let entry = |entry: &ErrorEntry| LogEntry {
        count: entry.count,
        queue: entry.queue,
        command: entry.identifier,
        status: entry.status.to_string(),
        namespace: entry.namespace,
        block: entry.block,
    };
    let entries = controller.error_log()?;
    let groups = groups(&entries);
    let group =
        |group: &ErrorGroup| LogGroup { sentence: group.sentence(), advice: group.advice().to_owned() };
    let identity = controller.identity();
    let namespaces = controller.namespaces().iter();
    let log = ControllerLog {
        model: identity.model.clone(),
        serial: identity.serial.clone(),
        firmware: identity.firmware.clone(),
        namespaces: namespaces.map(|one| (one.number, one.format.blocks, one.format.block_bytes())).collect(),
        groups: groups.iter().map(group).collect(),
        entries: entries.iter().map(entry).collect(),
    };
    Ok((log, groups))
}

impl<'a> Document<'a> {
    fn new(log: &'a ControllerLog, groups: &[ErrorGroup]) -> Self {
        let namespace =
            |&(number, blocks, block_bytes): &(u32, u64, u64)| NamespaceRow { number, blocks, block_bytes };
        Self {
            schema: SCHEMA,
            made_by: program_version(),
            model: &log.model,
            serial: &log.serial,
            firmware: &log.firmware,
            namespaces: log.namespaces.iter().map(namespace).collect(),
            groups: groups
                .iter()
                .zip(&log.groups)
                .map(|(group, words)| GroupRow::new(group, words))
                .collect(),
            entries: log.entries.iter().map(EntryRow::new).collect(),
        }
    }
}

impl<'a> GroupRow<'a> {
    fn new(group: &ErrorGroup, words: &'a LogGroup) -> Self {
        Self {
            count: group.count,
            queue: group.queue,
            status_type: group.status.kind(),
            status_code: group.status.code(),
            namespace: group.namespace,
            first_block: group.blocks.as_ref().map(|blocks| *blocks.start()),
            last_block: group.blocks.as_ref().map(|blocks| *blocks.end()),
            sentence: &words.sentence,
            advice: &words.advice,
        }
    }
}

impl<'a> EntryRow<'a> {
    fn new(entry: &'a LogEntry) -> Self {
        let LogEntry { count, queue, command, status, namespace, block } = entry;
        Self { count: *count, queue: *queue, command: *command, status, namespace: *namespace, block: *block }
    }
}
