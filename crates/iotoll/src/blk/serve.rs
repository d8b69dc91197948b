//! `iotoll blk serve`: drives a controller for other processes, which open the disk by the path of a socket.

use super::data_loss::{BlockRange, DataLoss};
use super::driven_adapter::{DrivenAdapter, fail_if_refused, find_candidate, refusal_lines, with_further};
use super::target::{expect_no_zones, overwrite_refusals};
use crate::cli::{BlkServe, NvmeController, ServeWait, ShareArgument};
use crate::interrupt::stop_flag;
use crate::output::{self, Outcome};
use anyhow::{Context, bail};
use indicatif::BinaryBytes;
use nvme::broker::{Broker, BrokerEvent, EventHandler, Limits, Share};
use nvme::chunk::{Chunk, DiskPath, RetryPolicy};
use nvme::emulated::{DiskName, Machine};
use nvme::takeover::{Candidate, Root};
use nvme::{Controller, Namespace};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// DMA memory for the admin queue and lists.
const MEMORY_BYTES: u64 = 4 << 20;
/// The same for each thread: its queues, and buffers of 4 MiB that are aligned to that.
const THREAD_BYTES: u64 = 8 << 20;
/// Time between two looks whether the system wants an adapter back.
const GIVE_BACK_INTERVAL: Duration = Duration::from_millis(100);
/// Most lines about clients in a second.
const LINES_PER_SECOND: usize = 20;
/// Where sockets are made whose path was not given.
const FOLDER: &str = "/run/iotoll";

/// Serves until a signal arrives.
pub(super) fn run(args: &BlkServe) -> anyhow::Result<Outcome> {
    let stop = stop_flag().context("can't handle signals")?;
    match DiskName::parse(&args.disk.controller.address)? {
        Some(disk) => serve_emulated(args, disk, &stop)?,
        None => serve_adapters(args, &stop)?,
    }
    Ok(Outcome::Fine)
}

/// Serves a disk whose controllers are emulated in this process.
fn serve_emulated(args: &BlkServe, disk: DiskName, stop: &Arc<AtomicBool>) -> anyhow::Result<()> {
    let machines = disk.open(|builder| builder.memory_bytes(2 * memory_bytes(args)))?;
    let path = |machine: Machine| {
        let namespace = machine.namespace().context("the emulated controller has no namespace")?;
        let interrupts = match args.wait {
            ServeWait::Poll => None,
            ServeWait::Interrupt => Some(machine.queue_interrupts(args.threads as u16)?),
        };
        Ok(DiskPath { controller: Arc::new(Mutex::new(machine.controller)), namespace, interrupts })
    };
    let paths = machines.into_iter().map(path).collect::<anyhow::Result<Vec<_>>>()?;
    serve(args, paths, true, stop)
}

/// Serves a disk by controllers of this host.
fn serve_adapters(args: &BlkServe, stop: &Arc<AtomicBool>) -> anyhow::Result<()> {
    let NvmeController { address, consent } = &args.disk.controller;
    let root = Root::default();
    let candidates = address.split('+').map(|address| find_candidate(&root, address));
    let candidates = candidates.collect::<anyhow::Result<Vec<_>>>()?;
    let mut refusals = Vec::new();
    for candidate in &candidates {
        refusals.extend(refusal_lines(&candidate.refusals(&root, consent.accepted())));
        if args.is_writable() {
            let (namespace, overwrite) = (args.disk.namespace, &args.overwrite);
            let further = overwrite_refusals(candidate, namespace, BlockRange::ALL, overwrite);
            refusals = with_further(refusals, further)?;
        }
    }
    fail_if_refused(refusals)?;
    let mut adapters = Vec::new();
    let served = open_all(args, &root, &candidates, &mut adapters)
        .and_then(|()| serve_driven(args, &mut adapters, stop));
    // All are closed, and the first error is the one to report.
    let closed: Vec<_> = adapters.into_iter().map(DrivenAdapter::close).collect();
    served?;
    closed.into_iter().collect()
}

fn open_all(
    args: &BlkServe,
    root: &Root,
    candidates: &[Candidate],
    adapters: &mut Vec<DrivenAdapter>,
) -> anyhow::Result<()> {
    for candidate in candidates {
        adapters.push(DrivenAdapter::open_candidate(root, candidate, memory_bytes(args), Vec::new())?);
    }
    Ok(())
}

fn memory_bytes(args: &BlkServe) -> u64 {
    MEMORY_BYTES + args.threads as u64 * THREAD_BYTES
}

fn serve_driven(
    args: &BlkServe,
    adapters: &mut Vec<DrivenAdapter>,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<()> {
    let path = |adapter: &DrivenAdapter| {
        let interrupts = match args.wait {
            ServeWait::Poll => None,
            ServeWait::Interrupt => Some(adapter.adapter.queue_interrupts(args.threads as u32)?),
        };
        let namespace = adapter.namespace(args.disk.namespace)?;
        Ok(DiskPath { controller: adapter.adapter.controller(), namespace, interrupts })
    };
    let paths = adapters.iter().map(path).collect::<anyhow::Result<Vec<_>>>()?;
    check_paths(args, &paths)?;
    let has_served = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| give_back(adapters, &has_served));
        // Also where this ends by a panic.
        let _end = SetWhenDropped(&has_served);
        serve(args, paths, args.is_writable(), stop)
    })
}

/// Sets a flag at its end.
struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Closes adapters that the system wants back, while others are paths to the disk.
fn give_back(adapters: &mut Vec<DrivenAdapter>, has_served: &AtomicBool) {
    while !has_served.load(Ordering::Relaxed) {
        thread::sleep(GIVE_BACK_INTERVAL);
        while let Some(place) = adapters.iter().position(DrivenAdapter::can_be_given_back) {
            let adapter = adapters.remove(place);
            output::print_note(&format!("{} is closed: it is being unbound or removed", adapter.address()));
            if let Err(error) = adapter.close() {
                output::print_note(&format!("{error:#}"));
            }
        }
    }
}

/// Fails unless the paths lead to one disk; then with what clients could overwrite, unless that was allowed. Looked at again, now that no other program
/// can change it.
fn check_paths(args: &BlkServe, paths: &[DiskPath]) -> anyhow::Result<()> {
    let mut chunk = Chunk::open(paths, 1, 64 << 10, RetryPolicy::default())?;
    if args.is_writable() {
        paths.iter().try_for_each(|path| expect_no_zones(&path.namespace))?;
    }
    let loss =
        paths.first().filter(|_| args.is_writable()).map(|DiskPath { controller, namespace, .. }| {
            let identity = Controller::lock(controller).identity().clone();
            DataLoss::of_drive(
                &args.disk.controller.address,
                &identity,
                *namespace,
                BlockRange::ALL,
                &mut chunk,
            )
        });
    chunk.close()?;
    loss.map_or(Ok(()), |loss| args.overwrite.check(&loss))
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
    paths: Vec<DiskPath>,
    is_writable: bool,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<()> {
    let namespace = paths.first().context("no controller")?.namespace;
    let shares = shares(args, namespace, is_writable)?;
    let mut limits = Limits::default();
    (limits.threads, limits.queues) = (args.threads, args.queues);
    let described: Vec<String> = shares.iter().map(|share| description(share, namespace)).collect();
    let broker = Broker::new(paths, shares, limits)?;
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
