//! One disk through several controllers (multipath). Requests take turns among the paths. Where a path is lost, its requests go on through another one.
//!
//! ```text
//!   request -> Paths -+-> Drive of controller 0 --+
//!                     +-> Drive of controller 1 --+--> the same namespace of one subsystem
//! ```
//!
//! A request may then be executed twice, as after a reset. A controller that can't even be reset may still execute a request that another path
//! has repeated, long after: take it out of use.

use super::drive::Drive;
use super::{ChunkError, Events, Operation, Wait};
use crate::blocks::BlockError;
use crate::controller::{Controller, Namespace};
use crate::spec::status::Status;
use std::sync::Arc;

/// Rounds without an end before another thread may run.
const ROUNDS: u32 = 64;

/// A path.
#[derive(Debug)]
struct Path {
    drive: Drive,
    is_lost: bool,
    /// Writes have completed here since the last flush, and may be in the controller's volatile cache.
    has_unflushed: bool,
    has_write_cache: bool,
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
    /// Paths that it has left.
    moves: usize,
    /// Why a part has failed.
    error: Option<ChunkError>,
}

/// A namespace that several controllers of a subsystem share, for a [`Chunk`](super::Chunk) of one thread, which polls.
#[derive(Debug)]
pub struct Paths {
    paths: Vec<Path>,
    /// By slot.
    routed: Vec<Routed>,
    request_bytes: usize,
    in_flight: usize,
    /// The path whose turn is next.
    turn: usize,
    /// Requests that have gone on through another path.
    moved: u64,
    /// A path is lost whose controller had writes that were not flushed. The next flush says so.
    has_lost_unflushed: bool,
    /// What the paths have ended in one round; kept to avoid an allocation for each.
    ended: Vec<(usize, u16, Result<(), ChunkError>)>,
    /// Data of a write that takes another path.
    data: Vec<u8>,
}

impl Paths {
    /// Drives of different controllers for one namespace. Their waiting is not used: the thread polls all.
    ///
    /// # Errors
    /// [`ChunkError::NotOneDisk`] unless all namespaces say that they are shared, and have the same subsystem, identifier, names and format.
    pub fn new(drives: Vec<Drive>) -> Result<Self, ChunkError> {
        check_one_disk(&drives)?;
        let requests = drives.iter().map(Drive::requests).min().unwrap_or(0);
        let request_bytes = drives.iter().map(Drive::request_bytes).min().unwrap_or(0);
        let path = |drive: Drive| {
            let has_write_cache = Controller::lock(drive.controller()).identity().has_write_cache;
            Path { drive, is_lost: false, has_unflushed: false, has_write_cache }
        };
        Ok(Self {
            paths: drives.into_iter().map(path).collect(),
            routed: (0..requests).map(|_| Routed::default()).collect(),
            request_bytes,
            in_flight: 0,
            turn: 0,
            moved: 0,
            has_lost_unflushed: false,
            ended: Vec::new(),
            data: vec![0; request_bytes],
        })
    }

    /// The namespace, as the first controller has it.
    pub(super) fn namespace(&self) -> Namespace {
        self.paths[0].drive.namespace()
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
        let none = Events { moved: self.moved, ..Events::default() };
        self.paths.iter().map(|path| path.drive.events()).fold(none, |sum, one| Events {
            retries: sum.retries + one.retries,
            aborts: sum.aborts + one.aborts,
            resets: sum.resets + one.resets,
            resubmitted: sum.resubmitted + one.resubmitted,
            moved: sum.moved,
        })
    }

    /// Submits a request. The controller sees it after the next [`ring_doorbell`](Self::ring_doorbell).
    pub(super) fn begin(&mut self, slot: u16, operation: Operation, from: &[u8]) -> Result<(), ChunkError> {
        let (path, parts) = match operation {
            Operation::Flush => (0, self.begin_flush(slot)?),
            _ => (self.begin_on_next(slot, operation, from)?, 0),
        };
        self.routed[usize::from(slot)] =
            Routed { operation: Some(operation), path, parts, moves: 0, error: None };
        self.in_flight += 1;
        Ok(())
    }

    /// Begins a flush on all paths: each controller may have a cache of its own. Returns their number.
    fn begin_flush(&mut self, slot: u16) -> Result<usize, ChunkError> {
        if std::mem::take(&mut self.has_lost_unflushed) {
            return Err(ChunkError::PathLost);
        }
        let mut parts = 0;
        for place in 0..self.paths.len() {
            let path = &mut self.paths[place];
            if path.is_lost {
                continue;
            }
            match path.drive.begin(slot, Operation::Flush, &[]) {
                Ok(()) => parts += 1,
                Err(_) => self.note_loss(place),
            }
        }
        if parts == 0 { Err(all_lost()) } else { Ok(parts) }
    }

    /// Begins a request on the path whose turn it is. Returns that.
    fn begin_on_next(&mut self, slot: u16, operation: Operation, from: &[u8]) -> Result<usize, ChunkError> {
        for _ in 0..self.paths.len() {
            let place = self.turn;
            self.turn = (self.turn + 1) % self.paths.len();
            if self.paths[place].is_lost {
                continue;
            }
            match self.paths[place].drive.begin(slot, operation, from) {
                Ok(()) => return Ok(place),
                Err(error) if !is_of_path(&error) => return Err(error),
                Err(_) => self.note_loss(place),
            }
        }
        Err(all_lost())
    }

    fn note_loss(&mut self, place: usize) {
        let path = &mut self.paths[place];
        path.is_lost = true;
        self.has_lost_unflushed |= path.has_unflushed && path.has_write_cache;
        path.has_unflushed = false;
    }

    /// Rings the doorbells for the submitted requests.
    pub(super) fn ring_doorbell(&mut self) {
        self.live().for_each(|(_, path)| path.drive.ring_doorbell());
    }

    fn live(&mut self) -> impl Iterator<Item = (usize, &mut Path)> {
        self.paths.iter_mut().enumerate().filter(|(_, path)| !path.is_lost)
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
                0 => std::thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
    }

    /// Looks at all paths once. Returns how many requests have ended.
    fn process_round(&mut self, ended: &mut impl FnMut(u16, Result<(), ChunkError>)) -> usize {
        let mut parts = std::mem::take(&mut self.ended);
        let mut lost = Vec::new();
        for (place, path) in self.live() {
            path.drive.process_completions(Wait::No, &mut |slot, result| parts.push((place, slot, result)));
            if path.drive.is_lost() {
                lost.push(place);
            }
        }
        // Writes that have completed on a path that is lost now count as its.
        for (place, slot, result) in &parts {
            let operation = self.routed[usize::from(*slot)].operation;
            match (result, operation) {
                (Ok(()), Some(Operation::Flush)) => self.paths[*place].has_unflushed = false,
                (Ok(()), Some(operation)) if operation.writes() => self.paths[*place].has_unflushed = true,
                _ => {}
            }
        }
        lost.into_iter().for_each(|place| self.note_loss(place));
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
                Err(error) if !is_of_path(&error) => routed.error = Some(error),
                _ => {}
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
        let error = self.routed[usize::from(slot)].error.take();
        let has_lost = std::mem::take(&mut self.has_lost_unflushed);
        match error {
            Some(error) => Err(error),
            None if has_lost => Err(ChunkError::PathLost),
            None if self.paths.iter().all(|path| path.is_lost) => Err(all_lost()),
            None => Ok(()),
        }
    }

    /// Begins a request again on another path than this one. Returns false if there is none.
    fn move_from(&mut self, place: usize, slot: u16) -> bool {
        let Some(operation) = self.routed[usize::from(slot)].operation else { return false };
        let bytes = match operation {
            Operation::Write { blocks, .. } => (blocks << self.namespace().format.block_shift) as usize,
            _ => 0,
        };
        if self.turn == place {
            self.turn = (self.turn + 1) % self.paths.len();
        }
        let mut data = std::mem::take(&mut self.data);
        let copied = self.paths[place].drive.copy_out(slot, &mut data[..bytes]);
        let begun = copied.and_then(|()| self.begin_on_next(slot, operation, &data[..bytes]));
        self.data = data;
        let Ok(path) = begun else { return false };
        let routed = &mut self.routed[usize::from(slot)];
        (routed.path, routed.moves) = (path, routed.moves + 1);
        self.moved += 1;
        true
    }

    /// Copies the data that a slot has read.
    pub(super) fn copy_out(&self, slot: u16, into: &mut [u8]) -> Result<(), ChunkError> {
        self.paths[self.routed[usize::from(slot)].path].drive.copy_out(slot, into)
    }

    /// Deletes the queues of the paths that are not lost.
    pub(super) fn close(self) -> Result<(), ChunkError> {
        self.paths.into_iter().filter(|path| !path.is_lost).try_for_each(|path| path.drive.close())
    }
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

fn all_lost() -> ChunkError {
    ChunkError::Abandoned { why: "all paths are lost".to_owned() }
}

/// Fails unless the drives have one namespace by different controllers of one subsystem.
fn check_one_disk(drives: &[Drive]) -> Result<(), ChunkError> {
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
    Ok(())
}
