//! Several processes: children that go on with a parent's chunks, and processes that share a file and die.

#![allow(unsafe_code, reason = "fork")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use block::c_types::{CBLK_GROUP_RAID0, CBLK_OPN_SCRUB_DATA, CBLK_OPN_VIRT_LUN};
use block::interface::chunk::{cblk_aread, cblk_aresult, cblk_clone_after_fork, cblk_close};
use block::interface::group::{
    cblk_cg_close, cblk_cg_get_num_chunks, cblk_cg_get_size, cblk_cg_open, cblk_cg_read, cblk_cg_set_size,
    cblk_cg_write,
};
use std::ffi::CString;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use support::process::{fork, kill, status};
use support::{BLOCK, Chunk, Disks, pattern};

/// Held by each test: the children of one would keep what another closes open, for a moment.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_child_goes_on_with_a_clone() {
    let _alone = alone();
    let path = &Disks::new(64).paths[0];
    let chunk = Chunk::open(path, 0, libc::O_RDWR, CBLK_OPN_VIRT_LUN).unwrap();
    chunk.set_size(10).unwrap();
    chunk.write(3, &pattern(3)).unwrap();
    // Another thread is within the library while this one forks.
    let busy = Chunk::open(path, 0, libc::O_RDWR, 0).unwrap();
    let (id, stop) = (chunk.0, std::sync::atomic::AtomicBool::new(false));
    let mut statuses = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                busy.read(60, 1).unwrap();
                drop(Chunk::open(path, 0, libc::O_RDWR, 0).unwrap());
            }
        });
        for _ in 0..20 {
            // Judged when the other thread has stopped.
            let child = fork(|| {
                let chunk = std::mem::ManuallyDrop::new(Chunk(id));
                if chunk.read(3, 1) != Err(libc::EINVAL) {
                    return 1;
                }
                if cblk_clone_after_fork(id, libc::O_RDONLY, 0) != 0 || chunk.read(3, 1) != Ok(pattern(3)) {
                    return 2;
                }
                if chunk.write(3, &pattern(4)) != Err(libc::EINVAL) {
                    return 3;
                }
                // A clone can't have more access than its parent.
                let more = fork(|| u8::from(cblk_clone_after_fork(id, libc::O_RDWR, 0) == 0));
                if status(more) != 0 {
                    return 4;
                }
                if cblk_close(id, 0) == 0 { 0 } else { 5 }
            });
            statuses.push(status(child));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(statuses, [0; 20]);
    assert_eq!(chunk.read(3, 1), Ok(pattern(3)));
    assert_eq!(chunk.set_size(65), Err(libc::EINVAL));
    chunk.set_size(64).unwrap();
}

/// A parent and a clone use the same blocks: neither frees, zeroes or gives away what the other has.
#[test]
fn blocks_of_a_clone_stay() {
    let _alone = alone();
    let disks = Disks::new(67);
    let path = &disks.paths[0];
    let open = |flags| Chunk::open(path, 0, libc::O_RDWR, CBLK_OPN_VIRT_LUN | flags).unwrap();
    let (chunk, other) = (open(CBLK_OPN_SCRUB_DATA), open(0));
    chunk.set_size(16).unwrap();
    chunk.write(3, &pattern(3)).unwrap();
    let id = chunk.0;
    // A clone that is closed leaves the parent its blocks.
    let child = fork(|| {
        let can_t_resize =
            || Chunk::set_size(&std::mem::ManuallyDrop::new(Chunk(id)), 32) == Err(libc::EINVAL);
        let cloned = cblk_clone_after_fork(id, libc::O_RDWR, 0) == 0;
        u8::from(!(cloned && can_t_resize() && cblk_close(id, 0) == 0))
    });
    assert_eq!(status(child), 0);
    assert_eq!(chunk.read(3, 1), Ok(pattern(3)));
    assert_eq!(other.set_size(52), Err(libc::ENOSPC));
    // While a clone lives, the parent grows, but frees nothing.
    let (mut here, mut there) = UnixStream::pair().unwrap();
    let child = fork(|| {
        let chunk = std::mem::ManuallyDrop::new(Chunk(id));
        let cloned = cblk_clone_after_fork(id, libc::O_RDWR, 0) == 0;
        there.write_all(&[1]).unwrap();
        there.read_exact(&mut [0]).unwrap();
        // The parent was closed meanwhile.
        let reads = chunk.read(3, 1) == Ok(pattern(3));
        u8::from(!(cloned && reads && cblk_close(id, 0) == 0))
    });
    here.read_exact(&mut [0]).unwrap();
    assert_eq!(chunk.set_size(8), Err(libc::EBUSY));
    assert_eq!(chunk.set_size(20), Ok(0));
    assert_eq!(chunk.close(), Ok(0));
    assert_eq!(other.set_size(67), Err(libc::ENOSPC), "the clone has them");
    here.write_all(&[1]).unwrap();
    assert_eq!(status(child), 0);
    assert_eq!(other.set_size(67), Ok(0));
    assert!(other.read(3, 1) == Ok(vec![0; BLOCK]), "zeroed by the last that had it");
}

/// A child that did not clone in time does not get blocks that the parent has freed, and holds none.
#[test]
fn a_late_clone_is_refused() {
    let _alone = alone();
    let disks = Disks::new(68);
    let path = &disks.paths[0];
    let open = || Chunk::open(path, 0, libc::O_RDWR, CBLK_OPN_VIRT_LUN).unwrap();
    let (chunk, other) = (open(), open());
    chunk.set_size(68).unwrap();
    let id = chunk.0;
    for closes in [false, true] {
        let (mut here, mut there) = UnixStream::pair().unwrap();
        let child = fork(|| {
            there.read_exact(&mut [0]).unwrap();
            u8::from(cblk_clone_after_fork(id, libc::O_RDWR, 0) == 0)
        });
        if closes {
            assert_eq!(cblk_close(id, 0), 0);
        } else {
            chunk.set_size(0).unwrap();
        }
        other.set_size(68).unwrap();
        here.write_all(&[1]).unwrap();
        assert_eq!(status(child), 0);
        other.set_size(0).unwrap();
    }
    std::mem::forget(chunk);
}

/// A command to a virtual LUN in several parts of the disk, where commands may have more than one block.
#[test]
fn a_command_may_be_in_several_parts() {
    let _alone = alone();
    let disks = Disks::new(70);
    for path in &disks.paths {
        let child = fork(|| {
            // SAFETY: the child has one thread.
            unsafe { std::env::set_var("CFLSH_BLK_MAX_XFER", "40") };
            let open = || Chunk::open(path, 0, libc::O_RDWR, CBLK_OPN_VIRT_LUN).unwrap();
            let (one, other) = (open(), open());
            for (blocks, others) in [(10, 5), (21, 30), (40, 30)] {
                one.set_size(blocks).unwrap();
                other.set_size(others).unwrap();
            }
            let data: Vec<u8> = (0..40).flat_map(pattern).collect();
            let others: Vec<u8> = (100..130).flat_map(pattern).collect();
            assert_eq!((one.write(0, &data), other.write(0, &others)), (Ok(40), Ok(30)));
            assert_eq!((one.read(0, 40), other.read(0, 30)), (Ok(data), Ok(others)));
            assert!((0..40).all(|block| one.read(block, 1) == Ok(pattern(block as u64))));
            assert_eq!(one.read(7, 10), Ok((7..17).flat_map(pattern).collect()));
            0
        });
        assert_eq!(status(child), 0, "{path}");
    }
}

/// A controller is the parent's: a child that opens its path does not get it.
#[test]
fn a_child_does_not_drive_the_parent_s_controller() {
    let _alone = alone();
    let disks = Disks::new(69);
    let path = &disks.paths[1];
    let chunk = Chunk::open(path, 0, libc::O_RDWR, 0).unwrap();
    chunk.write(3, &pattern(3)).unwrap();
    let id = chunk.0;
    let child = fork(|| {
        if cblk_clone_after_fork(id, libc::O_RDWR, 0) == 0 {
            return 1;
        }
        // An emulated one is made anew.
        let own = Chunk::open(path, 0, libc::O_RDWR, 0).unwrap();
        u8::from(own.read(3, 1) != Ok(vec![0; BLOCK]))
    });
    assert_eq!(status(child), 0);
    assert_eq!(chunk.read(3, 1), Ok(pattern(3)));
}

#[test]
fn a_chunk_with_commands_is_not_cloned() {
    let _alone = alone();
    let chunk = Chunk::open(&Disks::new(65).paths[0], 0, libc::O_RDWR, 0).unwrap();
    let (mut data, mut tag, mut result) = (vec![0_u8; BLOCK], 0, 0);
    let none = std::ptr::null_mut();
    // SAFETY: the data lives until the result is fetched.
    assert_eq!(unsafe { cblk_aread(chunk.0, data.as_mut_ptr().cast(), 0, 1, &raw mut tag, none, 0) }, 0);
    let id = chunk.0;
    let errno = || std::io::Error::last_os_error().raw_os_error();
    let child =
        fork(|| u8::from(cblk_clone_after_fork(id, libc::O_RDWR, 0) != -1 || errno() != Some(libc::EBUSY)));
    assert_eq!(status(child), 0);
    // SAFETY: both can be written.
    assert_eq!(unsafe { cblk_aresult(chunk.0, &raw mut tag, &raw mut result, 2) }, 1);
}

/// A killed process leaves its blocks to others, and those of others as they were.
#[test]
fn blocks_of_a_killed_process_are_free() {
    let _alone = alone();
    let disks = Disks::new(100);
    let path = &disks.paths[0];
    let own = Chunk::open(path, 0, libc::O_RDWR, CBLK_OPN_VIRT_LUN).unwrap();
    own.set_size(40).unwrap();
    for block in 0..40 {
        own.write(block, &pattern(block as u64)).unwrap();
    }
    let (mut here, mut there) = UnixStream::pair().unwrap();
    let child = fork(|| {
        let chunk = Chunk::open(path, 0, libc::O_RDWR, CBLK_OPN_VIRT_LUN).unwrap();
        assert_eq!(chunk.set_size(61), Err(libc::ENOSPC));
        chunk.set_size(60).unwrap();
        there.write_all(&[1]).unwrap();
        let garbage = vec![0xff; BLOCK];
        loop {
            for block in 0..60 {
                chunk.write(block, &garbage).unwrap();
            }
        }
    });
    here.read_exact(&mut [0]).unwrap();
    assert_eq!(own.set_size(41), Err(libc::ENOSPC));
    std::thread::sleep(std::time::Duration::from_millis(20));
    kill(child);
    // The kernel ends the child's requests before its files are closed, but after it is a zombie.
    let begun = std::time::Instant::now();
    while own.set_size(100) == Err(libc::ENOSPC) {
        assert!(begun.elapsed().as_secs() < 30);
    }
    assert!((0..40).all(|block| own.read(block, 1) == Ok(pattern(block as u64))));
}

#[test]
fn stripes_are_on_all_disks() {
    let _alone = alone();
    let disks = [Disks::new(20), Disks::new(20)];
    let paths = disks.each_ref().map(|disks| disks.paths[0].clone());
    let path = CString::new(paths.join(":")).unwrap();
    let open = |flags| {
        // SAFETY: the path ends with a zero byte.
        unsafe { cblk_cg_open(path.as_ptr(), 0, libc::O_RDWR, 1, 0, CBLK_GROUP_RAID0 | flags) }
    };
    let group = open(0);
    assert_eq!(cblk_cg_get_num_chunks(group, 0), 2);
    let mut size = 0;
    // SAFETY: it can be written.
    assert_eq!(unsafe { cblk_cg_get_size(group, &raw mut size, 0) }, 0);
    assert_eq!(size, 40);
    for block in 0..40 {
        let mut data = pattern(block);
        // SAFETY: a block of data, as below.
        assert_eq!(unsafe { cblk_cg_write(group, data.as_mut_ptr().cast(), block as i64, 1, 0) }, 1);
    }
    for block in 0..40 {
        let mut data = vec![0; BLOCK];
        // SAFETY: see above.
        assert_eq!(unsafe { cblk_cg_read(group, data.as_mut_ptr().cast(), block as i64, 1, 0) }, 1);
        assert_eq!(data, pattern(block));
        let on_disk = std::fs::read(&paths[block as usize % 2]).unwrap();
        assert_eq!(on_disk[block as usize / 2 * BLOCK..][..BLOCK], data);
    }
    let mut data = vec![0; 2 * BLOCK];
    // SAFETY: two blocks of data.
    let read = unsafe { cblk_cg_read(group, data.as_mut_ptr().cast(), 0, 2, 0) };
    assert_eq!(read, -1, "they are on two disks");
    assert_eq!(cblk_cg_set_size(group, 3, CBLK_GROUP_RAID0), -1, "not of virtual LUNs");
    assert_eq!(cblk_cg_close(group, 0), 0);
    assert_eq!(cblk_cg_close(group, 0), -1);
    let group = open(CBLK_OPN_VIRT_LUN);
    assert_eq!(cblk_cg_set_size(group, 7, CBLK_GROUP_RAID0), 0);
    // SAFETY: it can be written.
    assert_eq!(unsafe { cblk_cg_get_size(group, &raw mut size, 0) }, 0);
    assert_eq!(size, 8, "as many on each disk");
    assert_eq!(cblk_cg_close(group, 0), 0);
}
