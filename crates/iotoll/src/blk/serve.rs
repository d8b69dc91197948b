//! `iotoll blk serve`: drives a controller for other processes, which open the disk by the path of a socket.

use super::data_loss::{BlockRange, DataLoss};
use super::driven_adapter::{DrivenAdapter, fail_if_refused, find_candidate, refusal_lines};
use super::target::overwrite_refusals;
use crate::cli::{BlkServe, NvmeController, ShareArgument};
use crate::interrupt::stop_flag;
use crate::output::{self, Outcome};
use anyhow::{Context, bail};
use indicatif::BinaryBytes;
use nvme::broker::{Broker, BrokerEvent, EventHandler, Limits, Share};
use nvme::chunk::{Chunk, Drive, RetryPolicy, Waiting};
use nvme::emulated::Machine;
use nvme::takeover::Root;
use nvme::{Controller, Namespace};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Begins the name of an emulated controller: `emulated:BLOCKS`.
const EMULATED: &str = "emulated:";
/// Size of an emulated controller's blocks, as a power of two.
const EMULATED_BLOCK_SHIFT: u8 = 12;
/// Most blocks of an emulated controller, which are in this process's memory: 4 GiB.
const EMULATED_BLOCKS_MAX: u64 = 1 << 20;
/// DMA memory for the admin queue and lists.
const MEMORY_BYTES: u64 = 4 << 20;
/// The same for each thread: its queues, and buffers of 4 MiB that are aligned to that.
const THREAD_BYTES: u64 = 8 << 20;
/// Most lines about clients in a second.
const LINES_PER_SECOND: usize = 20;
/// Where sockets are made whose path was not given.
const FOLDER: &str = "/run/iotoll";

/// Serves until a signal arrives.
pub(super) fn run(args: &BlkServe) -> anyhow::Result<Outcome> {
    let stop = stop_flag().context("can't handle signals")?;
    match args.disk.controller.address.strip_prefix(EMULATED) {
        Some(blocks) => serve_emulated(args, blocks, &stop)?,
        None => serve_adapter(args, &stop)?,
    }
    Ok(Outcome::Fine)
}

/// Serves a controller that is emulated in this process.
fn serve_emulated(args: &BlkServe, blocks: &str, stop: &Arc<AtomicBool>) -> anyhow::Result<()> {
    let blocks = blocks.parse().ok().filter(|blocks| (1..=EMULATED_BLOCKS_MAX).contains(blocks));
    let blocks = blocks
        .with_context(|| format!("expected {EMULATED}BLOCKS with 1 to {EMULATED_BLOCKS_MAX} blocks"))?;
    let machine =
        Machine::builder(blocks, EMULATED_BLOCK_SHIFT).memory_bytes(2 * memory_bytes(args)).open()?;
    let namespace = machine.namespace().context("the emulated controller has no namespace")?;
    let shares = shares(args, namespace, true)?;
    serve(args, Arc::new(Mutex::new(machine.controller)), namespace, shares, stop)
}

/// Serves a controller of this host.
fn serve_adapter(args: &BlkServe, stop: &Arc<AtomicBool>) -> anyhow::Result<()> {
    let NvmeController { address, consent } = &args.disk.controller;
    let root = Root::default();
    let candidate = find_candidate(&root, address)?;
    let mut refusals = refusal_lines(&candidate.refusals(&root, consent.accepted()));
    if args.is_writable() {
        refusals.extend(overwrite_refusals(&candidate, args.disk.namespace, ALL, &args.overwrite)?);
    }
    fail_if_refused(refusals)?;
    let adapter = DrivenAdapter::open_candidate(&root, &candidate, memory_bytes(args), Vec::new())?;
    let served = serve_driven(args, &adapter, stop);
    let closed = adapter.close();
    served?;
    closed
}

/// All blocks of a disk.
const ALL: BlockRange = BlockRange { first: 0, count: None };

fn memory_bytes(args: &BlkServe) -> u64 {
    MEMORY_BYTES + args.threads as u64 * THREAD_BYTES
}

fn serve_driven(args: &BlkServe, adapter: &DrivenAdapter, stop: &Arc<AtomicBool>) -> anyhow::Result<()> {
    let namespace = adapter.namespace(args.disk.namespace)?;
    let controller = adapter.adapter.controller();
    if args.is_writable() {
        check_overwrite(args, &controller, namespace)?;
    }
    let shares = shares(args, namespace, args.is_writable())?;
    serve(args, controller, namespace, shares, stop)
}

/// Fails with what clients could overwrite, unless that was allowed. Looked at again, now that no other program can change it.
fn check_overwrite(
    args: &BlkServe,
    controller: &Arc<Mutex<Controller>>,
    namespace: Namespace,
) -> anyhow::Result<()> {
    let identity = Controller::lock(controller).identity().clone();
    let (controller, policy) = (Arc::clone(controller), RetryPolicy::default());
    let drive = Drive::open(controller, namespace, 1, 64 << 10, Waiting::Polling, policy)?;
    let mut chunk = Chunk::from(drive);
    let loss = DataLoss::of_drive(&args.disk.controller.address, &identity, namespace, ALL, &mut chunk);
    chunk.close()?;
    args.overwrite.refusal(&loss).map_or(Ok(()), |refusal| Err(refusal.into()))
}

/// What to serve: what was asked for, or all of the namespace at a socket named after the controller.
fn shares(args: &BlkServe, namespace: Namespace, is_writable: bool) -> anyhow::Result<Vec<Share>> {
    let all = namespace.format.blocks;
    let asked = match args.shares.is_empty() {
        true => vec![ShareArgument { socket: default_socket(&args.disk.controller.address)?, blocks: None }],
        false => args.shares.clone(),
    };
    let share = |ShareArgument { socket, blocks }| {
        let (first, blocks) = blocks.unwrap_or((0, all));
        Share { socket, first, blocks, is_writable }
    };
    let shares: Vec<Share> = asked.into_iter().map(share).collect();
    let overlap = shares.iter().enumerate().find_map(|(number, one)| {
        let overlaps = |other: &&Share| {
            one.first < other.first.saturating_add(other.blocks)
                && other.first < one.first.saturating_add(one.blocks)
        };
        shares[number + 1..].iter().find(overlaps).map(|other| (one, other))
    });
    if let Some((one, other)) = overlap.filter(|_| is_writable) {
        bail!(
            "{} and {} have blocks in common; expected shares with blocks of their own",
            one.socket.display(),
            other.socket.display()
        );
    }
    Ok(shares)
}

/// The socket of a controller, in a folder that is made if it is not there.
fn default_socket(address: &str) -> anyhow::Result<PathBuf> {
    let made = DirBuilder::new().recursive(true).mode(0o755).create(FOLDER);
    made.with_context(|| format!("can't make {FOLDER}; `--share SOCKET` chooses another place"))?;
    Ok(Path::new(FOLDER).join(address))
}

fn serve(
    args: &BlkServe,
    controller: Arc<Mutex<Controller>>,
    namespace: Namespace,
    shares: Vec<Share>,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<()> {
    let mut limits = Limits::default();
    (limits.threads, limits.queues) = (args.threads, args.queues);
    let described: Vec<String> = shares.iter().map(|share| description(share, namespace)).collect();
    let broker = Broker::new(controller, namespace, shares, limits)?;
    described.iter().for_each(|line| output::print_note(line));
    output::print_note(
        "the sockets are this user's alone: chown, chgrp and chmod let others in. Ctrl-C ends",
    );
    Ok(broker.serve(stop, &print_events())?)
}

/// Has a thread of its own print events: whoever serves must not wait for a terminal or a pipe. At most [`LINES_PER_SECOND`] are printed; what is too
/// much is counted.
fn print_events() -> EventHandler {
    let (sender, events) = sync_channel::<BrokerEvent>(LINES_PER_SECOND);
    let missed = Arc::new(AtomicUsize::new(0));
    let its_missed = Arc::clone(&missed);
    thread::spawn(move || {
        for event in events {
            output::print_note(&event_line(&event));
            thread::sleep(Duration::from_secs(1) / LINES_PER_SECOND as u32);
            match its_missed.swap(0, Ordering::Relaxed) {
                0 => {}
                more => output::print_note(&format!("{more} more events")),
            }
        }
    });
    Arc::new(move |event| {
        if sender.try_send(event).is_err() {
            missed.fetch_add(1, Ordering::Relaxed);
        }
    })
}

/// Where a share is served, and what it is.
fn description(share: &Share, namespace: Namespace) -> String {
    let Share { socket, first, blocks, is_writable } = share;
    let bytes = BinaryBytes(blocks.saturating_mul(namespace.format.block_bytes()));
    let rights = if *is_writable { "read and write" } else { "read only" };
    format!("{}: {bytes} from block {first} of namespace {}, {rights}", socket.display(), namespace.number)
}

fn event_line(event: &BrokerEvent) -> String {
    match event {
        BrokerEvent::Came { process, user, socket } => {
            format!("process {process} of user {user} has a queue of {}", socket.display())
        }
        BrokerEvent::Left { process, user } => format!("process {process} of user {user} has left a queue"),
        BrokerEvent::Refused { why } => format!("refused: {why}"),
        other => format!("{other:?}"),
    }
}
