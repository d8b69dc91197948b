//! `cblk_listio`: requests that can't be, and those that fail.

#![allow(unsafe_code, reason = "C functions")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use block::c_types::{
    ArwStatus, CBLK_ARW_STATUS_FAIL, CBLK_ARW_STATUS_INVALID, CBLK_ARW_STATUS_SUCCESS, CBLK_IO_TYPE_READ,
    CBLK_IO_USER_STATUS, Io,
};
use block::interface::list::cblk_listio;
use support::{Chunk, Disks, error_text, pattern};

/// A request to read a block.
fn request(data: &mut [u8], block: i64) -> Io {
    Io {
        version: 0,
        flags: 0,
        request_type: CBLK_IO_TYPE_READ,
        buf: data.as_mut_ptr().cast(),
        lba: block,
        nblocks: 1,
        tag: -1,
        stat: ArwStatus::default(),
    }
}

/// Begins requests and waits for them.
fn execute(chunk: &Chunk, requests: &mut [Io]) -> i32 {
    let mut list: Vec<*mut Io> = requests.iter_mut().map(std::ptr::from_mut).collect();
    let (at, number, mut completed) = (list.as_mut_ptr(), list.len() as i32, 0);
    let none = std::ptr::null_mut();
    // SAFETY: the lists have as many requests, whose data lives until they have ended.
    unsafe { cblk_listio(chunk.0, at, number, none, 0, at, number, none, &raw mut completed, 0, 0) }
}

#[test]
fn a_request_that_can_t_be_leaves_the_others_alone() {
    for path in Disks::new(320).paths {
        let chunk = Chunk::open(&path, 8, libc::O_RDWR, 0).unwrap();
        let spoil: [fn(&mut Io); 3] = [
            |io| io.buf = std::ptr::null_mut(),
            |io| io.request_type = 99,
            |io| io.flags = CBLK_IO_USER_STATUS,
        ];
        for spoil in spoil {
            for wrong in 0..3 {
                let mut data = [0; 3].map(pattern);
                let mut requests = [0, 1, 2].map(|block| request(&mut data[block], block as i64));
                let before = ArwStatus { status: 77, blocks_transferred: 78, fail_errno: 79 };
                requests.iter_mut().for_each(|one| one.stat = before);
                spoil(&mut requests[wrong]);
                assert_eq!(execute(&chunk, &mut requests), -1);
                assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EINVAL));
                for (place, one) in requests.iter().enumerate() {
                    let invalid = ArwStatus {
                        status: CBLK_ARW_STATUS_INVALID,
                        blocks_transferred: 0,
                        fail_errno: libc::EINVAL,
                    };
                    let expected = if place == wrong { invalid } else { before };
                    assert_eq!(one.stat, expected, "request {place} where {wrong} can't be");
                }
            }
        }
        assert_eq!(chunk.stats().num_areads, 0, "nothing was begun");
    }
}

/// The call succeeds; the text is that of its last request that failed, and no later call's.
#[test]
fn a_request_that_fails_has_a_text() {
    for path in Disks::new(321).paths {
        let chunk = Chunk::open(&path, 8, libc::O_RDWR, 0).unwrap();
        let mut data = [0; 3].map(pattern);
        let mut place = 0..;
        let mut requests = [0, 321, 2].map(|block| request(&mut data[place.next().unwrap()], block));
        assert_eq!(execute(&chunk, &mut requests), 0);
        let ended = requests.map(|one| (one.stat.status, one.stat.fail_errno));
        let success = (CBLK_ARW_STATUS_SUCCESS, 0);
        assert_eq!(ended, [success, (CBLK_ARW_STATUS_FAIL, libc::EINVAL), success]);
        assert_eq!(error_text(), "1 blocks from block 321; expected 1 or more within the chunk's 321");
        assert_eq!((chunk.aresult(0, 0), error_text()), (Err(libc::ENOMSG), String::new()));
    }
}
