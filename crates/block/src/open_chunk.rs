//! A chunk that was opened: its commands, tags, queues and blocks.

use crate::c_types::{CFLSH_ATTR_UNMAP, ChunkStats};
use crate::close_wait::CloseWait;
use crate::disk::Disk;
use crate::errno;
use crate::queue::{Awaited, Kind, LOOK_AFTER, NewCommand, Queue, Run};
use crate::space::{Extent, Extents, Parts, Space};
use crate::tags::Tags;
use crate::thread_number;
use crate::{BLOCK_BYTES, COMMANDS_DEFAULT, COMMANDS_MAX};
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Requests of the disk that a queue has at once. More parts of commands wait for a free one.
const QUEUE_REQUESTS_MAX: usize = 256;
/// A command waits for a free tag at most for so long.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Which commands a chunk takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) reads: bool,
    pub(crate) writes: bool,
}

impl Access {
    /// As `open(2)` has them in its flags.
    pub(crate) fn of_mode(mode: i32) -> Result<Self, Errno> {
        match mode & libc::O_ACCMODE {
            libc::O_RDONLY => Ok(Self { reads: true, writes: false }),
            libc::O_WRONLY => Ok(Self { reads: false, writes: true }),
            libc::O_RDWR => Ok(Self { reads: true, writes: true }),
            _ => Err(Errno::INVAL),
        }
    }
}

/// How a chunk is opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// Commands at once; 0 or less for the default.
    pub(crate) commands: i32,
    pub(crate) is_virtual: bool,
    /// Zero the blocks of a virtual LUN when it frees them.
    pub(crate) scrubs: bool,
    /// The library may have threads that update statuses.
    pub(crate) has_threads: bool,
}

/// An asynchronous or blocking command, to be begun.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Issue {
    pub(crate) command: NewCommand,
    pub(crate) first: i64,
    /// Whether to wait for a free tag.
    pub(crate) waits: bool,
    /// Whether the disk sees it at once.
    pub(crate) rings: bool,
}

/// Which command's result is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Which {
    /// The one with this tag.
    Command(i32),
    /// The one for which its caller chose this number.
    Chosen(i32),
    /// The one that ended next.
    Next,
}

/// A chunk.
#[derive(Debug)]
pub(crate) struct OpenChunk {
    /// `None` after it was closed: a thread may keep a closed chunk, but not its disk.
    disk: Mutex<Option<Arc<Disk>>>,
    disk_blocks: u64,
    /// Paths to the disk.
    paths: u32,
    /// By how much the disk's blocks are smaller than the interface's, as a shift.
    block_shift: u32,
    options: Options,
    reads: AtomicBool,
    writes: AtomicBool,
    space: Space,
    tags: Arc<Tags>,
    /// Each thread has one of them, opened at its first command.
    queues: Box<[OnceLock<Place>]>,
    /// Whether a close has begun. Held while a queue is opened, and while all are stopped, resumed or closed.
    is_closing: Mutex<bool>,
    /// Threads that update statuses, by queue.
    updaters: Box<[Once]>,
    max_transfer_blocks: u64,
    /// Commands for which no tag was free at first, and those that failed for that.
    without_tag: [AtomicU64; 2],
    /// Results that were asked for too early.
    without_completion: AtomicU64,
}

/// What a thread uses.
#[derive(Debug)]
struct Place {
    queue: Arc<Queue>,
    /// It is another thread's: there were no more.
    is_shared: bool,
}

impl OpenChunk {
    /// # Errors
    /// `ENOMEM` for too many commands; what the system says.
    pub(crate) fn new(disk: Arc<Disk>, access: Access, options: Options) -> Result<Self, Errno> {
        let commands = if options.commands <= 0 { COMMANDS_DEFAULT } else { options.commands };
        let commands = u16::try_from(commands).ok().filter(|commands| *commands <= COMMANDS_MAX);
        let tags = Tags::new(commands.ok_or(Errno::NOMEM)?);
        let space = if options.is_virtual {
            Space::Virtual(Parts::new(disk.locks()?)?)
        } else {
            Space::Physical(disk.blocks)
        };
        Ok(Self::with(disk, access, options, space, tags))
    }

    fn with(disk: Arc<Disk>, access: Access, options: Options, space: Space, tags: Tags) -> Self {
        let queues = thread::available_parallelism().map_or(1, usize::from).min(64);
        Self {
            max_transfer_blocks: max_transfer_blocks(options.is_virtual),
            disk_blocks: disk.blocks,
            paths: disk.paths(),
            block_shift: disk.block_shift_below(),
            disk: Mutex::new(Some(disk)),
            reads: AtomicBool::new(access.reads),
            writes: AtomicBool::new(access.writes),
            options,
            space,
            tags: Arc::new(tags),
            queues: (0..queues).map(|_| OnceLock::new()).collect(),
            is_closing: Mutex::new(false),
            updaters: (0..queues).map(|_| Once::new()).collect(),
            without_tag: [const { AtomicU64::new(0) }; 2],
            without_completion: AtomicU64::new(0),
        }
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.space.blocks()
    }

    pub(crate) fn disk_blocks(&self) -> u64 {
        self.disk_blocks
    }

    fn disk(&self) -> Result<Arc<Disk>, Errno> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or(Errno::INVAL)
    }

    /// This thread's queue, with its place among them.
    #[inline]
    fn queue(&self) -> Result<(usize, &Arc<Queue>), Errno> {
        let place = thread_number::own() % self.queues.len();
        match self.queues[place].get() {
            Some(Place { queue, .. }) => Ok((place, queue)),
            None => self.open_queue(place),
        }
    }

    #[cold]
    fn open_queue(&self, place: usize) -> Result<(usize, &Arc<Queue>), Errno> {
        let is_closing = self.lock_queues();
        if self.queues[place].get().is_none() {
            let opened = match self.new_queue() {
                Ok(queue) => {
                    if *is_closing {
                        queue.stop();
                    }
                    Place { queue: Arc::new(queue), is_shared: false }
                }
                // No more of them: share another thread's, from now on.
                Err(error) => {
                    let (_, queue) = self.open_queues().next().ok_or(error)?;
                    errno::forget_text();
                    Place { queue: Arc::clone(queue), is_shared: true }
                }
            };
            let _ = self.queues[place].set(opened);
        }
        drop(is_closing);
        self.queues[place].get().map(|Place { queue, .. }| (place, queue)).ok_or(Errno::INVAL)
    }

    /// While this is held no queue is opened. Whether a close has begun.
    fn lock_queues(&self) -> MutexGuard<'_, bool> {
        self.is_closing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new_queue(&self) -> Result<Queue, Errno> {
        let requests = self.tags.number().min(QUEUE_REQUESTS_MAX) as u16;
        Queue::new(self.disk()?.queue(requests, &self.space.holds()?)?, self.tags.number())
    }

    /// Begins a command, and returns its tag.
    ///
    /// # Errors
    /// `EINVAL` for blocks that the chunk does not have or take, `EWOULDBLOCK` or `EBUSY` without a free tag.
    pub(crate) fn begin(&self, issue: &Issue) -> Result<u32, Errno> {
        self.check(issue)?;
        let first = u64::try_from(issue.first).map_err(|_| Errno::INVAL)?;
        let blocks = issue.command.blocks as u64;
        match &self.space {
            Space::Physical(all) => {
                let run = Extent { first, blocks }
                    .within(*all)
                    .map_err(|error| say_beyond(first, blocks, *all, error))?;
                let run = self.run(run, 0);
                let tag = self.tags.take().map_or_else(|| self.wait_for_tag(issue.waits), Ok)?;
                self.begin_runs(tag, issue, &[run])
            }
            Space::Virtual(parts) => self.begin_virtual(parts, first, issue),
        }
    }

    /// Begins a command of a virtual LUN. Its blocks stay the chunk's until the command is in the queue, where a change of size sees it.
    #[inline(never)]
    fn begin_virtual(&self, parts: &Parts, first: u64, issue: &Issue) -> Result<u32, Errno> {
        let mut fixed = parts.fix();
        let mut runs = self.runs(&fixed, first, issue)?;
        let tag = match self.tags.take() {
            Some(tag) => tag,
            None => {
                // Whoever waits for a tag must not hold up a change of size.
                drop(fixed);
                let tag = self.wait_for_tag(issue.waits)?;
                fixed = parts.fix();
                runs = self.runs(&fixed, first, issue).inspect_err(|_| self.tags.free(tag, None))?;
                tag
            }
        };
        let begun = self.begin_runs(tag, issue, &runs);
        drop(fixed);
        begun
    }

    /// Begins a command in this thread's queue. The tag is freed if that fails.
    // Within the functions that call it, as others below it: each call takes some 15 instructions.
    #[inline(always)]
    fn begin_runs(&self, tag: u32, issue: &Issue, runs: &[Run]) -> Result<u32, Errno> {
        let command = &issue.command;
        let (place, queue) = self.queue().inspect_err(|_| self.tags.free(tag, None))?;
        if let Some(chosen) = command.user_tag {
            self.tags.choose(chosen, tag);
        }
        self.tags.assign(tag, place);
        let begun = queue.begin(tag, command, runs, &self.tags, issue.rings);
        if let Err(error) = begun {
            self.tags.free(tag, command.user_tag);
            return Err(error);
        }
        if command.status.is_some() {
            self.start_updater(place, queue);
        }
        Ok(tag)
    }

    /// Empties the disk's volatile write cache.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn flush(&self) -> Result<(), Errno> {
        self.queue()?.1.flush(&self.tags)
    }

    #[inline(always)]
    fn check(&self, issue: &Issue) -> Result<(), Errno> {
        let NewCommand { kind, blocks, status, .. } = issue.command;
        let is_allowed = if kind == Kind::Read { &self.reads } else { &self.writes }.load(Ordering::Relaxed);
        let is_short = blocks as u64 <= self.max_transfer_blocks;
        // Without threads nobody would update it.
        let has_updater = status.is_none() || self.options.has_threads;
        (is_allowed && is_short && has_updater).then_some(()).ok_or(Errno::INVAL)
    }

    /// The disk's blocks for a virtual LUN's.
    fn runs(&self, fixed: &Extents, first: u64, issue: &Issue) -> Result<Vec<Run>, Errno> {
        let (mut runs, mut offset) = (Vec::new(), 0);
        fixed.find(first, issue.command.blocks as u64, |extent| {
            runs.push(self.run(extent, offset));
            offset += (extent.blocks * BLOCK_BYTES) as usize;
        })?;
        Ok(runs)
    }

    /// The same in the disk's blocks.
    fn run(&self, Extent { first, blocks }: Extent, offset: usize) -> Run {
        let shift = self.block_shift;
        Run { first: first << shift, blocks: blocks << shift, offset }
    }

    /// A tag, where none was free.
    #[cold]
    fn wait_for_tag(&self, waits: bool) -> Result<u32, Errno> {
        let [at_first, failed] = &self.without_tag;
        at_first.fetch_add(1, Ordering::Relaxed);
        let fail = |errno| {
            failed.fetch_add(1, Ordering::Relaxed);
            Err(errno)
        };
        // Statuses that callers poll free their tags.
        self.harvest();
        let begun = Instant::now();
        loop {
            match self.tags.take() {
                Some(tag) => return Ok(tag),
                None if !waits => return fail(Errno::WOULDBLOCK),
                None if begun.elapsed() >= WAIT_MAX => return fail(Errno::BUSY),
                None => {}
            }
            if let Some(tag) = self.tags.take_or_wait(Duration::from_millis(1)) {
                return Ok(tag);
            }
            self.harvest();
        }
    }

    /// Processes completions of all queues.
    pub(crate) fn harvest(&self) {
        self.open_queues().for_each(|(_, queue)| queue.harvest_now(&self.tags));
    }

    /// Each queue once.
    fn open_queues(&self) -> impl Iterator<Item = (usize, &Arc<Queue>)> {
        let own = |(number, place): (usize, &'_ OnceLock<Place>)| {
            place.get().filter(|place| !place.is_shared).map(|_| number)
        };
        let numbers = self.queues.iter().enumerate().filter_map(own);
        numbers.filter_map(|number| Some((number, &self.queues[number].get()?.queue)))
    }

    /// Starts the thread that updates statuses of a queue's commands.
    #[cold]
    fn start_updater(&self, place: usize, queue: &Arc<Queue>) {
        self.updaters[place].call_once(|| {
            let (queue, tags) = (Arc::clone(queue), Arc::clone(&self.tags));
            let update = move || queue.update_statuses(&tags);
            // Without it, statuses are updated by this chunk's other calls.
            let _ = thread::Builder::new().name("iotoll-block".to_owned()).spawn(update);
        });
    }

    /// Executes a command and waits for it. Returns the number of blocks.
    ///
    /// # Errors
    /// As for [`begin`](Self::begin), and the command's.
    pub(crate) fn execute(&self, issue: &Issue) -> Result<usize, Errno> {
        let tag = self.begin(issue)?;
        loop {
            if let Some(blocks) = self.take(tag, true)? {
                return Ok(blocks);
            }
            self.wait_for(tag);
        }
    }

    /// Fetches a command's result: the number of blocks, or 0 if it has not ended. With it comes the tag of the next command, if that was asked
    /// for and there is one.
    ///
    /// The error is `EINVAL` for a tag that can't be, `ENOMSG` for one that is free, `ENOENT` if there is no command to wait for, or the command's.
    pub(crate) fn result(
        &self,
        which: Which,
        waits: bool,
        harvests: bool,
    ) -> (Option<i32>, Result<usize, Errno>) {
        if let Which::Next = which {
            return self.next_result(waits, harvests);
        }
        loop {
            let taken = self.tag_of(which, harvests).and_then(|tag| Ok((tag, self.take(tag, harvests)?)));
            match taken {
                Ok((tag, None)) if waits => self.wait_for(tag),
                Ok((_, None)) => return (None, Ok(self.note_early())),
                taken => return (None, taken.map(|(_, blocks)| blocks.unwrap_or(0))),
            }
        }
    }

    /// The same for the command that ended next.
    fn next_result(&self, waits: bool, harvests: bool) -> (Option<i32>, Result<usize, Errno>) {
        loop {
            if let Some((tag, result)) = self.take_next(harvests) {
                return (Some(tag), result);
            }
            if self.tags.in_use() == 0 {
                return (None, Err(Errno::NOENT));
            }
            if !waits {
                return (None, Ok(self.note_early()));
            }
            self.wait_for_any();
        }
    }

    /// Counts a result that was asked for too early, which is that of 0 blocks.
    #[cold]
    fn note_early(&self) -> usize {
        self.without_completion.fetch_add(1, Ordering::Relaxed);
        0
    }

    /// The tag that a caller's stands for.
    #[inline]
    fn tag_of(&self, which: Which, harvests: bool) -> Result<u32, Errno> {
        match which {
            Which::Command(tag) => {
                let tag = u32::try_from(tag).ok().filter(|tag| (*tag as usize) < self.tags.number());
                tag.ok_or(Errno::INVAL)
            }
            Which::Chosen(chosen) => {
                if harvests {
                    self.harvest();
                }
                self.tags.of_chosen(chosen).ok_or(Errno::INVAL)
            }
            Which::Next => Err(Errno::INVAL),
        }
    }

    #[inline(always)]
    fn take(&self, tag: u32, harvests: bool) -> Result<Option<usize>, Errno> {
        let place = self.tags.queue_of(tag).ok_or(Errno::NOMSG)?;
        let Place { queue, .. } = self.queues[place].get().ok_or(Errno::NOMSG)?;
        queue.take(tag, &self.tags, harvests)
    }

    fn take_next(&self, harvests: bool) -> Option<(i32, Result<usize, Errno>)> {
        let own = thread_number::own() % self.queues.len();
        let own_first = (own..self.queues.len()).chain(0..own);
        own_first
            .filter_map(|place| self.queues[place].get())
            .find_map(|Place { queue, .. }| queue.take_next(&self.tags, harvests))
    }

    #[cold]
    fn wait_for(&self, tag: u32) {
        if let Some(Place { queue, .. }) = self.tags.queue_of(tag).and_then(|place| self.queues[place].get())
        {
            queue.wait(&self.tags, LOOK_AFTER, Awaited::Command(tag));
        }
    }

    #[cold]
    fn wait_for_any(&self) {
        let busy: Vec<_> = self.open_queues().filter(|(_, queue)| queue.is_in_flight()).collect();
        match &busy[..] {
            // Another thread is about to fetch what has ended, or to begin a command.
            [] => thread::sleep(Duration::from_micros(50)),
            [(_, only)] => only.wait(&self.tags, LOOK_AFTER, Awaited::Any),
            several => {
                let wait = |(_, queue): &(usize, &Arc<Queue>)| {
                    queue.wait(&self.tags, Duration::from_micros(50), Awaited::Any);
                };
                several.iter().for_each(wait);
            }
        }
    }

    /// Lets the disk see the commands that this thread has begun.
    pub(crate) fn ring_doorbell(&self) {
        if let Ok((_, queue)) = self.queue() {
            queue.ring_doorbell();
        }
    }

    /// Changes a virtual LUN's size.
    ///
    /// # Errors
    /// `EINVAL` for a physical LUN, a clone, a close that has begun, or more blocks than the disk has, `ENOSPC` if other virtual LUNs have them, `EBUSY` if blocks
    /// would be freed that a clone has.
    pub(crate) fn set_size(&self, blocks: u64) -> Result<(), Errno> {
        let Space::Virtual(parts) = &self.space else { return Err(Errno::INVAL) };
        if blocks > self.disk_blocks || *self.lock_queues() {
            return Err(Errno::INVAL);
        }
        parts.resize(blocks, self.disk_blocks, || self.drain(), |part| self.scrub(part))
    }

    /// Waits until no request of the disk is in flight.
    fn drain(&self) {
        for (_, queue) in self.open_queues() {
            while queue.has_parts() {
                queue.wait(&self.tags, LOOK_AFTER, Awaited::NoParts);
            }
        }
    }

    /// Zeroes blocks of the disk that are freed, if that was asked for.
    fn scrub(&self, part: Extent) -> Result<(), Errno> {
        if !self.options.scrubs {
            return Ok(());
        }
        let shift = self.block_shift;
        self.queue()?.1.write_zeroes(&self.tags, part.first << shift, part.blocks << shift)
    }

    pub(crate) fn stats(&self) -> ChunkStats {
        let mut stats = ChunkStats::default();
        self.add_to(&mut stats);
        stats
    }

    /// Adds its statistics to those of others.
    pub(crate) fn add_to(&self, stats: &mut ChunkStats) {
        (stats.block_size, stats.num_paths) = (BLOCK_BYTES as u32, self.paths);
        stats.max_transfer_size += self.max_transfer_blocks;
        stats.num_no_cmds_free += self.without_tag[0].load(Ordering::Relaxed);
        stats.num_aresult_no_cmplt += self.without_completion.load(Ordering::Relaxed);
        stats.num_no_cmds_free_fail += self.without_tag[1].load(Ordering::Relaxed);
        self.open_queues().for_each(|(_, queue)| queue.counts().add_to(stats));
    }

    /// `flags1` of the attributes.
    pub(crate) fn attributes(&self) -> u64 {
        CFLSH_ATTR_UNMAP
    }

    /// Begins a close: no command is begun from now on.
    ///
    /// # Errors
    /// `EINVAL` if a close has begun already.
    pub(crate) fn stop(&self) -> Result<(), Errno> {
        let mut is_closing = self.lock_queues();
        if std::mem::replace(&mut *is_closing, true) {
            return Err(Errno::INVAL);
        }
        self.open_queues().for_each(|(_, queue)| queue.stop());
        Ok(())
    }

    /// Gives up a close that was begun.
    pub(crate) fn resume(&self) {
        let mut is_closing = self.lock_queues();
        *is_closing = false;
        self.open_queues().for_each(|(_, queue)| queue.resume());
    }

    /// Ends all use after [`stop`](Self::stop) and [`wait_for_commands`](Self::wait_for_commands).
    ///
    /// # Errors
    /// The disk's if blocks can't be zeroed. Then nothing has changed.
    pub(crate) fn finish(&self) -> Result<(), Errno> {
        if let Space::Virtual(parts) = &self.space {
            parts.close(|part| self.scrub(part))?;
        }
        let _is_closing = self.lock_queues();
        for (_, queue) in self.open_queues() {
            // A controller that is lost keeps its queues until it is reset; no command is in them.
            let _ = queue.close();
        }
        self.disk.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(())
    }

    /// Waits until no command has a tag, and no thread waits for a flush.
    ///
    /// # Errors
    /// `EBUSY` if commands are in flight, or results were not fetched.
    pub(crate) fn wait_for_commands(&self) -> Result<(), Errno> {
        let mut wait = CloseWait::new(Instant::now());
        loop {
            self.harvest();
            let is_busy = self.open_queues().any(|(_, queue)| queue.is_busy());
            if !is_busy && self.tags.in_use() == 0 {
                return Ok(());
            }
            if wait.is_over(is_busy, Instant::now()) {
                return Err(Errno::BUSY);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// In a child process: the chunk is its parent's.
    pub(crate) fn forget_use(&self) {
        if let Space::Virtual(parts) = &self.space {
            parts.forget_use();
        }
    }

    /// The access that a mode asks for.
    ///
    /// # Errors
    /// `EBUSY` if commands are in flight or results were not fetched, `EINVAL` for more access than the chunk has.
    fn less_access(&self, mode: i32) -> Result<Access, Errno> {
        if self.tags.in_use() > 0 {
            return Err(Errno::BUSY);
        }
        let wanted = Access::of_mode(mode)?;
        let lacks = |has: &AtomicBool| !has.load(Ordering::Relaxed);
        if wanted.reads && lacks(&self.reads) || wanted.writes && lacks(&self.writes) {
            return Err(Errno::INVAL);
        }
        Ok(wanted)
    }

    /// Takes access away.
    ///
    /// # Errors
    /// As for [`less_access`](Self::less_access)
    pub(crate) fn change_access(&self, mode: i32) -> Result<(), Errno> {
        let Access { reads, writes } = self.less_access(mode)?;
        self.reads.store(reads, Ordering::Relaxed);
        self.writes.store(writes, Ordering::Relaxed);
        Ok(())
    }

    /// The parent's chunk for a child process, with queues of its own. The parent's threads and queues do not exist there.
    ///
    /// # Errors
    /// As for [`less_access`](Self::less_access). `EOPNOTSUPP` if the chunk is on a controller: the queues are in the parent's memory.
    pub(crate) fn clone_after_fork(&self, mode: i32) -> Result<Self, Errno> {
        let access = self.less_access(mode)?;
        // A thread that held a lock does not exist in the child.
        let disk = self.disk.try_lock().map_err(|_| Errno::BUSY)?.clone().ok_or(Errno::INVAL)?;
        if disk.is_controller() {
            return Err(Errno::OPNOTSUPP);
        }
        let space = match &self.space {
            Space::Physical(blocks) => Space::Physical(*blocks),
            Space::Virtual(parts) => Space::Virtual(parts.for_child()?),
        };
        let tags = Tags::new(self.tags.number() as u16);
        Ok(Self::with(disk, access, self.options, space, tags))
    }
}

/// The most blocks of a command. A virtual LUN takes one.
fn max_transfer_blocks(is_virtual: bool) -> u64 {
    let given = std::env::var("CFLSH_BLK_MAX_XFER").ok().and_then(|text| text.trim().parse().ok());
    given.filter(|blocks| *blocks > 0).unwrap_or(if is_virtual { 1 } else { crate::TRANSFER_BLOCKS_MAX })
}

/// Says that blocks are not the chunk's.
#[cold]
fn say_beyond(first: u64, blocks: u64, all: u64, error: Errno) -> Errno {
    errno::say(
        format!("{blocks} blocks from block {first}; expected 1 or more within the chunk's {all}"),
        error,
    )
}

#[cfg(test)]
mod tests;
