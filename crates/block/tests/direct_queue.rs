//! Queues without copies, on an emulated controller.

#![allow(unsafe_code, reason = "C functions")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use block::direct_queue::{DirectCompletion, DirectQueue};
use block::interface::queue::{
    iotoll_queue_block_bytes, iotoll_queue_blocks, iotoll_queue_blocks_max, iotoll_queue_buffer,
    iotoll_queue_check, iotoll_queue_close, iotoll_queue_flush, iotoll_queue_open, iotoll_queue_poll,
    iotoll_queue_read, iotoll_queue_submit, iotoll_queue_write,
};
use std::collections::BTreeMap;
use std::ffi::CString;
use support::{BLOCK, Chunk, Disks, pattern};

fn open(path: &str, depth: u32, bytes: usize) -> Result<*mut DirectQueue, i32> {
    let path = CString::new(path).unwrap();
    // SAFETY: the path ends with a zero byte.
    let queue = unsafe { iotoll_queue_open(path.as_ptr(), depth, bytes) };
    if queue.is_null() { Err(std::io::Error::last_os_error().raw_os_error().unwrap()) } else { Ok(queue) }
}

/// Waits for as many commands: their errors by cookie.
fn wait(queue: *mut DirectQueue, number: usize) -> BTreeMap<u64, i32> {
    let mut ended = BTreeMap::new();
    while ended.len() < number {
        let mut into = [DirectCompletion::default(); 3];
        // SAFETY: the queue is open, and there is room for three.
        let polled = unsafe { iotoll_queue_poll(queue, into.as_mut_ptr(), 3) };
        ended.extend(into[..usize::try_from(polled).unwrap()].iter().map(|one| (one.cookie, one.error)));
    }
    ended
}

#[test]
fn data_is_in_the_buffer_by_cookie() {
    let path = &Disks::new(500).paths[1];
    let queue = open(path, 4, 8 * BLOCK).unwrap();
    // SAFETY: the queue is open until the end, and its buffer has eight blocks.
    unsafe {
        assert_eq!((iotoll_queue_blocks(queue), iotoll_queue_block_bytes(queue)), (500, 4096));
        assert!((8..=65_536).contains(&iotoll_queue_blocks_max(queue)));
        let none = std::ptr::null_mut();
        assert_eq!(iotoll_queue_poll(queue, none, 0), 0);
        let buffer = std::slice::from_raw_parts_mut(iotoll_queue_buffer(queue).cast::<u8>(), 8 * BLOCK);
        for block in 0..4 {
            buffer[block * BLOCK..][..BLOCK].copy_from_slice(&pattern(block as u64));
            assert_eq!(iotoll_queue_write(queue, block * BLOCK, 10 + block as u64, 1, 900 + block as u64), 0);
        }
        assert_eq!(iotoll_queue_read(queue, 0, 0, 1, 0), -libc::EAGAIN, "four are in flight");
        iotoll_queue_submit(queue);
        assert_eq!(wait(queue, 4), (900..904).map(|cookie| (cookie, 0)).collect());
        // In the other order, into the other half.
        for block in 0..4 {
            assert_eq!(
                iotoll_queue_read(queue, (7 - block) * BLOCK, 10 + block as u64, 1, u64::MAX - block as u64),
                0
            );
        }
        iotoll_queue_submit(queue);
        let cookies = (0..4).map(|block| (u64::MAX - block, 0));
        assert_eq!(wait(queue, 4), cookies.collect());
        for block in 0..4 {
            assert_eq!(buffer[(7 - block) * BLOCK..][..BLOCK], pattern(block as u64));
        }
        for (offset, first, blocks) in [
            (7 * BLOCK, 0, 2),
            (usize::MAX, 0, 1),
            (0, 500, 1),
            (0, 499, 2),
            (0, u64::MAX, 1),
            (0, 0, 0),
            (0, 0, u32::MAX),
        ] {
            assert_eq!(
                iotoll_queue_read(queue, offset, first, blocks, 0),
                -libc::EINVAL,
                "{offset} {first} {blocks}"
            );
        }
        assert_eq!((iotoll_queue_flush(queue, 7), iotoll_queue_check(queue)), (0, 0));
        iotoll_queue_submit(queue);
        assert_eq!(wait(queue, 1), BTreeMap::from([(7, 0)]));
        // A chunk on the same controller has the same blocks.
        let chunk = Chunk::open(path, 0, libc::O_RDWR, 0).unwrap();
        assert_eq!(chunk.read(12, 1), Ok(pattern(2)));
        assert_eq!(iotoll_queue_close(queue), 0);
    }
}

#[test]
fn what_is_not_there_is_refused() {
    let disks = Disks::new(501);
    assert_eq!(open(&disks.paths[0], 4, BLOCK), Err(libc::EOPNOTSUPP), "a file");
    assert_eq!(open("/nowhere", 4, BLOCK), Err(libc::ENOENT));
    for depth in [0, 65_535, 65_536] {
        assert_eq!(open(&disks.paths[1], depth, BLOCK), Err(libc::EINVAL), "{depth}");
    }
    // More than the controller takes at once.
    assert_eq!(open(&disks.paths[1], 60_000, BLOCK), Err(libc::EINVAL));
    assert_eq!(open("emulated:503x2", 4, BLOCK), Err(libc::EOPNOTSUPP), "two controllers");
    assert_eq!(open(&disks.paths[1], 4, 1 << 40), Err(libc::ENOMEM));
    // Each refusal deletes its queue.
    for _ in 0..100 {
        assert_eq!(open(&disks.paths[1], 4, 1 << 40), Err(libc::ENOMEM));
    }
    let queue = open(&disks.paths[1], 4, BLOCK).unwrap();
    // SAFETY: it is not used afterwards.
    assert_eq!(unsafe { iotoll_queue_close(queue) }, 0);
}

/// What is in flight when a queue is closed is given up, and its memory is used again.
#[test]
fn a_queue_is_closed_with_commands_in_flight() {
    let path = &Disks::new(502).paths[1];
    for _ in 0..200 {
        let queue = open(path, 8, 8 * BLOCK).unwrap();
        // SAFETY: the queue is open.
        unsafe {
            (0..8).for_each(|block| assert_eq!(iotoll_queue_read(queue, block * BLOCK, 0, 1, 0), 0));
            iotoll_queue_submit(queue);
            assert_eq!(iotoll_queue_close(queue), 0);
        }
    }
}
