//! What is read and written: a controller of this host, or a file in its place.

use super::guardian::Guardian;
use crate::cli::BlkTarget;
use crate::output;
use anyhow::{Context, bail, ensure};
use dma::Ram;
use dma::vfio::Way;
use nvme::chunk::{Backing, Chunk, Drive, Patience, Waiting};
use nvme::takeover::{Accepted, Candidate, Refusal, Root, Takeover, TakeoverError};
use nvme::{Adapter, Controller, Namespace};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Memory for queues and buffers: what [`REQUESTS`] take, as much again since they begin at a multiple of that, and some. Not more: huge pages that lie side
/// by side are few.
pub(super) const MEMORY_BYTES: u64 = 6 << 20;
/// Of the buffer of each request.
const REQUEST_BYTES: u64 = 64 << 10;
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

    /// Takes a controller of this host against which nothing speaks, with so much memory for queues and buffers.
    pub(crate) fn of(address: &str, accepted: Accepted, memory_bytes: u64) -> anyhow::Result<Self> {
        let root = Root::default();
        let candidate = candidate(&root, address)?;
        refuse(&candidate.refusals(&root, accepted))?;
        // Before anything is taken: there may be none.
        let pinned = candidate.group.is_none().then(|| pinned(address, memory_bytes)).transpose()?;
        let files: Vec<BorrowedFd<'_>> = pinned.iter().filter_map(|memory| memory.pins()).flatten().collect();
        let mut guardian = match candidate.is_lent() && files.is_empty() {
            true => None,
            false => Some(Guardian::of(Takeover::of(&candidate), &files)?),
        };
        let mut watch = || guardian.as_mut().map_or(Ok(()), Guardian::watch);
        if candidate.is_lent() {
            watch().map_err(TakeoverError::Tell)?;
        } else {
            Takeover::take(&root, &candidate, || {
                let steps = Takeover::steps(&root, &candidate);
                steps.iter().for_each(|step| output::say(&step.to_string()));
                watch()
            })?;
        }
        let adapter = match pinned {
            Some(memory) => Adapter::open_without_iommu(address, memory),
            None => Adapter::open(address, Way::of_this_host(address), memory_bytes),
        };
        Ok(Self { adapter: adapter.with_context(|| format!("can't drive {address}"))?, guardian })
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

/// Memory for an adapter that nothing translates for, with word of what that means.
fn pinned(address: &str, bytes: u64) -> anyhow::Result<Arc<Ram>> {
    output::say(&format!(
        "{address} has no IOMMU: until it is given back, a wrong address in a command would write over anything of this host"
    ));
    let memory = Ram::pinned(bytes);
    Ok(Arc::new(memory.with_context(|| format!("no memory for {address}, which was left alone"))?))
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
    let others: String = others.iter().map(|refusal| format!("; also: {refusal}")).collect();
    bail!("{first}{others}")
}

/// Of a device of the kernel's its own, by which its controller counts too.
fn block_shift(path: &Path) -> io::Result<u8> {
    if !path.metadata()?.file_type().is_block_device() {
        return Ok(FILE_BLOCK_SHIFT);
    }
    let bytes = rustix::fs::ioctl_blksszget(std::fs::File::open(path)?)?;
    Ok(bytes.trailing_zeros() as u8)
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
            return Self::of_file(asked, Path::new(&asked.target));
        }
        if asked.target.parse::<host::Bdf>().is_err() {
            bail!(
                "there is no file {}, and it is no address as 0000:3b:00.0 (`iotoll blk list`)",
                asked.target
            );
        }
        let taken = Taken::of(&asked.target, asked.consent.accepted(), MEMORY_BYTES)?;
        let namespace = taken.namespace(asked.namespace)?;
        let controller = taken.adapter.controller();
        let timeout = Duration::from_millis(asked.timeout_ms);
        let (waiting, patience) = (Waiting::Polling, Patience { timeout, ..Patience::default() });
        let drive = Drive::open(controller, namespace, REQUESTS, REQUEST_BYTES, waiting, patience)?;
        Ok(Self { chunk: drive.into(), taken: Some(taken) })
    }

    fn of_file(asked: &BlkTarget, path: &Path) -> anyhow::Result<Self> {
        if asked.consent.accepted() != Accepted::default() || asked.namespace.is_some() {
            bail!(
                "{} is a file: only an adapter is taken (--take, --accept-no-iommu) or has a --namespace",
                path.display()
            );
        }
        let shift = block_shift(path).with_context(|| format!("can't read {}", path.display()))?;
        let file = Backing::open(path, shift, REQUESTS, REQUEST_BYTES as usize)?;
        let chunk = Chunk::from(file);
        ensure!(
            chunk.blocks() > 0,
            "{} is shorter than one block of {} bytes",
            path.display(),
            1_u32 << shift
        );
        Ok(Self { chunk, taken: None })
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
