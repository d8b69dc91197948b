//! A thread's queue of a chunk: its commands, and the disk's requests that they consist of.

#![allow(
    unsafe_code,
    reason = "callers give pointers to their data and statuses, which must live until their commands end"
)]

use crate::c_types::{ArwStatus, CBLK_ARW_STATUS_FAIL, CBLK_ARW_STATUS_PENDING, CBLK_ARW_STATUS_SUCCESS};
use crate::counts::Counts;
use crate::errno::{errno_of, of_io};
use crate::tags::Tags;
use nvme::chunk::{Chunk, ChunkError};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Polls of a disk without a descriptor to sleep on, before another thread may run.
const POLLS: u32 = 64;

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Unmap,
}

/// A caller's data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buffer(*mut u8);

// SAFETY: the interface's contract gives the memory to the library until the command has ended, whichever thread processes it.
unsafe impl Send for Buffer {}

impl Buffer {
    /// # Safety
    /// The memory has as many bytes as the command that it is given to, and is used by nothing else until that has ended.
    pub(crate) unsafe fn new(at: *mut u8) -> Self {
        Self(at)
    }

    /// A part of the memory to write to.
    ///
    /// # Safety
    /// The part is within the command's data, the command has not ended, and no other reference to the part exists.
    unsafe fn part_mut<'a>(self, from: usize, bytes: usize) -> &'a mut [u8] {
        // SAFETY: the caller's promise, and that of `new`.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(from), bytes) }
    }

    /// A part of the memory to read.
    ///
    /// # Safety
    /// As for `part_mut`.
    unsafe fn part<'a>(self, from: usize, bytes: usize) -> &'a [u8] {
        // SAFETY: the caller's promise, and that of `new`.
        unsafe { std::slice::from_raw_parts(self.0.add(from), bytes) }
    }
}

/// A status that a caller polls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UserStatus(*mut ArwStatus);

// SAFETY: as for `Buffer`.
unsafe impl Send for UserStatus {}

impl UserStatus {
    /// # Safety
    /// The structure lives until the command has ended, and the caller only reads it until then.
    pub(crate) unsafe fn new(at: *mut ArwStatus) -> Self {
        Self(at)
    }

    /// Says that the command is in flight.
    pub(crate) fn begin(self) {
        self.store(CBLK_ARW_STATUS_PENDING, 0, 0);
    }

    /// Says how the command has ended.
    pub(crate) fn end(self, result: Result<usize, Errno>) {
        match result {
            Ok(blocks) => self.store(CBLK_ARW_STATUS_SUCCESS, blocks, 0),
            Err(error) => self.store(CBLK_ARW_STATUS_FAIL, 0, error.raw_os_error()),
        }
    }

    /// Writes the status last: a caller who sees it sees the rest, and a read's data.
    fn store(self, status: i32, blocks: usize, errno: i32) {
        // SAFETY: `new` was promised that the structure lives, and that the caller writes nothing to it.
        unsafe {
            (*self.0).blocks_transferred = blocks;
            (*self.0).fail_errno = errno;
            AtomicI32::from_ptr(&raw mut (*self.0).status).store(status, Ordering::Release);
        }
    }
}

/// A command to begin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewCommand {
    pub(crate) kind: Kind,
    pub(crate) buffer: Buffer,
    pub(crate) blocks: usize,
    pub(crate) is_async: bool,
    pub(crate) user_tag: Option<i32>,
    pub(crate) status: Option<UserStatus>,
}

/// A command that has a tag.
#[derive(Debug, Clone, Copy)]
struct Command {
    is: NewCommand,
    /// Parts that have not ended.
    parts: u32,
    error: Option<Errno>,
    /// Distinguishes it from others that have had its tag.
    number: u64,
}

impl Command {
    fn result(&self) -> Result<usize, Errno> {
        self.error.map_or(Ok(self.is.blocks), Err)
    }
}

/// Blocks of the disk that a command's part transfers or zeroes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// In the disk's blocks.
    pub(crate) first: u64,
    pub(crate) blocks: u64,
    /// Where its data begins in the command's, in bytes.
    pub(crate) offset: usize,
}

/// A part of a command: one request of the disk.
#[derive(Debug, Clone, Copy)]
struct Part {
    tag: u32,
    run: Run,
}

/// The commands of a queue, with its disk.
#[derive(Debug)]
struct Commands {
    disk: Chunk,
    block_shift: u32,
    /// By tag.
    commands: Vec<Option<Command>>,
    /// By the disk's slot.
    parts: Vec<Option<Part>>,
    /// Those that are.
    in_flight: usize,
    /// Parts for which no slot was free.
    backlog: VecDeque<Part>,
    /// Asynchronous commands that have ended, by tag and number. Their results may have been fetched since.
    ended: VecDeque<(u32, u64)>,
    number: u64,
    /// Commands that one harvest ends; kept to avoid an allocation for each.
    finished: Vec<u32>,
    /// Commands in flight whose status their caller polls.
    polled_statuses: usize,
    counts: Counts,
    /// `None` for a disk that must be polled.
    events: Option<Arc<Events>>,
    /// A thread sleeps until the disk has completed something.
    has_sleeper: bool,
}

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// The command with this tag.
    Command(u32),
    /// Any asynchronous command.
    Any,
    /// That nothing is in flight.
    Idle,
    /// What has not ended yet.
    More,
}

/// A queue that threads share.
#[derive(Debug)]
pub(crate) struct Queue {
    /// `None` after it was closed.
    commands: Mutex<Option<Commands>>,
    /// Commands have ended, or begun, or the queue was closed.
    changed: Condvar,
}

/// What a thread sleeps on.
#[derive(Debug)]
struct Events {
    /// Can be read when the disk may have completed something.
    completed: OwnedFd,
    /// Wakes the thread when another one has processed its completions.
    wake: OwnedFd,
}

impl Queue {
    pub(crate) fn new(disk: Chunk, tags: usize) -> Result<Self, Errno> {
        let completed = disk.as_fd().map(|fd| fd.try_clone_to_owned()).transpose();
        let completed = completed.map_err(|error| of_io(&error))?;
        let events = match completed {
            Some(completed) => {
                let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
                Some(Arc::new(Events { completed, wake }))
            }
            None => None,
        };
        let commands = Commands {
            block_shift: disk.block_bytes().trailing_zeros(),
            parts: vec![None; disk.requests()],
            disk,
            in_flight: 0,
            commands: vec![None; tags],
            backlog: VecDeque::new(),
            ended: VecDeque::new(),
            number: 0,
            finished: Vec::new(),
            polled_statuses: 0,
            counts: Counts::default(),
            events,
            has_sleeper: false,
        };
        Ok(Self { commands: Mutex::new(Some(commands)), changed: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Commands>> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a command under a tag. If `rings`, the disk sees it at once.
    pub(crate) fn begin(
        &self,
        tag: u32,
        command: NewCommand,
        runs: impl Iterator<Item = Run>,
        tags: &Tags,
        rings: bool,
    ) -> Result<(), Errno> {
        let mut lock = self.lock();
        let commands = lock.as_mut().ok_or(Errno::INVAL)?;
        if let Some(status) = command.status {
            status.begin();
        }
        let has_ended = commands.begin(tag, command, runs, tags);
        if rings {
            commands.disk.ring_doorbell();
        }
        if has_ended {
            self.wake(commands);
        } else if command.status.is_some() {
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Empties the disk's volatile write cache.
    pub(crate) fn flush(&self, tags: &Tags) -> Result<(), Errno> {
        loop {
            let mut lock = self.lock();
            let commands = lock.as_mut().ok_or(Errno::INVAL)?;
            match commands.disk.flush() {
                Ok(()) => {
                    // It has processed completions of other commands, too.
                    self.harvest(commands, tags);
                    return Ok(());
                }
                Err(ChunkError::NoFreeSlot { .. }) => {}
                Err(error) => return Err(errno_of(&error)),
            }
            drop(lock);
            self.wait(tags, Duration::from_millis(1), Awaited::More);
        }
    }

    /// Lets the disk see all commands that were begun.
    pub(crate) fn ring_doorbell(&self) {
        if let Some(commands) = self.lock().as_mut() {
            commands.disk.ring_doorbell();
        }
    }

    /// Processes completions, unless `harvests` is false, and fetches a command's result: `Ok(None)` if it has not ended, and an error of its
    /// own or `ENOMSG` if its result was fetched before.
    pub(crate) fn take(&self, tag: u32, tags: &Tags, harvests: bool) -> Result<Option<usize>, Errno> {
        let mut lock = self.lock();
        let commands = lock.as_mut().ok_or(Errno::INVAL)?;
        if harvests && commands.command(tag)?.parts > 0 {
            self.harvest(commands, tags);
        }
        if commands.command(tag)?.parts > 0 {
            commands.counts.without_completion += 1;
            return Ok(None);
        }
        commands.finish(tag, tags).map(Some)
    }

    /// Fetches the result of the asynchronous command that ended first, with the tag that its caller knows.
    pub(crate) fn take_next(&self, tags: &Tags, harvests: bool) -> Option<(i32, Result<usize, Errno>)> {
        let mut lock = self.lock();
        let commands = lock.as_mut()?;
        if harvests && commands.ended.is_empty() {
            self.harvest(commands, tags);
        }
        while let Some((tag, number)) = commands.ended.pop_front() {
            if let Some(command) = commands.command(tag).ok().filter(|command| command.number == number) {
                let known = command.is.user_tag.unwrap_or(tag as i32);
                return Some((known, commands.finish(tag, tags)));
            }
        }
        commands.counts.without_completion += 1;
        None
    }

    /// Processes completions.
    pub(crate) fn harvest_now(&self, tags: &Tags) {
        if let Some(commands) = self.lock().as_mut() {
            self.harvest(commands, tags);
        }
    }

    /// Whether any command has not ended.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.lock().as_ref().is_some_and(Commands::is_in_flight)
    }

    /// Waits until commands may have ended, at most for so long, and processes them. It does not wait if what is awaited has ended.
    pub(crate) fn wait(&self, tags: &Tags, at_most: Duration, awaited: Awaited) {
        let mut lock = self.lock();
        let Some(commands) = lock.as_mut() else { return };
        if self.harvest(commands, tags) > 0 || commands.has_ended(awaited) {
            return;
        }
        let Some(events) = commands.events.clone() else {
            drop(lock);
            return self.spin();
        };
        if commands.has_sleeper || !commands.is_in_flight() {
            drop(self.changed.wait_timeout(lock, at_most));
            return;
        }
        if !commands.disk.announce_sleep() {
            self.harvest(commands, tags);
            return;
        }
        commands.has_sleeper = true;
        drop(lock);
        let Events { completed, wake } = &*events;
        let mut polled = [completed, wake].map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN));
        let timeout = Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: at_most.subsec_nanos().into() };
        // Interrupted or not: what follows looks at the disk.
        let _ = poll(&mut polled, Some(&timeout));
        let _ = rustix::io::read(wake, &mut [0; 8]);
        let mut lock = self.lock();
        let Some(commands) = lock.as_mut() else { return };
        commands.has_sleeper = false;
        self.harvest(commands, tags);
        // Another thread may have to sleep in this one's place.
        self.changed.notify_all();
    }

    /// Lets some time pass without the lock.
    fn spin(&self) {
        for _ in 0..POLLS {
            std::hint::spin_loop();
        }
        std::thread::yield_now();
    }

    /// Processes completions, and wakes threads that wait for them. Returns how many commands have ended.
    fn harvest(&self, commands: &mut Commands, tags: &Tags) -> usize {
        let ended = commands.harvest(tags);
        if ended > 0 {
            self.wake(commands);
        }
        ended
    }

    /// Wakes threads that wait.
    fn wake(&self, commands: &Commands) {
        self.changed.notify_all();
        if let Some(events) = commands.events.as_ref().filter(|_| commands.has_sleeper) {
            let _ = rustix::io::write(&events.wake, &1_u64.to_ne_bytes());
        }
    }

    /// Updates statuses that callers poll, until the queue is closed.
    pub(crate) fn update_statuses(&self, tags: &Tags) {
        loop {
            let lock = self.lock();
            match lock.as_ref() {
                None => return,
                Some(commands) if commands.polled_statuses > 0 => {
                    drop(lock);
                    self.wait(tags, Duration::from_millis(100), Awaited::More);
                }
                Some(_) => drop(self.changed.wait(lock)),
            }
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.lock().as_ref().map(|commands| commands.counts(commands.disk.events())).unwrap_or_default()
    }

    /// Waits for the requests in flight and closes the disk. Later calls fail.
    pub(crate) fn close(&self) -> Result<(), ChunkError> {
        let commands = self.lock().take();
        self.changed.notify_all();
        commands.map_or(Ok(()), |commands| commands.disk.close())
    }
}

impl Commands {
    fn command(&self, tag: u32) -> Result<&Command, Errno> {
        self.commands.get(tag as usize).and_then(Option::as_ref).ok_or(Errno::NOMSG)
    }

    /// Another thread may have processed its completion.
    fn has_ended(&self, awaited: Awaited) -> bool {
        match awaited {
            Awaited::Command(tag) => self.command(tag).map_or(true, |command| command.parts == 0),
            Awaited::Any => !self.ended.is_empty(),
            Awaited::Idle => !self.is_in_flight(),
            Awaited::More => false,
        }
    }

    fn is_in_flight(&self) -> bool {
        self.in_flight > 0 || !self.backlog.is_empty()
    }

    /// Begins a command. Returns whether it has ended.
    fn begin(&mut self, tag: u32, is: NewCommand, runs: impl Iterator<Item = Run>, tags: &Tags) -> bool {
        self.number += 1;
        self.polled_statuses += usize::from(is.status.is_some());
        self.counts.begin(is.kind, is.is_async);
        self.commands[tag as usize] = Some(Command { is, parts: 0, error: None, number: self.number });
        let request_blocks = match is.kind {
            Kind::Unmap => 1 << 16,
            Kind::Read | Kind::Write => (self.disk.request_bytes() >> self.block_shift) as u64,
        };
        for run in runs {
            let mut done = 0;
            while done < run.blocks {
                let blocks = request_blocks.min(run.blocks - done);
                let offset = run.offset + ((done << self.block_shift) as usize);
                let part = Part { tag, run: Run { first: run.first + done, blocks, offset } };
                if let Some(command) = &mut self.commands[tag as usize] {
                    command.parts += 1;
                }
                done += blocks;
                if !self.backlog.is_empty() || !self.begin_part(part) {
                    self.backlog.push_back(part);
                }
            }
        }
        let has_ended = self.commands[tag as usize].is_some_and(|command| command.parts == 0);
        if has_ended {
            self.end(tag, tags);
        }
        has_ended
    }

    /// Begins a part's request. Returns false if no slot is free; after another error the part has ended.
    fn begin_part(&mut self, part: Part) -> bool {
        let Some(command) = &self.commands[part.tag as usize] else { return true };
        let Run { first, blocks, offset } = part.run;
        let bytes = (blocks << self.block_shift) as usize;
        let begun = match command.is.kind {
            Kind::Read => {
                // SAFETY: the part is within the command's data, which nothing else uses before its request is begun.
                let into = unsafe { command.is.buffer.part_mut(offset, bytes) };
                // What fails here fails as a request, too.
                if let Ok(true) = self.disk.read_cached(first, into) {
                    if let Some(command) = &mut self.commands[part.tag as usize] {
                        command.parts -= 1;
                    }
                    return true;
                }
                self.disk.begin_read(first, blocks)
            }
            Kind::Write => {
                // SAFETY: the part is within the command's data, and the command has not ended.
                self.disk.begin_write(first, unsafe { command.is.buffer.part(offset, bytes) })
            }
            Kind::Unmap => self.disk.begin_write_zeroes(first, blocks),
        };
        match begun {
            Ok(request) => {
                self.parts[request.slot()] = Some(part);
                self.in_flight += 1;
            }
            Err(ChunkError::NoFreeSlot { .. }) => return false,
            Err(error) => {
                if let Some(command) = &mut self.commands[part.tag as usize] {
                    command.error.get_or_insert(errno_of(&error));
                    command.parts -= 1;
                }
            }
        }
        true
    }

    /// Processes completions, and begins parts for which slots are free again. Returns how many commands have ended.
    fn harvest(&mut self, tags: &Tags) -> usize {
        let mut finished = std::mem::take(&mut self.finished);
        let Self { disk, commands, parts, block_shift, in_flight, .. } = self;
        disk.poll(|completion| {
            let Some(part) = parts[completion.request().slot()].take() else { return };
            *in_flight -= 1;
            let Some(command) = &mut commands[part.tag as usize] else { return };
            let bytes = match command.is.kind {
                Kind::Read => (part.run.blocks << *block_shift) as usize,
                Kind::Write | Kind::Unmap => 0,
            };
            // SAFETY: the part is within the command's data, the command has not ended, and this is its part's only completion.
            let into = unsafe { command.is.buffer.part_mut(part.run.offset, bytes) };
            if let Err(error) = completion.finish(into) {
                command.error.get_or_insert(errno_of(&error));
            }
            command.parts -= 1;
            if command.parts == 0 {
                finished.push(part.tag);
            }
        });
        while let Some(part) = self.backlog.front().copied() {
            if !self.begin_part(part) {
                break;
            }
            self.backlog.pop_front();
            if self.commands[part.tag as usize].is_some_and(|command| command.parts == 0) {
                finished.push(part.tag);
            }
        }
        self.disk.ring_doorbell();
        let ended = finished.len();
        finished.drain(..).for_each(|tag| self.end(tag, tags));
        self.finished = finished;
        ended
    }

    /// Notes that a command has ended.
    fn end(&mut self, tag: u32, tags: &Tags) {
        let Some(command) = self.commands[tag as usize] else { return };
        if let Some(status) = command.is.status {
            // Nobody fetches its result.
            self.polled_statuses -= 1;
            let result = self.finish(tag, tags);
            status.end(result);
        } else if command.is.is_async {
            self.ended.push_back((tag, command.number));
            if self.ended.len() > 2 * self.commands.len() {
                let commands = &self.commands;
                self.ended.retain(|&(tag, number)| {
                    commands[tag as usize].is_some_and(|command| command.number == number)
                });
            }
        }
    }

    /// Frees an ended command's tag, and returns its result.
    fn finish(&mut self, tag: u32, tags: &Tags) -> Result<usize, Errno> {
        let command = self.commands[tag as usize].take().ok_or(Errno::NOMSG)?;
        let result = command.result();
        self.counts.end(command.is.kind, command.is.is_async, result);
        tags.free(tag, command.is.user_tag);
        result
    }

    fn counts(&self, events: nvme::chunk::Events) -> Counts {
        let mut counts = self.counts;
        (counts.retries, counts.timeouts) = (events.retries + events.resubmitted, events.aborts);
        counts
    }
}
