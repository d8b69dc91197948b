//! A chunk that is being closed.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use super::*;
use crate::queue::Buffer;
use crate::table;
use std::path::Path;

const ALL: Access = Access { reads: true, writes: true };

/// A chunk of an emulated disk. Each test has a number of blocks of its own: emulated disks of one size are the same.
fn open(blocks: u64, is_virtual: bool) -> OpenChunk {
    let disk = table::disk(Path::new(&format!("emulated:{blocks}")), false).unwrap();
    let options = Options { commands: 4, is_virtual, scrubs: true, has_threads: true };
    OpenChunk::new(disk, ALL, options).unwrap()
}

/// Begins to read the first block, and returns the tag.
fn begin(chunk: &OpenChunk, data: &mut [u8; 4096]) -> Result<u32, Errno> {
    // SAFETY: the tests keep their data until they have the result.
    #[allow(unsafe_code, reason = "the library gets pointers")]
    let buffer = unsafe { Buffer::new(data.as_mut_ptr()) };
    let command =
        NewCommand { kind: Kind::Read, buffer, blocks: 1, is_async: true, user_tag: None, status: None };
    chunk.begin(&Issue { command, first: 0, waits: false, rings: true })
}

#[test]
fn a_chunk_that_was_stopped_takes_nothing_until_it_is_resumed() {
    let (chunk, mut data) = (open(601, false), [0; 4096]);
    for _ in 0..2 {
        chunk.stop().unwrap();
        assert_eq!(chunk.stop(), Err(Errno::INVAL), "once");
        // The first time the thread's queue is opened after the stop.
        assert_eq!(begin(&chunk, &mut data), Err(Errno::INVAL));
        assert_eq!((chunk.flush(), chunk.tags.in_use()), (Err(Errno::INVAL), 0));
        chunk.resume();
        let tag = begin(&chunk, &mut data).unwrap();
        assert_eq!(chunk.result(Which::Command(tag as i32), true, true).1, Ok(1));
        assert_eq!(chunk.flush(), Ok(()));
    }
    chunk.stop().unwrap();
    assert_eq!((chunk.wait_for_commands(), chunk.finish()), (Ok(()), Ok(())));
    chunk.resume();
    assert_eq!((begin(&chunk, &mut data), chunk.flush()), (Err(Errno::INVAL), Err(Errno::INVAL)));
}

#[test]
fn a_virtual_lun_keeps_its_size_while_it_is_closed() {
    let (chunk, other) = (open(602, true), open(602, true));
    chunk.set_size(602).unwrap();
    chunk.stop().unwrap();
    assert_eq!(chunk.set_size(1), Err(Errno::INVAL));
    chunk.resume();
    assert_eq!(chunk.set_size(601), Ok(()));
    chunk.stop().unwrap();
    assert_eq!((chunk.blocks(), chunk.finish()), (601, Ok(())));
    // As by a thread that saw the chunk before it was closed.
    chunk.resume();
    assert_eq!((chunk.set_size(1), other.set_size(602)), (Err(Errno::INVAL), Ok(())));
}
