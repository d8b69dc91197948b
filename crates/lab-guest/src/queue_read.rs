//! The command `queue-read`: the reads of the command `read`, by the C interface's queue (`iotoll_queue_read` and its neighbours).
//!
//! The library is linked statically, so that the symbol table has its functions. They are called through pointers, as those of a shared
//! library are: no compiler moves a part of them into their caller.

#![allow(unsafe_code, reason = "the C interface")]

use crate::error::Result;
use crate::mark;
use crate::read::Reads;
use crate::read_position::ReadPosition;
use crate::settle::settle;
use block::direct_queue::{DirectCompletion, DirectQueue};
use block::interface::queue;
use std::ffi::{CString, c_int, c_uint};
use std::hint::black_box;
use std::io;

/// The functions that a read needs.
struct Functions {
    read: unsafe extern "C" fn(*mut DirectQueue, usize, u64, u32, u64) -> c_int,
    submit: unsafe extern "C" fn(*mut DirectQueue),
    poll: unsafe extern "C" fn(*mut DirectQueue, *mut DirectCompletion, c_uint) -> c_int,
}

/// An open queue, and where its completions go.
struct OpenQueue {
    functions: Functions,
    queue: *mut DirectQueue,
    completions: Box<[DirectCompletion]>,
    bytes: u64,
}

/// Runs the workload: warm-up, then the marked windows.
pub(crate) fn run(reads: &Reads<'_>) -> Result<()> {
    let mut open = OpenQueue::open(reads)?;
    // SAFETY: the queue is open.
    let (blocks, block_bytes) =
        unsafe { (queue::iotoll_queue_blocks(open.queue), queue::iotoll_queue_block_bytes(open.queue)) };
    let mut position = ReadPosition::new(blocks, block_bytes, reads.bytes);
    settle();
    for _ in 0..reads.warm_up_windows() {
        open.read_batch(&mut position)?;
    }
    mark::announce_workload(reads.phase, reads.depth.into());
    for _ in 0..reads.windows {
        mark::begin();
        let read = open.read_batch(&mut position);
        mark::end();
        read?;
    }
    open.close()
}

impl OpenQueue {
    /// Opens a queue with as many buffers as reads of a window.
    fn open(reads: &Reads<'_>) -> Result<Self> {
        let path = CString::new(reads.address)?;
        let bytes = usize::from(reads.depth) * reads.bytes as usize;
        // SAFETY: the path ends with a zero byte.
        let queue = unsafe { queue::iotoll_queue_open(path.as_ptr(), reads.depth.into(), bytes) };
        if queue.is_null() {
            return Err(format!("iotoll_queue_open: {}", io::Error::last_os_error()).into());
        }
        let completions = vec![DirectCompletion::default(); reads.depth.into()].into_boxed_slice();
        // The compiler does not see what is behind the pointers.
        let functions = black_box(Functions {
            read: queue::iotoll_queue_read,
            submit: queue::iotoll_queue_submit,
            poll: queue::iotoll_queue_poll,
        });
        Ok(Self { functions, queue, completions, bytes: reads.bytes })
    }

    /// Submits one read for each part of the buffer with one doorbell write, and processes the completions.
    #[inline(never)]
    fn read_batch(&mut self, position: &mut ReadPosition) -> Result<()> {
        let (blocks, reads) = (position.blocks_per_read as u32, self.completions.len());
        for index in 0..reads as u64 {
            let offset = (index * self.bytes) as usize;
            // SAFETY: the queue is open, and this part of its buffer is in no other command.
            let code =
                unsafe { (self.functions.read)(self.queue, offset, position.advance(), blocks, index) };
            if code != 0 {
                return Err(failed("iotoll_queue_read", code));
            }
        }
        // SAFETY: the queue is open.
        unsafe { (self.functions.submit)(self.queue) };
        // The plugin holds the guest in the pause until all completions are there.
        mark::pause();
        mark::polled();
        mark::resume();
        let into = self.completions.as_mut_ptr();
        // SAFETY: the queue is open, and has room for all completions.
        let completed = unsafe { (self.functions.poll)(self.queue, into, reads as u32) };
        if completed != reads as i32 {
            return Err(failed("iotoll_queue_poll", completed));
        }
        match self.completions.iter().find(|done| done.error != 0) {
            Some(done) => Err(format!("read {} failed: status {:#x}", done.cookie, done.status).into()),
            None => Ok(()),
        }
    }

    /// Closes the queue.
    fn close(self) -> Result<()> {
        // SAFETY: the queue is open, and is not used after this.
        match unsafe { queue::iotoll_queue_close(self.queue) } {
            0 => Ok(()),
            code => Err(failed("iotoll_queue_close", code)),
        }
    }
}

/// A function of the C interface that returned something else than it should.
#[cold]
fn failed(function: &str, code: i32) -> Box<dyn std::error::Error> {
    format!("{function} returned {code}").into()
}
