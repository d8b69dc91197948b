//! A thread's queue of a chunk: its commands, and the disk's requests that they consist of.

#![allow(
    unsafe_code,
    reason = "callers give pointers to their data and statuses, which must live until their commands end"
)]

use crate::c_types::{ArwStatus, CBLK_ARW_STATUS_FAIL, CBLK_ARW_STATUS_PENDING, CBLK_ARW_STATUS_SUCCESS};
use crate::counts::Counts;
use crate::ended::Ended;
use crate::errno::{errno_of, explain, of_io};
use crate::failure::Failure;
use crate::own_requests::{OwnOperation, OwnRequest, OwnRequests};
use crate::tags::Tags;
use nvme::chunk::{Chunk, ChunkError, Request};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Polls of a disk without a descriptor to sleep on, before another thread may run.
const POLLS: u32 = 64;

/// The most blocks that one request zeroes.
const UNMAP_BLOCKS_MAX: u64 = 1 << 16;
/// A thread that waits looks after this time whether the queue was closed.
pub(crate) const LOOK_AFTER: Duration = Duration::from_millis(100);

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Unmap,
}

impl Kind {
    /// What an error's text begins with.
    fn name(self) -> &'static str {
        match self {
            Self::Read => "the read",
            Self::Write => "the write",
            Self::Unmap => "the unmap",
        }
    }
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
pub(crate) struct UserStatus(NonNull<ArwStatus>);

// SAFETY: as for `Buffer`.
unsafe impl Send for UserStatus {}

impl UserStatus {
    /// # Safety
    /// The structure lives until the command has ended, and the caller only reads it until then.
    pub(crate) unsafe fn new(at: NonNull<ArwStatus>) -> Self {
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
        let at = self.0.as_ptr();
        // SAFETY: `new` was promised that the structure lives, and that the caller writes nothing to it.
        unsafe {
            (*at).blocks_transferred = blocks;
            (*at).fail_errno = errno;
            AtomicI32::from_ptr(&raw mut (*at).status).store(status, Ordering::Release);
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

/// What a request of the disk is for.
#[derive(Debug, Clone, Copy)]
enum Work {
    Part(Part),
    Own(OwnRequest),
}

/// How a request was begun.
enum Begun {
    InFlight,
    /// No slot is free.
    NoSlot,
    /// It has ended already.
    Ended,
}

/// The commands of a queue, with its disk.
#[derive(Debug)]
struct Commands {
    disk: Chunk,
    block_shift: u32,
    /// The most blocks of a request of the disk.
    request_blocks: u64,
    tagged: Tagged,
    own: OwnRequests,
    /// By the disk's slot.
    work: Vec<Option<Work>>,
    /// Those that are.
    in_flight: usize,
    /// Requests for which no slot was free.
    backlog: VecDeque<Work>,
    /// `None` for a disk that must be polled.
    events: Option<Arc<Events>>,
    /// A thread sleeps until the disk has completed something.
    has_sleeper: bool,
    /// Threads that wait for a change.
    waiters: usize,
    /// The thread that updates statuses waits for one to be polled.
    updater_waits: bool,
    /// No new command is taken, because the chunk is being closed.
    is_stopped: bool,
}

/// Commands that have tags.
#[derive(Debug)]
struct Tagged {
    /// By tag.
    commands: Vec<Option<Command>>,
    /// Why commands failed whose results were not fetched, by tag: of each the part that failed first.
    failures: BTreeMap<u32, ChunkError>,
    /// Asynchronous commands that have ended, and whose results were not fetched.
    ended: Ended,
    /// Commands in flight whose status their caller polls.
    polled_statuses: usize,
    counts: Counts,
}

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// The command with this tag.
    Command(u32),
    /// The queue's own request with this number.
    Own(u64),
    /// Any asynchronous command.
    Any,
    /// That no command is in flight. Flushes may be.
    NoParts,
    /// What has not ended yet.
    More,
}

/// A queue that threads share.
#[derive(Debug)]
pub(crate) struct Queue {
    /// `None` after it was closed.
    commands: Mutex<Option<Commands>>,
    /// Commands have ended, or the queue was closed.
    changed: Condvar,
    /// A command was begun whose status its caller polls, or the queue was closed.
    polled: Condvar,
}

/// What a thread sleeps on.
#[derive(Debug)]
struct Events {
    /// Can be read when the disk may have completed something.
    completed: OwnedFd,
    /// Wakes the thread when another one has processed its completions.
    wake: OwnedFd,
}

impl Events {
    fn new(completed: BorrowedFd<'_>) -> Result<Self, Errno> {
        let completed = completed.try_clone_to_owned().map_err(|error| of_io(&error))?;
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { completed, wake })
    }
}

impl Queue {
    pub(crate) fn new(disk: Chunk, tags: usize) -> Result<Self, Errno> {
        let events = match disk.as_fd().map(Events::new).transpose() {
            Ok(events) => events.map(Arc::new),
            Err(error) => {
                // The error is the caller's.
                let _ = disk.close();
                return Err(error);
            }
        };
        let block_shift = disk.block_bytes().trailing_zeros();
        let tagged = Tagged {
            commands: vec![None; tags],
            failures: BTreeMap::new(),
            ended: Ended::new(tags),
            polled_statuses: 0,
            counts: Counts::default(),
        };
        let commands = Commands {
            block_shift,
            request_blocks: (disk.request_bytes() >> block_shift) as u64,
            work: vec![None; disk.requests()],
            disk,
            tagged,
            own: OwnRequests::default(),
            in_flight: 0,
            backlog: VecDeque::new(),
            events,
            has_sleeper: false,
            waiters: 0,
            updater_waits: false,
            is_stopped: false,
        };
        Ok(Self { commands: Mutex::new(Some(commands)), changed: Condvar::new(), polled: Condvar::new() })
    }

    #[inline]
    fn lock(&self) -> MutexGuard<'_, Option<Commands>> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes no new commands from now on. Those that were begun go on.
    pub(crate) fn stop(&self) {
        self.set_stopped(true);
    }

    /// Takes commands again.
    pub(crate) fn resume(&self) {
        self.set_stopped(false);
    }

    fn set_stopped(&self, is_stopped: bool) {
        if let Some(commands) = self.lock().as_mut() {
            commands.is_stopped = is_stopped;
        }
    }

    /// Begins a command under a tag, on these blocks of the disk. If `rings`, the disk sees it at once.
    ///
    /// # Errors
    /// `EINVAL` if the queue was stopped or closed.
    #[inline(always)]
    pub(crate) fn begin(
        &self,
        tag: u32,
        command: &NewCommand,
        runs: &[Run],
        tags: &Tags,
        rings: bool,
    ) -> Result<(), Errno> {
        let mut lock = self.lock();
        let commands = lock.as_mut().filter(|commands| !commands.is_stopped).ok_or(Errno::INVAL)?;
        if let Some(status) = command.status {
            status.begin();
        }
        let has_ended = commands.begin(tag, command, runs, tags);
        if rings {
            commands.disk.ring_doorbell();
        }
        if has_ended {
            self.wake(commands);
        } else if commands.updater_waits && command.status.is_some() {
            commands.updater_waits = false;
            self.polled.notify_one();
        }
        Ok(())
    }

    /// Empties the disk's volatile write cache.
    ///
    /// # Errors
    /// `EINVAL` if the queue was stopped or closed; the disk's.
    pub(crate) fn flush(&self, tags: &Tags) -> Result<(), Errno> {
        self.execute(tags, OwnOperation::Flush)
    }

    /// Zeroes blocks of the disk, also in a queue that was stopped.
    ///
    /// # Errors
    /// `EINVAL` if the queue was closed; the disk's.
    pub(crate) fn write_zeroes(&self, tags: &Tags, first: u64, blocks: u64) -> Result<(), Errno> {
        (0..blocks).step_by(UNMAP_BLOCKS_MAX as usize).try_for_each(|done| {
            let blocks = (blocks - done).min(UNMAP_BLOCKS_MAX);
            self.execute(tags, OwnOperation::WriteZeroes { first: first + done, blocks })
        })
    }

    /// Executes a request of the queue's own. Others use the queue meanwhile.
    fn execute(&self, tags: &Tags, operation: OwnOperation) -> Result<(), Errno> {
        let number = self.lock().as_mut().ok_or(Errno::INVAL)?.begin_own(operation)?;
        loop {
            self.wait(tags, LOOK_AFTER, Awaited::Own(number));
            if let Some(result) = self.lock().as_mut().ok_or(Errno::INVAL)?.own.take(number, operation) {
                return result.map_err(|error| explain(operation.name(), &error, errno_of(&error)));
            }
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
    #[inline(always)]
    pub(crate) fn take(&self, tag: u32, tags: &Tags, harvests: bool) -> Result<Option<usize>, Errno> {
        let mut lock = self.lock();
        let commands = lock.as_mut().ok_or(Errno::INVAL)?;
        if commands.tagged.is_in_flight(tag)? {
            if harvests {
                self.harvest(commands, tags);
            }
            if commands.tagged.is_in_flight(tag)? {
                return Ok(None);
            }
        }
        commands.tagged.finish(tag, tags).ok_or(Errno::NOMSG)?.map(Some).map_err(|failure| failure.tell())
    }

    /// Fetches the result of the asynchronous command that ended first, with the tag that its caller knows.
    pub(crate) fn take_next(&self, tags: &Tags, harvests: bool) -> Option<(i32, Result<usize, Errno>)> {
        let mut lock = self.lock();
        let commands = lock.as_mut()?;
        if harvests && commands.tagged.ended.is_empty() {
            self.harvest(commands, tags);
        }
        let tagged = &mut commands.tagged;
        let tag = tagged.ended.first()?;
        let known = tagged.commands[tag as usize].and_then(|command| command.is.user_tag);
        Some((known.unwrap_or(tag as i32), tagged.finish(tag, tags)?.map_err(|failure| failure.tell())))
    }

    /// Processes completions.
    pub(crate) fn harvest_now(&self, tags: &Tags) {
        if let Some(commands) = self.lock().as_mut() {
            self.harvest(commands, tags);
        }
    }

    /// Whether any command has not ended. Other than those, flushes may begin at any time.
    pub(crate) fn has_parts(&self) -> bool {
        self.lock().as_ref().is_some_and(Commands::has_parts)
    }

    /// Whether any request has not ended.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.lock().as_ref().is_some_and(Commands::is_in_flight)
    }

    /// Whether any command has not ended, or a thread that waits in the library is about to fetch its result.
    pub(crate) fn is_busy(&self) -> bool {
        self.lock().as_ref().is_some_and(Commands::is_busy)
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
            return self.wait_for_change(lock, at_most);
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
        self.notify(commands);
    }

    /// Sleeps until another thread notes a change.
    fn wait_for_change(&self, mut lock: MutexGuard<'_, Option<Commands>>, at_most: Duration) {
        if let Some(commands) = lock.as_mut() {
            commands.waiters += 1;
        }
        let waited = self.changed.wait_timeout(lock, at_most);
        let (mut lock, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if let Some(commands) = lock.as_mut() {
            commands.waiters -= 1;
        }
    }

    /// Wakes threads that wait for a change. Without one it costs no system call.
    fn notify(&self, commands: &Commands) {
        if commands.waiters > 0 {
            self.changed.notify_all();
        }
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

    /// Wakes threads that wait, also the one that sleeps until the disk has completed something.
    fn wake(&self, commands: &Commands) {
        self.notify(commands);
        if let Some(events) = commands.events.as_ref().filter(|_| commands.has_sleeper) {
            let _ = rustix::io::write(&events.wake, &1_u64.to_ne_bytes());
        }
    }

    /// Updates statuses that callers poll, until the queue is closed.
    pub(crate) fn update_statuses(&self, tags: &Tags) {
        loop {
            let mut lock = self.lock();
            match lock.as_mut() {
                None => return,
                Some(commands) if commands.tagged.polled_statuses > 0 => {
                    drop(lock);
                    self.wait(tags, Duration::from_millis(100), Awaited::More);
                }
                Some(commands) => {
                    commands.updater_waits = true;
                    let mut lock = self.polled.wait(lock).unwrap_or_else(PoisonError::into_inner);
                    if let Some(commands) = lock.as_mut() {
                        commands.updater_waits = false;
                    }
                }
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
        self.polled.notify_all();
        commands.map_or(Ok(()), |commands| commands.disk.close())
    }
}

impl Commands {
    /// Another thread may have processed its completion.
    fn has_ended(&self, awaited: Awaited) -> bool {
        match awaited {
            Awaited::Command(tag) => !self.tagged.is_in_flight(tag).unwrap_or(false),
            Awaited::Own(number) => self.own.has_ended(number),
            Awaited::Any => !self.tagged.ended.is_empty(),
            Awaited::NoParts => !self.has_parts(),
            Awaited::More => false,
        }
    }

    fn has_parts(&self) -> bool {
        let is_part = |work: &Work| matches!(work, Work::Part(_));
        self.work.iter().flatten().any(is_part) || self.backlog.iter().any(is_part)
    }

    fn is_in_flight(&self) -> bool {
        self.in_flight > 0 || !self.backlog.is_empty()
    }

    fn is_busy(&self) -> bool {
        self.is_in_flight() || self.tagged.counts.blocking() > 0 || !self.own.is_empty()
    }

    /// Begins a command. Returns whether it has ended.
    #[inline(always)]
    fn begin(&mut self, tag: u32, is: &NewCommand, runs: &[Run], tags: &Tags) -> bool {
        let blocks_max = if is.kind == Kind::Unmap { UNMAP_BLOCKS_MAX } else { self.request_blocks };
        let parts = match runs {
            // Nearly always.
            [run] if run.blocks <= blocks_max => match self.begin_or_queue(Part { tag, run: *run }, is) {
                Begun::Ended => 0,
                Begun::InFlight | Begun::NoSlot => 1,
            },
            runs => self.begin_parts(tag, is, runs, blocks_max),
        };
        self.tagged.begin(tag, is, parts);
        if parts == 0 {
            self.tagged.end(tag, tags);
        }
        parts == 0
    }

    /// Begins a command in several parts. Returns how many have not ended.
    #[inline(never)]
    fn begin_parts(&mut self, tag: u32, is: &NewCommand, runs: &[Run], blocks_max: u64) -> u32 {
        let mut parts = 0;
        for run in runs {
            let mut left = *run;
            while left.blocks > 0 {
                let run = Run { blocks: left.blocks.min(blocks_max), ..left };
                left.first += run.blocks;
                left.blocks -= run.blocks;
                left.offset += (run.blocks << self.block_shift) as usize;
                match self.begin_or_queue(Part { tag, run }, is) {
                    Begun::InFlight | Begun::NoSlot => parts += 1,
                    Begun::Ended => {}
                }
            }
        }
        parts
    }

    /// Begins a part after what waits for slots.
    #[inline(always)]
    fn begin_or_queue(&mut self, part: Part, is: &NewCommand) -> Begun {
        let begun = if self.backlog.is_empty() { self.begin_part(part, is) } else { Begun::NoSlot };
        if let Begun::NoSlot = begun {
            self.backlog.push_back(Work::Part(part));
        }
        begun
    }

    /// Begins a request of the queue's own after what waits for slots. Returns its number.
    ///
    /// # Errors
    /// `EINVAL` for a caller's request in a queue that was stopped. A close has the library zero blocks after that.
    fn begin_own(&mut self, operation: OwnOperation) -> Result<u64, Errno> {
        if self.is_stopped && operation.is_a_caller_s() {
            return Err(Errno::INVAL);
        }
        let request = self.own.add(operation);
        let begun = if self.backlog.is_empty() { self.begin_own_request(request) } else { Begun::NoSlot };
        if let Begun::NoSlot = begun {
            self.backlog.push_back(Work::Own(request));
        }
        self.disk.ring_doorbell();
        Ok(request.number)
    }

    fn begin_own_request(&mut self, request: OwnRequest) -> Begun {
        let begun = request.begin(&mut self.disk);
        self.note_begun(begun, Work::Own(request)).unwrap_or_else(|error| {
            self.own.end(request.number, Err(error));
            Begun::Ended
        })
    }

    /// Begins the request of a command's part.
    #[inline(always)]
    fn begin_part(&mut self, part: Part, is: &NewCommand) -> Begun {
        let Run { first, blocks, offset } = part.run;
        let bytes = (blocks << self.block_shift) as usize;
        let begun = match is.kind {
            Kind::Read => {
                // SAFETY: the part is within the command's data, which nothing else uses before its request is begun.
                let into = unsafe { is.buffer.part_mut(offset, bytes) };
                // What fails here fails as a request, too.
                if let Ok(true) = self.disk.read_cached(first, into) {
                    return Begun::Ended;
                }
                self.disk.begin_read(first, blocks)
            }
            Kind::Write => {
                // SAFETY: the part is within the command's data, and the command has not ended.
                self.disk.begin_write(first, unsafe { is.buffer.part(offset, bytes) })
            }
            Kind::Unmap => self.disk.begin_write_zeroes(first, blocks),
        };
        let begun = self.note_begun(begun, Work::Part(part));
        begun.unwrap_or_else(|error| {
            self.tagged.fail(part.tag, error);
            Begun::Ended
        })
    }

    /// Notes what a request is for that was begun.
    ///
    /// # Errors
    /// Why it was not begun, unless no slot was free.
    #[inline(always)]
    fn note_begun(&mut self, begun: Result<Request, ChunkError>, work: Work) -> Result<Begun, ChunkError> {
        match begun {
            Ok(request) => {
                self.work[request.slot()] = Some(work);
                self.in_flight += 1;
                Ok(Begun::InFlight)
            }
            Err(ChunkError::NoFreeSlot { .. }) => Ok(Begun::NoSlot),
            Err(error) => Err(error),
        }
    }

    /// Processes completions, and begins requests for which slots are free again. Returns how many commands, and requests of the queue's own,
    /// have ended.
    fn harvest(&mut self, tags: &Tags) -> usize {
        let Self { disk, tagged, own, work, block_shift, in_flight, .. } = self;
        let mut ended = 0;
        disk.poll(|completion| {
            let Some(work) = work[completion.request().slot()].take() else { return };
            *in_flight -= 1;
            let into = match work {
                // SAFETY: the part has not ended, and this is its only completion.
                Work::Part(part) => unsafe { tagged.destination(part, *block_shift) },
                Work::Own(_) => &mut [],
            };
            let result = completion.finish(into);
            match work {
                Work::Part(part) => {
                    if let Err(error) = result {
                        tagged.fail(part.tag, error);
                    }
                    ended += usize::from(tagged.end_part(part.tag, tags));
                }
                Work::Own(request) => {
                    own.end(request.number, result.map(|_| ()));
                    ended += 1;
                }
            }
        });
        if !self.backlog.is_empty() {
            ended += self.begin_backlog(tags);
        }
        ended
    }

    /// Begins what waits for slots. Returns how many commands, and requests of the queue's own, have ended with that.
    #[inline(never)]
    fn begin_backlog(&mut self, tags: &Tags) -> usize {
        let mut ended = 0;
        while let Some(work) = self.backlog.front().copied() {
            let begun = match work {
                Work::Part(part) => {
                    let Some(command) = &self.tagged.commands[part.tag as usize] else { break };
                    let is = command.is;
                    self.begin_part(part, &is)
                }
                Work::Own(request) => self.begin_own_request(request),
            };
            match (begun, work) {
                (Begun::InFlight, _) => {}
                (Begun::NoSlot, _) => break,
                (Begun::Ended, Work::Part(part)) => {
                    ended += usize::from(self.tagged.end_part(part.tag, tags));
                }
                (Begun::Ended, Work::Own(_)) => ended += 1,
            }
            self.backlog.pop_front();
        }
        self.disk.ring_doorbell();
        ended
    }

    fn counts(&self, events: nvme::chunk::Events) -> Counts {
        let mut counts = self.tagged.counts;
        (counts.retries, counts.timeouts) = (events.retries + events.resubmitted, events.aborts);
        counts
    }
}

impl Tagged {
    /// Whether a command has not ended; `ENOMSG` if there is none with this tag.
    #[inline]
    fn is_in_flight(&self, tag: u32) -> Result<bool, Errno> {
        let command = self.commands.get(tag as usize).and_then(Option::as_ref);
        command.map(|command| command.parts > 0).ok_or(Errno::NOMSG)
    }

    #[inline]
    fn begin(&mut self, tag: u32, is: &NewCommand, parts: u32) {
        self.counts.begin(is.kind, is.is_async);
        self.polled_statuses += usize::from(is.status.is_some());
        self.commands[tag as usize] = Some(Command { is: *is, parts });
    }

    /// Where a part's data goes: nowhere, unless it reads.
    ///
    /// # Safety
    /// The part has not ended, and this is called once for it.
    #[inline(always)]
    unsafe fn destination<'a>(&self, part: Part, block_shift: u32) -> &'a mut [u8] {
        match &self.commands[part.tag as usize] {
            Some(Command { is, .. }) if is.kind == Kind::Read => {
                // SAFETY: the part is within the command's data, and the command has not ended.
                unsafe { is.buffer.part_mut(part.run.offset, (part.run.blocks << block_shift) as usize) }
            }
            _ => &mut [],
        }
    }

    /// Notes why a command's part has failed.
    #[cold]
    fn fail(&mut self, tag: u32, error: ChunkError) {
        self.failures.entry(tag).or_insert(error);
    }

    /// A command's blocks, or why it failed.
    #[cold]
    fn take_failure(&mut self, tag: u32, is: &NewCommand) -> Result<usize, Box<Failure>> {
        match self.failures.remove(&tag) {
            Some(error) => Err(Box::new(Failure { what: is.kind.name(), error })),
            None => Ok(is.blocks),
        }
    }

    /// Notes that a command's part has ended. Returns whether the command has.
    #[inline(always)]
    fn end_part(&mut self, tag: u32, tags: &Tags) -> bool {
        let Some(command) = &mut self.commands[tag as usize] else { return false };
        command.parts -= 1;
        let has_ended = command.parts == 0;
        if has_ended {
            self.end(tag, tags);
        }
        has_ended
    }

    /// Notes that a command has ended.
    #[inline(always)]
    fn end(&mut self, tag: u32, tags: &Tags) {
        let Some(Command { is, .. }) = &self.commands[tag as usize] else { return };
        if let Some(status) = is.status {
            // Nobody fetches its result.
            self.polled_statuses -= 1;
            if let Some(result) = self.finish(tag, tags) {
                status.end(result.map_err(|failure| failure.errno()));
            }
        } else if is.is_async {
            self.ended.push(tag);
        }
    }

    /// Frees an ended command's tag, and returns its result; `None` if there is no command with this tag.
    #[inline(always)]
    fn finish(&mut self, tag: u32, tags: &Tags) -> Option<Result<usize, Box<Failure>>> {
        let place = self.commands.get_mut(tag as usize)?;
        let is = place.as_ref()?.is;
        *place = None;
        let result = if self.failures.is_empty() { Ok(is.blocks) } else { self.take_failure(tag, &is) };
        let NewCommand { kind, is_async, user_tag, status, .. } = is;
        if is_async && status.is_none() {
            self.ended.remove(tag);
        }
        self.counts.end(kind, is_async, result.as_ref().ok().copied());
        tags.free(tag, user_tag);
        Some(result)
    }
}

#[cfg(test)]
mod tests;
