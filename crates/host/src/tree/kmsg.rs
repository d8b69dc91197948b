//! The live kernel's log, record by record from `/dev/kmsg`.
//!
//! Source: Documentation/ABI/testing/dev-kmsg. Each read gives one record
//! (`priority,sequence,microseconds,flags;text`); at the end a non-blocking read says `EAGAIN`, and
//! `EPIPE` that the record was overwritten meanwhile.

use super::source::Refusal;
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use std::io;

pub(super) const PATH: &str = "dev/kmsg";

/// Longest record the kernel hands out (`CONSOLE_EXT_LOG_MAX`, kernel/printk/internal.h).
const RECORD_BYTES_MAX: usize = 8192;
/// Far more than a ring buffer holds; ends the loop on a kernel that logs faster than we read.
const RECORDS_MAX: usize = 1_000_000;

/// The log as raw records, one or more lines each.
pub(super) fn read() -> Result<String, Refusal> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let fd = rustix::fs::open("/dev/kmsg", flags, Mode::empty()).map_err(io::Error::from)?;
    let mut log = Vec::new();
    let mut record = [0; RECORD_BYTES_MAX];
    for _ in 0..RECORDS_MAX {
        match rustix::io::read(&fd, &mut record) {
            Ok(0) | Err(Errno::AGAIN) => break,
            Ok(length) => log.extend_from_slice(&record[..length]),
            Err(Errno::PIPE | Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
    }
    Ok(String::from_utf8_lossy(&log).into_owned())
}
