//! A queue pair of a controller for one thread, with memory that the controller reaches: no copy, no lock, no tags.

use crate::disk::Disk;
use crate::errno;
use dma::RamArray;
use nvme::chunk::ChunkError;
use nvme::{BlockError, Buffer, Controller, Namespace, NvmeError, QueueError, QueuePair};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex};

/// A command identifier has 12 bits for its slot. With a place for each, the compiler leaves out the checks of an index.
const SLOTS: usize = 1 << 12;

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// A command that has ended. The C interface has the same structure.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DirectCompletion {
    /// The caller's number for the command.
    pub cookie: u64,
    /// 0, or `EIO`.
    pub error: i32,
    /// The status field of the completion, without the phase (NVM Express Base Specification 2.0, 3.3.3.2.1).
    pub status: u32,
}

/// A queue of a controller.
#[derive(Debug)]
pub struct DirectQueue {
    queue: QueuePair,
    namespace: Namespace,
    buffer: Buffer,
    /// The buffer, for the CPU.
    memory: RamArray<1>,
    /// Callers' numbers by slot.
    cookies: Box<[u64; SLOTS]>,
    controller: Arc<Mutex<Controller>>,
    /// Keeps the controller open.
    _disk: Arc<Disk>,
}

impl DirectQueue {
    /// A queue for `depth` commands at once, with a buffer of `bytes`.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for a disk that is not one controller; `EINVAL` for more commands than that takes, `EAGAIN` if it has no queue left, `ENOMEM` if
    /// there is no memory for it.
    pub(crate) fn open(disk: Arc<Disk>, depth: u16, bytes: u64) -> Result<Self, Errno> {
        let (controller, namespace) =
            disk.controller().filter(|_| disk.paths() == 1).ok_or(Errno::OPNOTSUPP)?;
        Self::of_controller(controller, namespace, disk, depth, bytes)
    }

    /// The same for a disk's controller and namespace.
    fn of_controller(
        controller: Arc<Mutex<Controller>>,
        namespace: Namespace,
        disk: Arc<Disk>,
        depth: u16,
        bytes: u64,
    ) -> Result<Self, Errno> {
        let mut lock = Controller::lock(&controller);
        let entries = depth.checked_add(1).filter(|_| depth > 0).ok_or(Errno::INVAL)?;
        let failed = |error: &NvmeError, errno| errno::explain("no queue", error, errno);
        let queue = lock.queue_pair(entries).map_err(|error| failed(&error, Errno::AGAIN))?;
        if queue.available() < usize::from(depth) {
            // The error is the caller's.
            let _ = lock.delete(queue);
            return Err(Errno::INVAL);
        }
        let allocated = lock.allocate(bytes).map_err(|error| failed(&error, Errno::NOMEM));
        let ready = allocated.and_then(|buffer| {
            let words = (buffer.bytes() / 8) as usize;
            let memory = RamArray::new(lock.ram(), buffer.memory(), words);
            memory.map(|memory| (buffer, memory)).map_err(|_| Errno::NOMEM)
        });
        let (buffer, memory) = match ready {
            Ok(ready) => ready,
            Err(error) => {
                // The first error is the caller's.
                let _ = lock.delete(queue);
                return Err(error);
            }
        };
        drop(lock);
        let cookies = Box::new([0; SLOTS]);
        Ok(Self { queue, namespace, buffer, memory, cookies, controller, _disk: disk })
    }

    /// The buffer's first byte. It lives as long as the queue.
    pub(crate) fn memory(&self) -> *mut u8 {
        self.memory.as_ptr().cast_mut().cast()
    }

    /// Size of the disk in its blocks.
    pub(crate) fn blocks(&self) -> u64 {
        self.namespace.format.blocks
    }

    /// Size of its blocks.
    pub(crate) fn block_bytes(&self) -> u64 {
        self.namespace.format.block_bytes()
    }

    /// The most blocks of a command.
    pub(crate) fn blocks_max(&self) -> u64 {
        self.namespace.transfer_bytes_max >> self.namespace.format.block_shift
    }

    /// Submits a read into the buffer, or a write from it, at a byte offset. The controller sees it after the next
    /// [`ring_doorbell`](Self::ring_doorbell).
    ///
    /// # Errors
    /// `EAGAIN` if as many commands as the queue takes are in flight, `EINVAL` outside the disk or the buffer, `EIO` if the controller was
    /// reset.
    // Within each of the two C functions: another call takes 9 instructions.
    #[inline(always)]
    pub(crate) fn submit(
        &mut self,
        direction: Direction,
        offset: u64,
        first: u64,
        blocks: u32,
        cookie: u64,
    ) -> Result<(), Errno> {
        let bytes = u64::from(blocks) << self.namespace.format.block_shift;
        let Ok(piece) = self.buffer.piece(offset, bytes) else { return Err(Errno::INVAL) };
        let submitted = match direction {
            Direction::Read => self.queue.read(&self.namespace, first, &[piece]),
            Direction::Write => self.queue.write(&self.namespace, first, &[piece]),
        };
        match submitted {
            Ok(id) => {
                self.cookies[id.slot()] = cookie;
                Ok(())
            }
            Err(error) => Err(block_errno(&error)),
        }
    }

    /// Submits a flush of the disk's volatile write cache.
    ///
    /// # Errors
    /// As for [`submit`](Self::submit)
    pub(crate) fn flush(&mut self, cookie: u64) -> Result<(), Errno> {
        let id = self.queue.flush(&self.namespace).map_err(queue_errno)?;
        self.cookies[id.slot()] = cookie;
        Ok(())
    }

    /// Lets the controller see what was submitted.
    #[inline]
    pub(crate) fn ring_doorbell(&mut self) {
        self.queue.ring_doorbell();
    }

    /// Takes commands that have ended, without waiting, as many as there is room for. Returns their number.
    ///
    /// # Errors
    /// `EIO` if the controller was reset, or misbehaves.
    #[inline]
    pub(crate) fn poll(&mut self, into: &mut [MaybeUninit<DirectCompletion>]) -> Result<usize, Errno> {
        let (cookies, most, mut taken) = (&*self.cookies, into.len(), 0);
        let polled = self.queue.poll(most, |done| {
            let error = if done.status.is_success() { 0 } else { failed_command() };
            let completion =
                DirectCompletion { cookie: cookies[done.id.slot()], error, status: done.status.0.into() };
            // Counted as the poll counts, so that the compiler sees that there is room.
            into[taken].write(completion);
            taken += 1;
        });
        polled.map_err(queue_errno)
    }

    /// Whether the controller works. It is not asked otherwise: commands of one that does not never end.
    ///
    /// # Errors
    /// `EIO`
    pub(crate) fn check(&self) -> Result<(), Errno> {
        let controller = Controller::lock(&self.controller);
        let working = match controller.is_wanted_back() {
            true => Err(NvmeError::WantedBack),
            false => controller.check_working(),
        };
        working.map_err(|error| errno::explain("the controller", &error, Errno::IO))
    }

    /// Deletes the queue. Commands in flight are aborted.
    ///
    /// # Errors
    /// The controller's. Then its memory stays with it until it is reset.
    pub(crate) fn close(self) -> Result<(), Errno> {
        let mut controller = Controller::lock(&self.controller);
        let closed = controller.delete(self.queue).and_then(|()| controller.free(self.buffer));
        closed.map_err(|error| errno::errno_of(&ChunkError::from(error)))
    }
}

/// The error of a command whose status is not success. Apart, so that one that succeeds takes a branch less.
#[cold]
#[inline(never)]
fn failed_command() -> i32 {
    Errno::IO.raw_os_error()
}

#[cold]
fn block_errno(error: &BlockError) -> Errno {
    match error {
        BlockError::Queue(error) => queue_errno(*error),
        _ => Errno::INVAL,
    }
}

#[cold]
fn queue_errno(error: QueueError) -> Errno {
    match error {
        QueueError::Full(_) => Errno::AGAIN,
        _ => Errno::IO,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use crate::table;
    use nvme::emulated::{Fault, Machine};
    use nvme::spec::status::Status;
    use std::path::Path;

    #[test]
    fn a_failed_command_has_its_status() {
        let machine = Machine::open(64, 12).unwrap();
        let (namespace, emulated) = (machine.namespace().unwrap(), machine.emulated);
        // Of another one, which stays open and is not used.
        let disk = table::disk(Path::new("emulated:603"), false).unwrap();
        let controller = Arc::new(Mutex::new(machine.controller));
        let mut queue = DirectQueue::of_controller(controller, namespace, disk, 4, 4096).unwrap();
        emulated.inject(1, Fault::Status(Status::UNRECOVERED_READ));
        (0..3).for_each(|number| queue.submit(Direction::Read, 0, number, 1, 900 + number).unwrap());
        queue.ring_doorbell();
        let mut into = [MaybeUninit::new(DirectCompletion::default()); 4];
        assert_eq!(queue.poll(&mut into[..2]), Ok(2));
        assert_eq!(queue.poll(&mut into[2..]), Ok(1));
        // SAFETY: all were initialised.
        #[allow(unsafe_code, reason = "memory of C callers is not initialised")]
        let ended = into.map(|one| unsafe { one.assume_init() });
        let success = |cookie| DirectCompletion { cookie, error: 0, status: 0 };
        let status = u32::from(Status::UNRECOVERED_READ.0);
        let failed = DirectCompletion { cookie: 901, error: libc::EIO, status };
        assert_eq!(ended, [success(900), failed, success(902), DirectCompletion::default()]);
    }
}
