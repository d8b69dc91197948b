//! The C interface: what Open POWER's suite for it tests, on files and on an emulated controller.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use block::c_types::{
    ArwStatus, CBLK_ARESULT_BLOCKING, CBLK_ARESULT_NEXT_TAG, CBLK_ARESULT_NO_HARVEST, CBLK_ARESULT_USER_TAG,
    CBLK_ARW_STATUS_SUCCESS, CBLK_ARW_USER_STATUS_FLAG, CBLK_ARW_USER_TAG_FLAG, CBLK_ARW_WAIT_CMD_FLAGS,
    CBLK_OPN_NO_INTRP_THREADS, CBLK_OPN_SCRUB_DATA, CBLK_OPN_VIRT_LUN, GroupTag,
};
use block::interface::chunk::cblk_close;
use block::interface::group::{cblk_cg_aread, cblk_cg_aresult, cblk_cg_close, cblk_cg_open, cblk_cg_read};
use block::interface::own::iotoll_block_flush;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use support::{BLOCK, Chunk, Disks, error_text, pattern};

#[test]
fn blocks_are_read_as_they_were_written() {
    for path in Disks::new(301).paths {
        let chunk = Chunk::open(&path, 0, libc::O_RDWR, 0).unwrap();
        let data: Vec<u8> = (0..100).flat_map(pattern).collect();
        assert_eq!(chunk.write(7, &data), Ok(100));
        assert_eq!(chunk.read(7, 100), Ok(data));
        assert_eq!(chunk.read(107, 1), Ok(vec![0; BLOCK]), "behind them is nothing");
        assert_eq!(chunk.unmap(8, 2), Ok(2));
        assert_eq!(chunk.read(8, 2), Ok(vec![0; 2 * BLOCK]), "unmapped blocks are zero");
        assert_eq!(chunk.read(10, 1), Ok(pattern(3)), "the next one is not");
        let stats = chunk.stats();
        assert_eq!((stats.block_size, stats.num_reads, stats.num_writes), (4096, 4, 2));
        assert_eq!((stats.num_blocks_read, stats.num_blocks_written, stats.num_errors), (104, 102, 0));
    }
}

#[test]
fn what_can_t_be_is_refused() {
    let disks = Disks::new(302);
    for path in &disks.paths {
        let open = |commands, mode, flags| Chunk::open(path, commands, mode, flags);
        assert_eq!(open(8193, libc::O_RDWR, 0).unwrap_err(), libc::ENOMEM);
        assert_eq!(open(0, libc::O_ACCMODE, 0).unwrap_err(), libc::EINVAL);
        assert_eq!(Chunk::open("/nowhere", 0, libc::O_RDWR, 0).unwrap_err(), libc::ENOENT);
        let chunk = open(0, libc::O_RDWR, 0).unwrap();
        let block = vec![0; BLOCK];
        for first in [302, -1, i64::MAX] {
            assert_eq!(chunk.write(first, &block), Err(libc::EINVAL), "{first}");
        }
        assert_eq!(chunk.write(301, &[0; 2 * BLOCK]), Err(libc::EINVAL), "the second is beyond the end");
        assert_eq!(chunk.read(0, 0), Err(libc::EINVAL));
        assert_eq!(chunk.set_size(5), Err(libc::EINVAL), "a physical LUN");
        assert_eq!(chunk.aresult(64, 0), Err(libc::EINVAL));
        assert_eq!(chunk.aresult(3, 0), Err(libc::ENOMSG));
        assert_eq!(chunk.aresult(0, CBLK_ARESULT_NEXT_TAG), Err(libc::ENOENT));
        let reader = open(0, libc::O_RDONLY, 0).unwrap();
        assert_eq!(reader.write(0, &block), Err(libc::EINVAL));
        assert_eq!(open(0, libc::O_WRONLY, 0).unwrap().read(0, 1), Err(libc::EINVAL));
        let id = chunk.0;
        assert_eq!(chunk.close(), Ok(0));
        assert_eq!(std::mem::ManuallyDrop::new(Chunk(id)).read(0, 1), Err(libc::EINVAL), "it was closed");
    }
}

#[test]
fn tags_are_those_of_commands_in_flight() {
    for path in Disks::new(303).paths {
        let chunk = Chunk::open(&path, 4, libc::O_RDWR, CBLK_OPN_NO_INTRP_THREADS).unwrap();
        let data: Vec<Vec<u8>> = (0..4).map(pattern).collect();
        let none = std::ptr::null_mut();
        let write = |block: usize| chunk.awrite(&data[block], block as i64, -7, none, 0);
        let tags: BTreeSet<_> = (0..4).map(|block| write(block).unwrap()).collect();
        assert_eq!(tags, BTreeSet::from([0, 1, 2, 3]));
        assert_eq!(write(0), Err(libc::EWOULDBLOCK));
        let mut ended = BTreeSet::new();
        for _ in 0..4 {
            let (tag, blocks) = chunk.aresult(-1, CBLK_ARESULT_NEXT_TAG | CBLK_ARESULT_BLOCKING).unwrap();
            assert_eq!(blocks, 1);
            ended.insert(tag);
        }
        assert_eq!(ended, tags);
        assert_eq!(chunk.aresult(0, CBLK_ARESULT_NEXT_TAG), Err(libc::ENOENT), "all were fetched");
        let mut read = pattern(9);
        let tag = chunk.aread(&mut read, 2, 0, CBLK_ARW_WAIT_CMD_FLAGS).unwrap();
        assert_eq!((chunk.wait(tag), read), (Ok(1), pattern(2)));
        assert_eq!(chunk.wait(tag), Err(libc::ENOMSG), "a result is fetched once");
        let stats = chunk.stats();
        assert_eq!((stats.num_awrites, stats.max_num_act_awrites, stats.num_act_awrites), (4, 4, 0));
        assert_eq!((stats.num_no_cmds_free, stats.num_no_cmds_free_fail), (1, 1));
    }
}

#[test]
fn callers_choose_tags() {
    for path in Disks::new(304).paths {
        let chunk = Chunk::open(&path, 4, libc::O_RDWR, CBLK_OPN_NO_INTRP_THREADS).unwrap();
        let data = pattern(5);
        let none = std::ptr::null_mut();
        for number in [77, -5] {
            assert_eq!(chunk.awrite(&data, 1, number, none, CBLK_ARW_USER_TAG_FLAG), Ok(number));
        }
        let by_number = |number| chunk.aresult(number, CBLK_ARESULT_USER_TAG | CBLK_ARESULT_BLOCKING);
        assert_eq!(by_number(-5), Ok((-5, 1)));
        assert_eq!(by_number(-5), Err(libc::EINVAL));
        let next = chunk.aresult(0, CBLK_ARESULT_NEXT_TAG | CBLK_ARESULT_BLOCKING);
        assert_eq!(next, Ok((77, 1)), "the next command is known by the caller's number");
    }
}

#[test]
fn statuses_are_updated_without_calls() {
    for path in Disks::new(305).paths {
        let chunk = Chunk::open(&path, 4, libc::O_RDWR, 0).unwrap();
        let mut statuses = [ArwStatus::default(); 3];
        let data = pattern(6);
        // The second time the thread that updates statuses has nothing to do when commands begin.
        for _ in 0..2 {
            for (block, status) in statuses.iter_mut().enumerate() {
                chunk.awrite(&data, block as i64, 0, status, CBLK_ARW_USER_STATUS_FLAG).unwrap();
            }
            for status in &mut statuses {
                // SAFETY: the structure lives, and only the library writes to it.
                #[allow(unsafe_code, reason = "the library writes it meanwhile")]
                let place = unsafe { AtomicI32::from_ptr(&raw mut status.status) };
                while place.load(Ordering::Acquire) != CBLK_ARW_STATUS_SUCCESS {
                    thread::yield_now();
                }
                assert_eq!((status.blocks_transferred, status.fail_errno), (1, 0));
            }
            thread::sleep(std::time::Duration::from_millis(50));
        }
        assert_eq!(chunk.aresult(0, CBLK_ARESULT_NEXT_TAG), Err(libc::ENOENT), "there is no result to fetch");
        assert_eq!(chunk.read(2, 1), Ok(data.clone()));
        let without = Chunk::open(&path, 4, libc::O_RDWR, CBLK_OPN_NO_INTRP_THREADS).unwrap();
        let refused = without.awrite(&data, 0, 0, &raw mut statuses[0], CBLK_ARW_USER_STATUS_FLAG);
        assert_eq!(refused, Err(libc::EINVAL), "nobody would update it");
    }
}

#[test]
fn without_harvest_only_what_was_processed_is_found() {
    let chunk = Chunk::open(&Disks::new(306).paths[1], 4, libc::O_RDWR, CBLK_OPN_NO_INTRP_THREADS).unwrap();
    let data = [pattern(1), pattern(2)];
    let none = std::ptr::null_mut();
    let [first, second] = [0, 1].map(|block| chunk.awrite(&data[block], block as i64, 0, none, 0).unwrap());
    assert_eq!(chunk.aresult(first, CBLK_ARESULT_NO_HARVEST), Ok((first, 0)));
    assert_eq!(chunk.wait(second), Ok(1));
    assert_eq!(chunk.aresult(first, CBLK_ARESULT_NO_HARVEST), Ok((first, 1)));
    assert_eq!(chunk.stats().num_aresult_no_cmplt, 1);
}

#[test]
fn virtual_luns_grow_and_shrink_with_their_data() {
    for path in Disks::new(400).paths {
        let open = |flags| Chunk::open(&path, 0, libc::O_RDWR, CBLK_OPN_VIRT_LUN | flags).unwrap();
        let (one, other) = (open(0), open(CBLK_OPN_SCRUB_DATA));
        assert_eq!(one.read(0, 1), Err(libc::EINVAL), "it has no blocks yet");
        one.set_size(100).unwrap();
        other.set_size(100).unwrap();
        one.set_size(250).unwrap();
        for block in 0..250 {
            one.write(block, &pattern(block as u64)).unwrap();
        }
        for block in 0..100 {
            other.write(block, &pattern(1000 + block as u64)).unwrap();
        }
        let holds = |chunk: &Chunk, blocks: i64, first: u64| {
            (0..blocks).all(|block| chunk.read(block, 1) == Ok(pattern(first + block as u64)))
        };
        assert!(holds(&one, 250, 0) && holds(&other, 100, 1000), "neither has the other's blocks");
        assert_eq!(other.set_size(151), Err(libc::ENOSPC));
        assert_eq!(other.set_size(401), Err(libc::EINVAL), "more than the disk has");
        assert!(holds(&other, 100, 1000), "a refusal changes nothing");
        one.set_size(50).unwrap();
        assert_eq!(one.read(50, 1), Err(libc::EINVAL));
        other.set_size(300).unwrap();
        assert!(holds(&one, 50, 0) && holds(&other, 100, 1000));
        other.set_size(0).unwrap();
        one.set_size(400).unwrap();
        assert!(holds(&one, 50, 0));
        let is_zero = |block: i64| one.read(block, 1) == Ok(vec![0; BLOCK]);
        // What `other` had was zeroed; blocks that `one` freed without zeroing and got back directly have their old data.
        assert!((250..400).all(is_zero), "scrubbed blocks are zero");
        one.set_size(50).unwrap();
        other.set_size(350).unwrap();
        other.write(349, &pattern(7)).unwrap();
        assert_eq!(other.close(), Ok(0));
        one.set_size(400).unwrap();
        let whole = Chunk::open(&path, 0, libc::O_RDONLY, 0).unwrap();
        assert_eq!(
            (whole.read(0, 1), whole.read(399, 1)),
            (Ok(pattern(0)), Ok(vec![0; BLOCK])),
            "also when closed"
        );
    }
}

/// Commands that wait for a slot of the disk have its blocks, not the chunk's.
#[test]
fn blocks_are_not_freed_under_commands() {
    const COMMANDS: usize = 600;
    for path in Disks::new(COMMANDS as u64).paths {
        let open = || Chunk::open(&path, 1024, libc::O_RDWR, CBLK_OPN_VIRT_LUN).unwrap();
        let (one, other) = (open(), open());
        one.set_size(COMMANDS).unwrap();
        let [late, data] = [pattern(1), pattern(2)];
        let write = |block| one.awrite(&late, block as i64, 0, std::ptr::null_mut(), 0).unwrap();
        let tags: Vec<_> = (0..COMMANDS).map(write).collect();
        one.set_size(0).unwrap();
        other.set_size(COMMANDS).unwrap();
        for block in 0..COMMANDS {
            other.write(block as i64, &data).unwrap();
        }
        tags.into_iter().for_each(|tag| assert_eq!(one.wait(tag), Ok(1)));
        assert!((0..COMMANDS).all(|block| other.read(block as i64, 1) == Ok(data.clone())));
    }
}

/// Closes a chunk. A thread may be slow to fetch its result.
fn close_when_fetched(id: i32) {
    while cblk_close(id, 0) != 0 {
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EBUSY));
    }
}

#[test]
fn a_thread_that_waits_gets_its_result_when_the_chunk_is_closed() {
    for path in Disks::new(309).paths {
        let chunk = Chunk::open(&path, 256, libc::O_RDWR, 0).unwrap();
        for _ in 0..20 {
            let mut data = vec![vec![0; BLOCK]; 256];
            let begin = |data: &mut Vec<u8>| chunk.aread(data, 3, 0, 0).unwrap();
            let tags: Vec<_> = data.iter_mut().map(begin).collect();
            thread::scope(|scope| {
                let waits = scope.spawn(|| tags.iter().all(|tag| chunk.wait(*tag) == Ok(1)));
                let id = chunk.0;
                // In time or not: what is in flight has its result.
                let closed = std::mem::ManuallyDrop::new(Chunk(id)).read(0, 1);
                assert!(matches!(closed, Ok(_) | Err(libc::EBUSY)));
                assert!(waits.join().unwrap());
            });
        }
        let data = pattern(1);
        let tag = chunk.awrite(&data, 0, 0, std::ptr::null_mut(), 0).unwrap();
        let id = chunk.0;
        thread::scope(|scope| {
            scope.spawn(move || close_when_fetched(id));
            thread::sleep(std::time::Duration::from_millis(50));
            assert_eq!(chunk.wait(tag), Ok(1));
        });
        std::mem::forget(chunk);
    }
}

/// Threads begin commands while the chunk is closed. What was begun has its result.
#[test]
fn no_command_is_begun_in_a_closed_chunk() {
    for path in Disks::new(311).paths {
        for _ in 0..300 {
            let chunk = std::mem::ManuallyDrop::new(Chunk::open(&path, 16, libc::O_RDWR, 0).unwrap());
            let begun = AtomicI32::new(0);
            let begin_and_wait = || {
                let mut data = pattern(0);
                while let Ok(tag) = chunk.aread(&mut data, 3, 0, CBLK_ARW_WAIT_CMD_FLAGS) {
                    assert_eq!(chunk.wait(tag), Ok(1));
                    begun.fetch_add(1, Ordering::Relaxed);
                }
            };
            thread::scope(|scope| {
                let threads = [(); 6].map(|()| scope.spawn(begin_and_wait));
                while begun.load(Ordering::Relaxed) < 20 {
                    thread::yield_now();
                }
                close_when_fetched(chunk.0);
                threads.into_iter().for_each(|thread| thread.join().unwrap());
            });
            assert_eq!(cblk_close(chunk.0, 0), -1, "it is closed");
        }
    }
}

/// A thread that used a chunk last keeps nothing of it.
#[test]
fn a_closed_virtual_lun_has_no_blocks() {
    for path in Disks::new(310).paths {
        let open = || Chunk::open(&path, 0, libc::O_RDWR, CBLK_OPN_VIRT_LUN).unwrap();
        let (one, other) = (open(), open());
        one.set_size(310).unwrap();
        let (used, closed) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        thread::scope(|scope| {
            scope.spawn(|| {
                one.write(0, &pattern(1)).unwrap();
                used.wait();
                closed.wait();
            });
            used.wait();
            let id = one.0;
            assert_eq!(Chunk(id).close(), Ok(0));
            assert_eq!(other.set_size(310), Ok(0));
            closed.wait();
        });
        std::mem::forget(one);
    }
}

#[test]
fn a_virtual_lun_takes_one_block_at_a_time() {
    for path in Disks::new(307).paths {
        let chunk = Chunk::open(&path, 0, libc::O_RDWR, CBLK_OPN_VIRT_LUN).unwrap();
        chunk.set_size(10).unwrap();
        assert_eq!(chunk.stats().max_transfer_size, 1);
        assert_eq!(chunk.read(0, 2), Err(libc::EINVAL));
    }
}

#[test]
fn a_chunk_with_commands_is_not_closed() {
    for path in Disks::new(308).paths {
        let chunk = Chunk::open(&path, 0, libc::O_RDWR, 0).unwrap();
        let data = pattern(1);
        let tag = chunk.awrite(&data, 0, 0, std::ptr::null_mut(), 0).unwrap();
        let chunk = Chunk(std::mem::ManuallyDrop::new(chunk).0);
        let id = chunk.0;
        assert_eq!(chunk.close(), Err(libc::EBUSY));
        let chunk = Chunk(id);
        assert_eq!((chunk.wait(tag), chunk.read(0, 1)), (Ok(1), Ok(data)), "it goes on");
    }
}

#[test]
fn threads_share_a_chunk() {
    const THREADS: u64 = 8;
    const BLOCKS: u64 = 64;
    for path in Disks::new(THREADS * BLOCKS).paths {
        let chunk = Chunk::open(&path, 16, libc::O_RDWR, 0).unwrap();
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let chunk = &chunk;
                scope.spawn(move || {
                    for round in 0..10 {
                        // 8 threads with up to 4 commands each, and 16 tags: they wait for each other.
                        for first in (0..BLOCKS).step_by(4) {
                            let first = thread * BLOCKS + first;
                            let data: Vec<_> =
                                (first..first + 4).map(|block| pattern(block + round)).collect();
                            let begin = |(data, block): (&Vec<u8>, u64)| {
                                let none = std::ptr::null_mut();
                                chunk.awrite(data, block as i64, 0, none, CBLK_ARW_WAIT_CMD_FLAGS).unwrap()
                            };
                            for one in data.iter().zip(first..) {
                                let tag = begin(one);
                                assert_eq!(chunk.wait(tag), Ok(1));
                            }
                            let mut read = [vec![0; BLOCK], vec![0; BLOCK]];
                            let [one, other] = &mut read;
                            let flags = CBLK_ARW_WAIT_CMD_FLAGS;
                            let tag = chunk.aread(one, first as i64, 0, flags).unwrap();
                            let next = chunk.aread(other, first as i64 + 1, 0, flags).unwrap();
                            assert_eq!((chunk.wait(next), chunk.wait(tag)), (Ok(1), Ok(1)));
                            assert_eq!(read[..], data[..2]);
                        }
                    }
                });
            }
        });
        for block in 0..THREADS * BLOCKS {
            assert_eq!(chunk.read(block as i64, 1), Ok(pattern(block + 9)));
        }
        let stats = chunk.stats();
        assert_eq!((stats.num_awrites, stats.num_errors), (THREADS * BLOCKS * 10, 0));
    }
}

/// Two controllers of one subsystem are one disk.
#[test]
fn a_disk_may_have_several_paths() {
    let chunk = Chunk::open("emulated:71x2", 0, libc::O_RDWR, 0).unwrap();
    let blocks: Vec<u8> = (0..71).flat_map(pattern).collect();
    assert_eq!((chunk.write(0, &blocks), chunk.read(0, 71)), (Ok(71), Ok(blocks)));
    assert_eq!(chunk.stats().num_paths, 2);
    assert_eq!(iotoll_block_flush(chunk.0), 0);
    let one = Chunk::open("emulated:71", 0, libc::O_RDWR, 0).unwrap();
    assert_eq!((one.stats().num_paths, one.read(0, 1)), (1, Ok(vec![0; BLOCK])), "another disk");
    for wrong in
        ["emulated:71x0", "emulated:71x5", "emulated:71x", "emulated:x2", "emulated:0x2", "emulated:"]
    {
        assert_eq!(Chunk::open(wrong, 0, libc::O_RDWR, 0).unwrap_err(), libc::EINVAL, "{wrong}");
    }
}

/// More threads with commands of many requests than there is memory for their queues: they share some, and each command has its own result.
#[test]
fn threads_beyond_the_queues_share_them() {
    let chunk = Chunk::open("emulated:3000", 8192, libc::O_RDWR, 0).unwrap();
    let others: Vec<Chunk> =
        (0..14).map(|_| Chunk::open("emulated:3000", 8192, libc::O_RDWR, 0).unwrap()).collect();
    // Each chunk has a queue for this thread, until the controller's memory is used up.
    let all = [&chunk].into_iter().chain(&others);
    for (number, one) in (0..).zip(all) {
        let written = one.write(number, &pattern(number as u64));
        assert!(written == Ok(1) || written == Err(libc::EAGAIN), "{written:?}");
    }
    thread::scope(|scope| {
        for number in 0..12_u64 {
            let chunk = &chunk;
            scope.spawn(move || {
                for round in 0..50 {
                    let data = pattern(number << 16 | round);
                    assert_eq!(chunk.write(100 + number as i64, &data), Ok(1));
                    assert_eq!(chunk.read(100 + number as i64, 1), Ok(data));
                }
            });
        }
    });
    let stats = chunk.stats();
    assert_eq!((stats.num_writes, stats.num_reads, stats.num_errors), (601, 600, 0), "each counts once");
    assert_eq!(stats.num_aresult_no_cmplt, 0, "nobody asked for a result");
    for one in others.into_iter().chain([chunk]) {
        assert_eq!(one.close(), Ok(0));
    }
}

/// One chunk of a group has a result that was not fetched, so all stay.
#[test]
#[allow(unsafe_code, reason = "C functions")]
fn a_group_is_closed_whole_or_not_at_all() {
    for path in Disks::new(312).paths {
        let path = CString::new(path).unwrap();
        // SAFETY: the path ends with a zero byte.
        let group = unsafe { cblk_cg_open(path.as_ptr(), 4, libc::O_RDWR, 3, 0, 0) };
        assert!(group >= 0);
        let (mut data, mut tag) = (pattern(0), GroupTag { id: -1, tag: -1 });
        let into = data.as_mut_ptr().cast();
        // SAFETY: the data has as many bytes.
        let read = || (0..3).map(|_| unsafe { cblk_cg_read(group, into, 0, 1, 0) }).sum::<i32>();
        // SAFETY: the data lives until the result is fetched.
        unsafe {
            assert_eq!(read(), 3);
            assert_eq!(cblk_cg_aread(group, into, 1, 1, &raw mut tag, std::ptr::null_mut(), 0), 0);
            assert_eq!(cblk_cg_close(group, 0), -1);
            assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EBUSY));
            let mut blocks = 0;
            assert_eq!(cblk_cg_aresult(group, &raw mut tag, &raw mut blocks, CBLK_ARESULT_BLOCKING), 1);
            assert_eq!(read(), 3, "each chunk has a turn");
        }
        assert_eq!((cblk_cg_close(group, 0), cblk_cg_close(group, 0)), (0, -1));
        assert_eq!(cblk_close(tag.id, 0), -1, "its chunks are closed");
    }
}

#[test]
fn access_is_taken_away_in_the_same_process() {
    use block::interface::chunk::cblk_clone_after_fork;
    for path in Disks::new(304).paths {
        let chunk = Chunk::open(&path, 0, libc::O_RDWR, CBLK_OPN_VIRT_LUN).unwrap();
        chunk.set_size(5).unwrap();
        assert_eq!(chunk.write(3, &pattern(3)), Ok(1));
        assert_eq!(cblk_clone_after_fork(chunk.0, libc::O_RDONLY, 0), 0);
        assert_eq!(chunk.read(3, 1), Ok(pattern(3)));
        assert_eq!(chunk.write(3, &pattern(4)), Err(libc::EINVAL));
        assert_eq!(cblk_clone_after_fork(chunk.0, libc::O_RDWR, 0), -1, "what was taken away");
        // It is no clone: its size may change, and its queues are closed with it.
        assert_eq!(chunk.set_size(6), Ok(0));
        assert_eq!(chunk.close(), Ok(0));
    }
}

#[test]
fn the_text_is_of_the_last_error() {
    assert_eq!(Chunk::open("emulated:64x", 0, libc::O_RDWR, 0).unwrap_err(), libc::EINVAL);
    assert!(error_text().starts_with("expected emulated:BLOCKS or"), "{}", error_text());
    // Nothing more is known of this one.
    assert_eq!(Chunk::open("/nowhere", 0, libc::O_RDWR, 0).unwrap_err(), libc::ENOENT);
    assert_eq!(error_text(), "");
    let short = tempfile::NamedTempFile::new().unwrap();
    assert_eq!(Chunk::open(short.path().to_str().unwrap(), 0, libc::O_RDWR, 0).unwrap_err(), libc::EINVAL);
    assert!(error_text().ends_with("0 bytes; expected 1 or more blocks of 4096"), "{}", error_text());
    let chunk = Chunk::open("emulated:305", 0, libc::O_RDWR, 0).unwrap();
    assert_eq!(chunk.read(304, 2), Err(libc::EINVAL));
    assert_eq!(error_text(), "2 blocks from block 304; expected 1 or more within the chunk's 305");
    assert_eq!(chunk.close(), Ok(0));
}

#[test]
#[ignore = "run with an environment of its own"]
fn with_an_unknown_way_to_wait() {
    assert_eq!(Chunk::open("emulated:306", 0, libc::O_RDWR, 0).unwrap_err(), libc::EINVAL);
}

/// The environment is the process's, so this one starts another.
#[test]
fn an_unknown_way_to_wait_is_refused() {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "with_an_unknown_way_to_wait"]);
    let tested = command.env("IOTOLL_BLOCK_WAIT", "never").output().unwrap();
    assert!(String::from_utf8_lossy(&tested.stdout).contains("1 passed"), "{tested:?}");
}
