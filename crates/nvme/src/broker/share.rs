//! The part of a namespace that the processes at one socket get.

use super::socket::Listener;
use super::{BrokerError, memory, no_resource};
use crate::chunk::Operation;
use rustix::fs::{Mode, OFlags, fstat, open};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

/// Most blocks that one request sets to zero.
const ZEROED_BLOCKS_MAX: u64 = 1 << 16;

/// What to serve at a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The socket's path. Its file gets permissions for the owner only; change them to let others in.
    pub socket: PathBuf,
    /// First block.
    pub first: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Whether clients may write, deallocate and set to zero.
    pub is_writable: bool,
}

impl Share {
    /// The operation on the namespace's blocks for one on the share's; `None` if it is not allowed. `blocks_max` are those of one transfer.
    pub(super) fn allow(&self, asked: Operation, blocks_max: u64) -> Option<Operation> {
        let (first, blocks, writes, most) = match asked {
            Operation::Read { first, blocks } => (first, blocks, false, blocks_max),
            Operation::Write { first, blocks } => (first, blocks, true, blocks_max),
            Operation::WriteZeroes { first, blocks } => (first, blocks, true, ZEROED_BLOCKS_MAX),
            Operation::Deallocate { first, blocks } => (first, blocks, true, u32::MAX.into()),
            Operation::Flush => return Some(asked),
        };
        let is_within = first.checked_add(blocks).is_some_and(|end| end <= self.blocks);
        if !is_within || blocks == 0 || blocks > most || writes && !self.is_writable {
            return None;
        }
        let first = self.first + first;
        Some(match asked {
            Operation::Read { .. } => Operation::Read { first, blocks },
            Operation::Write { .. } => Operation::Write { first, blocks },
            Operation::WriteZeroes { .. } => Operation::WriteZeroes { first, blocks },
            Operation::Deallocate { .. } => Operation::Deallocate { first, blocks },
            Operation::Flush => Operation::Flush,
        })
    }
}

/// A share that is served.
#[derive(Debug)]
pub(super) struct OpenShare {
    pub(super) is: Share,
    pub(super) listener: Listener,
    /// Each queue of a client has a copy.
    pub(super) queues: Arc<()>,
    /// Has no content and can get none: its locks say which blocks virtual LUNs of the clients have.
    pub(super) locks: File,
}

impl OpenShare {
    /// Opens the socket of a share of a namespace with so many blocks.
    pub(super) fn new(is: Share, all: u64) -> Result<Self, BrokerError> {
        let Share { first, blocks, .. } = is;
        if blocks == 0 || first.checked_add(blocks).is_none_or(|end| end > all) {
            return Err(BrokerError::NoBlocks { socket: is.socket, first, count: blocks, blocks: all });
        }
        let listener =
            Listener::new(&is.socket).map_err(|error| BrokerError::of_socket(&is.socket, error))?;
        let locks = memory::of_fixed_size("iotoll-locks", 0).map_err(no_resource)?;
        Ok(Self { is, listener, queues: Arc::new(()), locks: locks.into() })
    }
}

impl OpenShare {
    /// A description of the lock file for a client. The broker's own would keep the client's locks.
    pub(super) fn locks_for_client(&self) -> Result<OwnedFd, Errno> {
        let path = format!("/proc/self/fd/{}", self.locks.as_raw_fd());
        open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
    }

    /// Whether a file is the share's lock file, opened anew or not.
    pub(super) fn is_of_locks(&self, file: &OwnedFd) -> bool {
        let (Ok(given), Ok(own)) = (fstat(file), fstat(&self.locks)) else { return false };
        (given.st_dev, given.st_ino) == (own.st_dev, own.st_ino)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever a client asks for, only blocks of its share are touched.
        #[test]
        fn only_blocks_of_the_share_are_allowed(
            first in prop_oneof![0_u64..120, any::<u64>()],
            blocks in prop_oneof![0_u64..40, any::<u64>()],
            kind in 0..4,
            is_writable: bool,
        ) {
            let share = Share { socket: PathBuf::new(), first: 1000, blocks: 100, is_writable };
            let asked = match kind {
                0 => Operation::Read { first, blocks },
                1 => Operation::Write { first, blocks },
                2 => Operation::WriteZeroes { first, blocks },
                _ => Operation::Deallocate { first, blocks },
            };
            let allowed = share.allow(asked, 16);
            let is_within = blocks > 0 && first < 100 && blocks <= 100 - first && (kind > 1 || blocks <= 16);
            prop_assert_eq!(allowed.is_some(), is_within && (kind == 0 || is_writable));
            let touched = match allowed {
                Some(Operation::Read { first, blocks }) if kind == 0 => (first, blocks),
                Some(Operation::Write { first, blocks }) if kind == 1 => (first, blocks),
                Some(Operation::WriteZeroes { first, blocks }) if kind == 2 => (first, blocks),
                Some(Operation::Deallocate { first, blocks }) if kind == 3 => (first, blocks),
                None => return Ok(()),
                other => panic!("{other:?}"),
            };
            prop_assert_eq!(touched, (1000 + first, blocks));
        }
    }

    #[test]
    fn flushes_and_long_requests() {
        let share = Share { socket: PathBuf::new(), first: 5, blocks: u64::MAX - 5, is_writable: true };
        assert_eq!(share.allow(Operation::Flush, 1), Some(Operation::Flush));
        for (asked, is_allowed) in [
            (Operation::WriteZeroes { first: 0, blocks: 1 << 16 }, true),
            (Operation::WriteZeroes { first: 0, blocks: (1 << 16) + 1 }, false),
            (Operation::Deallocate { first: 0, blocks: u32::MAX.into() }, true),
            (Operation::Deallocate { first: 0, blocks: 1 << 32 }, false),
        ] {
            assert_eq!(share.allow(asked, 1).is_some(), is_allowed, "{asked:?}");
        }
    }
}
