//! What is read and written: a controller of this host, or a file in its place.

use super::guardian::Guardian;
use crate::cli::BlkTarget;
use crate::output;
use anyhow::{Context, bail};
use dma::vfio::Way;
use nvme::chunk::{Backing, Chunk, Drive, Patience, Waiting};
use nvme::takeover::{Accepted, Candidate, Refusal, Root, Takeover};
use nvme::{Adapter, Controller, Namespace};
use std::path::Path;
use std::time::Duration;

/// Memory for queues and buffers.
const MEMORY_BYTES: u64 = 32 << 20;
/// Of the buffer of each request.
const REQUEST_BYTES: u64 = 128 << 10;
/// Of a file's blocks.
const FILE_BLOCK_SHIFT: u8 = 12;
const REQUESTS: u16 = 32;

/// An adapter that this process has, until it lets it go or ends.
pub(crate) struct Taken {
    pub(crate) adapter: Adapter,
    guardian: Option<Guardian>,
}

impl Taken {
    /// Says what speaks against taking a controller of this host.
    pub(crate) fn check(address: &str, accepted: Accepted) -> anyhow::Result<()> {
        let root = Root::default();
        refuse(&candidate(&root, address)?.refusals(&root, accepted))
    }

    /// Takes a controller of this host against which nothing speaks.
    pub(crate) fn of(address: &str, accepted: Accepted) -> anyhow::Result<Self> {
        let root = Root::default();
        let candidate = candidate(&root, address)?;
        refuse(&candidate.refusals(&root, accepted))?;
        let guardian = if candidate.driver.as_deref() == Some("vfio-pci") {
            None
        } else {
            let mut guardian = Guardian::of(&Takeover::of(&candidate))?;
            Takeover::take(&root, &candidate, || {
                let steps = Takeover::steps(&root, &candidate);
                steps.iter().for_each(|step| output::say(&step.to_string()));
                guardian.watch()
            })?;
            Some(guardian)
        };
        let adapter = Adapter::open(address, Way::of_this_host(address), MEMORY_BYTES)
            .with_context(|| format!("can't drive {address}"))?;
        Ok(Self { adapter, guardian })
    }

    /// Its namespace of a number.
    pub(crate) fn namespace(&self, number: Option<u32>) -> anyhow::Result<Namespace> {
        let controller = self.adapter.controller();
        let controller = Controller::lock(&controller);
        let all = controller.namespaces();
        match number {
            Some(number) => all.iter().find(|namespace| namespace.number == number).with_context(|| {
                format!("the controller has no namespace {number}; it has {}", numbers(all))
            }),
            None => all.first().context("the controller has no namespace that can be read"),
        }
        .copied()
    }

    /// Shuts the controller down, and gives the adapter back.
    pub(crate) fn let_go(self) -> anyhow::Result<()> {
        let Self { adapter, guardian } = self;
        let shut_down = adapter.shut_down().context("the controller was not shut down");
        let given_back = guardian.map_or(Ok(()), |mut guardian| guardian.give_back());
        shut_down.and(given_back)
    }
}

fn numbers(all: &[Namespace]) -> String {
    let numbers: Vec<String> = all.iter().map(|namespace| namespace.number.to_string()).collect();
    numbers.join(", ")
}

fn candidate(root: &Root, address: &str) -> anyhow::Result<Candidate> {
    let none = || Refusal::NoController { address: address.to_owned() };
    Ok(Candidate::at(root, address)?.ok_or_else(none)?)
}

/// The first is told with those behind it.
fn refuse(refusals: &[Refusal]) -> anyhow::Result<()> {
    let Some((first, others)) = refusals.split_first() else { return Ok(()) };
    let others: String = others.iter().map(|refusal| format!("\niotoll: also: {refusal}")).collect();
    bail!("{first}{others}")
}

/// A disk to read and write.
pub(super) struct Target {
    pub(super) chunk: Chunk,
    taken: Option<Taken>,
}

impl Target {
    /// Opens what was asked for.
    pub(super) fn open(asked: &BlkTarget) -> anyhow::Result<Self> {
        if asked.is_file() {
            let file =
                Backing::open(Path::new(&asked.target), FILE_BLOCK_SHIFT, REQUESTS, REQUEST_BYTES as usize)?;
            return Ok(Self { chunk: file.into(), taken: None });
        }
        let taken = Taken::of(&asked.target, Accepted { takeover: asked.take })?;
        let namespace = taken.namespace(asked.namespace)?;
        let controller = taken.adapter.controller();
        let timeout = Duration::from_millis(asked.timeout_ms);
        let (waiting, patience) = (Waiting::Polling, Patience { timeout, ..Patience::default() });
        let drive = Drive::open(controller, namespace, REQUESTS, REQUEST_BYTES, waiting, patience)?;
        Ok(Self { chunk: drive.into(), taken: Some(taken) })
    }

    /// Lets it go, with word of what had to be done to get there.
    pub(super) fn close(self) -> anyhow::Result<()> {
        let events = self.chunk.events();
        if events != nvme::chunk::Events::default() {
            output::say(&format!(
                "on the way: {} commands tried again, {} aborted, {} resets of the controller, after which {} began once more",
                events.retries, events.aborts, events.resets, events.begun_again
            ));
        }
        let closed = self.chunk.close().context("the queue was not given back");
        let let_go = self.taken.map_or(Ok(()), Taken::let_go);
        closed.and(let_go)
    }
}
