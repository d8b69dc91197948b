//! `iotoll blk log`: what a controller is, and what it says went wrong.

use super::target::{MEMORY_BYTES, Taken};
use crate::cli::BlkLog;
use crate::output::{self, Outcome};
use nvme::Controller;
use report::{ControllerLog, LogEntry};
use serde_json::{Value, json};

pub(super) fn run(args: &BlkLog) -> anyhow::Result<Outcome> {
    let taken = Taken::of(&args.address, args.consent.accepted(), MEMORY_BYTES)?;
    let log = read(&taken);
    let let_go = taken.let_go();
    let log = log?;
    let_go?;
    match args.json {
        true => output::json(&document(&log))?,
        false => output::report(report::controller_log(&log, output::width(), output::style()))?,
    }
    Ok(Outcome::of(log.entries.len()))
}

fn read(taken: &Taken) -> anyhow::Result<ControllerLog> {
    let controller = taken.adapter.controller();
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

fn document(log: &ControllerLog) -> Value {
    let namespaces = log.namespaces.iter();
    let namespaces: Vec<Value> = namespaces
        .map(|(number, blocks, block_bytes)| json!({ "number": number, "blocks": blocks, "block_bytes": block_bytes }))
        .collect();
    let entry = |entry: &LogEntry| {
        json!({
            "count": entry.count, "queue": entry.queue, "command": entry.command, "status": entry.status,
            "namespace": entry.namespace, "block": entry.block,
        })
    };
    json!({
        "schema": "iotoll.blk-log/1", "model": log.model, "serial": log.serial, "firmware": log.firmware,
        "namespaces": namespaces, "entries": log.entries.iter().map(entry).collect::<Vec<_>>(),
    })
}
