//! What is read and written: a controller of this host, or a file in its place.

use super::guardian::Guardian;
use super::input::Input;
use super::loss::{Blocks, Loss};
use super::write;
use crate::cli::{BlkTarget, BlkWrite};
use crate::output::{self, Lines};
use anyhow::{Context, bail, ensure};
use dma::Ram;
use dma::vfio::Interface;
use nvme::chunk::{Backing, Chunk, Drive, RetryPolicy, Waiting};
use nvme::takeover::{Accepted, Candidate, Claim, Refusal, Root, Takeover, TakeoverError};
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
        refuse(told(&candidate(&root, address)?.refusals(&root, accepted)))
    }

    /// Takes a controller of this host against which nothing speaks, with so much memory for queues and buffers.
    pub(crate) fn of(address: &str, accepted: Accepted, memory_bytes: u64) -> anyhow::Result<Self> {
        let root = Root::default();
        let candidate = candidate(&root, address)?;
        refuse(told(&candidate.refusals(&root, accepted)))?;
        Self::of_candidate(&root, &candidate, memory_bytes)
    }

    fn of_candidate(root: &Root, candidate: &Candidate, memory_bytes: u64) -> anyhow::Result<Self> {
        let address = candidate.address.as_str();
        // Before anything is taken: there may be none.
        let pinned = candidate.group.is_none().then(|| pinned(address, memory_bytes)).transpose()?;
        let files: Vec<BorrowedFd<'_>> = pinned.iter().filter_map(|memory| memory.pins()).flatten().collect();
        let mut guardian = match candidate.was_bound_to_vfio() && files.is_empty() {
            true => None,
            false => Some(Guardian::of(Takeover::of(candidate), &files)?),
        };
        let mut watch = || guardian.as_mut().map_or(Ok(()), Guardian::watch);
        if candidate.was_bound_to_vfio() {
            watch().map_err(TakeoverError::Notify)?;
        } else {
            Takeover::unbind_from_kernel(root, candidate, || {
                Takeover::steps(root, candidate).iter().for_each(|step| output::say(&step.to_string()));
                say_way_back(root, candidate);
                watch()
            })?;
        }
        let adapter = match pinned {
            Some(memory) => Adapter::open_without_iommu(address, memory),
            None => Adapter::open(address, Interface::of_this_host(address), memory_bytes),
        };
        Ok(Self { adapter: adapter.with_context(|| format!("can't drive {address}"))?, guardian })
    }

    /// Its namespace of a number, or its only one.
    pub(crate) fn namespace(&self, number: Option<u32>) -> anyhow::Result<Namespace> {
        let controller = self.adapter.controller();
        let controller = Controller::lock(&controller);
        let all = controller.namespaces();
        let numbers: Vec<u32> = all.iter().map(|namespace| namespace.number).collect();
        let chosen = choose(number, &numbers)?;
        let found = all.iter().find(|namespace| namespace.number == chosen);
        found.copied().with_context(|| none(chosen, &numbers))
    }

    /// Shuts the controller down, and gives the adapter back.
    pub(crate) fn let_go(self) -> anyhow::Result<()> {
        let Self { adapter, guardian } = self;
        let shut_down = adapter.shut_down().context("the controller was not shut down");
        let given_back = guardian.map_or(Ok(()), |mut guardian| guardian.give_back());
        shut_down.and(given_back)
    }
}

/// What to type if nobody is left who gives it back.
fn say_way_back(root: &Root, candidate: &Candidate) {
    output::say(&format!(
        "{} is given back when this ends, also if it is killed. If the process that does that (`iotoll blk give-back`) is killed too, type as root:",
        candidate.address
    ));
    let steps = Takeover::rebind_steps(root, candidate);
    steps.iter().for_each(|step| output::say(&format!("  {step}")));
}

/// The namespace that was asked for, or the only one there is.
pub(crate) fn choose(number: Option<u32>, all: &[u32]) -> anyhow::Result<u32> {
    match (number, all) {
        (Some(number), _) if all.contains(&number) => Ok(number),
        (Some(number), _) => bail!(none(number, all)),
        (None, [only]) => Ok(*only),
        (None, []) => bail!("the controller has no namespace that can be read"),
        (None, _) => bail!(
            "the controller has {} namespaces: {}; `--namespace N` says which one",
            all.len(),
            numbers(all)
        ),
    }
}

/// Of the namespaces that the kernel has disks of.
fn numbers_of_kernel(candidate: &Candidate) -> Vec<u32> {
    candidate.disks.iter().filter_map(|disk| disk.namespace).collect()
}

fn none(number: u32, all: &[u32]) -> String {
    format!("the controller has no namespace {number}; it has {}", numbers(all))
}

/// Memory for an adapter that nothing translates for, with word of what that means.
fn pinned(address: &str, bytes: u64) -> anyhow::Result<Arc<Ram>> {
    output::say(&format!(
        "{address} has no IOMMU: until it is given back, a wrong address in a command would write over anything of this host"
    ));
    let memory = Ram::pinned(bytes);
    Ok(Arc::new(memory.with_context(|| format!("no memory for {address}, which was left alone"))?))
}

fn numbers(all: &[u32]) -> String {
    all.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

fn candidate(root: &Root, address: &str) -> anyhow::Result<Candidate> {
    let none = || Refusal::NoController { address: address.to_owned() };
    Ok(Candidate::at(root, address)?.ok_or_else(none)?)
}

fn told(refusals: &[Refusal]) -> Vec<Lines> {
    refusals.iter().map(Lines::one).collect()
}

/// The first is told with those behind it.
fn refuse(refusals: Vec<Lines>) -> anyhow::Result<()> {
    let mut all = Vec::new();
    for Lines(mut lines) in refusals {
        if let Some(first) = lines.first_mut().filter(|_| !all.is_empty()) {
            first.insert_str(0, "also: ");
        }
        all.append(&mut lines);
    }
    if all.is_empty() { Ok(()) } else { Err(Lines(all).into()) }
}

/// Of a device of the kernel's its own, by which its controller counts too.
fn block_shift(path: &Path) -> io::Result<u8> {
    if !path.metadata()?.file_type().is_block_device() {
        return Ok(FILE_BLOCK_SHIFT);
    }
    let bytes = rustix::fs::ioctl_blksszget(std::fs::File::open(path)?)?;
    Ok(bytes.trailing_zeros() as u8)
}

fn expect_address(asked: &BlkTarget) -> anyhow::Result<()> {
    ensure!(
        asked.target.parse::<host::Bdf>().is_ok(),
        "there is no file {}, and it is no address as 0000:3b:00.0 (`iotoll blk list`)",
        asked.target
    );
    Ok(())
}

fn expect_no_adapter_options(asked: &BlkTarget) -> anyhow::Result<()> {
    ensure!(
        asked.consent.accepted() == Accepted::default() && asked.namespace.is_none(),
        "{} is a file: only an adapter is taken (--take, --accept-no-iommu) or has a --namespace",
        asked.target
    );
    Ok(())
}

fn expect_blocks(chunk: &Chunk, path: &Path) -> anyhow::Result<()> {
    let block_bytes = chunk.block_bytes();
    ensure!(chunk.blocks() > 0, "{} is shorter than one block of {block_bytes} bytes", path.display());
    Ok(())
}

/// That what is written has its place, before a part of it is written.
fn expect_room(args: &BlkWrite, input: &Input, chunk: &Chunk) -> anyhow::Result<Blocks> {
    let blocks = write::blocks(args, input, chunk.block_bytes())?;
    let (first, all) = (blocks.first, chunk.blocks());
    ensure!(
        first.checked_add(blocks.count.unwrap_or(1)).is_some_and(|end| end <= all),
        "{} blocks from {first}; the disk has {all}",
        blocks.count.map_or("some".to_owned(), |count| count.to_string())
    );
    Ok(blocks)
}

/// Everything that speaks against writing to an adapter's disk, as the kernel sees it.
fn against_writing(
    root: &Root,
    candidate: &Candidate,
    args: &BlkWrite,
    input: &Input,
) -> anyhow::Result<Vec<Lines>> {
    let mut against = told(&candidate.refusals(root, args.target.consent.accepted()));
    for disk in &candidate.disks {
        if input.identity().is_of_disk(root, &disk.name) {
            against.push(Lines::one(&format_args!("{} is what is written to", input.name())));
        }
    }
    // Without a driver of the kernel's nothing is known of its disks before it has been taken.
    let numbers = numbers_of_kernel(candidate);
    if numbers.is_empty() {
        return Ok(against);
    }
    let chosen = match choose(args.target.namespace, &numbers) {
        Ok(chosen) => chosen,
        Err(error) => {
            against.push(Lines::one(&error));
            return Ok(against);
        }
    };
    let disk = candidate.disks.iter().find(|disk| disk.namespace == Some(chosen));
    let blocks = Blocks { first: args.first, count: args.blocks };
    match disk.map(|disk| Loss::of_kernel_disk(candidate, disk, blocks)) {
        Some(Ok(loss)) => against.extend(args.overwrite.against(&loss)),
        // What was found before says why.
        Some(Err(error)) if against.is_empty() => return Err(error),
        Some(Err(_)) | None => {}
    }
    Ok(against)
}

/// A disk to read and write.
pub(super) struct Target {
    pub(super) chunk: Chunk,
    taken: Option<Taken>,
}

impl Target {
    /// Opens what is to be read.
    pub(super) fn open(asked: &BlkTarget) -> anyhow::Result<Self> {
        if asked.is_file() {
            return Self::of_file(asked, Path::new(&asked.target));
        }
        expect_address(asked)?;
        let root = Root::default();
        let candidate = candidate(&root, &asked.target)?;
        refuse(told(&candidate.refusals(&root, asked.consent.accepted())))?;
        let numbers = numbers_of_kernel(&candidate);
        if !numbers.is_empty() {
            choose(asked.namespace, &numbers)?;
        }
        let taken = Taken::of_candidate(&root, &candidate, MEMORY_BYTES)?;
        let namespace = taken.namespace(asked.namespace)?;
        Self::of_namespace(asked, taken, namespace)
    }

    fn of_namespace(asked: &BlkTarget, taken: Taken, namespace: Namespace) -> anyhow::Result<Self> {
        let controller = taken.adapter.controller();
        let timeout = Duration::from_millis(asked.timeout_ms);
        let (waiting, retry_policy) = (Waiting::Polling, RetryPolicy { timeout, ..RetryPolicy::default() });
        let drive = Drive::open(controller, namespace, REQUESTS, REQUEST_BYTES, waiting, retry_policy)?;
        Ok(Self { chunk: drive.into(), taken: Some(taken) })
    }

    fn of_file(asked: &BlkTarget, path: &Path) -> anyhow::Result<Self> {
        expect_no_adapter_options(asked)?;
        let shift = block_shift(path).with_context(|| format!("can't read {}", path.display()))?;
        let file = Backing::open(path, shift, REQUESTS, REQUEST_BYTES as usize)?;
        let chunk = Chunk::from(file);
        expect_blocks(&chunk, path)?;
        Ok(Self { chunk, taken: None })
    }

    /// Opens what is to be written, if whoever asks for that has named what is lost.
    pub(super) fn open_to_write(args: &BlkWrite, input: &Input) -> anyhow::Result<Self> {
        let asked = &args.target;
        match asked.is_file() {
            true => Self::of_file_to_write(args, input, Path::new(&asked.target)),
            false => Self::of_adapter_to_write(args, input),
        }
    }

    fn of_file_to_write(args: &BlkWrite, input: &Input, path: &Path) -> anyhow::Result<Self> {
        let root = Root::default();
        expect_no_adapter_options(&args.target)?;
        let shift = block_shift(path).with_context(|| format!("can't read {}", path.display()))?;
        let claim = Claim::of(&root, path)?;
        let (identity, names) = (claim.identity(), claim.disk_names(&root)?);
        ensure!(!identity.overlaps(&root, input.identity()), "{} is what is written to", input.name());
        let (path, file) = claim.into_parts();
        let backing = Backing::from_file(path.clone(), file, shift, REQUESTS, REQUEST_BYTES as usize)?;
        let mut chunk = Chunk::from(backing);
        expect_blocks(&chunk, &path)?;
        let blocks = expect_room(args, input, &chunk)?;
        let loss = Loss::of_file(&path, identity, names, blocks, &mut chunk);
        match args.overwrite.against(&loss) {
            Some(refusal) => Err(refusal.into()),
            None => Ok(Self { chunk, taken: None }),
        }
    }

    /// Whoever uses a disk, and what is on it, is found out before it is taken from the kernel's driver, and what is on it again after that: from then on
    /// nobody else has it.
    fn of_adapter_to_write(args: &BlkWrite, input: &Input) -> anyhow::Result<Self> {
        let asked = &args.target;
        expect_address(asked)?;
        let root = Root::default();
        let candidate = candidate(&root, &asked.target)?;
        refuse(against_writing(&root, &candidate, args, input)?)?;
        let taken = Taken::of_candidate(&root, &candidate, MEMORY_BYTES)?;
        let namespace = taken.namespace(asked.namespace)?;
        let identity = Controller::lock(&taken.adapter.controller()).identity().clone();
        let mut target = Self::of_namespace(asked, taken, namespace)?;
        let refusal = expect_room(args, input, &target.chunk).map(|blocks| {
            let loss = Loss::of_drive(&asked.target, &identity, namespace, blocks, &mut target.chunk);
            args.overwrite.against(&loss)
        });
        let refused = match refusal {
            Ok(None) => return Ok(target),
            Ok(Some(refusal)) => refusal.into(),
            Err(error) => error,
        };
        // It says more than what else may go wrong.
        let _ = target.close();
        Err(refused)
    }

    /// Lets it go, with word of what had to be done to get there.
    pub(super) fn close(self) -> anyhow::Result<()> {
        let events = self.chunk.events();
        if events != nvme::chunk::Events::default() {
            output::say(&format!(
                "on the way: {} commands tried again, {} aborted, {} resets of the controller, after which {} began once more",
                events.retries, events.aborts, events.resets, events.resubmitted
            ));
        }
        let closed = self.chunk.close().context("the queue was not given back");
        let let_go = self.taken.map_or(Ok(()), Taken::let_go);
        closed.and(let_go)
    }
}
