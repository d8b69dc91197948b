//! One disk through several controllers (multipath). Requests take turns among the paths. Where a path is lost, its requests go on through another one.
//!
//! ```text
//!   request -> Paths -+-> Drive of controller 0 --+
//!                     +-> Drive of controller 1 --+--> the same namespace of one subsystem
//! ```
//!
//! A request may then be executed twice, as after a reset. A controller that can't even be reset may still execute a request that another path
//! has repeated, long after: take it out of use.

use super::controller_cache::ControllerCache;
use super::drive::{CHECK_INTERVAL, Drive};
use super::{ChunkError, DiskPath, Events, Operation, Wait};
use crate::blocks::BlockError;
use crate::controller::{Controller, Namespace};
use crate::spec::status::Status;
use crate::unflushed::LossTeller;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Rounds without an end before the thread sleeps, or another one may run.
const ROUNDS: u32 = 64;

/// A path.
#[derive(Debug)]
struct Path {
    /// `None` when it is lost. Then nothing of this keeps its controller.
    drive: Option<Drive>,
    /// Data of a lost path's slots.
    left: Vec<u8>,
    /// `None` for a controller without a volatile write cache.
    cache: Option<ControllerCache>,
}

/// The request of a slot.
#[derive(Debug, Default)]
struct Routed {
    /// `None` before the slot's first request.
    operation: Option<Operation>,
    /// The path that it has taken last.
    path: usize,
    /// Paths on which a flush is in flight; 0 for another operation, which is on one.
    parts: usize,
    /// A part of that flush has succeeded.
    has_flushed: bool,
    /// Why a part of it has failed that had nothing to flush.
    path_error: Option<ChunkError>,
    /// Paths that it has left.
    moves: usize,
    /// Why a part has failed.
    error: Option<ChunkError>,
}

impl Path {
    /// Whether writes of any queue to the controller may not have been flushed.
    fn is_dirty(&self) -> bool {
        self.cache.as_ref().is_some_and(|cache| cache.unflushed().is_dirty())
    }

    /// Flushes the controller, of which there is no queue here that works.
    fn flush_without_drive(&self) -> Result<(), ChunkError> {
        self.cache.as_ref().map_or(Ok(()), ControllerCache::flush)
    }
}

/// A namespace that several controllers of a subsystem share, for a [`Chunk`](super::Chunk) of one thread.
#[derive(Debug)]
pub struct Paths {
    paths: Vec<Path>,
    /// By slot.
    routed: Vec<Routed>,
    namespace: Namespace,
    request_bytes: usize,
    in_flight: usize,
    /// The path whose turn is next.
    turn: usize,
    /// What happened on lost paths, and requests that have gone on through another path.
    past: Events,
    /// Has the next flush say that a path is lost whose controller had writes that were not flushed, whichever queue they came from. `None` where
    /// somebody else says so.
    losses: Option<LossTeller>,
    /// What the paths have ended in one round; kept to avoid an allocation for each.
    ended: Vec<(usize, u16, Result<(), ChunkError>)>,
    /// Data of a write that takes another path.
    data: Vec<u8>,
    /// Can be read when a path that is not lost has interrupted; `None` if they are polled.
    events: Option<OwnedFd>,
}

impl Paths {
    /// Drives of different controllers for one namespace. If all have interrupts, the thread polls for a moment and then sleeps; otherwise it polls.
    ///
    /// # Errors
    /// [`ChunkError::NotOneDisk`] unless all namespaces say that they are shared, and have the same subsystem, identifier, names and format;
    /// [`ChunkError::Events`]. Then the drives are closed.
    pub fn new(drives: Vec<Drive>) -> Result<Self, ChunkError> {
        let is = |drive: &Drive| DiskPath::polled(Arc::clone(drive.controller()), drive.namespace());
        let paths: Vec<DiskPath> = drives.iter().map(is).collect();
        let losses = LossTeller::new(DiskPath::loss_reader(&paths));
        Self::with_losses(drives, &paths, Some(losses))
    }

    /// The same, where not all of `paths` have a drive, because their controllers do not work.
    pub(super) fn with_losses(
        mut drives: Vec<Drive>,
        paths: &[DiskPath],
        losses: Option<LossTeller>,
    ) -> Result<Self, ChunkError> {
        let checked = check_one_disk(&drives).and_then(|namespace| Ok((namespace, watch(&drives)?)));
        let (namespace, events) = match checked {
            Ok(checked) => checked,
            Err(error) => {
                close_all(drives);
                return Err(error);
            }
        };
        drives.iter_mut().for_each(Drive::tell_no_losses);
        let requests = drives.iter().map(Drive::requests).min().unwrap_or(0);
        let request_bytes = drives.iter().map(Drive::request_bytes).min().unwrap_or(0);
        let mut drives: Vec<Option<Drive>> = drives.into_iter().map(Some).collect();
        let path = |path: &DiskPath| {
            let is_its = |drive: &Drive| Arc::ptr_eq(drive.controller(), &path.controller);
            Path {
                drive: drives.iter_mut().find_map(|drive| drive.take_if(|drive| is_its(drive))),
                left: Vec::new(),
                cache: ControllerCache::new(&path.controller, path.namespace),
            }
        };
        Ok(Self {
            namespace,
            paths: paths.iter().map(path).collect(),
            losses,
            routed: (0..requests).map(|_| Routed::default()).collect(),
            request_bytes,
            in_flight: 0,
            turn: 0,
            past: Events::default(),
            ended: Vec::new(),
            data: vec![0; request_bytes],
            events,
        })
    }

    /// The namespace, as the first controller has it.
    pub(super) fn namespace(&self) -> Namespace {
        self.namespace
    }

    /// The number of slots.
    pub(super) fn requests(&self) -> u16 {
        self.routed.len() as u16
    }

    /// The most bytes of a request.
    pub(super) fn request_bytes(&self) -> usize {
        self.request_bytes
    }

    /// How often commands were retried, aborted, resubmitted or moved.
    pub(super) fn events(&self) -> Events {
        self.paths
            .iter()
            .filter_map(|path| path.drive.as_ref())
            .fold(self.past, |sum, drive| sum + drive.events())
    }

    /// Submits a request. The controller sees it after the next [`ring_doorbell`](Self::ring_doorbell).
    pub(super) fn begin(&mut self, slot: u16, operation: Operation, from: &[u8]) -> Result<(), ChunkError> {
        match operation {
            Operation::Flush => self.begin_flush(slot)?,
            _ => {
                let path = self.begin_on_next(slot, operation, from)?;
                let routed = &mut self.routed[usize::from(slot)];
                (routed.operation, routed.path, routed.moves) = (Some(operation), path, 0);
            }
        }
        self.in_flight += 1;
        Ok(())
    }

    /// Begins a flush on all paths: each controller may have a cache of its own.
    fn begin_flush(&mut self, slot: u16) -> Result<(), ChunkError> {
        let (mut parts, mut error) = (0, None);
        for place in 0..self.paths.len() {
            let drive = self.paths[place].drive.as_mut();
            if drive.is_some_and(|drive| drive.begin(slot, Operation::Flush, &[]).is_ok()) {
                parts += 1;
                continue;
            }
            self.note_if_lost(place);
            // Other queues may have written to a controller that this one does not reach.
            error = error.or(self.paths[place].flush_without_drive().err());
        }
        self.routed[usize::from(slot)] =
            Routed { operation: Some(Operation::Flush), parts, error, ..Routed::default() };
        if parts == 0 { Err(all_lost()) } else { Ok(()) }
    }

    /// Begins a request on the path whose turn it is. Returns that.
    fn begin_on_next(&mut self, slot: u16, operation: Operation, from: &[u8]) -> Result<usize, ChunkError> {
        for _ in 0..self.paths.len() {
            let place = self.turn;
            self.turn = (self.turn + 1) % self.paths.len();
            let Some(drive) = &mut self.paths[place].drive else { continue };
            match drive.begin(slot, operation, from) {
                Ok(()) => return Ok(place),
                Err(error) if !is_of_path(&error) => return Err(error),
                Err(_) => self.note_if_lost(place),
            }
        }
        Err(all_lost())
    }

    /// Lets a path go whose controller was given up and has nothing in flight.
    fn note_if_lost(&mut self, place: usize) {
        let path = &mut self.paths[place];
        let Some(drive) = path.drive.take_if(|drive| drive.lost().is_some()) else { return };
        if let (Some(events), Some(interrupt)) = (&self.events, drive.as_fd()) {
            // One that stays would only wake the thread in vain.
            let _ = epoll::delete(events, interrupt);
        }
        // Results may not have been fetched.
        path.left = drive.data_of_slots(self.routed.len(), self.request_bytes);
        self.past = self.past + drive.events();
        if drive.leave() {
            // Where this fails the writes are still to be flushed.
            let _ = path.flush_without_drive();
        }
    }

    /// Rings the doorbells for the submitted requests.
    pub(super) fn ring_doorbell(&mut self) {
        self.drives().for_each(|(_, drive)| drive.ring_doorbell());
    }

    /// Those that are not lost, with their places.
    fn drives(&mut self) -> impl Iterator<Item = (usize, &mut Drive)> {
        self.paths.iter_mut().enumerate().filter_map(|(place, path)| Some((place, path.drive.as_mut()?)))
    }

    /// Why the disk is lost: no path is left.
    pub(super) fn lost(&self) -> Option<&'static str> {
        self.paths.iter().all(|path| path.drive.is_none()).then_some(ALL_LOST)
    }

    /// Processes completions, and moves requests of lost paths. With [`Wait::Yes`] it returns when a request has ended, or when none is in
    /// flight.
    pub(super) fn process_completions(
        &mut self,
        wait: Wait,
        ended: &mut impl FnMut(u16, Result<(), ChunkError>),
    ) {
        let mut rounds = 0;
        loop {
            let taken = self.process_round(ended);
            if taken > 0 || wait == Wait::No || self.in_flight == 0 {
                return;
            }
            rounds += 1;
            match rounds % ROUNDS {
                0 => self.sleep(),
                _ => std::hint::spin_loop(),
            }
        }
    }

    /// Sleeps until an interrupt, but not for long. Without interrupts it lets other threads run.
    fn sleep(&mut self) {
        if self.events.is_none() {
            return std::thread::yield_now();
        }
        if !self.announce_sleep() {
            return;
        }
        if let Some(events) = &self.events {
            let timeout = Timespec { tv_sec: 0, tv_nsec: CHECK_INTERVAL.subsec_nanos().into() };
            // Interrupted or not: what follows looks at all paths.
            let _ = poll(&mut [PollFd::new(events, PollFlags::IN)], Some(&timeout));
        }
    }

    /// Can be read when a path has interrupted; `None` if they are polled.
    pub(super) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.events.as_ref().map(AsFd::as_fd)
    }

    /// Prepares for a sleep until then, as for [a single one](Drive::announce_sleep).
    pub(super) fn announce_sleep(&mut self) -> bool {
        self.drives().all(|(_, drive)| drive.announce_sleep())
    }

    /// Looks at all paths once. Returns how many requests have ended.
    fn process_round(&mut self, ended: &mut impl FnMut(u16, Result<(), ChunkError>)) -> usize {
        let mut parts = std::mem::take(&mut self.ended);
        let mut has_lost = false;
        for (place, drive) in self.drives() {
            drive.process_completions(Wait::No, &mut |slot, result| parts.push((place, slot, result)));
            has_lost |= drive.lost().is_some();
        }
        if has_lost {
            (0..self.paths.len()).for_each(|place| self.note_if_lost(place));
        }
        let mut number = 0;
        for (place, slot, result) in parts.drain(..) {
            if let Some(result) = self.end_part(place, slot, result) {
                self.in_flight -= 1;
                number += 1;
                ended(slot, result);
            }
        }
        self.ended = parts;
        number
    }

    /// Notes that a part of a request has ended. Returns the request's result, unless it goes on.
    fn end_part(
        &mut self,
        place: usize,
        slot: u16,
        result: Result<(), ChunkError>,
    ) -> Option<Result<(), ChunkError>> {
        let routed = &mut self.routed[usize::from(slot)];
        if let Some(Operation::Flush) = routed.operation {
            routed.parts -= 1;
            match result {
                Ok(()) => routed.has_flushed = true,
                // Where nothing was to be flushed, another path's flush is enough.
                Err(error) if is_of_path(&error) && !self.paths[place].is_dirty() => {
                    routed.path_error = Some(error);
                }
                Err(error) => routed.error = routed.error.take().or(Some(error)),
            }
            return (routed.parts == 0).then(|| self.end_flush(slot));
        }
        match result {
            Err(error) if is_of_path(&error) && routed.moves + 1 < self.paths.len() => {
                let moved = self.move_from(place, slot);
                (!moved).then_some(Err(error))
            }
            result => Some(result),
        }
    }

    /// The result of a flush that has ended on all paths: an error if one had writes and is lost.
    fn end_flush(&mut self, slot: u16) -> Result<(), ChunkError> {
        let routed = &mut self.routed[usize::from(slot)];
        let (error, path_error, has_flushed) =
            (routed.error.take(), routed.path_error.take(), routed.has_flushed);
        match error.or(path_error.filter(|_| !has_flushed)) {
            Some(error) => Err(error),
            None if self.losses.as_mut().is_some_and(|losses| losses.has_news(slot)) => {
                Err(ChunkError::PathLost)
            }
            None => Ok(()),
        }
    }

    /// Notes that the results of these slots were fetched.
    pub(super) fn note_fetched(&mut self, is_fetched: impl Fn(u16) -> bool) {
        self.losses.iter_mut().for_each(|losses| losses.note_fetched(&is_fetched));
    }

    /// Begins a request again on another path than this one. Returns false if there is none.
    fn move_from(&mut self, place: usize, slot: u16) -> bool {
        let Some(operation) = self.routed[usize::from(slot)].operation else { return false };
        let bytes = operation.blocks_written() << self.namespace.format.block_shift;
        if self.turn == place {
            self.turn = (self.turn + 1) % self.paths.len();
        }
        let mut data = std::mem::take(&mut self.data);
        let copied = self.copy_from(place, slot, &mut data[..bytes]);
        let begun = copied.and_then(|()| self.begin_on_next(slot, operation, &data[..bytes]));
        self.data = data;
        let Ok(path) = begun else { return false };
        let routed = &mut self.routed[usize::from(slot)];
        (routed.path, routed.moves) = (path, routed.moves + 1);
        self.past.moved += 1;
        true
    }

    /// Copies the data that a slot has read.
    pub(super) fn copy_out(&self, slot: u16, into: &mut [u8]) -> Result<(), ChunkError> {
        self.copy_from(self.routed[usize::from(slot)].path, slot, into)
    }

    /// Copies the data in a slot's buffer of a path.
    fn copy_from(&self, place: usize, slot: u16, into: &mut [u8]) -> Result<(), ChunkError> {
        let Path { drive, left, .. } = &self.paths[place];
        match drive {
            Some(drive) => drive.copy_out(slot, into),
            None => {
                let from = usize::from(slot) * self.request_bytes;
                into.copy_from_slice(&left[from..from + into.len()]);
                Ok(())
            }
        }
    }

    /// Deletes the queues of the paths that are not lost.
    pub(super) fn close(self) -> Result<(), ChunkError> {
        self.paths.into_iter().filter_map(|path| path.drive).try_for_each(Drive::close)
    }
}

/// Has a file tell of the drives' interrupts; `None` if one has none.
fn watch(drives: &[Drive]) -> Result<Option<OwnedFd>, ChunkError> {
    let Some(interrupts) = drives.iter().map(Drive::as_fd).collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let watch = || {
        let events = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for interrupt in interrupts {
            epoll::add(&events, interrupt, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        }
        Ok(events)
    };
    watch().map(Some).map_err(|error: Errno| ChunkError::Events(error.into()))
}

/// Closes drives after an error, which is the caller's.
pub(super) fn close_all(drives: Vec<Drive>) {
    drives.into_iter().for_each(|drive| drop(drive.close()));
}

/// Whether another path may succeed where this error came.
fn is_of_path(error: &ChunkError) -> bool {
    match error {
        ChunkError::Status(status) => status.kind() == Status::PATH_RELATED,
        ChunkError::Nvme(_)
        | ChunkError::TooManyResets { .. }
        | ChunkError::Abandoned { .. }
        | ChunkError::Block(BlockError::Queue(_)) => true,
        _ => false,
    }
}

const ALL_LOST: &str = "all paths are lost";

fn all_lost() -> ChunkError {
    ChunkError::Abandoned { why: ALL_LOST.to_owned() }
}

/// The drives' namespace. Fails unless they have one by different controllers of one subsystem.
fn check_one_disk(drives: &[Drive]) -> Result<Namespace, ChunkError> {
    let wrong = |what| Err(ChunkError::NotOneDisk { what });
    let [first, others @ ..] = drives else { return wrong("no controller") };
    let subsystem = |drive: &Drive| Controller::lock(drive.controller()).identity().subsystem.clone();
    let (name, one) = (subsystem(first), first.namespace());
    for (number, other) in others.iter().enumerate() {
        let is_same = |drive: &Drive| Arc::ptr_eq(drive.controller(), other.controller());
        let two = other.namespace();
        let size = |namespace: &Namespace| (namespace.format.blocks, namespace.format.block_shift);
        let conditions = [
            (drives[..=number].iter().any(is_same), "one controller twice"),
            (name.is_empty() || name != subsystem(other), "controllers of different subsystems"),
            (one.number != two.number, "different namespace identifiers"),
            (!one.format.is_shared || !two.format.is_shared, "a namespace that is not shared"),
            (one.format.names != two.format.names, "namespaces of different names"),
            (size(&one) != size(&two), "namespaces of different sizes"),
        ];
        if let Some((_, what)) = conditions.into_iter().find(|(is_wrong, _)| *is_wrong) {
            return wrong(what);
        }
    }
    Ok(one)
}
